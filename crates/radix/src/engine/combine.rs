//! *Combine*: the point operations of a batch become visits, one for each key.
//!
//! Operations are sorted by bucket, and by comparison within a bucket. The bucket is given by the
//! 11 bits of the key after the bytes that all keys of the tree share, which the tree knows. A
//! bucket in a crowded part of the tree is thereby split more deeply than others. Equal keys end up
//! together, in the batch's order.

use crate::leaf::LeafForm;
use crate::tree::RadixTree;
use nearfield_core::{BatchInput, IndexOperation};
use std::ops::Range;

/// The operations of one key: a range of [`VisitPlan::order`].
#[derive(Clone, Copy, Debug)]
pub struct KeyVisit {
    pub first: u32,
    pub count: u32,
    /// True if one of the operations may change the index.
    pub writes: bool,
}

/// The plan of a batch: its visits and their order.
#[derive(Clone, Debug, Default)]
pub struct VisitPlan {
    /// The positions in the batch. Those of one visit are neighbours, in the batch's order.
    pub order: Vec<u32>,
    /// The visits, of different keys.
    pub visits: Vec<KeyVisit>,
    /// True if visits are sorted by key, so that neighbours share paths.
    pub sorted: bool,
    /// True if several visits may have the same key and some of them write: each must see the
    /// effects of earlier ones.
    pub in_order: bool,
    entries: Vec<VisitSortEntry>,
    buckets: Vec<VisitSortEntry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct VisitSortEntry {
    slice: u64,
    position: u32,
}

const BUCKET_BITS: u32 = 11;

/// Number of operations in the sample that shows if a batch repeats its keys.
const SAMPLE: usize = 256;

/// The maximum number of operations for the small table; clearing the large one would take
/// noticeable time.
const SAMPLE_SMALL: usize = 32;

/// The percentage of sampled operations that must repeat a key for sorting to pay.
const REPEATED_PERCENT: usize = 50;

impl VisitPlan {
    /// Plans to visit the point operations at `positions` in the batch's order, each as its own
    /// visit.
    pub fn take_in_order<F: LeafForm>(
        &mut self,
        input: &BatchInput<'_, F>,
        positions: Range<usize>,
    ) {
        self.order.clear();
        self.visits.clear();
        self.sorted = false;
        self.in_order = false;
        self.order.reserve(positions.len());
        self.visits.reserve(positions.len());
        for position in positions {
            let operation = &input.operations()[position];
            if operation.point_key().is_some() {
                let writes = operation.is_write();
                self.visits.push(KeyVisit {
                    first: self.order.len() as u32,
                    count: 1,
                    writes,
                });
                self.order.push(position as u32);
                self.in_order |= writes;
            }
        }
    }

    /// Plans to visit one point operation.
    pub fn take_one<F: LeafForm>(&mut self, input: &BatchInput<'_, F>, position: usize) {
        self.order.clear();
        self.visits.clear();
        self.sorted = false;
        self.in_order = false;
        self.order.push(position as u32);
        self.visits.push(KeyVisit {
            first: 0,
            count: 1,
            writes: input.operations()[position].is_write(),
        });
    }

