//! Changes of long keys: the block of a slot is read and another one is written under the lock of
//! the slot's leaf, because other long keys may share the block.

use super::batch::StoreBatchRun;
use super::blocks::{BlockReadGuard, ValueBlockAllocator};
use super::client::PoolStoreClient;
use super::form::{PoolEntryForm, SlotKey, StoreSlotValue, StoreValueBlock};
use super::long_keys::{self, LongKeyEntry};
use crate::chime::KeyChangeDecision;
use crate::error::PoolError;
use nearfield_core::plan::{Fate, InitialKeyState, OperationGroup, fold, value_set, write_outcome};
use nearfield_fabric::{Endpoint, FabricError};
use std::cell::Cell;

/// The decision on the entry of a long key.
pub(super) enum LongKeyDecision {
    Keep,
    Remove,
    Put(Vec<u8>),
}

/// The state of one try to change the entry of a long key.
#[derive(Default)]
struct LongKeyTry {
    /// A block that was reserved before the lock was taken.
    room: Option<StoreValueBlock>,
    /// The value of the key when it was decided last.
    before: Option<Vec<u8>>,
    /// The number of bytes for which no memory was free under the lock.
    missing: Option<usize>,
    /// The block that the slot has referred to, if it is not one that a client has written.
    damaged: Option<StoreValueBlock>,
    /// True if the last decision changes the slot.
    changes: bool,
    /// The block that the last decision lets the slot refer to.
    written: Option<StoreValueBlock>,
    /// Blocks of earlier decisions, which came too late.
    unused: Vec<StoreValueBlock>,
}

impl<E: Endpoint> PoolStoreClient<E> {
    /// Changes the entry of a long key, whose rest its slot does not hold, as `decide` returns for
    /// its value. Returns the old value. `decide` may be called more than once: the last decision
    /// counts. Four round trips, if the parent of the leaf is cached and the lock is free: two of
    /// them under the lock.
    ///
    /// # Errors
    /// The nodes' errors. Nothing was changed if the error is `Fabric`.
    pub async fn alter_long(
        &self,
        slot: &SlotKey,
        rest: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> LongKeyDecision,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let endpoint = self.tree.endpoint();
        let mut room = None;
        loop {
            // No guard may be held during a wait for memory, so a try that finds none ends.
            let reading = self.blocks.enter(endpoint).await?;
            let mut state = LongKeyTry {
                room: room.take(),
                ..LongKeyTry::default()
            };
            let decide_slot = async |held: Option<&[u8]>| {
                self.decide_long(&mut state, rest, held, &mut decide).await
            };
            let altered = self.alter(slot, decide_slot).await;
            let old = match altered {
                Ok(old) => old,
                Err(error) => {
                    // Otherwise another client may have seen the block.
                    if matches!(error, PoolError::Fabric(_)) {
                        state.unused.extend(state.written.take());
                        self.take_back_long(&mut state, &reading).await?;
                    }
                    return Err(error);
                }
            };
            self.take_back_long(&mut state, &reading).await?;
            if state.changes {
                let old = old.as_deref().map(|held| self.codec.decode_value(held));
                if let Some(StoreSlotValue::Outside(block)) = old {
                    let retired = self.blocks.retire(endpoint, &reading, block);
                    retired.await.map_err(undetermined)?;
                }
                return Ok(state.before);
            }
            // If the lock was lost, the block that was read may be another one by now.
            if !reading.is_valid(endpoint).await? {
                continue;
            }
            if let Some(block) = state.damaged {
                return Err(PoolError::Damaged { at: block.address });
            }
            let Some(bytes) = state.missing else {
                return Ok(state.before);
            };
            drop(reading);
            room = Some(self.blocks.reserve(endpoint, bytes).await?);
        }
    }

    /// Decides the new state of a slot of long keys, under the lock of its leaf.
    async fn decide_long(
        &self,
        state: &mut LongKeyTry,
        rest: &[u8],
        held: Option<&[u8]>,
        decide: &mut impl FnMut(Option<&[u8]>) -> LongKeyDecision,
    ) -> Result<KeyChangeDecision, PoolError> {
        // An earlier decision came too late.
        state.unused.extend(state.written.take());
        (state.changes, state.damaged, state.missing) = (false, None, None);
        let content = match held.map(|held| self.codec.decode_value(held)) {
            Some(StoreSlotValue::Outside(block)) => {
                let content = self.blocks.read(self.tree.endpoint(), block).await?;
                Some((block, content))
            }
            // No client writes another value to such a slot: its memory was damaged.
            Some(StoreSlotValue::Inline(_)) | None => None,
        };
        let mut entries = Vec::new();
        if let Some((block, content)) = &content {
            // The other keys of the block are written again, so all must be known.
            let Some(found) = long_keys::decode(content) else {
                state.damaged = Some(*block);
                return Ok(KeyChangeDecision::Keep);
            };
            entries = found;
        }
        let place = entries.binary_search_by(|(found, _)| (*found).cmp(rest));
        let before = place.ok().map(|at| entries[at].1);
        let decision = decide(before);
        state.before = before.map(<[u8]>::to_vec);
        match (&decision, place) {
            (LongKeyDecision::Keep, _) | (LongKeyDecision::Remove, Err(_)) => {
                return Ok(KeyChangeDecision::Keep);
            }
            (LongKeyDecision::Remove, Ok(at)) => {
                entries.remove(at);
            }
            (LongKeyDecision::Put(value), Ok(at)) => entries[at].1 = &value[..],
            (LongKeyDecision::Put(value), Err(at)) => entries.insert(at, (rest, &value[..])),
        }
        if entries.is_empty() {
            state.changes = true;
            return Ok(KeyChangeDecision::Remove);
        }
        self.write_long(state, &entries).await
    }

