//! Figures 10, 11, 15 and `sensitivity`: single operations over degrees of skew.

use super::bench::{Bench, Keys, Outcome, Phase};
use super::contender::{self, Contender};
use super::scale::Scale;
use super::sensitivity;
use super::skew::{Skew, alpha};
use super::work::{Verb, Verbs};
use crate::figures::job::{Job, PointError, Run};
use crate::figures::row::{Quantity, Row};
use crate::report::Kind;
use nearfield_hardware::modules::Preset;

/// The figures that one run of each contender produces.
pub(super) const FIGURES: [&str; 5] = ["10", "10p", "11", "15", "sensitivity"];

/// Creates a job for each contender and degree of skew, each with an index of its own.
pub(super) fn jobs(scale: &Scale, wanted: &[&'static str]) -> Vec<Job> {
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
fn has_only_gets(contender: &Contender) -> bool {
    contender.name == contender::PIM_TREE_TABLE.name
}

fn job(scale: &Scale, contender: Contender, alpha: f64, figures: Vec<&'static str>) -> Job {
    let verbs: &'static [Verb] = match figures[..] {
        _ if has_only_gets(&contender) => &[Verb::Get],
        _ => &Verb::ALL,
    };
    let (own, of) = (scale.clone(), figures.clone());
    let job = Job::new(figures[0], contender.name, verbs.len(), move |run| {
        perform(&own, &contender, alpha, verbs, &of, run)
    });
    Job {
        figures,
        bytes: scale.bytes(),
        ..job
    }
}

fn perform(
    scale: &Scale,
    contender: &Contender,
    degree: f64,
    verbs: &[Verb],
    figures: &[&'static str],
    run: &mut Run<'_>,
) -> Result<(), PointError> {
    let name = contender.name;
    let variants = match figures.contains(&"sensitivity") {
        true => sensitivity::variants(),
        false => Vec::new(),
    };
    let mut others = vec![Preset::RadarPaper.parameters()];
    others.extend(variants.iter().map(|variant| variant.parameters));
    let mut bench = Bench::load(contender, scale, &others, Keys::Anywhere, run.interrupt)?;
    let mut memory = None;
    for &verb in verbs {
        let phase = Phase {
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
fn footprint(outcome: &Outcome, name: &str, degree: f64, rows: &mut Vec<Row>) {
    let row = outcome.row("15", name, 0, alpha(degree));
    let Some(work) = &row.detail.work else { return };
    let keys = row.setting.as_ref().map_or(1, |setting| setting.count) as f64;
    for (panel, bytes) in [
        ("in all", work.modules_bytes + work.host_bytes),
        ("modules", work.modules_bytes),
        ("host", work.host_bytes),
    ] {
        let y = Quantity::new("memory", "bytes a key", bytes as f64 / keys);
        // Memory does not depend on modelled speeds, so it is counted.
        rows.push(row.clone().aside(y, Kind::Counted).in_panel(panel));
    }
}

/// Returns the size of pinned runs: 16 modules with the paper's number of keys for 16 modules.
#[cfg(test)]
pub(in crate::figures) fn pinned_scale() -> Scale {
    Scale {
        keys: 122 * 16 * 16,
        ..Scale::tiny()
    }
}

/// Returns the pinned jobs: six operations of the headlines' contenders without and with skew.
#[cfg(test)]
pub(in crate::figures) fn pinned(scale: &Scale) -> Vec<Job> {
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
        for scale in [Scale::quick(), Scale::full()] {
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
