//! The nodes of one level, ordered by their least keys.
//!
//! ```text
//! directory | run | run | ...              replaced when runs are divided or joined
//! run       | node, node, ... | uses       replaced when a node comes or goes
//! ```
//!
//! Readers see the last published version of each part as a whole. Divided or joined runs stay
//! unchanged for readers of the former directory.

use super::CacheableNode;
use arc_swap::{ArcSwap, Guard};
use arrayvec::ArrayVec;
use nearfield_fabric::prefetch;
use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Maximum number of nodes of a run. Two neighbors have more than half of it together, so that runs
/// are at least a quarter full on average.
pub(super) const RUN_MAX: usize = 64;
/// Number of bytes that an allocator puts in front of an allocation.
pub(crate) const HEADER_BYTES: usize = 8;
/// Number of bytes of the counts of an `Arc`, and of its allocation.
const ARC_BYTES: usize = 2 * size_of::<usize>() + HEADER_BYTES;
/// Number of bytes of a node besides its own and the share of its run.
pub(super) const NODE_BYTES: usize =
    ARC_BYTES + size_of::<u64>() + size_of::<CacheRunEntry<()>>() + size_of::<AtomicU8>();
/// Number of bytes of a run besides its nodes and its bound, with its entry in the directory; no
/// less than those of a directory besides its runs.
pub(super) const RUN_BYTES: usize = 2 * ARC_BYTES
    + 4 * HEADER_BYTES
    + size_of::<CacheNodeRun<()>>()
    + size_of::<CacheRunNodes<()>>()
    + size_of::<u64>()
    + size_of::<Arc<CacheNodeRun<()>>>();
const DIRECTORY_BYTES: usize = ARC_BYTES + 2 * HEADER_BYTES + size_of::<IndexCacheDirectory<()>>();
const _: () = assert!(DIRECTORY_BYTES <= RUN_BYTES);

/// Number of first bytes of keys, which tell most keys apart and are compared as numbers.
const PREFIX_BYTES: usize = 8;

/// Maximum number of nodes whose memory is prefetched at once. arc_swap has no more cheap guards
/// per thread.
const SOUGHT_MAX: usize = 8;

/// Returns a key's first eight bytes as a number, with zeros in place of missing bytes.
pub(crate) fn prefix(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; PREFIX_BYTES];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// Returns how many of `count` sorted keys are not greater than `key`, given the prefixes of all.
fn not_greater<'k>(
    count: usize,
    prefix_at: impl Fn(usize) -> u64,
    key_at: impl Fn(usize) -> &'k [u8],
    key: &[u8],
    prefix: u64,
) -> usize {
    let end = partition(0..count, |position| prefix_at(position) <= prefix);
    let is_tie = end > 0 && prefix_at(end - 1) == prefix;
    if !is_tie || key.len() <= PREFIX_BYTES {
        return end;
    }
    // The bytes behind the prefix distinguish nodes of one prefix. Most prefixes have one node.
    let start = match end > 1 && prefix_at(end - 2) == prefix {
        true => partition(0..end - 1, |position| prefix_at(position) < prefix),
        false => end - 1,
    };
    partition(start..end, |position| key_at(position) <= key)
}

/// Returns the first position for which `is_before` is false; it must be true before and false
/// behind that. Without branches that depend on the results, which no processor could predict.
pub(crate) fn partition(positions: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut start, mut length) = (positions.start, positions.len());
    while length > 1 {
        let half = length / 2;
        start = select_unpredictable(is_before(start + half - 1), start + half, start);
        length -= half;
    }
    start + usize::from(length == 1 && is_before(start))
}

/// The nodes of one level.
#[derive(Debug)]
pub(super) struct IndexCacheDirectory<N> {
    /// Prefixes of the bounds of the runs.
    prefixes: Box<[u64]>,
    runs: Box<[Arc<CacheNodeRun<N>>]>,
    /// Number of bytes of the bounds, together.
    bound_bytes: usize,
}

/// Consecutive nodes.
#[derive(Debug)]
struct CacheNodeRun<N> {
    /// The least key that may be the least key of a node here. Empty in the first run.
    bound: Box<[u8]>,
    nodes: ArcSwap<CacheRunNodes<N>>,
}

#[derive(Debug)]
struct CacheRunNodes<N> {
    /// The nodes' least keys, apart from the nodes, because searches read these.
    prefixes: Box<[u64]>,
    entries: Box<[CacheRunEntry<N>]>,
    /// Number of times that each node was found, saturating.
    uses: Box<[AtomicU8]>,
}

