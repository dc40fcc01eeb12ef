//! Tests of ROLEX over a simulated fabric that tears verbs: its operations are linearizable, and
//! the tests find faults of endpoints.

use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId};
use nearfield_fabric_testkit::{
    FaultInterference, FaultySimEndpoint, INDEX_ROOT, Interference, NumberKeyIndex,
    RemoteIndexFactory, RemoteRunPlan, SimEndpointFault, check, fabric_error, run,
};
use nearfield_pool::layout::versions::Objects;
use nearfield_pool::layout::{
    Geometry, LeafMetadataPosition, PoolIndexShape, PoolLeafLayout, Validation,
};
use nearfield_pool::{PoolError, PoolIndexClient};
use nearfield_pool_rivals::rolex::{
    Rolex, RolexComputeNode, RolexLeafKind, RolexLeafLayout, RolexOptions,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Distance of the loaded keys, which are its multiples.
const STEP: u64 = 100;
const LOADED: u64 = 60;

/// Returns leaves that are so small that a few dozens of keys need many, and the sixth key of a
/// leaf a second synonym.
pub fn small(value_bytes: usize) -> RolexOptions {
    let shape = PoolIndexShape {
        leaf_span: 4,
        neighborhood: 4,
        value_bytes,
        ..PoolIndexShape::default()
    };
    RolexOptions {
        geometry: Geometry::new(shape).expect("sizes"),
        error: 1,
        ..RolexOptions::default()
    }
}

/// Returns leaves that are hash tables, in which entries are moved.
pub fn tables(
    value_bytes: usize,
    vacancy_piggyback: bool,
    metadata: LeafMetadataPosition,
) -> RolexOptions {
    let shape = PoolIndexShape {
        leaf_span: 8,
        neighborhood: 4,
        value_bytes,
        metadata,
        ..PoolIndexShape::default()
    };
    RolexOptions {
        geometry: Geometry::new(shape).expect("sizes"),
        leaves: RolexLeafKind::Hopscotch { vacancy_piggyback },
        error: 1,
        ..RolexOptions::default()
    }
}

/// Returns hash tables of which single entries are read speculatively.
pub fn speculating(value_bytes: usize) -> RolexOptions {
    RolexOptions {
        hotspot_bytes: 1 << 12,
        ..tables(value_bytes, true, LeafMetadataPosition::Replicated)
    }
}

/// The keys that the numbers of a plan stand for.
#[derive(Clone, Copy, Debug)]
enum RolexTestKeys {
    /// Keys that were loaded, in several leaves, and were removed since.
    Loaded,
    /// Keys between two that were loaded.
    Inserted,
    /// Keys below and above all that were loaded.
    Outside,
}

impl RolexTestKeys {
    fn key(self, number: u64) -> [u8; 8] {
        let key = match self {
            RolexTestKeys::Loaded => (20 + number) * STEP,
            RolexTestKeys::Inserted => 20 * STEP + 1 + number,
            RolexTestKeys::Outside if number.is_multiple_of(2) => 1 + number,
            RolexTestKeys::Outside => LOADED * STEP + 1 + number,
        };
        key.to_be_bytes()
    }
}

struct RolexIndexFactory {
    options: RolexOptions,
    keys: RolexTestKeys,
    wrong: RolexEndpointFault,
    /// Number of keys of a plan, which the index must not have initially.
    plan_keys: u64,
    /// The compute node of all clients, if they share one.
    shared: Option<RefCell<Arc<RolexComputeNode>>>,
}

impl RolexIndexFactory {
    fn new(keys: RolexTestKeys, plan: &RemoteRunPlan) -> RolexIndexFactory {
        RolexIndexFactory {
            options: small(8),
            keys,
            wrong: RolexEndpointFault::Fault(SimEndpointFault::None),
            plan_keys: plan.keys,
            shared: None,
        }
    }
}

/// A fault of the endpoint with which the index must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RolexEndpointFault {
    /// A fault for any index.
    Fault(SimEndpointFault),
    /// A leaf refers to its synonym before that is written.
    SynonymLast,
    /// A reader does not detect that a leaf was written during its read.
    Blind,
    /// An entry that is read alone is as in its first read.
    StaleEntries,
}

struct RolexInterference {
    wrong: RolexEndpointFault,
    planted: FaultInterference,
    leaves: RolexLeafLayout,
    /// The lengths of reads of single entries in hash tables.
    entry_lengths: Vec<usize>,
    /// The first reads of single entries.
    entries: RefCell<HashMap<GlobalAddress, Vec<u8>>>,
}

