//! Disks that are full or fail, and values that no tier takes: who asks is told by name, nothing is
//! lost, and all accounts are exact.

use super::*;
use nearfield_server_testkit::faulty::{EIO, ENOSPC};
use nearfield_server_testkit::faulty_tier::{FaultyTierDisk, TierFaults};
use nearfield_tiers::disk::Disk;

/// A server with small tiers, whose files lie on a disk that fails as it is told.
fn faulty(folder: &Folder, memory_mebibytes: u64) -> (Nearfield, FaultyTierDisk) {
    let disk = FaultyTierDisk::default();
    let tiers = [
        (TierKind::Memory, memory_mebibytes),
        (TierKind::Compressed, 1),
        (TierKind::File(folder.0.clone()), 8),
    ]
    .map(|(kind, mebibytes)| Specification {
        kind,
        capacity_bytes: mebibytes << 20,
    });
    let on = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let options = Options {
        tiers: Some(Arc::new(Tiers::open_on(&tiers, &on).unwrap())),
        ..saving_into(folder, 1)
    };
    (Nearfield::start(options), disk)
}

fn set(disk: &FaultyTierDisk, faults: TierFaults) {
    *disk.faults.lock() = faults;
}

fn run(connection: &mut Connection, words: &[&[u8]]) -> Value {
    connection.command(words).unwrap()
}

fn move_to(connection: &mut Connection, key: &[u8], to: &[u8]) -> Value {
    run(connection, &[b"NEARFIELD.TIER", b"MOVE", key, to])
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no error: {other}"),
    }
}

/// Bytes that cannot be compressed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..bytes).map(|_| random.random()).collect()
}

const KEYS: u64 = 60;

/// Values of all types by their key, each of some kilobytes that cannot be compressed.
fn fill(connection: &mut Connection) -> Vec<(Vec<u8>, Value)> {
    let commands: [&[&[u8]]; 5] = [
        &[b"SET"],
        &[b"RPUSH"],
        &[b"HSET", b"field"],
        &[b"SADD"],
        &[b"ZADD", b"1.5"],
    ];
    let mut values = Vec::new();
    for number in 0..KEYS {
        let (key, value) = (name(number), noise(number, 3000));
        let [command, rest @ ..] = commands[number as usize % commands.len()] else {
            continue;
        };
        let mut words: Vec<&[u8]> = vec![command, &key];
        words.extend(rest);
        words.push(&value);
        let reply = run(connection, &words);
        assert!(!matches!(reply, Value::Error(_)), "{reply}");
        let dump = run(connection, &[b"DUMP", &key]);
        values.push((key, dump));
    }
    values
}

fn check_values(connection: &mut Connection, values: &[(Vec<u8>, Value)]) {
    for (key, dump) in values {
        let found = run(connection, &[b"DUMP", key]);
        assert_eq!(&found, dump, "{}", key.escape_ascii());
    }
}

/// Moves all values, and answers the errors of those that stay.
fn move_all(connection: &mut Connection, values: &[(Vec<u8>, Value)], to: &[u8]) -> Vec<String> {
    let moved = values.iter().map(|(key, _)| move_to(connection, key, to));
    let errors = moved.filter(|reply| !matches!(reply, Value::Integer(_)));
    errors.map(|reply| text_of(&reply)).collect()
}

#[test]
fn a_disk_that_takes_nothing_is_named_and_values_stay_where_they_are() {
    let folder = Folder::new();
    let (server, disk) = faulty(&folder, 16);
    let keyspace = &server.server.keyspace;
    let mut connection = server.connect();
    let _still = server.server.tiering.still();
    let values = fill(&mut connection);
    let writes = |error| TierFaults {
        writes: Some(error),
        ..TierFaults::default()
    };
    let creates = |error| TierFaults {
        creates: Some(error),
        ..TierFaults::default()
    };
    for (faults, reason) in [
        (writes(ENOSPC), "No space left"),
        (writes(EIO), "Input/output error"),
        (creates(ENOSPC), "No space left"),
    ] {
        set(&disk, faults);
        let errors = move_all(&mut connection, &values, b"2");
        // What the buffer takes is written later.
        assert!(errors.len() > 5, "{reason}: {errors:?}");
        assert!(disk.faults.lock().failed > 0);
        let named = folder.0.display().to_string();
        for error in &errors {
            assert!(error.contains(reason) && error.contains(&named), "{error}");
        }
        check_settled(keyspace);
        check_values(&mut connection, &values);
        // The disk works again: what was in the buffer is not lost, and the rest moves.
        set(&disk, TierFaults::default());
        assert_eq!(
            move_all(&mut connection, &values, b"2"),
            Vec::<String>::new()
        );
        check_settled(keyspace);
        check_values(&mut connection, &values);
        assert_eq!(
            move_all(&mut connection, &values, b"0"),
            Vec::<String>::new()
        );
        check_settled(keyspace);
    }
}

