//! Heights of subranges in the lists of modules, by how hot they are. Source: RADAR, section V.
//!
//! A module finds a subrange by a skip list (L2). The higher a tower, the fewer are looked at on
//! the way to it. So what is hot is lifted, and what is not is lowered. Which is which is
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
//! - In each batch some of the subranges that it asks for are *sampled*: their features before the
//!   batch, and the class that they have in it by thresholds of hotness. The predictor learns from
//!   them on a thread of its own while modules work; the samples are given to it before the round
//!   is begun.
//! - At the end of a *window* of several batches new thresholds are fitted, and the classes of the
//!   sampled subranges of its last batch are predicted, also on that thread. The first batch of the
//!   next window waits for them.
//! - A class is a level. As many subranges of a module get it as the level has room for; heights
//!   change where they deviate most, as many in each batch as modules could change while they have
//!   nothing to do otherwise.
//!
//! Deviations from the paper: heights are changed in the round of the batch, in front of its tasks,
//! and so take time of the modules; a launch of their own, while the host works, would take longer
//! than that. What was not asked for in the last batches goes back to the height that its first key
//! gives it, and is not lowered further, as a search among what is cold would have to look at all
//! of it. Subranges of the host have no height. Labels are of one batch, features of those before
//! it.

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
pub use predictor::{LastWindow, Predictor, Sample, Scale, Share, best};
pub use timeline::{Accuracy, Clock, Phase, Report, Span};

pub(super) use classifier::Classifier;

/// By what the heights of subranges are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heights {
    /// By their first keys, at random.
    #[default]
    None,
    /// By what [`LastWindow`] predicts.
    LastWindow(Window),
    /// By what [`Share`] predicts.
    Share(Window),
}

impl Heights {
    /// What predicts, if anything.
    pub(super) fn classifier(self) -> Option<Classifier> {
        match self {
            Heights::None => None,
            Heights::LastWindow(window) => Some(Classifier::new(window, Box::new(LastWindow))),
            Heights::Share(window) => Some(Classifier::new(window, Box::new(Share))),
        }
    }
}

/// How much is learnt from, and how often classes are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many subranges of a batch are sampled, at most. The paper's figure, 8 thousand, is where
    /// its training still fits into the time of modules.
    pub samples: usize,
    /// Batches of a window, each of which is trained with once. The paper finds that more than 4
    /// gain nothing.
    pub batches: u64,
    /// Whether classes are those of [`LastWindow`] or [`Share`] where these were right more often
    /// in the window than the predictor. A model that has not learnt enough yet says that all is
    /// cold, and a list without levels is slow. Not in the paper.
    pub falls_back: bool,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            samples: 8192,
            batches: 4,
            falls_back: true,
        }
    }
}
