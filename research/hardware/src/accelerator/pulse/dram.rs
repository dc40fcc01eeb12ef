//! The DRAM of a memory node, from the side of the accelerator.
//!
//! Each channel is a memory of its own, because a burst belongs to one channel. A fetch asks for
//! the lines of its bursts, some bursts ahead of the one that a memory pipeline takes. A pipeline
//! may take a burst as soon as each of its words is there in time.

use super::super::MemorySpan;
use super::{ParameterError, PulseParameters};
use crate::VirtualTime;
use crate::dram::{
    DramAccess, DramMemory, DramParameters, DramPreset, DramReadCompletion, LINE_BYTES,
};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Number of bursts of a fetch whose lines are requested and not taken. *Assumed*: as many as pass
/// the interconnect while DRAM finds a row.
const BURSTS_AHEAD: usize = 8;
/// Length of a clock of DDR4-2400.
const CLOCK_PS: u64 = 833;

/// Returns the parameters of a channel: DDR4-2400 with 17-17-17 and eight devices of 8 Gb, JEDEC
/// JESD79-4. The other times are those of DRAMsim3's `DDR4_8Gb_x8_2400.ini`. The time of a line on
/// the bus follows from the channel's rate.
fn channel(parameters: &PulseParameters) -> DramParameters {
    let line_ps = LINE_BYTES as f64 * 1e12 / parameters.channel_bytes_per_second;
    let burst = (line_ps / CLOCK_PS as f64).round().max(1.0) as u64;
    DramParameters {
        name: "ddr4-2400-x8",
        source: "JESD79-4, 2400R",
        channels: 1,
        t_ck_ps: CLOCK_PS,
        burst,
        cl: 17,
        cwl: 12,
        t_rcd_read: 17,
        t_rcd_write: 17,
        t_rp: 17,
        t_ras: 39,
        t_rrd_s: 4,
        t_rrd_l: 6,
        t_faw: 26,
        t_ccd_s: burst,
        t_ccd_l: burst.max(6),
        t_ccd_l_write: burst.max(6),
        t_rtp: 9,
        t_wr: 18,
        t_wtr_s: 3,
        t_wtr_l: 9,
        t_rfc: 420,
        t_refi: 9363,
        ..DramPreset::Ddr4X8.parameters()
    }
}

/// The DRAM of a memory node.
#[derive(Debug)]
pub(super) struct PulseDram {
    parameters: PulseParameters,
    channels: Vec<DramMemory>,
    /// Time of a read besides DRAM.
    beyond: VirtualTime,
    /// The fetches by workspace.
    fetches: Vec<AheadFetch>,
    /// The readers of each requested line, by its channel and number.
    waiting: FxHashMap<(usize, u64), Vec<LineReader>>,
    completions: Vec<DramReadCompletion>,
}

/// A fetch of a workspace.
#[derive(Debug, Default)]
struct AheadFetch {
    /// The bytes that are not requested yet.
    rest: MemorySpan,
    /// The bursts that are requested and not taken, in order.
    bursts: VecDeque<AheadBurst>,
    /// The number of the first of these, counted over all fetches of the workspace.
    first: u64,
    /// True if the workspace does not know yet when it may take the first of these.
    is_awaited: bool,
}

/// A burst that is requested.
#[derive(Clone, Copy, Debug)]
struct AheadBurst {
    /// Number of lines that have not arrived.
    missing: u64,
    /// The time from which each word is there in time, besides what is beyond DRAM.
    begin: VirtualTime,
}

/// A burst that waits for a line.
#[derive(Clone, Copy, Debug)]
struct LineReader {
    workspace: usize,
    burst: u64,
    /// The position of the line in the burst.
    position: u64,
}

impl PulseDram {
    /// Creates the memory for this number of workspaces.
    pub(super) fn new(
        parameters: PulseParameters,
        workspaces: usize,
    ) -> Result<PulseDram, ParameterError> {
        let channel = channel(&parameters);
        let refused = ParameterError {
            parameter: "channel_bytes_per_second",
            given: parameters.channel_bytes_per_second,
            allowed: "a rate of DDR4",
        };
        // A node at random most often finds another row of its bank open.
        let clocks = 1 + channel.t_rp + channel.t_rcd_read + channel.cl + channel.burst;
        let memory = DramMemory::new(channel);
        let mut memory = memory.map_err(|_| refused)?;
        memory.keep_completions();
        Ok(PulseDram {
            parameters,
            channels: vec![memory; parameters.channels],
            beyond: parameters.access - VirtualTime::from_picoseconds(clocks * CLOCK_PS),
            fetches: (0..workspaces).map(|_| AheadFetch::default()).collect(),
            waiting: FxHashMap::default(),
            completions: Vec::new(),
        })
    }

    /// Returns the lines of a burst within its channel.
    fn lines(&self, address: u64, bytes: u32) -> RangeInclusive<u64> {
        let burst = u64::from(self.parameters.burst_bytes);
        // The channels have the bursts in turn.
        let own = address / burst / self.parameters.channels as u64;
        let begin = own * burst + address % burst;
        begin / LINE_BYTES..=(begin + u64::from(bytes.max(1)) - 1) / LINE_BYTES
    }

