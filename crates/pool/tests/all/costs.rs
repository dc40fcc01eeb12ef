//! Tests that the costs of operations of the tree, in round trips, bytes and atomics, are those
//! published of CHIME and of Sherman in CHIME's figures; each test explains a difference.

use nearfield_fabric::count::{CountingEndpoint, VerbCost};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_pool::PoolIndexClient;
use nearfield_pool::chime::{ChimeComputeNode, ChimeOptions, ChimeTree};
use nearfield_pool::layout::{LeafMetadataPosition, PoolIndexShape, Validation, home};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);
const SPAN: usize = 64;
/// Bytes of leaves and internal nodes on the wire, and of their locks.
const LEAF: u64 = 1316;
const INTERNAL: u64 = 1148;
const LOCK: u64 = 8;

type Client = ChimeTree<CountingEndpoint<SimEndpoint>>;

/// Returns CHIME without speculation, as if all keys were cold.
fn chime() -> ChimeOptions {
    ChimeOptions {
        hotspot_bytes: 0,
        ..ChimeOptions::chime()
    }
}

/// Clients of two compute nodes, and the first one's node.
struct TwoNodeClients {
    one: Client,
    other: Client,
    node: Arc<ChimeComputeNode>,
}

fn simulation() -> (FabricSimulation, [NodeId; 1]) {
    FabricSimulation::with_nodes(1, Delivery::Whole, [64 << 20])
}

fn compute_node(options: ChimeOptions) -> Arc<ChimeComputeNode> {
    Arc::new(ChimeComputeNode::new(options).expect("sizes"))
}

/// Runs the clients' operations in a tree that the first has created.
fn run<F: Future<Output = ()> + 'static>(
    options: ChimeOptions,
    work: impl FnOnce(TwoNodeClients) -> F + 'static,
) {
    let (mut simulation, nodes) = simulation();
    let [one, other] = [0, 1].map(|client| CountingEndpoint::new(simulation.endpoint(client)));
    simulation.spawn(0, async move {
        let node = compute_node(options);
        let one = ChimeTree::create(one, &nodes, ROOT, Arc::clone(&node)).await;
        let one = one.expect("made");
        let other = ChimeTree::open(other, &nodes, ROOT, compute_node(options))
            .await
            .expect("opened");
        work(TwoNodeClients { one, other, node }).await;
    });
    assert_eq!(simulation.run(), 0);
}

/// Returns the cost of an operation.
async fn cost<T>(client: &Client, operation: impl Future<Output = T>) -> (T, VerbCost) {
    client.endpoint().take();
    let answer = operation.await;
    (answer, client.endpoint().take())
}

fn bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// Inserts random keys; returns them and the cost of each.
async fn load(client: &Client, count: usize) -> Vec<(u64, VerbCost)> {
    let random = &mut SmallRng::seed_from_u64(7);
    let mut loaded = Vec::with_capacity(count);
    for _ in 0..count {
        let key = random.random_range(1..=u64::MAX);
        let (before, cost) = cost(client, client.insert(&bytes(key), &[1; 8])).await;
        assert_eq!(before, Ok(None));
        loaded.push((key, cost));
    }
    // Searches find that the cached nodes were divided since.
    for (key, _) in &loaded {
        assert_eq!(client.get(&bytes(*key)).await, Ok(Some(vec![1; 8])));
    }
    loaded
}

/// Creates a tree of two empty leaves, whose parent is cached. Returns a key of the right one for
/// each home.
async fn two_leaves(client: &Client) -> Vec<[u8; 8]> {
    for key in 1..=60_u64 {
        client.insert(&bytes(key), &[1; 8]).await.expect("inserted");
    }
    for key in 1..=60_u64 {
        client.remove(&bytes(key)).await.expect("removed");
    }
    (0..SPAN).map(|wanted| of_home(1 << 32, wanted)).collect()
}

/// Returns the first key of a home that is not less than `from`.
fn of_home(from: u64, wanted: usize) -> [u8; 8] {
    let mut keys = (from..).map(bytes);
    keys.find(|key| home(key, SPAN) == wanted).expect("a key")
}

fn totals(cost: &VerbCost) -> [u64; 4] {
    let VerbCost {
        round_trips,
        read_bytes,
        written_bytes,
        atomics,
        ..
    } = *cost;
    [round_trips, read_bytes, written_bytes, atomics]
}

