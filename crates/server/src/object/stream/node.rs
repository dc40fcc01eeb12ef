//! Nodes: consecutive entries of a stream in one listpack, as in Redis.
//!
//! ```text
//! live  deleted  fields  field ... 0                          the master entry
//! flags  ms  seq  [count]  (field value | value) ...  elements     each entry
//! ```
//!
//! `ms` and `seq` are differences to the node's first identifier. An entry with the fields of the
//! master entry has only its values. `elements` counts those of the entry before it. A deleted
//! entry is marked by a flag.

use super::StreamId;
use super::listpack::{
    HEAD_BYTES, Listpack, ListpackElement, end, is_end, read, read_checked, small,
};
use nearfield_tiers::AccountedHeap;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

pub(super) struct StreamNode {
    /// The first entry's identifier, to which those of the entries are differences.
    pub(super) first: StreamId,
    listpack: Listpack,
}

/// The counters and the fields at the beginning of a node.
#[derive(Clone, Copy)]
struct Master {
    live: i64,
    deleted: i64,
    deleted_at: usize,
    fields: i64,
    fields_at: usize,
    entries_at: usize,
}

/// An entry, and its position.
#[derive(Clone, Copy)]
pub struct StreamEntry<'a> {
    /// The identifier of the entry.
    pub id: StreamId,
    pub(super) is_deleted: bool,
    pub(super) at: usize,
    bytes: &'a [u8],
    /// Number of fields, and the position of the first field or, with the master entry's fields,
    /// the first value.
    fields: i64,
    fields_at: usize,
    /// The position of the fields, if they are those of the master entry.
    shared_at: Option<usize>,
}

impl StreamEntry<'_> {
    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.fields as usize
    }

    /// Returns true if there are no fields, which no client can cause.
    pub fn is_empty(&self) -> bool {
        self.fields == 0
    }

    /// Visits the fields with their values.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], &[u8])) {
        let (mut at, mut shared) = (self.fields_at, self.shared_at);
        let (mut one, mut other) = (itoa::Buffer::new(), itoa::Buffer::new());
        for _ in 0..self.fields {
            let from = shared.as_mut().unwrap_or(&mut at);
            let Some((field, next)) = read(self.bytes, *from) else {
                return;
            };
            *from = next;
            let Some((value, next)) = read(self.bytes, at) else {
                return;
            };
            at = next;
            visit(field.text(&mut one), value.text(&mut other));
        }
    }
}

/// Reads an integer. Returns it and the position after it.
#[inline]
fn integer(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    if let Some(small) = small(bytes, at) {
        return Some(small);
    }
    let (element, next) = read(bytes, at)?;
    Some((element.integer()?, next))
}

#[inline]
fn skip(bytes: &[u8], mut at: usize, count: i64) -> Option<usize> {
    for _ in 0..count {
        at = end(bytes, at)?;
    }
    Some(at)
}

impl StreamNode {
    /// Creates a node whose master entry has the fields of `words`, which are fields and values. It
    /// has no entry yet.
    pub(super) fn begin(
        first: StreamId,
        words: &[&[u8]],
        usual_bytes: usize,
        heap: AccountedHeap,
    ) -> StreamNode {
        let mut listpack = Listpack::new_in(heap);
        let mut appending = listpack.append(usual_bytes);
        appending.integer(0);
        appending.integer(0);
        appending.integer((words.len() / 2) as i64);
        words.iter().step_by(2).for_each(|it| appending.string(it));
        appending.integer(0);
        appending.finish();
        StreamNode { first, listpack }
    }

    /// Appends an entry of `words`, which are fields and values.
    pub(super) fn append(&mut self, id: StreamId, words: &[&[u8]], usual_bytes: usize) {
        debug_assert!(id >= self.first && words.len().is_multiple_of(2));
        let Some(master) = self.master() else { return };
        let same = self.has_fields(&master, words);
        let fields = (words.len() / 2) as i64;
        let mut appending = self.listpack.append(usual_bytes);
        appending.integer(if same { SAME_FIELDS } else { 0 });
        // The number of a later time may be less than that of the first identifier.
        appending.integer(id.ms.wrapping_sub(self.first.ms) as i64);
        appending.integer(id.seq.wrapping_sub(self.first.seq) as i64);
        if same {
            let values = words.iter().skip(1).step_by(2);
            values.for_each(|it| appending.string(it));
            appending.integer(3 + fields);
        } else {
            appending.integer(fields);
            words.iter().for_each(|it| appending.string(it));
            appending.integer(4 + 2 * fields);
        }
        appending.finish();
        self.listpack.replace(HEAD_BYTES, master.live + 1);
    }

