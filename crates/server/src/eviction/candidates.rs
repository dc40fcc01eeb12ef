//! The choice of candidates for eviction.
//!
//! # Hands
//!
//! Candidates should be random keys, each with equal probability. A random position of an ordered
//! index does not achieve that: if one takes the key that follows random bytes, or [walks](walk)
//! down the keys by random bytes, isolated keys are found far more often than keys in dense ranges,
//! so that a few sessions would be evicted before a million users.
//!
//! So *hands* visit the keys in their order, sixteen at a time, and in between propose to continue
//! somewhere else, at the end of a random walk. The walk returns the probability of its end. If the
//! new position is more probable by a factor than the current one, the hand goes there only with
//! the inverse of that factor as the probability, and otherwise stays in order (Metropolis and
//! Hastings). Both the jumps and the steps in order preserve the uniform distribution, so that in
//! the long run each key is visited as often as others. Hands that only move in order were tried:
//! those behind another find fewer keys, because these have been evicted, and so catch up with it
//! until all are at one position. Neighbouring keys are often used together, so that jumps are
//! needed.
//!
//! # Pool
//!
//! The best candidates that were not evicted are kept for the next time, as in Redis, so that each
//! eviction chooses among more keys than it samples. A key in the pool is scored again before it is
//! evicted, because it may have been used since.

use super::MaxmemoryPolicy;
use super::access::{KeyUseRecorder, KeyUseStatistics};
use super::walk::walk;
use crate::keyspace::notes::parse_note;
use crate::keyspace::{DATABASES, Database, DatabaseIndex, Databases, Keyspace, ValueRecord};
use std::collections::VecDeque;
use std::ops::Bound;

const HANDS: usize = 4;
/// Number of keys that a hand reads at once.
const KEYS_AT_ONCE: usize = 16;
const POOL_MAX: usize = 16;

/// A key and its database.
pub type Place = (usize, Vec<u8>);

/// The hands that visit the keys.
#[derive(Debug, Default)]
pub struct EvictionHands {
    hands: [EvictionHand; HANDS],
    /// True if they visit keys that expire, in the order of their times.
    expiring: bool,
    next: usize,
}

#[derive(Debug, Default)]
struct EvictionHand {
    /// The entry that it read last.
    after: Place,
    read: VecDeque<Place>,
}

impl EvictionHands {
    fn next(&mut self, databases: &Databases, expiring: bool) -> Option<Place> {
        // Keys and notes are in different indexes, so that a position in one is none in the other.
        if self.expiring != expiring {
            self.hands = Default::default();
            self.expiring = expiring;
        }
        self.next = (self.next + 1) % HANDS;
        self.hands.get_mut(self.next)?.next(databases, expiring)
    }
}

impl EvictionHand {
    /// Returns the next key; after the last comes the first.
    fn next(&mut self, databases: &Databases, expiring: bool) -> Option<Place> {
        if self.read.is_empty() {
            self.jump(databases, expiring);
            let (first, after) = (self.after.0, std::mem::take(&mut self.after.1));
            self.read_on(databases, expiring, first, Bound::Excluded(&after));
            // The last step leads to the first database again, whose keys up to the hand are left.
            for step in 1..=DATABASES {
                if !self.read.is_empty() {
                    break;
                }
                let database = (first + step) % DATABASES;
                self.read_on(databases, expiring, database, Bound::Unbounded);
            }
        }
        self.read.pop_front()
    }

    /// Proposes to continue somewhere else, and perhaps does.
    fn jump(&mut self, databases: &Databases, expiring: bool) {
        let length = |number: usize| {
            let database = databases.get(number);
            let index = database.and_then(|database| index(database, expiring));
            index.map_or(0, |index| index.len().unwrap_or(0))
        };
        let total: usize = (0..DATABASES).map(length).sum();
        if total == 0 {
            return;
        }
        // A database's probability is proportional to its keys.
        let mut rank = rand::random_range(0..total);
        let number = (0..DATABASES).find(|&number| {
            let found = rank < length(number);
            rank = rank.saturating_sub(length(number));
            found
        });
        let walk_in = |number: usize, key: Option<&[u8]>| {
            let index = index(databases.get(number)?, expiring)?;
            let (end, probability) = walk(index, |at, low, high| match key {
                Some(key) => key.get(at).map_or(0, |&byte| u16::from(byte) + 1),
                None => rand::random_range(low..=high),
            })?;
            Some((end, probability + (index.len().ok()? as f64).ln()))
        };
        let Some(number) = number else { return };
        let Some((key, there)) = walk_in(number, None) else {
            return;
        };
        let (database, after) = &self.after;
        // The same walk, led to the current position, has the probability with which a random one
        // ends there. A position whose index is empty is left in any case.
        let here = walk_in(*database, Some(after)).map_or(f64::INFINITY, |(_, here)| here);
        if rand::random::<f64>() < (here - there).exp() {
            self.after = (number, key);
        }
    }

