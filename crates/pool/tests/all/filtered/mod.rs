//! Tests that filters and aggregates by programs at memory nodes agree with those of a `BTreeMap`:
//! in a quiet tree through a network with faults, and with concurrent writers.
#![cfg(target_os = "linux")]

mod beside;
mod network;
mod rack;

use nearfield_fabric::Endpoint;
use nearfield_offload::node::RackMemory;
use nearfield_offload::traversal::{InMemory, QueryRunner, TraversalOutcome, TraversalQuery};
use nearfield_pool::PoolIndexClient;
use nearfield_pool::chime::{ChimeComputeNode, ChimeOptions, ChimeTree};
use nearfield_pool::filtered::{PoolProgramExecutor, PoolScanRange, ScanAggregates, ValueFilter};
use nearfield_pool::layout::PoolIndexShape;
use nearfield_testkit::polling::block_on;
use nearfield_testkit::seeds;
use nearfield_testkit::stop::AtEnd;
use network::PoolTestNetwork;
use rack::{ROOT, rack, served};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Returns both kinds of hopscotch leaves, of two sizes.
fn options(seed: u64) -> ChimeOptions {
    let options = match seed % 2 {
        0 => ChimeOptions::nearfield(),
        _ => ChimeOptions {
            // In shared memory, CHIME's locks have leases, too.
            locks: ChimeOptions::nearfield().locks,
            ..ChimeOptions::chime()
        },
    };
    let (leaf_span, internal_span) = if seed % 4 < 2 { (64, 64) } else { (16, 8) };
    ChimeOptions {
        shape: PoolIndexShape {
            leaf_span,
            internal_span,
            ..options.shape
        },
        cache_bytes: 1 << 20,
        hotspot_bytes: 1 << 12,
        ..options
    }
}

fn random_filter(random: &mut SmallRng) -> ValueFilter {
    let mut value = || match random.random_range(0..4) {
        0 => 0,
        1 => u64::MAX,
        2 => random.random(),
        _ => random.random_range(0..1000),
    };
    let (one, other) = (value(), value());
    match random.random_range(0..7) {
        0 => ValueFilter::ALL,
        1 => ValueFilter::at_least(one),
        2 => ValueFilter::at_most(one),
        3 => ValueFilter::equal_to(one),
        4 => ValueFilter::other_than(one),
        _ => ValueFilter::between((Bound::Included(one), Bound::Excluded(other))),
    }
}

/// Compares random contents, ranges and filters, by programs and without, on one node and on four.
fn agree(seed: u64, programs: &mut dyn PoolProgramExecutor, tree: &ChimeTree<impl Endpoint>) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut model = BTreeMap::new();
    let most = [300, 5_000, u64::MAX][(seed % 3) as usize];
    for round in 0..4 {
        for _ in 0..400 {
            let number = random.random_range(1..=most);
            let value: u64 = match random.random_range(0..3) {
                0 => random.random(),
                _ => random.random_range(0..1000),
            };
            if random.random_ratio(1, 1 + 3 * (round % 2 + 1)) {
                model.remove(&number);
                block_on(tree.remove(&key(number))).expect("a node");
            } else {
                model.insert(number, value);
                let (key, value) = (key(number), value.to_le_bytes());
                block_on(tree.insert(&key, &value)).expect("a node");
            }
        }
        for _ in 0..12 {
            let mut bound = || match random.random_range(0..5) {
                0 => 0,
                1 => u64::MAX,
                _ => random.random_range(0..=most),
            };
            let (low, high) = (bound(), bound());
            let (low, high) = (low.min(high), low.max(high));
            let filter = random_filter(&mut random);
            let expected: Vec<(u64, u64)> = model
                .range(low..=high)
                .map(|(&number, &value)| (number, value))
                .filter(|(_, value)| filter.matches(*value))
                .collect();
            let range = PoolScanRange::new(&key(low), &key(high));
            let aggregates: ScanAggregates = expected.iter().map(|(_, value)| *value).collect();
            let found = block_on(tree.aggregate(&range, &filter, Some(programs)));
            assert_eq!(
                found.as_ref(),
                Ok(&aggregates),
                "seed {seed}, {low}..={high}, {filter:?}"
            );
            assert_eq!(block_on(tree.aggregate(&range, &filter, None)), found);
            let mut found = Vec::new();
            let mut rest = Some(range);
            while let Some(range) = rest {
                let selected = block_on(tree.select(&range, &filter, Some(programs)));
                let (entries, behind) = selected.expect("a node");
                found.extend(entries);
                rest = behind;
            }
            let bytes =
                |(number, value): (u64, u64)| (key(number).to_vec(), value.to_le_bytes().to_vec());
            let expected: Vec<_> = expected.into_iter().map(bytes).collect();
            assert!(found == expected, "seed {seed}, {low}..={high}, {filter:?}");
        }
    }
}