    /// Returns the key of a visit.
    #[inline]
    pub fn key<'b, F: LeafForm>(&self, input: &BatchInput<'b, F>, visit: &KeyVisit) -> F::Key<'b> {
        let position = self.order[visit.first as usize] as usize;
        point_key(input, &input.operations()[position])
    }

    /// Returns the keys of all visits.
    pub fn keys<'b, F: LeafForm>(&self, input: &BatchInput<'b, F>) -> Vec<F::Key<'b>> {
        self.visits
            .iter()
            .map(|visit| self.key(input, visit))
            .collect()
    }

    /// Plans to visit the point operations at `positions` key by key.
    pub fn combine<F: LeafForm>(
        &mut self,
        tree: &RadixTree<F>,
        input: &BatchInput<'_, F>,
        positions: Range<usize>,
    ) {
        // Bytes that all keys share would put all operations into one bucket.
        let depth = tree.shared_depth();
        self.entries.clear();
        for position in positions {
            if let Some(key) = input.operations()[position].point_key() {
                self.entries.push(VisitSortEntry {
                    slice: F::slice(input.key(key), depth),
                    position: position as u32,
                });
            }
        }
        self.sort(input);
        self.group(input);
        self.sorted = true;
        self.in_order = false;
    }

    fn sort<F: LeafForm>(&mut self, input: &BatchInput<'_, F>) {
        let bucket = |entry: &VisitSortEntry| (entry.slice >> (64 - BUCKET_BITS)) as usize;
        let mut ends = [0u32; 1 << BUCKET_BITS];
        for entry in &self.entries {
            ends[bucket(entry)] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            (start, *end) = (start + *end, start);
        }
        self.buckets.clear();
        self.buckets
            .resize(self.entries.len(), VisitSortEntry::default());
        for entry in &self.entries {
            let end = &mut ends[bucket(entry)];
            self.buckets[*end as usize] = *entry;
            *end += 1;
        }
        let key =
            |entry: &VisitSortEntry| point_key(input, &input.operations()[entry.position as usize]);
        let mut start = 0;
        for end in ends {
            let end = end as usize;
            if end - start > 1 {
                // The position makes the order total, so that an unstable sort keeps the order of
                // the batch.
                self.buckets[start..end].sort_unstable_by(|a, b| {
                    (a.slice.cmp(&b.slice))
                        .then_with(|| key(a).cmp(&key(b)))
                        .then(a.position.cmp(&b.position))
                });
            }
            start = end;
        }
    }

    fn group<F: LeafForm>(&mut self, input: &BatchInput<'_, F>) {
        self.order.clear();
        self.visits.clear();
        let mut last: Option<(u64, F::Key<'_>)> = None;
        for (i, entry) in self.buckets.iter().enumerate() {
            let operation = &input.operations()[entry.position as usize];
            let key = point_key(input, operation);
            debug_assert!(
                last.as_ref()
                    .is_none_or(|(slice, last)| (slice, last) <= (&entry.slice, &key)),
                "visits out of order"
            );
            self.order.push(entry.position);
            match (&last, self.visits.last_mut()) {
                // Slices differ for most keys, and are compared first.
                (Some((slice, last)), Some(visit)) if *slice == entry.slice && *last == key => {
                    visit.count += 1;
                    visit.writes |= operation.is_write();
                }
                _ => self.visits.push(KeyVisit {
                    first: i as u32,
                    count: 1,
                    writes: operation.is_write(),
                }),
            }
            last = Some((entry.slice, key));
        }
    }
}

#[inline]
fn point_key<'b, F: LeafForm>(
    input: &BatchInput<'b, F>,
    operation: &IndexOperation<F>,
) -> F::Key<'b> {
    match operation.point_key() {
        Some(key) => input.key(key),
        None => unreachable!("only point operations are combined"),
    }
}

/// Returns true if a sample of the batch repeats enough keys for sorting to pay.
pub fn repeats_keys<F: LeafForm>(input: &BatchInput<'_, F>) -> bool {
    match input.operations().len() {
        0..=SAMPLE_SMALL => repeats_among::<F, { 4 * SAMPLE_SMALL }>(input),
        _ => repeats_among::<F, { 4 * SAMPLE }>(input),
    }
}

/// Returns the same as `repeats_keys`, using a table with `PLACES` places.
fn repeats_among<F: LeafForm, const PLACES: usize>(input: &BatchInput<'_, F>) -> bool {
    let mut seen = [0u32; PLACES];
    let (mut sampled, mut repeated) = (0, 0);
    for operation in input.operations().iter().take(SAMPLE) {
        if let Some(key) = operation.point_key() {
            let hash = F::hash(input.key(key));
            let place = &mut seen[hash as usize % PLACES];
            // Zero is an empty place.
            let print = (hash >> 32) as u32 | 1;
            repeated += usize::from(*place == print);
            sampled += 1;
            *place = print;
        }
    }
    repeated * 100 > sampled * REPEATED_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::{Batch, ByteStrings};

    #[test]
    fn groups_equal_keys_in_order() {
        let tree = RadixTree::<ByteStrings>::new(usize::MAX).unwrap();
        let mut batch = Batch::<ByteStrings>::new();
        for key in [
            "b",
            "a",
            "b",
            "longer than a slice 1",
            "a",
            "longer than a slice 2",
            "b",
        ] {
            batch.get(key.as_bytes());
        }
        let (input, _) = batch.begin().unwrap();
        let mut plan = VisitPlan::default();
        plan.combine(&tree, &input, 0..7);
        let groups: Vec<&[u32]> = plan
            .visits
            .iter()
            .map(|visit| &plan.order[visit.first as usize..][..visit.count as usize])
            .collect();
        assert_eq!(groups, [&[1, 4][..], &[0, 2, 6], &[3], &[5]]);
    }

    #[test]
    fn notices_repeated_keys() {
        let mut batch = Batch::<nearfield_core::Words>::new();
        for i in 0..1000 {
            batch.get(i);
        }
        assert!(!repeats_keys(&batch.begin().unwrap().0));
        batch.clear();
        for i in 0..1000 {
            batch.get(i % 10);
        }
        assert!(repeats_keys(&batch.begin().unwrap().0));
    }
}
