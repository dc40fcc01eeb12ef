//! The error of the advice.

use std::io;

/// The reason why no advice can be given.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// The server is unreachable, or the connection was lost.
    #[error("cannot communicate with the server: {0}")]
    Connection(#[from] io::Error),
    /// The server requires a password.
    #[error("the server requires a password: set --password or NEARFIELD_PASSWORD ({0})")]
    Password(String),
    /// The user lacks the right to run a command.
    #[error(
        "the user has no right to {command}: {reply}. These rights are enough: \
         ~* +@read +select +info +client"
    )]
    Forbidden {
        /// The command.
        command: String,
        /// The server's reply.
        reply: String,
    },
    /// The server refuses a command for another reason.
    #[error("the server refuses {command}: {reply}")]
    Refused {
        /// The command.
        command: String,
        /// The server's reply.
        reply: String,
    },
    /// The server's reply does not fit the command.
    #[error("the server's reply to {command} differs from that of Redis")]
    Strange {
        /// The command.
        command: String,
    },
    /// The server has no keys.
    #[error("the server has no keys, so there is nothing to advise on")]
    Empty,
    /// The server has keys, but none could be inspected.
    #[error(
        "none of {seen} keys could be read: they have expired, or other nodes of the cluster have \
         them"
    )]
    Nothing {
        /// Number of keys that the server listed.
        seen: u64,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// The path of the file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl AdviseError {
    /// Converts a server's error reply into an error.
    pub fn refusal(command: &str, reply: &str) -> AdviseError {
        let (command, text) = (command.to_owned(), reply.to_owned());
        if reply.starts_with("NOAUTH") || reply.starts_with("WRONGPASS") {
            return AdviseError::Password(text);
        }
        match reply.starts_with("NOPERM") {
            true => AdviseError::Forbidden {
                command,
                reply: text,
            },
            false => AdviseError::Refused {
                command,
                reply: text,
            },
        }
    }
}
