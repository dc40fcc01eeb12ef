//! The keyspace: 16 databases over ordered indexes, and the objects that they refer to.
//!
//! # Phases
//!
//! Commands run in one of two *phases*. In the *shared phase* any number of threads work at once:
//! batches, and commands on one key. In the *exclusive phase* one thread has the keyspace to
//! itself: transactions, scripts, and commands that change several keys, also as part of a batch.
//!
//! In the shared phase, a thread that changes a key or works on its object holds the key's
//! [stripe](stripes::KeyStripes), from before the first read to after the entry in the log. So the
//! commands on one key are in one order, in memory and in the log. A command that reads several
//! keys holds all their stripes, so that it sees them at one instant. A read of a string in a batch
//! that decides nothing by what it reads holds no stripe: the lookup in the index is atomic.
//!
//! A thread that holds a stripe never waits for a phase. It waits for another stripe only in
//! ascending order ([`lock_all`](stripes::KeyStripes::lock_all)).

pub mod cold;
mod cold_notes;
pub mod database;
pub mod draft;
pub mod effects;
mod fields;
pub mod flushed;
mod found;
pub mod freeing;
mod held_phase;
pub mod home;
mod in_batch;
pub mod index;
mod keys;
pub mod moving;
pub mod nodes;
pub mod notes;
mod range;
pub mod record;
#[cfg(test)]
pub(crate) mod refusals;
pub mod slots;
pub mod snapshot;
pub mod stripes;
mod told;
mod view;

pub use cold::{ColdTiers, Outside};
pub use cold_notes::ColdNotes;
pub use database::{DATABASES, Database};
pub use effects::{Class, Effects, KeyspaceEvent};
pub use found::KeyMetadata;
pub use held_phase::HeldPhase;
pub use home::Home;
pub use in_batch::{BatchEffects, BatchValueChanges, InBatch};
pub use index::{DatabaseIndex, Entry, KeyBounds};
pub use keys::{DatabaseAccess, DatabaseKeys};
pub use moving::{ValueMove, ValueMoveError};
pub use record::{RecordPayload, ValueRecord};
pub use view::KeyView;
pub(crate) use view::{KeyLedger, KeyStore};

use crate::object::{ObjectLimits, SharedLimits};
use freeing::ObjectFreeing;
use nearfield_tiers::{AccountedHeap, Tiers};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use slots::ObjectSlots;
use snapshot::Snapshot;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stripes::KeyStripes;

/// All databases.
pub type Databases = [Database; DATABASES];

/// An observer of writes. While there is none, writes need not report what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WriteObserver {
    /// A client watches keys (`WATCH`).
    Watch = 1,
    /// Keyspace events are switched on.
    Notifications = 2,
    /// A client caches what it reads (`CLIENT TRACKING`).
    Tracking = 4,
    /// A client waits for a key (`BLPOP`).
    Blocked = 8,
    /// A snapshot is being taken.
    Snapshot = 16,
    /// A client sees all commands (`MONITOR`).
    Monitor = 32,
}

/// The databases, their objects and their locks. See the [module](self).
#[derive(Debug)]
pub struct Keyspace {
    /// The placement of the keys.
    pub home: Home,
    phase: RwLock<Databases>,
    /// A lock for each key, for the shared phase.
    pub stripes: KeyStripes,
    /// The objects of all databases.
    pub slots: Arc<ObjectSlots>,
    /// The heap of the objects.
    pub heap: AccountedHeap,
    /// The release of the objects that were given up.
    pub freeing: ObjectFreeing,
    /// The values in cold tiers, moved there because they are rarely used.
    pub cold: Arc<ColdTiers>,
    /// The notes of hashes among these values.
    pub cold_notes: Arc<ColdNotes>,
    /// The snapshot that is being taken.
    pub snapshot: Snapshot,
    /// True if commands collect what must be logged.
    logging: AtomicBool,
    observers: AtomicU32,
    limits: SharedLimits,
    /// Number of changes since the last snapshot.
    pub changes: AtomicU64,
    /// Bytes of keys and records that single commands have stored since the indexes were counted.
    pub put_bytes: AtomicU64,
    /// Number of expired keys since the start.
    pub expired_keys: AtomicU64,
    /// Number of expired fields of hashes since the start.
    pub expired_fields: AtomicU64,
    /// Number of lookups that found their key, since the start.
    pub hits: AtomicU64,
    /// Number of lookups that did not find their key, since the start.
    pub misses: AtomicU64,
}

impl Keyspace {
    /// Creates a keyspace without keys, or with the existing ones if it is shared.
    pub fn new(home: Home) -> Keyspace {
        let databases = std::array::from_fn(|number| Database::new(&home, number));
        Keyspace {
            home,
            phase: RwLock::new(databases),
            stripes: KeyStripes::default(),
            slots: Arc::default(),
            heap: AccountedHeap::default(),
            freeing: ObjectFreeing::default(),
            cold: Arc::default(),
            cold_notes: Arc::default(),
            snapshot: Snapshot::default(),
            logging: AtomicBool::default(),
            observers: AtomicU32::default(),
            limits: SharedLimits::default(),
            changes: AtomicU64::default(),
            put_bytes: AtomicU64::default(),
            expired_keys: AtomicU64::default(),
            expired_fields: AtomicU64::default(),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
        }
    }

    /// Adds tiers for the values of the keyspace.
    pub fn with_tiers(self, tiers: Option<Arc<Tiers>>) -> Keyspace {
        let cold = Arc::new(ColdTiers::new(tiers));
        Keyspace { cold, ..self }
    }

