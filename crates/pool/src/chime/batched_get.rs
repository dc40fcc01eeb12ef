//! Batched gets: a first read of the neighborhoods of keys, which completes most searches.
//!
//! One post reads the neighborhoods of one key or of many, if the parents of their leaves are
//! cached and no guess should be tried. The other keys are [searched](ChimeSession::search_again)
//! one by one.

use super::ChimeTree;
use super::cached_node::CachedNode;
use super::neighborhood::{COUNTER_BYTES, Neighborhood};
use super::node_io::is_still;
use super::search::LeafRelativePosition;
use super::session::ChimeSession;
use crate::canary::Check;
use crate::error::PoolError;
use crate::hopscotch::{self, NeighborhoodLookup};
use crate::layout::{PoolLeaf, PoolLeafLayout, Versions};
use nearfield_fabric::{ClientProcessorWork, Endpoint, FabricVerb, GlobalAddress};
use smallvec::SmallVec;

/// Maximum number of reads for a key: a counter twice, and two segments.
const READS_MAX: usize = 4;

/// The result of a first read for a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Got {
    /// The key exists; its value begins here among those of the [`BatchedGet`].
    Found(usize),
    /// The key is absent.
    Absent,
    /// The key was not in this leaf, whose home had these versions.
    Missed(GlobalAddress, Versions),
    /// Nothing was read, because there is a guess of the key's slot.
    Guessed,
    /// Nothing useful was read.
    Nothing,
}

/// The place where a key should be.
#[derive(Clone, Copy, Debug)]
struct Aim {
    /// The number of the key.
    number: usize,
    home: usize,
    leaf: GlobalAddress,
    /// The sibling that the leaf should have.
    sibling: GlobalAddress,
    /// True if the slot of the key must be noted once it is found.
    uses_hotspots: bool,
}

/// The state of a batched get of some keys, with its buffers.
#[derive(Debug)]
pub(super) struct BatchedGet {
    aims: Vec<Aim>,
    wire: Vec<u8>,
    /// The last decoded leaf, and spare buffers.
    leaf: PoolLeaf,
    /// The results, by the number of the key.
    pub seen: Vec<Got>,
    values: Vec<u8>,
    value_bytes: usize,
}

impl BatchedGet {
    pub fn new(layout: PoolLeafLayout) -> BatchedGet {
        BatchedGet {
            aims: Vec::new(),
            wire: Vec::new(),
            leaf: PoolLeaf::new(layout),
            seen: Vec::new(),
            values: Vec::new(),
            value_bytes: layout.geometry().shape().value_bytes,
        }
    }

    fn begin(&mut self, keys: usize) {
        self.aims.clear();
        self.values.clear();
        self.seen.clear();
        self.seen.resize(keys, Got::Nothing);
    }

    /// Returns the value that begins here.
    pub fn value(&self, at: usize) -> &[u8] {
        &self.values[at..at + self.value_bytes]
    }
}

