//! Programs on models of hardware: the third executor, next to the interpreter and native code.
//!
//! The models of [`nearfield_hardware::accelerator`] decide the time of each step: they translate
//! addresses, fetch, run logic, store and send. An [`OffloadedQuery`] traversal carries the step
//! out: it takes the bytes when they have arrived, interprets one iteration on them in its
//! workspace when a logic pipeline is free, and stores when the hardware has checked the addresses.
//! So the results are those of the modelled pipelines. [`AcceleratorRunner`] runs queries this way,
//! one after the other.
//!
//! ```
//! use nearfield_hardware::accelerator::pulse::{PulseDesign, PulseParameters};
//! use nearfield_hardware::accelerator::{
//!     TranslationPermission, TranslationRange, TranslationTable,
//! };
//! use nearfield_offload::modelled::AcceleratorRunner;
//! use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, Tenant};
//! use nearfield_offload::structures::{NodeArena, OffloadHashTable, entry};
//! use nearfield_offload::traversal::{InMemory, QueryRunner};
//! use std::sync::atomic::AtomicU64;
//!
//! let words: Vec<AtomicU64> = (0..4096).map(|_| AtomicU64::new(0)).collect();
//! let (start, end) = (1 << 20, (1 << 20) + 8 * 4096);
//! let ranges = NodeRanges::new(vec![NodeRange::whole(start, end - start, Tenant(1))])?;
//! let node = LocalMemory::new(&words, ranges)?;
//! let mut arena = NodeArena::new(node.of(Tenant(1)), vec![start..end]);
//! let mut table = OffloadHashTable::new(&mut arena, 8)?;
//! for key in 0..20 {
//!     table.insert(&mut arena, key, key * key)?;
//! }
//!
//! let permission = TranslationPermission::ReadWrite;
//! let translation = TranslationTable::new(vec![TranslationRange { start, end, permission }])?;
//! let (parameters, design) = (PulseParameters::PAPER, PulseDesign::PROTOTYPE);
//! let memory = node.of(Tenant(1));
//! let mut accelerated = AcceleratorRunner::new(memory, parameters, design, translation)?;
//! let outcome = accelerated.run(&table.find(9), 100)?;
//! assert_eq!(entry(&outcome).map(|entry| entry.value), Some(81));
//! assert_eq!(outcome, InMemory::new(node.of(Tenant(1))).run(&table.find(9), 100)?);
//! // A look-up takes about a microsecond there.
//! assert!((0.8..2.0).contains(&(accelerated.now().as_nanoseconds() / 1000.0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accelerated;
mod offloaded;

pub use accelerated::AcceleratorRunner;
pub use offloaded::{Object, OffloadedQuery};
