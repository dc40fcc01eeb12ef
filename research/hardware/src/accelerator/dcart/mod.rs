//! The accelerator of DCART (DAC 2025): operations on a radix tree, combined by the prefixes of
//! their keys, and executed by units that remember the places of keys.
//!
//! A combining unit distributes the operations of a batch to buckets. A dispatcher gives each
//! bucket to one operating unit, whose four stages look up a shortcut, walk the tree, execute the
//! operation and write a shortcut. Four buffers on the chip hold incoming operations (*scan*),
//! buckets, shortcuts and lines of the tree. The card's memory, a separate [`dram`](crate::dram),
//! is behind them.
//!
//! The model contains no tree. It calls a [`DcartTree`] to execute an operation, and gets the
//! resulting [`DcartWalk`]: the bytes of the nodes that were read and written. So its results are
//! the tree's, its counts are not estimated, and any tree can be walked.
//!
//! ```
//! use nearfield_hardware::accelerator::MemorySpan;
//! use nearfield_hardware::accelerator::dcart::{DcartAccelerator, DcartOperation, DcartParameters};
//! use nearfield_hardware::accelerator::dcart::{DcartTree, DcartVisit, DcartWalk};
//!
//! /// One node of 64 bytes, in which each key has its entry.
//! struct Flat;
//! impl DcartTree for Flat {
//!     fn execute(&mut self, _: usize, walk: &mut DcartWalk) {
//!         walk.visit(DcartVisit::leaf(MemorySpan { address: 0x40, bytes: 64 }));
//!     }
//! }
//!
//! let operations: Vec<DcartOperation> = (0..1000)
//!     .map(|key| DcartOperation { key, label: key as u8, bytes: 24, writes: false })
//!     .collect();
//! let report = DcartAccelerator::new(DcartParameters::published())?.run(&operations, &mut Flat)?;
//! assert_eq!(report.operations, 1000);
//! // The combining unit takes one operation a cycle.
//! assert!(report.rate() <= 230e6);
//! # Ok::<(), nearfield_hardware::accelerator::dcart::DcartError>(())
//! ```
//!
//! The paper (Zhao et al.) gives units, stages, sizes of buffers, their policies and the clock. It
//! does not give the sizes of batches, records and entries, nor the number of operations in flight
//! in a unit. [`DcartParameters::published`] lists which of these are assumed.

mod accelerator;
pub mod area;
mod batch;
mod bound;
mod buckets;
mod buffer;
pub mod energy;
mod error;
mod lane;
mod lanes;
mod off_chip;
mod parameters;
mod report;
mod run;
mod setting;
mod stages;
mod stream;
#[cfg(test)]
mod tests;
mod trace;
mod unit;
mod walk;

pub use accelerator::DcartAccelerator;
pub use bound::{DcartBound, DcartPart};
pub use buffer::LineBufferPolicy;
pub use error::DcartError;
pub use parameters::{DcartParameters, Pipeline};
pub use report::{DcartLockCounts, DcartReport, Hits};
pub use trace::{DcartAction, DcartTrace, KEY_BYTES_MAX};
pub use walk::{DcartOperation, DcartTree, DcartVisit, DcartWalk, WalkRecording};
