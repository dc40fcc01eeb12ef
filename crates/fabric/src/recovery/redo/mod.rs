//! Changes that are done whole or not at all, even if the client that makes them dies.
//!
//! Before a client changes data under a lock ([`lease`](crate::recovery::lease)), it writes a
//! [`RedoRecord`] of all its writes, into a slot of its own on the node of the lock. Record, change
//! and the word that releases the lock can go in one post, because a node executes the verbs of a
//! client in their order: while any byte of the change is there, the record is whole.
//!
//! ```text
//! directory of a node     word of owner: its slots | first line of its region
//! region                  count of lives, line | slot | slot | ...
//! ```
//!
//! A client that takes the lock over searches the slots of the former owner. If there is a whole
//! record of the very acquisition that was abandoned, the change may have begun, and [`Redo::lock`]
//! writes all of it again. If there is none, the change has not begun, and the data are unchanged.
//!
//! The client that takes over may die as well. So it first writes the record into a slot of its
//! own, under the word that it will put into the lock, and does both in one post. At each moment
//! the record belongs to the acquisition that the lock names.
//!
//! # Guarantees and duties
//! - Of a recorded change either no byte is there or, once the lock is held again, all are. An
//!   unrecorded write under a lock may be there in part.
//! - A record may name writes to any node. Each node keeps the order of verbs by itself. If a
//!   change writes to other nodes than the lock's, post the record and wait for it first, then post
//!   the change, and release the lock when that is done.
//! - One acquisition has one record at a time, and a later one replaces it. Post the later one when
//!   all writes of the former are done, or after them in the same post or in a later one to the
//!   same node.
//! - A record may contain only data that the lock guards. Other clients might have changed other
//!   data before the record is repeated. A change under two locks is two records. The note of the
//!   first describes the task of the second, so that a client that finds the first can complete it.
//! - The record may not contain the word of the lock.
//! - A write of no bytes names a *mark*: a word for readers that is odd during the change. The
//!   client that makes the change adds one before it and one after it; a client that repeats it
//!   leaves the word even.
//!
//! # Costs
//! A record has 26 bytes, 10 for each write, the written bytes and the note ([`record_bytes`]). It
//! costs one more message, and no round trip if everything is on one node. A region has a line, and
//! the slots. Taking over costs two more round trips: a word, and the region. With replicas the
//! region is read at both.

mod record;
#[cfg(test)]
mod tests;

use crate::address::{GlobalAddress, LINE_BYTES, NodeId, OFFSETS, WORD_BYTES};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::recovery::lease::{LeasedLock, LockWaitOutcome, Locker, Target, forwarded, owner};
use crate::verb::FabricVerb;
pub use record::{RedoRecord, record_bytes};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Fields of the directory word: the number of slots, the lines of each, and the first line of the
/// region.
const SLOTS_SHIFT: u32 = 58;
const LINES_SHIFT: u32 = 42;
/// Largest number of locks of a node that a client can hold with records at once. There is one more
/// slot, so that the client can take over one by one the locks that former lives of an owner have
/// left in all slots.
pub const SLOTS_MAX: usize = (1 << (64 - SLOTS_SHIFT)) - 2;
/// Largest number of lines of a slot: a longer record does not exist.
const SLOT_LINES_MAX: u64 = record::RECORD_BYTES_MAX as u64 / LINE_BYTES;
/// Number of bits of a life's acquisitions. Processes use an owner's number one after the other;
/// each is a life.
const LIFE_SHIFT: u32 = 32;
const STAMP_OWNER_BITS: u32 = 15;
const STAMP_LIFE_BITS: u32 = 8;

/// The reason why something could not be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedoError {
    /// A node failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The record does not fit into a slot.
    #[error("a record of {bytes} bytes does not fit into a slot of {limit}")]
    TooLong {
        /// The length of the record.
        bytes: usize,
        /// The length of a slot.
        limit: usize,
    },
    /// All slots are in use, or hold records of unfinished changes.
    #[error("all {slots} slots of owner {owner} on {node} are in use")]
    NoSlot {
        /// The owner.
        owner: u16,
        /// The node.
        node: NodeId,
        /// Number of the owner's slots there.
        slots: usize,
    },
    /// The node has no directory, or the directory has no place for the owner.
    #[error("the directory of {node} has no place for owner {owner}")]
    NoDirectory {
        /// The owner.
        owner: u16,
        /// The node.
        node: NodeId,
    },
}

