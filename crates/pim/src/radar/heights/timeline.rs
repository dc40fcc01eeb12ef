//! The timeline of batches (RADAR, Fig. 7), and the accuracy of predictions.

use crate::device::Counters;
use nearfield_hardware::Time;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The number of kept spans and figures, the last ones.
const KEPT: usize = 1 << 14;

/// A phase of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The host looks operations up, and plans.
    Prepare,
    /// Data go to modules.
    Scatter,
    /// Modules are started, and found to be done.
    Launch,
    /// Modules work.
    Modules,
    /// Data come back.
    Gather,
    /// The host merges answers.
    Merge,
    /// A model is trained.
    Train,
    /// Thresholds are fitted and classes predicted.
    Predict,
    /// Modules change heights, a part of their work. The time is estimated as that of two tasks of
    /// the round before for each height of the module with most of them.
    Adjust,
}

/// By which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// That of the modelled device.
    Modelled,
    /// That on the wall. Of rounds it has [`Phase::Modules`] as a whole.
    Measured,
}

/// Something that was done, in nanoseconds from when the index was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The number of the observed batch.
    pub batch: u64,
    /// The phase.
    pub phase: Phase,
    /// By which clock; spans of two are not to be compared.
    pub clock: Clock,
    /// From when.
    pub from_ns: f64,
    /// Until when.
    pub to_ns: f64,
}

/// Of how many of the sampled subranges of a batch the class was known before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// The batch.
    pub batch: u64,
    /// How many were sampled.
    pub samples: usize,
    /// By the predictor, before it learnt from them.
    pub predictor: usize,
    /// By [`LastWindow`](super::LastWindow).
    pub last_window: usize,
    /// By [`Share`](super::Share).
    pub share: usize,
}

/// A report on heights so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// How well each of the last batches was predicted, in their order.
    pub accuracy: Vec<Accuracy>,
    /// The spans of the last batches.
    pub spans: Vec<Span>,
    /// The number of heights that modules were told to change.
    pub adjusted: u64,
    /// How long batches have waited for the model.
    pub waited: Duration,
    /// False once the predictor has panicked; heights stay as they are from then on.
    pub is_learning: bool,
}

/// A reading of a device's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    scatter: Time,
    launch: Time,
    kernel: Time,
    gather: Time,
    host: Time,
}

impl Reading {
    pub fn of(counters: &Counters) -> Reading {
        Reading {
            scatter: counters.transfer - counters.gather,
            launch: counters.launch,
            kernel: counters.kernel,
            gather: counters.gather,
            host: counters.host,
        }
    }

    /// How long modules have worked, and how long none has.
    pub fn since(&self, before: &Reading) -> (Time, Time) {
        let idle =
            |reading: &Reading| reading.scatter + reading.launch + reading.gather + reading.host;
        (self.kernel - before.kernel, idle(self) - idle(before))
    }
}

/// Records spans.
#[derive(Debug)]
pub struct Timeline {
    origin: Instant,
    modelled: f64,
    spans: VecDeque<Span>,
    accuracy: VecDeque<Accuracy>,
}

impl Timeline {
    pub fn new() -> Timeline {
        Timeline {
            origin: Instant::now(),
            modelled: 0.0,
            spans: VecDeque::new(),
            accuracy: VecDeque::new(),
        }
    }

    pub fn accuracy(&mut self, accuracy: Accuracy) {
        if self.accuracy.len() == KEPT {
            self.accuracy.pop_front();
        }
        self.accuracy.push_back(accuracy);
    }

    fn push(&mut self, span: Span) {
        if self.spans.len() == KEPT {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
    }

    pub fn measured(&mut self, batch: u64, phase: Phase, (from, to): (Instant, Instant)) {
        let since = |instant: Instant| instant.duration_since(self.origin).as_nanos() as f64;
        let (from_ns, to_ns) = (since(from), since(to));
        self.push(Span {
            batch,
            phase,
            clock: Clock::Measured,
            from_ns,
            to_ns,
        });
    }

    /// Records the device's work between two readings, in these phases of the host and of a round,
    /// in which modules have begun with `adjusting`.
    pub fn modelled(
        &mut self,
        batch: u64,
        [before, after]: [&Reading; 2],
        host: Phase,
        adjusting: Time,
    ) {
        let length = |of: fn(&Reading) -> Time| (of(after) - of(before)).as_nanoseconds();
        let own = (host, length(|reading| reading.host));
        let round = [
            (Phase::Scatter, length(|reading| reading.scatter)),
            (Phase::Launch, length(|reading| reading.launch)),
            (Phase::Modules, length(|reading| reading.kernel)),
            (Phase::Gather, length(|reading| reading.gather)),
        ];
        let is_first = host == Phase::Prepare;
        let first = is_first.then_some(own);
        let last = (!is_first).then_some(own);
        for (phase, length) in first.into_iter().chain(round).chain(last) {
            let (from_ns, to_ns) = (self.modelled, self.modelled + length);
            if length <= 0.0 {
                continue;
            }
            let clock = Clock::Modelled;
            let adjusting = adjusting.as_nanoseconds().min(length);
            if phase == Phase::Modules && adjusting > 0.0 {
                self.push(Span {
                    batch,
                    phase: Phase::Adjust,
                    clock,
                    from_ns,
                    to_ns: from_ns + adjusting,
                });
            }
            self.push(Span {
                batch,
                phase,
                clock,
                from_ns,
                to_ns,
            });
            self.modelled = to_ns;
        }
    }

    pub fn report(&self) -> Report {
        Report {
            accuracy: self.accuracy.iter().copied().collect(),
            spans: self.spans.iter().copied().collect(),
            ..Report::default()
        }
    }
}
