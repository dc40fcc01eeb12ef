//! Published figures of memory modules.

use crate::VirtualTime;

/// The cycles of a module's engine for a copy between its bank and the processor's own small
/// memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dma {
    /// The latency of an empty read, for the thread that waits for it.
    pub read_latency: f64,
    /// The latency of an empty write.
    pub write_latency: f64,
    /// The cycles that each byte adds to both.
    pub latency_per_byte: f64,
    /// Number of cycles for which a copy of nothing occupies the engine.
    pub occupied: f64,
    /// Number of cycles that each byte adds to that.
    pub occupied_per_byte: f64,
}

/// The bytes that the host moves per second between its memory and modules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bandwidth {
    /// The same bandwidth for any transfer.
    Total(f64),
    /// A bandwidth that grows with the number of ranks of modules that take part, up to a limit.
    Ranks {
        /// The bandwidth without ranks: with one rank it is `base + per_rank`.
        base: f64,
        /// The bandwidth that each rank adds.
        per_rank: f64,
        /// The number of ranks beyond which more add nothing.
        ranks_max: f64,
        /// The bandwidth of transfers back, as a share of that to the modules.
        back: f64,
        /// The bandwidth of one module alone, to it and from it.
        alone: [f64; 2],
    },
}

/// The host's own times, for all its threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModuleHostTimes {
    /// Number of threads that share the work evenly.
    pub threads: f64,
    /// Time to look up a key in a table or a directory: between a cache hit and a cache miss.
    pub probe: VirtualTime,
    /// Time to pack or unpack a word of a message.
    pub word: VirtualTime,
    /// Time per key to sort a batch.
    pub sorted: VirtualTime,
}

/// The parameters of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModuleParameters {
    /// The name under which results show them.
    pub name: &'static str,
    /// The source of the figures.
    pub source: &'static str,
    /// Cycles of a module's processor per second.
    pub cycles_per_second: f64,
    /// Number of threads of a module's processor. *Assumed* to be 12 in the presets: 11 keep it
    /// busy.
    pub tasklets: usize,
    /// Number of cycles in which a thread begins at most one instruction; the processor begins one
    /// per cycle.
    pub cycles_per_instruction: f64,
    /// Number of instructions for each that programs count. *Assumed* to be 1: programs count the
    /// instructions of a search, a comparison and a task in C, and no compiler for the processors
    /// has confirmed it.
    pub instructions: f64,
    /// The cycles of copies between bank and processor.
    pub dma: Dma,
    /// The longest copy, in bytes.
    pub dma_bytes_max: u64,
    /// The memory of a module, in bytes.
    pub bank_bytes: u64,
    /// Number of modules that share a rank.
    pub modules_per_rank: usize,
    /// The bandwidth between host and modules.
    pub bandwidth: Bandwidth,
    /// The time of each transfer besides its bytes.
    pub transfer: VirtualTime,
    /// The time to start the modules and to detect their end, in each round.
    pub launch: VirtualTime,
    /// The host.
    pub host: ModuleHostTimes,
    /// The power of one running processor, in watts.
    pub watts_per_module: f64,
    /// The energy of a byte between host and modules, in joules.
    pub joules_per_byte: f64,
}

/// The host: two sockets of 16 cores, as in RADAR's set-up. The times of a thread are *assumed*: 20
/// to 90 ns per probe, for cache hits and misses, 10 ns per operation of two words, and a merge
/// sort of 21 levels at 2 ns.
const HOST: ModuleHostTimes = ModuleHostTimes {
    threads: 32.0,
    probe: VirtualTime::from_nanoseconds(55),
    word: VirtualTime::from_nanoseconds(5),
    sorted: VirtualTime::from_nanoseconds(42),
};

/// The known modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModulePreset {
    /// UPMEM's modules by published measurements.
    UpmemMeasured,
    /// The same modules by the figures of RADAR (TPDS 2024). These are bandwidths, but a processor
    /// that waits for the data it has read waits longer.
    RadarPaper,
}

impl ModulePreset {
    /// All presets.
    pub const ALL: [ModulePreset; 2] = [ModulePreset::UpmemMeasured, ModulePreset::RadarPaper];

    /// Returns the figures.
    pub const fn parameters(self) -> ModuleParameters {
        match self {
            // A copy of b bytes: 77 + b/2 cycles read, 61 + b/2 written. 628 MB/s are streamed in
            // copies of 2048 bytes, and 72.6 MB/s read and written in words at random by 16
            // threads; so the engine is occupied by 34 + 0.53 b cycles. Transfers: 5.04 + 0.2587
            // GB/s per rank up to 31.5; transfers back 4.74 for 6.68; one module 0.33 and 0.12. A
            // transfer's fixed part (20 to 50 µs) and polling each 100 µs are *assumed*, from
            // public programs.
            ModulePreset::UpmemMeasured => ModuleParameters {
                name: "UPMEM, measured",
                source: "PrIM (IEEE Access 2022); prim-benchmarks' fits; energy: PrIM; \
                         fixed costs: assumed",
                cycles_per_second: 350e6,
                tasklets: 12,
                cycles_per_instruction: 11.0,
                instructions: 1.0,
                dma: Dma {
                    read_latency: 77.0,
                    write_latency: 61.0,
                    latency_per_byte: 0.5,
                    occupied: 34.0,
                    occupied_per_byte: 0.53,
                },
                dma_bytes_max: 2048,
                bank_bytes: 64 << 20,
                modules_per_rank: 64,
                bandwidth: Bandwidth::Ranks {
                    base: 5.04e9,
                    per_rank: 0.2587e9,
                    ranks_max: 31.5,
                    back: 4.74 / 6.68,
                    alone: [0.33e9, 0.12e9],
                },
                transfer: VirtualTime::from_nanoseconds(30_000),
                launch: VirtualTime::from_nanoseconds(200_000),
                host: HOST,
                watts_per_module: 0.15,
                joules_per_byte: 0.4e-9,
            },
            // 14 ns for 64 bits, 630 MB/s per module, 25 GB/s between host and all modules, 0.5 ms
            // to launch them.
            ModulePreset::RadarPaper => ModuleParameters {
                name: "UPMEM, by RADAR's figures",
                source: "RADAR (TPDS 2024), section II; energy: PrIM",
                cycles_per_second: 350e6,
                tasklets: 12,
                cycles_per_instruction: 11.0,
                instructions: 1.0,
                dma: Dma {
                    read_latency: 0.0,
                    write_latency: 0.0,
                    latency_per_byte: 14e-9 * 350e6 / 8.0,
                    occupied: 0.0,
                    occupied_per_byte: 350e6 / 630e6,
                },
                dma_bytes_max: 2048,
                bank_bytes: 64 << 20,
                modules_per_rank: 64,
                bandwidth: Bandwidth::Total(25e9),
                transfer: VirtualTime::ZERO,
                launch: VirtualTime::from_nanoseconds(500_000),
                host: HOST,
                watts_per_module: 0.15,
                joules_per_byte: 0.4e-9,
            },
        }
    }
}
