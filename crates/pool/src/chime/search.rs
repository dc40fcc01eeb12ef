//! Reads of a key: by a guess, or in its neighborhood.

use super::batched_get::Got;
use super::route::{ChimeLeafRoute, RIGHT_MOVES_MAX};
use super::session::ChimeSession;
use crate::canary::Check;
use crate::error::PoolError;
use crate::hopscotch::{self, NeighborhoodLookup};
use crate::layout::{NodeSegments, PoolLeaf, Validation};
use nearfield_fabric::{ClientProcessorWork, Endpoint, GlobalAddress};
use nearfield_hotness::{LinkGate, SpeculationAccess};
use std::time::Duration;

/// The key's position relative to the leaf that the route reached.
pub(super) enum LeafRelativePosition {
    /// The key belongs into this leaf.
    Here,
    /// The key belongs into a leaf to the right.
    Right(GlobalAddress),
    /// The key belongs into this leaf or one to the right: it was divided, and the parent is not
    /// updated yet.
    HereOrRight(GlobalAddress),
    /// The route is outdated.
    Unknown,
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Returns the place of a key relative to a leaf with known `segments`, which include a replica
    /// of the metadata. Source: CHIME, section 4.2.3, sibling-based validation.
    pub(super) fn place(
        &self,
        way: &ChimeLeafRoute,
        leaf: &PoolLeaf,
        segments: &NodeSegments,
        key: &[u8],
    ) -> LeafRelativePosition {
        let group = self.tree.leaves.replica_within(segments).unwrap_or(0);
        self.place_by(group, way.sibling, way.kept.is_some(), leaf, key)
    }

    /// Returns the [`place`](ChimeSession::place) by the replica of a group, for a leaf whose
    /// parent expects this sibling, and was cached or not.
    pub(super) fn place_by(
        &self,
        group: usize,
        expected: GlobalAddress,
        is_kept: bool,
        leaf: &PoolLeaf,
        key: &[u8],
    ) -> LeafRelativePosition {
        let sibling = leaf.sibling(group);
        // A retired leaf keeps its sibling, which proves nothing any more.
        if !leaf.is_valid(group) {
            return LeafRelativePosition::Unknown;
        }
        match self.tree.leaves.geometry().shape().validation {
            Validation::Fences => match leaf.fences(group) {
                // The low fence needs no check: a leaf keeps it for as long as it is valid, and a
                // route leads to a leaf that begins at the key or before it.
                Some((_, high)) if !sibling.is_null() && key >= high => {
                    LeafRelativePosition::Right(sibling)
                }
                _ => LeafRelativePosition::Here,
            },
            Validation::Sibling => self.place_beside(sibling, expected, is_kept),
        }
    }

    /// Returns the sibling that a reader of a leaf accepts, where its parent expects `expected`.
    pub(super) fn accepted_sibling(
        &self,
        expected: GlobalAddress,
        leaf: &PoolLeaf,
        group: usize,
    ) -> GlobalAddress {
        match Check::Siblings.is_made() {
            true => expected,
            false => leaf.sibling(group),
        }
    }

    /// Returns the place of a key by the sibling of a valid leaf.
    pub(super) fn place_beside(
        &self,
        sibling: GlobalAddress,
        expected: GlobalAddress,
        is_kept: bool,
    ) -> LeafRelativePosition {
        if sibling == expected {
            LeafRelativePosition::Here
        } else if sibling.is_null() || is_kept && !self.tree.node.options.uses_divided {
            // A leaf without a sibling was not divided, so the expectation itself is outdated. The
            // paper takes any mismatch with a cached parent for that.
            LeafRelativePosition::Unknown
        } else {
            LeafRelativePosition::HereOrRight(sibling)
        }
    }

