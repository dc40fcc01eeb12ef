//! What runs at a memory node.

mod interleaved;
mod local;
mod ranges;
pub(crate) mod words;

pub use interleaved::{Ended, Interleaved, Job, SLOTS};
pub use local::{LocalMemory, TenantMemory};
pub use ranges::{Permission, Range, RangeError, Ranges, Tenant};
