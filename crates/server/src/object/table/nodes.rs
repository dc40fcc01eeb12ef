//! Values of a table that are in cold tiers, each separately.
//!
//! Keys, ids and the order of ids stay as they are. The blob of an element whose value is in a cold
//! tier has a [`Stub`] instead. Commands that read such a value have it lent before.

use super::super::node::{ColdNodeError, Met, ObjectNodeCopy, ObjectNodeUse, ObjectPart};
use super::{ByteStringTable, COLD, hash_of, layout, location, spread, tag, tag_in};
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use hashbrown::HashMap;
use nearfield_tiers::cold::ColdTiers;
use nearfield_tiers::keep::MOVED_BYTES_MIN;
use nearfield_tiers::{ColdPlace, ReadError};
use std::sync::Arc;

/// The facts about the values of a table, once the mover has visited them.
pub(super) struct TableTierState<A: Allocator> {
    /// Number of commands that have used each value since the mover's last visit, by id; values
    /// beyond the end were not used.
    uses: Vec<u8, A>,
    /// The cold tiers of the places; `None` before the first value has moved.
    cold: Option<Arc<ColdTiers>>,
    /// Number of values in each cold tier, by its number.
    counts: std::vec::Vec<usize>,
    /// The bytes of all these values.
    cold_bytes: usize,
    /// Values for the running command, by their ids.
    lent: HashMap<u32, std::vec::Vec<u8>>,
}

impl<A: Allocator> TableTierState<A> {
    fn new_in(heap: A) -> Self {
        TableTierState {
            uses: Vec::new_in(heap),
            cold: None,
            counts: std::vec::Vec::new(),
            cold_bytes: 0,
            lent: HashMap::new(),
        }
    }

    /// Returns the bytes taken from the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.uses.capacity()
    }

    /// Changes the id of an element. The new id is not above the old one. Calls come in ascending
    /// order.
    pub(super) fn rename(&mut self, old: u32, new: u32) {
        let uses = self.uses.get(old as usize).copied().unwrap_or(0);
        if let Some(entry) = self.uses.get_mut(new as usize) {
            *entry = uses;
        }
    }

    /// Ends the renaming: all ids are now below `ids`.
    pub(super) fn end_renaming(&mut self, ids: usize) {
        self.uses.truncate(ids);
        self.uses.shrink_to_fit();
    }

    fn count(&mut self, stub: Stub) -> &mut usize {
        let tier = stub.place.tier();
        if self.counts.len() <= tier {
            self.counts.resize(tier + 1, 0);
        }
        &mut self.counts[tier]
    }

    fn add(&mut self, stub: Stub) {
        *self.count(stub) += 1;
        self.cold_bytes += stub.bytes;
    }

    fn remove(&mut self, stub: Stub) {
        *self.count(stub) -= 1;
        self.cold_bytes -= stub.bytes;
    }
}

/// The reference that the blob of an element has instead of a value that is in a cold tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stub {
    place: ColdPlace,
    /// The length of the value.
    bytes: usize,
}

/// The size of the place and the length.
const STUB_BYTES: usize = size_of::<u64>() + size_of::<u32>();

