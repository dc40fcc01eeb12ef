//! Tests of policies under loads: the share of requests that the fast tier serves, and the bytes
//! that move for it.

use nearfield_tiers::policy::{
    Adaptive, Adm, AdmSettings, ObjectUse, PairCosts, PolicySimulation, TieringPolicy,
};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

const OBJECTS: usize = 50_000;
/// Number of requests that is one per object, and the number of requests in a second.
const ONE_EACH: u64 = OBJECTS as u64;

/// A load that draws requests by the weight of each object.
struct PolicyWorkload {
    /// The sum of the weights of objects 0 to i.
    cumulative: Vec<f64>,
    /// The object of each weight.
    order: Vec<usize>,
}

impl PolicyWorkload {
    fn of(weights: Vec<f64>, random: &mut SmallRng) -> PolicyWorkload {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.shuffle(random);
        let mut sum = 0.0;
        let add = |weight| {
            sum += weight;
            sum
        };
        let cumulative = weights.into_iter().map(add).collect();
        PolicyWorkload { cumulative, order }
    }

    fn zipf(random: &mut SmallRng) -> PolicyWorkload {
        let weights = (1..=OBJECTS).map(|rank| (rank as f64).powf(-0.99));
        PolicyWorkload::of(weights.collect(), random)
    }

    /// Creates a Gaussian load. The deviation is a part of the number of keys.
    fn gaussian(deviation: f64, random: &mut SmallRng) -> PolicyWorkload {
        let weight = |key: usize| {
            let from_middle = (key as f64 + 0.5) / OBJECTS as f64 - 0.5;
            (-from_middle * from_middle / (2.0 * deviation * deviation)).exp()
        };
        PolicyWorkload::of((0..OBJECTS).map(weight).collect(), random)
    }

    fn draw(&self, random: &mut SmallRng) -> usize {
        let all = self.cumulative[OBJECTS - 1];
        let at = random.random::<f64>() * all;
        self.order[self.cumulative.partition_point(|&sum| sum <= at)]
    }

    /// Returns the share of requests to the objects that are best in the fast tier: the greatest
    /// weights, because reads take time in proportion to the bytes.
    fn ideal(&self, bytes: impl Fn(usize) -> u64, capacity: u64) -> f64 {
        let weight = |at: usize| {
            self.cumulative[at]
                - if at == 0 {
                    0.0
                } else {
                    self.cumulative[at - 1]
                }
        };
        let mut ranks: Vec<usize> = (0..OBJECTS).collect();
        ranks.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)));
        let (mut used, mut share) = (0, 0.0);
        for at in ranks {
            let size = bytes(self.order[at]);
            if used + size <= capacity {
                used += size;
                share += weight(at);
            }
        }
        share / self.cumulative[OBJECTS - 1]
    }
}

/// A store under a load.
struct PolicyRun<P> {
    store: PolicySimulation<P>,
    random: SmallRng,
    requests: u64,
    capacity: u64,
    moved_bytes: u64,
    moves: u64,
    /// Number of requests between two walks of ADM; 0 for a walk that never pauses.
    interval: u64,
}

impl<P: TieringPolicy> PolicyRun<P> {
    fn new(policy: impl FnOnce(u64) -> P, part: f64, interval: u64) -> PolicyRun<P> {
        let mut random = SmallRng::seed_from_u64(1);
        let sizes: Vec<u64> = (0..OBJECTS)
            .map(|_| random.random_range(1..=2000))
            .collect();
        let capacity = (sizes.iter().sum::<u64>() as f64 * part) as u64;
        let mut store = PolicySimulation::new(policy(capacity), &[capacity, u64::MAX], OBJECTS);
        for size in sizes {
            // The first objects fill the fast tier.
            store.insert(size, 0);
        }
        PolicyRun {
            store,
            random,
            requests: 0,
            capacity,
            moved_bytes: 0,
            moves: 0,
            interval,
        }
    }

