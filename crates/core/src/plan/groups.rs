//! The operations of a phase, grouped by key.

use crate::{BatchInput, EntryForm};
use std::ops::Range;

/// The end of the list of a group's operations.
const NONE: u32 = u32::MAX;

/// Operations that a placement executes together: those on one key, or one ordered operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationGroup {
    kind: GroupKind,
    first: u32,
    last: u32,
}

/// The kind of a group's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Operations on one key that only read it.
    Read,
    /// Operations on one key, at least one of which changes it.
    Change,
    /// A single scan, predecessor or successor.
    Ordered,
}

impl OperationGroup {
    /// Returns the kind of the group's operations.
    pub fn kind(&self) -> GroupKind {
        self.kind
    }

    /// Returns the position of the group's first operation; [`Groups::operations`] lists all.
    pub fn first(&self) -> usize {
        self.first as usize
    }
}

/// The groups of one phase of a batch. The memory is reused for the next phase.
#[derive(Debug)]
pub struct Groups {
    groups: Vec<OperationGroup>,
    /// The number of groups that only read a key; these groups come first.
    reads: usize,
    /// The next operation on the same key, by position.
    next: Vec<u32>,
    /// An open-addressing table by the hash of keys. A place holds the number of a group plus one,
    /// or 0.
    table: Vec<u32>,
}

impl Groups {
    /// Creates an empty list of groups for a batch of `operations` operations.
    pub fn new(operations: usize) -> Groups {
        Groups {
            groups: Vec::new(),
            reads: 0,
            // One list for all phases, because an operation belongs to one phase only.
            next: vec![NONE; operations],
            table: Vec::new(),
        }
    }

    /// Groups the operations of a phase, which must not have been grouped before. Leaves out the
    /// operations for which `refuse` returns true. `hash` spreads keys over 64 bits.
    ///
    /// Takes O(n) for n operations. Keys are compared only if their hashes fall on the same place.
    pub fn fill<'b, F: EntryForm>(
        &mut self,
        input: &BatchInput<'b, F>,
        phase: Range<usize>,
        hash: impl Fn(F::Key<'b>) -> u64,
        mut refuse: impl FnMut(usize, F::Key<'b>) -> bool,
    ) {
        self.groups.clear();
        self.table.clear();
        if phase.len() > 1 {
            // At most half full, so that most searches end at their first place.
            self.table.resize(2 * phase.len().next_power_of_two(), 0);
        }
        for position in phase {
            let operation = &input.operations()[position];
            let Some(stored) = operation.point_key() else {
                // The rest are refused operations, which are in no group.
                if operation.is_ordered() {
                    self.push(GroupKind::Ordered, position);
                }
                continue;
            };
            let key = input.key(stored);
            if !refuse(position, key) {
                self.add(input, key, position, &hash);
            }
        }
        // Readers come first, so that `split` lends both parts. The sort is stable: otherwise the
        // groups stay in the order of the batch.
        self.groups
            .sort_by_key(|group| group.kind != GroupKind::Read);
        let is_read = |group: &OperationGroup| group.kind == GroupKind::Read;
        self.reads = self.groups.partition_point(is_read);
    }

    fn push(&mut self, kind: GroupKind, position: usize) {
        debug_assert_eq!(self.next[position], NONE, "an operation is grouped once");
        let (first, last) = (position as u32, position as u32);
        self.groups.push(OperationGroup { kind, first, last });
    }

    /// Adds an operation to the group of its key.
    fn add<'b, F: EntryForm>(
        &mut self,
        input: &BatchInput<'b, F>,
        key: F::Key<'b>,
        position: usize,
        hash: &impl Fn(F::Key<'b>) -> u64,
    ) {
        let kind = match input.operations()[position].is_write() {
            true => GroupKind::Change,
            false => GroupKind::Read,
        };
        // A phase of one operation has nothing to be found.
        if self.table.is_empty() {
            return self.push(kind, position);
        }
        let mask = self.table.len() - 1;
        let mut place = hash(key) as usize & mask;
        debug_assert!(
            2 * self.groups.len() <= self.table.len(),
            "the search ends at a free place"
        );
        while let Some(number) = self.table[place].checked_sub(1) {
            let group = &mut self.groups[number as usize];
            let other = input.operations()[group.first()].point_key();
            if other.is_some_and(|other| input.key(other) == key) {
                self.next[group.last as usize] = position as u32;
                group.last = position as u32;
                if kind == GroupKind::Change {
                    group.kind = kind;
                }
                return;
            }
            place = (place + 1) & mask;
        }
        self.push(kind, position);
        // The number of the group plus one, because 0 is a free place.
        self.table[place] = self.groups.len() as u32;
    }

    /// Returns all groups: those that only read a key come first.
    pub fn all(&self) -> &[OperationGroup] {
        &self.groups
    }

    /// Returns the groups that only read a key, and the others.
    pub fn split(&self) -> (&[OperationGroup], &[OperationGroup]) {
        self.groups.split_at(self.reads)
    }

    /// Returns the positions of a group's operations, in the batch's order.
    pub fn operations(&self, group: OperationGroup) -> impl Iterator<Item = usize> + Clone + '_ {
        let following = move |&position: &u32| {
            let next = self.next[position as usize];
            (next != NONE).then_some(next)
        };
        std::iter::successors(Some(group.first), following).map(|position| position as usize)
    }
}
