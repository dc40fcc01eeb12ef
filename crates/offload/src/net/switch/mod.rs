//! The switch: it passes messages on by their address and their caller, and keeps nothing of them.

mod map;

pub use map::{Map, MapError};

use crate::wire::{Announcement, Fields, Key, Kind, Place, count_hop};
use std::fmt;

/// A switch's side of the protocol.
#[derive(Debug)]
pub struct Switch {
    map: Map,
    /// By which announcements are known; none are taken without.
    rack: Option<Key>,
    counters: SwitchCounters,
}

/// Numbers of a switch since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Datagrams that came.
    pub received: u64,
    /// Of these: not of this format.
    pub malformed: u64,
    /// Of these: requests, passed on to a node.
    pub requests: u64,
    /// Of these: responses, passed on to a caller.
    pub responses: u64,
    /// Of these: requests whose address no node holds, which went back to their caller.
    pub returned: u64,
    /// Of these: responses of senders that are no nodes, requests for others without an address
    /// here, and what was passed on 255 times, dropped.
    pub dropped: u64,
    /// Of these: announcements that were taken.
    pub announced: u64,
    /// Of these: announcements with another tag, or with ranges of another node.
    pub refused: u64,
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
    /// A switch. It takes announcements if it has the rack's key.
    pub fn new(map: Map, rack: Option<Key>) -> Switch {
        Switch {
            map,
            rack,
            counters: SwitchCounters::default(),
        }
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// What it has done.
    pub fn counters(&self) -> &SwitchCounters {
        &self.counters
    }

    /// Takes a datagram, and says where it goes on to, if it does. Its hops are counted in place.
    ///
    /// A request that no node can take goes back to its caller as it is: the switch has no key to
    /// say more by.
    pub fn receive(&mut self, from: Place, datagram: &mut [u8]) -> Option<Place> {
        self.counters.received += 1;
        if Announcement::is_one(datagram) {
            self.learn(datagram);
            return None;
        }
        let fields = Fields::of(datagram);
        let kind = fields.and_then(|fields| Ok((fields, fields.kind()?)));
        let Ok((fields, kind)) = kind else {
            self.counters.malformed += 1;
            return None;
        };
        let caller = fields.caller();
        let to = match kind {
            _ if fields.hops() == u8::MAX => None,
            Kind::Request => match self.map.find(fields.address()) {
                Some(node) => {
                    self.counters.requests += 1;
                    Some(node)
                }
                // A stranger shall not have the switch send to others.
                None if from == caller || self.map.has_node(from) => {
                    self.counters.returned += 1;
                    Some(caller)
                }
                None => None,
            },
            Kind::Response => self.map.has_node(from).then(|| {
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
