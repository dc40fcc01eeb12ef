//! One client's operations on single keys and ranges: byte strings over a tree of slots.

use super::blocks::ValueBlockAllocator;
use super::form::{Codec, SlotKey, StoreSlotValue, StoreValueBlock};
use super::health::NodeHealth;
use super::long_keys;
use super::long_scan::LongKeyScan;
use super::way::ProgramConnection;
use crate::chime::{ChimeTree, KeyChangeDecision};
use crate::error::PoolError;
use crate::index::{Entry, PoolIndexClient};
use nearfield_core::ScanDirection;
use nearfield_fabric::{Endpoint, FabricError};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::sync::Arc;

/// Number of bytes up to which the value of a slot is copied without an allocation.
const INLINE_SLOT_BYTES: usize = 32;

/// Number of entries that a scan asks a tree for: initially, and at most, because it grows each
/// time.
const PIECE_MIN: usize = 64;
pub(super) const PIECE_MAX: usize = 4096;

/// The client of one thread.
#[derive(Debug)]
pub(super) struct PoolStoreClient<E> {
    pub tree: ChimeTree<E>,
    pub codec: Codec,
    pub blocks: ValueBlockAllocator,
    /// True if an operation has failed for another reason than a lost node. The thread creates a
    /// new client before it executes more.
    pub has_failed: Cell<bool>,
    /// True if an operation has met a lost node. The client serves the keys of the other nodes
    /// until this one is found again.
    pub has_lost_node: Cell<bool>,
    /// The number of returns of lost nodes that the thread has noticed.
    pub returns: Cell<u64>,
    /// The number of notices to clients that the thread has followed.
    pub notices: Cell<u64>,
    /// The states of the nodes, for readers of other threads.
    pub health: Arc<NodeHealth>,
    /// The connection to programs at the memory nodes.
    pub way: RefCell<ProgramConnection>,
}

/// A range of keys of slots, both bounds included.
#[derive(Clone, Debug)]
pub(super) struct SlotRange {
    low: SlotKey,
    high: SlotKey,
    /// The bounds of long keys, if they are long themselves: hashes do not show the order.
    long: (Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl SlotRange {
    /// Creates the range of slots for keys between two bounds, which may be longer than keys are;
    /// returns `None` if there can be no such key.
    pub fn new(codec: &Codec, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Option<SlotRange> {
        // A longer key is ordered directly behind its beginning.
        let cut = |key: &[u8]| {
            let length = key.len().min(codec.key_bytes_max);
            (codec.encode_key(&key[..length]), length < key.len())
        };
        let zero = || SlotKey::zero(codec.slot_key_bytes());
        let is_long = |key: &[u8]| codec.has_long_keys() && codec.rest(key).is_some();
        let end = |key: &[u8], byte: u8| codec.end_of_family(codec.family(&cut(key).0), byte);
        let exact = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) if is_long(key) => Bound::Included(key.to_vec()),
            Bound::Excluded(key) if is_long(key) => Bound::Excluded(key.to_vec()),
            _ => Bound::Unbounded,
        };
        let long = (exact(low), exact(high));
        let low = match low {
            Bound::Included(key) | Bound::Excluded(key) if is_long(key) => end(key, 0),
            Bound::Unbounded => zero(),
            Bound::Included(key) => match cut(key) {
                (slot, false) => slot,
                (slot, true) => slot.next()?,
            },
            Bound::Excluded(key) => cut(key).0.next()?,
        };
        let high = match high {
            Bound::Included(key) | Bound::Excluded(key) if is_long(key) => end(key, 0xff),
            Bound::Unbounded => {
                let mut last = zero();
                last.fill(0xff);
                last
            }
            Bound::Included(key) => cut(key).0,
            Bound::Excluded(key) => match cut(key) {
                (slot, false) => slot.previous()?,
                (slot, true) => slot,
            },
        };
        (low[..] <= high[..]).then_some(SlotRange { low, high, long })
    }

    /// Returns true if the range has this long key, whose slot is in the range.
    pub fn has_long_key(&self, key: &[u8]) -> bool {
        let is_above = match &self.long.0 {
            Bound::Included(low) => key >= &low[..],
            Bound::Excluded(low) => key > &low[..],
            Bound::Unbounded => true,
        };
        is_above
            && match &self.long.1 {
                Bound::Included(high) => key <= &high[..],
                Bound::Excluded(high) => key < &high[..],
                Bound::Unbounded => true,
            }
    }

    /// Returns the range which begins at all slots of a family that a scan has read in part.
    pub fn with_family(self, codec: &Codec, family: &[u8], direction: ScanDirection) -> SlotRange {
        match direction {
            ScanDirection::Ascending => SlotRange {
                low: codec.end_of_family(family, 0),
                ..self
            },
            ScanDirection::Descending => SlotRange {
                high: codec.end_of_family(family, 0xff),
                ..self
            },
        }
    }

    /// Creates the range from one slot to another.
    pub fn of_slots(low: &[u8], high: &[u8]) -> SlotRange {
        debug_assert!(low.len() == high.len() && low <= high);
        let slot = |key: &[u8]| {
            let mut slot = SlotKey::zero(key.len());
            slot.copy_from_slice(key);
            slot
        };
        SlotRange {
            low: slot(low),
            high: slot(high),
            long: (Bound::Unbounded, Bound::Unbounded),
        }
    }

    /// Returns the first and the last slot.
    pub fn slots(&self) -> (&[u8], &[u8]) {
        (&self.low, &self.high)
    }
}

impl<E: Endpoint> PoolStoreClient<E> {
    /// Notes the failure of an operation, for the next one of the thread.
    pub fn note_failure(&self, error: &PoolError) {
        match error {
            PoolError::Fabric(
                FabricError::NodeLost { node } | FabricError::NoSuchNode { node },
            )
            | PoolError::Undetermined(
                FabricError::NodeLost { node } | FabricError::NoSuchNode { node },
            ) => {
                // The other node of a pair serves, and the endpoint uses it. A new client would
                // reach no further nodes, and connecting may take seconds.
                if self.tree.endpoint().is_reachable(*node) {
                    self.health.note_interruption(*node);
                    return;
                }
                self.has_lost_node.set(true);
                if self.health.note_loss(*node) {
                    self.tree.forget_routes();
                }
            }
            _ => self.has_failed.set(true),
        }
    }

