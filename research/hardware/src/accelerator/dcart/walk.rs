//! An operation and its walk from the hardware's side.

use super::super::MemorySpan;

/// An operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcartOperation {
    /// The identity of the key: its hash, or its number.
    pub key: u64,
    /// The first eight bits of the key, by which operations are combined.
    pub label: u8,
    /// Number of bytes of its record: key, value, kind.
    pub bytes: u32,
    /// True if it may change the tree.
    pub writes: bool,
}

/// A node that a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcartVisit {
    /// The address of the node.
    pub node: u64,
    /// The bytes that are read first: header and keys, or a leaf.
    pub first: MemorySpan,
    /// The bytes that are read at the same time, because their place is known: an index, the slot
    /// of a large node, or a second line. Empty if there are none.
    pub also: MemorySpan,
    /// The bytes that are read when the first ones have arrived: the slot of the child, or an entry
    /// of a leaf. Empty if there are none.
    pub then: MemorySpan,
    /// True if the child, or its absence, was decided here. A leaf decides nothing.
    pub matches: bool,
    /// True if this is more of the node before, and not a node itself.
    pub continues: bool,
}

impl DcartVisit {
    /// Creates the visit of a leaf, whose key is compared.
    pub fn leaf(bytes: MemorySpan) -> DcartVisit {
        DcartVisit {
            node: bytes.address,
            first: bytes,
            also: MemorySpan::default(),
            then: MemorySpan::default(),
            matches: false,
            continues: false,
        }
    }

    /// Creates the visit of more bytes of the node before, which are read when all its other bytes
    /// have arrived.
    pub fn more(bytes: MemorySpan) -> DcartVisit {
        DcartVisit {
            continues: true,
            ..DcartVisit::leaf(bytes)
        }
    }

    /// Creates the visit of an inner node: its header and keys, and the slot to which they lead.
    pub fn inner(first: MemorySpan, then: MemorySpan) -> DcartVisit {
        DcartVisit {
            then,
            matches: true,
            ..DcartVisit::leaf(first)
        }
    }
}

/// Returns the places of the last node among visits, the *target* of a shortcut, and of its parent.
pub(super) fn named(visits: &[DcartVisit]) -> [Option<usize>; 2] {
    let begins = visits.iter().enumerate().rev();
    // A visit that continues another is a part of the same node.
    let mut begins = begins.filter(|(_, visit)| !visit.continues);
    [begins.next(), begins.next()].map(|visit| visit.map(|(place, _)| place))
}

/// The reads and changes of an operation in the tree.
///
/// The last two nodes are those to which a shortcut of the key leads: the *target*, and its parent.
#[derive(Clone, Debug, Default)]
pub struct DcartWalk {
    visits: Vec<DcartVisit>,
    stores: Vec<MemorySpan>,
    locks: Vec<u64>,
    freed: Vec<MemorySpan>,
    has_target: bool,
    moved: Option<[u64; 2]>,
}

impl DcartWalk {
    /// Adds a node, in the order of the walk.
    pub fn visit(&mut self, visit: DcartVisit) {
        self.visits.push(visit);
    }

    /// Adds bytes that the operation writes.
    pub fn store(&mut self, span: MemorySpan) {
        self.stores.push(span);
    }

    /// Adds a node that the operation must lock, if others may write it at the same time.
    pub fn lock(&mut self, address: u64) {
        self.locks.push(address);
    }

    /// Adds a node whose memory is free afterwards.
    pub fn free(&mut self, span: MemorySpan) {
        self.freed.push(span);
    }

    /// Records that the last node holds the key, so that a shortcut to it may be used and written.
    pub fn found(&mut self) {
        self.has_target = true;
    }

    /// Records that the key is afterwards in this node, under this parent: it was inserted, or the
    /// operation has replaced its node.
    pub fn moved(&mut self, target: u64, parent: u64) {
        self.moved = Some([target, parent]);
    }

    /// Empties the walk, and keeps its memory.
    pub fn clear(&mut self) {
        self.visits.clear();
        self.stores.clear();
        self.locks.clear();
        self.freed.clear();
        self.has_target = false;
        self.moved = None;
    }

    /// Returns the visited nodes.
    pub fn visits(&self) -> &[DcartVisit] {
        &self.visits
    }

    /// Returns the stores.
    pub fn stores(&self) -> &[MemorySpan] {
        &self.stores
    }

    /// Returns the nodes to lock.
    pub fn locks(&self) -> &[u64] {
        &self.locks
    }

    /// Returns the nodes that are free afterwards.
    pub fn freed(&self) -> &[MemorySpan] {
        &self.freed
    }

    /// Returns the addresses of the target and its parent as the operation finds them, if the key
    /// is there. A target without a parent is its own parent.
    pub fn target_before(&self) -> Option<[u64; 2]> {
        let [target, parent] = named(&self.visits);
        let address = |place: usize| self.visits[place].node;
        let target = target.filter(|_| self.has_target).map(address)?;
        Some([target, parent.map_or(target, address)])
    }

