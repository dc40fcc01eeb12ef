//! Membership with real etcd processes that are started, killed and started again.
//!
//! Without etcd (Debian's etcd-server) the tests print a note and pass, unless
//! `NEARFIELD_REQUIRE_ETCD=1`.

use nearfield_fabric::NodeId;
use nearfield_fabric::membership::{
    EtcdMembers, MemberNode, MembershipChange, MembershipError, NodeMembership, Registration,
    RegistrationEvent, Reservation,
};
use nearfield_testkit::etcd::{EtcdCluster, free_port, post, until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(2);
/// A limit that only a hanging test reaches, even on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn urls(cluster: &EtcdCluster) -> EtcdMembers {
    cluster.urls().parse().expect("URLs")
}

type Events = Receiver<RegistrationEvent>;

/// Registers a node at `shm:NAME` with 4096 bytes.
fn try_register(
    members: &EtcdMembers,
    name: &str,
    number: Option<u16>,
) -> Result<(Registration, Events), MembershipError> {
    try_register_for(LEASE, members, name, number)
}

fn try_register_for(
    lease: Duration,
    members: &EtcdMembers,
    name: &str,
    number: Option<u16>,
) -> Result<(Registration, Events), MembershipError> {
    let reservation = Reservation::new(members, name, number.map(NodeId), lease)?;
    let (sender, events) = channel();
    let address = format!("shm:{name}").parse()?;
    let notice = move |event| {
        let _ = sender.send(event);
    };
    Ok((reservation.announce(address, 4096, notice)?, events))
}

fn register(members: &EtcdMembers, name: &str) -> (Registration, Events) {
    try_register(members, name, None).expect("it is registered")
}

fn next(changes: &Receiver<MembershipChange>) -> MembershipChange {
    changes.recv_timeout(LONG).expect("a change")
}

fn numbers(nodes: &[MemberNode]) -> Vec<(u16, &str)> {
    nodes
        .iter()
        .map(|node| (node.number.0, node.name.as_str()))
        .collect()
}

/// A connection to etcd that can be cut, so that a registration over it seems to die: its lease is
/// neither revoked nor renewed.
struct SeverableEtcd {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    members: EtcdMembers,
}

impl SeverableEtcd {
    /// Creates a connection to etcd that can be cut.
    fn new(cluster: &EtcdCluster) -> SeverableEtcd {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let to = cluster.url(0).trim_start_matches("http://").to_owned();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let cut = stopped.load(Ordering::Relaxed);
                let (Ok(from), Ok(to)) = (stream, TcpStream::connect(&to)) else {
                    return;
                };
                if cut {
                    return;
                }
                for (mut from, mut to) in [
                    (
                        from.try_clone().expect("a socket"),
                        to.try_clone().expect("a socket"),
                    ),
                    (to, from),
                ] {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Write);
                    });
                }
            }
        });
        SeverableEtcd {
            stop,
            members: format!("http://{address}").parse().expect("a URL"),
        }
    }

    fn cut(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nodes_are_found_numbered_and_lost() {
    let Some(cluster) = EtcdCluster::start(1) else {
        return;
    };
    let members = urls(&cluster);
    let membership = NodeMembership::follow(&members).expect("etcd");
    assert_eq!(membership.nodes(), []);
    let changes = membership.changes();
    let left = try_register_for(LONG * 10, &members, "left", None);
    let (left, _) = left.expect("it is registered");
    // Nodes that register close together may be reported in the order of their numbers.
    let told = |registration: &Registration| {
        assert_eq!(
            next(&changes),
            MembershipChange::Found(registration.node().clone())
        );
    };
    told(&left);
    let (seventh, _) = try_register(&members, "seventh", Some(7)).expect("a number");
    told(&seventh);
    let (right, _) = register(&members, "right");
    told(&right);
    let all = [(0, "left"), (1, "right"), (7, "seventh")];
    assert_eq!(numbers(&membership.nodes()), all);
    assert_eq!(membership.nodes()[0].bytes, Some(4096));
    // A later client finds the same.
    let late = NodeMembership::follow(&members).expect("etcd");
    assert_eq!(late.nodes(), membership.nodes());

    // The watch reports a node that ends, long before its lease expires.
    let (ended, began) = (left.node().clone(), Instant::now());
    drop(left);
    assert_eq!(next(&changes), MembershipChange::Lost(ended.clone()));
    assert!(began.elapsed() < LONG);
    // The name has its number again, which no other node has had meanwhile.
    let (other, _) = register(&members, "other");
    let (again, _) = register(&members, "left");
    assert_eq!(
        numbers(&[other.node().clone(), again.node().clone()]),
        [(2, "other"), (0, "left")]
    );
    assert_ne!(again.node().incarnation, ended.incarnation);
}

#[test]
fn names_and_numbers_are_not_given_twice() {
    let Some(cluster) = EtcdCluster::start(1) else {
        return;
    };
    let members = urls(&cluster);
    let (left, _) = register(&members, "left");
    let refused = |name: &str, number| {
        let error = try_register(&members, name, number).err();
        error.expect("it is refused").to_string()
    };
    let began = Instant::now();
    assert_eq!(
        refused("left", None),
        "the name \"left\" is in use by the memory node at shm:left"
    );
    assert!(began.elapsed() < LONG);
    assert_eq!(
        refused("right", Some(0)),
        "node 0 is \"left\" and cannot be \"right\" too"
    );
    drop(left);
    // The same holds while no process serves the name.
    assert_eq!(
        refused("right", Some(0)),
        "node 0 is \"left\" and cannot be \"right\" too"
    );
    assert_eq!(
        refused("left", Some(5)),
        "memory node \"left\" is node 0 and cannot become node 5"
    );
    assert!(refused("a/b", None).starts_with("\"a/b\" is not a name of a memory node"));

    // If many nodes want one name or number at once, each number has one of them.
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let members = members.clone();
            std::thread::spawn(move || register(&members, &format!("n{number}")).0)
        })
        .collect();
    let all: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().expect("it is registered"))
        .collect();
    let mut numbers: Vec<_> = all.iter().map(|one| one.node().number.0).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    let same: Vec<_> = (0..4)
        .map(|_| {
            let members = members.clone();
            std::thread::spawn(move || try_register(&members, "same", None).map(|(one, _)| one))
        })
        .collect();
    let same: Vec<_> = same
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    assert_eq!(same.iter().filter(|one| one.is_ok()).count(), 1, "{same:?}");
    let taken = |error| matches!(error, &MembershipError::NameTaken { .. });
    assert!(
        same.iter().filter_map(|one| one.as_ref().err()).all(taken),
        "{same:?}"
    );
}

