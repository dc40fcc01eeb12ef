//! The limit `maxmemory`: the commands that are refused, the keys that are evicted, and the hit
//! rate of the rest.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::clock::now_ms;
use nearfield_server::eviction::MaxmemoryPolicy;
use nearfield_server::keyspace::{DatabaseAccess, DatabaseKeys, Effects, KeyView};
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::eventually;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const LIMIT: u64 = 4 << 20;
/// The bytes that may be used in any case, a little more than 4 MiB beyond the limit.
const FAR: u64 = LIMIT + (9 << 19);

/// Lock for one test at a time: all servers of a process free the memory of their indexes together,
/// and a thread of another server that is delayed within a batch would keep it counted as used.
static ALONE: Mutex<()> = Mutex::new(());

fn limited(policy: MaxmemoryPolicy, limit: u64) -> Nearfield {
    let server = Nearfield::with_threads(1);
    configure(&server, "maxmemory", &(limit).to_string());
    configure(&server, "maxmemory-policy", policy.name());
    server
}

fn configure(server: &Nearfield, name: &str, value: &str) {
    let words = [&b"CONFIG"[..], b"SET", name.as_bytes(), value.as_bytes()];
    let answer = server.connect().command(&words).unwrap();
    assert_eq!(answer, RespReplyValue::simple("OK"));
}

fn used(server: &Nearfield) -> u64 {
    let databases = server.server.keyspace.share();
    server.server.used_bytes(&databases)
}

/// Returns a number of `INFO`.
fn figure(server: &Nearfield, name: &str) -> u64 {
    let info = server.connect().command(&[b"INFO"]).unwrap();
    let RespReplyValue::Bulk(text) = info else {
        panic!("{info}")
    };
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap()
}

