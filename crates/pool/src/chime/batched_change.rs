//! Batched changes: all changed keys of a leaf are changed under one lock, with one read and one
//! write. Not in the paper.
//!
//! A client takes the lock of the leaf and reads all of the leaf in the same post. It makes the
//! changes in its copy, and writes all changed entries with one record, in the post that releases
//! the lock: two round trips for all keys. A key that does not fit divides the leaf, and the
//! division writes the changes before it as well. The keys behind it need the next lock.
//!
//! To other clients the changes of a leaf are one write. Each entry that is written counts it
//! once, however many keys were moved through it, because versions have four bits.

use super::ChimeTree;
use super::change::{Intent, KeyChangeDecision, found};
use super::lock::{ChimeLockWrites, ChimeNodeLock};
use super::node_io::Buffers;
use super::route::ChimeLeafRoute;
use super::search::LeafRelativePosition;
use super::session::ChimeSession;
use crate::cache::CacheableNode;
use crate::error::PoolError;
use crate::hopscotch;
use crate::layout::{LeafSlotRange, LockWord, PoolLeaf, PoolLeafLayout, Versions};
use nearfield_fabric::{Endpoint, GlobalAddress};

/// The level of the parents of leaves.
const PARENTS: u8 = 2;
/// Number of unchanged bytes between two changed entries up to which both are written as one piece.
/// A piece more costs a message, and some bytes of the record.
const GAP_BYTES: usize = 128;

/// A leaf whose changes are not written yet.
struct ChangedLeaf {
    leaf: PoolLeaf,
    /// The versions that the entries had when the leaf was read.
    before: Vec<Versions>,
    /// True if an entry was moved.
    moved: bool,
    /// True if an entry was removed.
    removes: bool,
}

/// The effect of a decision on a leaf.
enum LeafEffect {
    Done,
    /// The leaf has no room for the key, which gets this value.
    Full(Vec<u8>),
}

impl<E: Endpoint> ChimeTree<E> {
    /// Returns the number of keys, from the first one on, that cached nodes lead to one leaf: at
    /// least one, if there is a key. The keys ascend. No round trip.
    pub(crate) fn keys_of_a_leaf<K: AsRef<[u8]>>(&self, keys: &[K]) -> usize {
        let Some(first) = keys.first() else {
            return 0;
        };
        let first = first.as_ref();
        let parent = self.node.cache.seek(first, PARENTS);
        let Some(parent) = parent.filter(|parent| parent.level() == PARENTS) else {
            return 1;
        };
        let bound = parent.bound(parent.position(first));
        before_bound(keys, bound.as_deref()).max(1)
    }

