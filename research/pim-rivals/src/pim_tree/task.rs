//! The host's tasks for modules.
//!
//! ```text
//! tasks | kind 8, count 24, where 32 | count items of as many words as the kind has |
//! ```
//!
//! Results have no headers: they are in the order of the items, and the host knows its requests.

/// A kind of task, described by its items and, after a colon, its result for each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ChunkTaskKind {
    /// Keys: 1 if it is present, else 0; and its value.
    Probe,
    /// Keys and values: sets the value if the key is present; the result is that of
    /// [`ChunkProbe`](ChunkTaskKind::Probe).
    Set,
    /// Keys, their expected values, and new values: sets a value if the old one is the expected
    /// one; the result is that of [`ChunkProbe`](ChunkTaskKind::Probe).
    Swap,
    /// Keys: the chunk of level 2.
    Upper,
    /// Ranges, by first and last key, and the number of chunks wanted (with 1 in the upper half if
    /// counted from the last on): the number of chunks of level 2, and the first key and address of
    /// each.
    UpperRange,
    /// Keys of the chunk: the chunk of level 0, found by the shadows of level 2.
    Search,
    /// A word with a bit for each key whose whole path is wanted, and keys: the result of
    /// [`JumpPushSearch`](ChunkTaskKind::Search), and for a set bit the chunk of level 1 and its
    /// shadow.
    Path,
    /// Keys of the chunk: the data node of the greatest key at or below it; 0 if there is none, or
    /// [`LEFT`] and the first key of the chunk.
    Floor,
    /// Keys of the chunk: the data node of the least key at or above it; if there is none, 0 and
    /// the bound.
    Ceiling,
    /// Data nodes: its key and value.
    Fetch,
    /// Chunks: first key, bound, number of entries, and key, address and, for level 2, shadow of
    /// each.
    Pull,
    /// Chunks of level 2 with keys: the result of [`Pull`](ChunkTaskKind::Pull). After that, for
    /// the shadow of each entry at or after the key, its bound, its number of entries, and key and
    /// address of each.
    PullDeep,
    /// The first and the last key (two items): the number of entries of the chunk in this range,
    /// and key and address of each.
    Range,
    /// Keys and values: the address of a new data node, which is not yet in the table; 0 if there
    /// is no room.
    NewData,
    /// Levels, first keys and capacities: the address of a new chunk; 0 if there is no room.
    NewChunk,
    /// Chunks, and the numbers of entries to make room for: 1, or 0 if there is no room.
    Reserve,
    /// The number of keys for which the upper part must make room: 1, or 0 if there is no room.
    ReserveUpper,
    /// Entries to add to the chunk (with their count), after the truncation, the bound and the keys
    /// to remove.
    Change,
    /// Chunks to free, and their first keys.
    FreeChunk,
    /// Data nodes to free that are not in the table, and their keys.
    FreeData,
    /// Data nodes to add to the table.
    Put,
    /// Keys to delete, with their data nodes.
    Delete,
    /// Keys and chunks of level 2 to insert into the upper part.
    UpperInsert,
    /// Keys to remove from the upper part.
    UpperRemove,
    /// The release of the spare nodes of the upper part (one item).
    Release,
    /// A mark of 1 if the following tasks may have been executed already (one item).
    Again,
    /// A measurement. For item 0: the bytes of data nodes, of the table, of the upper part, and of
    /// all together. For chunks of level 2: the bytes of their shadows.
    Measure,
}

/// All kinds, by number.
const KINDS: [ChunkTaskKind; 27] = [
    ChunkTaskKind::Probe,
    ChunkTaskKind::Set,
    ChunkTaskKind::Swap,
    ChunkTaskKind::Upper,
    ChunkTaskKind::UpperRange,
    ChunkTaskKind::Search,
    ChunkTaskKind::Path,
    ChunkTaskKind::Floor,
    ChunkTaskKind::Ceiling,
    ChunkTaskKind::Fetch,
    ChunkTaskKind::Pull,
    ChunkTaskKind::PullDeep,
    ChunkTaskKind::Range,
    ChunkTaskKind::NewData,
    ChunkTaskKind::NewChunk,
    ChunkTaskKind::Reserve,
    ChunkTaskKind::ReserveUpper,
    ChunkTaskKind::Change,
    ChunkTaskKind::FreeChunk,
    ChunkTaskKind::FreeData,
    ChunkTaskKind::Put,
    ChunkTaskKind::Delete,
    ChunkTaskKind::UpperInsert,
    ChunkTaskKind::UpperRemove,
    ChunkTaskKind::Release,
    ChunkTaskKind::Again,
    ChunkTaskKind::Measure,
];

/// The result in place of a data node if the nearest key is in a chunk to the left.
pub(super) const LEFT: u64 = u64::MAX;
/// The result in place of an address if a key is not in the range of the searched chunk.
pub(super) const LOST: u64 = u64::MAX - 1;

/// Greatest number of items of a task.
pub(super) const COUNT_MAX: usize = (1 << 24) - 1;

/// Bits in the first word of a [`ChunkTaskKind::Change`], next to the number of keys to remove.
pub(super) const TRUNCATES: u64 = 1 << 32;
pub(super) const BOUNDS: u64 = 1 << 33;
pub(super) const WIDE: u64 = 1 << 34;

impl ChunkTaskKind {
    pub const fn header(self, count: usize, at: u32) -> u64 {
        debug_assert!(count <= COUNT_MAX);
        self as u64 | (count as u64) << 8 | (at as u64) << 32
    }

    /// Returns the kind, the count and the address of the chunk.
    pub fn split(header: u64) -> Option<(ChunkTaskKind, usize, u32)> {
        let kind = KINDS.get(usize::from(header as u8))?;
        Some((*kind, (header as u32 >> 8) as usize, (header >> 32) as u32))
    }

    /// Returns the number of words of an item; items of [`ChunkTaskKind::Change`] have their own
    /// count.
    pub const fn words(self) -> usize {
        match self {
            ChunkTaskKind::Set
            | ChunkTaskKind::NewData
            | ChunkTaskKind::PullDeep
            | ChunkTaskKind::Reserve
            | ChunkTaskKind::FreeChunk
            | ChunkTaskKind::FreeData
            | ChunkTaskKind::UpperInsert => 2,
            ChunkTaskKind::Swap | ChunkTaskKind::UpperRange | ChunkTaskKind::NewChunk => 3,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_was_put_in() {
        for (number, &kind) in KINDS.iter().enumerate() {
            assert_eq!(kind as usize, number);
            let header = kind.header(COUNT_MAX - number, u32::MAX - 7);
            let split = Some((kind, COUNT_MAX - number, u32::MAX - 7));
            assert_eq!(ChunkTaskKind::split(header), split);
        }
        assert_eq!(ChunkTaskKind::split(KINDS.len() as u64), None);
    }
}
