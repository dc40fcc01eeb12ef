//! Figures 12 and 13, the load of modules, kinds of skew, and the parts of a batch's time.

use super::bench::{RadarBench, RadarKeySet, RadarWorkload, job};
use super::contender::{self, RadarContender};
use super::scale::{Figure, RadarScale};
use super::skew::{Skew, alpha};
use super::text;
use super::work::{RadarOperationKind, Verbs};
use crate::figures::job::{FigureJob, PointError, RunningJob};
use crate::figures::row::Quantity;
use std::sync::Arc;

/// A phase, and the position of its point.
struct RadarPhasePoint {
    panel: String,
    x: Quantity,
    phase: RadarWorkload,
}

/// Creates a job that loads a contender, and then runs phases one after the other.
fn phases(
    figure: &Figure,
    scale: &RadarScale,
    contender: RadarContender,
    points: Vec<RadarPhasePoint>,
) -> FigureJob {
    let name = figure.name;
    job(figure, scale, contender, points.len(), move |bench, run| {
        perform(bench, name, contender.name, &points, run)
    })
}

fn perform(
    bench: &mut RadarBench,
    figure: &str,
    peer: &str,
    points: &[RadarPhasePoint],
    run: &mut RunningJob<'_>,
) -> Result<(), PointError> {
    for RadarPhasePoint { panel, x, phase } in points {
        let outcome = bench.outcome(phase, run.interrupt)?;
        let row = outcome.row(figure, peer, 0, x.clone());
        run.rows.push(row.in_panel(panel));
        run.end_phase();
    }
    Ok(())
}

/// Creates the jobs of figure 12: YCSB's workloads without and with skew.
pub(super) fn ycsb(figure: &Figure, scale: &RadarScale) -> Vec<FigureJob> {
    let mut jobs = Vec::new();
    for contender in contender::DESIGNS {
        // The paper's 1 is run as 0.99, as in the origin of the generator.
        for degree in [0.0, 0.99] {
            let point = |verbs: Verbs| RadarPhasePoint {
                panel: verbs.name.to_owned(),
                x: alpha(degree),
                phase: RadarWorkload {
                    skew: match verbs.name {
                        "D" => Skew::Latest(degree),
                        _ => Skew::Jump(degree),
                    },
                    verbs,
                    batches: scale.batches,
                },
            };
            let points = Verbs::YCSB.map(point).into();
            jobs.push(phases(figure, scale, contender, points));
        }
    }
    jobs
}

/// Creates the jobs of figure 13: pairs of a word and a document, queried as often as they occur.
pub(super) fn words(figure: &Figure, scale: &RadarScale) -> Vec<FigureJob> {
    const VERBS: [RadarOperationKind; 4] = [
        RadarOperationKind::Get,
        RadarOperationKind::Predecessor,
        RadarOperationKind::Scan,
        RadarOperationKind::Update,
    ];
    let job = |contender: RadarContender| {
        let (own, name) = (scale.clone(), figure.name);
        let job = FigureJob::new(name, contender.name, VERBS.len(), move |run| {
            let (tokens, source) = text::of(&own)?;
            let keys = RadarKeySet::These(tokens.clone());
            let tokens = Arc::new(tokens);
            let mut bench = RadarBench::load(&contender, &own, &[], keys, run.interrupt)?;
            let point = |verb: RadarOperationKind| RadarPhasePoint {
                panel: verb.name().to_owned(),
                x: Quantity::new(source, "", tokens.len() as f64),
                phase: RadarWorkload {
                    verbs: Verbs::only(verb),
                    skew: Skew::Words(Arc::clone(&tokens)),
                    batches: own.batches,
                },
            };
            let points = VERBS.map(point);
            perform(&mut bench, name, contender.name, &points, run)
        });
        FigureJob {
            bytes: scale.bytes(),
            ..job
        }
    };
    contender::DESIGNS.map(job).into()
}

/// The panel of figure `load` that counts tasks, as RADAR's formulas do.
pub(super) const LOAD_OF_TASKS: &str = "tasks";