    /// Passes the value of a key to `found`. One round trip if the parent of its leaf is cached.
    pub(super) async fn search<R>(
        &self,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PoolError> {
        // A single get is a batch of one, so that most searches need no further code.
        let mut batch = self.tree.take_batched_get();
        self.get_once(&[key], &mut batch).await?;
        let seen = batch.seen[0];
        if let Got::Found(at) = seen {
            let answer = found(batch.value(at));
            self.tree.keep_batched_get(batch);
            return Ok(Some(answer));
        }
        self.tree.keep_batched_get(batch);
        if matches!(seen, Got::Absent) {
            return Ok(None);
        }
        // This path is rarer and needs much more state, so it is boxed.
        Box::pin(self.search_again(key, found, seen)).await
    }

    /// Searches like [`search`](ChimeSession::search), for as long as it takes. `seen` is the
    /// result of a first read.
    pub(super) async fn search_again<R>(
        &self,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> R,
        seen: Got,
    ) -> Result<Option<R>, PoolError> {
        let uses_hotspots = matches!(seen, Got::Guessed) || self.uses_hotspots();
        let mut missed = match seen {
            Got::Missed(leaf, versions) => Some((leaf, versions)),
            _ => None,
        };
        // Computed once: a key has the same home in every leaf.
        let home = self.tree.leaves.home(key);
        let neighborhood = self.tree.leaves.neighborhood(home);
        let group = self.tree.leaves.replica_within(&neighborhood).unwrap_or(0);
        let mut patience = self.patience();
        'restart: loop {
            self.look_after(&mut patience, key).await?;
            let mut way = self.find_leaf(key).await?;
            let guess = match uses_hotspots {
                true => self.guess(way.leaf, home, key).await,
                false => None,
            };
            if let Some(guess) = &guess
                && let Some(leaf) = self.read_guess(guess, key).await?
            {
                self.measure(guess, true);
                return Ok(Some(found(leaf.value(guess.slot))));
            }
            let mut right_moves = 0;
            // The home's versions when the key was last not found in this leaf.
            let missed = missed.take().filter(|(leaf, _)| *leaf == way.leaf);
            let mut absent_at = missed.map(|(_, versions)| versions);
            loop {
                let leaf = self.read_leaf(way.leaf, &neighborhood).await?;
                let sibling = self.accepted_sibling(way.sibling, &leaf, group);
                let place = self.place_by(group, sibling, way.kept.is_some(), &leaf, key);
                let right = match place {
                    LeafRelativePosition::Unknown => {
                        self.forget(&way);
                        continue 'restart;
                    }
                    LeafRelativePosition::Right(sibling) => sibling,
                    LeafRelativePosition::Here | LeafRelativePosition::HereOrRight(_) => {
                        match hopscotch::lookup(&leaf, key) {
                            NeighborhoodLookup::Found(slot) => {
                                if uses_hotspots {
                                    self.learn(&way, guess.as_ref(), slot, key);
                                }
                                return Ok(Some(found(leaf.value(slot))));
                            }
                            NeighborhoodLookup::Moved => {
                                self.note_torn(way.leaf);
                                absent_at = None;
                                if patience.has_ended(&self.tree.endpoint) {
                                    // The client that moved it has died meanwhile.
                                    self.wait_again(&mut patience, way.leaf)?;
                                    self.repair_leaf(way.leaf).await?;
                                }
                                continue;
                            }
                            // It may have been moved while the neighborhood was read, unless that
                            // was between two reads of a counter.
                            NeighborhoodLookup::Absent if self.tree.has_counters => {}
                            // Each move changes the home. So if the home is the same after another
                            // read, no entry was moved during the first.
                            NeighborhoodLookup::Absent
                                if self.tree.leaves.has_bitmaps() && Check::Moves.is_made() =>
                            {
                                let now = leaf.entry_versions(home);
                                if absent_at.replace(now) != Some(now) {
                                    continue;
                                }
                            }
                            // A client that moves entries writes the whole leaf.
                            NeighborhoodLookup::Absent => {}
                        }
                        match place {
                            LeafRelativePosition::HereOrRight(sibling) => sibling,
                            _ => {
                                if let Some(guess) = &guess {
                                    self.note(guess, false, key);
                                    self.measure(guess, false);
                                }
                                return Ok(None);
                            }
                        }
                    }
                };
                // The parent is stale, so later operations should not take this detour.
                self.forget(&way);
                right_moves += 1;
                // A new route is shorter than many moves: parents are updated soon after a split.
                if right_moves > RIGHT_MOVES_MAX {
                    continue 'restart;
                }
                way.leaf = right;
                absent_at = None;
            }
        }
    }

    /// Reads the one entry in which a key was often found, if there is one, and returns its slot if
    /// it still holds the key. Source: CHIME, section 4.3.
    pub(super) async fn speculate(
        &self,
        way: &ChimeLeafRoute,
        key: &[u8],
    ) -> Result<Option<(PoolLeaf, usize)>, PoolError> {
        let Some(guess) = self.look_up(way.leaf, self.tree.leaves.home(key), key) else {
            return Ok(None);
        };
        let leaf = self.read_guess(&guess, key).await?;
        Ok(leaf.map(|leaf| (leaf, guess.slot)))
    }

    /// Returns true if an operation on a key must look up its former slot, and note its slot.
    pub(super) fn uses_hotspots(&self) -> bool {
        let node = &self.tree.node;
        let gate = node.link_gate.as_ref();
        node.options.hotspot_bytes > 0 && gate.is_none_or(LinkGate::ask)
    }

