//! The part that runs at a memory node.

mod interleaved;
mod local;
mod rack;
mod ranges;
pub(crate) mod words;

pub use interleaved::{Ended, Interleaved, Job, SLOTS};
pub use local::{LocalMemory, TenantMemory};
pub use rack::Rack;
pub use ranges::{Permission, Range, RangeError, Ranges, Tenant};
