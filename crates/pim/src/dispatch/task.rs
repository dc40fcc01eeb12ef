//! The host's tasks for modules, and their results, encoded as words.
//!
//! ```text
//! task    | kind 8, list 24, tag 32 | key | further words of the kind      |
//! answer  | kind 8, 0, tag 32       | the words of the kind               |
//! ```
//!
//! The tag identifies the result for the host; a module returns it unchanged. The *list* is the
//! address of the partition's list, so that a module need not search for it; 0 if the host does not
//! know it. For a partition to build, it is the number of bits in which its keys may differ.

/// A task for a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleTask<'w> {
    /// A read of the value of a key.
    Get {
        /// The key.
        key: u64,
    },
    /// A write of the value of a key. The result is the old value.
    Insert {
        /// The key.
        key: u64,
        /// The new value.
        value: u64,
    },
    /// A write of the value of a key, or a removal of the key, if its value is the expected one.
    /// The result is the old value.
    Update {
        /// The key.
        key: u64,
        /// The expected value; `None` if the key must be absent.
        previous: Option<u64>,
        /// The new value; `None` to remove the key.
        value: Option<u64>,
    },
    /// Several updates of one key, one after the other. Each expects the value that the one before
    /// it sets. The result is the value before the first.
    Updates {
        /// The key.
        key: u64,
        /// The value that the first update expects, then the values that the updates set.
        values: &'w [u64],
    },
    /// A removal of a key. The result is its value.
    Remove {
        /// The key.
        key: u64,
    },
    /// A search for the greatest key at or below `key`, in a partition that begins at `start`.
    Floor {
        /// The start of the partition.
        start: u64,
        /// The key.
        key: u64,
    },
    /// A read of the entries of a partition from `from` up to `to`, both included.
    Scan {
        /// The start of the partition.
        start: u64,
        /// The least key.
        from: u64,
        /// The greatest key.
        to: u64,
        /// The greatest number of entries.
        limit: u64,
        /// True if entries are counted and listed from the greatest on.
        descends: bool,
    },
    /// The construction of a partition from keys and values, alternating, in ascending order.
    Build {
        /// The start of the partition.
        start: u64,
        /// Number of low bits in which its keys may differ.
        bits: u32,
        /// The entries of the partition.
        entries: &'w [u64],
    },
    /// The removal of a partition and all its entries.
    Free {
        /// The start of the partition.
        start: u64,
    },
    /// A change of the number of levels of a partition in the list of partitions.
    Height {
        /// The start of the partition.
        start: u64,
        /// Number of levels.
        height: u64,
    },
}

const KIND_BITS: u32 = 8;
const LIST_BITS: u32 = 24;

const GET: u32 = 1;
const INSERT: u32 = 2;
const UPDATE: u32 = 3;
const UPDATE_ABSENT: u32 = 4;
const REMOVE: u32 = 5;
const FLOOR: u32 = 6;
const ASCEND: u32 = 7;
const DESCEND: u32 = 8;
const BUILD: u32 = 9;
const FREE: u32 = 10;
const HEIGHT: u32 = 11;
const REMOVE_IF: u32 = 12;
const UPDATES: u32 = 13;

/// The header of tasks.
pub(crate) struct TaskHeader;

impl TaskHeader {
    /// Returns a header of a kind of task, a list, and a tag or a number of tasks.
    pub fn join(kind: u32, list: u32, rest: u32) -> u64 {
        debug_assert!(kind >> KIND_BITS == 0 && list >> LIST_BITS == 0);
        header(kind | list << KIND_BITS, rest)
    }

    /// Splits a header into its parts.
    pub fn split(header: u64) -> (u32, u32, u32) {
        let (first, rest) = split(header);
        (first & ((1 << KIND_BITS) - 1), first >> KIND_BITS, rest)
    }
}

impl<'w> ModuleTask<'w> {
    /// Appends the encoded task to the input of a module.
    pub fn encode(&self, list: u32, tag: u32, words: &mut Vec<u64>) {
        let (kind, list) = self.kind_and_list(list);
        words.push(TaskHeader::join(kind, list, tag));
        // The list 0 makes it write all words.
        self.put_without_header(0, words);
    }

