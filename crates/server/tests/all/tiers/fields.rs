//! Large hashes with values in several tiers.

use super::nodes::{
    check_moves_beside_commands, file_reads_by, lengthened, move_nodes, nodes, reads, run,
    start_after_kill, start_logging,
};
use super::*;
use nearfield_server_testkit::saving::logged_in;
use nearfield_server_testkit::steps::eventually;
use nearfield_server_testkit::stir::{TierMoveCounts, stir};
use nearfield_testkit::stop::AtEnd;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn field(number: usize) -> String {
    format!("field:{number}")
}

/// Returns the value of a field. A hash of a hundred such values moves value by value.
fn value(number: usize, version: usize) -> Vec<u8> {
    lengthened(format!("value {number:06} {version:06} "))
}

fn set(connection: &mut TestkitConnection, key: &[u8], number: usize, version: usize) {
    let (field, value) = (field(number), value(number, version));
    let words: [&[u8]; 4] = [b"HSET", key, field.as_bytes(), &value];
    let reply = connection.command(&words).unwrap();
    assert!(matches!(reply, RespReplyValue::Integer(0 | 1)), "{reply}");
}

fn get(connection: &mut TestkitConnection, key: &str, number: usize) -> RespReplyValue {
    run(connection, &format!("HGET {key} {}", field(number)))
}

#[test]
fn commands_read_no_other_cold_value_than_they_touch() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let _still = server.server.tiering.pause();
    let mut connection = server.connect();
    (0..200).for_each(|number| set(&mut connection, b"hash", number, 0));
    assert_eq!(nodes(&server, b"hash"), [200, 0, 0]);
    let traffic = server.server.keyspace.cold.traffic(2).unwrap();
    move_nodes(&server, b"hash", 2..200, 2);
    assert_eq!(nodes(&server, b"hash"), [2, 0, 198]);
    let tier = run(&mut connection, "OBJECT TIER hash");
    assert_eq!(tier, RespReplyValue::Bulk(b"memory+file".to_vec()));
    let mut read = |line: &str| file_reads_by(&server, &mut connection, b"hash", line);
    for line in [
        "HLEN hash",
        "HGET hash field:0",
        "HMGET hash field:0 field:1 none",
        "HEXISTS hash field:100",
        "HSTRLEN hash field:100",
        "HKEYS hash",
        "HSET hash field:0 other new 1",
        "HSETNX hash field:100 other",
        "HINCRBY hash new 1",
        "HDEL hash new none",
        "HRANDFIELD hash",
        "HRANDFIELD hash 50",
        "HSCAN hash 0 COUNT 20 NOVALUES",
        "OBJECT ENCODING hash",
        "MEMORY USAGE hash",
        "TYPE hash",
        "EXISTS hash",
        "TOUCH hash",
        "WATCH hash",
        "UNWATCH",
        "OBJECT TIER hash",
        "OBJECT REFCOUNT hash",
        "OBJECT IDLETIME hash",
        "EXPIRE hash 1000",
        "PEXPIRE hash 1000000",
        "EXPIREAT hash 9000000000",
        "PEXPIREAT hash 9000000000000",
        "TTL hash",
        "PTTL hash",
        "EXPIRETIME hash",
        "PEXPIRETIME hash",
        "PERSIST hash",
        "SETNX hash string",
        "MSETNX hash string other string",
        "RENAMENX hash hash",
    ] {
        assert_eq!(read(line), (0, 198), "{line}");
    }
    assert_eq!(read("MOVE hash 1").0, 0);
    read("SELECT 1");
    assert_eq!(read("MOVE hash 0"), (0, 198));
    read("SELECT 0");
    assert_eq!(read("RENAME hash other").0, 0);
    assert_eq!(read("RENAME other hash"), (0, 198));
    // Each command reads only the values that it touches, which stay in their tier.
    assert_eq!(read("HGET hash field:100"), (1, 198));
    assert_eq!(
        read("HMGET hash field:9 field:0 field:10 field:9"),
        (2, 198)
    );
    assert_eq!(read("HSCAN hash 0 COUNT 20"), (20, 198));
    assert_eq!(read("HGETALL hash"), (198, 198));
    assert_eq!(read("HVALS hash"), (198, 198));
    // Values that are replaced, removed or changed are gone from the tier.
    assert_eq!(read("HSET hash field:50 other field:51 other"), (0, 196));
    assert_eq!(read("HDEL hash field:52 field:53"), (0, 194));
    let refused = run(&mut connection, "HINCRBY hash field:54 1");
    assert!(matches!(refused, RespReplyValue::Error(_)), "{refused}");
    assert_eq!(nodes(&server, b"hash")[2], 193);
    let copied = run(&mut connection, "COPY hash copy");
    assert_eq!(copied, RespReplyValue::Integer(1));
    assert_eq!(nodes(&server, b"copy")[2], 0);
    let (one, other) = ("DUMP hash", "DUMP copy");
    assert_eq!(run(&mut connection, one), run(&mut connection, other));
    // SORT reads only the named field of a hash.
    run(&mut connection, "RPUSH list hash copy");
    let before = reads(traffic);
    let sorted = run(&mut connection, "SORT list BY nosort GET *->field:60");
    let found = RespReplyValue::Bulk(value(60, 0));
    assert_eq!(sorted, RespReplyValue::Array(vec![found.clone(), found]));
    assert_eq!(reads(traffic) - before, 1);
    check_settled(&server.server.keyspace);
    run(&mut connection, "DEL hash copy list");
    check_settled(&server.server.keyspace);
    let tiers = server.server.keyspace.cold.tiers().unwrap();
    assert_eq!(tiers.usage(2).unwrap().values, 0);
}

