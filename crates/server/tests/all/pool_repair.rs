//! A server over a pool that has lost a memory node for good, and is repaired.
#![cfg(target_os = "linux")]

use nearfield::{NodeId, PoolPlacement};
use nearfield_fabric_testkit::ShmNodes;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::Home;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use std::thread;
use std::time::{Duration, Instant};

fn ask(connection: &mut TestkitConnection, line: &str) -> RespReplyValue {
    connection.run(line).expect("a reply")
}

/// The server runs while another process repairs the pool.
#[test]
fn keys_of_a_lost_node_can_be_written_again_after_a_repair() {
    const KEYS: usize = 500;
    let mut nodes = ShmNodes::serve(2, 64 << 20).unwrap();
    let server = Nearfield::start(ServerOptions {
        home: Home::open_pool(PoolPlacement::shm(nodes.names()), 64, None).unwrap(),
        ..ServerOptions::default()
    });
    let mut connection = server.connect();
    for number in 0..KEYS {
        ask(&mut connection, &format!("SET k{number} v"));
    }
    nodes.end(1);
    let mut fails = |number: usize| {
        let reply = ask(&mut connection, &format!("GET k{number}"));
        matches!(reply, RespReplyValue::Error(_))
    };
    let failures = (0..KEYS).filter(|&number| fails(number)).count();
    assert!(failures > KEYS / 5 && failures < KEYS, "{failures}");

    let pool = PoolPlacement::shm(nodes.names()).without_empty_nodes();
    let map = Home::pool_map(pool, 64, None).unwrap();
    let repaired = map.repair(&[NodeId(1)], true).unwrap();
    assert!(repaired.leaves > 0, "{repaired:?}");
    let began = Instant::now();
    while (0..KEYS).any(&mut fails) {
        assert!(began.elapsed() < Duration::from_secs(60), "keys still fail");
        thread::sleep(Duration::from_millis(50));
    }
    for number in 0..KEYS {
        ask(&mut connection, &format!("SET k{number} w"));
    }
    for number in 0..KEYS {
        let reply = ask(&mut connection, &format!("GET k{number}"));
        assert_eq!(reply, RespReplyValue::Bulk(b"w".to_vec()));
    }
    let mut text = |line: &str| match ask(&mut connection, line) {
        RespReplyValue::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("no text: {other}"),
    };
    let info = text("INFO pool");
    for field in [
        "pool_nodes_lost:0\r\npool_nodes_excluded:1\r\n",
        "pool_node_1:state=excluded,failures=",
    ] {
        assert!(info.contains(field), "{info}");
    }
    let metrics = text("METRICS");
    let sample = "nearfield_pool_node_excluded{node=\"1\"} 1\n";
    assert!(metrics.contains(sample), "{metrics}");
}
