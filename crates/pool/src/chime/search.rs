//! Reading a key: by a guess, or in its neighborhood.

use super::batched_get::Got;
use super::route::{RIGHT_MOVES_MAX, Way};
use super::session::Session;
use crate::error::PoolError;
use crate::hopscotch::{self, Lookup};
use crate::layout::{Leaf, Segments, Validation};
use nearfield_fabric::{Endpoint, GlobalAddress, Work};
use nearfield_hotness::{Access, LinkGate};
use std::time::Duration;

/// Where a key belongs, as a leaf says to which a way has led.
pub(super) enum Place {
    /// Into this leaf.
    Here,
    /// Into a leaf to the right.
    Right(GlobalAddress),
    /// Into this leaf or one to the right: it was divided, and the parent does not know yet.
    HereOrRight(GlobalAddress),
    /// The way was a former one.
    Unknown,
}

impl<E: Endpoint> Session<'_, E> {
    /// The place of a key relative to a leaf whose `segments` are known, a replica of the metadata
    /// among them. Source: CHIME, section 4.2.3, sibling-based validation.
    pub(super) fn place(&self, way: &Way, leaf: &Leaf, segments: &Segments, key: &[u8]) -> Place {
        let group = self.tree.leaves.replica_within(segments).unwrap_or(0);
        self.place_by(group, way.sibling, way.kept.is_some(), leaf, key)
    }

    /// As [`place`](Session::place), by the replica of a group, of a leaf to which a parent has led
    /// that expects this sibling, and that was kept or not.
    pub(super) fn place_by(
        &self,
        group: usize,
        expected: GlobalAddress,
        is_kept: bool,
        leaf: &Leaf,
        key: &[u8],
    ) -> Place {
        let sibling = leaf.sibling(group);
        if !leaf.is_valid(group) {
            return Place::Unknown;
        }
        match self.tree.leaves.geometry().shape().validation {
            Validation::Fences => match leaf.fences(group) {
                Some((_, high)) if !sibling.is_null() && key >= high => Place::Right(sibling),
                _ => Place::Here,
            },
            Validation::Sibling => self.place_beside(sibling, expected, is_kept),
        }
    }

    /// Where a key belongs, as the sibling of a valid leaf says.
    pub(super) fn place_beside(
        &self,
        sibling: GlobalAddress,
        expected: GlobalAddress,
        is_kept: bool,
    ) -> Place {
        if sibling == expected {
            Place::Here
        } else if sibling.is_null() || is_kept && !self.tree.node.options.uses_divided {
            Place::Unknown
        } else {
            Place::HereOrRight(sibling)
        }
    }

    /// Passes the value of a key to `found`. One round trip if the parent of its leaf is cached.
    pub(super) async fn search<R>(
        &self,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PoolError> {
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
        // Rarer, and with much more to remember.
        Box::pin(self.search_again(key, found, seen)).await
    }

    /// As [`search`](Session::search), for as long as it takes. `seen` is the result of a first
    /// read.
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
        let home = self.tree.leaves.home(key);
        let neighborhood = self.tree.leaves.neighborhood(home);
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
            // The home's versions, when the key was last not found in this leaf.
            let missed = missed.take().filter(|(leaf, _)| *leaf == way.leaf);
            let mut absent_at = missed.map(|(_, versions)| versions);
            loop {
                let leaf = self.read_leaf(way.leaf, &neighborhood).await?;
                let place = self.place(&way, &leaf, &neighborhood, key);
                let right = match place {
                    Place::Unknown => {
                        self.forget(&way);
                        continue 'restart;
                    }
                    Place::Right(sibling) => sibling,
                    Place::Here | Place::HereOrRight(_) => {
                        match hopscotch::lookup(&leaf, key) {
                            Lookup::Found(slot) => {
                                if uses_hotspots {
                                    self.learn(&way, guess.as_ref(), slot, key);
                                }
                                return Ok(Some(found(leaf.value(slot))));
                            }
                            Lookup::Moved => {
                                absent_at = None;
                                if patience.is_over(&self.tree.endpoint) {
                                    // The client that moved it has died meanwhile.
                                    self.wait_again(&mut patience, way.leaf)?;
                                    self.repair_leaf(way.leaf).await?;
                                }
                                continue;
                            }
                            // It may have been moved while the neighborhood was read, unless that
                            // was between two looks at a counter.
                            Lookup::Absent if self.tree.has_counters => {}
                            // Each move changes the home, so if that is the same after another
                            // reading, the first one was of a time without moves.
                            Lookup::Absent if self.tree.leaves.has_bitmaps() => {
                                let now = leaf.entry_versions(home);
                                if absent_at.replace(now) != Some(now) {
                                    continue;
                                }
                            }
                            // A client that moves entries writes the whole leaf.
                            Lookup::Absent => {}
                        }
                        match place {
                            Place::HereOrRight(sibling) => sibling,
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
                self.forget(&way);
                right_moves += 1;
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
    ///
    /// A key that is found is where it belongs, by any way: while a leaf is divided both halves
    /// have it, and no client changes either until one has lost it.
    pub(super) async fn speculate(
        &self,
        way: &Way,
        key: &[u8],
    ) -> Result<Option<(Leaf, usize)>, PoolError> {
        let Some(guess) = self.look_up(way.leaf, self.tree.leaves.home(key), key) else {
            return Ok(None);
        };
        let leaf = self.read_guess(&guess, key).await?;
        Ok(leaf.map(|leaf| (leaf, guess.slot)))
    }

    /// Whether an operation on a key looks up where it was found before, and notes where it is.
    pub(super) fn uses_hotspots(&self) -> bool {
        let node = &self.tree.node;
        let gate = node.link_gate.as_ref();
        node.options.hotspot_bytes > 0 && gate.is_none_or(LinkGate::ask)
    }

    /// The slot of a leaf in which a key of this home was found most often.
    async fn guess(&self, leaf: GlobalAddress, home: usize, key: &[u8]) -> Option<Guess> {
        self.tree.endpoint.charge(Work::Speculation).await;
        self.look_up(leaf, home, key)
    }

    /// As [`guess`](Session::guess), for an operation that looks up again.
    pub(super) fn look_up(&self, leaf: GlobalAddress, home: usize, key: &[u8]) -> Option<Guess> {
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

    /// Reads the entry of a guess, if guesses pay; `None` if the key is not there.
    async fn read_guess(&self, guess: &Guess, key: &[u8]) -> Result<Option<Leaf>, PoolError> {
        if !guess.is_used() {
            return Ok(None);
        }
        let segments = self.tree.leaves.single_entry(guess.slot);
        let began = self.tree.endpoint.now();
        let leaf = self.read_leaf(guess.leaf, &segments).await?;
        self.note_read(began);
        let is_right = leaf.key(guess.slot) == Some(key);
        self.note(guess, is_right, key);
        Ok(is_right.then_some(leaf))
    }

    /// Has the hotspots know whether a guess was right.
    fn note(&self, guess: &Guess, is_right: bool, key: &[u8]) {
        let (node, slot, hotspots) = (guess.leaf.to_bits(), guess.slot, &self.tree.node.hotspots);
        if is_right {
            hotspots.confirm(node, slot as u16, tag(key));
        } else {
            hotspots.forget(node, slot as u16, tag(key));
        }
    }

    /// Has the gate of the link know how long a read took that began at this time.
    pub(super) fn note_read(&self, began: Duration) {
        if let Some(gate) = &self.tree.node.link_gate {
            gate.note_read(self.tree.endpoint.now() - began);
        }
    }

    /// Has the gate know whether a guess was right, or would have been, of a search that is done.
    fn measure(&self, guess: &Guess, is_right: bool) {
        if let Some(gate) = &self.tree.node.gate
            && let Some((access, began)) = guess.access
        {
            gate.record(access, is_right, self.tree.endpoint.now() - began);
        }
    }

    /// Learns from where a key was found by its neighborhood.
    fn learn(&self, way: &Way, guess: Option<&Guess>, slot: usize, key: &[u8]) {
        if let Some(guess) = guess {
            let is_right = (guess.leaf, guess.slot) == (way.leaf, slot);
            if !guess.is_used() {
                self.note(guess, is_right, key);
            }
            // One that was used was wrong, though the key may have come there since.
            self.measure(guess, is_right && !guess.is_used());
        }
        self.admit(way, slot, key);
    }

    /// Remembers where a key was found.
    pub(super) fn admit(&self, way: &Way, slot: usize, key: &[u8]) {
        self.admit_at(way.leaf, slot, key);
    }

    /// Remembers in which leaf and where there a key was found.
    pub(super) fn admit_at(&self, leaf: GlobalAddress, slot: usize, key: &[u8]) {
        let hotspots = &self.tree.node.hotspots;
        hotspots.admit(leaf.to_bits(), slot as u16, tag(key));
    }
}

/// Where a key may be, as it was found there before.
pub(super) struct Guess {
    leaf: GlobalAddress,
    slot: usize,
    /// The answer of the gate and its time, if this access tests whether guesses pay.
    access: Option<(Access, Duration)>,
}

impl Guess {
    fn is_used(&self) -> bool {
        self.access.is_none_or(|(access, _)| access.guesses())
    }
}

/// The tag by which hotspots distinguish the keys of a slot: the last two bytes of the key.
fn tag(key: &[u8]) -> u16 {
    key.iter()
        .rev()
        .take(2)
        .fold(0, |tag, &byte| tag << 8 | u16::from(byte))
}
