//! Maps in the memory of memory nodes behave like a `BTreeMap`: batches, single operations and
//! ranges from both ends, by two clients that opened the same map and take turns.

use crate::ranges::Model;
use nearfield::{
    Batch, ByteStrings, ComparisonResult, MapForm, NodeAddress, NodeId, OperationError,
    OrderedIndex, OrderedMap, PointResult, PoolAddError, PoolGrowthPhase, PoolMember,
    PoolNodeContent, PoolNodeUse, PoolPlacement, ScanDirection, UpdateOutcome, Words,
};
use nearfield_fabric_testkit::ShmNodes;
use nearfield_testkit::keys::{self, SampleForm};
use nearfield_testkit::model;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A map that was opened twice, as by two processes, on nodes of its own. They are called in turn,
/// so that each has to notice the other's changes to nodes in its cache.
struct AlternatingPoolMap<F: MapForm> {
    opened: [OrderedMap<F, PoolPlacement>; 2],
    turn: AtomicUsize,
    _nodes: ShmNodes,
}

impl<F: MapForm> AlternatingPoolMap<F> {
    fn new(
        seed: u64,
        key_bytes_max: usize,
        key_slot_bytes: Option<usize>,
    ) -> AlternatingPoolMap<F> {
        let nodes = ShmNodes::serve(1 + seed as u16 % 2, 256 << 20).expect("nodes");
        let open = |cache_bytes| {
            let map = OrderedMap::<F>::builder().pool(PoolPlacement::shm(nodes.names()));
            let map = map.key_bytes_max(key_bytes_max).cache_bytes(cache_bytes);
            let map = map.inline_bytes_max(12 + seed as usize % 20);
            let map = map.in_flight([1, 8, 64][seed as usize % 3]);
            let map = match key_slot_bytes {
                Some(bytes) => map.key_slot_bytes(bytes),
                None => map,
            };
            map.build().expect("a map")
        };
        AlternatingPoolMap {
            opened: [open(1 << 16), open(1 << 22)],
            turn: AtomicUsize::new(0),
            _nodes: nodes,
        }
    }

    fn next(&self) -> &OrderedMap<F, PoolPlacement> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.opened[turn % 2]
    }
}

impl<F: MapForm + SampleForm> OrderedIndex<F> for AlternatingPoolMap<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.next().execute(batch)
    }

    fn len(&self) -> usize {
        self.next().len().expect("the nodes are served")
    }

    fn is_empty(&self) -> bool {
        self.next().is_empty().expect("the nodes are served")
    }

    /// Checks that all other reads agree with a scan of everything.
    fn check_invariants(&self) {
        let mut batch = Batch::<F>::new();
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        batch.scan(low, high, u32::MAX, ScanDirection::Ascending);
        self.execute(&mut batch).expect("the nodes are served");
        let entries = batch.entries(0);
        let entries = entries.map(|(key, value)| (F::own_key(key), F::own_value(value)));
        let model: Model<F> = entries.collect();
        let end = |entry: Option<(&F::OwnedKey, &F::OwnedValue)>| {
            Ok(entry.map(|(key, value)| (key.clone(), value.clone())))
        };
        assert_eq!(self.next().first(), end(model.first_key_value()));
        assert_eq!(self.next().last(), end(model.last_key_value()));
        let keys: Vec<F::Key<'_>> = model.keys().map(F::key).collect();
        let values = model.values().cloned().map(Some).collect();
        assert_eq!(self.next().get_many(&keys), Ok(values));
        if !model.is_empty() {
            let random = &mut keys::random(model.len() as u64);
            let map = self.next();
            crate::ranges::agree::<F, _>(&model, 8, random, |bounds| {
                let range = map.range(bounds);
                range.map(|entry| entry.expect("the nodes are served"))
            });
        }
    }

    fn get(&self, key: F::Key<'_>) -> PointResult<F> {
        self.next().get(key)
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> PointResult<F> {
        self.next().insert(key, value)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> ComparisonResult<F> {
        Ok(match self.next().update(key, previous, value)? {
            UpdateOutcome::Applied => (true, previous.map(F::own_value)),
            UpdateOutcome::Differs { current } => (false, current),
        })
    }

    fn remove(&self, key: F::Key<'_>) -> PointResult<F> {
        self.next().remove(key)
    }
}

#[test]
fn words_agree_with_a_btree_map() {
    model::check::<Words, _>(4, |seed| AlternatingPoolMap::new(seed, 8, None));
}

#[test]
fn bytes_agree_with_a_btree_map() {
    model::check_short(4, 24, |seed| AlternatingPoolMap::new(seed, 24, None));
}

#[test]
fn long_bytes_agree_with_a_btree_map() {
    let slots = [1, 4, 20];
    model::check_short(4, 300, |seed| {
        AlternatingPoolMap::new(seed, 300, Some(slots[seed as usize % 3]))
    });
}

/// A list may give the number that a node must have.
#[test]
fn lists_may_number_their_nodes() {
    let nodes = ShmNodes::serve(2, 64 << 20).expect("nodes");
    let [left, right] = nodes.names() else {
        panic!("two nodes")
    };
    let open = |list: String| {
        let pool: PoolPlacement = list.parse().expect("a list of nodes");
        OrderedMap::<Words>::builder().pool(pool).build()
    };
    let map = open(format!("1=shm:{right}, 0=shm:{left}")).expect("a map");
    map.put(7, 1).expect("the nodes are served");
    let same = open(format!("shm:{left},shm:{right}")).expect("the same map");
    assert_eq!(same.get(7), Ok(Some(1)));
    let error = open(format!("shm:{left},7=shm:{right}")).expect_err("another number");
    assert_eq!(
        error.to_string(),
        format!("the memory node at shm:{right} is node 1, and the list of nodes has it as node 7")
    );
}

/// Returns the keys below `keys` that a map returns. The others must fail by the name of the lost
/// node.
fn kept(map: &OrderedMap<Words, PoolPlacement>, keys: u64) -> Vec<u64> {
    let is_kept = |&key: &u64| match map.get(key) {
        Ok(value) => {
            assert_eq!(value, Some(key));
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("memory node 1"), "{error}");
            false
        }
    };
    (0..keys).filter(is_kept).collect()
}

