//! Sizes and times of the accelerator, each with its source.

use super::{DcartError, LineBufferPolicy};
use crate::VirtualTime;
use crate::dram;

/// The number of operations in flight in an operating unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// One operation in each of the four stages, in order. A stage that waits for memory is
    /// blocked.
    InOrder,
    /// Several operations, each in any stage. A stage serves one per cycle, and others while one
    /// waits for memory.
    Interleaved {
        /// Number of operations in a unit.
        operations: usize,
    },
}

impl Pipeline {
    /// Returns the maximum number of operations in flight in a unit.
    pub fn operations(self) -> usize {
        match self {
            Pipeline::InOrder => 4,
            Pipeline::Interleaved { operations } => operations,
        }
    }
}

/// The parameters of an accelerator and its card.
#[derive(Clone, Debug, PartialEq)]
pub struct DcartParameters {
    /// A cycle of its clock.
    pub cycle: VirtualTime,
    /// Number of operating units.
    pub units: usize,
    /// Number of buckets of a batch.
    pub buckets: usize,
    /// Number of operations in a batch.
    pub batch: usize,
    /// True if operations are distributed by the prefix of their key, false if in turn.
    pub combines: bool,
    /// True if units remember the places of keys.
    pub shortcuts: bool,
    /// True if a batch is combined while the one before is executed.
    pub overlaps: bool,
    /// The choice of the lines that the buffer of the tree keeps.
    pub tree_policy: LineBufferPolicy,
    /// The operations in flight in a unit.
    pub pipeline: Pipeline,

    /// Bytes of the buffer of incoming operations.
    pub scan_buffer: u64,
    /// Bytes of the buffer of buckets.
    pub bucket_buffer: u64,
    /// Bytes of the buffer of shortcuts.
    pub shortcut_buffer: u64,
    /// Bytes of the buffer of the tree.
    pub tree_buffer: u64,

    /// Bytes of a shortcut in memory: the identity of a key and two addresses.
    pub shortcut_bytes: u32,
    /// Number of cycles to hash a key.
    pub hash_cycles: u64,
    /// Number of cycles of a lookup in a buffer.
    pub buffer_cycles: u64,
    /// Number of cycles in which a node decides for a child, or a leaf is compared.
    pub match_cycles: u64,
    /// Number of cycles in which an operation reads its value.
    pub read_cycles: u64,
    /// Number of cycles in which an operation writes; one more for each line after the first.
    pub write_cycles: u64,
    /// Number of cycles in which a shortcut is written.
    pub generate_cycles: u64,
    /// Number of cycles to the memory of the card and back.
    pub port_cycles: u64,
    /// Number of lines that a stream of operations reads ahead.
    pub stream_lines: usize,
    /// Number of lines that a bucket writes to memory at once when its buffer is full.
    pub spill_lines: u64,

    /// The memory of the card.
    pub memory: dram::DramParameters,
    /// Bytes of the card's block memory.
    pub block_memory: u64,
}

/// Alveo U280: 2,016 block memories of 36 Kb (its data sheet, DS963).
const U280_BLOCK_MEMORY: u64 = 2016 * 36 * 1024 / 8;

/// The maximum size of a buffer.
const BYTES_MAX: u64 = 1 << 40;

/// The longest time of a step.
const CYCLES_MAX: u64 = 1_000_000;

/// The minimum memory of a card, in which each bucket has 8 KiB.
const MEMORY_MIN: u64 = 16 << 20;

impl DcartParameters {
    /// Returns the parameters of the paper.
    ///
    /// - Units, buckets, stages, buffers and 230 MHz: Table I, sections III and IV-A.
    /// - `memory`: HBM2 of two stacks with eight channels each, like that of the card (8 GB, 460
    ///   GB/s; here [`dram::DramPreset::Hbm2`], whose channels carry 512 GB/s together).
    /// - *Assumed*: 65,536 operations per batch; shortcuts of 32 bytes; two cycles for the hash,
    ///   two for a buffer, one for a match, for a read and for a shortcut, two for a write; eight
    ///   cycles to memory and back; streams eight lines ahead; spills of 512 bytes; and that a
    ///   stage which waits for memory takes no other operation ("sequentially retrieves an
    ///   operation").
    pub fn published() -> DcartParameters {
        let hbm2 = dram::DramPreset::Hbm2.parameters();
        DcartParameters {
            cycle: VirtualTime::per_second(230e6),
            units: 16,
            buckets: 16,
            batch: 65_536,
            combines: true,
            shortcuts: true,
            overlaps: true,
            tree_policy: LineBufferPolicy::Value,
            pipeline: Pipeline::InOrder,
            scan_buffer: 512 << 10,
            bucket_buffer: 2 << 20,
            shortcut_buffer: 128 << 10,
            tree_buffer: 4 << 20,
            shortcut_bytes: 32,
            hash_cycles: 2,
            buffer_cycles: 2,
            match_cycles: 1,
            read_cycles: 1,
            write_cycles: 2,
            generate_cycles: 1,
            port_cycles: 8,
            stream_lines: 8,
            spill_lines: 8,
            memory: dram::DramParameters {
                channels: 2 * hbm2.channels,
                rows: hbm2.rows / 2,
                ..hbm2
            },
            block_memory: U280_BLOCK_MEMORY,
        }
    }