/// The sizes of slots and directories.
#[derive(Clone, Debug)]
pub struct RedoOptions {
    /// Bound of the numbers of owners (exclusive): the length of each directory, in words. All
    /// users of the locks must use the same.
    pub owners: u16,
    /// Largest number of locks of one node that the client holds at once, with a record each; at
    /// most [`SLOTS_MAX`].
    pub slots: usize,
    /// Length of the longest record, in bytes.
    pub slot_bytes: usize,
}

impl RedoOptions {
    /// Returns the length of a directory in bytes. A directory is aligned to a word, and zero
    /// before the first client opens it.
    pub const fn directory_bytes(&self) -> u64 {
        self.owners as u64 * WORD_BYTES
    }
}

/// The result of taking a lock.
#[derive(Debug)]
pub enum RedoLockOutcome<'r> {
    /// The lock is held.
    Locked(RedoLockGuard<'r>),
    /// The lock was held for a lease on behalf of the holder of this node's lock ([`forward`]).
    /// Take that lock, and check again.
    ///
    /// [`forward`]: crate::recovery::lease::forward
    Forwarded(GlobalAddress),
    /// The lock must be taken over, but another client may have the owner's number by now
    /// ([`Redo::keep_until`]), so it was not.
    Expired,
}

/// A taker of locks under which changes are recorded, so that other clients redo them if their
/// owner dies. It belongs to one owner, whose tasks share it.
#[derive(Debug)]
pub struct Redo {
    owner: u16,
    owners: u16,
    locker: Locker,
    /// The directories, one on each node.
    directories: Vec<GlobalAddress>,
    /// The regions, in the order of the directories.
    regions: RefCell<Vec<RedoRegion>>,
    recorded: Recorded,
    /// The time until which the number is certainly this client's.
    until: Cell<Duration>,
}

/// A function that reads the record of the acquisition of a word from a slot. Tests replace it by a
/// wrong one.
type Recorded = fn(&[u8], NodeId, u64) -> Option<RedoRecord>;

/// The slots of an owner on a node.
#[derive(Clone, Debug)]
struct RedoRegion {
    at: GlobalAddress,
    slot_bytes: usize,
    slots: Vec<RedoSlotUse>,
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedoSlotUse {
    Nothing,
    Lock,
    /// The outcome of the change is unknown: the slot is needed as long as this lock has this word.
    Unfinished(GlobalAddress, u64),
}

impl RedoRegion {
    /// Returns the region that a word of a directory names, if any.
    fn of(word: u64, node: NodeId) -> Option<RedoRegion> {
        let lines = (word >> LINES_SHIFT) & ((1 << (SLOTS_SHIFT - LINES_SHIFT)) - 1);
        let offset = (word & ((1 << LINES_SHIFT) - 1)) * LINE_BYTES;
        let (slots, slot_bytes) = (word >> SLOTS_SHIFT, lines * LINE_BYTES);
        // A word that no client has written here names no region. Slots longer than records would
        // only make clients read more.
        let end = offset + LINE_BYTES + slots * slot_bytes;
        let is_there = slots > 0 && (1..=SLOT_LINES_MAX).contains(&lines) && end <= OFFSETS;
        is_there.then(|| RedoRegion {
            at: GlobalAddress::new(node, offset),
            slot_bytes: slot_bytes as usize,
            slots: vec![RedoSlotUse::Nothing; slots as usize],
        })
    }

    fn word(&self) -> u64 {
        debug_assert!((self.slots.len() as u64) >> (u64::BITS - SLOTS_SHIFT) == 0);
        debug_assert!((self.slot_bytes as u64 / LINE_BYTES) >> (SLOTS_SHIFT - LINES_SHIFT) == 0);
        (self.slots.len() as u64) << SLOTS_SHIFT
            | (self.slot_bytes as u64 / LINE_BYTES) << LINES_SHIFT
            | (self.at.offset() / LINE_BYTES)
    }

    fn slot(&self, number: usize) -> GlobalAddress {
        debug_assert!(number < self.slots.len());
        self.at.plus(LINE_BYTES + (number * self.slot_bytes) as u64)
    }

