//! Parts of a batch whose operations do not wait for each other.

use crate::{EntryForm, IndexOperation};
use std::ops::Range;

/// Divides a batch into phases, in its order. The operations of a phase wait for each other only if
/// they are on one key, because a phase has writes or ordered reads, never both. Takes O(n) for n
/// operations.
///
/// ```
/// use nearfield_core::plan::phases;
/// use nearfield_core::{Batch, Words};
///
/// let mut batch = Batch::<Words>::new();
/// batch.insert(1, 10);
/// batch.get(1);
/// batch.successor(0);
/// batch.get(2);
/// batch.remove(1);
/// let input = batch.input()?;
/// assert!(phases(input.operations()).eq([0..2, 2..4, 4..5]));
/// # Ok::<(), nearfield_core::OperationError>(())
/// ```
pub fn phases<F: EntryForm>(
    operations: &[IndexOperation<F>],
) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut end = 0;
    std::iter::from_fn(move || {
        let start = end;
        let (mut writes, mut ordered) = (false, false);
        for operation in &operations[start..] {
            writes |= operation.is_write();
            ordered |= operation.is_ordered();
            if writes && ordered {
                // The operation begins the next phase. No operation is both a write and ordered, so
                // every phase has at least one.
                break;
            }
            end += 1;
        }
        (start < end).then_some(start..end)
    })
}
