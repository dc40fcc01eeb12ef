//! The timeline of batches (RADAR, Fig. 7), and the accuracy of predictions.

use crate::device::DeviceCounters;
use nearfield_core::VirtualTime;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of the latest spans and accuracies that are kept.
const KEPT: usize = 1 << 14;

/// A phase of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RadarPhase {
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
pub enum SpanClock {
    /// The clock of the modelled device.
    Modelled,
    /// The real clock. Rounds are measured as a whole, as [`RadarPhase::Modules`].
    Measured,
}

/// The time of a phase of a batch, in nanoseconds since the index was created.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseSpan {
    /// The number of the observed batch.
    pub batch: u64,
    /// The phase.
    pub phase: RadarPhase,
    /// The clock. Spans of different clocks cannot be compared.
    pub clock: SpanClock,
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
    /// Number predicted correctly by [`FrequencyPredictor`](super::FrequencyPredictor).
    pub share: usize,
}

/// A report on heights so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeightReport {
    /// Accuracies of the last batches, in order.
    pub accuracy: Vec<Accuracy>,
    /// The spans of the last batches.
    pub spans: Vec<PhaseSpan>,
    /// Number of height changes that were sent to modules.
    pub adjusted: u64,
    /// Time that batches waited for the model.
    pub waited: Duration,
    /// False after the predictor has panicked; heights then do not change any more.
    pub is_learning: bool,
}

/// A reading of a device's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterReading {
    scatter: VirtualTime,
    launch: VirtualTime,
    kernel: VirtualTime,
    gather: VirtualTime,
    host: VirtualTime,
}

impl CounterReading {
    pub fn of(counters: &DeviceCounters) -> CounterReading {
        debug_assert!(counters.gather <= counters.transfer, "it is a part");
        CounterReading {
            scatter: counters.transfer - counters.gather,
            launch: counters.launch,
            kernel: counters.kernel,
            gather: counters.gather,
            host: counters.host,
        }
    }

    /// Returns the time that modules worked, and the time that none worked, since another reading.
    pub fn since(&self, before: &CounterReading) -> (VirtualTime, VirtualTime) {
        let idle = |reading: &CounterReading| {
            reading.scatter + reading.launch + reading.gather + reading.host
        };
        (self.kernel - before.kernel, idle(self) - idle(before))
    }
}

/// The recorder of spans and accuracies.
#[derive(Debug)]
pub struct Timeline {
    origin: Instant,
    modelled: f64,
    spans: VecDeque<PhaseSpan>,
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

    fn push(&mut self, span: PhaseSpan) {
        if self.spans.len() == KEPT {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
    }

    pub fn measured(&mut self, batch: u64, phase: RadarPhase, (from, to): (Instant, Instant)) {
        let since = |instant: Instant| instant.duration_since(self.origin).as_nanos() as f64;
        let (from_ns, to_ns) = (since(from), since(to));
        self.push(PhaseSpan {
            batch,
            phase,
            clock: SpanClock::Measured,
            from_ns,
            to_ns,
        });
    }

    /// Records the device's work between two readings: a phase of the host, and those of a round,
    /// in which modules changed heights for the time `adjusting` first.
    pub fn modelled(
        &mut self,
        batch: u64,
        [before, after]: [&CounterReading; 2],
        host: RadarPhase,
        adjusting: VirtualTime,
    ) {
        let length =
            |of: fn(&CounterReading) -> VirtualTime| (of(after) - of(before)).as_nanoseconds();
        let own = (host, length(|reading| reading.host));
        let round = [
            (RadarPhase::Scatter, length(|reading| reading.scatter)),
            (RadarPhase::Launch, length(|reading| reading.launch)),
            (RadarPhase::Modules, length(|reading| reading.kernel)),
            (RadarPhase::Gather, length(|reading| reading.gather)),
        ];
        let is_first = host == RadarPhase::Prepare;
        let first = is_first.then_some(own);
        let last = (!is_first).then_some(own);
        for (phase, length) in first.into_iter().chain(round).chain(last) {
            let (from_ns, to_ns) = (self.modelled, self.modelled + length);
            // A device without a clock reports zeros. Only its measured spans mean something.
            if length <= 0.0 {
                continue;
            }
            let clock = SpanClock::Modelled;
            let adjusting = adjusting.as_nanoseconds().min(length);
            if phase == RadarPhase::Modules && adjusting > 0.0 {
                self.push(PhaseSpan {
                    batch,
                    phase: RadarPhase::Adjust,
                    clock,
                    from_ns,
                    to_ns: from_ns + adjusting,
                });
            }
            self.push(PhaseSpan {
                batch,
                phase,
                clock,
                from_ns,
                to_ns,
            });
            // Phases of the model follow each other without gaps, so the sum of their lengths is
            // the time.
            self.modelled = to_ns;
        }
    }

    pub fn report(&self) -> HeightReport {
        HeightReport {
            accuracy: self.accuracy.iter().copied().collect(),
            spans: self.spans.iter().copied().collect(),
            ..HeightReport::default()
        }
    }
}
