//! The interface through which the keeper moves the values of a map.

use super::TierUse;
use super::inner::{Inner, unreadable};
use super::record::{self, Record};
use crate::claim::{Claim, Outside};
use crate::cold::Cold;
use crate::keep::{self, At, MOVED_BYTES_MIN, Met, Named, Size, Values, Warmth};
use crate::place::Place;
use crate::usage::ReadError;
use crossbeam_epoch::pin;
use nearfield_core::{Batch, Bytes, Direction, Error, OrderedIndex};
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Cursor of the walk: the last key that it visited.
pub(super) type Hand = Option<Vec<u8>>;

/// A value that is being moved.
#[derive(Debug)]
pub(super) struct Moving<'k, I: OrderedIndex<Bytes>> {
    key: Vec<u8>,
    /// The record from which the value was read.
    stored: Vec<u8>,
    value: Vec<u8>,
    claim: Claim<'k, Inner<I>>,
}

/// Outcome of a move that a user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forced {
    Moved,
    Stayed,
}

/// Reason for which a move does not begin.
enum Unmoved {
    Absent,
    Index(Error),
    Unreadable(ReadError),
}

impl<I: OrderedIndex<Bytes>> keep::Moving for Moving<'_, I> {
    fn value(&self) -> &[u8] {
        &self.value
    }

    fn from(&self) -> usize {
        self.claim.place().map_or(0, Place::tier)
    }
}

impl<I: OrderedIndex<Bytes>> Inner<I> {
    fn begin_one(&self, key: &[u8]) -> Result<Moving<'_, I>, Unmoved> {
        let guard = pin();
        let stored = self.entries.get(key).map_err(Unmoved::Index)?;
        let stored = stored.ok_or(Unmoved::Absent)?;
        let record = Record::parse(&stored);
        let outside = match record {
            Record::Here(_) => None,
            Record::There(place) => Some(Outside::Place(place)),
        };
        let claim = Claim::take(self, outside);
        drop(guard);
        let mut value = Vec::new();
        match record {
            Record::Here(here) => value.extend_from_slice(here),
            Record::There(place) => {
                let read = self.cold.read_to_move(place, &mut value);
                read.map_err(Unmoved::Unreadable)?;
            }
        }
        Ok(Moving {
            key: key.to_vec(),
            stored,
            value,
            claim,
        })
    }

    /// Ends a move, and returns whether the value moved.
    fn publish_one(&self, moving: &Moving<'_, I>, place: Option<Place>) -> Result<bool, Error> {
        let new = match place {
            Some(place) => record::there(place),
            None => record::here(&moving.value),
        };
        let replace = || {
            let updated = self.entries.update(&moving.key, Some(&moving.stored), &new);
            updated.map(|(applied, _)| applied)
        };
        // A batch that compares with values in memory does not mind that others come there.
        let _still = place.map(|_| self.still.write());
        let guard = pin();
        let published = moving.claim.publish(replace);
        drop(guard);
        let to = place.map_or(0, Place::tier);
        match &published {
            Ok(true) => {
                let from = keep::Moving::from(moving);
                self.cold.count_move(from, to, moving.value.len());
            }
            _ => {
                self.cold.count_abandoned(to);
                // No reader has found it yet.
                place.into_iter().for_each(|place| self.cold.release(place));
            }
        }
        published
    }

    /// Brings the value of a key into memory, and returns whether it could be read. If it was
    /// changed meanwhile, it did not come.
    pub(super) fn come(&self, key: &[u8]) -> Result<bool, Error> {
        match self.begin_one(key) {
            Ok(moving) => {
                if keep::Moving::from(&moving) > 0 {
                    self.publish_one(&moving, None)?;
                }
                Ok(true)
            }
            Err(Unmoved::Absent) => Ok(true),
            Err(Unmoved::Unreadable(_)) => Ok(false),
            Err(Unmoved::Index(error)) => Err(error),
        }
    }

    /// Moves the value of a key to a tier.
    pub(super) fn force(&self, key: &[u8], to: usize) -> Result<Forced, Error> {
        let moving = match self.begin_one(key) {
            Ok(moving) => moving,
            Err(Unmoved::Absent) => return Ok(Forced::Stayed),
            Err(Unmoved::Unreadable(error)) => return Err(unreadable(key, &error)),
            Err(Unmoved::Index(error)) => return Err(error),
        };
        if keep::Moving::from(&moving) == to {
            return Ok(Forced::Stayed);
        }
        let place = match to {
            0 => None,
            to => match self.cold.put(to, &[&moving.value]) {
                Ok(places) => places.first().copied(),
                Err(_) => return Ok(Forced::Stayed),
            },
        };
        Ok(match self.publish_one(&moving, place)? {
            true => Forced::Moved,
            false => Forced::Stayed,
        })
    }

    pub(super) fn tier_of(&self, key: &[u8]) -> Result<Option<usize>, Error> {
        let stored = self.entries.get(key)?;
        Ok(stored.map(|stored| match Record::parse(&stored) {
            Record::Here(_) => 0,
            Record::There(place) => place.tier(),
        }))
    }

    /// Returns the entries after a key, as they are stored.
    fn entries_after(&self, after: Option<&[u8]>, count: u32) -> Result<Batch<Bytes>, Error> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut batch = Batch::new();
        batch.scan(start, Bound::Unbounded, count, Direction::Ascending);
        self.entries.execute(&mut batch)?;
        Ok(batch)
    }

    pub(super) fn tiers(&self) -> Vec<TierUse> {
        let Some(tiers) = self.cold.tiers() else {
            return Vec::new();
        };
        let cold: u64 = (1..tiers.count()).map(|tier| tiers.values(tier)).sum();
        let tier_use = |(number, tier): (usize, &crate::Specification)| {
            let usage = tiers.usage(number);
            let traffic = self.cold.traffic(number)?;
            let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
            Some(TierUse {
                kind: self.cold.name(number),
                capacity_bytes: usage.map_or(tier.capacity_bytes, |usage| usage.capacity_bytes),
                used_bytes: usage.map_or_else(|| self.index_bytes(), |usage| usage.used_bytes),
                values: match usage {
                    Some(usage) => usage.values,
                    None => (self.entries.len() as u64).saturating_sub(cold),
                },
                moved_in: count(&traffic.moved_in),
                moved_out: count(&traffic.moved_out),
                unreadable: count(&traffic.unreadable),
            })
        };
        let specifications = tiers.specifications().iter().enumerate();
        specifications.filter_map(tier_use).collect()
    }
}