    /// Returns the time of a number of cycles.
    pub(super) fn cycles(&self, cycles: u64) -> VirtualTime {
        VirtualTime::from_picoseconds(self.cycle.as_picoseconds() * cycles)
    }

    /// Returns the bytes of all buffers.
    pub fn buffers(&self) -> u64 {
        self.scan_buffer + self.bucket_buffer + self.shortcut_buffer + self.tree_buffer
    }

    /// Returns the bytes of a bucket that stay on the chip. With overlap there are two sets of
    /// buckets.
    pub(super) fn bucket_bytes(&self) -> u64 {
        self.bucket_buffer / (self.buckets as u64 * if self.overlaps { 2 } else { 1 })
    }

    /// Checks that the accelerator can be built.
    ///
    /// # Errors
    /// [`DcartError`] names the parameter.
    pub fn check(&self) -> Result<(), DcartError> {
        let within = |name, given: u64, least: u64, most: u64, allowed| {
            let ok = (least..=most).contains(&given);
            let error = DcartError::Parameter {
                name,
                given,
                allowed,
            };
            if ok { Ok(()) } else { Err(error) }
        };
        let picoseconds = self.cycle.as_picoseconds();
        within("cycle", picoseconds, 100, 1_000_000, "100 ps to 1 µs")?;
        within("units", self.units as u64, 1, 256, "1 to 256")?;
        within("buckets", self.buckets as u64, 1, 256, "1 to 256")?;
        within("batch", self.batch as u64, 1, 1 << 24, "1 to 16777216")?;
        let operations = self.pipeline.operations() as u64;
        within("pipeline", operations, 1, 1024, "1 to 1024 operations")?;
        let line = dram::LINE_BYTES;
        let sizes = [
            ("scan_buffer", self.scan_buffer),
            ("bucket_buffer", self.bucket_buffer),
            ("shortcut_buffer", self.shortcut_buffer),
            ("tree_buffer", self.tree_buffer),
        ];
        for (name, bytes) in sizes {
            within(name, bytes, line, BYTES_MAX, "64 bytes to 1 TiB")?;
        }
        let cycles = [
            ("hash_cycles", self.hash_cycles),
            ("buffer_cycles", self.buffer_cycles),
            ("match_cycles", self.match_cycles),
            ("read_cycles", self.read_cycles),
            ("write_cycles", self.write_cycles),
            ("generate_cycles", self.generate_cycles),
            ("port_cycles", self.port_cycles),
        ];
        for (name, cycles) in cycles {
            within(name, cycles, 0, CYCLES_MAX, "0 to 1000000")?;
        }
        // A buffer replies at the earliest in the cycle after the lookup.
        within(
            "buffer_cycles",
            self.buffer_cycles,
            1,
            CYCLES_MAX,
            "1 to 1000000",
        )?;
        // All buffers share the block memories of the card.
        if self.buffers() > self.block_memory {
            return Err(DcartError::Buffers {
                given: self.buffers(),
                card: self.block_memory,
            });
        }
        let bytes = u64::from(self.shortcut_bytes);
        within("shortcut_bytes", bytes, 16, 64, "16 to 64")?;
        within(
            "stream_lines",
            self.stream_lines as u64,
            1,
            1024,
            "1 to 1024",
        )?;
        within("spill_lines", self.spill_lines, 1, 1024, "1 to 1024")?;
        dram::DramMemory::new(self.memory.clone())?;
        let bytes = self.memory.bytes();
        within("memory", bytes, MEMORY_MIN, u64::MAX, "16 MiB at least")
    }
}
