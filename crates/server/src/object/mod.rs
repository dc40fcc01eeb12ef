//! The containers behind typed keys: lists, hashes, sets, sorted sets and streams.
//!
//! Each container takes all its memory from a given heap, reports how much that is, and can be
//! rebuilt in another heap, so that an object can move to another tier of memory. Small ones are
//! packed; [`Limits`] defines up to which size.

mod arena;
mod bytes;
mod container;
mod frozen;
mod hash;
mod kind;
mod limits;
mod list;
pub mod node;
mod packed;
mod ranked_tree;
mod set;
mod sorted_set;
pub mod stream;
mod table;
#[cfg(test)]
mod testing;
mod text;

pub use container::Container;
pub use frozen::Damaged;
pub use hash::{DueNote, FIELD_TIME_MS_MAX, FieldNote, FieldNotes, Fields, Hash};
pub use kind::Kind;
pub use limits::{ChunkLimit, Limits, SharedLimits};
pub use list::{Iter as ListIter, List};
pub use node::{Part, PartOf, Parted, Unread};
pub use set::{Member, Members, Set};
pub use sorted_set::{Entries, SortedSet};
pub use stream::{Stream, StreamId};
pub use text::Text;

use nearfield_tiers::Heap;

/// The value of a typed key, or a string that is not stored in the index itself.
pub enum Object {
    /// A string that is long, or was changed in place.
    Text(Box<Text>),
    /// A list.
    List(Box<List<Heap>>),
    /// A hash.
    Hash(Box<Hash<Heap>>),
    /// A set.
    Set(Box<Set<Heap>>),
    /// A sorted set.
    SortedSet(Box<SortedSet<Heap>>),
    /// A stream.
    Stream(Box<Stream>),
}

impl Object {
    /// Returns the type of the object.
    pub fn kind(&self) -> Kind {
        match self {
            Object::Text(_) => Kind::String,
            Object::List(_) => Kind::List,
            Object::Hash(_) => Kind::Hash,
            Object::Set(_) => Kind::Set,
            Object::SortedSet(_) => Kind::SortedSet,
            Object::Stream(_) => Kind::Stream,
        }
    }

    /// Returns the name of its form for `OBJECT ENCODING`.
    pub fn encoding(&self, limits: &Limits) -> &'static str {
        match self {
            Object::Text(_) => "raw",
            Object::List(list) => list.encoding(limits),
            Object::Hash(hash) => hash.encoding(),
            Object::Set(set) => set.encoding(),
            Object::SortedSet(sorted_set) => sorted_set.encoding(),
            Object::Stream(_) => "stream",
        }
    }

    /// Returns the number of elements, fields, members or entries; of a string, the number of
    /// bytes.
    pub fn len(&self) -> usize {
        match self {
            Object::Text(text) => text.bytes().len(),
            Object::List(list) => list.len(),
            Object::Hash(hash) => hash.len(),
            Object::Set(set) => set.len(),
            Object::SortedSet(sorted_set) => sorted_set.len(),
            Object::Stream(stream) => stream.len(),
        }
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes taken from its heap, those of the box, and those of nodes in cold tiers.
    /// Constant time, except that it is linear in the chunks of a list, and in the nodes and
    /// consumers of a stream.
    pub fn memory_bytes(&self) -> usize {
        let cold = self.parted().map_or(0, Parted::cold_bytes);
        let in_box = match self {
            Object::Text(_) => size_of::<Text>(),
            Object::List(_) => size_of::<List<Heap>>(),
            Object::Hash(_) => size_of::<Hash<Heap>>(),
            Object::Set(_) => size_of::<Set<Heap>>(),
            Object::SortedSet(_) => size_of::<SortedSet<Heap>>(),
            Object::Stream(_) => size_of::<Stream>(),
        };
        in_box + self.heap_bytes() + cold
    }

    /// Returns the bytes taken from its heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Object::Text(text) => text.memory_bytes(),
            Object::List(list) => list.memory_bytes(),
            Object::Hash(hash) => hash.memory_bytes(),
            Object::Set(set) => set.memory_bytes(),
            Object::SortedSet(sorted_set) => sorted_set.memory_bytes(),
            Object::Stream(stream) => stream.memory_bytes(),
        }
    }

    /// Returns an upper bound of the elements, blocks and pages that freeing it touches. Linear in
    /// the chunks of a list, and in the nodes and groups of a stream.
    pub fn steps_to_free(&self) -> usize {
        const PAGE_BYTES: usize = 4096;
        let parts = match self {
            Object::Text(_) => 0,
            Object::Stream(stream) => stream.parts_to_free(),
            _ => self.len(),
        };
        1 + parts + self.heap_bytes() / PAGE_BYTES
    }

    /// Sets the time for the next reads: they do not see expired fields of a hash.
    #[inline]
    pub fn at(&mut self, now_ms: u64) {
        if let Object::Hash(hash) = self {
            hash.at(now_ms);
        }
    }

    /// Creates a copy that takes its memory from `heap`. Cursors of scans stay valid.
    pub fn rebuild_in(&self, heap: &Heap) -> Object {
        let heap = heap.clone();
        match self {
            Object::Text(text) => Object::Text(Box::new(Text::new_in(text.bytes(), heap))),
            Object::List(list) => Object::List(Box::new(list.rebuild_in(heap))),
            Object::Hash(hash) => Object::Hash(Box::new(hash.rebuild_in(heap))),
            Object::Set(set) => Object::Set(Box::new(set.rebuild_in(heap))),
            Object::SortedSet(sorted_set) => {
                Object::SortedSet(Box::new(sorted_set.rebuild_in(heap)))
            }
            Object::Stream(stream) => Object::Stream(Box::new(stream.rebuild_in(heap))),
        }
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} of {}", self.kind().name(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_moves_to_another_heap_and_thread() {
        let (limits, heap, other) = (Limits::default(), Heap::new(), Heap::new());
        let mut list = Box::new(List::new_in(heap.clone()));
        let mut hash = Box::new(Hash::new_in(heap.clone()));
        let mut set = Box::new(Set::new_in(heap.clone()));
        let mut sorted_set = Box::new(SortedSet::new_in(heap.clone()));
        for name in 0..1000_u32 {
            let name = name.to_string();
            list.push_back(&limits, name.as_bytes());
            hash.set(&limits, name.as_bytes(), b"value");
            set.add(&limits, name.as_bytes());
            sorted_set.insert(&limits, name.as_bytes(), 1.0);
        }
        let objects = [
            Object::List(list),
            Object::Hash(hash),
            Object::Set(set),
            Object::SortedSet(sorted_set),
        ];
        let moved = std::thread::spawn({
            let other = other.clone();
            move || objects.map(|object| object.rebuild_in(&other))
        });
        let moved = moved.join().unwrap();
        assert_eq!(heap.used_bytes(), 0);
        let names = moved.each_ref().map(|object| {
            assert_eq!(object.len(), 1000);
            (object.kind(), object.encoding(&limits))
        });
        let wanted = [
            (Kind::List, "listpack"),
            (Kind::Hash, "hashtable"),
            (Kind::Set, "hashtable"),
            (Kind::SortedSet, "skiplist"),
        ];
        assert_eq!(names, wanted);
        let boxes = size_of::<List<Heap>>() + size_of::<Hash<Heap>>();
        let boxes = boxes + size_of::<Set<Heap>>() + size_of::<SortedSet<Heap>>();
        let bytes: usize = moved.iter().map(Object::memory_bytes).sum();
        assert_eq!(bytes, other.used_bytes() + boxes);
    }
}
