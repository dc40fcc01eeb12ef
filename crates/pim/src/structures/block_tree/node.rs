//! A block of a tree.

use crate::device::{Module, WorkMeter};
use crate::structures::list::Entry;
use std::hint::black_box;

/// Greatest number of keys of a block.
pub(super) const KEYS: usize = 32;
/// Number of keys below which a block is merged with a neighbour, if both together are not nearly
/// full.
const SPARSE: usize = KEYS / 4;
/// Index of the first key, and of the first value or child.
const KEYS_AT: u32 = 1;
const REST_AT: u32 = KEYS_AT + KEYS as u32;
/// Number of words that processors with caches fetch at once.
const WORDS_PER_LINE: usize = 8;
/// Numbers of words of a leaf and of an inner block.
pub(super) const LEAF_WORDS: usize = 1 + 2 * KEYS;
pub(super) const INNER_WORDS: usize = 1 + KEYS + KEYS / 2;
/// Number of words of the root, which may be either.
pub(super) const ROOT_WORDS: usize = LEAF_WORDS;
/// Bit that is set in the first word of a leaf.
const LEAF: u64 = 1 << 32;
/// Numbers of instructions to copy a block, and to compare a key of it, which is then in the
/// processor's own memory. *Assumed*.
const INSTRUCTIONS_PER_BLOCK: u64 = 20;
const INSTRUCTIONS_PER_KEY: u64 = 8;

/// A block whose keys were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockTreeNode(u32);

/// The content of a block that moves: keys, and values or children.
pub(super) struct BlockTreeContent {
    pub is_leaf: bool,
    pub entries: Vec<Entry>,
}

impl BlockTreeNode {
    /// Copies the keys of a block.
    pub fn visit<M: WorkMeter>(module: &mut Module<'_, M>, at: u32) -> BlockTreeNode {
        module.instructions(INSTRUCTIONS_PER_BLOCK);
        module.hop();
        // A copy of the head and all keys has a fixed length, so it needs no earlier read of the
        // count. Values and children are copied one at a time.
        module.read(at, REST_AT as usize);
        BlockTreeNode(at)
    }

    /// Turns a block into an empty leaf.
    pub fn new_leaf<M: WorkMeter>(module: &mut Module<'_, M>, at: u32) -> BlockTreeNode {
        module.write(at, &[LEAF]);
        BlockTreeNode(at)
    }

    pub fn at(self) -> u32 {
        self.0
    }

    pub fn is_leaf<M: WorkMeter>(self, module: &Module<'_, M>) -> bool {
        module.peek(self.0, 1)[0] & LEAF != 0
    }

    pub fn count<M: WorkMeter>(self, module: &Module<'_, M>) -> usize {
        module.peek(self.0, 1)[0] as u32 as usize
    }

    pub fn is_sparse<M: WorkMeter>(self, module: &Module<'_, M>) -> bool {
        self.count(module) < SPARSE
    }

    /// Returns the place of a key in a leaf, or the place where it would be inserted.
    pub fn find<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Result<usize, usize> {
        let count = self.count(module);
        debug_assert!(count <= KEYS);
        let found = module.peek(self.0 + KEYS_AT, count).binary_search(&key);
        compared(module, count);
        found
    }

    /// Returns the number of the child to which a key belongs.
    pub fn rank<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> usize {
        // The first bound is skipped: merges leave an arbitrary one there.
        let others = self.count(module).saturating_sub(1);
        let bounds = module.peek(self.0 + KEYS_AT + 1, others);
        let rank = bounds.partition_point(|&bound| bound <= key);
        compared(module, others);
        rank
    }

    /// Copies the keys of a child.
    pub fn below<M: WorkMeter>(self, module: &mut Module<'_, M>, child: usize) -> BlockTreeNode {
        debug_assert!(child < self.count(module));
        let word = module.read(self.0 + REST_AT + child as u32 / 2, 1)[0];
        BlockTreeNode::visit(module, (word >> (child % 2 * 32)) as u32)
    }

    pub fn value<M: WorkMeter>(self, module: &mut Module<'_, M>, place: usize) -> u64 {
        module.read(self.0 + REST_AT + place as u32, 1)[0]
    }

    pub fn set_value<M: WorkMeter>(self, module: &mut Module<'_, M>, place: usize, value: u64) {
        module.write(self.0 + REST_AT + place as u32, &[value]);
    }

    pub fn entry<M: WorkMeter>(self, module: &mut Module<'_, M>, place: usize) -> Entry {
        let value = self.value(module, place);
        (self.peek(module, place).0, value)
    }

    /// Copies the values of a leaf from place `from` on.
    pub fn read_values<M: WorkMeter>(self, module: &mut Module<'_, M>, from: usize) {
        let count = self.count(module);
        if from < count {
            module.read(self.0 + REST_AT + from as u32, count - from);
        }
    }

    /// Returns an entry that was copied.
    pub fn peek<M: WorkMeter>(self, module: &Module<'_, M>, place: usize) -> Entry {
        let (key, value) = (KEYS_AT + place as u32, REST_AT + place as u32);
        (
            module.peek(self.0 + key, 1)[0],
            module.peek(self.0 + value, 1)[0],
        )
    }

