//! Execution of a batch: independent operations run concurrently, up to a limit.

use super::blocks::BlockReadGuard;
use super::client::{PoolStoreClient, SlotRange};
use super::form::{PoolEntryForm, SlotKey, StoreSlotValue, StoreValueBlock};
use crate::chime::KeyChangeDecision;
use crate::error::PoolError;
use crate::executor::run_all;
use crate::index::Entry;
use arrayvec::ArrayVec;
use nearfield_core::plan::{
    Fate, GroupKind, Groups, InitialKeyState, OperationGroup, compares, fold, phases, value_set,
    write_outcome,
};
use nearfield_core::{
    Batch, BatchInput, BatchOutput, IndexOperation, OperationError, ScanDirection,
};
use nearfield_fabric::recovery::redo;
use nearfield_fabric::{Endpoint, FabricError};
use std::cell::RefCell;
use std::ops::Bound;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of changes at once: a client has room for their locks. Each holds up to
/// [`LOCKS_OF_A_CHANGE`] of a node.
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

/// Reason for which operations on a key were not done; nothing was changed.
enum NotDone {
    /// An operation is refused: there is no room, or the nodes cannot be reached.
    Refused(usize, OperationError),
    /// The bytes that were read cannot be trusted.
    Again,
}

/// A batch that is being executed.
struct StoreBatchRun<'r, 'b, F: PoolEntryForm, E> {
    client: &'r PoolStoreClient<E>,
    input: BatchInput<'b, F>,
    output: RefCell<BatchOutput<'b, F>>,
    groups: Groups,
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
        let width = match others.iter().any(|group| group.kind() == GroupKind::Change) {
            true => in_flight.min(CHANGES_MAX),
            false => in_flight,
        };
        run_all(others, width, |group| self.perform(*group));
    }

    async fn perform(&self, group: OperationGroup) {
        match group.kind() {
            GroupKind::Change => self.change(group).await,
            GroupKind::Read | GroupKind::Ordered => self.ordered(group).await,
        }
    }

    /// Returns the key of a point operation.
    fn key(&self, position: usize) -> F::Key<'b> {
        let stored = self.input.operations()[position].point_key();
        self.input.key(stored.expect("a group on a key has a key"))
    }

    /// Returns the key of the slot of a group.
    fn slot_key(&self, group: OperationGroup) -> SlotKey {
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

    /// Writes the outcomes of gets of a key.
    fn write(&self, group: OperationGroup, value: Option<&[u8]>) {
        let (key, value) = (self.key(group.first()), value.map(F::value_of));
        let mut output = self.output.borrow_mut();
        for position in self.groups.operations(group) {
            output.value(position, key, value);
        }
    }

    /// Executes all operations on a key at one moment: under the lock of its leaf.
    async fn change(&self, group: OperationGroup) {
        let mut refused: Vec<usize> = Vec::new();
        // Each round refuses one more operation, for which there is no room. Usually there is only
        // one round, without a refusal.
        loop {
            match self.change_but(group, &refused).await {
                Ok(()) => return,
                Err(NotDone::Again) => {}
                Err(NotDone::Refused(position, error)) => {
                    self.output.borrow_mut().fail(position, error);
                    refused.push(position);
                }
            }
        }
    }

    /// Executes like `change`, without the operations that were refused.
    async fn change_but(&self, group: OperationGroup, refused: &[usize]) -> Result<(), NotDone> {
        let (client, input) = (self.client, &self.input);
        let positions = self.groups.operations(group);
        let positions = positions.filter(|position| !refused.contains(position));
        let slot_key = self.slot_key(group);
        let has_to_compare = positions.clone().any(|position| compares(input, position));
        // If several operations set the value, the last one's is most likely the final one.
        let mut placed: Vec<(usize, Vec<u8>, Option<StoreValueBlock>)> = Vec::new();
        let last_set = positions
            .clone()
            .filter(|&position| value_set(input, position).is_some());
        if let Some(position) = last_set.last() {
            placed.push(self.place(position).await?);
        }
        // The operation may have waited for memory for the value. No guard may be held during such
        // a wait, so it is taken now.
        let endpoint = client.tree.endpoint();
        let reading = match client.blocks.enter(endpoint).await {
            Ok(reading) => reading,
            Err(error) => {
                let error = self.unreachable(&error);
                for position in positions {
                    self.output.borrow_mut().fail(position, error.clone());
                }
                return Ok(());
            }
        };
        let mut fate = Fate::Before;
        let mut no_room = None;
        let decide = async |slot: Option<&[u8]>| {
            let held = slot.map(|slot| client.codec.decode_value(slot));
            let read;
            // A long value costs a round trip under the lock, so it is read only if an operation
            // compares it.
            let value = match held {
                Some(StoreSlotValue::Inline(value)) => Some(value),
                Some(StoreSlotValue::Outside(block)) if has_to_compare => {
                    read = client.blocks.read(endpoint, block).await?;
                    Some(&read[..])
                }
                _ => None,
            };
            let is_present = held.is_some();
            let before = InitialKeyState {
                is_present,
                value: value.map(F::value_of),
            };
            fate = fold(input, positions.clone(), before, |_| {});
            Ok(match fate {
                Fate::Before => KeyChangeDecision::Keep,
                Fate::Absent if is_present => KeyChangeDecision::Remove,
                Fate::Absent => KeyChangeDecision::Keep,
                Fate::Set(position) => {
                    let known = placed.iter().position(|placed| placed.0 == position);
                    let known = match known {
                        Some(known) => known,
                        None => match self.place(position).await {
                            Ok(place) => {
                                placed.push(place);
                                placed.len() - 1
                            }
                            Err(refusal) => {
                                no_room = Some(refusal);
                                return Ok(KeyChangeDecision::Keep);
                            }
                        },
                    };
                    KeyChangeDecision::Put(placed[known].1.clone())
                }
            })
        };
        let altered = client.alter(&slot_key, decide).await;
        for (position, _, block) in placed {
            // If the outcome is unknown, another client may have seen it.
            if let (Some(block), true) = (block, altered.is_ok())
                && (fate != Fate::Set(position) || no_room.is_some())
                // A block that is lost only costs memory.
                && let Err(error) = client.blocks.take_back(endpoint, &reading, block).await
            {
                self.unreachable(&error);
            }
        }
        if let (Some(refusal), Ok(_)) = (no_room, &altered) {
            return Err(refusal);
        }
        let before = match altered {
            Ok(before) => before,
            Err(PoolError::Fabric(error @ FabricError::OutOfMemory { .. })) => {
                // The tree could not grow: an operation that adds an entry is refused.
                // Only an operation that sets a value can have needed memory.
                let first_set = positions.clone().find(|&at| value_set(input, at).is_some());
                let position = first_set.unwrap_or(group.first());
                let error = self.no_room(position, &error);
                return Err(NotDone::Refused(position, error));
            }
            Err(error) => {
                for position in positions {
                    let error = self.unknown(&error);
                    self.output.borrow_mut().fail(position, error);
                }
                return Ok(());
            }
        };
        self.tell(positions, before.as_deref(), fate, &reading)
            .await
    }

    /// Writes the outcomes of operations on a key; `slot` is its slot before them.
    async fn tell(
        &self,
        positions: impl Iterator<Item = usize> + Clone,
        slot: Option<&[u8]>,
        fate: Fate,
        reading: &BlockReadGuard<'_>,
    ) -> Result<(), NotDone> {
        let (client, input) = (self.client, &self.input);
        let held = slot.map(|slot| client.codec.decode_value(slot));
        let read;
        let value = match held {
            None => None,
            Some(StoreSlotValue::Inline(value)) => Some(value),
            Some(StoreSlotValue::Outside(block)) => {
                let endpoint = client.tree.endpoint();
                let value = async {
                    let value = client.blocks.read(endpoint, block).await?;
                    // No slot refers to it any more, but other clients may be about to read it.
                    if fate != Fate::Before {
                        client.blocks.retire(endpoint, reading, block).await?;
                    }
                    match reading.is_valid(endpoint).await? {
                        true => Ok(value),
                        false => Err(PoolError::Session),
                    }
                };
                read = match value.await {
                    Ok(value) => value,
                    Err(PoolError::Session) if fate == Fate::Before => return Err(NotDone::Again),
                    Err(error) => {
                        for position in positions {
                            let error = self.unknown(&error);
                            self.output.borrow_mut().fail(position, error);
                        }
                        return Ok(());
                    }
                };
                Some(&read[..])
            }
        };
        let is_present = held.is_some();
        let output = &mut *self.output.borrow_mut();
        let value = value.map(F::value_of);
        fold(
            input,
            positions,
            InitialKeyState { is_present, value },
            |met| {
                write_outcome(input, output, met, value);
            },
        );
        Ok(())
    }

    /// Returns the slot's bytes for the value that an operation sets.
    async fn place(
        &self,
        position: usize,
    ) -> Result<(usize, Vec<u8>, Option<StoreValueBlock>), NotDone> {
        let value = value_set(&self.input, position).expect("only of operations that set a value");
        match self.client.place(F::value_bytes(value).as_ref()).await {
            Ok((slot, block)) => Ok((position, slot, block)),
            Err(PoolError::Fabric(error @ FabricError::OutOfMemory { .. })) => {
                let error = self.no_room(position, &error);
                Err(NotDone::Refused(position, error))
            }
            Err(error) => Err(NotDone::Refused(position, self.unreachable(&error))),
        }
    }

    fn no_room(&self, position: usize, error: &FabricError) -> OperationError {
        let key = F::key_bytes(self.key(position));
        let key = OperationError::shorten(key.as_ref());
        let what = format!("entry of key {key:?}: {error}");
        OperationError::OutOfMemory { what }
    }

    fn unreachable(&self, error: &PoolError) -> OperationError {
        self.client.note_failure(error);
        let what = error.to_string();
        OperationError::Unreachable { what }
    }

    fn unknown(&self, error: &PoolError) -> OperationError {
        self.client.note_failure(error);
        let what = error.to_string();
        OperationError::Unknown { what }
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
                let scan = self.client.scan(&range, limit, direction).await;
                scan.map(|(entries, _)| entries)
            }
            None => Ok(Vec::new()),
        }
    }
}
