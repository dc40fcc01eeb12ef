//! The gate that chooses the share of accesses that guess, by the load of a link.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of parts of all accesses, in which the share that guesses is counted.
const PARTS: u64 = 64;
/// Step that spreads the accesses that guess among the others: an odd number, so that it visits all
/// parts.
const SPREAD: u64 = 39;

const _: () = assert!(
    SPREAD & 1 == 1 && PARTS.is_power_of_two(),
    "the spread visits all parts"
);
/// Maximum change of the share after a phase, in parts.
const STEP_MAX: u64 = 16;
/// Number of reads in a phase.
const PHASE: u64 = 512;
/// Mean wait of reads when a link is full, as a part of the quickest read's time. A read of a few
/// more lines waits less, and so do reads of a link that is nine tenths full.
const WAIT: f64 = 0.25;

/// A gate that chooses how many accesses guess, for guesses that cost the processor more time than
/// they save for themselves, but spare the link: the share grows while reads wait for the link, and
/// shrinks while they do not.
///
/// A client that compares only its own times never guesses in that case, because its own guess does
/// not shorten its own wait: the guesses of all others do
/// ([`SpeculationGate`](crate::SpeculationGate) is such a comparison). While reads wait, the link
/// is the bottleneck, so fewer bytes allow more accesses, whatever time a processor needs besides.
/// While they do not wait, processors are the bottleneck. So the best share is the least one
/// without a wait, and the gates of all compute nodes converge there together, without a message.
///
/// The gate knows no sizes and no rates. The wait is the mean time of a read less that of the
/// quickest one ever. So a gate that has never seen the link idle underestimates the wait. One part
/// in 64 always guesses, so that former slots are known when guesses begin to pay. Times are the
/// caller's, of any clock; equal ones give equal decisions.
///
/// ```
/// use nearfield_hotness::LinkGate;
/// use std::time::Duration;
///
/// let gate = LinkGate::default();
/// gate.note_read(Duration::from_nanos(250));
/// assert!(gate.share() < 0.1);
/// for _ in 0..20_000 {
///     // The others' reads are before it.
///     gate.note_read(Duration::from_nanos(2250));
/// }
/// assert!(gate.share() > 0.9);
/// ```
#[derive(Debug)]
pub struct LinkGate {
    /// Number of accesses that have asked.
    asked: AtomicU64,
    /// Number of parts that guess: at least one.
    parts: AtomicU64,
    /// Time of the quickest read, in nanoseconds.
    quickest: AtomicU64,
    /// Number of reads of the phase, and of their nanoseconds.
    count: AtomicU64,
    nanoseconds: AtomicU64,
    /// The last change. Its lock is taken once per phase.
    pace: Mutex<LinkShareStep>,
}

/// The last change of the share.
#[derive(Debug)]
struct LinkShareStep {
    grows: bool,
    step: u64,
}

impl LinkShareStep {
    /// Returns the next change in this direction: twice the last one if that had the same
    /// direction.
    fn next(&mut self, grows: bool) -> u64 {
        // The share thus adapts quickly when the load has changed, and changes little when it has
        // not.
        self.step = match self.grows == grows {
            true => (2 * self.step).min(STEP_MAX),
            false => 1,
        };
        self.grows = grows;
        self.step
    }
}

impl Default for LinkGate {
    /// Creates a gate with which hardly any access guesses initially.
    fn default() -> LinkGate {
        LinkGate {
            asked: AtomicU64::new(0),
            parts: AtomicU64::new(1),
            quickest: AtomicU64::new(u64::MAX),
            count: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            pace: Mutex::new(LinkShareStep {
                grows: true,
                step: 1,
            }),
        }
    }
}

impl LinkGate {
    /// Returns true if an access must guess, and note what would help later guesses.
    pub fn ask(&self) -> bool {
        let number = self.asked.fetch_add(1, Relaxed);
        number.wrapping_mul(SPREAD) % PARTS < self.parts.load(Relaxed)
    }

    /// Returns the share of accesses that guess.
    pub fn share(&self) -> f64 {
        self.parts.load(Relaxed) as f64 / PARTS as f64
    }

    /// Notes the duration of one read over the link.
    pub fn note_read(&self, took: Duration) {
        if took.is_zero() {
            // If loading takes no time, it does not show the link's load.
            return;
        }
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.quickest.fetch_min(took, Relaxed);
        self.nanoseconds.fetch_add(took, Relaxed);
        if self.count.fetch_add(1, Relaxed) + 1 >= PHASE {
            self.judge();
        }
    }

