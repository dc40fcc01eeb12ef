//! The memory node as a process: its output, its refusals, and the state after signals.

#![cfg(target_os = "linux")]

use crate::process::{CliTestProcess, NEARFIELD, signal};
use nearfield::PoolPlacement;
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::ucx::{UcxEndpoint, UcxError};
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use nearfield_server::keyspace::Home;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_testkit::polling::block_on;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn memory_node(listen: &str, size: &str) -> Command {
    let mut command = Command::new(NEARFIELD);
    command
        .args(["memory-node", "--number", "2", "--listen", listen])
        .args(["--size", size])
        .stdin(Stdio::null());
    command
}

fn refused(name: &str, size: &str) -> String {
    let listen = format!("shm:{name}");
    error_of(&mut memory_node(&listen, size))
}

fn error_of(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("the program");
    assert!(!status.success());
    String::from_utf8(stderr).expect("text")
}

/// Starts a node and waits until it reports that it is ready.
fn start(listen: &str) -> CliTestProcess {
    let node = ["memory-node", "--number", "2", "--size", "1mb"];
    let mut child = CliTestProcess::start(&[&node[..], &["--listen", listen]].concat());
    // Each line contains the empty text, so this is the first one.
    let line = child.line("");
    assert!(line.starts_with("Memory node 2 is ready with 1048576 bytes."));
    child
}

#[test]
fn signals_end_it_and_leave_nothing() {
    for signal in ["-INT", "-TERM"] {
        let name = &format!("test-{}{signal}", std::process::id());
        let object = PathBuf::from(format!("/dev/shm/nearfield-{name}"));
        let mut child = start(&format!("shm:{name}"));
        let endpoint = ShmEndpoint::attach([name]).expect("a node");
        let chunk = block_on(endpoint.allocate(NodeId(2), 100)).expect("room");
        assert_eq!(chunk, GlobalAddress::new(NodeId(2), 4096));
        assert!(object.exists());
        let already = refused(name, "1mb");
        let process = child.id();
        assert_eq!(
            already,
            format!("error: memory node {name} is already served by process {process}\n")
        );
        child.end(signal);
        assert!(!object.exists());
        assert!(block_on(endpoint.read(chunk, &mut [0; 8])).is_err());
    }
}

#[test]
fn invalid_options_are_refused() {
    let name = &format!("test-{}-refused", std::process::id());
    let size = refused(name, "8 apples");
    assert!(size.contains("invalid value '8 apples'"), "{size}");
    assert!(size.contains("write a number of bytes"), "{size}");
    let size = refused(name, "1kb");
    assert_eq!(
        size,
        format!("error: memory node {name} cannot have 1024 bytes\n")
    );
    let much = refused(name, "100000gb");
    assert!(
        much.starts_with(&format!(
            "error: cannot reserve the memory of memory node {name}: "
        )),
        "{much}"
    );
    assert!(!PathBuf::from(format!("/dev/shm/nearfield-{name}")).exists());
    let listen = Command::new(NEARFIELD)
        .args(["memory-node", "--listen", "pool", "--size", "1mb"])
        .output()
        .expect("the program");
    let text = String::from_utf8(listen.stderr).expect("text");
    assert!(text.contains("must begin with shm: or ucx:"), "{text}");
}

/// A server takes the lists of nodes that `nearfield nodes` takes.
#[test]
fn a_server_refuses_a_node_of_another_number() {
    let name = &format!("test-{}-numbered", std::process::id());
    let mut child = start(&format!("shm:{name}"));
    let serve = |list: String| {
        let mut command = Command::new(NEARFIELD);
        command
            .args(["serve", "--port", "0", "--placement", "pool"])
            .args(["--pool", &list])
            .stdin(Stdio::null());
        error_of(&mut command)
    };
    assert_eq!(
        serve(format!("7=shm:{name}")),
        format!(
            "nearfield: the memory node at shm:{name} is node 2, and the list of nodes has it as \
             node 7\n"
        )
    );
    let twice = serve(format!("2=shm:{name},2=shm:other"));
    assert!(twice.contains("cannot be \"other\" too"), "{twice}");
    child.end("-INT");
}