    /// Reads all slots of each replica. The backup may have a record that the primary does not
    /// have, or a later one of the same acquisition, so it comes first.
    async fn read(&self, endpoint: &impl Endpoint) -> Result<Vec<Vec<u8>>, FabricError> {
        let length = self.slots.len() * self.slot_bytes;
        let mut replicas = Vec::new();
        let mut bytes = vec![0; length];
        if endpoint.read_backup(self.slot(0), &mut bytes).await? {
            replicas.push(bytes);
        }
        let mut bytes = vec![0; length];
        endpoint.read(self.slot(0), &mut bytes).await?;
        replicas.push(bytes);
        Ok(replicas)
    }

    async fn allocate(
        endpoint: &impl Endpoint,
        node: NodeId,
        options: &RedoOptions,
    ) -> Result<RedoRegion, FabricError> {
        let lines = options.slot_bytes.div_ceil(LINE_BYTES as usize);
        let slot_bytes = lines.clamp(1, SLOT_LINES_MAX as usize) * LINE_BYTES as usize;
        let slots = options.slots.clamp(1, SLOTS_MAX) + 1;
        let bytes = LINE_BYTES as usize + slots * slot_bytes;
        let at = endpoint.allocate(node, bytes as u64).await?;
        // The former content must not be taken for a record.
        endpoint.write(at, &vec![0; bytes]).await?;
        Ok(RedoRegion {
            at,
            slot_bytes,
            slots: vec![RedoSlotUse::Nothing; slots],
        })
    }
}

impl Redo {
    /// Creates, or finds, the slots of an owner on each node that has a directory, at most one
    /// directory a node. The nodes' locks have this lease. Each owner may have one `Redo` at a
    /// time. A process that gets the number of a dead owner keeps its records until they are
    /// redone, and should begin with the [`unfinished`](Redo::unfinished) locks.
    ///
    /// # Errors
    /// `NoDirectory` if the number is too high or there is no directory at all, and the nodes'
    /// errors.
    pub async fn open(
        endpoint: &impl Endpoint,
        directories: &[GlobalAddress],
        owner: u16,
        lease: Duration,
        options: &RedoOptions,
    ) -> Result<Redo, RedoError> {
        let mut regions = Vec::new();
        for directory in directories {
            let node = directory.node();
            let entry = entry(*directory, owner, options.owners)?;
            let region = match RedoRegion::of(read_word(endpoint, entry).await?, node) {
                Some(mut region) => {
                    for replica in region.read(endpoint).await? {
                        for (number, slot) in replica.chunks(region.slot_bytes).enumerate() {
                            // A lock that still names the acquisition of a record has not been
                            // taken over, so its change may be unfinished.
                            if let Some(record) = RedoRecord::decode(slot, node)
                                && is_named(endpoint, record.lock, record.word).await?
                            {
                                let unfinished = RedoSlotUse::Unfinished(record.lock, record.word);
                                region.slots[number] = unfinished;
                            }
                        }
                    }
                    region
                }
                None => {
                    let region = RedoRegion::allocate(endpoint, node, options).await?;
                    // The region is all zeros before the directory names it, because others may
                    // search it from then on.
                    let word = region.word().to_le_bytes();
                    endpoint.write(entry, &word).await?;
                    region
                }
            };
            regions.push(region);
        }
        let Some(first) = regions.first() else {
            let node = NodeId::default();
            return Err(RedoError::NoDirectory { owner, node });
        };
        // Each life begins with numbers of its own, so that no record of a former life looks like
        // one of an acquisition of this one.
        let life = endpoint.add(first.at, 1).await?;
        Ok(Redo {
            owner,
            owners: options.owners,
            locker: Locker::after(owner, life << LIFE_SHIFT, lease),
            directories: directories.to_vec(),
            regions: RefCell::new(regions),
            recorded: record::of_acquisition,
            until: Cell::new(Duration::MAX),
        })
    }

    /// Sets the time after which nothing is written under locks, because the owner's number may be
    /// another's from then on
    /// ([`OwnerNumberClaim::until`](crate::recovery::owners::OwnerNumberClaim::until)). Initially
    /// there is no such time.
    pub fn keep_until(&self, until: Duration) {
        self.until.set(until);
    }

    /// Returns the locks under which a change of this owner may be unfinished, from a former life
    /// or from a dropped [`RedoLockGuard`], unless another client is known to have finished it.
    /// Each of them takes up a slot until it is locked and released.
    pub fn unfinished(&self) -> Vec<GlobalAddress> {
        let regions = self.regions.borrow();
        let slots = regions.iter().flat_map(|region| &region.slots);
        let lock_of = |slot: &RedoSlotUse| match slot {
            RedoSlotUse::Unfinished(lock, _) => Some(*lock),
            _ => None,
        };
        slots.filter_map(lock_of).collect()
    }