impl<E: Endpoint> ChimeTree<E> {
    /// Reads the neighborhoods of keys by one post, and passes each certain value with the number
    /// of its key to `found`. Returns the numbers of the other keys. One round trip, or none if no
    /// parents of leaves are cached.
    pub(crate) async fn get_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut found: impl FnMut(usize, Option<&[u8]>),
    ) -> Vec<usize> {
        let mut batch = self.take_batched_get();
        // Results of a session that was not valid to its end may come from reused memory.
        if !self.try_get_batch(keys, &mut batch).await {
            batch.begin(keys.len());
        }
        let mut rest = Vec::new();
        for (number, got) in batch.seen.iter().enumerate() {
            match *got {
                Got::Found(at) => found(number, Some(batch.value(at))),
                Got::Absent => found(number, None),
                // The proof by versions ends with the session, because memory may be reused
                // afterwards.
                Got::Missed(..) | Got::Guessed | Got::Nothing => rest.push(number),
            }
        }
        self.keep_batched_get(batch);
        rest
    }

    /// Tries the reads; returns false if they cannot be trusted. The search of each key finds the
    /// reason.
    async fn try_get_batch<K: AsRef<[u8]>>(&self, keys: &[K], batch: &mut BatchedGet) -> bool {
        let Ok(session) = self.session().await else {
            return false;
        };
        session.get_once(keys, batch).await.is_ok() && session.is_valid().await.unwrap_or(false)
    }

    /// Passes the value of a key that [`get_batch`](ChimeTree::get_batch) has not found to `found`.
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub(crate) async fn search_missed<R>(
        &self,
        key: &[u8],
        found: impl Fn(&[u8]) -> R,
    ) -> Result<Option<R>, PoolError> {
        self.check_key(key)?;
        self.run(async |session| session.search_again(key, &found, Got::Nothing).await)
            .await
    }

    pub(super) fn take_batched_get(&self) -> Box<BatchedGet> {
        let batch = self.batched_gets.borrow_mut().pop();
        batch.unwrap_or_else(|| Box::new(BatchedGet::new(self.leaves)))
    }

    pub(super) fn keep_batched_get(&self, batch: Box<BatchedGet>) {
        self.batched_gets.borrow_mut().push(batch);
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Reads the neighborhoods of keys once.
    pub(super) async fn get_once<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        batch: &mut BatchedGet,
    ) -> Result<(), PoolError> {
        batch.begin(keys.len());
        self.aim(keys, &mut batch.aims, &mut batch.seen);
        if batch.aims.is_empty() {
            return Ok(());
        }
        // The other keys are looked up again when they are searched one by one.
        self.note_hits(batch.aims.len());
        for aim in &batch.aims {
            // A model charges each lookup; keys with a guess are charged when they are searched.
            if aim.uses_hotspots {
                self.tree
                    .endpoint
                    .charge(ClientProcessorWork::Speculation)
                    .await;
            }
        }
        let aims = batch.aims.iter();
        let bytes = aims.map(|aim| self.neighborhood(aim).bytes).sum();
        // The buffer keeps its length, so that it is not cleared for each batch.
        if batch.wire.len() < bytes {
            batch.wire.resize(bytes, 0);
        }
        self.read_aims(&batch.aims, &mut batch.wire).await?;
        let mut rest = &batch.wire[..];
        for aim in &batch.aims {
            let (wire, others) = rest.split_at(self.neighborhood(aim).bytes);
            rest = others;
            let key = keys[aim.number].as_ref();
            let (leaf, values) = (&mut batch.leaf, &mut batch.values);
            batch.seen[aim.number] = self.take_in(aim, wire, key, leaf, values);
        }
        Ok(())
    }

    fn neighborhood(&self, aim: &Aim) -> &Neighborhood {
        &self.tree.node.neighborhoods[aim.home]
    }

    /// Collects the neighborhoods of the keys with known leaves, unless there is a guess.
    fn aim<K: AsRef<[u8]>>(&self, keys: &[K], aims: &mut Vec<Aim>, seen: &mut [Got]) {
        self.tree
            .node
            .cache
            .seek_each(keys, |number, kept: &CachedNode, position| {
                let key = keys[number].as_ref();
                // Such a key stays without a result, and its own search finds another route, or
                // reports the error.
                if !self.may_follow(kept) || self.tree.check_key(key).is_err() {
                    return;
                }
                let route = kept.route_at(position);
                let home = self.tree.leaves.home(key);
                let uses_hotspots = self.uses_hotspots();
                if uses_hotspots && self.look_up(route.child, home, key).is_some() {
                    // The search of this key looks it up again, and is charged for it.
                    seen[number] = Got::Guessed;
                    return;
                }
                aims.push(Aim {
                    number,
                    home,
                    leaf: route.child,
                    sibling: route.sibling,
                    uses_hotspots,
                });
            });
    }

    /// Reads the neighborhood of each key.
    async fn read_aims(&self, aims: &[Aim], wire: &mut [u8]) -> Result<(), PoolError> {
        let mut verbs = SmallVec::<[FabricVerb<'_>; READS_MAX]>::new();
        verbs.reserve(READS_MAX * aims.len());
        let mut rest = wire;
        let mut part = |bytes: usize| {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(bytes);
            rest = others;
            part
        };
        for aim in aims {
            // Both counters come first in the buffer, so that the segments are adjacent for the
            // search.
            let [before, behind] = [part(COUNTER_BYTES), part(COUNTER_BYTES)];
            let at = self.leaf_at(aim.leaf);
            let mut read = |from, into| verbs.push(FabricVerb::Read { from, into });
            if self.tree.has_counters {
                read(at.counter(), before);
            }
            for wire in &self.neighborhood(aim).wire {
                read(at.address.plus(wire.start as u64), part(wire.len()));
            }
            if self.tree.has_counters {
                read(at.counter(), behind);
            }
        }
        debug_assert!(verbs.len() <= READS_MAX * aims.len());
        let began = self.tree.endpoint.now();
        self.tree.endpoint.post(&mut verbs).await?;
        // The duration of a batch depends on its length, so it says nothing about the link.
        if aims.len() == 1 {
            self.note_read(began);
        }
        Ok(())
    }

    /// Searches the bytes read for a key, and appends its value to the others.
    fn take_in(
        &self,
        aim: &Aim,
        wire: &[u8],
        key: &[u8],
        leaf: &mut PoolLeaf,
        values: &mut Vec<u8>,
    ) -> Got {
        let neighborhood = self.neighborhood(aim);
        let (counts, wire) = wire.split_at(2 * COUNTER_BYTES);
        if self.tree.has_counters {
            // Versions are not needed if there is a counter.
            let (before, behind) = counts.split_at(COUNTER_BYTES);
            if !is_still(before, behind) {
                self.note_torn(aim.leaf);
                return Got::Nothing;
            }
        } else if !neighborhood.is_consistent(&self.tree.leaves, wire) {
            self.note_torn(aim.leaf);
            return Got::Nothing;
        }
        let at = values.len();
        if let Some(direct) = &neighborhood.direct
            && direct.is_valid(wire)
            && let Some(slot) = direct.find(wire, key)
        {
            // If the key may be in this leaf it is, whatever the sibling is.
            let place = self.place_beside(direct.sibling(wire), aim.sibling, true);
            if matches!(place, LeafRelativePosition::Unknown) {
                return Got::Nothing;
            }
            direct.append_value(
                slot,
                wire,
                self.tree.leaves.geometry().shape().value_bytes,
                values,
            );
            self.admit_aim(aim, direct.slots.at(slot), key);
            return Got::Found(at);
        }
        // A key that was not found needs the hop bitmap and the versions of its home, which only a
        // decoded leaf has.
        neighborhood.copy(wire, leaf);
        match self.look(aim, leaf, key) {
            Ok(slot) => {
                values.extend_from_slice(leaf.value(slot));
                Got::Found(at)
            }
            Err(get_once) => get_once,
        }
    }

    /// Notes where a key was found.
    fn admit_aim(&self, aim: &Aim, slot: usize, key: &[u8]) {
        if aim.uses_hotspots {
            self.admit_at(aim.leaf, slot, key);
        }
    }

    /// Searches a leaf's neighborhood for a key: returns its slot, or the reason why it is not
    /// found.
    fn look(&self, aim: &Aim, leaf: &PoolLeaf, key: &[u8]) -> Result<usize, Got> {
        let group = self.neighborhood(aim).group;
        let sibling = self.accepted_sibling(aim.sibling, leaf, group);
        let place = self.place_by(group, sibling, true, leaf, key);
        if !matches!(
            place,
            LeafRelativePosition::Here | LeafRelativePosition::HereOrRight(_)
        ) {
            return Err(Got::Nothing);
        }
        match hopscotch::lookup_at(leaf, aim.home, key) {
            NeighborhoodLookup::Found(slot) => {
                self.admit_aim(aim, slot, key);
                Ok(slot)
            }
            NeighborhoodLookup::Absent
                if matches!(place, LeafRelativePosition::Here)
                    && (self.tree.has_counters
                        || !self.tree.leaves.has_bitmaps()
                        || !Check::Moves.is_made()) =>
            {
                Err(Got::Absent)
            }
            NeighborhoodLookup::Absent => Err(Got::Missed(aim.leaf, leaf.entry_versions(aim.home))),
            NeighborhoodLookup::Moved => {
                self.note_torn(aim.leaf);
                Err(Got::Nothing)
            }
        }
    }
}
