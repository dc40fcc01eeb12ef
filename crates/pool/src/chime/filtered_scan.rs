//! Scans with a filter, and aggregates. A program at the memory nodes walks from leaf to leaf.
//! Where it stops because a leaf was changed meanwhile, the client reads that leaf by itself, and
//! has the program go on behind it. Where there are no programs, the client reads all leaves.
//!
//! An operation consists of pieces. Each has a session of its own, so that it may follow addresses
//! of leaves, and counts only if that was valid to its end. A piece ends at a key.

use super::Tree;
use super::session::Session;
use crate::error::PoolError;
use crate::filtered::{Aggregates, End, Filter, LeafProgram, Programs, ScanRange, Walk, number};
use crate::index::Entry;
use crate::layout::Leaf;
use nearfield_fabric::{Endpoint, GlobalAddress};
use nearfield_offload::traversal::Outcome;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// After so many leaves a piece ends, so that it does not delay the reclamation of memory.
const PIECE_LEAVES: u64 = 1024;
/// Entries that a client reads by itself in the first piece, and at most: more each time.
const READ_MIN: usize = 64;
const READ_MAX: usize = 4096;

/// The leaves of a tree that were read for scans of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafReads {
    /// By programs, where they lie.
    pub at_nodes: u64,
    /// By this process.
    pub here: u64,
    /// Programs that no memory node has run: this process has read the leaves instead.
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

/// What is asked for.
#[derive(Clone, Copy, Debug)]
struct Request<'r> {
    walk: Walk,
    range: &'r ScanRange,
    filter: &'r Filter,
    /// How many entries a client reads by itself at once.
    reads: usize,
}

/// The answer for the beginning of a range.
#[derive(Debug, Default)]
struct Piece {
    aggregates: Aggregates,
    entries: Vec<Entry>,
    /// What is left of the range.
    rest: Option<ScanRange>,
    at_nodes: u64,
    refused: bool,
}

impl Piece {
    /// Takes an entry in, if it was asked for.
    fn take(&mut self, request: &Request<'_>, key: &[u8], value: &[u8]) {
        let word = number(value);
        if !request.range.contains(key) || !request.filter.matches(word) {
            return;
        }
        match request.walk {
            Walk::Aggregates => self.aggregates.extend([word]),
            Walk::Entries => self.entries.push((key.to_vec(), value.to_vec())),
        }
    }

    /// Takes in what a program has found.
    fn take_all(&mut self, request: &Request<'_>, outcome: &Outcome) {
        self.at_nodes += LeafProgram::leaves(outcome);
        match request.walk {
            Walk::Aggregates => self.aggregates.join(&LeafProgram::aggregates(outcome)),
            Walk::Entries => {
                let entries = LeafProgram::entries(outcome);
                let entries = entries.map(|(key, value)| {
                    let key = request.range.key_of(key);
                    (key, value.to_le_bytes().to_vec())
                });
                self.entries.extend(entries);
            }
        }
    }
}

