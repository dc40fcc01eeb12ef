//! The move of a value from one tier to another.
//!
//! A move changes no data. It is reported neither to the log nor to clients that watch or cache a
//! key. It follows the steps of [`nearfield_tiers::claim`], so that nothing is locked while a tier
//! is written to: [`ValueMove::begin`] reads the value, in the shared phase; the new tier stores
//! it; and [`ValueMove::publish`] puts the new record in place of the old one, in the shared phase
//! and with the key's stripe. If the value has changed meanwhile, the move is abandoned and the
//! value stays where it was.
//!
//! Readers hold no stripe. They find either record in the index, and the value of the old one stays
//! until the next exclusive phase, like everything that is [given up](Keyspace::retire).

use super::record::is_in_slot;
use super::slots::ObjectSlot;
use super::{Database, Databases, Keyspace, Outside, RecordPayload, ValueRecord};
use crate::object::{HeapBytes, RedisType, StoredObject, TieredObject};
use nearfield_tiers::claim::{ClaimStore, MoveClaim, WatchedSlots};
use nearfield_tiers::{ColdPlace, ReadError, TierRefusal};

/// The reason why a value stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum ValueMoveError {
    /// The key does not exist.
    #[error("there is no such key")]
    Absent,
    /// The tier does not exist, or there are no tiers.
    #[error("there is no such tier")]
    NoTier,
    /// The value is already in the tier.
    #[error("the value is already in this tier")]
    There,
    /// The value is too small to be worth a move.
    #[error("the value has only {0} bytes")]
    Small(usize),
    /// Parts of the value are in several tiers, so that it moves node by node.
    #[error("parts of the value are in several tiers")]
    Parted,
    /// The value was changed meanwhile.
    #[error("the value was changed meanwhile")]
    Changed,
    /// The value cannot be read from its tier.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// The target tier refuses the value.
    #[error(transparent)]
    Refused(#[from] TierRefusal),
    /// The index refuses the record.
    #[error(transparent)]
    Index(#[from] nearfield::OperationError),
}

/// A value in the middle of a move. See the [module](self).
#[derive(Debug)]
pub struct ValueMove<'k> {
    keyspace: &'k Keyspace,
    /// The number of the database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The record through which the value was read.
    stored: Vec<u8>,
    /// The value: a string itself, or a frozen object.
    pub value: Vec<u8>,
    /// The time at which the first of its fields expires, or a time before that.
    soonest_ms: Option<u64>,
    claim: MoveClaim<'k, Keyspace>,
}

/// Returns the tier in which the value of a record is stored.
pub fn tier_of(record: &ValueRecord<'_>) -> usize {
    match record.payload {
        RecordPayload::Inline(_) | RecordPayload::InSlot(_) => 0,
        RecordPayload::InTier(place) => place.tier(),
    }
}

