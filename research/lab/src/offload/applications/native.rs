//! The rivals' calls at the memory node, in native code: they do the same as the programs.

use nearfield_offload::node::{LocalMemory, Tenant, TenantMemory};
use nearfield_offload::program::{ProgramHash, TraversalProgram};
use nearfield_offload::structures::layout::{b_plus, chain};
use nearfield_offload::structures::programs::{
    AGGREGATE_COUNT, AGGREGATE_END, AGGREGATE_MAX, AGGREGATE_MIN, AGGREGATE_SUM, ENTRIES_MAX,
    FIND_ALL_BYTES, FIND_ALL_MAX, FIND_ALL_PAIRS, SCAN_COUNT, SCAN_ENTRIES, SCAN_MAX, SCAN_WANTED,
};
use nearfield_offload::structures::{BPlusTree, NodeArena};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tenant that owns the memory.
pub(super) const TENANT: Tenant = Tenant(1);

/// A program in native code: it starts from an address and a scratchpad, and changes the
/// scratchpad. If it stops at a node elsewhere, it can be resumed from that address and the
/// scratchpad.
type Routine = fn(&NativeStructureNodes<'_>, u64, &mut Scratchpad) -> Result<(), Elsewhere>;

/// The address of a node that is not in this memory.
pub(super) struct Elsewhere(u64);

/// The result of a traversal at a memory node.
pub(super) struct NativeTraversalResult {
    /// The address at another memory node where it continues; 0 at its end.
    pub next: u64,
    pub scratchpad: Vec<u8>,
}

/// The native code of a memory node.
pub(super) struct NativeCode<'m> {
    memory: &'m LocalMemory<'m>,
    all: Vec<(ProgramHash, Routine, usize)>,
    tree: BPlusTree,
    heap: NodeArena<TenantMemory<'m>>,
}

impl<'m> NativeCode<'m> {
    /// Creates native code for the programs of the applications; insertions allocate from `heap`.
    pub(super) fn new(
        memory: &'m LocalMemory<'m>,
        heap: NodeArena<TenantMemory<'m>>,
    ) -> NativeCode<'m> {
        NativeCode {
            memory,
            all: Vec::new(),
            tree: BPlusTree::at(0),
            heap,
        }
    }

    /// Adds native code for a program.
    pub(super) fn with(
        mut self,
        program: &Arc<TraversalProgram>,
        routine: Routine,
    ) -> NativeCode<'m> {
        self.all
            .push((program.hash(), routine, program.scratchpad_bytes()));
        self
    }

    pub(super) fn memory(&self) -> TenantMemory<'m> {
        self.memory.of(TENANT)
    }

    /// Computes the result of a program; returns `None` if there is no native code for it, or the
    /// start is not in this memory.
    pub(super) fn traverse(
        &self,
        program: ProgramHash,
        start: u64,
        scratchpad: &[u8],
    ) -> Option<NativeTraversalResult> {
        let &(_, routine, bytes) = self.all.iter().find(|(hash, ..)| *hash == program)?;
        if scratchpad.len() > bytes {
            return None;
        }
        let mut scratchpad = Scratchpad::new(scratchpad, bytes);
        let next = match routine(&NativeStructureNodes(self.memory), start, &mut scratchpad) {
            Ok(()) => 0,
            // A call that stops where it begins would be sent to this node again and again.
            Err(Elsewhere(next)) if next != start => next,
            Err(_) => return None,
        };
        let scratchpad = scratchpad.0;
        Some(NativeTraversalResult { next, scratchpad })
    }

    /// Inserts into the tree of a root, and returns its new root.
    pub(super) fn insert(&mut self, root: u64, key: u64, value: u64) -> Option<u64> {
        // The caller names the present root, which may have grown since the last call.
        if self.tree.root() != root {
            self.tree = BPlusTree::at(root);
        }
        self.tree.insert(&mut self.heap, key, value).ok()?;
        Some(self.tree.root())
    }
}

/// The nodes of a memory node, by their addresses.
pub(super) struct NativeStructureNodes<'m>(&'m LocalMemory<'m>);

impl NativeStructureNodes<'_> {
    /// Returns the words of a node.
    #[inline]
    fn node(&self, address: u64, bytes: u64) -> Result<&[AtomicU64], Elsewhere> {
        self.find(address, bytes).ok_or(Elsewhere(address))
    }

    #[inline]
    fn find(&self, address: u64, bytes: u64) -> Option<&[AtomicU64]> {
        let range = self.0.ranges().find(address)?;
        let distance = address - range.start;
        if range.tenant != TENANT || range.bytes - distance < bytes {
            return None;
        }
        let first = ((range.offset + distance) / 8) as usize;
        self.0.words().get(first..first + (bytes / 8) as usize)
    }
}

#[inline]
fn word(node: &[AtomicU64], field: u64) -> u64 {
    node.get((field / 8) as usize)
        .map_or(0, |word| word.load(Ordering::Relaxed))
}

/// A scratchpad, accessed by words.
pub(super) struct Scratchpad(Vec<u8>);

impl Scratchpad {
    fn new(bytes: &[u8], length: usize) -> Scratchpad {
        let mut all = bytes.to_vec();
        all.resize(length, 0);
        Scratchpad(all)
    }

