//! Tests that runs of the testkit that the tree passes end in a violation if one check of readers
//! is switched off (the feature `canary`).

#[path = "all/drains/scenario.rs"]
mod drains;
#[cfg(target_os = "linux")]
#[path = "all/filtered"]
mod filtered {
    pub mod beside;
    mod rack;
}
#[path = "all/repairs/scenario.rs"]
mod scenario;
#[path = "all/trees/mod.rs"]
mod trees;

use drains::{DrainPlan, DyingClient};
#[cfg(target_os = "linux")]
use nearfield_core::{ByteStrings, OrderedIndex};
#[cfg(target_os = "linux")]
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::sim::Delivery;
#[cfg(target_os = "linux")]
use nearfield_fabric_testkit::ShmNodes;
use nearfield_fabric_testkit::{RemoteRunFailure, RemoteRunPlan, check, run};
use nearfield_pool::canary::Check;
use nearfield_pool::chime::ChimeOptions;
use nearfield_pool::layout::PoolIndexShape;
#[cfg(target_os = "linux")]
use nearfield_pool::store::{PoolStore, StoreOptions};
use scenario::{RepairPlan, run_after_death};
use std::io::Write;
use std::time::Instant;
use trees::{SmallTrees, chime, nearfield};

/// Number of seeds among which each must be found; the slowest takes some 120.
const SEEDS: u64 = 2000;