    fn has_fields(&self, master: &Master, words: &[&[u8]]) -> bool {
        if master.fields != (words.len() / 2) as i64 {
            return false;
        }
        // A field that is the text of an integer is stored as an integer.
        let (mut at, mut digits) = (master.fields_at, itoa::Buffer::new());
        words.iter().step_by(2).all(|word| {
            let Some((field, next)) = read(self.bytes(), at) else {
                return false;
            };
            at = next;
            field.text(&mut digits) == *word
        })
    }

    fn master(&self) -> Option<Master> {
        let bytes = self.bytes();
        let (live, deleted_at) = integer(bytes, HEAD_BYTES)?;
        let (deleted, at) = integer(bytes, deleted_at)?;
        let (fields, fields_at) = integer(bytes, at)?;
        let entries_at = skip(bytes, fields_at, fields.checked_add(1)?)?;
        Some(Master {
            live,
            deleted,
            deleted_at,
            fields,
            fields_at,
            entries_at,
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.listpack.bytes()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.listpack.memory_bytes()
    }

    /// Gives back unused memory.
    pub(super) fn shrink(&mut self) {
        self.listpack.shrink();
    }

    /// Returns the number of entries that are not deleted.
    pub(super) fn live(&self) -> u64 {
        integer(self.bytes(), HEAD_BYTES).map_or(0, |(live, _)| live as u64)
    }

    /// Returns the number of all entries.
    pub(super) fn total(&self) -> u64 {
        let master = self.master();
        master.map_or(0, |it| (it.live + it.deleted) as u64)
    }

    /// Returns all entries, including deleted ones.
    pub(super) fn entries(&self) -> StreamNodeEntries<'_> {
        let master = self.master();
        StreamNodeEntries {
            first: self.first,
            bytes: self.bytes(),
            // Beyond the end there is no entry.
            at: master.map_or(usize::MAX, |it| it.entries_at),
            fields: master.map_or(0, |it| it.fields),
            fields_at: master.map_or(0, |it| it.fields_at),
        }
    }

    /// Returns the identifier of the last entry, which may be deleted.
    pub(super) fn last_id(&self) -> StreamId {
        self.entries().last().map_or(self.first, |entry| entry.id)
    }

    /// Marks the entries at `places` as deleted, none of which is deleted yet.
    pub(super) fn delete(&mut self, places: &[usize]) {
        // Flags take one byte for every value, so that nothing moves.
        for &at in places {
            let flags = integer(self.bytes(), at).map_or(0, |(flags, _)| flags);
            debug_assert_eq!(flags & DELETED, 0);
            self.listpack.replace(at, flags | DELETED);
        }
        let Some(master) = self.master() else { return };
        let count = places.len() as i64;
        debug_assert!(count <= master.live);
        // The later counter first, because a change of the earlier one may move it.
        let deleted = master.deleted + count;
        self.listpack.replace(master.deleted_at, deleted);
        self.listpack.replace(HEAD_BYTES, master.live - count);
    }

    /// Creates a copy in another heap.
    pub(super) fn rebuild_in(&self, heap: AccountedHeap) -> StreamNode {
        StreamNode {
            first: self.first,
            listpack: Listpack::copy_in(self.bytes(), heap),
        }
    }

    /// Reads a node from untrusted bytes: `None` if they are not a node.
    pub(super) fn parse(first: StreamId, bytes: &[u8], heap: AccountedHeap) -> Option<StreamNode> {
        let order = check(first, bytes)?;
        let mut node = StreamNode {
            first,
            listpack: Listpack::copy_in(bytes, heap),
        };
        if order == DeletedEntries::OutOfOrder {
            node.forget_deleted();
        }
        Some(node)
    }

    /// Drops the deleted entries, so that their identifiers no longer matter.
    pub(super) fn forget_deleted(&mut self) {
        let heap = self.listpack.heap();
        let usual_bytes = self.bytes().len();
        let mut kept: Option<StreamNode> = None;
        for entry in self.entries().filter(|entry| !entry.is_deleted) {
            let mut words = Vec::with_capacity(2 * entry.len());
            entry.for_each(|field, value| words.extend([field.to_vec(), value.to_vec()]));
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            kept.get_or_insert_with(|| {
                StreamNode::begin(self.first, &words, usual_bytes, heap.clone())
            })
            .append(entry.id, &words, usual_bytes);
        }
        // A node without any other entry stays, and its owner drops it.
        if let Some(kept) = kept {
            *self = kept;
        }
    }
}

/// The order of the identifiers of a node's deleted entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeletedEntries {
    /// Identifiers that ascend with those of all entries.
    InOrder,
    /// Identifiers of which one is not smaller than that of a later entry. Redis 7.0 creates
    /// such nodes after an `XSETID` to an identifier before the deleted entry.
    OutOfOrder,
}