#[test]
fn the_status_of_a_pool_shows_each_node() {
    let name = &format!("test-{}-status", std::process::id());
    let mut child = start(&format!("shm:{name}"));
    let list = format!("shm:{name},5=shm:{name}-other");
    let shown = Command::new(NEARFIELD)
        .args(["pool", "status", "--pool", &list])
        .output()
        .expect("the program");
    assert!(!shown.status.success());
    let text = String::from_utf8(shown.stdout).expect("text");
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let (served, lost) = (format!("shm:{name}"), format!("shm:{name}-other"));
    let size = ["0", "of", "1048576", "bytes,"];
    assert_eq!(lines[0], [&["2", &served][..], &size, &["empty"]].concat());
    assert_eq!(lines[1][..3], ["5", &lost, "lost:"]);
    assert!(text.contains("does not exist"), "{text}");
    child.end("-INT");
}

/// Starts a node of 64 MiB, and waits until it is ready.
fn start_part(name: &str, number: u16) -> CliTestProcess {
    let (number, listen) = (number.to_string(), format!("shm:{name}"));
    let arguments = ["--number", &number, "--listen", &listen, "--size", "64mb"];
    let mut node = CliTestProcess::start(&[&["memory-node"], &arguments[..]].concat());
    node.line("is ready");
    node
}

/// A node is killed, and started again without its memory, while a process has the pool open.
#[test]
fn a_pool_is_repaired_without_a_node_that_is_gone() {
    let name = |part: &str| format!("test-{}-{part}", std::process::id());
    let names = [name("first"), name("second")];
    let list = names.each_ref().map(|name| format!("shm:{name}")).join(",");
    let mut first = start_part(&names[0], 0);
    let mut second = start_part(&names[1], 1);
    let placement: PoolPlacement = list.parse().expect("a list");
    let map = Home::pool_map(placement.clone(), 64, None).expect("a map");
    let keys: Vec<String> = (0..5000).map(|number| format!("key{number:05}")).collect();
    let value = |number: usize| vec![7_u8; number % 100];
    for (number, key) in keys.iter().enumerate() {
        let inserted = map.insert(key.as_bytes(), &value(number));
        assert_eq!(inserted, Ok(None));
    }
    let run = |command: &str, words: &[&str]| {
        let output = Command::new(NEARFIELD)
            .args(["pool", command, "--pool", &list])
            .args(words)
            .output()
            .expect("the program");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (
            output.status.success(),
            text(output.stdout) + &text(output.stderr),
        )
    };
    let (is_whole, text) = run("status", &["--keys"]);
    assert!(is_whole, "{text}");
    let of_keys = text.split_whitespace().zip(text.split_whitespace().skip(1));
    let counts = of_keys.filter(|(_, word)| *word == "keys");
    let counts: Vec<usize> = counts
        .map(|(count, _)| count.parse().expect("a count"))
        .collect();
    assert_eq!(
        (counts.len(), counts.iter().sum::<usize>()),
        (2, keys.len()),
        "{text}"
    );
    second.kill();
    let is_ok = |key: &String| map.get(key.as_bytes()).is_ok();
    let began = Instant::now();
    // Until the death is noticed its memory can be read.
    while keys.iter().all(is_ok) {
        assert!(began.elapsed() < Duration::from_secs(60), "no key fails");
    }
    let kept: Vec<bool> = keys.iter().map(is_ok).collect();
    let count = kept.iter().filter(|&&kept| kept).count();
    assert!(count > 0 && count < keys.len(), "{count}");

    let (is_done, text) = run("repair", &["--lost", "0"]);
    assert!(!is_done && text.contains("node 0 is served"), "{text}");
    let mut second = start_part(&names[1], 1);
    let (is_done, text) = run("repair", &["--lost", "1", "--forget"]);
    assert!(is_done && text.contains("leaves were replaced"), "{text}");
    assert!(text.contains("and 0 are left"), "{text}");
    let (is_whole, text) = run("status", &[]);
    assert!(is_whole && text.contains("excluded by a repair"), "{text}");

    let began = Instant::now();
    while !keys.iter().all(is_ok) {
        assert!(began.elapsed() < Duration::from_secs(60), "keys still fail");
        std::thread::sleep(Duration::from_millis(100));
    }
    let opened = Home::pool_map(placement, 64, None).expect("a map");
    for ((number, key), kept) in keys.iter().enumerate().zip(&kept) {
        let expected = kept.then(|| value(number));
        assert_eq!(map.get(key.as_bytes()), Ok(expected.clone()));
        assert_eq!(opened.get(key.as_bytes()), Ok(expected));
        assert!(opened.put(key.as_bytes(), &value(number)).is_ok());
    }
    assert_eq!(map.len(), Ok(keys.len()));
    first.end("-INT");
    second.end("-INT");
}

