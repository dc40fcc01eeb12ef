//! The upper part (L3), a map from first keys to chunks of level 2. It is the same in all modules.
//!
//! A B+-tree of nodes of 16 keys and 288 bytes:
//!
//! ```text
//! count 32, leaf 32 | next spare node | - | - | 16 keys | 16 addresses, or nodes a level lower |
//! ```
//!
//! A node's first key is the least key below it. The published program has an (a,b)-tree here. Ours
//! frees a node when it is empty, not when it is less than half full: keys reach this level at
//! random, so there are only few nodes.

use super::address::ModuleAddress;
use nearfield_pim::device::{Module, ProgramFault, WorkMeter};

const WIDTH: usize = 16;
const KEYS: u32 = 4;
const CHILDREN: u32 = KEYS + WIDTH as u32;
const NODE_WORDS: usize = CHILDREN as usize + WIDTH;
/// Numbers of instructions for each node, and for each key compared in it. *Assumed*.
const INSTRUCTIONS_PER_NODE: u64 = 24;
const INSTRUCTIONS_PER_KEY: u64 = 6;
/// Number of words of the tree's header: the root, the numbers of levels, nodes and spare nodes,
/// and the first spare node.
pub(super) const HEADER_WORDS: usize = 5;

/// The tree, by the address of its header, which the processor keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upper(pub u32);

/// A node that was copied.
struct UpperNodeCopy {
    is_leaf: bool,
    keys: Vec<u64>,
    children: Vec<u64>,
}

impl Upper {
    fn word<M: WorkMeter>(self, module: &Module<'_, M>, number: u32) -> u64 {
        module.peek(self.0 + number, 1)[0]
    }

    /// Returns the number of bytes of the tree and of its spare nodes.
    pub fn bytes<M: WorkMeter>(self, module: &Module<'_, M>) -> u64 {
        let nodes = self.word(module, 2) + self.word(module, 3);
        nodes * NODE_WORDS as u64 * 8
    }

    fn load<M: WorkMeter>(module: &mut Module<'_, M>, at: u32) -> UpperNodeCopy {
        module.instructions(INSTRUCTIONS_PER_NODE);
        let words = module.read(at, NODE_WORDS);
        let count = words[0] as u32 as usize;
        UpperNodeCopy {
            is_leaf: words[0] >> 32 == 1,
            keys: words[KEYS as usize..][..count].to_vec(),
            children: words[CHILDREN as usize..][..count].to_vec(),
        }
    }

    fn store<M: WorkMeter>(module: &mut Module<'_, M>, at: u32, node: &UpperNodeCopy) {
        debug_assert!(node.keys.len() <= WIDTH && node.keys.len() == node.children.len());
        debug_assert!(node.keys.is_sorted_by(|one, other| one < other));
        let mut words = [0; NODE_WORDS];
        words[0] = node.keys.len() as u64 | u64::from(node.is_leaf) << 32;
        words[KEYS as usize..][..node.keys.len()].copy_from_slice(&node.keys);
        words[CHILDREN as usize..][..node.children.len()].copy_from_slice(&node.children);
        module.write(at, &words);
    }

