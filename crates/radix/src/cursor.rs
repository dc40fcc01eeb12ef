//! Ordered reads: the entries between two bounds, in chunks.
//!
//! A chunk is gathered level by level instead of depth first. The walk to the bound leaves an
//! ordered list of the subtrees to the right of its path (to the left, if descending). Each pass
//! replaces the inner nodes of the list with their children, and truncates the list after the
//! subtrees that are expected to hold the chunk's entries. If they hold fewer, another chunk
//! follows. All nodes of a pass are prefetched together, so that a chunk of 64 entries waits for
//! memory about as often as a single lookup does.
//!
//! Other threads may change the tree meanwhile. A list element that has become obsolete still shows
//! its state at an instant after the chunk began, so no entry that stays is missed. Its entries of
//! a range that another element has already shown are skipped.

use crate::leaf::{LeafForm, RadixScanRange};
use crate::lock::{Version, pause};
use crate::memory::RadixMemory;
use crate::node::{NodeRefKind, RadixInnerNode, Ref, Symbol};
use crate::prefetch::prefetch;
use crate::tree::RadixTree;
use crossbeam_epoch::Guard;
use nearfield_core::{EntriesWriter, ScanDirection};
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

/// Reusable memory for gathering chunks.
#[derive(Debug, Default)]
pub struct RadixScanScratch {
    /// The list of subtrees, and the number of leading ones that are leaves or dense nodes.
    items: Vec<Ref>,
    expanded: usize,
    /// The minimum number of entries that the list holds, the number that is wanted, and a flag:
    /// nothing has been cut off.
    entries: usize,
    target: usize,
    complete: bool,
    /// The list after the next pass.
    next: Vec<Ref>,
    path: Vec<(Ref, Symbol)>,
}

/// The end of a chunk.
pub enum ScanChunkEnd<K> {
    /// No more entries exist.
    Exhausted,
    /// More entries may follow after this key.
    After(K),
    /// The visitor has stopped the scan.
    Stopped,
    /// More entries may follow, but the chunk had none beyond the bound.
    TooShort,
    /// A concurrent change intervened before any entry was read.
    Disturbed,
}

/// Number of entries in the first chunk of a scan whose limit does not bound it.
const CHUNK_MIN: usize = 16;
/// The maximum number of entries in a chunk.
pub const CHUNK_MAX: usize = 512;