impl<I: OrderedIndex<Bytes> + Debug> Inner<I> {
    /// Keeps the tiers until the map is dropped.
    pub(super) fn keep(&self) {
        self.keeper.keep(&self, &self.stopping);
    }

    pub(super) fn check_invariants(&self) {
        let _still = self.keeper.still();
        self.entries.check_invariants();
        // Retired places are released by the next thread that pins.
        let began = Instant::now();
        while self.retired() > 0 && began.elapsed() < Duration::from_secs(10) {
            pin().flush();
            std::thread::yield_now();
        }
        assert_eq!(self.retired(), 0, "places that were given up stay");
        let Some(tiers) = self.cold.tiers() else {
            return;
        };
        let mut counts = vec![(0, 0); tiers.count()];
        let mut hand: Hand = None;
        loop {
            let entries = self.entries_after(hand.as_deref(), 1000);
            let entries = entries.expect("a scan of a thousand entries");
            let mut met = 0;
            for (key, stored) in entries.entries(0) {
                met += 1;
                hand = Some(key.to_vec());
                if let Record::There(place) = Record::parse(stored) {
                    let value = self.read(key, place).expect("a value that was put");
                    let count = &mut counts[place.tier()];
                    *count = (count.0 + 1, count.1 + value.len() as u64);
                }
            }
            if met == 0 {
                break;
            }
        }
        for (tier, counted) in counts.into_iter().enumerate().skip(1) {
            let usage = tiers.usage(tier).unwrap_or_default();
            let held = (usage.values, usage.value_bytes);
            assert_eq!(held, counted, "tier {tier} has other values than the index");
            assert!(usage.used_bytes <= usage.capacity_bytes);
        }
    }
}

impl<'k, I: OrderedIndex<Bytes> + Debug> Values for &'k Inner<I> {
    type Hand = Hand;
    type Moving = Moving<'k, I>;

    fn cold(&self) -> &Cold {
        &self.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.warmth
    }

    fn hash(&self, named: &Named) -> u64 {
        xxh3_64(&named.key)
    }

    fn size(&self) -> Size {
        self.written.store(0, Ordering::Relaxed);
        // Memory that this thread replaced counts until it is freed.
        pin().flush();
        Size {
            bytes: self.index_bytes(),
            keys: self.entries.len(),
        }
    }

    fn frees(&self) -> bool {
        false
    }

    fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    fn walk(&self, hand: &mut Hand, count: usize, met: &mut Vec<Met>) -> bool {
        let Ok(batch) = self.entries_after(hand.as_deref(), count as u32) else {
            return false;
        };
        let entries = batch.entries(0);
        let is_end = entries.len() < count;
        met.extend(entries.map(|(key, stored)| Met {
            key: Named {
                key: key.to_vec(),
                ..Named::default()
            },
            at: match Record::parse(stored) {
                Record::Here(value) => At::Memory(value.len() as u64),
                Record::There(place) => At::Place(place),
            },
        }));
        *hand = match is_end {
            true => None,
            false => met.last().map(|met| met.key.key.clone()),
        };
        is_end
    }

    fn is_pinned(&self, _key: &Named) -> bool {
        false
    }

    fn begin(&self, keys: &[&Named]) -> Vec<Option<Moving<'k, I>>> {
        let inner: &'k Inner<I> = self;
        let begin = |named: &&Named| {
            let moving = inner.begin_one(&named.key).ok()?;
            (moving.value.len() >= MOVED_BYTES_MIN).then_some(moving)
        };
        keys.iter().map(begin).collect()
    }

    fn publish(&self, moving: Moving<'k, I>, place: Option<Place>) -> bool {
        self.publish_one(&moving, place).unwrap_or(false)
    }
}
