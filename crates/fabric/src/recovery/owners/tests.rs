//! Processes that claim numbers, beat late, die, and have wrong clocks.

use super::*;
use crate::address::NodeId;
use crate::recovery::lease::PriorLockState;
use crate::transport::sim::{Delivery, FabricSimulation, SimEndpoint, SkewedClockEndpoint};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

const NODE: NodeId = NodeId(0);
const TABLE: GlobalAddress = GlobalAddress::new(NODE, 256);
const LOCK: GlobalAddress = GlobalAddress::new(NODE, 128);
const LEASE: Duration = Duration::from_millis(2);
const SLOTS: u16 = 3;
const PROCESSES: u32 = 7;

fn simulation(seed: u64) -> FabricSimulation {
    FabricSimulation::with_nodes(seed, Delivery::TornWords, [1 << 16]).0
}

fn seeds(default: u64) -> u64 {
    let more = std::env::var("NEARFIELD_SEEDS").ok();
    more.and_then(|text| text.parse().ok()).unwrap_or(default)
}

type Clock = SkewedClockEndpoint<SimEndpoint>;

/// A claim of a process, removed from the ledger when the process ends.
struct OwnerClaimHolder {
    process: u32,
    claim: Rc<OwnerNumberClaim>,
    clock: Clock,
}

#[derive(Default)]
struct OwnerClaimLedger {
    holders: Vec<OwnerClaimHolder>,
    /// The first number and the incarnation of each claim so far.
    claims: HashSet<(u16, u32)>,
    /// The faults found.
    faults: Vec<String>,
    taken_from_the_dead: u32,
    /// The last process that held the lock.
    inside: Option<u32>,
}

impl OwnerClaimLedger {
    /// Checks, at a claim or a beat, that no other process relies on its numbers.
    fn check(&mut self, process: u32, claim: &OwnerNumberClaim) {
        for other in &self.holders {
            let same = other.claim.numbers() == claim.numbers();
            if same && other.process != process && other.claim.is_safe(&other.clock) {
                let numbers = claim.numbers();
                let other = other.process;
                self.faults
                    .push(format!("{process} and {other} have {numbers:?}"));
            }
        }
    }

    /// Notes that a process releases the lock, which it believes to hold.
    fn leave(&mut self, process: u32) {
        if self.inside != Some(process) {
            let fault = format!("{process} and {:?} are behind the lock", self.inside);
            self.faults.push(fault);
        }
    }
}

/// A guard that removes a process's entries from the ledger, even when the process dies.
struct Alive {
    process: u32,
    ledger: Rc<RefCell<OwnerClaimLedger>>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        let mut ledger = self.ledger.borrow_mut();
        ledger
            .holders
            .retain(|holder| holder.process != self.process);
    }
}

