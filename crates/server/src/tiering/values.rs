//! The values of the keyspace, as the keeper of the tiers meets and moves them.

use super::hand::Hand;
use super::hold::Hold;
use super::pins::Pins;
use crate::eviction::Access;
use crate::keyspace::{Database, Keyspace, Moving, Payload, Record};
use crate::object::Object;
use nearfield_tiers::Place;
use nearfield_tiers::cold::Cold;
use nearfield_tiers::keep::{self, At, MOVED_BYTES_MIN, Met, Named, Size, Values, Warmth};
use std::sync::atomic::Ordering;

/// The values of a keyspace that is held in some way.
#[derive(Clone, Copy, Debug)]
pub struct Held<'s> {
    /// The keyspace.
    pub keyspace: &'s Keyspace,
    /// What is known of the use of its keys.
    pub access: &'s Access,
    /// Keys whose values stay in memory.
    pub pins: &'s Pins,
    /// How it is held.
    pub hold: Hold<'s>,
}

impl keep::Moving for Moving<'_> {
    fn value(&self) -> &[u8] {
        &self.value
    }

    fn from(&self) -> usize {
        Moving::from(self)
    }
}

impl<'s> Values for Held<'s> {
    type Hand = Hand;
    type Moving = Moving<'s>;

    fn cold(&self) -> &Cold {
        &self.keyspace.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.access.warmth
    }

    fn hash(&self, (database, key): &Named) -> u64 {
        self.access.hash(*database, key)
    }

    fn size(&self) -> Size {
        self.hold.enter(self.keyspace, |databases| {
            let index = databases.iter().map(Database::used_bytes).sum::<usize>();
            Size {
                bytes: (index + self.keyspace.heap.used_bytes()) as u64,
                keys: databases.iter().map(|it| it.len().unwrap_or(0)).sum(),
            }
        })
    }

    fn uses(&self) -> u64 {
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        count(&self.keyspace.hits) + count(&self.keyspace.changes)
    }

    fn walk(&self, hand: &mut Hand, count: usize, met: &mut Vec<Met>) -> bool {
        let round = hand.rounds;
        self.hold.enter(self.keyspace, |databases| {
            hand.step(databases, count, |database, key, stored| {
                let at = match Record::parse(&stored).payload {
                    Payload::Inline(value) => At::Memory(value.len() as u64),
                    Payload::InSlot(slot) => {
                        let object = self.keyspace.slots.open(slot);
                        At::Memory(object.as_ref().map_or(0, Object::heap_bytes) as u64)
                    }
                    Payload::InTier(place) => At::Place(place),
                };
                let key = (database, key);
                met.push(Met { key, at });
            });
        });
        hand.rounds > round
    }

    fn is_pinned(&self, (database, key): &Named) -> bool {
        self.pins.has(*database, key)
    }

    fn begin(&self, keys: &[&Named]) -> Vec<Option<Moving<'s>>> {
        self.hold.enter(self.keyspace, |databases| {
            let begin = |(database, key): &&Named| {
                let place = (*database, key.as_slice());
                Moving::begin(self.keyspace, databases, place, MOVED_BYTES_MIN).ok()
            };
            keys.iter().map(begin).collect()
        })
    }

    fn publish(&self, moving: Moving<'s>, place: Option<Place>) -> bool {
        self.hold.publish(self.keyspace, moving, place).is_ok()
    }
}
