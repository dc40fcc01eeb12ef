//! The gate, which decides by measurement if guesses pay.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of accesses that are measured in a phase.
const MEASURED: u64 = 1024;
/// Number of accesses at the beginning of a phase that are not measured, because queues are still
/// those of the phase before.
const SETTLING: u64 = 256;
/// Minimum number of phases between two trials.
const PHASES_MIN: u64 = 8;
/// Maximum number of phases between two trials, so that the gate notices changes.
const PHASES_MAX: u64 = 512;
/// The difference in the share of wrong guesses, from that at the last trial of the other mode, at
/// which the mode is tried again. This is three times the random variation of a phase.
const CHANGE: f64 = 0.05;
/// The share of wrong guesses below which nothing is tried: a right guess reads less and takes no
/// longer.
const HARMLESS: f64 = 0.02;
/// The part of the time that trials of the worse mode may cost: one in two hundred.
const TRIALS_COST: f64 = 0.005;

/// A gate that turns guesses off when they lose, and on when they win. A guess reads few bytes, but
/// after a wrong one the rest must be read as well. So it pays if bytes are scarce, but not if each
/// access costs the same or guesses are often wrong (CHIME's speculative read, SOSP'24, section
/// 4.4, which is always on).
///
/// The gate assumes nothing about the network, and needs no sizes or rates. For a phase of about a
/// thousand accesses either all clients of the gate guess or none does, and it measures the mean
/// time of an access. It measures whole phases, because these include the wait that an access
/// causes for later ones. The gate keeps the better mode. It tries the other one repeatedly, the
/// more rarely the worse it was, such that trials cost half a percent, and soon if the share of
/// right guesses changes. While hardly any guess is wrong it tries nothing, because no guess can
/// lose then: if many clients share a port, the time of an access depends more on the others than
/// on the guess. Times are the caller's, of any clock; equal ones give equal decisions.
///
/// The gate sees only the cost of its own clients' accesses. Other clients of the same memory node
/// gain from shorter reads, too. If the gate has only a part of all accesses, it therefore guesses
/// less often than would be best for all.
///
/// ```
/// use nearfield_hotness::SpeculationGate;
/// use std::time::Duration;
///
/// let gate = SpeculationGate::default();
/// for _ in 0..10_000 {
///     let access = gate.ask();
///     // Reading the guess takes 2 us, and 4 us if it is wrong, and reading all takes 3 us.
///     let took = if access.guesses() { 2 } else { 3 };
///     gate.record(access, true, Duration::from_micros(took));
/// }
/// assert!(gate.ask().guesses());
/// ```
#[derive(Debug)]
pub struct SpeculationGate {
    /// The number of the phase; its lowest bit is set if the phase guesses.
    phase: AtomicU64,
    /// Number of accesses of the phase that have ended, and of nanoseconds that the measured ones
    /// took.
    count: AtomicU64,
    nanoseconds: AtomicU64,
    /// Number of accesses with a guess that was wrong or would have been.
    wrong: AtomicU64,
    /// The gate's knowledge. Its lock is taken once per phase.
    judgement: Mutex<Judgement>,
}

/// An access that may guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeculationAccess {
    phase: u64,
}

impl SpeculationAccess {
    /// Returns true if the access must guess.
    pub fn guesses(self) -> bool {
        self.phase & 1 == 1
    }
}

/// The gate's knowledge of the two modes, each with its mean time in nanoseconds.
#[derive(Debug)]
struct Judgement {
    /// The better mode: true if guesses were better. And its time of an access.
    guesses: bool,
    best: f64,
    /// Time of the other mode at its last trial.
    other: f64,
    /// The share of wrong guesses just after that.
    wrong: f64,
    /// Number of phases since then.
    since: u64,
    /// Number of phases until it is tried again.
    interval: u64,
}

impl Default for SpeculationGate {
    /// Creates a gate that guesses initially, and tries the other mode soon.
    fn default() -> SpeculationGate {
        SpeculationGate {
            phase: AtomicU64::new(1),
            count: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            judgement: Mutex::new(Judgement::NONE),
        }
    }
}

impl SpeculationGate {
    /// Returns an access, which says if the caller must use a guess that it has. Call it only if
    /// there is a guess.
    pub fn ask(&self) -> SpeculationAccess {
        SpeculationAccess {
            phase: self.phase.load(Relaxed),
        }
    }

    /// Records if the guess was right, or would have been if it was not used, and the duration of
    /// the access: from `ask` until its result was known, with all its round trips.
    pub fn record(&self, access: SpeculationAccess, right: bool, took: Duration) {
        if access.phase != self.phase.load(Relaxed) {
            // Its mode, and the queues that it met, were those of another phase.
            return;
        }
        if !right {
            self.wrong.fetch_add(1, Relaxed);
        }
        let count = self.count.fetch_add(1, Relaxed) + 1;
        if count > SETTLING {
            let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            self.nanoseconds.fetch_add(took, Relaxed);
        }
        if count >= SETTLING + MEASURED {
            self.end_phase(access.phase);
        }
    }

