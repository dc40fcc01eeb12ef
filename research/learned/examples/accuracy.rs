//! The accuracy of predicted classes of subranges, and its effect.
//!
//! ```text
//! accuracy [subranges a module, 16] [all | sweep | seg-fixed | seg-jump | drift] [windows, 12]
//! ```
//!
//! 256 modules, batches of 250 thousand reads, Zipf (0.99) over 256 segments of the keys: with one
//! permutation of segments (`seg-fixed`), with another for each batch (`seg-jump`), and with one
//! that is rotated by 16 segments every 8 batches (`drift`). In the second half of the batches it
//! prints the share of sampled subranges with a right prediction of their class, by the GRU and by
//! both simple predictors, and for the GRU window by window. It also prints the pointers that a
//! read follows in a module in the last four batches, including changes of heights. `sweep` has
//! other numbers of samples, and of batches of a window, each of which is an epoch.

use nearfield_core::{Batch, OrderedIndex, Words};
use nearfield_hardware::modules::ModulePreset;
use nearfield_learned::Gru;
use nearfield_pim::device::{Model, ModuleDevice};
use nearfield_pim::radar::heights::{
    Accuracy, HeightReport, Heights, LearningWindow, RadarPhase, SpanClock,
};
use nearfield_pim::radar::{Radar, RadarOptions};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::ops::Range;

const MODULES: usize = 256;
const SEGMENTS: usize = 256;
const EXPONENT: f64 = 0.99;
const KEYS: u64 = 1 << 20;
const BATCH: usize = 250_000;
const SEED: u64 = 7;

#[derive(Clone, Copy, Debug, PartialEq)]
enum AccuracyWorkload {
    Fixed,
    Jump,
    Drift,
}

/// A workload that draws segments by Zipf's law.
struct ZipfSegmentDraws {
    sums: Vec<f64>,
    order: Vec<usize>,
    random: SmallRng,
    workload: AccuracyWorkload,
}

impl ZipfSegmentDraws {
    fn new(workload: AccuracyWorkload) -> ZipfSegmentDraws {
        let mut random = SmallRng::seed_from_u64(SEED);
        let mut order: Vec<usize> = (0..SEGMENTS).collect();
        order.shuffle(&mut random);
        let mut sum = 0.0;
        let weights = (1..=SEGMENTS).map(|rank| {
            sum += (rank as f64).powf(-EXPONENT);
            sum
        });
        ZipfSegmentDraws {
            sums: weights.collect(),
            order,
            random,
            workload,
        }
    }

    /// Creates the next batch with its keys.
    fn batch(&mut self, number: u64) -> Batch<Words> {
        match self.workload {
            AccuracyWorkload::Fixed => {}
            AccuracyWorkload::Jump => self.order.shuffle(&mut self.random),
            AccuracyWorkload::Drift if number % 8 == 7 => self.order.rotate_left(SEGMENTS / 16),
            AccuracyWorkload::Drift => {}
        }
        let each = KEYS / SEGMENTS as u64;
        let mut batch = Batch::new();
        for _ in 0..BATCH {
            let drawn = self.random.random::<f64>() * self.sums[SEGMENTS - 1];
            let rank = self.sums.partition_point(|&sum| sum < drawn);
            let segment = self.order[rank.min(SEGMENTS - 1)] as u64;
            let number = segment * each + self.random.random_range(0..each);
            batch.get(key(number));
        }
        batch
    }
}

fn key(number: u64) -> u64 {
    number * (u64::MAX / KEYS)
}

fn options(each: usize) -> RadarOptions {
    RadarOptions {
        subranges_per_module: each,
        sends_lists: false,
        combines_reads: false,
        cools: None,
        heights: Heights::None,
        ..RadarOptions::nearfield()
    }
}

/// Runs `batches` batches; returns the pointers that a read follows at the end.
fn hops(index: &Radar<Model>, workload: AccuracyWorkload, batches: u64) -> f64 {
    let mut batch = Batch::<Words>::new();
    for number in 0..KEYS {
        batch.insert(key(number), number);
        if batch.len() == BATCH || number + 1 == KEYS {
            index.execute(&mut batch).expect("executed");
            batch = Batch::new();
        }
    }
    let mut draw = ZipfSegmentDraws::new(workload);
    let hops = || index.device(|device| device.counters().work.hops);
    let (mut before, counted) = (0, 4);
    for number in 0..batches {
        if number == batches - counted {
            before = hops();
        }
        index.execute(&mut draw.batch(number)).expect("executed");
    }
    (hops() - before) as f64 / (counted as f64 * BATCH as f64)
}