    fn read_on(
        &mut self,
        databases: &Databases,
        expiring: bool,
        number: usize,
        from: Bound<&Vec<u8>>,
    ) {
        let database = databases.get(number);
        let Some(index) = database.and_then(|database| index(database, expiring)) else {
            return;
        };
        let from = from.map(Vec::as_slice);
        let range = index.range((from, Bound::Unbounded)).take(KEYS_AT_ONCE);
        for (key, _) in range.flatten() {
            self.after = (number, key.to_vec());
            let key = match expiring {
                true => parse_note(&key).map(|(_, key)| key.to_vec()),
                false => Some(key.to_vec()),
            };
            self.read.extend(key.map(|key| (number, key)));
        }
    }
}

fn index(database: &Database, expiring: bool) -> Option<&DatabaseIndex> {
    match expiring {
        true => database.expiries(),
        false => database.entries(),
    }
}

/// The condition on keys that may be evicted.
#[derive(Clone, Copy, Debug)]
pub struct EvictionCriteria<'k> {
    /// The keyspace.
    pub keyspace: &'k Keyspace,
    /// `maxmemory-policy`.
    pub policy: MaxmemoryPolicy,
    /// Number of candidates that are sampled.
    pub samples: usize,
    /// The tier in which the value, or its coldest node, must be; `None`: any.
    pub tier: Option<usize>,
}

/// The factor by which more keys are visited if they must be in one tier, which may have few.
/// *Assumed.*
const TRIES_OF_TIER: usize = 32;

impl EvictionCriteria<'_> {
    fn tries(&self) -> usize {
        self.tier.map_or(1, |_| TRIES_OF_TIER)
    }

    /// Returns true if a key exists and may be evicted.
    fn is(&self, databases: &Databases, (number, key): &Place) -> bool {
        let may = |record: ValueRecord<'_>| {
            let expires = record.expires_at_ms.is_some() || !self.policy.is_volatile();
            // The tiers of a value are in their order, memory first.
            let coldest = || self.keyspace.tiers_of_record(&record).pop();
            expires && self.tier.is_none_or(|tier| coldest() == Some(tier))
        };
        let read = databases
            .get(*number)
            .map(|database| database.read(key, may));
        matches!(read, Some(Ok(Some(true))))
    }
}

/// The best candidates so far, each with its score; the best is the last.
#[derive(Debug, Default)]
pub struct EvictionPool(Vec<(u64, Place)>);

impl EvictionPool {
    /// Forgets all candidates.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the existing key that must be evicted next; `None` if there is none.
    pub fn next(
        &mut self,
        databases: &Databases,
        candidates: &mut EvictionHands,
        wanted: EvictionCriteria<'_>,
        access: &KeyUseStatistics,
    ) -> Option<Place> {
        let policy = wanted.policy;
        if policy == MaxmemoryPolicy::VolatileTtl {
            return soonest(databases);
        }
        let noting = access.noting();
        if matches!(
            policy,
            MaxmemoryPolicy::AllKeysRandom | MaxmemoryPolicy::VolatileRandom
        ) {
            return self.look(databases, candidates, wanted, |_| 0);
        }
        let score = |place: &Place| score(policy, &noting, place);
        let mut offered = 0;
        for _ in 0..wanted.samples * wanted.tries() {
            let Some(place) = candidates.next(databases, policy.is_volatile()) else {
                break;
            };
            if wanted.tier.is_none() || wanted.is(databases, &place) {
                self.offer(score(&place), place);
                offered += 1;
            }
            if offered == wanted.samples {
                break;
            }
        }
        self.look(databases, candidates, wanted, score)
    }

    fn offer(&mut self, score: u64, place: Place) {
        // Hands may visit a key twice, and the pool is small.
        if self.0.iter().any(|(_, other)| *other == place) {
            return;
        }
        debug_assert!(self.0.len() <= POOL_MAX && self.0.is_sorted_by_key(|(score, _)| *score));
        let position = self.0.partition_point(|(other, _)| *other < score);
        if self.0.len() < POOL_MAX {
            self.0.insert(position, (score, place));
        } else if position > 0 {
            self.0.insert(position, (score, place));
            self.0.remove(0);
        }
    }

