//! Changing a leaf under its lock.

use super::route::Way;
use super::search::Place;
use super::{BACK_OFF, Tree};
use crate::error::PoolError;
use crate::hopscotch::{self, Lookup};
use crate::layout::{Leaf, LockWord, Segments, Slots};
use nearfield_fabric::Endpoint;

/// What is to become of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'v> {
    /// It gets a value.
    Insert(&'v [u8]),
    /// It gets a value if it has one.
    Update(&'v [u8]),
    /// It goes.
    Remove,
}

/// A leaf whose lock is held.
struct Locked {
    way: Way,
    /// What lay in the lock.
    word: LockWord,
    leaf: Leaf,
    /// The slots that are known: from the key's home on, or the one of the key.
    known: Slots,
    /// Where the key is.
    slot: Option<usize>,
}

impl<E: Endpoint> Tree<E> {
    /// Changes what is there of a key, and answers the value before.
    pub(super) async fn change(
        &self,
        key: &[u8],
        change: Change<'_>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let mut locked = loop {
            let way = self.find_leaf(key).await?;
            if let Some(locked) = self.lock_for(way, key, change).await? {
                break locked;
            }
        };
        let Some(slot) = locked.slot else {
            match change {
                Change::Insert(value) => self.insert_into(locked, key, value).await?,
                Change::Update(_) | Change::Remove => {
                    self.unlock_leaf(locked.way.leaf, locked.word)?;
                }
            }
            return Ok(None);
        };
        let before = locked.leaf.value(slot).to_vec();
        let written = match change {
            Change::Insert(value) | Change::Update(value) => {
                hopscotch::replace(&mut locked.leaf, slot, value)
            }
            Change::Remove => hopscotch::remove(&mut locked.leaf, slot),
        };
        self.write_back(&locked, written).await?;
        Ok(Some(before))
    }

    /// Puts a key that is not there into a leaf, which is divided if it has no room.
    async fn insert_into(
        &self,
        mut locked: Locked,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), PoolError> {
        let inserted = hopscotch::insert(&mut locked.leaf, locked.known, key, value);
        if let Ok(inserted) = inserted {
            return self.write_back(&locked, inserted.written).await;
        }
        let all = self.leaves.all_slots(key);
        if locked.known.count() < all.count() {
            let whole = self.leaves.whole();
            let address = locked.way.leaf;
            self.read_more(address, &whole, &mut locked.leaf).await?;
            locked.known = all;
            if let Ok(inserted) = hopscotch::insert(&mut locked.leaf, all, key, value) {
                return self.write_back(&locked, inserted.written).await;
            }
        }
        self.divide(&locked.way, locked.leaf, key, value).await
    }

    /// Writes the entries back that have changed, and gives the lock back.
    async fn write_back(&self, locked: &Locked, written: Slots) -> Result<(), PoolError> {
        let Locked {
            way,
            word,
            leaf,
            known,
            ..
        } = locked;
        let word = if known.count() == self.leaves.span() {
            self.lock_words.of_leaf(leaf)
        } else {
            let is_empty = |slot| leaf.key(slot).is_none();
            let word = self
                .lock_words
                .after_write(*word, written, *known, is_empty);
            self.with_greatest(word, leaf, *known, written)
        };
        let segments = self.leaves.entries(written);
        self.write_leaf(way.leaf, leaf, &segments, word).await
    }

    /// Has the word say where the greatest key is, as far as is known: it may have been moved, and
    /// there may be a greater one. It may also have been removed: then the slot it names is as good as
    /// any other.
    fn with_greatest(&self, word: LockWord, leaf: &Leaf, known: Slots, written: Slots) -> LockWord {
        let former = self.lock_words.max_slot(word);
        if !known.contains(former) {
            return word;
        }
        let candidates = written.iter().chain([former]);
        let candidates = candidates.filter(|&slot| known.contains(slot));
        match candidates.max_by_key(|&slot| leaf.key(slot)) {
            Some(slot) => self.lock_words.with_max_slot(word, slot),
            None => word,
        }
    }

    /// Takes the lock of the leaf that a way leads to, or of one to the right of it, and reads what
    /// the change of a key needs. `None`, and no lock, if there may be a better way by now.
    async fn lock_for(
        &self,
        mut way: Way,
        key: &[u8],
        change: Change<'_>,
    ) -> Result<Option<Locked>, PoolError> {
        loop {
            let word = self.lock_leaf(way.leaf).await?;
            if matches!(change, Change::Insert(_) | Change::Update(_))
                && let Some((leaf, slot)) = self.speculate(&way, key).await?
            {
                let known = Slots::new(slot, 1, self.leaves.span());
                return Ok(Some(Locked {
                    way,
                    word,
                    leaf,
                    known,
                    slot: Some(slot),
                }));
            }
            let known = self.slots_for(key, change, word);
            let segments = self.leaves.with_metadata(known);
            let leaf = self.read_leaf(way.leaf, &segments).await?;
            let place = self.place(&way, &leaf, &segments, key);
            let slot = match hopscotch::lookup(&leaf, key) {
                Lookup::Found(slot) => Some(slot),
                Lookup::Absent | Lookup::Moved => None,
            };
            let stays = match place {
                Place::Here => true,
                Place::HereOrRight(_) => {
                    slot.is_some() || self.has_greater(&way, word, &leaf, known, key).await?
                }
                Place::Right(_) | Place::Unknown => false,
            };
            if stays {
                if let Some(slot) = slot {
                    self.admit(&way, slot, key);
                }
                return Ok(Some(Locked {
                    way,
                    word,
                    leaf,
                    known,
                    slot,
                }));
            }
            self.unlock_leaf(way.leaf, word)?;
            self.forget(&way);
            match place {
                Place::Right(sibling) => way.leaf = sibling,
                Place::HereOrRight(_) => {
                    // Who has divided the leaf will tell its parent.
                    self.endpoint.sleep(BACK_OFF).await;
                    return Ok(None);
                }
                _ => return Ok(None),
            }
        }
    }

    /// The slots that a change has to know: where the key may be and, for one that is put there, as
    /// many as the lock word says may be needed until there is an empty one.
    fn slots_for(&self, key: &[u8], change: Change<'_>, word: LockWord) -> Slots {
        let neighborhood = self.leaves.neighborhood_slots(self.leaves.home(key));
        let all = self.leaves.all_slots(key);
        if !matches!(change, Change::Insert(_)) {
            return neighborhood;
        }
        if !self.node.options.vacancy_bitmap || !self.leaves.is_hopscotch() {
            return all;
        }
        match self.lock_words.hop_range(word, all.first()) {
            Some(range) if range.count() > neighborhood.count() => range,
            Some(_) => neighborhood,
            None => all,
        }
    }

    /// True if a leaf certainly has a key not less than `key`, so that `key` does not belong to the
    /// right of it. Looks at the slot that the lock word says has the greatest; one round trip more if
    /// that is not known. Source: CHIME, section 4.2.3, right-turn test.
    async fn has_greater(
        &self,
        way: &Way,
        word: LockWord,
        leaf: &Leaf,
        known: Slots,
        key: &[u8],
    ) -> Result<bool, PoolError> {
        let is_greater = |leaf: &Leaf, slot| leaf.key(slot).is_some_and(|other| other >= key);
        if known.iter().any(|slot| is_greater(leaf, slot)) {
            return Ok(true);
        }
        let greatest = self.lock_words.max_slot(word);
        if known.contains(greatest) || greatest >= self.leaves.span() {
            return Ok(false);
        }
        let segments: Segments = self.leaves.single_entry(greatest);
        let entry = self.read_leaf(way.leaf, &segments).await?;
        Ok(is_greater(&entry, greatest))
    }
}
