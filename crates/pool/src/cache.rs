//! What a compute node keeps of the tree: internal nodes, within a budget of bytes.

use nearfield_fabric::GlobalAddress;
use parking_lot::{Mutex, RwLock};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// A node that can be kept.
pub trait Cached {
    /// Where it was read from.
    fn address(&self) -> GlobalAddress;
    /// How far it is above the leaves, which have level 1 and are not kept.
    fn level(&self) -> u8;
    /// The least key that it leads to.
    fn low(&self) -> &[u8];
    /// The least key behind those that it leads to; `None` if there is none.
    fn high(&self) -> Option<&[u8]>;
    /// The bytes that it takes, itself included.
    fn bytes(&self) -> usize;
}

/// The internal nodes that clients of one compute node have read, by level and least key (CHIME,
/// section 4.1 of the paper; Sherman's cache holds the lowest level only).
///
/// Nobody is told when a node changes in remote memory; that it is stale shows when it is used, and
/// then it is [`invalidate`](Cache::invalidate)d. Of two random nodes the one that was used less
/// makes room. All bytes that it holds count, those of its own maps by estimate.
#[derive(Debug)]
pub struct Cache<N> {
    budget_bytes: usize,
    used_bytes: AtomicUsize,
    /// From level 2 on.
    levels: RwLock<Vec<Level<N>>>,
    random: Mutex<SmallRng>,
}

#[derive(Debug)]
struct Level<N> {
    by_low: BTreeMap<Box<[u8]>, Kept<N>>,
    /// The least keys again, to draw one by its position.
    lows: Vec<Box<[u8]>>,
}

#[derive(Debug)]
struct Kept<N> {
    node: Arc<N>,
    /// Its position in `lows`.
    position: usize,
    uses: AtomicU32,
}

/// The level of the parents of leaves.
const LOWEST: u8 = 2;

/// What a node costs beside itself: two copies of its least key and their places. Nodes of a B-tree
/// are two thirds full on average.
fn overhead<N>(low: usize) -> usize {
    let map = (size_of::<(Box<[u8]>, Kept<N>)>() + 8) * 3 / 2;
    map + size_of::<Box<[u8]>>() + 2 * low + 2 * size_of::<usize>()
}

impl<N: Cached> Cache<N> {
    /// An empty cache of so many bytes at most.
    pub fn new(budget_bytes: usize) -> Cache<N> {
        Cache {
            budget_bytes,
            used_bytes: AtomicUsize::new(0),
            levels: RwLock::new(Vec::new()),
            random: Mutex::new(SmallRng::seed_from_u64(0x6361_6368_6500)),
        }
    }

    /// The bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }

    /// The kept node of the lowest level from `from` on that leads to a key. Logarithmic in each
    /// level.
    pub fn seek(&self, key: &[u8], from: u8) -> Option<Arc<N>> {
        let levels = self.levels.read();
        let first = usize::from(from.max(LOWEST) - LOWEST);
        levels.iter().skip(first).find_map(|level| {
            let below = (Bound::Unbounded, Bound::Included(key));
            let (_, kept) = level.by_low.range::<[u8], _>(below).next_back()?;
            if kept.node.high().is_some_and(|high| high <= key) {
                return None;
            }
            let uses = kept.uses.load(Relaxed);
            kept.uses.store(uses.saturating_add(1), Relaxed);
            Some(Arc::clone(&kept.node))
        })
    }

    /// Keeps a node in place of one of the same level and least key, if there is room for it.
    /// Answers the node.
    pub fn keep(&self, node: N) -> Arc<N> {
        let node = Arc::new(node);
        self.try_keep(&node);
        node
    }

    fn try_keep(&self, node: &Arc<N>) {
        let cost = node.bytes() + overhead::<N>(node.low().len());
        if node.level() < LOWEST || cost > self.budget_bytes {
            return;
        }
        let number = usize::from(node.level() - LOWEST);
        let mut levels = self.levels.write();
        while levels.len() <= number {
            levels.push(Level {
                by_low: BTreeMap::new(),
                lows: Vec::new(),
            });
        }
        let low: Box<[u8]> = node.low().into();
        self.remove(&mut levels, number, &low, |_| true);
        while self.bytes() + cost > self.budget_bytes {
            if !self.evict(&mut levels) {
                return;
            }
        }
        let Some(level) = levels.get_mut(number) else {
            return;
        };
        let kept = Kept {
            node: Arc::clone(node),
            position: level.lows.len(),
            uses: AtomicU32::new(1),
        };
        level.lows.push(low.clone());
        level.by_low.insert(low, kept);
        self.used_bytes.fetch_add(cost, Relaxed);
    }

