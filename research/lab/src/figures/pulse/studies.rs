//! Appendix figures 3 and 5: the effects of access patterns, changes and allocation on pulse.

use super::applications::{COARSE, PulseApplication, PulseKeyDistribution, WEB_SERVICE, btrdb};
use super::data::{Allocation, NODE_BYTES, OBJECT_BYTES};
use super::measure::{PULSE, PulseSetup, measure};
use super::rows::{of_latency, of_rate, row};
use super::scale::{Figure, PulseScale};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;

/// Number of objects with their entries in the paper's cache of 2 GB.
const CACHED: u64 = (2 << 30) / (OBJECT_BYTES + NODE_BYTES);

/// Creates the jobs of appendix figure 3a: requests by Zipf's and by the uniform distribution, with
/// and without a cache at the caller.
pub(super) fn patterns(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let cached = CACHED as usize;
    let variants = [
        ("Zipf, cache", PulseKeyDistribution::Zipf, cached),
        ("Zipf", PulseKeyDistribution::Zipf, 0),
        ("uniform, cache", PulseKeyDistribution::Uniform, cached),
        ("uniform", PulseKeyDistribution::Uniform, 0),
    ];
    let job = |(peer, choice, cached): (&'static str, PulseKeyDistribution, usize)| {
        let scale = scale.clone();
        let mut job = FigureJob::new(figure, peer, 1, move |run| {
            let application = PulseApplication::WebService {
                updates: 0,
                choice,
                cached,
            };
            let setup = PulseSetup::new(application, PULSE);
            let alone = measure(&setup, &scale, run.interrupt)?;
            let full = measure(&setup.saturated(), &scale, run.interrupt)?;
            let x = || Quantity::new("", "", 0.0);
            run.rows.push(of_latency(figure, "", peer, x(), &alone));
            run.rows.push(of_rate(figure, "", peer, x(), full.mops));
            let iterations = Quantity::new("iterations", "a request", alone.iterations);
            run.rows.push(row(figure, "", peer, x(), iterations));
            run.end_phase();
            Ok(())
        });
        job.bytes = 64 << 20;
        job
    };
    variants.map(job).into()
}

/// Number of round trips that a new node takes if its region is not in the request (appendix C.2).
const ROUND_TRIPS: usize = 2;

/// Creates the job of appendix figure 3b: latency by the part of requests that change data.
pub(super) fn changes(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let (figure, scale) = (figure.name, scale.clone());
    let parts = [0, 25, 50, 75, 100];
    vec![FigureJob::new(
        figure,
        "WebService",
        parts.len(),
        move |run| {
            for updates in parts {
                let application = PulseApplication::WebService {
                    updates,
                    choice: PulseKeyDistribution::Zipf,
                    cached: 0,
                };
                for (peer, round_trips) in [
                    ("regions in the request", 0),
                    ("regions requested", ROUND_TRIPS),
                ] {
                    let setup = PulseSetup {
                        round_trips,
                        ..PulseSetup::new(application, PULSE)
                    };
                    let outcome = measure(&setup, &scale, run.interrupt)?;
                    let x = Quantity::new("requests that write", "%", f64::from(updates));
                    run.rows.push(of_latency(figure, "", peer, x, &outcome));
                }
                run.end_phase();
            }
            Ok(())
        },
    )]
}

/// Creates the jobs of appendix figure 5: two memory nodes, with nodes anywhere and by halves of
/// the keys.
pub(super) fn allocations(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let variants = [
        ("at random", Allocation::Slabs(NODE_BYTES)),
        ("slabs of 1 GiB", Allocation::Slabs(COARSE)),
        ("partitioned", Allocation::Partitioned),
    ];
    let mut jobs = Vec::new();
    for (peer, allocation) in variants {
        let table = PulseApplication::WiredTiger {
            choice: PulseKeyDistribution::Zipf,
            allocation,
        };
        let windows = [1, 8].map(|seconds| PulseApplication::BtrDb {
            seconds,
            choice: PulseKeyDistribution::Uniform,
            allocation,
        });
        for application in [table].into_iter().chain(windows) {
            let scale = scale.clone();
            let title = format!("{} {peer}", application.name());
            jobs.push(FigureJob::new(figure, &title, 1, move |run| {
                let setup = PulseSetup::new(application, PULSE).on(2);
                let alone = measure(&setup, &scale, run.interrupt)?;
                let x = || Quantity::new("", "", 0.0);
                let panel = application.name();
                run.rows.push(of_latency(figure, &panel, peer, x(), &alone));
                let y = Quantity::new("crossings", "a request", alone.crossings);
                run.rows.push(row(figure, &panel, peer, x(), y));
                run.end_phase();
                Ok(())
            }));
        }
    }
    jobs
}

/// Returns the applications, on one memory node, for the comparison of energies.
pub(super) fn of_energy() -> [PulseApplication; 3] {
    [WEB_SERVICE, super::applications::WIRED_TIGER, btrdb(1)]
}
