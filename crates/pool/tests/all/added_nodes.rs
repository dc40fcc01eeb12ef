//! Stores to which a memory node is added, and of which one is drained.
#![cfg(target_os = "linux")]

use nearfield_core::{ByteStrings, OrderedIndex, Words};
use nearfield_fabric::NodeId;
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric_testkit::ShmNodes;
use nearfield_pool::chime::ChimeOptions;
use nearfield_pool::layout::PoolIndexShape;
use nearfield_pool::store::{PoolDrainError, PoolGrowthPhase, PoolStore, StoreOptions};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Returns small leaves, so that there are many, and locks with short leases, because waits for
/// other clients take some of these.
fn options() -> StoreOptions {
    let default = StoreOptions::default();
    let shape = PoolIndexShape {
        leaf_span: 16,
        internal_span: 8,
        ..default.tree.shape
    };
    let locks = ChimeOptions::nearfield().locks;
    StoreOptions {
        tree: ChimeOptions {
            shape,
            locks,
            ..default.tree
        },
        ..default
    }
}

/// Returns a value that is stored beside its key if `number` is even, else elsewhere.
fn value_of(number: usize) -> Vec<u8> {
    let length = if number.is_multiple_of(2) { 5 } else { 100 };
    vec![number as u8; length]
}

/// A node may be listed before it is added. A store whose endpoints never reach it takes it for
/// lost.
#[test]
fn a_listed_node_is_left_out_until_it_is_added() {
    let nodes = ShmNodes::serve(3, 64 << 20).expect("nodes");
    let attach = |count: usize| ShmEndpoint::attach(&nodes.names()[..count]).expect("nodes");
    let (two, three) = (attach(2), attach(3));
    let options = options();
    let founder = PoolStore::<Words, _>::open(move || Ok(two.clone()), &options);
    let founder = founder.expect("a store");
    assert_eq!(founder.insert(7, 8), Ok(None));
    let store = PoolStore::<Words, _>::open(move || Ok(three.clone()), &options);
    let store = store.expect("the store");
    assert_eq!(store.node_states().len(), 2);
    let mut phases = Vec::new();
    let grown = store.add_node(NodeId(2), "shm:third", 1000, &mut |growth| {
        phases.push(growth.phase);
        true
    });
    assert_eq!(grown.expect("a node").phase, PoolGrowthPhase::Done);
    assert_eq!(phases.first(), Some(&PoolGrowthPhase::Joining));
    for store in [&store, &founder] {
        assert_eq!(store.get(7), Ok(Some(8)));
    }
    let is_served = |store: &PoolStore<Words, ShmEndpoint>| {
        let states = store.node_states().into_iter();
        states.map(|state| state.is_served).collect::<Vec<bool>>()
    };
    assert_eq!(is_served(&store), [true; 3]);
    assert_eq!(is_served(&founder), [true, true, false]);
}

/// Another thread works meanwhile. The drained node is ended then, and no operation fails.
#[test]
fn a_drained_node_can_be_ended() {
    let mut nodes = ShmNodes::serve(3, 64 << 20).expect("nodes");
    let endpoint = ShmEndpoint::attach(nodes.names()).expect("the nodes are served");
    let store = PoolStore::<ByteStrings, _>::open(move || Ok(endpoint.clone()), &options());
    let store = store.expect("a store");
    let keys: Vec<String> = (0..2000).map(|number| format!("key{number:04}")).collect();
    for (number, key) in keys.iter().enumerate() {
        let inserted = store.insert(key.as_bytes(), &value_of(number));
        assert_eq!(inserted, Ok(None));
    }
    let (first, node, other) = (NodeId(0), NodeId(1), NodeId(7));
    let refused = [store.drain(first), store.drain(other)];
    let foreign = PoolDrainError::Foreign { node: other };
    assert_eq!(
        refused,
        [Err(PoolDrainError::First { node: first }), Err(foreign)]
    );
    assert_eq!(store.cancel_drain(node), Ok(()));
    let is_done = AtomicBool::new(false);
    let work = || {
        // The long values of the other keys stay where they are.
        for (number, key) in keys.iter().enumerate().take(1000).cycle() {
            if is_done.load(Relaxed) {
                return;
            }
            assert_eq!(store.put(key.as_bytes(), &value_of(number)), Ok(()));
            assert_eq!(store.get(key.as_bytes()), Ok(Some(value_of(number))));
        }
    };
    let drained = std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let drained = store.drain(node);
        is_done.store(true, Relaxed);
        worker.join().expect("no operation fails");
        drained.expect("a drain")
    });
    assert!(drained.leaves > 30 && drained.values > 50, "{drained:?}");
    let part = store.census().expect("a census")[1];
    assert_eq!((part.leaves, part.keys, part.long_values), (0, 0, 0));
    nodes.end(1);
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(store.get(key.as_bytes()), Ok(Some(value_of(number))));
        assert_eq!(store.put(key.as_bytes(), &value_of(number)), Ok(()));
    }
    assert_eq!(store.count(), Ok(keys.len()));
}
