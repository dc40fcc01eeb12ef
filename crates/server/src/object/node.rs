//! Nodes of large objects: the parts that move to other tiers one by one, while the rest of the
//! object stays where it is. Of a list they are its chunks, of a hash the values of its fields.
//!
//! A command says which [`Part`] of its keys it touches. Before it runs, the nodes of that part
//! that lie in a cold tier are brought into memory, to be changed, or lent to it, to be read. So
//! commands meet no cold node, and those that touch warm nodes only read no tier.

use super::{Damaged, Limits, Object};
use nearfield_tiers::cold::Cold;
use nearfield_tiers::{Place, ReadError};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Objects that take more memory than this move node by node, others as a whole. *Assumed*: it is
/// decompressed, or read from an SSD, in a tenth of a millisecond.
pub const WHOLE_BYTES_MAX: usize = 64 << 10;

/// The part of an object that a command touches. What it says of lists is said of their elements.
/// Of a hash it says whose values are touched, as the fields are always in memory. Of an object of
/// another type a part is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// All of it.
    All,
    /// Nothing but what is known of all nodes, such as the number of elements.
    Counts,
    /// So many elements at the ends of a list; one at least is there to be pushed beside it.
    Ends {
        /// At the front.
        front: usize,
        /// At the back.
        back: usize,
    },
    /// The elements from an index to another one, which is included. Negative ones count from the
    /// end.
    Range(i64, i64),
    /// The elements at the two indexes, at which the list is cut.
    Cuts(i64, i64),
    /// The element of an index, and the nodes beside its own.
    Around(i64),
    /// The first element that equals another, and the nodes beside its own.
    First(&'a [u8]),
    /// Elements that equal another: the first so many, the last if it is negative, or all if it is
    /// 0.
    Each(i64, &'a [u8]),
    /// The values of fields.
    Fields(Fields<'a>),
    /// The values of fields that are replaced, whatever they are.
    Replaced(Fields<'a>),
    /// The values that a step of a scan visits.
    Step {
        /// Where it goes on.
        cursor: u64,
        /// About how many it visits.
        count: usize,
    },
}

/// Fields of a hash.
pub type Fields<'a> = Vec<&'a [u8]>;

/// Says which part of its keys a command touches, by its arguments.
pub type PartOf = for<'a> fn(&[&'a [u8]]) -> Part<'a>;

/// The part of a command that says nothing else.
pub fn all<'a>(_: &[&'a [u8]]) -> Part<'a> {
    Part::All
}

/// The part of a command that reads counts only.
pub fn counts<'a>(_: &[&'a [u8]]) -> Part<'a> {
    Part::Counts
}

/// A node of a cold tier that is not given.
#[derive(Debug)]
pub struct Unread {
    /// Where it lies.
    pub place: Place,
    /// Why.
    pub why: ReadError,
}

/// What is told of nodes that a command has met in a cold tier: their numbers and places.
pub type Met = SmallVec<[(u64, Place); 4]>;

/// The place of a node in a cold tier, which is released when this is dropped.
///
/// Nobody reads a node but under the lock of its object's slot, or while the place is held. So it
/// need not be retired first.
#[derive(Debug)]
pub struct Away {
    cold: Arc<Cold>,
    place: Place,
}

impl Away {
    /// A node that a cold tier has taken.
    pub fn new(cold: &Arc<Cold>, place: Place) -> Away {
        Away {
            cold: Arc::clone(cold),
            place,
        }
    }

    /// Where it lies.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Appends the node to `out`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, out: &mut Vec<u8>) -> Result<(), Unread> {
        let read = self.cold.read(self.place, out);
        read.map_err(|why| self.unread(why))
    }

    /// An error that names the place.
    pub fn unread(&self, why: ReadError) -> Unread {
        Unread {
            place: self.place,
            why,
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.cold.release(self.place);
    }
}

/// A number that no other node of this process has; never 0.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A node that is on its way to another tier, as it was when it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The number of the node.
    pub number: u64,
    pub(super) version: u32,
    /// Where it was found among the nodes of its object.
    pub(super) index: usize,
    pub(super) place: Option<Place>,
}

