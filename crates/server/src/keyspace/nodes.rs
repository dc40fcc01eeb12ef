//! Values that are stored in several tiers, node by node.
//!
//! A node belongs to a slot's object, never to a record. A thread that reads, changes or moves a
//! node holds the lock of the slot. So a move is seen as a whole, and a node that is given up is
//! released at once. A move takes the three steps of [`nearfield_tiers::claim`], but it claims the
//! node, not the record. The chunk of a list has a number that no other chunk ever has, and a
//! version that each change and each move increments. The value of a field is unchanged if its
//! bytes are equal, or if it is at the same place, which is held until the move ends. So a list
//! that is pushed to all the time can still move its middle, and a key that is renamed, deleted or
//! replaced meanwhile needs no special care.

use super::cold::ColdPlaceGuard;
use super::{Database, Databases, Keyspace, Outside, RecordPayload, ValueMoveError, ValueRecord};
use crate::error::CommandError;
use crate::object::node::{Met, ObjectNodeCopy};
use crate::object::{ColdNodeError, ObjectPart, StoredObject, TieredObject};
use nearfield_tiers::keep::ValueName;
use nearfield_tiers::{ColdPlace, ReadError, TierRefusal};

/// A node in the middle of a move to another tier. See the [module](self).
#[derive(Debug)]
pub struct MovingNode<'k> {
    keyspace: &'k Keyspace,
    slot: super::slots::ObjectSlot,
    copied: ObjectNodeCopy,
    /// The hold on the node's old place, which keeps the place from being reused.
    _held: Option<ColdPlaceGuard>,
    /// The node in the form that a cold tier stores.
    pub value: Vec<u8>,
}

impl<'k> MovingNode<'k> {
    /// Reads a node of a key's value. Searches for it from `hint` on, and sets `hint` to the index
    /// after it.
    ///
    /// # Errors
    /// The node cannot move.
    pub fn begin(
        keyspace: &'k Keyspace,
        databases: &Databases,
        named: &ValueName,
        hint: &mut usize,
    ) -> Result<MovingNode<'k>, ValueMoveError> {
        let slot = keyspace.slot_of(databases, (named.part, &named.key))?;
        let mut value = Vec::new();
        let object = keyspace.slots.open(slot.ok_or(ValueMoveError::Absent)?);
        let parted = object.as_ref().and_then(StoredObject::parted);
        let copied = parted.and_then(|it| it.copy_node(named.node, *hint, &mut value));
        let copied = copied.ok_or(ValueMoveError::Absent)?;
        *hint = copied.index() + 1;
        // The node may be given up as soon as the slot is closed.
        let held = copied
            .place()
            .map(|it| ColdPlaceGuard::new(&keyspace.cold, it));
        // Commands on the key wait for the lock of the slot, but not for the disk.
        drop(object);
        if let Some(place) = copied.place() {
            keyspace.cold.read_to_move(place, &mut value)?;
        }
        Ok(MovingNode {
            keyspace,
            slot: slot.ok_or(ValueMoveError::Absent)?,
            copied,
            _held: held,
            value,
        })
    }

    /// Returns the tier in which the node was.
    pub fn from(&self) -> usize {
        self.copied.place().map_or(0, ColdPlace::tier)
    }

    /// Moves the node to `place`, in the tier that has stored it; `None` is the memory of the
    /// keyspace itself. Must be called in a shared phase. If the node has changed meanwhile, the
    /// place is released.
    ///
    /// # Errors
    /// The reason why the node stays where it was.
    pub fn publish(
        self,
        _databases: &Databases,
        place: Option<ColdPlace>,
    ) -> Result<(), ValueMoveError> {
        debug_assert!(place.is_none_or(|place| place.tier() > 0));
        let cold = &self.keyspace.cold;
        let mut object = self.keyspace.slots.open(self.slot);
        let moved = match object.as_mut().and_then(StoredObject::parted_mut) {
            Some(parted) => parted.move_node(&self.copied, place, cold, &self.value),
            None => Ok(false),
        };
        drop(object);
        let to = place.map_or(0, ColdPlace::tier);
        if let Ok(true) = moved {
            cold.count_move(self.from(), to, self.value.len());
            return Ok(());
        }
        cold.count_abandoned(to);
        place.into_iter().for_each(|place| cold.release(place));
        match moved {
            Ok(_) => Err(ValueMoveError::Changed),
            Err(_) => Err(ReadError::Damaged.into()),
        }
    }
}

impl Keyspace {
    /// Returns the slot of a key's object, if it has one.
    fn slot_of(
        &self,
        databases: &Databases,
        (number, key): (usize, &[u8]),
    ) -> Result<Option<super::slots::ObjectSlot>, ValueMoveError> {
        let database = databases.get(number).ok_or(ValueMoveError::Absent)?;
        let slot = database.read(key, |record| match record.payload {
            RecordPayload::InSlot(slot) => Some(slot),
            RecordPayload::Inline(_) | RecordPayload::InTier(_) => None,
        })?;
        slot.ok_or(ValueMoveError::Absent)
    }