/// Returns the frequency of each number.
fn histogram(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut histogram = BTreeMap::new();
    for number in numbers {
        *histogram.entry(number).or_insert(0) += 1;
    }
    histogram.into_iter().collect()
}

fn mean(numbers: impl IntoIterator<Item = u64>) -> f64 {
    let (mut sum, mut count) = (0, 0);
    for number in numbers {
        sum += number;
        count += 1;
    }
    sum as f64 / f64::from(count)
}

/// Checks a number, and prints it next to the expected one.
fn near(name: &str, found: f64, expected: f64, tolerance: f64) {
    println!("{name}: {found:.3}, expected {expected}");
    assert!((found - expected).abs() <= tolerance, "{name}: {found}");
}

/// Returns the costs of searching a key of each home by window: the frequency of each number of
/// bytes, and the number of homes with two reads.
async fn windows(client: &Client, keys: &[u64]) -> (Vec<(u64, u64)>, usize) {
    let mut of_homes: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for &key in keys {
        let (value, cost) = cost(client, client.get(&bytes(key))).await;
        assert_eq!(value, Ok(Some(vec![1; 8])));
        let read: u64 = cost.reads.iter().sum();
        assert_eq!(totals(&cost), [1, read, 0, 0]);
        let reads = of_homes
            .entry(home(&bytes(key), SPAN))
            .or_insert(cost.reads.clone());
        assert_eq!(*reads, cost.reads, "keys of a home cost the same");
    }
    assert_eq!(of_homes.len(), SPAN);
    let two = of_homes.values().filter(|reads| reads.len() == 2).count();
    (
        histogram(of_homes.values().map(|reads| reads.iter().sum())),
        two,
    )
}

#[test]
fn a_search_reads_a_neighborhood() {
    run(chime(), async |TwoNodeClients { one, .. }| {
        let loaded = load(&one, 8_000).await;
        let keys: Vec<u64> = loaded.iter().map(|(key, _)| *key).collect();
        assert_eq!(windows(&one, &keys).await, (vec![(164, 32), (165, 32)], 7));
        // An absent key is searched twice, which proves that it was not moved meanwhile. CHIME
        // cannot detect that.
        for key in 1..100 {
            let (value, cost) = cost(&one, one.get(&bytes(key << 40))).await;
            assert_eq!(value, Ok(None));
            assert!([2 * 164, 2 * 165].contains(&cost.read_bytes));
            assert_eq!(totals(&cost), [2, cost.read_bytes, 0, 0]);
        }
    });
}

#[test]
fn without_replication_the_header_comes_in_the_same_round_trip() {
    let options = ChimeOptions {
        shape: PoolIndexShape {
            metadata: LeafMetadataPosition::Single,
            validation: Validation::Fences,
            ..PoolIndexShape::default()
        },
        ..chime()
    };
    run(options, async |TwoNodeClients { one, .. }| {
        let loaded = load(&one, 8_000).await;
        let keys: Vec<u64> = loaded.iter().map(|(key, _)| *key).collect();
        let (bytes, two) = windows(&one, &keys).await;
        // The public implementation's header has a byte more.
        assert_eq!(bytes, [(154 + 26, 40), (155 + 26, 24)]);
        // The first neighborhood begins behind the header; those that wrap begin with it.
        assert_eq!(two, 63);
    });
}

#[test]
fn a_search_at_a_right_guess_reads_one_entry() {
    run(
        ChimeOptions::chime(),
        async |TwoNodeClients { one, other, .. }| {
            let (mut hits, mut misses) = (Vec::new(), Vec::new());
            for key in two_leaves(&one).await {
                // In an empty leaf a key is at its home.
                one.insert(&key, &[1; 8]).await.expect("inserted");
                one.get(&key).await.expect("found by its neighborhood");
                let (value, hit) = cost(&one, one.get(&key)).await;
                assert_eq!(value, Ok(Some(vec![1; 8])));
                assert_eq!(totals(&hit), [1, hit.read_bytes, 0, 0]);
                // Another compute node puts another key of the home there.
                let rest = of_home(u64::from_be_bytes(key) + 1, home(&key, SPAN));
                other.remove(&key).await.expect("removed");
                other.insert(&rest, &[2; 8]).await.expect("inserted");
                other.insert(&key, &[3; 8]).await.expect("inserted");
                let (value, miss) = cost(&one, one.get(&key)).await;
                assert_eq!(value, Ok(Some(vec![3; 8])));
                assert_eq!(totals(&miss), [2, miss.read_bytes, 0, 0]);
                assert_eq!(miss.reads[0], hit.read_bytes);
                other.remove(&key).await.expect("removed");
                other.remove(&rest).await.expect("removed");
                hits.push(hit.read_bytes);
                misses.push(miss.read_bytes);
            }
            assert_eq!(histogram(hits), [(19, 40), (20, 16), (29, 4), (30, 4)]);
            near("bytes of a wrong guess", mean(misses), 185.0, 0.5);
        },
    );
}

