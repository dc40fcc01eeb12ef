//! Nodes of large objects: the parts that move to other tiers one by one, while the rest of the
//! object stays where it is. A list has its chunks as nodes, a hash the values of its fields.
//!
//! A command declares which [`ObjectPart`] of its keys it touches. Before it runs, the nodes of
//! that part that are in a cold tier are brought into memory, if it changes them, or lent to it, if
//! it reads them. So commands encounter no cold node, and a command that touches warm nodes only
//! reads no tier.

use super::{FrozenObjectError, ObjectLimits, StoredObject};
use nearfield_tiers::cold::ColdTiers;
use nearfield_tiers::{ColdPlace, ReadError};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory above which objects move node by node, others as a whole. *Assumed*: this much is
/// decompressed, or read from an SSD, in a tenth of a millisecond.
pub const WHOLE_BYTES_MAX: usize = 64 << 10;

/// The part of an object that a command touches. For a list, the part is a set of elements. For a
/// hash it is a set of values, because the fields are always in memory. For an object of another
/// type the part has no meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectPart<'a> {
    /// The whole object.
    All,
    /// Only what is known of all nodes, such as the number of elements.
    Counts,
    /// The given numbers of elements at the ends of a list. A push needs at least one, so that
    /// the chunk at that end is in memory.
    Ends {
        /// Number of elements at the front.
        front: usize,
        /// Number of elements at the back.
        back: usize,
    },
    /// The elements from an index to another one, which is included. Negative ones count from the
    /// end.
    Range(i64, i64),
    /// The elements at the two indexes, at which the list is cut.
    Cuts(i64, i64),
    /// The element at an index, and the nodes next to its own.
    Around(i64),
    /// The first element that equals another, and the nodes next to its own.
    First(&'a [u8]),
    /// Elements that equal another: the first ones up to this number, the last ones if it is
    /// negative, or all if it is 0.
    Each(i64, &'a [u8]),
    /// The values of fields.
    Fields(Fields<'a>),
    /// The values of fields that are replaced, so that the old values are not read.
    Replaced(Fields<'a>),
    /// The values that a step of a scan visits.
    Step {
        /// The cursor at which the step continues.
        cursor: u64,
        /// The approximate number of elements that it visits.
        count: usize,
    },
}

/// Fields of a hash.
pub type Fields<'a> = Vec<&'a [u8]>;

/// A function that returns which part of its keys a command touches, given its arguments.
pub type PartOf = for<'a> fn(&[&'a [u8]]) -> ObjectPart<'a>;

/// Returns the part of a command that declares nothing else.
pub fn all<'a>(_: &[&'a [u8]]) -> ObjectPart<'a> {
    ObjectPart::All
}

/// Returns the part of a command that reads counts only.
pub fn counts<'a>(_: &[&'a [u8]]) -> ObjectPart<'a> {
    ObjectPart::Counts
}

/// The error for a node of a cold tier that cannot be read.
#[derive(Debug)]
pub struct ColdNodeError {
    /// The place of the node.
    pub place: ColdPlace,
    /// The cause.
    pub why: ReadError,
}

/// The numbers and places of nodes in a cold tier that a command has used.
pub type Met = SmallVec<[(u64, ColdPlace); 4]>;

/// The place of a node in a cold tier, which is released when this is dropped.
#[derive(Debug)]
pub struct Away {
    cold: Arc<ColdTiers>,
    place: ColdPlace,
}

impl Away {
    /// Creates the handle of a node that a cold tier has stored.
    pub fn new(cold: &Arc<ColdTiers>, place: ColdPlace) -> Away {
        Away {
            cold: Arc::clone(cold),
            place,
        }
    }

    /// Returns the place of the node.
    pub fn place(&self) -> ColdPlace {
        self.place
    }

    /// Appends the node to `out`.
    ///
    /// # Errors
    /// The node cannot be read.
    pub fn read(&self, out: &mut Vec<u8>) -> Result<(), ColdNodeError> {
        let read = self.cold.read(self.place, out);
        read.map_err(|why| self.unread(why))
    }

    /// Creates an error that names the place.
    pub fn unread(&self, why: ReadError) -> ColdNodeError {
        ColdNodeError {
            place: self.place,
            why,
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        // Not retired before: a node is only read under the lock of its object's slot, or while the
        // place is held.
        self.cold.release(self.place);
    }
}

/// Returns a number that no other node of this process has; never 0.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // The numbers order nothing: they only differ.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A node that is being moved to another tier, as it was when it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectNodeCopy {
    /// The number of the node.
    pub number: u64,
    pub(super) version: u32,
    /// The index at which it was found among the nodes of its object.
    pub(super) index: usize,
    pub(super) place: Option<ColdPlace>,
}

