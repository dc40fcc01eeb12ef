//! What can be wrong with parameters and traces.

/// What can be wrong with parameters and traces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no parameter of this name.
    #[error("there is no parameter {name:?}; the names are {}", known.join(", "))]
    UnknownParameter {
        /// The name.
        name: String,
        /// The names that there are.
        known: &'static [&'static str],
    },
    /// A parameter cannot have this value.
    #[error("parameter {name} cannot be {value}: {reason}")]
    BadParameter {
        /// The name.
        name: String,
        /// The value.
        value: String,
        /// The values that it can have.
        reason: String,
    },
    /// An order of fields that is no address map.
    #[error("{order:?} is no order of the fields of an address: {reason}")]
    BadMap {
        /// The order.
        order: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A line of a trace that is no request.
    #[error("line {line} of the trace: {field} {found:?} {reason}")]
    BadLine {
        /// The number of the line, from 1.
        line: u64,
        /// The part of it that is wrong.
        field: &'static str,
        /// What stands there, shortened.
        found: String,
        /// Why that is wrong.
        reason: &'static str,
    },
    /// A request that is sent after the last clock that is counted.
    #[error("a request at {picoseconds} ps is too late: there are {clocks_max} clocks at most")]
    Late {
        /// Its time.
        picoseconds: u64,
        /// How many clocks there are.
        clocks_max: u64,
    },
    /// A trace that cannot be read on.
    #[error("line {line} of the trace cannot be read: {source}")]
    Unreadable {
        /// The number of the line, from 1.
        line: u64,
        /// Why.
        source: std::io::Error,
    },
}