#[test]
fn an_update_writes_one_entry_and_the_lock() {
    for options in [chime(), ChimeOptions::chime()] {
        run(options, async move |TwoNodeClients { one, .. }| {
            let speculates = options.hotspot_bytes > 0;
            let mut costs = Vec::new();
            for key in two_leaves(&one).await {
                one.insert(&key, &[1; 8]).await.expect("inserted");
                one.get(&key).await.expect("found by its neighborhood");
                let (before, cost) = cost(&one, one.update(&key, &[2; 8])).await;
                assert_eq!(before, Ok(Some(vec![1; 8])));
                let VerbCost {
                    read_bytes,
                    written_bytes,
                    ..
                } = cost;
                assert_eq!(totals(&cost), [3, read_bytes, written_bytes, 1]);
                one.remove(&key).await.expect("removed");
                costs.push(cost);
            }
            let reads = histogram(costs.iter().map(|cost| cost.read_bytes));
            if speculates {
                assert_eq!(reads, [(19, 40), (20, 16), (29, 4), (30, 4)]);
            } else {
                assert_eq!(reads, [(164, 32), (165, 32)]);
            }
            let writes = histogram(costs.iter().map(|cost| cost.written_bytes - LOCK));
            // Written without the replica in front of some, which the public implementation writes
            // again.
            assert_eq!(writes, [(19, 45), (20, 19)]);
        });
    }
}

#[test]
fn an_insert_reads_its_hop_range_and_writes_from_the_home_on() {
    run(chime(), async |TwoNodeClients { one, .. }| {
        let loaded = load(&one, 40_000).await;
        let steady = || loaded[10_000..].iter().map(|(_, cost)| cost);
        let whole = || steady().filter(|cost| cost.written_bytes < LEAF);
        let splits = steady().count() - whole().count();
        near(
            "splits for each insert",
            splits as f64 / 30_000.0,
            0.026,
            0.001,
        );
        for cost in whole() {
            let VerbCost {
                read_bytes,
                written_bytes,
                ..
            } = *cost;
            assert_eq!(totals(cost), [3, read_bytes, written_bytes, 1]);
        }
        // CHIME reads 211, because its ranges do not wrap: of every twentieth insert it reads the
        // leaf. It does not read the neighborhood, in which the key may be behind the first empty
        // slot.
        let read = || whole().map(|cost| cost.read_bytes);
        near("bytes read", mean(read()), 186.0, 1.0);
        let share = |is: fn(&u64) -> bool| read().filter(is).count() as f64 / read().count() as f64;
        near(
            "neighborhoods",
            share(|read| [164, 165].contains(read)),
            0.87,
            0.01,
        );
        near("leaves", share(|read| *read == LEAF), 0.0, 0.001);
        // Ours writes the shortest run with all that has changed, where CHIME writes 87 from the
        // home on.
        let written = whole().map(|cost| cost.written_bytes - LOCK);
        near("bytes written", mean(written), 84.0, 1.0);
    });
}

#[test]
fn without_the_vacancy_bitmap_an_insert_reads_the_leaf() {
    let options = ChimeOptions {
        vacancy_bitmap: false,
        ..chime()
    };
    run(options, async |TwoNodeClients { one, .. }| {
        let loaded = load(&one, 5_000).await;
        let inserts = loaded[1_000..].iter().map(|(_, cost)| cost);
        for cost in inserts.filter(|cost| cost.written_bytes < LEAF) {
            assert_eq!(totals(cost), [3, LEAF, cost.written_bytes, 1]);
        }
    });
}

