//! Filtered ranges and aggregates of maps in a pool, by programs at memory nodes over UDP, and
//! without programs.
#![cfg(target_os = "linux")]

use nearfield::{
    AuthenticationKey, ByteStrings, OrderedMap, PoolPlacement, ScanAggregates, Tenant, ValueFilter,
    WordMap,
};
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_fabric_testkit::ShmNodes;
use nearfield_offload::net::udp::{place, serve_node, serve_switch};
use nearfield_offload::net::{
    NodeSettings, OffloadNode, Switch, SwitchRangeTable as SwitchMap, TenantKeys,
};
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges};
use nearfield_testkit::keys;
use rand::RngExt;
use std::collections::BTreeMap;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

const TENANT: Tenant = Tenant(4);
const KEY: AuthenticationKey = AuthenticationKey([5; 32]);

/// Runs a test with two memory nodes behind a switch. The nodes are threads of this process, and
/// run programs.
fn with_programs(test: impl FnOnce(&ShmNodes, SocketAddrV4) + Send) {
    let nodes = &ShmNodes::serve(2, 64 << 20).expect("nodes");
    let stop = &AtomicBool::new(false);
    let socket = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut map = SwitchMap::default();
    std::thread::scope(|scope| {
        for (number, words) in nodes.words().enumerate() {
            let start = GlobalAddress::new(NodeId(number as u16), 4096).to_bits();
            let range = NodeRange {
                offset: 4096,
                ..NodeRange::whole(start, size_of_val(words) as u64 - 4096, TENANT)
            };
            let socket = socket();
            let here = place(&socket).expect("IPv4");
            map.give(range.start, range.bytes, here)
                .expect("no overlap");
            scope.spawn(move || {
                let ranges = NodeRanges::new(vec![range]).expect("one range");
                let memory = LocalMemory::new(words, ranges).expect("it is in memory");
                let mut keys = TenantKeys::new();
                keys.insert(TENANT, KEY);
                let mut node = OffloadNode::new(&memory, keys, NodeSettings::default());
                serve_node(&mut node, &socket, None, stop).expect("a socket");
            });
        }
        let socket = socket();
        let here = place(&socket).expect("IPv4").into();
        scope.spawn(move || {
            let mut switch = Switch::new(map, None);
            serve_switch(&mut switch, &socket, stop, |_| {}).expect("a socket");
        });
        // The test has a thread of its own, so that its failure stops the others.
        let result = scope.spawn(move || test(nodes, here)).join();
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn words_agree_with_a_btree_map_and_are_read_at_the_nodes() {
    with_programs(|nodes, switch| {
        let open = || WordMap::builder().pool(PoolPlacement::shm(nodes.names()));
        let map = open().programs(switch, TENANT, KEY).build().expect("a map");
        let plain = open().build().expect("the map");
        let random = &mut keys::random(5);
        let entries = (0..5_000).map(|_| (random.random_range(0..20_000), random.random()));
        let mut model: BTreeMap<u64, u64> = entries.collect();
        model.insert(0, 10);
        model.insert(u64::MAX, u64::MAX);
        let entries: Vec<_> = model.iter().map(|(&key, &value)| (key, value)).collect();
        map.insert_many(&entries).expect("room");
        for round in 0..20 {
            let (low, high) = (
                random.random_range(0..20_000),
                random.random_range(0..25_000),
            );
            let high = if round == 0 { u64::MAX } else { low.max(high) };
            let filter = ValueFilter::at_least(random.random());
            let expected: Vec<(u64, u64)> = model
                .range(low..high)
                .map(|(&key, &value)| (key, value))
                .filter(|(_, value)| filter.matches(*value))
                .collect();
            let aggregates: ScanAggregates = expected.iter().map(|(_, value)| *value).collect();
            for map in [&map, &plain] {
                let filtered = map.range(low..high).filter(filter);
                assert_eq!(filtered.aggregate(), Ok(aggregates));
                assert_eq!(filtered.sum(), Ok(aggregates.sum));
                assert_eq!(filtered.max(), Ok(aggregates.max));
                let found: Result<Vec<_>, _> = filtered.into_iter().collect();
                assert_eq!(found, Ok(expected.clone()));
            }
        }
        let all: ScanAggregates = model.values().copied().collect();
        assert_eq!(map.range(..).aggregate(), Ok(all));
        // Entries that were returned already are left out.
        let mut range = map.range(..);
        range.next().expect("an entry").expect("a node");
        range.next_back().expect("an entry").expect("a node");
        let rest: ScanAggregates = model
            .values()
            .skip(1)
            .take(model.len() - 2)
            .copied()
            .collect();
        assert_eq!(range.aggregate(), Ok(rest));
        let mut range = map.range(..);
        while range.next().is_some() {}
        assert_eq!(range.aggregate(), Ok(ScanAggregates::default()));
        let reads = map.leaf_reads();
        assert!(reads.at_nodes > 1_000 && reads.refused == 0, "{reads:?}");
        assert_eq!(plain.leaf_reads().at_nodes, 0);
        // A tenant with another key gets no reply, but the same result.
        let stranger = open()
            .programs(switch, TENANT, AuthenticationKey([6; 32]))
            .build();
        let stranger = stranger.expect("the map");
        assert_eq!(stranger.range(..).aggregate(), Ok(all));
        assert_eq!(
            stranger.range(1..3).aggregate(),
            map.range(1..3).aggregate()
        );
        let reads = stranger.leaf_reads();
        assert!(reads.at_nodes == 0 && reads.refused >= 2, "{reads:?}");
    });
}

#[test]
fn byte_strings_count_by_their_first_eight_bytes() {
    let nodes = ShmNodes::serve(1, 64 << 20).expect("nodes");
    let map = OrderedMap::<ByteStrings>::builder().pool(PoolPlacement::shm(nodes.names()));
    let map = map.build().expect("a map");
    let mut model = BTreeMap::new();
    for number in 0..3_000_u32 {
        let key = format!("user{number:08}").into_bytes();
        let value = vec![number as u8; number as usize % 30];
        map.insert(&key, &value).expect("room");
        model.insert(key, value);
    }
    let number = |value: &[u8]| {
        let mut bytes = [0; 8];
        let length = value.len().min(8);
        bytes[..length].copy_from_slice(&value[..length]);
        u64::from_le_bytes(bytes)
    };
    let filter = ValueFilter::between(1..1 << 56);
    let (low, high) = (&b"user00000100"[..], &b"user00002900"[..]);
    let expected: Vec<_> = model
        .range(low.to_vec()..high.to_vec())
        .filter(|(_, value)| filter.matches(number(value)))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let filtered = map.range(low..high).filter(filter);
    let aggregates: ScanAggregates = expected.iter().map(|(_, value)| number(value)).collect();
    assert_eq!(filtered.aggregate(), Ok(aggregates));
    let found: Result<Vec<_>, _> = filtered.into_iter().collect();
    assert_eq!(found, Ok(expected));
}
