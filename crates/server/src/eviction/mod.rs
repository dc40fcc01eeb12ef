//! The enforcement of `maxmemory`: the bytes that count as used, and the keys that are evicted if
//! there are too many.
//!
//! # Bytes that count as used
//!
//! The bytes *in use* count: nodes and blocks of the indexes that hold something, memory of
//! objects, memory of clients, scripts, users and tracked keys, and the tables of the use of keys.
//! Bytes that the indexes have taken from the system and keep for reuse do not count: they never
//! become fewer, so that eviction by them would end only when there are no keys. They are reused
//! before more is taken, so the memory of the process stays near its peak use.
//!
//! A block of the index is given up when its neighbours have room for its remaining entries, not
//! with each key. So the first evictions after a time without any free little, and new keys then
//! use the room in blocks without taking memory. On average each key frees its share, and the
//! number of bytes always reaches zero with the last key, so eviction ends.
//!
//! Other memory of the process is not counted. If there is much of it, a part of the limit is
//! withheld; see `resident.rs`.
//!
//! # Points at which the use is counted
//!
//! Counting takes microseconds. So the indexes are counted once, and then each write adds its
//! maximum possible growth to that number, as if nothing was ever replaced. Only when this estimate
//! exceeds the limit are they counted again; eviction continues until a thousandth of the limit is
//! free, so that this does not happen with each write. Objects have a counter of their own, which
//! is always exact.
//!
//! # Keys that are evicted
//!
//! See `EvictionHands` for the search for candidates and [`KeyUseStatistics`] for the statistics
//! about them. Source: Redis's approximated LRU (evict.c), with walks down the index in place of
//! random buckets.
//!
//! With tiers, the least used values are in the last tier. Keys whose values are there are evicted,
//! by the same policy, and other values move down into their room. Keys of other tiers are evicted
//! only once that tier is empty: then all values are too small to move. `volatile-ttl` ignores the
//! use, and evicts the key that expires next, in any tier.

pub mod access;
mod candidates;
pub mod hot_keys;
mod policy;
mod resident;
mod walk;

pub use access::KeyUseStatistics;
pub use policy::MaxmemoryPolicy;

use crate::client::ClientShare;
use crate::keyspace::{DatabaseKeys, Databases, Keyspace};
use crate::machine;
use crate::script::ScriptMemory;
use candidates::{EvictionCriteria, EvictionHands, EvictionPool};
use parking_lot::Mutex;
use resident::WithheldPart;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// The bytes that a write may take in an index beyond those of key and value: its share of nodes,
/// and the room that is left in blocks which have been split.
const WRITE_OVERHEAD_BYTES: usize = 64;

/// The part of the limit that eviction frees below the limit.
const SPARE_PART: u64 = 1024;

/// Commands that take little memory are refused if this part of the limit is used beyond it.
const FAR_PART: u64 = 16;
/// With a small limit, this number of bytes: a script that has deleted keys may then still write.
const FAR_BYTES_MIN: u64 = 4 << 20;

/// A command may grow values by this part of the limit before others are evicted.
const GROWTH_PART: u64 = 32;

/// Number of evicted keys after which values move into their room. *Assumed*: few enough that
/// little more is evicted than necessary.
const EVICTED_AT_ONCE: usize = 16;

/// The limit of memory, and the statistics of its use.
#[derive(Debug)]
pub struct Eviction {
    /// `maxmemory`; 0 is no limit.
    limit_bytes: AtomicU64,
    /// The capacity of the memory tier; 0 if there are no tiers.
    memory_tier_bytes: AtomicU64,
    policy: AtomicU8,
    samples: AtomicUsize,
    /// An upper bound of the bytes of the indexes: the counted bytes, plus all writes since.
    index_bytes_max: AtomicU64,
    /// The memory of clients.
    clients: Arc<ClientShare>,
    /// The memory of scripts and functions.
    scripts: Arc<ScriptMemory>,
    /// The memory of users and of the table of tracked keys.
    aside_bytes: AtomicUsize,
    /// The part of the limit that is withheld, because the process takes more than is counted.
    withheld: WithheldPart,
    /// Number of keys that were evicted since the start.
    evicted_keys: AtomicU64,
    search: Mutex<EvictionSearch>,
}

