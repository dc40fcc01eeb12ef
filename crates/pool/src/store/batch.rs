//! Execution of a batch: independent operations run concurrently, up to a limit.

use super::client::{PoolStoreClient, SlotRange};
use super::form::{PoolEntryForm, SlotKey};
use crate::error::PoolError;
use crate::executor::{block_on, run_all};
use crate::index::Entry;
use arrayvec::ArrayVec;
use nearfield_core::plan::{GroupKind, Groups, OperationGroup, phases};
use nearfield_core::{
    Batch, BatchInput, BatchOutput, IndexOperation, OperationError, ScanDirection,
};
use nearfield_fabric::Endpoint;
use nearfield_fabric::recovery::redo;
use std::cell::RefCell;
use std::ops::Bound;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of leaves that are changed at once: a client has room for their locks. The change
/// of a leaf holds up to [`LOCKS_OF_A_CHANGE`] of a node.
const CHANGES_MAX: usize = 16;
const LOCKS_OF_A_CHANGE: usize = 3;
const _: () = assert!(CHANGES_MAX * LOCKS_OF_A_CHANGE <= redo::SLOTS_MAX);

/// Maximum number of keys that one post reads. More would save little, and would wait for each
/// other.
const TOGETHER_MAX: usize = 16;

/// Executes a batch with up to `width` operations in flight.
pub(super) fn execute<F: PoolEntryForm, E: Endpoint>(
    client: &PoolStoreClient<E>,
    in_flight: usize,
    batch: &mut Batch<F>,
) -> Result<(), OperationError> {
    let (input, output) = batch.begin()?;
    let operations = input.operations();
    let mut run = StoreBatchRun {
        client,
        input,
        output: RefCell::new(output),
        groups: Groups::new(operations.len()),
    };
    for phase in phases(operations) {
        let output = run.output.get_mut();
        let limit = client.codec.key_bytes_max;
        let hash = |key| xxh3_64(F::key_bytes(key).as_ref());
        run.groups.fill(&input, phase, hash, |position, key| {
            let bytes = F::key_bytes(key);
            let length = bytes.as_ref().len();
            if length > limit {
                let start = OperationError::shorten(bytes.as_ref());
                output.fail(
                    position,
                    OperationError::KeyTooLong {
                        start,
                        length,
                        limit,
                    },
                );
            }
            length > limit
        });
        run.all(in_flight.max(1));
    }
    Ok(())
}

/// A batch that is being executed.
pub(super) struct StoreBatchRun<'r, 'b, F: PoolEntryForm, E> {
    pub client: &'r PoolStoreClient<E>,
    pub input: BatchInput<'b, F>,
    pub output: RefCell<BatchOutput<'b, F>>,
    pub groups: Groups,
}