impl Stub {
    fn write(self) -> [u8; STUB_BYTES] {
        let mut bytes = [0; STUB_BYTES];
        let (place, length) = bytes.split_at_mut(size_of::<u64>());
        place.copy_from_slice(&self.place.to_bits().to_le_bytes());
        length.copy_from_slice(&(self.bytes as u32).to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Stub {
        let (place, length) = bytes.split_at(size_of::<u64>());
        match (place.try_into(), length.try_into()) {
            (Ok(place), Ok(length)) => Stub {
                place: ColdPlace::from_bits(u64::from_le_bytes(place)),
                bytes: u32::from_le_bytes(length) as usize,
            },
            _ => unreachable!("a stub has STUB_BYTES bytes"),
        }
    }
}

/// Returns the number of the node for the value of `key`; never 0. If two keys have the same
/// number, the value of one of them does not move.
fn node_of(key: &[u8]) -> u64 {
    // 0 stands for a value as a whole.
    hash_of(key) | 1
}

impl<A: Allocator> ByteStringTable<A> {
    fn stub_in(&self, entry: u64) -> Option<Stub> {
        if entry & COLD == 0 {
            return None;
        }
        let blob = self.arena.blob(location(entry));
        let layout = layout(blob);
        Some(Stub::read(&blob[layout.value..layout.end]))
    }
}

impl<A: Allocator> Drop for ByteStringTable<A> {
    fn drop(&mut self) {
        let Some(nodes) = &self.nodes else { return };
        // Without a cold value, no entry needs to be read.
        let Some(cold) = nodes.cold.as_ref().filter(|_| self.has_cold()) else {
            return;
        };
        // Nodes are read under the lock of the object's slot, so that none is being read.
        let stubs = self.entries.iter().filter_map(|entry| self.stub_in(*entry));
        stubs.for_each(|stub| cold.release(stub.place));
    }
}

impl<A: Allocator> ByteStringTable<A> {
    /// Returns true if a value is in a cold tier.
    pub fn has_cold(&self) -> bool {
        let nodes = self.nodes.as_ref();
        nodes.is_some_and(|nodes| nodes.counts.iter().any(|&count| count > 0))
    }
}

impl<A: Allocator + Clone> ByteStringTable<A> {
    /// Returns true if values are large enough to move each separately instead of all with their
    /// keys.
    pub fn has_large_values(&self) -> bool {
        self.value_bytes >= self.len() * MOVED_BYTES_MIN
    }

    /// Returns true if the mover has visited the values, so that uses are counted and values may be
    /// cold.
    #[inline]
    pub fn is_seen(&self) -> bool {
        self.nodes.is_some()
    }

    /// Returns true if the value of an element is in a cold tier.
    #[inline]
    pub fn is_cold(&self, id: u32) -> bool {
        self.entries[id as usize] & COLD != 0
    }

    fn stub(&self, id: u32) -> Option<Stub> {
        self.stub_in(self.entries[id as usize])
    }

    /// Returns the length of an element's value, in any tier.
    #[inline]
    pub fn value_len(&self, id: u32) -> usize {
        match self.stub(id) {
            Some(stub) => stub.bytes,
            None => {
                let layout = layout(self.blob(id));
                layout.end - layout.value
            }
        }
    }

    /// Returns a lent value of a cold tier.
    #[cold]
    pub(super) fn lent(&self, id: u32) -> &[u8] {
        let nodes = self.nodes.as_ref();
        match nodes.and_then(|nodes| nodes.lent.get(&id)) {
            Some(value) => value,
            None => unreachable!("a command reads only the value that it declared"),
        }
    }

    fn nodes_mut(&mut self) -> &mut TableTierState<A> {
        let heap = self.heap().clone();
        let create = || Box::new_in(TableTierState::new_in(heap.clone()), heap.clone());
        self.nodes.get_or_insert_with(create)
    }

    /// Counts a use of a value, if uses are counted.
    fn touch(&mut self, id: u32) {
        let ids = self.entries.capacity();
        let Some(nodes) = &mut self.nodes else { return };
        let index = id as usize;
        if nodes.uses.len() <= index {
            // For all ids at once: elements are used in any order.
            let more = ids - nodes.uses.len();
            nodes.uses.reserve_exact(more);
            nodes.uses.resize(index + 1, 0);
        }
        let uses = &mut nodes.uses[index];
        *uses = uses.saturating_add(1);
    }

    /// Takes the value of an element out of its cold tier, if it is in one. The blob then has a
    /// meaningless value, which the caller must overwrite or remove.
    pub(super) fn give_up_place(&mut self, id: u32) {
        let Some(stub) = self.stub(id) else { return };
        self.entries[id as usize] &= !COLD;
        let nodes = self.nodes_mut();
        nodes.remove(stub);
        nodes.lent.remove(&id);
        if let Some(cold) = &nodes.cold {
            cold.release(stub.place);
        }
    }

    /// Moves the value of an element to a place of a cold tier.
    fn put_away(&mut self, id: u32, cold: &Arc<ColdTiers>, place: ColdPlace) {
        let bytes = self.value_len(id);
        // The blob moves when the stub replaces the value, and leaves a gap in this page.
        let page = self.arena.page_of(location(self.entries[id as usize]));
        self.give_up_place(id);
        let stub = Stub { place, bytes };
        let nodes = self.nodes_mut();
        nodes.add(stub);
        nodes.cold.get_or_insert_with(|| Arc::clone(cold));
        self.write_value(id, &stub.write());
        // Only then: the mark makes all reads take the blob's value for a stub.
        self.entries[id as usize] |= COLD;
        // Moves are made to free memory, so the page is swept early.
        if self.arena.is_thin(page) {
            self.sweep(page);
        }
    }

    fn read_stub(&self, stub: Stub) -> Result<std::vec::Vec<u8>, ColdNodeError> {
        let mut value = std::vec::Vec::with_capacity(stub.bytes);
        let place = stub.place;
        let cold = self.nodes.as_ref().and_then(|nodes| nodes.cold.as_ref());
        let read = match cold {
            Some(cold) => cold.read(place, &mut value),
            None => Err(ReadError::Absent),
        };
        // A value of another length is not the one that was stored there.
        match read {
            Ok(()) if value.len() == stub.bytes => Ok(value),
            Ok(()) => Err(ReadError::Damaged),
            Err(why) => Err(why),
        }
        .map_err(|why| ColdNodeError { place, why })
    }

    /// Returns the ids of the elements whose values a command on this part reads.
    fn touched(&self, part: &ObjectPart<'_>) -> std::vec::Vec<u32> {
        match part {
            ObjectPart::All => self.iter().collect(),
            ObjectPart::Fields(fields) => {
                fields.iter().filter_map(|field| self.find(field)).collect()
            }
            ObjectPart::Step { cursor, count } => {
                let mut ids = std::vec::Vec::new();
                self.scan(*cursor, *count, |id| ids.push(id));
                ids
            }
            _ => std::vec::Vec::new(),
        }
    }

    /// Visits the places of values in cold tiers that a command on this part must read.
    pub fn places(&self, part: &ObjectPart<'_>, visit: &mut dyn FnMut(ColdPlace)) {
        if self.has_cold() {
            let stubs = self
                .touched(part)
                .into_iter()
                .filter_map(|id| self.stub(id));
            stubs.for_each(|stub| visit(stub.place));
        }
    }

    /// Lends the values of a part to a command that reads them, until
    /// [`end_loan`](ByteStringTable::end_loan).
    ///
    /// # Errors
    /// A value cannot be read.
    pub fn lend(
        &mut self,
        part: &ObjectPart<'_>,
        is_use: bool,
        met: &mut Met,
    ) -> Result<bool, ColdNodeError> {
        // A scan over all elements does not count as a use of any.
        let is_use = is_use && !matches!(part, ObjectPart::Step { .. });
        let mut is_lent = false;
        for id in self.touched(part) {
            if is_use {
                self.touch(id);
            }
            let Some(stub) = self.stub(id) else { continue };
            if is_use {
                met.push((node_of(self.key(id)), stub.place));
            }
            is_lent = true;
            // A command may name a field twice.
            let lent = self.nodes.as_ref().map(|nodes| &nodes.lent);
            if !lent.is_some_and(|lent| lent.contains_key(&id)) {
                let value = self.read_stub(stub)?;
                self.nodes_mut().lent.insert(id, value);
            }
        }
        Ok(is_lent)
    }

    /// Takes back what was lent.
    pub fn end_loan(&mut self) {
        if let Some(nodes) = &mut self.nodes {
            nodes.lent.clear();
        }
    }

    /// Brings the values of a part into memory, so that a command can change them. Calls `warmed`
    /// for those that were cold.
    ///
    /// # Errors
    /// A value cannot be read.
    pub fn warm(
        &mut self,
        part: &ObjectPart<'_>,
        warmed: &mut dyn FnMut(ColdPlace, usize),
    ) -> Result<(), ColdNodeError> {
        // Values that are replaced are used, but not read.
        if let ObjectPart::Replaced(fields) = part {
            for field in fields {
                self.find(field).into_iter().for_each(|id| self.touch(id));
            }
        }
        for id in self.touched(part) {
            self.touch(id);
            if let Some(stub) = self.stub(id) {
                let value = self.read_stub(stub)?;
                self.set_value(id, &value);
                warmed(stub.place, value.len());
            }
        }
        Ok(())
    }

    /// Passes the value of an element to `visit`, in any tier.
    ///
    /// # Errors
    /// The error of `visit`, or the value cannot be read.
    pub fn visit_value<E>(
        &self,
        id: u32,
        unread: impl Fn(ColdNodeError) -> E,
        visit: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.stub(id) {
            None => visit(self.value(id)),
            Some(stub) => visit(&self.read_stub(stub).map_err(unread)?),
        }
    }

    /// Shows the mover values from an id on, and returns the next id; `None` if there are no more.
    pub fn see(
        &mut self,
        from: usize,
        count: usize,
        visit: &mut dyn FnMut(ObjectNodeUse),
    ) -> Option<usize> {
        // From the mover's first visit on, uses are counted.
        self.nodes_mut();
        let end = from.saturating_add(count).min(self.entries.len());
        for id in from..end {
            if !self.is_element(id as u32) {
                continue;
            }
            let uses = self.nodes_mut().uses.get_mut(id).map(std::mem::take);
            let id = id as u32;
            visit(ObjectNodeUse {
                number: node_of(self.key(id)),
                place: self.stub(id).map(|stub| stub.place),
                bytes: self.value_len(id),
                uses: uses.unwrap_or(0),
            });
        }
        (end < self.entries.len()).then_some(end)
    }

    /// Returns the bytes of all values in cold tiers.
    pub fn cold_bytes(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| nodes.cold_bytes)
    }

    /// Visits the numbers of the cold tiers in which values are stored.
    pub fn cold_tiers(&self, visit: &mut dyn FnMut(usize)) {
        let nodes = self
            .nodes
            .iter()
            .flat_map(|nodes| nodes.counts.iter().enumerate());
        let held = nodes.filter(|(_, count)| **count > 0);
        held.for_each(|(tier, _)| visit(tier));
    }

    /// Returns the numbers of the values that are large enough to move, or have moved, and the
    /// places of those in cold tiers.
    pub fn nodes(&self) -> std::vec::Vec<(u64, Option<ColdPlace>)> {
        let moves = |&id: &u32| self.is_cold(id) || self.value_len(id) >= MOVED_BYTES_MIN;
        let node = |id| {
            let place = self.stub(id).map(|stub| stub.place);
            (node_of(self.key(id)), place)
        };
        self.iter().filter(moves).map(node).collect()
    }

    fn find_node(&self, number: u64) -> Option<u32> {
        // The number is the key's hash except for the lowest bit, which is in no tag.
        let wanted = tag_in(number);
        let is_it = |id: &u32| {
            tag(self.entries[*id as usize]) == wanted && node_of(self.key(*id)) == number
        };
        self.ids.find(spread(wanted), is_it).copied()
    }

    /// Begins to move a value: appends it to `out` if it is in memory. The result has its place
    /// otherwise.
    pub fn copy_node(&self, number: u64, out: &mut std::vec::Vec<u8>) -> Option<ObjectNodeCopy> {
        let id = self.find_node(number)?;
        let place = self.stub(id).map(|stub| stub.place);
        if place.is_none() {
            out.extend_from_slice(self.value(id));
        }
        Some(ObjectNodeCopy {
            number,
            version: 0,
            index: id as usize,
            place,
        })
    }

    /// Ends the move of a value to a cold tier, or into memory. Returns false if it was changed
    /// meanwhile. The caller has held the place that the value had.
    pub fn move_node(
        &mut self,
        copied: &ObjectNodeCopy,
        to: Option<ColdPlace>,
        cold: &Arc<ColdTiers>,
        value: &[u8],
    ) -> bool {
        let Some(id) = self.find_node(copied.number) else {
            return false;
        };
        let place = self.stub(id).map(|stub| stub.place);
        // Values have no versions. A place that is held is not reused, and equal bytes may move
        // even if they were written again meanwhile.
        let is_same = match place {
            Some(_) => place == copied.place,
            None => copied.place.is_none() && self.value(id) == value,
        };
        if is_same {
            match to {
                Some(place) => self.put_away(id, cold, place),
                None => self.set_value(id, value),
            }
        }
        is_same
    }

    /// Panics unless the counts are those of the stubs. For tests.
    pub(super) fn check_nodes(&self) {
        let stubs = || self.entries.iter().filter_map(|entry| self.stub_in(*entry));
        let Some(nodes) = &self.nodes else {
            assert_eq!(stubs().count(), 0);
            return;
        };
        let mut counts = vec![0; nodes.counts.len()];
        stubs().for_each(|stub| counts[stub.place.tier()] += 1);
        assert_eq!(nodes.counts, counts);
        let bytes: usize = stubs().map(|stub| stub.bytes).sum();
        assert_eq!(nodes.cold_bytes, bytes);
    }
}