/// The parent is locked, read and written; the leaf's halves are written, each with its lock in a
/// separate verb, because the lines of one verb take effect in any order: 1,316 and 8 bytes where
/// the public implementation writes 1,332 at once.
#[test]
fn a_split_takes_three_or_four_round_trips_more() {
    run(chime(), async |TwoNodeClients { one, .. }| {
        let loaded = load(&one, 30_000).await;
        let splits = loaded[10_000..].iter().map(|(_, cost)| cost);
        let splits: Vec<&VerbCost> = splits
            .filter(|cost| cost.written_bytes > 2 * LEAF)
            .collect();
        let (leaf, internal) = (LEAF + LOCK, INTERNAL + LOCK);
        let mut at_once = 0;
        for cost in &splits {
            // The parent is included, and the node above it if it was full as well.
            let levels = cost.atomics - 1;
            // If the vacancy bitmap shows the leaf as full, a client reads the whole leaf at once.
            // Otherwise it has read the hop range in vain, and reads it again.
            let range = cost.read_bytes - LEAF - levels * INTERNAL;
            at_once += usize::from(range == 0);
            let round_trips = if range == 0 { 6 } else { 7 } + 4 * (levels - 1);
            let written = 2 * leaf + internal + (levels - 1) * 2 * internal;
            assert_eq!(
                totals(cost),
                [round_trips, cost.read_bytes, written, 1 + levels]
            );
        }
        assert!(splits.iter().any(|cost| cost.atomics == 3));
        near(
            "read at once",
            at_once as f64 / splits.len() as f64,
            0.1,
            0.02,
        );
    });
}

#[test]
fn a_cold_search_reads_the_root_and_a_node_of_each_level() {
    for (count, height) in [(10, 1), (1000, 2), (40_000, 3)] {
        run(
            chime(),
            async move |TwoNodeClients { one, other, .. }| {
                let loaded = load(&one, count).await;
                let key = bytes(loaded[0].0);
                let (_, warm) = cost(&one, one.get(&key)).await;
                let (_, cold) = cost(&other, other.get(&key)).await;
                let window = if height == 1 {
                    warm.read_bytes - 8
                } else {
                    warm.read_bytes
                };
                assert!([164, 165].contains(&window));
                let read = 8 + INTERNAL * (height - 1) + window;
                assert_eq!(totals(&cold), [1 + height, read, 0, 0]);
            },
        );
    }
}

#[test]
fn a_scan_reads_leaves_with_one_notification() {
    run(chime(), async |TwoNodeClients { one, .. }| {
        let loaded = load(&one, 40_000).await;
        // Round trips of scans that do not know how many leaves hold the next keys.
        for (wanted, round_trips) in [(1, 1.0), (10, 1.22), (50, 1.31), (100, 1.6), (500, 1.62)] {
            let mut costs = Vec::new();
            for (from, _) in loaded.iter().step_by(50) {
                let (found, cost) = cost(&one, one.scan(&bytes(*from), wanted)).await;
                found.expect("scanned");
                let read = [cost.read_bytes, cost.written_bytes, cost.atomics];
                assert_eq!(read, [LEAF * cost.messages, 0, 0]);
                costs.push(cost);
            }
            let leaves = mean(costs.iter().map(|cost| cost.messages));
            let published = wanted as f64 / 38.0 + 1.0;
            near(
                &format!("leaves for {wanted} keys"),
                leaves,
                published,
                0.25,
            );
            let found = mean(costs.iter().map(|cost| cost.round_trips));
            near(
                &format!("round trips for {wanted} keys"),
                found,
                round_trips,
                0.05,
            );
        }
    });
}

#[test]
fn shermans_operations_cost_what_they_cost_in_chimes_figures() {
    run(
        ChimeOptions::sherman(),
        async |TwoNodeClients { one, .. }| {
            let loaded = load(&one, 8_000).await;
            let mut written = Vec::new();
            for (key, insert) in &loaded[1_000..] {
                let (_, search) = cost(&one, one.get(&bytes(*key))).await;
                assert_eq!(totals(&search), [1, 1132, 0, 0]);
                let (_, update) = cost(&one, one.update(&bytes(*key), &[2; 8])).await;
                assert_eq!(totals(&update), [3, 1132, update.written_bytes, 1]);
                if insert.written_bytes < 1132 {
                    assert_eq!(totals(insert), [3, 1132, insert.written_bytes, 1]);
                    written.push(insert.written_bytes);
                }
                written.push(update.written_bytes);
            }
            let written: Vec<u64> = histogram(written).iter().map(|(bytes, _)| *bytes).collect();
            assert_eq!(written, [17 + LOCK, 18 + LOCK]);
        },
    );
}

