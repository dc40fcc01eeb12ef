//! Stores to which a memory node is added.
#![cfg(target_os = "linux")]

use nearfield_core::{OrderedIndex, Words};
use nearfield_fabric::NodeId;
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric_testkit::ShmNodes;
use nearfield_pool::chime::ChimeOptions;
use nearfield_pool::store::{PoolGrowthPhase, PoolStore, StoreOptions};

/// A node may be listed before it is added. A store whose endpoints never reach it takes it for
/// lost.
#[test]
fn a_listed_node_is_left_out_until_it_is_added() {
    let nodes = ShmNodes::serve(3, 64 << 20).expect("nodes");
    let attach = |count: usize| ShmEndpoint::attach(&nodes.names()[..count]).expect("nodes");
    let (two, three) = (attach(2), attach(3));
    let default = StoreOptions::default();
    let options = StoreOptions {
        tree: ChimeOptions {
            // The waits for other clients take some of these leases.
            locks: ChimeOptions::nearfield().locks,
            ..default.tree
        },
        ..default
    };
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
