//! Changes of a batch: the operations on one key are executed as one, under the lock of its leaf,
//! and the changes of several keys of a leaf under one lock.

use super::batch::StoreBatchRun;
use super::blocks::BlockReadGuard;
use super::form::{PoolEntryForm, SlotKey, StoreSlotValue, StoreValueBlock};
use crate::chime::KeyChangeDecision;
use crate::error::PoolError;
use nearfield_core::OperationError;
use nearfield_core::plan::{
    Fate, InitialKeyState, OperationGroup, compares, fold, value_set, write_outcome,
};
use nearfield_fabric::{Endpoint, FabricError, FabricVerb};

/// Maximum number of keys that are changed under one lock. More would delay the other clients of
/// the leaf.
const CHANGES_TOGETHER_MAX: usize = 64;
/// Number of bytes of new values up to which keys are changed under one lock: the memory of all is
/// allocated before, and the old values keep theirs until afterwards.
const VALUE_BYTES_MAX: usize = 1 << 16;

/// The operations on a key, and the preparations for the lock of its leaf.
struct PreparedChange {
    group: OperationGroup,
    slot: SlotKey,
    /// The operations that were refused, for which there is no room. Usually there are none.
    refused: Vec<usize>,
    /// True if an operation compares the old value.
    has_to_compare: bool,
    /// Set values: the position of the operation, the slot's bytes, and the block of a long one.
    placed: Vec<(usize, Vec<u8>, Option<StoreValueBlock>)>,
    /// The state of the key after the last decision.
    fate: Fate,
    /// The refusal of the operation whose value has found no memory under the lock.
    no_room: Option<(usize, OperationError)>,
}

impl<F: PoolEntryForm, E: Endpoint> StoreBatchRun<'_, '_, F, E> {
    /// Returns the number of groups, from the first one on, that are changed together: those on
    /// keys of one leaf, as far as the cache shows. `slots` are their keys, which ascend.
    pub fn count_together(&self, slots: &[SlotKey], groups: &[OperationGroup]) -> usize {
        let groups = groups.iter().take(CHANGES_TOGETHER_MAX);
        let mut bytes = 0;
        let together = groups.take_while(|group| {
            bytes += self.count_value_bytes(**group);
            bytes <= VALUE_BYTES_MAX && !self.may_read_a_block(**group) && !self.is_long(**group)
        });
        match together.count() {
            0 | 1 => 1,
            together => self.client.tree.keys_of_a_leaf(&slots[..together]),
        }
    }

    /// Returns the number of bytes of the values that the operations of a group set.
    fn count_value_bytes(&self, group: OperationGroup) -> usize {
        let positions = self.groups.operations(group);
        let values = positions.filter_map(|position| value_set(&self.input, position));
        values
            .map(|value| F::value_bytes(value).as_ref().len())
            .sum()
    }

    /// Returns true if an operation may compare a value in a block, which takes a round trip under
    /// the lock. Such a key is changed alone.
    fn may_read_a_block(&self, group: OperationGroup) -> bool {
        let mut positions = self.groups.operations(group);
        !F::IS_WORDS && positions.any(|position| compares(&self.input, position))
    }

    /// Executes all operations on some keys, which ascend. Those on one key are executed at one
    /// moment: under the lock of its leaf.
    pub async fn change(&self, groups: &[OperationGroup]) {
        if let &[group] = groups
            && self.is_long(group)
        {
            // Rare, and its state is large.
            return Box::pin(self.change_long(group)).await;
        }
        let prepare = |&group: &OperationGroup| {
            let mut positions = self.groups.operations(group);
            PreparedChange {
                group,
                slot: self.slot_key(group),
                refused: Vec::new(),
                has_to_compare: positions.any(|position| compares(&self.input, position)),
                placed: Vec::new(),
                fate: Fate::Before,
                no_room: None,
            }
        };
        let mut left: Vec<PreparedChange> = groups.iter().map(prepare).collect();
        let mut together = left.len();
        // Usually there is one round. Another refuses one more operation, for which there is no
        // room, or changes the keys that turned out to be in another leaf.
        while !left.is_empty() {
            let rest = left.split_off(together.min(left.len()));
            left = match self.change_some(left).await {
                Ok(left) => left,
                // Alone, each key shows if there is room for it, or if its own leaf is lost.
                Err(unchanged) => {
                    together = 1;
                    unchanged
                }
            };
            left.extend(rest);
        }
    }

