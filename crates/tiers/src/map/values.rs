//! The interface through which the keeper moves the values of a map.

use super::TierUse;
use super::inner::{TieredIndexCore, unreadable};
use super::record::{self, TieredRecord};
use crate::claim::{ClaimTarget, MoveClaim};
use crate::cold::ColdTiers;
use crate::keep::{
    self, MOVED_BYTES_MIN, MovableValues, StoreMemorySize, ValueName, ValuePosition, VisitedKey,
    Warmth,
};
use crate::place::ColdPlace;
use crate::usage::ReadError;
use crossbeam_epoch::pin;
use nearfield_core::{Batch, ByteStrings, OperationError, OrderedIndex, ScanDirection};
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Cursor of the walk: the last key that it visited.
pub(super) type Hand = Option<Vec<u8>>;

/// A value that is being moved.
#[derive(Debug)]
pub(super) struct TieredMove<'k, I: OrderedIndex<ByteStrings>> {
    key: Vec<u8>,
    /// The record from which the value was read.
    stored: Vec<u8>,
    value: Vec<u8>,
    claim: MoveClaim<'k, TieredIndexCore<I>>,
}

/// Outcome of a move that a user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForcedMoveOutcome {
    Moved,
    Stayed,
}

/// Reason for which a move does not begin.
enum MoveStartError {
    Absent,
    Index(OperationError),
    Unreadable(ReadError),
}

impl<I: OrderedIndex<ByteStrings>> keep::MovingValue for TieredMove<'_, I> {
    fn value(&self) -> &[u8] {
        &self.value
    }

    fn from(&self) -> usize {
        self.claim.place().map_or(0, ColdPlace::tier)
    }
}

