//! The time series, in place of BTrDB: a B+ tree of a phasor that is measured 120 times a second,
//! and aggregates of windows of some seconds.

use super::application::RemoteApplication;
use super::deployment::{Deployment, DeploymentError};
use super::native::{self, NativeCode};
use super::sealer::Sealer;
use super::web_service::ApplicationBuildError;
use crate::workload::{HERTZ, measurement, random, sum_and_bounds};
use nearfield_offload::structures::{BPlusTree, NodeHeap, aggregated};
use nearfield_offload::traversal::TraversalQuery;
use rand::RngExt;

pub(super) struct TimeSeriesApplication {
    tree: BPlusTree,
    measurements: u64,
    /// The length of a window, in seconds.
    seconds: u64,
}

/// A window, by the number of its first measurement.
#[derive(Clone, Debug)]
pub(super) struct TimeSeriesRequest {
    pub first: u64,
}

/// The aggregates of a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeSeriesReply {
    pub sum: u64,
    pub mean: f64,
    pub least: Option<u64>,
    pub greatest: Option<u64>,
}

/// Returns the bytes of a tree of this number of measurements, with some reserve.
pub(super) fn bytes(measurements: u64) -> u64 {
    // Keys in ascending order leave nodes half full.
    measurements * 84 + (1 << 20)
}

impl TimeSeriesApplication {
    /// Creates a series of this number of measurements, with windows of this many seconds.
    pub(super) fn new(
        heap: &mut impl NodeHeap,
        measurements: u64,
        seconds: u64,
    ) -> Result<TimeSeriesApplication, ApplicationBuildError> {
        let mut tree = BPlusTree::new(heap)?;
        for number in 0..measurements {
            let (moment, magnitude) = measurement(number);
            tree.insert(heap, moment, magnitude)?;
        }
        Ok(TimeSeriesApplication {
            tree,
            measurements,
            seconds,
        })
    }

    /// Returns the same data with windows of another length.
    pub(super) fn with_seconds(&self, seconds: u64) -> TimeSeriesApplication {
        TimeSeriesApplication {
            tree: self.tree.clone(),
            seconds,
            ..*self
        }
    }

    fn window(&self) -> u64 {
        self.seconds * HERTZ
    }
}

impl RemoteApplication for TimeSeriesApplication {
    type Request = TimeSeriesRequest;
    type Reply = TimeSeriesReply;

    fn name(&self) -> String {
        format!("time series {} s", self.seconds)
    }

    fn requests(&self, stream: usize) -> impl Iterator<Item = TimeSeriesRequest> + Send {
        let mut random = random(22, stream as u64);
        let last = self.measurements.saturating_sub(self.window() + 1);
        std::iter::repeat_with(move || TimeSeriesRequest {
            first: random.random_range(0..=last),
        })
    }

    fn query(&self, request: &TimeSeriesRequest) -> Option<TraversalQuery> {
        let (begin, _) = measurement(request.first);
        let (end, _) = measurement(request.first + self.window());
        Some(self.tree.aggregate(begin, end))
    }

    fn serve(
        &self,
        request: &TimeSeriesRequest,
        deployment: &mut dyn Deployment,
        _: &mut Sealer,
    ) -> Result<TimeSeriesReply, DeploymentError> {
        let (begin, _) = measurement(request.first);
        let (end, _) = measurement(request.first + self.window());
        let outcome = deployment.run(&self.tree.aggregate(begin, end))?;
        let aggregates = aggregated(&outcome);
        Ok(TimeSeriesReply {
            sum: aggregates.sum,
            mean: aggregates.sum as f64 / aggregates.count.max(1) as f64,
            least: aggregates.min,
            greatest: aggregates.max,
        })
    }

    fn is_right(&self, request: &TimeSeriesRequest, reply: &TimeSeriesReply) -> bool {
        let numbers = request.first..request.first + self.window();
        let [sum, least, greatest] = sum_and_bounds(numbers);
        *reply
            == TimeSeriesReply {
                sum,
                mean: sum as f64 / self.window() as f64,
                least: Some(least),
                greatest: Some(greatest),
            }
    }

    fn with_native<'m>(&self, native: NativeCode<'m>) -> NativeCode<'m> {
        native.with(&self.tree.aggregate(0, 0).program, native::aggregate)
    }
}
