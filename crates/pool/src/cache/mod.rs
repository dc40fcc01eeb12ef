//! The cache of internal nodes on a compute node, within a budget of bytes.

mod directory;

use arc_swap::ArcSwapOption;
pub(crate) use directory::HEADER_BYTES;
use directory::{IndexCacheDirectory, NODE_BYTES, RUN_BYTES, RUN_MAX};
pub(crate) use directory::{partition, prefix};
use nearfield_fabric::GlobalAddress;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A node that can be cached.
pub trait CacheableNode {
    /// Returns the address that it was read from.
    fn address(&self) -> GlobalAddress;
    /// Returns its level above the leaves, which have level 1 and are not cached.
    fn level(&self) -> u8;
    /// Returns the least key that it leads to.
    fn low(&self) -> &[u8];
    /// Returns the upper bound of the keys below the node; `None` if there is none.
    fn high(&self) -> Option<&[u8]>;
    /// Returns the bytes that it uses, itself included, and 8 for each allocation of its own.
    fn bytes(&self) -> usize;
    /// Prefetches the memory that [`position`](CacheableNode::position) reads.
    fn prefetch(&self) {}
    /// Returns the position of the child of a key that is below the node. Prefetches the child's
    /// entry.
    fn position(&self, _key: &[u8]) -> usize {
        0
    }
}

/// The internal nodes that clients of one compute node have read, by level and least key (CHIME,
/// section 4.1 of the paper; Sherman's cache holds the lowest level only).
///
/// A cache is not notified when a node changes in remote memory. A client that uses a stale node
/// detects it and then [`invalidate`](IndexCache::invalidate)s it. To make room, the less used of
/// two random nodes is evicted.
///
/// Readers take no lock and never wait; writers exclude each other. The budget counts all bytes of
/// the cache, with 8 for each allocation, but not replaced versions that a reader still uses.
#[derive(Debug)]
pub struct IndexCache<N> {
    budget_bytes: usize,
    used_bytes: AtomicUsize,
    /// The nodes of each level, from level 2 on.
    levels: [ArcSwapOption<IndexCacheDirectory<N>>; LEVELS],
    /// Number of levels that have ever had a node.
    height: AtomicUsize,
    writer: Mutex<IndexCacheWriter>,
}

/// The state that only writers use.
#[derive(Debug)]
struct IndexCacheWriter {
    random: SmallRng,
    /// Number of nodes of each level.
    counts: [usize; LEVELS],
}

/// The level of the parents of leaves.
const LOWEST: u8 = 2;
/// Number of cached levels of internal nodes. A tree with three entries in a node has fewer.
const LEVELS: usize = 32;

impl<N: CacheableNode> IndexCache<N> {
    /// Creates an empty cache with a budget of `budget_bytes`.
    pub fn new(budget_bytes: usize) -> IndexCache<N> {
        IndexCache {
            budget_bytes,
            used_bytes: AtomicUsize::new(0),
            levels: Default::default(),
            height: AtomicUsize::new(0),
            writer: Mutex::new(IndexCacheWriter {
                random: SmallRng::seed_from_u64(0x6361_6368_6500),
                counts: [0; LEVELS],
            }),
        }
    }

