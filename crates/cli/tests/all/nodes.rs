//! `nearfield nodes`, and memory nodes that register.

#![cfg(target_os = "linux")]

use crate::process::{NEARFIELD, signal};
use nearfield_testkit::etcd::EtcdCluster;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the output of `nearfield nodes` and whether it succeeds.
fn nodes(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(NEARFIELD);
    let output = command.arg("nodes").args(arguments).output();
    let output = output.expect("the program");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn lists_are_printed_as_they_are_meant() {
    let (success, table, _) = nodes(&["--nodes", "shm:left,7=ucx:a:7000"]);
    let expected = "\
NUMBER  NAME    ADDRESS     BYTES  VERSION  INCARNATION
0       left    shm:left    -      -        -
7       a-7000  ucx:a:7000  -      -        -
";
    assert_eq!((success, table.as_str()), (true, expected));
    let (success, _, error) = nodes(&["--nodes", "shm:left,tcp:a"]);
    let expected =
        "error: \"tcp:a\" is not an address of a memory node: it must begin with shm: or ucx:\n";
    assert_eq!((success, error.as_str()), (false, expected));
    let (success, _, error) = nodes(&["--etcd", "a:2379"]);
    assert!(
        !success && error.contains("it must begin with http://"),
        "{error}"
    );
    let (success, _, error) = nodes(&[]);
    assert!(!success && error.contains("--etcd"), "{error}");
}

#[test]
fn memory_nodes_register_and_are_shown() {
    let Some(mut etcd) = EtcdCluster::start(1) else {
        return;
    };
    // The command waits while etcd is starting.
    etcd.kill(0);
    etcd.run(0);
    let (success, table, error) = nodes(&["--etcd", etcd.url(0)]);
    assert_eq!(
        (success, table.as_str()),
        (true, "There are no memory nodes.\n"),
        "{error}"
    );
    let start = |object: &str, more: &[&str]| {
        let listen = format!("shm:test-{}-{object}", std::process::id());
        Command::new(NEARFIELD)
            .args(["memory-node", "--size", "1mb", "--lease", "2"])
            .args(["--listen", &listen, "--etcd", etcd.url(0)])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program")
    };
    let first_line = |child: &mut Child| {
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        line
    };
    let mut left = start("left", &["--number", "3"]);
    assert!(first_line(&mut left).starts_with("Memory node 3 is ready"));
    let mut right = start("right", &["--name", "right"]);
    assert!(first_line(&mut right).starts_with("Memory node 0 is ready"));

    let (success, json, _) = nodes(&["--json", "--etcd", etcd.url(0)]);
    assert!(success);
    let rows: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let name = format!("test-{}-left", std::process::id());
    assert_eq!(rows.as_array().map(Vec::len), Some(2));
    assert_eq!(rows[0]["name"], "right");
    assert_eq!(rows[1]["name"], name.as_str());
    assert_eq!(rows[1]["number"], 3);
    assert_eq!(rows[1]["address"], format!("shm:{name}"));
    assert_eq!(rows[1]["bytes"], 1 << 20);
    assert_eq!(rows[1]["version"], 1);

    // The name is in use.
    let other = start("other", &["--name", "right"]).wait_with_output();
    let other = other.expect("it ends");
    let error = String::from_utf8(other.stderr).expect("text");
    let expected = format!(
        "error: the name \"right\" is in use by the memory node at shm:test-{}-right\n",
        std::process::id()
    );
    assert_eq!(error, expected);

    // Ctrl-C ends the registration with the node; after kill -9 it ends when the lease expires.
    assert!(signal(right.id(), "-INT"));
    assert!(right.wait().expect("it ends").success());
    let (_, table, _) = nodes(&["--etcd", etcd.url(0)]);
    assert!(!table.contains("right") && table.contains(&name), "{table}");
    left.kill().expect("kill");
    left.wait().expect("it ends");
    let began = Instant::now();
    while nodes(&["--etcd", etcd.url(0)]).1.contains(&name) {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = std::fs::remove_file(format!("/dev/shm/nearfield-{name}"));
}
