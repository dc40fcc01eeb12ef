//! The log of the events that a tree reports of a batch.

use nearfield_radix::{RadixNodeVisit, RadixProbe};

/// An event of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum WalkEvent {
    /// A read of a node.
    Node(RadixNodeVisit),
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
pub(super) struct WalkEventLog {
    events: Vec<WalkEvent>,
    /// The index of each operation's first event.
    begins: Vec<usize>,
}

impl WalkEventLog {
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.begins.clear();
    }

    pub(super) fn operations(&self) -> usize {
        self.begins.len()
    }

    /// Returns the events of an operation.
    pub(super) fn of(&self, operation: usize) -> &[WalkEvent] {
        let end = self.begins.get(operation + 1).copied();
        &self.events[self.begins[operation]..end.unwrap_or(self.events.len())]
    }
}

impl RadixProbe for WalkEventLog {
    fn operation(&mut self, _: usize) {
        self.begins.push(self.events.len());
    }
    fn node(&mut self, visit: RadixNodeVisit) {
        self.events.push(WalkEvent::Node(visit));
    }
    fn part(&mut self, address: usize, bytes: u32) {
        self.events.push(WalkEvent::Part { address, bytes });
    }
    fn write(&mut self, address: usize, bytes: u32) {
        self.events.push(WalkEvent::Write { address, bytes });
    }
    fn replace(&mut self, old: usize, _: usize, _: u32) {
        self.events.push(WalkEvent::Replaced(old));
    }
    fn moved(&mut self, target: usize, parent: usize) {
        self.events.push(WalkEvent::Moved { target, parent });
    }
}