impl<'k> ValueMove<'k> {
    /// Reads the value of a key, which must have at least `bytes_min` bytes.
    ///
    /// # Errors
    /// The value cannot move.
    pub fn begin(
        keyspace: &'k Keyspace,
        databases: &Databases,
        (number, key): (usize, &[u8]),
        bytes_min: usize,
    ) -> Result<ValueMove<'k>, ValueMoveError> {
        let entries = databases.get(number).and_then(Database::entries);
        let stored = entries.ok_or(ValueMoveError::Absent)?.get(key)?;
        let stored: Vec<u8> = stored.ok_or(ValueMoveError::Absent)?.into();
        let record = ValueRecord::parse(&stored);
        // The claim is taken before the value is read, so that no change after the read is missed.
        let mut moving = ValueMove {
            keyspace,
            database: number,
            key: key.to_vec(),
            value: Vec::new(),
            soonest_ms: None,
            claim: MoveClaim::take(keyspace, record.outside()),
            stored: Vec::new(),
        };
        match record.payload {
            RecordPayload::Inline(value) => {
                if value.len() < bytes_min {
                    return Err(ValueMoveError::Small(value.len()));
                }
                moving.value.extend_from_slice(value);
            }
            RecordPayload::InSlot(slot) => match &*keyspace.slots.open(slot) {
                Some(object) if object.parted().is_some_and(TieredObject::is_parted) => {
                    return Err(ValueMoveError::Parted);
                }
                Some(object) => {
                    if let StoredObject::Hash(hash) = object {
                        moving.soonest_ms = hash.soonest_ms();
                    }
                    object.freeze(&mut moving.value);
                }
                None => return Err(ValueMoveError::Changed),
            },
            RecordPayload::InTier(place) => {
                // The note belongs to this value, because the claim keeps the place from being
                // reused.
                moving.soonest_ms = keyspace.cold_notes.time_ms(place);
                keyspace.cold.read_to_move(place, &mut moving.value)?;
            }
        }
        moving.stored = stored;
        match moving.value.len() {
            bytes if bytes < bytes_min => Err(ValueMoveError::Small(bytes)),
            _ => Ok(moving),
        }
    }

    /// Returns the tier in which the value was.
    pub fn from(&self) -> usize {
        self.claim.place().map_or(0, ColdPlace::tier)
    }

    /// Makes the key refer to the value at `place`, in the tier that has stored it; `None` is the
    /// memory of the keyspace itself. Must be called with the key's stripe held. If the value has
    /// changed meanwhile, or the index has no room, the place is released.
    ///
    /// # Errors
    /// The reason why the value stays where it was.
    pub fn publish(
        self,
        databases: &Databases,
        place: Option<ColdPlace>,
    ) -> Result<(), ValueMoveError> {
        debug_assert!(place.is_none_or(|place| place.tier() > 0));
        let published = match place {
            Some(place) => {
                // Noted before a record refers to the place: a thread that gives the place up then
                // finds the note.
                let database = databases.get(self.database);
                if let Some((database, time_ms)) = database.zip(self.soonest_ms) {
                    let (all, notes) = (&self.keyspace.cold_notes, database.field_notes());
                    all.set(place, notes, time_ms, &self.key);
                }
                self.publish_as(databases, RecordPayload::InTier(place))
            }
            None => self.publish_in_memory(databases),
        };
        let (cold, to) = (&self.keyspace.cold, place.map_or(0, ColdPlace::tier));
        match &published {
            Ok(()) => cold.count_move(self.from(), to, self.value.len()),
            Err(_) => {
                cold.count_abandoned(to);
                if let Some(place) = place {
                    self.keyspace.cold_notes.remove(place);
                    cold.release(place);
                }
            }
        }
        published
    }

    fn publish_in_memory(&self, databases: &Databases) -> Result<(), ValueMoveError> {
        let record = ValueRecord::parse(&self.stored);
        let heap = &self.keyspace.heap;
        if record.kind == RedisType::String && !is_in_slot(record.raw, self.value.len()) {
            return self.publish_as(databases, RecordPayload::Inline(&self.value));
        }
        let mut object = match record.kind {
            RedisType::String => {
                StoredObject::Text(Box::new(HeapBytes::new_in(&self.value, heap.clone())))
            }
            kind => {
                let thawed = StoredObject::thaw(kind, &self.value, heap);
                thawed.map_err(|_| ReadError::Damaged)?
            }
        };
        if let Some(database) = databases.get(self.database) {
            database.note_fields(&self.key, &mut object);
        }
        let slots = &self.keyspace.slots;
        let slot = slots.put(object).ok_or(TierRefusal::Full)?;
        let published = self.publish_as(databases, RecordPayload::InSlot(slot));
        if published.is_err() {
            // No record has named the slot, so that no thread can be reading it.
            slots.withdraw(slot);
        }
        published
    }

    fn publish_as(
        &self,
        databases: &Databases,
        payload: RecordPayload<'_>,
    ) -> Result<(), ValueMoveError> {
        let database = databases.get(self.database);
        let entries = database.and_then(Database::entries);
        let entries = entries.ok_or(ValueMoveError::Changed)?;
        let old = ValueRecord::parse(&self.stored);
        // Objects of other types have no form within a record.
        debug_assert!(
            old.kind == RedisType::String || !matches!(payload, RecordPayload::Inline(_))
        );
        let was_in_slot = matches!(old.payload, RecordPayload::InSlot(_));
        let record = ValueRecord {
            payload,
            // A string in a slot is known not to be an embedded one.
            raw: old.raw || was_in_slot && old.kind == RedisType::String,
            ..old
        };
        let mut stored = Vec::new();
        record.write(&mut stored);
        // The whole record is compared: a new expiry is a change, too.
        let replace = || entries.update(&self.key, Some(&self.stored), &stored);
        match self.claim.publish(replace)? {
            true => Ok(()),
            false => Err(ValueMoveError::Changed),
        }
    }
}