/// Checks that bytes are a node whose first identifier is `first`, with ascending entries.
fn check(first: StreamId, bytes: &[u8]) -> Option<DeletedEntries> {
    let total = u32::from_le_bytes(*bytes.first_chunk()?);
    if total as usize != bytes.len() || !bytes.ends_with(&[0xff]) {
        return None;
    }
    let announced = u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
    let mut count = 0_usize;
    let mut next = |at: &mut usize| -> Option<ListpackElement<'_>> {
        let (element, next) = read_checked(bytes, *at)?;
        *at = next;
        count += 1;
        Some(element)
    };
    let mut at = HEAD_BYTES;
    let live = next(&mut at)?.integer()?;
    let deleted = next(&mut at)?.integer()?;
    let fields = next(&mut at)?.integer()?;
    if live < 0 || deleted < 0 || fields < 0 {
        return None;
    }
    for _ in 0..fields {
        next(&mut at)?;
    }
    if next(&mut at)?.integer()? != 0 {
        return None;
    }
    let (mut found_live, mut found_deleted) = (0, 0);
    let (mut last, mut last_live): (Option<StreamId>, Option<StreamId>) = (None, None);
    let mut order = DeletedEntries::InOrder;
    while !is_end(bytes, at) {
        let flags_at = at;
        let flags = next(&mut at)?.integer()?;
        // A flag in a longer form could not be changed in place.
        if !(0..=DELETED | SAME_FIELDS).contains(&flags) || at != flags_at + 2 {
            return None;
        }
        let ms = first.ms.wrapping_add(next(&mut at)?.integer()? as u64);
        let seq = first.seq.wrapping_add(next(&mut at)?.integer()? as u64);
        let id = StreamId { ms, seq };
        let is_live = flags & DELETED == 0;
        // The differences wrap, so that the bytes can name any identifier.
        if id < first || (is_live && last_live.is_some_and(|last| id <= last)) {
            return None;
        }
        if last.is_some_and(|last| id <= last) {
            order = DeletedEntries::OutOfOrder;
        }
        last = last.max(Some(id));
        if is_live {
            last_live = Some(id);
        }
        let (elements, own) = match flags & SAME_FIELDS {
            0 => {
                let own = next(&mut at)?.integer()?;
                (own.checked_mul(2)?, own.checked_mul(2)?.checked_add(4)?)
            }
            _ => (fields, fields.checked_add(3)?),
        };
        if elements < 0 {
            return None;
        }
        for _ in 0..elements {
            next(&mut at)?;
        }
        if next(&mut at)?.integer()? != own {
            return None;
        }
        if is_live {
            found_live += 1;
        } else {
            found_deleted += 1;
        }
    }
    // A number that does not fit into 16 bits is stored as all ones.
    let counts_all = announced == u16::MAX || usize::from(announced) == count;
    (counts_all && found_live == live && found_deleted == deleted).then_some(order)
}

/// The entries of a node, in their order.
pub(super) struct StreamNodeEntries<'a> {
    first: StreamId,
    bytes: &'a [u8],
    at: usize,
    fields: i64,
    fields_at: usize,
}

/// The beginning of an entry.
struct StreamEntryHead {
    flags: i64,
    id: StreamId,
    /// Number of fields, and the position of the first field or, with the master entry's fields,
    /// the first value.
    fields: i64,
    fields_at: usize,
    /// The position of the next entry.
    next: usize,
}

impl<'a> StreamNodeEntries<'a> {
    #[inline]
    fn head(&self) -> Option<StreamEntryHead> {
        let bytes = self.bytes;
        let (flags, next) = integer(bytes, self.at)?;
        let (ms, next) = integer(bytes, next)?;
        let (seq, next) = integer(bytes, next)?;
        let id = StreamId {
            ms: self.first.ms.wrapping_add(ms as u64),
            seq: self.first.seq.wrapping_add(seq as u64),
        };
        let same = flags & SAME_FIELDS != 0;
        let (fields, fields_at) = match same {
            true => (self.fields, next),
            false => integer(bytes, next)?,
        };
        let elements = if same { fields } else { 2 * fields };
        // The number of the entry's elements is stored after them.
        let next = skip(bytes, fields_at, elements + 1)?;
        Some(StreamEntryHead {
            flags,
            id,
            fields,
            fields_at,
            next,
        })
    }

    /// Returns the entries from `start` on.
    pub(super) fn from(mut self, start: StreamId) -> StreamNodeEntries<'a> {
        // No entry of a node is before its first identifier.
        if start > self.first {
            while let Some(head) = self.head().filter(|head| head.id < start) {
                self.at = head.next;
            }
        }
        self
    }
}

impl<'a> Iterator for StreamNodeEntries<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        let (head, at) = (self.head()?, self.at);
        self.at = head.next;
        let same = head.flags & SAME_FIELDS != 0;
        Some(StreamEntry {
            id: head.id,
            is_deleted: head.flags & DELETED != 0,
            at,
            bytes: self.bytes,
            fields: head.fields,
            fields_at: head.fields_at,
            shared_at: same.then_some(self.fields_at),
        })
    }
}