    /// Changes the first of these keys, which ascend, and those behind it that belong to the same
    /// leaf, as `decide` returns for each. Returns the old values of the changed keys: at least
    /// one. `decide` gets the number of a key and its old value, and may be called more than once:
    /// the last decision counts.
    ///
    /// Two round trips, for any number of keys, if the parent of the leaf is cached, the lock is
    /// free and the leaf has room.
    ///
    /// # Errors
    /// `Key`, `Value`, the nodes' errors, and those of `decide`. No key was changed if the error is
    /// `Fabric`, and any may have been changed after `Undetermined`.
    ///
    /// # Panics
    /// If there is no key.
    pub async fn alter_each<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut decide: impl AsyncFnMut(usize, Option<&[u8]>) -> Result<KeyChangeDecision, PoolError>,
    ) -> Result<Vec<Option<Vec<u8>>>, PoolError> {
        assert!(!keys.is_empty(), "some key is changed");
        for key in keys {
            self.check_key(key.as_ref())?;
        }
        debug_assert!(
            keys.is_sorted_by(|one, other| one.as_ref() < other.as_ref()),
            "the keys of a leaf are adjacent"
        );
        // As for one key: only the old value decides which value is checked.
        let mut checked = async |number: usize, before: Option<&[u8]>| {
            let decision = decide(number, before).await?;
            if let KeyChangeDecision::Put(value) = &decision {
                self.check_value(value)?;
            }
            Ok(decision)
        };
        self.run(async |session| {
            let changed = session.change_each(keys, &mut checked).await;
            changed.map_err(|error| session.after_change(error))
        })
        .await
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Changes keys like [`alter_each`](ChimeTree::alter_each).
    async fn change_each<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut decide: impl AsyncFnMut(usize, Option<&[u8]>) -> Result<KeyChangeDecision, PoolError>,
    ) -> Result<Vec<Option<Vec<u8>>>, PoolError> {
        let first = keys[0].as_ref();
        let mut patience = self.patience();
        loop {
            self.look_after(&mut patience, first).await?;
            let (way, bound) = self.find_bounded_leaf(first).await?;
            let keys = &keys[..before_bound(keys, bound.as_deref())];
            let (lock, leaf) = self.lock_whole(way.leaf).await?;
            let word = match lock.before {
                Some(word) => LockWord::from_bits(word),
                None => self.tree.lock_words.of_leaf(&leaf, &lock),
            };
            let here = self.count_here(&way, &leaf, keys);
            if here == 0 {
                self.unlock(lock, word.to_bits())?;
                self.forget(&way);
                // The parent is outdated. The change of one key waits for a better one, or moves to
                // the right.
                let one = async |before: Option<&[u8]>| decide(0, before).await;
                let before = Box::pin(self.change(first, Intent::Alter, one)).await?;
                return Ok(vec![before]);
            }
            let mut changed = ChangedLeaf::new(leaf);
            let mut before = Vec::with_capacity(here);
            let mut full = None;
            for (number, key) in keys[..here].iter().enumerate() {
                let key = key.as_ref();
                let slot = found(&changed.leaf, key);
                let old = slot.map(|slot| changed.leaf.value(slot).to_vec());
                let decision = match decide(number, old.as_deref()).await {
                    Ok(decision) => decision,
                    Err(error) => {
                        self.unlock(lock, word.to_bits())?;
                        return Err(error);
                    }
                };
                before.push(old);
                if let LeafEffect::Full(value) = changed.apply(key, slot, decision) {
                    full = Some((key, value));
                    break;
                }
            }
            let is_done = match full {
                Some((key, value)) => {
                    let leaf = changed.leaf;
                    Box::pin(self.divide(way.leaf, lock, leaf, key, &value)).await?
                }
                None => self.write_changed(&way, lock, word, changed, first).await?,
            };
            if is_done {
                return Ok(before);
            }
            self.renew().await?;
        }
    }

    /// Finds the leaf of a key, and the least key that does not belong to it: `None` if there is
    /// no such key.
    async fn find_bounded_leaf(
        &self,
        key: &[u8],
    ) -> Result<(ChimeLeafRoute, Option<Vec<u8>>), PoolError> {
        Ok(match self.find_parent_of_leaf(key).await? {
            Ok((parent, is_kept)) => {
                let position = parent.position(key);
                let bound = parent.bound(position);
                (ChimeLeafRoute::of(&parent, position, is_kept), bound)
            }
            Err(way) => (way, None),
        })
    }

    /// Takes the lock of a leaf and reads all of it, in one round trip or two.
    pub(super) async fn lock_whole(
        &self,
        address: GlobalAddress,
    ) -> Result<(ChimeNodeLock<'_>, PoolLeaf), PoolError> {
        let (at, whole) = (self.leaf_at(address), self.tree.leaves.whole());
        if !self.tree.node.options.lock_and_read {
            let lock = self.lock_in_turn(at, &mut []).await?;
            let leaf = self.read_leaf(address, &whole).await?;
            return Ok((lock, leaf));
        }
        let mut buffers = Buffers::new(at, &whole, self.tree.has_counters);
        let lock = self.lock_in_turn(at, &mut buffers.targets()).await?;
        let mut leaf = PoolLeaf::new(self.tree.leaves);
        // If the former word is unknown the holder has died, and the bytes were read before its
        // change was completed.
        let is_torn = lock.before.is_some() && !buffers.take_in(&whole, &mut leaf);
        if is_torn {
            self.note_torn(address);
        }
        if is_torn || lock.before.is_none() {
            leaf = self.read_leaf(address, &whole).await?;
        }
        Ok((lock, leaf))
    }

    /// Returns how many of the keys, from the first one on, belong to a leaf to which one parent
    /// leads all of them.
    fn count_here<K: AsRef<[u8]>>(
        &self,
        way: &ChimeLeafRoute,
        leaf: &PoolLeaf,
        keys: &[K],
    ) -> usize {
        let greatest = leaf.max_slot().and_then(|slot| leaf.key(slot));
        let is_here = |key: &[u8]| {
            let place = self.place_by(0, way.sibling, way.kept.is_some(), leaf, key);
            match place {
                LeafRelativePosition::Here => true,
                // The keys of a divided leaf are all less than those to the right of it.
                LeafRelativePosition::HereOrRight(_) => {
                    greatest.is_some_and(|greatest| greatest >= key)
                }
                LeafRelativePosition::Right(_) | LeafRelativePosition::Unknown => false,
            }
        };
        keys.iter().take_while(|key| is_here(key.as_ref())).count()
    }

    /// Writes the changed entries, and releases the lock. Returns false if the lock was held for
    /// too long; then nothing was done.
    async fn write_changed(
        &self,
        way: &ChimeLeafRoute,
        lock: ChimeNodeLock<'_>,
        word: LockWord,
        changed: ChangedLeaf,
        key: &[u8],
    ) -> Result<bool, PoolError> {
        let pieces = changed.pieces();
        if pieces.is_empty() {
            self.unlock(lock, word.to_bits())?;
            return Ok(true);
        }
        let ChangedLeaf {
            mut leaf,
            moved,
            removes,
            ..
        } = changed;
        let word = self.tree.lock_words.of_leaf(&leaf, &lock);
        let writes = if moved && self.moves_are_node_writes() {
            leaf.count_node_write();
            self.leaf_writes(way.leaf, &leaf, &self.tree.leaves.whole(), false)
        } else {
            self.piece_writes(way.leaf, &leaf, &pieces, moved)
        };
        // If the commit fails the changes may have been made, so they must not be repeated.
        self.note_change(true);
        let done = self.commit(lock, &writes, word.to_bits()).await?;
        self.note_change(done.is_ok());
        if done.is_ok() && removes && self.is_nearly_empty(word) {
            Box::pin(self.merge(key)).await?;
        }
        Ok(done.is_ok())
    }

    /// Returns the writes of pieces of a leaf, whose entries were moved or not.
    fn piece_writes(
        &self,
        address: GlobalAddress,
        leaf: &PoolLeaf,
        pieces: &[LeafSlotRange],
        moved: bool,
    ) -> ChimeLockWrites {
        let at = self.leaf_at(address);
        let writes = pieces.iter().flat_map(|&piece| {
            let segments = self.tree.leaves.entries(piece);
            at.writes(&segments, leaf.encode(&segments))
        });
        self.marked(at, writes.collect(), moved)
    }
}

