//! Large lists with nodes in several tiers.

use super::*;
use nearfield_server::config::Durability;
use nearfield_server::keyspace::nodes::MovingNode;
use nearfield_server::log::LogSyncPolicy;
use nearfield_server_testkit::saving::logged_in;
use nearfield_server_testkit::stir::{TierMoveCounts, stir};
use nearfield_testkit::stop::AtEnd;
use nearfield_tiers::cold::Traffic;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Returns an element of a list; a chunk takes about eight of them.
fn element(number: usize) -> Vec<u8> {
    lengthened(format!("element {number:06} "))
}

/// Makes a text one kilobyte long.
pub(super) fn lengthened(text: String) -> Vec<u8> {
    let mut text = text.into_bytes();
    while text.len() < 1000 {
        text.extend_from_slice(b"lantern harbour meadow copper ");
    }
    text.truncate(1000);
    text
}

pub(super) fn run(connection: &mut TestkitConnection, line: &str) -> RespReplyValue {
    connection.run(line).unwrap()
}

fn run_without_error(connection: &mut TestkitConnection, line: &str) {
    let reply = run(connection, line);
    let is_error = matches!(reply, RespReplyValue::Error(_));
    assert!(!is_error, "{line}: {reply}");
}

/// Executes a command. Returns the number of reads of the files that it needed, and the number of
/// nodes of `key` that are in them afterwards.
pub(super) fn file_reads_by(
    server: &Nearfield,
    connection: &mut TestkitConnection,
    key: &[u8],
    line: &str,
) -> (u64, usize) {
    let traffic = server.server.keyspace.cold.traffic(2).unwrap();
    let before = reads(traffic);
    run_without_error(connection, line);
    (reads(traffic) - before, nodes(server, key)[2])
}

/// Creates a list of `count` elements.
fn push(connection: &mut TestkitConnection, key: &[u8], count: usize) {
    for number in 0..count {
        let words: [&[u8]; 3] = [b"RPUSH", key, &element(number)];
        connection.command(&words).unwrap();
    }
}

/// Returns the number of reads of a tier.
pub(super) fn reads(traffic: &Traffic) -> u64 {
    traffic.latencies().map(|(_, count)| count).sum()
}

/// Returns the number of nodes of a key's value in each tier.
pub(super) fn nodes(server: &Nearfield, key: &[u8]) -> [usize; 3] {
    let keyspace = &server.server.keyspace;
    let databases = keyspace.share();
    let mut counts = [0; 3];
    for (_, place) in keyspace.nodes_of(&databases, (0, key)) {
        counts[place.map_or(0, ColdPlace::tier)] += 1;
    }
    counts
}

/// Moves the nodes `range` of a value to a tier.
pub(super) fn move_nodes(server: &Nearfield, key: &[u8], range: std::ops::Range<usize>, to: usize) {
    let keyspace = &server.server.keyspace;
    let databases = keyspace.exclude();
    for (node, _) in &keyspace.nodes_of(&databases, (0, key))[range] {
        let named = ValueName {
            part: 0,
            key: key.to_vec(),
            node: *node,
        };
        let moved = keyspace.move_node(&databases, &named, to, &mut 0);
        moved.unwrap();
    }
}

#[test]
fn commands_on_warm_nodes_read_no_cold_one_and_others_only_those_they_touch() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let _still = server.server.tiering.pause();
    let mut connection = server.connect();
    push(&mut connection, b"list", 200);
    let all: usize = nodes(&server, b"list").iter().sum();
    assert!(all > 20, "{all} nodes");
    move_nodes(&server, b"list", 1..all - 1, 2);
    assert_eq!(nodes(&server, b"list"), [2, 0, all - 2]);
    let tier = run(&mut connection, "OBJECT TIER list");
    assert_eq!(tier, RespReplyValue::Bulk(b"memory+file".to_vec()));
    let mut read = |line: &str| file_reads_by(&server, &mut connection, b"list", line);
    let cold = all - 2;
    for line in [
        "LLEN list",
        "LINDEX list 0",
        "LINDEX list -1",
        "LRANGE list 0 3",
        "LRANGE list -3 -1",
        "LPUSH list a b",
        "RPUSH list c d",
        "LPOP list",
        "RPOP list 2",
        "LMOVE list list LEFT RIGHT",
        "LMPOP 1 list RIGHT COUNT 1",
        "OBJECT ENCODING list",
        "MEMORY USAGE list",
        "TYPE list",
        "EXPIRE list 1000",
        "LTRIM list 1 -1",
    ] {
        assert_eq!(read(line), (0, cold), "{line}");
    }
    assert_eq!(read("RENAME list other").0, 0);
    assert_eq!(read("RENAME other list"), (0, cold));
    // Each command reads only the nodes that it touches, which stay in their tier.
    assert_eq!(read("LINDEX list 100"), (1, cold));
    assert_eq!(read("LRANGE list 100 101").1, cold);
    let (reads, _) = read("LRANGE list 0 -1");
    assert_eq!(reads as usize, cold);
    let copied = run(&mut connection, "COPY list copy");
    assert_eq!(copied, RespReplyValue::Integer(1));
    assert_eq!(nodes(&server, b"copy")[2], 0);
    let (one, other) = ("DUMP list", "DUMP copy");
    assert_eq!(run(&mut connection, one), run(&mut connection, other));
    run(&mut connection, "DEL copy");
    // A node that is changed comes into memory, together with its neighbours.
    run(&mut connection, "LSET list 100 changed");
    let left = nodes(&server, b"list")[2];
    assert!((cold - 3..cold).contains(&left), "{left} of {cold}");
    // A node from which nothing is taken stays, though it is read.
    run(&mut connection, "LREM list 1 changed");
    assert_eq!(nodes(&server, b"list")[2], left);
    run(&mut connection, "LREM list 0 nowhere");
    assert_eq!(nodes(&server, b"list")[2], left);
    // The deletion of a list deletes its nodes.
    run(&mut connection, "LTRIM list 0 100");
    let kept = nodes(&server, b"list")[2];
    assert!(kept < left - 5, "{kept} of {left}");
    check_settled(&server.server.keyspace);
    run(&mut connection, "DEL list");
    check_settled(&server.server.keyspace);
    let tiers = server.server.keyspace.cold.tiers().unwrap();
    assert_eq!(tiers.usage(2).unwrap().values, 0);
}

