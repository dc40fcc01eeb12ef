//! The classifier, which derives heights from the demand of batches.

use super::LearningWindow;
use super::adjustment::{Adjustment, budget, per_task};
use super::capacities::LevelCapacities;
use super::history::{HotnessHistory, SubrangeRequests, sample};
use super::predictor::{HotnessSample, HotnessScale, Predictor};
use super::thresholds::{Curve, class};
use super::timeline::{CounterReading, HeightReport, RadarPhase, Timeline};
use super::trainer::{
    Close, HeightTrainer, HeightTrainingJob, HeightTrainingResult, WindowPrediction,
};
use crate::device::DeviceCounters;
use crate::dispatch::directory::{PartitionDirectory, PartitionPlace};
use crate::dispatch::plan::NOBODY;
use crate::dispatch::task::ModuleTask;
use crate::structures::skip_list::{self, HEIGHT_MAX};
use nearfield_core::VirtualTime;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The classifier of subranges. It learns how hot subranges are, and sets their heights. It stores
/// about 200 bytes for each subrange. A batch of n tasks on m subranges takes O(n + m log m), and
/// the end of a window O(s) more for s subranges in all.
#[derive(Debug)]
pub struct Classifier {
    window: LearningWindow,
    /// The trainer; `None` after it has ended.
    trainer: Option<HeightTrainer>,
    history: HotnessHistory,
    adjustment: Adjustment,
    /// Number of batches so far.
    batch: u64,
    curve: Option<Curve>,
    classes: usize,
    /// Average hotness of subranges in the last batch.
    mean: f64,
    /// Hotness of the samples of the window so far.
    hotness: Vec<u32>,
    /// The subranges whose classes are being predicted, and the prediction once it is known.
    asked: Option<Vec<SubrangeRequests>>,
    closed: Option<WindowPrediction>,
    /// Number of jobs given to the trainer whose results have not arrived.
    given: u64,
    timeline: Timeline,
    stage: ClassifierProgress,
    adjusted: u64,
    waited: Duration,
}

/// The progress of a batch.
#[derive(Debug)]
struct ClassifierProgress {
    /// The times at which the batch began, its round began, and the round ended.
    begun: Instant,
    sent: Instant,
    answered: Instant,
    /// Readings of the device at the beginning of the batch and of its round.
    at_begin: CounterReading,
    at_round: CounterReading,
    /// Idle time of all modules in the last batch, and the time of a task in its round.
    idle: VirtualTime,
    per_task: VirtualTime,
    /// Number of tasks of the fullest module, and of heights of the module with most changes.
    most_tasks: u64,
    most_heights: u64,
}

impl Classifier {
    pub fn new(window: LearningWindow, predictor: Box<dyn Predictor>) -> Classifier {
        let now = Instant::now();
        Classifier {
            window: LearningWindow {
                batches: window.batches.max(1),
                ..window
            },
            trainer: Some(HeightTrainer::new(predictor)),
            history: HotnessHistory::new(window.batches),
            adjustment: Adjustment::default(),
            batch: 0,
            curve: None,
            classes: 2,
            mean: 0.0,
            hotness: Vec::new(),
            asked: None,
            closed: None,
            given: 0,
            timeline: Timeline::new(),
            stage: ClassifierProgress {
                begun: now,
                sent: now,
                answered: now,
                at_begin: CounterReading::default(),
                at_round: CounterReading::default(),
                idle: VirtualTime::ZERO,
                per_task: VirtualTime::ZERO,
                most_tasks: 0,
                most_heights: 0,
            },
            adjusted: 0,
            waited: Duration::ZERO,
        }
    }

    /// Records the beginning of a batch.
    pub fn begin(&mut self, counters: &DeviceCounters) {
        self.stage.begun = Instant::now();
        self.stage.at_begin = CounterReading::of(counters);
    }

