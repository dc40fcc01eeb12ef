//! Changes of a leaf under its lock.

use super::BACK_OFF;
use super::leaf_lock_word::LeafLockWord;
use super::lock::{ChimeLockWrites, ChimeNodeLock};
use super::node_io::Buffers;
use super::overwrite_hints::OverwriteHint;
use super::recover::WAY_NODES_MAX;
use super::route::ChimeLeafRoute;
use super::search::LeafRelativePosition;
use super::session::ChimeSession;
use crate::canary::Check;
use crate::error::PoolError;
use crate::hopscotch::{self, NeighborhoodLookup};
use crate::layout::{LeafSlotRange, LockWord, PoolLeaf};
use nearfield_fabric::{ClientProcessorWork, Endpoint, FabricError, GlobalAddress, LINE_BYTES};

/// The new state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChangeDecision {
    /// The key stays as it is.
    Keep,
    /// The key gets this value.
    Put(Vec<u8>),
    /// The key is removed.
    Remove,
}

/// The possible effects of a change. A client reads only as much as these need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// A key may be inserted, or get another value.
    Insert,
    /// Like `Insert`, and the old value is not needed.
    Put,
    /// An existing key may get another value.
    Update,
    /// Like `Update`, and the old value is not needed.
    Overwrite,
    /// An existing key may be removed.
    Remove,
    /// Any of these changes.
    Alter,
}

impl Intent {
    /// Returns true if the old value is not needed.
    fn is_blind(self) -> bool {
        matches!(self, Intent::Put | Intent::Overwrite)
    }
}

/// The part of a changed leaf that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The value in one slot, at this offset on the wire.
    Value { slot: usize, at: u64 },
    /// Entries, without moves.
    Entries,
    /// Entries, with moves.
    Moves,
    /// The whole leaf, with a new node version, because entries were moved.
    Node,
}

/// The changes to a leaf.
struct ChimeLeafChange {
    /// The slots to write.
    written: LeafSlotRange,
    scope: Scope,
    /// Number of entries that the leaf gains.
    more: isize,
}