#[test]
fn a_node_that_is_lost_or_released_twice_is_noticed() {
    for lost in [true, false] {
        let folder = TestkitFolder::new();
        let server = Nearfield::start(tiered(&folder, 1));
        let keyspace = &server.server.keyspace;
        let _still = server.server.tiering.pause();
        let mut connection = server.connect();
        push(&mut connection, b"list", 40);
        move_nodes(&server, b"list", 1..3, 2);
        accounts::check_still(keyspace).unwrap();
        let databases = keyspace.exclude();
        let places = keyspace.nodes_of(&databases, (0, b"list"));
        let place = places.iter().find_map(|(_, place)| *place).unwrap();
        match lost {
            true => _ = keyspace.cold.put(2, &[b"nobody's"]).unwrap(),
            false => keyspace.cold.release(place),
        }
        drop(databases);
        accounts::check_still(keyspace).unwrap_err();
    }
}

/// Moves the third node of a value between all tiers, and meanwhile runs a command. `commands` also
/// have true if the node arrives. `is_freed` returns true when no deleted value waits to be freed.
pub(super) fn check_moves_beside_commands(
    key: &str,
    fill: impl Fn(&mut TestkitConnection),
    check_copy: impl Fn(&[u8]),
    is_freed: fn(&Keyspace) -> bool,
    commands: [(&str, bool); 8],
) {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let keyspace = &server.server.keyspace;
    let tiers = keyspace.cold.tiers().unwrap();
    let _still = server.server.tiering.pause();
    let mut connection = server.connect();
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        for (meanwhile, arrives) in commands {
            run(&mut connection, &format!("DEL {key} other"));
            fill(&mut connection);
            if from > 0 {
                move_nodes(&server, key.as_bytes(), 1..4, from);
            }
            let databases = keyspace.share();
            let (node, _) = keyspace.nodes_of(&databases, (0, key.as_bytes()))[2];
            let named = ValueName {
                part: 0,
                key: key.as_bytes().to_vec(),
                node,
            };
            let begin = || MovingNode::begin(keyspace, &databases, &named, &mut 0).unwrap();
            drop(begin());
            let moving = begin();
            check_copy(&moving.value);
            let place = (to > 0).then(|| tiers.put(to, &[&moving.value]).unwrap()[0]);
            drop(databases);
            run_without_error(&mut connection, meanwhile);
            eventually("the abandoned value is freed", || is_freed(keyspace));
            let published = moving.publish(&keyspace.share(), place);
            let context = format!("{from} to {to}, {meanwhile}: {published:?}");
            match arrives {
                true => assert!(published.is_ok(), "{context}"),
                false => assert!(
                    matches!(published, Err(ValueMoveError::Changed)),
                    "{context}"
                ),
            }
            check_settled(keyspace);
        }
    }
}

#[test]
fn a_node_whose_move_fails_at_any_step_stays_and_all_accounts_are_exact() {
    check_moves_beside_commands(
        "list",
        |connection| push(connection, b"list", 40),
        |_| (),
        // The nodes of a deleted list are there until a thread has freed them.
        |keyspace| keyspace.freeing.waiting_objects() == 0,
        // The third node has the elements from 16 on.
        [
            ("LSET list 20 changed", false),
            ("LPOP list 30", false),
            ("DEL list", false),
            ("SET list string", false),
            ("RPUSH list more", true),
            ("LPOP list", true),
            ("RENAME list other", true),
            ("PING", true),
        ],
    );
}