    /// Returns the bytes of the cached nodes.
    pub fn bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }

    /// Returns the cached node of the lowest level from `from` on that leads to a key. Logarithmic
    /// in each level.
    pub fn seek(&self, key: &[u8], from: u8) -> Option<Arc<N>> {
        let first = usize::from(from.max(LOWEST) - LOWEST);
        let levels = self.levels.get(first..self.height.load(Relaxed))?;
        levels.iter().find_map(|level| {
            let directory = level.load();
            directory.as_ref()?.seek(key)
        })
    }

    /// Finds the cached parents of the leaves of keys, and passes each with the position of its
    /// leaf and the number of the key to `found`. Finds the same as [`seek`](IndexCache::seek) for
    /// each key, but the memory accesses of several keys overlap.
    pub fn seek_each<K: AsRef<[u8]>>(&self, keys: &[K], mut found: impl FnMut(usize, &N, usize)) {
        if let Some(directory) = self.levels[0].load_full() {
            directory.seek_each(keys, &mut found);
        }
    }

    /// Stores a node in place of one of the same level and least key, if there is room for it.
    /// Returns the node.
    pub fn keep(&self, node: N) -> Arc<N> {
        let node = Arc::new(node);
        self.try_keep(&node);
        node
    }

    fn try_keep(&self, node: &Arc<N>) {
        // The node may need another run, or be the first of its level.
        let own = node.bytes() + NODE_BYTES;
        let most = own + 2 * RUN_BYTES + node.low().len();
        let number = usize::from(node.level().wrapping_sub(LOWEST));
        if number >= LEVELS || most > self.budget_bytes {
            return;
        }
        let mut writer = self.writer.lock();
        // The former node of this least key is stale, and must not be found again, even if there is
        // no room for the new one.
        self.remove(&mut writer, number, node.low(), |_| true);
        while self.bytes() + most > self.budget_bytes {
            if !self.evict(&mut writer) {
                return;
            }
        }
        let level = &self.levels[number];
        let before = level.load_full();
        let grown = match &before {
            None => Some(IndexCacheDirectory::with(Arc::clone(node))),
            Some(directory) => directory.insert(node),
        };
        let mut added = own;
        if let Some(grown) = grown {
            added += grown.bytes() - before.map_or(0, |before| before.bytes());
            level.store(Some(Arc::new(grown)));
        }
        // A reader that still sees the former height begins at another level, which is only slower.
        self.height.fetch_max(number + 1, Relaxed);
        writer.counts[number] += 1;
        debug_assert!(added <= most);
        self.used_bytes.fetch_add(added, Relaxed);
        debug_assert!(self.bytes() <= self.budget_bytes);
    }

    /// Replaces the nodes by those of another cache, if it has room for all of them.
    pub fn learn_from(&self, other: &IndexCache<N>) {
        // One lock after the other, because two caches may learn from each other.
        let (levels, counts, bytes) = {
            let writer = other.writer.lock();
            let copied = |level: &ArcSwapOption<IndexCacheDirectory<N>>| {
                let directory = level.load();
                directory
                    .as_ref()
                    .map(|directory| Arc::new(directory.copied()))
            };
            let levels: Vec<_> = other.levels.iter().map(copied).collect();
            (levels, writer.counts, other.bytes())
        };
        if bytes > self.budget_bytes {
            return;
        }
        let mut writer = self.writer.lock();
        for (own, level) in self.levels.iter().zip(levels) {
            own.store(level);
        }
        let height = LEVELS - counts.iter().rev().take_while(|&&count| count == 0).count();
        self.height.fetch_max(height, Relaxed);
        writer.counts = counts;
        self.used_bytes.store(bytes, Relaxed);
    }

    /// Drops all nodes.
    pub fn clear(&self) {
        self.learn_from(&IndexCache::new(self.budget_bytes));
    }

    /// Drops a stale node, unless another has replaced it since.
    pub fn invalidate(&self, stale: &N) {
        let number = usize::from(stale.level().max(LOWEST) - LOWEST);
        let is_it = |kept: &N| std::ptr::eq(kept, stale) || kept.address() == stale.address();
        self.remove(&mut self.writer.lock(), number, stale.low(), is_it);
    }

    /// Removes the node with a level and least key if `is_it`; returns false if there is none.
    fn remove(
        &self,
        writer: &mut IndexCacheWriter,
        number: usize,
        low: &[u8],
        is_it: impl FnOnce(&N) -> bool,
    ) -> bool {
        let Some(level) = self.levels.get(number) else {
            return false;
        };
        let Some(directory) = level.load_full() else {
            return false;
        };
        let Some((node, at)) = directory.find(low).filter(|(node, _)| is_it(node)) else {
            return false;
        };
        let mut gone = node.bytes() + NODE_BYTES;
        writer.counts[number] -= 1;
        if writer.counts[number] == 0 {
            gone += directory.bytes();
            level.store(None);
        } else if let Some(shrunk) = directory.remove(at) {
            gone += directory.bytes() - shrunk.bytes();
            level.store(Some(Arc::new(shrunk)));
        }
        debug_assert!(gone <= self.bytes());
        self.used_bytes.fetch_sub(gone, Relaxed);
        true
    }

    /// Evicts the less used one of two random nodes; returns false if there is none.
    fn evict(&self, writer: &mut IndexCacheWriter) -> bool {
        // Two random nodes and a counter each take the place of a list by use, which each reader
        // would have to change.
        let drawn = self.draw(writer).into_iter().chain(self.draw(writer));
        let Some((_, number, low)) = drawn.reduce(|one, other| {
            let (less, more) = if other.0 < one.0 {
                (other, one)
            } else {
                (one, other)
            };
            if let Some(directory) = &*self.levels[more.1].load() {
                // The other loses a quarter of its uses, so that old uses count less.
                directory.set_uses(&more.2, more.0 - more.0.div_ceil(4));
            }
            less
        }) else {
            return false;
        };
        self.remove(writer, number, &low, |_| true)
    }

    /// Returns a random node: its uses, level and least key.
    fn draw(&self, writer: &mut IndexCacheWriter) -> Option<(u8, usize, Box<[u8]>)> {
        let IndexCacheWriter { random, counts } = writer;
        let count: usize = counts.iter().sum();
        if count == 0 {
            return None;
        }
        let mut position = random.random_range(0..count);
        let number = counts.iter().position(|&count| {
            let is_here = position < count;
            position = position.wrapping_sub(count);
            is_here
        })?;
        let directory = self.levels[number].load();
        let directory = directory.as_ref()?;
        // Runs are at least a quarter full on average: this ends soon.
        loop {
            let run = random.random_range(0..directory.runs());
            if let Some((uses, low)) = directory.at(run, random.random_range(0..RUN_MAX)) {
                return Some((uses, number, low));
            }
        }
    }

    /// Checks that the counts match the content. For tests.
    ///
    /// # Panics
    /// If they do not match.
    #[cfg(test)]
    fn check(&self) {
        let writer = self.writer.lock();
        let mut bytes = 0;
        for (level, &count) in self.levels.iter().zip(&writer.counts) {
            let level = level.load();
            assert_eq!(level.is_none(), count == 0);
            if let Some(directory) = &*level {
                let nodes = directory.check();
                assert_eq!(nodes.len(), count);
                let own = |node: &Arc<N>| node.bytes() + NODE_BYTES;
                bytes += directory.bytes() + nodes.iter().map(own).sum::<usize>();
            }
        }
        assert_eq!(bytes, self.bytes());
        assert!(bytes <= self.budget_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct CacheTestNode {
        address: u64,
        level: u8,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
        bytes: usize,
    }

    impl CacheableNode for CacheTestNode {
        fn address(&self) -> GlobalAddress {
            GlobalAddress::new(NodeId(0), self.address)
        }
        fn level(&self) -> u8 {
            self.level
        }
        fn low(&self) -> &[u8] {
            &self.low
        }
        fn high(&self) -> Option<&[u8]> {
            self.high.as_deref()
        }
        fn bytes(&self) -> usize {
            self.bytes
        }
    }

    fn node(address: u64, level: u8, low: u16, high: Option<u16>) -> CacheTestNode {
        CacheTestNode {
            address,
            level,
            low: low.to_be_bytes().into(),
            high: high.map(|high| high.to_be_bytes().into()),
            bytes: 1000,
        }
    }

    fn found(cache: &IndexCache<CacheTestNode>, key: u16, from: u8) -> Option<u64> {
        let node = cache.seek(&key.to_be_bytes(), from);
        node.map(|node| node.address)
    }

    #[test]
    fn the_lowest_node_that_leads_to_a_key_is_found() {
        let cache = IndexCache::new(1 << 20);
        cache.keep(node(1, 3, 0, None));
        cache.keep(node(2, 2, 0, Some(100)));
        cache.keep(node(3, 2, 200, Some(300)));
        assert_eq!(found(&cache, 50, 2), Some(2));
        assert_eq!(found(&cache, 50, 3), Some(1));
        assert_eq!(found(&cache, 100, 2), Some(1));
        assert_eq!(found(&cache, 299, 2), Some(3));
        assert_eq!(found(&cache, 300, 2), Some(1));
        assert_eq!(found(&cache, 50, 4), None);
        cache.check();
    }

    /// The keys are also in runs whose first node was removed, between nodes, and before all of
    /// them.
    #[test]
    fn many_are_found_as_one_by_one() {
        let cache = IndexCache::new(1 << 24);
        let lows = || (10..60_000).step_by(30);
        for low in lows() {
            cache.keep(node(u64::from(low), 2, low, Some(low + 20)));
        }
        cache.keep(node(1, 3, 0, None));
        for low in lows().step_by(7).chain(20_000..20_900) {
            if let Some(stale) = cache.seek(&low.to_be_bytes(), 2).filter(|it| it.level == 2) {
                cache.invalidate(&stale);
            }
        }
        cache.check();
        let keys: Vec<[u8; 2]> = (0..=u16::MAX).map(u16::to_be_bytes).collect();
        let mut each = vec![None; keys.len()];
        cache.seek_each(&keys, |number, node, _| each[number] = Some(node.address));
        for (key, found) in keys.iter().zip(each) {
            let one = cache.seek(key, 2).filter(|node| node.level == 2);
            assert_eq!(found, one.map(|node| node.address), "{key:?}");
        }
    }

    #[test]
    fn stale_nodes_are_forgotten_and_newer_ones_in_their_place_are_not() {
        let cache = IndexCache::new(1 << 20);
        cache.keep(node(1, 2, 0, None));
        let stale = cache.seek(&[0, 5], 2).unwrap();
        cache.keep(node(2, 2, 0, Some(4)));
        cache.invalidate(&stale);
        assert_eq!(found(&cache, 3, 2), Some(2));
        cache.invalidate(&cache.seek(&[0, 3], 2).unwrap());
        assert_eq!((found(&cache, 3, 2), cache.bytes()), (None, 0));
        cache.check();
    }

    #[test]
    fn a_cleared_cache_takes_nodes_again() {
        let cache = IndexCache::new(1 << 20);
        for low in 0..300 {
            cache.keep(node(u64::from(low), 2, low * 2, Some(low * 2 + 2)));
        }
        cache.keep(node(1000, 3, 0, None));
        cache.clear();
        assert_eq!((found(&cache, 8, 2), cache.bytes()), (None, 0));
        cache.check();
        cache.keep(node(7, 2, 0, None));
        assert_eq!(found(&cache, 8, 2), Some(7));
        cache.check();
    }

    #[test]
    fn what_was_taken_over_is_found_and_changes_alone() {
        let (one, other) = (IndexCache::new(1 << 20), IndexCache::new(1 << 20));
        for low in 0..300 {
            one.keep(node(u64::from(low), 2, low * 2, Some(low * 2 + 2)));
        }
        one.keep(node(1000, 3, 0, None));
        other.keep(node(2000, 2, 7, None));
        other.learn_from(&one);
        other.check();
        assert_eq!(other.bytes(), one.bytes());
        assert_eq!(found(&other, 598, 2), Some(299));
        assert_eq!(found(&other, 700, 2), Some(1000));
        // Each changes independently from then on.
        one.invalidate(&one.seek(&[0, 8], 2).unwrap());
        other.keep(node(3000, 2, 10, Some(12)));
        assert_eq!(
            (found(&one, 8, 2), found(&other, 8, 2)),
            (Some(1000), Some(4))
        );
        assert_eq!(
            (found(&one, 10, 2), found(&other, 10, 2)),
            (Some(5), Some(3000))
        );
        one.check();
        other.check();
        // A cache without room keeps its content.
        let small = IndexCache::new(5000);
        small.keep(node(4000, 2, 0, None));
        small.learn_from(&one);
        small.check();
        assert_eq!(found(&small, 8, 2), Some(4000));
    }

    #[test]
    fn the_budget_is_kept_and_what_is_used_often_stays() {
        let cache = IndexCache::new(50_000);
        let (mut asked, mut hits) = (0, 0);
        for round in 0..40_000_u64 {
            let random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            // Half of the requests are for ten nodes of a thousand.
            let number = if random & 1 == 0 {
                (random >> 1) % 10
            } else {
                (random >> 1) % 1000
            };
            let low = number as u16 * 4;
            let is_there = found(&cache, low, 2).is_some();
            if number < 10 {
                asked += 1;
                hits += u32::from(is_there);
            }
            if !is_there {
                cache.keep(node(number, 2, low, Some(low + 4)));
            }
            if round % 1000 == 0 {
                cache.check();
            }
        }
        // It would be 83 of 100 if any random node made room.
        println!("hot nodes in the cache: {hits} of {asked}");
        assert!(hits * 100 > asked * 94, "{hits} of {asked}");
        cache.check();
        cache.keep(CacheTestNode {
            bytes: 60_000,
            ..node(1, 2, 0, None)
        });
        cache.check();
    }

    /// Returns keys of two bytes, or of ten with few different first eight.
    fn keys(long: bool) -> impl Fn(u64) -> Vec<u8> {
        move |number| {
            let short = (number as u16).to_be_bytes();
            if !long {
                return short.into();
            }
            let group = number >> 10;
            [&group.to_be_bytes(), &short[..]].concat()
        }
    }

    #[test]
    fn it_holds_what_a_map_for_each_level_holds() {
        for (seed, long) in [(1, false), (2, true), (3, false), (4, true)] {
            let key = keys(long);
            let mut random = SmallRng::seed_from_u64(seed);
            let cache = IndexCache::new(1 << 30);
            let mut model: [BTreeMap<Vec<u8>, CacheTestNode>; 3] = Default::default();
            for step in 0..30_000 {
                // It grows, and then it shrinks.
                let keeps = if step < 15_000 { 12 } else { 6 };
                let level = random.random_range(0..3_usize);
                let number = random.random_range(0..4000 >> (3 * level));
                let low = key(number);
                match random.random_range(0..20) {
                    of if of < keeps => {
                        let high = random.random_bool(0.9);
                        let kept = CacheTestNode {
                            address: step,
                            level: level as u8 + LOWEST,
                            low: low.clone(),
                            high: high.then(|| key(number + random.random_range(1..4))),
                            bytes: random.random_range(100..1000),
                        };
                        cache.keep(kept.clone());
                        model[level].insert(low, kept);
                    }
                    of if of < 15 => {
                        let stale = model[level].range(low..).next();
                        if let Some((low, stale)) = stale.map(|(k, n)| (k.clone(), n.clone())) {
                            cache.invalidate(&stale);
                            model[level].remove(&low);
                        }
                    }
                    _ => {
                        let expected = model[level..].iter().find_map(|level| {
                            let (_, node) = level.range(..=low.clone()).next_back()?;
                            let leads = node.high.as_ref().is_none_or(|high| *high > low);
                            leads.then_some(node)
                        });
                        let found = cache.seek(&low, level as u8 + LOWEST);
                        assert_eq!(found.as_deref(), expected, "seed {seed}, step {step}");
                    }
                }
                if step % 1000 == 0 {
                    cache.check();
                }
            }
            let there: Vec<_> = model.iter().flat_map(BTreeMap::values).cloned().collect();
            there.iter().for_each(|node| cache.invalidate(node));
            cache.check();
            assert_eq!(cache.bytes(), 0);
        }
    }

    #[test]
    fn no_budget_is_ever_exceeded() {
        for budget in [0, 300, 1000, 3000, 20_000, 300_000] {
            let mut random = SmallRng::seed_from_u64(budget as u64);
            let cache = IndexCache::new(budget);
            let key = keys(true);
            let mut most = 0;
            for step in 0..5000 {
                let number = random.random_range(0..3000);
                let kept = CacheTestNode {
                    bytes: random.random_range(50..1000),
                    level: random.random_range(2..4),
                    low: key(number),
                    high: Some(key(number + 1)),
                    ..node(step, 2, 0, None)
                };
                cache.keep(kept);
                cache.check();
                most = most.max(cache.bytes());
            }
            // And some of the budget is used, if it has room for some nodes.
            assert!(
                budget < 3000 || most * 10 > budget * 7,
                "{most} of {budget}"
            );
        }
    }

    #[test]
    fn readers_find_what_stays_while_others_come_and_go() {
        // One run or three.
        const NODES: u64 = 120;
        let key = keys(true);
        let cache = IndexCache::new(1 << 30);
        let of = |number: u64, address| CacheTestNode {
            low: key(2 * number),
            high: Some(key(2 * number + 2)),
            ..node(address, 2, 0, None)
        };
        // Every third node stays.
        (0..NODES).step_by(3).for_each(|number| {
            cache.keep(of(number, number));
        });
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers = [1, 2].map(|seed| {
                let (cache, of) = (&cache, &of);
                scope.spawn(move || {
                    for round in 0..2000_u64 {
                        for number in (seed..NODES).step_by(3) {
                            let node = of(number, NODES * (1 + round) + number);
                            // Runs are divided in one round and joined in the next.
                            if round % 2 == 0 {
                                cache.keep(node);
                            } else {
                                let found = cache.seek(&node.low, 2);
                                cache.invalidate(&found.expect("no other thread removes it"));
                                assert!(cache.seek(&node.low, 2).is_none());
                            }
                        }
                    }
                })
            });
            for seed in 3..5 {
                let (cache, key, is_over) = (&cache, &key, &is_over);
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed);
                    while !is_over.load(Relaxed) {
                        let number = random.random_range(0..NODES);
                        let found = cache.seek(&key(2 * number + 1), 2);
                        let found = found.map(|node| node.address % NODES);
                        assert!(found.is_none_or(|found| found == number));
                        assert!(found.is_some() || number % 3 != 0);
                    }
                });
            }
            let ended = writers.map(|writer| writer.join());
            is_over.store(true, Relaxed);
            for ended in ended {
                ended.expect("no panic");
            }
        });
        cache.check();
        assert!(
            (0..NODES)
                .step_by(3)
                .all(|number| cache.seek(&key(2 * number), 2).is_some())
        );
    }
}