/// A process has the pool open while another drains a node, which is killed then.
#[test]
fn a_node_can_be_killed_once_it_is_drained() {
    let name = |part: &str| format!("test-{}-drain-{part}", std::process::id());
    let names = [name("first"), name("second")];
    let list = names.each_ref().map(|name| format!("shm:{name}")).join(",");
    let mut first = start_part(&names[0], 0);
    let mut second = start_part(&names[1], 1);
    let placement: PoolPlacement = list.parse().expect("a list");
    let map = Home::pool_map(placement.clone(), 64, None).expect("a map");
    let keys: Vec<String> = (0..5000).map(|number| format!("key{number:05}")).collect();
    let value = |number: usize| vec![7_u8; number % 100];
    for (number, key) in keys.iter().enumerate() {
        let inserted = map.insert(key.as_bytes(), &value(number));
        assert_eq!(inserted, Ok(None));
    }
    let run = |command: &str, words: &[&str]| {
        let output = Command::new(NEARFIELD)
            .args(["pool", command, "--pool", &list])
            .args(words)
            .output()
            .expect("the program");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (
            output.status.success(),
            text(output.stdout) + &text(output.stderr),
        )
    };
    let (is_done, text) = run("drain", &["--node", "0"]);
    assert!(!is_done && text.contains("cannot be drained"), "{text}");
    let (is_done, text) = run("drain", &["--node", "1", "--cancel"]);
    assert!(is_done && text.is_empty(), "{text}");
    let (is_done, text) = run("drain", &["--node", "1"]);
    assert!(is_done && text.contains("The node can be ended."), "{text}");
    let is_none_moved = text.starts_with("0 leaves") || text.contains(" 0 long values");
    assert!(!is_none_moved, "{text}");
    let (is_whole, text) = run("status", &[]);
    assert!(is_whole && text.contains("or a drain"), "{text}");
    let (is_done, text) = run("drain", &["--node", "1"]);
    assert!(!is_done && text.contains("is excluded"), "{text}");
    let opened = Home::pool_map(placement, 64, None).expect("a map");
    second.kill();
    for (number, key) in keys.iter().enumerate() {
        for map in [&map, &opened] {
            assert_eq!(map.get(key.as_bytes()), Ok(Some(value(number))));
            assert!(map.put(key.as_bytes(), &value(number)).is_ok());
        }
    }
    assert_eq!(map.len(), Ok(keys.len()));
    first.end("-INT");
}

