//! The errors of commands, as clients see them.

use crate::carried;
use std::borrow::Cow;

/// The reason why a command was refused. Its text is the error reply, beginning with an error code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The key holds another type.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// The arguments do not fit together.
    #[error("ERR syntax error")]
    Syntax,
    /// An argument, or the value that it is combined with, is not an integer.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// An argument, or the value that it is combined with, is not a number.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// A position does not exist.
    #[error("ERR index out of range")]
    IndexOutOfRange,
    /// The key must exist.
    #[error("ERR no such key")]
    NoSuchKey,
    /// The command has another number of arguments.
    #[error("ERR wrong number of arguments for '{0}' command")]
    WrongArity(Cow<'static, str>),
    /// A count, cursor or other number is outside its limits.
    #[error("ERR value is out of range, must be positive")]
    NotPositive,
    /// The value would exceed the limit of strings.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    StringTooLong,
    /// More memory is used than allowed.
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
    /// The command needs this number of bytes, and there is less room. It has changed nothing, and
    /// may be executed again after an eviction.
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    LacksRoom(usize),
    /// The index refused the operation.
    #[error("{}", index_message(.0))]
    Index(#[from] nearfield_core::OperationError),
    /// Any other error, complete with its code.
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl CommandError {
    /// Creates an error from a constant text, complete with its code.
    pub const fn text(text: &'static str) -> CommandError {
        CommandError::Other(Cow::Borrowed(text))
    }

    /// Creates an error from a text that names parts of the request, complete with its code.
    pub fn owned(text: String) -> CommandError {
        CommandError::Other(Cow::Owned(text))
    }
}

fn index_message(error: &nearfield_core::OperationError) -> String {
    match error {
        // Clients recognize a lack of memory by this code.
        nearfield_core::OperationError::OutOfMemory { .. } => format!("OOM {error}"),
        error => format!("ERR {error}"),
    }
}

/// Returns bytes that a client has sent, shortened for an error: as in Redis, up to a zero byte.
/// The text [carries](carried) bytes that are not UTF-8.
pub fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 128;
    let bytes = &bytes[..bytes.len().min(SHOWN_BYTES)];
    // Redis formats arguments with `%.128s`, which ends at a zero byte.
    let text = bytes.split(|&byte| byte == 0).next();
    carried::text(text.unwrap_or_default())
}
