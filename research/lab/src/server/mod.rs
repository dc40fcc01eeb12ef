//! A comparison of the server with its rivals: all serve the same requests in turn, and the
//! processor time of each is compared.
//!
//! On a machine with few cores the generator of load shares them with the server, so throughput
//! depends on both. The comparable number is the processor time that a server takes for an
//! operation; it is read from the kernel, to the nanosecond, over all threads.

mod contest;
pub(crate) mod lane;
pub(crate) mod load;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod replies;
mod table;
pub(crate) mod task;

pub use contest::{Contest, Entrant, Row, ServerRequestDetail, contest};
pub use process::ServerError;
pub use program::ServerProgram;
pub use table::render;
pub use task::{ServerKeySpec, ServerTaskKind};