    /// Returns the first clock of DRAM at or after a time.
    fn clock_at(now: VirtualTime) -> u64 {
        now.as_picoseconds().div_ceil(CLOCK_PS)
    }

    /// Begins the fetch of a workspace, which has at least one byte.
    pub(super) fn begin(&mut self, now: VirtualTime, workspace: usize, span: MemorySpan) {
        debug_assert!(span.bytes > 0);
        if let Some(fetch) = self.fetches.get_mut(workspace) {
            debug_assert!(
                fetch.bursts.is_empty(),
                "a workspace has one fetch at a time"
            );
            fetch.rest = span;
            fetch.is_awaited = true;
        }
        for _ in 0..BURSTS_AHEAD {
            self.request(now, workspace);
        }
    }

    /// Requests the lines of a fetch's next burst, if there is one.
    fn request(&mut self, now: VirtualTime, workspace: usize) {
        let parameters = self.parameters;
        let Some(MemorySpan { address, bytes }) = self.fetches.get(workspace).map(|it| it.rest)
        else {
            return;
        };
        let Some((length, channel)) = parameters.bursts(address, bytes).next() else {
            return;
        };
        let lines = self.lines(address, length);
        let Some(fetch) = self.fetches.get_mut(workspace) else {
            return;
        };
        fetch.rest = MemorySpan {
            address: address.saturating_add(length.into()),
            bytes: bytes - length,
        };
        let burst = fetch.first + fetch.bursts.len() as u64;
        fetch.bursts.push_back(AheadBurst {
            missing: lines.end() - lines.start() + 1,
            begin: now,
        });
        let clock = PulseDram::clock_at(now);
        for (position, line) in (0..).zip(lines) {
            let readers = self.waiting.entry((channel, line)).or_default();
            readers.push(LineReader {
                workspace,
                burst,
                position,
            });
            // DRAM would merge further reads of the line, too, but then it returns one result.
            if readers.len() == 1
                && let Some(memory) = self.channels.get_mut(channel)
            {
                memory.submit(line * LINE_BYTES, DramAccess::Read, clock);
            }
        }
    }

    /// Notes that a workspace has taken the first burst of its fetch, and requests another.
    pub(super) fn taken(&mut self, now: VirtualTime, workspace: usize) {
        if let Some(fetch) = self.fetches.get_mut(workspace) {
            let taken = fetch.bursts.pop_front();
            debug_assert!(taken.is_some_and(|burst| burst.missing == 0));
            fetch.first += 1;
            fetch.is_awaited = true;
        }
        self.request(now, workspace);
    }

    /// Writes the bytes of a burst. Nothing waits for them.
    pub(super) fn write(&mut self, now: VirtualTime, channel: usize, address: u64, bytes: u32) {
        let lines = self.lines(address, bytes);
        let clock = PulseDram::clock_at(now);
        if let Some(memory) = self.channels.get_mut(channel) {
            for line in lines {
                memory.submit(line * LINE_BYTES, DramAccess::Write, clock);
            }
        }
    }

    /// Returns the next time at which lines may arrive.
    pub(super) fn next(&self) -> Option<VirtualTime> {
        let clocks = self.channels.iter().filter_map(DramMemory::next_of_reads);
        let clock = clocks.min()?;
        Some(VirtualTime::from_picoseconds(clock * CLOCK_PS))
    }

    /// Lets time pass, and appends the workspaces with a burst whose last line is known to arrive.
    pub(super) fn advance(&mut self, now: VirtualTime, complete: &mut Vec<usize>) {
        // Clocks before the given one are executed, so the one that has begun is included.
        let clock = now.as_picoseconds() / CLOCK_PS + 1;
        let word_ps = self.parameters.burst(LINE_BYTES as u32).as_picoseconds();
        for (channel, memory) in self.channels.iter_mut().enumerate() {
            memory.completions_before(clock, &mut self.completions);
            for completion in self.completions.drain(..) {
                let line = completion.line / LINE_BYTES;
                let arrival = VirtualTime::from_picoseconds(completion.clock * CLOCK_PS);
                let readers = self.waiting.remove(&(channel, line)).unwrap_or_default();
                for reader in readers {
                    let Some(fetch) = self.fetches.get_mut(reader.workspace) else {
                        continue;
                    };
                    let place = reader.burst - fetch.first;
                    let Some(burst) = fetch.bursts.get_mut(place as usize) else {
                        continue;
                    };
                    // The pipeline takes the lines of a burst one after the other.
                    let before = VirtualTime::from_picoseconds(word_ps * reader.position);
                    burst.begin = burst.begin.max(arrival - before);
                    burst.missing -= 1;
                    if burst.missing == 0 {
                        complete.push(reader.workspace);
                    }
                }
            }
        }
    }

    /// Returns the time from which a workspace may take its first burst, once it is known. Returns
    /// it once.
    pub(super) fn ready(&mut self, workspace: usize) -> Option<VirtualTime> {
        let fetch = self.fetches.get_mut(workspace)?;
        let first = *fetch.bursts.front()?;
        if first.missing > 0 || !fetch.is_awaited {
            return None;
        }
        fetch.is_awaited = false;
        Some(first.begin + self.beyond)
    }
}
