//! A memory node as a rack sees it.

use super::{Refusal, Traversal};
use crate::Time;

/// How a traversal has left a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is done.
    Returned,
    /// It has made as many iterations as a request may.
    Limit,
    /// The node may not fetch or store its next bytes.
    Refused(Refusal),
}

/// A traversal that leaves a node.
#[derive(Clone, Debug)]
pub struct Departure<T> {
    /// When its packet leaves.
    pub at: Time,
    /// The traversal, with its state.
    pub traversal: T,
    /// Why it leaves.
    pub end: End,
}

impl<T: Traversal> Departure<T> {
    /// The bytes of the packet that it leaves in: an answer, or a request to go on.
    pub fn bytes(&self) -> u32 {
        match self.end {
            End::Returned => self.traversal.reply_bytes(),
            End::Limit | End::Refused(_) => self.traversal.request_bytes(),
        }
    }
}

/// A memory node that executes traversals in virtual time. Calls come in the order of their times.
pub trait Node {
    /// What it executes.
    type Work: Traversal;

    /// A packet with a traversal arrives.
    fn submit(&mut self, arrival: Time, work: Self::Work);

    /// When something happens next, if anything does.
    fn next_event(&self) -> Option<Time>;

    /// Lets happen what happens next, and appends the traversals that leave.
    fn step(&mut self, departures: &mut Vec<Departure<Self::Work>>);
}
