//! The host's tasks for modules with byte strings, and their results, encoded as words.
//!
//! ```text
//! task    | kind 8, 0 24, tag 32 | partition | further words of the kind |
//! answer  | kind 8, 0 24, tag 32 | the words of the kind                  |
//! block   | length of the key 32, of the value 32 | key | value |
//! ```
//!
//! Key and value of a block are padded to words with zeros. A block has the same form in a transfer
//! and in the bank of a module.

use super::cut::KeyBoundary;

/// A key with its value, as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StringEntryBlock<'w> {
    words: &'w [u64],
    key_bytes: usize,
    value_bytes: usize,
}

/// Returns the number of words of a block with key and value of these lengths in bytes.
pub(super) const fn block_words(key_bytes: usize, value_bytes: usize) -> usize {
    1 + key_bytes.div_ceil(8) + value_bytes.div_ceil(8)
}

/// Returns the lengths of key and value, from the first word of a block.
pub(super) const fn lengths(first: u64) -> (usize, usize) {
    (first as u32 as usize, (first >> 32) as usize)
}

/// Appends a block.
pub(super) fn put_block(key: &[u8], value: &[u8], words: &mut Vec<u64>) {
    debug_assert!(key.len().max(value.len()) <= u32::MAX as usize);
    words.push(key.len() as u64 | (value.len() as u64) << 32);
    for bytes in [key, value] {
        let start = words.len();
        words.resize(start + bytes.len().div_ceil(8), 0);
        let room: &mut [u8] = bytemuck::cast_slice_mut(&mut words[start..]);
        room[..bytes.len()].copy_from_slice(bytes);
    }
}

impl<'w> StringEntryBlock<'w> {
    /// Removes the first block from `words` and returns it; `None` if there is none.
    pub fn take(words: &mut &'w [u64]) -> Option<StringEntryBlock<'w>> {
        let (key_bytes, value_bytes) = lengths(*words.first()?);
        let (own, rest) = words.split_at_checked(block_words(key_bytes, value_bytes))?;
        *words = rest;
        Some(StringEntryBlock::whole(own))
    }

    /// Interprets words as a block.
    pub fn whole(words: &'w [u64]) -> StringEntryBlock<'w> {
        let (key_bytes, value_bytes) = lengths(words[0]);
        debug_assert_eq!(words.len(), block_words(key_bytes, value_bytes));
        StringEntryBlock {
            words,
            key_bytes,
            value_bytes,
        }
    }

    /// Returns all words.
    pub fn words(self) -> &'w [u64] {
        self.words
    }

    /// Returns the key.
    pub fn key(self) -> &'w [u8] {
        &bytemuck::cast_slice(&self.words[1..])[..self.key_bytes]
    }

    /// Returns the value.
    pub fn value(self) -> &'w [u8] {
        let start = 1 + self.key_bytes.div_ceil(8);
        &bytemuck::cast_slice(&self.words[start..])[..self.value_bytes]
    }
}

/// Blocks, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StringEntryBlocks<'w>(pub &'w [u64]);

impl<'w> Iterator for StringEntryBlocks<'w> {
    type Item = StringEntryBlock<'w>;

    fn next(&mut self) -> Option<StringEntryBlock<'w>> {
        StringEntryBlock::take(&mut self.0)
    }
}