#[derive(Debug)]
struct CacheRunEntry<N> {
    /// Prefix of the least key behind the node: a key with a lesser prefix is not behind it, so
    /// that the node need not be read.
    high_prefix: u64,
    node: Arc<N>,
}

impl<N: CacheableNode> CacheRunEntry<N> {
    fn new(node: Arc<N>) -> CacheRunEntry<N> {
        CacheRunEntry {
            high_prefix: node.high().map_or(u64::MAX, prefix),
            node,
        }
    }
}

impl<N> Clone for CacheRunEntry<N> {
    fn clone(&self) -> CacheRunEntry<N> {
        CacheRunEntry {
            high_prefix: self.high_prefix,
            node: Arc::clone(&self.node),
        }
    }
}

/// The position of a node: its run, and its position there.
pub(super) type Place = (usize, usize);

impl<N: CacheableNode> CacheRunNodes<N> {
    fn new(of: impl Iterator<Item = (CacheRunEntry<N>, u8)>) -> CacheRunNodes<N> {
        let (entries, uses): (Vec<_>, Vec<_>) =
            of.map(|(entry, uses)| (entry, AtomicU8::new(uses))).unzip();
        let prefixes: Box<[u64]> = entries
            .iter()
            .map(|entry: &CacheRunEntry<N>| prefix(entry.node.low()))
            .collect();
        debug_assert!(entries.len() <= RUN_MAX && prefixes.is_sorted());
        CacheRunNodes {
            prefixes,
            entries: entries.into(),
            uses: uses.into(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (CacheRunEntry<N>, u8)> {
        let uses = self.uses.iter().map(|uses| uses.load(Relaxed));
        self.entries.iter().cloned().zip(uses)
    }

    fn not_greater(&self, key: &[u8], prefix: u64) -> usize {
        let prefix_at = |position: usize| self.prefixes[position];
        let key_at = |position: usize| self.entries[position].node.low();
        not_greater(self.prefixes.len(), prefix_at, key_at, key, prefix)
    }

    /// Returns the node at a position, unless the key, which must not be less than its least one,
    /// is behind it.
    fn use_at(&self, position: usize, key: &[u8], prefix: u64) -> Option<&Arc<N>> {
        let CacheRunEntry { high_prefix, node } = &self.entries[position];
        // The node is on another line, and is read only if its prefix does not decide.
        if prefix >= *high_prefix && node.high().is_some_and(|high| high <= key) {
            return None;
        }
        let uses = &self.uses[position];
        let count = uses.load(Relaxed);
        if count < u8::MAX {
            // Concurrent counts may be lost.
            uses.store(count + 1, Relaxed);
        }
        Some(node)
    }
}

impl<N: CacheableNode> CacheNodeRun<N> {
    fn new(bound: &[u8], nodes: CacheRunNodes<N>) -> Arc<CacheNodeRun<N>> {
        Arc::new(CacheNodeRun {
            bound: bound.into(),
            nodes: ArcSwap::from_pointee(nodes),
        })
    }
}

impl<N: CacheableNode> IndexCacheDirectory<N> {
    /// Creates the directory of one node.
    pub(super) fn with(node: Arc<N>) -> IndexCacheDirectory<N> {
        let nodes = CacheRunNodes::new([(CacheRunEntry::new(node), 1)].into_iter());
        IndexCacheDirectory::new([CacheNodeRun::new(&[], nodes)].into_iter())
    }

    fn new(runs: impl Iterator<Item = Arc<CacheNodeRun<N>>>) -> IndexCacheDirectory<N> {
        let runs: Box<[Arc<CacheNodeRun<N>>]> = runs.collect();
        let prefixes: Box<[u64]> = runs.iter().map(|run| prefix(&run.bound)).collect();
        debug_assert!(runs.first().is_some_and(|run| run.bound.is_empty()));
        debug_assert!(prefixes.is_sorted());
        IndexCacheDirectory {
            prefixes,
            bound_bytes: runs.iter().map(|run| run.bound.len()).sum(),
            runs,
        }
    }

    /// Returns the bytes of the directory, without those of its nodes.
    pub(super) fn bytes(&self) -> usize {
        DIRECTORY_BYTES + self.runs.len() * RUN_BYTES + self.bound_bytes
    }

    /// Creates a separate directory with the same nodes and uses.
    pub(super) fn copied(&self) -> IndexCacheDirectory<N> {
        let copied = |run: &Arc<CacheNodeRun<N>>| {
            let nodes = CacheRunNodes::new(run.nodes.load().iter());
            CacheNodeRun::new(&run.bound, nodes)
        };
        IndexCacheDirectory::new(self.runs.iter().map(copied))
    }

    /// Returns the number of runs.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns the run that a least key belongs to.
    fn run_of(&self, key: &[u8], prefix: u64) -> usize {
        let prefix_at = |run: usize| self.prefixes[run];
        let key_at = |run: usize| &*self.runs[run].bound;
        // The first bound is empty, so no key is less.
        not_greater(self.prefixes.len(), prefix_at, key_at, key, prefix) - 1
    }

    /// Returns the node that leads to a key.
    pub(super) fn seek(&self, key: &[u8]) -> Option<Arc<N>> {
        let prefix = prefix(key);
        let last = self.run_of(key, prefix);
        // The first node of a run may have been removed since the run got its bound.
        for run in self.runs[..=last].iter().rev() {
            let nodes = run.nodes.load();
            let Some(position) = nodes.not_greater(key, prefix).checked_sub(1) else {
                continue;
            };
            return nodes.use_at(position, key, prefix).map(Arc::clone);
        }
        None
    }

    /// Searches like [`seek`](IndexCacheDirectory::seek) for many keys, by their numbers, and
    /// passes the positions that they lead to.
    pub(super) fn seek_each<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        found: &mut impl FnMut(usize, &N, usize),
    ) {
        for (chunk, keys) in keys.chunks(SOUGHT_MAX).enumerate() {
            let runs: ArrayVec<(&CacheNodeRun<N>, u64), SOUGHT_MAX> = keys
                .iter()
                .map(|key| {
                    let prefix = prefix(key.as_ref());
                    let run = &*self.runs[self.run_of(key.as_ref(), prefix)];
                    prefetch(run);
                    (run, prefix)
                })
                .collect();
            // Parts that writers replace meanwhile stay unchanged. A guard is a barrier that waits
            // for all earlier prefetches, so no guard is taken between the accesses to their
            // contents.
            let guards: ArrayVec<Guard<Arc<CacheRunNodes<N>>>, SOUGHT_MAX> =
                runs.iter().map(|(run, _)| run.nodes.load()).collect();
            let mut places = ArrayVec::<(&CacheRunNodes<N>, usize), SOUGHT_MAX>::new();
            for ((key, nodes), (_, prefix)) in keys.iter().zip(&guards).zip(&runs) {
                let behind = nodes.not_greater(key.as_ref(), *prefix);
                if let Some(position) = behind.checked_sub(1) {
                    prefetch(&*nodes.entries[position].node);
                }
                places.push((nodes, behind));
            }
            for (nodes, behind) in &places {
                if let Some(position) = behind.checked_sub(1) {
                    nodes.entries[position].node.prefetch();
                }
            }
            let mut leads = ArrayVec::<Option<(&N, usize)>, SOUGHT_MAX>::new();
            for ((key, (nodes, behind)), (_, prefix)) in keys.iter().zip(&places).zip(&runs) {
                let key = key.as_ref();
                let position = behind.checked_sub(1);
                let node = position.and_then(|position| nodes.use_at(position, key, *prefix));
                leads.push(node.map(|node| (&**node, node.position(key))));
            }
            for (number, (key, (_, behind))) in keys.iter().zip(&places).enumerate() {
                let (key, all) = (key.as_ref(), chunk * SOUGHT_MAX + number);
                if let Some((node, position)) = leads[number] {
                    found(all, node, position);
                } else if *behind == 0
                    && let Some(node) = self.seek(key)
                {
                    // The first node of a run was removed since the run got its bound.
                    found(all, &node, node.position(key));
                }
            }
        }
    }

    /// Returns the node with a least key.
    pub(super) fn find(&self, low: &[u8]) -> Option<(Arc<N>, Place)> {
        let prefix = prefix(low);
        let run = self.run_of(low, prefix);
        let nodes = self.runs[run].nodes.load();
        let position = nodes.not_greater(low, prefix).checked_sub(1)?;
        let node = &nodes.entries[position].node;
        (node.low() == low).then(|| (Arc::clone(node), (run, position)))
    }

    /// Returns the uses and the least key of the node at a position of a run, if it exists.
    pub(super) fn at(&self, run: usize, position: usize) -> Option<(u8, Box<[u8]>)> {
        let nodes = self.runs[run].nodes.load();
        let uses = nodes.uses.get(position)?.load(Relaxed);
        Some((uses, nodes.entries[position].node.low().into()))
    }

    /// Sets the uses of the node with a least key.
    pub(super) fn set_uses(&self, low: &[u8], uses: u8) {
        if let Some((_, (run, position))) = self.find(low) {
            self.runs[run].nodes.load().uses[position].store(uses, Relaxed);
        }
    }

    /// Inserts a node with a new least key. Returns the directory that replaces this one, if its
    /// runs change.
    pub(super) fn insert(&self, node: &Arc<N>) -> Option<IndexCacheDirectory<N>> {
        let low = node.low();
        let prefix = prefix(low);
        let number = self.run_of(low, prefix);
        let run = &self.runs[number];
        let nodes = run.nodes.load();
        let position = nodes.not_greater(low, prefix);
        let entry = CacheRunEntry::new(Arc::clone(node));
        let behind = nodes.iter().skip(position);
        let all = nodes
            .iter()
            .take(position)
            .chain([(entry, 1)])
            .chain(behind);
        if nodes.entries.len() < RUN_MAX {
            run.nodes.store(Arc::new(CacheRunNodes::new(all)));
            return None;
        }
        // Both halves are new runs, and readers of the former directory still find the whole one.
        let all: Vec<_> = all.collect();
        let (left, right) = all.split_at(all.len() / 2);
        let bound = right[0].0.node.low();
        let left = CacheNodeRun::new(&run.bound, CacheRunNodes::new(left.iter().cloned()));
        let right = CacheNodeRun::new(bound, CacheRunNodes::new(right.iter().cloned()));
        Some(self.replace(number..number + 1, &[left, right]))
    }

    /// Removes the node at a place. Returns the directory that replaces this one, if its runs
    /// change.
    pub(super) fn remove(&self, (number, position): Place) -> Option<IndexCacheDirectory<N>> {
        let run = &self.runs[number];
        let nodes = run.nodes.load();
        let behind = nodes.iter().skip(position + 1);
        let rest = CacheRunNodes::new(nodes.iter().take(position).chain(behind));
        let length = |number: &usize| self.runs[*number].nodes.load().entries.len();
        // Before the first run the number wraps, and is beyond all.
        let neighbors = [number + 1, number.wrapping_sub(1)].into_iter();
        let joined = neighbors
            .filter(|&other| other < self.runs.len())
            // An empty run joins any neighbour. Others join only up to half a run, so that the next
            // insert does not divide them again.
            .find(|other| {
                rest.entries.is_empty() || length(other) + rest.entries.len() <= RUN_MAX / 2
            });
        let Some(other) = joined else {
            run.nodes.store(Arc::new(rest));
            return None;
        };
        let first = number.min(other);
        let neighbor = self.runs[other].nodes.load();
        let (left, right) = if first == number {
            (&rest, &**neighbor)
        } else {
            (&**neighbor, &rest)
        };
        let both = CacheRunNodes::new(left.iter().chain(right.iter()));
        let run = CacheNodeRun::new(&self.runs[first].bound, both);
        Some(self.replace(first..first + 2, &[run]))
    }

    /// Returns the directory with other runs in place of some.
    fn replace(
        &self,
        range: std::ops::Range<usize>,
        by: &[Arc<CacheNodeRun<N>>],
    ) -> IndexCacheDirectory<N> {
        let (before, behind) = (&self.runs[..range.start], &self.runs[range.end..]);
        IndexCacheDirectory::new(before.iter().chain(by).chain(behind).cloned())
    }

    /// Checks the order, and returns the nodes. For tests.
    ///
    /// # Panics
    /// If the directory is not in order.
    #[cfg(test)]
    pub(super) fn check(&self) -> Vec<Arc<N>> {
        let mut all: Vec<Arc<N>> = Vec::new();
        let mut before = None;
        assert!(self.runs[0].bound.is_empty());
        for (number, run) in self.runs.iter().enumerate() {
            let nodes = run.nodes.load();
            assert_eq!(self.prefixes[number], prefix(&run.bound));
            assert!((1..=RUN_MAX).contains(&nodes.entries.len()));
            assert_eq!(nodes.entries.len(), nodes.uses.len());
            if let Some(before) = before.replace(nodes.entries.len()) {
                assert!(before + nodes.entries.len() > RUN_MAX / 2);
            }
            assert_eq!(nodes.entries.len(), nodes.prefixes.len());
            for (entry, &low) in nodes.entries.iter().zip(&nodes.prefixes) {
                assert_eq!(low, prefix(entry.node.low()));
                let high = entry.node.high().map(prefix);
                assert_eq!(entry.high_prefix, high.unwrap_or(u64::MAX));
                assert!(*run.bound <= *entry.node.low());
                let last = all.last().map(|node| node.low());
                assert!(last.is_none_or(|last| last < entry.node.low()));
                all.push(Arc::clone(&entry.node));
            }
            let next = self.runs.get(number + 1).map(|next| &*next.bound);
            assert!(next.is_none_or(|next| all.last().is_some_and(|node| node.low() < next)));
        }
        all
    }
}
