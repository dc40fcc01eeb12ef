//! Figure 2a: the part of a request's time in its traversal over swapped memory, by the memory at
//! the caller.
//!
//! The artifact has the measurements of the figure, and the time of a million requests. Three times
//! are derived from them. The measurement with all data at the caller gives the time of a
//! traversal's nodes and that of all other work. The measurement with the least data there and the
//! uniform distribution gives the time of a fault, with the faults that the model counts. All other
//! points are results of the model.

use super::applications::{COARSE, PulseApplication, PulseKeyDistribution};
use super::data::Allocation;
use super::paged::{RequestPagingMeans, paged};
use super::rows::row;
use super::scale::{Figure, PulseScale};
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::{Quantity, Row};
use crate::harness::Interrupt;

/// Memory at the caller, in GB of the 32 of an application's data.
const AT_CALLER: [u64; 5] = [2, 4, 8, 16, 32];
const ALL: u64 = 32;

/// Measurements of an application in the artifact, for each of `AT_CALLER`: the part of the time in
/// traversals, and the seconds of a million requests with uniform keys.
struct PublishedMeasurements {
    shares: [f64; 5],
    seconds: [f64; 5],
}

/// An application, its measurements with uniform keys, and the parts with Zipf's distribution.
struct Study {
    name: &'static str,
    application: fn(PulseKeyDistribution) -> PulseApplication,
    uniform: PublishedMeasurements,
    zipf: [f64; 5],
}

const STUDIES: [Study; 3] = [
    Study {
        name: "WebService",
        application: |choice| PulseApplication::WebService {
            updates: 0,
            choice,
            cached: 0,
        },
        uniform: PublishedMeasurements {
            shares: [0.810, 0.807, 0.758, 0.711, 0.136],
            seconds: [56.9, 50.6, 44.8, 34.9, 11.2],
        },
        zipf: [0.734, 0.709, 0.672, 0.566, 0.117],
    },
    Study {
        name: "WiredTiger",
        application: |choice| PulseApplication::WiredTiger {
            choice,
            allocation: Allocation::Slabs(COARSE),
        },
        uniform: PublishedMeasurements {
            shares: [0.934, 0.927, 0.908, 0.870, 0.637],
            seconds: [403.0, 343.0, 268.0, 184.0, 38.7],
        },
        zipf: [0.926, 0.899, 0.863, 0.816, 0.578],
    },
    Study {
        name: "BTrDB",
        application: |choice| PulseApplication::BtrDb {
            seconds: 1,
            choice,
            allocation: Allocation::Slabs(COARSE),
        },
        uniform: PublishedMeasurements {
            shares: [0.867, 0.853, 0.854, 0.776, 0.558],
            seconds: [142.0, 115.0, 96.9, 43.6, 14.5],
        },
        zipf: [0.354, 0.353, 0.356, 0.357, 0.327],
    },
];

/// The part of the keys that the model has, so that a cache of half of them fills in seconds;
/// caches are smaller by the same factor.
const KEYS_PERCENT: u64 = 1;

/// Times of a request, in microseconds.
#[derive(Clone, Copy)]
struct SwapRequestTimes {
    /// Time of all nodes of a traversal if they are at the caller.
    traversal: f64,
    /// Time of all other work.
    rest: f64,
    fault: f64,
}

impl Study {
    /// Computes the times from the artifact's measurements and the faults of a traversal with the
    /// least memory.
    fn times(&self, least: &RequestPagingMeans) -> SwapRequestTimes {
        let PublishedMeasurements { shares, seconds } = &self.uniform;
        let [share, .., all_share] = *shares;
        let [time, .., all_time] = *seconds;
        // Seconds of a million requests are microseconds of one.
        // With all data at the caller no request waits for a fault.
        let traversal = all_share * all_time;
        SwapRequestTimes {
            traversal,
            rest: all_time - traversal,
            fault: (share * time - traversal) / least.traversal_faults(),
        }
    }
}

impl SwapRequestTimes {
    /// Returns the part of the time in traversals, in percent.
    fn share(&self, paged: &RequestPagingMeans) -> f64 {
        let traversal = self.traversal + self.fault * paged.traversal_faults();
        let rest = self.rest + self.fault * paged.object_faults;
        100.0 * traversal / (traversal + rest)
    }
}

/// Counts the faults of a request with this memory at the caller.
fn faults(
    application: PulseApplication,
    at_caller: u64,
    scale: &PulseScale,
    interrupt: &Interrupt,
) -> Result<RequestPagingMeans, PointError> {
    // Without swapped memory there is no fault.
    if at_caller == ALL {
        return Ok(RequestPagingMeans::default());
    }
    let part = at_caller as f64 / ALL as f64;
    let scale = PulseScale {
        keys_percent: KEYS_PERCENT,
        traversals: scale.traversals / 4,
        ..scale.clone()
    };
    paged(
        application,
        1,
        |bytes| (bytes as f64 * part) as u64,
        &scale,
        interrupt,
    )
}

pub(super) fn jobs(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let job = |study: &'static Study| {
        let scale = scale.clone();
        let phases = 2 * AT_CALLER.len();
        FigureJob::new(figure, study.name, phases, move |run| {
            let x = |at_caller: u64| {
                Quantity::new("memory at the caller", "GB of 32", at_caller as f64)
            };
            let share = |share| Quantity::new("time in traversals", "%", share);
            let mut times = None;
            for (choice, peer, published) in [
                (
                    PulseKeyDistribution::Uniform,
                    "uniform keys",
                    &study.uniform.shares,
                ),
                (PulseKeyDistribution::Zipf, "Zipf", &study.zipf),
            ] {
                for (&at_caller, published) in AT_CALLER.iter().zip(published) {
                    let application = (study.application)(choice);
                    let paged = faults(application, at_caller, &scale, run.interrupt)?;
                    // From the first point: the least memory, with uniform keys.
                    let times: &SwapRequestTimes = times.get_or_insert_with(|| study.times(&paged));
                    let mut add = |peer: &str, y| {
                        let row: Row = row(figure, study.name, peer, x(at_caller), y);
                        run.rows.push(row);
                    };
                    add(peer, share(times.share(&paged)));
                    add(&format!("{peer}, the paper's"), share(100.0 * published));
                    add(peer, Quantity::new("faults", "a request", paged.faults));
                    add(peer, Quantity::new("fault", "µs", times.fault));
                    run.end_phase();
                }
            }
            Ok(())
        })
    };
    STUDIES.iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_that_give_the_times_are_met_and_the_share_falls_with_memory() {
        let [web_service, ..] = &STUDIES;
        let least = RequestPagingMeans {
            nodes: 49.0,
            pages: 50.0,
            faults: 47.0,
            object_faults: 2.0,
        };
        let times = web_service.times(&least);
        let in_traversal = times.traversal + times.fault * least.traversal_faults();
        assert!((in_traversal - 0.810 * 56.9).abs() < 1e-9);
        let all = times.share(&RequestPagingMeans::default());
        assert!((all - 13.6).abs() < 1e-9, "{all}");
        let half = RequestPagingMeans {
            faults: 24.0,
            object_faults: 1.0,
            ..least
        };
        assert!(times.share(&least) > times.share(&half) && times.share(&half) > all);
    }
}
