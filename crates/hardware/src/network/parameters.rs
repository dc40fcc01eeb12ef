//! Published figures of networks, and the model's parameters from them.

use crate::Time;

/// The parameters of the model of a [`Port`](super::Port).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The name under which results show them.
    pub name: &'static str,
    /// Where the figures come from.
    pub source: &'static str,
    /// From a request to its answer, when there is nothing else and nothing to carry.
    pub round_trip: Time,
    /// The bytes that the link carries in a second, in each direction.
    pub bytes_per_second: f64,
    /// The bytes that each message adds on the link.
    pub header_bytes: u64,
    /// Reads that a node's port takes in a second.
    pub reads_per_second: f64,
    /// Writes that it takes in a second.
    pub writes_per_second: f64,
    /// Atomics on distinct words that it takes in a second.
    pub atomics_per_second: f64,
    /// Atomics on one word that it takes in a second.
    pub same_word_per_second: f64,
}

/// Networks that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Remote direct memory access with a 100 Gb/s ConnectX-6 in each machine.
    ConnectX6,
    /// Memory that is attached by CXL and read by load and store: lines of 64 bytes, no messages.
    Cxl,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 2] = [Preset::ConnectX6, Preset::Cxl];

    /// The figures.
    pub const fn parameters(self) -> Parameters {
        match self {
            // An 8-byte read takes 2.1 to 2.35 µs unloaded, 110 million reads and 93 million writes
            // a second are the peak of a port (75 where the interface's caches overflow), 48
            // million atomics; the link is 100 Gb/s, headers 30 to 60 bytes. The rate on one word
            // is an assumption from older interfaces, which hold the word for a trip to host
            // memory.
            Preset::ConnectX6 => Parameters {
                name: "ConnectX-6, 100 Gb/s",
                source: "Smart (ASPLOS'24) artifact data; rlib documentation; \
                         atomics on one word: assumed",
                round_trip: Time::from_nanoseconds(2100),
                bytes_per_second: 12.5e9,
                header_bytes: 45,
                reads_per_second: 90e6,
                writes_per_second: 90e6,
                atomics_per_second: 48e6,
                same_word_per_second: 2.5e6,
            },
            // Published: 70 to 90 ns more than local memory directly, about 250 ns through a
            // switch; a line is moved as such. The rest is assumed: eight lanes of PCIe 5, which
            // carry 32 GB/s, as many lines a second as fit, and rates of atomics for which no
            // figure was found.
            Preset::Cxl => Parameters {
                name: "CXL 2.0, switched",
                source: "latency: Pond (ASPLOS'23); rates: assumed",
                round_trip: Time::from_nanoseconds(250),
                bytes_per_second: 32e9,
                header_bytes: 4,
                reads_per_second: 450e6,
                writes_per_second: 450e6,
                atomics_per_second: 100e6,
                same_word_per_second: 4e6,
            },
        }
    }
}