#[derive(Debug, Default)]
struct EvictionSearch {
    candidates: EvictionHands,
    pool: EvictionPool,
}

/// The default number of candidates that are sampled for each eviction.
pub const SAMPLES: usize = 5;

impl Default for Eviction {
    fn default() -> Self {
        Eviction {
            limit_bytes: AtomicU64::new(0),
            memory_tier_bytes: AtomicU64::new(0),
            policy: AtomicU8::new(MaxmemoryPolicy::NoEviction as u8),
            samples: AtomicUsize::new(SAMPLES),
            // More than any limit: the first write makes the indexes be counted.
            index_bytes_max: AtomicU64::new(u64::MAX / 2),
            clients: Arc::default(),
            scripts: Arc::default(),
            aside_bytes: AtomicUsize::new(0),
            withheld: WithheldPart::default(),
            evicted_keys: AtomicU64::new(0),
            search: Mutex::default(),
        }
    }
}

impl Eviction {
    /// Creates the eviction for the memory of the keyspace, these clients and scripts.
    pub fn new(clients: Arc<ClientShare>, scripts: Arc<ScriptMemory>) -> Eviction {
        Eviction {
            clients,
            scripts,
            ..Eviction::default()
        }
    }

    /// Returns `maxmemory`; 0 is no limit.
    #[inline]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that may be in use: `maxmemory`, less the withheld part. 0 is no limit.
    #[inline]
    fn usable_bytes(&self) -> u64 {
        // Limit and withheld part may both have just been changed, so that the part may be greater.
        let limit = self.limit_bytes();
        if limit == 0 {
            return 0;
        }
        // 0 would mean no limit.
        let limit = limit - 1;
        1 + limit - self.withheld.bytes().min(limit)
    }

    /// Sets the memory of the process before it has any keys. From then on its memory is kept near
    /// the limit.
    pub fn set_base(&self, keyspace: &Keyspace, access: &KeyUseStatistics, resident: u64) {
        // The tables of uses exist from the start, and count towards the limit.
        let counted = self.other_bytes(keyspace, access);
        self.withheld.set_base(resident.saturating_sub(counted));
    }

    /// Withholds a part of the limit if the process takes much more than it. Returns true if the
    /// allocator should give back free memory. Takes microseconds.
    pub fn check_process_memory(&self, keyspace: &Keyspace, access: &KeyUseStatistics) -> bool {
        self.withhold(keyspace, access) && self.withheld.asks()
    }

    /// Withholds a part of the limit if the process takes much more than it. Returns true if it
    /// does.
    fn withhold(&self, keyspace: &Keyspace, access: &KeyUseStatistics) -> bool {
        let limit = self.limit_bytes();
        if limit == 0 {
            return false;
        }
        let index = self.index_bytes(keyspace);
        let used = index.saturating_add(self.other_bytes(keyspace, access));
        let resident = machine::resident_bytes().unwrap_or(0);
        self.withheld.look(limit, used.min(limit), resident)
    }

    /// Returns `maxmemory-policy`.
    pub fn policy(&self) -> MaxmemoryPolicy {
        MaxmemoryPolicy::from_number(self.policy.load(Ordering::Relaxed))
    }

    /// Changes the limit, the policy, and the number of candidates sampled for each eviction.
    pub fn configure(&self, limit_bytes: u64, policy: MaxmemoryPolicy, samples: usize) {
        // Writes were not counted while there was no limit.
        self.index_bytes_max.store(u64::MAX / 2, Ordering::Relaxed);
        if self.limit_bytes.swap(limit_bytes, Ordering::Relaxed) != limit_bytes {
            self.withheld.clear();
        }
        self.policy.store(policy as u8, Ordering::Relaxed);
        self.samples.store(samples, Ordering::Relaxed);
        self.search.lock().pool.clear();
    }

