//! What a tree reports of a batch.

use nearfield_radix::{Probe, Visit};

/// An event of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A node is read.
    Node(Visit),
    /// More bytes of the node before are read.
    Part { address: usize, bytes: u32 },
    /// Bytes are written.
    Write { address: usize, bytes: u32 },
    /// A node goes.
    Replaced(usize),
    /// The key lies in another leaf now, or below another node.
    Moved { target: usize, parent: usize },
}

/// The events of a batch, in their order.
#[derive(Debug, Default)]
pub(super) struct Log {
    events: Vec<Event>,
    /// Where those of each operation begin.
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

    /// The events of an operation.
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
