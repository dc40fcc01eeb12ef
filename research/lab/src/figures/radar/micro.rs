//! Figures 10, 11, 15 and `sensitivity`: single operations over degrees of skew.

use super::bench::{RadarBatchCosts, RadarBench, RadarKeySet, RadarWorkload};
use super::contender::{self, RadarContender};
use super::scale::RadarScale;
use super::sensitivity;
use super::skew::{Skew, alpha};
use super::work::{RadarOperationKind, Verbs};
use crate::figures::job::{FigureJob, PointError, RunningJob};
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;
use nearfield_hardware::modules::ModulePreset;

/// The figures that one run of each contender produces.
pub(super) const FIGURES: [&str; 5] = ["10", "10p", "11", "15", "sensitivity"];

/// Creates a job for each contender and degree of skew, each with an index of its own.
pub(super) fn jobs(scale: &RadarScale, wanted: &[&'static str]) -> Vec<FigureJob> {
    let figures: Vec<&'static str> = FIGURES
        .into_iter()
        .filter(|figure| wanted.contains(figure))
        .collect();
    let mut jobs = Vec::new();
    for contender in contender::ALL {
        for &alpha in scale.alphas() {
            let is_sensitive = sensitivity::DEGREES.contains(&alpha);
            let mut figures = figures.clone();
            figures.retain(|&figure| figure != "sensitivity" || is_sensitive);
            if has_only_gets(&contender) {
                figures.retain(|&figure| matches!(figure, "10" | "10p"));
            }
            if !figures.is_empty() {
                jobs.push(job(scale, contender, alpha, figures));
            }
        }
    }
    jobs
}

/// Returns true if a contender differs from another only in its gets.
fn has_only_gets(contender: &RadarContender) -> bool {
    contender.name == contender::PIM_TREE_TABLE.name
}

fn job(
    scale: &RadarScale,
    contender: RadarContender,
    alpha: f64,
    figures: Vec<&'static str>,
) -> FigureJob {
    let verbs: &'static [RadarOperationKind] = match figures[..] {
        _ if has_only_gets(&contender) => &[RadarOperationKind::Get],
        _ => &RadarOperationKind::ALL,
    };
    let (own, of) = (scale.clone(), figures.clone());
    let job = FigureJob::new(figures[0], contender.name, verbs.len(), move |run| {
        perform(&own, &contender, alpha, verbs, &of, run)
    });
    FigureJob {
        figures,
        bytes: scale.bytes(),
        ..job
    }
}

fn perform(
    scale: &RadarScale,
    contender: &RadarContender,
    degree: f64,
    verbs: &[RadarOperationKind],
    figures: &[&'static str],
    run: &mut RunningJob<'_>,
) -> Result<(), PointError> {
    let name = contender.name;
    let variants = match figures.contains(&"sensitivity") {
        true => sensitivity::variants(),
        false => Vec::new(),
    };
    // The first of them is clock 1 of outcomes, and makes figure 10p.
    let mut others = vec![ModulePreset::RadarPaper.parameters()];
    others.extend(variants.iter().map(|variant| variant.parameters));
    let mut bench = RadarBench::load(
        contender,
        scale,
        &others,
        RadarKeySet::Anywhere,
        run.interrupt,
    )?;
    let mut memory = None;
    for &verb in verbs {
        let phase = RadarWorkload {
            verbs: Verbs::only(verb),
            skew: Skew::Jump(degree),
            batches: scale.batches,
        };
        let outcome = bench.outcome(&phase, run.interrupt)?;
        for &figure in figures {
            match figure {
                "10p" => run.rows.push(outcome.row(figure, name, 1, alpha(degree))),
                "10" | "11" => run.rows.push(outcome.row(figure, name, 0, alpha(degree))),
                "sensitivity" => {
                    let rows = sensitivity::rows(&outcome, name, degree, &variants);
                    run.rows.extend(rows);
                }
                _ => {}
            }
        }
        memory = Some(outcome);
        run.end_phase();
    }
    if let (Some(outcome), true) = (memory, figures.contains(&"15")) {
        footprint(&outcome, name, degree, &mut run.rows);
    }
    Ok(())
}

/// Adds the points of figure 15: memory after all operations.
fn footprint(outcome: &RadarBatchCosts, name: &str, degree: f64, rows: &mut Vec<Row>) {
    let row = outcome.row("15", name, 0, alpha(degree));
    let Some(work) = &row.detail.work else { return };
    let keys = row.setting.as_ref().map_or(1, |setting| setting.count) as f64;
    for (panel, bytes) in [
        ("total", work.modules_bytes + work.host_bytes),
        ("modules", work.modules_bytes),
        ("host", work.host_bytes),
    ] {
        let y = Quantity::new("memory", "bytes a key", bytes as f64 / keys);
        // Memory does not depend on modelled speeds, so it is counted.
        rows.push(row.clone().aside(y, NumberOrigin::Counted).in_panel(panel));
    }
}

/// Returns the size of pinned runs: 16 modules with the paper's number of keys for 16 modules.
#[cfg(test)]
pub(in crate::figures) fn pinned_scale() -> RadarScale {
    RadarScale {
        keys: 122 * 16 * 16,
        ..RadarScale::tiny()
    }
}

/// Returns the pinned jobs: six operations of the headlines' contenders without and with skew.
#[cfg(test)]
pub(in crate::figures) fn pinned(scale: &RadarScale) -> Vec<FigureJob> {
    let contenders = [
        contender::RANGE_PARTITION,
        contender::JUMP_PUSH,
        contender::PIM_TREE,
        contender::RADAR_ONE,
        contender::RADAR,
        contender::RADAR_FINE,
        contender::NEARFIELD,
        contender::NEARFIELD_APART,
    ];
    let degrees = contenders
        .into_iter()
        .flat_map(|contender| [0.0, 0.99].map(|degree| (contender, degree)));
    degrees
        .map(|(contender, degree)| job(scale, contender, degree, vec!["10"]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_keys_as_the_paper_has_for_its_modules() {
        // 500 million divided by the square of 2048.
        let paper = 500e6 / 2048_f64.powi(2);
        for scale in [RadarScale::quick(), RadarScale::full()] {
            let keys = scale.keys as f64 / (scale.modules as f64).powi(2);
            assert!((0.9..1.1).contains(&(keys / paper)), "{scale:?}");
            let operations = scale.batch as f64 / scale.modules as f64;
            assert!(
                (0.9..1.1).contains(&(operations / (2e6 / 2048.0))),
                "{scale:?}"
            );
        }
    }
}
