//! Programs on models of hardware: the third executor, next to the interpreter and native code.
//!
//! The models of [`nearfield_hardware::accelerator`] decide the time of each step: they translate
//! addresses, fetch, run logic, store and send. An [`Offloaded`] traversal carries the step out: it
//! takes the bytes when they have arrived, interprets one iteration on them in its workspace when a
//! logic pipeline is free, and stores when the hardware has checked the addresses. So the results
//! are those of the modelled pipelines. [`Accelerated`] runs queries this way, one after the other.
//!
//! ```
//! use nearfield_hardware::accelerator::pulse::{Design, Parameters};
//! use nearfield_hardware::accelerator::{Permission, Range, Table};
//! use nearfield_offload::modelled::Accelerated;
//! use nearfield_offload::node::{LocalMemory, Range as Addresses, Ranges, Tenant};
//! use nearfield_offload::structures::{Arena, HashTable, entry};
//! use nearfield_offload::traversal::{InMemory, Runner};
//! use std::sync::atomic::AtomicU64;
//!
//! let words: Vec<AtomicU64> = (0..4096).map(|_| AtomicU64::new(0)).collect();
//! let (start, end) = (1 << 20, (1 << 20) + 8 * 4096);
//! let ranges = Ranges::new(vec![Addresses::whole(start, end - start, Tenant(1))])?;
//! let node = LocalMemory::new(&words, ranges)?;
//! let mut arena = Arena::new(node.of(Tenant(1)), vec![start..end]);
//! let mut table = HashTable::new(&mut arena, 8)?;
//! for key in 0..20 {
//!     table.insert(&mut arena, key, key * key)?;
//! }
//!
//! let permission = Permission::ReadWrite;
//! let translation = Table::new(vec![Range { start, end, permission }])?;
//! let (parameters, design) = (Parameters::PAPER, Design::PROTOTYPE);
//! let mut accelerated = Accelerated::new(node.of(Tenant(1)), parameters, design, translation)?;
//! let outcome = accelerated.run(&table.find(9), 100)?;
//! assert_eq!(entry(&outcome).map(|entry| entry.value), Some(81));
//! assert_eq!(outcome, InMemory::new(node.of(Tenant(1))).run(&table.find(9), 100)?);
//! // A look-up takes about a microsecond there.
//! assert!((0.8..2.0).contains(&(accelerated.now().as_nanoseconds() / 1000.0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accelerated;
mod offloaded;

pub use accelerated::Accelerated;
pub use offloaded::{Object, Offloaded};
