//! `nearfield tiers advise` on Nearfield's server, on redis-server and on valkey-server.

use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::steps::{ask_number, ask_text, connect, receive_reply, send_command};
use std::net::SocketAddr;
use std::process::{Command, Output};

fn advise(address: SocketAddr, more: &[&str]) -> Output {
    let port = address.port().to_string();
    Command::new(env!("CARGO_BIN_EXE_nearfield"))
        .args(["tiers", "advise", "--port", &port])
        .args(more)
        .env_remove("NEARFIELD_PASSWORD")
        .output()
        .expect("the program")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", printed(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a test on each installed server.
fn on_all(test: impl Fn(&str, SocketAddr)) {
    let nearfield = Nearfield::start(ServerOptions::default());
    test("nearfield", nearfield.address);
    for program in ["redis-server", "valkey-server"] {
        if let Some(server) = RedisPeerProcess::start_program(program, &[]) {
            test(program, server.address);
        }
    }
}

/// Sends commands together, which must all succeed.
fn send_all(connection: &mut TestkitConnection, commands: impl IntoIterator<Item = Vec<String>>) {
    for command in commands {
        let words: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
        let reply = connection.command(&words).expect("a reply");
        assert!(
            !format!("{reply:?}").starts_with("Error"),
            "{command:?}: {reply:?}"
        );
    }
}

fn record(number: usize) -> String {
    format!(
        "{{\"id\":{number},\"name\":\"customer {number}\",\"city\":\"Springfield\",\
         \"orders\":[{},{}],\"status\":\"active\",\"newsletter\":true,\"language\":\"en\"}}",
        number * 7,
        number * 13
    )
}

/// Fills a server with 2,000 records, of which a tenth is used often, and some values of other
/// types.
fn fill(connection: &mut TestkitConnection) {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let records = (0..2000).map(|number| {
        vec![
            "SET".to_owned(),
            format!("customer:{number}"),
            record(number),
        ]
    });
    send_all(connection, records);
    let counters = (0..500).map(|number| words(&["SET", &format!("counter:{number}"), "7"]));
    send_all(connection, counters);
    let hashes = (0..50).map(|number| {
        let key = format!("hash:{number}");
        let text = record(number);
        words(&["HSET", &key, "first", &text, "second", &text])
    });
    send_all(connection, hashes);
    let uses =
        (0..20_000).map(|number| vec!["GET".to_owned(), format!("customer:{}", number % 200)]);
    send_all(connection, uses);
    send_all(
        connection,
        [
            words(&["SELECT", "3"]),
            words(&["RPUSH", "list", "a", "b", "c"]),
        ],
    );
    send_all(connection, [words(&["SELECT", "0"])]);
}

#[test]
fn a_server_that_counts_uses_is_advised() {
    on_all(|name, address| {
        let mut connection = connect(address);
        send_command(&mut connection, "CONFIG SET maxmemory-policy allkeys-lfu");
        assert_eq!(receive_reply(&mut connection), "OK", "{name}");
        fill(&mut connection);
        let file = std::env::temp_dir().join(format!("nearfield-advice-{}.json", address.port()));
        let output = advise(address, &["--json", file.to_str().expect("a path")]);
        let text = printed(&output);
        assert!(output.status.success(), "{name}: {}", complaint(&output));
        let advice = std::fs::read_to_string(&file).expect("the advice");
        std::fs::remove_file(&file).expect("it was written");
        let advice: serde_json::Value = serde_json::from_str(&advice).expect("JSON");
        println!("{text}");
        assert_eq!(advice["complete"], true);
        let hot_by = match name {
            "nearfield" => "nearfield-counter",
            _ => "redis-counter",
        };
        assert_eq!(advice["hot_by"], hot_by);
        assert_eq!(advice["keys"], 2551, "{name}");
        assert_eq!(advice["keys_seen"], 2551, "{name}");
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        // The records and the hashes can move, but not the counters and the short list.
        let movable = number(&advice["movable_keys_share"]) * 2551.0;
        assert!((2050.0..2052.0).contains(&movable), "{name}: {movable}");
        let ratios = &advice["compression"];
        assert!(number(&ratios["trained"]) > 3.0, "{name}: {ratios}");
        assert!(number(&ratios["trained"]) > number(&ratios["alone"]) * 1.5);
        // The tenth that is used often gets nearly all uses.
        let first = &advice["splits"][1];
        // Nearfield's counter ends at 15, so its estimate is lower.
        let least = if name == "nearfield" { 0.6 } else { 0.8 };
        assert!(number(&first["uses_in_memory"]) > least, "{name}: {first}");
        let now = number(&advice["memory_bytes"]);
        let compressed = number(&first["memory_with_compressed_bytes"]);
        let file = number(&first["memory_with_file_bytes"]);
        assert!(
            file < compressed && compressed < now * 0.8,
            "{name}: {first}"
        );
        let flags = advice["suggestion"]["compressed"].as_str().expect("flags");
        assert!(text.contains(flags), "{flags}");
        // The server accepts the printed flags as they are.
        for tier in flags.split(' ').filter(|word| word.contains('=')) {
            tier.parse::<nearfield_tiers::Specification>().expect(tier);
        }
    });
}

#[test]
fn a_server_that_notes_times_is_not_changed() {
    on_all(|name, address| {
        let mut connection = connect(address);
        fill(&mut connection);
        let has_no_touch = ask_text(&mut connection, "INFO server");
        let has_no_touch = !has_no_touch.contains("redis_version:7.0") || name != "redis-server";
        std::thread::sleep(std::time::Duration::from_millis(2100));
        let output = advise(address, &["--samples", "5000"]);
        let text = printed(&output);
        assert!(output.status.success(), "{name}: {}", complaint(&output));
        assert!(text.contains("used in the last minute"), "{text}");
        let idle = (0..2000).map(|number| {
            ask_number(
                &mut connection,
                &format!("OBJECT IDLETIME customer:{number}"),
            )
        });
        let touched = idle.filter(|seconds| *seconds < 2).count();
        if has_no_touch {
            assert_eq!(touched, 0, "{name}");
            assert!(!text.contains("without counting uses"), "{text}");
        } else {
            // The canary: values are read, and a server without CLIENT NO-TOUCH counts that.
            assert!(touched > 0, "{name}");
            assert!(text.contains("without counting uses"), "{text}");
        }
    });
}

#[test]
fn only_a_sample_of_many_keys_is_looked_at() {
    on_all(|name, address| {
        let mut connection = connect(address);
        fill(&mut connection);
        let output = advise(address, &["--samples", "500"]);
        let text = printed(&output);
        let line = text.lines().nth(1).expect("a line");
        let seen = line.split_whitespace().nth(1).expect("a number");
        let seen: u32 = seen.parse().expect("a number");
        assert!((350..650).contains(&seen), "{name}: {line}");
        assert!(text.contains("2,551 keys"), "{text}");
    });
}

#[test]
fn an_unusable_server_is_named_with_the_reason() {
    on_all(|name, address| {
        let empty = complaint(&advise(address, &[]));
        assert!(empty.contains("has no keys"), "{name}: {empty}");
        let mut connection = connect(address);
        fill(&mut connection);
        for command in [
            "ACL SETUSER all on >open ~* +@read +select +info +client",
            "ACL SETUSER few on >open ~* +@read +select +info +client -memory",
            "ACL SETUSER default >secret",
        ] {
            send_command(&mut connection, command);
            assert_eq!(receive_reply(&mut connection), "OK", "{name}: {command}");
        }
        let unknown = complaint(&advise(address, &[]));
        assert!(unknown.contains("--password"), "{name}: {unknown}");
        let wrong = complaint(&advise(address, &["--password", "guess"]));
        assert!(wrong.contains("WRONGPASS"), "{name}: {wrong}");
        let few = complaint(&advise(address, &["--user", "few", "--password", "open"]));
        assert!(few.contains("no right to MEMORY USAGE"), "{name}: {few}");
        let all = advise(address, &["--user", "all", "--password", "open"]);
        assert!(all.status.success(), "{name}: {}", complaint(&all));
    });
    let nobody: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    let refused = complaint(&advise(nobody, &[]));
    assert!(
        refused.contains("127.0.0.1:1: cannot communicate with the server"),
        "{refused}"
    );
    let file = complaint(&advise(nobody, &["--json", "/no/such/folder/a.json"]));
    assert!(
        file.contains("cannot write /no/such/folder/a.json"),
        "{file}"
    );
}

#[test]
fn a_node_of_a_cluster_is_advised_on_its_own_keys() {
    let options = ["--cluster-enabled", "yes"];
    let Some(redis) = RedisPeerProcess::start_program("redis-server", &options) else {
        return;
    };
    let mut connection = connect(redis.address);
    send_command(&mut connection, "CLUSTER ADDSLOTSRANGE 0 16383");
    assert_eq!(receive_reply(&mut connection), "OK");
    nearfield_server_testkit::steps::eventually("the cluster is up", || {
        ask_text(&mut connection, "CLUSTER INFO").contains("cluster_state:ok")
    });
    for number in 0..50 {
        let key = format!("customer:{number}");
        let record = record(number);
        send_all(&mut connection, [vec!["SET".to_owned(), key, record]]);
    }
    let output = advise(redis.address, &[]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(
        printed(&output).contains("one node of a cluster"),
        "{}",
        printed(&output)
    );
}