#[test]
fn programs_agree_with_a_btree_map_through_a_network_with_faults() {
    let mut repeated = 0;
    // Four seeds have both kinds of leaves in both sizes.
    seeds::each(4, |seed| {
        let (nodes, endpoint) = served(if seed % 3 == 0 { 1 } else { 4 });
        let rack = rack(&nodes);
        let compute_node = Arc::new(ChimeComputeNode::new(options(seed)).expect("options"));
        let ids = endpoint.nodes();
        let tree = block_on(ChimeTree::create(endpoint, &ids, ROOT, compute_node)).expect("a tree");
        let mut network = PoolTestNetwork::new(&rack, 0.01, seed);
        agree(seed, &mut network, &tree);
        let reads = tree.leaf_reads();
        assert!(reads.at_nodes > 100 && reads.refused == 0, "{reads:?}");
        repeated += network.repeated();
    });
    assert!(repeated > 0, "nothing was lost");
}

/// Counts agree with concurrent writes of two threads, by native code in memory that they share.
#[test]
fn programs_see_whole_leaves_beside_writers_in_other_threads() {
    const STABLE: u64 = 2_000;
    let (nodes, endpoint) = served(2);
    let rack = rack(&nodes);
    let compute_node = Arc::new(ChimeComputeNode::new(options(0)).expect("options"));
    let ids = &endpoint.nodes();
    let tree = ChimeTree::create(endpoint.clone(), ids, ROOT, compute_node.clone());
    let tree = block_on(tree).expect("a tree");
    for number in 1..=STABLE {
        let (key, value) = (key(4 * number), (1_000 + number).to_le_bytes());
        block_on(tree.insert(&key, &value)).expect("a node");
    }
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (endpoint, compute_node) = (endpoint.clone(), compute_node.clone());
            scope.spawn(move || {
                let tree = block_on(ChimeTree::open(endpoint, ids, ROOT, compute_node));
                let tree = tree.expect("the tree");
                let mut random = SmallRng::seed_from_u64(thread);
                while !stop.load(Ordering::Relaxed) {
                    let number = key(4 * random.random_range(1..STABLE) + 1 + thread);
                    let value: u64 = random.random_range(0..1_000);
                    match random.random_bool(0.6) {
                        true => block_on(tree.insert(&number, &value.to_le_bytes())),
                        false => block_on(tree.remove(&number)),
                    }
                    .expect("a node");
                }
            });
        }
        let stopping = AtEnd(stop);
        let expected: ScanAggregates = (1..=STABLE).map(|number| 1_000 + number).collect();
        let range = PoolScanRange::new(&key(0), &key(u64::MAX));
        let mut programs = InMemory::new(rack);
        let results: Vec<_> = (0..100)
            .map(|_| {
                let filter = ValueFilter::at_least(1_000);
                block_on(tree.aggregate(&range, &filter, Some(&mut programs)))
            })
            .collect();
        drop(stopping);
        for result in results {
            assert_eq!(result, Ok(expected));
        }
    });
    assert!(
        tree.leaf_reads().at_nodes > 1_000,
        "{:?}",
        tree.leaf_reads()
    );
}