    /// Writes a block, under the lock of the leaf whose slot will refer to it.
    async fn write_long(
        &self,
        state: &mut LongKeyTry,
        entries: &[LongKeyEntry<'_>],
    ) -> Result<KeyChangeDecision, PoolError> {
        let endpoint = self.tree.endpoint();
        let Some(content) = long_keys::encode(entries) else {
            // Two of the longest values: as if no node had memory for both.
            let node = endpoint.nodes().first().copied().unwrap_or_default();
            let bytes: u64 = entries.iter().map(|(_, value)| value.len() as u64).sum();
            return Err(FabricError::OutOfMemory { node, bytes }.into());
        };
        let room = state.room.take();
        let fitting = room.and_then(|room| ValueBlockAllocator::resized(room, content.len()));
        let reserved = match fitting {
            Some(block) => Some(block),
            None => {
                state.unused.extend(room);
                self.blocks.reserve_now(endpoint, content.len()).await?
            }
        };
        let Some(block) = reserved else {
            state.missing = Some(content.len());
            return Ok(KeyChangeDecision::Keep);
        };
        let block = self.blocks.fill(endpoint, block, &content).await?;
        state.changes = true;
        state.written = Some(block);
        Ok(KeyChangeDecision::Put(self.codec.encode_block(block)))
    }

    /// Takes back the blocks that no slot refers to.
    async fn take_back_long(
        &self,
        state: &mut LongKeyTry,
        reading: &BlockReadGuard<'_>,
    ) -> Result<(), PoolError> {
        let endpoint = self.tree.endpoint();
        for block in state.unused.drain(..).chain(state.room.take()) {
            let taken = self.blocks.take_back(endpoint, reading, block);
            // A block that is lost only costs memory, but the change may have been made.
            taken.await.map_err(undetermined)?;
        }
        Ok(())
    }
}

/// Returns the error of an operation that may have been done.
fn undetermined(error: PoolError) -> PoolError {
    match error {
        PoolError::Fabric(error) => PoolError::Undetermined(error),
        error => error,
    }
}

impl<F: PoolEntryForm, E: Endpoint> StoreBatchRun<'_, '_, F, E> {
    /// Returns true if the key of a group is long.
    pub fn is_long(&self, group: OperationGroup) -> bool {
        let codec = &self.client.codec;
        codec.has_long_keys()
            && codec
                .rest(F::key_bytes(self.key(group.first())).as_ref())
                .is_some()
    }

    /// Executes all operations on a long key at one moment: under the lock of its slot's leaf.
    pub async fn change_long(&self, group: OperationGroup) {
        let (client, input) = (self.client, &self.input);
        let key = F::key_bytes(self.key(group.first()));
        let slot = self.slot_key(group);
        let rest = client.codec.rest(key.as_ref()).unwrap_or_default();
        // The operations for which there is no room. Usually there are none.
        let mut refused: Vec<usize> = Vec::new();
        loop {
            let positions = self.groups.operations(group);
            let positions: Vec<usize> = positions
                .filter(|position| !refused.contains(position))
                .collect();
            let set = Cell::new(None);
            let decide = |before: Option<&[u8]>| {
                let before = InitialKeyState::of(before.map(F::value_of));
                match fold(input, positions.iter().copied(), before, |_| {}) {
                    Fate::Before => LongKeyDecision::Keep,
                    Fate::Absent => LongKeyDecision::Remove,
                    Fate::Set(position) => {
                        set.set(Some(position));
                        let value = value_set(input, position).expect("the operation sets one");
                        LongKeyDecision::Put(F::value_bytes(value).as_ref().to_vec())
                    }
                }
            };
            let altered = client.alter_long(&slot, rest, decide).await;
            match altered {
                Ok(before) => {
                    let value = before.as_deref().map(F::value_of);
                    let output = &mut *self.output.borrow_mut();
                    let before = InitialKeyState::of(value);
                    fold(input, positions.iter().copied(), before, |met| {
                        write_outcome(input, output, met, value);
                    });
                    return;
                }
                Err(PoolError::Fabric(error @ FabricError::OutOfMemory { .. }))
                    if !positions.is_empty() =>
                {
                    let position = set.get().unwrap_or(positions[0]);
                    let error = self.no_room(position, &error);
                    self.output.borrow_mut().fail(position, error);
                    refused.push(position);
                }
                Err(error) => {
                    for &position in &positions {
                        let error = self.unknown(&error);
                        self.output.borrow_mut().fail(position, error);
                    }
                    return;
                }
            }
        }
    }
}
