//! Constants of the accelerator, each with its source.

use crate::VirtualTime;
use std::fmt;

/// The relation between pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PulseDesign {
    /// Pulse's design: any memory pipeline fetches for any logic pipeline.
    Disaggregated {
        /// Number of logic pipelines.
        logic: usize,
        /// Number of memory pipelines.
        memory: usize,
    },
    /// A multi-core: each logic pipeline has its own memory pipeline and workspaces.
    Coupled {
        /// Number of pairs.
        cores: usize,
    },
}

impl PulseDesign {
    /// The paper's prototype: three logic pipelines and four memory pipelines (section 4.2).
    pub const PROTOTYPE: PulseDesign = PulseDesign::Disaggregated {
        logic: 3,
        memory: 4,
    };

    /// Returns the number of logic pipelines.
    pub const fn logic(self) -> usize {
        match self {
            PulseDesign::Disaggregated { logic, .. } => logic,
            PulseDesign::Coupled { cores } => cores,
        }
    }

    /// Returns the number of memory pipelines.
    pub const fn memory(self) -> usize {
        match self {
            PulseDesign::Disaggregated { memory, .. } => memory,
            PulseDesign::Coupled { cores } => cores,
        }
    }

    /// Returns the number of simultaneous traversals: two for each memory pipeline, and in the
    /// disaggregated design two more. *Calibrated* by Table 4, as the number is lost in the text at
    /// hand. The table's throughput grows with each memory pipeline, by half of that of one alone.
    /// It does not grow with logic pipelines, so their number adds no workspaces. The factor of two
    /// follows from the time of a request, which Table 3 and the artifact's logic of 7 ns leave for
    /// it (Little's law).
    pub const fn workspaces(self) -> usize {
        match self {
            PulseDesign::Disaggregated { memory, .. } => 2 * (memory + 1),
            PulseDesign::Coupled { cores } => 2 * cores,
        }
    }

    /// Returns the number of logic pipelines per memory pipeline, the paper's η.
    pub fn eta(self) -> f64 {
        self.logic() as f64 / self.memory() as f64
    }
}

impl fmt::Display for PulseDesign {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PulseDesign::Disaggregated { logic, memory } => {
                write!(formatter, "{logic} logic, {memory} memory")
            }
            PulseDesign::Coupled { cores } => write!(formatter, "{cores} coupled"),
        }
    }
}

/// The model of the memory behind the interconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PulseMemoryModel {
    /// Channels without banks: the first byte of a fetch takes `access`, and a channel carries one
    /// burst at a time. Bounds and closed forms are those of this model.
    Channels,
    /// DDR4-2400 by [`crate::dram`]: banks, rows, queues of the controller, and refresh.
    Dram,
}

/// The parameters of the accelerator of one memory node: half of the paper's card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PulseParameters {
    /// A cycle of pipelines and scheduler.
    pub cycle: VirtualTime,
    /// A cycle of the network stack.
    pub network_cycle: VirtualTime,
    /// Number of cycles of the network stack between a packet's last byte and its request, and
    /// between a reply and its packet's first byte.
    pub network_cycles: u64,
    /// Bytes of a packet that the network stack takes per cycle.
    pub network_bytes_per_cycle: u32,
    /// Number of cycles from an event to the pipeline that it starts. One event is taken per cycle.
    pub schedule_cycles: u64,
    /// Number of cycles of a translation with its check of permissions.
    pub translate_cycles: u64,
    /// Time from a translated address to the first bytes of DRAM. With [`PulseMemoryModel::Dram`]
    /// it is that of a bank with another row open, if nothing else waits. An open row takes less,
    /// and a busy bank or a refresh more.
    pub access: VirtualTime,
    /// The model of the memory.
    pub memory: PulseMemoryModel,
    /// Number of channels of DRAM.
    pub channels: usize,
    /// Number of consecutive bytes on a channel, and the maximum number of bytes of a burst.
    pub burst_bytes: u32,
    /// Bytes that a channel carries per second.
    pub channel_bytes_per_second: f64,
    /// Bytes of a burst that a memory pipeline takes per cycle. A burst carries whole words of this
    /// size.
    pub bus_bytes_per_cycle: u32,
    /// True if all channels and memory pipelines share an interconnect, which carries one burst at
    /// a time.
    pub shares_interconnect: bool,
    /// BPF instructions that a logic pipeline executes per cycle.
    pub instructions_per_cycle: u32,
}

/// Error of a parameter without a sensible value: its name, and the allowed values.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{parameter} is {given}, but must be {allowed}")]
pub struct ParameterError {
    /// The parameter.
    pub parameter: &'static str,
    /// Its value.
    pub given: f64,
    /// The allowed values.
    pub allowed: &'static str,
}

