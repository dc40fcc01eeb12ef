//! Ordered maps of other projects on the cores of this machine, measured by a clock: the same
//! batches as in figure 10, but other hardware.

use super::data::ExpectedEntries;
use super::peers::{calls_for, run_part};
use super::scale::{Figure, RadarScale};
use super::skew::{Skew, alpha};
use super::work::{
    RadarCheckedBatch, RadarOperationKind, RadarSingleOperation, ScanLengthRule, Verbs,
};
use crate::figures::job::{FigureJob, PointError, RunningJob};
use crate::figures::row::Row;
use crate::harness::Interrupt;
use crate::report::{MeasurementSetting, NumberOrigin};
use crate::workload::random;
use nearfield_peers::{PeerKind, PeerMap, Visitor};
use std::time::{Duration, Instant};

/// The peers: a lock-free skip list, a tree of tries, and an adaptive radix tree, which threads can
/// share.
pub(super) const PEERS: [PeerKind; 3] = [PeerKind::Skiplist, PeerKind::Masstree, PeerKind::Congee];

/// Creates a job for each peer, which runs alone.
pub(super) fn jobs(figure: &Figure, scale: &RadarScale) -> Vec<FigureJob> {
    let job = |kind: PeerKind| {
        let (own, name) = (scale.clone(), figure.name);
        let phases = verbs().count() * scale.alphas().len();
        let job = FigureJob::new(name, kind.name(), phases, move |run| {
            kind.visit_words(Measure {
                figure: name,
                peer: kind.name(),
                scale: &own,
                run,
            })
        });
        FigureJob {
            bytes: scale.bytes(),
            alone: true,
            ..job
        }
    };
    PEERS.map(job).into()
}

/// Returns the operations that all peers support: none finds predecessors.
fn verbs() -> impl Iterator<Item = RadarOperationKind> {
    let verbs = RadarOperationKind::ALL.into_iter();
    verbs.filter(|&verb| verb != RadarOperationKind::Predecessor)
}

struct Measure<'m, 'r> {
    figure: &'static str,
    peer: &'static str,
    scale: &'m RadarScale,
    run: &'m mut RunningJob<'r>,
}

impl Visitor<u64> for Measure<'_, '_> {
    type Output = Result<(), PointError>;

    fn visit<P: PeerMap<u64> + 'static>(self) -> Result<(), PointError> {
        let Measure {
            figure,
            peer,
            scale,
            run,
        } = self;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut number = 0;
        for &degree in scale.alphas() {
            // Each degree has a new map, as the indexes in modelled modules do. Scans run before
            // anything is removed, because those of masstree (0.9.5) miss keys after a removal.
            let mut map = P::new();
            let mut data =
                ExpectedEntries::new(ExpectedEntries::anywhere(scale.keys, scale.seed).collect());
            let calls = ExpectedEntries::anywhere(scale.keys, scale.seed);
            let calls =
                calls.map(|key| RadarSingleOperation::Insert(key, super::data::value(key, 0)));
            perform::<P>(&mut map, &calls.collect::<Vec<_>>(), threads, run.interrupt)?;
            for verb in verbs() {
                let skew = Skew::Jump(degree);
                let verbs = Verbs::only(verb);
                let shares = skew.shares(scale.modules);
                let operations = verbs.operations(scale.batch);
                let mut took = Duration::ZERO;
                for batch in 0..scale.warming + scale.batches {
                    let chooser = skew.chooser(&shares, &data, number, scale.seed);
                    let mut random = random(scale.seed, number);
                    let reach = ScanLengthRule::Space;
                    let work = RadarCheckedBatch::make(
                        &mut data,
                        &chooser,
                        &verbs,
                        reach,
                        operations,
                        &mut random,
                    );
                    number += 1;
                    let calls = work.calls()?;
                    let time = perform::<P>(&mut map, &calls, threads, run.interrupt)?;
                    if batch >= scale.warming {
                        took += time;
                    }
                    data.settle();
                }
                let counted = (operations * scale.batches) as f64;
                let rate = counted / took.as_secs_f64().max(1e-9) / 1e6;
                let mut row = Row::rated(figure, peer, alpha(degree), rate, NumberOrigin::Measured);
                row.setting = Some(MeasurementSetting {
                    keys: "sparse".to_owned(),
                    count: data.len(),
                    mix: verb.name().to_owned(),
                    distribution: skew.to_string(),
                    threads,
                    batch: operations,
                });
                row.detail.scale = Some(scale.part());
                run.rows.push(row.in_panel(verb.name()));
                run.end_phase();
            }
        }
        Ok(())
    }
}

/// Distributes the calls over threads, and returns the time that they took.
fn perform<P: PeerMap<u64>>(
    map: &mut P,
    calls: &[RadarSingleOperation],
    threads: usize,
    interrupt: &Interrupt,
) -> Result<Duration, PointError> {
    if interrupt.is_raised() {
        return Err(PointError::Interrupted);
    }
    // Keys are converted to the map's form before the clock starts.
    let calls = calls_for::<P>(calls.iter().copied())?;
    let each = calls.len().div_ceil(threads).max(1);
    let sessions = map.sessions(threads);
    let start = Instant::now();
    let wrong: u64 = std::thread::scope(|scope| {
        let parts = sessions.into_iter().zip(calls.chunks(each));
        let threads: Vec<_> = parts
            .map(|(mut session, calls)| scope.spawn(move || run_part(&mut session, calls)))
            .collect();
        let wrong = threads.into_iter().map(|thread| thread.join().unwrap_or(1));
        wrong.sum()
    });
    let took = start.elapsed();
    match wrong {
        0 => Ok(took),
        wrong => Err(PointError::Wrong {
            wrong,
            operations: calls.len() as u64,
            first: "a key was missing".to_owned(),
        }),
    }
}