impl RolexInterference {
    fn new(wrong: RolexEndpointFault, options: &RolexOptions) -> RolexInterference {
        let fault = match wrong {
            RolexEndpointFault::Fault(fault) => fault,
            RolexEndpointFault::SynonymLast
            | RolexEndpointFault::Blind
            | RolexEndpointFault::StaleEntries => SimEndpointFault::None,
        };
        let shape = PoolIndexShape {
            validation: Validation::Fences,
            ..*options.geometry.shape()
        };
        let layout = PoolLeafLayout::new(Geometry::new(shape).expect("sizes"));
        let slots = 0..shape.leaf_span;
        RolexInterference {
            entry_lengths: slots
                .map(|slot| layout.single_entry(slot).wire_bytes())
                .collect(),
            entries: RefCell::default(),
            wrong,
            planted: FaultInterference::new(fault),
            leaves: RolexLeafLayout::new(options.geometry),
        }
    }

    /// Makes the versions in a leaf that was read agree.
    fn blind(&self, wire: &mut [u8]) {
        if wire.len() != self.leaves.wire_bytes() {
            return;
        }
        let mut object = 0;
        while object < self.leaves.decoded_bytes() {
            let lines = object.checked_sub(64).map_or(0, |beyond| 1 + beyond / 63);
            wire[object + lines] = 0;
            object = self.leaves.object_end(object);
        }
        (64..wire.len()).step_by(64).for_each(|line| wire[line] = 0);
    }
}

