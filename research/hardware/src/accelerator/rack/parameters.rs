//! The route between callers and memory nodes.

use crate::VirtualTime;

/// The sender that forwards a request that has left a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RackForwarder {
    /// The switch.
    Switch,
    /// The caller.
    Caller,
}

/// The times and rates of the route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RackParameters {
    /// Time that the caller's software takes to send a request, and also to receive a reply.
    pub caller: VirtualTime,
    /// Time between the caller's software and the wire, in each direction.
    pub interface: VirtualTime,
    /// Time from one port of the switch to another, with both wires.
    pub switch: VirtualTime,
    /// Bytes that a wire carries per second, in each direction.
    pub bytes_per_second: f64,
    /// Bytes that a packet adds: the frame's, and the header of requests and replies.
    pub packet_bytes: u32,
    /// The maximum bytes of a packet. More bytes take several packets.
    pub packet_bytes_max: u32,
    /// The maximum number of times that a request is sent to a node. A request beyond that is
    /// handled like one whose address no node has: the tables of switch and nodes contradict each
    /// other.
    pub visits_max: u32,
}

impl RackParameters {
    /// The paper's set-up: 100 GbE and a Tofino (section 6). *Assumed*: 1 µs of software for a
    /// request and for a reply, 0.4 µs in the caller's interface, 0.5 µs for the switch and two
    /// wires, 66 bytes for Ethernet, IP, UDP and gaps and 64 of header, packets of 8192 bytes. The
    /// paper's own times are lost.
    pub const PAPER: RackParameters = RackParameters {
        caller: VirtualTime::from_nanoseconds(1000),
        interface: VirtualTime::from_nanoseconds(400),
        switch: VirtualTime::from_nanoseconds(500),
        bytes_per_second: 12.5e9,
        packet_bytes: 130,
        packet_bytes_max: 8192,
        visits_max: 1024,
    };

    /// Returns the bytes on a wire for a packet's `bytes`.
    pub fn wire_bytes(&self, bytes: u32) -> u32 {
        // Even a message without bytes is a packet.
        bytes + self.packet_bytes * bytes.div_ceil(self.packet_bytes_max).max(1)
    }

    pub(super) fn carried(&self, bytes: u32) -> VirtualTime {
        let seconds = f64::from(self.wire_bytes(bytes)) / self.bytes_per_second;
        VirtualTime::from_picoseconds((seconds * 1e12).round() as u64)
    }
}
