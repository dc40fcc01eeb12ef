//! Heights by hotness (section V): the accuracy of predictions (figure 8), their effect (figures 9
//! and 10), and the phases of a window in time (figure 7).
//!
//! Heights need a model that has learnt, so these runs are longer than others, and the runs that
//! they are compared with are as long; a unit that has seen a few windows only is still worse than
//! none. The share of right classes is counted; throughput is modelled; training is measured, on a
//! thread of this machine. The last two are of different clocks: modelled time does not wait for
//! training, and training is independent of the modules' time.

use super::bench::{RadarBatchCosts, RadarBench, RadarKeySet, RadarWorkload};
use super::contender::{self, RadarContender, WINDOW};
use super::scale::RadarScale;
use super::skew::{Skew, alpha};
use super::work::{RadarOperationKind, Verbs};
use crate::figures::job::{FigureJob, PointError, RunningJob};
use crate::figures::row::{LASTS, Quantity, Row};
use crate::report::NumberOrigin;
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::radar::heights::{Accuracy, HeightReport, LearningWindow, PhaseSpan, SpanClock};

/// The figures of samples and epochs, and that of a window, which shows one of their runs.
const FORESEEN: [&str; 3] = ["7", "8", "9"];
/// The figures with the time of training.
const MEASURED: [&str; 2] = ["7", "9"];
/// The figures that have points of Gets after as many batches.
const GETS: [&str; 2] = ["10", "10p"];
/// The default degree of skew.
const DEGREE: f64 = 0.99;
/// Degrees for which the paper gives the effect of heights.
const DEGREES: [f64; 2] = [0.0, 1.2];

/// The panel of figure 10 with runs of this length.
pub(super) const LONG: &str = "Get, after more batches";
/// The quantities on the vertical axes.
pub(super) const ACCURACY: &str = "right";
pub(super) const WORTH: &str = "throughput relative to no heights";
/// The panel of figure 7 with spans. The next constants are the spans that are compared.
pub(super) const SPANS: &str = "a window of radar gru";
pub(super) const TRAINING: &str = "train";
pub(super) const WORKING: &str = "modules";

/// Returns the panel of figures 8 and 9 with this number of samples.
pub(super) fn panel(samples: usize, skew: &Skew) -> String {
    match skew {
        Skew::Jump(_) => format!("{samples} samples"),
        _ => format!("{samples} samples, {skew}"),
    }
}

/// The skew with unchanging hot keys.
pub(super) const STEADY: Skew = Skew::Fixed(DEGREE);

/// Returns the numbers of batches that do not count and that count: whole windows of any length
/// except 5 (and 6 if axes are coarse).
fn batches(scale: &RadarScale, skew: &Skew) -> [usize; 2] {
    match (scale.coarse, skew) {
        (true, Skew::Jump(_)) => [8, 8],
        // With unchanging hot keys a unit that has not finished learning is worse than none.
        (true, _) => [12, 8],
        (false, _) => [24, 24],
    }
}

/// Returns the numbers of samples of a batch, and of batches of a window. Each batch is an epoch.
fn grid(scale: &RadarScale) -> Vec<LearningWindow> {
    if scale.coarse {
        return vec![WINDOW];
    }
    let window = |samples, batches| LearningWindow {
        samples,
        batches,
        ..WINDOW
    };
    let samples = [4000, 8000, 16_000, 32_000];
    let all = samples.map(|samples| (2..=6).map(move |batches| window(samples, batches)));
    all.into_iter().flatten().collect()
}

/// A long run of Gets on an index.
#[derive(Clone)]
struct HeightRun {
    contender: RadarContender,
    window: LearningWindow,
    skew: Skew,
}

