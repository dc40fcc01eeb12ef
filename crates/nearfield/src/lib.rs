//! An ordered map in memory, shared by threads, that executes operations in batches.
//!
//! [`OrderedMap`] maps byte strings to byte strings, [`WordMap`] 8-byte words to 8-byte words, and
//! [`TypedMap`] numbers to numbers in the form of words. All methods take `&self`: a map is
//! shared by reference, or in an `Arc`, and needs no lock around it.
//!
//! ```
//! use nearfield::{Batch, ByteStrings, OrderedMap};
//!
//! let map = OrderedMap::<ByteStrings>::new()?;
//! map.insert(b"ann", b"1")?;
//! map.insert(b"bob", b"2")?;
//! assert_eq!(map.get(b"ann")?.as_deref(), Some(&b"1"[..]));
//!
//! // A batch takes less time than its operations one after the other, with the same results.
//! let mut batch = Batch::<ByteStrings>::new();
//! let before = batch.insert(b"ann", b"3");
//! let after = batch.get(b"ann");
//! map.execute(&mut batch)?;
//! assert_eq!(batch.value(before), Some(&b"1"[..]));
//! assert_eq!(batch.value(after), Some(&b"3"[..]));
//!
//! let names: Vec<_> = map.range(..).rev().map(|(name, _)| name).collect();
//! assert_eq!(names, [b"bob", b"ann"]);
//! # Ok::<(), nearfield::OperationError>(())
//! ```
//!
//! The entries may also be stored in the memory of other machines (`MapBuilder::pool`, with the
//! feature `pool`), in modules that each own a part of the keys (`MapBuilder::pim`, with the
//! feature `pim`), or in memory, compressed memory and files (`MapBuilder::tiers`, with the feature
//! `tiers`). The methods are the same, but reads return a `Result`, because a memory node, a module
//! or a disk can fail. [`MapPlacement`] lists the return types of each placement. With
//! [`AnyPlacement`], a program chooses the placement at run time.
//!
//! # Limits
//!
//! Keys have up to [`MAX_KEY_BYTES`] bytes, the empty key included, and values up to
//! [`MAX_VALUE_BYTES`]. A longer key or value is refused with an [`OperationError`], and nothing
//! changes.
//!
//! # Threads
//!
//! Every operation on one key is atomic and takes effect at one instant of the call. Operations
//! of one batch on one key take effect in the batch's order; a batch is not a transaction, and
//! other threads may see a part of it. The head of the crate `nearfield-core` states the guarantees
//! of a batch.
//! Readers take no locks and write nothing that other threads read.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod any_value;
mod builder;
mod form;
mod map;
mod placement;
mod read_result;
mod typed;

pub use any_value::AnyValue;
pub use builder::MapBuilder;
#[cfg(feature = "pim")]
pub use builder::PimBuilder;
#[cfg(feature = "pool")]
pub use builder::PoolBuilder;
#[cfg(feature = "tiers")]
pub use builder::TieredBuilder;
pub use form::MapForm;
#[cfg(feature = "pool")]
pub use map::{FilteredEntries, FilteredRange};
pub use map::{MapRange, OrderedMap, UpdateOutcome, WordMap};
pub use nearfield_core::{
    ArenaSpan, Batch, ByteStrings, ComparisonResult, EntryForm, MAX_KEY_BYTES, MAX_VALUE_BYTES,
    OperationError, OperationOutcome, OrderedIndex, PointResult, ScanDirection, Words, codec,
};
#[cfg(feature = "pool")]
pub use nearfield_fabric::count::NodeTraffic;
#[cfg(feature = "pool")]
pub use nearfield_fabric::membership::{EtcdMembers, MembershipError, NodeAddress};
#[cfg(feature = "pool")]
pub use nearfield_fabric::{NodeId, NodeMemoryUse};
#[cfg(feature = "pool")]
pub use nearfield_offload::{node::Tenant, wire::AuthenticationKey};
#[cfg(feature = "pool")]
pub use nearfield_pool::chime::{CacheLookups, LeafReads};
#[cfg(feature = "pool")]
pub use nearfield_pool::filtered::{ScanAggregates, ValueFilter};
#[cfg(feature = "pool")]
pub use nearfield_pool::store::{
    PoolAddError, PoolDrain, PoolDrainError, PoolGrowth, PoolGrowthPhase, PoolMember,
    PoolNodeCensus, PoolNodeState, PoolRepair, PoolRepairError, StoreOpenError,
};
pub use nearfield_radix::{
    Combine, EngineOptions, Entry, MemoryUse, RadixCounters, RadixPinGuard, ValueRef,
};
#[cfg(feature = "tiers")]
pub use nearfield_tiers::map::TierUse;
#[cfg(feature = "tiers")]
pub use nearfield_tiers::{Specification as Tier, TierKind, TierOpenError as TierError};
#[cfg(feature = "pim")]
pub use placement::Pim;
#[cfg(feature = "tiers")]
pub use placement::TieredPlacement;
pub use placement::{AnyPlacement, Local, MapPlacement};
#[cfg(feature = "pool")]
pub use placement::{
    PoolNodeContent, PoolNodeStatus, PoolNodeUse, PoolPlacement, PoolUse, RejoinedPoolNode,
};
pub use read_result::MapReadResult;
pub use typed::{TypedMap, TypedRange};

/// The README, whose examples run as tests.
#[cfg(all(doctest, feature = "pim"))]
#[doc = include_str!("../README.md")]
struct Readme;