    /// Takes a lock, as [`Locker::lock`] does. If it was abandoned during a recorded change,
    /// repeats the whole change. `reads` are in the same post as the lock. Their result is
    /// meaningless if the lock was abandoned.
    ///
    /// # Errors
    /// The nodes' errors; `NoSlot`, and then the lock was not taken.
    pub async fn lock(
        &self,
        endpoint: &impl Endpoint,
        at: GlobalAddress,
        reads: &mut [Target<'_>],
    ) -> Result<RedoLockOutcome<'_>, RedoError> {
        loop {
            let locked = match self.locker.wait(endpoint, at, reads).await? {
                LockWaitOutcome::Taken(held) => Some(self.locked(at, held)),
                LockWaitOutcome::Abandoned(found) => {
                    // No client died with this lock: it is the other lock that was abandoned, or is
                    // about to be released.
                    if let Some(node) = forwarded(found) {
                        return Ok(RedoLockOutcome::Forwarded(node));
                    }
                    // A record must not be written into the slots of a number that another client
                    // may have by now.
                    if endpoint.now() >= self.until.get() {
                        return Ok(RedoLockOutcome::Expired);
                    }
                    self.take_over(endpoint, at, found).await?
                }
            };
            let Some(locked) = locked else { continue };
            if let Some(record) = &locked.redone
                && !redo(endpoint, locked.until(), record).await?
            {
                // The deadline has passed during the change: the next client that takes the lock
                // over repeats it.
                continue;
            }
            return Ok(RedoLockOutcome::Locked(locked));
        }
    }

    fn locked(&self, lock: GlobalAddress, held: LeasedLock) -> RedoLockGuard<'_> {
        RedoLockGuard {
            held,
            redone: None,
            redo: self,
            lock,
            slot: None,
        }
    }

    /// Takes over a lock that was abandoned in this acquisition, with the record that belongs to
    /// it, which is not redone yet. Returns `None` if another client was faster.
    async fn take_over(
        &self,
        endpoint: &impl Endpoint,
        at: GlobalAddress,
        found: u64,
    ) -> Result<Option<RedoLockGuard<'_>>, RedoError> {
        // Use another word than in the attempts before: a record of an acquisition that failed must
        // not be taken for one of a later acquisition.
        let word = self.locker.next_word();
        let Some(record) = self.find(endpoint, at.node(), found).await? else {
            let held = self
                .locker
                .take_over(endpoint, at, found, word, None, self.until.get())
                .await?;
            return Ok(held.map(|held| self.locked(at, held)));
        };
        // If the record is the owner's own, this frees another of its slots, so no spare slot is
        // needed.
        let spare = usize::from(owner(found) != self.owner);
        let slot = self.slot(endpoint, at, word, spare).await?;
        // The same change under the new word: at each moment the record belongs to the acquisition
        // that the lock names.
        let again = RedoRecord {
            word,
            lock: at,
            ..record.clone()
        };
        let bytes = again.encode(slot.bytes)?;
        let first = FabricVerb::Write {
            to: slot.at,
            bytes: &bytes,
        };
        let held = self
            .locker
            .take_over(endpoint, at, found, word, Some(first), self.until.get())
            .await?;
        // The lock names another acquisition, so no client looks for this record.
        let Some(held) = held else {
            slot.give_back();
            return Ok(None);
        };
        Ok(Some(RedoLockGuard {
            redone: Some(record),
            slot: Some(slot),
            ..self.locked(at, held)
        }))
    }

    /// Finds the record of an acquisition of a lock on this node, if there is a whole one.
    async fn find(
        &self,
        endpoint: &impl Endpoint,
        node: NodeId,
        word: u64,
    ) -> Result<Option<RedoRecord>, RedoError> {
        let owner = owner(word);
        let directory = self.directories[self.number(node)?];
        let entry = entry(directory, owner, self.owners)?;
        // An owner without a region has recorded nothing.
        let Some(region) = RedoRegion::of(read_word(endpoint, entry).await?, node) else {
            return Ok(None);
        };
        let replicas = region.read(endpoint).await?;
        let mut slots = replicas
            .iter()
            .flat_map(|bytes| bytes.chunks(region.slot_bytes));
        Ok(slots.find_map(|slot| (self.recorded)(slot, node, word)))
    }

    /// Returns the number of the directory and the region on a node.
    fn number(&self, node: NodeId) -> Result<usize, RedoError> {
        let number = self.directories.iter().position(|at| at.node() == node);
        let owner = self.owner;
        number.ok_or(RedoError::NoDirectory { owner, node })
    }

    /// Takes a slot for an acquisition of this word, if at least `spare` are free afterwards.
    async fn slot(
        &self,
        endpoint: &impl Endpoint,
        lock: GlobalAddress,
        word: u64,
        spare: usize,
    ) -> Result<RedoSlot<'_>, RedoError> {
        let node = lock.node();
        let region = self.number(node)?;
        if let Some(slot) = self.free_slot(region, lock, word, spare) {
            return Ok(slot);
        }
        // Other clients may have finished unfinished changes, which frees their slots.
        let uses = self.regions.borrow()[region].slots.clone();
        for (number, usage) in uses.into_iter().enumerate() {
            if let RedoSlotUse::Unfinished(lock, word) = usage
                && !is_named(endpoint, lock, word).await?
            {
                let slot = &mut self.regions.borrow_mut()[region].slots[number];
                if *slot == usage {
                    *slot = RedoSlotUse::Nothing;
                }
            }
        }
        let slot = self.free_slot(region, lock, word, spare);
        slot.ok_or_else(|| RedoError::NoSlot {
            owner: self.owner,
            node,
            slots: self.regions.borrow()[region].slots.len() - 1,
        })
    }

    fn free_slot(
        &self,
        number: usize,
        lock: GlobalAddress,
        word: u64,
        spare: usize,
    ) -> Option<RedoSlot<'_>> {
        let region = &mut self.regions.borrow_mut()[number];
        let slots = region.slots.iter().enumerate();
        let mut free = slots.filter(|(_, usage)| **usage == RedoSlotUse::Nothing);
        let (free, _) = free.nth(spare)?;
        region.slots[free] = RedoSlotUse::Lock;
        Some(RedoSlot {
            redo: self,
            region: number,
            number: free,
            at: region.slot(free),
            bytes: region.slot_bytes,
            then: RedoSlotUse::Unfinished(lock, word),
        })
    }
}