impl HeightRun {
    fn job<S>(self, scale: &RadarScale, figures: Vec<&'static str>, show: S) -> FigureJob
    where
        S: Fn(&HeightRun, &HeightRunResult, &[&'static str], &mut Vec<Row>) + Send + 'static,
    {
        let (own, of) = (long(scale, &self.skew), figures.clone());
        let name = self.contender.name;
        let is_measured = figures.iter().any(|figure| MEASURED.contains(figure));
        // Only a run that shows the time of training is disturbed by others.
        let alone = self.contender.learns() && is_measured;
        let missing = self.contender.missing();
        let job = FigureJob::new(figures[0], name, 1, move |run| {
            let done = self.run(&own, run)?;
            show(&self, &done, &of, &mut run.rows);
            run.end_phase();
            Ok(())
        });
        FigureJob {
            figures,
            bytes: scale.bytes(),
            alone,
            missing,
            ..job
        }
    }

    fn run(&self, scale: &RadarScale, run: &RunningJob<'_>) -> Result<HeightRunResult, PointError> {
        let contender = self.contender.with_window(self.window);
        // Figure 10p shows the same run by the paper's parameters.
        let others = [ModulePreset::RadarPaper.parameters()];
        let mut bench = RadarBench::load(
            &contender,
            scale,
            &others,
            RadarKeySet::Anywhere,
            run.interrupt,
        )?;
        let phase = RadarWorkload {
            verbs: Verbs::only(RadarOperationKind::Get),
            skew: self.skew.clone(),
            batches: scale.batches,
        };
        Ok(HeightRunResult {
            outcome: bench.outcome(&phase, run.interrupt)?,
            batches: scale.batches,
            report: bench.heights().unwrap_or_default(),
        })
    }
}

/// Returns the scale with enough batches to learn from.
fn long(scale: &RadarScale, skew: &Skew) -> RadarScale {
    let [warming, batches] = batches(scale, skew);
    RadarScale {
        warming,
        batches,
        ..scale.clone()
    }
}

/// The result of such a run.
struct HeightRunResult {
    outcome: RadarBatchCosts,
    /// Number of batches that counted.
    batches: usize,
    report: HeightReport,
}

impl HeightRunResult {
    /// Returns the number of samples in the batches that counted, and for each predictor the number
    /// of those with a rightly predicted class.
    fn accuracy(&self) -> Accuracy {
        let all = &self.report.accuracy;
        let mut sums = Accuracy::default();
        // Batches that do not count come first.
        for accuracy in &all[all.len().saturating_sub(self.batches)..] {
            sums.samples += accuracy.samples;
            sums.predictor += accuracy.predictor;
            sums.last_window += accuracy.last_window;
            sums.share += accuracy.share;
        }
        debug_assert!(sums.predictor.max(sums.last_window).max(sums.share) <= sums.samples);
        sums
    }

    /// Returns the time of an epoch, in milliseconds: the mean over batches that counted.
    fn training_ms(&self) -> f64 {
        let spans = self.report.spans.iter();
        let of = spans.filter(|span| phase_name(span) == TRAINING);
        let lengths: Vec<f64> = of.map(length_ms).collect();
        let counted = &lengths[lengths.len().saturating_sub(self.batches)..];
        counted.iter().sum::<f64>() / counted.len().max(1) as f64
    }
}

/// Creates the jobs for figures 7 to 9, and for the long runs of figure 10.
pub(super) fn jobs(scale: &RadarScale, wanted: &[&'static str]) -> Vec<FigureJob> {
    let of = |figures: &[&'static str]| -> Vec<&'static str> {
        let figures = figures.iter().copied();
        figures.filter(|figure| wanted.contains(figure)).collect()
    };
    let mut jobs = Vec::new();
    let figures = of(&FORESEEN);
    if !figures.is_empty() {
        jobs.extend(gridded(scale, &figures));
    }
    let figures = of(&GETS);
    if !figures.is_empty() {
        for contender in [contender::RADAR, contender::RADAR_GRU, contender::NEARFIELD] {
            for degree in DEGREES {
                let height_run = HeightRun {
                    contender,
                    window: WINDOW,
                    skew: Skew::Jump(degree),
                };
                let show = move |_: &HeightRun,
                                 done: &HeightRunResult,
                                 of: &[&'static str],
                                 rows: &mut _| {
                    gets(contender, degree, done, of, rows);
                };
                jobs.push(height_run.job(scale, figures.clone(), show));
            }
        }
    }
    jobs
}

/// Creates jobs for all numbers of samples and epochs of the unit, and one for each contender
/// without it.
fn gridded(scale: &RadarScale, figures: &[&'static str]) -> Vec<FigureJob> {
    let simple: &[RadarContender] = match scale.coarse {
        true => &[contender::RADAR, contender::RADAR_LAST_WINDOW],
        false => &[
            contender::RADAR,
            contender::RADAR_LAST_WINDOW,
            contender::RADAR_SHARE,
        ],
    };
    let mut height_runs = Vec::new();
    for skew in [Skew::Jump(DEGREE), STEADY] {
        let (windows, shown) = match skew {
            // Figure 7 shows a window with unchanging hot keys.
            Skew::Jump(_) => (grid(scale), &FORESEEN[1..]),
            _ => (vec![WINDOW], &FORESEEN[..]),
        };
        let units = windows
            .into_iter()
            .map(|window| (contender::RADAR_GRU, window, shown));
        let others = simple
            .iter()
            .map(|&contender| (contender, WINDOW, &FORESEEN[2..]));
        let all = units.chain(others);
        height_runs.extend(all.map(|(contender, window, shown)| {
            let skew = skew.clone();
            let height_run = HeightRun {
                contender,
                window,
                skew,
            };
            (height_run, shown)
        }));
    }
    let jobs = height_runs.into_iter().filter_map(|(height_run, shown)| {
        let shown = shown.iter().copied();
        let figures: Vec<&str> = shown.filter(|figure| figures.contains(figure)).collect();
        (!figures.is_empty()).then(|| height_run.job(scale, figures, foreseen))
    });
    jobs.collect()
}

/// Adds the points of figures 7 to 9.
fn foreseen(
    height_run: &HeightRun,
    done: &HeightRunResult,
    figures: &[&'static str],
    rows: &mut Vec<Row>,
) {
    let name = height_run.contender.name;
    let panel = panel(height_run.window.samples, &height_run.skew);
    let x = Quantity::new("epochs of a window", "", height_run.window.batches as f64);
    let point = |figure| {
        let row = done.outcome.row(figure, name, 0, x.clone());
        row.in_panel(&*panel)
    };
    for &figure in figures {
        if figure == "7" {
            spans(height_run, done, figure, rows);
            continue;
        }
        let row = |peer: &str, y, kind| Row {
            peer: peer.to_owned(),
            ..point(figure).aside(y, kind)
        };
        if figure == "8" {
            let counted = done.accuracy();
            for (contender, right) in [
                (contender::RADAR_GRU, counted.predictor),
                (contender::RADAR_LAST_WINDOW, counted.last_window),
                (contender::RADAR_SHARE, counted.share),
            ] {
                let share = right as f64 / counted.samples.max(1) as f64;
                let y = Quantity::new(ACCURACY, "", share);
                rows.push(row(contender.name, y, NumberOrigin::Counted));
            }
            continue;
        }
        rows.push(point(figure));
        if height_run.contender.learns() {
            let y = Quantity::new("an epoch takes", "ms", done.training_ms());
            rows.push(row(name, y, NumberOrigin::Measured));
            let working = done.outcome.work(0).modules_ns / 1e6;
            let y = Quantity::new("modules work on a batch", "ms", working);
            let mut row = row(name, y, NumberOrigin::Modelled);
            row.detail.device = point(figure).detail.device;
            rows.push(row);
        }
    }
}

/// Converts the rates of figure 9 to multiples of the rate without heights for the same operations.
pub(super) fn normalize(rows: Vec<Row>) -> Vec<Row> {
    let distribution = |row: &Row| row.setting.as_ref().map(|of| of.distribution.clone());
    let is_base = |row: &&Row| row.peer == contender::RADAR.name;
    let bases: Vec<(Option<String>, Option<f64>)> = rows
        .iter()
        .filter(is_base)
        .map(|row| (distribution(row), row.rate_mops))
        .collect();
    let normalized = rows.into_iter().map(|row| {
        let mut bases = bases.iter();
        let base = bases.find(|(of, _)| *of == distribution(&row));
        let worth = row.rate_mops.zip(base.and_then(|(_, rate)| *rate));
        match worth {
            Some((rate, base)) if base > 0.0 => row.at(Quantity::new(WORTH, "", rate / base)),
            _ => row,
        }
    });
    normalized.collect()
}

/// Adds the points of figure 10.
fn gets(
    contender: RadarContender,
    degree: f64,
    done: &HeightRunResult,
    figures: &[&'static str],
    rows: &mut Vec<Row>,
) {
    for &figure in figures {
        let clock = usize::from(figure == "10p");
        let outcome = &done.outcome;
        let row = outcome.row(figure, contender.name, clock, alpha(degree));
        rows.push(row.in_panel(LONG));
    }
}

/// Returns the name of a span's phase.
fn phase_name(span: &PhaseSpan) -> &'static str {
    use nearfield_pim::radar::heights::RadarPhase;
    match span.phase {
        RadarPhase::Prepare => "prepare",
        RadarPhase::Scatter => "scatter",
        RadarPhase::Launch => "launch",
        RadarPhase::Modules => WORKING,
        RadarPhase::Gather => "gather",
        RadarPhase::Merge => "merge",
        RadarPhase::Train => TRAINING,
        RadarPhase::Predict => "predict",
        RadarPhase::Adjust => "change heights",
    }
}

fn length_ms(span: &PhaseSpan) -> f64 {
    (span.to_ns - span.from_ns) / 1e6
}

/// Adds the spans of figure 7: those of the last whole window, for each clock from its first span
/// on.
fn spans(height_run: &HeightRun, done: &HeightRunResult, figure: &str, rows: &mut Vec<Row>) {
    let each = height_run.window.batches;
    let spans = &done.report.spans;
    debug_assert!(each > 0, "a window has batches");
    // Only whole windows: the run may end within one.
    let end = spans.iter().map(|span| span.batch + 1).max().unwrap_or(0) / each * each;
    let window = end.saturating_sub(each)..end;
    for (clock, kind) in [
        (SpanClock::Modelled, NumberOrigin::Modelled),
        (SpanClock::Measured, NumberOrigin::Measured),
    ] {
        let of = spans
            .iter()
            .filter(|span| span.clock == clock && window.contains(&span.batch));
        let mut of: Vec<&PhaseSpan> = of.collect();
        of.sort_by(|one, other| one.from_ns.total_cmp(&other.from_ns));
        let begin = of.first().map_or(0.0, |span| span.from_ns);
        for span in of {
            let x = Quantity::new("from", "ms", (span.from_ns - begin) / 1e6);
            let row = done.outcome.row(figure, phase_name(span), 0, x);
            let device = row.detail.device.clone();
            let y = Quantity::new(LASTS, "ms", length_ms(span));
            let mut row = row.aside(y, kind).in_panel(SPANS);
            row.detail.device = device.filter(|_| kind == NumberOrigin::Modelled);
            rows.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Interrupt;

    fn rows(figures: &[&'static str]) -> Vec<Row> {
        let mut all = Vec::new();
        for job in jobs(&RadarScale::tiny(), figures) {
            let (rows, done) = job.run_by_itself(&Interrupt::default());
            done.unwrap();
            all.extend(rows);
        }
        all
    }

    #[test]
    fn a_window_has_spans_by_two_clocks_that_are_distinguished() {
        let rows = rows(&["7"]);
        for row in &rows {
            assert_eq!((&*row.detail.panel, &*row.detail.y.name), (SPANS, LASTS));
            assert_eq!(
                row.detail.device.is_some(),
                row.kind == NumberOrigin::Modelled
            );
            assert!(
                row.detail.x.value >= 0.0 && row.detail.y.value >= 0.0,
                "{row:?}"
            );
        }
        let count = |phase: &str, kind| {
            let of = rows.iter().filter(|row| row.peer == phase);
            of.filter(|row| row.kind == kind).count() as u64
        };
        // An epoch, and at least one round, for each batch; one prediction for the window.
        assert_eq!(count(TRAINING, NumberOrigin::Measured), WINDOW.batches);
        assert!(count(WORKING, NumberOrigin::Modelled) >= WINDOW.batches);
        assert_eq!(count("predict", NumberOrigin::Measured), 1);
        // Training takes no time by the clock of the modules.
        assert_eq!(count(TRAINING, NumberOrigin::Modelled), 0);
        // Modelled spans do not overlap, except for changes of heights, which are part of other
        // spans.
        let modelled = rows.iter().filter(|row| row.kind == NumberOrigin::Modelled);
        let modelled: Vec<&Row> = modelled
            .filter(|row| row.peer != "change heights")
            .collect();
        for pair in modelled.windows(2) {
            let end = pair[0].detail.x.value + pair[0].detail.y.value;
            assert!(pair[1].detail.x.value >= end - 1e-6, "{pair:?}");
        }
    }

    #[test]
    fn each_number_of_samples_and_epochs_has_its_points() {
        let all = rows(&["8", "9"]);
        let scale = RadarScale::tiny();
        for window in grid(&scale) {
            let panel = panel(window.samples, &Skew::Jump(DEGREE));
            let of = |figure: &str, name: &str| {
                let is_there = |row: &&Row| {
                    let is_panel = row.detail.figure == figure && row.detail.panel == panel;
                    is_panel
                        && row.detail.y.name == name
                        && row.detail.x.value == window.batches as f64
                };
                let rows = all.iter().filter(is_there);
                rows.map(|row| (row.peer.clone(), row.detail.y.value))
                    .collect::<Vec<_>>()
            };
            let right = of("8", ACCURACY);
            assert_eq!(right.len(), 3, "{right:?}");
            assert!(right.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
            // The predictor that repeats the last class is right sometimes.
            assert!(right.iter().any(|(_, share)| *share > 0.2), "{right:?}");
            let times = [
                of("9", "an epoch takes"),
                of("9", "modules work on a batch"),
            ];
            assert!(times.iter().all(|times| times[0].1 > 0.0), "{times:?}");
        }
        let steady = panel(WINDOW.samples, &STEADY);
        let worth = normalize(all);
        let worth = worth.iter().filter(|row| row.detail.y.name == WORTH);
        let worth: Vec<&Row> = worth.filter(|row| row.detail.panel == steady).collect();
        assert_eq!(worth.len(), 3, "{worth:?}");
        for row in worth {
            let is_base = row.peer == contender::RADAR.name;
            assert_eq!(is_base, row.detail.y.value == 1.0, "{row:?}");
            assert!((0.3..3.0).contains(&row.detail.y.value), "{row:?}");
        }
    }

    #[test]
    fn long_runs_are_as_long_without_heights() {
        let rows = rows(&["10"]);
        let peers: Vec<(&str, f64)> = rows
            .iter()
            .map(|row| {
                assert_eq!((&*row.detail.panel, &*row.detail.figure), (LONG, "10"));
                let work = row.detail.work.as_ref().unwrap();
                let [_, counted] = batches(&RadarScale::tiny(), &Skew::Jump(0.0));
                assert_eq!(work.batches, counted as u64);
                (&*row.peer, row.detail.x.value)
            })
            .collect();
        let names =
            [contender::RADAR, contender::RADAR_GRU, contender::NEARFIELD].map(|one| one.name);
        let all = names.map(|name| DEGREES.map(|degree| (name, degree)));
        assert_eq!(peers, all.concat());
    }
}
