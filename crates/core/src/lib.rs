//! The vocabulary of all placements of Nearfield: [operations](IndexOperation), [batches](Batch) of
//! them, their [outcomes](OperationOutcome), the [`OrderedIndex`] trait, [key codecs](codec) and
//! [errors](OperationError).
//!
//! # A batch is serially equivalent to its operations in order
//!
//! That sentence is the contract of [`OrderedIndex::execute`], and it means the following.
//!
//! *Without other writers*, executing a batch leaves the index in the state, and gives each
//! operation the outcome, that executing its operations one after the other in the order of
//! [`Batch`] would. In particular:
//!
//! - **Duplicate keys.** Operations on one key see each other in order: an insert, a get and a
//!   remove of the same key return the old value, the new value and the new value again.
//! - **Conditional updates and removes** compare with the value after the earlier operations of the
//!   batch, not with the value in the index when the batch began.
//! - **Scans, predecessor and successor** see every write that precedes them in the batch and none
//!   that follows them.
//! - **A failed operation** ([`OperationOutcome::Failed`], or an update or remove whose comparison
//!   failed) changes nothing; the operations after it are executed.
//!
//! An index may therefore reorder point operations on different keys, and reads with reads, but
//! nothing else.
//!
//! *With concurrent threads*, every point operation is linearizable on its own: it takes effect at
//! one instant between the call of `execute` and its return, and operations of one batch on one key
//! take effect in the batch's order. A batch is not a transaction: other threads may see some of
//! its writes before the others, and may see writes of different keys in another order than the
//! batch's. A scan, predecessor or successor returns every entry that is present during the whole
//! call and none that is absent during the whole call.

#![forbid(unsafe_code)]

mod batch;
pub mod codec;
mod error;
mod form;
mod index;
mod operation;
mod outcome;
pub mod packed;
pub mod plan;
mod size;
mod time;

pub use batch::{Batch, BatchInput, BatchOutput, EntriesWriter, Outcomes};
pub use error::OperationError;
pub use form::{
    ArenaSpan, ByteStrings, EntryForm, EntryList, MAX_KEY_BYTES, MAX_VALUE_BYTES, PackedEntries,
    WordEntries, Words,
};
pub use index::{ComparisonResult, OrderedIndex, PointResult};
pub use operation::{IndexOperation, Previous, ScanBoundsHandle, ScanDirection};
pub use outcome::{OperationOutcome, StoredOutcome};
pub use size::{ByteSizeError, byte_size};
pub use time::VirtualTime;