/// Repeats a recorded change. Returns false if the deadline passed before it was done.
async fn redo(
    endpoint: &impl Endpoint,
    deadline: Duration,
    record: &RedoRecord,
) -> Result<bool, FabricError> {
    let mut odd = Vec::new();
    // Nothing can be completed on a lost node, and the other nodes must not wait for it.
    let writes = record.writes.iter();
    let writes = writes.filter(|(to, _)| endpoint.is_reachable(to.node()));
    for &(to, ref bytes) in writes.clone() {
        if bytes.is_empty() {
            // The dead client may have added one or not. Odd in any case: readers wait until the
            // change is complete.
            odd.push((to, read_word(endpoint, to).await? | 1));
        }
    }
    let counts = |change: u64| {
        let counts = odd.iter();
        let counts = counts.map(move |(mark, count)| (*mark, count.wrapping_add(change)));
        let counts = counts.map(|(mark, count)| (mark, count.to_le_bytes()));
        counts.collect::<Vec<_>>()
    };
    let writes = writes.filter(|(_, bytes)| !bytes.is_empty());
    let writes: Vec<_> = writes.map(|(to, bytes)| (*to, &bytes[..])).collect();
    let (before, behind) = (counts(0), counts(1));
    // Marks may be on other nodes than their data: a reader must see each before and after the
    // data.
    for writes in [bytes_of(&before), writes, bytes_of(&behind)] {
        let writes = writes.into_iter();
        let mut verbs: Vec<_> = writes
            .map(|(to, bytes)| FabricVerb::Write { to, bytes })
            .collect();
        if !verbs.is_empty() && !endpoint.post_by(deadline, &mut verbs).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn bytes_of(words: &[(GlobalAddress, [u8; 8])]) -> Vec<(GlobalAddress, &[u8])> {
    let words = words.iter();
    words.map(|(to, bytes)| (*to, &bytes[..])).collect()
}

/// Returns the address of an owner's word in a directory.
fn entry(directory: GlobalAddress, owner: u16, owners: u16) -> Result<GlobalAddress, RedoError> {
    let node = directory.node();
    if owner >= owners {
        return Err(RedoError::NoDirectory { owner, node });
    }
    Ok(directory.plus(u64::from(owner) * WORD_BYTES))
}

async fn read_word(endpoint: &impl Endpoint, at: GlobalAddress) -> Result<u64, FabricError> {
    let mut word = [0; WORD_BYTES as usize];
    endpoint.read(at, &mut word).await?;
    Ok(u64::from_le_bytes(word))
}

/// Returns true if a lock has the word of an acquisition at any replica. If the backup alone has
/// it, the client that took the lock over may die with the primary, and others need the record
/// again.
async fn is_named(
    endpoint: &impl Endpoint,
    lock: GlobalAddress,
    word: u64,
) -> Result<bool, FabricError> {
    let mut found = [0; WORD_BYTES as usize];
    let is_there = endpoint.read_backup(lock, &mut found).await?;
    Ok(is_there && u64::from_le_bytes(found) == word || read_word(endpoint, lock).await? == word)
}

/// A slot that belongs to an acquisition. If it is dropped without a release, it is kept until the
/// lock has another word.
#[derive(Debug)]
struct RedoSlot<'r> {
    redo: &'r Redo,
    region: usize,
    number: usize,
    at: GlobalAddress,
    bytes: usize,
    then: RedoSlotUse,
}

impl RedoSlot<'_> {
    fn give_back(mut self) {
        self.then = RedoSlotUse::Nothing;
    }
}