#[test]
fn commands_that_replace_a_value_do_not_read_it() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let _still = server.server.tiering.pause();
    let mut connection = server.connect();
    let traffic = server.server.keyspace.cold.traffic(2).unwrap();
    for (line, reads_made) in [
        ("DEL hash", 0),
        ("UNLINK hash", 0),
        ("SET hash string", 0),
        ("SETEX hash 100 string", 0),
        ("PSETEX hash 100000 string", 0),
        ("MSET hash string", 0),
        // This one is refused after the values were read, because it would reply with a string.
        ("SET hash string GET", 28),
    ] {
        run(&mut connection, "DEL hash");
        (0..30).for_each(|number| set(&mut connection, b"hash", number, 0));
        move_nodes(&server, b"hash", 2..30, 2);
        let before = reads(traffic);
        run(&mut connection, line);
        assert_eq!(reads(traffic) - before, reads_made, "{line}");
    }
    check_settled(&server.server.keyspace);
}

#[test]
fn a_value_whose_move_fails_at_any_step_stays_and_all_accounts_are_exact() {
    check_moves_beside_commands(
        "hash",
        |connection| (0..40).for_each(|number| set(connection, b"hash", number, 0)),
        |copy| assert_eq!(copy, value(2, 0)),
        // Until it is freed, the object of a deleted key accepts arriving values.
        |keyspace| keyspace.retired() == 0,
        [
            ("HSET hash field:2 changed", false),
            ("HDEL hash field:2", false),
            ("DEL hash", false),
            ("SET hash string", false),
            ("HSET hash field:3 changed", true),
            ("HDEL hash field:1", true),
            ("RENAME hash other", true),
            ("HGET hash field:2", true),
        ],
    );
}

