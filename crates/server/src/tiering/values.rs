//! The values of the keyspace, as the keeper of the tiers visits and moves them.

use super::hand::{Entry, Hand, Visited};
use super::hold::Hold;
use super::pins::Pins;
use crate::eviction::Access;
use crate::keyspace::nodes::MovingNode;
use crate::keyspace::{Database, Databases, Keyspace, Moving, Payload, Record, Unmoved};
use crate::object::Object;
use nearfield_tiers::Place;
use nearfield_tiers::cold::Cold;
use nearfield_tiers::keep::{self, At, MOVED_BYTES_MIN, Met, Named, Size, Values, Warmth};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The values of a keyspace, and the access to it.
#[derive(Clone, Copy, Debug)]
pub struct Held<'s> {
    /// The keyspace.
    pub keyspace: &'s Keyspace,
    /// The statistics about the use of its keys.
    pub access: &'s Access,
    /// Keys with values that stay in memory.
    pub pins: &'s Pins,
    /// The number of nodes.
    pub nodes: &'s Nodes,
    /// The access to the keyspace.
    pub hold: Hold<'s>,
}

/// The number of nodes of values that move node by node, without their first ones. They count as
/// keys for the policy.
#[derive(Debug, Default)]
pub struct Nodes {
    /// Number in the last round of the walk.
    known: AtomicUsize,
    /// Number in the current round so far.
    met: AtomicUsize,
}

impl Nodes {
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
    Value(Moving<'k>),
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
    pub fn publish(self, databases: &Databases, place: Option<Place>) -> Result<(), Unmoved> {
        match self {
            OnTheWay::Value(moving) => moving.publish(databases, place),
            OnTheWay::Node(moving) => moving.publish(databases, place),
        }
    }
}

impl keep::Moving for OnTheWay<'_> {
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

impl Held<'_> {
    /// Visits an entry: its value as a whole, or nodes of it.
    fn meet(&self, entry: Entry<'_>, met: &mut Vec<Met>) -> Visited {
        let key = Named {
            part: entry.database,
            key: entry.key.to_vec(),
            node: 0,
        };
        let slot = match Record::parse(entry.stored).payload {
            Payload::Inline(value) => {
                let at = At::Memory(value.len() as u64);
                met.push(Met { key, at });
                return Visited::WHOLE;
            }
            Payload::InTier(place) => {
                let at = At::Place(place);
                met.push(Met { key, at });
                return Visited::WHOLE;
            }
            Payload::InSlot(slot) => slot,
        };
        let mut object = self.keyspace.slots.open(slot);
        let parted = object.as_mut().and_then(Object::parted_mut);
        match parted.filter(|parted| parted.moves_by_nodes()) {
            Some(parted) => {
                let (from, count) = entry.nodes;
                let before = met.len();
                let next = parted.see(from, count, &mut |seen| {
                    let key = Named {
                        node: seen.number,
                        ..key.clone()
                    };
                    let at = match seen.place {
                        Some(place) => At::Place(place),
                        None => At::Memory(seen.bytes as u64),
                    };
                    let hash = self.hash(&key);
                    (0..seen.uses).for_each(|_| _ = self.access.warmth.note(hash));
                    met.push(Met { key, at });
                });
                let count = met.len() - before;
                self.nodes.met(count - usize::from(from == 0).min(count));
                Visited { count, next }
            }
            None => {
                let bytes = object.as_ref().map_or(0, Object::heap_bytes);
                let at = At::Memory(bytes as u64);
                met.push(Met { key, at });
                Visited::WHOLE
            }
        }
    }
}

impl<'s> Values for Held<'s> {
    type Hand = Hand;
    type Moving = OnTheWay<'s>;

    fn cold(&self) -> &Cold {
        &self.keyspace.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.access.warmth
    }

    fn hash(&self, named: &Named) -> u64 {
        let hash = self.access.hash(named.part, &named.key);
        // The golden ratio, as usual for mixing.
        hash ^ named.node.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn size(&self) -> Size {
        self.hold.free_replaced(self.keyspace);
        self.hold.enter(self.keyspace, |databases| {
            let index = databases.iter().map(Database::used_bytes).sum::<usize>();
            Size {
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

    fn walk(&self, hand: &mut Hand, count: usize, met: &mut Vec<Met>) -> bool {
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

    fn is_pinned(&self, named: &Named) -> bool {
        self.pins.has(named.part, &named.key)
    }

    fn begin(&self, keys: &[&Named]) -> Vec<Option<OnTheWay<'s>>> {
        let keyspace = self.keyspace;
        self.hold.enter(keyspace, |databases| {
            // The next node is most often the one after the last.
            let mut hint = 0;
            let mut begin = |named: &&Named| {
                if named.node != 0 {
                    let moving = MovingNode::begin(keyspace, databases, named, &mut hint);
                    return moving.ok().map(OnTheWay::Node);
                }
                let place = (named.part, named.key.as_slice());
                let moving = Moving::begin(keyspace, databases, place, MOVED_BYTES_MIN);
                moving.ok().map(OnTheWay::Value)
            };
            keys.iter().map(&mut begin).collect()
        })
    }

    fn publish(&self, moving: OnTheWay<'s>, place: Option<Place>) -> bool {
        self.hold.publish(self.keyspace, moving, place).is_ok()
    }
}