/// A process has the pool open while another adds a node, is stopped, and continues.
#[test]
fn a_node_is_added_to_a_pool_in_use() {
    let name = |part: &str| format!("test-{}-add-{part}", std::process::id());
    let names = [name("first"), name("second"), name("third")];
    let [one, other, third] = names.each_ref().map(|name| format!("shm:{name}"));
    let list = format!("{one},{other}");
    let numbers = [0, 1, 2];
    let nodes = numbers.map(|number| start_part(&names[usize::from(number)], number));
    let placement: PoolPlacement = list.parse().expect("a list");
    let map = Home::pool_map(placement.clone(), 64, None).expect("a map");
    let keys: Vec<String> = (0..5000).map(|number| format!("key{number:05}")).collect();
    let value = |number: usize| vec![7_u8; number % 100];
    for (number, key) in keys.iter().enumerate() {
        let inserted = map.insert(key.as_bytes(), &value(number));
        assert_eq!(inserted, Ok(None));
    }
    let words = ["pool", "add", "--pool", &list, "--node", &third];
    let mut adding = CliTestProcess::start(&[&words[..], &["--rate", "5"]].concat());
    adding.line("of about");
    assert!(signal(adding.id(), "-INT"));
    adding.line("Run the command again to continue.");
    let mut adding = CliTestProcess::start(&words);
    let end = adding.line("The node has its share.");
    let is_none_moved = end.starts_with("0 leaves") || end.contains(" 0 long values");
    assert!(!is_none_moved, "{end}");
    let status = Command::new(NEARFIELD)
        .args(["pool", "status", "--keys", "--pool", &list])
        .output()
        .expect("the program");
    let text = String::from_utf8(status.stdout).expect("text");
    assert!(status.status.success(), "{text}");
    let line = text.lines().nth(2).expect("a third node");
    assert!(
        line.contains(&third) && line.contains("part 2 of 3"),
        "{line}"
    );
    assert!(!line.contains(" 0 keys"), "{line}");
    let opened = Home::pool_map(placement, 64, None).expect("a map");
    for (number, key) in keys.iter().enumerate() {
        for map in [&map, &opened] {
            assert_eq!(map.get(key.as_bytes()), Ok(Some(value(number))));
            assert!(map.put(key.as_bytes(), &value(number)).is_ok());
        }
    }
    assert_eq!(map.len(), Ok(keys.len()));
    for mut node in nodes {
        node.end("-INT");
    }
}

#[test]
fn it_is_reached_over_ucx_until_a_signal_ends_it() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = &free.local_addr().expect("an address").to_string();
    drop(free);
    if let Err(error @ (UcxError::Library { .. } | UcxError::Old { .. })) =
        UcxEndpoint::connect([address])
    {
        let required = std::env::var_os("NEARFIELD_REQUIRE_UCX").is_some();
        assert!(!required, "{error}");
        eprintln!("skipped: {error}");
        return;
    }
    let listen = &format!("ucx:{address}");
    let mut child = start(listen);
    let endpoint = UcxEndpoint::connect([address]).expect("a node");
    let chunk = block_on(endpoint.allocate(NodeId(2), 100)).expect("room");
    assert_eq!(chunk, GlobalAddress::new(NodeId(2), 4096));
    let already = error_of(&mut memory_node(listen, "1mb"));
    let cannot = format!("error: UCX cannot listen at {address}: ");
    assert!(already.contains(&cannot), "{already}");
    child.end("-INT");
    assert!(block_on(endpoint.read(chunk, &mut [0; 8])).is_err());
    let nowhere = error_of(&mut memory_node("ucx:nowhere", "1mb"));
    assert!(nowhere.contains("is not HOST:PORT"), "{nowhere}");
}

/// The libraries of this test take precedence over the system's.
#[test]
fn a_library_that_is_missing_or_too_old_is_one_clear_message() {
    let folder = TestkitFolder::new();
    let library = folder.join("libucp.so.0");
    let error = || {
        let mut command = memory_node("ucx:127.0.0.1:0", "1mb");
        error_of(command.env("LD_LIBRARY_PATH", &folder.0))
    };
    std::fs::write(&library, b"nothing").expect("a file");
    let unusable = error();
    assert_eq!(unusable.lines().count(), 1, "{unusable}");
    let start = "error: UCX is needed, and its library libucp.so.0 cannot be loaded: ";
    assert!(unusable.starts_with(start), "{unusable}");
    assert!(unusable.contains("apt install libucx0"), "{unusable}");

    let source = folder.join("old.c");
    let text = "void ucp_get_version(unsigned *a, unsigned *b, unsigned *c) { *a = 1; *b = 9; }";
    std::fs::write(&source, text).expect("a file");
    std::fs::remove_file(&library).expect("it exists");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    match compiled {
        Ok(status) if status.success() => assert_eq!(
            error(),
            "error: the library libucp.so.0 is UCX 1.9; 1.13 or a newer 1.x is needed (Debian's \
             package libucx0)\n"
        ),
        other => eprintln!("skipped: no C compiler for an old library: {other:?}"),
    }
}
