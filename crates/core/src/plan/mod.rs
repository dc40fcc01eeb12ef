//! Planning a batch: the steps that all placements share.
//!
//! A placement executes a batch in three steps:
//!
//! 1. [`phases`] divides it. The operations of a phase do not wait for each other, except for those
//!    on one key.
//! 2. [`Groups`] groups the operations of a phase that are on one key.
//! 3. The placement reads the value of each key once. [`fold`] executes the operations on the key
//!    in memory, reports the state that each of them finds, and returns the final state of the key:
//!    at most one write.
//!
//! ```
//! use nearfield_core::plan::{
//!     Fate, GroupKind, Groups, InitialKeyState, fold, phases, write_outcome,
//! };
//! use nearfield_core::{Batch, OperationError, Words};
//! use std::collections::BTreeMap;
//!
//! /// Point operations on a map.
//! fn execute(
//!     map: &mut BTreeMap<u64, u64>,
//!     batch: &mut Batch<Words>,
//! ) -> Result<(), OperationError> {
//!     let (input, mut output) = batch.begin()?;
//!     let mut groups = Groups::new(input.operations().len());
//!     for phase in phases(input.operations()) {
//!         groups.fill(&input, phase, |key| key, |_, _| false);
//!         for &group in groups.all().iter().filter(|group| group.kind() != GroupKind::Ordered) {
//!             let key = input.operations()[group.first()].point_key().unwrap_or(0);
//!             let value = map.get(&key).copied();
//!             let state = InitialKeyState::of(value);
//!             let fate = fold(&input, groups.operations(group), state, |found| {
//!                 write_outcome(&input, &mut output, found, value);
//!             });
//!             match fate.value(&input, value) {
//!                 Some(value) => map.insert(key, value),
//!                 None => map.remove(&key),
//!             };
//!         }
//!     }
//!     Ok(())
//! }
//!
//! let mut batch = Batch::<Words>::new();
//! let before = batch.insert(1, 10);
//! let after = batch.get(1);
//! let mut map = BTreeMap::new();
//! execute(&mut map, &mut batch)?;
//! assert_eq!((batch.value(before), batch.value(after)), (None, Some(10)));
//! assert_eq!(map[&1], 10);
//! # Ok::<(), OperationError>(())
//! ```

mod bounds;
mod fold;
mod groups;
mod phases;
#[cfg(test)]
mod tests;

pub use bounds::inclusive;
pub use fold::{Fate, FoundKeyState, InitialKeyState, compares, fold, value_set, write_outcome};
pub use groups::{GroupKind, Groups, OperationGroup};
pub use phases::phases;
