//! Values that lie in several tiers, node by node.
//!
//! A node lies in a slot's object, never in a record. Who reads, changes or moves one has the lock
//! of the slot, so that a move is seen as a whole, and a node that is given up is released at once.
//! A move goes in the three steps of [`nearfield_tiers::claim`], but what is claimed is the node,
//! and not the record. The chunk of a list has a number that no other one ever has, and a version
//! that each change and each move counts. The value of a field is the same if its bytes are, or if
//! it lies at the same place, which is held until the move is over. So a list that is pushed to all
//! the time moves its middle, and a key that is renamed, deleted or replaced meanwhile needs no
//! care.

use super::cold::Held;
use super::{Database, Databases, Keyspace, Outside, Payload, Record, Unmoved};
use crate::error::CommandError;
use crate::object::node::{Copied, Met};
use crate::object::{Object, Part, Parted, Unread};
use nearfield_tiers::keep::Named;
use nearfield_tiers::{Place, ReadError, Refused};

/// A node on its way to another tier. See the [module](self).
#[derive(Debug)]
pub struct MovingNode<'k> {
    keyspace: &'k Keyspace,
    slot: super::slots::Slot,
    copied: Copied,
    /// Keeps the place that the node has lain at from becoming another's.
    _held: Option<Held>,
    /// The node as a cold tier has it.
    pub value: Vec<u8>,
}

impl<'k> MovingNode<'k> {
    /// Reads a node of a key's value. It is looked for from `hint` on, which is then the index
    /// behind it.
    ///
    /// # Errors
    /// The node cannot move.
    pub fn begin(
        keyspace: &'k Keyspace,
        databases: &Databases,
        named: &Named,
        hint: &mut usize,
    ) -> Result<MovingNode<'k>, Unmoved> {
        let slot = keyspace.slot_of(databases, (named.part, &named.key))?;
        let mut value = Vec::new();
        let object = keyspace.slots.open(slot.ok_or(Unmoved::Absent)?);
        let parted = object.as_ref().and_then(Object::parted);
        let copied = parted.and_then(|it| it.copy_node(named.node, *hint, &mut value));
        let copied = copied.ok_or(Unmoved::Absent)?;
        *hint = copied.index() + 1;
        // The node may be given up as soon as the slot is closed.
        let held = copied.place().map(|it| Held::new(&keyspace.cold, it));
        drop(object);
        if let Some(place) = copied.place() {
            keyspace.cold.read_to_move(place, &mut value)?;
        }
        Ok(MovingNode {
            keyspace,
            slot: slot.ok_or(Unmoved::Absent)?,
            copied,
            _held: held,
            value,
        })
    }

    /// The tier that the node was in.
    pub fn from(&self) -> usize {
        self.copied.place().map_or(0, Place::tier)
    }

    /// Has the node lie at `place`, in the tier that has taken it; `None` is the memory of the
    /// keyspace itself. To be called in a shared phase. If the node has changed meanwhile, the
    /// place is released.
    ///
    /// # Errors
    /// Why the node stays where it was.
    pub fn publish(self, _databases: &Databases, place: Option<Place>) -> Result<(), Unmoved> {
        let cold = &self.keyspace.cold;
        let mut object = self.keyspace.slots.open(self.slot);
        let moved = match object.as_mut().and_then(Object::parted_mut) {
            Some(parted) => parted.move_node(&self.copied, place, cold, &self.value),
            None => Ok(false),
        };
        drop(object);
        let to = place.map_or(0, Place::tier);
        if let Ok(true) = moved {
            cold.count_move(self.from(), to, self.value.len());
            return Ok(());
        }
        cold.count_abandoned(to);
        place.into_iter().for_each(|place| cold.release(place));
        match moved {
            Ok(_) => Err(Unmoved::Changed),
            Err(_) => Err(ReadError::Damaged.into()),
        }
    }
}

impl Keyspace {
    /// The slot of a key's object, if it has one.
    fn slot_of(
        &self,
        databases: &Databases,
        (number, key): (usize, &[u8]),
    ) -> Result<Option<super::slots::Slot>, Unmoved> {
        let database = databases.get(number).ok_or(Unmoved::Absent)?;
        let slot = database.read(key, |record| match record.payload {
            Payload::InSlot(slot) => Some(slot),
            Payload::Inline(_) | Payload::InTier(_) => None,
        })?;
        slot.ok_or(Unmoved::Absent)
    }

