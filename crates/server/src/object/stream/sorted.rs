//! Elements with identifiers, in their order.
//!
//! They are stored in chunks, so that a change moves no more than one chunk and the list of chunks.

use super::StreamId;
use allocator_api2::vec::Vec;
use nearfield_tiers::AccountedHeap;

/// The maximum number of elements of a chunk.
const CHUNK_ELEMENTS: usize = 128;

/// An element that has an identifier.
pub(super) trait StreamIdElement: Copy {
    fn id(&self) -> StreamId;
}

impl StreamIdElement for StreamId {
    fn id(&self) -> StreamId {
        *self
    }
}

/// Elements by their identifiers, each of which occurs once.
pub(super) struct StreamIdMap<T> {
    /// The chunks, none of which is empty.
    chunks: Vec<Vec<T, AccountedHeap>, AccountedHeap>,
    len: usize,
}

impl<T: StreamIdElement> StreamIdMap<T> {
    pub fn new_in(heap: AccountedHeap) -> StreamIdMap<T> {
        StreamIdMap {
            chunks: Vec::new_in(heap),
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn memory_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(Vec::capacity).sum();
        self.chunks.capacity() * size_of::<Vec<T, AccountedHeap>>() + chunks * size_of::<T>()
    }

    /// Returns the chunk that an identifier belongs to, and the index in it of the first element
    /// that is not less.
    fn place(&self, id: StreamId) -> (usize, usize) {
        let starts_after =
            |chunk: &Vec<T, AccountedHeap>| chunk.first().is_some_and(|it| it.id() <= id);
        // An identifier before all others belongs to the first chunk.
        let chunk = self.chunks.partition_point(starts_after).saturating_sub(1);
        let elements = self.chunks.get(chunk).map_or(&[][..], |it| &it[..]);
        (chunk, elements.partition_point(|it| it.id() < id))
    }

    pub fn get(&self, id: StreamId) -> Option<&T> {
        let (chunk, at) = self.place(id);
        let element = self.chunks.get(chunk)?.get(at)?;
        (element.id() == id).then_some(element)
    }

    /// Replaces the element with the same identifier, or inserts the element.
    pub fn set(&mut self, element: T) {
        let id = element.id();
        let (number, at) = self.place(id);
        let is_last = number + 1 >= self.chunks.len();
        let heap = self.chunks.allocator().clone();
        let Some(chunk) = self.chunks.get_mut(number) else {
            let mut chunk = Vec::new_in(heap);
            chunk.push(element);
            self.chunks.push(chunk);
            self.len = 1;
            return;
        };
        if let Some(old) = chunk.get_mut(at).filter(|old| old.id() == id) {
            *old = element;
            return;
        }
        debug_assert!(!chunk.is_empty() && chunk.len() <= CHUNK_ELEMENTS);
        self.len += 1;
        if chunk.len() < CHUNK_ELEMENTS {
            chunk.insert(at, element);
            return;
        }
        // Appended elements fill chunk after chunk.
        let kept = if is_last && at == chunk.len() {
            at
        } else {
            chunk.len() / 2
        };
        let mut next = Vec::new_in(heap);
        next.extend_from_slice(&chunk[kept..]);
        chunk.truncate(kept);
        if at < kept {
            chunk.insert(at, element);
        } else {
            next.insert(at - kept, element);
        }
        self.chunks.insert(number + 1, next);
    }

    pub fn remove(&mut self, id: StreamId) -> Option<T> {
        let (number, at) = self.place(id);
        let chunk = self.chunks.get_mut(number)?;
        if chunk.get(at)?.id() != id {
            return None;
        }
        let element = chunk.remove(at);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(number);
        } else if chunk.len() < chunk.capacity() / 4 {
            chunk.shrink_to_fit();
        }
        Some(element)
    }

    /// Returns the elements from an identifier on.
    pub fn iter_from(&self, id: StreamId) -> impl Iterator<Item = &T> {
        let (number, at) = self.place(id);
        let chunks = self.chunks.get(number..).unwrap_or_default();
        chunks.iter().flat_map(|chunk| chunk.iter()).skip(at)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    pub fn last(&self) -> Option<&T> {
        self.chunks.last()?.last()
    }

    pub fn rebuild_in(&self, heap: &AccountedHeap) -> StreamIdMap<T> {
        let mut copy = StreamIdMap::new_in(heap.clone());
        // Elements that come in order fill chunk after chunk.
        self.iter().for_each(|element| copy.set(*element));
        copy
    }
}
