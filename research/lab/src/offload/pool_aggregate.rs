//! An aggregate over a range of a map in the pool: computed by a program at its memory node, and by
//! reading the entries. The node is reached over UCX, and served by a thread of this process.

use super::{OffloadError, claim, median};
use crate::figures::PaperClaim;
use crate::harness::{Completion, Interrupt, in_turns};
use crate::report::{NumberOrigin, ReportRow};
use nearfield_core::{Batch, OrderedIndex, ScanDirection, Words};
use nearfield_fabric::transport::ucx::{UcxEndpoint, UcxNode};
use nearfield_fabric::{GlobalAddress, NodeId, RESERVED_BYTES};
use nearfield_offload::net::udp::{OffloadClient, serve_node};
use nearfield_offload::net::{NodeSettings, OffloadNode, TenantKeys};
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, Tenant};
use nearfield_offload::wire::AuthenticationKey;
use nearfield_pool::filtered::{ScanAggregates, ValueFilter};
use nearfield_pool::store::{PoolStore, StoreOptions};
use parking_lot::FairMutex;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct AggregatePlan {
    /// Number of entries of the map.
    pub entries: u64,
    /// Number of entries of a range.
    pub range: u64,
    /// Number of turns of each contestant.
    pub rounds: usize,
    /// Length of a turn.
    pub turn: Duration,
}

/// Time of an aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolAggregate {
    /// Number of entries of the map.
    pub entries: u64,
    /// Number of entries of a range.
    pub range: u64,
    /// Mean number of leaves that a program reads for an aggregate.
    pub leaves: f64,
    /// Microseconds of an aggregate at the memory node.
    pub at_node_us: f64,
    /// Microseconds of reading the entries by one scan, and adding them up.
    pub by_scan_us: f64,
    /// Microseconds of reading each entry by its key, in one batch.
    pub by_keys_us: f64,
    /// Speedup of the memory node over the scan: the median of the rounds.
    pub gain: f64,
    /// Speedup of the memory node over reading by keys.
    pub gain_over_keys: f64,
}

/// Returns the claim, with the number of the row if there is one.
pub fn aggregate_claim(row: Option<&ReportRow<PoolAggregate>>) -> PaperClaim {
    claim(
        "ours.pool-aggregate",
        "An aggregate over 10,000 entries of a map in the pool, at its memory node, is faster than \
         reading them by a scan over UCX by this factor; the goal is 20",
        row.map(|row| row.detail.gain),
    )
}

const KEY: AuthenticationKey = AuthenticationKey([23; 32]);
const TENANT: Tenant = Tenant(1);
/// Bytes of a leaf for each entry, with a third of its slots empty, and the same again for leaves
/// that are split meanwhile.
const BYTES_PER_ENTRY: u64 = 100;
/// Bytes of the node for everything else.
const NODE_BYTES: u64 = 64 << 20;
/// Distance of successive keys.
const STRIDE: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AggregateContestant {
    AtNode,
    ByScan,
    ByKeys,
}

impl AggregateContestant {
    fn name(self) -> &'static str {
        match self {
            AggregateContestant::AtNode => "the program",
            AggregateContestant::ByScan => "the scan",
            AggregateContestant::ByKeys => "reading by keys",
        }
    }
}

/// Measures the aggregate. `show_step` receives the present step.
///
/// # Errors
/// See [`OffloadError`]; `Unavailable` without UCX.
pub fn measure_aggregate(
    plan: &AggregatePlan,
    interrupt: &Interrupt,
    show_step: &mut (dyn FnMut(&str) + Send),
) -> Result<ReportRow<PoolAggregate>, OffloadError> {
    let bytes = plan.entries * BYTES_PER_ENTRY + NODE_BYTES;
    let detail = with_node(bytes, |address, programs| {
        show_step(&format!(
            "filling a map of {} entries over UCX",
            plan.entries
        ));
        let store = open(address, programs)?;
        fill(&store, plan.entries)?;
        show_step(&format!("aggregating {} entries of the map", plan.range));
        compare(plan, &store, interrupt)
    })?;
    let peer = "aggregate of a map in the pool";
    Ok(ReportRow::new(peer, NumberOrigin::Measured, detail))
}