impl PulseParameters {
    /// The parameters of half of the paper's card: a port, two channels of DRAM.
    ///
    /// - `cycle`, `network_cycle`: 250 and 322 MHz; `channels`: section 4.2.
    /// - `channel_bytes_per_second`: DDR4-2400 with 64 bits, JEDEC JESD79-4.
    /// - `bus_bytes_per_cycle`, `network_bytes_per_cycle`: 512 bits, the interfaces of the
    ///   published kernels.
    /// - `shares_interconnect`: appendix C.2. The vendor's interconnect, not the channels, limits a
    ///   node's memory. *Assumed*: a word of 512 bits in each cycle, 16 GB/s. The paper's figure is
    ///   lost.
    /// - `burst_bytes`: the longest fetch, section 4.1.
    /// - `access`, `schedule_cycles`: *calibrated* by Table 4, together with the workspaces: 70 ns
    ///   from controller, interconnect and DRAM, and three cycles. DRAM alone takes 46.6 ns (rows
    ///   closed and opened, column and burst of DDR4-2400 with 17-17-17).
    /// - `memory`: the model of DDR4-2400, which has the rate of the channels.
    /// - `network_cycles`: 400 ns; *assumed*, as figure 10 is lost.
    /// - `translate_cycles`: *assumed*.
    /// - `instructions_per_cycle`: *assumed*. Instructions of pulse read and write workspaces
    ///   directly (section 4.1), where BPF needs loads, moves and stores.
    pub const PAPER: PulseParameters = PulseParameters {
        cycle: VirtualTime::from_nanoseconds(4),
        network_cycle: VirtualTime::from_picoseconds(3106),
        network_cycles: 129,
        network_bytes_per_cycle: 64,
        schedule_cycles: 3,
        translate_cycles: 2,
        access: VirtualTime::from_nanoseconds(70),
        memory: PulseMemoryModel::Dram,
        channels: 2,
        burst_bytes: 256,
        channel_bytes_per_second: 19.2e9,
        bus_bytes_per_cycle: 64,
        shares_interconnect: true,
        instructions_per_cycle: 8,
    };

    /// Checks that a design with these parameters can work.
    ///
    /// # Errors
    /// The parameter that has no sensible value.
    pub fn check(&self, design: PulseDesign) -> Result<(), ParameterError> {
        let least_one = "at least 1";
        for (parameter, given) in [
            ("logic pipelines", design.logic() as f64),
            ("memory pipelines", design.memory() as f64),
            ("cycle", self.cycle.as_picoseconds() as f64),
            ("network_cycle", self.network_cycle.as_picoseconds() as f64),
            (
                "network_bytes_per_cycle",
                self.network_bytes_per_cycle.into(),
            ),
            ("channels", self.channels as f64),
            ("burst_bytes", self.burst_bytes.into()),
            ("bus_bytes_per_cycle", self.bus_bytes_per_cycle.into()),
            ("instructions_per_cycle", self.instructions_per_cycle.into()),
        ] {
            if given < 1.0 {
                return Err(ParameterError {
                    parameter,
                    given,
                    allowed: least_one,
                });
            }
        }
        let given = self.channel_bytes_per_second;
        if !given.is_finite() || given < 1.0 {
            return Err(ParameterError {
                parameter: "channel_bytes_per_second",
                given,
                allowed: "a number of at least 1",
            });
        }
        Ok(())
    }

    /// Returns the time of a number of cycles of the pipelines.
    pub fn cycles(&self, cycles: u64) -> VirtualTime {
        VirtualTime::from_picoseconds(self.cycle.as_picoseconds() * cycles)
    }

    /// Returns the next edge of the clock, or this time if it is an edge.
    pub fn edge(&self, time: VirtualTime) -> VirtualTime {
        let cycle = self.cycle.as_picoseconds();
        VirtualTime::from_picoseconds(time.as_picoseconds().div_ceil(cycle) * cycle)
    }

    /// Returns the time of the logic of an iteration: at least one cycle.
    pub fn logic(&self, instructions: u32) -> VirtualTime {
        self.cycles(
            instructions
                .div_ceil(self.instructions_per_cycle)
                .max(1)
                .into(),
        )
    }

    /// Returns the bytes per second that all memory pipelines together can receive.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::pulse::PulseParameters;
    /// assert_eq!(PulseParameters::PAPER.memory_bytes_per_second(), 16e9);
    /// let direct = PulseParameters { shares_interconnect: false, ..PulseParameters::PAPER };
    /// assert_eq!(direct.memory_bytes_per_second(), 32e9);
    /// ```
    pub fn memory_bytes_per_second(&self) -> f64 {
        let picoseconds = self.cycle.as_picoseconds() as f64;
        let bus = f64::from(self.bus_bytes_per_cycle) * 1e12 / picoseconds;
        let ways = match self.shares_interconnect {
            true => 1,
            false => self.channels,
        };
        // A burst holds its channel as long as the pipeline takes it, so the slower one decides.
        bus.min(self.channel_bytes_per_second) * ways as f64
    }