    /// Returns the addresses of the target and its parent as the operation leaves them.
    pub fn target_after(&self) -> Option<[u64; 2]> {
        self.moved.or(self.target_before())
    }
}

/// The tree that the model walks.
pub trait DcartTree {
    /// Executes operation number `operation` of the run, and describes its walk in `walk`, which is
    /// empty. Operations come in order.
    fn execute(&mut self, operation: usize, walk: &mut DcartWalk);
}

/// The walks of a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Walks {
    visits: Vec<DcartVisit>,
    stores: Vec<MemorySpan>,
    locks: Vec<u64>,
    freed: Vec<MemorySpan>,
    ends: Vec<WalkPartEnds>,
}

/// The ends of the parts of a walk in the lists of all walks.
#[derive(Clone, Copy, Debug, Default)]
struct WalkPartEnds {
    visits: u32,
    stores: u32,
    locks: u32,
    freed: u32,
    before: Option<[u64; 2]>,
    after: Option<[u64; 2]>,
}

/// A walk in a batch. Fields as in [`DcartWalk`].
#[derive(Clone, Copy, Debug)]
pub(super) struct DcartWalkView<'a> {
    pub(super) visits: &'a [DcartVisit],
    pub(super) stores: &'a [MemorySpan],
    pub(super) locks: &'a [u64],
    pub(super) freed: &'a [MemorySpan],
    pub(super) before: Option<[u64; 2]>,
    pub(super) after: Option<[u64; 2]>,
}

impl Walks {
    pub(super) fn push(&mut self, walk: &DcartWalk) {
        // The parts of all walks lie in common lists, because a batch has tens of thousands of
        // short walks.
        self.visits.extend_from_slice(walk.visits());
        self.stores.extend_from_slice(walk.stores());
        self.locks.extend_from_slice(walk.locks());
        self.freed.extend_from_slice(walk.freed());
        debug_assert!(u32::try_from(self.visits.len().max(self.stores.len())).is_ok());
        self.ends.push(WalkPartEnds {
            visits: self.visits.len() as u32,
            stores: self.stores.len() as u32,
            locks: self.locks.len() as u32,
            freed: self.freed.len() as u32,
            before: walk.target_before(),
            after: walk.target_after(),
        });
    }

    /// Returns the walk of an operation, by its place in the batch.
    pub(super) fn get(&self, index: usize) -> DcartWalkView<'_> {
        let begin = index
            .checked_sub(1)
            .map_or(WalkPartEnds::default(), |before| self.ends[before]);
        let end = self.ends[index];
        DcartWalkView {
            visits: &self.visits[begin.visits as usize..end.visits as usize],
            stores: &self.stores[begin.stores as usize..end.stores as usize],
            locks: &self.locks[begin.locks as usize..end.locks as usize],
            freed: &self.freed[begin.freed as usize..end.freed as usize],
            before: end.before,
            after: end.after,
        }
    }
}

/// The walks of all operations of a run, so that several designs can walk a tree that was built
/// once. Operations come in the same order in each run, so their walks are the same.
///
/// ```
/// use nearfield_hardware::accelerator::MemorySpan;
/// use nearfield_hardware::accelerator::dcart::{WalkRecording, DcartTree, DcartVisit, DcartWalk};
///
/// struct Flat(u32);
/// impl DcartTree for Flat {
///     fn execute(&mut self, _: usize, walk: &mut DcartWalk) {
///         self.0 += 1;
///         walk.visit(DcartVisit::leaf(MemorySpan { address: 0x40, bytes: 64 }));
///     }
/// }
///
/// let mut tree = Flat(0);
/// let recording = WalkRecording::of(&mut tree, 10);
/// let mut walk = DcartWalk::default();
/// (&recording).execute(3, &mut walk);
/// assert_eq!((tree.0, walk.visits().len()), (10, 1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct WalkRecording {
    walks: Walks,
}

impl WalkRecording {
    /// Records a tree's execution of a number of operations.
    pub fn of(tree: &mut impl DcartTree, operations: usize) -> WalkRecording {
        let (mut walks, mut walk) = (Walks::default(), DcartWalk::default());
        for operation in 0..operations {
            walk.clear();
            tree.execute(operation, &mut walk);
            walks.push(&walk);
        }
        WalkRecording { walks }
    }
}

impl DcartTree for &WalkRecording {
    fn execute(&mut self, operation: usize, walk: &mut DcartWalk) {
        let recorded = self.walks.get(operation);
        walk.visits.extend_from_slice(recorded.visits);
        walk.stores.extend_from_slice(recorded.stores);
        walk.locks.extend_from_slice(recorded.locks);
        walk.freed.extend_from_slice(recorded.freed);
        walk.has_target = recorded.before.is_some();
        // Only a target that differs from the one that was found has moved.
        walk.moved = recorded
            .after
            .filter(|after| recorded.before != Some(*after));
    }
}
