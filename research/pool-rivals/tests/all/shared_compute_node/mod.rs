//! Tests of clients of the same compute node that read and write for each other: their outcomes are
//! linearizable, and they post fewer verbs.

mod kinds;

use self::kinds::{SharedMarlinIndex, SharedRolexIndex, SharedSmartIndex};
use nearfield_fabric_testkit::shared_node::{
    SharedNodeFactory, check_sharing, few_keys, is_fault_found, many_keys, one_key,
};
use nearfield_fabric_testkit::{SimEndpointFault, check};

#[test]
fn smart_is_linearizable() {
    for kind in [SharedSmartIndex::new(true), SharedSmartIndex::copied()] {
        let system = SharedNodeFactory::new(kind);
        check(30, &few_keys(), &system);
        check(90, &one_key(), &system);
        check(10, &many_keys(), &system);
    }
}

#[test]
fn marlin_is_linearizable() {
    let system = SharedNodeFactory::new(SharedMarlinIndex::sharing());
    check(20, &few_keys(), &system);
    check(50, &one_key(), &system);
    check(7, &many_keys(), &system);
}

#[test]
fn rolex_is_linearizable() {
    for kind in SharedRolexIndex::all() {
        let system = SharedNodeFactory::new(kind);
        check(20, &few_keys(), &system);
        check(50, &one_key(), &system);
        check(7, &many_keys(), &system);
    }
}

/// Combining hides no fault between compute nodes.
#[test]
fn faults_are_found() {
    assert!(is_fault_found(
        SharedRolexIndex::arrays(),
        SimEndpointFault::NoLocks
    ));
}

#[test]
fn clients_that_share_post_a_fraction_of_the_verbs() {
    check_sharing("SMART", SharedSmartIndex::new);
    check_sharing("ROLEX", |shares| {
        SharedRolexIndex::sharing(SharedRolexIndex::arrays(), shares)
    });
}