    /// Returns the kind and list for the task's header.
    pub(crate) fn kind_and_list(&self, list: u32) -> (u32, u32) {
        // A list address that does not fit is left out, so that the module must search.
        let list = if list >> LIST_BITS == 0 { list } else { 0 };
        match *self {
            ModuleTask::Get { .. } => (GET, list),
            ModuleTask::Insert { .. } => (INSERT, list),
            ModuleTask::Update {
                previous, value, ..
            } => match (previous, value) {
                (Some(_), Some(_)) => (UPDATE, list),
                (None, Some(_)) => (UPDATE_ABSENT, list),
                (Some(_), None) => (REMOVE_IF, list),
                // An update from absent to absent is only a read.
                (None, None) => (GET, list),
            },
            ModuleTask::Updates { .. } => (UPDATES, list),
            ModuleTask::Remove { .. } => (REMOVE, list),
            ModuleTask::Floor { .. } => (FLOOR, list),
            ModuleTask::Scan { descends, .. } => (if descends { DESCEND } else { ASCEND }, list),
            ModuleTask::Build { bits, .. } => {
                debug_assert!(bits <= u64::BITS);
                (BUILD, bits)
            }
            ModuleTask::Free { .. } => (FREE, list),
            ModuleTask::Height { .. } => (HEIGHT, list),
        }
    }

    /// Appends the words after the header. If the list is known, the start of the partition is left
    /// out.
    pub(crate) fn put_without_header(&self, list: u32, words: &mut Vec<u64>) {
        let is_known = list != 0;
        match *self {
            ModuleTask::Get { key } | ModuleTask::Remove { key } => words.push(key),
            ModuleTask::Insert { key, value } => words.extend([key, value]),
            ModuleTask::Update {
                key,
                previous,
                value,
            } => words.extend([Some(key), previous, value].into_iter().flatten()),
            ModuleTask::Updates { key, values } => {
                words.extend([key, values.len() as u64]);
                words.extend_from_slice(values);
            }
            ModuleTask::Floor { key, .. } if is_known => words.push(key),
            ModuleTask::Floor { start, key } => words.extend([start, key]),
            ModuleTask::Scan {
                start,
                from,
                to,
                limit,
                ..
            } => {
                words.extend((!is_known).then_some(start));
                words.extend([from, to, limit]);
            }
            ModuleTask::Build { start, entries, .. } => {
                words.extend([start, entries.len() as u64]);
                words.extend_from_slice(entries);
            }
            ModuleTask::Free { start } => words.push(start),
            ModuleTask::Height { start, height } => words.extend([start, height]),
        }
    }

    /// Returns the value that a conditional task expects.
    pub(crate) fn expected(&self) -> Option<u64> {
        match *self {
            ModuleTask::Update { previous, .. } => previous,
            ModuleTask::Updates { values, .. } => values.first().copied(),
            _ => None,
        }
    }

    /// Returns the value of a key after several updates, each of which expects one of `values` and
    /// sets the next. The key has the value `before` initially.
    pub(crate) fn updated(before: Option<u64>, values: &[u64]) -> Option<u64> {
        let pairs = values.windows(2);
        // An update that finds another value leaves it, and the next one may still match.
        pairs.fold(before, |now, pair| match (now, pair) {
            (Some(now), &[previous, value]) if now == previous => Some(value),
            _ => now,
        })
    }

