//! The memory of a key with its value in a file.
//!
//! The test has a process to itself, because it measures the memory of the process.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::process::status_bytes;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_tiers::{Specification, TierKind, Tiers};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Largest memory of a cold key in bytes, without the key itself. Of this, 4 to 8 bytes are the
/// table of the use of keys, which grows by doubling.
const BYTES_MAX: f64 = 40.0;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 200;
/// Number of keys at the first measurement and at the second. Memory that does not depend on them
/// cancels out.
const KEYS: [usize; 2] = [300_000, 1_000_000];
const AT_ONCE: usize = 256;

/// Returns the memory of this process, in bytes.
fn resident_bytes() -> Option<usize> {
    status_bytes(std::process::id(), "VmRSS:").map(|bytes| bytes as usize)
}

/// Sets keys and moves their values to the file, some at a time.
fn set_cold(connection: &mut TestkitConnection, numbers: &[usize], random: &mut SmallRng) {
    let mut value = vec![0; VALUE_BYTES];
    for some in numbers.chunks(AT_ONCE) {
        let mut request = Vec::new();
        for number in some {
            let key = format!("user:{number:011}");
            assert_eq!(key.len(), KEY_BYTES);
            random.fill_bytes(&mut value);
            encode(&mut request, &[b"SET", key.as_bytes(), &value]);
            encode(
                &mut request,
                &[b"NEARFIELD.TIER", b"MOVE", key.as_bytes(), b"1"],
            );
        }
        connection.send(&request).unwrap();
        for _ in some {
            assert_eq!(connection.receive().unwrap(), RespReplyValue::simple("OK"));
            // The value may have moved by itself.
            assert!(matches!(
                connection.receive().unwrap(),
                RespReplyValue::Integer(0 | 1)
            ));
        }
    }
}

#[test]
fn a_cold_key_takes_little_memory_beside_itself() {
    let Some(_) = resident_bytes() else {
        println!("skipped: the system does not report the memory of the process");
        return;
    };
    let folder = TestkitFolder::new();
    let tier = |kind, mebibytes: u64| Specification {
        kind,
        capacity_bytes: mebibytes << 20,
    };
    let tiers = [
        tier(TierKind::Memory, 128),
        tier(TierKind::File(folder.0.clone()), 512),
    ];
    let server = Nearfield::start(ServerOptions {
        threads: 1,
        tiers: Some(Arc::new(Tiers::open(&tiers).unwrap())),
        ..ServerOptions::default()
    });
    let keyspace = &server.server.keyspace;
    let mut connection = server.connect();
    let mut random = SmallRng::seed_from_u64(1);
    let mut numbers: Vec<usize> = (0..KEYS[1]).collect();
    numbers.shuffle(&mut random);
    let (first, rest) = numbers.split_at(KEYS[0]);
    // The memory in use: the index, with the keys, and the tables of the use of keys.
    let counted = || {
        let databases = keyspace.exclude();
        let objects = keyspace.heap.used_bytes();
        keyspace.index_bytes(&databases) + objects + server.server.access.bytes()
    };
    set_cold(&mut connection, first, &mut random);
    let before = (counted(), resident_bytes().unwrap());
    set_cold(&mut connection, rest, &mut random);
    let after = (counted(), resident_bytes().unwrap());
    let each = |before: usize, after: usize| {
        (after as f64 - before as f64) / rest.len() as f64 - KEY_BYTES as f64
    };
    let (counted, resident) = (each(before.0, after.0), each(before.1, after.1));
    println!("{counted:.1} bytes per key are in use, and the process has {resident:.1}");
    let values = keyspace.cold.tiers().unwrap().values(1);
    assert_eq!(values, KEYS[1] as u64);
    assert!(
        counted <= resident + 8.0,
        "{counted} bytes a key are counted"
    );
    assert!(
        resident <= BYTES_MAX,
        "the process has {resident} bytes per key"
    );
}
