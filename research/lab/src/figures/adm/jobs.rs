//! The runs, and the points of figures from them.

use super::bench::{AdmBench, BENCHES, Type};
use super::hybrid::{HybridCost, VARIANTS};
use super::load::AdmWorkload;
use super::placement::AdmPlacement;
use super::run::{PARTS, PlacementOutcome, play};
use super::scale::{AdmScale, Figure};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;

/// The figures that share the runs of five benches and four types.
const SHARED: [&str; 8] = ["6a", "6b", "6c", "6d", "8", "9", "memories", "moved"];

/// The name of a latency, time or energy, and its value in a cost.
pub(super) type Part = (&'static str, fn(&HybridCost) -> f64);

pub(super) const LATENCY: Part = ("latency", |cost| cost.latency_ns);
pub(super) const READS: Part = ("read energy", |cost| cost.read_uj);
pub(super) const WRITES: Part = ("write energy", |cost| cost.write_uj);
pub(super) const TIME: Part = ("time", |cost| cost.time_us);
const DYNAMIC: Part = ("dynamic energy", |cost| cost.dynamic_uj);
const TOTAL: Part = ("total energy", |cost| cost.total_uj);

/// The outcomes of placements under a load.
pub(super) type Outcomes = Vec<(AdmPlacement, PlacementOutcome)>;

fn job(
    figures: Vec<&'static str>,
    title: String,
    load: AdmWorkload,
    rows: impl Fn(&AdmWorkload, &Outcomes) -> Vec<Row> + Send + 'static,
) -> FigureJob {
    job_of(&AdmPlacement::ALL, figures, title, load, rows)
}

/// Creates a job that plays a load on some placements.
pub(super) fn job_of(
    placements: &'static [AdmPlacement],
    figures: Vec<&'static str>,
    title: String,
    load: AdmWorkload,
    rows: impl Fn(&AdmWorkload, &Outcomes) -> Vec<Row> + Send + 'static,
) -> FigureJob {
    let mut job = FigureJob::new("", &title, placements.len(), move |run| {
        let mut outcomes = Vec::new();
        for &placement in placements {
            outcomes.push((placement, play(&load, placement, run.interrupt)?));
            run.end_phase();
        }
        run.rows = rows(&load, &outcomes);
        Ok(())
    });
    job.figures = figures;
    job
}

/// Creates the jobs for the runs that figures share.
pub(super) fn jobs(scale: &AdmScale, figures: &[&'static str]) -> Vec<FigureJob> {
    let wanted: Vec<_> = SHARED
        .into_iter()
        .filter(|name| figures.contains(name))
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut jobs = Vec::new();
    for kind in Type::ALL {
        for bench in BENCHES {
            let load = AdmWorkload::new(scale, bench, kind);
            let title = format!("bench {} of {}", bench.number, kind.name());
            let wanted = wanted.clone();
            let figures = wanted.clone();
            jobs.push(job(figures, title, load, move |load, outcomes| {
                let mut rows = shared(load, outcomes);
                rows.retain(|row| wanted.contains(&&*row.detail.figure));
                rows
            }));
        }
    }
    jobs
}

pub(super) fn row(figure: &str, placement: AdmPlacement, x: Quantity, y: Quantity) -> Row {
    let mut row = Row::counted(figure, placement.name(), x, y);
    row.kind = NumberOrigin::Modelled;
    row
}

pub(super) fn bench_axis(bench: AdmBench) -> Quantity {
    Quantity::new("bench", "", f64::from(bench.number))
}

pub(super) fn percent(name: &str, share: f64) -> Quantity {
    Quantity::new(name, "%", 100.0 * share)
}

/// Returns a cost of each placement, relative to that of the placement with everything in DRAM.
pub(super) fn of_dram(
    outcomes: &Outcomes,
    variant: usize,
    part: Part,
) -> Vec<(AdmPlacement, Quantity)> {
    let cost = |outcome: &PlacementOutcome| outcome.costs.get(variant).map_or(0.0, part.1);
    let dram = outcomes
        .iter()
        .find(|(placement, _)| *placement == AdmPlacement::Dram);
    let dram = dram.map_or(1.0, |(_, outcome)| cost(outcome));
    let ratio = |(placement, outcome): &(AdmPlacement, PlacementOutcome)| {
        let y = Quantity::new(part.0, "of DRAM's", cost(outcome) / dram);
        (*placement, y)
    };
    outcomes.iter().map(ratio).collect()
}

fn shared(load: &AdmWorkload, outcomes: &Outcomes) -> Vec<Row> {
    let (bench, kind) = (load.bench, load.kind);
    let axis = || bench_axis(bench);
    let mut rows = Vec::new();
    for (placement, outcome) in outcomes {
        let served = percent("requests served by HBM", outcome.served);
        rows.push(row("6a", *placement, axis(), served).in_panel(kind.name()));
        let part = outcome.moved_bytes as f64 / outcome.request_bytes.max(1) as f64;
        let moved = percent("bytes moved", part);
        rows.push(row("moved", *placement, axis(), moved).in_panel(kind.name()));
        if kind == Type::String {
            for (direction, name) in ["reads of HBM", "writes of HBM"].into_iter().enumerate() {
                let [fast, slow] = outcome.lines.map(|lines| lines[direction] as f64);
                let share = percent(name, fast / (fast + slow).max(1.0));
                rows.push(row("8", *placement, axis(), share));
            }
        }
    }
    for (figure, part) in [("6b", LATENCY), ("6c", READS), ("6d", WRITES)] {
        for (placement, y) in of_dram(outcomes, 0, part) {
            rows.push(row(figure, placement, axis(), y.clone()).in_panel(kind.name()));
            if kind == Type::String && [2, 3, 4].contains(&bench.number) {
                let sets = percent("sets", bench.sets as f64 / 10.0);
                rows.push(row("9", placement, sets, y));
            }
        }
    }
    for (variant, of) in VARIANTS.iter().enumerate() {
        for part in [LATENCY, DYNAMIC, TOTAL] {
            for (placement, y) in of_dram(outcomes, variant, part) {
                let panel = format!("{}, {}", of.name, kind.name());
                rows.push(row("memories", placement, axis(), y).in_panel(panel));
            }
        }
    }
    rows
}

/// Creates the jobs of figure 7: values of up to 2000, 3000 and 4000 bytes in a fast memory of the
/// size for the smallest.
pub(super) fn sizes(figure: &Figure, scale: &AdmScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let benches = BENCHES.into_iter().filter(|bench| bench.sets == 1);
    let capacity = AdmWorkload::new(scale, BENCHES[0], Type::String).capacity;
    let one = |bench: AdmBench| {
        let load = AdmWorkload {
            capacity,
            ..AdmWorkload::new(scale, bench, Type::String)
        };
        let title = format!("values of up to {} bytes", bench.bytes_max);
        job(vec![figure], title, load, move |load, outcomes| {
            let mut rows = Vec::new();
            let bytes = load.bench.bytes_max as f64;
            for part in [LATENCY, READS, WRITES] {
                for (placement, y) in of_dram(outcomes, 0, part) {
                    let axis = Quantity::new("values up to", "bytes", bytes);
                    rows.push(row(figure, placement, axis, y));
                }
            }
            rows
        })
    };
    benches.map(one).collect()
}

/// Requests for each object in a minute, at one a second.
const MINUTE: usize = 60;

/// Creates the job of figure `moving`: strings, and a hot set that moves by two deviations every
/// minute.
pub(super) fn moving(figure: &Figure, scale: &AdmScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let mut scale = scale.clone();
    // The first of the five minutes finds the hot objects. Only shares are used, so no lines are
    // modelled.
    scale.requests_per_object = 5 * MINUTE;
    scale.lines = 0;
    let load = AdmWorkload {
        moves_after: Some(MINUTE * scale.objects),
        ..AdmWorkload::new(&scale, BENCHES[0], Type::String)
    };
    let job = job(
        vec![figure],
        "a hot set that moves".to_owned(),
        load,
        move |_, outcomes| {
            let mut rows = Vec::new();
            for (placement, outcome) in outcomes {
                // The ideal placement does not follow the hot set: the ideal share of the first
                // minute stands for every minute.
                let ideal = *placement == AdmPlacement::Ideal;
                let first = &outcome.parts[..PARTS / 5];
                let first = first.iter().sum::<f64>() / first.len() as f64;
                for (number, part) in outcome.parts.iter().enumerate() {
                    let seconds = (number as f64 + 0.5) * 5.0 * MINUTE as f64 / PARTS as f64;
                    let axis = Quantity::new("time", "s", seconds);
                    let share = if ideal { first } else { *part };
                    rows.push(row(
                        figure,
                        *placement,
                        axis,
                        percent("requests served by HBM", share),
                    ));
                }
            }
            rows
        },
    );
    vec![job]
}