    /// Forgets a node that was found to be stale, unless another was kept in its place since.
    pub fn invalidate(&self, stale: &N) {
        let number = usize::from(stale.level().max(LOWEST) - LOWEST);
        let is_it = |kept: &N| std::ptr::eq(kept, stale) || kept.address() == stale.address();
        let mut levels = self.levels.write();
        self.remove(&mut levels, number, stale.low(), is_it);
    }

    fn remove(
        &self,
        levels: &mut [Level<N>],
        number: usize,
        low: &[u8],
        is_it: impl FnOnce(&N) -> bool,
    ) -> bool {
        let Some(level) = levels.get_mut(number) else {
            return false;
        };
        if !level.by_low.get(low).is_some_and(|kept| is_it(&kept.node)) {
            return false;
        }
        let Some(kept) = level.by_low.remove(low) else {
            return false;
        };
        level.lows.swap_remove(kept.position);
        if let Some(moved) = level.lows.get(kept.position)
            && let Some(moved) = level.by_low.get_mut(moved)
        {
            moved.position = kept.position;
        }
        let cost = kept.node.bytes() + overhead::<N>(low.len());
        self.used_bytes.fetch_sub(cost, Relaxed);
        true
    }

    /// Forgets one of two random nodes, the one that was used less; false if there is none.
    fn evict(&self, levels: &mut [Level<N>]) -> bool {
        let count: usize = levels.iter().map(|level| level.lows.len()).sum();
        if count == 0 {
            return false;
        }
        let mut random = self.random.lock();
        let mut draw = || {
            let mut position = random.random_range(0..count);
            levels.iter().enumerate().find_map(|(number, level)| {
                let Some(low) = level.lows.get(position) else {
                    position -= level.lows.len();
                    return None;
                };
                let uses = level.by_low.get(low)?.uses.load(Relaxed);
                Some((uses, number, low.clone()))
            })
        };
        let drawn = draw().into_iter().chain(draw()).min();
        drop(random);
        drawn.is_some_and(|(_, number, low)| self.remove(levels, number, &low, |_| true))
    }

    /// Panics unless what it counts is there. For tests.
    #[cfg(test)]
    fn check(&self) {
        let levels = self.levels.read();
        let mut bytes = 0;
        for level in &*levels {
            assert_eq!(level.by_low.len(), level.lows.len());
            for (low, kept) in &level.by_low {
                assert_eq!(&level.lows[kept.position], low);
                assert_eq!(&**low, kept.node.low());
                bytes += kept.node.bytes() + overhead::<N>(low.len());
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

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Node {
        address: u64,
        level: u8,
        low: [u8; 2],
        high: Option<[u8; 2]>,
        bytes: usize,
    }

    impl Cached for Node {
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
            self.high.as_ref().map(|high| &high[..])
        }
        fn bytes(&self) -> usize {
            self.bytes
        }
    }

    fn node(address: u64, level: u8, low: u16, high: Option<u16>) -> Node {
        Node {
            address,
            level,
            low: low.to_be_bytes(),
            high: high.map(u16::to_be_bytes),
            bytes: 1000,
        }
    }

    fn found(cache: &Cache<Node>, key: u16, from: u8) -> Option<u64> {
        let node = cache.seek(&key.to_be_bytes(), from);
        node.map(|node| node.address)
    }

    #[test]
    fn the_lowest_node_that_leads_to_a_key_is_found() {
        let cache = Cache::new(1 << 20);
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

    #[test]
    fn stale_nodes_are_forgotten_and_newer_ones_in_their_place_are_not() {
        let cache = Cache::new(1 << 20);
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
    fn the_budget_is_kept_and_what_is_used_often_stays() {
        let cache = Cache::new(50_000);
        for round in 0..40_000_u64 {
            let random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            // Ten nodes of a thousand are asked for half of the time.
            let number = if random & 1 == 0 {
                (random >> 1) % 10
            } else {
                (random >> 1) % 1000
            };
            let low = number as u16 * 4;
            if found(&cache, low, 2).is_none() {
                cache.keep(node(number, 2, low, Some(low + 4)));
            }
            if round % 1000 == 0 {
                cache.check();
            }
        }
        let hot = (0..10).filter(|&number| found(&cache, number * 4, 2).is_some());
        assert!(hot.count() >= 9);
        cache.check();
        cache.keep(Node {
            bytes: 60_000,
            ..node(1, 2, 0, None)
        });
        cache.check();
    }
}