/// Threads and processes that come after the loss of a node serve the keys of the others, too.
#[test]
fn a_map_opens_while_a_node_is_lost() {
    const KEYS: u64 = 4000;
    let mut nodes = ShmNodes::serve(2, 64 << 20).expect("nodes");
    let names = nodes.names().to_vec();
    let open = || {
        let pool = PoolPlacement::shm(&names);
        OrderedMap::<Words>::builder().pool(pool).build()
    };
    let map = open().expect("a map");
    for key in 0..KEYS {
        map.put(key, key).expect("the nodes are served");
    }
    assert_eq!(kept(&map, KEYS).len(), KEYS as usize);
    nodes.end(1);
    let left = kept(&map, KEYS);
    assert!(left.len() > 1000 && left.len() < 3000, "{}", left.len());
    let by_another_thread = || std::thread::scope(|scope| scope.spawn(|| kept(&map, KEYS)).join());
    assert_eq!(by_another_thread().expect("no panic"), left);
    let later = open().expect("the first node is served");
    assert_eq!(kept(&later, KEYS), left);
    later.put(left[0], 7).expect("its leaf is not lost");
    assert_eq!(map.get(left[0]), Ok(Some(7)));
    map.put(left[0], left[0]).expect("its leaf is not lost");
    // A node that comes back empty holds nothing of the pool.
    nodes.serve_again(1).expect("a node");
    assert_eq!(kept(&map, KEYS), left);
    assert_eq!(by_another_thread().expect("no panic"), left);
    let error = open().expect_err("a node is empty");
    assert!(error.to_string().contains("it is new and empty"), "{error}");
    // Without the first node there is no tree.
    nodes.end(0);
    assert!(map.get(left[0]).is_err());
    let error = open().expect_err("the first node is lost");
    assert!(
        error
            .to_string()
            .contains("the first node of a pool must be served"),
        "{error}"
    );
}

