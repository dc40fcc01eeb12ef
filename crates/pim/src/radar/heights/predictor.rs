//! Prediction of a subrange's class.

use super::features::{Features, STEPS, Sequence};
use super::thresholds::class;

/// The features of a subrange before a batch, and its class in that batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotnessSample {
    /// The features in the batches before.
    pub sequence: Sequence,
    /// The class in this batch.
    pub label: usize,
}

/// The current meaning of classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotnessScale {
    /// Number of classes, at most [`HEIGHT_MAX`](crate::structures::skip_list::HEIGHT_MAX).
    pub classes: usize,
    /// Least hotness in a batch of a subrange of class 1, 2 and so on.
    pub thresholds: Vec<f64>,
    /// Average hotness of subranges.
    pub mean: f64,
}

/// A predictor of the classes of subranges in coming batches, from the last ones. One thread uses
/// it, that of the trainer.
pub trait Predictor: Send {
    /// Learns from the samples of a batch, in one epoch.
    fn train(&mut self, samples: &[HotnessSample], scale: &HotnessScale);

    /// Returns a score for each class of each subrange, one subrange after the other. A greater
    /// score means a likelier class.
    fn scores(&mut self, sequences: &[Sequence], scale: &HotnessScale) -> Vec<f32>;
}

/// Returns the class with the greatest score; of equal ones, the lowest class.
pub fn best(scores: &[f32]) -> usize {
    let mut best = 0;
    for (class, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = class;
        }
    }
    best
}

/// Returns scores that decrease with the distance from a class.
fn near(class: usize, classes: usize) -> impl Iterator<Item = f32> {
    (0..classes).map(move |other| -(other.abs_diff(class) as f32))
}

/// Returns the average hotness of a subrange.
fn mean(sequence: &Sequence) -> f64 {
    let sum: u64 = sequence.iter().map(|step| u64::from(step.hotness)).sum();
    sum as f64 / STEPS as f64
}

/// A predictor of the class of a subrange's average hotness in the last batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastWindow;

impl Predictor for LastWindow {
    fn train(&mut self, _: &[HotnessSample], _: &HotnessScale) {}

    fn scores(&mut self, sequences: &[Sequence], scale: &HotnessScale) -> Vec<f32> {
        let classes = sequences
            .iter()
            .map(|sequence| class(mean(sequence), &scale.thresholds));
        classes
            .flat_map(|class| near(class, scale.classes))
            .collect()
    }
}

/// A predictor of the best height in a skip list whose keys are requested as often as in the last
/// batch: log2 of the frequency relative to the average.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrequencyPredictor;

impl Predictor for FrequencyPredictor {
    fn train(&mut self, _: &[HotnessSample], _: &HotnessScale) {}

    fn scores(&mut self, sequences: &[Sequence], scale: &HotnessScale) -> Vec<f32> {
        let class = |last: &Features| {
            let share = f64::from(last.hotness) / scale.mean;
            // Without requests the class is the lowest, because of log2 of zero.
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
        let scale = HotnessScale {
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
        assert_eq!(classes(&mut FrequencyPredictor, &hotness), [0, 0, 1, 2, 3]);
    }
}
