//! The local placement of Nearfield: an adaptive radix tree in this machine's memory. A batch's
//! operations are combined, traverse the tree together and are triggered together.

#[cfg(not(loom))]
mod build;
#[cfg(not(loom))]
mod bulk;
mod change;
#[cfg(not(loom))]
mod compaction;
#[cfg(not(loom))]
mod counters;
#[cfg(not(loom))]
mod cursor;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod invariants;
#[cfg(not(loom))]
mod jump;
mod latching;
#[cfg(not(loom))]
mod leaf;
// Trees that are compared with this one use it, and tests/loom; no method of an index takes it.
#[doc(hidden)]
pub mod lock;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod node;
#[cfg(not(loom))]
mod pinned;
mod prefetch;
mod primitive;
#[cfg(not(loom))]
mod radix;
#[cfg(not(loom))]
mod shortcut;
#[cfg(not(loom))]
mod shrink;
#[cfg(not(loom))]
mod tree;
#[cfg(not(loom))]
mod value_ref;
#[cfg(not(loom))]
mod write;
#[cfg(not(loom))]
mod writer;

/// The part of the leaves that needs no tree, and that tests/loom explores.
#[cfg(loom)]
pub mod leaf {
    pub mod block;
    /// The same part of the blocks of byte strings.
    pub mod strings {
        pub mod header;
        pub mod state;
    }
}

/// The part of the memory that tests/loom explores.
#[cfg(loom)]
pub mod memory {
    pub mod span;
}

#[cfg(not(loom))]
pub use bulk::RadixLoader;
#[cfg(loom)]
pub use change::LeafChangeResult;
// The decision of a writer of these trees, too.
#[doc(hidden)]
pub use change::RadixKeyChange;
#[cfg(not(loom))]
pub use counters::{Off, RadixCounters, RadixNodeVisit, RadixProbe, VisitedNodeKind};
#[cfg(not(loom))]
pub use engine::{Combine, EngineOptions};
#[cfg(not(loom))]
pub use memory::MemoryUse;
// These trees search their nodes with it, too.
#[cfg(not(loom))]
#[doc(hidden)]
pub use node::equal_16;
#[cfg(not(loom))]
pub use pinned::RadixPinGuard;
#[cfg(not(loom))]
pub use radix::{Entry, RadixForm, RadixIndex};
#[cfg(not(loom))]
pub use value_ref::ValueRef;
