//! Heights of subranges follow their hotness, and affect only time.

use nearfield_core::{Batch, OrderedIndex, Words};
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::device::{Model, ModuleDevice};
use nearfield_pim::radar::heights::{
    Accuracy, Heights, HotnessSample, HotnessScale, LearningWindow, Predictor, RadarPhase,
    Sequence, SpanClock,
};
use nearfield_pim::radar::{Radar, RadarOptions};
use nearfield_pim::testing::devices::{modelled, modules, workers};
use nearfield_testkit::model;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const MODULES: usize = 4;
const SUBRANGES: u64 = 256;
const BATCH: usize = 8000;

fn window() -> LearningWindow {
    LearningWindow {
        samples: 64,
        batches: 2,
        falls_back: false,
    }
}

/// Returns options of RADAR with many subranges that never change, in which modules search.
fn options(heights: Heights) -> RadarOptions {
    RadarOptions {
        subranges_per_module: SUBRANGES as usize / MODULES,
        heights,
        ..RadarOptions::basic(MODULES)
    }
}

fn model() -> Model {
    Model::new(MODULES, ModulePreset::UpmemMeasured.parameters())
}

/// Returns a key of the subrange of this number.
fn key(subrange: u64, number: u64) -> u64 {
    subrange * (u64::MAX / SUBRANGES + 1) + number
}

/// Reads keys by Zipf's law over subranges from the whole key space.
fn reads(index: &impl OrderedIndex<Words>, seed: u64) {
    let random = &mut SmallRng::seed_from_u64(seed);
    let mut batch = Batch::<Words>::new();
    let mut wanted = Vec::new();
    for _ in 0..BATCH {
        let exponent = random.random::<f64>() * (SUBRANGES as f64).ln();
        let subrange = exponent.exp() as u64 % SUBRANGES * 37 % SUBRANGES;
        let number = random.random_range(0..8);
        wanted.push(subrange * 8 + number);
        batch.get(key(subrange, number));
    }
    index.execute(&mut batch).expect("executed");
    for (position, value) in wanted.into_iter().enumerate() {
        assert_eq!(batch.value(position), Some(value));
    }
}

fn load(index: &impl OrderedIndex<Words>) {
    let mut batch = Batch::<Words>::new();
    for subrange in 0..SUBRANGES {
        for number in 0..8 {
            batch.insert(key(subrange, number), subrange * 8 + number);
        }
    }
    index.execute(&mut batch).expect("executed");
}

/// Returns the number of pointers that a read follows after a while.
fn hops<D: ModuleDevice + Send>(index: &Radar<D>) -> f64 {
    load(index);
    (0..16).for_each(|seed| reads(index, seed));
    let hops = || index.device(|device| device.counters().work.hops);
    let before = hops();
    (16..20).for_each(|seed| reads(index, seed));
    (hops() - before) as f64 / (4 * BATCH) as f64
}

#[test]
fn hot_subranges_are_found_with_fewer_pointers() {
    let without = hops(&Radar::new(model(), options(Heights::None)));
    let whole = LearningWindow {
        samples: 4096,
        ..LearningWindow::default()
    };
    for heights in [Heights::LastWindow(whole), Heights::Share(whole)] {
        let index = Radar::new(model(), options(heights));
        let found = hops(&index);
        assert!(found < without - 0.5, "{heights:?}: {found}, not {without}");
        let report = index.heights().expect("heights");
        assert!(report.adjusted > 0 && report.is_learning);
        // Hotness is constant, so the last window predicts the next.
        let Accuracy {
            samples,
            last_window,
            ..
        } = report.accuracy[report.accuracy.len() - 1];
        assert!(last_window * 2 > samples, "{last_window} of {samples}");
    }
}

#[test]
fn an_index_with_heights_does_what_a_map_does() {
    let build = |seed: u64| {
        let of = [RadarOptions::radar, RadarOptions::basic, |_| {
            RadarOptions::nearfield()
        }];
        let heights = [Heights::LastWindow(window()), Heights::Share(window())];
        RadarOptions {
            heights: heights[seed as usize / 5 % 2],
            sends_lists: false,
            cools: Some(1),
            ..of[seed as usize % 3](modules(seed))
        }
    };
    model::check::<Words, _>(60, |seed| Radar::new(modelled(seed), build(seed)));
    model::check::<Words, _>(20, |seed| Radar::new(workers(seed), build(seed)));
}

/// A predictor that raises random subranges, and records its jobs.
struct Arbitrary(u64);