    /// Changes some keys, and returns those that must be changed again or are in another leaf.
    /// Returns all as an error if a node has no room for several of them, or is lost; then none was
    /// changed.
    async fn change_some(
        &self,
        mut changes: Vec<PreparedChange>,
    ) -> Result<Vec<PreparedChange>, Vec<PreparedChange>> {
        let client = self.client;
        self.place_last(&mut changes).await;
        // The operations may have waited for memory for values. No guard may be held during such a
        // wait, so it is taken now.
        let reading = match client.blocks.enter(client.tree.endpoint()).await {
            Ok(reading) => reading,
            Err(error) => {
                for change in &changes {
                    self.fail(change, || self.unreachable(&error));
                }
                return Ok(Vec::new());
            }
        };
        let altered = if changes.len() == 1 {
            let change = &mut changes[0];
            let slot = change.slot.clone();
            let decide = async |before: Option<&[u8]>| self.decide(change, before).await;
            let altered = client.alter(&slot, decide).await;
            altered.map(|before| vec![before])
        } else {
            let slots: Vec<SlotKey> = changes.iter().map(|change| change.slot.clone()).collect();
            let decide = async |number: usize, before: Option<&[u8]>| {
                self.decide(&mut changes[number], before).await
            };
            client.tree.alter_each(&slots, decide).await
        };
        let slots = match altered {
            Ok(slots) => slots,
            Err(PoolError::Fabric(error @ FabricError::OutOfMemory { .. })) => {
                return match changes.len() {
                    1 => Ok(self.refuse_first(changes, &error)),
                    _ => Err(changes),
                };
            }
            Err(PoolError::Fabric(
                FabricError::NodeLost { .. } | FabricError::NoSuchNode { .. },
            )) if changes.len() > 1 => return Err(changes),
            Err(error) => {
                for change in &mut changes {
                    // `Fabric` means that nothing was changed. Otherwise another client may have
                    // seen the blocks.
                    if matches!(error, PoolError::Fabric(_)) {
                        change.fate = Fate::Before;
                        self.take_back(change, &reading).await;
                    }
                    self.fail(change, || self.unknown(&error));
                }
                return Ok(Vec::new());
            }
        };
        let untouched = changes.split_off(slots.len());
        let mut again = Vec::new();
        let mut made = Vec::new();
        for (mut change, slot) in changes.into_iter().zip(slots) {
            self.take_back(&mut change, &reading).await;
            match change.no_room.take() {
                Some((position, error)) => {
                    self.refuse(&mut change, position, error);
                    again.push(change);
                }
                None => made.push((change, slot)),
            }
        }
        again.extend(self.tell(made, &reading).await);
        again.sort_unstable_by(|one, other| one.slot[..].cmp(&other.slot[..]));
        again.extend(untouched);
        Ok(again)
    }

    /// Returns the operations of a change that were not refused.
    fn positions(&self, change: &PreparedChange) -> impl Iterator<Item = usize> + Clone {
        let refused = &change.refused;
        let positions = self.groups.operations(change.group);
        positions.filter(move |position| !refused.contains(position))
    }

    /// Places the last value that is set of each key, which is most likely the final one. Values in
    /// blocks are written by one post.
    async fn place_last(&self, changes: &mut [PreparedChange]) {
        let (client, endpoint) = (self.client, self.client.tree.endpoint());
        let mut blocks = Vec::new();
        for (number, change) in changes.iter_mut().enumerate() {
            // A block that was written in an earlier round may be lost with its node since.
            change.placed.retain(|(_, _, block)| {
                block.is_none_or(|block| endpoint.is_reachable(block.address.node()))
            });
            loop {
                let set = self.positions(change);
                let set = set.filter(|&position| value_set(&self.input, position).is_some());
                let Some(position) = set.last() else { break };
                // Placed in an earlier round, which did not come to this key.
                if change.placed.iter().any(|placed| placed.0 == position) {
                    break;
                }
                let value = value_set(&self.input, position).expect("it sets a value");
                match client.reserve(F::value_bytes(value).as_ref()).await {
                    Ok((slot, block)) => {
                        change.placed.push((position, slot, block));
                        if let Some(block) = block {
                            blocks.push((number, block, F::value_bytes(value)));
                        }
                        break;
                    }
                    Err(error) => {
                        let error = self.not_placed(position, &error);
                        self.refuse(change, position, error);
                    }
                }
            }
        }
        if blocks.is_empty() {
            return;
        }
        let mut verbs: Vec<FabricVerb<'_>> = blocks
            .iter()
            .map(|(_, block, value)| FabricVerb::Write {
                to: block.address,
                bytes: value.as_ref(),
            })
            .collect();
        if endpoint.post(&mut verbs).await.is_ok() {
            return;
        }
        // A node is lost, which must not concern the blocks of others. Each block is still unknown
        // to other clients, so it may be written twice.
        for (number, block, value) in &blocks {
            let change = &mut changes[*number];
            let Some((position, _, _)) = change.placed.pop() else {
                continue;
            };
            match client.blocks.fill(endpoint, *block, value.as_ref()).await {
                Ok(block) => {
                    let slot = client.codec.encode_block(block);
                    change.placed.push((position, slot, Some(block)));
                }
                Err(error) => {
                    let error = self.not_placed(position, &error);
                    self.refuse(change, position, error);
                }
            }
        }
    }