/// With two replicas a map goes on without a node of a pair, and no acknowledged write is lost. The
/// node may come back empty.
#[test]
fn a_map_with_two_replicas_outlives_a_node() {
    const KEYS: u64 = 2000;
    for lost in 0..4 {
        let mut nodes = ShmNodes::serve(4, 64 << 20).expect("nodes");
        let names = nodes.names().to_vec();
        let open = || {
            let pool = PoolPlacement::shm(&names);
            let map = OrderedMap::<Words>::builder().pool(pool).replicas(2);
            map.build().expect("a map")
        };
        // The change that meets the loss may fail with an unknown outcome.
        let put = |map: &OrderedMap<Words, PoolPlacement>, key: u64, value: u64| {
            let began = Instant::now();
            while let Err(error) = map.put(key, value) {
                assert!(began.elapsed() < Duration::from_secs(30), "{error}");
            }
        };
        let map = open();
        for key in 0..KEYS {
            put(&map, key, key);
        }
        nodes.end(lost);
        for key in 0..KEYS / 2 {
            put(&map, key, key + 1);
        }
        let check = |map: &OrderedMap<Words, PoolPlacement>| {
            for key in 0..KEYS {
                let value = key + u64::from(key < KEYS / 2);
                assert_eq!(map.get(key), Ok(Some(value)), "without node {lost}");
            }
        };
        check(&map);
        check(&open());
        nodes.serve_again(lost).expect("a node");
        check(&map);
        let by_another_thread =
            std::thread::scope(|scope| scope.spawn(|| check(&map)).join().is_ok());
        assert!(by_another_thread, "without node {lost}");
        let statuses = PoolPlacement::shm(&names).statuses().expect("a list");
        let alone = statuses.iter().filter(|status| status.serves_alone);
        let alone: Vec<u16> = alone.map(|status| status.number.0).collect();
        assert_eq!(alone, [lost ^ 1], "the other node of the pair");
        let uses = map.pool_use().nodes;
        let served = uses
            .iter()
            .map(|node| (node.state.node.0, node.state.is_served));
        let expected = (0..4).map(|number| (number, number != lost));
        assert!(served.eq(expected), "without node {lost}: {uses:?}");
        for node in &uses {
            let is_lost = node.state.node.0 == lost;
            assert_eq!(node.traffic.lost_posts > 0, is_lost, "{node:?}");
            assert!(
                node.traffic.writes > 0 && node.traffic.calls > 0,
                "{node:?}"
            );
        }
        let later = open();
        check(&later);
        assert_eq!(later.len(), Ok(KEYS as usize));
    }
}

/// Returns the reads, the writes and the atomics at each node.
fn verbs(map: &OrderedMap<Words, PoolPlacement>) -> Vec<[u64; 3]> {
    let of = |node: PoolNodeUse| {
        [
            node.traffic.reads,
            node.traffic.writes,
            node.traffic.atomics,
        ]
    };
    map.pool_use().nodes.into_iter().map(of).collect()
}

/// Returns by how many verbs at each node an operation raises the counts. Some of its runs may
/// renew an epoch, too, so the least of several counts.
fn rise(map: &OrderedMap<Words, PoolPlacement>, operation: impl Fn()) -> Vec<[u64; 3]> {
    let mut least = vec![[u64::MAX; 3]; verbs(map).len()];
    for _ in 0..20 {
        let before = verbs(map);
        operation();
        for ((least, before), after) in least.iter_mut().zip(before).zip(verbs(map)) {
            *least = [0, 1, 2].map(|kind| least[kind].min(after[kind] - before[kind]));
        }
    }
    least
}

#[test]
fn the_verbs_of_an_operation_count_at_the_node_of_its_key() {
    const KEYS: u64 = 5000;
    let mut nodes = ShmNodes::serve(2, 64 << 20).expect("nodes");
    let pool = PoolPlacement::shm(nodes.names());
    let map = OrderedMap::<Words>::builder().pool(pool).build();
    let map = map.expect("a map");
    for key in 0..KEYS {
        map.put(key, key).expect("the nodes are served");
    }
    let get_all = || {
        for key in 0..KEYS {
            assert_eq!(map.get(key), Ok(Some(key)));
        }
    };
    // The first rounds find the cached nodes that were divided since.
    (0..3).for_each(|_| get_all());
    let mut of_nodes = [0; 2];
    for key in (0..KEYS).step_by(100) {
        let gets = rise(&map, || assert_eq!(map.get(key), Ok(Some(key))));
        let node = usize::from(gets[0][0] == 0);
        of_nodes[node] += 1;
        // A counter, one part of a leaf or two, and the counter again.
        assert!((3..=4).contains(&gets[node][0]), "{gets:?}");
        assert_eq!((gets[node][1], gets[node][2]), (0, 0), "{gets:?}");
        assert_eq!(gets[1 - node], [0; 3], "{gets:?}");
        let puts = rise(&map, || map.put(key, key).expect("the nodes are served"));
        assert!(puts[node][1] > 0 && puts[node][2] > 0, "{puts:?}");
        assert_eq!(puts[1 - node], [0; 3], "{puts:?}");
    }
    assert!(of_nodes.iter().all(|&keys| keys > 5), "{of_nodes:?}");
    // A thread that has ended stays in the sums.
    let (before, lookups) = (verbs(&map), map.pool_use().cache_lookups);
    std::thread::scope(|scope| {
        scope.spawn(get_all);
    });
    let after = verbs(&map);
    let reads = (after[0][0] + after[1][0]) - (before[0][0] + before[1][0]);
    assert!((3 * KEYS..6 * KEYS).contains(&reads), "{reads}");
    let hits = map.pool_use().cache_lookups.hits - lookups.hits;
    assert!((KEYS..KEYS + KEYS / 10).contains(&hits), "{hits}");
    nodes.end(1);
    let lost = (0..KEYS).filter(|&key| map.get(key).is_err()).count() as u64;
    let uses = map.pool_use().nodes;
    assert!(uses[1].traffic.lost_posts >= lost && lost > 0, "{uses:?}");
    assert_eq!(uses[0].traffic.lost_posts, 0, "{uses:?}");
    assert_eq!(
        (uses[0].state.is_served, uses[1].state.is_served),
        (true, false)
    );
}