/// Runs one process: claims, works, and releases, keeps or forgets its numbers.
async fn process(
    number: u32,
    patience: Duration,
    clock: Clock,
    mut random: SmallRng,
    ledger: Rc<RefCell<OwnerClaimLedger>>,
) {
    let table = OwnerTable::new(TABLE, SLOTS, OWNERS, patience);
    for _ in 0..3 {
        let alive = Alive {
            process: number,
            ledger: Rc::clone(&ledger),
        };
        let claim = match table.claim(&clock).await {
            Ok(mut claim) => {
                claim.table.lease = LEASE;
                Rc::new(claim)
            }
            Err(OwnersError::Full { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        {
            let mut ledger = ledger.borrow_mut();
            let is_new = ledger
                .claims
                .insert((claim.numbers().start, claim.incarnation()));
            assert!(is_new, "{claim:?} was claimed before");
            ledger.check(number, &claim);
            ledger.holders.push(OwnerClaimHolder {
                process: number,
                claim: Rc::clone(&claim),
                clock: clock.clone(),
            });
        }
        let locker = claim.locker(0, LEASE / 4);
        for _ in 0..random.random_range(1..30) {
            // Sometimes the process sleeps so long that the claim is lost.
            let late = random.random_ratio(1, 12);
            let most = if late { LEASE * 2 } else { LEASE / 8 };
            clock.sleep(most.mul_f64(random.random())).await;
            if claim.is_safe(&clock) && random.random_ratio(1, 2) {
                work(number, &locker, &clock, &ledger).await;
            }
            match claim.beat(&clock).await {
                Ok(()) => ledger.borrow_mut().check(number, &claim),
                Err(OwnersError::Lost { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        drop(alive);
        if random.random_ratio(1, 2) {
            let claim = Rc::into_inner(claim).expect("no other process has it");
            claim.release(&clock).await.expect("a node");
        }
    }
}

/// Takes the lock and works under it.
async fn work(number: u32, locker: &Locker, clock: &Clock, ledger: &RefCell<OwnerClaimLedger>) {
    let held = locker.lock(clock, LOCK).await.expect("a node");
    if !held.is_safe(clock) {
        return;
    }
    if let PriorLockState::Abandoned(_) = held.before {
        ledger.borrow_mut().taken_from_the_dead += 1;
    }
    ledger.borrow_mut().inside = Some(number);
    clock.sleep(LEASE / 100).await;
    if held.is_safe(clock) {
        ledger.borrow_mut().leave(number);
        clock
            .write(LOCK, &0_u64.to_le_bytes())
            .await
            .expect("a node");
    }
}

/// Runs processes, some of which die; a claimant considers a claim unused after `patience`.
fn run(seed: u64, patience: Duration) -> (Vec<String>, Rc<RefCell<OwnerClaimLedger>>) {
    let mut simulation = simulation(seed);
    let mut random = SmallRng::seed_from_u64(seed);
    let ledger = Rc::new(RefCell::new(OwnerClaimLedger::default()));
    for number in 0..PROCESSES {
        // The fastest clock is less than twice as fast as the slowest.
        let clock =
            SkewedClockEndpoint::new(simulation.endpoint(number), random.random_range(70..=135));
        let random = SmallRng::seed_from_u64(random.random());
        let task = process(number, patience, clock, random, Rc::clone(&ledger));
        simulation.spawn(number, task);
    }
    for number in 0..PROCESSES {
        if random.random_ratio(1, 2) {
            simulation.kill_at_verb(number, random.random_range(0..60));
        }
    }
    assert_eq!(simulation.run(), 0, "seed {seed}");
    let faults = std::mem::take(&mut ledger.borrow_mut().faults);
    (faults, ledger)
}

#[test]
fn no_two_that_live_have_the_same_numbers() {
    let (mut claims, mut locks) = (0, 0);
    for seed in 0..seeds(700) {
        let (faults, ledger) = run(seed, LEASE);
        assert!(faults.is_empty(), "seed {seed}: {faults:?}");
        claims += ledger.borrow().claims.len();
        locks += ledger.borrow().taken_from_the_dead;
    }
    // More claims than the table has slots, so slots were claimed again, including those of dead
    // processes.
    assert!(
        claims as u64 > seeds(700) * 6 && locks > 0,
        "{claims} claims, {locks} locks"
    );
}

#[test]
fn claims_of_the_impatient_are_found_out() {
    let is_found = |seed: &u64| !run(*seed, LEASE / 8).0.is_empty();
    assert!((0..200).any(|seed| is_found(&seed)));
}

fn full_table() -> OwnerTable {
    OwnerTable::new(TABLE, 1, OWNERS, LEASE)
}

#[test]
fn numbers_are_divided_among_slots() {
    let mut simulation = simulation(1);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        // The words are not all zero.
        endpoint.write(TABLE, &[0xff; 24]).await.unwrap();
        let table = OwnerTable::new(TABLE, SLOTS, OWNERS, LEASE);
        table.clear(&endpoint).await.unwrap();
        let mut claims = Vec::new();
        for _ in 0..SLOTS {
            claims.push(table.claim(&endpoint).await.unwrap());
        }
        let mut numbers: Vec<_> = claims.iter().map(OwnerNumberClaim::numbers).collect();
        numbers.sort_by_key(|numbers| numbers.start);
        assert_eq!(numbers, [0..10922, 10922..21844, 21844..32766]);
        assert!(claims.iter().all(|claim| claim.incarnation() == 1));
        // A released slot is free at once, and the least used slot is claimed first.
        let middle = claims.swap_remove(1);
        let numbers = middle.numbers();
        let began = endpoint.now();
        middle.beat(&endpoint).await.unwrap();
        middle.release(&endpoint).await.unwrap();
        let again = table.claim(&endpoint).await.unwrap();
        assert!(endpoint.now() - began < LEASE / 4);
        assert_eq!((again.numbers(), again.incarnation()), (numbers, 2));
        claims.pop().unwrap().release(&endpoint).await.unwrap();
        again.release(&endpoint).await.unwrap();
        let fresh = table.claim(&endpoint).await.unwrap();
        assert_eq!(fresh.incarnation(), 2);
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn the_numbers_of_the_dead_are_had_after_a_lease_and_those_of_the_living_never() {
    let mut simulation = simulation(1);
    let (living, endpoint) = (simulation.endpoint(0), simulation.endpoint(1));
    let (stop, stopped) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (last, beats) = (Rc::new(Cell::new(Duration::ZERO)), Rc::clone(&stopped));
    let (stops, ends) = (Rc::clone(&stop), Rc::clone(&last));
    simulation.spawn(0, async move {
        let claim = full_table().claim(&living).await.unwrap();
        let locker = claim.locker(5, LEASE);
        let held = locker.lock(&living, LOCK).await.unwrap();
        assert_eq!(held.word >> 36, (1 << 27 | 5 << 12 | 1));
        while !stops.get() {
            claim.beat(&living).await.unwrap();
            ends.set(living.now());
            living.sleep(LEASE / BEATS_PER_LEASE).await;
        }
        beats.set(true);
        living.sleep(LEASE * 2).await;
        assert!(!claim.is_safe(&living));
        let lost = claim.beat(&living).await.unwrap_err().to_string();
        let expected = "the owners 0..32767 of the table at 0:0x100 now belong to another process";
        assert_eq!(lost, expected);
        // The slot belongs to another process now.
        claim.release(&living).await.unwrap();
    });
    simulation.spawn(1, async move {
        endpoint.sleep(LEASE).await;
        let began = endpoint.now();
        let error = full_table().claim(&endpoint).await.unwrap_err();
        let expected = "all 1 slots of the table of owners at 0:0x100 are in use";
        assert_eq!(error.to_string(), expected);
        let waited = endpoint.now() - began;
        assert!(waited > LEASE * 3 && waited < LEASE * 4, "{waited:?}");
        stop.set(true);
        while !stopped.get() {
            endpoint.sleep(LEASE / 100).await;
        }
        let claim = full_table().claim(&endpoint).await.unwrap();
        let waited = endpoint.now() - last.get();
        assert!(waited > LEASE && waited < LEASE * 5 / 4, "{waited:?}");
        assert_eq!((claim.numbers(), claim.incarnation()), (0..32767, 2));
        // The same owner in its first acquisition has another word than the one that the dead one
        // has left.
        let locker = claim.locker(5, LEASE);
        let held = locker.lock(&endpoint, LOCK).await.unwrap();
        let left = 1 << 63 | 5 << 48 | 1 << 36;
        assert_eq!(held.before, PriorLockState::Abandoned(left | 1));
        assert_eq!(held.word, 1 << 63 | 5 << 48 | 2 << 36 | 2);
        endpoint.sleep(LEASE * 2).await;
        claim.beat(&endpoint).await.unwrap();
    });
    assert_eq!(simulation.run(), 0);
}

/// Beats, but cancels the beat after `most`, so that it may be executed although it is unconfirmed.
async fn beat_for(claim: &OwnerNumberClaim, endpoint: &SimEndpoint, most: Duration) {
    let mut beat = pin!(claim.beat(endpoint));
    let mut timer = pin!(endpoint.sleep(most));
    poll_fn(|context| match beat.as_mut().poll(context) {
        Poll::Ready(done) => {
            done.unwrap();
            Poll::Ready(())
        }
        Poll::Pending => timer.as_mut().poll(context),
    })
    .await;
}

#[test]
fn beats_of_which_nothing_is_heard_do_not_lose_the_claim() {
    let unheard = Rc::new(Cell::new(0));
    for seed in 0..50 {
        let mut simulation = simulation(seed);
        let endpoint = simulation.endpoint(0);
        let unheard = Rc::clone(&unheard);
        simulation.spawn(0, async move {
            let mut random = SmallRng::seed_from_u64(seed);
            let claim = full_table().claim(&endpoint).await.unwrap();
            for round in 0..20 {
                let most = Duration::from_nanos(random.random_range(0..6000));
                beat_for(&claim, &endpoint, most).await;
                let mut word = [0; 8];
                endpoint.read(TABLE, &mut word).await.unwrap();
                if u64::from_le_bytes(word) != claim.word.get() {
                    unheard.set(unheard.get() + 1);
                    // Such a beat does not keep the numbers from being released either.
                    if round > 10 {
                        break;
                    }
                }
                if random.random_ratio(1, 2) {
                    claim.beat(&endpoint).await.unwrap();
                    assert!(claim.is_safe(&endpoint));
                }
            }
            claim.release(&endpoint).await.unwrap();
            full_table().claim(&endpoint).await.unwrap();
            assert!(endpoint.now() < LEASE / 2);
        });
        assert_eq!(simulation.run(), 0, "seed {seed}");
    }
    assert!(unheard.get() > 50, "{unheard:?}");
}

#[test]
fn who_keeps_a_claim_is_told_when_the_table_is_lost() {
    let mut simulation = simulation(1);
    simulation.lose_node(NODE, LEASE * 3);
    simulation.restore_node(NODE, LEASE * 4, true);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let claim = full_table().claim(&endpoint).await.unwrap();
        let error = claim.keep(&endpoint).await.unwrap_err();
        assert_eq!(error, FabricError::NodeLost { node: NODE }.into());
        assert!(endpoint.now() > LEASE * 3);
        endpoint.sleep(LEASE).await;
        let error = claim.keep(&endpoint).await.unwrap_err();
        assert!(matches!(error, OwnersError::Lost { .. }), "{error}");
        assert!(!claim.is_safe(&endpoint));
    });
    assert_eq!(simulation.run(), 0);
}

/// A process that has waited for a slot frees the slots of all dead processes, so that the next
/// ones do not wait.
#[test]
fn the_dead_are_waited_for_once() {
    let mut simulation = simulation(1);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let table = OwnerTable::new(TABLE, 8, 8, LEASE);
        let living = table.claim(&endpoint).await.unwrap();
        for _ in 0..7 {
            table.claim(&endpoint).await.unwrap();
        }
        let mut waited = Vec::new();
        for _ in 0..7 {
            let began = endpoint.now();
            table.claim(&endpoint).await.unwrap();
            waited.push(endpoint.now() - began);
        }
        // The living process did not beat, so it was considered dead as well.
        assert!(living.beat(&endpoint).await.is_err());
        assert!(waited[0] >= LEASE, "{waited:?}");
        assert!(
            waited[1..].iter().all(|&time| time < LEASE / 16),
            "{waited:?}"
        );
    });
    assert_eq!(simulation.run(), 0);
}
