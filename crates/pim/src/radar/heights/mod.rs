//! Heights of subranges in the lists of modules, by their hotness. Source: RADAR, section V.
//!
//! A module finds a subrange by a skip list (L2). The higher the tower of a subrange, the fewer
//! other towers a search passes. So hot subranges are raised, and cold ones are lowered. Hotness is
//! predicted:
//!
//! ```text
//! batch    | 1             | 2             | 3             | 4 = end of a window | 5
//! host     | sample, label | sample, label | sample, label | sample, label       | heights
//! trainer  |  train        |  train        |  train        | train, fit, predict |  train
//! modules  |  work         |  work         |  work         |  work               |  change, work
//! ```
//!
//! - *Features* of each subrange in the last [`STEPS`] batches are kept ([`Features`]).
//! - In each batch some of the requested subranges are *sampled*: their features before the batch,
//!   and their class in it by thresholds of hotness. The predictor learns from them on a separate
//!   thread while modules work. It gets the samples before the round begins.
//! - At the end of a *window* of several batches the thread fits new thresholds, and predicts the
//!   classes of the sampled subranges of its last batch. The first batch of the next window waits
//!   for them.
//! - A class is a level. Its number of subranges in a module is limited by the room of the level.
//!   The heights that deviate most change first, in each batch as many as modules could change in
//!   their idle time.
//!
//! Deviations from the paper: heights are changed in the round of the batch, before its tasks, and
//! so take time of the modules. A separate launch during the host's work would take longer. A
//! subrange without requests in the last batches returns to the height of its first key. It is not
//! lowered further, because a search among cold subranges would have to pass all of them. Subranges
//! of the host have no height. Labels are from one batch, features from those before it.

mod adjustment;
mod capacities;
mod classifier;
mod features;
mod history;
mod predictor;
mod thresholds;
mod timeline;
mod trainer;

pub use features::{Features, INPUTS, STEPS, Sequence};
pub use predictor::{FrequencyPredictor, HotnessSample, HotnessScale, LastWindow, Predictor, best};
pub use timeline::{Accuracy, HeightReport, PhaseSpan, RadarPhase, SpanClock};

pub(super) use classifier::Classifier;

/// The rule that sets the heights of subranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heights {
    /// Random heights, given by the subranges' first keys.
    #[default]
    None,
    /// Heights predicted by [`LastWindow`].
    LastWindow(LearningWindow),
    /// Heights predicted by [`FrequencyPredictor`].
    Share(LearningWindow),
}

impl Heights {
    /// Returns the classifier of this rule, if any.
    pub(super) fn classifier(self) -> Option<Classifier> {
        match self {
            Heights::None => None,
            Heights::LastWindow(window) => Some(Classifier::new(window, Box::new(LastWindow))),
            Heights::Share(window) => Some(Classifier::new(window, Box::new(FrequencyPredictor))),
        }
    }
}

/// The parameters of learning: the number of samples, and the time between predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearningWindow {
    /// Greatest number of subranges of a batch that are sampled. The paper's figure, 8 thousand, is
    /// the greatest for which its training fits into the time of modules.
    pub samples: usize,
    /// Number of batches of a window. Each batch is used once for training. The paper finds no gain
    /// above 4.
    pub batches: u64,
    /// True if the classes of [`LastWindow`] or [`FrequencyPredictor`] are used when these were
    /// right more often in the window than the predictor. An insufficiently trained model predicts
    /// that all subranges are cold, and a list without levels is slow. Not in the paper.
    pub falls_back: bool,
}

impl Default for LearningWindow {
    fn default() -> LearningWindow {
        LearningWindow {
            samples: 8192,
            batches: 4,
            falls_back: true,
        }
    }
}