    fn tick(&mut self) {
        self.requests += 1;
        self.store.pass(Duration::from_nanos(
            self.requests * (1_000_000_000 / ONE_EACH),
        ));
        let (mut bytes, mut moves) = (0, 0);
        let count = |_, size, _, _| {
            bytes += size;
            moves += 1;
        };
        match self.interval {
            // Walks eight times as fast while the fast tier must demote objects.
            0 if self.store.policy().deficit(0) > 0 => self.store.walk(1, count),
            0 if self.requests.is_multiple_of(8) => self.store.walk(1, count),
            0 => {}
            interval if self.requests.is_multiple_of(interval) => self.store.walk_tier(0, count),
            _ => {}
        }
        self.moved_bytes += bytes;
        self.moves += moves;
    }

    /// Uses an object; returns true if the fast tier serves it.
    fn request(&mut self, object: usize, by: ObjectUse) -> bool {
        let played = self.store.request(object, by);
        if played.moved_to.is_some() {
            self.moved_bytes += self.store.bytes(object);
            self.moves += 1;
        }
        self.tick();
        assert!(self.store.used_bytes(0) <= self.capacity);
        played.served_by == 0
    }

    /// Returns the share that the fast tier serves.
    fn play(&mut self, load: &PolicyWorkload, requests: u64) -> f64 {
        let served = (0..requests).filter(|_| {
            let object = load.draw(&mut self.random);
            self.request(object, ObjectUse::Read)
        });
        served.count() as f64 / requests as f64
    }

    fn ideal(&self, load: &PolicyWorkload) -> f64 {
        load.ideal(|object| self.store.bytes(object), self.capacity)
    }
}

fn ours(part: f64) -> PolicyRun<Adaptive> {
    let costs = [PairCosts::of_lines(25.0, 50.0)];
    PolicyRun::new(
        |bytes| Adaptive::new(&[bytes, u64::MAX], &costs, 100 << 20),
        part,
        0,
    )
}

fn adm(part: f64) -> PolicyRun<Adm> {
    PolicyRun::new(|_| Adm::new(AdmSettings::default()), part, 10 * ONE_EACH)
}

/// Returns the results of a policy under a stable load. The fast tier holds the first objects at
/// the start. The results are the share after a warm-up of 40 uses per object, relative to the
/// ideal, and the bytes that move after it. ADM needs that long: it moves nothing before its first
/// walk.
fn warm<P: TieringPolicy>(
    mut run: PolicyRun<P>,
    load: &PolicyWorkload,
) -> (f64, u64, PolicyRun<P>) {
    let ideal = run.ideal(load);
    run.play(load, 40 * ONE_EACH);
    let before = run.moved_bytes;
    let share = run.play(load, 30 * ONE_EACH) / ideal;
    let moved = run.moved_bytes - before;
    (share, moved, run)
}

#[test]
fn ours_serves_nearly_what_is_ideal_and_moves_fewer_bytes_than_adm() {
    let random = &mut SmallRng::seed_from_u64(2);
    for (name, load, part) in [
        ("Zipf 0.99", PolicyWorkload::zipf(random), 0.2),
        (
            "Gaussian of deviation 1",
            PolicyWorkload::gaussian(0.1, random),
            0.3,
        ),
    ] {
        let (share, moved, run) = warm(ours(part), &load);
        let moves = run.store.policy().moves();
        let (adm_share, adm_moved, _) = warm(adm(part), &load);
        println!(
            "{name}, memory for {part}: {share:.3} of the ideal, {moved} bytes moved; \
             ADM {adm_share:.3} and {adm_moved}; {moves:?}"
        );
        assert!(share >= 0.95, "{name}: {share:.3} of the ideal");
        assert!(
            share > adm_share,
            "{name}: {share:.3}, and ADM {adm_share:.3}"
        );
        assert!(
            moved < adm_moved,
            "{name}: {moved} bytes, and ADM {adm_moved}"
        );
        assert_eq!(moves.inward + moves.outward, run.moves, "{name}");
        let to_and_fro = moves.ping_pong as f64 / run.moves as f64;
        assert!(to_and_fro < 0.01, "{name}: {to_and_fro:.4} of the moves");
    }
}

