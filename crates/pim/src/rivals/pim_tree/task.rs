//! The host's tasks for modules.
//!
//! ```text
//! tasks | kind 8, count 24, where 32 | count items of as many words as the kind has |
//! ```
//!
//! Answers have no headers: they come in the order of the items, and the host knows its requests.

/// A kind of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Keys: whether there is one, and its value (two words each).
    Probe,
    /// Keys and values: sets it if there is one; answers as [`Probe`](Kind::Probe).
    Set,
    /// Keys, their expected values, and new values: sets a value if the old one is as expected;
    /// answers as [`Probe`](Kind::Probe).
    Swap,
    /// Keys: the chunk of level 2 of each.
    Upper,
    /// Ranges, by first and last key, and how many are wanted (in the upper half 1 if from the last
    /// on): how many chunks of level 2, and for each its first key and where it is.
    UpperRange,
    /// Keys of the chunk: their chunks of level 0, by the shadows of level 2.
    Search,
    /// A word with a bit for each key whose whole path is wanted, and keys: as
    /// [`Search`](Kind::Search), and for a set bit the chunk of level 1 and its shadow.
    Path,
    /// Keys of the chunk: the data node of the greatest at or below each; if there is none 0, or
    /// [`LEFT`] and the first key of the chunk.
    Floor,
    /// Keys of the chunk: the data node of the least at or above each; if there is none 0 and the
    /// bound.
    Ceiling,
    /// Data nodes: key and value.
    Fetch,
    /// Chunks: first key, bound, how many entries, and key, address and, of level 2, shadow of
    /// each.
    Pull,
    /// Chunks of level 2 with keys: as [`Pull`](Kind::Pull); behind that the bound, how many, and
    /// key and address of each entry of the shadows of the entries that begin at the key or behind.
    PullDeep,
    /// The first and the last key (two items): how many entries of the chunk, and key and address
    /// of each.
    Range,
    /// Keys and values: where their data nodes are now, not yet in the table; 0 if there is no
    /// room.
    NewData,
    /// Levels, first keys and capacities: where the chunks are; 0 if there is no room.
    NewChunk,
    /// Chunks, and how many entries more they will have: 1, or 0 if there is no room.
    Reserve,
    /// How many keys more the upper part will have: 1, or 0 if there is no room.
    ReserveUpper,
    /// Entries of the chunk (with their count): in front of them the removed keys, the truncation
    /// and the bound.
    Change,
    /// Chunks and their first keys: they go.
    FreeChunk,
    /// Data nodes that are not in the table, and their keys: they go.
    FreeData,
    /// Data nodes: they are in the table from now on.
    Put,
    /// Keys: they go.
    Delete,
    /// Keys and chunks of level 2.
    UpperInsert,
    /// Keys of the upper part: they go.
    UpperRemove,
    /// Frees the spare nodes of the upper part (one item).
    Release,
    /// 1 if the following tasks may have been done before (one item).
    Again,
    /// 0: the bytes of data nodes, the table, the upper part and all together. Chunks of level 2:
    /// the bytes of their shadows.
    Measure,
}

/// All of them, by number.
const KINDS: [Kind; 27] = [
    Kind::Probe,
    Kind::Set,
    Kind::Swap,
    Kind::Upper,
    Kind::UpperRange,
    Kind::Search,
    Kind::Path,
    Kind::Floor,
    Kind::Ceiling,
    Kind::Fetch,
    Kind::Pull,
    Kind::PullDeep,
    Kind::Range,
    Kind::NewData,
    Kind::NewChunk,
    Kind::Reserve,
    Kind::ReserveUpper,
    Kind::Change,
    Kind::FreeChunk,
    Kind::FreeData,
    Kind::Put,
    Kind::Delete,
    Kind::UpperInsert,
    Kind::UpperRemove,
    Kind::Release,
    Kind::Again,
    Kind::Measure,
];

/// The answer instead of a data node if the nearest is in a chunk to the left.
pub(super) const LEFT: u64 = u64::MAX;
/// The answer instead of an address if a key is not in the chunk that was searched.
pub(super) const LOST: u64 = u64::MAX - 1;

/// Items of a task, at most.
pub(super) const COUNT_MAX: usize = (1 << 24) - 1;

/// The header of a [`Kind::Change`] besides its entries: the number of keys to remove, and these
/// bits.
pub(super) const TRUNCATES: u64 = 1 << 32;
pub(super) const BOUNDS: u64 = 1 << 33;
pub(super) const WIDE: u64 = 1 << 34;

impl Kind {
    pub const fn header(self, count: usize, at: u32) -> u64 {
        self as u64 | (count as u64) << 8 | (at as u64) << 32
    }

    /// The kind, the count and where.
    pub fn split(header: u64) -> Option<(Kind, usize, u32)> {
        let kind = KINDS.get(usize::from(header as u8))?;
        Some((*kind, (header as u32 >> 8) as usize, (header >> 32) as u32))
    }

    /// The words of an item; those of [`Kind::Change`] have a count of their own.
    pub const fn words(self) -> usize {
        match self {
            Kind::Set
            | Kind::NewData
            | Kind::PullDeep
            | Kind::Reserve
            | Kind::FreeChunk
            | Kind::FreeData
            | Kind::UpperInsert => 2,
            Kind::Swap | Kind::UpperRange | Kind::NewChunk => 3,
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
            assert_eq!(Kind::split(header), split);
        }
        assert_eq!(Kind::split(KINDS.len() as u64), None);
    }
}
