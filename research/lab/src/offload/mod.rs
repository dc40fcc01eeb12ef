//! Traversal programs at a memory node: the speed of a core that runs them one at a time and
//! interleaved, compared with interleaved code that was written by hand for one structure. Also
//! [aggregates of maps in the pool](PoolAggregate), and [hops from node to node](HopsLatency).

mod applications;
mod by_hand;
mod hops;
mod memory;
mod pool_aggregate;
mod structures;

use crate::clock::thread_cpu_time;
use crate::figures::{ClaimBasis, ClaimDirection, PaperClaim};
use crate::harness::{Completion, Interrupt, MeasurementSample, in_turns};
use crate::report::{NumberOrigin, ReportRow};
pub use applications::{
    ApplicationError, ApplicationsPlan, DeploymentResult, SealError, measure_applications,
};
pub use hops::{HopsLatency, HopsPlan, hops_claim, measure_hops};
use memory::BenchMemory;
pub use nearfield_offload::node::SLOTS;
use nearfield_offload::node::{
    InterleavedTraversals, LocalMemory, RangeError, Tenant, TraversalJob,
};
use nearfield_offload::structures::programs::{ENTRY_VALUE, FOUND};
use nearfield_offload::traversal::{ProgramEngine, TraversalQuery, TraversalStatus};
pub use pool_aggregate::{AggregatePlan, PoolAggregate, aggregate_claim, measure_aggregate};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use structures::{LookupStructure, key, value};

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct LookupPlan {
    /// Bytes over which the nodes are spread.
    pub bytes: u64,
    /// Number of interleaved traversals.
    pub slots: usize,
    /// Number of turns of each contestant.
    pub rounds: usize,
    /// Length of a turn, in CPU time.
    pub turn: Duration,
}

/// The contestants' results for one structure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lookups {
    /// The structure.
    pub structure: String,
    /// Number of its nodes.
    pub nodes: u64,
    /// Bytes over which they are spread.
    pub bytes: u64,
    /// Bytes of these in pages of 2 MiB.
    pub huge_page_bytes: u64,
    /// Number of interleaved traversals.
    pub slots: usize,
    /// Mean iterations of a lookup.
    pub iterations: f64,
    /// Nanoseconds of a lookup by native code, one at a time.
    pub one_at_a_time_ns: f64,
    /// Nanoseconds of a lookup by native code, interleaved.
    pub interleaved_ns: f64,
    /// Nanoseconds of a lookup by interleaved code written by hand.
    pub by_hand_ns: f64,
    /// Speedup of interleaving over one at a time: the median of the rounds.
    pub interleaving_gain: f64,
    /// The rate of interleaved native code divided by that of the code written by hand.
    pub of_by_hand: f64,
}

/// Returns the claims of lookups. Each has the lowest number of all structures.
pub fn claims(rows: &[ReportRow<Lookups>]) -> Vec<PaperClaim> {
    let least = |of: fn(&Lookups) -> f64| rows.iter().map(|row| of(&row.detail)).reduce(f64::min);
    vec![
        claim(
            "ours.interleaved",
            "Interleaved native code has the rate of native code that runs one lookup at a time on \
             the same core, times this factor; the goal is 8",
            least(|row| row.interleaving_gain),
        ),
        claim(
            "ours.handwritten",
            "Interleaved native code of programs has this share of the rate of interleaved code \
             that was written by hand for the structure; the goal is 0.7",
            least(|row| row.of_by_hand),
        ),
    ]
}

/// Creates a measured claim, as a factor.
fn claim(id: &str, text: &str, ours: Option<f64>) -> PaperClaim {
    PaperClaim {
        id: id.to_owned(),
        text: text.to_owned(),
        paper: None,
        ours,
        unit: "x".to_owned(),
        kind: NumberOrigin::Measured,
        direction: ClaimDirection::Equal,
        basis: ClaimBasis::Predicted,
    }
}

/// Reason why programs cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// Memory that is missing.
    #[error("no memory for the nodes: {0}")]
    Memory(String),
    /// Memory that cannot be divided into ranges.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// A processor without support for native code.
    #[error("there is no native code on this processor")]
    NoNativeCode,
    /// A missing requirement, such as UCX.
    #[error("{0}")]
    Unavailable(String),
    /// A result that differs from the stored value.
    #[error("{contestant} returned wrong values for the {structure}")]
    Wrong {
        /// The contestant.
        contestant: &'static str,
        /// The structure.
        structure: &'static str,
    },
    /// A request of the user to stop.
    #[error("interrupted")]
    Interrupted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupContestant {
    OneAtATime,
    Interleaved,
    ByHand,
}