/// A minute is 60 requests for each object.
#[test]
fn ours_follows_a_hot_set_that_moves_every_minute() {
    let random = &mut SmallRng::seed_from_u64(3);
    for (name, load) in [
        (
            "Zipf 0.99",
            (|random| PolicyWorkload::zipf(random)) as fn(&mut SmallRng) -> PolicyWorkload,
        ),
        ("Gaussian", |random| PolicyWorkload::gaussian(0.1, random)),
    ] {
        let mut run = ours(0.2);
        for minute in 0..2 {
            let load = load(random);
            let share = run.play(&load, 60 * ONE_EACH) / run.ideal(&load);
            println!("{name}, minute {minute}: {share:.3} of the ideal");
            assert!(share >= 0.85, "{name}, minute {minute}: {share:.3}");
        }
    }
}

/// One read in five passes over all objects, in order.
#[test]
fn a_pass_over_all_objects_costs_less_than_three_points() {
    let random = &mut SmallRng::seed_from_u64(4);
    let load = PolicyWorkload::zipf(random);
    let (_, _, mut run) = warm(ours(0.2), &load);
    let before = run.play(&load, 5 * ONE_EACH);
    let mut served = 0;
    for object in 0..OBJECTS {
        run.request(object, ObjectUse::Read);
        for _ in 0..4 {
            let hot = load.draw(&mut run.random);
            served += u32::from(run.request(hot, ObjectUse::Read));
        }
    }
    let during = f64::from(served) / (4 * OBJECTS) as f64;
    let after = run.play(&load, 5 * ONE_EACH);
    println!("before {before:.3}, during {during:.3}, after {after:.3}");
    assert!(during > before - 0.03 && after > before - 0.03);
}

/// New objects are first in the fast tier, as in a store whose values are written in memory.
#[test]
fn a_burst_of_new_objects_does_not_push_hot_ones_out() {
    let random = &mut SmallRng::seed_from_u64(5);
    let load = PolicyWorkload::zipf(random);
    let (_, _, mut run) = warm(ours(0.2), &load);
    let before = run.play(&load, 5 * ONE_EACH);
    // Inserts as many bytes as all objects have, with one read for each.
    let mut served = 0;
    for _ in 0..OBJECTS {
        run.store.insert(1000, 0);
        let hot = load.draw(&mut run.random);
        served += u32::from(run.request(hot, ObjectUse::Read));
    }
    let during = f64::from(served) / OBJECTS as f64;
    println!("before {before:.3}, during {during:.3}");
    assert!(
        during > before - 0.03,
        "before {before:.3}, during {during:.3}"
    );
}

/// The canary of the tests above: without moves, the fast tier serves as little as chance gives.
#[test]
fn without_moves_the_fast_tier_serves_its_part() {
    let random = &mut SmallRng::seed_from_u64(6);
    let load = PolicyWorkload::zipf(random);
    let never = [PairCosts::of_lines(50.0, 50.0)];
    let policy = |bytes| Adaptive::new(&[bytes, u64::MAX], &never, 100 << 20);
    let mut run = PolicyRun::new(policy, 0.2, 0);
    let share = run.play(&load, 10 * ONE_EACH);
    assert!(share < 0.35, "{share:.3}");
    assert_eq!(run.store.policy().moves().inward, 0);
}

/// The load alone would move thirty times as much.
#[test]
fn no_more_bytes_move_in_a_second_than_the_budget_allows() {
    let random = &mut SmallRng::seed_from_u64(7);
    let load = PolicyWorkload::zipf(random);
    let costs = [PairCosts::of_lines(25.0, 50.0)];
    let policy = |bytes| Adaptive::new(&[bytes, u64::MAX], &costs, 100_000);
    let mut run = PolicyRun::new(policy, 0.2, 0);
    run.play(&load, 10 * ONE_EACH);
    // Ten seconds, and what the bucket and the last move add.
    let most = 100_000 * 10 + 10_000 + 2_000;
    assert!(run.moved_bytes <= most, "{}", run.moved_bytes);
    assert!(run.moved_bytes > most / 5, "{}", run.moved_bytes);
    assert!(run.store.policy().moves().put_off > 0);
}
