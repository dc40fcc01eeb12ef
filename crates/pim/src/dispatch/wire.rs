//! The encoding of tasks for the transfer to modules, and of results for the transfer back.
//!
//! With [`TaggedEncoding`], each has its own header, as in [`task`](crate::dispatch::task). With
//! `RunEncoding`, tasks of one kind for one list share a header. Results have no header: they are
//! in the order of their tasks, and their kinds follow them. A value that the task expected is not
//! sent.
//!
//! ```text
//! tasks    | kind 8, list 24, count 32 | words of each task ... | another run, ...
//! results  | words of each result ... | kinds of the results, 4 bits each, 16 to a word |
//! ```

use crate::device::ModuleError;
use crate::dispatch::task::{ModuleTask, ModuleTaskResult, TaskHeader};

/// An encoding, by which a module reads tasks and writes results.
pub trait Wire {
    /// Returns the next task with its list and its tag; `None` if it is invalid.
    fn next<'w>(&mut self, words: &mut &'w [u64]) -> Option<(ModuleTask<'w>, u32, u32)>;

    /// Appends the result of a task with a tag. Results are written in the order in which tasks
    /// were read.
    fn answer(
        &mut self,
        task: &ModuleTask<'_>,
        answer: &ModuleTaskResult<'_>,
        tag: u32,
        output: &mut Vec<u64>,
    );

    /// Appends the words that follow all results.
    fn end(self, output: &mut Vec<u64>);
}

/// The encoding in which each task and each result has its own header.
#[derive(Debug, Default)]
pub struct TaggedEncoding;

impl Wire for TaggedEncoding {
    fn next<'w>(&mut self, words: &mut &'w [u64]) -> Option<(ModuleTask<'w>, u32, u32)> {
        ModuleTask::decode(words)
    }

    fn answer(
        &mut self,
        _: &ModuleTask<'_>,
        answer: &ModuleTaskResult<'_>,
        tag: u32,
        output: &mut Vec<u64>,
    ) {
        answer.encode(tag, output);
    }

    fn end(self, _: &mut Vec<u64>) {}
}

/// The encoding of tasks in runs.
#[derive(Debug, Default)]
pub(crate) struct RunEncoding {
    /// Kind of the run that is being read.
    kind: u32,
    list: u32,
    /// Number of tasks of the run that are still to be read.
    left: u32,
    /// Number of results so far, and their kinds.
    answers: u32,
    statuses: Vec<u64>,
}

const STATUS_BITS: usize = 4;
const STATUSES_PER_WORD: usize = u64::BITS as usize / STATUS_BITS;

const NOTHING: u64 = 1;
const VALUE: u64 = 2;
/// Kind of one key and its value.
const ENTRY: u64 = 3;
/// Kind of any number of entries, after the number of their words.
const ENTRIES: u64 = 4;
const FULL: u64 = 5;
/// Kind of the value that the task expected.
const EXPECTED: u64 = 6;

/// The greatest number of tasks of a run.
const RUN_MAX: usize = u32::MAX as usize;

impl Wire for RunEncoding {
    fn next<'w>(&mut self, words: &mut &'w [u64]) -> Option<(ModuleTask<'w>, u32, u32)> {
        if self.left == 0 {
            let (&header, rest) = words.split_first()?;
            let (kind, list, count) = TaskHeader::split(header);
            (self.kind, self.list, self.left) = (kind, list, count);
            *words = rest;
        }
        // A run of no tasks is invalid. Reading on would take its header for a task.
        self.left = self.left.checked_sub(1)?;
        let task = ModuleTask::without_header(self.kind, self.list, words)?;
        // The field holds the number of bits there, which is not an address.
        let list = match task {
            ModuleTask::Build { .. } => 0,
            _ => self.list,
        };
        Some((task, list, self.answers))
    }

    fn answer(
        &mut self,
        task: &ModuleTask<'_>,
        answer: &ModuleTaskResult<'_>,
        _: u32,
        output: &mut Vec<u64>,
    ) {
        let status = match *answer {
            ModuleTaskResult::Nothing => NOTHING,
            ModuleTaskResult::Expected => EXPECTED,
            // The host has the expected value, and most conditional updates of a batch find it.
            ModuleTaskResult::Value(value) if task.expected() == Some(value) => EXPECTED,
            ModuleTaskResult::Value(value) => {
                output.push(value);
                VALUE
            }
            ModuleTaskResult::Entries(&[key, value]) => {
                output.extend([key, value]);
                ENTRY
            }
            ModuleTaskResult::Entries(entries) => {
                output.push(entries.len() as u64);
                output.extend_from_slice(entries);
                ENTRIES
            }
            ModuleTaskResult::Full => FULL,
        };
        let place = self.answers as usize % STATUSES_PER_WORD;
        if place == 0 {
            self.statuses.push(0);
        }
        if let Some(word) = self.statuses.last_mut() {
            *word |= status << (place * STATUS_BITS);
        }
        self.answers += 1;
    }

    fn end(self, output: &mut Vec<u64>) {
        output.extend(self.statuses);
    }
}

