//! The part that runs at a memory node.

mod interleaved;
mod local;
mod rack;
mod ranges;
pub(crate) mod words;

pub use interleaved::{InterleavedTraversals, SLOTS, TraversalEnd, TraversalJob};
pub use local::{LocalMemory, TenantMemory};
pub use rack::RackMemory;
pub use ranges::{NodeRange, NodeRanges, RangeError, Tenant, TenantPermission};