impl<'b, F: PoolEntryForm, E: Endpoint> StoreBatchRun<'_, 'b, F, E> {
    /// Executes all groups of the plan.
    fn all(&self, in_flight: usize) {
        let (reads, others) = self.groups.split();
        let together = in_flight.min(TOGETHER_MAX);
        debug_assert!(together > 0, "some operation is always in flight");
        let left = RefCell::default();
        run_all(
            reads.chunks(together),
            in_flight.div_ceil(together),
            |groups| self.read_each(groups, &left),
        );
        // The groups of a phase are independent, so reads may come before changes.
        run_all(left.into_inner(), in_flight, |group| self.read_rest(group));
        // The other groups of a phase are of one kind.
        match others.iter().any(|group| group.kind() == GroupKind::Change) {
            true => self.change_all(others, in_flight.min(CHANGES_MAX)),
            false => run_all(others, in_flight, |group| self.ordered(*group)),
        }
    }

    /// Executes groups that change keys: those on keys of one leaf together.
    fn change_all(&self, groups: &[OperationGroup], width: usize) {
        if groups.len() == 1 {
            return block_on(self.change(groups));
        }
        let mut sorted: Vec<(SlotKey, OperationGroup)> = groups
            .iter()
            .map(|&group| (self.slot_key(group), group))
            .collect();
        sorted.sort_unstable_by(|(one, _), (other, _)| one[..].cmp(&other[..]));
        let (slots, groups): (Vec<SlotKey>, Vec<OperationGroup>) = sorted.into_iter().unzip();
        let (slots, groups) = (&slots[..], &groups[..]);
        let mut begun = 0;
        // Each part is cut when a place for it is free: the parts before it have taught the cache
        // more of the tree by then.
        let parts = std::iter::from_fn(move || {
            let first = begun;
            let rest = groups.get(first..).filter(|rest| !rest.is_empty())?;
            begun += self.count_together(&slots[first..], rest);
            Some(&groups[first..begun])
        });
        run_all(parts, width, |part| self.change(part));
    }

    /// Returns the key of a point operation.
    pub fn key(&self, position: usize) -> F::Key<'b> {
        let stored = self.input.operations()[position].point_key();
        self.input.key(stored.expect("a group on a key has a key"))
    }

    /// Returns the key of the slot of a group.
    pub fn slot_key(&self, group: OperationGroup) -> SlotKey {
        let key = self.key(group.first());
        self.client.codec.encode_key(F::key_bytes(key).as_ref())
    }

    /// Reads keys by one post, each once for all gets of it, and adds those that need more reads to
    /// `left`.
    async fn read_each(&self, groups: &[OperationGroup], left: &RefCell<Vec<OperationGroup>>) {
        let keys: ArrayVec<SlotKey, TOGETHER_MAX> =
            groups.iter().map(|&group| self.slot_key(group)).collect();
        let found = |number: usize, value: Option<&[u8]>| self.write(groups[number], value);
        let rest = self.client.get_each(&keys, found).await;
        let rest = rest.into_iter().map(|number| groups[number]);
        left.borrow_mut().extend(rest);
    }

    /// Reads a key that was not found with others.
    async fn read_rest(&self, group: OperationGroup) {
        let slot = self.slot_key(group);
        let found = |value: &[u8]| self.write(group, Some(value));
        match self.client.get_rest(&slot, found).await {
            Ok(Some(())) => {}
            Ok(None) => self.write(group, None),
            Err(error) => {
                let error = self.unreachable(&error);
                for position in self.groups.operations(group) {
                    self.output.borrow_mut().fail(position, error.clone());
                }
            }
        }
    }

    /// Writes the outcomes of gets of a key, from what its slot or its block holds.
    fn write(&self, group: OperationGroup, held: Option<&[u8]>) {
        let key = self.key(group.first());
        let value = self
            .client
            .codec
            .value_of_key(F::key_bytes(key).as_ref(), held);
        let value = value.map(F::value_of);
        let mut output = self.output.borrow_mut();
        for position in self.groups.operations(group) {
            output.value(position, key, value);
        }
    }

    pub fn unreachable(&self, error: &PoolError) -> OperationError {
        self.client.note_failure(error);
        let what = error.to_string();
        OperationError::Unreachable { what }
    }

    /// Executes a scan, predecessor or successor.
    async fn ordered(&self, group: OperationGroup) {
        let position = group.first();
        let entries = self.entries(position).await;
        let output = &mut *self.output.borrow_mut();
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return output.fail(position, self.unreachable(&error)),
        };
        let mut entries = entries
            .iter()
            .map(|(key, value)| (F::key_of(key), F::value_of(value)));
        match self.input.operations()[position] {
            IndexOperation::Scan { .. } => output.entries(position, entries),
            _ => output.entry(position, entries.next()),
        }
    }

    /// Returns the entries of a scan, predecessor or successor.
    async fn entries(&self, position: usize) -> Result<Vec<Entry>, PoolError> {
        let (input, codec) = (&self.input, &self.client.codec);
        let range = |low: Bound<F::Key<'b>>, high: Bound<F::Key<'b>>| {
            let [low, high] = [low, high].map(|bound| bound.map(F::key_bytes));
            let low = low.as_ref().map(|key| key.as_ref());
            SlotRange::new(codec, low, high.as_ref().map(|key| key.as_ref()))
        };
        let (range, limit, direction) = match input.operations()[position] {
            IndexOperation::Predecessor { key } => {
                let key = Bound::Included(input.key(key));
                (range(Bound::Unbounded, key), 1, ScanDirection::Descending)
            }
            IndexOperation::Successor { key } => {
                let key = Bound::Included(input.key(key));
                (range(key, Bound::Unbounded), 1, ScanDirection::Ascending)
            }
            IndexOperation::Scan {
                range: bounds,
                limit,
                direction,
            } => {
                let (low, high) = input.range(bounds);
                (range(low, high), limit as usize, direction)
            }
            _ => return Ok(Vec::new()),
        };
        match range {
            Some(range) => {
                let (mut entries, _) = self.client.scan(&range, limit, direction).await?;
                entries.truncate(limit);
                Ok(entries)
            }
            None => Ok(Vec::new()),
        }
    }
}
