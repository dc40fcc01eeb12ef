//! Errors of the lab. Each names the input that caused it.

use std::path::PathBuf;

/// An error of the lab. Every variant names the offending input and, where there is one, the
/// remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A name that the lab does not know.
    #[error("unknown {what} {given:?}; allowed: {allowed}")]
    UnknownName {
        /// What was named: "key set", "distribution", "mix".
        what: &'static str,
        /// What was given, shortened.
        given: String,
        /// Everything that is accepted.
        allowed: &'static str,
    },

    /// A traversal program of ours that is none: a mistake.
    #[error("a program of an application is refused: {error}")]
    Program {
        /// Why.
        error: String,
    },

    /// A number outside the bounds of its parameter.
    #[error("{what} is {given}; allowed: {allowed}")]
    OutOfRange {
        /// The parameter.
        what: &'static str,
        /// The value given.
        given: String,
        /// The accepted interval, in words.
        allowed: String,
    },

    /// An accelerator that cannot be built.
    #[error("the accelerator: {0}")]
    Accelerator(#[from] nearfield_hardware::accelerator::dcart::Error),

    /// A trace of operations that cannot be used.
    #[error("trace {}: {error}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line.
        error: nearfield_hardware::accelerator::dcart::Error,
    },

    /// A file of keys that cannot be used.
    #[error("key file {}: {fault}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: KeyFileFault,
    },

    /// A file that cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },

    /// More memory would be needed than the machine has available.
    #[error(
        "{what} would need {} of memory, but only {} are available",
        crate::text::display_bytes(*needed_bytes),
        crate::text::display_bytes(*available_bytes)
    )]
    OutOfMemory {
        /// What the memory was for.
        what: String,
        /// Bytes that it would take.
        needed_bytes: u64,
        /// Bytes that may be taken at this moment.
        available_bytes: u64,
    },

    /// A workload inserts more keys than can be held out of the initial load.
    #[error(
        "{operations} operations of mix {mix} insert {inserts} keys, but of {keys} keys at most \
         {inserts_max} can be held out of the load; use more keys or fewer operations"
    )]
    TooFewKeys {
        /// The mix.
        mix: &'static str,
        /// Operations asked for.
        operations: u64,
        /// Inserts among them.
        inserts: u64,
        /// Keys of the whole set.
        keys: u64,
        /// How many of them may be held out.
        inserts_max: u64,
    },

    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Why a file cannot serve as a key set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileFault {
    /// It cannot be opened, read or decompressed.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    /// It is a directory.
    #[error("is a directory")]
    Directory,
    /// It holds no line with a byte in it.
    #[error("holds no keys")]
    Empty,
    /// It is no text: a line holds a NUL byte.
    #[error("is not a text file: NUL byte in line {line}")]
    NulByte {
        /// The line, counted from 1.
        line: u64,
    },
    /// A line exceeds the longest key.
    #[error("line {line} is longer than {limit} bytes, the longest key")]
    LongLine {
        /// The line, counted from 1.
        line: u64,
        /// The longest key in bytes.
        limit: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shown_in_units() {
        let error = LabError::OutOfMemory {
            what: "1000000000000 sparse keys".to_owned(),
            needed_bytes: 8_000_000_000_000,
            available_bytes: 3 << 30,
        };
        assert_eq!(
            error.to_string(),
            "1000000000000 sparse keys would need 7.3 TiB of memory, but only 3.0 GiB are available"
        );
    }
}