impl ChangedLeaf {
    fn new(leaf: PoolLeaf) -> ChangedLeaf {
        let slots = 0..leaf.layout().span();
        ChangedLeaf {
            before: slots.map(|slot| leaf.entry_versions(slot)).collect(),
            leaf,
            moved: false,
            removes: false,
        }
    }

    /// Makes the change of a key, which is in this slot or absent.
    fn apply(
        &mut self,
        key: &[u8],
        slot: Option<usize>,
        decision: KeyChangeDecision,
    ) -> LeafEffect {
        let leaf = &mut self.leaf;
        let written = match (decision, slot) {
            (KeyChangeDecision::Keep, _) | (KeyChangeDecision::Remove, None) => {
                return LeafEffect::Done;
            }
            (KeyChangeDecision::Put(value), Some(slot)) => hopscotch::replace(leaf, slot, &value),
            (KeyChangeDecision::Remove, Some(slot)) => {
                self.removes = true;
                hopscotch::remove(leaf, slot)
            }
            (KeyChangeDecision::Put(value), None) => {
                let all = leaf.layout().all_slots(key);
                let Ok(inserted) = hopscotch::insert(leaf, all, key, &value) else {
                    return LeafEffect::Full(value);
                };
                self.moved |= inserted.moved;
                inserted.written
            }
        };
        // After each change, because the versions would be the former ones again after sixteen.
        for slot in written.iter() {
            self.leaf.count_entry_once(slot, self.before[slot]);
        }
        LeafEffect::Done
    }