    /// Returns the bytes of the words that a burst carries.
    pub(super) fn carried(&self, bytes: u32) -> u64 {
        u64::from(bytes.div_ceil(self.bus_bytes_per_cycle)) * u64::from(self.bus_bytes_per_cycle)
    }

    /// Returns the time for which a burst occupies its channel and its memory pipeline.
    pub fn burst(&self, bytes: u32) -> VirtualTime {
        let channel = f64::from(bytes) * 1e12 / self.channel_bytes_per_second;
        // The channel and the bus carry the same bytes at the same time, so the slower one decides.
        let channel = VirtualTime::from_picoseconds(channel.round() as u64);
        channel.max(self.cycles(bytes.div_ceil(self.bus_bytes_per_cycle).into()))
    }

    /// Returns the time in which the network stack reads or writes the bytes of a packet.
    pub fn packet(&self, bytes: u32) -> VirtualTime {
        let cycles = u64::from(bytes.div_ceil(self.network_bytes_per_cycle).max(1));
        VirtualTime::from_picoseconds(self.network_cycle.as_picoseconds() * cycles)
    }

    /// Returns the time for which the network stack has a packet besides its bytes.
    pub fn network(&self) -> VirtualTime {
        VirtualTime::from_picoseconds(self.network_cycle.as_picoseconds() * self.network_cycles)
    }

    /// Returns the bursts of a fetch or store, each as its bytes and its channel.
    pub(super) fn bursts(&self, address: u64, bytes: u32) -> impl Iterator<Item = (u32, usize)> {
        let burst = u64::from(self.burst_bytes);
        let end = address.saturating_add(bytes.into());
        let mut at = address;
        let channels = self.channels as u64;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            // A burst ends where the next channel begins, even if it is then shorter.
            let next = (at / burst)
                .saturating_add(1)
                .saturating_mul(burst)
                .min(end);
            let channel = (at / burst) % channels;
            let bytes = next - at;
            at = next;
            Some((bytes as u32, channel as usize))
        })
    }

    /// Returns the time of a fetch that never waits, from the start of its translation to the edge
    /// at which its last byte is there: the paper's t_d. Each access takes `access`.
    pub fn fetch(&self, address: u64, bytes: u32) -> VirtualTime {
        let bursts = self
            .bursts(address, bytes)
            .map(|(bytes, _)| self.burst(bytes));
        let bursts = bursts.fold(VirtualTime::ZERO, |sum, burst| sum + burst);
        self.edge(self.cycles(self.translate_cycles) + self.access + bursts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetches_are_cut_at_multiples_of_a_burst() {
        let bursts = |address, bytes| -> Vec<(u32, usize)> {
            PulseParameters::PAPER.bursts(address, bytes).collect()
        };
        assert_eq!(bursts(0x1000, 256), [(256, 0)]);
        assert_eq!(bursts(0x1100, 256), [(256, 1)]);
        assert_eq!(bursts(0x10f0, 32), [(16, 0), (16, 1)]);
        assert_eq!(bursts(0x1000, 8192).len(), 32);
        assert_eq!(bursts(0x1000, 0), []);
        assert_eq!(bursts(u64::MAX - 4, 100), [(4, 1)]);
    }

    #[test]
    fn a_parameter_without_a_sensible_value_is_named() {
        let none = PulseDesign::Disaggregated {
            logic: 1,
            memory: 0,
        };
        let error = PulseParameters::PAPER.check(none).unwrap_err();
        assert_eq!(
            error.to_string(),
            "memory pipelines is 0, but must be at least 1"
        );
        let parameters = PulseParameters {
            channel_bytes_per_second: f64::NAN,
            ..PulseParameters::PAPER
        };
        let error = parameters.check(PulseDesign::PROTOTYPE).unwrap_err();
        assert_eq!(error.parameter, "channel_bytes_per_second");
    }

    #[test]
    fn a_fetch_takes_its_translation_its_access_and_its_words() {
        let parameters = PulseParameters::PAPER;
        // 2 cycles, 70 ns, and one or four words of 64 bytes, to the edge.
        assert_eq!(parameters.fetch(0, 24), VirtualTime::from_nanoseconds(84));
        assert_eq!(parameters.fetch(0, 256), VirtualTime::from_nanoseconds(96));
        let words = [24, 64, 65].map(|bytes| parameters.carried(bytes));
        assert_eq!(words, [64, 64, 128]);
    }
}
