//! The same tests over real UDP: on the loopback interface with injected faults, and on machines
//! that are network namespaces.

use super::objects::{OBJECTS, bytes, counting};
use super::once::{read, write};
use super::world::{KEY, keys};
use crate::rack::{NODE_BYTES, TENANT, arena, rack, start, words};
use crate::structures::{ALL, ITERATIONS, StructureFixture};
use nearfield_offload::net::udp::{
    Announcer, Datagrams, OffloadClient, place, serve_node, serve_switch, socket_towards,
};
use nearfield_offload::net::{CallerSettings, NodeSettings, OffloadNode, Switch, SwitchRangeTable};
use nearfield_offload::node::RackMemory;
use nearfield_offload::structures::{
    BalanceAlgorithm, DuplicateKeyRule, OffloadHashTable, SearchTree, entry,
};
use nearfield_offload::traversal::{QueryRunner, TraversalMemory, TraversalQuery, TraversalStatus};
use nearfield_offload::wire::{Announcement, AuthenticationKey, OBJECT_BYTES_MAX, ProcessAddress};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const RACK: AuthenticationKey = AuthenticationKey([11; 32]);

/// A socket that loses, repeats and reorders datagrams, each with probability 1 in `one_of`.
struct FaultyUdpSocket {
    socket: UdpSocket,
    one_of: u32,
    random: RefCell<SmallRng>,
    late: RefCell<Option<(ProcessAddress, Vec<u8>)>>,
}

impl FaultyUdpSocket {
    fn new(socket: UdpSocket, one_of: u32, seed: u64) -> FaultyUdpSocket {
        FaultyUdpSocket {
            socket,
            one_of,
            random: SmallRng::seed_from_u64(seed).into(),
            late: RefCell::default(),
        }
    }

    fn happens(&self) -> bool {
        self.one_of > 0 && self.random.borrow_mut().random_ratio(1, self.one_of)
    }
}

impl Datagrams for FaultyUdpSocket {
    fn send_datagram(&self, to: ProcessAddress, datagram: &[u8]) -> io::Result<()> {
        if self.happens() {
            return Ok(());
        }
        if self.happens() {
            // The datagram is sent after the next one.
            self.late.replace(Some((to, datagram.to_vec())));
            return Ok(());
        }
        self.socket.send_datagram(to, datagram)?;
        if self.happens() {
            self.socket.send_datagram(to, datagram)?;
        }
        match self.late.take() {
            Some((to, datagram)) => self.socket.send_datagram(to, &datagram),
            None => Ok(()),
        }
    }

    fn receive_datagram(
        &self,
        into: &mut [u8],
        wait: Option<Duration>,
    ) -> io::Result<Option<(usize, ProcessAddress)>> {
        self.socket.receive_datagram(into, wait)
    }
}