/// Returns CHIME and ours, with values of which none is in one line.
fn trees() -> [(&'static str, ChimeOptions); 2] {
    let of_long_values = |options: ChimeOptions| ChimeOptions {
        shape: PoolIndexShape {
            value_bytes: 80,
            ..options.shape
        },
        ..options
    };
    [("CHIME", chime()), ("ours", nearfield())].map(|(name, tree)| (name, of_long_values(tree)))
}

/// Returns a plan in which nodes are divided and merged.
fn plan(delivery: Delivery) -> RemoteRunPlan {
    RemoteRunPlan {
        nodes: 2,
        node_bytes: 4 << 20,
        operations: 60,
        keys: 60,
        removing: 0.1,
        delivery,
        ..RemoteRunPlan::default()
    }
}

fn is_missed(left_out: Check, delivery: Delivery) {
    for (name, options) in trees() {
        is_missed_by(name, options, left_out, &plan(delivery));
    }
}

fn is_missed_by(name: &str, options: ChimeOptions, left_out: Check, plan: &RemoteRunPlan) {
    let system = SmallTrees::new(options);
    let start = Instant::now();
    Check::leave_out(Some(left_out));
    let found = (0..SEEDS).find_map(|seed| Some((seed, run(seed, plan, &system).err()?)));
    Check::leave_out(None);
    let Some((seed, failure)) = found else {
        panic!("{name} without {left_out:?}: no check fails in {SEEDS} seeds");
    };
    assert!(
        matches!(failure, RemoteRunFailure::NotLinearizable { .. }),
        "{name} without {left_out:?}, seed {seed}: {failure}"
    );
    // `println` is not used, because the test harness captures it.
    let _ = writeln!(
        std::io::stderr(),
        "{name} without {left_out:?}: found by seed {seed}, after {:.2} s",
        start.elapsed().as_secs_f64()
    );
    assert!(run(seed, plan, &system).is_ok(), "{name}, seed {seed}");
}

#[test]
fn versions_of_nodes_are_missed() {
    is_missed(Check::NodeVersions, Delivery::Torn);
}

#[test]
fn versions_of_entries_are_missed() {
    is_missed(Check::EntryVersions, Delivery::Torn);
}

/// Only leaves with hop bitmaps have this check. The keys of ours are moved by writes of the whole
/// leaf.
#[test]
fn moves_are_missed() {
    let [(name, options), _] = trees();
    is_missed_by(name, options, Check::Moves, &plan(Delivery::Torn));
}

#[test]
fn siblings_are_missed() {
    is_missed(Check::Siblings, Delivery::Torn);
}

#[test]
fn counters_are_missed() {
    is_missed(Check::Counters, Delivery::TornWords);
}

#[test]
fn stamps_are_missed() {
    let plan = RemoteRunPlan {
        updating: 0.7,
        overwriting: 0.8,
        ..plan(Delivery::Torn)
    };
    is_missed_by("ours", nearfield(), Check::Stamps, &plan);
}

/// Keys of one beginning and one hash share a slot.
#[cfg(target_os = "linux")]
#[test]
fn rests_of_long_keys_are_missed() {
    let nodes = ShmNodes::serve(1, 64 << 20).expect("a node");
    let endpoint = ShmEndpoint::attach(nodes.names()).expect("the node is served");
    let options = StoreOptions {
        key_slot_bytes: Some(4),
        key_hash_bytes: 0,
        ..StoreOptions::default()
    };
    let connect = move || Ok(endpoint.clone());
    let store: PoolStore<ByteStrings, ShmEndpoint> =
        PoolStore::open(connect, &options).expect("a store");
    store.put(b"key one", b"1").expect("a put");
    let absent = || store.get(b"key two").expect("a get");
    assert_eq!(absent(), None);
    Check::leave_out(Some(Check::Rests));
    let found = absent();
    Check::leave_out(None);
    assert_eq!(found, Some(b"1".to_vec()));
    assert_eq!(absent(), None);
}

/// A leaf that leads to a lost one is left as it is.
#[test]
fn siblings_that_are_lost_are_missed_by_repairs() {
    let plan = RepairPlan {
        options: nearfield(),
        delivery: Delivery::Torn,
        dying: 0.0,
    };
    Check::leave_out(Some(Check::LostSiblings));
    let found = (0..SEEDS).find_map(|seed| Some((seed, scenario::run(seed, &plan).err()?)));
    Check::leave_out(None);
    let (seed, failure) = found.expect("a repair misses the former siblings");
    assert!(scenario::run(seed, &plan).is_ok(), "seed {seed}: {failure}");
}

/// A division that a dead client has recorded is left to the next client that takes the lock.
#[test]
fn locks_that_are_held_are_missed_by_repairs() {
    let deliveries = [Delivery::Torn, Delivery::TornWords];
    let mut plans = (0..400).flat_map(|verb| deliveries.map(|delivery| (verb, delivery)));
    Check::leave_out(Some(Check::HeldLocks));
    let found = plans.find_map(|(verb, delivery)| {
        let failure = run_after_death(verb, nearfield(), delivery).err()?;
        Some((verb, delivery, failure))
    });
    Check::leave_out(None);
    let (verb, delivery, failure) = found.expect("a repair misses the recorded division");
    let again = run_after_death(verb, nearfield(), delivery);
    assert!(again.is_ok(), "verb {verb}, {delivery:?}: {failure}");
}

/// A leaf that leads to a moved one is left as it is.
#[test]
fn siblings_that_were_moved_are_missed_by_drains() {
    let plan = DrainPlan {
        options: nearfield(),
        delivery: Delivery::Torn,
        dying: 0.0,
    };
    Check::leave_out(Some(Check::MovedSiblings));
    let found = (0..SEEDS).find_map(|seed| Some((seed, drains::run(seed, &plan).err()?)));
    Check::leave_out(None);
    let (seed, failure) = found.expect("a drain misses the leaves to the left");
    assert!(drains::run(seed, &plan).is_ok(), "seed {seed}: {failure}");
}

/// The same for leaves that are moved to an added node.
#[test]
fn siblings_that_were_moved_are_missed_by_moves_to_an_added_node() {
    let plan = DrainPlan {
        options: nearfield(),
        delivery: Delivery::Torn,
        dying: 0.0,
    };
    Check::leave_out(Some(Check::MovedSiblings));
    let found = (0..SEEDS).find_map(|seed| Some((seed, drains::run_growing(seed, &plan).err()?)));
    Check::leave_out(None);
    let (seed, failure) = found.expect("a move misses the leaves to the left");
    let again = drains::run_growing(seed, &plan);
    assert!(again.is_ok(), "seed {seed}: {failure}");
}

/// A division that a dead client has recorded is left to the next client that takes the lock.
#[test]
fn locks_that_are_held_are_missed_by_drains() {
    let deliveries = [Delivery::Torn, Delivery::TornWords];
    let mut plans = (0..400).flat_map(|verb| deliveries.map(|delivery| (verb, delivery)));
    let run =
        |verb, delivery| drains::run_after_death(DyingClient::Writer, verb, nearfield(), delivery);
    Check::leave_out(Some(Check::HeldLocks));
    let found =
        plans.find_map(|(verb, delivery)| Some((verb, delivery, run(verb, delivery).err()?)));
    Check::leave_out(None);
    let (verb, delivery, failure) = found.expect("a drain misses the recorded division");
    let again = run(verb, delivery);
    assert!(again.is_ok(), "verb {verb}, {delivery:?}: {failure}");
    for dying in [
        DyingClient::Drainer,
        DyingClient::DrainerBeforeLoss,
        DyingClient::Mover,
    ] {
        let other = drains::run_after_death(dying, verb, nearfield(), delivery);
        assert!(other.is_ok(), "verb {verb}, {delivery:?}: {other:?}");
    }
}

/// Programs that read leaves do not check that these were unchanged meanwhile.
#[cfg(target_os = "linux")]
#[test]
fn guards_of_leaves_are_missed_by_programs() {
    for (check, lines) in [(Check::Counters, false), (Check::Stamps, true)] {
        Check::leave_out(Some(check));
        let found = (0..SEEDS).find_map(|seed| {
            let wrong = filtered::beside::run(seed, ChimeOptions::nearfield(), lines).err()?;
            Some((seed, wrong))
        });
        Check::leave_out(None);
        let Some((seed, wrong)) = found else {
            panic!("programs without {check:?}: no check fails in {SEEDS} seeds");
        };
        let _ = writeln!(
            std::io::stderr(),
            "programs without {check:?}: found by seed {seed}: {wrong}"
        );
        let again = filtered::beside::run(seed, ChimeOptions::nearfield(), lines);
        assert!(again.is_ok(), "seed {seed}: {again:?}");
    }
}

#[test]
fn with_all_checks_nothing_is_wrong() {
    for delivery in [Delivery::Torn, Delivery::TornWords] {
        for (_, options) in trees() {
            check(20, &plan(delivery), &SmallTrees::new(options));
        }
    }
}
