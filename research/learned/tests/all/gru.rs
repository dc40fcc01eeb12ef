//! Tests that the unit learns a learnable pattern, and learns the same from the same seed.

use nearfield_learned::Gru;
use nearfield_pim::radar::heights::{
    Features, HotnessSample, HotnessScale, Predictor, Sequence, best,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const CLASSES: usize = 2;

fn scale() -> HotnessScale {
    HotnessScale {
        classes: CLASSES,
        thresholds: vec![256.0],
        mean: 40.0,
    }
}

/// Creates samples of subranges with hotness that alternates from batch to batch between that of
/// two classes: a model that predicts no change is always wrong.
fn alternating(count: usize, seed: u64) -> Vec<HotnessSample> {
    let random = &mut SmallRng::seed_from_u64(seed);
    let hot = [0x20, 0xf00];
    (0..count)
        .map(|_| {
            let [one, other] = [0; 2].map(|_: i32| random.random_range(0..CLASSES));
            let sequence: Sequence = [one, other, one, other].map(|class| Features {
                hotness: hot[class] + random.random_range(0..8),
                keys: 1000,
                ..Features::default()
            });
            HotnessSample {
                sequence,
                label: one,
            }
        })
        .collect()
}

fn right(gru: &mut Gru, samples: &[HotnessSample]) -> usize {
    let sequences: Vec<Sequence> = samples.iter().map(|sample| sample.sequence).collect();
    let scores = gru.scores(&sequences, &scale());
    assert_eq!(scores.len(), CLASSES * samples.len());
    let found = scores.chunks(CLASSES).map(best).zip(samples);
    found
        .filter(|(class, sample)| *class == sample.label)
        .count()
}

#[test]
fn what_alternates_is_learnt() {
    let mut gru = Gru::new(1).expect("a model");
    let test = alternating(1000, 99);
    let before = right(&mut gru, &test);
    for seed in 0..40 {
        gru.train(&alternating(2048, seed), &scale());
    }
    let after = right(&mut gru, &test);
    assert!(before < 600 && after > 900, "{before}, then {after}");
}

#[test]
fn the_same_seed_learns_the_same() {
    let run = |seed| {
        let mut gru = Gru::new(seed).expect("a model");
        gru.train(&alternating(700, 1), &scale());
        let sequences: Vec<Sequence> = alternating(300, 2)
            .iter()
            .map(|sample| sample.sequence)
            .collect();
        let scores = gru.scores(&sequences, &scale());
        scores.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn nothing_is_learnt_from_nothing() {
    let mut gru = Gru::new(1).expect("a model");
    gru.train(&[], &scale());
    assert_eq!(gru.scores(&[], &scale()), Vec::<f32>::new());
}
