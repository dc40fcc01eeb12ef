//! Scans by batches, for indexes that lend no entries.

use super::Bounds;
use crate::form::MapForm;
use nearfield_core::{Batch, OperationError, OperationOutcome, OrderedIndex, ScanDirection};
use nearfield_radix::Entry;
use std::ops::Bound;

/// Scans as [`MapPlacement::scan`](super::MapPlacement::scan) does, by a batch of one operation.
pub(super) fn scan_by_batch<F: MapForm>(
    index: &impl OrderedIndex<F>,
    (low, high): Bounds<'_, F>,
    direction: ScanDirection,
    limit: usize,
    mut found: impl FnMut(Entry<F>),
) -> Result<bool, OperationError> {
    // A batch refuses bounds that are longer than a key can be. A key greater than such a bound is
    // greater than the bound cut to that length, too.
    let (low, high) = (low.map(F::own_key), high.map(F::own_key));
    let (low, low_is_cut) = cut::<F>(low);
    let (high, high_is_cut) = cut::<F>(high);
    let low = match low.as_ref().map(F::key) {
        // The cut bound may be a key itself, which then lies below the given bound.
        Bound::Included(key) if low_is_cut => Bound::Excluded(key),
        low => low,
    };
    let high = match high.as_ref().map(F::key) {
        Bound::Excluded(key) if high_is_cut => Bound::Included(key),
        high => high,
    };
    let mut batch = Batch::new();
    // No caller asks for more than `CHUNK_MAX` entries, so nothing is cut off.
    let count = u32::try_from(limit).unwrap_or(u32::MAX);
    batch.scan(low, high, count, direction);
    index.execute(&mut batch)?;
    if let OperationOutcome::Failed(error) = batch.outcome(0) {
        return Err(error);
    }
    let mut count = 0;
    for (key, value) in batch.entries(0) {
        found((F::own_key(key), F::own_value(value)));
        count += 1;
    }
    debug_assert!(count <= limit);
    // With exactly as many entries as were asked for, there may be more.
    Ok(count < limit)
}

/// Cuts a bound that is longer than any key can be. Returns true if it was.
fn cut<F: MapForm>(bound: Bound<F::OwnedKey>) -> (Bound<F::OwnedKey>, bool) {
    let mut is_longer = false;
    let bound = bound.map(|mut key| {
        is_longer = F::cut(&mut key);
        key
    });
    (bound, is_longer)
}
