//! Errors of the lab. Each names the input that caused it.

use std::ops::RangeInclusive;
use std::path::PathBuf;

/// An error of the lab. Every variant names the offending input and the remedy, if there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A name that the lab does not know.
    #[error("unknown {subject} {given:?}; allowed: {allowed}")]
    UnknownName {
        /// The kind of name: "key set", "distribution", "mix".
        subject: &'static str,
        /// The name given, shortened.
        given: String,
        /// All accepted names.
        allowed: &'static str,
    },

    /// A built-in traversal program that is invalid: a bug of the lab.
    #[error("a built-in traversal program is invalid: {error}")]
    Program {
        /// The reason.
        error: String,
    },

    /// A number outside the bounds of its parameter.
    #[error("{subject} is {given}; allowed: {allowed}")]
    OutOfRange {
        /// The parameter.
        subject: &'static str,
        /// The value given.
        given: String,
        /// The accepted interval, in words.
        allowed: String,
    },

    /// An accelerator that cannot be built.
    #[error("the accelerator: {0}")]
    Accelerator(#[from] nearfield_hardware::accelerator::dcart::DcartError),

    /// A trace of operations that cannot be used.
    #[error("trace {}: {error}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// The fault, with its line.
        error: nearfield_hardware::accelerator::dcart::DcartError,
    },

    /// A file of keys that cannot be used.
    #[error("key file {}: {fault}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        fault: KeyFileFault,
    },

    /// A file that cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// Memory that is needed, but not available.
    #[error(
        "{subject} would need {} of memory, but only {} are available",
        crate::text::display_bytes(*needed_bytes),
        crate::text::display_bytes(*available_bytes)
    )]
    OutOfMemory {
        /// The purpose of the memory.
        subject: String,
        /// Bytes that are needed.
        needed_bytes: u64,
        /// Bytes that are available at this moment.
        available_bytes: u64,
    },

    /// A workload that inserts more keys than can be held out of the initial load.
    #[error(
        "{operations} operations of mix {mix} insert {inserts} keys, but of {keys} keys at most \
         {inserts_max} can be held out of the load; use more keys or fewer operations"
    )]
    TooFewKeys {
        /// The mix.
        mix: &'static str,
        /// Operations requested.
        operations: u64,
        /// Inserts among them.
        inserts: u64,
        /// Keys of the whole set.
        keys: u64,
        /// The most keys that may be held out.
        inserts_max: u64,
    },

    /// A refusal of the operating system.
    #[error("{subject}: {source}")]
    System {
        /// The attempted operation.
        subject: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// Reason why a file cannot serve as a key set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileFault {
    /// A file that cannot be opened, read or decompressed.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    /// A directory.
    #[error("is a directory")]
    Directory,
    /// A file without a line that has a byte in it.
    #[error("holds no keys")]
    Empty,
    /// A file that is not text: a line holds a NUL byte.
    #[error("is not a text file: NUL byte in line {line}")]
    NulByte {
        /// The line, counted from 1.
        line: u64,
    },
    /// A line that exceeds the longest key.
    #[error("line {line} is longer than {limit} bytes, the longest key")]
    LongLine {
        /// The line, counted from 1.
        line: u64,
        /// The longest key in bytes.
        limit: usize,
    },
}

/// Checks that a number is in the interval of its parameter.
pub(crate) fn check_range(
    subject: &'static str,
    given: u64,
    allowed: RangeInclusive<u64>,
) -> Result<(), LabError> {
    match allowed.contains(&given) {
        true => Ok(()),
        false => Err(LabError::OutOfRange {
            subject,
            given: given.to_string(),
            allowed: format!("{} to {}", allowed.start(), allowed.end()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shown_in_units() {
        let error = LabError::OutOfMemory {
            subject: "1000000000000 sparse keys".to_owned(),
            needed_bytes: 8_000_000_000_000,
            available_bytes: 3 << 30,
        };
        assert_eq!(
            error.to_string(),
            "1000000000000 sparse keys would need 7.3 TiB of memory, but only 3.0 GiB are available"
        );
    }
}