/// A node that comes back empty is taken in while a thread works, and has everything when the other
/// node of its pair ends.
#[test]
fn a_node_that_comes_back_empty_is_taken_in() {
    const KEYS: u64 = 2000;
    for lost in 0..2 {
        let mut nodes = ShmNodes::serve(2, 64 << 20).expect("nodes");
        let names = nodes.names().to_vec();
        let pool = PoolPlacement::shm(&names);
        let map = OrderedMap::<Words>::builder().pool(pool.clone());
        let map = map.replicas(2).build().expect("a map");
        let put = |key: u64, value: u64| {
            let began = Instant::now();
            while let Err(error) = map.put(key, value) {
                assert!(began.elapsed() < Duration::from_secs(30), "{error}");
            }
        };
        for key in 0..KEYS {
            put(key, key);
        }
        assert_eq!(pool.rejoin(), Ok(Vec::new()), "no node is empty");
        nodes.end(lost);
        for key in 0..KEYS / 2 {
            put(key, key + 1);
        }
        nodes.serve_again(lost).expect("a node");
        let written = AtomicU64::new(0);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let key = KEYS + written.load(Ordering::Relaxed);
                    put(key, key);
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
            let rejoined = pool.rejoin();
            // Also after it some changes go to both nodes.
            std::thread::sleep(Duration::from_millis(300));
            is_done.store(true, Ordering::Relaxed);
            let rejoined = rejoined.expect("a copy");
            assert_eq!(rejoined.len(), 1);
            assert_eq!(rejoined[0].number.0, lost);
            assert!(rejoined[0].copied_bytes > KEYS * 16);
        });
        let statuses = pool.statuses().expect("a list");
        assert!(statuses.iter().all(|status| !status.serves_alone));
        let uses = map.pool_use().nodes;
        assert!(uses.iter().all(|node| node.state.is_served), "{uses:?}");
        nodes.end(lost ^ 1);
        let written = written.into_inner();
        assert!(written > 0);
        for key in 0..KEYS + written {
            let value = key + u64::from(key < KEYS / 2);
            assert_eq!(map.get(key), Ok(Some(value)), "without node {}", lost ^ 1);
        }
        put(0, 77);
        assert_eq!(map.get(0), Ok(Some(77)));
    }
}

/// A pair is drained and ended. The map is used without it, and can be opened.
#[test]
fn a_pair_of_nodes_can_be_drained() {
    let mut nodes = ShmNodes::serve(4, 64 << 20).expect("nodes");
    let names = nodes.names().to_vec();
    let pool = PoolPlacement::shm(&names);
    let open = || {
        let map = OrderedMap::<Words>::builder().pool(pool.clone());
        map.replicas(2).build().expect("a map")
    };
    let map = open();
    let put = |key: u64| {
        let began = Instant::now();
        while let Err(error) = map.put(key, key) {
            assert!(began.elapsed() < Duration::from_secs(30), "{error}");
        }
    };
    for key in 0..2000 {
        put(key);
    }
    let drained = map.drain(NodeId(2)).expect("a drain");
    assert!(drained.leaves > 0, "{drained:?}");
    nodes.end(2);
    nodes.end(3);
    assert_eq!(pool.rejoin(), Ok(Vec::new()), "an excluded pair stays so");
    for map in [&map, &open()] {
        for key in 0..2000 {
            assert_eq!(map.get(key), Ok(Some(key)));
        }
    }
    put(0);
}