impl<E: Endpoint> Tree<E> {
    /// The aggregates of the values in a range that a filter selects; the first eight bytes of a
    /// value count ([`number`]). As of a scan, each entry is as it was at some time of the call.
    ///
    /// Memory nodes that `programs` leads to read the leaves where they lie, if keys and values are
    /// words, of eight bytes. Otherwise, or if they refuse, this client reads them, with the same
    /// result: [`leaf_reads`](Tree::leaf_reads) tells.
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub async fn aggregate(
        &self,
        range: &ScanRange,
        filter: &Filter,
        mut programs: Option<&mut (dyn Programs + '_)>,
    ) -> Result<Aggregates, PoolError> {
        range.check(self.leaves.geometry().shape().key_bytes)?;
        let mut aggregates = Aggregates::default();
        let mut rest = Some(range.clone());
        let mut reads = READ_MIN;
        while let Some(range) = rest {
            let request = Request {
                walk: Walk::Aggregates,
                range: &range,
                filter,
                reads,
            };
            let programs = programs.as_mut().map(|programs| &mut **programs as _);
            let piece = self.piece(&request, programs).await?;
            aggregates.join(&piece.aggregates);
            rest = piece.rest;
            reads = (2 * reads).min(READ_MAX);
        }
        Ok(aggregates)
    }

    /// Entries at the beginning of a range that a filter selects, in ascending order, and what is
    /// left of the range. There may be no entry although something is left. Otherwise as
    /// [`aggregate`](Tree::aggregate).
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub async fn select(
        &self,
        range: &ScanRange,
        filter: &Filter,
        programs: Option<&mut (dyn Programs + '_)>,
    ) -> Result<(Vec<Entry>, Option<ScanRange>), PoolError> {
        range.check(self.leaves.geometry().shape().key_bytes)?;
        let request = Request {
            walk: Walk::Entries,
            range,
            filter,
            reads: READ_MAX / 4,
        };
        let mut piece = self.piece(&request, programs).await?;
        piece.entries.sort_unstable();
        Ok((piece.entries, piece.rest))
    }

    /// The leaves that scans of this compute node have read, and where.
    pub fn leaf_reads(&self) -> LeafReads {
        self.node.leaf_reads()
    }

    /// The beginning of a range, in a session of its own.
    async fn piece(
        &self,
        request: &Request<'_>,
        mut programs: Option<&mut (dyn Programs + '_)>,
    ) -> Result<Piece, PoolError> {
        if request.range.is_empty() || request.filter.selected().is_none() {
            return Ok(Piece::default());
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

impl<E: Endpoint> Session<'_, E> {
    async fn piece(
        &self,
        request: &Request<'_>,
        programs: Option<&mut (dyn Programs + '_)>,
    ) -> Result<Piece, PoolError> {
        let mut refused = false;
        if let Some(programs) = programs
            && let Some(program) = self.tree.programs.get(request.walk)
        {
            match self.walk(request, program, programs).await? {
                Walked::Piece(piece) => return Ok(piece),
                Walked::Gone => {}
                Walked::Refused => refused = true,
            }
        }
        let piece = self.read_piece(request).await?;
        Ok(Piece { refused, ..piece })
    }

    /// Reads the beginning of a range as a scan does.
    async fn read_piece(&self, request: &Request<'_>) -> Result<Piece, PoolError> {
        let mut piece = Piece::default();
        let entries = self.scan_from(&request.range.low, request.reads).await?;
        for (key, value) in &entries {
            piece.take(request, key, value);
        }
        if entries.len() == request.reads
            && let Some((last, _)) = entries.last()
        {
            piece.rest = request.range.behind(last);
        }
        Ok(piece)
    }

    /// Has a program walk from leaf to leaf.
    async fn walk(
        &self,
        request: &Request<'_>,
        program: &LeafProgram,
        programs: &mut (dyn Programs + '_),
    ) -> Result<Walked, PoolError> {
        let (Some(words), Some(selected)) = (request.range.words(), request.filter.selected())
        else {
            return Ok(Walked::Refused);
        };
        let mut piece = Piece::default();
        let Some(words) = words else {
            return Ok(Walked::Piece(piece));
        };
        let way = self.find_leaf(&request.range.low).await?;
        let mut leaf = way.leaf;
        loop {
            let leaves = PIECE_LEAVES.saturating_sub(piece.at_nodes).max(1);
            let query = program.query(leaf, words, selected);
            let run = programs.run(&query, leaves * program.iterations_a_leaf());
            let Ok(outcome) = run else {
                return Ok(Walked::Refused);
            };
            let end = program.end(&outcome);
            if let End::Refused(_) = end {
                return Ok(Walked::Refused);
            }
            piece.take_all(request, &outcome);
            let at = match end {
                End::Done => return Ok(Walked::Piece(piece)),
                End::Full(_) => {
                    let last = piece.entries.iter().map(|(key, _)| key).max();
                    piece.rest = last.and_then(|last| request.range.behind(last));
                    return Ok(Walked::Piece(piece));
                }
                End::Before(leaf) => leaf,
                End::Gone | End::Refused(_) => {
                    self.forget(&way);
                    return Ok(Walked::Gone);
                }
            };
            match self.read_one(request, at, &mut piece).await? {
                Read::Last => return Ok(Walked::Piece(piece)),
                Read::Gone => {
                    self.forget(&way);
                    return Ok(Walked::Gone);
                }
                Read::Leaf { greatest, sibling } => {
                    if piece.at_nodes >= PIECE_LEAVES
                        && let Some(greatest) = greatest
                    {
                        piece.rest = request.range.behind(&greatest);
                        return Ok(Walked::Piece(piece));
                    }
                    leaf = sibling;
                }
            }
        }
    }

    /// Reads one leaf, and takes its entries in.
    async fn read_one(
        &self,
        request: &Request<'_>,
        at: GlobalAddress,
        piece: &mut Piece,
    ) -> Result<Read, PoolError> {
        let leaf: Leaf = self.read_settled(at).await?;
        if !leaf.is_valid(0) {
            return Ok(Read::Gone);
        }
        for slot in leaf.occupied() {
            if let Some(key) = leaf.key(slot) {
                piece.take(request, key, leaf.value(slot));
            }
        }
        let greatest = leaf.max_slot().and_then(|slot| leaf.key(slot));
        let is_beyond = greatest.is_some_and(|key| *key > *request.range.high);
        let sibling = leaf.sibling(0);
        Ok(if is_beyond || sibling.is_null() {
            Read::Last
        } else {
            let greatest = greatest.map(<[u8]>::to_vec);
            Read::Leaf { greatest, sibling }
        })
    }
}

/// What has become of a program's walk.
enum Walked {
    /// The beginning of the range.
    Piece(Piece),
    /// It has come to what was a leaf when the tree was read.
    Gone,
    /// No memory node has run it.
    Refused,
}

/// A leaf that was read.
enum Read {
    /// There is nothing of the range behind it.
    Last,
    /// It is a leaf no more.
    Gone,
    /// A leaf, with its greatest key, if it has any.
    Leaf {
        greatest: Option<Vec<u8>>,
        sibling: GlobalAddress,
    },
}