impl Drop for RedoSlot<'_> {
    fn drop(&mut self) {
        let slot = &mut self.redo.regions.borrow_mut()[self.region].slots[self.number];
        debug_assert_eq!(*slot, RedoSlotUse::Lock, "a slot has one user");
        *slot = self.then;
    }
}

/// A held lock, with recorded changes under it that other clients redo if its owner dies.
///
/// If it is dropped without [`finish`](RedoLockGuard::finish), another client takes the lock over,
/// with the last record.
#[derive(Debug)]
pub struct RedoLockGuard<'r> {
    /// The lock.
    pub held: LeasedLock,
    /// The change that a former holder had recorded and not finished. It was repeated; the current
    /// holder must do the task of its note.
    pub redone: Option<RedoRecord>,
    redo: &'r Redo,
    lock: GlobalAddress,
    slot: Option<RedoSlot<'r>>,
}

impl RedoLockGuard<'_> {
    /// Returns a number of `bits` bits, at least 32, that is not 0: no two acquisitions of locks
    /// have the same within seconds. It has the owner, the lowest bits of the number of its life,
    /// and as many bits of the number of the acquisition as fit.
    pub fn stamp(&self, bits: u32) -> u64 {
        debug_assert!((32..u64::BITS).contains(&bits));
        let word = self.held.word;
        let number_bits = bits - STAMP_OWNER_BITS - STAMP_LIFE_BITS;
        let lowest = |value: u64, bits: u32| value & ((1 << bits) - 1);
        // Owner 0 counts as 1, so that no stamp is 0.
        let owner = u64::from(owner(word)) + 1;
        let life = lowest(word >> LIFE_SHIFT, STAMP_LIFE_BITS);
        let number = lowest(word, number_bits.min(LIFE_SHIFT));
        let stamp = (owner << STAMP_LIFE_BITS | life) << number_bits | number;
        debug_assert!(stamp != 0 && stamp >> bits == 0);
        stamp
    }

    /// Returns the time until which the holder may write the guarded data, and records.
    pub fn until(&self) -> Duration {
        self.held.until().min(self.redo.until.get())
    }

    /// Returns the record of a change, and its address. Write it before the change, in the same
    /// post if all is on the lock's node. No round trip, unless dropped changes were left
    /// unfinished.
    ///
    /// # Errors
    /// `TooLong`, `NoSlot`.
    pub async fn record(
        &mut self,
        endpoint: &impl Endpoint,
        writes: &[(GlobalAddress, &[u8])],
        note: &[u8],
    ) -> Result<(GlobalAddress, Vec<u8>), RedoError> {
        let word = self.held.word;
        // An acquisition keeps its slot, so that a later record replaces the former one.
        let slot = match self.slot.take() {
            Some(slot) => slot,
            None => self.redo.slot(endpoint, self.lock, word, 1).await?,
        };
        let slot = self.slot.insert(slot);
        let bytes = record::encode(word, self.lock, writes, note, slot.bytes)?;
        Ok((slot.at, bytes))
    }

    /// Ends the acquisition. The post that released the lock must have been confirmed.
    pub fn finish(self) {
        if let Some(slot) = self.slot {
            slot.give_back();
        }
    }
}
