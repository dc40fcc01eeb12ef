//! Copies of subranges that are read more than one module can. Not in RADAR's paper, which has one of each.

use crate::partition::Partition;
use std::collections::HashMap;

/// A copy in another module than that which the directory names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replica {
    pub module: usize,
    /// Where its list begins; 0 if only the module knows.
    pub list: u32,
}

/// The copies that there are, by where subranges begin. They are the same as the first until that is written:
/// whoever is about to write it has them forgotten before.
#[derive(Debug, Default)]
pub(super) struct Replicas(HashMap<u64, Vec<Replica>>);

impl Replicas {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, start: u64) -> bool {
        !self.is_empty() && self.0.contains_key(&start)
    }

    pub fn starts(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    pub fn add(&mut self, start: u64, replica: Replica) {
        self.0.entry(start).or_default().push(replica);
    }

    pub fn remove(&mut self, start: u64) -> Vec<Replica> {
        self.0.remove(&start).unwrap_or_default()
    }

    /// The module that does the operation of this number, of a subrange whose first copy `module` has.
    pub fn spread(&self, start: u64, module: usize, number: u64) -> usize {
        self.nth(start, number).map_or(module, |copy| copy.module)
    }

    /// The copy that the operation of this number reads.
    pub fn read(&self, start: u64, partition: Partition, number: u64) -> Partition {
        match self.nth(start, number) {
            None => partition,
            Some(Replica { module, list }) => Partition {
                module,
                list,
                ..partition
            },
        }
    }

    /// The copies in turn; `None` for the first.
    fn nth(&self, start: u64, number: u64) -> Option<Replica> {
        if self.is_empty() {
            return None;
        }
        let copies = self.0.get(&start)?;
        let turn = number % (copies.len() as u64 + 1);
        copies.get(turn.checked_sub(1)? as usize).copied()
    }
}