impl<I: OrderedIndex<ByteStrings>> TieredIndexCore<I> {
    fn begin_one(&self, key: &[u8]) -> Result<TieredMove<'_, I>, MoveStartError> {
        let guard = pin();
        let stored = self.entries.get(key).map_err(MoveStartError::Index)?;
        let stored = stored.ok_or(MoveStartError::Absent)?;
        let record = TieredRecord::parse(&stored);
        let outside = match record {
            TieredRecord::Here(_) => None,
            TieredRecord::There(place) => Some(ClaimTarget::Place(place)),
        };
        // Claimed while pinned: later the place may have been released and reused.
        let claim = MoveClaim::take(self, outside);
        drop(guard);
        let mut value = Vec::new();
        match record {
            TieredRecord::Here(here) => value.extend_from_slice(here),
            TieredRecord::There(place) => {
                let read = self.cold.read_to_move(place, &mut value);
                read.map_err(MoveStartError::Unreadable)?;
            }
        }
        Ok(TieredMove {
            key: key.to_vec(),
            stored,
            value,
            claim,
        })
    }

    /// Ends a move, and returns whether the value moved.
    fn publish_one(
        &self,
        moving: &TieredMove<'_, I>,
        place: Option<ColdPlace>,
    ) -> Result<bool, OperationError> {
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
        let to = place.map_or(0, ColdPlace::tier);
        match &published {
            Ok(true) => {
                let from = keep::MovingValue::from(moving);
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
    pub(super) fn come(&self, key: &[u8]) -> Result<bool, OperationError> {
        match self.begin_one(key) {
            Ok(moving) => {
                // Another thread may have brought it there already.
                if keep::MovingValue::from(&moving) > 0 {
                    self.publish_one(&moving, None)?;
                }
                Ok(true)
            }
            Err(MoveStartError::Absent) => Ok(true),
            Err(MoveStartError::Unreadable(_)) => Ok(false),
            Err(MoveStartError::Index(error)) => Err(error),
        }
    }

    /// Moves the value of a key to a tier.
    pub(super) fn force(&self, key: &[u8], to: usize) -> Result<ForcedMoveOutcome, OperationError> {
        let moving = match self.begin_one(key) {
            Ok(moving) => moving,
            Err(MoveStartError::Absent) => return Ok(ForcedMoveOutcome::Stayed),
            Err(MoveStartError::Unreadable(error)) => return Err(unreadable(key, &error)),
            Err(MoveStartError::Index(error)) => return Err(error),
        };
        if keep::MovingValue::from(&moving) == to {
            return Ok(ForcedMoveOutcome::Stayed);
        }
        let place = match to {
            0 => None,
            to => match self.cold.put(to, &[&moving.value]) {
                Ok(places) => places.first().copied(),
                Err(_) => return Ok(ForcedMoveOutcome::Stayed),
            },
        };
        Ok(match self.publish_one(&moving, place)? {
            true => ForcedMoveOutcome::Moved,
            false => ForcedMoveOutcome::Stayed,
        })
    }

    pub(super) fn tier_of(&self, key: &[u8]) -> Result<Option<usize>, OperationError> {
        let stored = self.entries.get(key)?;
        Ok(stored.map(|stored| match TieredRecord::parse(&stored) {
            TieredRecord::Here(_) => 0,
            TieredRecord::There(place) => place.tier(),
        }))
    }

    /// Returns the entries after a key, as they are stored.
    fn entries_after(
        &self,
        after: Option<&[u8]>,
        count: u32,
    ) -> Result<Batch<ByteStrings>, OperationError> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut batch = Batch::new();
        batch.scan(start, Bound::Unbounded, count, ScanDirection::Ascending);
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
                    // The two counts are not of one instant, so the difference may be negative.
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

impl<I: OrderedIndex<ByteStrings> + Debug> TieredIndexCore<I> {
    /// Keeps the tiers until the map is dropped.
    pub(super) fn keep(&self) {
        self.keeper.keep(&self, &self.stopping);
    }

    pub(super) fn check_invariants(&self) {
        let _still = self.keeper.pause();
        self.entries.check_invariants();
        // Retired places are released by the next thread that pins.
        let began = Instant::now();
        while self.retired() > 0 && began.elapsed() < Duration::from_secs(10) {
            pin().flush();
            std::thread::yield_now();
        }
        assert_eq!(self.retired(), 0, "abandoned places are not reused");
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
                if let TieredRecord::There(place) = TieredRecord::parse(stored) {
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

impl<'k, I: OrderedIndex<ByteStrings> + Debug> MovableValues for &'k TieredIndexCore<I> {
    type Hand = Hand;
    type Moving = TieredMove<'k, I>;

    fn cold(&self) -> &ColdTiers {
        &self.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.warmth
    }

    fn hash(&self, named: &ValueName) -> u64 {
        xxh3_64(&named.key)
    }

    fn size(&self) -> StoreMemorySize {
        // Before the count: bytes written during it count twice, which is better than not at all.
        self.written.store(0, Ordering::Relaxed);
        // Memory that this thread replaced counts until it is freed.
        pin().flush();
        StoreMemorySize {
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

    fn walk(&self, hand: &mut Hand, count: usize, met: &mut Vec<VisitedKey>) -> bool {
        let Ok(batch) = self.entries_after(hand.as_deref(), count as u32) else {
            return false;
        };
        let entries = batch.entries(0);
        debug_assert!(entries.len() <= count);
        let is_end = entries.len() < count;
        met.extend(entries.map(|(key, stored)| VisitedKey {
            key: ValueName {
                key: key.to_vec(),
                ..ValueName::default()
            },
            at: match TieredRecord::parse(stored) {
                TieredRecord::Here(value) => ValuePosition::Memory(value.len() as u64),
                TieredRecord::There(place) => ValuePosition::Place(place),
            },
        }));
        *hand = match is_end {
            true => None,
            false => met.last().map(|met| met.key.key.clone()),
        };
        is_end
    }

    fn is_pinned(&self, _key: &ValueName) -> bool {
        false
    }

    fn begin(&self, keys: &[&ValueName]) -> Vec<Option<TieredMove<'k, I>>> {
        let inner: &'k TieredIndexCore<I> = self;
        let begin = |named: &&ValueName| {
            let moving = inner.begin_one(&named.key).ok()?;
            // The length of a cold value is known only here; the walk has used a mean.
            (moving.value.len() >= MOVED_BYTES_MIN).then_some(moving)
        };
        keys.iter().map(begin).collect()
    }

    fn publish(&self, moving: TieredMove<'k, I>, place: Option<ColdPlace>) -> bool {
        self.publish_one(&moving, place).unwrap_or(false)
    }
}