/// A leaf whose lock is held.
struct ChimeLockedLeaf<'t> {
    way: ChimeLeafRoute,
    lock: ChimeNodeLock<'t>,
    /// The word before the lock was taken, which also releases it if nothing changes.
    word: LockWord,
    /// The leaf as it was read. If a valid hint made reading unnecessary, it is empty, and only
    /// takes the value that is written.
    leaf: PoolLeaf,
    /// The slots that are known: from the key's home on, or the one of the key.
    known: LeafSlotRange,
    /// The slot of the key.
    slot: Option<usize>,
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Changes a key as `decide` returns, and returns the old value. `decide` gets the old value,
    /// and is called again if its decision came too late.
    pub(super) async fn change(
        &self,
        key: &[u8],
        intent: Intent,
        mut decide: impl AsyncFnMut(Option<&[u8]>) -> Result<KeyChangeDecision, PoolError>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        // Decided once for all tries: the gate chooses a share of operations, not of tries.
        let uses_hotspots = self.uses_hotspots();
        if uses_hotspots {
            self.tree
                .endpoint
                .charge(ClientProcessorWork::Speculation)
                .await;
        }
        let mut patience = self.patience();
        loop {
            self.look_after(&mut patience, key).await?;
            let way = self.find_leaf(key).await?;
            let Some(mut locked) = self.lock_for(way, key, intent, uses_hotspots).await? else {
                continue;
            };
            let leaf = &mut locked.leaf;
            // If nothing was read these are zeros, which a caller with a blind intent ignores.
            let before = locked.slot.map(|slot| leaf.value(slot).to_vec());
            let decision = match decide(before.as_deref()).await {
                Ok(decision) => decision,
                Err(error) => {
                    self.unlock(locked.lock, locked.word.to_bits())?;
                    return Err(error);
                }
            };
            // Other intents may have read one entry alone, and a removal changes the bitmap of its
            // home, too.
            let removes = decision == KeyChangeDecision::Remove;
            debug_assert!(!removes || matches!(intent, Intent::Remove | Intent::Alter));
            let change = match (decision, locked.slot) {
                (KeyChangeDecision::Put(value), Some(slot)) => self.replace(leaf, slot, &value),
                (KeyChangeDecision::Remove, Some(slot)) => ChimeLeafChange {
                    written: hopscotch::remove(leaf, slot),
                    scope: Scope::Entries,
                    more: -1,
                },
                (KeyChangeDecision::Put(value), None) => {
                    let may_insert = matches!(intent, Intent::Insert | Intent::Put | Intent::Alter);
                    debug_assert!(may_insert, "an update leaves an absent key absent");
                    if self.insert_into(locked, key, &value).await? {
                        return Ok(None);
                    }
                    self.renew().await?;
                    continue;
                }
                (KeyChangeDecision::Keep, _) | (KeyChangeDecision::Remove, None) => {
                    self.unlock(locked.lock, locked.word.to_bits())?;
                    return Ok(before);
                }
            };
            let (address, scope) = (locked.way.leaf, change.scope);
            let Some(word) = self.write_back(locked, change).await? else {
                self.renew().await?;
                continue;
            };
            // Only writes of a value alone leave the stamp as it was, so that the next one needs no
            // read.
            if let Scope::Value { slot, .. } = scope
                && uses_hotspots
                && intent.is_blind()
                && let Some(stamp) = self.tree.lock_words.stamp(word)
            {
                let known = OverwriteHint { slot, stamp };
                let now = self.tree.endpoint.now();
                self.tree.node.overwrite_hints.put(address, key, known, now);
            }
            // The leaf's lock is free by now: a merge takes the parent's lock first, and then tries
            // those of its children.
            if removes && self.is_low(word) {
                self.merge(key).await?;
            }
            return Ok(before);
        }
    }

    /// Puts another value into a slot: only the value, if that is an atomic write.
    fn replace(&self, leaf: &mut PoolLeaf, slot: usize, value: &[u8]) -> ChimeLeafChange {
        let lines = self.tree.endpoint.atomic_bytes() >= LINE_BYTES;
        let at = self.tree.leaves.value_in_a_line(slot);
        // Under a lease a change that is not atomic is recorded, which costs a message. A value
        // alone is in one line more often than an entry, and then no other part of the leaf must be
        // known.
        let alone = at.filter(|_| self.tree.owner.is_some() && lines);
        let (written, scope) = if let Some(at) = alone {
            leaf.set_value(slot, value);
            let at = at as u64;
            let written = LeafSlotRange::new(slot, 1, self.tree.leaves.span());
            (written, Scope::Value { slot, at })
        } else {
            (hopscotch::replace(leaf, slot, value), Scope::Entries)
        };
        ChimeLeafChange {
            written,
            scope,
            more: 0,
        }
    }

    /// Puts an absent key into a leaf, which is divided if it has no room. Returns false if the
    /// lock was held for too long; then nothing was done.
    async fn insert_into(
        &self,
        mut locked: ChimeLockedLeaf<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, PoolError> {
        let all = self.tree.leaves.all_slots(key);
        loop {
            let leaf = &mut locked.leaf;
            if let Ok(inserted) = hopscotch::insert(leaf, locked.known, key, value) {
                let scope = match inserted.moved {
                    false => Scope::Entries,
                    true if self.moves_are_node_writes() => Scope::Node,
                    true => Scope::Moves,
                };
                let change = ChimeLeafChange {
                    written: inserted.written,
                    scope,
                    more: isize::from(!inserted.replaced),
                };
                let written = self.write_back(locked, change).await?;
                return Ok(written.is_some());
            }
            // If all slots are known, no order of moves makes room.
            if locked.known.count() == all.count() {
                break;
            }
            // More of the leaf is read: up to its first empty slot, or all of it.
            let range = self.slots_for(key, Intent::Insert, locked.word);
            locked.known = if range.count() > locked.known.count() {
                range
            } else {
                all
            };
            let segments = self.tree.leaves.with_metadata(locked.known);
            let address = locked.way.leaf;
            let buffers = Buffers::new(self.leaf_at(address), &segments, self.tree.has_counters);
            self.read_more(address, &segments, buffers, &mut locked.leaf)
                .await?;
        }
        let ChimeLockedLeaf {
            way, lock, leaf, ..
        } = locked;
        self.divide(way.leaf, lock, leaf, key, value).await
    }

    /// Writes the changed entries, and releases the lock; returns the lock's word. Returns `None`
    /// if the lock was held for too long; then nothing was done.
    async fn write_back(
        &self,
        locked: ChimeLockedLeaf<'_>,
        change: ChimeLeafChange,
    ) -> Result<Option<LockWord>, PoolError> {
        let ChimeLeafChange {
            written,
            scope,
            more,
        } = change;
        let ChimeLockedLeaf {
            way,
            lock,
            word,
            mut leaf,
            known,
            ..
        } = locked;
        if scope == Scope::Node {
            leaf.count_node_write();
        }
        debug_assert!(more.unsigned_abs() <= 1, "one key is changed");
        debug_assert!(scope != Scope::Node || self.moves_are_node_writes());
        let leaf = &leaf;
        let words = &self.tree.lock_words;
        // A key that leaves its slot makes hints and programs wrong, which a new stamp shows them.
        let leave = matches!(scope, Scope::Moves | Scope::Node) || more < 0;
        let word = match (known.count() == self.tree.leaves.span(), leave) {
            (true, _) => words.of_leaf(leaf, &lock),
            (false, true) => {
                let word = words.after_write(word, leaf, written, known, more);
                words.stamped(word, &lock)
            }
            (false, false) => words.after_write(word, leaf, written, known, more),
        };
        let writes = self.writes_of(way.leaf, leaf, written, scope);
        // If the commit fails the change may have been made, so the operation must not be repeated.
        self.note_change(true);
        let done = self.commit(lock, &writes, word.to_bits()).await?;
        self.note_change(done.is_ok());
        Ok(done.is_ok().then_some(word))
    }

    /// Returns the writes of a leaf for its changed slots.
    fn writes_of(
        &self,
        address: GlobalAddress,
        leaf: &PoolLeaf,
        written: LeafSlotRange,
        scope: Scope,
    ) -> ChimeLockWrites {
        let segments = match scope {
            Scope::Value { slot, at } => {
                return ChimeLockWrites {
                    marks: Vec::new(),
                    writes: vec![(address.plus(at), leaf.value(slot).to_vec())],
                };
            }
            Scope::Entries | Scope::Moves => self.tree.leaves.entries(written),
            Scope::Node => self.tree.leaves.whole(),
        };
        self.leaf_writes(address, leaf, &segments, scope == Scope::Moves)
    }

    /// Takes the lock of the leaf that a route leads to, or of one to the right of it, and reads
    /// the part that the change of a key needs. Returns `None`, without a lock, if there may be a
    /// better route by now.
    async fn lock_for(
        &self,
        mut way: ChimeLeafRoute,
        key: &[u8],
        intent: Intent,
        uses_hotspots: bool,
    ) -> Result<Option<ChimeLockedLeaf<'_>>, PoolError> {
        let hints = &self.tree.node.overwrite_hints;
        for _ in 0..WAY_NODES_MAX {
            let locked = if uses_hotspots
                && intent.is_blind()
                && let Some(known) = hints.get(way.leaf, key, self.tree.endpoint.now())
            {
                self.lock_known(way, key, known).await?
            } else if self.tree.node.options.lock_and_read {
                self.lock_and_read(way, key).await?
            } else {
                self.lock_then_read(way, key, intent, uses_hotspots).await?
            };
            // The key was read alone, or its stamp proves that it is there, so there are no
            // metadata to compare.
            if locked.slot.is_some() && locked.known.count() == 1 {
                return Ok(Some(locked));
            }
            let leaf = &locked.leaf;
            let segments = self.tree.leaves.with_metadata(locked.known);
            let place = self.place(&locked.way, leaf, &segments, key);
            let stays = match place {
                LeafRelativePosition::Here => true,
                LeafRelativePosition::HereOrRight(_) => {
                    locked.slot.is_some()
                        || has_known_greater(&locked, key)
                        // With a cached parent, a new route is found as quickly as the greatest key
                        // is read.
                        || locked.way.kept.is_none() && self.has_greater(&locked, key).await?
                }
                LeafRelativePosition::Right(_) | LeafRelativePosition::Unknown => false,
            };
            if stays {
                if uses_hotspots && let Some(slot) = locked.slot {
                    self.admit(&locked.way, slot, key);
                }
                return Ok(Some(locked));
            }
            // A client holds the lock of one leaf at a time, so that writers cannot wait for each
            // other in a circle.
            self.unlock(locked.lock, locked.word.to_bits())?;
            self.forget(&locked.way);
            way = locked.way;
            match place {
                LeafRelativePosition::Right(sibling) => way.leaf = sibling,
                // The leaf to the right is lost, and its parent may lead to another one already:
                // there is no better route before a repair has made this leaf lead there, too.
                LeafRelativePosition::HereOrRight(sibling)
                    if way.kept.is_none() && !self.tree.endpoint.is_reachable(sibling.node()) =>
                {
                    let node = sibling.node();
                    return Err(PoolError::Fabric(FabricError::NodeLost { node }));
                }
                LeafRelativePosition::HereOrRight(_) if way.kept.is_none() => {
                    // The client that has divided the leaf updates its parent.
                    self.tree.endpoint.sleep(BACK_OFF).await;
                    return Ok(None);
                }
                _ => return Ok(None),
            }
        }
        // The siblings form a circle.
        Ok(None)
    }

    /// Takes a leaf's lock, and reads the part that the word of the lock requires. Source: CHIME,
    /// section 4.2.
    async fn lock_then_read(
        &self,
        way: ChimeLeafRoute,
        key: &[u8],
        intent: Intent,
        uses_hotspots: bool,
    ) -> Result<ChimeLockedLeaf<'_>, PoolError> {
        let lock = self.lock_in_turn(self.leaf_at(way.leaf), &mut []).await?;
        let Some(word) = lock.before.map(LockWord::from_bits) else {
            return self.read_abandoned(way, lock, key).await;
        };
        // A removal must know the bitmap of the key's home.
        if uses_hotspots
            && !matches!(intent, Intent::Remove | Intent::Alter)
            && let Some((leaf, slot)) = self.speculate(&way, key).await?
        {
            return Ok(ChimeLockedLeaf {
                way,
                lock,
                word,
                leaf,
                known: LeafSlotRange::new(slot, 1, self.tree.leaves.span()),
                slot: Some(slot),
            });
        }
        let known = self.slots_for(key, intent, word);
        self.read_slots(way, lock, word, known, key).await
    }

    /// Takes the lock of a leaf that held a key, and reads nothing if it still does.
    async fn lock_known(
        &self,
        way: ChimeLeafRoute,
        key: &[u8],
        hint: OverwriteHint,
    ) -> Result<ChimeLockedLeaf<'_>, PoolError> {
        let lock = self.lock_in_turn(self.leaf_at(way.leaf), &mut []).await?;
        let Some(word) = lock.before.map(LockWord::from_bits) else {
            return self.read_abandoned(way, lock, key).await;
        };
        // The stamp changes with each key that leaves its slot, so an equal one proves the hint.
        let is_there = self.tree.lock_words.stamp(word) == Some(hint.stamp);
        if is_there || !Check::Stamps.is_made() {
            return Ok(ChimeLockedLeaf {
                way,
                lock,
                word,
                leaf: PoolLeaf::new(self.tree.leaves),
                known: LeafSlotRange::new(hint.slot, 1, self.tree.leaves.span()),
                slot: Some(hint.slot),
            });
        }
        let known = self
            .tree
            .leaves
            .neighborhood_slots(self.tree.leaves.home(key));
        self.read_slots(way, lock, word, known, key).await
    }

    /// Reads the `known` slots of a leaf whose lock is held, and searches them for a key.
    async fn read_slots<'t>(
        &'t self,
        way: ChimeLeafRoute,
        lock: ChimeNodeLock<'t>,
        word: LockWord,
        known: LeafSlotRange,
        key: &[u8],
    ) -> Result<ChimeLockedLeaf<'t>, PoolError> {
        let segments = self.tree.leaves.with_metadata(known);
        let leaf = self.read_leaf(way.leaf, &segments).await?;
        Ok(ChimeLockedLeaf {
            slot: found(&leaf, key),
            way,
            lock,
            word,
            leaf,
            known,
        })
    }

    /// Takes a leaf's lock and reads the key's neighborhood in the same round trip.
    async fn lock_and_read(
        &self,
        way: ChimeLeafRoute,
        key: &[u8],
    ) -> Result<ChimeLockedLeaf<'_>, PoolError> {
        // The lock word, which shows how far an insert must read, is not known yet. Most changes
        // need no more than the neighborhood.
        let at = self.leaf_at(way.leaf);
        let known = self
            .tree
            .leaves
            .neighborhood_slots(self.tree.leaves.home(key));
        let segments = self.tree.leaves.with_metadata(known);
        let mut buffers = Buffers::new(at, &segments, self.tree.has_counters);
        let lock = self.lock_in_turn(at, &mut buffers.targets()).await?;
        let Some(word) = lock.before.map(LockWord::from_bits) else {
            return self.read_abandoned(way, lock, key).await;
        };
        let mut leaf = PoolLeaf::new(self.tree.leaves);
        if !buffers.take_in(&segments, &mut leaf) {
            self.note_torn(way.leaf);
            self.read_more(way.leaf, &segments, buffers, &mut leaf)
                .await?;
        }
        Ok(ChimeLockedLeaf {
            slot: found(&leaf, key),
            way,
            lock,
            word,
            leaf,
            known,
        })
    }

    /// Reads all of a leaf with a lock that a dead client held, so that its former word is unknown.
    async fn read_abandoned<'t>(
        &'t self,
        way: ChimeLeafRoute,
        lock: ChimeNodeLock<'t>,
        key: &[u8],
    ) -> Result<ChimeLockedLeaf<'t>, PoolError> {
        let whole = self.tree.leaves.whole();
        let leaf = self.read_leaf(way.leaf, &whole).await?;
        Ok(ChimeLockedLeaf {
            word: self.tree.lock_words.of_leaf(&leaf, &lock),
            slot: found(&leaf, key),
            known: self.tree.leaves.all_slots(key),
            way,
            lock,
            leaf,
        })
    }

    /// Returns the slots that a change must know: the possible slots of the key and, for an insert,
    /// as many as the lock word requires to find an empty one.
    fn slots_for(&self, key: &[u8], intent: Intent, word: LockWord) -> LeafSlotRange {
        let neighborhood = self
            .tree
            .leaves
            .neighborhood_slots(self.tree.leaves.home(key));
        let all = self.tree.leaves.all_slots(key);
        if matches!(intent, Intent::Update | Intent::Overwrite | Intent::Remove)
            || matches!(self.tree.lock_words, LeafLockWord::Stamped(_))
        {
            return neighborhood;
        }
        // Without the bitmap any slot may be the empty one; in unordered leaves the key may be
        // anywhere.
        if !self.tree.node.options.vacancy_bitmap || !self.tree.leaves.is_hopscotch() {
            return all;
        }
        match self.tree.lock_words.hop_range(word, all.first()) {
            Some(range) if range.count() <= neighborhood.count() => neighborhood,
            Some(range) => range,
            None => all,
        }
    }

    /// Returns true if a leaf certainly has a key not less than `key`, so that `key` does not
    /// belong to the right of it, although the read part of the leaf has none. Reads the slot that
    /// the lock word names as that of the greatest key; one round trip. Source: CHIME, section
    /// 4.2.3, right-turn test.
    async fn has_greater(
        &self,
        locked: &ChimeLockedLeaf<'_>,
        key: &[u8],
    ) -> Result<bool, PoolError> {
        let known = locked.known;
        let greatest = self.tree.lock_words.max_slot(locked.word);
        // A slot that was read has no greater key, as `has_known_greater` has found. A damaged word
        // may name a slot that no leaf has.
        if known.contains(greatest) || greatest >= self.tree.leaves.span() {
            return Ok(false);
        }
        let segments = self.tree.leaves.single_entry(greatest);
        let entry = self.read_leaf(locked.way.leaf, &segments).await?;
        Ok(is_greater(&entry, greatest, key))
    }
}

/// Returns true if the read part of a leaf has a key not less than `key`.
fn has_known_greater(locked: &ChimeLockedLeaf<'_>, key: &[u8]) -> bool {
    let mut known = locked.known.iter();
    known.any(|slot| is_greater(&locked.leaf, slot, key))
}

fn is_greater(leaf: &PoolLeaf, slot: usize, key: &[u8]) -> bool {
    leaf.key(slot).is_some_and(|other| other >= key)
}

/// Returns the slot of a key.
pub(super) fn found(leaf: &PoolLeaf, key: &[u8]) -> Option<usize> {
    match hopscotch::lookup(leaf, key) {
        NeighborhoodLookup::Found(slot) => Some(slot),
        NeighborhoodLookup::Absent | NeighborhoodLookup::Moved => None,
    }
}
