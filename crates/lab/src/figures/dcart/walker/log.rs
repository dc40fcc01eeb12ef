//! The log of the events that a tree reports of a batch.

use nearfield_radix::{Probe, Visit};

/// An event of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A read of a node.
    Node(Visit),
    /// A read of more bytes of the last node.
    Part { address: usize, bytes: u32 },
    /// A write of bytes.
    Write { address: usize, bytes: u32 },
    /// A node that is removed.
    Replaced(usize),
    /// A key that is in another leaf now, or in a leaf below another node.
    Moved { target: usize, parent: usize },
}

/// The events of a batch, in their order.
#[derive(Debug, Default)]
pub(super) struct Log {
    events: Vec<Event>,
    /// The index of each operation's first event.
    begins: Vec<usize>,
}

impl Log {
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.begins.clear();
    }

    pub(super) fn operations(&self) -> usize {
        self.begins.len()
    }

    /// Returns the events of an operation.
    pub(super) fn of(&self, operation: usize) -> &[Event] {
        let end = self.begins.get(operation + 1).copied();
        &self.events[self.begins[operation]..end.unwrap_or(self.events.len())]
    }
}

impl Probe for Log {
    fn operation(&mut self, _: usize) {
        self.begins.push(self.events.len());
    }
    fn node(&mut self, visit: Visit) {
        self.events.push(Event::Node(visit));
    }
    fn part(&mut self, address: usize, bytes: u32) {
        self.events.push(Event::Part { address, bytes });
    }
    fn write(&mut self, address: usize, bytes: u32) {
        self.events.push(Event::Write { address, bytes });
    }
    fn replace(&mut self, old: usize, _: usize, _: u32) {
        self.events.push(Event::Replaced(old));
    }
    fn moved(&mut self, target: usize, parent: usize) {
        self.events.push(Event::Moved { target, parent });
    }
}