/// A task on a partition in a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringTask<'w> {
    /// A read of the value of a key.
    Get { key: &'w [u8] },
    /// A write of the value of a key. The result is the old value.
    Insert { entry: StringEntryBlock<'w> },
    /// A write of the value of a key if its value is the expected one; `None` stands for an absent
    /// key. The result is the old value.
    Update {
        entry: StringEntryBlock<'w>,
        previous: Option<&'w [u8]>,
    },
    /// A removal of a key, only if it has the expected value, if one is given. The result is the
    /// old value.
    Remove {
        key: &'w [u8],
        expected: Option<&'w [u8]>,
    },
    /// A read of up to `limit` entries between two cuts, from the greatest on if it descends.
    Scan {
        low: KeyBoundary<'w>,
        high: KeyBoundary<'w>,
        limit: u64,
        descends: bool,
    },
    /// The construction of the partition from entries in ascending order. All its possible keys
    /// begin with the same `skip` bytes.
    Build {
        skip: u32,
        entries: StringEntryBlocks<'w>,
    },
    /// The removal of the partition and all its entries.
    Free,
}

const GET: u8 = 1;
const INSERT: u8 = 2;
const UPDATE: u8 = 3;
const UPDATE_ABSENT: u8 = 4;
const REMOVE: u8 = 5;
const ASCEND: u8 = 6;
const DESCEND: u8 = 7;
const BUILD: u8 = 8;
const FREE: u8 = 9;
const REMOVE_IF: u8 = 10;

/// Appends the insertion of a key and a value.
pub(super) fn put_insert(partition: u64, tag: u32, key: &[u8], value: &[u8], words: &mut Vec<u64>) {
    words.extend([header(INSERT, tag), partition]);
    put_block(key, value, words);
}

/// Appends an update.
pub(super) fn put_update(
    partition: u64,
    tag: u32,
    key: &[u8],
    previous: Option<&[u8]>,
    value: &[u8],
    words: &mut Vec<u64>,
) {
    let kind = previous.map_or(UPDATE_ABSENT, |_| UPDATE);
    words.extend([header(kind, tag), partition]);
    put_block(key, value, words);
    // The expected value is a block without a key, so that its length comes with it.
    if let Some(previous) = previous {
        put_block(&[], previous, words);
    }
}

/// Appends a read of a key, or its removal.
pub(super) fn put_key(partition: u64, tag: u32, key: &[u8], removes: bool, words: &mut Vec<u64>) {
    let kind = if removes { REMOVE } else { GET };
    words.extend([header(kind, tag), partition]);
    put_block(key, &[], words);
}

/// Appends the removal of a key that is conditional on its value.
pub(super) fn put_remove_if(
    partition: u64,
    tag: u32,
    key: &[u8],
    expected: &[u8],
    words: &mut Vec<u64>,
) {
    words.extend([header(REMOVE_IF, tag), partition]);
    put_block(key, expected, words);
}

/// Appends a scan.
pub(super) fn put_scan(
    partition: u64,
    tag: u32,
    (low, high): (KeyBoundary<'_>, KeyBoundary<'_>),
    limit: u64,
    descends: bool,
    words: &mut Vec<u64>,
) {
    let kind = if descends { DESCEND } else { ASCEND };
    words.extend([header(kind, tag), partition, limit]);
    for cut in [low, high] {
        let (kind, key) = cut.split();
        words.push(kind);
        put_block(key, &[], words);
    }
}

/// Appends the construction of a partition.
pub(super) fn put_build(partition: u64, tag: u32, skip: u32, blocks: &[u64], words: &mut Vec<u64>) {
    let length = blocks.len() as u64;
    words.extend([header(BUILD, tag), partition, skip.into(), length]);
    words.extend_from_slice(blocks);
}

/// Appends the removal of a partition.
pub(super) fn put_free(partition: u64, tag: u32, words: &mut Vec<u64>) {
    words.extend([header(FREE, tag), partition]);
}

impl<'w> StringTask<'w> {
    /// Decodes the first task with its partition and its tag, and removes it from `words`. Returns
    /// `None` if it is invalid.
    pub fn decode(words: &mut &'w [u64]) -> Option<(StringTask<'w>, u64, u32)> {
        let mut rest: &'w [u64] = words;
        let (kind, tag) = split(take(&mut rest)?);
        let partition = take(&mut rest)?;
        let mut block = || StringEntryBlock::take(&mut rest);
        let task = match kind {
            GET => StringTask::Get {
                key: block()?.key(),
            },
            REMOVE | REMOVE_IF => {
                let block = block()?;
                StringTask::Remove {
                    key: block.key(),
                    expected: (kind == REMOVE_IF).then(|| block.value()),
                }
            }
            INSERT => StringTask::Insert { entry: block()? },
            UPDATE | UPDATE_ABSENT => {
                let entry = block()?;
                let previous = match kind {
                    UPDATE => Some(block()?.value()),
                    _ => None,
                };
                StringTask::Update { entry, previous }
            }
            ASCEND | DESCEND => {
                let limit = take(&mut rest)?;
                let mut cut =
                    || KeyBoundary::of(take(&mut rest)?, StringEntryBlock::take(&mut rest)?.key());
                let (low, high) = (cut()?, cut()?);
                StringTask::Scan {
                    low,
                    high,
                    limit,
                    descends: kind == DESCEND,
                }
            }
            BUILD => {
                let skip = take(&mut rest)? as u32;
                let length = usize::try_from(take(&mut rest)?).ok()?;
                let entries;
                (entries, rest) = rest.split_at_checked(length)?;
                let entries = StringEntryBlocks(entries);
                StringTask::Build { skip, entries }
            }
            FREE => StringTask::Free,
            _ => return None,
        };
        *words = rest;
        Some((task, partition, tag))
    }
}

/// The result of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringTaskResult<'w> {
    /// No entry, or a task without a result that is done.
    Nothing,
    /// A value.
    Value(&'w [u8]),
    /// A list of entries.
    Entries(StringEntryBlocks<'w>),
    /// The module had no room; nothing was done.
    Full,
}

const NOTHING: u8 = 1;
const VALUE: u8 = 2;
const ENTRIES: u8 = 3;
const FULL: u8 = 4;

/// Appends an empty result.
pub(super) fn answer_nothing(tag: u32, words: &mut Vec<u64>) {
    words.push(header(NOTHING, tag));
}

/// Appends the result that there is no room.
pub(super) fn answer_full(tag: u32, words: &mut Vec<u64>) {
    words.push(header(FULL, tag));
}

/// Appends a value as the result.
pub(super) fn answer_value(tag: u32, value: &[u8], words: &mut Vec<u64>) {
    words.push(header(VALUE, tag));
    put_block(&[], value, words);
}

/// Appends entries as the result; `put` appends their blocks.
pub(super) fn answer_entries(tag: u32, words: &mut Vec<u64>, put: impl FnOnce(&mut Vec<u64>)) {
    words.extend([header(ENTRIES, tag), 0]);
    let start = words.len();
    put(words);
    // The length is known only once the blocks are written.
    words[start - 1] = (words.len() - start) as u64;
}

impl<'w> StringTaskResult<'w> {
    /// Decodes the first result with its tag, and removes it from `words`. Returns `None` if it is
    /// invalid.
    pub fn decode(words: &mut &'w [u64]) -> Option<(StringTaskResult<'w>, u32)> {
        let mut rest: &'w [u64] = words;
        let (kind, tag) = split(take(&mut rest)?);
        let answer = match kind {
            NOTHING => StringTaskResult::Nothing,
            VALUE => StringTaskResult::Value(StringEntryBlock::take(&mut rest)?.value()),
            ENTRIES => {
                let length = usize::try_from(take(&mut rest)?).ok()?;
                let entries;
                (entries, rest) = rest.split_at_checked(length)?;
                StringTaskResult::Entries(StringEntryBlocks(entries))
            }
            FULL => StringTaskResult::Full,
            _ => return None,
        };
        *words = rest;
        Some((answer, tag))
    }
}

fn take(words: &mut &[u64]) -> Option<u64> {
    let (&first, rest) = words.split_first()?;
    *words = rest;
    Some(first)
}

fn header(kind: u8, tag: u32) -> u64 {
    u64::from(kind) | u64::from(tag) << 32
}

fn split(header: u64) -> (u8, u32) {
    (header as u8, (header >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings of length zero, of a word, shorter and longer.
    const STRINGS: [&[u8]; 5] = [b"", b"a", b"12345678", b"123456789", &[0; 300]];

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let mut words = Vec::new();
        for key in STRINGS {
            for value in STRINGS {
                let before = words.len();
                put_block(key, value, &mut words);
                assert_eq!(words.len() - before, block_words(key.len(), value.len()));
            }
        }
        let read: Vec<_> = StringEntryBlocks(&words).collect();
        let pairs = STRINGS.map(|key| STRINGS.map(|value| (key, value)));
        let read = read.iter().map(|block| (block.key(), block.value()));
        assert!(read.eq(pairs.into_iter().flatten()));
        assert_eq!(StringEntryBlock::take(&mut &words[..0]), None);
        assert_eq!(StringEntryBlock::take(&mut &[9_u64, 0][..]), None);
    }

    #[test]
    fn tasks_are_read_as_they_were_written() {
        let mut words = Vec::new();
        let mut blocks = Vec::new();
        for key in STRINGS {
            put_block(key, b"of the list", &mut blocks);
        }
        for key in STRINGS {
            put_key(7, 1, key, false, &mut words);
            put_key(7, 2, key, true, &mut words);
            put_remove_if(7, 6, key, b"old", &mut words);
            put_insert(u64::MAX, 3, key, b"value", &mut words);
            for previous in [None, Some(&b""[..]), Some(key)] {
                put_update(8, 4, key, previous, b"", &mut words);
            }
            let cuts = (KeyBoundary::Before(key), KeyBoundary::After(key));
            put_scan(9, 5, cuts, u64::MAX, true, &mut words);
            put_scan(
                9,
                5,
                (KeyBoundary::Begin, KeyBoundary::End),
                3,
                false,
                &mut words,
            );
            put_build(1, u32::MAX, 4, &blocks, &mut words);
            put_free(1, 0, &mut words);
        }
        let mut rest = &words[..];
        let mut next = || StringTask::decode(&mut rest).expect("a task");
        for key in STRINGS {
            assert_eq!(next(), (StringTask::Get { key }, 7, 1));
            let remove = |expected| StringTask::Remove { key, expected };
            assert_eq!(next(), (remove(None), 7, 2));
            assert_eq!(next(), (remove(Some(&b"old"[..])), 7, 6));
            let (StringTask::Insert { entry }, u64::MAX, 3) = next() else {
                panic!("no insert");
            };
            assert_eq!((entry.key(), entry.value()), (key, &b"value"[..]));
            for expected in [None, Some(&b""[..]), Some(key)] {
                let (StringTask::Update { entry, previous }, 8, 4) = next() else {
                    panic!("no update");
                };
                assert_eq!((entry.key(), previous), (key, expected));
            }
            let scan = |low, high, limit, descends| StringTask::Scan {
                low,
                high,
                limit,
                descends,
            };
            let within = scan(
                KeyBoundary::Before(key),
                KeyBoundary::After(key),
                u64::MAX,
                true,
            );
            assert_eq!(next(), (within, 9, 5));
            assert_eq!(
                next(),
                (scan(KeyBoundary::Begin, KeyBoundary::End, 3, false), 9, 5)
            );
            let entries = StringEntryBlocks(&blocks);
            assert_eq!(
                next(),
                (StringTask::Build { skip: 4, entries }, 1, u32::MAX)
            );
            assert_eq!(next(), (StringTask::Free, 1, 0));
        }
        assert_eq!(StringTask::decode(&mut rest), None);
        assert_eq!(StringTask::decode(&mut &[99_u64, 1, 0][..]), None);
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let mut words = Vec::new();
        for value in STRINGS {
            answer_value(1, value, &mut words);
            answer_entries(2, &mut words, |words| put_block(value, value, words));
            answer_entries(3, &mut words, |_| {});
            answer_nothing(4, &mut words);
            answer_full(5, &mut words);
        }
        let mut rest = &words[..];
        let mut next = || StringTaskResult::decode(&mut rest).expect("a reply");
        for value in STRINGS {
            assert_eq!(next(), (StringTaskResult::Value(value), 1));
            let (StringTaskResult::Entries(mut entries), 2) = next() else {
                panic!("no entries");
            };
            assert_eq!(entries.next().map(StringEntryBlock::key), Some(value));
            assert_eq!(entries.next(), None);
            assert_eq!(
                next(),
                (StringTaskResult::Entries(StringEntryBlocks(&[])), 3)
            );
            assert_eq!(next(), (StringTaskResult::Nothing, 4));
            assert_eq!(next(), (StringTaskResult::Full, 5));
        }
        assert_eq!(StringTaskResult::decode(&mut rest), None);
    }
}
