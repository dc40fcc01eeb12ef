//! Scans, predecessors and successors within a batch.
//!
//! They must see the writes before them and none after. They are all executed first, on the index
//! before the batch's own writes. That is correct unless a write that precedes an ordered operation
//! is in the range that the operation has read. Such operations, which are few in a large index,
//! become *barriers*: they are executed again in their turn, between the point operations before
//! and after them.

use super::traverse::{Arrivals, Manner, ReadVisits, VisitRun, VisitWalk};
use super::{RadixBatchExecution, RadixWorkspace};
use crate::counters::RadixProbe;
use crate::cursor::{
    CHUNK_MAX, OutputChunkReader, RadixScanScratch, ScanChunkEnd, ScanChunkReader,
    VisitorChunkReader,
};
use crate::leaf::{LeafForm, RadixScanRange};
use crate::node::Ref;
use crate::prefetch::prefetch;
use crate::tree::RadixTree;
use crossbeam_epoch::Guard;
use nearfield_core::{IndexOperation, ScanDirection};
use std::ops::{Bound, ControlFlow};

/// Number of operations whose paths are walked together before they are read. A core's own cache
/// has room for their paths and for the entries that they read.
const WARMED: usize = 64;

/// The size in bytes of the nodes that a core's own cache keeps. Walking paths beforehand is
/// useless for a tree of at most this size.
const NODES_IN_CACHE: usize = 1 << 20;

/// Number of operations that are read together, pass by pass.
const GROUP: usize = 8;

/// The next pass over a request, which is given by its number.
#[derive(Clone, Copy)]
enum ScanPass {
    /// The state without a request.
    Over,
    /// Replacement of inner nodes by their children.
    Expand(usize),
    /// Reading of the gathered nodes; false if none could be gathered.
    Finish(usize, bool),
}

/// The range of an ordered operation.
#[derive(Clone, Copy)]
struct OrderedRequest<K> {
    scan: RadixScanRange<K>,
    /// True if the outcome is one entry instead of a list.
    single: bool,
}

impl<'e, 'b: 'e, F: LeafForm, P: RadixProbe> RadixBatchExecution<'e, 'b, '_, F, P> {
    /// Executes all ordered operations of the batch; returns the positions of those that must be
    /// executed again as barriers.
    pub(super) fn execute_ordered(
        &mut self,
        workspace: &mut RadixWorkspace,
        batch_writes: bool,
    ) -> Vec<usize> {
        let operations = self.input.operations();
        let mut writes: Vec<BatchWriteKey<F::Key<'e>>> = Vec::new();
        if batch_writes {
            writes.extend(
                operations
                    .iter()
                    .enumerate()
                    .filter_map(|(position, operation)| {
                        let key = operation.point_key().filter(|_| operation.is_write())?;
                        let key = F::shorten_key(self.input.key(key));
                        Some(BatchWriteKey {
                            slice: F::slice(F::shorten_key(key), 0),
                            key,
                            position,
                        })
                    }),
            );
            // Each ordered operation then finds the writes of its range by two searches.
            writes.sort_unstable();
        }
        let positions: Vec<usize> = (0..operations.len())
            .filter(|&position| operations[position].is_ordered())
            .collect();
        let mut barriers = Vec::new();
        for positions in positions.chunks(WARMED) {
            let requests: Vec<_> = positions
                .iter()
                .map(|&position| self.request(&operations[position]))
                .collect();
            // Walks that find all nodes in the cache gain nothing from a walk before.
            if self.options.interleave && self.tree.memory.node_bytes_taken() > NODES_IN_CACHE {
                self.warm(workspace, &requests);
            }
            self.read_requests(workspace, positions, &requests, |position, i, reached| {
                if precedes::<F>(&writes, position, &requests[i], reached) {
                    barriers.push(position);
                }
            });
        }
        barriers.sort_unstable();
        barriers
    }