    /// Returns the runs of slots to write.
    fn pieces(&self) -> Vec<LeafSlotRange> {
        let span = self.before.len();
        let changed = (0..span).filter(|&slot| self.leaf.entry_versions(slot) != self.before[slot]);
        let mut pieces: Vec<LeafSlotRange> = Vec::new();
        for slot in changed {
            match pieces.last_mut() {
                Some(piece) if gap_bytes(self.leaf.layout(), piece, slot) <= GAP_BYTES => {
                    *piece = LeafSlotRange::new(piece.first(), slot + 1 - piece.first(), span);
                }
                _ => pieces.push(LeafSlotRange::new(slot, 1, span)),
            }
        }
        pieces
    }
}

/// Returns the number of bytes of the slots between a run and a slot behind it.
fn gap_bytes(layout: &PoolLeafLayout, piece: &LeafSlotRange, slot: usize) -> usize {
    let between = slot - (piece.first() + piece.count());
    let (key, value) = (layout.key(slot), layout.value(slot));
    between * (value.end - key.start)
}

/// Returns the number of keys, which ascend, before a bound.
fn before_bound<K: AsRef<[u8]>>(keys: &[K], bound: Option<&[u8]>) -> usize {
    match bound {
        Some(bound) => keys.partition_point(|key| key.as_ref() < bound),
        None => keys.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Arrangement, Geometry, PoolIndexShape};

    fn empty_leaf(arrangement: Arrangement) -> PoolLeaf {
        let shape = PoolIndexShape {
            leaf_span: 16,
            neighborhood: 8,
            arrangement,
            ..PoolIndexShape::default()
        };
        let geometry = Geometry::new(shape).expect("the shape is possible");
        PoolLeaf::new(PoolLeafLayout::new(geometry))
    }

    /// Sixteen writes of one entry would leave its versions as they were, and readers would not
    /// find that it was written.
    #[test]
    fn an_entry_that_many_keys_go_through_is_written_once() {
        let mut leaf = empty_leaf(Arrangement::Hopscotch);
        let key = |number: u64| number.to_be_bytes();
        let home = leaf.layout().home(&key(1));
        let same_home: Vec<u64> = (1..)
            .filter(|&number| leaf.layout().home(&key(number)) == home)
            .take(4)
            .collect();
        // Counted one by one: four keys come and go twice, and each counts its home.
        let before = leaf.entry_versions(home);
        let mut changed = ChangedLeaf::new(leaf.clone());
        for _ in 0..2 {
            for &number in &same_home {
                let all = leaf.layout().all_slots(&key(number));
                hopscotch::insert(&mut leaf, all, &key(number), &[1; 8]).expect("room");
                let put = KeyChangeDecision::Put(vec![1; 8]);
                let effect = changed.apply(&key(number), None, put);
                assert!(matches!(effect, LeafEffect::Done));
            }
            for &number in &same_home {
                let slot = found(&leaf, &key(number)).expect("it is there");
                hopscotch::remove(&mut leaf, slot);
                let slot = found(&changed.leaf, &key(number));
                let effect = changed.apply(&key(number), slot, KeyChangeDecision::Remove);
                assert!(matches!(effect, LeafEffect::Done));
            }
        }
        assert_eq!(leaf.entry_versions(home), before, "sixteen writes wrap");
        let once = before.after_entry_write();
        assert_eq!(changed.leaf.entry_versions(home), once);
        assert!(changed.pieces().iter().any(|piece| piece.contains(home)));
        assert!(changed.removes);
        hopscotch::check_invariants(&changed.leaf);
    }

    #[test]
    fn changes_that_are_far_apart_are_pieces() {
        let leaf = empty_leaf(Arrangement::Neighborhood);
        let span = leaf.layout().span();
        let mut changed = ChangedLeaf::new(leaf);
        assert!(changed.pieces().is_empty());
        for slot in [1, 3, 15] {
            changed.leaf.count_entry_write(slot);
        }
        let pieces = [
            LeafSlotRange::new(1, 3, span),
            LeafSlotRange::new(15, 1, span),
        ];
        assert_eq!(changed.pieces(), pieces);
    }
}
