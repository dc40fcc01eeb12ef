//! Changes of entries in leaves that are hopscotch hash tables, under the lock of the leaf, which
//! guards its synonyms as well.
//!
//! While it is free, the lock word of a leaf has its vacancy bitmap, so that a client that takes it
//! knows how much an insert must read. The lock words of synonym leaves are not used.

use super::Rolex;
use super::hopscotch::{RolexHopscotchChain, RolexLeafPart, neighborhood};
use super::options::Hopscotch;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::PoolError;
use nearfield_pool::coordination::Leader;
use nearfield_pool::hopscotch::{self, NeighborhoodLookup};
use nearfield_pool::layout::{self, LeafSlotRange, LockWord, NodeSegments, PoolLeaf};

/// A lock that is held.
#[derive(Clone, Copy, Debug)]
struct RolexLeafLock {
    at: GlobalAddress,
    /// The former word.
    word: LockWord,
}

impl<E: Endpoint> Rolex<E> {
    /// Writes a key and returns the old value. Three round trips after a right guess. Otherwise
    /// four, two more after a wrong guess, and one more for each unknown synonym, for a leaf that
    /// turns out to have no room, and for each synonym that is tried then.
    pub(super) async fn hopscotch_put(
        &self,
        hopscotch: &Hopscotch,
        key: &[u8],
        leader: &mut Leader<'_>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        if let Some(before) = self.hopscotch_replace(hopscotch, key, leader).await? {
            return Ok(Some(before));
        }
        let mut found = self.hopscotch_locate(hopscotch, key).await?;
        let near = neighborhood(hopscotch, key);
        let held = self
            .hopscotch_lock(hopscotch, found.chain[0].address)
            .await?;
        let span = hopscotch.layout.span();
        let range = if !leader.write().inserts() {
            // An update moves no entries.
            Some(near)
        } else if hopscotch.vacancy_piggyback {
            let range = hopscotch.words.hop_range(held.word, near.first());
            range.map(|range| {
                // The key itself may be anywhere in its neighborhood.
                LeafSlotRange::new(near.first(), range.count().max(near.count()), span)
            })
        } else {
            Some(LeafSlotRange::new(near.first(), span, span))
        };
        self.hopscotch_reread(hopscotch, &mut found, key, range.unwrap_or(near))
            .await?;
        if let Some((number, slot)) = position(&found.chain, key) {
            let part = &mut found.chain[number];
            let before = part.leaf.value(slot).to_vec();
            // An existing key is written in any case.
            let value = leader.close(Some(&before)).unwrap_or_default();
            let written = hopscotch::replace(&mut part.leaf, slot, &value);
            let entries = hopscotch.layout.entries(written);
            self.hopscotch_write(held, &[(part, entries)], held.word)
                .await?;
            return Ok(Some(before));
        }
        let Some(value) = leader.close(None) else {
            self.hopscotch_unlock(held, held.word)?;
            return Ok(None);
        };
        let outcome = self
            .place(hopscotch, held, &mut found, range, key, &value)
            .await;
        if outcome.is_err() {
            // If no memory was left or a leaf is damaged, nothing has been written; if a node was
            // lost, unlocking fails as well.
            self.hopscotch_unlock(held, held.word)?;
        }
        outcome?;
        Ok(None)
    }

    /// Writes a key that is where it was found before, in three round trips, and returns the old
    /// value. Returns `None` if it is not there, or in a synonym, whose lock is another leaf's.
    async fn hopscotch_replace(
        &self,
        hopscotch: &Hopscotch,
        key: &[u8],
        leader: &mut Leader<'_>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let Some(guess) = self.hopscotch_guess(hopscotch, key, false).await? else {
            return Ok(None);
        };
        let held = self.hopscotch_lock(hopscotch, guess.leaf).await?;
        let Some(mut leaf) = self.hopscotch_check(hopscotch, guess, key).await? else {
            self.hopscotch_unlock(held, held.word)?;
            return Ok(None);
        };
        let before = leaf.value(guess.slot).to_vec();
        // An existing key is written in any case.
        let value = leader.close(Some(&before)).unwrap_or_default();
        let known = hopscotch::replace(&mut leaf, guess.slot, &value);
        let entries = hopscotch.layout.entries(known);
        let address = guess.leaf;
        let part = RolexLeafPart {
            address,
            leaf,
            known,
        };
        self.hopscotch_write(held, &[(&part, entries)], held.word)
            .await?;
        Ok(Some(before))
    }

    /// Puts an absent key into its leaf, whose `range` is known, if there is room, else into a
    /// synonym.
    async fn place(
        &self,
        hopscotch: &Hopscotch,
        held: RolexLeafLock,
        found: &mut RolexHopscotchChain,
        range: Option<LeafSlotRange>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), PoolError> {
        let span = hopscotch.layout.span();
        let home = layout::home(key, span);
        let all = LeafSlotRange::new(home, span, span);
        for number in 0..found.chain.len() {
            let is_first = number == 0;
            if is_first && range.is_none() && found.chain.len() > 1 {
                // The lock word shows the leaf as full.
                continue;
            }
            let part = &mut found.chain[number];
            // The known part of the leaf is tried first.
            let tried = if is_first { range } else { None };
            let mut inserted = tried.and_then(|known| {
                let inserted = hopscotch::insert(&mut part.leaf, known, key, value);
                inserted.ok().map(|inserted| (inserted, known))
            });
            // Entries can be moved out of the neighborhood only to slots that were read.
            if inserted.is_none() && part.known != all {
                let wanted = [(part.address, all)];
                *part = self.read_parts(hopscotch, &wanted).await?.swap_remove(0);
            }
            if inserted.is_none() && tried != Some(all) {
                let outcome = hopscotch::insert(&mut part.leaf, all, key, value);
                inserted = outcome.ok().map(|inserted| (inserted, all));
            }
            if let Some((inserted, known)) = inserted {
                let leaf = &part.leaf;
                let is_empty = |slot| leaf.key(slot).is_none();
                let words = &hopscotch.words;
                let word = if is_first {
                    words.after_write(held.word, inserted.written, known, is_empty)
                } else {
                    held.word
                };
                let entries = hopscotch.layout.entries(inserted.written);
                return self.hopscotch_write(held, &[(part, entries)], word).await;
            }
        }
        let address = self.allocate(held.at.node()).await?;
        let mut leaf = PoolLeaf::new(hopscotch.layout);
        // An empty leaf always has room.
        let inserted = hopscotch::insert(&mut leaf, all, key, value);
        debug_assert!(inserted.is_ok());
        leaf.count_node_write();
        let last = found.chain.len() - 1;
        found.chain[last].leaf.set_sibling(address);
        found.chain[last].leaf.count_node_write();
        let known = all;
        found.chain.push(RolexLeafPart {
            address,
            leaf,
            known,
        });
        let whole = hopscotch.layout.whole();
        let [last, added] = &found.chain[last..] else {
            return Ok(());
        };
        let changed = [(added, whole.clone()), (last, whole)];
        self.hopscotch_write(held, &changed, held.word).await?;
        self.hopscotch_note(found);
        Ok(())
    }

    /// Removes a key and returns its value.
    pub(super) async fn hopscotch_take(
        &self,
        hopscotch: &Hopscotch,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let mut found = self.hopscotch_locate(hopscotch, key).await?;
        let held = self
            .hopscotch_lock(hopscotch, found.chain[0].address)
            .await?;
        let near = neighborhood(hopscotch, key);
        self.hopscotch_reread(hopscotch, &mut found, key, near)
            .await?;
        let Some((number, slot)) = position(&found.chain, key) else {
            self.hopscotch_unlock(held, held.word)?;
            return Ok(None);
        };
        let part = &mut found.chain[number];
        let value = part.leaf.value(slot).to_vec();
        let changed = hopscotch::remove(&mut part.leaf, slot);
        let words = &hopscotch.words;
        // The bitmap is of the first leaf only.
        let word = if number == 0 {
            words.with_full(held.word, words.bucket(slot), false)
        } else {
            held.word
        };
        let entries = hopscotch.layout.entries(changed);
        self.hopscotch_write(held, &[(part, entries)], word).await?;
        Ok(Some(value))
    }

    async fn hopscotch_lock(
        &self,
        hopscotch: &Hopscotch,
        leaf: GlobalAddress,
    ) -> Result<RolexLeafLock, PoolError> {
        let offset = hopscotch.layout.lock_offset() as u64;
        let at = leaf.plus(offset);
        let word = LockWord::from_bits(self.acquire(at).await?);
        Ok(RolexLeafLock { at, word })
    }

    fn hopscotch_unlock(&self, held: RolexLeafLock, word: LockWord) -> Result<(), PoolError> {
        debug_assert!(!word.is_locked());
        let bytes = word.to_bits().to_le_bytes();
        Ok(self.endpoint.write_unsignalled(held.at, &bytes)?)
    }

    /// Reads `range` of the leaf again, and the neighborhood of a key in its synonyms, all of them
    /// unless the key is found. The caller holds the lock.
    async fn hopscotch_reread(
        &self,
        hopscotch: &Hopscotch,
        found: &mut RolexHopscotchChain,
        key: &[u8],
        range: LeafSlotRange,
    ) -> Result<(), PoolError> {
        let mut wanted: Vec<_> = found
            .chain
            .iter()
            .map(|part| (part.address, part.known))
            .collect();
        wanted[0].1 = range;
        found.chain = self.read_parts(hopscotch, &wanted).await?;
        while position(&found.chain, key).is_none()
            && self.hopscotch_follow(hopscotch, found, key).await?
        {}
        Ok(())
    }

    /// Writes segments of leaves and releases the lock, all in one round trip, because they are on
    /// one node.
    async fn hopscotch_write(
        &self,
        held: RolexLeafLock,
        changed: &[(&RolexLeafPart, NodeSegments)],
        word: LockWord,
    ) -> Result<(), PoolError> {
        debug_assert!(!changed.is_empty());
        debug_assert!(!word.is_locked());
        let word = word.to_bits().to_le_bytes();
        let images: Vec<_> = changed
            .iter()
            .map(|(part, segments)| (part.address, segments, part.leaf.encode(segments)))
            .collect();
        let mut verbs = Vec::new();
        for (address, segments, wire) in &images {
            for (segment, bytes) in segments.iter().zip(wire) {
                let to = address.plus(segment.wire().start as u64);
                verbs.push(FabricVerb::Write { to, bytes });
            }
        }
        let (to, bytes) = (held.at, &word[..]);
        verbs.push(FabricVerb::Write { to, bytes });
        Ok(self.endpoint.post(&mut verbs).await?)
    }
}

/// Returns the position of a key in a chain and its slot there.
fn position(chain: &[RolexLeafPart], key: &[u8]) -> Option<(usize, usize)> {
    let mut slots = chain.iter().enumerate().filter_map(|(number, part)| {
        match hopscotch::lookup(&part.leaf, key) {
            NeighborhoodLookup::Found(slot) => Some((number, slot)),
            _ => None,
        }
    });
    slots.next()
}