    /// Inserts into a leaf that has room.
    pub fn insert<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        place: usize,
        key: u64,
        value: u64,
    ) {
        let count = self.count(module);
        debug_assert!(count < KEYS && place <= count, "the leaf has room");
        for (at, word) in [(KEYS_AT, key), (REST_AT, value)] {
            let mut words = [0; KEYS + 1];
            let moved = count - place;
            let behind = module.peek(self.0 + at + place as u32, moved);
            words[1..=moved].copy_from_slice(behind);
            words[0] = word;
            if at == REST_AT && moved > 0 {
                // The keys were copied with the block.
                module.read(self.0 + at + place as u32, moved);
            }
            module.write(self.0 + at + place as u32, &words[..=moved]);
        }
        self.set_count(module, count + 1);
    }

    /// Removes from a leaf.
    pub fn remove<M: WorkMeter>(self, module: &mut Module<'_, M>, place: usize) {
        let count = self.count(module);
        debug_assert!(place < count);
        let behind = count - place - 1;
        if behind > 0 {
            for at in [KEYS_AT, REST_AT] {
                let at = self.0 + at + place as u32;
                let mut words = [0; KEYS];
                words[..behind].copy_from_slice(module.peek(at + 1, behind));
                if at == REST_AT {
                    module.read(at + 1, behind);
                }
                module.write(at, &words[..behind]);
            }
        }
        self.set_count(module, count - 1);
    }

    fn set_count<M: WorkMeter>(self, module: &mut Module<'_, M>, count: usize) {
        let kind = module.peek(self.0, 1)[0] & LEAF;
        module.write(self.0, &[kind | count as u64]);
    }

    /// Returns the content of a block whose keys were copied.
    pub fn content<M: WorkMeter>(self, module: &mut Module<'_, M>) -> BlockTreeContent {
        let (is_leaf, count) = (self.is_leaf(module), self.count(module));
        let keys = module.peek(self.0 + KEYS_AT, count).to_vec();
        let words = if is_leaf { count } else { count.div_ceil(2) };
        let rest = module.read(self.0 + REST_AT, words);
        let second = |place: usize| match is_leaf {
            true => rest[place],
            false => u64::from((rest[place / 2] >> (place % 2 * 32)) as u32),
        };
        let keys = keys.into_iter().enumerate();
        let entries = keys.map(|(place, key)| (key, second(place))).collect();
        BlockTreeContent { is_leaf, entries }
    }

    /// Overwrites a block with at most [`KEYS`] entries.
    pub fn fill<M: WorkMeter>(
        module: &mut Module<'_, M>,
        at: u32,
        is_leaf: bool,
        entries: &[Entry],
    ) {
        debug_assert!(entries.len() <= KEYS);
        debug_assert!(
            entries
                .get(usize::from(!is_leaf)..)
                .is_none_or(|bounds| bounds.is_sorted_by(|one, other| one.0 < other.0)),
            "keys ascend, except the bound of a first child"
        );
        let mut words = [0; LEAF_WORDS];
        words[0] = entries.len() as u64 | if is_leaf { LEAF } else { 0 };
        for (place, &(key, second)) in entries.iter().enumerate() {
            words[KEYS_AT as usize + place] = key;
            match is_leaf {
                true => words[REST_AT as usize + place] = second,
                false => words[REST_AT as usize + place / 2] |= second << (place % 2 * 32),
            }
        }
        let rest = match is_leaf {
            true => entries.len(),
            false => entries.len().div_ceil(2),
        };
        // Only the used words are written, because a copy costs time by its length.
        module.write(at, &words[..KEYS_AT as usize + entries.len()]);
        let from = REST_AT as usize;
        if rest > 0 {
            module.write(at + REST_AT, &words[from..from + rest]);
        }
    }

    /// Frees a block.
    pub fn free<M: WorkMeter>(self, module: &mut Module<'_, M>, is_root: bool) {
        let words = match (is_root, self.is_leaf(module)) {
            // The root was allocated as a leaf, and may have become an inner block.
            (true, _) => ROOT_WORDS,
            (false, true) => LEAF_WORDS,
            (false, false) => INNER_WORDS,
        };
        module.free(self.0, words);
    }
}

/// Prefetches the keys of a block, on a processor with caches.
pub(super) fn fetch_keys<M: WorkMeter>(module: &Module<'_, M>, at: u32) {
    let keys = module.peek(at, REST_AT as usize);
    let lines = keys.iter().step_by(WORDS_PER_LINE);
    // One word of each line makes the processor fetch it. The result keeps the compiler from
    // dropping the reads.
    black_box(lines.fold(0, |all, word| all ^ word));
}

/// Returns the child to which a key belongs, in a block whose keys were prefetched. Returns `None`
/// for a leaf, and prefetches the value.
pub(super) fn fetch_child<M: WorkMeter>(module: &Module<'_, M>, at: u32, key: u64) -> Option<u32> {
    let node = BlockTreeNode(at);
    let keys = module.peek(at + KEYS_AT, node.count(module));
    if node.is_leaf(module) {
        // A key above all others has the place behind the last, which a full leaf does not have.
        let place = keys.partition_point(|&other| other < key).min(KEYS - 1);
        black_box(module.peek(at + REST_AT + place as u32, 1)[0]);
        return None;
    }
    let bounds = keys.get(1..)?;
    let child = bounds.partition_point(|&bound| bound <= key);
    let word = module.peek(at + REST_AT + child as u32 / 2, 1)[0];
    Some((word >> (child % 2 * 32)) as u32)
}

/// Counts the cost of finding a place among sorted keys.
fn compared<M: WorkMeter>(module: &mut Module<'_, M>, keys: usize) {
    // A binary search among n keys compares the bit length of n.
    let looks = usize::BITS - keys.leading_zeros();
    for _ in 0..looks {
        module.compare();
        module.instructions(INSTRUCTIONS_PER_KEY);
    }
}