#[test]
fn the_dead_are_lost_when_their_lease_runs_out_and_may_come_back() {
    let Some(cluster) = EtcdCluster::start(1) else {
        return;
    };
    let (members, way) = (urls(&cluster), SeverableEtcd::new(&cluster));
    let membership = NodeMembership::follow(&members).expect("etcd");
    let changes = membership.changes();
    let (dead, events) = register(&way.members, "left");
    assert_eq!(next(&changes), MembershipChange::Found(dead.node().clone()));
    // Wait for three renewals, so that the observed lease is not the first grant.
    std::thread::sleep(LEASE + LEASE / 4);
    assert!(events.try_recv().is_err());
    assert!(changes.try_recv().is_err());
    way.cut();
    let cut = Instant::now();
    // A new process of this name must wait until the old one's lease has expired.
    let (again, _) = register(&members, "left");
    let waited = cut.elapsed();
    assert!(waited > LEASE / 3 && waited < LONG, "{waited:?}");
    assert_eq!(next(&changes), MembershipChange::Lost(dead.node().clone()));
    assert_eq!(
        next(&changes),
        MembershipChange::Found(again.node().clone())
    );
    assert_eq!(again.node().number, dead.node().number);
    let event = events.recv_timeout(LONG).expect("an event");
    assert!(
        matches!(event, RegistrationEvent::Unreachable(_)),
        "{event:?}"
    );
    // A process that returns and finds its name taken gets an error, and does not undo the new one.
    drop(dead);
    assert_eq!(membership.nodes(), [again.node().clone()]);
}

#[test]
fn etcd_may_be_killed_and_come_back_with_what_it_knew_or_without() {
    let Some(mut cluster) = EtcdCluster::start(1) else {
        return;
    };
    let members = urls(&cluster);
    let (left, left_events) = register(&members, "left");
    let (right, right_events) = try_register(&members, "right", Some(9)).expect("a number");
    let membership = NodeMembership::follow(&members).expect("etcd");
    let changes = membership.changes();
    let all = [left.node().clone(), right.node().clone()];
    for node in &all {
        assert_eq!(next(&changes), MembershipChange::Found(node.clone()));
    }
    for forgets in [false, true] {
        cluster.kill(0);
        until("the outage is known", || membership.outage().is_some());
        // The outage is longer than the leases.
        std::thread::sleep(LEASE + LEASE / 2);
        assert_eq!(membership.nodes(), all);
        if forgets {
            cluster.forget_all();
        }
        cluster.run(0);
        cluster.wait_ready();
        until("etcd is heard again", || membership.outage().is_none());
        for events in [&left_events, &right_events] {
            let first = events.recv_timeout(LONG).expect("an event");
            assert!(
                matches!(first, RegistrationEvent::Unreachable(_)),
                "{first:?}"
            );
            let then = events.recv_timeout(LONG).expect("an event");
            let expected = if forgets {
                RegistrationEvent::RegisteredAgain
            } else {
                RegistrationEvent::Reached
            };
            assert_eq!(then, expected);
        }
        // Wait so long that a node that had not come back would be reported as lost, and the leases
        // would expire.
        std::thread::sleep(LEASE * 2);
        let fresh = NodeMembership::follow(&members).expect("etcd");
        assert_eq!(fresh.nodes(), all);
        assert_eq!(membership.nodes(), all);
        assert_eq!(changes.try_iter().collect::<Vec<_>>(), []);
    }
    // Changes are reported as before.
    drop(left);
    assert_eq!(next(&changes), MembershipChange::Lost(all[0].clone()));

    // A node that ends while etcd has lost all its data is lost, although later.
    cluster.kill(0);
    until("the outage is known", || membership.outage().is_some());
    drop(right);
    cluster.forget_all();
    cluster.run(0);
    let ended = Instant::now();
    assert_eq!(next(&changes), MembershipChange::Lost(all[1].clone()));
    assert!(ended.elapsed() > LEASE);
}