    /// Decides the new state of a key by its slot, under the lock of its leaf.
    async fn decide(
        &self,
        change: &mut PreparedChange,
        slot: Option<&[u8]>,
    ) -> Result<KeyChangeDecision, PoolError> {
        let (client, input) = (self.client, &self.input);
        // An earlier decision came too late.
        change.no_room = None;
        let held = slot.map(|slot| client.codec.decode_value(slot));
        let read;
        // A long value costs a round trip under the lock, so it is read only if an operation
        // compares it.
        let value = match held {
            Some(StoreSlotValue::Inline(value)) => Some(value),
            Some(StoreSlotValue::Outside(block)) if change.has_to_compare => {
                read = client.blocks.read(client.tree.endpoint(), block).await?;
                Some(&read[..])
            }
            _ => None,
        };
        let is_present = held.is_some();
        let before = InitialKeyState {
            is_present,
            value: value.map(F::value_of),
        };
        let fate = fold(input, self.positions(change), before, |_| {});
        change.fate = fate;
        Ok(match fate {
            Fate::Before => KeyChangeDecision::Keep,
            Fate::Absent if is_present => KeyChangeDecision::Remove,
            Fate::Absent => KeyChangeDecision::Keep,
            Fate::Set(position) => {
                let known = change.placed.iter().position(|placed| placed.0 == position);
                let known = match known {
                    Some(known) => known,
                    None => match self.place(position).await {
                        Ok((slot, block)) => {
                            change.placed.push((position, slot, block));
                            change.placed.len() - 1
                        }
                        Err(error) => {
                            change.no_room = Some((position, self.not_placed(position, &error)));
                            return Ok(KeyChangeDecision::Keep);
                        }
                    },
                };
                KeyChangeDecision::Put(change.placed[known].1.clone())
            }
        })
    }

    /// Takes back the blocks of a change that has ended and does not use them.
    async fn take_back(&self, change: &mut PreparedChange, reading: &BlockReadGuard<'_>) {
        let (blocks, endpoint) = (&self.client.blocks, self.client.tree.endpoint());
        for (position, _, block) in std::mem::take(&mut change.placed) {
            if let Some(block) = block
                && (change.fate != Fate::Set(position) || change.no_room.is_some())
                // A block that is lost only costs memory.
                && let Err(error) = blocks.take_back(endpoint, reading, block).await
            {
                self.unreachable(&error);
            }
        }
    }

    /// Refuses an operation that needs memory, because the tree could not grow, of a key that was
    /// changed alone. Nothing was changed, so its block is taken back with those of the next round.
    fn refuse_first(
        &self,
        mut changes: Vec<PreparedChange>,
        error: &FabricError,
    ) -> Vec<PreparedChange> {
        for change in &mut changes {
            change.no_room = None;
            // Only an operation that sets a value can have needed memory.
            let first_set = self
                .positions(change)
                .find(|&at| value_set(&self.input, at).is_some());
            let position = first_set.unwrap_or(change.group.first());
            let error = self.no_room(position, error);
            self.refuse(change, position, error);
        }
        changes
    }