/// A hash is larger than the memory, and larger than a value that moves as a whole. The values that
/// are used most come into memory.
#[test]
fn a_hash_larger_than_the_memory_moves_value_by_value_and_survives() {
    const COUNT: usize = 12_000;
    let folder = TestkitFolder::new();
    let options = ServerOptions {
        persistence: logged_in(&folder.0),
        ..ServerOptions::default()
    };
    let server = moving(&folder, [4, 0, 64], options.clone());
    let mut connection = server.connect();
    for number in 0..COUNT {
        set(&mut connection, b"hash", number, 0);
        if number % 1000 == 999 {
            let used = server.server.keyspace.heap.used_bytes();
            assert!(used < 5 << 20, "{used} bytes after {number}");
        }
    }
    let [warm, cold, _] = nodes(&server, b"hash");
    assert!(
        cold > warm && warm > 1000,
        "{cold} cold values, {warm} in memory"
    );
    check(&server).unwrap();
    run(&mut connection, "SAVE");
    let hot = |number: usize| number.is_multiple_of(12);
    let traffic = server.server.keyspace.cold.traffic(1).unwrap();
    // On a busy machine the keeper needs longer to bring them in.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let before = reads(traffic);
        for number in (0..COUNT).filter(|number| hot(*number)) {
            assert_eq!(
                get(&mut connection, "hash", number),
                RespReplyValue::Bulk(value(number, 0))
            );
        }
        let cold_reads = reads(traffic) - before;
        println!("{cold_reads} of 1000 hot values were cold");
        if cold_reads < 300 {
            break;
        }
        assert!(Instant::now() < deadline, "hot values are not promoted");
    }
    for number in (0..COUNT).step_by(3) {
        set(&mut connection, b"hash", number, 1);
    }
    check(&server).unwrap();
    drop((connection, server));
    let server = moving(&folder, [4, 0, 64], options);
    let mut connection = server.connect();
    let len = run(&mut connection, "HLEN hash");
    assert_eq!(len, RespReplyValue::Integer(COUNT as i64));
    for number in 0..COUNT {
        let version = usize::from(number.is_multiple_of(3));
        let found = get(&mut connection, "hash", number);
        assert_eq!(found, RespReplyValue::Bulk(value(number, version)));
    }
    check(&server).unwrap();
}

/// Commands run while values move: each read finds the last write, and the log has all acknowledged
/// writes, at whatever moment it is read.
#[test]
fn reads_find_what_was_written_and_the_log_is_whole_while_values_move() {
    const COUNT: usize = 100;
    let folder = TestkitFolder::new();
    let server = start_logging(&folder);
    let (stop, stirred) = (AtomicBool::new(false), TierMoveCounts::default());
    std::thread::scope(|scope| {
        scope.spawn(|| stir(&server.server.keyspace, &stop, &stirred));
        let _stops = AtEnd(&stop);
        let mut connection = server.connect();
        let mut versions = [0; COUNT];
        (0..COUNT).for_each(|number| set(&mut connection, b"hash", number, 0));
        let mut random = SmallRng::seed_from_u64(5);
        for round in 1..401 {
            for _ in 0..2 {
                let number = random.random_range(0..COUNT);
                set(&mut connection, b"hash", number, round);
                versions[number] = round;
                let number = random.random_range(0..COUNT);
                let found = get(&mut connection, "hash", number);
                assert_eq!(found, RespReplyValue::Bulk(value(number, versions[number])));
            }
            if round % 80 != 0 {
                continue;
            }
            let (_left, again) = start_after_kill(&folder);
            let mut again = again.connect();
            for (number, version) in versions.iter().enumerate() {
                let found = get(&mut again, "hash", number);
                assert_eq!(found, RespReplyValue::Bulk(value(number, *version)));
            }
        }
    });
    let moved = stirred.nodes.into_inner();
    assert!(moved > 100, "{moved} values have moved");
    check(&server).unwrap();
}

