//! The effect of each size that one may choose, each alone. The workload is C if the paper's text
//! does not name it.

use super::contender::{ChimeContender, ContenderSizes};
use super::point::{FigurePhase, OutcomePoint, warming};
use super::scale::{ChimeScale, Figure};
use super::simulate::{CacheWarming, ChimePhase, ChimeSetup, PhaseOutcome};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;
use crate::workload::{Distribution, Mix};

/// Number of clients of the paper.
const CLIENTS: usize = 640;

/// Returns the contenders; the paper varies their sizes.
fn contenders(sizes: &ContenderSizes) -> [ChimeContender; 5] {
    [
        ChimeContender::chime(sizes),
        ChimeContender::ours(sizes),
        ChimeContender::sherman(sizes),
        ChimeContender::rolex(sizes),
        ChimeContender::smart(sizes),
    ]
}

/// Creates a job of one point, for a contender with sizes of its own.
fn point(
    figure: &Figure,
    scale: &ChimeScale,
    sizes: &ContenderSizes,
    contender: ChimeContender,
    x: Quantity,
) -> FigureJob {
    let phase = ChimePhase::of(scale, Mix::YcsbC, CLIENTS).warmed(warming(
        &contender,
        scale,
        scale.keys / 2,
    ));
    let setup = ChimeSetup::of_paper(scale, sizes);
    let points = vec![FigurePhase::rate("", x, phase)];
    FigureJob::simulate(figure.name, scale, contender, setup, points)
}

/// Creates the jobs of figure 18a: half reads, half updates.
pub(super) fn skew(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    let hundredths = scale.points(&[50, 60, 70, 80, 90, 99]);
    let job = |contender: ChimeContender| {
        let phase = |&hundredths: &usize| {
            let theta = hundredths as f64 / 100.0;
            let warming = match warming(&contender, scale, scale.keys / 2) {
                // The first point has read everything; at the next ones only the hot keys differ.
                CacheWarming::All(_) if hundredths > 50 => CacheWarming::Operations(scale.keys / 4),
                warming => warming,
            };
            let phase =
                ChimePhase::of(scale, Mix::YcsbA, CLIENTS).chosen(Distribution::Zipf(theta));
            let x = Quantity::new("θ of Zipf's distribution", "", theta);
            FigurePhase::rate("", x, phase.warmed(warming))
        };
        let points = hundredths.iter().map(phase).collect();
        let setup = ChimeSetup::of_paper(scale, &sizes);
        FigureJob::simulate(figure.name, scale, contender, setup, points)
    };
    contenders(&sizes).map(job).into()
}

/// Creates a job for each size on an axis and each contender that `make` returns for it.
fn sweep<C: IntoIterator<Item = ChimeContender>>(
    (figure, scale): (&Figure, &ChimeScale),
    (name, unit): (&str, &str),
    axis: &[usize],
    make: impl Fn(usize) -> (ContenderSizes, fn(&ContenderSizes, usize) -> C),
) -> Vec<FigureJob> {
    let points = scale.points(axis).into_iter().flat_map(|size| {
        let (sizes, contenders) = make(size);
        let contenders = contenders(&sizes, size).into_iter();
        let x = Quantity::new(name, unit, size as f64);
        let job = |contender| point(figure, scale, &sizes, contender, x.clone());
        contenders.map(job).collect::<Vec<_>>()
    });
    points.collect()
}

/// Creates the jobs of figure 18b.
pub(super) fn cache(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let axis = [0, 25, 50, 75, 100, 200, 300, 400, 500];
    sweep(
        (figure, scale),
        ("cache of the paper", "MB"),
        &axis,
        |megabytes| {
            let of_paper = ContenderSizes::of_paper(scale);
            let sizes = ContenderSizes {
                cache_bytes: Some(scale.megabytes(megabytes)),
                // As in the artifact: only if 20 MB are left for nodes.
                hotspot_bytes: if megabytes > 50 {
                    of_paper.hotspot_bytes
                } else {
                    0
                },
                ..of_paper
            };
            (sizes, |sizes, _| contenders(sizes))
        },
    )
}

const VALUES: [usize; 7] = [8, 16, 32, 64, 128, 256, 512];
const VALUE: (&str, &str) = ("length of a value", "bytes");

fn of_values(scale: &ChimeScale, value_bytes: usize) -> ContenderSizes {
    ContenderSizes {
        value_bytes,
        ..ContenderSizes::of_paper(scale)
    }
}

/// Creates the jobs of figure 18c.
pub(super) fn values(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    sweep((figure, scale), VALUE, &VALUES, |bytes| {
        (of_values(scale, bytes), |sizes, _| contenders(sizes))
    })
}

/// Creates the jobs of figure 18d.
pub(super) fn indirect_values(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    sweep((figure, scale), VALUE, &VALUES, |bytes| {
        let contenders = |sizes: &ContenderSizes, _| ChimeContender::of_variable_length(sizes);
        (of_values(scale, bytes), contenders)
    })
}