    /// Changes the share at the end of a phase, unless another thread does. Reads that other
    /// threads note meanwhile count for this phase or the next, or are lost.
    fn judge(&self) {
        let Ok(mut pace) = self.pace.try_lock() else {
            return;
        };
        let count = self.count.load(Relaxed);
        if count < PHASE {
            // Another thread has judged this phase meanwhile.
            return;
        }
        let mean = self.nanoseconds.load(Relaxed) as f64 / count as f64;
        let quickest = self.quickest.load(Relaxed) as f64;
        let parts = self.parts.load(Relaxed);
        debug_assert!(
            (1..=PARTS).contains(&parts),
            "only this lock's holder changes them"
        );
        let waits = mean > quickest * (1.0 + WAIT);
        let step = pace.next(waits);
        let parts = match waits {
            true => (parts + step).min(PARTS),
            // One part always guesses, so that former slots are known once guesses pay.
            false => parts.saturating_sub(step).max(1),
        };
        self.parts.store(parts, Relaxed);
        self.nanoseconds.store(0, Relaxed);
        self.count.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// Clients of several compute nodes that share a link, each with one access at a time.
    #[derive(Clone, Copy)]
    struct SharedLinkModel {
        nodes: usize,
        clients: usize,
        /// Processor time of an access, and the additional time if it guesses.
        processor_ns: f64,
        guess_ns: f64,
        /// Time of a read without a wait, and the link's time with a guess and without.
        latency_ns: f64,
        line_ns: [f64; 2],
    }

    /// The link of the model of memory attached by CXL: one line or three, over 24 GB/s.
    const SHARED: SharedLinkModel = SharedLinkModel {
        nodes: 10,
        clients: 640,
        processor_ns: 1500.0,
        guess_ns: 408.0,
        latency_ns: 250.0,
        line_ns: [8.0, 3.0],
    };

    impl SharedLinkModel {
        /// Returns the accesses per microsecond, in the second half of a run. `None`: the gates
        /// decide.
        fn rate(&self, fixed: Option<bool>) -> f64 {
            const ACCESSES: usize = 2_000_000;
            let gates: Vec<LinkGate> = (0..self.nodes).map(|_| LinkGate::default()).collect();
            for gate in &gates {
                gate.note_read(Duration::from_nanos(self.latency_ns as u64));
            }
            let mut posts: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
            let mut accesses = vec![false; self.clients];
            let begin = |client: usize, now: f64, posts: &mut BinaryHeap<_>| {
                let guesses = fixed.unwrap_or_else(|| gates[client % self.nodes].ask());
                let guess = if guesses { self.guess_ns } else { 0.0 };
                posts.push(Reverse((
                    ((now + self.processor_ns + guess) * 1000.0) as u64,
                    client,
                )));
                guesses
            };
            for (client, access) in accesses.iter_mut().enumerate() {
                *access = begin(client, client as f64, &mut posts);
            }
            let (mut free, mut now, mut half) = (0.0_f64, 0.0, 0.0);
            for number in 0..ACCESSES {
                let Some(Reverse((at, client))) = posts.pop() else {
                    break;
                };
                now = at as f64 / 1000.0;
                if number == ACCESSES / 2 {
                    half = now;
                }
                let guesses = accesses[client];
                free = free.max(now) + self.line_ns[usize::from(guesses)];
                let done = free + self.latency_ns;
                let gate = &gates[client % self.nodes];
                gate.note_read(Duration::from_nanos((done - now) as u64));
                accesses[client] = begin(client, done, &mut posts);
            }
            (ACCESSES / 2) as f64 / (now - half) * 1000.0
        }

        /// Returns the rates if none guesses, if all do, and if the gates decide.
        fn rates(&self) -> [f64; 3] {
            let rates = [Some(false), Some(true), None].map(|fixed| self.rate(fixed));
            eprintln!("none, all, gates: {rates:.1?}");
            rates
        }
    }

    #[test]
    fn all_guess_where_the_link_is_full() {
        let [none, all, gates] = SHARED.rates();
        assert!(all > 1.5 * none, "{none} {all}");
        assert!(gates > 0.97 * all, "{gates} of {all}");
    }

    #[test]
    fn none_guesses_where_processors_are_the_limit() {
        let few = SharedLinkModel {
            nodes: 1,
            clients: 64,
            ..SHARED
        };
        let [none, all, gates] = few.rates();
        assert!(none > 1.1 * all, "{none} {all}");
        assert!(gates > 0.98 * none, "{gates} of {none}");
    }

    #[test]
    fn a_share_guesses_where_that_is_better_than_none_or_all() {
        let between = SharedLinkModel {
            clients: 280,
            ..SHARED
        };
        let [none, all, gates] = between.rates();
        assert!(gates > none.max(all), "{gates}: {none} {all}");
    }

    #[test]
    fn threads_share_it() {
        let gate = &LinkGate::default();
        gate.note_read(Duration::from_nanos(250));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..50_000 {
                        gate.ask();
                        gate.note_read(Duration::from_nanos(2250));
                    }
                });
            }
        });
        assert!(gate.share() > 0.9, "{}", gate.share());
    }
}
