//! A ring: a sequence that grows and shrinks at both ends.

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// The number of slots of a new ring.
const SLOTS_MIN: usize = 1;

/// A ring of slots. The elements are in consecutive slots, and the last slot is followed by the
/// first.
pub(in crate::object) struct SlotRing<T, A: Allocator> {
    slots: Vec<Option<T>, A>,
    /// The slot of the first element.
    first: usize,
    len: usize,
}

impl<T, A: Allocator> SlotRing<T, A> {
    pub(in crate::object) fn new_in(heap: A) -> Self {
        SlotRing {
            slots: Vec::new_in(heap),
            first: 0,
            len: 0,
        }
    }

    pub(in crate::object) fn heap(&self) -> &A {
        self.slots.allocator()
    }

    pub(in crate::object) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::object) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<T>>()
    }

    #[inline]
    fn slot(&self, index: usize) -> usize {
        debug_assert!(self.first < self.slots.len() && index <= self.slots.len());
        let slot = self.first + index;
        if slot < self.slots.len() {
            slot
        } else {
            slot - self.slots.len()
        }
    }

    #[inline]
    pub(in crate::object) fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len {
            return None;
        }
        self.slots[self.slot(index)].as_ref()
    }

    #[inline]
    pub(in crate::object) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index >= self.len {
            return None;
        }
        let slot = self.slot(index);
        self.slots[slot].as_mut()
    }

    #[inline]
    pub(in crate::object) fn last_mut(&mut self) -> Option<&mut T> {
        // Of an empty ring the index wraps, and there is no such element.
        self.get_mut(self.len.wrapping_sub(1))
    }

    pub(in crate::object) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).filter_map(|index| self.get(index))
    }

    pub(in crate::object) fn push_back(&mut self, element: T) {
        self.reserve();
        let slot = self.slot(self.len);
        self.slots[slot] = Some(element);
        self.len += 1;
    }

    pub(in crate::object) fn push_front(&mut self, element: T) {
        self.reserve();
        self.first = self.slot(self.slots.len() - 1);
        self.slots[self.first] = Some(element);
        self.len += 1;
    }

    pub(in crate::object) fn pop_back(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let slot = self.slot(self.len);
        let element = self.slots[slot].take();
        self.shrink();
        element
    }

    pub(in crate::object) fn pop_front(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let element = self.slots[self.first].take();
        self.first = self.slot(1);
        self.shrink();
        element
    }

    /// Inserts an element before that at `index`. Linear in the number of elements after it.
    pub(in crate::object) fn insert(&mut self, index: usize, element: T) {
        debug_assert!(index <= self.len);
        self.push_back(element);
        for index in (index + 1..self.len).rev() {
            let (slot, before) = (self.slot(index), self.slot(index - 1));
            self.slots.swap(slot, before);
        }
    }

    /// Removes the element at `index`. Linear in the number of elements to the nearer end.
    pub(in crate::object) fn remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        let swap = |ring: &mut Self, one: usize, other: usize| {
            let (one, other) = (ring.slot(one), ring.slot(other));
            ring.slots.swap(one, other);
        };
        if index < self.len / 2 {
            (0..index).rev().for_each(|it| swap(self, it, it + 1));
            return self.pop_front();
        }
        (index + 1..self.len).for_each(|it| swap(self, it, it - 1));
        self.pop_back()
    }

    fn reserve(&mut self) {
        if self.len < self.slots.len() {
            return;
        }
        // The elements that are in front would otherwise be separated from the others.
        self.slots.rotate_left(self.first);
        self.first = 0;
        let slots = (2 * self.len).max(SLOTS_MIN);
        self.slots.reserve_exact(slots - self.len);
        self.slots.resize_with(slots, || None);
    }

    /// Gives slots back when most are empty, and all of them when the ring is empty.
    fn shrink(&mut self) {
        // At a half, a push and a pop in turn could move all elements each time.
        if self.len * 4 >= self.slots.len() || (self.len > 0 && self.slots.len() <= SLOTS_MIN) {
            return;
        }
        self.slots.rotate_left(self.first);
        self.first = 0;
        self.slots.truncate(2 * self.len);
        self.slots.shrink_to_fit();
    }
}