    /// Walks to the bounds of all requests, so that their paths are in the cache.
    fn warm(&mut self, workspace: &mut RadixWorkspace, requests: &[OrderedRequest<F::Key<'e>>]) {
        let keys: Vec<F::Key<'_>> = requests
            .iter()
            .filter_map(|request| match request.scan.from {
                Bound::Included(key) | Bound::Excluded(key) => Some(key),
                Bound::Unbounded => None,
            })
            .collect();
        let manner = Manner {
            from_root: true,
            share_paths: false,
            trigger_together: false,
            keep_hot_close: false,
        };
        let mut warm = Warm {
            tree: self.tree,
            probe: self.probe,
        };
        workspace
            .traversal
            .run(self.tree, self.guard, ReadVisits(&keys), manner, &mut warm);
    }

    /// Reads requests, [`GROUP`] at a time. They take turns of one pass each, so that while one
    /// waits for memory the others proceed. Calls `done` with the position, the number of the
    /// request and, if the limit was reached, the last key read, so that nothing after it matters.
    fn read_requests(
        &mut self,
        workspace: &mut RadixWorkspace,
        positions: &[usize],
        requests: &[OrderedRequest<F::Key<'e>>],
        mut done: impl FnMut(usize, usize, Option<F::Key<'e>>),
    ) {
        let (tree, guard) = (self.tree, self.guard);
        let group = GROUP.min(requests.len());
        let scratches = &mut workspace.scratches;
        scratches.resize_with(scratches.len().max(group), Default::default);
        let mut passes = [ScanPass::Over; GROUP];
        let (mut begun, mut finished) = (0, 0);
        while finished < requests.len() {
            for (pass, scratch) in passes[..group].iter_mut().zip(&mut *scratches) {
                if let ScanPass::Expand(number) = *pass {
                    if !tree.expand(requests[number].scan.direction, scratch) {
                        *pass = ScanPass::Finish(number, true);
                    }
                    continue;
                }
                if let ScanPass::Finish(number, begun) = *pass {
                    let (position, request) = (positions[number], &requests[number]);
                    let last = self.finish(position, request, begun, scratch);
                    done(position, number, last);
                    *pass = ScanPass::Over;
                    finished += 1;
                }
                if begun < requests.len() {
                    let scan = &requests[begun].scan;
                    let chunk = scan.limit.min(CHUNK_MAX);
                    *pass = match tree.begin_chunk(scan.from, scan.direction, chunk, scratch, guard)
                    {
                        true => ScanPass::Expand(begun),
                        false => ScanPass::Finish(begun, false),
                    };
                    begun += 1;
                }
            }
        }
    }

    /// Reads the gathered nodes of a request, and more if they are too few. Returns the last key
    /// read if the limit was reached there.
    fn finish(
        &mut self,
        position: usize,
        &OrderedRequest { scan, single }: &OrderedRequest<F::Key<'e>>,
        begun: bool,
        scratch: &mut RadixScanScratch,
    ) -> Option<F::Key<'e>> {
        let (tree, guard) = (self.tree, self.guard);
        if single {
            // A barrier writes a second time, so the first outcome is cleared.
            self.output.entry(position, None);
            let output = &mut *self.output;
            let mut reader = VisitorChunkReader::<F, _> {
                scan,
                last: None,
                visit: |key: F::Key<'e>, value: F::Value<'_>| {
                    output.entry(position, Some((key, value)));
                    ControlFlow::Break(())
                },
            };
            finish(tree, &scan, begun, scratch, guard, &mut reader);
            return reader.last;
        }
        let mut last = None;
        let mut writer = self.output.begin_entries(position);
        if scan.limit > 0 {
            let mut reader = OutputChunkReader::<F> {
                scan,
                last: None,
                writer: &mut writer,
            };
            finish(tree, &scan, begun, scratch, guard, &mut reader);
            let reached = reader.last;
            last = reached.filter(|_| writer.count() == scan.limit);
        }
        writer.finish();
        last
    }

    /// Executes one ordered operation in its turn.
    pub(super) fn execute_barrier(&mut self, workspace: &mut RadixWorkspace, position: usize) {
        let request = self.request(&self.input.operations()[position]);
        self.read_requests(workspace, &[position], &[request], |_, _, _| {});
    }

    fn request(&self, operation: &IndexOperation<F>) -> OrderedRequest<F::Key<'e>> {
        let key = |key| F::shorten_key(self.input.key(key));
        let single = |at, direction| OrderedRequest {
            scan: RadixScanRange {
                from: Bound::Included(at),
                to: Bound::Unbounded,
                direction,
                limit: 1,
            },
            single: true,
        };
        match *operation {
            IndexOperation::Predecessor { key: at } => single(key(at), ScanDirection::Descending),
            IndexOperation::Successor { key: at } => single(key(at), ScanDirection::Ascending),
            IndexOperation::Scan {
                range,
                limit,
                direction,
            } => {
                let (low, high) = self.input.range(range);
                let (low, high) = (low.map(F::shorten_key), high.map(F::shorten_key));
                let (from, to) = match direction {
                    ScanDirection::Ascending => (low, high),
                    ScanDirection::Descending => (high, low),
                };
                OrderedRequest {
                    scan: RadixScanRange {
                        from,
                        to,
                        direction,
                        limit: limit as usize,
                    },
                    single: false,
                }
            }
            _ => unreachable!("only ordered operations are read"),
        }
    }
}

/// Reads the gathered nodes of a request, and gathers more while the reader needs them.
#[inline]
fn finish<'e, F: LeafForm>(
    tree: &'e RadixTree<F>,
    scan: &RadixScanRange<F::Key<'e>>,
    begun: bool,
    scratch: &mut RadixScanScratch,
    guard: &'e Guard,
    reader: &mut impl ScanChunkReader<'e, F>,
) {
    let ended = match begun {
        true => tree.finish_chunk(scratch, guard, reader),
        false => ScanChunkEnd::Disturbed,
    };
    let chunk = scan.limit.min(CHUNK_MAX);
    tree.scan_on(ended, scan, chunk, scratch, guard, reader);
}