/// Returns the shares of right predictions in some batches.
fn shares(report: &HeightReport, batches: Range<u64>) -> [f64; 3] {
    let all = report.accuracy.iter();
    let mut sums = Accuracy::default();
    for accuracy in all.filter(|accuracy| batches.contains(&accuracy.batch)) {
        sums.samples += accuracy.samples;
        sums.predictor += accuracy.predictor;
        sums.last_window += accuracy.last_window;
        sums.share += accuracy.share;
    }
    [sums.predictor, sums.last_window, sums.share]
        .map(|right| 100.0 * right as f64 / sums.samples.max(1) as f64)
}

/// Returns the mean length of a phase, in milliseconds.
fn mean(report: &HeightReport, clock: SpanClock, phase: RadarPhase) -> f64 {
    let spans = report.spans.iter();
    let of = spans.filter(|span| (span.clock, span.phase) == (clock, phase));
    let lengths: Vec<f64> = of.map(|span| (span.to_ns - span.from_ns) / 1e6).collect();
    lengths.iter().sum::<f64>() / lengths.len().max(1) as f64
}

fn run(each: usize, workload: AccuracyWorkload, window: LearningWindow, windows: u64) {
    let gru = Gru::new(SEED).expect("a model");
    let model = Model::new(MODULES, ModulePreset::UpmemMeasured.parameters());
    let index = Radar::with_predictor(model, options(each), window, Box::new(gru));
    let hops = hops(&index, workload, windows * window.batches);
    let report = index.heights().expect("heights");
    // The first batch is the last part of the load: the index is loaded in parts.
    let first = report.accuracy.first().map_or(0, |accuracy| accuracy.batch);
    let end = report.accuracy.last().map_or(0, |accuracy| accuracy.batch) + 1;
    let [gru, last, share] = shares(&report, (first + end) / 2..end);
    let by_window = (first..end).step_by(window.batches as usize).map(|from| {
        let [gru, ..] = shares(&report, from..from + window.batches);
        format!("{gru:.0}")
    });
    let by_window = by_window.collect::<Vec<_>>().join(" ");
    let LearningWindow {
        samples,
        batches,
        falls_back,
    } = window;
    let sampled = report
        .accuracy
        .last()
        .map_or(0, |accuracy| accuracy.samples);
    let [train, predict] = [RadarPhase::Train, RadarPhase::Predict]
        .map(|phase| mean(&report, SpanClock::Measured, phase));
    let modules = mean(&report, SpanClock::Modelled, RadarPhase::Modules);
    println!(
        "{workload:?} c={each} samples={samples} ({sampled}) epochs={batches} \
         falls_back={falls_back}: GRU {gru:.1} %, last window {last:.1} %, \
         share {share:.1} %; GRU by window {by_window}; {hops:.2} hops; \
         training {train:.0} ms, predicting {predict:.0} ms (measured), \
         modules {modules:.2} ms (modelled); {} heights changed",
        report.adjusted
    );
}

/// Creates a window that never falls back on the simple predictors, as in the paper.
fn alone(samples: usize, batches: u64) -> LearningWindow {
    LearningWindow {
        samples,
        batches,
        falls_back: false,
    }
}

/// Prints the same measurement without heights, and with those of the simple predictors.
fn compare(each: usize, workload: AccuracyWorkload, windows: u64) {
    let window = alone(8192, 4);
    for heights in [
        Heights::None,
        Heights::LastWindow(window),
        Heights::Share(window),
    ] {
        let model = Model::new(MODULES, ModulePreset::UpmemMeasured.parameters());
        let index = Radar::new(
            model,
            RadarOptions {
                heights,
                ..options(each)
            },
        );
        let hops = hops(&index, workload, windows * window.batches);
        println!("{workload:?} c={each} {heights:?}: {hops:.2} hops");
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let each = arguments.next().and_then(|each| each.parse().ok());
    let each = each.unwrap_or(16);
    let what = arguments.next().unwrap_or_else(|| "all".to_owned());
    let windows = arguments.next().and_then(|windows| windows.parse().ok());
    let windows = windows.unwrap_or(12);
    let all = [
        ("seg-fixed", AccuracyWorkload::Fixed),
        ("seg-jump", AccuracyWorkload::Jump),
        ("drift", AccuracyWorkload::Drift),
    ];
    for (name, workload) in all {
        if what == "all" || what == name {
            run(each, workload, alone(8192, 4), windows);
            run(each, workload, LearningWindow::default(), windows);
            compare(each, workload, windows);
        }
    }
    if what == "sweep" {
        for samples in [4, 8, 16, 32].map(|thousand| thousand * 1024) {
            for batches in 2..=6 {
                run(
                    each,
                    AccuracyWorkload::Fixed,
                    alone(samples, batches),
                    windows,
                );
            }
        }
    }
}
