//! Scans, predecessors and successors within a batch.
//!
//! They must see the writes before them and none after. They are all executed first, on the
//! index as it is before the batch's own writes. That is right unless a write that precedes an
//! ordered operation lies in the range that the operation has read; such operations, of which
//! there are few in a large index, become *barriers* and are executed again where they stand,
//! between the point operations before and after them.

use super::Engine;
use crate::counters::Probe;
use crate::cursor::Scratch;
use crate::leaf::LeafForm;
use nearfield_core::{Direction, Operation};
use std::ops::{Bound, ControlFlow};

/// An ordered operation: what to read.
#[derive(Clone, Copy)]
struct Request<K> {
    from: Bound<K>,
    to: Bound<K>,
    direction: Direction,
    limit: usize,
    /// Whether the outcome is one entry or a list.
    single: bool,
}

impl<'e, 'b: 'e, F: LeafForm, P: Probe> Engine<'e, 'b, '_, F, P> {
    /// Executes all ordered operations of the batch; answers the positions of those that have to
    /// be executed again as barriers.
    pub(super) fn execute_ordered(
        &mut self,
        scratch: &mut Scratch,
        batch_writes: bool,
    ) -> Vec<usize> {
        let operations = self.input.operations();
        let mut writes: Vec<(F::Key<'e>, usize)> = Vec::new();
        if batch_writes {
            writes.extend(operations.iter().enumerate().filter_map(|(position, operation)| {
                let key = operation.point_key().filter(|_| operation.is_write())?;
                Some((F::shorten_key(self.input.key(key)), position))
            }));
            writes.sort_unstable();
        }
        let mut barriers = Vec::new();
        let mut found = Vec::new();
        for (position, operation) in operations.iter().enumerate() {
            if !operation.is_ordered() {
                continue;
            }
            let request = self.request(operation);
            let reached = self.read(scratch, position, &request, &mut found);
            if precedes(&writes, position, &request, reached) {
                barriers.push(position);
            }
        }
        barriers
    }

    /// Executes one ordered operation where it stands.
    pub(super) fn execute_barrier(&mut self, scratch: &mut Scratch, position: usize) {
        let request = self.request(&self.input.operations()[position]);
        self.read(scratch, position, &request, &mut Vec::new());
    }

    fn request(&self, operation: &Operation<F>) -> Request<F::Key<'e>> {
        let key = |key| F::shorten_key(self.input.key(key));
        match *operation {
            Operation::Predecessor { key: at } => Request {
                from: Bound::Included(key(at)),
                to: Bound::Unbounded,
                direction: Direction::Descending,
                limit: 1,
                single: true,
            },
            Operation::Successor { key: at } => Request {
                from: Bound::Included(key(at)),
                to: Bound::Unbounded,
                direction: Direction::Ascending,
                limit: 1,
                single: true,
            },
            Operation::Scan {
                low,
                high,
                limit,
                direction,
            } => {
                let (low, high) = (low.map(key), high.map(key));
                let (from, to) = match direction {
                    Direction::Ascending => (low, high),
                    Direction::Descending => (high, low),
                };
                Request {
                    from,
                    to,
                    direction,
                    limit: limit as usize,
                    single: false,
                }
            }
            _ => unreachable!("only ordered operations are read"),
        }
    }

    /// Reads what is asked for and writes the outcome. Answers the last key read if the limit
    /// was met there, so that nothing behind it matters.
    fn read(
        &mut self,
        scratch: &mut Scratch,
        position: usize,
        request: &Request<F::Key<'e>>,
        found: &mut Vec<(F::Key<'e>, F::Value<'e>)>,
    ) -> Option<F::Key<'e>> {
        found.clear();
        let (tree, guard) = (self.tree, self.guard);
        if request.limit > 0 {
            tree.scan(
                request.from,
                request.direction,
                request.limit,
                scratch,
                guard,
                |key, value| {
                    if is_behind(key, request.to, request.direction) {
                        return ControlFlow::Break(());
                    }
                    found.push((key, value));
                    match found.len() < request.limit {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                },
            );
        }
        if request.single {
            self.output.entry(position, found.first().copied());
        } else {
            self.output.entries(position, found.iter().copied());
        }
        match found.last() {
            Some(&(key, _)) if found.len() == request.limit => Some(key),
            _ => None,
        }
    }
}

/// True if a key lies behind a scan's far bound.
pub(crate) fn is_behind<K: Ord>(key: K, to: Bound<K>, direction: Direction) -> bool {
    match (to, direction) {
        (Bound::Unbounded, _) => false,
        (Bound::Included(to), Direction::Ascending) => key > to,
        (Bound::Excluded(to), Direction::Ascending) => key >= to,
        (Bound::Included(to), Direction::Descending) => key < to,
        (Bound::Excluded(to), Direction::Descending) => key <= to,
    }
}

/// True if one of the sorted writes stands before `position` in the batch and within what an
/// ordered operation has read.
fn precedes<K: Ord + Copy>(
    writes: &[(K, usize)],
    position: usize,
    request: &Request<K>,
    reached: Option<K>,
) -> bool {
    let to = reached.map_or(request.to, Bound::Included);
    let (low, high) = match request.direction {
        Direction::Ascending => (request.from, to),
        Direction::Descending => (to, request.from),
    };
    let start = writes.partition_point(|&(key, _)| match low {
        Bound::Unbounded => false,
        Bound::Included(low) => key < low,
        Bound::Excluded(low) => key <= low,
    });
    writes[start..]
        .iter()
        .take_while(|&&(key, _)| !is_behind(key, high, Direction::Ascending))
        .any(|&(_, written)| written < position)
}