    /// Lends an object's nodes that a command reads, and says whether there are any.
    /// [`end_loan`](Keyspace::end_loan) takes them back.
    ///
    /// # Errors
    /// One cannot be read. The error names the key.
    #[inline]
    pub fn lend<'a>(
        &self,
        (number, key): (usize, &[u8]),
        object: &mut Option<Object>,
        part: impl FnOnce() -> Part<'a>,
        is_use: bool,
    ) -> Result<bool, CommandError> {
        let Some(parted) = self.attended(object) else {
            return Ok(false);
        };
        let mut met = Met::new();
        let is_lent = parted.lend(&part(), is_use, &mut met).map_err(|unread| {
            parted.end_loan();
            self.unread(key, &unread)
        })?;
        for (node, place) in &met {
            self.cold.note_use_of_node(number, key, *node, *place);
        }
        Ok(is_lent)
    }

    /// Takes back what was lent of an object.
    pub fn end_loan(object: &mut Option<Object>) {
        if let Some(parted) = object.as_mut().and_then(Object::parted_mut) {
            parted.end_loan();
        }
    }

    /// Brings an object's nodes into memory that a command changes.
    ///
    /// # Errors
    /// One cannot be read. The error names the key.
    #[inline]
    pub fn warm<'a>(
        &self,
        key: &[u8],
        object: &mut Option<Object>,
        part: impl FnOnce() -> Part<'a>,
    ) -> Result<(), CommandError> {
        let Some(parted) = self.attended(object) else {
            return Ok(());
        };
        let mut warmed = |place: Place, bytes| self.cold.count_move(place.tier(), 0, bytes);
        parted
            .warm(&part(), &self.limits(), &mut warmed)
            .map_err(|unread| self.unread(key, &unread))
    }

    #[inline]
    fn attended<'o>(&self, object: &'o mut Option<Object>) -> Option<&'o mut dyn Parted> {
        self.cold.tiers()?;
        let parted = object.as_mut().and_then(Object::parted_mut);
        parted.filter(|parted| parted.is_attended())
    }

    /// The error of a node that cannot be read.
    #[cold]
    pub(super) fn unread(&self, key: &[u8], unread: &Unread) -> CommandError {
        self.unreadable(key, unread.place, &unread.why)
    }

    /// Moves all nodes of a value, for who holds the key's stripe or has the keyspace to itself.
    /// `None` if the value moves as a whole.
    pub(super) fn move_nodes(
        &self,
        databases: &Databases,
        (number, key): (usize, &[u8]),
        to: usize,
    ) -> Option<Result<(), Unmoved>> {
        let slot = self.slot_of(databases, (number, key)).ok().flatten()?;
        let object = self.slots.open(slot);
        let parted = object.as_ref().and_then(Object::parted);
        parted.filter(|parted| parted.moves_by_nodes())?;
        drop(object);
        let (mut hint, mut result) = (0, Err(Unmoved::There));
        for (node, _) in self.nodes_of(databases, (number, key)) {
            let named = Named {
                part: number,
                key: key.to_vec(),
                node,
            };
            match self.move_node(databases, &named, to, &mut hint) {
                Ok(()) if matches!(result, Err(Unmoved::There)) => result = Ok(()),
                Ok(()) | Err(Unmoved::There) => {}
                Err(error) => result = Err(error),
            }
        }
        Some(result)
    }

    /// The numbers of the nodes of a key's value, and the places of those in cold tiers; none if it
    /// has not several.
    pub fn nodes_of(
        &self,
        databases: &Databases,
        place: (usize, &[u8]),
    ) -> Vec<(u64, Option<Place>)> {
        let Ok(Some(slot)) = self.slot_of(databases, place) else {
            return Vec::new();
        };
        let object = self.slots.open(slot);
        let parted = object.as_ref().and_then(Object::parted);
        parted.map_or_else(Vec::new, Parted::nodes)
    }

    /// Moves a node of a value at once, for who holds the key's stripe or has the keyspace to
    /// itself. It is looked for from `hint` on.
    ///
    /// # Errors
    /// Why it stays where it is.
    pub fn move_node(
        &self,
        databases: &Databases,
        named: &Named,
        to: usize,
        hint: &mut usize,
    ) -> Result<(), Unmoved> {
        let tiers = self.cold.tiers().ok_or(Unmoved::NoTier)?;
        if to >= tiers.count() {
            return Err(Unmoved::NoTier);
        }
        let moving = MovingNode::begin(self, databases, named, hint)?;
        if moving.from() == to {
            return Err(Unmoved::There);
        }
        let place = match to {
            0 => None,
            to => {
                let put = self.cold.put(to, &[&moving.value])?;
                Some(put.first().copied().ok_or(Refused::Full)?)
            }
        };
        moving.publish(databases, place)
    }

    /// The tiers that parts of a key's value lie in, the fastest first; none if there is no key.
    ///
    /// # Errors
    /// Those of the index.
    pub fn tiers_of(
        &self,
        databases: &Databases,
        (number, key): (usize, &[u8]),
    ) -> Result<Vec<usize>, nearfield::Error> {
        let database = databases
            .get(number)
            .map(|database: &Database| database.read(key, |record| self.tiers_of_record(&record)));
        Ok(database.transpose()?.flatten().unwrap_or_default())
    }

    /// The tiers that parts of a record's value lie in, the fastest first.
    pub fn tiers_of_record(&self, record: &Record<'_>) -> Vec<usize> {
        let slot = match record.outside() {
            None => return vec![0],
            Some(Outside::Place(place)) => return vec![place.tier()],
            Some(Outside::Slot(slot)) => slot,
        };
        let object = self.slots.open(slot);
        let mut tiers = vec![0];
        if let Some(parted) = object.as_ref().and_then(Object::parted) {
            parted.cold_tiers(&mut |tier| tiers.push(tier));
            tiers.sort_unstable();
            tiers.dedup();
        }
        tiers
    }
}