#[test]
fn reads_that_fail_or_answer_other_bytes_name_the_key_and_the_rest_goes_on() {
    let folder = Folder::new();
    let (server, disk) = faulty(&folder, 16);
    let keyspace = &server.server.keyspace;
    let mut connection = server.connect();
    let _still = server.server.tiering.still();
    let values = fill(&mut connection);
    assert_eq!(
        move_all(&mut connection, &values, b"2"),
        Vec::<String>::new()
    );
    run(&mut connection, &[b"SET", b"hot", b"value"]);
    let fails = TierFaults {
        reads: Some(EIO),
        ..TierFaults::default()
    };
    let flips = TierFaults {
        flips: true,
        ..TierFaults::default()
    };
    for (faults, reason) in [(fails, "Input/output error"), (flips, "not those")] {
        set(&disk, faults);
        let mut wrong = 0;
        for (key, dump) in &values {
            match run(&mut connection, &[b"DUMP", key]) {
                Value::Error(text) => {
                    let text = String::from_utf8(text).unwrap();
                    let key = String::from_utf8(key.clone()).unwrap();
                    assert!(text.contains(&key) && text.contains(reason), "{text}");
                    wrong += 1;
                }
                // What was appended last lies in memory.
                found => assert_eq!(&found, dump),
            }
        }
        assert!(wrong as u64 > KEYS / 2, "{wrong}");
        // Neither a move to memory nor one to the other cold tier loses the value.
        for to in [b"0", b"1"] {
            let error = text_of(&move_to(&mut connection, &values[0].0, to));
            assert!(error.contains(reason), "{error}");
        }
        let first = values[0].0.as_slice();
        let read = run(&mut connection, &[b"MGET", b"hot", first]);
        assert!(read.to_string().contains(reason), "{read}");
        assert_eq!(
            run(&mut connection, &[b"GET", b"hot"]),
            Value::Bulk(b"value".to_vec())
        );
        assert_eq!(run(&mut connection, &[b"EXISTS", first]), Value::Integer(1));
        run(&mut connection, &[b"MULTI"]);
        run(&mut connection, &[b"APPEND", first, b"more"]);
        run(&mut connection, &[b"SET", b"hot", b"value"]);
        let replies = run(&mut connection, &[b"EXEC"]).to_string();
        assert!(
            replies.contains(reason) && replies.contains("OK"),
            "{replies}"
        );
        set(&disk, TierFaults::default());
        check_settled(keyspace);
        check_values(&mut connection, &values);
    }
    let info = run(&mut connection, &[b"INFO", b"tiers"]).to_string();
    assert!(
        figure(&info[info.find("tier_2").unwrap()..], "unreadable=") > 0.0,
        "{info}"
    );
}

#[test]
fn a_full_disk_refuses_writes_by_name_and_loses_nothing_and_goes_on_when_it_has_room() {
    let folder = Folder::new();
    let (server, disk) = faulty(&folder, 2);
    let mut connection = server.connect();
    let full = TierFaults {
        writes: Some(ENOSPC),
        creates: Some(ENOSPC),
        ..TierFaults::default()
    };
    set(&disk, full);
    let mut kept = 0;
    let refused = loop {
        match run(&mut connection, &[b"SET", &name(kept), &noise(kept, 1000)]) {
            Value::Error(text) => break String::from_utf8(text).unwrap(),
            reply => assert_eq!(reply, Value::Simple(b"OK".to_vec())),
        }
        kept += 1;
        assert!(kept < 20_000, "more is taken than the memory has");
    };
    assert!(refused.starts_with("OOM"), "{refused}");
    assert!(kept > 1000, "{kept}");
    let info = run(&mut connection, &[b"INFO", b"tiers"]).to_string();
    let file = &info[info.find("tier_2").unwrap()..];
    assert!(figure(file, "unwritable=") > 0.0, "{info}");
    assert!(info.contains("No space left"), "{info}");
    check(&server).unwrap();
    for number in 0..kept {
        let found = run(&mut connection, &[b"GET", &name(number)]);
        assert_eq!(found, Value::Bulk(noise(number, 1000)));
    }
    set(&disk, TierFaults::default());
    eventually("writes are taken again", || {
        let reply = server
            .connect()
            .command(&[b"SET", &name(kept), &noise(kept, 1000)]);
        reply.unwrap() == Value::Simple(b"OK".to_vec())
    });
    for number in 0..=kept {
        let found = run(&mut connection, &[b"GET", &name(number)]);
        assert_eq!(found, Value::Bulk(noise(number, 1000)));
    }
    check(&server).unwrap();
    let info = run(&mut connection, &[b"INFO", b"tiers"]).to_string();
    assert!(!info.contains("No space left"), "{info}");
}

#[test]
fn values_that_a_tier_does_not_take_stay_and_the_reason_is_told() {
    let folder = Folder::new();
    let (server, _) = faulty(&folder, 16);
    let keyspace = &server.server.keyspace;
    let mut connection = server.connect();
    let _still = server.server.tiering.still();
    // A file tier of 8 MiB has segments of half a mebibyte.
    for (key, value, to, reason) in [
        (b"noise", noise(1, 5000), b"1", "cannot be made smaller"),
        (b"long1", noise(2, 600_000), b"2", "is more than the"),
        (b"long2", b"xy".repeat(40 << 20), b"1", "is more than the"),
        (b"long3", noise(3, 3 << 20), b"2", "is more than the"),
    ] {
        let (key, to): (&[u8], &[u8]) = (key, to);
        run(&mut connection, &[b"SET", key, &value]);
        let error = text_of(&move_to(&mut connection, key, to));
        assert!(error.contains(reason), "{error}");
        check_settled(keyspace);
        assert_eq!(run(&mut connection, &[b"GET", key]), Value::Bulk(value));
        run(&mut connection, &[b"DEL", key]);
    }
    check_settled(keyspace);
}