/// In ours, one message finds a key, or its absence, and two round trips change it. Now and then an
/// operation renews its session.
#[test]
fn operations_of_ours_take_one_round_trip_or_two() {
    let options = ChimeOptions {
        hotspot_bytes: 0,
        ..ChimeOptions::nearfield()
    };
    run(options, async |TwoNodeClients { one, .. }| {
        let loaded = load(&one, 20_000).await;
        let [mut found, mut absent, mut updates] = [const { Vec::new() }; 3];
        let [mut inserts, mut read] = [const { Vec::new() }; 2];
        for (key, insert) in &loaded[1_000..] {
            inserts.push(insert.round_trips);
            let (_, cost_of) = cost(&one, one.get(&bytes(*key))).await;
            found.push((cost_of.round_trips, cost_of.messages));
            read.push(cost_of.read_bytes);
            let (_, cost_of) = cost(&one, one.get(&bytes(*key ^ 1))).await;
            absent.push((cost_of.round_trips, cost_of.messages));
            let (_, cost_of) = cost(&one, one.update(&bytes(*key), &[2; 8])).await;
            updates.push((cost_of.round_trips, cost_of.atomics));
        }
        fn share<T: PartialEq>(of: &[T], wanted: T) -> f64 {
            of.iter().filter(|cost| **cost == wanted).count() as f64 / of.len() as f64
        }
        read.sort_unstable();
        let windows = [read[0], read[read.len() * 99 / 100]];
        assert_eq!(windows, [148, 149], "bytes of a neighborhood");
        let shares = [
            share(&found, (1, 1)),
            share(&absent, (1, 1)),
            share(&updates, (2, 1)),
            share(&inserts, 2),
        ];
        eprintln!("found, absent, updated and inserted as is usual: {shares:.3?}");
        assert!(shares[..3].iter().all(|share| *share > 0.99), "{shares:?}");
        // The others move entries, or divide the leaf.
        assert!(shares[3] > 0.8, "{shares:?}");
    });
}

/// A key that is overwritten again takes lock, value, lock. Other keys were in other slots of the
/// leaf meanwhile.
#[test]
fn what_is_overwritten_again_is_not_read() {
    run(
        ChimeOptions::nearfield(),
        async |TwoNodeClients { one, other, .. }| {
            let loaded = load(&one, 2_000).await;
            let cost_of = async |key: u64| {
                let (was_there, cost) = cost(&one, one.overwrite(&bytes(key), &[3; 8])).await;
                assert_eq!(was_there, Ok(true));
                totals(&cost)
            };
            let (mut again, mut alone) = (0, 0);
            for (key, _) in &loaded[1_000..] {
                // The value and the lock are written; of some keys the value is in two lines, and
                // is recorded.
                alone += usize::from(cost_of(*key).await[2] == 8 + LOCK);
                again += usize::from(cost_of(*key).await == [2, 0, 8 + LOCK, 1]);
            }
            eprintln!("{again} of {alone} values in one line were overwritten without being read");
            assert!(
                alone > 800 && again * 100 > alone * 98,
                "{again} of {alone}"
            );

            // A put behaves the same.
            let mut again = 0;
            for (key, _) in &loaded[1_000..] {
                let (put, cost) = cost(&one, one.put(&bytes(*key), &[4; 8])).await;
                assert_eq!(put, Ok(()));
                again += usize::from(totals(&cost) == [2, 0, 8 + LOCK, 1]);
            }
            assert!(
                again * 100 > alone * 98,
                "{again} of {alone} were put unread"
            );

            // Once a key has left its leaf, the remaining ones are read.
            let unread = async |keys: &[u64]| {
                let mut unread = 0;
                for key in keys {
                    unread += usize::from(cost_of(*key).await[1] == 0);
                }
                unread
            };
            let keys: Vec<u64> = loaded[1_000..1_100].iter().map(|(key, _)| *key).collect();
            assert!(unread(&keys).await > 80);
            for (key, _) in &loaded[..1_000] {
                let removed = other.remove(&bytes(*key)).await;
                assert_eq!(removed.map(|value| value.is_some()), Ok(true));
            }
            assert_eq!(unread(&keys).await, 0);
        },
    );
}

#[test]
fn the_cache_takes_half_a_byte_for_each_key() {
    run(chime(), async |TwoNodeClients { one, node, .. }| {
        let loaded = load(&one, 150_000).await;
        let splits = loaded
            .iter()
            .filter(|(_, cost)| cost.written_bytes > LEAF)
            .count();
        near(
            "load",
            150_000.0 / ((splits + 1) * SPAN) as f64,
            0.594,
            0.01,
        );
        // The published number is 0.48, by a formula without the memory of nodes besides their
        // entries.
        let found = node.cache_bytes() as f64 / 150_000.0;
        near("cache bytes per key", found, 0.50, 0.01);
    });
}