/// Runs a switch and the nodes of a rack, each in a thread, and a caller in this one. Calls `enter`
/// in each thread with the number of its machine: the switch is 0, nodes are from 1, and the caller
/// is the last.
fn over_udp(
    rack: &RackMemory<'_>,
    one_of: u32,
    at: SocketAddrV4,
    enter: impl Fn(usize) + Sync,
    test: impl FnOnce(OffloadClient<FaultyUdpSocket>, bool) + Send,
    returns_to_caller: bool,
) {
    let stop = &AtomicBool::new(false);
    let (told, switch_place) = mpsc::channel();
    let (learned, maps) = mpsc::channel();
    let enter = &enter;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            enter(0);
            let socket = UdpSocket::bind(at).unwrap();
            told.send(place(&socket).unwrap()).unwrap();
            let mut switch = Switch::new(SwitchRangeTable::default(), Some(RACK));
            let socket = FaultyUdpSocket::new(socket, one_of, 1);
            let tell = |switch: &Switch| {
                // No thread receives any more once all nodes are known.
                let _ = learned.send(switch.map().to_string().lines().count());
            };
            serve_switch(&mut switch, &socket, stop, tell).unwrap();
        });
        let switch_place = switch_place.recv().unwrap();
        for (number, memory) in rack.nodes().iter().enumerate() {
            scope.spawn(move || {
                enter(1 + number);
                let socket = socket_towards(switch_place).unwrap();
                let announcer = Announcer {
                    switch: switch_place,
                    key: RACK,
                    announcement: Announcement {
                        epoch: 5,
                        node: place(&socket).unwrap(),
                        ranges: vec![(start(number), NODE_BYTES)],
                    },
                };
                let settings = NodeSettings {
                    epoch: 5,
                    ..NodeSettings::default()
                };
                let mut node = OffloadNode::new(memory, keys(), settings);
                let socket = FaultyUdpSocket::new(socket, one_of, 2 + number as u64);
                serve_node(&mut node, &socket, Some(&announcer), stop).unwrap();
            });
        }
        let nodes = rack.nodes().len();
        let caller = scope.spawn(move || {
            enter(1 + nodes);
            while maps.recv_timeout(Duration::from_secs(20)).unwrap() < nodes {}
            let socket = socket_towards(switch_place).unwrap();
            let here = place(&socket).unwrap();
            let mut settings = CallerSettings::new(here, switch_place, TENANT, KEY);
            settings.map_epoch = 5;
            settings.returns_to_caller = returns_to_caller;
            let client =
                OffloadClient::with_socket(FaultyUdpSocket::new(socket, one_of, 77), settings);
            test(client, one_of > 0);
        });
        let result = caller.join();
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs lookups in a tree and a hash table, and stores in a list, on four nodes.
fn operations(one_of: u32, at: SocketAddrV4, enter: impl Fn(usize) + Sync, returns: bool) {
    let words = words(4);
    let rack = rack(&words);
    let mut arena = arena(&rack);
    let mut tree = SearchTree::new(BalanceAlgorithm::Avl, DuplicateKeyRule::Unique);
    let mut table = OffloadHashTable::new(&mut arena, 64).unwrap();
    let mut model = BTreeMap::new();
    let mut random = SmallRng::seed_from_u64(5);
    for _ in 0..300 {
        let (key, value) = (random.random_range(0..1000), random.random());
        tree.insert(&mut arena, key, value).unwrap();
        table.insert(&mut arena, key, value).unwrap();
        model.insert(key, value);
    }
    let list: Vec<u64> = (0..9)
        .map(|at| start(at % 4) + NODE_BYTES - 64 * (1 + at as u64))
        .collect();
    for (at, &address) in list.iter().enumerate() {
        write(&rack, address, list.get(at + 1).copied().unwrap_or(0));
    }
    let adding = super::once::adding();
    let test = |mut client: OffloadClient<FaultyUdpSocket>, has_faults: bool| {
        for number in 0..100 {
            let key = random.random_range(0..1000);
            let outcome = client.run(&tree.lower_bound(key).unwrap(), 1000).unwrap();
            let found = entry(&outcome).map(|entry| (entry.key, entry.value));
            let expected = model.range(key..).next().map(|(&key, &value)| (key, value));
            assert_eq!((outcome.status, found), (TraversalStatus::Done, expected));
            let outcome = client.run(&table.find(key), 1000).unwrap();
            let found = entry(&outcome).map(|entry| entry.value);
            assert_eq!(found, model.get(&key).copied());
            if number % 10 == 0 {
                let outcome = client
                    .run(&TraversalQuery::new(&adding, list[0], &[3]), 100)
                    .unwrap();
                assert_eq!(outcome.status, TraversalStatus::Done);
            }
        }
        let counters = client.counters();
        assert!(!has_faults || counters.repeated > 0, "{counters:?}");
        assert!(!returns || counters.sent_on > 0, "{counters:?}");
    };
    over_udp(&rack, one_of, at, enter, test, returns);
    for &address in &list {
        let word = read(&rack, address + 8);
        assert_eq!(word, 30, "ten times three at {address:#x}");
    }
}