impl Copied {
    /// Where it was found among the nodes of its object.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Where it lay, if in a cold tier. It is to be held until the move is over.
    pub fn place(&self) -> Option<Place> {
        self.place
    }
}

/// What the mover learns of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The number of the node.
    pub number: u64,
    /// Its place, if it lies in a cold tier.
    pub place: Option<Place>,
    /// Its bytes: in memory as they are taken from the heap, in a cold tier as it was taken there.
    pub bytes: usize,
    /// How many commands have touched it since it was seen last, or more than can be counted.
    pub uses: u8,
}

/// An object that can have nodes in several tiers.
pub trait Parted {
    /// True if commands have to say what they touch: a node may lie in a cold tier, or its uses are
    /// counted.
    fn is_attended(&self) -> bool;

    /// True if it moves node by node now.
    fn moves_by_nodes(&self) -> bool;

    /// True if a node lies in a cold tier.
    fn is_parted(&self) -> bool;

    /// Visits the places of nodes in cold tiers that a command on this part may have to read.
    fn places(&self, part: &Part<'_>, visit: &mut dyn FnMut(Place));

    /// Lends the nodes of a part to a command that reads them, until
    /// [`end_loan`](Parted::end_loan), and says whether any was lent. Those that are used are told
    /// to `met`.
    ///
    /// # Errors
    /// A node cannot be read.
    fn lend(&mut self, part: &Part<'_>, is_use: bool, met: &mut Met) -> Result<bool, Unread>;

    /// Takes back what was lent.
    fn end_loan(&mut self);

    /// Brings the nodes of a part into memory, so that a command can change them. Tells `warmed`
    /// which were cold, and the bytes that they take.
    ///
    /// # Errors
    /// A node cannot be read.
    fn warm(
        &mut self,
        part: &Part<'_>,
        limits: &Limits,
        warmed: &mut dyn FnMut(Place, usize),
    ) -> Result<(), Unread>;

    /// Shows the mover nodes from an index on, and answers the next index; none if there is none.
    fn see(&mut self, from: usize, count: usize, visit: &mut dyn FnMut(Seen)) -> Option<usize>;

    /// The numbers of all nodes that can move, and the places of those in cold tiers.
    fn nodes(&self) -> Vec<(u64, Option<Place>)>;

    /// The bytes of all nodes in cold tiers.
    fn cold_bytes(&self) -> usize;

    /// Visits the numbers of the cold tiers that nodes lie in.
    fn cold_tiers(&self, visit: &mut dyn FnMut(usize));

    /// Begins to move a node, which is looked for from `hint` on: appends it to `out` if it is in
    /// memory.
    fn copy_node(&self, number: u64, hint: usize, out: &mut Vec<u8>) -> Option<Copied>;

    /// Ends the move of a node to a place, or into memory. Of the node, `frozen` is a copy. False
    /// if it was changed meanwhile. Otherwise the object owns the place from now on, and has given
    /// up that which the node had.
    ///
    /// # Errors
    /// What was read is no node.
    fn move_node(
        &mut self,
        copied: &Copied,
        to: Option<Place>,
        cold: &Arc<Cold>,
        frozen: &[u8],
    ) -> Result<bool, Damaged>;
}

impl Object {
    /// The object as one that has nodes, if it has several.
    pub fn parted(&self) -> Option<&dyn Parted> {
        match self {
            Object::List(list) if list.has_nodes() => Some(&**list),
            Object::Hash(hash) if hash.has_nodes() => Some(&**hash),
            _ => None,
        }
    }

    /// As [`parted`](Object::parted), to be changed.
    pub fn parted_mut(&mut self) -> Option<&mut dyn Parted> {
        match self {
            Object::List(list) if list.has_nodes() => Some(&mut **list),
            Object::Hash(hash) if hash.has_nodes() => Some(&mut **hash),
            _ => None,
        }
    }
}