fn key(number: u64) -> Vec<u8> {
    // Spread over the order, so that hot keys are not adjacent.
    format!("user:{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes()
}

/// Sends requests at once and reads all replies.
fn pipeline(connection: &mut TestkitConnection, requests: &[Vec<Vec<u8>>]) -> Vec<RespReplyValue> {
    let mut bytes = Vec::new();
    for request in requests {
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        encode(&mut bytes, &words);
    }
    connection.exchange(&bytes, requests.len()).unwrap()
}

fn set(number: u64) -> Vec<Vec<u8>> {
    vec![b"SET".to_vec(), key(number), vec![b'v'; 100]]
}

fn get(number: u64) -> Vec<Vec<u8>> {
    vec![b"GET".to_vec(), key(number)]
}

struct EvictionZipf {
    cumulative: Vec<f64>,
    random: SmallRng,
}

impl EvictionZipf {
    fn new(keys: usize, exponent: f64) -> Self {
        let weights = (1..=keys).map(|rank| (rank as f64).powf(-exponent));
        let sum = |sum: &mut f64, weight: f64| {
            *sum += weight;
            Some(*sum)
        };
        EvictionZipf {
            cumulative: weights.scan(0.0, sum).collect(),
            random: SmallRng::seed_from_u64(7),
        }
    }

    fn draw(&mut self) -> u64 {
        let total = self.cumulative[self.cumulative.len() - 1];
        let point = self.random.random_range(0.0..total);
        self.cumulative.partition_point(|&sum| sum <= point) as u64
    }
}

const KEYS: usize = 200_000;

/// Reads keys, and writes missing ones, as in a cache. Returns the share of reads in the second
/// half that found their key, and the share of the hottest keys that are kept. The hottest keys are
/// a tenth of the number of keys that are kept.
fn cache(connection: &mut TestkitConnection) -> (f64, f64) {
    const ROUNDS: usize = 4000;
    const AT_ONCE: usize = 50;
    let mut zipf = EvictionZipf::new(KEYS, 0.99);
    let (mut hits, mut reads) = (0, 0);
    for round in 0..ROUNDS {
        let numbers: Vec<u64> = (0..AT_ONCE).map(|_| zipf.draw()).collect();
        let gets: Vec<_> = numbers.iter().map(|&number| get(number)).collect();
        let found = pipeline(connection, &gets);
        let missed = numbers.iter().zip(&found);
        let missed = missed.filter(|(_, value)| !matches!(value, RespReplyValue::Bulk(_)));
        let sets: Vec<_> = missed.map(|(&number, _)| set(number)).collect();
        for answer in pipeline(connection, &sets) {
            assert_eq!(answer, RespReplyValue::simple("OK"));
        }
        if round >= ROUNDS / 2 {
            hits += AT_ONCE - sets.len();
            reads += AT_ONCE;
        }
    }
    let RespReplyValue::Integer(kept) = connection.command(&[b"DBSIZE"]).unwrap() else {
        panic!("DBSIZE")
    };
    let hottest = kept as u64 / 10;
    let gets: Vec<_> = (0..hottest).map(get).collect();
    let found = pipeline(connection, &gets);
    let found = found
        .iter()
        .filter(|value| matches!(value, RespReplyValue::Bulk(_)));
    println!("  keys kept: {kept}");
    (
        hits as f64 / reads as f64,
        found.count() as f64 / hottest as f64,
    )
}

#[test]
fn caches_serve_as_well_as_those_of_redis() {
    let _alone = ALONE.lock();
    for policy in [
        MaxmemoryPolicy::AllKeysLru,
        MaxmemoryPolicy::AllKeysLfu,
        MaxmemoryPolicy::AllKeysRandom,
    ] {
        let server = limited(policy, LIMIT);
        let (ours, hot) = cache(&mut server.connect());
        println!(
            "{}: hit ratio {ours:.4}, hottest tenth kept {hot:.4}, used {}, evicted {}",
            policy.name(),
            used(&server),
            server.server.eviction.evicted_keys()
        );
        // Memory of replaced blocks is returned a little later, and the memory of replies is
        // counted until shortly after they are received.
        eventually("the limit is kept", || used(&server) <= LIMIT + LIMIT / 20);
        if policy != MaxmemoryPolicy::AllKeysRandom {
            assert!(hot > 0.85, "{}: {hot}", policy.name());
        }
        let Some(redis) = RedisPeerProcess::start(&[]) else {
            continue;
        };
        let mut connection = TestkitConnection::open(redis.address).unwrap();
        let limit = LIMIT.to_string();
        for (name, value) in [("maxmemory", &*limit), ("maxmemory-policy", policy.name())] {
            let words = [&b"CONFIG"[..], b"SET", name.as_bytes(), value.as_bytes()];
            connection.command(&words).unwrap();
        }
        let (theirs, hot) = cache(&mut connection);
        println!("  redis-server: hit ratio {theirs:.4}, hottest tenth kept {hot:.4}");
        assert!(ours > theirs - 0.02, "{}: {ours} {theirs}", policy.name());
    }
}

#[test]
fn without_eviction_commands_that_take_memory_are_refused() {
    let _alone = ALONE.lock();
    let server = limited(MaxmemoryPolicy::NoEviction, 1 << 20);
    let mut connection = server.connect();
    let sets: Vec<_> = (0..20_000).map(set).collect();
    let answers = pipeline(&mut connection, &sets);
    let refused =
        RespReplyValue::Error(b"OOM command not allowed when used memory > 'maxmemory'.".to_vec());
    let kept = answers.iter().filter(|&answer| *answer != refused).count();
    assert!((1000..15_000).contains(&kept), "{kept}");
    assert_eq!(answers.last(), Some(&refused));
    assert_eq!(
        pipeline(&mut connection, &[get(0)]),
        [RespReplyValue::Bulk(vec![b'v'; 100])]
    );
    assert_eq!(server.server.eviction.evicted_keys(), 0);
    // Transactions that write are refused as a whole; those that only read and delete are not.
    let ok = RespReplyValue::simple("OK");
    // The memory of the many replies may be free again.
    let more = (20_000..40_000).map(|n| pipeline(&mut connection, &[set(n)]));
    assert!(more.flatten().any(|answer| answer == refused));
    assert_eq!(connection.command(&[b"MULTI"]).unwrap(), ok);
    assert_eq!(connection.command(&[b"SET", b"a", b"b"]).unwrap(), refused);
    let RespReplyValue::Error(text) = connection.command(&[b"EXEC"]).unwrap() else {
        panic!("EXEC is refused")
    };
    assert!(text.starts_with(b"EXECABORT"));
    let dels: Vec<_> = (0..20_000).map(|n| vec![b"DEL".to_vec(), key(n)]).collect();
    let deleted = pipeline(&mut connection, &dels);
    let deleted = deleted
        .iter()
        .filter(|&answer| *answer == RespReplyValue::Integer(1));
    assert_eq!(deleted.count(), kept);
    assert_eq!(connection.command(&[b"SET", b"a", b"b"]).unwrap(), ok);
}

#[test]
fn a_new_limit_is_kept_at_once() {
    let _alone = ALONE.lock();
    let server = Nearfield::with_threads(2);
    let mut connection = server.connect();
    pipeline(&mut connection, &(0..100).map(set).collect::<Vec<_>>());
    configure(
        &server,
        "maxmemory-policy",
        MaxmemoryPolicy::AllKeysLru.name(),
    );
    configure(&server, "maxmemory", "1");
    let size = connection.command(&[b"DBSIZE"]).unwrap();
    assert_eq!(size, RespReplyValue::Integer(0));
}

#[test]
fn a_server_that_is_only_read_evicts_what_clients_cost() {
    let _alone = ALONE.lock();
    let server = limited(MaxmemoryPolicy::AllKeysRandom, LIMIT);
    let mut connection = server.connect();
    pipeline(&mut connection, &(0..20_000).map(set).collect::<Vec<_>>());
    let mut other = server.connect();
    other.send(b"SUBSCRIBE ").unwrap();
    // Half of a request, which takes memory and is not a write.
    other.send(&vec![b'c'; 60 << 10]).unwrap();
    let many: Vec<_> = (0..40)
        .map(|_| {
            let mut one = server.connect();
            one.send(b"*2\r\n$4\r\nPING\r\n$900000\r\n").unwrap();
            one.send(&[b'p'; 50 << 10]).unwrap();
            one
        })
        .collect();
    eventually("the limit is kept", || {
        figure(&server, "evicted_keys") > 0 && used(&server) <= LIMIT
    });
    drop(many);
}

#[test]
fn a_small_limit_is_not_overrun_by_long_values() {
    let _alone = ALONE.lock();
    let limit = 5 << 20;
    let server = limited(MaxmemoryPolicy::NoEviction, limit);
    let mut connection = server.connect();
    let value = vec![b'v'; 20_000];
    let mut kept = 0;
    while connection.command(&[b"SET", &key(kept), &value]).unwrap() == RespReplyValue::simple("OK")
    {
        kept += 1;
        assert!(kept < 1000);
    }
    assert!(kept > 50, "{kept}");
    assert!(used(&server) <= limit + limit / 50, "{}", used(&server));
}

fn command(server: &Nearfield, words: &[&[u8]]) -> RespReplyValue {
    server.connect().command(words).unwrap()
}

/// Fills a server to its limit with values of 10 kB.
fn fill(server: &Nearfield) {
    for number in 0..LIMIT / 9_000 {
        let set = [b"SET", &key(number)[..], &[b'v'; 10_000]];
        command(server, &set);
    }
}

fn is_refused(answer: &RespReplyValue) -> bool {
    // Scripts put words before the error of a command.
    let is_oom = |text: &[u8]| text.windows(4).any(|part| part == b"OOM ");
    matches!(answer, RespReplyValue::Error(text) if is_oom(text))
}

#[test]
fn one_command_does_not_grow_a_value_beyond_the_limit() {
    let _alone = ALONE.lock();
    for policy in [MaxmemoryPolicy::NoEviction, MaxmemoryPolicy::AllKeysLru] {
        let server = limited(policy, LIMIT);
        fill(&server);
        let many: [&[&[u8]]; 5] = [
            &[b"SETRANGE", b"k", b"100000000", b"x"],
            &[b"SETBIT", b"k", b"800000000", b"1"],
            &[b"BITFIELD", b"k", b"SET", b"u8", b"800000000", b"1"],
            &[
                b"EVAL",
                b"return redis.call('setrange', KEYS[1], 1e8, 'x')",
                b"1",
                b"k",
            ],
            &[
                b"EVAL",
                b"return redis.call('setbit', KEYS[1], 8e8, 1)",
                b"1",
                b"k",
            ],
        ];
        for words in many {
            let answer = command(&server, words);
            assert!(is_refused(&answer), "{policy:?} {answer}");
            assert!(used(&server) <= LIMIT * 21 / 20, "{policy:?} {words:?}");
        }
        let mut client = server.connect();
        client.command(&[b"MULTI"]).unwrap();
        client.command(many[0]).unwrap();
        client.command(&[b"EXEC"]).unwrap();
        assert!(used(&server) <= LIMIT * 21 / 20, "{policy:?}");
    }
}

/// Redis never refuses these commands for their memory.
#[test]
fn commands_that_take_little_memory_are_refused_far_beyond_the_limit() {
    let _alone = ALONE.lock();
    let long = "n".repeat(2000);
    type Words = fn(&str, u64) -> Vec<String>;
    let many: [(&str, Words); 5] = [
        ("consumers that read", |long, number| {
            let consumer = format!("{long}{number}");
            ["XREADGROUP", "GROUP", "g", &consumer, "STREAMS", "st", ">"]
                .map(str::to_owned)
                .into()
        }),
        ("consumers that claim", |long, number| {
            let consumer = format!("{long}{number}");
            ["XAUTOCLAIM", "st", "g", &consumer, "0", "0"]
                .map(str::to_owned)
                .into()
        }),
        ("names", |long, number| {
            [
                "RENAME".to_owned(),
                format!("k{number}"),
                format!("{long}{number}"),
            ]
            .into()
        }),
        ("times", |_, number| {
            ["EXPIRE".to_owned(), format!("k{number}"), "1000".to_owned()].into()
        }),
        ("names of a script", |long, number| {
            let text = "return redis.call('RENAME', KEYS[1], KEYS[2])";
            [
                "EVAL",
                text,
                "2",
                &format!("k{number}"),
                &format!("{long}{number}"),
            ]
            .map(str::to_owned)
            .into()
        }),
    ];
    for (what, words) in many {
        let server = limited(MaxmemoryPolicy::NoEviction, LIMIT);
        let mut client = server.connect();
        client
            .command(&[b"XGROUP", b"CREATE", b"st", b"g", b"$", b"MKSTREAM"])
            .unwrap();
        let mut keys = 0;
        loop {
            let key = |number: u64| format!("k{number}").into_bytes();
            let set = |number| vec![b"SET".to_vec(), key(number), vec![b'v'; 300]];
            let sets: Vec<_> = (keys..keys + 100).map(set).collect();
            let replies = pipeline(&mut client, &sets);
            keys += 100;
            if replies.iter().any(is_refused) {
                break;
            }
        }
        let mut done = 0;
        for number in 0..4000.min(keys) {
            let words = words(&long, number);
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let answer = client.command(&words).unwrap();
            if matches!(answer, RespReplyValue::Error(_)) {
                break;
            }
            done += 1;
        }
        // Some are executed though the memory is full.
        assert!(done > 10, "{what}: {done}");
        let used = used(&server);
        assert!(used <= FAR, "{what}: {used} after {done}");
    }
}

/// Scripts begin below the limit here, and no error stops them.
#[test]
fn a_script_does_not_write_far_beyond_the_limit() {
    let _alone = ALONE.lock();
    for policy in [MaxmemoryPolicy::NoEviction, MaxmemoryPolicy::AllKeysLru] {
        for write in [
            "'SET', 'k' .. i, string.rep('v', 500)",
            "'RPUSH', 'l', string.rep('v', 500) .. i",
            "'SETRANGE', 'r' .. i, 600, 'x'",
        ] {
            let server = limited(policy, LIMIT);
            let text = format!(
                "local refused = 0
                for i = 1, 20000 do
                    local reply = redis.pcall({write})
                    if type(reply) == 'table' and reply.err then refused = refused + 1 end
                end
                return refused"
            );
            let refused = command(&server, &[b"EVAL", text.as_bytes(), b"0"]);
            let is_refused = matches!(refused, RespReplyValue::Integer(1000..));
            assert!(is_refused, "{policy:?} {write}: {refused}");
            let used = used(&server);
            assert!(used <= FAR, "{policy:?} {write}: {used}");
        }
    }
}

#[test]
fn results_that_are_stored_keep_to_the_limit() {
    let _alone = ALONE.lock();
    let server = limited(MaxmemoryPolicy::NoEviction, LIMIT);
    let members: Vec<Vec<u8>> = (0..20).map(|number| vec![b'a' + number; 50_000]).collect();
    for member in &members {
        command(&server, &[b"SADD", b"s", member]);
        command(&server, &[b"ZADD", b"z", b"1", member]);
        command(&server, &[b"RPUSH", b"l", b"1"]);
    }
    command(&server, &[b"SET", b"v_1", &vec![b'v'; 500_000]]);
    let many: [&[&[u8]]; 6] = [
        &[b"SUNIONSTORE", b"to", b"s"],
        &[b"ZUNIONSTORE", b"to", b"1", b"s"],
        &[b"ZRANGESTORE", b"to", b"z", b"0", b"-1"],
        &[b"COPY", b"z", b"to"],
        &[
            b"SORT", b"l", b"BY", b"nosort", b"GET", b"v_*", b"STORE", b"to",
        ],
        &[b"SORT", b"s", b"ALPHA", b"STORE", b"to"],
    ];
    for words in many {
        let mut refused = 0;
        for number in 0..4 {
            let to = format!("to{number}");
            let words = words
                .iter()
                .map(|&word| if word == b"to" { to.as_bytes() } else { word });
            refused += u32::from(is_refused(&command(&server, &words.collect::<Vec<_>>())));
            assert!(used(&server) <= LIMIT * 11 / 10);
        }
        assert!(refused > 0, "{words:?}");
        command(&server, &[b"DEL", b"to0", b"to1", b"to2", b"to3"]);
    }
}

#[test]
fn others_are_evicted_for_a_value_that_grows() {
    let _alone = ALONE.lock();
    let server = limited(MaxmemoryPolicy::AllKeysLru, LIMIT);
    fill(&server);
    let answer = command(&server, &[b"SETRANGE", b"k", b"1000000", b"x"]);
    assert_eq!(answer, RespReplyValue::Integer(1_000_001));
    assert!(used(&server) <= LIMIT);
    assert_eq!(
        command(&server, &[b"EXISTS", b"k"]),
        RespReplyValue::Integer(1)
    );
    let copied = command(&server, &[b"COPY", b"k", b"other"]);
    assert_eq!(copied, RespReplyValue::Integer(1));
    assert!(used(&server) <= LIMIT * 11 / 10);
    // A full cache takes small parts at once.
    fill(&server);
    for part in 1..20 {
        let end = (part * 100_000).to_string();
        let answer = command(&server, &[b"SETRANGE", b"grows", end.as_bytes(), b"x"]);
        assert_eq!(answer, RespReplyValue::Integer(part * 100_000 + 1));
        assert!(used(&server) <= LIMIT * 11 / 10);
    }
}

#[test]
fn new_keys_have_been_used_as_often_as_those_of_redis() {
    let _alone = ALONE.lock();
    let server = limited(MaxmemoryPolicy::AllKeysLfu, LIMIT);
    let mut connection = server.connect();
    pipeline(&mut connection, &[set(1)]);
    let freq = [&b"OBJECT"[..], b"FREQ", &key(1)];
    assert_eq!(
        connection.command(&freq).unwrap(),
        RespReplyValue::Integer(5)
    );
    pipeline(&mut connection, &[get(1)]);
    assert_eq!(
        connection.command(&freq).unwrap(),
        RespReplyValue::Integer(6)
    );
}

#[test]
fn a_lower_limit_is_kept_with_the_next_write() {
    let _alone = ALONE.lock();
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    let sets: Vec<_> = (0..50_000).map(set).collect();
    pipeline(&mut connection, &sets);
    let before = used(&server);
    configure(
        &server,
        "maxmemory-policy",
        MaxmemoryPolicy::AllKeysLru.name(),
    );
    configure(&server, "maxmemory", &(before / 2).to_string());
    pipeline(&mut connection, &[set(50_000)]);
    let kept = server.server.keyspace.share()[0].len().unwrap();
    println!(
        "{before} bytes of 50000 keys; half of it: {} of {kept}",
        used(&server)
    );
    assert!(used(&server) <= before / 2);
    assert!((10_000..35_000).contains(&kept), "{kept}");
}

#[test]
fn nothing_is_evicted_during_a_pause_and_the_pause_lasts() {
    let _alone = ALONE.lock();
    let server = limited(MaxmemoryPolicy::AllKeysLru, 0);
    let mut connection = server.connect();
    let sets: Vec<_> = (0..1000).map(set).collect();
    pipeline(&mut connection, &sets);
    let words: [&[u8]; 4] = [b"CLIENT", b"PAUSE", b"100000000", b"WRITE"];
    connection.command(&words).unwrap();
    configure(&server, "maxmemory", "1");
    assert_eq!(server.server.eviction.evicted_keys(), 0);
    // The server's thread counts these bytes again before it looks for keys to evict.
    const ASIDE: u64 = 1 << 40;
    server.server.eviction.note_aside(ASIDE as usize);
    eventually("the limit is checked", || used(&server) < ASIDE);
    // The thread has completed its check when it replies.
    connection.command(&[b"PING"]).unwrap();
    assert_eq!(server.server.eviction.evicted_keys(), 0);
    assert!(server.server.is_paused());
    // A queued command takes memory, and is not held back.
    let transaction = [vec![b"MULTI".to_vec()], get(1), vec![b"DISCARD".to_vec()]];
    for reply in pipeline(&mut connection, &transaction) {
        assert!(matches!(reply, RespReplyValue::Simple(_)), "{reply}");
    }
    connection.command(&[b"CLIENT", b"UNPAUSE"]).unwrap();
    eventually("keys are evicted", || {
        server.server.keyspace.share()[0].is_empty().unwrap()
    });
}

/// Fills `database` with keys, of which 0 to 199 expire, later ones later. The first expiry times
/// that they get are in another order.
fn with_expiries(server: &Nearfield, database: usize, keys: u64) {
    let mut databases = server.server.keyspace.exclude();
    let mut effects = Effects::default();
    let access = DatabaseAccess::Exclusive(&mut databases);
    let keyspace = &server.server.keyspace;
    let mut all = DatabaseKeys::new(keyspace, access, database, now_ms(), &mut effects);
    for number in 0..keys {
        let expiry = (number < 200).then(|| now_ms() + 1_000_000 + number * 1000);
        let first = expiry.map(|time| time - number * 2000);
        all.set_string(&key(number), b"", first).unwrap();
        all.set_string(&key(number), &[b'v'; 1000], expiry).unwrap();
    }
}

#[test]
fn volatile_policies_evict_only_what_expires() {
    let _alone = ALONE.lock();
    for policy in [
        MaxmemoryPolicy::VolatileLru,
        MaxmemoryPolicy::VolatileLfu,
        MaxmemoryPolicy::VolatileRandom,
        MaxmemoryPolicy::VolatileTtl,
    ] {
        let server = Nearfield::with_threads(1);
        with_expiries(&server, 0, 500);
        with_expiries(&server, 3, 500);
        configure(&server, "maxmemory-policy", policy.name());
        let mut connection = server.connect();
        let ok = RespReplyValue::simple("OK");
        let (mut limit, mut evicted) = (used(&server), 0);
        while evicted < 10 {
            limit -= 20_000;
            configure(&server, "maxmemory", &limit.to_string());
            let answer = connection.command(&[b"SET", b"a", b"b"]).unwrap();
            evicted = server.server.eviction.evicted_keys() as usize;
            assert_eq!(
                answer,
                ok,
                "{policy:?}: {evicted} evicted, {} used of {limit}",
                used(&server)
            );
        }
        assert!((10..400).contains(&evicted), "{evicted}");
        {
            let databases = server.server.keyspace.share();
            // The server continues to evict by itself if it is still above the limit.
            let evicted = server.server.eviction.evicted_keys() as usize;
            assert_eq!(
                databases[0].len().unwrap() + databases[3].len().unwrap(),
                1001 - evicted
            );
            assert_eq!(
                databases[0].expiring().unwrap() + databases[3].expiring().unwrap(),
                400 - evicted
            );
            if policy == MaxmemoryPolicy::VolatileTtl {
                // Exactly the soonest of both databases.
                let gone = |number: u64| databases[0].read(&key(number), |_| ()) == Ok(None);
                assert!((0..evicted as u64 / 2).all(gone));
                assert!(!(evicted as u64 / 2 + 1..200).any(gone));
            }
        }
        // Writes are refused once no such keys are left.
        configure(&server, "maxmemory", &(300_000).to_string());
        assert!(matches!(
            connection.command(&[b"SET", b"a", b"b"]).unwrap(),
            RespReplyValue::Error(_)
        ));
        assert_eq!(server.server.eviction.evicted_keys(), 400);
        assert_eq!(figure(&server, "evicted_keys"), 400);
        let bytes = used(&server);
        let shown = figure(&server, "used_memory");
        assert!(shown.abs_diff(bytes) < bytes / 4, "{shown} of {bytes}");
        let reset = [&b"CONFIG"[..], b"RESETSTAT"];
        assert_eq!(
            connection.command(&reset).unwrap(),
            RespReplyValue::simple("OK")
        );
        assert_eq!(figure(&server, "evicted_keys"), 0);
    }
}

#[test]
fn hot_keys_are_told() {
    let _alone = ALONE.lock();
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    for round in 0..200 {
        let gets: Vec<_> = (0..100)
            .map(|n| get(if n % 2 == 0 { 1 } else { n + round }))
            .collect();
        pipeline(&mut connection, &gets);
    }
    let RespReplyValue::Array(hot) = connection.command(&[b"HOTKEYS", b"1"]).unwrap() else {
        panic!("HOTKEYS")
    };
    assert_eq!(hot.len(), 1);
    let RespReplyValue::Array(first) = &hot[0] else {
        panic!("{hot:?}")
    };
    assert_eq!(first[0], RespReplyValue::Bulk(key(1)));
    assert_eq!(first[1], RespReplyValue::Integer(0));
}

#[test]
fn reads_of_a_connection_that_does_not_touch_leave_no_trace() {
    let _alone = ALONE.lock();
    let server = limited(MaxmemoryPolicy::AllKeysLru, LIMIT);
    let mut connection = server.connect();
    let keys = [
        "get",
        "range",
        "mget",
        "script",
        "transaction",
        "touch",
        "set",
    ];
    for key in keys {
        connection.command(&[b"SET", key.as_bytes(), b"x"]).unwrap();
    }
    let read_all = |connection: &mut TestkitConnection| {
        for words in [
            &["GET", "get"][..],
            &["GETRANGE", "range", "0", "1"],
            &["MGET", "mget", "missing"],
            &["EVAL", "return redis.call('get', KEYS[1])", "1", "script"],
            &["MULTI"],
            &["GET", "transaction"],
            &["EXEC"],
            &["TOUCH", "touch"],
            &["SET", "set", "y"],
        ] {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let answer = connection.command(&words).unwrap();
            assert!(!matches!(answer, RespReplyValue::Error(_)), "{answer}");
        }
    };
    let fresh = |connection: &mut TestkitConnection| {
        let mut fresh = keys.to_vec();
        fresh.retain(|key| {
            let words = [&b"OBJECT"[..], b"IDLETIME", key.as_bytes()];
            connection.command(&words).unwrap() == RespReplyValue::Integer(0)
        });
        fresh
    };
    std::thread::sleep(std::time::Duration::from_millis(1500));
    connection
        .command(&[b"CLIENT", b"NO-TOUCH", b"ON"])
        .unwrap();
    read_all(&mut connection);
    assert_eq!(fresh(&mut connection), ["touch", "set"]);
    connection
        .command(&[b"CLIENT", b"NO-TOUCH", b"OFF"])
        .unwrap();
    read_all(&mut connection);
    assert_eq!(fresh(&mut connection), keys);
}