    /// Prepares a batch before it is sent, given its tasks by partition and its new partitions.
    /// Adds tasks that change heights before the batch, and gives the trainer its samples.
    pub fn before_round(
        &mut self,
        tasks: impl Iterator<Item = PartitionPlace>,
        built: impl Iterator<Item = u64>,
        directory: &PartitionDirectory,
        inputs: &mut [Vec<u64>],
        counters: &DeviceCounters,
    ) {
        built.for_each(|start| self.adjustment.forget(start));
        // The last input is that of the host, whose subranges have no height.
        let modules = inputs.len().saturating_sub(1);
        // Changes of the last window are decided before this batch is learnt, whose classes are
        // those of the new window.
        self.conclude(directory, modules);
        self.adjust(directory, inputs);
        let mut hotness = vec![0_u32; directory.places()];
        for place in tasks {
            let count = &mut hotness[place.number()];
            *count = count.saturating_add(1);
        }
        let mut loads = vec![0; modules];
        let mut requested = Vec::new();
        for place in directory.in_order() {
            let (hotness, partition) = (hotness[place.number()], directory.partition(place));
            if hotness > 0
                && let Some(load) = loads.get_mut(partition.module)
            {
                *load += u64::from(hotness);
                requested.push(SubrangeRequests {
                    start: directory.start(place),
                    last: partition.last,
                    keys: partition.count,
                    hotness,
                });
            }
        }
        self.stage.most_tasks = loads.into_iter().max().unwrap_or(0);
        self.learn(&requested, directory, modules);
        // The trainer has its samples by then, and learns while modules work.
        self.stage.sent = Instant::now();
        self.stage.at_round = CounterReading::of(counters);
    }

    /// Records the end of the round.
    pub fn after_round(&mut self) {
        self.stage.answered = Instant::now();
    }

    /// Records the end of a batch.
    pub fn end(&mut self, counters: &DeviceCounters) {
        let now = CounterReading::of(counters);
        let (stage, line, batch) = (&mut self.stage, &mut self.timeline, self.batch);
        let adjusting = 2 * stage.per_task.as_picoseconds() * stage.most_heights;
        let adjusting = VirtualTime::from_picoseconds(adjusting);
        let device = [&stage.at_begin, &stage.at_round, &now];
        line.modelled(
            batch,
            [device[0], device[1]],
            RadarPhase::Prepare,
            VirtualTime::ZERO,
        );
        line.modelled(batch, [device[1], device[2]], RadarPhase::Merge, adjusting);
        line.measured(batch, RadarPhase::Prepare, (stage.begun, stage.sent));
        line.measured(batch, RadarPhase::Modules, (stage.sent, stage.answered));
        line.measured(batch, RadarPhase::Merge, (stage.answered, Instant::now()));
        let (worked, _) = now.since(&stage.at_round);
        // A change of a height costs about two tasks: a search and the links.
        stage.per_task = per_task(worked, stage.most_tasks + 2 * stage.most_heights);
        (_, stage.idle) = now.since(&stage.at_begin);
        self.batch += 1;
        // Results are collected without waiting. Only the end of a window needs them.
        while let Some(done) = self.trainer.as_ref().and_then(HeightTrainer::done) {
            self.note(done);
        }
    }

    /// Waits until the trainer has done its jobs, and returns the report.
    pub fn report(&mut self) -> HeightReport {
        while self.given > 0 && self.wait() {}
        HeightReport {
            adjusted: self.adjusted,
            waited: self.waited,
            is_learning: self.trainer.is_some(),
            ..self.timeline.report()
        }
    }

    /// Waits for the trainer's next result. Returns false if the trainer has ended.
    fn wait(&mut self) -> bool {
        let begin = Instant::now();
        let done = self.trainer.as_ref().and_then(HeightTrainer::wait);
        self.waited += begin.elapsed();
        match done {
            Some(done) => self.note(done),
            None => {
                // The predictor has panicked. Heights stay as they are, and jobs in its queue are
                // never done.
                self.trainer = None;
                self.asked = None;
                self.given = 0;
            }
        }
        self.trainer.is_some()
    }

    /// Records a result of the trainer.
    fn note(&mut self, done: HeightTrainingResult) {
        self.given = self.given.saturating_sub(1);
        let batch = done.accuracy.batch;
        if done.accuracy.samples > 0 {
            self.timeline.accuracy(done.accuracy);
            self.timeline
                .measured(batch, RadarPhase::Train, done.trained);
        }
        if let Some(closed) = done.closed {
            self.timeline
                .measured(batch, RadarPhase::Predict, closed.predicted);
            self.closed = Some(closed);
        }
    }