impl LookupContestant {
    fn name(self) -> &'static str {
        match self {
            LookupContestant::OneAtATime => "native code, one at a time",
            LookupContestant::Interleaved => "native code, interleaved",
            LookupContestant::ByHand => "by hand, interleaved",
        }
    }
}

/// Number of lookups between two readings of the clock.
const CHUNK: u64 = 4096;

/// Measures hash table and tree. `show_step` receives the present step.
///
/// # Errors
/// See [`OffloadError`].
pub fn measure(
    plan: &LookupPlan,
    interrupt: &Interrupt,
    show_step: &mut dyn FnMut(&str),
) -> Result<Vec<ReportRow<Lookups>>, OffloadError> {
    show_step(&format!("providing {} MiB of memory", plan.bytes >> 20));
    let memory = BenchMemory::new(plan.bytes)?;
    let mut rows = Vec::new();
    for structure in [
        LookupStructure::hash_table(plan.bytes),
        LookupStructure::tree(plan.bytes),
    ] {
        if interrupt.is_raised() {
            return Err(OffloadError::Interrupted);
        }
        let (name, nodes) = (structure.name(), structure.nodes());
        show_step(&format!("filling a {name} of {nodes} nodes"));
        structure.fill(memory.words());
        show_step(&format!("looking up keys in the {name}"));
        let local = LocalMemory::new(memory.words(), structure.ranges()?)?;
        let lookups = lookups(
            plan,
            &structure,
            &local,
            memory.huge_page_bytes(),
            interrupt,
        )?;
        rows.push(ReportRow {
            rate_mops: Some(1e3 / lookups.interleaved_ns),
            ..ReportRow::new(lookups.structure.clone(), NumberOrigin::Measured, lookups)
        });
    }
    Ok(rows)
}