    /// Returns the chunk of the greatest key at or below `key`, if there is one.
    pub fn floor<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
    ) -> Option<ModuleAddress> {
        let mut at = self.word(module, 0) as u32;
        while at != 0 {
            module.hop();
            module.instructions(INSTRUCTIONS_PER_NODE);
            let words = module.read(at, NODE_WORDS);
            let count = words[0] as u32 as usize;
            let keys = &words[KEYS as usize..][..count];
            // A key below the first of the tree is in no chunk.
            let slot = keys.partition_point(|&other| other <= key).checked_sub(1)?;
            let (child, is_leaf) = (words[CHILDREN as usize + slot], words[0] >> 32 == 1);
            // The node is scanned, as published.
            for _ in 0..count {
                module.compare();
            }
            module.instructions(count as u64 * INSTRUCTIONS_PER_KEY);
            if is_leaf {
                return Some(ModuleAddress(child));
            }
            at = child as u32;
        }
        None
    }

    /// Finds the keys and chunks from the greatest key at or below `from` up to `to`, at most
    /// `limit` of them, in order from the end where counting begins.
    pub fn range<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        (from, to): (u64, u64),
        limit: usize,
        descends: bool,
        found: &mut Vec<(u64, u64)>,
    ) {
        let root = self.word(module, 0) as u32;
        if root != 0 {
            Self::range_in(module, root, (from, to), limit, descends, found);
        }
    }

    fn range_in<M: WorkMeter>(
        module: &mut Module<'_, M>,
        at: u32,
        (from, to): (u64, u64),
        limit: usize,
        descends: bool,
        found: &mut Vec<(u64, u64)>,
    ) {
        module.hop();
        let node = Self::load(module, at);
        node.keys.iter().for_each(|_| module.compare());
        let end = node.keys.partition_point(|&key| key <= to);
        let start = node.keys.partition_point(|&key| key <= from);
        // The child before the first greater key may contain keys of the range.
        let start = start.saturating_sub(1).min(end);
        for number in 0..end - start {
            if found.len() >= limit {
                return;
            }
            let slot = if descends {
                end - 1 - number
            } else {
                start + number
            };
            let (key, child) = (node.keys[slot], node.children[slot]);
            if node.is_leaf {
                found.push((key, child));
            } else {
                Self::range_in(module, child as u32, (from, to), limit, descends, found);
            }
        }
    }

    /// Allocates spare nodes for `more` keys. Each existing node may be split once; after that a
    /// half must be filled before the next split, at every level.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room.
    pub fn reserve<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        more: u64,
    ) -> Result<(), ProgramFault> {
        let (levels, nodes) = (self.word(module, 1), self.word(module, 2));
        let wanted = (more * (levels + 2)).min((8 * nodes + more).div_ceil(7) + levels + 4);
        while self.word(module, 3) < wanted {
            let node = module.allocate(NODE_WORDS)?;
            // The spare nodes form a list, by their second words.
            let spare = [self.word(module, 3) + 1, node.into()];
            module.write(node + 1, &[self.word(module, 4)]);
            module.write(self.0 + 3, &spare);
        }
        Ok(())
    }

    /// Frees the spare nodes.
    pub fn release<M: WorkMeter>(self, module: &mut Module<'_, M>) {
        while let node @ 1.. = self.word(module, 4) {
            let next = module.read(node as u32 + 1, 1)[0];
            module.free(node as u32, NODE_WORDS);
            module.write(self.0 + 3, &[self.word(module, 3) - 1, next]);
        }
    }

    /// Returns a new node, a spare one if there is one.
    fn node<M: WorkMeter>(self, module: &mut Module<'_, M>) -> Result<u32, ProgramFault> {
        let node = match self.word(module, 4) {
            0 => module.allocate(NODE_WORDS)?,
            spare => {
                let next = module.read(spare as u32 + 1, 1)[0];
                module.write(self.0 + 3, &[self.word(module, 3) - 1, next]);
                spare as u32
            }
        };
        module.write(self.0 + 2, &[self.word(module, 2) + 1]);
        Ok(node)
    }

    /// Sets the chunk of a key.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room, and none was [reserved](Upper::reserve).
    pub fn insert<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
        chunk: u64,
    ) -> Result<(), ProgramFault> {
        let root = match self.word(module, 0) as u32 {
            0 => {
                let root = self.node(module)?;
                let node = UpperNodeCopy {
                    is_leaf: true,
                    keys: Vec::new(),
                    children: Vec::new(),
                };
                Self::store(module, root, &node);
                module.write(self.0, &[root.into(), 1]);
                root
            }
            root => root,
        };
        let Some((split, right)) = self.insert_in(module, root, key, chunk)? else {
            return Ok(());
        };
        // The root was divided, so the tree gets one more level.
        let top = self.node(module)?;
        let first = Self::load(module, root).keys[0];
        let node = UpperNodeCopy {
            is_leaf: false,
            keys: vec![first, split],
            children: vec![root.into(), right.into()],
        };
        Self::store(module, top, &node);
        let levels = self.word(module, 1);
        module.write(self.0, &[top.into(), levels + 1]);
        Ok(())
    }

    /// Inserts a key below a node. If the node was split, returns the first key and the address of
    /// the new node.
    fn insert_in<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        at: u32,
        key: u64,
        child: u64,
    ) -> Result<Option<(u64, u32)>, ProgramFault> {
        let mut node = Self::load(module, at);
        let slot = node.keys.partition_point(|&other| other <= key);
        let (key, child) = if node.is_leaf {
            if slot > 0 && node.keys[slot - 1] == key {
                // A repeated task finds the key, and replaces its chunk by the same.
                node.children[slot - 1] = child;
                Self::store(module, at, &node);
                return Ok(None);
            }
            (key, child)
        } else {
            let below = node.children[slot.saturating_sub(1)] as u32;
            match self.insert_in(module, below, key, child)? {
                None => return Ok(None),
                Some((key, node)) => (key, node.into()),
            }
        };
        let slot = node.keys.partition_point(|&other| other <= key);
        node.keys.insert(slot, key);
        node.children.insert(slot, child);
        let mut divided = None;
        if node.keys.len() > WIDTH {
            let half = node.keys.len() / 2;
            let other = UpperNodeCopy {
                is_leaf: node.is_leaf,
                keys: node.keys.split_off(half),
                children: node.children.split_off(half),
            };
            // The node on the left keeps its address, so that its parent need not change.
            let right = self.node(module)?;
            Self::store(module, right, &other);
            divided = Some((other.keys[0], right));
        }
        Self::store(module, at, &node);
        Ok(divided)
    }

    /// Removes a key, which must not be the least.
    pub fn remove<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) {
        let root = self.word(module, 0) as u32;
        if root == 0 {
            return;
        }
        self.remove_in(module, root, key);
        let (mut root, mut node) = (root, Self::load(module, root));
        // A root with one child would only lengthen each search.
        while !node.is_leaf && node.keys.len() == 1 {
            self.give(module, root);
            root = node.children[0] as u32;
            let levels = self.word(module, 1);
            module.write(self.0, &[root.into(), levels - 1]);
            node = Self::load(module, root);
        }
    }

    fn give<M: WorkMeter>(self, module: &mut Module<'_, M>, node: u32) {
        module.free(node, NODE_WORDS);
        module.write(self.0 + 2, &[self.word(module, 2) - 1]);
    }

    /// Removes a key below a node. Returns the node's new first key for its parent, or `None` if
    /// the node is empty and was freed.
    fn remove_in<M: WorkMeter>(self, module: &mut Module<'_, M>, at: u32, key: u64) -> Option<u64> {
        let mut node = Self::load(module, at);
        let behind = node.keys.partition_point(|&other| other <= key);
        let Some(slot) = behind.checked_sub(1) else {
            return node.keys.first().copied();
        };
        let left = match node.is_leaf {
            true => Some(node.keys[slot]).filter(|&other| other != key),
            false => self.remove_in(module, node.children[slot] as u32, key),
        };
        match left {
            // The first key of the child has not changed, so this node stays as it is.
            Some(first) if first == node.keys[slot] => return node.keys.first().copied(),
            Some(first) => node.keys[slot] = first,
            None => {
                node.keys.remove(slot);
                node.children.remove(slot);
            }
        }
        match node.keys.first() {
            Some(_) => Self::store(module, at, &node),
            None => self.give(module, at),
        }
        node.keys.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_pim::device::{ModuleDevice, ModuleProgram, Workers};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;

    struct RandomUpperProgram;

    impl ModuleProgram for RandomUpperProgram {
        fn run<M: WorkMeter>(
            &self,
            module: &mut Module<'_, M>,
            input: &[u64],
            _: &mut Vec<u64>,
        ) -> Result<(), ProgramFault> {
            let upper = Upper(module.allocate(HEADER_WORDS)?);
            let random = &mut SmallRng::seed_from_u64(input[0]);
            let mut map = BTreeMap::from([(0, 7)]);
            upper.insert(module, 0, 7)?;
            for _ in 0..300 {
                let some = random.random_range(1..60);
                if random.random_bool(0.6) {
                    upper.reserve(module, some)?;
                    let spare = upper.word(module, 3);
                    let nodes = upper.word(module, 2);
                    for _ in 0..some {
                        let key = random.random_range(1..2000);
                        upper.insert(module, key, key * 3)?;
                        map.insert(key, key * 3);
                    }
                    let came = upper.word(module, 2) - nodes;
                    assert_eq!(
                        upper.word(module, 3) + came,
                        spare,
                        "no memory was allocated"
                    );
                    upper.release(module);
                } else {
                    for _ in 0..some {
                        let key = random.random_range(1..2000);
                        upper.remove(module, key);
                        map.remove(&key);
                    }
                }
                let key = random.random_range(0..2100);
                let floor = map.range(..=key).next_back();
                assert_eq!(
                    upper.floor(module, key).map(|address| address.0),
                    floor.map(|(_, &chunk)| chunk)
                );
                let to = random.random_range(key..2101);
                let from = floor.map_or(0, |(&key, _)| key);
                let range = map.range(from..=to).map(|(&key, &chunk)| (key, chunk));
                let mut found = Vec::new();
                upper.range(module, (key, to), 40, false, &mut found);
                assert_eq!(found, range.clone().take(40).collect::<Vec<_>>());
                found.clear();
                upper.range(module, (key, to), 40, true, &mut found);
                assert_eq!(found, range.rev().take(40).collect::<Vec<_>>());
            }
            for &key in map.keys().filter(|&&key| key > 0) {
                upper.remove(module, key);
            }
            assert_eq!(upper.word(module, 2), 1, "only the root is left");
            Ok(())
        }
    }

    #[test]
    fn the_upper_part_does_what_a_map_does() {
        let mut device = Workers::new(10, 1 << 20, 2);
        let inputs = (0..10).map(|seed| vec![seed]).collect();
        for output in device.round(RandomUpperProgram, inputs).expect("a round") {
            output.expect("no fault");
        }
    }
}