impl ClaimStore for Keyspace {
    type Slot = ObjectSlot;
    type Place = ColdPlace;

    fn watched(&self) -> &WatchedSlots<ObjectSlot> {
        self.slots.watched()
    }

    fn hold(&self, place: ColdPlace) {
        self.cold.hold(place);
    }

    fn release_hold(&self, place: ColdPlace) {
        self.cold.release_hold(place);
    }

    fn retire(&self, outside: Outside) {
        Keyspace::retire(self, Some(outside));
    }
}

impl Keyspace {
    /// Moves the value of a key at once, a large one node by node. The caller holds the key's
    /// stripe or has the keyspace to itself.
    ///
    /// # Errors
    /// The reason why the value stays where it is.
    pub fn move_value(
        &self,
        databases: &Databases,
        (number, key): (usize, &[u8]),
        to: usize,
        bytes_min: usize,
    ) -> Result<(), ValueMoveError> {
        let tiers = self.cold.tiers().ok_or(ValueMoveError::NoTier)?;
        if to >= tiers.count() {
            return Err(ValueMoveError::NoTier);
        }
        if let Some(moved) = self.move_nodes(databases, (number, key), to) {
            return moved;
        }
        let moving = ValueMove::begin(self, databases, (number, key), bytes_min)?;
        if moving.from() == to {
            return Err(ValueMoveError::There);
        }
        let place = match to {
            0 => None,
            to => self.cold.put(to, &[&moving.value])?.first().copied(),
        };
        moving.publish(databases, place)
    }
}

/// The result of counting all values. For tests and checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recount {
    /// The number of values in each tier, memory first. A node in a cold tier counts as a value
    /// there.
    pub values: Vec<u64>,
    /// The bytes of these values, as they are without their tier. For memory: the bytes that
    /// objects and long strings take from their heap.
    pub bytes: Vec<u64>,
}

impl Recount {
    fn add(&mut self, tier: usize, bytes: usize) -> Result<(), ValueMoveError> {
        let sums = self.values.get_mut(tier).zip(self.bytes.get_mut(tier));
        let (values, sum) = sums.ok_or(ValueMoveError::NoTier)?;
        *values += 1;
        *sum += bytes as u64;
        Ok(())
    }
}

impl Keyspace {
    /// Counts all values, and reads all of them. The caller has the keyspace to itself.
    ///
    /// # Errors
    /// A value cannot be read.
    pub fn recount(&self, databases: &Databases) -> Result<Recount, ValueMoveError> {
        let tiers = self.cold.tiers().ok_or(ValueMoveError::NoTier)?;
        let mut recount = Recount {
            values: vec![0; tiers.count()],
            bytes: vec![0; tiers.count()],
        };
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let entries = databases.iter().filter_map(Database::entries);
        let (mut value, mut nodes) = (Vec::new(), Vec::new());
        for entry in entries.flat_map(|entries| entries.range(all)) {
            let (_, stored) = entry?;
            let record = ValueRecord::parse(&stored);
            let bytes = match record.payload {
                RecordPayload::Inline(_) => 0,
                RecordPayload::InSlot(slot) => {
                    let object = self.slots.open(slot);
                    let parted = object.as_ref().and_then(StoredObject::parted);
                    let all = parted.map_or_else(Vec::new, TieredObject::nodes);
                    nodes.extend(all.into_iter().filter_map(|(_, place)| place));
                    // `heap_bytes` opens the slot once more.
                    drop(object);
                    self.heap_bytes(slot)
                }
                RecordPayload::InTier(place) => {
                    value.clear();
                    self.cold.read(place, &mut value)?;
                    value.len()
                }
            };
            recount.add(tier_of(&record), bytes)?;
        }
        for place in nodes {
            value.clear();
            self.cold.read(place, &mut value)?;
            recount.add(place.tier(), value.len())?;
        }
        Ok(recount)
    }

    fn heap_bytes(&self, slot: ObjectSlot) -> usize {
        let object = self.slots.open(slot);
        object.as_ref().map_or(0, StoredObject::heap_bytes)
    }
}
