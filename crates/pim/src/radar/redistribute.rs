//! Moving subranges: dividing them among modules, and pulling them to the host.
//!
//! A subrange that is moved is read first, in a round of its own, and stays where it is until the round that
//! builds its pieces elsewhere. So a pair is in one place at least at any time: if that round is not begun,
//! all stays as it was; what a module has not built, as it had no room or has come to nothing, the host takes.

use super::Host;
use super::program::Tasks;
use super::skew::{self, Move};
use crate::batch::{NOBODY, OTHERS, refused};
use crate::device::Device;
use crate::partition::Partition;
use crate::task::{Answer, Task};
use nearfield_core::{Error, Input, Words};
use std::collections::HashMap;

/// What is moved in a batch.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// What modules are to build: where it begins, and what is in it. By tag, from [`OTHERS`] on.
    built: Vec<(u64, Vec<u64>)>,
    /// What was moved, as it was.
    former: Vec<(u64, Partition)>,
}

impl Moving {
    /// Has a module build a subrange.
    pub fn build(&mut self, start: u64, entries: &[u64], words: &mut Vec<u64>) {
        let tag = OTHERS | self.built.len() as u32;
        Task::Build { start, entries }.encode(0, tag, words);
        self.built.push((start, entries.to_vec()));
    }
}

impl<D: Device> Host<D> {
    /// Divides and pulls what makes modules busy, and says what has to be done for that before the operations.
    pub(super) fn redistribute(
        &mut self,
        input: Input<'_, Words>,
        inputs: &mut [Vec<u64>],
    ) -> Result<(), Error> {
        let (mut loads, subranges, costs) = self.skew(input);
        let moves = skew::decide(&mut loads, subranges, &costs);
        if moves.is_empty() {
            return Ok(());
        }
        let mut reads = vec![Vec::new(); self.device.modules()];
        let mut moved: Vec<(u64, Partition, Move)> = Vec::new();
        for (start, then) in moves {
            let Some((start, partition)) = self.directory.of(start) else {
                continue;
            };
            let task = Task::Scan {
                start,
                from: start,
                to: partition.last,
                limit: u64::MAX,
                descends: false,
            };
            let tag = moved.len() as u32;
            task.encode(partition.list, tag, &mut reads[partition.module]);
            moved.push((start, partition, then));
        }
        let answered = self.device.round(Tasks, reads);
        let answered = answered.map_err(|error| refused(&error))?;
        let mut runs: HashMap<u32, &[u64]> = HashMap::new();
        for words in answered.iter().flatten() {
            let mut words = &words[..];
            while let Some((answer, tag)) = Answer::decode(&mut words) {
                if let Answer::Entries(entries) = answer {
                    runs.insert(tag, entries);
                }
            }
        }
        for (tag, (start, partition, then)) in moved.into_iter().enumerate() {
            // What a module has not given stays there.
            let Some(entries) = runs.get(&(tag as u32)) else {
                continue;
            };
            Task::Free { start }.encode(0, NOBODY, &mut inputs[partition.module]);
            self.directory.remove(start);
            self.moving.former.push((start, partition));
            self.moves.keys += entries.len() as u64 / 2;
            match then {
                Move::Pull => {
                    self.moves.pulled += 1;
                    self.take(start, partition, entries);
                }
                Move::Divide(targets) => {
                    self.moves.divided += 1;
                    self.divide(start, partition, entries, &targets, inputs);
                }
            }
        }
        Ok(())
    }

    /// The host takes a subrange.
    fn take(&mut self, start: u64, partition: Partition, entries: &[u64]) {
        self.store.insert(start, entries);
        let partition = Partition {
            module: self.host(),
            list: 0,
            count: entries.len() as u64 / 2,
            ..partition
        };
        self.directory.insert(start, partition);
    }

    fn divide(
        &mut self,
        start: u64,
        partition: Partition,
        mut entries: &[u64],
        targets: &[usize],
        inputs: &mut [Vec<u64>],
    ) {
        // Less one, as the whole key space has no width that is a number.
        let width = (partition.last - start) / targets.len() as u64;
        for (piece, &module) in targets.iter().enumerate() {
            let from = start + (width + 1) * piece as u64;
            let last = from + width;
            let pairs = entries.chunks_exact(2);
            let count = pairs.take_while(|entry| entry[0] <= last).count();
            let (own, rest) = entries.split_at(2 * count);
            entries = rest;
            if own.is_empty() {
                continue;
            }
            self.moving.build(from, own, &mut inputs[module]);
            let partition = Partition {
                last,
                module,
                count: count as u64,
                list: 0,
            };
            self.directory.insert(from, partition);
        }
    }

    /// The round was not begun: everything is where it was.
    pub(super) fn undo(&mut self) {
        let Moving { built, former } = std::mem::take(&mut self.moving);
        for (start, _) in built {
            self.directory.remove(start);
        }
        for (start, partition) in former {
            self.store.remove(start);
            self.directory.insert(start, partition);
        }
    }

    /// The round is done; these are the lists that modules have built, by tag. What they have not, the host
    /// takes, with what came before the batch.
    pub(super) fn settle(&mut self, lists: &HashMap<u32, u32>) {
        let Moving { built, .. } = std::mem::take(&mut self.moving);
        for (number, (start, entries)) in built.into_iter().enumerate() {
            if let Some(&list) = lists.get(&(OTHERS | number as u32)) {
                if self.options.sends_lists {
                    self.directory.set_list(start, list);
                }
                continue;
            }
            if let Some(partition) = self.directory.remove(start) {
                // It may be there in part.
                self.empty.push((partition.module, start));
                if !entries.is_empty() {
                    self.take(start, partition, &entries);
                }
            }
        }
    }
}
