//! The minimum time of a run, in closed form.

use super::lane::DcartStage;
use super::{DcartParameters, Pipeline};
use crate::VirtualTime;
use crate::dram::LINE_BYTES;

/// A part of the accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DcartPart {
    /// The combining unit: one operation per cycle.
    Combining,
    /// A stage of the unit that has the most work: the least cycles of its operations, and the
    /// shortest read of memory for each line that it waits for.
    Stage(usize),
    /// The operations in flight in a unit: each is there for its minimum time.
    Lanes,
    /// The memory of the card: all lines at its peak rate, or all rows that it opened, four per
    /// `tFAW` of a channel.
    Memory,
}

/// The minimum time of a run by each part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DcartBound {
    combining: VirtualTime,
    stages: [VirtualTime; DcartStage::COUNT],
    lanes: VirtualTime,
    memory: VirtualTime,
}

/// The minimum work of a unit: cycles that its stages serve, and the time that operations spend
/// there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DcartUnitWork {
    /// Number of cycles in which a stage serves no other operation.
    pub(super) serves: [u64; DcartStage::COUNT],
    /// Number of cycles of an operation in a stage, including those in which it serves others.
    pub(super) takes: [u64; DcartStage::COUNT],
    /// Number of waits for memory in a stage.
    pub(super) waits: [u64; DcartStage::COUNT],
}

impl DcartBound {
    pub(super) fn of(
        parameters: &DcartParameters,
        operations: u64,
        units: &[DcartUnitWork],
        lines: u64,
        rows: u64,
    ) -> DcartBound {
        let memory = &parameters.memory;
        // The shortest read finds its row open.
        let clocks = 1 + memory.cl + memory.burst;
        let wait =
            clocks * memory.t_ck_ps + parameters.cycles(parameters.port_cycles).as_picoseconds();
        let cycle = parameters.cycle.as_picoseconds();
        // Units work at the same time, so the busiest one limits.
        let most = |part: &dyn Fn(&DcartUnitWork) -> u64| {
            let all = units.iter().map(part);
            VirtualTime::from_picoseconds(all.max().unwrap_or(0))
        };
        let time = |work: &DcartUnitWork, stage: usize| {
            work.takes[stage] * cycle + work.waits[stage] * wait
        };
        let stages = std::array::from_fn(|stage| match parameters.pipeline {
            // A stage that waits is blocked, so its waits count. An interleaved stage serves others
            // meanwhile.
            Pipeline::InOrder => most(&|work| time(work, stage)),
            Pipeline::Interleaved { .. } => most(&|work| work.serves[stage] * cycle),
        });
        let lanes = parameters.pipeline.operations() as u64;
        let all = |work: &DcartUnitWork| {
            (0..DcartStage::COUNT)
                .map(|stage| time(work, stage))
                .sum::<u64>()
        };
        let bytes = lines * LINE_BYTES;
        let carried = bytes as f64 / memory.peak_gbps() * 1e3;
        let each = (memory.t_faw as f64 / 4.0).max(memory.t_rrd_s as f64) * memory.t_ck_ps as f64;
        // No row is opened while a rank is refreshed.
        let refreshed = match memory.t_refi {
            0 => 1.0,
            interval => 1.0 - memory.t_rfc as f64 / interval as f64,
        };
        let opened = rows as f64 * each / f64::from(memory.channels * memory.ranks) / refreshed;
        DcartBound {
            combining: parameters.cycles(operations),
            stages,
            lanes: most(&|work| all(work) / lanes),
            memory: VirtualTime::from_picoseconds(carried.max(opened) as u64),
        }
    }

    /// Returns the minimum time of the run, and the part that takes it.
    pub fn slowest(&self) -> (DcartPart, VirtualTime) {
        let stages = self.stages.iter().enumerate();
        let stages = stages.map(|(stage, time)| (DcartPart::Stage(stage), *time));
        let others = [
            (DcartPart::Combining, self.combining),
            (DcartPart::Lanes, self.lanes),
            (DcartPart::Memory, self.memory),
        ];
        let all = stages.chain(others);
        all.max_by_key(|(_, time)| *time)
            .unwrap_or((DcartPart::Combining, VirtualTime::ZERO))
    }
}