    /// Takes the best candidate that still exists and still has its score.
    fn look(
        &mut self,
        databases: &Databases,
        candidates: &mut EvictionHands,
        wanted: EvictionCriteria<'_>,
        score: impl Fn(&Place) -> u64,
    ) -> Option<Place> {
        while let Some((known, place)) = self.0.pop() {
            let now = score(&place);
            if wanted.is(databases, &place) {
                if now >= known {
                    return Some(place);
                }
                // It has been used since: better candidates come first.
                let better = self.0.last().is_some_and(|(other, _)| *other > now);
                if !better {
                    return Some(place);
                }
                self.offer(now, place);
            }
        }
        // The keys that were read ahead may be gone, but a hand that reads further finds all
        // existing ones.
        for _ in 0..HANDS * (KEYS_AT_ONCE + 1) * wanted.tries() {
            let place = candidates.next(databases, wanted.policy.is_volatile())?;
            if wanted.is(databases, &place) {
                return Some(place);
            }
        }
        match wanted.tier {
            // All keys that were visited are in other tiers.
            Some(_) => {
                let anywhere = EvictionCriteria {
                    tier: None,
                    ..wanted
                };
                self.look(databases, candidates, anywhere, score)
            }
            None => None,
        }
    }
}

/// Returns the score of a key: the greater, the sooner it is evicted.
fn score(policy: MaxmemoryPolicy, noting: &KeyUseRecorder<'_>, (database, key): &Place) -> u64 {
    let idle = noting.idle_ms(*database, key);
    if !policy.is_lfu() {
        return idle;
    }
    // Among keys with the same frequency, the one with the oldest use goes first.
    const IDLE_BITS: u32 = 48;
    let seldom = u64::from(u8::MAX - noting.frequency(*database, key));
    (seldom << IDLE_BITS) | idle.min((1 << IDLE_BITS) - 1)
}

/// Returns the key of all databases that expires next. Needs the exclusive phase.
fn soonest(databases: &Databases) -> Option<Place> {
    let first = |(number, database): (usize, &Database)| {
        let (time, key) = database.soonest().ok()??;
        Some((time, number, key))
    };
    let all = databases.iter().enumerate().filter_map(first);
    all.min().map(|(_, number, key)| (number, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{DatabaseAccess as Phase, DatabaseKeys, Effects, Home, KeyView};

    /// Ten isolated keys, a dense range of random keys and one of numbers, in two databases.
    #[test]
    fn all_keys_are_met_equally_often() {
        let keyspace = Keyspace::new(Home::Local);
        let mut databases = keyspace.exclude();
        let mut effects = Effects::default();
        let phase = Phase::Exclusive(&mut databases);
        let mut keys = DatabaseKeys::new(&keyspace, phase, 0, 0, &mut effects);
        let (mut lone, mut total) = (Vec::new(), 0);
        for letter in b'a'..=b'j' {
            lone.push(vec![letter; 3]);
        }
        for key in &lone {
            keys.set_string(key, b"", None).unwrap();
        }
        for number in 0..2000_u64 {
            let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            keys.select(0);
            let key = format!("user:{random:016x}");
            keys.set_string(key.as_bytes(), b"", None).unwrap();
            keys.select(5);
            let key = format!("order:{number}");
            keys.set_string(key.as_bytes(), b"", None).unwrap();
            total += 2;
        }
        total += lone.len();
        drop(keys);
        let mut candidates = EvictionHands::default();
        let (mut met, mut lone_met) = (hashbrown::HashMap::new(), 0);
        const ROUNDS: usize = 50;
        for _ in 0..ROUNDS * total {
            let place = candidates.next(&databases, false).unwrap();
            lone_met += usize::from(lone.contains(&place.1));
            *met.entry(place).or_insert(0) += 1;
        }
        let users = met.iter().filter(|((_, key), _)| key.starts_with(b"user:"));
        let users: usize = users.map(|(_, count)| count).sum();
        let expected = ROUNDS * lone.len();
        println!(
            "lone {lone_met} of {expected}, users {users} of {}",
            ROUNDS * 2000
        );
        assert!((expected / 3..expected * 3).contains(&lone_met));
        assert!((ROUNDS * 1400..ROUNDS * 2600).contains(&users));
        assert!(met.len() > total * 99 / 100, "{} of {total}", met.len());
    }
}
