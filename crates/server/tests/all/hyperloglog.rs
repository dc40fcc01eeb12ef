//! HyperLogLogs are equal to the byte to those of Debian's redis-server, including the number that
//! PFCOUNT keeps in their header, after each of many random commands. The commands are sent in
//! pipelines, which become batches, and in transactions.
//!
//! `NEARFIELD_SEED` sets the seed. Without redis-server the test reports that and checks nothing.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const COMMANDS: usize = 3000;
const KEYS: u32 = 4;

/// Returns a command, and the key that it changes.
fn command(random: &mut SmallRng) -> (Vec<String>, String) {
    let mut key = || format!("k{}", random.random_range(0..KEYS));
    let (target, source) = (key(), key());
    let words = match random.random_range(0..100) {
        0 => vec!["DEL".to_owned(), target.clone()],
        1..5 => ["PFMERGE", &target, &source].map(str::to_owned).to_vec(),
        5..10 => ["PFCOUNT", &target, &source].map(str::to_owned).to_vec(),
        10..15 => ["PFCOUNT", &target].map(str::to_owned).to_vec(),
        _ => {
            // Sparse ones grow slowly, and some become dense.
            let count = random.random_range(0..20);
            let elements = (0..count).map(|_| random.random::<u16>().to_string());
            let words = ["PFADD", &target].map(str::to_owned).into_iter();
            words.chain(elements).collect()
        }
    };
    (words, target)
}

/// Sends commands at once, and receives all replies.
fn ask(connection: &mut TestkitConnection, commands: &[Vec<String>]) -> Vec<RespReplyValue> {
    let mut request = Vec::new();
    for words in commands {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        encode(&mut request, &words);
    }
    connection.exchange(&request, commands.len()).unwrap()
}

#[test]
fn values_are_those_of_redis_to_the_byte() {
    let Some(redis) = RedisPeerProcess::start(&[]) else {
        return;
    };
    let seed = std::env::var("NEARFIELD_SEED").map_or(1, |text| text.parse().unwrap());
    let mut random = SmallRng::seed_from_u64(seed);
    let folder = TestkitFolder::new();
    let ours = Nearfield::start(saving_into(&folder, 1));
    let mut both = [
        ours.connect(),
        TestkitConnection::open(redis.address).unwrap(),
    ];
    let (mut sparse, mut dense) = (0, 0);
    let mut sent = 0;
    while sent < COMMANDS {
        let mut commands = Vec::new();
        for _ in 0..random.random_range(1..20) {
            let (words, key) = command(&mut random);
            commands.extend([words, vec!["GET".to_owned(), key]]);
            sent += 1;
        }
        if random.random_range(0..4) == 0 {
            commands.insert(0, vec!["MULTI".to_owned()]);
            commands.push(vec!["EXEC".to_owned()]);
        }
        let [ours, theirs] = both.each_mut().map(|it| ask(it, &commands));
        for ((words, one), other) in commands.iter().zip(&ours).zip(&theirs) {
            // The values are not printed, because they are too long.
            assert!(one == other, "seed {seed}: {}", words.join(" "));
            match one {
                RespReplyValue::Bulk(bytes) if bytes.len() > 10_000 => dense += 1,
                RespReplyValue::Bulk(bytes) if bytes.len() > 500 => sparse += 1,
                _ => {}
            }
        }
    }
    assert!(sparse > 100 && dense > 100, "{sparse} {dense}");
}
