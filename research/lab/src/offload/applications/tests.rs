//! Tests that every deployment gives the same results as Rust's collections, and that faults are
//! found.

use super::application::RemoteApplication;
use super::deployment::{Deployment, DeploymentError, ObjectAccess};
use super::deployments::Reserve;
use super::measure::{CallerMachine, DeploymentKind, NodeAddressRanges, natives};
use super::native::TENANT;
use super::ordered_table::{self, OrderedTableApplication};
use super::sealer::{Sealer, open};
use super::site::with_nodes;
use super::slabs::RackSlabHeap;
use super::time_series::{self, TimeSeriesApplication};
use super::web_service::{self, OBJECT_BYTES, WebService, object};
use super::{ApplicationsPlan, DeploymentResult, measure_applications, with_memory};
use crate::harness::Interrupt;
use crate::offload::structures::{key, value};
use crate::report::{NumberOrigin, ReportRow};
use crate::workload::{Mix, measurement};
use nearfield_offload::node::RackMemory;
use nearfield_offload::structures::{BPlusTree, StructureEntry};
use nearfield_offload::traversal::{TraversalOutcome, TraversalQuery};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

const KEYS: u64 = 6000;
const REQUESTS: usize = 150;

/// A fault of one in ten requests.
#[derive(Clone, Copy, PartialEq)]
enum DeploymentFault {
    None,
    /// A write that is lost.
    LosesWrites,
    /// A changed bit in a result.
    ChangesAnswers,
}

/// A deployment with a fault.
struct FaultyDeployment {
    inner: Box<dyn Deployment>,
    fault: DeploymentFault,
    number: u32,
}

impl FaultyDeployment {
    fn happens(&mut self, fault: DeploymentFault) -> bool {
        self.number += 1;
        self.fault == fault && self.number.is_multiple_of(10)
    }
}

impl Deployment for FaultyDeployment {
    fn run(&mut self, query: &TraversalQuery) -> Result<TraversalOutcome, DeploymentError> {
        let mut outcome = self.inner.run(query)?;
        if self.happens(DeploymentFault::ChangesAnswers) {
            outcome.scratchpad[40] ^= 1;
        }
        Ok(outcome)
    }

    fn access(&mut self, address: u64, then: ObjectAccess<'_>) -> Result<(), DeploymentError> {
        if matches!(then, ObjectAccess::Write(_)) && self.happens(DeploymentFault::LosesWrites) {
            return Ok(());
        }
        self.inner.access(address, then)
    }

    fn run_then(
        &mut self,
        query: &TraversalQuery,
        word: usize,
        then: ObjectAccess<'_>,
    ) -> Result<TraversalOutcome, DeploymentError> {
        let loses =
            matches!(then, ObjectAccess::Write(_)) && self.happens(DeploymentFault::LosesWrites);
        let mut outcome = match loses {
            true => self.inner.run(query)?,
            false => self.inner.run_then(query, word, then)?,
        };
        if self.happens(DeploymentFault::ChangesAnswers) {
            outcome.scratchpad[40] ^= 1;
        }
        Ok(outcome)
    }

    fn insert(
        &mut self,
        tree: &mut BPlusTree,
        key: u64,
        value: u64,
    ) -> Result<(), DeploymentError> {
        // All insertions are lost, because there are few.
        match self.fault {
            DeploymentFault::LosesWrites => Ok(()),
            DeploymentFault::None | DeploymentFault::ChangesAnswers => {
                self.inner.insert(tree, key, value)
            }
        }
    }

    fn recall(&mut self, key: u64) -> Option<u64> {
        self.inner.recall(key)
    }

    fn remember(&mut self, key: u64, value: u64) {
        self.inner.remember(key, value);
    }

    fn round_trips(&self) -> u64 {
        self.inner.round_trips()
    }
}

/// Runs requests of an application by a deployment; returns the number of replies that
/// `is_expected` refuses.
fn mistakes<A: RemoteApplication>(
    application: &A,
    (rack, parts): (&RackMemory<'_>, &NodeAddressRanges),
    (kind, fault): (DeploymentKind, DeploymentFault),
    stream: usize,
    mut is_expected: impl FnMut(&A::Request, &A::Reply) -> bool,
) -> usize {
    let natives = natives(application, rack, parts);
    // The cache is small, so that it evicts.
    let reserve = Arc::new(Reserve::new(&parts.callers));
    let machine = CallerMachine::new(400_000, &reserve);
    let run = |site: &super::site::ApplicationSite<'_>| {
        let mut caller = FaultyDeployment {
            inner: machine.caller(kind, site).unwrap(),
            fault,
            number: 0,
        };
        let mut sealer = Sealer::new().unwrap();
        let requests = application.requests(stream).take(REQUESTS);
        requests
            .filter(|request| {
                let reply = application
                    .serve(request, &mut caller, &mut sealer)
                    .unwrap();
                let agrees = is_expected(request, &reply);
                // The check of measurements accepts every reply that this one accepts.
                assert!(
                    !agrees || application.is_right(request, &reply),
                    "{request:?}"
                );
                !agrees
            })
            .count()
    };
    with_nodes(rack, natives, run).unwrap()
}

