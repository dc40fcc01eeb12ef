//! Tests of the state and the traffic of memory nodes that a server over a pool shows.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield::PoolPlacement;
use nearfield_fabric_testkit::ShmNodes;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::Home;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;

fn open(nodes: &ShmNodes) -> Home {
    Home::open_pool(PoolPlacement::shm(nodes.names()), 64, None).unwrap()
}

fn ask(connection: &mut TestkitConnection, line: &str) -> RespReplyValue {
    connection.run(line).unwrap()
}

fn text(connection: &mut TestkitConnection, line: &str) -> String {
    match ask(connection, line) {
        RespReplyValue::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("no text: {other}"),
    }
}

/// Returns the sum of a metric over the memory nodes.
fn sum_of(metrics: &str, name: &str) -> u64 {
    let sample = |line: &str| line.strip_prefix(name)?.split_once("} ")?.1.parse().ok();
    let samples: Vec<u64> = metrics.lines().filter_map(sample).collect();
    assert_eq!(samples.len(), 2, "{name} in {metrics}");
    samples.iter().sum()
}

#[test]
fn the_verbs_of_commands_count_at_memory_nodes() {
    const KEYS: u64 = 1000;
    let nodes = ShmNodes::serve(2, 64 << 20).unwrap();
    let server = Nearfield::start(ServerOptions {
        home: open(&nodes),
        ..ServerOptions::default()
    });
    let mut connection = server.connect();
    let mut metrics = Vec::new();
    let mut run = |command: &dyn Fn(u64) -> String| {
        for number in 0..KEYS {
            let reply = ask(&mut connection, &command(number));
            assert!(!matches!(reply, RespReplyValue::Error(_)), "{reply}");
        }
        metrics.push(text(&mut connection, "METRICS"));
    };
    run(&|number| format!("SET k{number} v"));
    run(&|number| format!("GET k{number}"));
    run(&|number| format!("SET k{number} w"));
    let info = text(&mut connection, "INFO pool");
    let rise = |name: &str, round: usize| {
        let name = format!("nearfield_pool_node_{name}_total{{node=");
        let of = |round: usize| sum_of(&metrics[round], &name);
        of(round) - of(round - 1)
    };
    // A get reads a counter, a neighborhood, and the counter again. Beside it the server only
    // looks for expired keys.
    assert!(
        (3 * KEYS..20 * KEYS).contains(&rise("reads", 1)),
        "{metrics:?}"
    );
    assert!(rise("read_bytes", 1) > 32 * KEYS, "{metrics:?}");
    assert!(rise("atomics", 1) < KEYS / 2, "{metrics:?}");
    // A change takes a lock, and writes an entry.
    assert!(
        (KEYS..20 * KEYS).contains(&rise("atomics", 2)),
        "{metrics:?}"
    );
    assert!(
        (KEYS..20 * KEYS).contains(&rise("writes", 2)),
        "{metrics:?}"
    );
    assert!(rise("written_bytes", 2) > 8 * KEYS, "{metrics:?}");
    for name in [
        "calls",
        "held_locks",
        "torn_reads",
        "stale_routes",
        "lost_posts",
    ] {
        rise(name, 1);
    }
    let cache = |name: &str, round: usize| -> u64 {
        let name = format!("nearfield_pool_cache_{name}_total ");
        let mut samples = metrics[round]
            .lines()
            .filter_map(|line| line.strip_prefix(&name));
        samples.next().unwrap().parse().unwrap()
    };
    assert!(
        cache("hits", 1) - cache("hits", 0) >= KEYS * 9 / 10,
        "{metrics:?}"
    );
    assert!(cache("misses", 2) < KEYS, "{metrics:?}");
    for field in [
        "pool_cache_hits:",
        "pool_cache_misses:",
        "pool_node_1:state=served,",
    ] {
        assert!(info.contains(field), "{info}");
    }
    assert!(info.contains(",read_bytes="), "{info}");
}

#[test]
fn a_lost_node_is_shown_and_other_keys_are_served() {
    const KEYS: usize = 1000;
    let mut nodes = ShmNodes::serve(2, 64 << 20).unwrap();
    let server = Nearfield::start(ServerOptions {
        home: open(&nodes),
        ..ServerOptions::default()
    });
    let mut connection = server.connect();
    for number in 0..KEYS {
        ask(&mut connection, &format!("SET k{number} v"));
    }
    let info = text(&mut connection, "INFO pool");
    assert!(
        info.contains("pool_nodes:2\r\npool_nodes_lost:0\r\n"),
        "{info}"
    );
    nodes.end(1);
    let (mut served, mut lost) = (0, 0);
    for number in 0..KEYS {
        match ask(&mut connection, &format!("GET k{number}")) {
            RespReplyValue::Bulk(value) => {
                assert_eq!(value, b"v");
                served += 1;
            }
            RespReplyValue::Error(error) => {
                let error = String::from_utf8_lossy(&error);
                assert!(error.contains("memory node 1"), "{error}");
                lost += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(served > KEYS / 5 && lost > KEYS / 5, "{served} {lost}");
    let info = text(&mut connection, "INFO pool");
    assert!(info.contains("pool_nodes_lost:1\r\n"), "{info}");
    assert!(
        info.contains("pool_node_0:state=served,failures=0,reads="),
        "{info}"
    );
    assert!(info.contains("pool_node_1:state=lost,failures="), "{info}");
    let metrics = text(&mut connection, "METRICS");
    for sample in [
        "nearfield_pool_node_served{node=\"0\"} 1\n",
        "nearfield_pool_node_served{node=\"1\"} 0\n",
        "nearfield_pool_node_failures_total{node=\"0\"} 0\n",
    ] {
        assert!(metrics.contains(sample), "{metrics}");
    }
    let no_losses = "nearfield_pool_node_lost_posts_total{node=\"1\"} 0\n";
    assert!(!metrics.contains(no_losses), "{metrics}");
}