    /// Lends the nodes of an object that a command reads. Returns true if there are any.
    /// [`end_loan`](Keyspace::end_loan) takes them back.
    ///
    /// # Errors
    /// A node cannot be read. The error names the key.
    #[inline]
    pub fn lend<'a>(
        &self,
        (number, key): (usize, &[u8]),
        object: &mut Option<StoredObject>,
        part: impl FnOnce() -> ObjectPart<'a>,
        is_use: bool,
    ) -> Result<bool, CommandError> {
        let Some(parted) = self.attended(object) else {
            return Ok(false);
        };
        let mut met = Met::new();
        let is_lent = parted.lend(&part(), is_use, &mut met).map_err(|unread| {
            // Nodes that were lent before the failure go back as well.
            parted.end_loan();
            self.unread(key, &unread)
        })?;
        for (node, place) in &met {
            self.cold.note_use_of_node(number, key, *node, *place);
        }
        Ok(is_lent)
    }

    /// Takes back the nodes that were lent of an object.
    pub fn end_loan(object: &mut Option<StoredObject>) {
        if let Some(parted) = object.as_mut().and_then(StoredObject::parted_mut) {
            parted.end_loan();
        }
    }

    /// Brings the nodes of an object that a command changes into memory.
    ///
    /// # Errors
    /// A node cannot be read. The error names the key.
    #[inline]
    pub fn warm<'a>(
        &self,
        key: &[u8],
        object: &mut Option<StoredObject>,
        part: impl FnOnce() -> ObjectPart<'a>,
    ) -> Result<(), CommandError> {
        let Some(parted) = self.attended(object) else {
            return Ok(());
        };
        let mut warmed = |place: ColdPlace, bytes| self.cold.count_move(place.tier(), 0, bytes);
        parted
            .warm(&part(), &self.limits(), &mut warmed)
            .map_err(|unread| self.unread(key, &unread))
    }

    #[inline]
    fn attended<'o>(
        &self,
        object: &'o mut Option<StoredObject>,
    ) -> Option<&'o mut dyn TieredObject> {
        // Most servers have no tiers, and objects then have no node elsewhere.
        self.cold.tiers()?;
        let parted = object.as_mut().and_then(StoredObject::parted_mut);
        parted.filter(|parted| parted.is_attended())
    }

    /// Creates the error of a node that cannot be read.
    #[cold]
    pub(super) fn unread(&self, key: &[u8], unread: &ColdNodeError) -> CommandError {
        self.unreadable(key, unread.place, &unread.why)
    }

    /// Moves all nodes of a value. The caller holds the key's stripe or has the keyspace to itself.
    /// Returns `None` if the value moves as a whole.
    pub(super) fn move_nodes(
        &self,
        databases: &Databases,
        (number, key): (usize, &[u8]),
        to: usize,
    ) -> Option<Result<(), ValueMoveError>> {
        let slot = self.slot_of(databases, (number, key)).ok().flatten()?;
        let object = self.slots.open(slot);
        let parted = object.as_ref().and_then(StoredObject::parted);
        parted.filter(|parted| parted.moves_by_nodes())?;
        drop(object);
        let (mut hint, mut result) = (0, Err(ValueMoveError::There));
        for (node, _) in self.nodes_of(databases, (number, key)) {
            let named = ValueName {
                part: number,
                key: key.to_vec(),
                node,
            };
            // One node that moves makes it a move. Nodes that are there already do not count.
            match self.move_node(databases, &named, to, &mut hint) {
                Ok(()) if matches!(result, Err(ValueMoveError::There)) => result = Ok(()),
                Ok(()) | Err(ValueMoveError::There) => {}
                Err(error) => result = Err(error),
            }
        }
        Some(result)
    }

    /// Returns the numbers of the nodes of a key's value, and the places of those in cold tiers.
    /// The result is empty if the value has no nodes.
    pub fn nodes_of(
        &self,
        databases: &Databases,
        place: (usize, &[u8]),
    ) -> Vec<(u64, Option<ColdPlace>)> {
        let Ok(Some(slot)) = self.slot_of(databases, place) else {
            return Vec::new();
        };
        let object = self.slots.open(slot);
        let parted = object.as_ref().and_then(StoredObject::parted);
        parted.map_or_else(Vec::new, TieredObject::nodes)
    }

    /// Moves a node of a value at once. Searches for it from `hint` on. The caller holds the key's
    /// stripe or has the keyspace to itself.
    ///
    /// # Errors
    /// The reason why the node stays where it is.
    pub fn move_node(
        &self,
        databases: &Databases,
        named: &ValueName,
        to: usize,
        hint: &mut usize,
    ) -> Result<(), ValueMoveError> {
        let tiers = self.cold.tiers().ok_or(ValueMoveError::NoTier)?;
        if to >= tiers.count() {
            return Err(ValueMoveError::NoTier);
        }
        let moving = MovingNode::begin(self, databases, named, hint)?;
        if moving.from() == to {
            return Err(ValueMoveError::There);
        }
        let place = match to {
            0 => None,
            to => {
                let put = self.cold.put(to, &[&moving.value])?;
                Some(put.first().copied().ok_or(TierRefusal::Full)?)
            }
        };
        moving.publish(databases, place)
    }

    /// Returns the tiers in which parts of a key's value are stored, the fastest first; none if
    /// there is no key.
    ///
    /// # Errors
    /// Those of the index.
    pub fn tiers_of(
        &self,
        databases: &Databases,
        (number, key): (usize, &[u8]),
    ) -> Result<Vec<usize>, nearfield::OperationError> {
        let database = databases
            .get(number)
            .map(|database: &Database| database.read(key, |record| self.tiers_of_record(&record)));
        Ok(database.transpose()?.flatten().unwrap_or_default())
    }

    /// Returns the tiers in which parts of a record's value are stored, the fastest first.
    pub fn tiers_of_record(&self, record: &ValueRecord<'_>) -> Vec<usize> {
        let slot = match record.outside() {
            None => return vec![0],
            Some(Outside::Place(place)) => return vec![place.tier()],
            Some(Outside::Slot(slot)) => slot,
        };
        let object = self.slots.open(slot);
        // The object itself is in memory, whatever the tiers of its nodes.
        let mut tiers = vec![0];
        if let Some(parted) = object.as_ref().and_then(StoredObject::parted) {
            parted.cold_tiers(&mut |tier| tiers.push(tier));
            tiers.sort_unstable();
            tiers.dedup();
        }
        tiers
    }
}
