//! Copies of subranges that have more reads than one module can serve. They are not in RADAR's
//! paper, which stores each subrange once.

use crate::dispatch::directory::{PartitionDirectory, PartitionPlace};
use crate::dispatch::plan::Replica;
use std::collections::HashMap;

/// The copies of partitions, by their starts. They always equal the first, because a batch that
/// writes the partition removes them beforehand.
#[derive(Debug, Default)]
pub(super) struct Replicas(HashMap<u64, Vec<Replica>>);

impl Replicas {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, start: u64) -> bool {
        // Most indexes have no copies, and this is asked for each written key.
        !self.is_empty() && self.0.contains_key(&start)
    }

    pub fn starts(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    pub fn add(&mut self, start: u64, replica: Replica) {
        let copies = self.0.entry(start).or_default();
        debug_assert!(copies.iter().all(|copy| copy.module != replica.module));
        copies.push(replica);
    }

    pub fn remove(&mut self, start: u64) -> Vec<Replica> {
        self.0.remove(&start).unwrap_or_default()
    }

    /// Sets the address of a copy's list.
    pub fn set_list(&mut self, start: u64, module: usize, list: u32) {
        let copies = self.0.get_mut(&start).into_iter().flatten();
        for copy in copies.filter(|copy| copy.module == module) {
            copy.list = list;
        }
    }

    /// Removes the copy in a module.
    pub fn remove_from(&mut self, start: u64, module: usize) {
        if let Some(copies) = self.0.get_mut(&start) {
            copies.retain(|copy| copy.module != module);
            if copies.is_empty() {
                self.0.remove(&start);
            }
        }
    }

    /// Returns the module that executes the operation of a number on the subrange in a place.
    pub fn spread(
        &self,
        directory: &PartitionDirectory,
        place: PartitionPlace,
        number: u64,
    ) -> usize {
        self.read(directory, place, number).module
    }

    /// Returns the copy of the subrange in a place that the operation of a number reads.
    pub fn read(
        &self,
        directory: &PartitionDirectory,
        place: PartitionPlace,
        number: u64,
    ) -> Replica {
        let copy = match self.is_empty() {
            true => None,
            false => self.nth(directory.start(place), number),
        };
        copy.unwrap_or_else(|| Replica::first(directory.partition(place)))
    }

    /// Returns the copies in turn; `None` for the first.
    fn nth(&self, start: u64, number: u64) -> Option<Replica> {
        if self.is_empty() {
            return None;
        }
        let copies = self.0.get(&start)?;
        // The first has its turn, too, so there is one more than there are copies here.
        let turn = number % (copies.len() as u64 + 1);
        copies.get(turn.checked_sub(1)? as usize).copied()
    }
}
