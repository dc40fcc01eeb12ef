//! Tests of clients of the same compute node that read, write and lock for each other: their
//! outcomes are linearizable, also when clients die and operations are dropped, and they post fewer
//! verbs.

mod kinds;

use self::kinds::SharedChimeIndex;
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use nearfield_fabric_testkit::shared_node::{
    SharedNodeFactory, check_sharing, few_keys, is_fault_found, many_keys, one_key,
    verbs_per_operation,
};
use nearfield_fabric_testkit::{
    INDEX_ROOT, RemoteIndex, RemoteIndexFactory, RemoteRunPlan, SimEndpointFault, check,
};
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::chime::ChimeOptions;
use nearfield_pool::layout::{Geometry, LockWord, LockWordLayout, PoolLeaf, PoolLeafLayout};

#[test]
fn trees_are_linearizable() {
    for kind in SharedChimeIndex::all() {
        let system = SharedNodeFactory::new(kind);
        check(14, &few_keys(), &system);
        check(4, &many_keys(), &system);
    }
}

#[test]
fn keys_that_are_overwritten_together_hold_the_last_value() {
    for kind in SharedChimeIndex::leased() {
        let system = SharedNodeFactory::new(kind);
        for plan in [few_keys(), one_key(), many_keys()] {
            let plan = RemoteRunPlan {
                removing: 0.1,
                updating: 0.8,
                overwriting: 0.7,
                ..plan
            };
            check(12, &plan, &system);
            let dying = RemoteRunPlan { dying: 0.4, ..plan };
            check(12, &dying, &system);
        }
    }
}

#[test]
fn ours_is_linearizable_whoever_dies() {
    for kind in SharedChimeIndex::leased() {
        let system = SharedNodeFactory::new(kind);
        check(
            20,
            &RemoteRunPlan {
                dying: 0.5,
                ..few_keys()
            },
            &system,
        );
        check(
            7,
            &RemoteRunPlan {
                dying: 0.5,
                ..many_keys()
            },
            &system,
        );
    }
}

#[test]
fn ours_is_linearizable_whatever_is_given_up() {
    for kind in SharedChimeIndex::leased() {
        let mut system = SharedNodeFactory::new(kind);
        system.gives_up = true;
        check(14, &few_keys(), &system);
        check(
            7,
            &RemoteRunPlan {
                dying: 0.3,
                ..few_keys()
            },
            &system,
        );
    }
}

/// Combining hides no fault between compute nodes.
#[test]
fn faults_are_found() {
    assert!(is_fault_found(
        SharedChimeIndex::chime(),
        SimEndpointFault::NoLocks
    ));
    assert!(is_fault_found(
        SharedChimeIndex::chime(),
        SimEndpointFault::LastFirst
    ));
}

#[test]
fn clients_that_share_post_a_fraction_of_the_verbs() {
    check_sharing("CHIME", |shares| {
        SharedChimeIndex::sharing(SharedChimeIndex::chime(), shares)
    });
    check_sharing("Nearfield", |shares| {
        SharedChimeIndex::sharing(SharedChimeIndex::nearfield(), shares)
    });
}

/// Clients of one compute node without combining compete for a lock one at a time, so that no swap
/// fails. If a lock is passed on, eight of nine neither take nor release it. Our clients that do
/// not queue back off for longer, so less is saved.
#[test]
fn clients_that_queue_take_locks_once_or_not_at_all() {
    let kinds = [
        ("CHIME", SharedChimeIndex::chime(), 3.0, 16.0 / 9.0),
        ("Sherman", SharedChimeIndex::sherman(), 3.0, 16.0 / 9.0),
        ("Nearfield", SharedChimeIndex::nearfield(), 1.5, 0.0),
    ];
    for (name, kind, fewer, saved) in kinds {
        let hand_overs = [None, Some(0), Some(8)];
        let [apart, queued, passed] = hand_overs.map(|times| {
            verbs_per_operation(SharedChimeIndex::queueing(kind.clone(), times), 1, true)
        });
        eprintln!("{name}: {apart:.2} verbs an update, {queued:.2} queued, {passed:.2} passed on");
        assert!(queued < apart / fewer, "{name}: {queued} of {apart}");
        let found = queued - passed;
        assert!((found - saved).abs() < 0.02, "{name}: {found}, not {saved}");
    }
}

/// The word of a lock that is passed on describes the leaf as well as one that every client takes.
#[test]
fn a_lock_that_is_passed_on_says_what_is_there() {
    for hand_overs in [None, Some(8)] {
        let mut system = SharedNodeFactory::new(SharedChimeIndex(ChimeOptions {
            hand_overs,
            ..ChimeOptions::chime()
        }));
        system.count = 1;
        system.is_slow = false;
        let network = NetworkPreset::ConnectX6.parameters();
        let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
        let nodes = vec![simulation.add_node(8 << 20)];
        let created = system.create(simulation.endpoint(0), nodes);
        simulation.spawn(0, async { created.await.expect("made") });
        assert_eq!(simulation.run(), 0);
        for number in 1..=16 {
            let opened = system.open(simulation.endpoint(number));
            simulation.spawn(number, async move {
                let client = opened.await.expect("opened");
                for distance in [0, 16] {
                    let key = u64::from(number) + distance;
                    client.insert(key, 1).await.expect("written");
                }
            });
        }
        assert_eq!(simulation.run(), 0);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let geometry = Geometry::new(ChimeOptions::chime().shape).expect("sizes");
            let layout = PoolLeafLayout::new(geometry);
            let word = async |from| {
                let mut word = [0; 8];
                endpoint.read(from, &mut word).await.expect("read");
                u64::from_le_bytes(word)
            };
            // The root is still a leaf, of the first level.
            let root = word(INDEX_ROOT).await;
            assert_eq!(root >> 56, 1);
            let at = GlobalAddress::new(NodeId(0), root & ((1 << 48) - 1));
            let mut wire = vec![0; layout.wire_bytes()];
            endpoint.read(at, &mut wire).await.expect("read");
            let mut leaf = PoolLeaf::new(layout);
            leaf.decode(&layout.whole(), &[&wire]).expect("whole");
            assert_eq!(leaf.occupied().count(), 32);
            let found = word(at.plus(layout.lock_offset() as u64)).await;
            let words = LockWordLayout::new(layout.span());
            // A bucket that was known only in part may be shown as full, and is now and then.
            let full = |word| words.with_max_slot(word, 0).to_bits();
            let found = full(LockWord::from_bits(found));
            let differ = (found ^ full(words.of_leaf(&leaf))).count_ones();
            assert!(differ <= 1, "{hand_overs:?}: {differ} buckets");
        });
        assert_eq!(simulation.run(), 0);
    }
}