impl<F: LeafForm> RadixTree<F> {
    /// Calls `visit` for the entries in `direction`, starting at a bound, until it breaks or no
    /// entry is left. `expected` is the number of entries that the caller will take, if known.
    pub fn scan<'g>(
        &'g self,
        from: Bound<F::Key<'g>>,
        direction: ScanDirection,
        expected: usize,
        scratch: &mut RadixScanScratch,
        guard: &'g Guard,
        visit: impl FnMut(F::Key<'g>, F::Value<'_>) -> ControlFlow<()>,
    ) {
        let chunk = expected.clamp(1, CHUNK_MAX);
        let scan = RadixScanRange {
            from,
            to: Bound::Unbounded,
            direction,
            limit: usize::MAX,
        };
        let mut reader = VisitorChunkReader::<F, _> {
            scan,
            last: None,
            visit,
        };
        let first = self.scan_chunk(from, direction, chunk, scratch, guard, &mut reader);
        self.scan_on(first, &scan, chunk, scratch, guard, &mut reader);
    }

    /// Continues a scan whose first chunk has ended.
    pub fn scan_on<'g>(
        &'g self,
        ended: ScanChunkEnd<F::Key<'g>>,
        scan: &RadixScanRange<F::Key<'g>>,
        chunk: usize,
        scratch: &mut RadixScanScratch,
        guard: &'g Guard,
        reader: &mut impl ScanChunkReader<'g, F>,
    ) {
        let (mut ended, mut from, mut chunk) = (ended, scan.from, chunk);
        let mut waits = 0;
        loop {
            match ended {
                ScanChunkEnd::Exhausted | ScanChunkEnd::Stopped => return,
                ScanChunkEnd::After(key) => {
                    from = Bound::Excluded(key);
                    // A scan that goes on probably reads much more. Larger chunks wait for memory
                    // less often.
                    chunk = (chunk * 2).clamp(CHUNK_MIN, CHUNK_MAX);
                }
                // The bound stays: all entries that were gathered are before it.
                ScanChunkEnd::TooShort => chunk *= 2,
                ScanChunkEnd::Disturbed => pause(&mut waits),
            }
            ended = self.scan_chunk(from, scan.direction, chunk, scratch, guard, reader);
        }
    }

    #[inline(never)]
    fn scan_chunk<'g>(
        &'g self,
        from: Bound<F::Key<'g>>,
        direction: ScanDirection,
        chunk: usize,
        scratch: &mut RadixScanScratch,
        guard: &'g Guard,
        reader: &mut impl ScanChunkReader<'g, F>,
    ) -> ScanChunkEnd<F::Key<'g>> {
        if !self.begin_chunk(from, direction, chunk, scratch, guard) {
            return ScanChunkEnd::Disturbed;
        }
        while self.expand(direction, scratch) {}
        reader.begin(from);
        self.finish_chunk(scratch, guard, reader)
    }

    /// Gathers the subtrees that hold the first `chunk` entries from a bound on. Returns false if a
    /// concurrent change intervened.
    pub fn begin_chunk<'g>(
        &'g self,
        from: Bound<F::Key<'g>>,
        direction: ScanDirection,
        chunk: usize,
        scratch: &mut RadixScanScratch,
        guard: &'g Guard,
    ) -> bool {
        scratch.items.clear();
        scratch.path.clear();
        (scratch.expanded, scratch.entries) = (0, 0);
        // One more than requested: the first may be entirely before the bound.
        let target = chunk + 1;
        scratch.target = target;
        let complete = match from {
            Bound::Unbounded => {
                self.gather_siblings(self.root, None, None, direction, target, scratch)
            }
            Bound::Included(key) | Bound::Excluded(key) => {
                self.gather_from(key, direction, target, scratch, guard)
            }
        };
        scratch.complete = complete == Some(true);
        complete.is_some()
    }

    /// Walks to a key and gathers the subtrees that follow, up to `target` of them. Returns true if
    /// these are all; `None` if a concurrent change intervened.
    fn gather_from<'g>(
        &'g self,
        key: F::Key<'g>,
        direction: ScanDirection,
        target: usize,
        scratch: &mut RadixScanScratch,
        guard: &'g Guard,
    ) -> Option<bool> {
        let (mut node, mut symbol) = (self.root, Self::first_symbol(key));
        let mut inner = self.memory.inner(node);
        let (mut depth, mut skipped) = (0, false);
        let (last, version) = loop {
            let child = self.child(inner, symbol);
            if child.is_inner() {
                let inner_below = self.memory.inner(child);
                let below = inner_below.header().depth();
                if let Some(next) = F::symbol(key, below) {
                    scratch.path.push((node, symbol));
                    skipped |= below > depth + 1;
                    (node, symbol, depth) = (child, next, below);
                    inner = inner_below;
                    continue;
                }
                // The key ends before this node decides, so it may differ in the bytes between.
                skipped |= below > depth + 1;
            }
            // A leaf may cover a range, so the following slots must be read at the same version.
            let version = inner.header().lock.read();
            let (again, start) = (F::child(inner, symbol), inner.start_of(symbol));
            if again == child && inner.header().lock.validate(version) {
                scratch.path.push((node, start));
                break (child, version);
            }
        };
        // The first subtree is the one at which the walk has ended. If the key differs from all
        // keys below a node of the path in bytes that were skipped, it is that node.
        let mut include = None;
        let other = match last.kind() {
            NodeRefKind::Nothing if !skipped => None,
            NodeRefKind::Leaf if !skipped => {
                // It covers the key, regardless of its entries.
                include = Some(last);
                None
            }
            NodeRefKind::Nothing => Some(self.any_key(node, guard)?),
            _ => Some(self.any_key(last, guard)?),
        };
        let mut version = Some(version);
        if let Some(other) = other {
            let difference = F::difference(key, other).unwrap_or(usize::MAX);
            let mut candidate = last;
            while let Some(&(node, _)) = scratch.path.last()
                && self.memory.inner(node).header().depth() > difference
            {
                candidate = node;
                scratch.path.pop();
                // A node above was read earlier, at no version that is known here.
                version = None;
            }
            let before = match direction {
                ScanDirection::Ascending => Ordering::Less,
                ScanDirection::Descending => Ordering::Greater,
            };
            // A subtree that contains the key's own place is kept, and filtered at the end.
            let covers = match candidate.is_inner() {
                true => difference >= self.memory.inner(candidate).header().depth(),
                false => version.is_some() && F::covers(candidate, depth, difference),
            };
            if !candidate.is_null() && (covers || other.cmp(&key) != before) {
                include = Some(candidate);
            }
        }
        if let Some(node) = include {
            // The subtree at the bound itself may have no entries beyond it.
            self.push(scratch, node);
            // It counts as none, so that enough other subtrees are gathered.
            scratch.entries = 0;
        }
        while let Some((node, symbol)) = scratch.path.pop() {
            let at = version.take();
            if !self.gather_siblings(node, Some(symbol), at, direction, target, scratch)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Adds the children of a node after a symbol to the list, up to `target` entries. Returns true
    /// if these are all. Returns `None` if the node no longer has the version `at`. Without a
    /// version it returns `None` if a leaf covers the symbol and more after it: the walk has found
    /// a node there, a leaf has since replaced that node, and that leaf has joined others.
    fn gather_siblings(
        &self,
        node: Ref,
        behind: Option<Symbol>,
        at: Option<Version>,
        direction: ScanDirection,
        target: usize,
        scratch: &mut RadixScanScratch,
    ) -> Option<bool> {
        let inner = self.memory.inner(node);
        let lock = &inner.header().lock;
        let (start, entries) = (scratch.items.len(), scratch.entries);
        loop {
            let version = lock.read();
            if at.is_some_and(|at| at != version) {
                return None;
            }
            let joined =
                at.is_none() && behind.is_some_and(|at| reaches_behind(inner, at, direction));
            let mut complete = true;
            inner.walk(behind, direction, |node| {
                complete = scratch.entries < target;
                if complete {
                    self.push(scratch, node);
                }
                complete
            });
            if lock.validate(version) {
                return (!joined).then_some(complete);
            }
            // Another thread has changed the node. Its children are gathered from the beginning.
            scratch.items.truncate(start);
            scratch.entries = entries;
        }
    }

    #[inline]
    fn push(&self, scratch: &mut RadixScanScratch, node: Ref) {
        self.prefetch_item(node);
        scratch.entries += F::entries_expected(node.tag());
        scratch.items.push(node);
    }

    /// Performs one pass: replaces inner nodes with their children and truncates the list when it
    /// holds enough entries. Returns true if inner nodes are left.
    pub fn expand(&self, direction: ScanDirection, scratch: &mut RadixScanScratch) -> bool {
        let RadixScanScratch {
            items,
            next,
            expanded,
            target,
            complete,
            ..
        } = scratch;
        let is_final = |node: &&Ref| !node.is_inner();
        let expected = |node: &Ref| F::entries_expected(node.tag());
        *expanded += items[*expanded..].iter().take_while(is_final).count();
        // All entries of the first subtree may be before the bound.
        let certain = items[..*expanded].iter().skip(1);
        let mut entries: usize = certain.map(expected).sum();
        next.clear();
        let mut inner_left = false;
        for &node in &items[*expanded..] {
            if entries >= *target {
                *complete = false;
                break;
            }
            if !node.is_inner() {
                entries += expected(&node);
                next.push(node);
                continue;
            }
            let node = self.memory.inner(node);
            let lock = &node.header().lock;
            let (start, before) = (next.len(), entries);
            loop {
                let version = lock.read();
                let (mut fits, mut inner_here) = (true, false);
                node.walk(None, direction, |child| {
                    fits = entries < *target;
                    if fits {
                        self.prefetch_item(child);
                        // The first child may be that of the bound, with all its entries before it.
                        let is_first = *expanded == 0 && next.is_empty();
                        entries += if is_first { 0 } else { expected(&child) };
                        inner_here |= child.is_inner();
                        next.push(child);
                    }
                    fits
                });
                if lock.validate(version) {
                    *complete &= fits;
                    inner_left |= inner_here;
                    break;
                }
                next.truncate(start);
                entries = before;
            }
        }
        items.truncate(*expanded);
        items.append(next);
        inner_left
    }

    /// Prefetches the lines of a subtree's top that the next pass reads.
    #[inline]
    fn prefetch_item(&self, node: Ref) {
        // Arithmetic, because a branch on the kind would often be mispredicted. For leaves of words
        // and node4s the second line is the first again.
        let line = self.memory.line(node);
        prefetch(line);
        let second = match node.tag() == NodeRefKind::Leaf as usize {
            true => F::LEAF_SECOND_LINE,
            false => 64 * usize::from(node.is_wider_than_a_line()),
        };
        prefetch(line.wrapping_add(second));
        for further in 2..F::LEAF_LINES {
            prefetch(line.wrapping_add(64 * further));
        }
    }

    /// Reads the entries of a list that has been expanded to leaves and dense nodes.
    #[inline]
    pub fn finish_chunk<'g>(
        &'g self,
        scratch: &RadixScanScratch,
        guard: &'g Guard,
        reader: &mut impl ScanChunkReader<'g, F>,
    ) -> ScanChunkEnd<F::Key<'g>> {
        for &node in &scratch.items {
            if reader.read(&self.memory, node, guard).is_break() {
                return ScanChunkEnd::Stopped;
            }
        }
        match reader.last() {
            // Nothing was cut off, so even a list without entries is the end.
            _ if scratch.complete => ScanChunkEnd::Exhausted,
            Some(key) => ScanChunkEnd::After(key),
            None => ScanChunkEnd::TooShort,
        }
    }
}

