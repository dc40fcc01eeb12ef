//! Errors of parameters and traces.

/// Error of parameters or traces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DramError {
    /// A parameter that does not exist.
    #[error("there is no parameter {name:?}; the names are {}", known.join(", "))]
    UnknownParameter {
        /// The name.
        name: String,
        /// The existing names.
        known: &'static [&'static str],
    },
    /// A value that a parameter cannot have.
    #[error("parameter {name} cannot be {value}: {reason}")]
    BadParameter {
        /// The name.
        name: String,
        /// The value.
        value: String,
        /// The values that it can have.
        reason: String,
    },
    /// An order of fields that is not an address map.
    #[error("{order:?} is not a valid order of the fields of an address: {reason}")]
    BadMap {
        /// The order.
        order: String,
        /// The reason why it is wrong.
        reason: String,
    },
    /// A line of a trace that is not a request.
    #[error("line {line} of the trace: {field} {found:?} {reason}")]
    BadLine {
        /// The number of the line, from 1.
        line: u64,
        /// The wrong part of the line.
        field: &'static str,
        /// The text found there, shortened.
        found: String,
        /// The reason why it is wrong.
        reason: &'static str,
    },
    /// A request after the last clock that is counted.
    #[error("the request at {picoseconds} ps is past the last clock ({clocks_max})")]
    Late {
        /// The time of the request.
        picoseconds: u64,
        /// The maximum number of clocks.
        clocks_max: u64,
    },
    /// A request whose address the memory does not have.
    #[error("address {address:#x} is past the end of the memory, which has {bytes:#x} bytes")]
    PastEnd {
        /// The address.
        address: u64,
        /// The size of the memory.
        bytes: u64,
    },
    /// An error while reading a trace.
    #[error("line {line} of the trace cannot be read: {source}")]
    Unreadable {
        /// The number of the line, from 1.
        line: u64,
        /// The cause.
        source: std::io::Error,
    },
}
