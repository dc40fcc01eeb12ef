//! Scans with a filter, and aggregates. A program at the memory nodes walks from leaf to leaf. If
//! it stops because a leaf was changed meanwhile, the client reads that leaf itself, and the
//! program continues behind it. Without programs, the client reads all leaves.
//!
//! An operation consists of pieces. Each has a session of its own, so that it may follow addresses
//! of leaves, and counts only if that was valid to its end. A piece ends at a key.

use super::ChimeTree;
use super::route::ChimeLeafRoute;
use super::session::ChimeSession;
use crate::cache::CacheableNode;
use crate::error::PoolError;
use crate::filtered::{
    LeafProgram, LeafProgramEnd, PoolProgramExecutor, PoolScanRange, ScanAggregates,
    ScanResultKind, ValueFilter, number,
};
use crate::index::Entry;
use crate::layout::PoolLeaf;
use nearfield_fabric::{Endpoint, GlobalAddress};
use nearfield_offload::traversal::TraversalOutcome;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of leaves after which a piece ends, so that it does not delay the reclamation of memory.
const PIECE_LEAVES: u64 = 1024;
/// Number of entries that a client reads itself: in the first piece, and at most, because it grows
/// each time.
const READ_MIN: usize = 64;
const READ_MAX: usize = 4096;
/// Number of parts of a range that programs read at the same time, at most. A core of a memory node
/// has about as many iterations between two loads of one traversal.
const PARTS_MAX: usize = 8;
/// Number of leaves for which a part is worth its datagrams.
const PART_LEAVES: usize = 16;

/// The leaves of a tree that were read for scans of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafReads {
    /// Number of leaves that programs read at the memory nodes.
    pub at_nodes: u64,
    /// Number of leaves that this process read.
    pub here: u64,
    /// Number of programs that no memory node has run: this process has read the leaves instead.
    pub refused: u64,
}

/// [`LeafReads`] while they are counted.
#[derive(Debug, Default)]
pub(super) struct LeafCounters {
    at_nodes: AtomicU64,
    here: AtomicU64,
    refused: AtomicU64,
}

impl LeafCounters {
    pub fn add_here(&self, leaves: usize) {
        self.here.fetch_add(leaves as u64, Relaxed);
    }

    pub fn get(&self) -> LeafReads {
        LeafReads {
            at_nodes: self.at_nodes.load(Relaxed),
            here: self.here.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }
}

/// The request of a scan.
#[derive(Clone, Copy, Debug)]
struct FilteredScanRequest<'r> {
    walk: ScanResultKind,
    range: &'r PoolScanRange,
    filter: &'r ValueFilter,
    /// Number of entries that a client reads itself at once.
    reads: usize,
}

/// The result for the beginning of a range.
#[derive(Debug, Default)]
struct FilteredScanPiece {
    aggregates: ScanAggregates,
    entries: Vec<Entry>,
    /// The rest of the range.
    rest: Option<PoolScanRange>,
    at_nodes: u64,
    refused: bool,
}

impl FilteredScanPiece {
    /// Adds an entry, if it was asked for.
    fn take(&mut self, request: &FilteredScanRequest<'_>, key: &[u8], value: &[u8]) {
        // Entries of a leaf may lie outside of the range at either end.
        let word = number(value);
        if !request.range.contains(key) || !request.filter.matches(word) {
            return;
        }
        match request.walk {
            ScanResultKind::Aggregates => self.aggregates.extend([word]),
            ScanResultKind::Entries => self.entries.push((key.to_vec(), value.to_vec())),
        }
    }

