//! Linked lists in the layout of the C++ library.

use super::heap::{HeapError, NodeHeap};
use super::programs::list_find;
use crate::program::TraversalProgram;
use crate::traversal::TraversalQuery;
use std::sync::Arc;

/// The kind of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// A `std::list`: links in both directions, and a node without a value at the end.
    Doubly,
    /// A `std::forward_list`: links forward.
    Forward,
}

/// A list of values. Its lookup is `std::find`.
#[derive(Clone, Debug)]
pub struct OffloadList {
    kind: ListKind,
    find: Arc<TraversalProgram>,
    /// The first node, or the end.
    first: u64,
    /// The node without a value at the end, or null.
    end: u64,
}

const NEXT: u64 = 0;
const PREVIOUS: u64 = 8;

impl OffloadList {
    /// Creates an empty list.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn new(kind: ListKind, heap: &mut impl NodeHeap) -> Result<OffloadList, HeapError> {
        let mut list = OffloadList {
            kind,
            find: list_find(NEXT as usize, kind.value() as usize),
            first: 0,
            end: 0,
        };
        if kind == ListKind::Doubly {
            list.end = heap.allocate(kind.bytes())?;
            heap.write(list.end + NEXT, list.end)?;
            heap.write(list.end + PREVIOUS, list.end)?;
            list.first = list.end;
        }
        Ok(list)
    }

    /// Adds a value at the front.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn push_front(&mut self, heap: &mut impl NodeHeap, value: u64) -> Result<(), HeapError> {
        let node = heap.allocate(self.kind.bytes())?;
        heap.write(node + self.kind.value(), value)?;
        heap.write(node + NEXT, self.first)?;
        if self.kind == ListKind::Doubly {
            heap.write(node + PREVIOUS, self.end)?;
            heap.write(self.first + PREVIOUS, node)?;
            heap.write(self.end + NEXT, node)?;
        }
        self.first = node;
        Ok(())
    }

    /// Removes the first node with a value. Returns false if there is none.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn remove(&mut self, heap: &mut impl NodeHeap, value: u64) -> Result<bool, HeapError> {
        let (mut before, mut node) = (self.end, self.first);
        while node != self.end {
            let next = heap.read(node + NEXT)?;
            if heap.read(node + self.kind.value())? != value {
                (before, node) = (node, next);
                continue;
            }
            if self.first == node {
                self.first = next;
            }
            // A forward list has no node before the first one.
            if before != 0 {
                heap.write(before + NEXT, next)?;
            }
            if self.kind == ListKind::Doubly {
                heap.write(next + PREVIOUS, before)?;
            }
            heap.free(node, self.kind.bytes());
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns the query for a value; `None` for an empty list.
    pub fn find(&self, value: u64) -> Option<TraversalQuery> {
        let words = [value, 0, 0, 0, 0, self.end];
        (self.first != self.end).then(|| TraversalQuery::new(&self.find, self.first, &words))
    }
}

impl ListKind {
    const fn value(self) -> u64 {
        match self {
            ListKind::Doubly => 16,
            ListKind::Forward => 8,
        }
    }

    const fn bytes(self) -> u64 {
        self.value() + 8
    }
}