/// Builds data, runs all deployments without a fault on one memory node and on three, and then on
/// one with each fault.
fn compare<A: RemoteApplication>(
    bytes: u64,
    kinds: &[DeploymentKind],
    faults: &[DeploymentFault],
    build: impl Fn(&mut RackSlabHeap<'_>) -> A,
    model: impl Fn(&A) -> Box<dyn FnMut(&A::Request, &A::Reply) -> bool>,
) {
    let none = DeploymentFault::None;
    let all = |nodes, fault| kinds.iter().map(move |&kind| (nodes, kind, fault));
    let found = all(1, none).chain(all(3, none));
    let planted = faults.iter().flat_map(|&fault| all(1, fault));
    for (nodes, kind, fault) in found.chain(planted) {
        with_memory(bytes, nodes, |rack, heap, parts| {
            let mut ranges = rack.nodes().iter().flat_map(|node| node.ranges().iter());
            assert!(ranges.all(|range| range.tenant == TENANT));
            let application = build(heap);
            let model = model(&application);
            let mistakes = mistakes(&application, (rack, parts), (kind, fault), 1, model);
            assert_eq!(
                mistakes > 0,
                fault != DeploymentFault::None,
                "{} {mistakes}, {nodes}",
                kind.name()
            );
            Ok(())
        })
        .unwrap();
    }
}

fn web_service(mix: Mix) {
    let both = [
        DeploymentFault::LosesWrites,
        DeploymentFault::ChangesAnswers,
    ];
    let faults = if mix == Mix::YcsbA {
        &both[..]
    } else {
        &both[1..]
    };
    let build = |heap: &mut RackSlabHeap<'_>| WebService::new(heap, KEYS, mix, 2).unwrap();
    compare(
        web_service::bytes(KEYS),
        &DeploymentKind::ALL,
        faults,
        build,
        |service| {
            let objects: HashMap<u64, u64> = (0..KEYS)
                .map(|number| (number, service.object_of(number)))
                .collect();
            let mut versions: HashMap<u64, u64> = HashMap::new();
            let mut addresses: HashMap<u64, u64> = HashMap::new();
            Box::new(move |request, reply| {
                // An object keeps its address, and each lookup finds one.
                let mut agrees = reply.values.len() == request.numbers.len();
                for (number, value) in request.numbers.iter().zip(&reply.values) {
                    let Some(value) = *value else {
                        return false;
                    };
                    agrees &= *addresses.entry(objects[number]).or_insert(value) == value;
                }
                let number = objects[request.numbers.last().unwrap()];
                let version = versions.entry(number).or_default();
                if request.is_update {
                    *version += 1;
                    return agrees && reply.message.is_none();
                }
                let (nonce, message) = reply.message.as_ref().unwrap();
                agrees && open(*nonce, message, OBJECT_BYTES) == Ok(object(number, *version))
            })
        },
    );
}

#[test]
fn web_service_a_is_answered_as_by_a_hash_map() {
    web_service(Mix::YcsbA);
}

#[test]
fn web_service_b_is_answered_as_by_a_hash_map() {
    web_service(Mix::YcsbB);
}

#[test]
fn web_service_c_is_answered_as_by_a_hash_map() {
    web_service(Mix::YcsbC);
}

#[test]
fn the_ordered_table_is_answered_as_by_a_b_tree_map() {
    let kinds = DeploymentKind::WITHOUT_KEYS;
    let faults = [
        DeploymentFault::LosesWrites,
        DeploymentFault::ChangesAnswers,
    ];
    let build = |heap: &mut RackSlabHeap<'_>| OrderedTableApplication::new(heap, KEYS, 2).unwrap();
    compare(
        ordered_table::bytes(KEYS),
        &kinds,
        &faults,
        build,
        |table| {
            let entry = |number| (key(number), value(key(number)));
            let mut model: BTreeMap<u64, u64> = (0..table.loaded()).map(entry).collect();
            Box::new(move |request, reply| match (request, reply) {
                (&ordered_table::OrderedTableRequest::Scan { number, count }, reply) => {
                    let entries = model.range(key(number)..).take(count);
                    let expected = entries.map(|(&key, &value)| StructureEntry { key, value });
                    let expected: Vec<StructureEntry> = expected.collect();
                    matches!(
                        reply,
                        ordered_table::OrderedTableReply::Entries(got) if *got == expected
                    )
                }
                (&ordered_table::OrderedTableRequest::Insert { number }, reply) => {
                    let (key, value) = entry(number);
                    model.insert(key, value);
                    matches!(reply, ordered_table::OrderedTableReply::Inserted)
                }
            })
        },
    );
}

#[test]
fn the_time_series_is_answered_as_by_a_vector() {
    let kinds = DeploymentKind::WITHOUT_KEYS;
    for seconds in [1, 8] {
        let build = move |heap: &mut RackSlabHeap<'_>| {
            TimeSeriesApplication::new(heap, KEYS, seconds).unwrap()
        };
        let faults = [DeploymentFault::ChangesAnswers];
        compare(time_series::bytes(KEYS), &kinds, &faults, build, |_| {
            let all: Vec<u64> = (0..KEYS).map(|number| measurement(number).1).collect();
            Box::new(move |request, reply| {
                let first = request.first as usize;
                let window = &all[first..first + 120 * seconds as usize];
                let sum: u64 = window.iter().sum();
                let expected = time_series::TimeSeriesReply {
                    sum,
                    mean: sum as f64 / window.len() as f64,
                    least: window.iter().min().copied(),
                    greatest: window.iter().max().copied(),
                };
                *reply == expected
            })
        });
    }
}

