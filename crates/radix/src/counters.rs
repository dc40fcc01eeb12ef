//! Optional counts of the engine. Counting is a type parameter: with [`Off`] the compiler removes
//! the calls.

/// Receiver of the events of traversals and writes.
///
/// If operations are executed one after another, each [`node`](RadixProbe::node) is reported, so
/// that the events can drive a hardware model. The trees of `research/radix-rivals` do this, and
/// the engine in that mode. Those trees also report their writes; the engine does so in
/// [`execute_recorded`](crate::RadixIndex::execute_recorded). The engine's interleaved walks report
/// [`partial_key_match`](RadixProbe::partial_key_match) and [`leaf`](RadixProbe::leaf) instead. A
/// probe that records the events of each operation starts a new record at
/// [`operation`](RadixProbe::operation).
pub trait RadixProbe {
    /// Returns false if no event matters, so that the caller need not determine any.
    #[inline]
    fn listens(&self) -> bool {
        true
    }
    /// Reports that the operation at a position of the batch begins. Only called if operations are
    /// executed one after another.
    #[inline]
    fn operation(&mut self, _position: usize) {}
    /// Reports that a walk reads a node or leaf; visits come in the order of the walk. At an inner
    /// node it decides the child or its absence, which is one partial key match.
    #[inline]
    fn node(&mut self, _visit: RadixNodeVisit) {}
    /// Reports a read of further bytes of the node visited last, whose place its first bytes give:
    /// slots that are stored apart, or an entry of a leaf of several.
    #[inline]
    fn part(&mut self, _address: usize, _bytes: u32) {}
    /// Reports that bytes of a node or leaf are written, including new ones. The words of locks are
    /// not included: [`lock`](RadixProbe::lock) stands for these.
    #[inline]
    fn write(&mut self, _address: usize, _bytes: u32) {}
    /// Reports that a node at `old` is replaced by another one at `new`, of `bytes` bytes: it has
    /// grown or shrunk or was copied, or a node with a single entry was replaced by that entry. The
    /// engine also reports leaves, and `new` is the node that the key's path now leads to.
    #[inline]
    fn replace(&mut self, _old: usize, _new: usize, _bytes: u32) {}
    /// Reports that the key of an operation that has changed the tree is now in the leaf at
    /// `target`, below the node at `parent`. Only called by
    /// [`execute_recorded`](crate::RadixIndex::execute_recorded).
    #[inline]
    fn moved(&mut self, _target: usize, _parent: usize) {}
    /// Reports one step of deciding the child (or its absence) at one inner node, for one operation
    /// or one combined run; `lines` is the number of cache lines that the step reads.
    #[inline]
    fn partial_key_match(&mut self, _lines: u64) {}
    /// Reports that one leaf is compared with a key.
    #[inline]
    fn leaf(&mut self) {}
    /// Reports one lock acquired, after `waits` unsuccessful attempts. The latch of a block counts
    /// if it is the only lock, not if it is taken under the lock of a node.
    #[inline]
    fn lock(&mut self, _waits: u32) {}
    /// Reports that a walk has found a node locked, and has waited for the writer.
    #[inline]
    fn wait(&mut self) {}
    /// Reports that a walk has restarted because another thread has changed the tree.
    #[inline]
    fn restart(&mut self) {}
    /// Reports `operations` operations that were served by another operation's visit of their key.
    #[inline]
    fn duplicates(&mut self, _operations: u64) {}
    /// Reports one lookup in the shortcut table.
    #[inline]
    fn shortcut(&mut self, _hit: bool) {}
}

/// A node or leaf that a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadixNodeVisit {
    /// The address of its first byte.
    pub address: usize,
    /// The kind of the node.
    pub kind: VisitedNodeKind,
    /// Size in bytes, without parts that are stored apart.
    pub bytes: u32,
    /// Number of bytes read from its beginning on: the header and, if they are searched, the key
    /// bytes; of a leaf the header and the key or keys. Zero for a node256 whose depth its
    /// reference gives.
    pub head_bytes: u32,
    /// Number of these bytes that belong to a compressed prefix and were compared.
    pub prefix_bytes: u32,
    /// The offset of the index byte that was read, or 0 if there is none.
    pub index: u32,
    /// The offset of the slot that was read, or 0 if none was. A slot has 8 bytes, or 4 in inner
    /// nodes of the engine.
    pub slot: u32,
}

/// A kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VisitedNodeKind {
    /// An inner node. The adaptive radix tree has nodes of 4, 16, 48 and 256 slots.
    Inner {
        /// Number of slots.
        slots: u16,
    },
    /// A leaf: the key and value of one entry, or several entries in the engine's tree.
    Leaf,
}

