//! Optional counts of the engine. Counting is a type parameter: with [`Off`] the calls vanish at
//! compile time.

/// Receives the events of traversals and writes.
///
/// Where one operation is executed after the other, each [`node`](Probe::node) is reported, so that
/// a model of hardware can be driven by it: by the [rivals](crate::rivals), and by the engine in
/// that mode. The rivals report what they write, too; the engine does so in
/// [`execute_recorded`](crate::Radix::execute_recorded). Interleaved walks of the engine report
/// [`partial_key_match`](Probe::partial_key_match) and [`leaf`](Probe::leaf) instead. A probe that
/// records the events of an operation begins anew at [`operation`](Probe::operation).
pub trait Probe {
    /// False if nothing that is reported matters, so that it need not be found out.
    #[inline]
    fn listens(&self) -> bool {
        true
    }
    /// The operation at a position of the batch begins. Only who executes one operation after the
    /// other says so.
    #[inline]
    fn operation(&mut self, _position: usize) {}
    /// A walk reads a node or leaf; visits come in the order of the walk. At an inner node it
    /// decides the child or its absence, which is one partial key match.
    #[inline]
    fn node(&mut self, _visit: Visit) {}
    /// Bytes of the node visited last are read whose place its first bytes tell: slots that lie
    /// apart from it, or an entry of a leaf of several.
    #[inline]
    fn part(&mut self, _address: usize, _bytes: u32) {}
    /// Bytes of a node or leaf are written, those of new ones too. The words of locks are none of
    /// them: [`lock`](Probe::lock) stands for these.
    #[inline]
    fn write(&mut self, _address: usize, _bytes: u32) {}
    /// A node, at `old`, is replaced by another one, at `new`, of `bytes` bytes: it has grown or
    /// shrunk or was copied, or a node with a single entry gave its place to that entry. The engine
    /// says so of leaves, too, and names what the path of the key leads to now.
    #[inline]
    fn replace(&mut self, _old: usize, _new: usize, _bytes: u32) {}
    /// The key of an operation that has changed the tree lies in the leaf at `target` now, below
    /// the node at `parent`. Only [`execute_recorded`](crate::Radix::execute_recorded) says so.
    #[inline]
    fn moved(&mut self, _target: usize, _parent: usize) {}
    /// One step of deciding the child (or its absence) at one inner node, for one operation or
    /// one combined run; `lines` is the number of cache lines that the step reads.
    #[inline]
    fn partial_key_match(&mut self, _lines: u64) {}
    /// One leaf compared with a key.
    #[inline]
    fn leaf(&mut self) {}
    /// One lock acquired, after `waits` unsuccessful attempts. The latch of a block counts where it
    /// is the only lock, not where it is taken under that of a node.
    #[inline]
    fn lock(&mut self, _waits: u32) {}
    /// A walk has found a node locked, and has waited for the writer.
    #[inline]
    fn wait(&mut self) {}
    /// A walk has restarted because another thread has changed the tree.
    #[inline]
    fn restart(&mut self) {}
    /// `operations` operations that were served by the visit of another operation on their key.
    #[inline]
    fn duplicates(&mut self, _operations: u64) {}
    /// One look into the shortcut table.
    #[inline]
    fn shortcut(&mut self, _hit: bool) {}
}

/// A node or leaf that a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Where it begins.
    pub address: usize,
    /// Which kind it is.
    pub kind: Visited,
    /// All of its bytes, without parts that lie apart.
    pub bytes: u32,
    /// The bytes read from its beginning on: header and, where they are searched, key bytes; of a
    /// leaf its header and its key or keys. None of a node256 whose depth its reference tells.
    pub head_bytes: u32,
    /// Of these, the bytes of a compressed prefix that were compared.
    pub prefix_bytes: u32,
    /// The offset of the byte of an index that was read, or 0 if there is none.
    pub index: u32,
    /// The offset of the slot that was read, or 0 if none was. It has 8 bytes, or 4 in inner nodes
    /// of the engine.
    pub slot: u32,
}

/// A kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Visited {
    /// An inner node with room for so many children: 4, 16, 48 or 256 in the adaptive radix tree.
    Inner {
        /// The room.
        slots: u16,
    },
    /// A leaf: the key and value of one entry, or several entries in the engine's tree.
    Leaf,
}

/// The bytes of a cache line.
const LINE: usize = 64;

impl Visit {
    /// The number of different cache lines that were read.
    #[inline]
    pub fn lines(&self) -> u64 {
        let line = |offset: u32| (self.address + offset as usize) / LINE;
        let (mut lines, mut beyond) = (0, 0);
        if self.head_bytes > 0 {
            beyond = line(self.head_bytes - 1);
            lines = beyond - line(0) + 1;
        }
        // An index lies before the slots.
        for offset in [self.index, self.slot] {
            if offset != 0 && line(offset) > beyond {
                beyond = line(offset);
                lines += 1;
            }
        }
        lines as u64
    }
}

/// Counts nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Probe for Off {
    #[inline]
    fn listens(&self) -> bool {
        false
    }
}

/// Counts everything. Definitions follow the DCART paper, Fig. 7 and 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Decisions for a child at an inner node; a shortcut that hits needs none.
    pub partial_key_matches: u64,
    /// Cache lines of inner nodes and leaves read, whether or not they were in a cache.
    pub cache_lines: u64,
    /// Leaves compared with a key.
    pub leaves: u64,
    /// Locks acquired.
    pub lock_acquisitions: u64,
    /// Unsuccessful attempts to acquire a lock.
    pub lock_waits: u64,
    /// Restarted walks.
    pub restarts: u64,
    /// Lock contentions: locks that were not acquired at the first attempt, nodes that a walk found
    /// locked, and restarts.
    pub lock_contentions: u64,
    /// Writes to nodes and leaves. Only those of rivals are counted.
    pub writes: u64,
    /// Nodes that gave their place to another one. Only those of rivals are counted.
    pub replacements: u64,
    /// Operations served by the visit of another operation on the same key.
    pub duplicates_merged: u64,
    /// Shortcuts found and valid.
    pub shortcut_hits: u64,
    /// Shortcuts not found, or no longer valid.
    pub shortcut_misses: u64,
}

impl Probe for Counters {
    fn node(&mut self, visit: Visit) {
        match visit.kind {
            Visited::Inner { .. } => self.partial_key_matches += 1,
            Visited::Leaf => self.leaves += 1,
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
        let visit = |head_bytes, index, slot| Visit {
            address: 640,
            kind: Visited::Inner { slots: 48 },
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
        let straddling = Visit {
            address: 700,
            ..visit(16, 0, 0)
        };
        assert_eq!(straddling.lines(), 2);
    }
}