#[test]
fn three_members_lose_their_leader() {
    let Some(mut cluster) = EtcdCluster::start(3) else {
        return;
    };
    let members = urls(&cluster);
    let (left, events) = register(&members, "left");
    let membership = NodeMembership::follow(&members).expect("etcd");
    let changes = membership.changes();
    assert_eq!(next(&changes), MembershipChange::Found(left.node().clone()));
    for _ in 0..2 {
        let leader = cluster.leader();
        cluster.kill(leader);
        // This works at once, while there is no leader.
        let began = Instant::now();
        let (right, _) = register(&members, "right");
        assert!(began.elapsed() < LONG);
        assert_eq!(
            next(&changes),
            MembershipChange::Found(right.node().clone())
        );
        assert_eq!(right.node().number, NodeId(1));
        let ended = right.node().clone();
        drop(right);
        assert_eq!(next(&changes), MembershipChange::Lost(ended));
        cluster.run(leader);
        cluster.wait_ready();
    }
    std::thread::sleep(LEASE * 2);
    assert_eq!(membership.nodes(), [left.node().clone()]);
    assert_eq!(changes.try_iter().collect::<Vec<_>>(), []);
    let lost = |event: &RegistrationEvent| *event == RegistrationEvent::RegisteredAgain;
    assert!(!events.try_iter().any(|event| lost(&event)));
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let Some(cluster) = EtcdCluster::start(1) else {
        return;
    };
    let members = urls(&cluster);
    let (left, _) = register(&members, "left");
    let membership = NodeMembership::follow(&members).expect("etcd");
    let changes = membership.changes();
    assert_eq!(next(&changes), MembershipChange::Found(left.node().clone()));
    // The values are nearfield/node/new: {"version":2}, and nearfield/node/junk: junk.
    let url = cluster.url(0);
    let new = r#"{"key":"bmVhcmZpZWxkL25vZGUvbmV3","value":"eyJ2ZXJzaW9uIjoyfQ=="}"#;
    let junk = r#"{"key":"bmVhcmZpZWxkL25vZGUvanVuaw==","value":"anVuaw=="}"#;
    assert!(post(url, "kv/put", new).contains("revision"));
    let version = "memory node \"new\" is registered in version 2, and this program uses version 1";
    let MembershipChange::Refused(error) = next(&changes) else {
        panic!("not refused");
    };
    assert_eq!(error.to_string(), version);
    assert!(post(url, "kv/put", junk).contains("revision"));
    let MembershipChange::Refused(error) = next(&changes) else {
        panic!("not refused");
    };
    let foreign =
        "the value in etcd at \"nearfield/node/junk\" is not a registration of a memory node";
    assert!(error.to_string().starts_with(foreign), "{error}");
    assert_eq!(membership.nodes(), [left.node().clone()]);
    assert_eq!(membership.refused().len(), 2);
    let error = try_register(&members, "new", None).expect_err("its name is in use");
    assert_eq!(error.to_string(), version);
}

#[test]
fn etcd_that_does_not_answer_is_told_soon() {
    let refusing = format!("http://127.0.0.1:{}", free_port());
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("http://{}", silent.local_addr().expect("bound"));
    let members: EtcdMembers = format!("{refusing},{silent}").parse().expect("URLs");
    let began = Instant::now();
    // Both wait for the silent member, and do so at the same time.
    let asked = members.clone();
    let follower = std::thread::spawn(move || {
        let error = NodeMembership::follow(&asked).expect_err("no member replies");
        error.to_string()
    });
    let reserved = Reservation::new(&members, "left", None, LEASE).expect_err("no member replies");
    let error = follower.join().expect("no panic");
    assert!(began.elapsed() < LONG);
    assert!(error.starts_with("etcd is unreachable: "), "{error}");
    assert!(
        error.contains(&refusing) && error.contains(&silent),
        "{error}"
    );
    assert!(
        matches!(reserved, MembershipError::Unreachable { .. }),
        "{reserved}"
    );
    let short = Reservation::new(&members, "left", None, Duration::from_secs(1));
    let short = short.expect_err("too short").to_string();
    assert_eq!(short, "a lease of 1s is not between 2 and 3600 seconds");

    // A server that is not etcd.
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", other.local_addr().expect("bound"));
    std::thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("a client");
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone");
    });
    let error = NodeMembership::follow(&url.parse().expect("a URL")).expect_err("it is not etcd");
    let expected =
        format!("{url} is not etcd 3.4 or later: it replies to kv/range with status 404, \"none\"");
    assert_eq!(error.to_string(), expected);
}
