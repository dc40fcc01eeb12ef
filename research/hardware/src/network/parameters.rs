//! Published figures of networks, and the parameters that the model derives from them.

use super::adapter::AdapterParameters;
use crate::VirtualTime;

/// The parameters of the model of a [`Port`](super::Port).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkParameters {
    /// The name under which results show them.
    pub name: &'static str,
    /// The source of the figures.
    pub source: &'static str,
    /// Time from a request to its reply, without load and without bytes to carry.
    pub round_trip: VirtualTime,
    /// Bytes that the link carries per second, in each direction.
    pub bytes_per_second: f64,
    /// Bytes that each message adds on the link.
    pub header_bytes: u64,
    /// Reads that a node's port takes per second.
    pub reads_per_second: f64,
    /// Writes that it takes per second.
    pub writes_per_second: f64,
    /// Atomics on distinct words that it takes per second.
    pub atomics_per_second: f64,
    /// Atomics on one word that it takes per second.
    pub same_word_per_second: f64,
    /// Size of the unit that the link carries: an access moves all units that it touches.
    pub line_bytes: u64,
    /// The times of its clients' processors.
    pub client: ClientTimes,
}

/// The times of a client's processor. A client does one thing at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientTimes {
    /// Time of an operation of an index, besides its posts.
    pub operation: VirtualTime,
    /// Time of a post and its completion.
    pub post: VirtualTime,
    /// Time of each line of 64 bytes that is read or written.
    pub line: VirtualTime,
    /// Time of looking up where the key of an operation was found before, besides `operation`.
    pub speculation: VirtualTime,
}

impl NetworkParameters {
    /// Returns the bytes that the link carries for an access to `bytes` bytes at `offset`.
    pub fn moved(&self, offset: u64, bytes: u64) -> u64 {
        // Bytes that begin within a unit move all of it.
        let first = offset / self.line_bytes * self.line_bytes;
        (offset + bytes).next_multiple_of(self.line_bytes) - first
    }
}

/// The known networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPreset {
    /// Remote direct memory access with a 100 Gb/s ConnectX-6 in each machine.
    ConnectX6,
    /// Memory that is attached by CXL and read by load and store: lines of 64 bytes, no messages.
    Cxl,
}

/// A rate above that of any port: messages cost nothing besides their bytes.
const NO_LIMIT: f64 = 1e12;

impl NetworkPreset {
    /// All presets.
    pub const ALL: [NetworkPreset; 2] = [NetworkPreset::ConnectX6, NetworkPreset::Cxl];

    /// Returns the figures.
    pub const fn parameters(self) -> NetworkParameters {
        match self {
            // Smart's artifact has 2.35 µs for a read of 8 bytes and rlib 2.07. One compute node of
            // Smart's peaks at 111 million reads per second and 93 million writes, and three
            // clients of rlib's at 135 and 123. 90 is assumed. The adapter of a compute node falls
            // to 55 million reads with 3,072 in flight, and to 63 million writes with 1,536,
            // because its cache has no room for the work requests in flight. A port has no such
            // fall, and an adapter has: reads fall beyond 1,152 in flight, and a compute node of
            // the figures has 128.
            // rlib has 48 million atomics. The link is 100 Gb/s. Headers are assumed: 30 to 60
            // bytes. The rate on one word is assumed from older interfaces, which hold the word for
            // a trip to host memory. The time of clients' processors is omitted: a thread of
            // Smart's artifact does 1.9 million reads per second, so 640 of them could do ten times
            // the reads that a port takes.
            NetworkPreset::ConnectX6 => NetworkParameters {
                name: "ConnectX-6, 100 Gb/s",
                source: "Smart (ASPLOS'24) artifact data; rlib documentation; \
                         reads and writes a second, headers, atomics on one word: assumed",
                round_trip: VirtualTime::from_nanoseconds(2100),
                bytes_per_second: 12.5e9,
                header_bytes: 45,
                reads_per_second: 90e6,
                writes_per_second: 90e6,
                atomics_per_second: 48e6,
                same_word_per_second: 2.5e6,
                line_bytes: 1,
                client: ClientTimes {
                    operation: VirtualTime::ZERO,
                    post: VirtualTime::ZERO,
                    line: VirtualTime::ZERO,
                    speculation: VirtualTime::ZERO,
                },
            },
            // Latency: four cards have 140 to 410 ns (Melody, ASPLOS'25), a card behind a switch
            // about 250 (Pond, ASPLOS'23). The link: eight lanes of PCIe 5 carry 32 GB/s in flits
            // of 68 bytes, of which a line with its header takes five slots of 16 bytes: 24 GB/s of
            // lines. Processors: CHIME's code on memory of another socket does 2.11 million reads
            // per second with four threads and 18 lines per read (the threads were counted), and
            // reads of 3 lines are 128 ns shorter. So a line takes 8.5 ns, and an operation 1.5 µs
            // besides the lines and the latency. Sixteen threads of it do 8.14 million reads per
            // second without speculation and 6.74 with it: 408 ns per operation. Atomics on one
            // word are assumed: one after another, each taking a trip.
            NetworkPreset::Cxl => NetworkParameters {
                name: "CXL, load and store",
                source: "latency: Pond (ASPLOS'23), Melody (ASPLOS'25); link: eight lanes of \
                         PCIe 5; processors: a study of CHIME on another socket's memory; \
                         atomics on one word: assumed",
                round_trip: VirtualTime::from_nanoseconds(250),
                bytes_per_second: 24e9,
                header_bytes: 0,
                reads_per_second: NO_LIMIT,
                writes_per_second: NO_LIMIT,
                atomics_per_second: NO_LIMIT,
                same_word_per_second: 4e6,
                line_bytes: LINE_BYTES,
                client: ClientTimes {
                    operation: VirtualTime::from_nanoseconds(1500),
                    post: VirtualTime::ZERO,
                    line: VirtualTime::from_picoseconds(8500),
                    speculation: VirtualTime::from_nanoseconds(408),
                },
            },
        }
    }
}

impl NetworkPreset {
    /// Returns the figures of a compute node's adapter; `None` where processors access memory
    /// themselves.
    pub const fn adapter(self) -> Option<AdapterParameters> {
        match self {
            // 12 to 96 threads with 1 to 32 reads of 8 bytes each, over 200 Gb/s.
            NetworkPreset::ConnectX6 => Some(AdapterParameters {
                source: "Smart (ASPLOS'24) artifact data, figure 4a",
                per_second: &[
                    (12.0, 5.103e6),
                    (24.0, 10.020e6),
                    (48.0, 18.520e6),
                    (96.0, 32.969e6),
                    (192.0, 48.747e6),
                    (384.0, 81.563e6),
                    (768.0, 110.982e6),
                    (1152.0, 111.123e6),
                    (1536.0, 78.111e6),
                    (3072.0, 55.161e6),
                ],
            }),
            NetworkPreset::Cxl => None,
        }
    }
}

/// Size in bytes of a line of a processor's caches.
pub(super) const LINE_BYTES: u64 = 64;

impl ClientTimes {
    /// Returns the time of a post that touches this many bytes.
    pub fn of_post(&self, moved: u64) -> VirtualTime {
        let lines = moved.div_ceil(LINE_BYTES);
        self.post + VirtualTime::from_picoseconds(self.line.as_picoseconds() * lines)
    }
}
