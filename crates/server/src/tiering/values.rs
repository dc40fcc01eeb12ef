//! The values of the keyspace, as the keeper of the tiers visits and moves them.

use super::hand::{KeyspaceWalk, KeyspaceWalkEntry, KeyspaceWalkVisit};
use super::hold::MoverKeyspaceAccess;
use super::pins::Pins;
use crate::access_trace::{AccessTrace, TracedAccess};
use crate::eviction::KeyUseStatistics;
use crate::keyspace::nodes::MovingNode;
use crate::keyspace::{
    Database, Databases, Keyspace, RecordPayload, ValueMove, ValueMoveError, ValueRecord,
};
use crate::object::StoredObject;
use nearfield_tiers::ColdPlace;
use nearfield_tiers::cold::ColdTiers;
use nearfield_tiers::keep::{
    self, MOVED_BYTES_MIN, MovableValues, StoreMemorySize, ValueName, ValuePosition, VisitedKey,
    Warmth,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The values of a keyspace, and the access to it.
#[derive(Clone, Copy, Debug)]
pub struct KeyspaceValues<'s> {
    /// The keyspace.
    pub keyspace: &'s Keyspace,
    /// The statistics about the use of its keys.
    pub access: &'s KeyUseStatistics,
    /// Keys with values that stay in memory.
    pub pins: &'s Pins,
    /// The number of nodes.
    pub nodes: &'s ValueNodeCount,
    /// The trace that moves are added to, if there is one.
    pub trace: Option<&'s AccessTrace>,
    /// The access to the keyspace.
    pub hold: MoverKeyspaceAccess<'s>,
}

/// The number of nodes of values that move node by node, without their first ones. They count as
/// keys for the policy.
#[derive(Debug, Default)]
pub struct ValueNodeCount {
    /// Number in the last round of the walk.
    known: AtomicUsize,
    /// Number in the current round so far.
    met: AtomicUsize,
}

impl ValueNodeCount {
    fn count(&self) -> usize {
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        count(&self.known).max(count(&self.met))
    }

    fn met(&self, nodes: usize) {
        self.met.fetch_add(nodes, Ordering::Relaxed);
    }

    fn end_round(&self) {
        let met = self.met.swap(0, Ordering::Relaxed);
        self.known.store(met, Ordering::Relaxed);
    }
}

/// A value or a node that is being moved.
#[derive(Debug)]
pub enum OnTheWay<'k> {
    /// A value as a whole.
    Value(ValueMove<'k>),
    /// A node of a value.
    Node(MovingNode<'k>),
}

impl OnTheWay<'_> {
    /// Returns true if it is a node.
    pub fn is_node(&self) -> bool {
        matches!(self, OnTheWay::Node(_))
    }

    /// Returns the key of a value.
    pub fn key(&self) -> &[u8] {
        match self {
            OnTheWay::Value(moving) => &moving.key,
            OnTheWay::Node(_) => &[],
        }
    }

    /// Ends the move.
    ///
    /// # Errors
    /// The reason why it stays at its place.
    pub fn publish(
        self,
        databases: &Databases,
        place: Option<ColdPlace>,
    ) -> Result<(), ValueMoveError> {
        match self {
            OnTheWay::Value(moving) => moving.publish(databases, place),
            OnTheWay::Node(moving) => moving.publish(databases, place),
        }
    }
}

impl keep::MovingValue for OnTheWay<'_> {
    fn value(&self) -> &[u8] {
        match self {
            OnTheWay::Value(moving) => &moving.value,
            OnTheWay::Node(moving) => &moving.value,
        }
    }

    fn from(&self) -> usize {
        match self {
            OnTheWay::Value(moving) => moving.from(),
            OnTheWay::Node(moving) => moving.from(),
        }
    }
}