/// A list is larger than the memory, and larger than a value that moves as a whole.
#[test]
fn a_list_larger_than_the_memory_moves_node_by_node_and_survives() {
    const COUNT: usize = 12_000;
    let folder = TestkitFolder::new();
    let options = ServerOptions {
        persistence: logged_in(&folder.0),
        ..ServerOptions::default()
    };
    let server = moving(&folder, [4, 0, 64], options.clone());
    let mut connection = server.connect();
    for number in 0..COUNT {
        let words: [&[u8]; 3] = [b"RPUSH", b"queue", &element(number)];
        let pushed = connection.command(&words).unwrap();
        assert_eq!(pushed, RespReplyValue::Integer(number as i64 + 1));
        if number % 1000 == 999 {
            let keyspace = &server.server.keyspace;
            let used = keyspace.heap.used_bytes();
            assert!(used < 5 << 20, "{used} bytes after {number}");
        }
    }
    // The files are the second tier here.
    let [warm, cold, _] = nodes(&server, b"queue");
    assert!(cold > warm, "{cold} cold nodes, {warm} in memory");
    check(&server).unwrap();
    // A snapshot has all of it, and takes no memory for it.
    assert_eq!(run(&mut connection, "SAVE"), RespReplyValue::simple("OK"));
    let used = server.server.keyspace.heap.used_bytes();
    assert!(used < 5 << 20, "{used} bytes after a snapshot");
    for number in (0..COUNT).step_by(500) {
        let found = run(&mut connection, &format!("LINDEX queue {number}"));
        assert_eq!(found, RespReplyValue::Bulk(element(number)));
    }
    // It is used as a queue.
    for number in 0..COUNT / 2 {
        let found = run(&mut connection, "LPOP queue");
        assert_eq!(found, RespReplyValue::Bulk(element(number)));
    }
    check(&server).unwrap();
    drop((connection, server));
    let server = moving(&folder, [4, 0, 64], options);
    let mut connection = server.connect();
    assert_eq!(
        run(&mut connection, "LLEN queue"),
        RespReplyValue::Integer((COUNT - COUNT / 2) as i64)
    );
    for number in COUNT / 2..COUNT {
        let found = run(&mut connection, "LPOP queue");
        assert_eq!(found, RespReplyValue::Bulk(element(number)));
    }
    check(&server).unwrap();
}

fn always_logged_in(directory: &Path) -> Durability {
    Durability {
        policy: Some(LogSyncPolicy::Always),
        ..logged_in(directory)
    }
}

/// Starts a server with small tiers that logs each write into the directory `data` of a folder.
pub(super) fn start_logging(folder: &TestkitFolder) -> Nearfield {
    let options = ServerOptions {
        persistence: always_logged_in(&folder.0.join("data")),
        ..tiered(folder, 2)
    };
    std::fs::create_dir_all(folder.0.join("data")).unwrap();
    Nearfield::start(options)
}

/// Starts a server on the files that a kill of the one in `folder` would leave.
pub(super) fn start_after_kill(folder: &TestkitFolder) -> (TestkitFolder, Nearfield) {
    let left = TestkitFolder::new();
    for file in std::fs::read_dir(folder.0.join("data")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), left.0.join(file.file_name())).unwrap();
    }
    let server = Nearfield::start(ServerOptions {
        persistence: always_logged_in(&left.0),
        ..ServerOptions::default()
    });
    (left, server)
}

/// Commands run while nodes move: each element is popped once and in order, and the log has all
/// acknowledged writes, at whatever moment it is read.
#[test]
fn queues_keep_their_order_and_the_log_is_whole_while_their_nodes_move() {
    let folder = TestkitFolder::new();
    let server = start_logging(&folder);
    let (stop, stirred) = (AtomicBool::new(false), TierMoveCounts::default());
    std::thread::scope(|scope| {
        scope.spawn(|| stir(&server.server.keyspace, &stop, &stirred));
        let _stops = AtEnd(&stop);
        let mut connection = server.connect();
        push(&mut connection, b"queue", 100);
        let (mut first, mut end) = (0, 100);
        for round in 0..400 {
            for _ in 0..2 {
                let words: [&[u8]; 3] = [b"RPUSH", b"queue", &element(end)];
                connection.command(&words).unwrap();
                end += 1;
            }
            for _ in 0..2 {
                let found = run(&mut connection, "LPOP queue");
                assert_eq!(found, RespReplyValue::Bulk(element(first)));
                first += 1;
            }
            let middle = run(&mut connection, "LINDEX queue 50");
            assert_eq!(middle, RespReplyValue::Bulk(element(first + 50)));
            if round % 80 != 79 {
                continue;
            }
            let (_left, again) = start_after_kill(&folder);
            let mut again = again.connect();
            let all = run(&mut again, "LRANGE queue 0 -1");
            let expected = (first..end).map(|number| RespReplyValue::Bulk(element(number)));
            assert_eq!(all, RespReplyValue::Array(expected.collect()));
        }
    });
    let moved = stirred.nodes.into_inner();
    assert!(moved > 100, "{moved} nodes have moved");
    check(&server).unwrap();
}