/// Returns true if a leaf covers a symbol of a node and the next one in `direction`. Must be
/// validated.
#[inline]
fn reaches_behind(node: RadixInnerNode<'_>, symbol: Symbol, direction: ScanDirection) -> bool {
    let next = match direction {
        ScanDirection::Ascending if symbol < 255 => symbol + 1,
        ScanDirection::Descending if symbol > 0 && symbol < 256 => symbol - 1,
        _ => return false,
    };
    let child = node.covering(symbol as u8);
    child.is_leaf() && node.covering(next as u8) == child
}

/// Reader of the leaves and dense nodes of a chunk, starting at its bound.
pub trait ScanChunkReader<'g, F: LeafForm> {
    /// Begins a chunk whose bound is not that of the first one.
    fn begin(&mut self, from: Bound<F::Key<'g>>);
    /// Reads the entries of one leaf or dense node. Breaks if it needs no more.
    fn read(&mut self, memory: &'g RadixMemory, node: Ref, guard: &'g Guard) -> ControlFlow<()>;
    /// Returns the last key of the chunk that has been read.
    fn last(&self) -> Option<F::Key<'g>>;
}

/// The reader that calls a visitor for each entry.
pub struct VisitorChunkReader<'g, F: LeafForm, V> {
    pub scan: RadixScanRange<F::Key<'g>>,
    pub last: Option<F::Key<'g>>,
    pub visit: V,
}