impl Predictor for Arbitrary {
    fn train(&mut self, samples: &[HotnessSample], _: &HotnessScale) {
        for sample in samples {
            self.0 = self.0.rotate_left(7) ^ sample.label as u64;
            self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn scores(&mut self, sequences: &[Sequence], scale: &HotnessScale) -> Vec<f32> {
        let random = &mut SmallRng::seed_from_u64(self.0);
        (0..sequences.len() * scale.classes)
            .map(|_| random.random())
            .collect()
    }
}

#[test]
fn what_is_learnt_depends_on_batches_and_not_on_time() {
    let run = || {
        let index = Radar::with_predictor(
            model(),
            options(Heights::None),
            window(),
            Box::new(Arbitrary(1)),
        );
        let hops = hops(&index);
        let report = index.heights().expect("heights");
        (hops.to_bits(), report.accuracy, report.adjusted)
    };
    assert_eq!(run(), run());
}

/// A predictor that takes all subranges to be cold.
struct ColdPredictor;

impl Predictor for ColdPredictor {
    fn train(&mut self, _: &[HotnessSample], _: &HotnessScale) {}

    fn scores(&mut self, sequences: &[Sequence], scale: &HotnessScale) -> Vec<f32> {
        let row = |class| if class == 0 { 1.0 } else { 0.0 };
        let rows = sequences.iter().map(|_| (0..scale.classes).map(row));
        rows.flatten().collect()
    }
}

#[test]
fn a_predictor_that_knows_nothing_is_not_asked_if_others_know_better() {
    let [alone, helped] = [false, true].map(|falls_back| {
        let window = LearningWindow {
            samples: 4096,
            batches: 4,
            falls_back,
        };
        let predictor = Box::new(ColdPredictor);
        hops(&Radar::with_predictor(
            model(),
            options(Heights::None),
            window,
            predictor,
        ))
    });
    let without = hops(&Radar::new(model(), options(Heights::None)));
    assert!(alone > without + 1.0, "{alone}, not {without}");
    assert!(helped < without, "{helped}, not {without}");
}

/// A predictor that panics when it learns.
struct PanickingPredictor;

impl Predictor for PanickingPredictor {
    fn train(&mut self, _: &[HotnessSample], _: &HotnessScale) {
        panic!("on purpose");
    }

    fn scores(&mut self, sequences: &[Sequence], scale: &HotnessScale) -> Vec<f32> {
        vec![0.0; sequences.len() * scale.classes]
    }
}

#[test]
fn an_index_outlives_its_predictor() {
    let index = Radar::with_predictor(
        model(),
        options(Heights::None),
        window(),
        Box::new(PanickingPredictor),
    );
    load(&index);
    (0..6).for_each(|seed| reads(&index, seed));
    let report = index.heights().expect("heights");
    assert!(!report.is_learning);
    (6..9).for_each(|seed| reads(&index, seed));
}

#[test]
fn phases_of_a_batch_come_one_after_the_other_and_training_while_modules_work() {
    let index = Radar::new(model(), options(Heights::LastWindow(window())));
    load(&index);
    (0..8).for_each(|seed| reads(&index, seed));
    let report = index.heights().expect("heights");
    for batch in 0..9 {
        let of = |clock, phase| {
            let spans = report.spans.iter();
            let mut spans =
                spans.filter(|span| (span.batch, span.clock, span.phase) == (batch, clock, phase));
            spans.next().copied()
        };
        let phases = [
            RadarPhase::Scatter,
            RadarPhase::Launch,
            RadarPhase::Modules,
            RadarPhase::Gather,
        ];
        let spans = phases.map(|phase| of(SpanClock::Modelled, phase).expect("a span"));
        for pair in spans.windows(2) {
            assert_eq!(pair[0].to_ns, pair[1].from_ns);
            assert!(pair[0].from_ns < pair[0].to_ns);
        }
        if let Some(adjust) = of(SpanClock::Modelled, RadarPhase::Adjust) {
            assert_eq!(adjust.from_ns, spans[2].from_ns);
            assert!(adjust.to_ns <= spans[2].to_ns);
        }
        if let Some(train) = of(SpanClock::Measured, RadarPhase::Train) {
            let prepared = of(SpanClock::Measured, RadarPhase::Prepare).expect("a span");
            assert!(train.from_ns >= prepared.from_ns, "not before it was given");
        }
        let is_end = batch % 2 == 1;
        assert_eq!(
            of(SpanClock::Measured, RadarPhase::Predict).is_some(),
            is_end
        );
    }
    assert!(
        report
            .spans
            .iter()
            .any(|span| span.phase == RadarPhase::Adjust)
    );
}