    /// Returns the slot of a leaf in which a key of this home was found most often.
    async fn guess(&self, leaf: GlobalAddress, home: usize, key: &[u8]) -> Option<Guess> {
        self.tree
            .endpoint
            .charge(ClientProcessorWork::Speculation)
            .await;
        self.look_up(leaf, home, key)
    }

    /// Looks up like [`guess`](ChimeSession::guess), for an operation that looks up again.
    pub(super) fn look_up(&self, leaf: GlobalAddress, home: usize, key: &[u8]) -> Option<Guess> {
        // Different keys may have the same tag, so a slot outside of the neighborhood belongs to
        // another key.
        let slots = self.tree.leaves.neighborhood_slots(home);
        let may_be = |slot: u16| slots.contains(usize::from(slot));
        let hotspots = &self.tree.node.hotspots;
        let slot = hotspots.guess(leaf.to_bits(), may_be, tag(key))?;
        let gate = self.tree.node.gate.as_ref();
        Some(Guess {
            leaf,
            slot: usize::from(slot),
            access: gate.map(|gate| (gate.ask(), self.tree.endpoint.now())),
        })
    }

    /// Reads the entry of a guess, if guesses pay; returns `None` if the key is not there.
    async fn read_guess(&self, guess: &Guess, key: &[u8]) -> Result<Option<PoolLeaf>, PoolError> {
        if !guess.is_used() {
            return Ok(None);
        }
        // No metadata are needed. A key that is found is in the right leaf, whatever the route:
        // while a leaf is divided both halves have the key, and no client changes either until one
        // has lost it.
        let segments = self.tree.leaves.single_entry(guess.slot);
        let began = self.tree.endpoint.now();
        let leaf = self.read_leaf(guess.leaf, &segments).await?;
        self.note_read(began);
        let is_right = leaf.key(guess.slot) == Some(key);
        self.note(guess, is_right, key);
        Ok(is_right.then_some(leaf))
    }

    /// Notes in the hotspots if a guess was right.
    fn note(&self, guess: &Guess, is_right: bool, key: &[u8]) {
        debug_assert!(guess.slot < self.tree.leaves.span());
        let (node, slot, hotspots) = (guess.leaf.to_bits(), guess.slot, &self.tree.node.hotspots);
        if is_right {
            hotspots.confirm(node, slot as u16, tag(key));
        } else {
            hotspots.forget(node, slot as u16, tag(key));
        }
    }

    /// Reports the duration of a read that began at this time to the gate of the link.
    pub(super) fn note_read(&self, began: Duration) {
        if let Some(gate) = &self.tree.node.link_gate {
            gate.note_read(self.tree.endpoint.now() - began);
        }
    }

    /// Reports to the gate if a guess was right, or would have been, after the search has ended.
    fn measure(&self, guess: &Guess, is_right: bool) {
        if let Some(gate) = &self.tree.node.gate
            && let Some((access, began)) = guess.access
        {
            gate.record(access, is_right, self.tree.endpoint.now() - began);
        }
    }

    /// Notes the slot of a key that was found by its neighborhood.
    fn learn(&self, way: &ChimeLeafRoute, guess: Option<&Guess>, slot: usize, key: &[u8]) {
        if let Some(guess) = guess {
            let is_right = (guess.leaf, guess.slot) == (way.leaf, slot);
            if !guess.is_used() {
                self.note(guess, is_right, key);
            }
            // If the guess was used, it was wrong, even if the key has been moved there since.
            self.measure(guess, is_right && !guess.is_used());
        }
        self.admit(way, slot, key);
    }

    /// Notes the slot of a key.
    pub(super) fn admit(&self, way: &ChimeLeafRoute, slot: usize, key: &[u8]) {
        self.admit_at(way.leaf, slot, key);
    }

    /// Notes the leaf and the slot of a key.
    pub(super) fn admit_at(&self, leaf: GlobalAddress, slot: usize, key: &[u8]) {
        let hotspots = &self.tree.node.hotspots;
        debug_assert!(
            slot < self.tree.leaves.span(),
            "a guess reads this slot alone"
        );
        hotspots.admit(leaf.to_bits(), slot as u16, tag(key));
    }
}

/// The former slot of a key, where it may still be.
pub(super) struct Guess {
    leaf: GlobalAddress,
    slot: usize,
    /// The gate's decision and its time, if this access tests if guesses pay.
    access: Option<(SpeculationAccess, Duration)>,
}

impl Guess {
    fn is_used(&self) -> bool {
        self.access.is_none_or(|(access, _)| access.guesses())
    }
}

/// Returns the tag that distinguishes the keys of a slot in hotspots: the last two bytes of the
/// key.
fn tag(key: &[u8]) -> u16 {
    key.iter()
        .rev()
        .take(2)
        .fold(0, |tag, &byte| tag << 8 | u16::from(byte))
}