    /// Decodes the first task with its list and its tag, and removes it from `words`. Returns
    /// `None` if it is invalid.
    pub fn decode(words: &mut &'w [u64]) -> Option<(ModuleTask<'w>, u32, u32)> {
        let (&first, mut rest): (&u64, &'w [u64]) = words.split_first()?;
        let (kind, list, tag) = TaskHeader::split(first);
        // For a partition to build, this field is the number of bits of its keys.
        let task = match kind {
            BUILD => ModuleTask::without_header(kind, list, &mut rest)?,
            _ => ModuleTask::without_header(kind, 0, &mut rest)?,
        };
        *words = rest;
        let list = if kind == BUILD { 0 } else { list };
        Some((task, list, tag))
    }

    /// Decodes a task after its header.
    pub(crate) fn without_header(
        kind: u32,
        list: u32,
        words: &mut &'w [u64],
    ) -> Option<ModuleTask<'w>> {
        let is_known = list != 0;
        let (task, rest): (ModuleTask<'w>, &'w [u64]) = match (kind, *words) {
            (GET, &[key, ref rest @ ..]) => (ModuleTask::Get { key }, rest),
            (INSERT, &[key, value, ref rest @ ..]) => (ModuleTask::Insert { key, value }, rest),
            (UPDATE, &[key, previous, value, ref rest @ ..]) => {
                let task = ModuleTask::Update {
                    key,
                    previous: Some(previous),
                    value: Some(value),
                };
                (task, rest)
            }
            (UPDATE_ABSENT, &[key, value, ref rest @ ..]) => {
                let task = ModuleTask::Update {
                    key,
                    previous: None,
                    value: Some(value),
                };
                (task, rest)
            }
            (REMOVE_IF, &[key, previous, ref rest @ ..]) => {
                let task = ModuleTask::Update {
                    key,
                    previous: Some(previous),
                    value: None,
                };
                (task, rest)
            }
            (UPDATES, [key, length, rest @ ..]) => {
                let length = usize::try_from(*length).ok()?;
                let (values, rest) = rest.split_at_checked(length)?;
                (ModuleTask::Updates { key: *key, values }, rest)
            }
            (REMOVE, &[key, ref rest @ ..]) => (ModuleTask::Remove { key }, rest),
            (FLOOR, &[key, ref rest @ ..]) if is_known => {
                // The start only leads to the list, whose address is known, so any key stands in
                // for it.
                (ModuleTask::Floor { start: key, key }, rest)
            }
            (FLOOR, &[start, key, ref rest @ ..]) => (ModuleTask::Floor { start, key }, rest),
            (ASCEND | DESCEND, &[from, to, limit, ref rest @ ..]) if is_known => {
                let task = ModuleTask::Scan {
                    start: from,
                    from,
                    to,
                    limit,
                    descends: kind == DESCEND,
                };
                (task, rest)
            }
            (ASCEND | DESCEND, &[start, from, to, limit, ref rest @ ..]) => {
                let task = ModuleTask::Scan {
                    start,
                    from,
                    to,
                    limit,
                    descends: kind == DESCEND,
                };
                (task, rest)
            }
            (BUILD, [start, length, rest @ ..]) => {
                let length = usize::try_from(*length).ok()?;
                let (entries, rest) = rest.split_at_checked(length)?;
                let task = ModuleTask::Build {
                    start: *start,
                    bits: list,
                    entries,
                };
                (task, rest)
            }
            (FREE, &[start, ref rest @ ..]) => (ModuleTask::Free { start }, rest),
            (HEIGHT, &[start, height, ref rest @ ..]) => {
                (ModuleTask::Height { start, height }, rest)
            }
            _ => return None,
        };
        *words = rest;
        Some(task)
    }
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleTaskResult<'w> {
    /// No value.
    Nothing,
    /// A value.
    Value(u64),
    /// The value that the task expected, which is not sent back.
    Expected,
    /// Keys and values, alternating.
    Entries(&'w [u64]),
    /// The module had no room; nothing was done.
    Full,
}

const NOTHING: u32 = 1;
const VALUE: u32 = 2;
const ENTRIES: u32 = 3;
const FULL: u32 = 4;
const EXPECTED: u32 = 5;

impl<'w> ModuleTaskResult<'w> {
    /// Appends the encoded result to the output of a module.
    pub fn encode(&self, tag: u32, words: &mut Vec<u64>) {
        match *self {
            ModuleTaskResult::Nothing => words.push(header(NOTHING, tag)),
            ModuleTaskResult::Value(value) => words.extend([header(VALUE, tag), value]),
            ModuleTaskResult::Entries(entries) => {
                words.extend([header(ENTRIES, tag), entries.len() as u64]);
                words.extend_from_slice(entries);
            }
            ModuleTaskResult::Full => words.push(header(FULL, tag)),
            ModuleTaskResult::Expected => words.push(header(EXPECTED, tag)),
        }
    }