    /// Writes the outcomes of the operations on keys that were changed; the slots are those before
    /// the changes. Returns the changes that must be made again, because bytes that were read
    /// cannot be trusted: nothing was changed.
    async fn tell(
        &self,
        made: Vec<(PreparedChange, Option<Vec<u8>>)>,
        reading: &BlockReadGuard<'_>,
    ) -> Vec<PreparedChange> {
        let client = self.client;
        let mut reads = self.read_old(&made, reading).await.into_iter();
        let mut again = Vec::new();
        for (change, slot) in made {
            let held = slot.as_deref().map(|slot| client.codec.decode_value(slot));
            let read = match held {
                Some(StoreSlotValue::Outside(_)) => reads.next(),
                _ => None,
            };
            let value = match (held, &read) {
                (Some(StoreSlotValue::Inline(value)), _) => Some(value),
                (_, Some(Err(PoolError::Session))) if change.fate == Fate::Before => {
                    again.push(change);
                    continue;
                }
                (_, Some(Err(error))) => {
                    self.fail(&change, || self.unknown(error));
                    continue;
                }
                (_, Some(Ok(value))) => Some(&value[..]),
                (_, None) => None,
            };
            let is_present = held.is_some();
            let output = &mut *self.output.borrow_mut();
            let value = value.map(F::value_of);
            let before = InitialKeyState { is_present, value };
            fold(&self.input, self.positions(&change), before, |met| {
                write_outcome(&self.input, output, met, value);
            });
        }
        again
    }

    /// Reads the old values that are in blocks, by one post, and retires those that were replaced.
    /// Returns each value, or the reason why it is not known.
    async fn read_old(
        &self,
        made: &[(PreparedChange, Option<Vec<u8>>)],
        reading: &BlockReadGuard<'_>,
    ) -> Vec<Result<Vec<u8>, PoolError>> {
        let (client, endpoint) = (self.client, self.client.tree.endpoint());
        let (mut blocks, mut replaced) = (Vec::new(), Vec::new());
        for (change, slot) in made {
            let held = slot.as_deref().map(|slot| client.codec.decode_value(slot));
            if let Some(StoreSlotValue::Outside(block)) = held {
                if change.fate != Fate::Before {
                    replaced.push(blocks.len());
                }
                blocks.push(block);
            }
        }
        if blocks.is_empty() {
            return Vec::new();
        }
        let together = client.blocks.read_all(endpoint, &blocks).await;
        let mut reads: Vec<Result<Vec<u8>, PoolError>> = match together {
            Ok(values) => values.into_iter().map(Ok).collect(),
            // One block is damaged or on a lost node, which must not concern the others.
            Err(_) => {
                let mut alone = Vec::with_capacity(blocks.len());
                for &block in &blocks {
                    alone.push(client.blocks.read(endpoint, block).await);
                }
                alone
            }
        };
        // No slot refers to them any more, but other clients may be about to read them. Those that
        // cannot be read are retired as well, because their nodes may come back.
        for number in replaced {
            let retired = client.blocks.retire(endpoint, reading, blocks[number]);
            if let Err(error) = retired.await {
                reads[number] = Err(error);
            }
        }
        let reason = match reading.is_valid(endpoint).await {
            Ok(true) => return reads,
            Ok(false) => PoolError::Session,
            Err(error) => error,
        };
        vec![Err(reason); blocks.len()]
    }

    /// Returns the slot's bytes for the value that an operation sets.
    async fn place(
        &self,
        position: usize,
    ) -> Result<(Vec<u8>, Option<StoreValueBlock>), PoolError> {
        let value = value_set(&self.input, position).expect("only of operations that set a value");
        self.client.place(F::value_bytes(value).as_ref()).await
    }

    /// Refuses an operation; the others on its key are executed without it.
    fn refuse(&self, change: &mut PreparedChange, position: usize, error: OperationError) {
        self.output.borrow_mut().fail(position, error);
        change.refused.push(position);
    }

    /// Fails all operations of a change, each by the error that `note` returns, which also notes
    /// the failure.
    fn fail(&self, change: &PreparedChange, note: impl Fn() -> OperationError) {
        for position in self.positions(change) {
            let error = note();
            self.output.borrow_mut().fail(position, error);
        }
    }

    /// Returns the error of an operation whose value found no place.
    fn not_placed(&self, position: usize, error: &PoolError) -> OperationError {
        match error {
            PoolError::Fabric(error @ FabricError::OutOfMemory { .. }) => {
                self.no_room(position, error)
            }
            error => self.unreachable(error),
        }
    }

    pub(super) fn no_room(&self, position: usize, error: &FabricError) -> OperationError {
        let key = F::key_bytes(self.key(position));
        let key = OperationError::shorten(key.as_ref());
        let what = format!("entry of key {key:?}: {error}");
        OperationError::OutOfMemory { what }
    }

    pub(super) fn unknown(&self, error: &PoolError) -> OperationError {
        self.client.note_failure(error);
        let what = error.to_string();
        OperationError::Unknown { what }
    }
}