/// Packs the tasks for a module, each with its own header, into runs.
///
/// Tasks for one list are put next to each other, which is possible because tasks of different
/// lists do not depend on each other. Tasks that build or remove lists keep their place among the
/// others. Returns the words, and the tags of the tasks in their new order.
pub(crate) fn pack(words: &[u64]) -> (Vec<u64>, Vec<u32>) {
    // A waiting task is a word of its list, 24 bits, and the offset at which the task begins.
    const LIST_AT: u32 = 40;
    let mut packed = Vec::with_capacity(words.len());
    let mut tags = Vec::new();
    let mut run = OpenTaskRun::default();
    let mut flush = |waiting: &mut Vec<u64>, packed: &mut Vec<u64>| {
        // The offset is in the low bits, so tasks of one list keep their order.
        waiting.sort_unstable();
        for at in waiting.drain(..) {
            let at = at & ((1 << LIST_AT) - 1);
            if let Some((task, list, tag)) = ModuleTask::decode(&mut &words[at as usize..]) {
                tags.push(tag);
                run.add(&task, list, packed);
            }
        }
    };
    let mut waiting = Vec::new();
    let mut rest = words;
    loop {
        let at = (words.len() - rest.len()) as u64;
        let Some((task, list, _)) = ModuleTask::decode(&mut rest) else {
            break;
        };
        let is_of_lists = matches!(
            task,
            ModuleTask::Build { .. } | ModuleTask::Free { .. } | ModuleTask::Height { .. }
        );
        if is_of_lists {
            flush(&mut waiting, &mut packed);
        }
        debug_assert!(at >> LIST_AT == 0 && list >> (u64::BITS - LIST_AT) == 0);
        waiting.push(u64::from(list) << LIST_AT | at);
        if is_of_lists {
            flush(&mut waiting, &mut packed);
        }
    }
    debug_assert!(rest.is_empty(), "the host has written whole tasks");
    flush(&mut waiting, &mut packed);
    (packed, tags)
}

/// The run that was written last.
#[derive(Default)]
struct OpenTaskRun {
    /// Kind and list of the run; `None` before the first.
    of: Option<(u32, u32)>,
    /// Position of its header, and its number of tasks.
    header: usize,
    count: usize,
}

impl OpenTaskRun {
    fn add(&mut self, task: &ModuleTask<'_>, list: u32, words: &mut Vec<u64>) {
        let (kind, list) = task.kind_and_list(list);
        if self.of != Some((kind, list)) || self.count == RUN_MAX {
            self.of = Some((kind, list));
            (self.header, self.count) = (words.len(), 0);
            words.push(0);
        }
        self.count += 1;
        // The header is rewritten with each task, since the run's length is unknown when it begins.
        words[self.header] = TaskHeader::join(kind, list, self.count as u32);
        task.put_without_header(list, words);
    }
}

/// A module's reply, or its error.
pub type Replied = Result<ModuleReply, ModuleError>;

/// The reply of a module: the words of its results, and their tags.
#[derive(Clone, Debug)]
pub struct ModuleReply {
    words: Vec<u64>,
    /// The tags in order, if results come without tags.
    tags: Option<Vec<u32>>,
}

