//! One operation at a time over degrees of skew: figures 10, 11 and 15, and what they depend on.

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

/// The figures that one run of each contender gives.
pub(super) const FIGURES: [&str; 5] = ["10", "10p", "11", "15", "sensitivity"];

/// A job for each contender and degree of skew, each with an index of its own.
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

/// Whether a contender differs from another in how it gets, and in nothing else.
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

/// Figure 15: memory after all operations.
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
        // A memory is what it is at any speed.
        rows.push(row.clone().aside(y, Kind::Counted).in_panel(panel));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Interrupt;

    /// Millions of operations a second of six operations at α = 0.99, on 16 modules with as many
    /// keys as the paper has for so many. A change that moves a figure has to move these, too.
    const PINNED: [(Contender, [f64; 6]); 5] = [
        (
            contender::PIM_TREE,
            [1.579, 1.555, 0.01967, 5.81, 1.199, 1.118],
        ),
        (
            contender::RADAR_ONE,
            [0.8021, 0.7848, 0.008134, 1.685, 1.646, 1.918],
        ),
        (
            contender::RADAR,
            [2.258, 2.359, 0.05222, 2.069, 2.079, 2.036],
        ),
        (
            contender::NEARFIELD,
            [4.132, 3.987, 0.08546, 3.905, 3.108, 3.527],
        ),
        (
            contender::NEARFIELD_APART,
            [3.9, 3.981, 0.07574, 3.961, 3.195, 3.536],
        ),
    ];

    #[test]
    fn rates_are_those_of_the_commit_before() {
        let scale = Scale {
            keys: 122 * 16 * 16,
            ..Scale::tiny()
        };
        let rates = PINNED.map(|(contender, _)| {
            let job = job(&scale, contender, 0.99, vec!["10"]);
            let (rows, done) = job.run(&Interrupt::default(), || {});
            done.unwrap();
            let rates = rows.iter().filter_map(|row| row.rate_mops);
            // Four digits tell any change of the model from none.
            let rounded = rates.map(|rate| format!("{rate:.3e}"));
            (contender.name, rounded.collect::<Vec<_>>())
        });
        let pinned = PINNED.map(|(contender, rates)| {
            let rates = rates.map(|rate| format!("{rate:.3e}"));
            (contender.name, rates.to_vec())
        });
        assert_eq!(rates, pinned);
    }

    #[test]
    fn as_many_keys_as_the_paper_has_for_its_modules() {
        // 500 million over the square of 2048.
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
