//! An operating unit: its lanes, stages and bucket.

use super::buckets::DcartBucket;
use super::lane::{DcartLane, DcartStage};
use super::stream::CardLineStream;
use super::{DcartParameters, Pipeline};
use crate::VirtualTime;

#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) lanes: Vec<Option<DcartLane>>,
    /// Number of operations in each stage.
    occupied: [usize; DcartStage::COUNT],
    /// The time at which each stage can serve the next operation.
    free_at: [VirtualTime; DcartStage::COUNT],
    /// The bucket that it has, and the number of its operations that were taken.
    pub(super) bucket: Option<DcartBucket>,
    pub(super) taken: usize,
    /// The bucket's spilled records.
    pub(super) records: CardLineStream,
    /// Number of operations in flight, without riders.
    pub(super) active: usize,
    /// True if it waits for a record.
    pub(super) starved: bool,
}

impl Unit {
    pub(super) fn new(parameters: &DcartParameters) -> Unit {
        let lanes = parameters.pipeline.operations();
        Unit {
            lanes: vec![None; lanes],
            occupied: [0; DcartStage::COUNT],
            free_at: [VirtualTime::ZERO; DcartStage::COUNT],
            bucket: None,
            taken: 0,
            records: CardLineStream::default(),
            active: 0,
            starved: false,
        }
    }

    /// Returns true if a stage has room for another operation.
    pub(super) fn has_room(&self, stage: DcartStage, pipeline: Pipeline) -> bool {
        match pipeline {
            Pipeline::InOrder => self.occupied[stage as usize] == 0,
            Pipeline::Interleaved { .. } => true,
        }
    }

    /// Returns a lane without an operation, if the first stage takes one.
    pub(super) fn free_lane(&self, pipeline: Pipeline) -> Option<usize> {
        let lane = self.lanes.iter().position(Option::is_none)?;
        self.has_room(DcartStage::Index, pipeline).then_some(lane)
    }

    /// Returns the lane with an operation on this key that is not yet executed.
    pub(super) fn lane_of(&self, key: u64) -> Option<usize> {
        let has = |lane: &Option<DcartLane>| {
            let lane = lane.as_ref();
            // An operation that is being executed cannot take riders any more.
            lane.is_some_and(|lane| lane.key == key && lane.stage <= DcartStage::Traverse)
        };
        self.lanes.iter().position(has)
    }

    pub(super) fn enter(&mut self, stage: DcartStage) {
        self.occupied[stage as usize] += 1;
    }

    pub(super) fn leave(&mut self, stage: DcartStage) {
        self.occupied[stage as usize] -= 1;
    }

    /// Returns the lane whose operation waits for room in the stage after this one.
    pub(super) fn stalled_in(&self, stage: DcartStage) -> Option<usize> {
        let is = |lane: &Option<DcartLane>| {
            let lane = lane.as_ref();
            lane.is_some_and(|lane| lane.stalled && lane.stage == stage)
        };
        self.lanes.iter().position(is)
    }

    /// Makes a stage serve an operation, and returns the time at which that begins.
    pub(super) fn serve(
        &mut self,
        stage: DcartStage,
        now: VirtualTime,
        takes: VirtualTime,
    ) -> VirtualTime {
        let free_at = &mut self.free_at[stage as usize];
        let begins = now.max(*free_at);
        *free_at = begins + takes;
        begins
    }

    /// Returns the place in the batch of the next operation, and the line of its record, if that
    /// was spilled.
    pub(super) fn next(&self, parameters: &DcartParameters) -> Option<(usize, Option<u64>)> {
        let bucket = self.bucket.as_ref()?;
        let operation = *bucket.operations.get(self.taken)?;
        // A record begins where the one before it ends.
        let begin = self
            .taken
            .checked_sub(1)
            .map_or(0, |before| bucket.ends[before]);
        let line = begin
            .checked_sub(parameters.bucket_bytes())
            .filter(|beyond| *beyond < bucket.spilled)
            .map(|beyond| beyond / crate::dram::LINE_BYTES);
        Some((operation as usize, line))
    }
}