/// A node is added while another process works and a third one is idle, and is drained again. All
/// were opened without it.
#[test]
fn a_node_is_added_while_others_work() {
    const KEYS: u64 = 3000;
    let mut nodes = ShmNodes::serve(3, 64 << 20).expect("nodes");
    let names = nodes.names().to_vec();
    let pool = PoolPlacement::shm(&names[..2]);
    let name = names[2].clone();
    let third = NodeAddress::Shm { name };
    let open = || {
        let map = OrderedMap::<ByteStrings>::builder().pool(pool.clone());
        map.build().expect("a map")
    };
    let [map, other, idle] = [open(), open(), open()];
    // Every other value is too long for a slot.
    let value = |number: u64| vec![number as u8; 5 + number as usize % 2 * 95];
    let put = |map: &OrderedMap<ByteStrings, PoolPlacement>, number: u64| {
        let done = map.put(&number.to_be_bytes(), &value(number));
        assert_eq!(done, Ok(()), "key {number}");
    };
    let check = |map: &OrderedMap<ByteStrings, PoolPlacement>, numbers: u64| {
        for number in 0..numbers {
            let found = map.get(&number.to_be_bytes());
            assert_eq!(found, Ok(Some(value(number))), "key {number}");
        }
    };
    for number in 0..KEYS {
        put(&map, number);
    }
    check(&idle, KEYS);
    let is_done = AtomicBool::new(false);
    let grown = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                // The other long values stay where they are.
                for number in 0..KEYS / 10 {
                    put(&other, number);
                }
                check(&other, KEYS);
            }
        });
        let grown = map.add_node(&third, 20_000, |_| true);
        is_done.store(true, Ordering::Relaxed);
        worker.join().expect("no operation fails");
        grown.expect("a node")
    });
    assert_eq!(grown.phase, PoolGrowthPhase::Done);
    assert!(grown.leaves > 5 && grown.values > 100, "{grown:?}");
    let census = idle.pool_census().expect("a census");
    assert_eq!(census.len(), 3);
    assert!(
        census[2].leaves > 5 && census[2].long_values > 100,
        "{census:?}"
    );
    for map in [&map, &other, &idle, &open()] {
        check(map, KEYS);
        let uses = map.pool_use().nodes;
        let numbers = uses.iter().map(|node| node.state.node.0);
        assert!(numbers.eq(0..3), "{uses:?}");
        assert!(
            uses[2].state.is_served && uses[2].traffic.reads > 5,
            "{uses:?}"
        );
    }
    let traffic = map.pool_use().nodes[2].traffic;
    assert!(traffic.writes > 5 && traffic.calls > 0, "{traffic:?}");
    assert_eq!(pool.statuses().expect("a list").len(), 3);
    let stopped = map.add_node(&third, 1000, |_| false).expect("a node");
    assert_eq!(stopped.phase, PoolGrowthPhase::Leaves);

    let drained = other.drain(NodeId(2)).expect("a drain");
    assert!(drained.leaves > 5 && drained.values > 100, "{drained:?}");
    let refused = map.add_node(&third, 1000, |_| true);
    let node = NodeId(2);
    assert_eq!(refused, Err(PoolAddError::Excluded { node }));
    nodes.end(2);
    for map in [&map, &other, &idle, &open()] {
        for number in 0..KEYS {
            put(map, number);
        }
        check(map, KEYS);
    }
}

#[test]
fn nodes_that_cannot_be_added_are_refused() {
    let nodes = ShmNodes::serve(4, 64 << 20).expect("nodes");
    let names = nodes.names();
    let open = |places: [usize; 2], replicas| {
        let pool = PoolPlacement::shm(places.map(|place| &names[place]));
        let map = OrderedMap::<Words>::builder().pool(pool);
        map.replicas(replicas).build().expect("a map")
    };
    let map = open([0, 2], 1);
    let add = |map: &OrderedMap<Words, PoolPlacement>, name: &str| {
        let name = name.to_owned();
        let refused = map.add_node(&NodeAddress::Shm { name }, 1000, |_| true);
        refused.expect_err("a node that cannot be added")
    };
    let number = add(&map, &names[1]);
    assert!(matches!(number, PoolAddError::Number { .. }), "{number:?}");
    let absent = add(&map, "nobody");
    assert!(matches!(absent, PoolAddError::Connect(_)), "{absent:?}");
    let other = ShmNodes::serve(1, 64 << 20).expect("a node");
    let same = add(&map, &other.names()[0]);
    assert!(same.to_string().contains("another node 0"), "{same}");
    drop(map);

    let pairs = ShmNodes::serve(3, 64 << 20).expect("nodes");
    let pool = PoolPlacement::shm(&pairs.names()[..2]);
    let map = OrderedMap::<Words>::builder().pool(pool).replicas(2);
    let pair = add(&map.build().expect("a map"), &pairs.names()[2]);
    assert!(pair.to_string().contains("two replicas"), "{pair}");
}

