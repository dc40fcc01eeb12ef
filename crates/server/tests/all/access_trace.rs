//! The trace of the accesses of commands.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::access_trace::AccessTrace;
use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use nearfield_tiers::{Specification, Tiers};
use std::sync::Arc;

/// A line of a trace.
#[derive(Debug, PartialEq, Eq)]
struct TraceLine {
    object: String,
    /// The tier, the bytes of the value, the first byte and the number of bytes.
    numbers: [usize; 4],
    kind: String,
    picoseconds: u64,
}

fn parse(line: &str) -> TraceLine {
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words.len(), 7, "{line}");
    TraceLine {
        object: words[0].to_owned(),
        numbers: [1, 2, 3, 4].map(|at| words[at].parse().unwrap()),
        kind: words[5].to_owned(),
        picoseconds: words[6].parse().unwrap(),
    }
}

/// Runs commands on a server with a trace and two tiers, and returns the lines.
fn traced(commands: &[&[&[u8]]]) -> Vec<TraceLine> {
    let folder = TestkitFolder::new();
    let path = folder.join("trace");
    let trace = Arc::new(AccessTrace::create(&path).unwrap());
    let tiers = ["memory=4mb", "compressed=4mb"].map(|tier| tier.parse::<Specification>());
    let server = Nearfield::start(ServerOptions {
        access_trace: Some(Arc::clone(&trace)),
        tiers: Some(Arc::new(Tiers::open(&tiers.map(Result::unwrap)).unwrap())),
        ..saving_into(&folder, 1)
    });
    let mut connection = server.connect();
    for words in commands {
        let reply = connection.command(words).unwrap();
        assert!(!matches!(reply, RespReplyValue::Error(_)), "{reply}");
    }
    // Its mover adds nothing any more.
    drop(connection);
    drop(server);
    trace.flush();
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines().map(parse).collect()
}

#[test]
fn reads_and_writes_are_traced_with_their_object_and_bytes() {
    let value = [b'v'; 300];
    let lines = traced(&[
        &[b"SET", b"one", &value],
        &[b"GET", b"one"],
        &[b"GET", b"absent"],
        &[b"EXISTS", b"one"],
        &[b"MSET", b"two", b"22", b"three", b"333"],
        &[b"RPUSH", b"list", &value, &value],
        &[b"LINDEX", b"list", b"1"],
        &[b"DEL", b"one"],
        &[b"PING"],
    ]);
    let kinds: Vec<&str> = lines.iter().map(|line| line.kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["WRITE", "READ", "WRITE", "WRITE", "WRITE", "READ"],
        "{lines:?}"
    );
    // SET and GET access the whole value of one object.
    assert_eq!(lines[0].object, lines[1].object);
    let numbers: Vec<[usize; 4]> = lines.iter().map(|line| line.numbers).collect();
    assert_eq!(numbers[..2], [[0, 300, 0, 300]; 2]);
    assert_eq!(numbers[2..4], [[0, 2, 0, 2], [0, 3, 0, 3]]);
    assert_ne!(lines[2].object, lines[3].object);
    // LINDEX reads a part of the list.
    let [tier, bytes, offset, length] = lines[5].numbers;
    assert_eq!((tier, &lines[5].object), (0, &lines[4].object));
    assert!(length >= 300 && length < bytes && offset + length <= bytes);
    assert!(lines.is_sorted_by_key(|line| line.picoseconds));
}

#[test]
fn reads_of_cold_values_name_their_tier() {
    let value = [b'v'; 3000];
    let lines = traced(&[
        &[b"SET", b"one", &value],
        &[b"GET", b"one"],
        &[b"NEARFIELD.TIER", b"MOVE", b"one", b"1"],
        &[b"GET", b"one"],
    ]);
    let tiers: Vec<usize> = lines.iter().map(|line| line.numbers[0]).collect();
    assert_eq!(tiers, [0, 0, 1], "{lines:?}");
    assert!(lines[2].numbers[3] >= 3000 && lines[2].kind == "READ");
}

/// Clients write into memory only, so each write of the other tier is a copy by the mover.
#[test]
fn moves_are_traced_as_copies() {
    let value = [b'v'; 3000];
    let keys: Vec<String> = (0..2000).map(|number| format!("key:{number}")).collect();
    let words: Vec<[&[u8]; 3]> = keys
        .iter()
        .map(|key| -> [&[u8]; 3] { [b"SET", key.as_bytes(), &value] })
        .collect();
    let commands: Vec<&[&[u8]]> = words.iter().map(|words| words.as_slice()).collect();
    // 6 MB in a memory of 4.
    let lines = traced(&commands);
    let copies = |tier, kind: &str| -> Vec<&TraceLine> {
        let is = |line: &&TraceLine| line.numbers[0] == tier && line.kind == kind;
        lines.iter().filter(is).collect()
    };
    let (from, to) = (copies(0, "READ"), copies(1, "WRITE"));
    assert!(to.len() > 100, "{} copies", to.len());
    for copy in to {
        let is_same = |line: &&TraceLine| {
            line.object == copy.object && line.numbers[1..] == copy.numbers[1..]
        };
        assert!(from.iter().any(is_same), "{copy:?}");
    }
}
