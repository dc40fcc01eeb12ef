//! One operation at a time over degrees of skew: figures 10, 11 and 15, and what they depend on.

use super::bench::{Bench, DEVICE, Keys, Outcome, Phase};
use super::contender::{self, Contender};
use super::scale::Scale;
use super::skew::{Skew, alpha};
use super::work::{Verb, Verbs};
use crate::figures::job::{Job, PointError, Run};
use crate::figures::row::{Quantity, Row};
use crate::report::Kind;
use nearfield_hardware::Time;
use nearfield_hardware::modules::{Bandwidth, Dma, Parameters, Preset};

/// The figures that one run of each contender gives.
pub(super) const FIGURES: [&str; 5] = ["10", "10p", "11", "15", "sensitivity"];

/// The skew at which it is asked what results depend on.
const SENSITIVE: [f64; 2] = [0.0, 0.99];

/// A job for each contender and degree of skew, each with an index of its own.
pub(super) fn jobs(scale: &Scale, wanted: &[&'static str]) -> Vec<Job> {
    let figures: Vec<&'static str> = FIGURES
        .into_iter()
        .filter(|figure| wanted.contains(figure))
        .collect();
    let mut jobs = Vec::new();
    for contender in contender::ALL {
        for &alpha in scale.alphas() {
            let is_sensitive = SENSITIVE.contains(&alpha);
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
        ["sensitivity"] => &[Verb::Get],
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
        true => variants(),
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
                "sensitivity" if verb == Verb::Get => {
                    sensitivity(&outcome, name, degree, &variants, &mut run.rows);
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

/// The device with one of its figures changed.
struct Variant {
    panel: &'static str,
    x: Quantity,
    parameters: Parameters,
}

/// What the model is least sure of, from one published figure to the other.
fn variants() -> Vec<Variant> {
    let own = DEVICE.parameters();
    let mut variants = Vec::new();
    for microseconds in [100_u32, 200, 500] {
        variants.push(Variant {
            panel: "launch",
            x: Quantity::new("launch", "ms", f64::from(microseconds) / 1e3),
            parameters: Parameters {
                launch: Time::from_nanoseconds(u64::from(microseconds) * 1000),
                ..own
            },
        });
    }
    for gigabytes in [13.0, 19.0, 25.0] {
        variants.push(Variant {
            panel: "bandwidth",
            x: Quantity::new("bandwidth", "GB/s", gigabytes),
            parameters: Parameters {
                bandwidth: Bandwidth::Total(gigabytes * 1e9),
                ..own
            },
        });
    }
    let word = own.dma.read_latency + 8.0 * own.dma.latency_per_byte;
    for nanoseconds in [14.0, 100.0, 231.4] {
        let cycles = nanoseconds * own.cycles_per_second / 1e9;
        let fixed = own.dma.read_latency - (word - cycles).max(0.0);
        let part = (fixed / own.dma.read_latency).clamp(0.0, 1.0);
        variants.push(Variant {
            panel: "copies",
            x: Quantity::new("a word of the bank", "ns", nanoseconds),
            parameters: Parameters {
                dma: Dma {
                    read_latency: own.dma.read_latency * part,
                    write_latency: own.dma.write_latency * part,
                    occupied: own.dma.occupied * part,
                    ..own.dma
                },
                ..own
            },
        });
    }
    variants
}

/// Gets, by each variant.
fn sensitivity(
    outcome: &Outcome,
    name: &str,
    degree: f64,
    variants: &[Variant],
    rows: &mut Vec<Row>,
) {
    // Behind the device's own and the paper's.
    for (clock, variant) in (2..outcome.clocks()).zip(variants) {
        let row = outcome.row("sensitivity", name, clock, variant.x.clone());
        rows.push(row.in_panel(format!("{}, α = {degree}", variant.panel)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_vary_between_the_published_figures() {
        let words = variants()
            .into_iter()
            .filter(|variant| variant.panel == "copies");
        let words: Vec<f64> = words
            .map(|variant| {
                let dma = variant.parameters.dma;
                let cycles = dma.read_latency + 8.0 * dma.latency_per_byte;
                assert!((cycles / 0.35 - variant.x.value).abs() < 0.1, "{cycles}");
                dma.occupied
            })
            .collect();
        assert!(words[0] < 1.0 && words[2] > 33.9, "{words:?}");
    }
}