#[test]
fn nothing_is_missed_or_met_twice_beside_a_writer() {
    let mut at_nodes = 0;
    for seed in 0..6 {
        let result = beside::run(seed, options(0), seed % 2 == 0);
        at_nodes += result.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(at_nodes > 1_000, "{at_nodes}");
}

/// Programs on the memory itself, and the numbers of those that were run at the same time.
struct CountedPrograms<'m> {
    memory: InMemory<RackMemory<'m>>,
    together: Vec<usize>,
}

impl PoolProgramExecutor for CountedPrograms<'_> {
    fn run(&mut self, query: &TraversalQuery, iterations: u64) -> Result<TraversalOutcome, String> {
        let Ok(outcome) = QueryRunner::run(&mut self.memory, query, iterations);
        Ok(outcome)
    }

    fn run_all(
        &mut self,
        queries: &[TraversalQuery],
        iterations: u64,
    ) -> Vec<Result<TraversalOutcome, String>> {
        self.together.push(queries.len());
        let queries = queries.iter();
        queries.map(|query| self.run(query, iterations)).collect()
    }
}

#[test]
fn the_parts_of_a_long_range_are_read_at_the_same_time() {
    const KEYS: u64 = 3_000;
    let (nodes, endpoint) = served(1);
    let rack = rack(&nodes);
    let ids = endpoint.nodes();
    let node = || Arc::new(ChimeComputeNode::new(options(2)).expect("options"));
    let tree = ChimeTree::create(endpoint.clone(), &ids, ROOT, node());
    let tree = block_on(tree).expect("a tree");
    for number in 1..=KEYS {
        block_on(tree.insert(&key(number), &number.to_le_bytes())).expect("a node");
    }
    // This client has read no inner node yet, so it knows no parts in the first round.
    let reading = block_on(ChimeTree::open(endpoint, &ids, ROOT, node())).expect("the tree");
    let mut programs = CountedPrograms {
        memory: InMemory::new(rack),
        together: Vec::new(),
    };
    let (filter, mut counts) = (ValueFilter::at_least(2), Vec::new());
    for _ in 0..2 {
        for (low, high) in [(0, u64::MAX), (100, KEYS - 100), (1_000, 1_001)] {
            let selected = (low.max(2)..=high.min(KEYS)).collect::<ScanAggregates>();
            let range = PoolScanRange::new(&key(low), &key(high));
            let found = block_on(reading.aggregate(&range, &filter, Some(&mut programs)));
            assert_eq!(found, Ok(selected), "{low}..={high}");
            counts.push(std::mem::take(&mut programs.together));
        }
    }
    for long in [&counts[3], &counts[4]] {
        assert!(matches!(long[..], [2..=8]), "{counts:?}");
    }
}

/// No node runs the program: the client reads the leaves, and reports that.
#[test]
fn refused_programs_are_replaced_by_reads() {
    struct Deaf;
    impl PoolProgramExecutor for Deaf {
        fn run(&mut self, _: &TraversalQuery, _: u64) -> Result<TraversalOutcome, String> {
            Err("no node is there".to_owned())
        }
    }
    let (_nodes, endpoint) = served(1);
    let compute_node = Arc::new(ChimeComputeNode::new(options(0)).expect("options"));
    let ids = endpoint.nodes();
    let tree = block_on(ChimeTree::create(endpoint, &ids, ROOT, compute_node)).expect("a tree");
    agree(1, &mut Deaf, &tree);
    let reads = tree.leaf_reads();
    assert!(
        reads.at_nodes == 0 && reads.here > 0 && reads.refused > 0,
        "{reads:?}"
    );
}