impl<'g, F: LeafForm, V> ScanChunkReader<'g, F> for VisitorChunkReader<'g, F, V>
where
    V: FnMut(F::Key<'g>, F::Value<'_>) -> ControlFlow<()>,
{
    fn begin(&mut self, from: Bound<F::Key<'g>>) {
        self.scan.from = from;
        self.last = None;
    }

    fn read(&mut self, memory: &'g RadixMemory, node: Ref, guard: &'g Guard) -> ControlFlow<()> {
        let VisitorChunkReader { scan, last, visit } = self;
        let (from, direction) = (scan.from, scan.direction);
        let mut is_first = true;
        F::entries(memory, node, from, direction, guard, |key, value| {
            if is_first && !scan.is_next(*last, key) {
                return ControlFlow::Continue(());
            }
            is_first = false;
            *last = Some(key);
            visit(key, value)
        })
    }

    fn last(&self) -> Option<F::Key<'g>> {
        self.last
    }
}

/// The reader that writes entries to the outcome of a scan.
pub struct OutputChunkReader<'w, 'o, 'g, F: LeafForm> {
    pub scan: RadixScanRange<F::Key<'g>>,
    pub last: Option<F::Key<'g>>,
    pub writer: &'w mut EntriesWriter<'o, F>,
}

impl<'g, F: LeafForm> ScanChunkReader<'g, F> for OutputChunkReader<'_, '_, 'g, F> {
    fn begin(&mut self, from: Bound<F::Key<'g>>) {
        self.scan.from = from;
        self.last = None;
    }

    #[inline]
    fn read(&mut self, memory: &'g RadixMemory, node: Ref, guard: &'g Guard) -> ControlFlow<()> {
        F::write_entries(memory, node, &self.scan, &mut self.last, guard, self.writer)
    }

    fn last(&self) -> Option<F::Key<'g>> {
        self.last
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::change::RadixKeyChange;
    use crate::counters::Off;
    use crate::leaf::ReadLeaf;
    use nearfield_core::{Batch, ByteStrings};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeSet;

    const KEYS: u16 = 500;

    fn key_of(number: u16) -> [u8; 2] {
        number.to_be_bytes()
    }

    fn stays(number: u16) -> bool {
        number.is_multiple_of(50)
    }

    fn modify(tree: &RadixTree<ByteStrings>, number: u16, change: RadixKeyChange<&[u8]>) {
        let (key, guard) = (key_of(number), tree.writer());
        let changed = tree.modify(&key[..], &guard, &mut Off, &mut |_| change);
        changed.expect("memory");
    }

    /// Adds and removes runs of keys, and leaves some keys in place.
    fn change(tree: &RadixTree<ByteStrings>, rng: &mut SmallRng) {
        for _ in 0..rng.random_range(1..20) {
            let start = rng.random_range(0..KEYS);
            let run = start..KEYS.min(start + rng.random_range(1..100));
            let removes = rng.random();
            for number in run {
                if removes && !stays(number) {
                    modify(tree, number, RadixKeyChange::Remove);
                } else {
                    // A long value has its own block.
                    let length = match rng.random_bool(0.1) {
                        true => 1100,
                        false => rng.random_range(0..40),
                    };
                    let value = vec![1; length];
                    modify(tree, number, RadixKeyChange::Set(&value));
                }
            }
        }
    }

    /// Gathers the blocks of a chunk, makes the tree change, and then reads the blocks.
    fn check_scans_beside_changes(direction: ScanDirection, writes: bool) {
        let mut rng = SmallRng::seed_from_u64(11);
        const EPISODES: usize = 130;
        let mut disturbed = 0;
        for episode in 0..EPISODES {
            let tree = &RadixTree::<ByteStrings>::new(usize::MAX).expect("address space");
            for number in (0..KEYS).filter(|&number| stays(number)) {
                modify(tree, number, RadixKeyChange::Set(&[0]));
            }
            change(tree, &mut rng);
            let guard = crossbeam_epoch::pin();
            let mut scratch = RadixScanScratch::default();
            let begun =
                tree.begin_chunk(Bound::Unbounded, direction, 1 << 20, &mut scratch, &guard);
            assert!(begun, "no block has changed yet");
            while tree.expand(direction, &mut scratch) {}
            let items = scratch.items.clone();
            change(tree, &mut rng);
            let scan = RadixScanRange {
                from: Bound::Unbounded,
                to: Bound::Unbounded,
                direction,
                limit: usize::MAX,
            };
            let mut met: Vec<Vec<u8>> = Vec::new();
            if writes {
                let mut batch = Batch::<ByteStrings>::new();
                batch.scan(Bound::Unbounded, Bound::Unbounded, u32::MAX, direction);
                let (_, mut output) = batch.begin().expect("a batch");
                let mut writer = output.begin_entries(0);
                let mut reader = OutputChunkReader::<ByteStrings> {
                    scan,
                    last: None,
                    writer: &mut writer,
                };
                tree.finish_chunk(&scratch, &guard, &mut reader);
                writer.finish();
                let entries = batch.entries(0);
                met.extend(entries.map(|(key, _)| key.to_vec()));
            } else {
                let visit = |key: &[u8], _: &[u8]| {
                    met.push(key.to_vec());
                    ControlFlow::Continue(())
                };
                let last = None;
                let mut reader = VisitorChunkReader::<ByteStrings, _> { scan, last, visit };
                tree.finish_chunk(&scratch, &guard, &mut reader);
            }
            if direction == ScanDirection::Descending {
                met.reverse();
            }
            let in_order = met.is_sorted_by(|a, b| a < b);
            assert!(
                in_order,
                "episode {episode}: out of order, or visited twice"
            );
            let met: BTreeSet<Vec<u8>> = met.into_iter().collect();
            let mut stay = (0..KEYS).filter(|&number| stays(number)).map(key_of);
            assert!(stay.all(|key| met.contains(&key[..])), "episode {episode}");
            let dead = |leaf: &Ref| ByteStrings::any_key(&tree.memory, *leaf, &guard).is_none();
            disturbed += usize::from(items.iter().any(dead));
        }
        assert!(
            disturbed > EPISODES / 2,
            "blocks were replaced in {disturbed} scans"
        );
    }

    /// A dead block may show keys of a range that another block, which was live when it was read,
    /// had already taken over.
    #[test]
    fn keys_come_in_order_though_blocks_have_taken_the_ranges_of_others() {
        for direction in [ScanDirection::Ascending, ScanDirection::Descending] {
            for writes in [false, true] {
                check_scans_beside_changes(direction, writes);
            }
        }
    }
}