/// Serves a memory node over UCX that runs programs, while `body` runs in a thread of its own.
fn with_node<R: Send>(
    bytes: u64,
    body: impl FnOnce(SocketAddr, SocketAddrV4) -> Result<R, OffloadError> + Send,
) -> Result<R, OffloadError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (address_sender, address) = mpsc::channel();
        let stop = &stop;
        let node = scope.spawn(move || serve(bytes, &address_sender, stop));
        let measured = address.recv().ok().map(|(address, programs)| {
            let body = scope.spawn(move || body(address, programs)).join();
            stop.store(true, Ordering::Relaxed);
            body
        });
        let served = node.join();
        match (served, measured) {
            (Err(panic), _) | (_, Some(Err(panic))) => std::panic::resume_unwind(panic),
            (Ok(Err(error)), _) => Err(error),
            (Ok(Ok(())), Some(Ok(result))) => result,
            (Ok(Ok(())), None) => Err(OffloadError::Unavailable("the node has ended".to_owned())),
        }
    })
}

fn unavailable(error: impl std::fmt::Display) -> OffloadError {
    OffloadError::Unavailable(error.to_string())
}

fn serve(
    bytes: u64,
    address_sender: &mpsc::Sender<(SocketAddr, SocketAddrV4)>,
    stop: &AtomicBool,
) -> Result<(), OffloadError> {
    let number = NodeId(0);
    let node = UcxNode::listen("127.0.0.1:0", number, bytes).map_err(unavailable)?;
    if !node.does_posts() {
        let reason = "an adapter accesses the memory by itself; set UCX_TLS=tcp,self";
        return Err(unavailable(reason));
    }
    let ranges = NodeRanges::new(vec![NodeRange {
        offset: RESERVED_BYTES,
        ..NodeRange::whole(
            GlobalAddress::new(number, RESERVED_BYTES).to_bits(),
            node.bytes() - RESERVED_BYTES,
            TENANT,
        )
    }])?;
    let memory = LocalMemory::new(node.words(), ranges)?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(unavailable)?;
    let SocketAddr::V4(programs) = socket.local_addr().map_err(unavailable)? else {
        return Err(unavailable("the socket has no IPv4 address"));
    };
    let turn = FairMutex::new(());
    let served = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut keys = TenantKeys::new();
            keys.insert(TENANT, KEY);
            let mut programs =
                OffloadNode::new(&memory, keys, NodeSettings::default()).in_turn(&turn);
            let served = serve_node(&mut programs, &socket, None, stop);
            // After a failure here, the other thread must not serve for ever.
            stop.store(true, Ordering::Relaxed);
            served
        });
        // The receiver is gone if the other thread has ended.
        let _ = address_sender.send((node.address(), programs));
        node.serve_in_turn(stop, &turn);
        running.join()
    });
    match served {
        Ok(served) => served.map_err(unavailable),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

type Map = PoolStore<Words, UcxEndpoint>;

fn open(address: SocketAddr, programs: SocketAddrV4) -> Result<Map, OffloadError> {
    let address = address.to_string();
    let connect = move || UcxEndpoint::connect([&address]).map_err(|error| error.to_string());
    let store = PoolStore::open(connect, &StoreOptions::default()).map_err(unavailable)?;
    Ok(store.with_programs(move || {
        let client = OffloadClient::new(programs, TENANT, KEY, |_| {});
        Ok(Box::new(client.map_err(|error| error.to_string())?))
    }))
}

fn key(number: u64) -> u64 {
    STRIDE * number
}

/// Inserts all entries in random order.
fn fill(store: &Map, entries: u64) -> Result<(), OffloadError> {
    let mut numbers: Vec<u64> = (0..entries).collect();
    numbers.shuffle(&mut SmallRng::seed_from_u64(0));
    for numbers in numbers.chunks(4096) {
        let mut batch = Batch::new();
        for &number in numbers {
            batch.insert(key(number), super::structures::value(number));
        }
        store.execute(&mut batch).map_err(unavailable)?;
    }
    Ok(())
}

fn compare(
    plan: &AggregatePlan,
    store: &Map,
    interrupt: &Interrupt,
) -> Result<PoolAggregate, OffloadError> {
    let all = [
        AggregateContestant::AtNode,
        AggregateContestant::ByScan,
        AggregateContestant::ByKeys,
    ];
    let mut contestants = all.map(|contestant| (contestant, Vec::new()));
    let range = plan.range.min(plan.entries);
    let (mut runs, mut leaves) = (0_u64, 0);
    let completion = in_turns(
        plan.rounds,
        &mut contestants,
        interrupt,
        |round, (contestant, times)| {
            // All contestants of a round aggregate the same ranges.
            let mut random = SmallRng::seed_from_u64(round as u64);
            let before = store.leaf_reads();
            let (mut spent, mut count) = (Duration::ZERO, 0_u64);
            // The first aggregate only fills the caches.
            while spent < plan.turn || count < 2 {
                let first = random.random_range(0..=plan.entries - range);
                let start = Instant::now();
                let found = aggregate(store, *contestant, first, range)?;
                if count > 0 {
                    spent += start.elapsed();
                }
                count += 1;
                let values = (first..first + range).map(super::structures::value);
                if found != values.collect() {
                    let (contestant, structure) = (contestant.name(), "map in the pool");
                    return Err(OffloadError::Wrong {
                        contestant,
                        structure,
                    });
                }
            }
            let after = store.leaf_reads();
            if *contestant == AggregateContestant::AtNode {
                if after.refused > before.refused {
                    return Err(unavailable("the memory node has not run programs"));
                }
                (runs, leaves) = (runs + count, leaves + after.at_nodes - before.at_nodes);
            }
            debug_assert!(count > 1, "the first aggregate has no time");
            times.push(spent.as_secs_f64() * 1e6 / (count - 1) as f64);
            Ok(())
        },
    )?;
    if completion == Completion::Interrupted {
        return Err(OffloadError::Interrupted);
    }
    let [at_node, by_scan, by_keys] = contestants.map(|(_, times)| times);
    let gain = |over: &[f64]| median(over.iter().zip(&at_node).map(|(over, under)| over / under));
    Ok(PoolAggregate {
        entries: plan.entries,
        range,
        leaves: leaves as f64 / runs.max(1) as f64,
        gain: gain(&by_scan),
        gain_over_keys: gain(&by_keys),
        at_node_us: median(at_node.into_iter()),
        by_scan_us: median(by_scan.into_iter()),
        by_keys_us: median(by_keys.into_iter()),
    })
}

/// Computes the aggregate of `count` entries from the entry `first` on.
fn aggregate(
    store: &Map,
    contestant: AggregateContestant,
    first: u64,
    count: u64,
) -> Result<ScanAggregates, OffloadError> {
    let bounds = (
        Bound::Included(key(first)),
        Bound::Excluded(key(first + count)),
    );
    let mut batch = Batch::new();
    match contestant {
        AggregateContestant::AtNode => {
            let selection = store.selection(bounds, ValueFilter::ALL);
            store.aggregate(&selection).map_err(unavailable)
        }
        AggregateContestant::ByScan => {
            let at = batch.scan(bounds.0, bounds.1, u32::MAX, ScanDirection::Ascending);
            store.execute(&mut batch).map_err(unavailable)?;
            Ok(batch.entries(at).map(|(_, value)| value).collect())
        }
        AggregateContestant::ByKeys => {
            for number in first..first + count {
                batch.get(key(number));
            }
            store.execute(&mut batch).map_err(unavailable)?;
            let values = (0..batch.len()).filter_map(|at| batch.value(at));
            Ok(values.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All contestants compute the same aggregates. The test needs UCX, and prints a note if it is
    /// missing.
    #[test]
    fn all_kinds_have_the_same_aggregates() {
        let plan = AggregatePlan {
            entries: 2_000,
            range: 500,
            rounds: 2,
            turn: Duration::from_millis(2),
        };
        let row = match measure_aggregate(&plan, &Interrupt::default(), &mut |_| ()) {
            Err(OffloadError::Unavailable(reason))
                if std::env::var_os("NEARFIELD_REQUIRE_UCX").is_none() =>
            {
                eprintln!("skipped: {reason}");
                return;
            }
            row => row.expect("it is measured"),
        };
        let detail = &row.detail;
        assert!(detail.leaves > 5.0 && detail.gain > 0.0, "{detail:?}");
        assert!(detail.gain_over_keys > 0.0, "{detail:?}");
        assert_eq!(aggregate_claim(Some(&row)).ours, Some(row.detail.gain));
    }
}