/// Replaces an object by requests that carry it, on three nodes. The program counts its visits.
fn carried_objects(one_of: u32, at: SocketAddrV4, returns: bool) {
    const TIMES: u64 = 20;
    let words = words(3);
    let rack = rack(&words);
    let list = [start(0) + 64, start(1) + 64];
    let object_at = start(2) + OBJECTS;
    write(&rack, list[0], list[1]);
    write(&rack, list[1] + 16, object_at);
    let query = TraversalQuery::new(&counting(), list[0], &[]);
    let memory = &rack;
    let test = |mut client: OffloadClient<FaultyUdpSocket>, has_faults: bool| {
        for time in 0..TIMES {
            let length = [8, 1000, 8192, OBJECT_BYTES_MAX][time as usize % 4];
            let object = bytes(length, time);
            let outcome = client.run_storing(&query, 100, 0, &object).unwrap();
            assert_eq!(outcome.status, TraversalStatus::Done);
            let mut found = vec![0; length];
            memory.load(object_at, &mut found).unwrap();
            assert!(found == object, "{length}");
        }
        let counters = client.counters();
        assert!(!has_faults || counters.repeated > 0, "{counters:?}");
        assert!(!returns || counters.sent_on > 0, "{counters:?}");
    };
    over_udp(&rack, one_of, at, |_| {}, test, returns);
    for address in list {
        assert_eq!(read(&rack, address + 8), TIMES, "{address:#x}");
    }
}

/// Runs random operations on all structures, on one and on four nodes.
fn structures(one_of: u32, at: SocketAddrV4, enter: impl Fn(usize) + Sync) {
    for nodes in [1, 4] {
        let words = words(nodes);
        let rack = rack(&words);
        let test = |mut client: OffloadClient<FaultyUdpSocket>, has_faults: bool| {
            for (seed, test) in ALL.iter().enumerate() {
                let afar = |query: &TraversalQuery| client.run(query, ITERATIONS).unwrap();
                test(&mut StructureFixture::new(&rack, seed as u64, afar).with_fewer_steps());
            }
            let counters = client.counters();
            assert!(!has_faults || counters.repeated > 0, "{counters:?}");
        };
        over_udp(&rack, one_of, at, &enter, test, false);
    }
}

#[test]
fn loopback_without_faults() {
    operations(0, "127.0.0.1:0".parse().unwrap(), |_| {}, false);
    operations(0, "127.0.0.1:0".parse().unwrap(), |_| {}, true);
}

#[test]
fn loopback_with_loss_duplicates_and_reordering() {
    operations(100, "127.0.0.1:0".parse().unwrap(), |_| {}, false);
    operations(100, "127.0.0.1:0".parse().unwrap(), |_| {}, true);
}

#[test]
fn objects_of_requests_cross_the_loopback_interface() {
    for one_of in [0, 100] {
        for returns in [false, true] {
            carried_objects(one_of, "127.0.0.1:0".parse().unwrap(), returns);
        }
    }
}

/// The test needs root and `ip`. It prints a note if they are missing, and fails if
/// `NEARFIELD_REQUIRE_NETNS` is set.
#[cfg(target_os = "linux")]
#[test]
fn machines_with_loss_duplicates_and_reordering() {
    use nearfield_testkit::machines::Machines;
    let machines = match Machines::new(6) {
        Ok(machines) => machines,
        Err(reason) if std::env::var_os("NEARFIELD_REQUIRE_NETNS").is_none() => {
            eprintln!("skipped: {reason}");
            return;
        }
        Err(reason) => panic!("{reason}"),
    };
    let std::net::IpAddr::V4(address) = machines.address(0) else {
        panic!("machines have IPv4 addresses");
    };
    let (at, enter) = (SocketAddrV4::new(address, 7000), |number| {
        machines.enter(number)
    });
    operations(100, at, enter, false);
    structures(100, at, enter);
}