/// Number of bytes of a key that slots hold in figure `keys`.
const KEPT: usize = 24;

/// Creates the jobs of figure `keys`, which is not in the paper: keys of 8 bytes to the longest
/// one. Slots have room for the longest key, or long keys are stored apart.
pub(super) fn key_lengths(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let mut jobs = Vec::new();
    for longest in scale.points(&[32, 64, 128, 256]) {
        let sizes = ContenderSizes {
            key_bytes: longest,
            // The size of caches is a result here.
            cache_bytes: None,
            hotspot_bytes: 0,
            ..ContenderSizes::of_paper(scale)
        };
        let (chime, ours) = (ChimeContender::chime(&sizes), ChimeContender::ours(&sizes));
        let contenders = [
            chime.clone(),
            ours.clone(),
            chime.with_long_keys_apart(KEPT, "chime, long keys apart"),
            ours.with_long_keys_apart(KEPT, "nearfield, long keys apart"),
        ];
        let setup = ChimeSetup::of_paper(scale, &sizes);
        let job = |contender| key_lengths_job(figure, scale, contender, setup.clone());
        jobs.extend(contenders.map(job));
    }
    jobs
}

/// Creates a job of reads, updates and scans with keys up to the setup's length.
fn key_lengths_job(
    figure: &Figure,
    scale: &ChimeScale,
    contender: ChimeContender,
    setup: ChimeSetup,
) -> FigureJob {
    let longest = setup.key_bytes as f64;
    let x = Quantity::new("length of the longest key", "bytes", longest);
    let phase = |mix| ChimePhase::of(scale, mix, CLIENTS);
    let warming = warming(&contender, scale, 0);
    let (of_run, of_reads) = (scale.clone(), x.clone());
    let places = move |outcome: &PhaseOutcome| {
        let point = |panel: &str, y: Quantity| OutcomePoint {
            panel: panel.to_owned(),
            x: of_reads.clone(),
            y,
        };
        let cache = of_run.paper_megabytes(outcome.cache_bytes);
        let cache = Quantity::new("cache at the paper's number of keys", "MB", cache);
        let pool = Quantity::new("memory of a key", "bytes", outcome.pool_bytes_per_key);
        vec![
            OutcomePoint::rate("C", of_reads.clone(), outcome),
            point("cache", cache),
            point("pool", pool),
        ]
    };
    let reads = FigurePhase {
        phase: phase(Mix::YcsbC).warmed(warming),
        places: Box::new(places),
    };
    let points = vec![
        reads,
        FigurePhase::rate("A", x.clone(), phase(Mix::YcsbA)),
        FigurePhase::rate("E", x, phase(Mix::YcsbE)),
    ];
    FigureJob::simulate(figure.name, scale, contender, setup, points)
}

/// Creates the jobs of figure 18e.
pub(super) fn span(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    sweep((figure, scale), ("entries of a leaf", ""), &VALUES, |_| {
        (ContenderSizes::of_paper(scale), |sizes, span| {
            [ChimeContender::chime(sizes), ChimeContender::sherman(sizes)]
                .map(|one| one.of_span(span))
        })
    })
}

/// Creates the jobs of figure 18f.
pub(super) fn neighborhood(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    sweep(
        (figure, scale),
        ("slots of a neighborhood", ""),
        &[2, 4, 8, 16],
        |_| {
            (ContenderSizes::of_paper(scale), |sizes, slots| {
                [ChimeContender::chime(sizes).of_neighborhood(slots)]
            })
        },
    )
}

/// Creates the jobs of figure 19c: throughput, and the share of right speculations.
pub(super) fn hotspots(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let mut jobs = Vec::new();
    for megabytes in scale.points(&[0, 10, 20, 30, 40, 50]) {
        let sizes = ContenderSizes {
            hotspot_bytes: scale.megabytes(megabytes),
            ..ContenderSizes::of_paper(scale)
        };
        let contender = ChimeContender::chime(&sizes);
        let phase = ChimePhase::of(scale, Mix::YcsbC, CLIENTS).warmed(warming(
            &contender,
            scale,
            scale.keys * scale.warming,
        ));
        let x = Quantity::new("hotspot buffer of the paper", "MB", megabytes as f64);
        let places = move |outcome: &_| {
            let rate = OutcomePoint::rate("", x.clone(), outcome);
            let hits = outcome.hit_rate.map(|share| OutcomePoint {
                panel: "right guesses".to_owned(),
                x: x.clone(),
                y: Quantity::new("right guesses", "%", share * 100.0),
            });
            [rate].into_iter().chain(hits).collect()
        };
        let point = FigurePhase {
            phase,
            places: Box::new(places),
        };
        let setup = ChimeSetup::of_paper(scale, &sizes);
        let points = vec![point];
        let job = FigureJob::simulate(figure.name, scale, contender, setup, points);
        jobs.push(job);
    }
    jobs
}
