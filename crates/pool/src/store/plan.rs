//! Which operations of a batch may be under way at the same time.

use super::form::StoreForm;
use nearfield_core::{Input, Operation};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// Behind the last operation of a key.
const NONE: u32 = u32::MAX;

/// What is done on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub kind: Kind,
    /// The position of its first operation; [`Plan::operations`] has all.
    first: u32,
    last: u32,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Gets of one key.
    Read,
    /// Operations on one key, some of which change it.
    Change,
    /// A scan, predecessor or successor.
    Ordered,
}

impl Task {
    pub fn first(&self) -> usize {
        self.first as usize
    }
}

/// Tasks of some consecutive operations.
#[derive(Debug)]
pub(super) struct Plan {
    tasks: Vec<Task>,
    /// So many of them only read a key; these come first.
    reads: usize,
    /// By position: the next operation on the same key.
    next: Vec<u32>,
    /// The tasks of keys and one, by hash: an open table.
    table: Vec<u32>,
}

/// Consecutive operations of which none has to wait for another, but for those on one key: what
/// writes, and what reads ranges, are not both among them.
pub(super) fn phases<'o, F: StoreForm>(
    operations: &'o [Operation<F>],
) -> impl Iterator<Item = Range<usize>> + 'o {
    let mut end = 0;
    std::iter::from_fn(move || {
        let start = end;
        let (mut writes, mut ordered) = (false, false);
        for operation in &operations[start..] {
            writes |= operation.is_write();
            ordered |= operation.is_ordered();
            if writes && ordered {
                break;
            }
            end += 1;
        }
        (start < end).then_some(start..end)
    })
}

impl Plan {
    /// Nothing yet, of a batch of so many operations.
    pub fn new(operations: usize) -> Plan {
        Plan {
            tasks: Vec::new(),
            reads: 0,
            next: vec![NONE; operations],
            table: Vec::new(),
        }
    }

    /// Plans a phase, which must not have been planned before: one task for each key, and one for each range. Operations that `refuse` answers
    /// true for are left out.
    pub fn fill<F: StoreForm>(
        &mut self,
        input: &Input<'_, F>,
        phase: Range<usize>,
        mut refuse: impl FnMut(usize, F::Key<'_>) -> bool,
    ) {
        self.tasks.clear();
        self.table.clear();
        if phase.len() > 1 {
            self.table.resize(2 * phase.len().next_power_of_two(), 0);
        }
        for position in phase {
            let operation = &input.operations()[position];
            let Some(stored) = operation.point_key() else {
                if operation.is_ordered() {
                    self.push(Kind::Ordered, position);
                }
                continue;
            };
            let key = input.key(stored);
            if !refuse(position, key) {
                self.add(input, key, position);
            }
        }
        self.tasks.sort_by_key(|task| task.kind != Kind::Read);
        self.reads = self.tasks.partition_point(|task| task.kind == Kind::Read);
    }

    fn push(&mut self, kind: Kind, position: usize) {
        let (first, last) = (position as u32, position as u32);
        self.tasks.push(Task { kind, first, last });
    }

    /// Adds an operation to the task of its key.
    fn add<'b, F: StoreForm>(&mut self, input: &Input<'b, F>, key: F::Key<'b>, position: usize) {
        let kind = match input.operations()[position].is_write() {
            true => Kind::Change,
            false => Kind::Read,
        };
        if self.table.is_empty() {
            return self.push(kind, position);
        }
        let mask = self.table.len() - 1;
        let mut place = xxh3_64(F::key_bytes(key).as_ref()) as usize & mask;
        while let Some(number) = self.table[place].checked_sub(1) {
            let task = &mut self.tasks[number as usize];
            let other = input.operations()[task.first()].point_key();
            if other.is_some_and(|other| input.key(other) == key) {
                self.next[task.last as usize] = position as u32;
                task.last = position as u32;
                if kind == Kind::Change {
                    task.kind = kind;
                }
                return;
            }
            place = (place + 1) & mask;
        }
        self.push(kind, position);
        self.table[place] = self.tasks.len() as u32;
    }

    /// The tasks that only read a key, and the others.
    pub fn split(&self) -> (&[Task], &[Task]) {
        self.tasks.split_at(self.reads)
    }

    /// The positions of a task's operations, in order.
    pub fn operations(&self, task: Task) -> impl Iterator<Item = usize> + Clone + '_ {
        let following = move |&position: &u32| {
            let next = self.next[position as usize];
            (next != NONE).then_some(next)
        };
        std::iter::successors(Some(task.first), following).map(|position| position as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::{Batch, Direction, Words};
    use std::ops::Bound;

    #[test]
    fn what_reads_ranges_waits_for_writes_and_writes_for_it() {
        let mut batch = Batch::<Words>::new();
        batch.insert(1, 1);
        batch.get(1);
        batch.insert(2, 1);
        batch.successor(0);
        batch.get(1);
        batch.scan(Bound::Unbounded, Bound::Unbounded, 9, Direction::Ascending);
        batch.remove(1);
        batch.get(7);
        let input = batch.input().expect("small");
        let phases: Vec<_> = phases(input.operations()).collect();
        assert_eq!(phases, [0..3, 3..6, 6..8]);
    }

    #[test]
    fn operations_of_a_key_are_one_task_in_their_order() {
        let mut batch = Batch::<Words>::new();
        for position in 0..1000 {
            match position % 3 {
                0 => batch.get(position % 7),
                1 => batch.insert(position % 7, position),
                _ => batch.get(1000 + position % 5),
            };
        }
        let input = batch.input().expect("small");
        let mut plan = Plan::new(1000);
        plan.fill(&input, 0..1000, |position, _| position == 500);
        assert_eq!(plan.tasks.len(), 12);
        let mut seen = Vec::new();
        for &task in &plan.tasks {
            let positions: Vec<_> = plan.operations(task).collect();
            assert!(positions.is_sorted());
            let key = |position: usize| input.operations()[position].point_key();
            assert!(
                positions
                    .iter()
                    .all(|&position| key(position) == key(task.first()))
            );
            let kind = match key(task.first()) {
                Some(1000..) => Kind::Read,
                _ => Kind::Change,
            };
            assert_eq!(task.kind, kind);
            seen.extend(positions);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..1000).filter(|&at| at != 500).collect::<Vec<_>>());
    }
}
