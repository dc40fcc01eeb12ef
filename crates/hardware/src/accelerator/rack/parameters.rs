//! The way between callers and memory nodes.

use crate::Time;

/// Who sends a request on that has left a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rerouting {
    /// The switch.
    Switch,
    /// The caller.
    Caller,
}

/// Times and rates of the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// How long the caller's software takes to send a request, and as long to take an answer.
    pub caller: Time,
    /// Between the caller's software and the wire, on each way.
    pub interface: Time,
    /// From a port of the switch to another, with both wires.
    pub switch: Time,
    /// The bytes that a wire carries in a second, in each direction.
    pub bytes_per_second: f64,
    /// Bytes that a packet adds: the frame's, and the header of requests and answers.
    pub packet_bytes: u32,
    /// The longest packet. More bytes take several.
    pub packet_bytes_max: u32,
    /// How often a request may be sent to a node. A request beyond that is as one whose address no
    /// node has: tables of switch and nodes contradict each other.
    pub visits_max: u32,
}

impl Parameters {
    /// The paper's set-up: 100 GbE and a Tofino (section 6). *Assumed*: 1 µs of software for a
    /// request and for an answer, 0.4 µs in the caller's interface, 0.5 µs for the switch and two
    /// wires, 66 bytes for Ethernet, IP, UDP and gaps and 64 of header, packets of 8192 bytes. The
    /// paper's own times are lost.
    pub const PAPER: Parameters = Parameters {
        caller: Time::from_nanoseconds(1000),
        interface: Time::from_nanoseconds(400),
        switch: Time::from_nanoseconds(500),
        bytes_per_second: 12.5e9,
        packet_bytes: 130,
        packet_bytes_max: 8192,
        visits_max: 1024,
    };

    /// The bytes on a wire of so many of a packet's.
    pub fn wire_bytes(&self, bytes: u32) -> u32 {
        bytes + self.packet_bytes * bytes.div_ceil(self.packet_bytes_max).max(1)
    }

    pub(super) fn carried(&self, bytes: u32) -> Time {
        let seconds = f64::from(self.wire_bytes(bytes)) / self.bytes_per_second;
        Time::from_picoseconds((seconds * 1e12).round() as u64)
    }
}
