//! The timeline of batches (RADAR, Fig. 7), and the accuracy of predictions.

use crate::device::Counters;
use nearfield_hardware::Time;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of the latest spans and accuracies that are kept.
const KEPT: usize = 1 << 14;

/// A phase of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The host looks up the partitions of operations, and plans.
    Prepare,
    /// Data are transferred to modules.
    Scatter,
    /// Modules are started, and their end is detected.
    Launch,
    /// Modules work.
    Modules,
    /// Data are transferred back.
    Gather,
    /// The host merges results.
    Merge,
    /// A model is trained.
    Train,
    /// Thresholds are fitted and classes predicted.
    Predict,
    /// Modules change heights, as a part of their work. The time is estimated: two tasks of the
    /// round before for each height of the module with most of them.
    Adjust,
}

/// The clock of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The clock of the modelled device.
    Modelled,
    /// The real clock. Rounds are measured as a whole, as [`Phase::Modules`].
    Measured,
}

/// The time of a phase of a batch, in nanoseconds since the index was created.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The number of the observed batch.
    pub batch: u64,
    /// The phase.
    pub phase: Phase,
    /// The clock. Spans of different clocks cannot be compared.
    pub clock: Clock,
    /// Start of the span.
    pub from_ns: f64,
    /// End of the span.
    pub to_ns: f64,
}

/// The accuracy of predictions: of how many sampled subranges of a batch the class was predicted
/// correctly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// The batch.
    pub batch: u64,
    /// Number of sampled subranges.
    pub samples: usize,
    /// Number predicted correctly by the predictor, before it learnt from them.
    pub predictor: usize,
    /// Number predicted correctly by [`LastWindow`](super::LastWindow).
    pub last_window: usize,
    /// Number predicted correctly by [`Share`](super::Share).
    pub share: usize,
}

/// A report on heights so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Accuracies of the last batches, in order.
    pub accuracy: Vec<Accuracy>,
    /// The spans of the last batches.
    pub spans: Vec<Span>,
    /// Number of height changes that were sent to modules.
    pub adjusted: u64,
    /// Time that batches waited for the model.
    pub waited: Duration,
    /// False after the predictor has panicked; heights then do not change any more.
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

    /// Returns the time that modules worked, and the time that none worked, since another reading.
    pub fn since(&self, before: &Reading) -> (Time, Time) {
        let idle =
            |reading: &Reading| reading.scatter + reading.launch + reading.gather + reading.host;
        (self.kernel - before.kernel, idle(self) - idle(before))
    }
}

/// The recorder of spans and accuracies.
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

    /// Records the device's work between two readings: a phase of the host, and those of a round,
    /// in which modules changed heights for the time `adjusting` first.
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
