//! A memory node from the rack's side.

use super::{HardwareTraversal, TranslationRefusal};
use crate::VirtualTime;

/// The reason why a traversal has left a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepartureReason {
    /// The traversal is done.
    Returned,
    /// The traversal has made the maximum number of iterations of a request.
    Limit,
    /// A fetch or store that the node refuses.
    Refused(TranslationRefusal),
}

/// A traversal that leaves a node.
#[derive(Clone, Debug)]
pub struct Departure<T> {
    /// The time at which its packet leaves.
    pub at: VirtualTime,
    /// The traversal, with its state.
    pub traversal: T,
    /// The reason why it leaves.
    pub end: DepartureReason,
}

impl<T: HardwareTraversal> Departure<T> {
    /// Returns the bytes of the packet in which it leaves: a reply, or a request to continue.
    pub fn bytes(&self) -> u32 {
        match self.end {
            DepartureReason::Returned => self.traversal.reply_bytes(),
            // The receiver of such a packet may continue the traversal, so its state and code
            // travel on.
            DepartureReason::Limit | DepartureReason::Refused(_) => self.traversal.request_bytes(),
        }
    }
}

/// A memory node that executes traversals in virtual time. Calls come in the order of their times.
pub trait RackNode {
    /// The traversals that it executes.
    type Work: HardwareTraversal;

    /// Accepts a packet with a traversal at its arrival.
    fn submit(&mut self, arrival: VirtualTime, work: Self::Work);

    /// Returns the time of the next event, if there is one.
    fn next_event(&self) -> Option<VirtualTime>;

    /// Executes the next event, and appends the traversals that leave.
    fn step(&mut self, departures: &mut Vec<Departure<Self::Work>>);
}