impl ModuleReply {
    /// Creates a reply whose results have tags.
    pub fn tagged(words: Vec<u64>) -> ModuleReply {
        ModuleReply { words, tags: None }
    }

    /// Creates a reply whose results are in the order of tasks with these tags.
    pub fn of_runs(words: Vec<u64>, tags: Vec<u32>) -> ModuleReply {
        let tags = Some(tags);
        ModuleReply { words, tags }
    }

    /// Passes each result with its tag to `each`. A truncated result is skipped.
    pub fn each<'w>(&'w self, mut each: impl FnMut(ModuleTaskResult<'w>, u32)) {
        let mut words = &self.words[..];
        let Some(tags) = &self.tags else {
            while let Some((answer, tag)) = ModuleTaskResult::decode(&mut words) {
                each(answer, tag);
            }
            return;
        };
        let behind = words
            .len()
            .saturating_sub(tags.len().div_ceil(STATUSES_PER_WORD));
        let (mut words, statuses) = words.split_at(behind);
        for (tags, &(mut word)) in tags.chunks(STATUSES_PER_WORD).zip(statuses) {
            for &tag in tags {
                let status = word & ((1 << STATUS_BITS) - 1);
                word >>= STATUS_BITS;
                // The rest of a truncated reply cannot be told apart, so it is dropped.
                let Some(answer) = answer(status, &mut words) else {
                    return;
                };
                each(answer, tag);
            }
        }
    }
}

