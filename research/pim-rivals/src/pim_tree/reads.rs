//! Predecessors and successors.

use super::PimTreeHost;
use super::address::place;
use super::round::Outbox;
use super::search::{Neighbour, NeighbourSide};
use super::task::ChunkTaskKind;
use nearfield_core::{BatchInput, BatchOutput, IndexOperation, OperationError, Words};
use nearfield_pim::device::ModuleDevice;
use nearfield_pim::dispatch::plan::unknown;
use std::ops::Range;

/// The result of a key's search.
type Found = Result<Option<(u64, u64)>, OperationError>;

/// A wanted entry, and the number of the operation that wants it.
type Owned = ((u64, NeighbourSide), usize);

impl<D: ModuleDevice> PimTreeHost<D> {
    /// Executes predecessors and successors, which do not affect each other.
    ///
    /// # Errors
    /// The first round was refused.
    pub(super) fn reads(
        &mut self,
        input: BatchInput<'_, Words>,
        output: &mut BatchOutput<'_, Words>,
        range: Range<usize>,
    ) -> Result<(), OperationError> {
        let operations = input.operations();
        // The gets of the run come first. Nothing in it writes, so their order does not matter.
        self.points(input, output, range.clone())?;
        let mut sorted: Vec<Owned> = Vec::new();
        let mut scans = Vec::new();
        for number in range {
            match operations[number] {
                IndexOperation::Predecessor { key } => {
                    sorted.push(((key, NeighbourSide::Below), number))
                }
                IndexOperation::Successor { key } => {
                    sorted.push(((key, NeighbourSide::Above), number))
                }
                IndexOperation::Scan { .. } => scans.push(number),
                _ => {}
            }
        }
        sorted.sort_unstable();
        self.sorted(sorted.len());
        let mut wanted: Vec<(u64, NeighbourSide)> =
            sorted.iter().map(|&(wanted, _)| wanted).collect();
        // Equal searches are made once, however many operations want the result.
        wanted.dedup();
        let found = self.beside(&wanted)?;
        let mut at = 0;
        for (wish, number) in sorted {
            while wanted[at] != wish {
                at += 1;
            }
            match &found[at] {
                Ok(entry) => output.entry(number, *entry),
                Err(error) => output.fail(number, error.clone()),
            }
        }
        self.scans(input, output, &scans)
    }

    /// Returns the neighbours of keys, which must be sorted.
    fn beside(&mut self, wanted: &[(u64, NeighbourSide)]) -> Result<Vec<Found>, OperationError> {
        debug_assert!(wanted.is_sorted());
        let mut found: Vec<Found> = vec![Ok(None); wanted.len()];
        if !self.is_built {
            return Ok(found);
        }
        let mut open: Vec<(u64, NeighbourSide)> = wanted.to_vec();
        let mut owners: Vec<usize> = (0..wanted.len()).collect();
        // A chunk without entries on the wanted side leads to its neighbour, which takes another
        // try.
        while !open.is_empty() {
            let keys: Vec<u64> = open.iter().map(|&(key, _)| key).collect();
            let paths = self.locate(&keys, |_| false)?;
            let neighbours = self.neighbours(&open, &paths)?;
            let mut left = self.fetch(&open, &owners, neighbours, &mut found)?;
            left.sort_unstable();
            (open, owners) = left.into_iter().unzip();
        }
        Ok(found)
    }

    /// Reads data nodes in one round, each once for adjacent requests. Returns the searches that
    /// remain: for entries to the left or right of chunks whose first key was removed.
    fn fetch(
        &mut self,
        open: &[(u64, NeighbourSide)],
        owners: &[usize],
        neighbours: Vec<Neighbour>,
        found: &mut [Found],
    ) -> Result<Vec<Owned>, OperationError> {
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        let mut asked = Neighbour::None;
        for (neighbour, &(_, side)) in neighbours.iter().zip(open) {
            // Adjacent searches often end at the same node.
            if *neighbour == asked {
                continue;
            }
            match *neighbour {
                Neighbour::At(node) => {
                    outbox.item(node.module(), ChunkTaskKind::Fetch, &[node.local().into()]);
                }
                // The first key of the chunk to the right, which usually has a data node.
                Neighbour::Of(key) if side == NeighbourSide::Above => {
                    outbox.item(place(key, 0, modules), ChunkTaskKind::Probe, &[key]);
                }
                _ => continue,
            }
            asked = neighbour.clone();
        }
        let mut inbox = self.round(outbox)?;
        let mut left = Vec::new();
        let (mut asked, mut last) = (Neighbour::None, Ok(None));
        for ((neighbour, &wish), &owner) in neighbours.into_iter().zip(open).zip(owners) {
            let is_asked = neighbour == asked;
            let (_, side) = wish;
            found[owner] = match neighbour {
                Neighbour::None => Ok(None),
                Neighbour::Lost(error) => Err(error),
                Neighbour::Of(key) if side == NeighbourSide::Below => {
                    left.push(((key, side), owner));
                    continue;
                }
                Neighbour::At(node) => {
                    if !is_asked {
                        let words = inbox.take(node.module(), 2);
                        last = words
                            .map(|words| Some((words[0], words[1])))
                            .map_err(|error| unknown(&error));
                        asked = neighbour;
                    }
                    last.clone()
                }
                Neighbour::Of(key) => {
                    if !is_asked {
                        let words = inbox.take(place(key, 0, modules), 2);
                        last = words
                            .map(|words| (words[0] == 1).then_some((key, words[1])))
                            .map_err(|error| unknown(&error));
                        asked = neighbour;
                    }
                    if last == Ok(None) {
                        left.push(((key, side), owner));
                        continue;
                    }
                    last.clone()
                }
            };
        }
        Ok(left)
    }
}