#[test]
fn ascending_inserts_leave_leaves_half_empty() {
    run(chime(), async |TwoNodeClients { one, .. }| {
        let mut leaves = 1;
        for key in 1..=20_000_u64 {
            let (_, cost) = cost(&one, one.insert(&bytes(key), &[1; 8])).await;
            leaves += usize::from(cost.written_bytes > LEAF);
        }
        near("load", 20_000.0 / (leaves * SPAN) as f64, 0.474, 0.01);
    });
}

/// A client divides a leaf and dies before it updates the parent. Clients that follow the parent
/// must find that their key does not belong to the right: from the keys that they have read or, one
/// round trip later, from the leaf's greatest.
#[test]
fn an_insert_may_have_to_read_the_greatest_key_of_a_leaf_that_was_divided() {
    // The keys have others between them, the last of which are the dying client's.
    let key = |number: u64| bytes(number * 1000);
    let load = async move |tree: &Client| {
        for number in 1..=100 {
            let inserted = tree.insert(&key(number), &[1; 8]).await;
            inserted.expect("inserted");
        }
    };
    // The number of the dying client's verbs before the parent is updated. It begins with a read of
    // the tree's header.
    let verbs = Rc::new(Cell::new(1));
    let tell = Rc::clone(&verbs);
    run(
        chime(),
        async move |TwoNodeClients { one, other, .. }| {
            load(&one).await;
            for number in 101.. {
                let (_, cost) = cost(&other, other.insert(&key(number), &[1; 8])).await;
                tell.set(tell.get() + cost.messages + cost.calls);
                if cost.written_bytes > LEAF {
                    // The parent's lock is taken, the parent is read, and written with the lock.
                    tell.set(tell.get() - 4);
                    return;
                }
            }
        },
    );
    let (mut simulation, nodes) = simulation();
    let endpoints = [0, 1, 2].map(|client| CountingEndpoint::new(simulation.endpoint(client)));
    let [one, other, cold] = endpoints;
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(one, &nodes, ROOT, compute_node(chime())).await;
        load(&tree.expect("made")).await;
    });
    assert_eq!(simulation.run(), 0);
    simulation.kill_at_verb(1, verbs.get());
    simulation.spawn(1, async move {
        let tree = ChimeTree::open(other, &nodes, ROOT, compute_node(chime()))
            .await
            .expect("opened");
        for number in 101.. {
            tree.insert(&key(number), &[1; 8]).await.expect("inserted");
        }
    });
    assert_eq!(simulation.run(), 0);
    assert!(simulation.is_dead(1));

    let cold_options = ChimeOptions {
        cache_bytes: 0,
        ..chime()
    };
    let costs = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&costs);
    simulation.spawn(2, async move {
        let tree = ChimeTree::open(cold, &nodes, ROOT, compute_node(cold_options))
            .await
            .expect("opened");
        for number in (50..).step_by(2) {
            let key = bytes(number * 1000 + 500);
            let (before, cost) = cost(&tree, tree.insert(&key, &[1; 8])).await;
            assert_eq!(before, Ok(None));
            noted.borrow_mut().push(cost);
        }
    });
    // Keys that belong to the right wait for the client that updates the parent.
    let until = simulation.now() + Duration::from_millis(2);
    simulation.run_until(|now| now > until);
    let costs = costs.borrow();
    let costs: Vec<&VerbCost> = costs.iter().filter(|c| c.written_bytes < LEAF).collect();
    let mut greatest = 0;
    for cost in &costs {
        // The root and the parent are read first.
        let (way, leaf) = cost.reads.split_at(2);
        assert_eq!((cost.atomics, way), (1, &[8, INTERNAL][..]));
        let one_entry = leaf
            .last()
            .is_some_and(|last| [19, 20, 29, 30].contains(last));
        // Neighborhoods that wrap may end with one entry, too.
        let is_greatest = one_entry && cost.round_trips == 6;
        assert_eq!(cost.round_trips, 5 + u64::from(is_greatest));
        greatest += usize::from(is_greatest);
    }
    assert!(costs.len() >= 20 && (1..10).contains(&greatest));
}