/// Creates the jobs of figure `load`: gets of keys in unchanging hot segments. They show the load
/// of the fullest module after subranges have followed, and without that.
pub(super) fn load(figure: &Figure, scale: &RadarScale) -> Vec<FigureJob> {
    let contenders = [
        contender::RANGE_PARTITION,
        contender::RADAR_ONE_BASIC,
        contender::RADAR_ONE,
        contender::RADAR_BASIC,
        contender::RADAR,
        contender::RADAR_64_BASIC,
        contender::RADAR_64,
        contender::NEARFIELD,
    ];
    let mut jobs = Vec::new();
    for contender in contenders {
        for &degree in scale.alphas() {
            // Each degree has an index of its own, because subranges stay divided.
            let (name, batches) = (figure.name, scale.batches);
            jobs.push(job(figure, scale, contender, 1, move |bench, run| {
                let phase = RadarWorkload {
                    verbs: Verbs::only(RadarOperationKind::Get),
                    skew: Skew::Fixed(degree),
                    batches,
                };
                let outcome = bench.outcome(&phase, run.interrupt)?;
                let row = outcome.row(name, contender.name, 0, alpha(degree));
                for (panel, imbalance) in [
                    (LOAD_OF_TASKS, outcome.imbalance_of_tasks()),
                    ("words", outcome.imbalance_of_words()),
                ] {
                    let y = Quantity::new("fullest module over the mean", "", imbalance);
                    run.rows.push(row.clone().in_panel(panel).at(y));
                }
                run.end_phase();
                Ok(())
            }));
        }
    }
    jobs
}

/// Creates the jobs of figure `skew`: gets and updates by the kind of skew.
pub(super) fn kinds(figure: &Figure, scale: &RadarScale) -> Vec<FigureJob> {
    const DEGREE: f64 = 0.99;
    let skews = [
        Skew::Fixed(DEGREE),
        Skew::Drift(DEGREE),
        Skew::Jump(DEGREE),
        Skew::Keys(DEGREE),
        Skew::Latest(DEGREE),
    ];
    let points = |contender: RadarContender| {
        let mut points = Vec::new();
        for skew in &skews {
            for verb in [RadarOperationKind::Get, RadarOperationKind::Update] {
                points.push(RadarPhasePoint {
                    panel: format!("{}, {skew}", verb.name()),
                    x: alpha(DEGREE),
                    phase: RadarWorkload {
                        verbs: Verbs::only(verb),
                        skew: skew.clone(),
                        batches: scale.batches,
                    },
                });
            }
        }
        phases(figure, scale, contender, points)
    };
    let contenders = [
        contender::PIM_TREE_TABLE,
        contender::RADAR,
        contender::NEARFIELD,
    ];
    contenders.map(points).into()
}

/// Creates the jobs of figure 7: the costs of a run's batches, one after the other.
pub(super) fn timeline(figure: &Figure, scale: &RadarScale) -> Vec<FigureJob> {
    const BATCHES: usize = 6;
    let contenders = [
        contender::PIM_TREE_TABLE,
        contender::RADAR_BASIC,
        contender::RADAR,
        contender::NEARFIELD,
    ];
    let lines = |contender: RadarContender| {
        // The first batches are the interesting ones, so none is left out.
        let own = RadarScale {
            warming: 0,
            ..scale.clone()
        };
        let name = figure.name;
        job(figure, &own, contender, 1, move |bench, run| {
            let phase = RadarWorkload {
                verbs: Verbs::only(RadarOperationKind::Get),
                skew: Skew::Fixed(0.99),
                batches: BATCHES,
            };
            let moments = bench.run(&phase, run.interrupt)?;
            for (number, pair) in moments.windows(2).enumerate() {
                let outcome = bench.between(&phase, pair);
                let x = Quantity::new("batch", "", (number + 1) as f64);
                let work = outcome.work(0);
                for (part, nanoseconds) in [
                    ("host", work.host_ns),
                    ("transfer", work.transfer_ns),
                    ("launch", work.launch_ns),
                    ("modules", work.modules_ns),
                ] {
                    let y = Quantity::new("time", "ms", nanoseconds / 1e6);
                    let row = outcome.row(name, part, 0, x.clone());
                    run.rows.push(row.in_panel(contender.name).at(y));
                }
            }
            run.end_phase();
            Ok(())
        })
    };
    contenders.map(lines).into()
}