fn lookups(
    plan: &LookupPlan,
    structure: &LookupStructure,
    memory: &LocalMemory<'_>,
    huge_page_bytes: u64,
    interrupt: &Interrupt,
) -> Result<Lookups, OffloadError> {
    let engine = ProgramEngine::new(structure.program());
    if !matches!(engine, ProgramEngine::Native(_)) {
        return Err(OffloadError::NoNativeCode);
    }
    let mut contestants = [
        (LookupContestant::OneAtATime, Vec::new()),
        (LookupContestant::Interleaved, Vec::new()),
        (LookupContestant::ByHand, Vec::new()),
    ];
    let (mut all_iterations, mut all_lookups) = (0, 0);
    let act = |round: usize, (contestant, times): &mut (LookupContestant, Vec<f64>)| {
        // All contestants of a round look up the same keys.
        let mut random = SmallRng::seed_from_u64(round as u64);
        let wrong = || OffloadError::Wrong {
            contestant: contestant.name(),
            structure: structure.name(),
        };
        let slots = match contestant {
            LookupContestant::OneAtATime => 1,
            LookupContestant::Interleaved | LookupContestant::ByHand => plan.slots,
        };
        let (mut spent, mut chunks) = (Duration::ZERO, 0);
        while spent < plan.turn {
            let keys: Vec<u64> = (0..CHUNK)
                .map(|_| key(random.random_range(0..structure.nodes())))
                .collect();
            let start = thread_cpu_time();
            let is_right = match contestant {
                LookupContestant::ByHand => structure.by_hand(memory.words(), &keys, slots),
                _ => {
                    let run = by_program(structure, &engine, memory, &keys, slots);
                    all_iterations += run.1;
                    all_lookups += CHUNK;
                    run.0
                }
            };
            // The first chunk only fills the caches.
            if chunks > 0 {
                spent += thread_cpu_time() - start;
            }
            if !is_right {
                return Err(wrong());
            }
            chunks += 1;
        }
        debug_assert!(chunks > 1, "the first chunk has no time");
        times.push(spent.as_nanos() as f64 / (CHUNK * (chunks - 1)) as f64);
        Ok(())
    };
    let completion = in_turns(plan.rounds, &mut contestants, interrupt, act)?;
    if completion == Completion::Interrupted {
        return Err(OffloadError::Interrupted);
    }
    let [one, interleaved, by_hand] = contestants.map(|(_, times)| times);
    let ratio = |over: &[f64], under: &[f64]| {
        median(over.iter().zip(under).map(|(over, under)| over / under))
    };
    Ok(Lookups {
        structure: structure.name().to_owned(),
        nodes: structure.nodes(),
        bytes: plan.bytes,
        huge_page_bytes,
        slots: plan.slots,
        iterations: all_iterations as f64 / all_lookups.max(1) as f64,
        interleaving_gain: ratio(&one, &interleaved),
        of_by_hand: ratio(&by_hand, &interleaved),
        one_at_a_time_ns: median(one.into_iter()),
        interleaved_ns: median(interleaved.into_iter()),
        by_hand_ns: median(by_hand.into_iter()),
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    MeasurementSample::new(values.collect()).map_or(f64::NAN, |sample| sample.median())
}

/// Runs lookups by the program; returns whether all results are right, and the iterations.
fn by_program(
    structure: &LookupStructure,
    engine: &ProgramEngine,
    memory: &LocalMemory<'_>,
    keys: &[u64],
    slots: usize,
) -> (bool, u64) {
    debug_assert!(slots > 0, "no key would be looked up");
    let mut interleaved = InterleavedTraversals::new(memory, slots);
    let (mut right, mut iterations) = (true, 0);
    let mut keys = keys.iter().copied();
    let mut query = TraversalQuery::new(engine.program(), 0, &[]);
    loop {
        while interleaved.has_room()
            && let Some(key) = keys.next()
        {
            query.start = structure.start(key);
            for (to, from) in query.scratchpad.iter_mut().zip(key.to_le_bytes()) {
                *to = from;
            }
            let job = TraversalJob::new(engine, Tenant::default(), &query, u64::MAX, key);
            // The loop has checked that there is room.
            let _ = interleaved.admit(job);
        }
        if interleaved.active() == 0 {
            return (right, iterations);
        }
        // A traversal that is alone continues at once: no other would use the time of its loads.
        interleaved.turn_alone(usize::MAX, |ended| {
            iterations += ended.iterations;
            right &= ended.status == TraversalStatus::Done
                && word(ended.scratchpad, FOUND) == 1
                && word(ended.scratchpad, ENTRY_VALUE) == value(ended.tag);
        });
    }
}

fn word(scratchpad: &[u8], number: usize) -> u64 {
    let bytes = scratchpad.get(8 * number..8 * number + 8);
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_has_both_structures_and_right_answers() {
        let plan = LookupPlan {
            bytes: 4 << 20,
            slots: 8,
            rounds: 3,
            turn: Duration::from_millis(5),
        };
        let rows = measure(&plan, &Interrupt::default(), &mut |_| ()).expect("both are measured");
        let names: Vec<&str> = rows.iter().map(|row| row.peer.as_str()).collect();
        assert_eq!(names, ["hash table", "tree"]);
        let claims = claims(&rows);
        assert!(
            claims.iter().all(|claim| claim.ours.is_some()),
            "{claims:?}"
        );
        for row in rows {
            let detail = row.detail;
            assert!(detail.iterations >= 1.0 && detail.interleaved_ns > 0.0);
            assert!(detail.interleaving_gain > 0.0 && detail.of_by_hand > 0.0);
        }
    }

    #[test]
    fn wrong_values_are_found() {
        let structure = LookupStructure::hash_table(1 << 20);
        let memory = BenchMemory::new(1 << 20).expect("a little memory");
        structure.fill(memory.words());
        let local = LocalMemory::new(memory.words(), structure.ranges().expect("one range"));
        let local = local.expect("it is in memory");
        let engine = ProgramEngine::new(structure.program());
        let keys: Vec<u64> = (0..100).map(key).collect();
        assert!(by_program(&structure, &engine, &local, &keys, 4).0);
        assert!(structure.by_hand(memory.words(), &keys, 4));
        structure.spoil(memory.words(), keys[50]);
        assert!(!by_program(&structure, &engine, &local, &keys, 4).0);
        assert!(!structure.by_hand(memory.words(), &keys, 4));
    }
}