/// The size of a cache line in bytes.
const LINE: usize = 64;

impl RadixNodeVisit {
    /// Returns the number of different cache lines that were read.
    #[inline]
    pub fn lines(&self) -> u64 {
        let line = |offset: u32| (self.address + offset as usize) / LINE;
        let (mut lines, mut beyond) = (0, 0);
        if self.head_bytes > 0 {
            beyond = line(self.head_bytes - 1);
            lines = beyond - line(0) + 1;
        }
        // An index precedes the slots.
        for offset in [self.index, self.slot] {
            if offset != 0 && line(offset) > beyond {
                beyond = line(offset);
                lines += 1;
            }
        }
        lines as u64
    }
}

/// The probe that counts nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl RadixProbe for Off {
    #[inline]
    fn listens(&self) -> bool {
        false
    }
}

/// The probe that counts all events. Definitions follow the DCART paper, Fig. 7 and 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadixCounters {
    /// Number of decisions for a child at an inner node; a shortcut that hits needs none.
    pub partial_key_matches: u64,
    /// Number of cache lines of inner nodes and leaves read, in a cache or not.
    pub cache_lines: u64,
    /// Number of leaves compared with a key.
    pub leaves: u64,
    /// Number of locks acquired.
    pub lock_acquisitions: u64,
    /// Number of unsuccessful attempts to acquire a lock.
    pub lock_waits: u64,
    /// Number of restarted walks.
    pub restarts: u64,
    /// Number of lock contentions: locks that were not acquired at the first attempt, nodes that a
    /// walk found locked, and restarts.
    pub lock_contentions: u64,
    /// Number of writes to nodes and leaves. Counted for rivals only.
    pub writes: u64,
    /// Number of nodes that were replaced. Counted for rivals only.
    pub replacements: u64,
    /// Number of operations served by another operation's visit of the same key.
    pub duplicates_merged: u64,
    /// Number of shortcuts found and valid.
    pub shortcut_hits: u64,
    /// Number of shortcuts that were absent or no longer valid.
    pub shortcut_misses: u64,
}

impl RadixProbe for RadixCounters {
    fn node(&mut self, visit: RadixNodeVisit) {
        match visit.kind {
            VisitedNodeKind::Inner { .. } => self.partial_key_matches += 1,
            VisitedNodeKind::Leaf => self.leaves += 1,
        }
        self.cache_lines += visit.lines();
    }
    fn part(&mut self, address: usize, bytes: u32) {
        let last = address + bytes.max(1) as usize - 1;
        self.cache_lines += (last / LINE - address / LINE + 1) as u64;
    }
    fn write(&mut self, _address: usize, _bytes: u32) {
        self.writes += 1;
    }
    fn replace(&mut self, _old: usize, _new: usize, _bytes: u32) {
        self.replacements += 1;
    }
    fn partial_key_match(&mut self, lines: u64) {
        self.partial_key_matches += 1;
        self.cache_lines += lines;
    }
    fn leaf(&mut self) {
        self.leaves += 1;
        self.cache_lines += 1;
    }
    fn lock(&mut self, waits: u32) {
        self.lock_acquisitions += 1;
        self.lock_waits += u64::from(waits);
        self.lock_contentions += u64::from(waits > 0);
    }
    fn wait(&mut self) {
        self.lock_contentions += 1;
    }
    fn restart(&mut self) {
        self.restarts += 1;
        self.lock_contentions += 1;
    }
    fn duplicates(&mut self, operations: u64) {
        self.duplicates_merged += operations;
    }
    fn shortcut(&mut self, hit: bool) {
        if hit {
            self.shortcut_hits += 1;
        } else {
            self.shortcut_misses += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_reads_each_line_once() {
        let visit = |head_bytes, index, slot| RadixNodeVisit {
            address: 640,
            kind: VisitedNodeKind::Inner { slots: 48 },
            bytes: 656,
            head_bytes,
            prefix_bytes: 0,
            index,
            slot,
        };
        assert_eq!(visit(24, 0, 0).lines(), 1);
        assert_eq!(visit(24, 40, 0).lines(), 1);
        assert_eq!(visit(24, 40, 63).lines(), 1);
        assert_eq!(visit(24, 64, 120).lines(), 2);
        assert_eq!(visit(24, 64, 128).lines(), 3);
        assert_eq!(visit(40, 0, 100).lines(), 2);
        assert_eq!(visit(65, 0, 100).lines(), 2);
        assert_eq!(visit(0, 0, 100).lines(), 1);
        let straddling = RadixNodeVisit {
            address: 700,
            ..visit(16, 0, 0)
        };
        assert_eq!(straddling.lines(), 2);
    }
}
