//! The space in memory that moves and evictions make.

use super::*;

/// Sends a command for the key of each number below `count`, some at a time, and passes the replies
/// on.
fn ask_each(
    connection: &mut TestkitConnection,
    count: u64,
    command: &[u8],
    judge: impl Fn(u64, RespReplyValue),
) {
    const AT_ONCE: u64 = 50;
    for first in (0..count).step_by(AT_ONCE as usize) {
        let numbers: Vec<u64> = (first..count.min(first + AT_ONCE)).collect();
        let mut request = Vec::new();
        for &number in &numbers {
            encode(&mut request, &[command, &name(number)]);
        }
        let replies = connection.exchange(&request, numbers.len()).unwrap();
        for (number, reply) in numbers.into_iter().zip(replies) {
            judge(number, reply);
        }
    }
}

#[test]
fn more_than_the_memory_takes_is_kept_and_each_tier_keeps_to_its_capacity() {
    for mebibytes in [[2, 2, 32], [2, 8, 0], [2, 0, 32]] {
        let folder = TestkitFolder::new();
        let server = moving(&folder, mebibytes, saving_into(&folder, 2));
        let keyspace = &server.server.keyspace;
        let mut connection = server.connect();
        const KEYS: u64 = 8000;
        for number in 0..KEYS {
            let words: [&[u8]; 3] = [b"SET", &name(number), &record(number)];
            let reply = connection.command(&words).unwrap();
            assert_eq!(reply, RespReplyValue::simple("OK"), "{number}");
            if number % 64 == 0 {
                // One command may exceed the count. A record replaced by a move counts until no
                // reader can use it, which is soon.
                let limit = (mebibytes[0] << 20) as usize + (64 << 10);
                eventually("the memory tier keeps to its capacity", || {
                    let databases = keyspace.share();
                    keyspace.index_bytes(&databases) + keyspace.heap.used_bytes() <= limit
                });
            }
        }
        check(&server).unwrap();
        let info = connection
            .command(&[b"INFO", b"tiers"])
            .unwrap()
            .to_string();
        println!("{info}");
        ask_each(&mut connection, KEYS, b"GET", |number, found| {
            assert_eq!(found, RespReplyValue::Bulk(record(number)), "{number}");
        });
        check(&server).unwrap();
        ask_each(&mut connection, KEYS, b"DEL", |number, reply| {
            assert_eq!(reply, RespReplyValue::Integer(1), "{number}");
        });
        check(&server).unwrap();
        let databases = keyspace.exclude();
        assert_eq!(
            keyspace.recount(&databases).unwrap().values,
            vec![0; keyspace.cold.tiers().unwrap().count()]
        );
    }
}

/// Records replaced by a move take memory until they are freed, so they are freed while a thread
/// waits for room. Otherwise all objects would move away, and commands would be refused.
#[test]
fn objects_move_out_as_far_as_room_is_needed() {
    const KEYS: u64 = 8000;
    let folder = TestkitFolder::new();
    let server = moving(&folder, [4, 0, 32], saving_into(&folder, 1));
    let keyspace = &server.server.keyspace;
    let mut connection = server.connect();
    let set: &[u8] = b"HSET";
    for first in (0..KEYS).step_by(200) {
        let mut request = Vec::new();
        for number in first..first + 200 {
            encode(
                &mut request,
                &[set, &name(number), b"f", &noise(number, 1000)],
            );
        }
        connection.send(&request).unwrap();
        for number in first..first + 200 {
            let set = connection.receive().unwrap();
            assert_eq!(set, RespReplyValue::Integer(1), "{number}");
        }
        let databases = keyspace.share();
        let used = keyspace.index_bytes(&databases) + keyspace.heap.used_bytes();
        assert!(first < 6000 || used > 3 << 20, "{used} bytes at {first}");
    }
    for number in 0..KEYS {
        let found = connection.command(&[b"HGET", &name(number), b"f"]);
        assert_eq!(
            found.unwrap(),
            RespReplyValue::Bulk(noise(number, 1000)),
            "{number}"
        );
    }
    check(&server).unwrap();
}

/// Returns digits of half a byte each, which cannot be compressed to less than a half.
fn digits(number: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(number);
    let mut digit = || *b"0123456789abcdef".choose(&mut random).unwrap();
    (0..1000).map(|_| digit()).collect()
}

#[test]
fn only_values_of_the_last_tier_are_evicted() {
    for mebibytes in [[2, 1, 0], [2, 0, 2], [2, 1, 2]] {
        let folder = TestkitFolder::new();
        let server = moving(&folder, mebibytes, saving_into(&folder, 1));
        let mut connection = server.connect();
        let policy: [&[u8]; 4] = [b"CONFIG", b"SET", b"maxmemory-policy", b"allkeys-random"];
        connection.command(&policy).unwrap();
        // Pinned keys stay in memory, though they could be drawn like any other.
        const PINNED: u64 = 300;
        for number in 0..PINNED {
            let words: [&[u8]; 3] = [b"SET", &name(number), &digits(number)];
            connection.command(&words).unwrap();
            connection
                .command(&[b"NEARFIELD.TIER", b"PIN", &name(number)])
                .unwrap();
        }
        let evicted = || server.server.eviction.evicted_keys();
        let (mut number, mut first) = (PINNED, None);
        let mut counts = Vec::new();
        while evicted() < 3000 {
            let words: [&[u8]; 3] = [b"SET", &name(number), &digits(number)];
            let reply = connection.command(&words).unwrap();
            assert_eq!(reply, RespReplyValue::simple("OK"), "{number}");
            number += 1;
            if evicted() > 0 {
                first.get_or_insert(number);
            }
            if evicted() > 1000 {
                counts.push(number - evicted());
            }
            assert!(number < 100_000, "no key is evicted");
        }
        for number in 0..PINNED {
            let found = connection.command(&[b"GET", &name(number)]).unwrap();
            assert_eq!(found, RespReplyValue::Bulk(digits(number)), "{number}");
        }
        // There are about as many keys as when the first one was evicted. Their number at one
        // moment shows little: files are rewritten when half of their values are gone, which
        // happens to all of them at about the same time.
        let (first, left) = (
            first.unwrap(),
            counts.iter().sum::<u64>() / counts.len() as u64,
        );
        println!("{mebibytes:?}: {first} keys initially, {left} later");
        assert!(left as f64 > 0.7 * first as f64, "{left} keys of {first}");
        check(&server).unwrap();
    }
}
