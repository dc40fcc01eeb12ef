//! The containers behind typed keys: lists, hashes, sets, sorted sets and streams.
//!
//! Each container takes all its memory from a given heap, reports how much that is, and can be
//! rebuilt in another heap, so that an object can move to another tier of memory. Small ones are
//! packed; [`ObjectLimits`] defines up to which size.

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
pub use frozen::FrozenObjectError;
pub use hash::{DueNote, FIELD_TIME_MS_MAX, FieldNote, FieldNotes, Hash, HashFields};
pub use kind::RedisType;
pub use limits::{ChunkLimit, ObjectLimits, SharedLimits};
pub use list::{Iter as ListIter, ListObject};
pub use node::{ColdNodeError, ObjectPart, PartOf, TieredObject};
pub use set::{Members, Set, SetMember};
pub use sorted_set::{SortedSet, SortedSetEntries};
pub use stream::{StreamId, StreamObject};
pub use text::HeapBytes;

use nearfield_tiers::AccountedHeap;

/// The value of a typed key, or a string that is not stored in the index itself.
pub enum StoredObject {
    /// A string that is long, or was changed in place.
    Text(Box<HeapBytes>),
    /// A list.
    List(Box<ListObject<AccountedHeap>>),
    /// A hash.
    Hash(Box<Hash<AccountedHeap>>),
    /// A set.
    Set(Box<Set<AccountedHeap>>),
    /// A sorted set.
    SortedSet(Box<SortedSet<AccountedHeap>>),
    /// A stream.
    Stream(Box<StreamObject>),
}

impl StoredObject {
    /// Returns the type of the object.
    pub fn kind(&self) -> RedisType {
        match self {
            StoredObject::Text(_) => RedisType::String,
            StoredObject::List(_) => RedisType::List,
            StoredObject::Hash(_) => RedisType::Hash,
            StoredObject::Set(_) => RedisType::Set,
            StoredObject::SortedSet(_) => RedisType::SortedSet,
            StoredObject::Stream(_) => RedisType::Stream,
        }
    }

    /// Returns the name of its form for `OBJECT ENCODING`.
    pub fn encoding(&self, limits: &ObjectLimits) -> &'static str {
        match self {
            StoredObject::Text(_) => "raw",
            StoredObject::List(list) => list.encoding(limits),
            StoredObject::Hash(hash) => hash.encoding(),
            StoredObject::Set(set) => set.encoding(),
            StoredObject::SortedSet(sorted_set) => sorted_set.encoding(),
            StoredObject::Stream(_) => "stream",
        }
    }

    /// Returns the number of elements, fields, members or entries; of a string, the number of
    /// bytes.
    pub fn len(&self) -> usize {
        match self {
            StoredObject::Text(text) => text.bytes().len(),
            StoredObject::List(list) => list.len(),
            StoredObject::Hash(hash) => hash.len(),
            StoredObject::Set(set) => set.len(),
            StoredObject::SortedSet(sorted_set) => sorted_set.len(),
            StoredObject::Stream(stream) => stream.len(),
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
        let cold = self.parted().map_or(0, TieredObject::cold_bytes);
        let in_box = match self {
            StoredObject::Text(_) => size_of::<HeapBytes>(),
            StoredObject::List(_) => size_of::<ListObject<AccountedHeap>>(),
            StoredObject::Hash(_) => size_of::<Hash<AccountedHeap>>(),
            StoredObject::Set(_) => size_of::<Set<AccountedHeap>>(),
            StoredObject::SortedSet(_) => size_of::<SortedSet<AccountedHeap>>(),
            StoredObject::Stream(_) => size_of::<StreamObject>(),
        };
        in_box + self.heap_bytes() + cold
    }

    /// Returns the bytes taken from its heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            StoredObject::Text(text) => text.memory_bytes(),
            StoredObject::List(list) => list.memory_bytes(),
            StoredObject::Hash(hash) => hash.memory_bytes(),
            StoredObject::Set(set) => set.memory_bytes(),
            StoredObject::SortedSet(sorted_set) => sorted_set.memory_bytes(),
            StoredObject::Stream(stream) => stream.memory_bytes(),
        }
    }

    /// Returns an upper bound of the elements, blocks and pages that freeing it touches. Linear in
    /// the chunks of a list, and in the nodes and groups of a stream.
    pub fn steps_to_free(&self) -> usize {
        const PAGE_BYTES: usize = 4096;
        let parts = match self {
            StoredObject::Text(_) => 0,
            StoredObject::Stream(stream) => stream.parts_to_free(),
            _ => self.len(),
        };
        1 + parts + self.heap_bytes() / PAGE_BYTES
    }

    /// Sets the time for the next reads: they do not see expired fields of a hash.
    #[inline]
    pub fn at(&mut self, now_ms: u64) {
        if let StoredObject::Hash(hash) = self {
            hash.at(now_ms);
        }
    }

    /// Creates a copy that takes its memory from `heap`. Cursors of scans stay valid.
    pub fn rebuild_in(&self, heap: &AccountedHeap) -> StoredObject {
        let heap = heap.clone();
        match self {
            StoredObject::Text(text) => {
                StoredObject::Text(Box::new(HeapBytes::new_in(text.bytes(), heap)))
            }
            StoredObject::List(list) => StoredObject::List(Box::new(list.rebuild_in(heap))),
            StoredObject::Hash(hash) => StoredObject::Hash(Box::new(hash.rebuild_in(heap))),
            StoredObject::Set(set) => StoredObject::Set(Box::new(set.rebuild_in(heap))),
            StoredObject::SortedSet(sorted_set) => {
                StoredObject::SortedSet(Box::new(sorted_set.rebuild_in(heap)))
            }
            StoredObject::Stream(stream) => StoredObject::Stream(Box::new(stream.rebuild_in(heap))),
        }
    }
}

impl std::fmt::Debug for StoredObject {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} of {}", self.kind().name(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_moves_to_another_heap_and_thread() {
        let (limits, heap, other) = (
            ObjectLimits::default(),
            AccountedHeap::new(),
            AccountedHeap::new(),
        );
        let mut list = Box::new(ListObject::new_in(heap.clone()));
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
            StoredObject::List(list),
            StoredObject::Hash(hash),
            StoredObject::Set(set),
            StoredObject::SortedSet(sorted_set),
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
            (RedisType::List, "listpack"),
            (RedisType::Hash, "hashtable"),
            (RedisType::Set, "hashtable"),
            (RedisType::SortedSet, "skiplist"),
        ];
        assert_eq!(names, wanted);
        let boxes = size_of::<ListObject<AccountedHeap>>() + size_of::<Hash<AccountedHeap>>();
        let boxes = boxes + size_of::<Set<AccountedHeap>>() + size_of::<SortedSet<AccountedHeap>>();
        let bytes: usize = moved.iter().map(StoredObject::memory_bytes).sum();
        assert_eq!(bytes, other.used_bytes() + boxes);
    }
}