/// Number of lines of slots after a scan's bound that are prefetched.
const SLOT_LINES: usize = 4;

/// Receiver of walks that warm the cache. It prefetches the further lines that gathering reads: the
/// header of a node256, and the slots after the one on the path.
struct Warm<'w, F: LeafForm, P> {
    tree: &'w RadixTree<F>,
    probe: &'w mut P,
}

impl<F: LeafForm, P: RadixProbe> Arrivals<F> for Warm<'_, F, P> {
    type Probe = P;
    fn probe(&mut self) -> &mut P {
        self.probe
    }
    fn single(&mut self, walk: &VisitWalk, key: F::Key<'_>, _: F::Prepared) {
        if !walk.parent().is_256() {
            return;
        }
        let header = self.tree.memory.line(walk.parent());
        prefetch(header);
        let symbol = F::symbol(key, walk.depth().saturating_sub(1)).unwrap_or_default();
        let slot = header.wrapping_add(64 + 4 * usize::from(symbol));
        for line in 1..=SLOT_LINES {
            prefetch(slot.wrapping_add(64 * line));
        }
    }
    fn run(&mut self, _run: &VisitRun, _ends: &[Ref]) {}
}

/// A write of a batch that also has scans.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BatchWriteKey<K> {
    /// The key's first bytes, which distinguish most keys.
    slice: u64,
    key: K,
    position: usize,
}

/// Returns true if one of the sorted writes comes before `position` in the batch and is within the
/// range of an ordered operation.
fn precedes<'e, F: LeafForm>(
    writes: &[BatchWriteKey<F::Key<'e>>],
    position: usize,
    request: &OrderedRequest<F::Key<'e>>,
    reached: Option<F::Key<'e>>,
) -> bool {
    let RadixScanRange {
        from, direction, ..
    } = request.scan;
    // Keys after the last one read have not affected the outcome.
    let to = reached.map_or(request.scan.to, Bound::Included);
    let (low, high) = match direction {
        ScanDirection::Ascending => (from, to),
        ScanDirection::Descending => (to, from),
    };
    let range = RadixScanRange {
        from: low,
        to: high,
        direction: ScanDirection::Ascending,
        limit: usize::MAX,
    };
    let least = match low {
        Bound::Included(key) | Bound::Excluded(key) => F::slice(F::shorten_key(key), 0),
        Bound::Unbounded => 0,
    };
    // By the slices first, without a branch, because it would be mispredicted.
    let from = writes.partition_point(|write| write.slice < least);
    let before = |write: &&BatchWriteKey<_>| write.slice == least && !range.is_past(write.key);
    let start = from + writes[from..].iter().take_while(before).count();
    writes[start..]
        .iter()
        .take_while(|write| !range.is_behind(write.key))
        .any(|write| write.position < position)
}