#[test]
fn fields_expire_of_a_hash_that_lies_in_a_cold_tier() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let keyspace = &server.server.keyspace;
    let _still = server.server.tiering.pause();
    let mut connection = server.connect();
    let notes = || {
        (
            keyspace.cold_notes.len(),
            keyspace.share()[0].field_notes().len(),
        )
    };
    let mut prepare = |key: &str, expire: &str| {
        (0..10).for_each(|number| set(&mut connection, key.as_bytes(), number, 0));
        let reply = run(&mut connection, expire);
        assert_eq!(
            reply,
            RespReplyValue::Array(vec![RespReplyValue::Integer(1)])
        );
        let words = format!("NEARFIELD.TIER MOVE {key} 2");
        assert_eq!(run(&mut connection, &words), RespReplyValue::Integer(1));
        let tier = run(&mut connection, &format!("OBJECT TIER {key}"));
        assert_eq!(tier, RespReplyValue::Bulk(b"file".to_vec()));
    };
    // The server removes an expired field.
    prepare("first", "HPEXPIRE first 300 FIELDS 1 field:1");
    assert_eq!(notes(), (1, 1));
    let mut other = server.connect();
    eventually("the field is removed", || {
        run(&mut other, "HLEN first") == RespReplyValue::Integer(9)
    });
    assert_eq!(notes(), (0, 0));
    // Until then no client sees it, and a change removes it before.
    server
        .server
        .expires_actively
        .store(false, Ordering::Relaxed);
    prepare("second", "HPEXPIRE second 1 FIELDS 1 field:1");
    eventually("the field has expired", || {
        get(&mut other, "second", 1) == RespReplyValue::NullBulk
    });
    assert_eq!(run(&mut other, "HLEN second"), RespReplyValue::Integer(10));
    let tier = run(&mut other, "OBJECT TIER second");
    assert_eq!(tier, RespReplyValue::Bulk(b"file".to_vec()));
    assert_eq!(
        run(&mut other, "HDEL second field:1"),
        RespReplyValue::Integer(0)
    );
    assert_eq!(run(&mut other, "HLEN second"), RespReplyValue::Integer(9));
    assert_eq!(notes(), (0, 0));
    // The note is deleted with the hash, and keeps its time under another name and in another tier.
    for end in [
        "DEL third",
        "SET third string",
        "HSET third field:1 v",
        "FLUSHALL",
    ] {
        run(&mut other, "DEL third");
        prepare("third", "HEXPIRE third 1000 FIELDS 1 field:1");
        assert_eq!(notes(), (1, 1), "{end}");
        run(&mut other, "RENAME third name");
        assert_eq!(notes(), (1, 1), "{end}");
        run(&mut other, "RENAME name third");
        run(&mut other, "NEARFIELD.TIER MOVE third 1");
        assert_eq!(notes(), (1, 1), "{end}");
        let RespReplyValue::Array(time) = run(&mut other, "HTTL third FIELDS 1 field:1") else {
            panic!("no times");
        };
        assert!(
            matches!(time[..], [RespReplyValue::Integer(1..=1000)]),
            "{time:?}"
        );
        run(&mut other, end);
        eventually("the note is removed", || notes() == (0, 0));
    }
    check_settled(keyspace);
}

#[test]
fn large_values_of_a_hash_whose_fields_expire_move_one_by_one() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let _still = server.server.tiering.pause();
    let mut connection = server.connect();
    (0..200).for_each(|number| set(&mut connection, b"hash", number, 0));
    run(
        &mut connection,
        "HEXPIRE hash 100 FIELDS 2 field:150 field:160",
    );
    move_nodes(&server, b"hash", 0..200, 2);
    assert_eq!(nodes(&server, b"hash"), [0, 0, 200]);
    let traffic = server.server.keyspace.cold.traffic(2).unwrap();
    let before = reads(traffic);
    run(&mut connection, "HTTL hash FIELDS 2 field:150 field:151");
    run(&mut connection, "HPEXPIRE hash 100000 FIELDS 1 field:152");
    run(&mut connection, "HPERSIST hash FIELDS 1 field:152");
    run(&mut connection, "HEXPIRE hash 0 FIELDS 1 field:160");
    assert_eq!(
        (reads(traffic) - before, nodes(&server, b"hash")),
        (0, [0, 0, 199])
    );
    let got = run(&mut connection, "HGETEX hash PERSIST FIELDS 1 field:150");
    assert_eq!(
        got,
        RespReplyValue::Array(vec![RespReplyValue::Bulk(value(150, 0))])
    );
    assert_eq!(reads(traffic) - before, 1);
    let got = run(&mut connection, "HGETDEL hash FIELDS 2 field:150 field:151");
    let values = [150, 151].map(|number| RespReplyValue::Bulk(value(number, 0)));
    assert_eq!(got, RespReplyValue::Array(values.to_vec()));
    assert_eq!(nodes(&server, b"hash").iter().sum::<usize>(), 197);
}