impl Interference for RolexInterference {
    async fn post(
        &self,
        endpoint: &SimEndpoint,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<(), FabricError> {
        if self.wrong == RolexEndpointFault::SynonymLast
            && let [FabricVerb::Write { .. }, _, _] = verbs
        {
            // The write is later by a round trip, as if the two were on two nodes.
            endpoint.post(&mut verbs[1..2]).await?;
        }
        self.planted.post(endpoint, verbs).await?;
        if self.wrong == RolexEndpointFault::StaleEntries {
            for verb in &mut *verbs {
                if let FabricVerb::Read { from, into } = verb
                    && self.entry_lengths.contains(&into.len())
                {
                    let mut entries = self.entries.borrow_mut();
                    let first = entries.entry(*from).or_insert_with(|| into.to_vec());
                    into.copy_from_slice(first);
                }
            }
        }
        if self.wrong == RolexEndpointFault::Blind {
            for verb in verbs {
                if let FabricVerb::Read { into, .. } = verb {
                    self.blind(into);
                }
            }
        }
        Ok(())
    }

    async fn allocate(
        &self,
        endpoint: &SimEndpoint,
        node: NodeId,
        bytes: u64,
    ) -> Result<GlobalAddress, FabricError> {
        let address = endpoint.allocate(node, bytes).await?;
        // The content is not specified. This looks like a leaf, with a synonym that does not exist.
        let junk = vec![1; bytes as usize];
        endpoint.write(address, &junk).await?;
        Ok(address)
    }
}

impl RemoteIndexFactory for RolexIndexFactory {
    type Index = NumberKeyIndex<Rolex<FaultySimEndpoint<RolexInterference>>>;

    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let (keys, plan_keys) = (self.keys, self.plan_keys);
        let node = Arc::new(RolexComputeNode::new(self.options.clone()));
        if let Some(shared) = &self.shared {
            *shared.borrow_mut() = Arc::new(RolexComputeNode::new(self.options.clone()));
        }
        let value = vec![1; self.options.geometry.shape().value_bytes];
        let entries = (1..=LOADED).map(move |key| ((key * STEP).to_be_bytes(), value.clone()));
        async move {
            let made = Rolex::load(endpoint, &nodes, INDEX_ROOT, node, entries).await;
            let rolex = made.map_err(fabric_error)?;
            for number in 0..plan_keys {
                rolex
                    .remove(&keys.key(number))
                    .await
                    .map_err(fabric_error)?;
            }
            Ok(())
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static {
        let nodes = endpoint.nodes();
        let endpoint =
            FaultySimEndpoint::new(endpoint, RolexInterference::new(self.wrong, &self.options));
        let node = match &self.shared {
            Some(shared) => Arc::clone(&shared.borrow()),
            None => Arc::new(RolexComputeNode::new(self.options.clone())),
        };
        let (keys, value_bytes) = (self.keys, self.options.geometry.shape().value_bytes);
        async move {
            let rolex = Rolex::open(endpoint, &nodes, INDEX_ROOT, node).map_err(fabric_error)?;
            let key = move |number| keys.key(number).to_vec();
            Ok(NumberKeyIndex::new(rolex, value_bytes, key, fabric_error))
        }
    }
}

#[test]
fn operations_are_linearizable_while_synonyms_are_added() {
    let plan = RemoteRunPlan {
        nodes: 2,
        operations: 20,
        keys: 20,
        updating: 0.3,
        ..RemoteRunPlan::default()
    };
    for keys in [RolexTestKeys::Inserted, RolexTestKeys::Outside] {
        check(100, &plan, &RolexIndexFactory::new(keys, &plan));
    }
    // Checks a compute node that has room for few synonyms, and one that all clients share.
    let mut system = RolexIndexFactory::new(RolexTestKeys::Inserted, &plan);
    system.options.cache_bytes = 200;
    check(50, &plan, &system);
    let mut system = RolexIndexFactory::new(RolexTestKeys::Inserted, &plan);
    system.shared = Some(RefCell::new(Arc::new(RolexComputeNode::new(small(8)))));
    check(50, &plan, &system);
}

#[test]
fn operations_on_few_keys_are_linearizable() {
    let plan = RemoteRunPlan {
        updating: 0.3,
        ..RemoteRunPlan::default()
    };
    for keys in [
        RolexTestKeys::Loaded,
        RolexTestKeys::Inserted,
        RolexTestKeys::Outside,
    ] {
        check(100, &plan, &RolexIndexFactory::new(keys, &plan));
        let system = RolexIndexFactory {
            options: small(96),
            ..RolexIndexFactory::new(keys, &plan)
        };
        check(50, &plan, &system);
    }
}

#[test]
fn operations_on_hash_tables_are_linearizable() {
    let few = RemoteRunPlan {
        updating: 0.3,
        ..RemoteRunPlan::default()
    };
    let many = RemoteRunPlan {
        nodes: 2,
        operations: 20,
        keys: 24,
        updating: 0.3,
        ..RemoteRunPlan::default()
    };
    let steps = [
        tables(8, false, LeafMetadataPosition::Single),
        tables(8, true, LeafMetadataPosition::Single),
        tables(8, true, LeafMetadataPosition::Replicated),
        tables(96, true, LeafMetadataPosition::Replicated),
        speculating(8),
        speculating(96),
    ];
    for options in steps {
        for (keys, plan) in [
            (RolexTestKeys::Loaded, &few),
            (RolexTestKeys::Outside, &few),
            (RolexTestKeys::Inserted, &many),
        ] {
            let options = options.clone();
            let system = RolexIndexFactory {
                options,
                ..RolexIndexFactory::new(keys, plan)
            };
            check(16, plan, &system);
        }
    }
}

#[test]
fn faults_are_found() {
    let few = RemoteRunPlan {
        keys: 6,
        updating: 0.3,
        ..RemoteRunPlan::default()
    };
    let many = RemoteRunPlan {
        keys: 20,
        operations: 20,
        updating: 0.3,
        ..RemoteRunPlan::default()
    };
    let faults = [
        (RolexEndpointFault::Fault(SimEndpointFault::NoLocks), &few),
        (RolexEndpointFault::Fault(SimEndpointFault::LastFirst), &few),
        (RolexEndpointFault::SynonymLast, &many),
        (RolexEndpointFault::Fault(SimEndpointFault::Forgets), &few),
        (RolexEndpointFault::Blind, &few),
    ];
    for (wrong, plan) in faults {
        for options in [
            small(96),
            tables(96, true, LeafMetadataPosition::Replicated),
        ] {
            if wrong == RolexEndpointFault::Blind && options.leaves != RolexLeafKind::Arrays {
                continue;
            }
            let leaves = options.leaves;
            let system = RolexIndexFactory {
                wrong,
                options,
                ..RolexIndexFactory::new(RolexTestKeys::Inserted, plan)
            };
            let failure = (0..500).find_map(|seed| run(seed, plan, &system).err());
            assert!(failure.is_some(), "{wrong:?}, {leaves:?}");
        }
    }
}

/// A guess must read the entry as it is: the checks above find one that does not.
#[test]
fn faults_of_guesses_are_found() {
    let plan = RemoteRunPlan {
        keys: 3,
        updating: 0.3,
        ..RemoteRunPlan::default()
    };
    let system = RolexIndexFactory {
        wrong: RolexEndpointFault::StaleEntries,
        options: speculating(96),
        ..RolexIndexFactory::new(RolexTestKeys::Inserted, &plan)
    };
    let failure = (0..500).find_map(|seed| run(seed, &plan, &system).err());
    assert!(failure.is_some());
}

#[test]
fn fabrics_that_tear_within_lines_are_refused() {
    let (simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::TornWords, [1 << 20]);
    let node = Arc::new(RolexComputeNode::new(RolexOptions::default()));
    let refused = Rolex::open(simulation.endpoint(0), &nodes, INDEX_ROOT, node);
    assert!(matches!(refused, Err(PoolError::Lines { atomic: 8 })));
}
