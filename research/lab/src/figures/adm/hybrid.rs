//! Two memories that one client uses in turn.

use nearfield_hardware::dram::{
    AddressMap, DramAccess, DramError, DramMemory, DramPreset, DramReport, DramRequest,
};

/// A set of timings of the fast memory and an order of the fields of addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HybridVariant {
    pub name: &'static str,
    pub fast: DramPreset,
    pub map: AddressMap,
}

/// The variants; the first is that of the paper's figures.
pub(super) const VARIANTS: [HybridVariant; 4] = [
    HybridVariant {
        name: "paper's HBM, rows",
        fast: DramPreset::Hbm2Paper,
        map: AddressMap::ROWS,
    },
    HybridVariant {
        name: "paper's HBM, lines",
        fast: DramPreset::Hbm2Paper,
        map: AddressMap::LINES,
    },
    HybridVariant {
        name: "HBM2 as sold, rows",
        fast: DramPreset::Hbm2,
        map: AddressMap::ROWS,
    },
    HybridVariant {
        name: "HBM2 as sold, lines",
        fast: DramPreset::Hbm2,
        map: AddressMap::LINES,
    },
];

/// The slow memory: the paper's has two channels with eight banks each.
pub(super) const SLOW: DramPreset = DramPreset::Ddr4X16;

/// Number of lines in flight at a time.
const WINDOW: u64 = 10;
const LINE: u64 = 64;

/// A fast memory and a slow one, and the time of their client.
#[derive(Debug)]
pub(super) struct Hybrid {
    memories: [DramMemory; 2],
    picoseconds: u64,
}

/// The cost of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HybridCost {
    /// The mean latency of a read of a line.
    pub latency_ns: f64,
    /// Time of the run.
    pub time_us: f64,
    /// Energy of column accesses for reads; the next field is that for writes.
    pub read_uj: f64,
    pub write_uj: f64,
    /// Energy of rows and columns; the next field includes refresh and background.
    pub dynamic_uj: f64,
    pub total_uj: f64,
}

impl Hybrid {
    pub(super) fn new(variant: HybridVariant) -> Result<Hybrid, DramError> {
        let memory = |preset: DramPreset| DramMemory::with_map(preset.parameters(), variant.map);
        Ok(Hybrid {
            memories: [memory(variant.fast)?, memory(SLOW)?],
            picoseconds: 0,
        })
    }

    /// Reads or writes the lines of some bytes, ten at a time: the next ten when these are done.
    pub(super) fn access(&mut self, tier: usize, begin: u64, end: u64, access: DramAccess) {
        let Some(memory) = self.memories.get_mut(tier) else {
            return;
        };
        let clock_ps = memory.parameters().t_ck_ps;
        let mut line = begin / LINE * LINE;
        while line < end {
            // The memories have clocks of different lengths: the next tick of this one.
            let clock = self.picoseconds.div_ceil(clock_ps);
            let group = end.min(line + WINDOW * LINE);
            while line < group {
                memory.submit(line, access, clock);
                line += LINE;
            }
            self.picoseconds = self.picoseconds.max(memory.settle() * clock_ps);
        }
    }

    /// Makes requests, each of its memory, ten at a time: the next ten when these are done.
    pub(super) fn requests(&mut self, requests: &[(usize, DramRequest)]) {
        for group in requests.chunks(WINDOW as usize) {
            let begin = self.picoseconds;
            for (tier, request) in group {
                if let Some(memory) = self.memories.get_mut(*tier) {
                    let clock = begin.div_ceil(memory.parameters().t_ck_ps);
                    memory.submit(request.address, request.access, clock);
                }
            }
            for memory in &mut self.memories {
                let clock_ps = memory.parameters().t_ck_ps;
                self.picoseconds = self.picoseconds.max(memory.settle() * clock_ps);
            }
        }
    }

    /// Returns the cost of the run, of the memories that are powered.
    pub(super) fn finish(self, powered: [bool; 2]) -> HybridCost {
        let time = self.picoseconds;
        let reports = self.memories.map(|memory| {
            // Both end at the same time, so that each has background energy for the whole run.
            let clock = time.div_ceil(memory.parameters().t_ck_ps);
            memory.finish_at(clock)
        });
        let powered_reports = || reports.iter().zip(powered).filter(|(_, powered)| *powered);
        let sum = |part: fn(&DramReport) -> f64| {
            powered_reports()
                .map(|(report, _)| part(report))
                .sum::<f64>()
        };
        let reads = sum(|report| report.requests.reads as f64);
        HybridCost {
            latency_ns: sum(|report| report.latency_ns.mean * report.requests.reads as f64)
                / reads.max(1.0),
            time_us: time as f64 / 1e6,
            read_uj: sum(|report| report.energy_uj.read),
            write_uj: sum(|report| report.energy_uj.write),
            dynamic_uj: sum(|report| report.energy_uj.dynamic()),
            total_uj: sum(|report| report.energy_uj.total()),
        }
    }
}