#[test]
fn replicas_need_pairs_of_nodes() {
    let nodes = ShmNodes::serve(3, 64 << 20).expect("nodes");
    let refused = |replicas| {
        let pool = PoolPlacement::shm(nodes.names());
        let map = OrderedMap::<Words>::builder().pool(pool).replicas(replicas);
        map.build().expect_err("no pairs").to_string()
    };
    assert_eq!(
        refused(2),
        "two replicas need pairs of memory nodes, and there are 3 nodes"
    );
    assert_eq!(refused(3), "a pool has one or two replicas");
    // All users of a pool have the same number of replicas.
    let open = |replicas| {
        let pool = PoolPlacement::shm(&nodes.names()[..2]);
        let map = OrderedMap::<Words>::builder().pool(pool);
        map.replicas(replicas).build()
    };
    let _map = open(2).expect("a map");
    let error = open(1).expect_err("another number of replicas");
    assert!(error.to_string().contains("of 1"), "{error}");
}

/// The addresses in the cache of a map are those of one pool.
#[test]
fn a_map_does_not_enter_another_pool_on_the_same_nodes() {
    let mut nodes = ShmNodes::serve(2, 64 << 20).expect("nodes");
    let names = nodes.names().to_vec();
    let open = || {
        let pool = PoolPlacement::shm(&names);
        let map = OrderedMap::<Words>::builder().pool(pool).build();
        map.expect("the nodes are served")
    };
    let map = open();
    for key in 0..1000 {
        map.put(key, 1).expect("the nodes are served");
    }
    for number in [0, 1] {
        nodes.end(number);
        nodes.serve_again(number).expect("a node");
    }
    let other = open();
    other.put(1, 2).expect("the nodes are served");
    assert!(map.get(1).is_err());
    let by_another_thread = std::thread::scope(|scope| scope.spawn(|| map.get(1)).join());
    let error = by_another_thread
        .expect("no panic")
        .expect_err("another pool");
    assert!(
        error.to_string().contains("it belongs to another pool"),
        "{error}"
    );
    assert_eq!(other.get(1), Ok(Some(2)));
}

#[test]
fn statuses_distinguish_parts_of_a_pool_from_empty_and_lost_nodes() {
    let mut nodes = ShmNodes::serve(3, 64 << 20).expect("nodes");
    let pool = PoolPlacement::shm(nodes.names());
    let contents = || -> Vec<PoolNodeContent> {
        let statuses = pool.statuses().expect("a list").into_iter();
        statuses.map(|status| status.content).collect()
    };
    assert_eq!(contents(), vec![PoolNodeContent::Nothing; 3]);
    let map = OrderedMap::<Words>::builder().pool(pool.clone()).build();
    drop(map.expect("a map"));
    let part = |content: PoolNodeContent| match content {
        PoolNodeContent::Part(member) => member,
        other => panic!("no part: {other:?}"),
    };
    let parts: Vec<PoolMember> = contents().into_iter().map(part).collect();
    for (position, member) in (0..).zip(&parts) {
        assert_eq!((member.position, member.count), (position, 3));
        assert_eq!(member.identity, parts[0].identity);
    }
    nodes.end(1);
    nodes.end(2);
    nodes.serve_again(2).expect("a node");
    let memory = pool
        .statuses()
        .expect("a list")
        .into_iter()
        .map(|it| it.memory);
    let sizes: Vec<_> = memory.map(|memory| memory.map(|it| it.bytes)).collect();
    assert_eq!(sizes, [Some(64 << 20), None, Some(64 << 20)]);
    let found = contents();
    assert_eq!(found[0], PoolNodeContent::Part(parts[0]));
    assert_eq!(found[2], PoolNodeContent::Nothing);
    match &found[1] {
        PoolNodeContent::Unknown(reason) => assert!(reason.contains("does not exist"), "{reason}"),
        other => panic!("the node is not served: {other:?}"),
    }
}