    fn get(&self, number: usize) -> u64 {
        let bytes = self.0.get(8 * number..8 * number + 8);
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }

    fn set(&mut self, number: usize, value: u64) {
        if let Some(bytes) = self.0.get_mut(8 * number..8 * number + 8) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// Runs [`chain_find_all`](nearfield_offload::structures::programs::chain_find_all).
pub(super) fn find_all(
    nodes: &NativeStructureNodes<'_>,
    _: u64,
    scratchpad: &mut Scratchpad,
) -> Result<(), Elsewhere> {
    let count = (scratchpad.get(FIND_ALL_BYTES) / 16).min(FIND_ALL_MAX as u64) as usize;
    let done = (scratchpad.get(0) / 16) as usize;
    for number in done..count {
        let pair = FIND_ALL_PAIRS + 2 * number;
        let key = scratchpad.get(pair + 1);
        let (mut address, mut found) = (scratchpad.get(pair), None);
        while address != 0 && found.is_none() {
            // If the node is elsewhere, the call goes on from here.
            scratchpad.set(pair, address);
            let node = nodes.node(address, chain::BYTES)?;
            if word(node, chain::USED) != 0 && word(node, chain::KEY) == key {
                found = Some(word(node, chain::VALUE));
            }
            address = word(node, chain::NEXT);
        }
        scratchpad.set(pair, found.unwrap_or(0));
        scratchpad.set(pair + 1, found.is_some().into());
        scratchpad.set(0, 16 * (number + 1) as u64);
    }
    Ok(())
}

/// Finds the leaf that may have a key, below a node on its route.
fn leaf<'n>(
    nodes: &'n NativeStructureNodes<'_>,
    root: u64,
    key: u64,
) -> Result<&'n [AtomicU64], Elsewhere> {
    let mut node = nodes.node(root, b_plus::BYTES)?;
    while word(node, b_plus::IS_LEAF) == 0 {
        let count = word(node, b_plus::COUNT).min(ENTRIES_MAX as u64);
        let separator = |index| word(node, b_plus::ENTRIES + 16 * index);
        let child = (0..count)
            .find(|&index| separator(index) > key)
            .unwrap_or(count);
        node = nodes.node(word(node, b_plus::CHILDREN + 8 * child), b_plus::BYTES)?;
    }
    Ok(node)
}

/// Calls `visit` with entries from a key on until it returns false.
fn each_entry(
    nodes: &NativeStructureNodes<'_>,
    root: u64,
    key: u64,
    mut visit: impl FnMut(u64, u64) -> bool,
) -> Result<(), Elsewhere> {
    let mut node = leaf(nodes, root, key)?;
    loop {
        // A count that is read during a change must not lead beyond the node.
        for index in 0..word(node, b_plus::COUNT).min(ENTRIES_MAX as u64) {
            let entry = b_plus::ENTRIES + 16 * index;
            let found = word(node, entry);
            if found >= key && !visit(found, word(node, entry + 8)) {
                return Ok(());
            }
        }
        match word(node, b_plus::NEXT) {
            0 => return Ok(()),
            next => node = nodes.node(next, b_plus::BYTES)?,
        }
    }
}

/// Runs [`b_plus_scan`](nearfield_offload::structures::programs::b_plus_scan).
pub(super) fn scan(
    nodes: &NativeStructureNodes<'_>,
    node: u64,
    scratchpad: &mut Scratchpad,
) -> Result<(), Elsewhere> {
    let wanted = scratchpad.get(SCAN_WANTED).min(SCAN_MAX as u64) as usize;
    let mut count = scratchpad.get(SCAN_COUNT) as usize;
    if count >= wanted {
        return Ok(());
    }
    let reached = each_entry(nodes, node, scratchpad.get(0), |key, value| {
        scratchpad.set(SCAN_ENTRIES + 2 * count, key);
        scratchpad.set(SCAN_ENTRIES + 2 * count + 1, value);
        count += 1;
        count < wanted
    });
    scratchpad.set(SCAN_COUNT, count as u64);
    reached
}

/// Runs [`b_plus_aggregate`](nearfield_offload::structures::programs::b_plus_aggregate).
pub(super) fn aggregate(
    nodes: &NativeStructureNodes<'_>,
    node: u64,
    scratchpad: &mut Scratchpad,
) -> Result<(), Elsewhere> {
    let (begin, end) = (scratchpad.get(0), scratchpad.get(AGGREGATE_END));
    let (mut count, mut sum) = (
        scratchpad.get(AGGREGATE_COUNT),
        scratchpad.get(AGGREGATE_SUM),
    );
    let (mut least, mut greatest) = (scratchpad.get(AGGREGATE_MIN), scratchpad.get(AGGREGATE_MAX));
    let reached = each_entry(nodes, node, begin, |key, value| {
        if key >= end {
            return false;
        }
        count += 1;
        sum = sum.wrapping_add(value);
        least = least.min(value);
        greatest = greatest.max(value);
        true
    });
    for (place, value) in [
        (AGGREGATE_COUNT, count),
        (AGGREGATE_SUM, sum),
        (AGGREGATE_MIN, least),
        (AGGREGATE_MAX, greatest),
    ] {
        scratchpad.set(place, value);
    }
    reached
}
