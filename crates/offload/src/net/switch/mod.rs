//! The switch: it forwards messages by their address and their caller, and keeps no state of them.

mod map;

pub use map::{MapError, SwitchRangeTable};

use crate::wire::{
    Announcement, AuthenticationKey, DatagramFields, OffloadMessageKind, ProcessAddress, count_hop,
};
use std::fmt;

/// The state machine of a switch.
#[derive(Debug)]
pub struct Switch {
    map: SwitchRangeTable,
    /// The key that authenticates announcements; without it, none are accepted.
    rack: Option<AuthenticationKey>,
    counters: SwitchCounters,
}

/// Counters of a switch since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Number of received datagrams.
    pub received: u64,
    /// Number of these that are not of this format.
    pub malformed: u64,
    /// Number of requests that were forwarded to a node.
    pub requests: u64,
    /// Number of responses that were forwarded to a caller.
    pub responses: u64,
    /// Number of requests that were returned to their caller, because no node holds their address.
    pub returned: u64,
    /// Number of dropped datagrams: responses of senders that are not nodes, requests on behalf of
    /// others without an address here, and messages that were forwarded 255 times.
    pub dropped: u64,
    /// Number of announcements that were accepted.
    pub announced: u64,
    /// Number of announcements with another tag, or with ranges of another node.
    pub refused: u64,
}

impl SwitchCounters {
    /// Returns the number of received datagrams, summed over their treatments: each has one.
    fn treated(&self) -> u64 {
        let forwarded = self.requests + self.responses + self.returned;
        forwarded + self.malformed + self.dropped + self.announced + self.refused
    }
}

impl fmt::Display for SwitchCounters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} datagrams: {} requests, {} responses, {} without a node, {} announcements; {} \
             malformed, {} dropped, {} announcements refused",
            self.received,
            self.requests,
            self.responses,
            self.returned,
            self.announced,
            self.malformed,
            self.dropped,
            self.refused
        )
    }
}

impl Switch {
    /// Creates a switch. It accepts announcements if it has the rack's key.
    pub fn new(map: SwitchRangeTable, rack: Option<AuthenticationKey>) -> Switch {
        Switch {
            map,
            rack,
            counters: SwitchCounters::default(),
        }
    }

    /// Returns the map.
    pub fn map(&self) -> &SwitchRangeTable {
        &self.map
    }

    /// Returns the counters.
    pub fn counters(&self) -> &SwitchCounters {
        &self.counters
    }

    /// Receives a datagram. Returns its next destination, if it has one, and counts the hop in
    /// place.
    ///
    /// A request that no node can take returns to its caller unchanged: the switch has no key for a
    /// new message.
    pub fn receive(&mut self, from: ProcessAddress, datagram: &mut [u8]) -> Option<ProcessAddress> {
        debug_assert_eq!(self.counters.received, self.counters.treated());
        self.counters.received += 1;
        // An announcement is for the switch itself, and goes no further.
        if Announcement::is_one(datagram) {
            self.learn(datagram);
            return None;
        }
        let fields = DatagramFields::of(datagram);
        let kind = fields.and_then(|fields| match fields.fragment() {
            // A part goes where its message goes.
            Some(kind) => Ok((fields, kind)),
            None => Ok((fields, fields.kind()?)),
        });
        let Ok((fields, kind)) = kind else {
            self.counters.malformed += 1;
            return None;
        };
        let caller = fields.caller();
        let to = match kind {
            // The count goes no further, so such a message might circulate for ever.
            _ if fields.hops() == u8::MAX => None,
            OffloadMessageKind::Request => match self.map.find(fields.address()) {
                Some(node) => {
                    self.counters.requests += 1;
                    Some(node)
                }
                // A sender must not be able to make the switch send to others.
                None if from == caller || self.map.has_node(from) => {
                    self.counters.returned += 1;
                    Some(caller)
                }
                None => None,
            },
            // Only nodes send responses. Others could otherwise reach any address through the
            // switch.
            OffloadMessageKind::Response => self.map.has_node(from).then(|| {
                self.counters.responses += 1;
                caller
            }),
        };
        match to {
            Some(_) => count_hop(datagram),
            None => self.counters.dropped += 1,
        }
        to
    }

    fn learn(&mut self, datagram: &[u8]) {
        let announcement = self
            .rack
            .and_then(|key| Announcement::decode(datagram, &key).ok());
        let taken = announcement.is_some_and(|announcement| self.map.take(&announcement).is_ok());
        match taken {
            true => self.counters.announced += 1,
            false => self.counters.refused += 1,
        }
    }
}