impl ObjectNodeCopy {
    /// Returns the index at which it was found among the nodes of its object.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the place of the node if it was in a cold tier. The place must be held until the
    /// move ends.
    pub fn place(&self) -> Option<ColdPlace> {
        self.place
    }
}

/// The facts about a node that the mover gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectNodeUse {
    /// The number of the node.
    pub number: u64,
    /// Its place, if it is in a cold tier.
    pub place: Option<ColdPlace>,
    /// Its bytes: for memory the bytes taken from the heap, for a cold tier the bytes given to it.
    pub bytes: usize,
    /// Number of commands that have touched it since the last visit of the mover, saturating.
    pub uses: u8,
}

/// An object that can have nodes in several tiers.
pub trait TieredObject {
    /// Returns true if commands must declare what they touch: a node may be in a cold tier, or its
    /// uses are counted.
    fn is_attended(&self) -> bool;

    /// Returns true if it moves node by node now.
    fn moves_by_nodes(&self) -> bool;

    /// Returns true if a node is in a cold tier.
    fn is_parted(&self) -> bool;

    /// Visits the places of nodes in cold tiers that a command on this part may have to read.
    fn places(&self, part: &ObjectPart<'_>, visit: &mut dyn FnMut(ColdPlace));

    /// Lends the nodes of a part to a command that reads them, until
    /// [`end_loan`](TieredObject::end_loan). Returns true if any was lent. Adds those that are used
    /// to `met`.
    ///
    /// # Errors
    /// A node cannot be read.
    fn lend(
        &mut self,
        part: &ObjectPart<'_>,
        is_use: bool,
        met: &mut Met,
    ) -> Result<bool, ColdNodeError>;

    /// Takes back what was lent.
    fn end_loan(&mut self);

    /// Brings the nodes of a part into memory, so that a command can change them. Calls `warmed`
    /// with the place of each node that was cold, and the bytes that it takes.
    ///
    /// # Errors
    /// A node cannot be read.
    fn warm(
        &mut self,
        part: &ObjectPart<'_>,
        limits: &ObjectLimits,
        warmed: &mut dyn FnMut(ColdPlace, usize),
    ) -> Result<(), ColdNodeError>;

    /// Shows the mover nodes from an index on, and returns the next index; `None` if there are no
    /// more.
    fn see(
        &mut self,
        from: usize,
        count: usize,
        visit: &mut dyn FnMut(ObjectNodeUse),
    ) -> Option<usize>;

    /// Returns the numbers of all nodes that can move, and the places of those in cold tiers.
    fn nodes(&self) -> Vec<(u64, Option<ColdPlace>)>;

    /// Returns the bytes of all nodes in cold tiers.
    fn cold_bytes(&self) -> usize;

    /// Visits the numbers of the cold tiers in which nodes are stored.
    fn cold_tiers(&self, visit: &mut dyn FnMut(usize));

    /// Begins to move a node, which is searched from `hint` on: appends it to `out` if it is in
    /// memory.
    fn copy_node(&self, number: u64, hint: usize, out: &mut Vec<u8>) -> Option<ObjectNodeCopy>;

    /// Ends the move of a node to a place, or into memory. `frozen` is a copy of the node. Returns
    /// false if it was changed meanwhile. Otherwise the object now owns the place, and has given up
    /// the place that the node had.
    ///
    /// # Errors
    /// The bytes that were read are not a node.
    fn move_node(
        &mut self,
        copied: &ObjectNodeCopy,
        to: Option<ColdPlace>,
        cold: &Arc<ColdTiers>,
        frozen: &[u8],
    ) -> Result<bool, FrozenObjectError>;
}

impl StoredObject {
    /// Returns the object as one with nodes, if it has several.
    pub fn parted(&self) -> Option<&dyn TieredObject> {
        match self {
            StoredObject::List(list) if list.has_nodes() => Some(&**list),
            StoredObject::Hash(hash) if hash.has_nodes() => Some(&**hash),
            _ => None,
        }
    }

    /// Returns the object as [`parted`](StoredObject::parted) does, to be changed.
    pub fn parted_mut(&mut self) -> Option<&mut dyn TieredObject> {
        match self {
            StoredObject::List(list) if list.has_nodes() => Some(&mut **list),
            StoredObject::Hash(hash) if hash.has_nodes() => Some(&mut **hash),
            _ => None,
        }
    }
}
