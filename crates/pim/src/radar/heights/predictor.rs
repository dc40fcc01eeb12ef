//! Prediction of a subrange's class.

use super::features::{Features, STEPS, Sequence};
use super::thresholds::class;

/// The features of a subrange before a batch, and its class in that batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its features in the batches before.
    pub sequence: Sequence,
    /// Its class in this one.
    pub label: usize,
}

/// The present meaning of classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scale {
    /// How many there are, at most [`HEIGHT_MAX`](crate::structures::skip_list::HEIGHT_MAX).
    pub classes: usize,
    /// How hot a subrange is in a batch that is of class 1, 2 and so on.
    pub thresholds: Vec<f64>,
    /// How hot subranges are on the average.
    pub mean: f64,
}

/// Says from the last batches which class subranges will be of in those to come. It is used by one
/// thread, that of the trainer.
pub trait Predictor: Send {
    /// Learns from samples of a batch: an epoch.
    fn train(&mut self, samples: &[Sample], scale: &Scale);

    /// For each of some subranges a score for each class, the greater the likelier, one subrange
    /// after the other.
    fn scores(&mut self, sequences: &[Sequence], scale: &Scale) -> Vec<f32>;
}

/// The class with the greatest score, the lowest of these if several have it.
pub fn best(scores: &[f32]) -> usize {
    let mut best = 0;
    for (class, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = class;
        }
    }
    best
}

/// Scores that fall with the distance from a class.
fn near(class: usize, classes: usize) -> impl Iterator<Item = f32> {
    (0..classes).map(move |other| -(other.abs_diff(class) as f32))
}

/// How hot a subrange was on the average.
fn mean(sequence: &Sequence) -> f64 {
    let sum: u64 = sequence.iter().map(|step| u64::from(step.hotness)).sum();
    sum as f64 / STEPS as f64
}

/// Predicts for each subrange its average class in the last batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastWindow;

impl Predictor for LastWindow {
    fn train(&mut self, _: &[Sample], _: &Scale) {}

    fn scores(&mut self, sequences: &[Sequence], scale: &Scale) -> Vec<f32> {
        let classes = sequences
            .iter()
            .map(|sequence| class(mean(sequence), &scale.thresholds));
        classes
            .flat_map(|class| near(class, scale.classes))
            .collect()
    }
}

/// Predicts the best height of a skip list whose keys are requested as often as in the last batch:
/// log2 of the frequency, in parts of the average.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share;

impl Predictor for Share {
    fn train(&mut self, _: &[Sample], _: &Scale) {}

    fn scores(&mut self, sequences: &[Sequence], scale: &Scale) -> Vec<f32> {
        let class = |last: &Features| {
            let share = f64::from(last.hotness) / scale.mean;
            // No request: the lowest class, as log2 of zero.
            (share.log2().round().max(0.0) as usize).min(scale.classes.saturating_sub(1))
        };
        sequences
            .iter()
            .flat_map(|sequence| near(class(&sequence[STEPS - 1]), scale.classes))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(hotness: [u32; STEPS]) -> Sequence {
        hotness.map(|hotness| Features {
            hotness,
            ..Features::default()
        })
    }

    fn classes(predictor: &mut dyn Predictor, hotness: &[[u32; STEPS]]) -> Vec<usize> {
        let scale = Scale {
            classes: 4,
            thresholds: vec![10.0, 20.0, 40.0],
            mean: 10.0,
        };
        let sequences: Vec<Sequence> = hotness.iter().map(|hotness| sequence(*hotness)).collect();
        let scores = predictor.scores(&sequences, &scale);
        assert_eq!(scores.len(), 4 * sequences.len());
        scores.chunks(4).map(best).collect()
    }

    #[test]
    fn the_last_window_says_what_was() {
        let hotness = [[0, 0, 0, 39], [10; 4], [80, 80, 0, 0], [0; 4]];
        assert_eq!(classes(&mut LastWindow, &hotness), [0, 1, 3, 0]);
    }

    #[test]
    fn shares_say_how_much_more_than_others() {
        let hotness = [
            [0, 0, 0, 0],
            [0, 0, 0, 9],
            [9, 9, 9, 20],
            [0, 0, 0, 39],
            [0, 0, 0, 9999],
        ];
        assert_eq!(classes(&mut Share, &hotness), [0, 0, 1, 2, 3]);
    }
}