fn small_run(nodes: usize) -> Vec<ReportRow<DeploymentResult>> {
    let plan = ApplicationsPlan {
        keys: 10_000,
        nodes,
        callers: 2,
        // In the second round, cached data is outdated, because others have changed it.
        rounds: 2,
        turn: Duration::from_millis(20),
    };
    let mut rows = Vec::new();
    let finished = &mut |some: &[_]| rows.extend_from_slice(some);
    measure_applications(&plan, &Interrupt::default(), &mut |_| (), finished).unwrap();
    for row in &rows {
        assert!(row.rate_mops.is_some_and(|rate| rate > 0.0), "{row:?}");
        assert!(
            row.latency_ns.is_some_and(|latency| latency.p50 > 0),
            "{row:?}"
        );
        assert!(row.detail.node_us.is_some_and(|time| time > 0.0), "{row:?}");
        assert_eq!(row.detail.nodes, nodes);
    }
    rows
}

fn of<'r>(
    rows: &'r [ReportRow<DeploymentResult>],
    application: &str,
    peer: &str,
) -> &'r ReportRow<DeploymentResult> {
    let mut rows = rows.iter();
    rows.find(|row| row.detail.application == application && row.peer == peer)
        .unwrap()
}

#[test]
fn a_small_run_measures_every_deployment_of_every_application() {
    let rows = small_run(1);
    // Three mixes of WebService with five rows; the table and four windows with four.
    assert_eq!(rows.len(), 3 * 5 + 5 * 4);
    let trips = |application, peer| of(&rows, application, peer).detail.round_trips.unwrap();
    // The object comes with the lookups.
    assert_eq!(trips("WebService C", "traversal programs"), 1.0);
    assert_eq!(trips("WebService C", "RPC"), 1.0);
    // Half of these requests write an object, which goes with the lookups.
    assert_eq!(trips("WebService A", "traversal programs"), 1.0);
    assert_eq!(trips("WebService A", "RPC"), 1.0);
    assert_eq!(trips("time series 8 s", "traversal programs"), 1.0);
    assert!(trips("time series 8 s", "paging with a cache") > 5.0);
    let slow = of(&rows, "time series 1 s", "RPC on a slow core");
    assert_eq!(slow.kind, NumberOrigin::Modelled);
    assert!(slow.detail.node_us > of(&rows, "time series 1 s", "RPC").detail.node_us);
}

#[test]
fn on_several_nodes_programs_go_on_through_the_switch() {
    let rows = small_run(3);
    // The variant that returns to the caller adds a row to each.
    assert_eq!(rows.len(), 3 * 6 + 5 * 5);
    let scans = |peer| {
        let detail = &of(&rows, "ordered table E", peer).detail;
        (detail.round_trips.unwrap(), detail.visits.unwrap())
    };
    let (trips, visits) = scans("traversal programs");
    let (trips_returning, visits_returning) = scans("programs, returning");
    // Scans are 19 of 20 requests. They cross nodes, but the caller is involved only if nodes
    // return to it.
    assert!(visits > trips + 1.0, "{trips} {visits}");
    assert!(trips_returning > trips + 1.0, "{trips} {trips_returning}");
    assert!((trips_returning - visits_returning).abs() < 0.2);
    assert!(scans("RPC").0 > trips + 1.0);
}