    /// Returns true if other servers read and change the same keys.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.home.is_shared()
    }

    /// Enters the shared phase.
    #[inline]
    pub fn share(&self) -> RwLockReadGuard<'_, Databases> {
        HeldPhase::forbid();
        self.phase.read()
    }

    /// Enters the shared phase, if that is possible without waiting.
    #[inline]
    pub fn try_share(&self) -> Option<RwLockReadGuard<'_, Databases>> {
        // It never waits, so that a thread which is in a phase may try.
        self.phase.try_read()
    }

    /// Enters the exclusive phase, once all other threads have left theirs.
    #[inline]
    pub fn exclude(&self) -> RwLockWriteGuard<'_, Databases> {
        HeldPhase::forbid();
        self.phase.write()
    }

    /// Enters the shared phase, if that is possible within `patience`.
    #[inline]
    pub fn try_share_for(&self, patience: Duration) -> Option<RwLockReadGuard<'_, Databases>> {
        HeldPhase::forbid();
        self.phase.try_read_for(patience)
    }

    /// Enters the exclusive phase, if that is possible within `patience`.
    pub fn try_exclude_for(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, Databases>> {
        HeldPhase::forbid();
        self.phase.try_write_for(patience)
    }

    /// Enters the exclusive phase if no thread is in a phase.
    #[inline]
    pub fn try_exclude(&self) -> Option<RwLockWriteGuard<'_, Databases>> {
        self.phase.try_write()
    }

    /// Returns true if there is an observer of writes.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.observers.load(Ordering::Acquire) != 0
    }

    /// Returns true if `observer` observes writes.
    #[inline]
    pub fn is_observed_by(&self, observer: WriteObserver) -> bool {
        self.observers.load(Ordering::Acquire) & observer as u32 != 0
    }

    /// Starts or stops `observer`. Must be called in the exclusive phase, so that no write is in
    /// progress that does not know of the change.
    pub fn set_observed(&self, observer: WriteObserver, observed: bool) {
        if observed {
            self.observers.fetch_or(observer as u32, Ordering::AcqRel);
        } else {
            self.observers
                .fetch_and(!(observer as u32), Ordering::AcqRel);
        }
    }

    /// Returns true if there is a log, so that commands collect what must be logged.
    #[inline]
    pub fn is_logging(&self) -> bool {
        self.logging.load(Ordering::Acquire)
    }

    /// Switches logging on or off. Must be called in the exclusive phase.
    pub fn set_logging(&self, logging: bool) {
        self.logging.store(logging, Ordering::Release);
    }

    /// Returns the sizes up to which objects have their small forms.
    #[inline]
    pub fn limits(&self) -> ObjectLimits {
        self.limits.load()
    }

    /// Changes the sizes up to which objects have their small forms, for objects that grow later.
    pub fn set_limits(&self, change: impl FnOnce(&mut ObjectLimits)) {
        self.limits.change(change);
    }

    /// Moves blocks of the indexes for a time, so that memory can be given back to the system. Ends
    /// early, and returns false, if there is nothing to do, or while a command needs the whole
    /// keyspace.
    pub fn compact_for(&self, time: Duration) -> bool {
        /// Number of blocks moved at a time: about 100 µs, for which such a command waits.
        const BLOCKS: usize = 64;
        let begun = Instant::now();
        while begun.elapsed() < time {
            // A command that waits for the whole keyspace goes first: memory can wait.
            let has_more = self.try_share().is_some_and(|databases| {
                let compact = |database: &Database| database.compact(BLOCKS);
                // `any` would leave out the databases after the first that has more to do.
                databases.iter().map(compact).fold(false, |a, b| a | b)
            });
            if !has_more {
                return false;
            }
        }
        true
    }

    /// Returns the bytes of memory that objects use, without those that wait to be freed.
    #[inline]
    pub fn object_bytes(&self) -> usize {
        let used = self.heap.used_bytes();
        // A large value that was evicted must not cause further evictions. Only an eighth of the
        // memory is assumed to be free soon, so that a queue of such values exceeds the limit by
        // at most that.
        used - self.freeing.waiting_bytes().min(used / 8)
    }

    /// Returns the bytes of memory that the indexes use, without what they keep for reuse.
    pub fn index_bytes(&self, databases: &Databases) -> usize {
        databases.iter().map(Database::used_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server's memory thread gives back what a load in random order has left free.
    #[test]
    fn memory_of_the_indexes_is_given_back() {
        const KEYS: u64 = 300_000;
        let keyspace = Keyspace::new(Home::Local);
        let databases = keyspace.share();
        let index = databases[3].entries_or_create().expect("memory");
        for i in 0..KEYS {
            // The factor is some odd number, so that each key comes once.
            let key = format!("key:{:012}", i * 611_953 % KEYS);
            index.insert(key.as_bytes(), b"12345678").expect("memory");
        }
        let before = index.memory();
        drop(databases);
        let begun = Instant::now();
        while keyspace.compact_for(Duration::from_millis(2)) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
        }
        let databases = keyspace.share();
        let after = databases[3]
            .entries()
            .map(DatabaseIndex::memory)
            .expect("an index");
        assert!(after.total_bytes() <= before.total_bytes());
        let free = [before, after].map(|memory| memory.taken_bytes - memory.total_bytes());
        assert!(free[1] < free[0] / 4 * 3, "{before:?}, then {after:?}");
    }
}
