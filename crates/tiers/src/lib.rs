//! Tiers: the memories that hold the values of a store, ordered from fast to slow.
//!
//! A store keeps its keys, and the values that it uses often, in the memory of this machine. Values
//! that it rarely uses move to *cold* tiers: [compressed memory](CompressedTier), and
//! [files](FileTier) on an SSD. [`Tiers`] holds all of them in order. A value that is put into a
//! cold tier gets a [`ColdPlace`] there, which the store keeps instead of the value.
//!
//! Each tier has a capacity in bytes, and never exceeds it. Source: ADM (Zhao et al., 2022), which
//! moves whole objects between two memories; compressed and file tiers are additions.
//!
//! [`keep`] keeps the values that a store uses most in memory and the others below it. It moves
//! values as [`policy`] decides. [`map`] is such a store on its own; the server is another.
//!
//! A container that takes its [`AccountedHeap`] as an allocator knows at any time how many bytes it
//! has allocated, and can be rebuilt in another heap.

#![warn(missing_docs)]

pub mod claim;
pub mod cold;
mod compressed;
pub mod disk;
mod error;
mod files;
mod heap;
pub mod keep;
pub mod machine;
pub mod map;
mod numa;
mod place;
pub mod policy;
mod primitive;
mod specification;
mod tiers;
mod usage;

pub use compressed::{CompressedTier, Compression};
pub use error::TierOpenError;
pub use files::{FileTier, PendingTierRead, TierReadRing};
pub use heap::AccountedHeap;
pub use place::ColdPlace;
pub use specification::{ParseError, Specification, TierKind};
pub use tiers::Tiers;
pub use usage::{ReadError, TierRefusal, TierUsage};