impl KeyspaceValues<'_> {
    /// Returns the accesses of the move of a whole value: a read and a write. Returns `None` for a
    /// node, which has no key of its own.
    fn copies(&self, moving: &OnTheWay<'_>, place: Option<ColdPlace>) -> Option<[TracedAccess; 2]> {
        let OnTheWay::Value(value) = moving else {
            return None;
        };
        let object = self.access.hash(value.database, &value.key);
        let bytes = value.value.len();
        let access = |tier, is_write| TracedAccess {
            object,
            tier,
            bytes,
            offset: 0,
            length: bytes,
            is_write,
        };
        let to = place.map_or(0, ColdPlace::tier);
        Some([access(value.from(), false), access(to, true)])
    }

    /// Visits an entry: its value as a whole, or nodes of it.
    fn meet(&self, entry: KeyspaceWalkEntry<'_>, met: &mut Vec<VisitedKey>) -> KeyspaceWalkVisit {
        let key = ValueName {
            part: entry.database,
            key: entry.key.to_vec(),
            node: 0,
        };
        let slot = match ValueRecord::parse(entry.stored).payload {
            RecordPayload::Inline(value) => {
                let at = ValuePosition::Memory(value.len() as u64);
                met.push(VisitedKey { key, at });
                return KeyspaceWalkVisit::WHOLE;
            }
            RecordPayload::InTier(place) => {
                let at = ValuePosition::Place(place);
                met.push(VisitedKey { key, at });
                return KeyspaceWalkVisit::WHOLE;
            }
            RecordPayload::InSlot(slot) => slot,
        };
        let mut object = self.keyspace.slots.open(slot);
        let parted = object.as_mut().and_then(StoredObject::parted_mut);
        match parted.filter(|parted| parted.moves_by_nodes()) {
            Some(parted) => {
                let (from, count) = entry.nodes;
                let before = met.len();
                let next = parted.see(from, count, &mut |seen| {
                    let key = ValueName {
                        node: seen.number,
                        ..key.clone()
                    };
                    let at = match seen.place {
                        Some(place) => ValuePosition::Place(place),
                        None => ValuePosition::Memory(seen.bytes as u64),
                    };
                    let hash = self.hash(&key);
                    // Commands count the uses of a node in its object. They reach the table of
                    // heat with the next visit.
                    (0..seen.uses).for_each(|_| _ = self.access.warmth.note(hash));
                    met.push(VisitedKey { key, at });
                });
                let count = met.len() - before;
                debug_assert!(count <= entry.nodes.1);
                // The first node counts as the key itself.
                self.nodes.met(count - usize::from(from == 0).min(count));
                KeyspaceWalkVisit { count, next }
            }
            None => {
                let bytes = object.as_ref().map_or(0, StoredObject::heap_bytes);
                let at = ValuePosition::Memory(bytes as u64);
                met.push(VisitedKey { key, at });
                KeyspaceWalkVisit::WHOLE
            }
        }
    }
}

impl<'s> MovableValues for KeyspaceValues<'s> {
    type Hand = KeyspaceWalk;
    type Moving = OnTheWay<'s>;

    fn cold(&self) -> &ColdTiers {
        &self.keyspace.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.access.warmth
    }

    fn hash(&self, named: &ValueName) -> u64 {
        let hash = self.access.hash(named.part, &named.key);
        // The golden ratio, as usual for mixing.
        hash ^ named.node.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn size(&self) -> StoreMemorySize {
        // Records that moves have replaced would count as memory in use.
        self.hold.free_replaced(self.keyspace);
        self.hold.enter(self.keyspace, |databases| {
            let index = databases.iter().map(Database::used_bytes).sum::<usize>();
            StoreMemorySize {
                bytes: (index + self.keyspace.heap.used_bytes()) as u64,
                keys: databases
                    .iter()
                    .map(|it| it.len().unwrap_or(0))
                    .sum::<usize>()
                    + self.nodes.count(),
            }
        })
    }

    fn frees(&self) -> bool {
        self.hold.frees_replaced() && self.keyspace.retired() > 0
    }

    fn uses(&self) -> u64 {
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        count(&self.keyspace.hits) + count(&self.keyspace.changes)
    }

    fn walk(&self, hand: &mut KeyspaceWalk, count: usize, met: &mut Vec<VisitedKey>) -> bool {
        let round = hand.rounds;
        self.hold.enter(self.keyspace, |databases| {
            hand.step(databases, count, |entry| self.meet(entry, met));
        });
        let is_round = hand.rounds > round;
        if is_round {
            self.nodes.end_round();
        }
        is_round
    }

    fn is_pinned(&self, named: &ValueName) -> bool {
        self.pins.has(named.part, &named.key)
    }

    fn begin(&self, keys: &[&ValueName]) -> Vec<Option<OnTheWay<'s>>> {
        let keyspace = self.keyspace;
        self.hold.enter(keyspace, |databases| {
            // The next node is most often the one after the last.
            let mut hint = 0;
            let mut begin = |named: &&ValueName| {
                // 0 is the value as a whole.
                if named.node != 0 {
                    let moving = MovingNode::begin(keyspace, databases, named, &mut hint);
                    return moving.ok().map(OnTheWay::Node);
                }
                let place = (named.part, named.key.as_slice());
                let moving = ValueMove::begin(keyspace, databases, place, MOVED_BYTES_MIN);
                moving.ok().map(OnTheWay::Value)
            };
            keys.iter().map(&mut begin).collect()
        })
    }

    fn publish(&self, moving: OnTheWay<'s>, place: Option<ColdPlace>) -> bool {
        let copies = |trace| Some((trace, self.copies(&moving, place)?));
        let traced = self.trace.and_then(copies);
        let is_published = self.hold.publish(self.keyspace, moving, place).is_ok();
        if let Some((trace, copies)) = traced.filter(|_| is_published) {
            copies.iter().for_each(|copy| trace.add(copy));
        }
        is_published
    }
}
