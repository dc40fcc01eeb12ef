//! The thread that learns while modules work.
//!
//! The thread owns the predictor. It receives the samples of a batch before the round begins. The
//! index waits for it only when it needs a result, at the end of a window. The thread executes its
//! jobs in order, so its results depend only on the jobs, not on timing.

use super::features::Sequence;
use super::predictor::{
    FrequencyPredictor, HotnessSample, HotnessScale, LastWindow, Predictor, best,
};
use super::thresholds::Curve;
use super::timeline::Accuracy;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::fmt;
use std::thread::JoinHandle;
use std::time::Instant;

/// The samples of a batch to learn from.
#[derive(Debug, Default)]
pub struct HeightTrainingJob {
    pub batch: u64,
    pub samples: Vec<HotnessSample>,
    pub scale: HotnessScale,
    /// The predictions to make at the end of a window.
    pub close: Option<Close>,
}

/// The end of a window.
#[derive(Debug, Default)]
pub struct Close {
    /// Subranges whose classes are requested.
    pub sequences: Vec<Sequence>,
    /// Hotness of the samples of the window.
    pub hotness: Vec<u32>,
    /// The thresholds so far.
    pub former: Option<Curve>,
    /// Number of classes of the next window, and the average hotness of subranges.
    pub classes: usize,
    pub mean: f64,
    /// True if a predictor that was right more often replaces this one.
    pub falls_back: bool,
}

/// The result of a job.
#[derive(Debug)]
pub struct HeightTrainingResult {
    pub accuracy: Accuracy,
    /// Start and end of the training.
    pub trained: (Instant, Instant),
    pub closed: Option<WindowPrediction>,
}

/// The state at the start of the next window.
#[derive(Debug)]
pub struct WindowPrediction {
    /// Start and end of the prediction.
    pub predicted: (Instant, Instant),
    /// Scores of each class for each subrange, one subrange after the other.
    pub scores: Vec<f32>,
    pub classes: usize,
    pub curve: Option<Curve>,
}

/// The trainer's thread. Dropping the value ends it after its last job.
pub struct HeightTrainer {
    /// The queue of jobs; `None` only while the trainer is dropped.
    jobs: Option<Sender<HeightTrainingJob>>,
    done: Receiver<HeightTrainingResult>,
    thread: Option<JoinHandle<()>>,
}

impl HeightTrainer {
    pub fn new(mut predictor: Box<dyn Predictor>) -> HeightTrainer {
        let (jobs, given): (Sender<HeightTrainingJob>, Receiver<HeightTrainingJob>) = unbounded();
        let (found, done) = unbounded();
        let work = move || {
            let mut right = [0; 3];
            for job in given {
                // Without a receiver, no result is needed.
                if found.send(learn(&mut *predictor, &mut right, job)).is_err() {
                    return;
                }
            }
        };
        HeightTrainer {
            jobs: Some(jobs),
            done,
            thread: Some(std::thread::spawn(work)),
        }
    }

    /// Gives the trainer a job. Returns false if the thread has ended because its predictor
    /// panicked.
    pub fn give(&self, job: HeightTrainingJob) -> bool {
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job).is_ok());
        sent == Some(true)
    }

    /// Returns the next result, if there is one already.
    pub fn done(&self) -> Option<HeightTrainingResult> {
        self.done.try_recv().ok()
    }

    /// Waits for the next result and returns it; `None` if the thread has ended.
    pub fn wait(&self) -> Option<HeightTrainingResult> {
        self.done.recv().ok()
    }
}

impl fmt::Debug for HeightTrainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trainer").finish_non_exhaustive()
    }
}

impl Drop for HeightTrainer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended, too.
            let _ = thread.join();
        }
    }
}

/// Predicts the samples and learns from them. If a window ends, also predicts the classes, by the
/// predictor that was `right` most often in the window if falling back is allowed.
fn learn(
    predictor: &mut dyn Predictor,
    right: &mut [usize; 3],
    job: HeightTrainingJob,
) -> HeightTrainingResult {
    let HeightTrainingJob {
        batch,
        samples,
        scale,
        close,
    } = job;
    let begin = Instant::now();
    let sequences: Vec<Sequence> = samples.iter().map(|sample| sample.sequence).collect();
    let count = |predictor: &mut dyn Predictor| {
        let scores = predictor.scores(&sequences, &scale);
        let found = scores.chunks(scale.classes.max(1)).map(best);
        let pairs = found.zip(&samples);
        pairs
            .filter(|(class, sample)| *class == sample.label)
            .count()
    };
    // All three predict before any learns from these samples, so that the comparison is fair.
    let accuracy = Accuracy {
        batch,
        samples: samples.len(),
        predictor: count(predictor),
        last_window: count(&mut LastWindow),
        share: count(&mut FrequencyPredictor),
    };
    if !samples.is_empty() {
        predictor.train(&samples, &scale);
    }
    let found = [accuracy.predictor, accuracy.last_window, accuracy.share];
    for (sum, found) in right.iter_mut().zip(found) {
        *sum += found;
    }
    let trained = (begin, Instant::now());
    let closed = close.map(|close| {
        let begin = Instant::now();
        let curve = Curve::fit(close.hotness, close.former.as_ref()).or(close.former);
        let thresholds = curve.map_or_else(Vec::new, |curve| curve.thresholds(close.classes));
        let scale = HotnessScale {
            classes: close.classes,
            thresholds,
            mean: close.mean,
        };
        // The counts start again with each window, because another predictor may be the best by
        // then.
        let [own, last_window, share] = std::mem::take(right);
        let (mut former, mut even) = (LastWindow, FrequencyPredictor);
        let chosen: &mut dyn Predictor = match close.falls_back {
            // A tie goes to the predictor itself, and between the simple ones to the last window.
            true if last_window > own && last_window >= share => &mut former,
            true if share > own => &mut even,
            _ => predictor,
        };
        let scores = chosen.scores(&close.sequences, &scale);
        WindowPrediction {
            predicted: (begin, Instant::now()),
            scores,
            classes: close.classes,
            curve,
        }
    });
    HeightTrainingResult {
        accuracy,
        trained,
        closed,
    }
}