    /// Adds the results of a program.
    fn take_all(&mut self, request: &FilteredScanRequest<'_>, outcome: &TraversalOutcome) {
        // A node may report any numbers.
        self.at_nodes = self.at_nodes.saturating_add(LeafProgram::leaves(outcome));
        match request.walk {
            ScanResultKind::Aggregates => self.aggregates.join(&LeafProgram::aggregates(outcome)),
            ScanResultKind::Entries => {
                for (key, value) in LeafProgram::entries(outcome) {
                    let key = request.range.key_of(key);
                    // Checked here, too: the rest of the range begins behind the last key.
                    if request.range.contains(&key) && request.filter.matches(value) {
                        self.entries.push((key, value.to_le_bytes().to_vec()));
                    }
                }
            }
        }
    }
}

impl<E: Endpoint> ChimeTree<E> {
    /// Returns the aggregates of the values in a range that a filter selects; the first eight bytes
    /// of a value count ([`number`]). As in a scan, each entry has its state at some time of the
    /// call.
    ///
    /// If keys and values are words of eight bytes, the memory nodes that `programs` reaches read
    /// their leaves themselves. Otherwise, or if they refuse, this client reads them, with the same
    /// result: [`leaf_reads`](ChimeTree::leaf_reads) reports both.
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub async fn aggregate(
        &self,
        range: &PoolScanRange,
        filter: &ValueFilter,
        mut programs: Option<&mut (dyn PoolProgramExecutor + '_)>,
    ) -> Result<ScanAggregates, PoolError> {
        range.check(self.leaves.geometry().shape().key_bytes)?;
        let at_once = programs.as_mut().map(|programs| &mut **programs as _);
        let (mut aggregates, rests) = self.at_once(range, filter, at_once).await?;
        for rest in rests {
            let mut rest = Some(rest);
            let mut reads = READ_MIN;
            while let Some(range) = rest {
                let request = FilteredScanRequest {
                    walk: ScanResultKind::Aggregates,
                    range: &range,
                    filter,
                    reads,
                };
                let programs = programs.as_mut().map(|programs| &mut **programs as _);
                let piece = self.piece(&request, programs).await?;
                aggregates.join(&piece.aggregates);
                rest = piece.rest;
                // A short range ends in the first piece, and a long one needs few.
                reads = (2 * reads).min(READ_MAX);
            }
        }
        Ok(aggregates)
    }

    /// Reads the beginnings of the parts of a range by programs that run at the same time. Returns
    /// their results, and the ranges that are left. Without programs, or if the range is short,
    /// that is all of it.
    async fn at_once(
        &self,
        range: &PoolScanRange,
        filter: &ValueFilter,
        mut programs: Option<&mut (dyn PoolProgramExecutor + '_)>,
    ) -> Result<(ScanAggregates, Vec<PoolScanRange>), PoolError> {
        let mut aggregates = ScanAggregates::default();
        if programs.is_none() || range.is_empty() || filter.selected().is_none() {
            return Ok((aggregates, vec![range.clone()]));
        }
        let parts = self
            .run(async |session| {
                let programs = programs.as_mut().map(|programs| &mut **programs as _);
                session.parts(range, filter, programs).await
            })
            .await?;
        let mut rests = Vec::new();
        for (part, piece) in parts {
            let Some(piece) = piece else {
                rests.push(part);
                continue;
            };
            aggregates.join(&piece.aggregates);
            rests.extend(piece.rest);
            let counters = &self.node.leaf_counters;
            counters.at_nodes.fetch_add(piece.at_nodes, Relaxed);
        }
        Ok((aggregates, rests))
    }

    /// Returns entries at the beginning of a range that a filter selects, in ascending order, and
    /// the rest of the range. There may be no entry although the rest is not empty. Otherwise like
    /// [`aggregate`](ChimeTree::aggregate).
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub async fn select(
        &self,
        range: &PoolScanRange,
        filter: &ValueFilter,
        programs: Option<&mut (dyn PoolProgramExecutor + '_)>,
    ) -> Result<(Vec<Entry>, Option<PoolScanRange>), PoolError> {
        range.check(self.leaves.geometry().shape().key_bytes)?;
        let request = FilteredScanRequest {
            walk: ScanResultKind::Entries,
            range,
            filter,
            reads: READ_MAX / 4,
        };
        let mut piece = self.piece(&request, programs).await?;
        // A program lists the entries of a leaf by slots, and a leaf is a hash table.
        piece.entries.sort_unstable();
        Ok((piece.entries, piece.rest))
    }

    /// Returns the number of leaves that scans of this compute node have read, by place.
    pub fn leaf_reads(&self) -> LeafReads {
        self.node.leaf_reads()
    }

    /// Reads the beginning of a range, in a session of its own.
    async fn piece(
        &self,
        request: &FilteredScanRequest<'_>,
        mut programs: Option<&mut (dyn PoolProgramExecutor + '_)>,
    ) -> Result<FilteredScanPiece, PoolError> {
        if request.range.is_empty() || request.filter.selected().is_none() {
            return Ok(FilteredScanPiece::default());
        }
        let piece = self
            .run(async |session| {
                let programs = programs.as_mut().map(|programs| &mut **programs as _);
                session.piece(request, programs).await
            })
            .await?;
        let counters = &self.node.leaf_counters;
        counters.at_nodes.fetch_add(piece.at_nodes, Relaxed);
        counters.refused.fetch_add(piece.refused.into(), Relaxed);
        Ok(piece)
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    async fn piece(
        &self,
        request: &FilteredScanRequest<'_>,
        programs: Option<&mut (dyn PoolProgramExecutor + '_)>,
    ) -> Result<FilteredScanPiece, PoolError> {
        // A refusal is no error: the client reads the leaves itself, with the same result.
        let mut refused = false;
        if let Some(programs) = programs
            && let Some(program) = self.tree.programs.get(request.walk)
        {
            match self.walk(request, program, programs).await? {
                FilteredWalkOutcome::Piece(piece) => return Ok(piece),
                FilteredWalkOutcome::Gone => {}
                FilteredWalkOutcome::Refused => refused = true,
            }
        }
        let piece = self.read_piece(request).await?;
        Ok(FilteredScanPiece { refused, ..piece })
    }

    /// Reads the beginning of a range like a scan.
    async fn read_piece(
        &self,
        request: &FilteredScanRequest<'_>,
    ) -> Result<FilteredScanPiece, PoolError> {
        let mut piece = FilteredScanPiece::default();
        let entries = self.scan_from(&request.range.low, request.reads).await?;
        for (key, value) in &entries {
            piece.take(request, key, value);
        }
        // Fewer entries than requested: the index has no more.
        if entries.len() == request.reads
            && let Some((last, _)) = entries.last()
        {
            piece.rest = request.range.behind(last);
        }
        Ok(piece)
    }

    /// Returns keys that divide a range into parts of about as many leaves each, as far as cached
    /// nodes know them. There are none if the range is short.
    fn division(&self, range: &PoolScanRange) -> Vec<Vec<u8>> {
        let mut level = 2;
        // The lowest node with all of the range below it knows the most of the keys.
        while let Some(node) = self.seek(&range.low, level) {
            if node.high().is_none_or(|high| *range.high < *high) {
                let first = node.position(&range.low);
                let children = node.position(&range.high).saturating_sub(first) + 1;
                // A child that is no leaf has many.
                let parts = match node.level() {
                    0..=2 => children / PART_LEAVES,
                    _ => children,
                };
                let parts = parts.min(PARTS_MAX);
                let division = (1..parts).map(|part| node.least(first + part * children / parts));
                return division.collect();
            }
            let Some(above) = node.level().checked_add(1) else {
                break;
            };
            level = above;
        }
        Vec::new()
    }

    /// Runs a program for each part of a range, at the same time. Returns the parts, each with its
    /// beginning, or with nothing if no program has read it.
    async fn parts(
        &self,
        range: &PoolScanRange,
        filter: &ValueFilter,
        programs: Option<&mut (dyn PoolProgramExecutor + '_)>,
    ) -> Result<Vec<(PoolScanRange, Option<FilteredScanPiece>)>, PoolError> {
        let whole = || vec![(range.clone(), None)];
        let (Some(programs), Some(program), Some(selected)) = (
            programs,
            self.tree.programs.get(ScanResultKind::Aggregates),
            filter.selected(),
        ) else {
            return Ok(whole());
        };
        let ranges = range.divide(&self.division(range));
        if ranges.len() < 2 {
            return Ok(whole());
        }
        let (mut ways, mut queries) = (Vec::new(), Vec::new());
        for part in &ranges {
            let Some(Some(words)) = part.words() else {
                return Ok(whole());
            };
            let way = self.find_leaf(&part.low).await?;
            queries.push(program.query(way.leaf, words, selected));
            ways.push(way);
        }
        let outcomes = programs.run_all(&queries, PIECE_LEAVES * program.iterations_a_leaf());
        if outcomes.len() != ranges.len() {
            return Ok(whole());
        }
        let mut parts = Vec::with_capacity(ranges.len());
        for ((part, way), outcome) in ranges.into_iter().zip(ways).zip(outcomes) {
            let piece = match outcome {
                Err(_) => None,
                Ok(outcome) => {
                    let request = FilteredScanRequest {
                        walk: ScanResultKind::Aggregates,
                        range: &part,
                        filter,
                        reads: READ_MIN,
                    };
                    let begun = (way, Some(outcome));
                    // The rest of a part has a session of its own.
                    let walked = self
                        .walk_from(&request, program, programs, begun, 0)
                        .await?;
                    match walked {
                        FilteredWalkOutcome::Piece(piece) => Some(piece),
                        FilteredWalkOutcome::Gone | FilteredWalkOutcome::Refused => None,
                    }
                }
            };
            parts.push((part, piece));
        }
        Ok(parts)
    }

    /// Runs a program that walks from leaf to leaf.
    async fn walk(
        &self,
        request: &FilteredScanRequest<'_>,
        program: &LeafProgram,
        programs: &mut (dyn PoolProgramExecutor + '_),
    ) -> Result<FilteredWalkOutcome, PoolError> {
        match request.range.words() {
            None => return Ok(FilteredWalkOutcome::Refused),
            Some(None) => return Ok(FilteredWalkOutcome::Piece(FilteredScanPiece::default())),
            Some(Some(_)) => {}
        }
        let way = self.find_leaf(&request.range.low).await?;
        self.walk_from(request, program, programs, (way, None), PIECE_LEAVES)
            .await
    }

    /// Runs a program from the leaf of a route on; its first run may have been made. Ends the piece
    /// when it has `piece_leaves` leaves, at the first leaf that this client must read itself.
    async fn walk_from(
        &self,
        request: &FilteredScanRequest<'_>,
        program: &LeafProgram,
        programs: &mut (dyn PoolProgramExecutor + '_),
        (way, mut begun): (ChimeLeafRoute, Option<TraversalOutcome>),
        piece_leaves: u64,
    ) -> Result<FilteredWalkOutcome, PoolError> {
        let (Some(Some(words)), Some(selected)) =
            (request.range.words(), request.filter.selected())
        else {
            return Ok(FilteredWalkOutcome::Refused);
        };
        let mut piece = FilteredScanPiece::default();
        let mut leaf = way.leaf;
        // The leaf that the walk has reached after a power of two of rounds, and the next such
        // number: a walk in a circle meets that leaf again.
        let (mut mark, mut rounds, mut marked_at) = (GlobalAddress::NULL, 0_u64, 1);
        loop {
            if leaf == mark {
                return Err(PoolError::Damaged { at: leaf });
            }
            rounds += 1;
            if rounds == marked_at {
                (mark, marked_at) = (leaf, 2 * rounds);
            }
            let run = match begun.take() {
                Some(outcome) => Ok(outcome),
                None => {
                    // At least one, so that each run makes progress.
                    let leaves = PIECE_LEAVES.saturating_sub(piece.at_nodes).max(1);
                    let query = program.query(leaf, words, selected);
                    programs.run(&query, leaves * program.iterations_a_leaf())
                }
            };
            let Ok(outcome) = run else {
                return Ok(FilteredWalkOutcome::Refused);
            };
            let end = program.end(&outcome);
            if let LeafProgramEnd::Refused(_) = end {
                return Ok(FilteredWalkOutcome::Refused);
            }
            piece.take_all(request, &outcome);
            let at = match end {
                LeafProgramEnd::Done => return Ok(FilteredWalkOutcome::Piece(piece)),
                LeafProgramEnd::Full(_) => {
                    // Entries are in the order of leaves only, so the last one may not be the
                    // greatest.
                    let last = piece.entries.iter().map(|(key, _)| key).max();
                    piece.rest = last.and_then(|last| request.range.behind(last));
                    return Ok(FilteredWalkOutcome::Piece(piece));
                }
                LeafProgramEnd::Before(leaf) => leaf,
                LeafProgramEnd::Gone | LeafProgramEnd::Refused(_) => {
                    self.forget(&way);
                    return Ok(FilteredWalkOutcome::Gone);
                }
            };
            // The program has not counted this leaf, so its entries are added only once.
            match self.read_one(request, at, &mut piece).await? {
                FilteredLeafRead::Last => return Ok(FilteredWalkOutcome::Piece(piece)),
                FilteredLeafRead::Gone => {
                    self.forget(&way);
                    return Ok(FilteredWalkOutcome::Gone);
                }
                FilteredLeafRead::Leaf { greatest, sibling } => {
                    // A leaf without entries names no key at which the piece could end, so the walk
                    // goes on behind it.
                    if piece.at_nodes >= piece_leaves
                        && let Some(greatest) = greatest
                    {
                        if *greatest >= *request.range.low {
                            piece.rest = request.range.behind(&greatest);
                            return Ok(FilteredWalkOutcome::Piece(piece));
                        }
                        // The route may have led to a leaf left of the range. But a leaf to the
                        // right has greater keys, and each piece ends behind the one before.
                        if piece.at_nodes >= PIECE_LEAVES {
                            return Err(PoolError::Damaged { at });
                        }
                    }
                    leaf = sibling;
                }
            }
        }
    }

    /// Reads one leaf, and adds its entries.
    async fn read_one(
        &self,
        request: &FilteredScanRequest<'_>,
        at: GlobalAddress,
        piece: &mut FilteredScanPiece,
    ) -> Result<FilteredLeafRead, PoolError> {
        let leaf: PoolLeaf = self.read_settled(at).await?;
        if !leaf.is_valid(0) {
            return Ok(FilteredLeafRead::Gone);
        }
        for slot in leaf.occupied() {
            if let Some(key) = leaf.key(slot) {
                piece.take(request, key, leaf.value(slot));
            }
        }
        let greatest = leaf.max_slot().and_then(|slot| leaf.key(slot));
        // An empty leaf does not show if the range ends in it.
        let is_beyond = greatest.is_some_and(|key| *key > *request.range.high);
        let sibling = leaf.sibling(0);
        Ok(if is_beyond || sibling.is_null() {
            FilteredLeafRead::Last
        } else {
            let greatest = greatest.map(<[u8]>::to_vec);
            FilteredLeafRead::Leaf { greatest, sibling }
        })
    }
}

/// The outcome of a program's walk.
enum FilteredWalkOutcome {
    /// The beginning of the range.
    Piece(FilteredScanPiece),
    /// A former leaf, which was one when the tree was read.
    Gone,
    /// A refusal: no memory node has run it.
    Refused,
}

/// The outcome of reading a leaf.
enum FilteredLeafRead {
    /// The last leaf of the range.
    Last,
    /// A former leaf, which is no leaf any more.
    Gone,
    /// A leaf, with its greatest key, if it has any.
    Leaf {
        greatest: Option<Vec<u8>>,
        sibling: GlobalAddress,
    },
}