    /// Decodes the first result with its tag, and removes it from `words`. Returns `None` if it is
    /// invalid.
    pub fn decode(words: &mut &'w [u64]) -> Option<(ModuleTaskResult<'w>, u32)> {
        let (&first, rest) = words.split_first()?;
        let (kind, tag) = split(first);
        let (answer, rest) = match kind {
            NOTHING => (ModuleTaskResult::Nothing, rest),
            VALUE => {
                let (&value, rest) = rest.split_first()?;
                (ModuleTaskResult::Value(value), rest)
            }
            ENTRIES => {
                let (&length, rest) = rest.split_first()?;
                let length = usize::try_from(length).ok()?;
                let (entries, rest) = rest.split_at_checked(length)?;
                (ModuleTaskResult::Entries(entries), rest)
            }
            FULL => (ModuleTaskResult::Full, rest),
            EXPECTED => (ModuleTaskResult::Expected, rest),
            _ => return None,
        };
        *words = rest;
        Some((answer, tag))
    }
}

fn header(kind: u32, tag: u32) -> u64 {
    u64::from(kind) | u64::from(tag) << 32
}

fn split(header: u64) -> (u32, u32) {
    (header as u32, (header >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_they_were_written() {
        let scan = |descends| ModuleTask::Scan {
            start: 1,
            from: 2,
            to: u64::MAX,
            limit: u64::MAX,
            descends,
        };
        let update = |previous, value| ModuleTask::Update {
            key: 3,
            previous,
            value,
        };
        let tasks = [
            ModuleTask::Get { key: u64::MAX },
            ModuleTask::Insert { key: 0, value: 9 },
            update(Some(0), Some(4)),
            update(None, Some(4)),
            update(Some(0), None),
            ModuleTask::Updates {
                key: 3,
                values: &[1, 2, 3],
            },
            ModuleTask::Remove { key: 7 },
            ModuleTask::Floor { start: 5, key: 6 },
            scan(true),
            scan(false),
            ModuleTask::Build {
                start: 4,
                bits: 20,
                entries: &[1, 2, 3, 4],
            },
            ModuleTask::Free { start: 4 },
            ModuleTask::Height {
                start: 5,
                height: 20,
            },
        ];
        let mut words = Vec::new();
        for (tag, task) in tasks.iter().enumerate() {
            let list = if tag % 2 == 0 { (1 << 24) - 1 } else { 1 << 24 };
            task.encode(list, u32::MAX - tag as u32, &mut words);
        }
        let mut rest = &words[..];
        for (tag, task) in tasks.iter().enumerate() {
            // The list is not sent if it does not fit, or if the partition is still to build.
            let is_sent = tag % 2 == 0 && !matches!(task, ModuleTask::Build { .. });
            let list = if is_sent { (1 << 24) - 1 } else { 0 };
            let read = ModuleTask::decode(&mut rest);
            assert_eq!(read, Some((*task, list, u32::MAX - tag as u32)));
        }
        assert_eq!(ModuleTask::decode(&mut rest), None);
        // An update from absent to absent is only a read.
        let mut words = Vec::new();
        update(None, None).encode(0, 0, &mut words);
        let read = ModuleTask::decode(&mut &words[..]);
        assert_eq!(read, Some((ModuleTask::Get { key: 3 }, 0, 0)));
        // Truncated tasks, and empty input.
        for (task, length) in [(update(None, Some(4)), 3), (scan(true), 5), (tasks[0], 2)] {
            let mut words = Vec::new();
            task.encode(0, 0, &mut words);
            assert_eq!(words.len(), length);
            assert_eq!(ModuleTask::decode(&mut &words[..length - 1]), None);
        }
        assert_eq!(ModuleTask::decode(&mut &[99_u64, 1, 2, 3][..]), None);
    }

    #[test]
    fn updates_follow_each_other_from_the_first_that_applies() {
        let values = [1, 2, 3, 1, 5];
        for (before, after) in [(1, 5), (2, 5), (3, 5), (5, 5), (9, 9)] {
            assert_eq!(ModuleTask::updated(Some(before), &values), Some(after));
        }
        assert_eq!(ModuleTask::updated(None, &values), None);
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let entries = [1, 2, 3, 4];
        let answers = [
            ModuleTaskResult::Nothing,
            ModuleTaskResult::Value(u64::MAX),
            ModuleTaskResult::Entries(&entries),
            ModuleTaskResult::Entries(&[]),
            ModuleTaskResult::Full,
            ModuleTaskResult::Expected,
        ];
        let mut words = Vec::new();
        for answer in &answers {
            answer.encode(8, &mut words);
        }
        let mut rest = &words[..];
        for answer in &answers {
            assert_eq!(
                ModuleTaskResult::decode(&mut rest),
                Some((answer.clone(), 8))
            );
        }
        assert_eq!(ModuleTaskResult::decode(&mut rest), None);
        assert_eq!(
            ModuleTaskResult::decode(&mut &[u64::from(ENTRIES), 1][..]),
            None
        );
    }
}