    /// Waits for the predictions if a window has ended, and decides which heights will change.
    fn conclude(&mut self, directory: &PartitionDirectory, modules: usize) {
        if self.asked.is_none() {
            return;
        }
        while self.closed.is_none() && self.wait() {}
        let (Some(mut asked), Some(closed)) = (self.asked.take(), self.closed.take()) else {
            return;
        };
        self.curve = closed.curve;
        self.classes = closed.classes;
        let is_there = |start: u64| directory.of(start).is_some_and(|(found, _)| found == start);
        // Subranges divided or merged since then would be kept forever otherwise.
        self.history.retain(is_there);
        self.adjustment.retain(is_there);
        let mut counts = vec![0; modules];
        for (_, partition) in directory.iter() {
            if let Some(count) = counts.get_mut(partition.module) {
                *count += 1;
            }
        }
        let room = counts
            .into_iter()
            .map(|count| LevelCapacities::new(count, self.classes));
        let mut room: Vec<LevelCapacities> = room.collect();
        debug_assert!((2..=HEIGHT_MAX).contains(&self.classes));
        let scores = closed.scores.chunks(self.classes.max(1));
        let scores: HashMap<u64, &[f32]> = asked
            .iter()
            .map(|subrange| subrange.start)
            .zip(scores)
            .collect();
        // The hottest subranges choose first, so that they get their places.
        asked.sort_by_key(|subrange| Reverse(subrange.hotness));
        let mut targets: HashMap<u64, usize> = HashMap::new();
        for subrange in &asked {
            if let Some((start, partition)) = directory.of(subrange.start)
                && let Some(room) = room.get_mut(partition.module)
                && let Some(scores) = scores.get(&start)
            {
                targets.insert(start, room.choose(scores) + 1);
            }
        }
        let all = directory.iter().filter_map(|(start, partition)| {
            let height = match targets.get(&start) {
                Some(height) => *height,
                // It had requests, but is not in the sample.
                None if self.history.is_recent(start, self.batch) => return None,
                None => skip_list::height(start).min(self.classes),
            };
            Some((partition.module, start, height))
        });
        self.adjustment.want(modules, all);
    }

    /// Adds tasks that change heights, as many as modules have time for.
    fn adjust(&mut self, directory: &PartitionDirectory, inputs: &mut [Vec<u64>]) {
        let budget = budget(self.stage.idle, self.stage.per_task);
        let mut told = vec![0; inputs.len()];
        for (module, start, height) in self.adjustment.take(budget) {
            // The subrange may have moved or been divided since its height was chosen.
            let is_there = directory
                .of(start)
                .is_some_and(|(found, partition)| (found, partition.module) == (start, module));
            if let (true, Some(words)) = (is_there, inputs.get_mut(module)) {
                let height = height as u64;
                ModuleTask::Height { start, height }.encode(0, NOBODY, words);
                told[module] += 1;
                self.adjusted += 1;
            }
        }
        self.stage.most_heights = told.into_iter().max().unwrap_or(0);
    }

    /// Samples the requested subranges of a batch, and gives the samples to the trainer.
    fn learn(
        &mut self,
        requested: &[SubrangeRequests],
        directory: &PartitionDirectory,
        modules: usize,
    ) {
        let batch = self.batch;
        let sampled = sample(requested, self.window.samples, batch);
        let hotness = sampled.iter().map(|subrange| subrange.hotness);
        self.hotness.extend(hotness.clone());
        let mut job = HeightTrainingJob {
            batch,
            scale: HotnessScale {
                classes: self.classes,
                thresholds: Vec::new(),
                mean: self.mean,
            },
            ..HeightTrainingJob::default()
        };
        // At the first batch there are no features to predict from, and no thresholds of hotness.
        if let Some(curve) = &self.curve {
            job.scale.thresholds = curve.thresholds(self.classes);
            let samples = sampled.iter().map(|subrange| HotnessSample {
                sequence: self.history.before(subrange.start, batch, subrange.keys),
                label: class(f64::from(subrange.hotness), &job.scale.thresholds),
            });
            job.samples = samples.collect();
        } else {
            self.classes = classes(directory, modules);
            self.curve = Curve::fit(hotness.collect(), None);
        }
        // The samples above have features from before this batch, so it is noted only here.
        self.history.note(batch, requested);
        let sum: f64 = requested
            .iter()
            .map(|subrange| f64::from(subrange.hotness))
            .sum();
        self.mean = sum / (directory.len() as f64).max(1.0);
        if (batch + 1).is_multiple_of(self.window.batches) {
            let sequences = sampled.iter().map(|subrange| {
                self.history
                    .before(subrange.start, batch + 1, subrange.keys)
            });
            job.close = Some(Close {
                sequences: sequences.collect(),
                hotness: std::mem::take(&mut self.hotness),
                former: self.curve,
                classes: classes(directory, modules),
                mean: self.mean,
                falls_back: self.window.falls_back,
            });
            self.asked = Some(sampled);
        }
        if let Some(trainer) = &self.trainer {
            if trainer.give(job) {
                self.given += 1;
            } else {
                self.trainer = None;
                self.asked = None;
            }
        }
    }
}

/// Returns the number of classes: the number of levels of a skip list of a module's subranges.
fn classes(directory: &PartitionDirectory, modules: usize) -> usize {
    let each = directory.len().div_ceil(modules.max(1)).max(1);
    (each.next_power_of_two().trailing_zeros() as usize).clamp(2, HEIGHT_MAX)
}