fn answer<'w>(status: u64, words: &mut &'w [u64]) -> Option<ModuleTaskResult<'w>> {
    let mut take = |count: usize| {
        let (own, rest) = words.split_at_checked(count)?;
        *words = rest;
        Some(own)
    };
    Some(match status {
        NOTHING => ModuleTaskResult::Nothing,
        FULL => ModuleTaskResult::Full,
        EXPECTED => ModuleTaskResult::Expected,
        VALUE => ModuleTaskResult::Value(take(1)?[0]),
        ENTRY => ModuleTaskResult::Entries(take(2)?),
        ENTRIES => {
            let length = usize::try_from(take(1)?[0]).ok()?;
            ModuleTaskResult::Entries(take(length)?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(tasks: &[(ModuleTask<'_>, u32)]) -> Vec<u64> {
        let mut words = Vec::new();
        for (tag, (task, list)) in tasks.iter().enumerate() {
            task.encode(*list, tag as u32, &mut words);
        }
        words
    }

    fn read(words: &[u64]) -> Vec<(ModuleTask<'_>, u32)> {
        let (mut wire, mut rest, mut tasks) = (RunEncoding::default(), words, Vec::new());
        while let Some((task, list, _)) = wire.next(&mut rest) {
            tasks.push((task, list));
        }
        assert!(rest.is_empty(), "{rest:?}");
        tasks
    }

    #[test]
    fn tasks_for_one_list_are_a_run() {
        let get = |key| ModuleTask::Get { key };
        let insert = |key| ModuleTask::Insert { key, value: 2 };
        let tasks = [
            (get(1), 70),
            (get(9), 80),
            (insert(2), 70),
            (get(3), 70),
            (get(8), 80),
        ];
        let tasks = words(&tasks);
        let (packed, tags) = pack(&tasks);
        assert_eq!(tags, [0, 2, 3, 1, 4]);
        let order = [
            (get(1), 70),
            (insert(2), 70),
            (get(3), 70),
            (get(9), 80),
            (get(8), 80),
        ];
        assert_eq!(read(&packed), order);
        // Four headers, four keys and an entry.
        assert_eq!(packed.len(), 4 + 4 + 2);
    }

    #[test]
    fn all_kinds_are_read_as_they_were_written() {
        let scan = |start| ModuleTask::Scan {
            start,
            from: 5,
            to: 6,
            limit: 7,
            descends: true,
        };
        let update = |previous, value| ModuleTask::Update {
            key: 3,
            previous,
            value,
        };
        let build = ModuleTask::Build {
            start: 1,
            bits: 12,
            entries: &[1, 2, 3, 4],
        };
        let height = ModuleTask::Height {
            start: 5,
            height: 3,
        };
        let floor = |start| ModuleTask::Floor { start, key: 6 };
        let free = ModuleTask::Free { start: 4 };
        // If a list is known, the start of its partition is not sent.
        let tasks = [
            (free, 0),
            (free, 0),
            (build, 0),
            (height, 0),
            (scan(2), 0),
            (floor(2), 0),
            (update(None, Some(4)), 9),
            (update(Some(1), Some(4)), 9),
            (update(Some(1), None), 9),
            (ModuleTask::Remove { key: 1 }, 9),
            (floor(6), 9),
            (scan(5), 9),
        ];
        let tagged = words(&tasks);
        let (packed, tags) = pack(&tagged);
        assert_eq!(tags, (0..12).collect::<Vec<_>>());
        assert_eq!(read(&packed), tasks);
        // A truncated run is invalid.
        let mut wire = RunEncoding::default();
        let mut rest = &packed[..packed.len() - 1];
        let whole = std::iter::from_fn(|| wire.next(&mut rest)).count();
        assert_eq!(whole, tasks.len() - 1);
        assert_eq!(
            RunEncoding::default().next(&mut &[TaskHeader::join(99, 0, 1), 1][..]),
            None
        );
        assert_eq!(
            RunEncoding::default().next(&mut &[TaskHeader::join(1, 0, 0), 1][..]),
            None
        );
    }

    #[test]
    fn an_expected_value_is_not_said() {
        use ModuleTaskResult::{Expected, Nothing, Value};
        let (mut wire, mut output) = (RunEncoding::default(), Vec::new());
        let update = |previous, value| ModuleTask::Update {
            key: 3,
            previous,
            value,
        };
        let told = [
            (update(Some(7), Some(8)), Value(7), Expected),
            (update(Some(7), None), Value(7), Expected),
            (update(Some(7), Some(8)), Value(9), Value(9)),
            (update(Some(7), Some(8)), Nothing, Nothing),
            (update(None, Some(8)), Nothing, Nothing),
            (ModuleTask::Get { key: 7 }, Value(7), Value(7)),
        ];
        for (task, answer, _) in &told {
            wire.answer(task, answer, 0, &mut output);
        }
        wire.end(&mut output);
        // The output is two values and the kinds of all results.
        assert_eq!(output.len(), 3);
        let mut expected = told.iter();
        ModuleReply::of_runs(output, (0..6).collect()).each(|answer, _| {
            let (.., found) = expected.next().expect("at most one reply per task");
            assert_eq!(&answer, found);
        });
        assert_eq!(expected.next(), None);
    }

    #[test]
    fn answers_find_whose_they_are() {
        let answers = [
            ModuleTaskResult::Nothing,
            ModuleTaskResult::Value(u64::MAX),
            ModuleTaskResult::Entries(&[1, 2]),
            ModuleTaskResult::Entries(&[]),
            ModuleTaskResult::Full,
            ModuleTaskResult::Entries(&[1, 2, 3, 4]),
        ];
        let (mut wire, mut output, mut tagged) = (RunEncoding::default(), Vec::new(), Vec::new());
        let tags: Vec<u32> = (0..40).map(|number| 1000 - number).collect();
        let task = ModuleTask::Get { key: 1 };
        for (number, &tag) in tags.iter().enumerate() {
            let answer = &answers[number % answers.len()];
            wire.answer(&task, answer, 0, &mut output);
            answer.encode(tag, &mut tagged);
        }
        wire.end(&mut output);
        let read = |reply: &ModuleReply| {
            let mut words = Vec::new();
            reply.each(|answer, tag| answer.encode(tag, &mut words));
            words
        };
        assert_eq!(read(&ModuleReply::tagged(tagged.clone())), tagged);
        assert_eq!(
            read(&ModuleReply::of_runs(output.clone(), tags.clone())),
            tagged
        );
        // A result without a task, and a truncated one.
        assert!(read(&ModuleReply::of_runs(vec![], vec![])).is_empty());
        assert!(read(&ModuleReply::of_runs(vec![], tags.clone())).is_empty());
        assert!(read(&ModuleReply::of_runs(output[5..].to_vec(), tags)).len() < tagged.len());
    }
}