    /// Reads the neighborhoods of keys by one post, and the blocks of long values by another, and
    /// passes each value to `found` by its number; of slots of long keys their blocks. Returns the
    /// keys that need more reads.
    pub async fn get_each(
        &self,
        keys: &[SlotKey],
        mut found: impl FnMut(usize, Option<&[u8]>),
    ) -> SmallVec<[usize; 4]> {
        let endpoint = self.tree.endpoint();
        // The guard comes before the slots: a block that a slot names then stays as it is until the
        // guard ends. If the nodes cannot be reached, that is reported when keys are read one by
        // one.
        let Ok(reading) = self.blocks.enter(endpoint).await else {
            return (0..keys.len()).collect();
        };
        let (mut numbers, mut outside) = (SmallVec::<[usize; 4]>::new(), Vec::new());
        let left = self.tree.get_batch(keys, |number, slot| {
            match slot.map(|slot| self.codec.decode_value(slot)) {
                None => found(number, None),
                Some(StoreSlotValue::Inline(value)) => found(number, Some(value)),
                Some(StoreSlotValue::Outside(block)) => {
                    numbers.push(number);
                    outside.push(block);
                }
            }
        });
        let mut left: SmallVec<[usize; 4]> = left.await.into();
        if outside.is_empty() {
            return left;
        }
        match self.blocks.read_all(endpoint, &outside).await {
            Ok(values) if matches!(reading.is_valid(endpoint).await, Ok(true)) => {
                for (number, value) in numbers.into_iter().zip(&values) {
                    found(number, Some(value));
                }
            }
            _ => left.extend(numbers),
        }
        left
    }