    /// Ends a phase, unless another thread does or has. Records of threads meanwhile count for this
    /// phase or for the next, among the accesses before measuring begins.
    fn end_phase(&self, phase: u64) {
        let Ok(mut judgement) = self.judgement.try_lock() else {
            return;
        };
        if self.phase.load(Relaxed) != phase {
            return;
        }
        let mean = self.nanoseconds.load(Relaxed) as f64 / MEASURED as f64;
        let wrong = self.wrong.load(Relaxed) as f64 / (SETTLING + MEASURED) as f64;
        let guesses = judgement.next(phase & 1 == 1, mean, wrong);
        let next = (phase >> 1) + 1;
        self.phase.store(next << 1 | u64::from(guesses), Relaxed);
        self.wrong.store(0, Relaxed);
        self.nanoseconds.store(0, Relaxed);
        self.count.store(0, Relaxed);
    }
}

impl Judgement {
    /// The state before anything is known.
    const NONE: Judgement = Judgement {
        guesses: true,
        best: f64::NAN,
        other: f64::NAN,
        wrong: f64::NAN,
        since: 0,
        interval: PHASES_MIN,
    };

    /// Records a phase, and returns true if the next one guesses.
    fn next(&mut self, guessed: bool, mean: f64, wrong: f64) -> bool {
        if wrong < HARMLESS {
            *self = Judgement::NONE;
            return true;
        }
        if guessed == self.guesses {
            // A mean of several phases, because one is noisy, but of few, because the load changes.
            self.best = match self.since {
                0 => mean,
                _ => self.best + (mean - self.best) / 4.0,
            };
            if self.since == 0 {
                self.wrong = wrong;
            }
            self.since += 1;
            // If the current mode has become worse than the other was, the other may be better now.
            let changed = self.best > self.other || (wrong - self.wrong).abs() > CHANGE;
            let tries = changed && self.since >= PHASES_MIN || self.since >= self.interval;
            return self.guesses != tries;
        }
        debug_assert!((PHASES_MIN..=PHASES_MAX).contains(&self.interval));
        self.other = mean;
        if mean < self.best {
            // The former mode is tried again soon, because one phase alone may mislead.
            self.guesses = guessed;
            std::mem::swap(&mut self.best, &mut self.other);
            self.interval = PHASES_MIN;
        } else {
            let loss = mean / self.best.max(1.0) - 1.0;
            let phases = (loss / TRIALS_COST) as u64;
            self.interval = phases.clamp(PHASES_MIN, PHASES_MAX);
        }
        self.since = 0;
        self.guesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// A memory node behind a port, and clients that each do one access after the other.
    #[derive(Clone, Copy)]
    struct GateNetworkModel {
        clients: usize,
        round_trip_ns: f64,
        bytes_per_ns: f64,
        /// Minimum time of the port for a message.
        message_ns: f64,
        /// The share of wrong guesses.
        wrong: f64,
    }

    const ENTRY_BYTES: f64 = 21.0;
    const WINDOW_BYTES: f64 = 165.0;

    enum GateTestPolicy<'g> {
        Always(bool),
        /// Gates that the clients share by turns.
        Gates(&'g [SpeculationGate]),
    }

    impl GateNetworkModel {
        /// Returns the nanoseconds of `accesses` accesses.
        fn run(&self, accesses: usize, policy: &GateTestPolicy<'_>, seed: u64) -> f64 {
            let random = &mut SmallRng::seed_from_u64(seed);
            // The times at which clients' messages arrive at the port, in picoseconds so that they
            // are ordered.
            let mut arrivals: BinaryHeap<Reverse<(u64, usize)>> = (0..self.clients)
                .map(|client| Reverse((client as u64, client)))
                .collect();
            struct GateTestClient {
                began: f64,
                access: SpeculationAccess,
                /// Set if the next message reads only the entry.
                guesses: bool,
                wrong: bool,
                gate: usize,
            }
            let mut begin = |client: usize, now: f64| {
                let (access, gate) = match policy {
                    GateTestPolicy::Always(guesses) => {
                        let phase = u64::from(*guesses);
                        (SpeculationAccess { phase }, 0)
                    }
                    GateTestPolicy::Gates(gates) => {
                        let gate = client % gates.len();
                        (gates[gate].ask(), gate)
                    }
                };
                GateTestClient {
                    began: now,
                    access,
                    guesses: access.guesses(),
                    wrong: random.random_bool(self.wrong),
                    gate,
                }
            };
            let mut clients: Vec<GateTestClient> =
                (0..self.clients).map(|client| begin(client, 0.0)).collect();
            let (mut free, mut now, mut done) = (0.0_f64, 0.0, 0);
            while done < accesses {
                let Some(Reverse((at, number))) = arrivals.pop() else {
                    break;
                };
                now = at as f64 / 1000.0;
                let client = &mut clients[number];
                let bytes = if client.guesses {
                    ENTRY_BYTES
                } else {
                    WINDOW_BYTES
                };
                free = free.max(now) + (bytes / self.bytes_per_ns).max(self.message_ns);
                let answered = free + self.round_trip_ns;
                if client.guesses && client.wrong {
                    client.guesses = false;
                } else {
                    done += 1;
                    if let GateTestPolicy::Gates(gates) = policy {
                        let took = Duration::from_nanos((answered - client.began) as u64);
                        gates[client.gate].record(client.access, !client.wrong, took);
                    }
                    *client = begin(number, answered);
                }
                arrivals.push(Reverse(((answered * 1000.0) as u64, number)));
            }
            now
        }

        /// Returns the relative loss of a gate against the better mode, and the loss of the worse
        /// mode.
        fn loss(&self, gates: usize) -> (f64, f64, bool) {
            const ACCESSES: usize = 3_000_000;
            let always = |guesses| self.run(ACCESSES, &GateTestPolicy::Always(guesses), 1);
            let (off, on) = (always(false), always(true));
            let gates: Vec<SpeculationGate> =
                (0..gates).map(|_| SpeculationGate::default()).collect();
            let takes = self.run(ACCESSES, &GateTestPolicy::Gates(&gates), 1);
            let best = off.min(on);
            (takes / best - 1.0, off.max(on) / best - 1.0, on < off)
        }
    }

    /// A link of 100 Gb/s, with many clients or few.
    const FABRIC: GateNetworkModel = GateNetworkModel {
        clients: 4,
        round_trip_ns: 2100.0,
        bytes_per_ns: 12.5,
        message_ns: 1.0,
        wrong: 0.05,
    };

    fn check(network: GateNetworkModel, gates: usize, guesses: bool, worse: f64) {
        let (loss, other, on) = network.loss(gates);
        eprintln!("guesses {on}: the gate loses {loss:.4}, the worse choice {other:.3}");
        assert_eq!(on, guesses, "the better choice, by {other}");
        assert!(other > worse, "the worse choice loses {other}");
        assert!(
            loss < 0.01,
            "the gate loses {loss}, the worse choice {other}"
        );
    }

    #[test]
    fn it_guesses_where_bytes_are_scarce() {
        let many = GateNetworkModel {
            clients: 400,
            ..FABRIC
        };
        check(many, 1, true, 0.5);
        let often_wrong = GateNetworkModel { wrong: 0.5, ..many };
        check(often_wrong, 1, true, 0.2);
        // Each of several compute nodes decides on its own.
        check(many, 4, true, 0.5);
    }

    #[test]
    fn it_does_not_where_each_access_costs_the_same() {
        check(FABRIC, 1, false, 0.02);
        let wrong = GateNetworkModel {
            wrong: 0.6,
            ..FABRIC
        };
        check(wrong, 1, false, 0.5);
        // Loads and stores: low latencies, and lines instead of messages.
        let cxl = GateNetworkModel {
            clients: 16,
            round_trip_ns: 300.0,
            bytes_per_ns: 50.0,
            ..FABRIC
        };
        check(cxl, 1, false, 0.02);
        // The port is limited by messages and not by bytes.
        let messages = GateNetworkModel {
            clients: 400,
            message_ns: 14.0,
            wrong: 0.2,
            ..FABRIC
        };
        check(messages, 1, false, 0.1);
    }

    #[test]
    fn it_notices_that_guesses_have_become_wrong_and_right_again() {
        let gate = [SpeculationGate::default()];
        let slow = GateNetworkModel {
            bytes_per_ns: 0.1,
            ..FABRIC
        };
        let runs = [0.01, 0.95, 0.01].map(|wrong| {
            let network = GateNetworkModel { wrong, ..slow };
            let always = |guesses| network.run(1_000_000, &GateTestPolicy::Always(guesses), 2);
            let (off, on) = (always(false), always(true));
            let takes = network.run(1_000_000, &GateTestPolicy::Gates(&gate), 2);
            (takes, off.min(on), on < off)
        });
        assert_eq!(runs.map(|(.., on)| on), [true, false, true]);
        let takes: f64 = runs.iter().map(|(takes, ..)| takes).sum();
        let best: f64 = runs.iter().map(|(_, best, _)| best).sum();
        assert!(takes < best * 1.01, "{runs:?}");
    }

    #[test]
    fn equal_times_give_equal_decisions() {
        let decisions = || {
            let gate = SpeculationGate::default();
            let decide = |number: u64| {
                let access = gate.ask();
                let took = number * 7 % 5 + u64::from(access.guesses());
                gate.record(access, true, Duration::from_nanos(took));
                access.guesses()
            };
            (0..100_000).map(decide).collect::<Vec<_>>()
        };
        let once = decisions();
        assert!(once == decisions() && once.contains(&true));
    }

    #[test]
    fn threads_share_it() {
        let gate = &SpeculationGate::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..200_000 {
                        let access = gate.ask();
                        let took = if access.guesses() { 2000 } else { 3000 };
                        gate.record(access, true, Duration::from_nanos(took));
                    }
                });
            }
        });
        let judgement = gate.judgement.lock().expect("no thread has panicked");
        assert!(judgement.guesses, "{judgement:?}");
    }
}