    /// Sets the capacity of the memory tier, if there are tiers.
    pub fn set_memory_tier(&self, bytes: u64) {
        self.memory_tier_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of keys that were evicted since the start.
    pub fn evicted_keys(&self) -> u64 {
        self.evicted_keys.load(Ordering::Relaxed)
    }

    /// Resets the number of evicted keys.
    pub fn forget_evicted_keys(&self) {
        self.evicted_keys.store(0, Ordering::Relaxed);
    }

    /// Sets the memory of users and of the table of tracked keys.
    pub fn note_aside(&self, bytes: usize) {
        self.aside_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the memory of users and of the table of tracked keys.
    pub fn aside_bytes(&self) -> usize {
        self.aside_bytes.load(Ordering::Relaxed)
    }

    /// Returns the memory of clients.
    pub fn client_bytes(&self) -> usize {
        self.clients.held()
    }

    /// Counts the bytes in use, and returns them. Takes microseconds.
    pub fn used_bytes(
        &self,
        keyspace: &Keyspace,
        databases: &Databases,
        access: &KeyUseStatistics,
    ) -> u64 {
        let index = keyspace.index_bytes(databases) as u64;
        self.index_bytes_max.store(index, Ordering::Relaxed);
        keyspace.put_bytes.store(0, Ordering::Relaxed);
        index + self.other_bytes(keyspace, access)
    }

    /// Returns the bytes that the indexes take at most.
    #[inline]
    fn index_bytes(&self, keyspace: &Keyspace) -> u64 {
        let put = keyspace.put_bytes.load(Ordering::Relaxed);
        // The first number is large until the indexes are counted.
        self.index_bytes_max
            .load(Ordering::Relaxed)
            .saturating_add(put)
    }

    fn other_bytes(&self, keyspace: &Keyspace, access: &KeyUseStatistics) -> u64 {
        let apart = self.scripts.bytes() + self.aside_bytes();
        let others = self.client_bytes() + apart + access.bytes();
        let bytes = keyspace.object_bytes() + others;
        bytes as u64 + keyspace.cold.memory_bytes()
    }

    /// Counts that `writes` writes may have put `bytes` bytes of keys and values into indexes.
    #[inline]
    pub fn note_writes(&self, writes: usize, bytes: usize) {
        let has_tiers = self.memory_tier_bytes.load(Ordering::Relaxed) != 0;
        if self.limit_bytes() != 0 || has_tiers {
            // Blocks that were just split are half empty, which matters for a small limit.
            let bytes = (2 * bytes + writes * WRITE_OVERHEAD_BYTES) as u64;
            self.index_bytes_max.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Returns true if the bytes in use may exceed the limit, so that they must be counted.
    #[inline]
    pub fn may_exceed_limit(&self, keyspace: &Keyspace, access: &KeyUseStatistics) -> bool {
        let limit = self.usable_bytes();
        let index = || self.index_bytes(keyspace);
        limit != 0 && index() + self.other_bytes(keyspace, access) > limit
            || self.may_exceed_memory_tier(keyspace)
    }

    /// Returns true if even commands that take little memory must be refused. May be true until the
    /// indexes are counted again.
    pub fn exceeds_limit_by_far(&self, keyspace: &Keyspace, access: &KeyUseStatistics) -> bool {
        let limit = self.limit_bytes();
        let index = self.index_bytes(keyspace);
        let far = limit + (limit / FAR_PART).max(FAR_BYTES_MIN);
        limit != 0 && index.saturating_add(self.other_bytes(keyspace, access)) > far
    }

    /// Returns the number of bytes that one command may take beyond its arguments: up to the limit,
    /// or a small part of the limit, so that a full cache still takes values that grow slowly.
    pub fn room(&self, keyspace: &Keyspace, access: &KeyUseStatistics) -> u64 {
        let limit = self.usable_bytes();
        if limit == 0 {
            return u64::MAX;
        }
        let index = self.index_bytes(keyspace);
        let used = index.saturating_add(self.other_bytes(keyspace, access));
        limit.saturating_sub(used).max(limit / GROWTH_PART)
    }

    /// Returns true if keys and values in memory may take more than the memory tier has.
    #[inline]
    pub fn may_exceed_memory_tier(&self, keyspace: &Keyspace) -> bool {
        let tier = self.memory_tier_bytes.load(Ordering::Relaxed);
        tier != 0 && {
            let index = self.index_bytes(keyspace);
            index + keyspace.object_bytes() as u64 > tier
        }
    }

    /// Counts the keys and values in memory, and returns the bytes by which they exceed the memory
    /// tier. Takes microseconds.
    pub fn memory_tier_excess(&self, keyspace: &Keyspace, databases: &Databases) -> u64 {
        let index = keyspace.index_bytes(databases) as u64;
        self.index_bytes_max.store(index, Ordering::Relaxed);
        keyspace.put_bytes.store(0, Ordering::Relaxed);
        let used = index + keyspace.object_bytes() as u64;
        match self.memory_tier_bytes.load(Ordering::Relaxed) {
            0 => 0,
            tier => used.saturating_sub(tier),
        }
    }

    /// Evicts keys until there is room for `bytes` bytes. Returns false if that fails. `keys` must
    /// be in the exclusive phase. If the memory tier must have room, too, because its values cannot
    /// move to others, `carry` is called each time the last tier has got some.
    ///
    /// If keys may not be evicted because of a pause, it returns true, as in Redis: commands that
    /// write wait for its end, and no other is refused meanwhile.
    ///
    /// With tiers, only keys are evicted whose values are in the last tier that holds any.
    pub fn make_room(
        &self,
        bytes: u64,
        keys: &mut DatabaseKeys<'_>,
        access: &KeyUseStatistics,
        mut carry: Option<&mut dyn FnMut(&Databases)>,
    ) -> bool {
        debug_assert!(keys.is_exclusive());
        let keyspace = keys.keyspace();
        // The timed checks alone are too few while keys arrive fast, or while their thread does not
        // run.
        if self.withheld.note_pass() {
            self.withhold(keyspace, access);
        }
        let limit = match self.usable_bytes() {
            0 => u64::MAX,
            // Without any key it would not fit either.
            limit if limit <= bytes => return false,
            limit => limit - bytes,
        };
        let used = self.used_bytes(keyspace, keys.databases(), access);
        let has_to_carry = carry.is_some();
        let is_tier_over = |databases: &Databases| {
            has_to_carry && self.memory_tier_excess(keyspace, databases) > 0
        };
        if used <= limit && !is_tier_over(keys.databases()) {
            return true;
        }
        if keys.keeps_all() {
            return true;
        }
        let policy = self.policy();
        if policy == MaxmemoryPolicy::NoEviction {
            return false;
        }
        let target = limit - limit / SPARE_PART;
        let mut search = self.search.lock();
        let EvictionSearch { candidates, pool } = &mut *search;
        let samples = self.samples.load(Ordering::Relaxed);
        let own = keys.database_number();
        let mut evicted: usize = 0;
        let used = loop {
            let used = self.used_bytes(keyspace, keys.databases(), access);
            if used <= target && !is_tier_over(keys.databases()) {
                break used;
            }
            let wanted = EvictionCriteria {
                keyspace,
                policy,
                samples,
                tier: keyspace.cold.last_with_values(),
            };
            let next = pool.next(keys.databases(), candidates, wanted, access);
            let Some((database, key)) = next else {
                break used;
            };
            keys.select(database);
            if keys.evict(&key).is_err() {
                break used;
            }
            self.evicted_keys.fetch_add(1, Ordering::Relaxed);
            // Objects are reclaimed here, because their memory would still be counted otherwise.
            drop(keyspace.reclaim(keys.databases_mut()));
            evicted += 1;
            if evicted.is_multiple_of(EVICTED_AT_ONCE)
                && let Some(carry) = &mut carry
            {
                carry(keys.databases());
                drop(keyspace.reclaim(keys.databases_mut()));
            }
        };
        keys.select(own);
        used <= limit && !is_tier_over(keys.databases())
    }
}