    /// Passes the value of a key that needs more reads to `found`, or its block if it is long.
    pub async fn get_rest<R>(
        &self,
        key: &SlotKey,
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PoolError> {
        let endpoint = self.tree.endpoint();
        loop {
            let reading = self.blocks.enter(endpoint).await?;
            // The tree may be read again, but `found` must be called only once.
            let copy = |slot: &[u8]| SmallVec::<[u8; INLINE_SLOT_BYTES]>::from_slice(slot);
            let Some(slot) = self.tree.search_missed(key, copy).await? else {
                return Ok(None);
            };
            match self.codec.decode_value(&slot) {
                StoreSlotValue::Inline(value) => return Ok(Some(found(value))),
                StoreSlotValue::Outside(block) => {
                    let value = self.blocks.read(endpoint, block).await?;
                    if reading.is_valid(endpoint).await? {
                        return Ok(Some(found(&value)));
                    }
                }
            }
        }
    }

    /// Returns the first `limit` entries of a range, from the end where `direction` begins, and the
    /// rest of the range; `None` if nothing is left. Returns more entries if keys are long: all
    /// with one beginning, whose order is known only when they were read.
    pub async fn scan(
        &self,
        range: &SlotRange,
        limit: usize,
        direction: ScanDirection,
    ) -> Result<(Vec<Entry>, Option<SlotRange>), PoolError> {
        if self.codec.has_long_keys() {
            return self.scan_long(range, limit, direction).await;
        }
        let mut entries = Vec::new();
        let mut piece = PIECE_MIN;
        let mut rest = Some(range.clone());
        while entries.len() < limit
            && let Some(range) = rest.take()
        {
            let wanted = piece.min(limit - entries.len());
            let mut found = self.piece_with_values(&range, wanted, direction).await?;
            rest = behind(range, &mut found, wanted, direction);
            entries.extend(found);
            piece = (2 * piece).min(PIECE_MAX);
        }
        for (key, _) in &mut entries {
            let length = self.codec.decode_key(key).len();
            key.truncate(length);
        }
        Ok((entries, rest))
    }

    /// Scans like [`scan`](PoolStoreClient::scan), in a store with long keys.
    async fn scan_long(
        &self,
        range: &SlotRange,
        limit: usize,
        direction: ScanDirection,
    ) -> Result<(Vec<Entry>, Option<SlotRange>), PoolError> {
        let mut scan = LongKeyScan::new(&self.codec, range, direction);
        let mut piece = PIECE_MIN;
        let mut rest = Some(range.clone());
        while scan.settled() < limit
            && let Some(range) = rest.take()
        {
            // One more slot than entries: the next beginning shows that the last one is complete.
            let wanted = match scan.is_open() {
                true => piece,
                false => piece.min((limit - scan.settled()).saturating_add(1)),
            };
            let mut found = self.piece_with_values(&range, wanted, direction).await?;
            rest = behind(range, &mut found, wanted, direction);
            for (slot, held) in found {
                scan.take(slot, held);
            }
            piece = (2 * piece).min(PIECE_MAX);
        }
        Ok(scan.finish(rest))
    }

    /// Reads a piece, with values in place of slots, and blocks in place of those of long keys.
    async fn piece_with_values(
        &self,
        range: &SlotRange,
        wanted: usize,
        direction: ScanDirection,
    ) -> Result<Vec<Entry>, PoolError> {
        loop {
            let reading = self.blocks.enter(self.tree.endpoint()).await?;
            let mut found = self.piece(range, wanted, direction).await?;
            let is_certain = self.read_values(&mut found).await?;
            // Values in slots were read with them, so only blocks need the guard.
            if is_certain || reading.is_valid(self.tree.endpoint()).await? {
                return Ok(found);
            }
        }
    }

    /// Reads the entries of a piece of a range, as slots. They may be behind the range.
    pub async fn piece(
        &self,
        range: &SlotRange,
        wanted: usize,
        direction: ScanDirection,
    ) -> Result<Vec<Entry>, PoolError> {
        match direction {
            ScanDirection::Ascending => self.tree.scan(&range.low, wanted).await,
            ScanDirection::Descending => self.tree.scan_back(&range.high, wanted).await,
        }
    }

    /// Returns the number of entries.
    pub async fn count(&self) -> Result<usize, PoolError> {
        let mut count = 0;
        let mut rest = SlotRange::new(&self.codec, Bound::Unbounded, Bound::Unbounded);
        while let Some(range) = rest {
            let (mut found, keys) = self.piece_with_count(&range).await?;
            rest = behind(range, &mut found, PIECE_MAX, ScanDirection::Ascending);
            count += keys;
        }
        Ok(count)
    }

    /// Reads a piece of a range, and returns the number of its keys, too.
    async fn piece_with_count(&self, range: &SlotRange) -> Result<(Vec<Entry>, usize), PoolError> {
        let (endpoint, direction) = (self.tree.endpoint(), ScanDirection::Ascending);
        if !self.codec.has_long_keys() {
            let found = self.piece(range, PIECE_MAX, direction).await?;
            let keys = found.len();
            return Ok((found, keys));
        }
        loop {
            let reading = self.blocks.enter(endpoint).await?;
            let found = self.piece(range, PIECE_MAX, direction).await?;
            let keys = self.count_keys(&found).await?;
            if reading.is_valid(endpoint).await? {
                return Ok((found, keys));
            }
        }
    }

    /// Returns the number of keys of some slots, by the beginnings of the blocks of long ones.
    async fn count_keys(&self, slots: &[Entry]) -> Result<usize, PoolError> {
        let (mut count, mut blocks) = (0, Vec::new());
        for (slot, held) in slots {
            match self.codec.decode_value(held) {
                StoreSlotValue::Outside(block) if self.codec.is_long(slot) => {
                    blocks.push(StoreValueBlock {
                        bytes: block.bytes.min(long_keys::COUNT_BYTES as u32),
                        ..block
                    });
                }
                _ => count += 1,
            }
        }
        for block in self.blocks.read_all(self.tree.endpoint(), &blocks).await? {
            count += long_keys::count(&block);
        }
        Ok(count)
    }

    /// Replaces the slots' references by the values. Returns true if no value was in a block.
    async fn read_values(&self, entries: &mut [Entry]) -> Result<bool, PoolError> {
        let mut places = Vec::new();
        let mut blocks = Vec::new();
        for (place, (_, slot)) in entries.iter_mut().enumerate() {
            match self.codec.decode_value(slot) {
                StoreSlotValue::Inline(value) => *slot = value.to_vec(),
                StoreSlotValue::Outside(block) => {
                    places.push(place);
                    blocks.push(block);
                }
            }
        }
        let values = self.blocks.read_all(self.tree.endpoint(), &blocks).await?;
        for (place, value) in places.into_iter().zip(values) {
            entries[place].1 = value;
        }
        Ok(blocks.is_empty())
    }

    /// Returns the slot's bytes for a value, which is written to a block first if it is long.
    pub async fn place(
        &self,
        value: &[u8],
    ) -> Result<(Vec<u8>, Option<StoreValueBlock>), PoolError> {
        if !self.codec.is_outside(value) {
            return Ok((self.codec.encode_inline(value), None));
        }
        let block = self.blocks.write(self.tree.endpoint(), value).await?;
        Ok((self.codec.encode_block(block), Some(block)))
    }

    /// Returns the slot's bytes for a value, and its unwritten block if it is long.
    pub async fn reserve(
        &self,
        value: &[u8],
    ) -> Result<(Vec<u8>, Option<StoreValueBlock>), PoolError> {
        if !self.codec.is_outside(value) {
            return Ok((self.codec.encode_inline(value), None));
        }
        let block = self.blocks.reserve(self.tree.endpoint(), value.len());
        let block = block.await?;
        Ok((self.codec.encode_block(block), Some(block)))
    }

    /// Changes a slot; see [`ChimeTree::alter`].
    pub async fn alter(
        &self,
        key: &SlotKey,
        decide: impl AsyncFnMut(Option<&[u8]>) -> Result<KeyChangeDecision, PoolError>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        self.tree.alter(key, decide).await
    }
}

/// Returns the rest of a range behind the entries of a piece of it. Drops entries outside of the
/// range. Returns `None` if nothing is left.
pub(super) fn behind(
    range: SlotRange,
    found: &mut Vec<Entry>,
    wanted: usize,
    direction: ScanDirection,
) -> Option<SlotRange> {
    let SlotRange {
        mut low,
        mut high,
        long,
    } = range;
    // A piece that is shorter than requested ends the index.
    let is_all = found.len() < wanted;
    let within = |(key, _): &Entry| match direction {
        ScanDirection::Ascending => key[..] <= high[..],
        ScanDirection::Descending => key[..] >= low[..],
    };
    let inside = found.partition_point(within);
    let has_left = inside < found.len();
    found.truncate(inside);
    if is_all || has_left {
        return None;
    }
    let (last, _) = found.last()?;
    match direction {
        ScanDirection::Ascending => {
            low.copy_from_slice(last);
            low = low.next()?;
        }
        ScanDirection::Descending => {
            high.copy_from_slice(last);
            high = high.previous()?;
        }
    }
    (low[..] <= high[..]).then_some(SlotRange { low, high, long })
}
