//! Heaps: where objects that an index refers to take their memory.
//!
//! A container that takes its heap as an allocator can be built again in another heap, and its
//! heap knows at any time how many bytes are taken from it. Today there is one kind of heap, this
//! machine's memory.

#![warn(missing_docs)]

mod heap;

pub use heap::Heap;
