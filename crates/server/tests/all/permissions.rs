//! Permissions on commands, keys and channels: every command that another server has, too, is
//! allowed or denied with every kind of rule as on that server.

use nearfield_server::command::CommandDefinition;
use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::connection::{TestkitConnection, encode_lines};
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::peer::PeerServer;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::{ask, ask_text, connect, on_both};
use std::collections::BTreeSet;

/// Commands with the keys `a`, `b` and `c` and the channels `ch` and `ch2`. They are not executed.
pub const COMMANDS: &[&str] = &[
    "GET a",
    "SET a v",
    "SET a v GET",
    "SET a v NX",
    "SETNX a v",
    "SETEX a 1 v",
    "PSETEX a 1 v",
    "GETSET a v",
    "GETDEL a",
    "GETEX a",
    "GETEX a PERSIST",
    "MGET a b",
    "MSET a 1 b 2",
    "MSETNX a 1 b 2",
    "INCR a",
    "DECR a",
    "INCRBY a 1",
    "DECRBY a 1",
    "INCRBYFLOAT a 1",
    "APPEND a v",
    "STRLEN a",
    "SETRANGE a 0 v",
    "GETRANGE a 0 1",
    "SUBSTR a 0 1",
    "LCS a b",
    "LCS a b LEN",
    "SETBIT a 0 1",
    "GETBIT a 0",
    "BITCOUNT a",
    "BITPOS a 1",
    "BITOP AND a b c",
    "BITOP NOT a b",
    "BITFIELD a GET u8 0",
    "BITFIELD a SET u8 0 1",
    "BITFIELD a INCRBY u8 0 1",
    "BITFIELD a OVERFLOW WRAP",
    "BITFIELD_RO a GET u8 0",
    "PFADD a x",
    "PFCOUNT a b",
    "PFMERGE a b c",
    "PFMERGE a",
    "PFDEBUG GETREG a",
    "PFSELFTEST",
    "DEL a b",
    "UNLINK a b",
    "EXISTS a b",
    "TOUCH a b",
    "TYPE a",
    "KEYS *",
    "SCAN 0",
    "RANDOMKEY",
    "DBSIZE",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB 0 1",
    "MOVE a 1",
    "COPY a b",
    "COPY a b DB 1",
    "RENAME a b",
    "RENAMENX a b",
    "EXPIRE a 1",
    "PEXPIRE a 1",
    "EXPIREAT a 1",
    "PEXPIREAT a 1",
    "TTL a",
    "PTTL a",
    "EXPIRETIME a",
    "PEXPIRETIME a",
    "PERSIST a",
    "DUMP a",
    "RESTORE a 0 x",
    "SORT a",
    "SORT a STORE b",
    "SORT a BY x GET y STORE b",
    "SORT a LIMIT 0 1",
    "SORT_RO a",
    "OBJECT ENCODING a",
    "OBJECT FREQ a",
    "OBJECT IDLETIME a",
    "OBJECT REFCOUNT a",
    "OBJECT HELP",
    "MEMORY USAGE a",
    "MEMORY USAGE a SAMPLES 0",
    "MEMORY STATS",
    "MEMORY DOCTOR",
    "MEMORY PURGE",
    "MEMORY MALLOC-STATS",
    "MEMORY HELP",
    "MIGRATE h 1 a 0 1",
    "MIGRATE h 1 a 0 1 COPY",
    "MIGRATE h 1  0 1 KEYS a b",
    "LPUSH a v",
    "RPUSH a v",
    "LPUSHX a v",
    "RPUSHX a v",
    "LPOP a",
    "RPOP a",
    "LPOP a 1",
    "LLEN a",
    "LRANGE a 0 1",
    "LINDEX a 0",
    "LSET a 0 v",
    "LREM a 0 v",
    "LTRIM a 0 1",
    "LINSERT a BEFORE x y",
    "LPOS a v",
    "LMOVE a b LEFT LEFT",
    "RPOPLPUSH a b",
    "LMPOP 2 a b LEFT",
    "BLPOP a b 0",
    "BRPOP a b 0",
    "BLMOVE a b LEFT LEFT 0",
    "BRPOPLPUSH a b 0",
    "BLMPOP 0 2 a b LEFT",
    "HSET a f v",
    "HSETNX a f v",
    "HMSET a f v",
    "HGET a f",
    "HMGET a f",
    "HGETALL a",
    "HDEL a f",
    "HLEN a",
    "HSTRLEN a f",
    "HEXISTS a f",
    "HKEYS a",
    "HVALS a",
    "HINCRBY a f 1",
    "HINCRBYFLOAT a f 1",
    "HRANDFIELD a",
    "HRANDFIELD a 1 WITHVALUES",
    "HSCAN a 0",
    "SADD a m",
    "SREM a m",
    "SCARD a",
    "SISMEMBER a m",
    "SMISMEMBER a m",
    "SMEMBERS a",
    "SRANDMEMBER a",
    "SPOP a",
    "SPOP a 1",
    "SMOVE a b m",
    "SINTER a b",
    "SINTERCARD 2 a b",
    "SINTERSTORE a b c",
    "SUNION a b",
    "SUNIONSTORE a b c",
    "SDIFF a b",
    "SDIFFSTORE a b c",
    "SSCAN a 0",
    "ZADD a 1 m",
    "ZADD a INCR 1 m",
    "ZINCRBY a 1 m",
    "ZREM a m",
    "ZCARD a",
    "ZSCORE a m",
    "ZMSCORE a m",
    "ZRANK a m",
    "ZREVRANK a m",
    "ZCOUNT a 0 1",
    "ZLEXCOUNT a - +",
    "ZRANGE a 0 1",
    "ZREVRANGE a 0 1",
    "ZRANGEBYSCORE a 0 1",
    "ZREVRANGEBYSCORE a 0 1",
    "ZRANGEBYLEX a - +",
    "ZREVRANGEBYLEX a - +",
    "ZRANGESTORE a b 0 1",
    "ZREMRANGEBYRANK a 0 1",
    "ZREMRANGEBYSCORE a 0 1",
    "ZREMRANGEBYLEX a - +",
    "ZPOPMIN a",
    "ZPOPMAX a",
    "BZPOPMIN a b 0",
    "BZPOPMAX a b 0",
    "ZMPOP 2 a b MIN",
    "BZMPOP 0 2 a b MIN",
    "ZUNION 2 a b",
    "ZUNIONSTORE a 2 b c",
    "ZINTER 2 a b",
    "ZINTERSTORE a 2 b c",
    "ZINTERCARD 2 a b",
    "ZDIFF 2 a b",
    "ZDIFFSTORE a 2 b c",
    "ZRANDMEMBER a",
    "ZSCAN a 0",
    "GEOADD a 1 1 m",
    "GEODIST a m n",
    "GEOHASH a m",
    "GEOPOS a m",
    "GEORADIUS a 1 1 1 m",
    "GEORADIUS a 1 1 1 m STORE b",
    "GEORADIUS a 1 1 1 m STOREDIST b",
    "GEORADIUS_RO a 1 1 1 m",
    "GEORADIUSBYMEMBER a m 1 m",
    "GEORADIUSBYMEMBER a m 1 m STORE b",
    "GEORADIUSBYMEMBER_RO a m 1 m",
    "GEOSEARCH a FROMMEMBER m BYRADIUS 1 m",
    "GEOSEARCHSTORE a b FROMMEMBER m BYRADIUS 1 m",
    "XADD a * f v",
    "XADD a MAXLEN 1 * f v",
    "XLEN a",
    "XRANGE a - +",
    "XREVRANGE a + -",
    "XDEL a 1",
    "XTRIM a MAXLEN 1",
    "XREAD STREAMS a b 0 0",
    "XREAD COUNT 1 BLOCK 0 STREAMS a 0",
    "XREADGROUP GROUP g c STREAMS a b > >",
    "XREADGROUP GROUP STREAMS c COUNT 1 STREAMS a >",
    "XACK a g 1",
    "XCLAIM a g c 0 1",
    "XAUTOCLAIM a g c 0 0",
    "XPENDING a g",
    "XSETID a 1-1",
    "XGROUP CREATE a g 0",
    "XGROUP CREATECONSUMER a g c",
    "XGROUP DELCONSUMER a g c",
    "XGROUP DESTROY a g",
    "XGROUP SETID a g 0",
    "XGROUP HELP",
    "XINFO STREAM a",
    "XINFO GROUPS a",
    "XINFO CONSUMERS a g",
    "XINFO HELP",
    "PUBLISH ch m",
    "SPUBLISH ch m",
    "SUBSCRIBE ch ch2",
    "PSUBSCRIBE ch ch2",
    "SSUBSCRIBE ch ch2",
    "UNSUBSCRIBE ch",
    "PUNSUBSCRIBE ch",
    "SUNSUBSCRIBE ch",
    "PUBSUB CHANNELS",
    "PUBSUB NUMPAT",
    "PUBSUB NUMSUB ch",
    "PUBSUB SHARDCHANNELS",
    "PUBSUB SHARDNUMSUB ch",
    "PUBSUB HELP",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH a b",
    "UNWATCH",
    "EVAL x 2 a b c",
    "EVAL x 0",
    "EVALSHA x 2 a b c",
    "EVAL_RO x 2 a b c",
    "EVALSHA_RO x 1 a",
    "FCALL f 2 a b c",
    "FCALL_RO f 1 a",
    "FUNCTION LOAD x",
    "FUNCTION DELETE x",
    "FUNCTION FLUSH",
    "FUNCTION LIST",
    "FUNCTION DUMP",
    "FUNCTION RESTORE x",
    "FUNCTION STATS",
    "FUNCTION KILL",
    "FUNCTION HELP",
    "SCRIPT LOAD x",
    "SCRIPT EXISTS x",
    "SCRIPT FLUSH",
    "SCRIPT KILL",
    "SCRIPT DEBUG NO",
    "SCRIPT HELP",
    "PING",
    "ECHO x",
    "AUTH x",
    "HELLO",
    "QUIT",
    "RESET",
    "SELECT 0",
    "CLIENT ID",
    "CLIENT LIST",
    "CLIENT INFO",
    "CLIENT KILL a",
    "CLIENT PAUSE 1",
    "CLIENT UNPAUSE",
    "CLIENT GETNAME",
    "CLIENT SETNAME a",
    "CLIENT REPLY ON",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON BCAST PREFIX a",
    "CLIENT TRACKINGINFO",
    "CLIENT CACHING YES",
    "CLIENT GETREDIR",
    "CLIENT NO-EVICT ON",
    "CLIENT UNBLOCK 1",
    "CLIENT HELP",
    "ACL CAT",
    "ACL DELUSER x",
    "ACL DRYRUN x get a",
    "ACL GENPASS",
    "ACL GETUSER x",
    "ACL HELP",
    "ACL LIST",
    "ACL LOAD",
    "ACL LOG",
    "ACL SAVE",
    "ACL SETUSER x",
    "ACL USERS",
    "ACL WHOAMI",
    "BGREWRITEAOF",
    "BGSAVE",
    "SAVE",
    "LASTSAVE",
    "SHUTDOWN",
    "COMMAND",
    "COMMAND COUNT",
    "COMMAND DOCS",
    "COMMAND GETKEYS get a",
    "COMMAND GETKEYSANDFLAGS get a",
    "COMMAND INFO",
    "COMMAND LIST",
    "COMMAND HELP",
    "CONFIG GET x",
    "CONFIG SET x y",
    "CONFIG RESETSTAT",
    "CONFIG REWRITE",
    "CONFIG HELP",
    "DEBUG SLEEP 0",
    "DEBUG OBJECT a",
    "DEBUG RELOAD",
    "DEBUG DIGEST-VALUE a",
    "INFO",
    "LATENCY DOCTOR",
    "LATENCY GRAPH x",
    "LATENCY HISTOGRAM",
    "LATENCY HISTORY x",
    "LATENCY LATEST",
    "LATENCY RESET",
    "LATENCY HELP",
    "LOLWUT",
    "MODULE LIST",
    "MODULE LOAD x",
    "MODULE LOADEX x",
    "MODULE UNLOAD x",
    "MODULE HELP",
    "MONITOR",
    "REPLICAOF NO ONE",
    "SLAVEOF NO ONE",
    "ROLE",
    "SLOWLOG GET",
    "SLOWLOG LEN",
    "SLOWLOG RESET",
    "SLOWLOG HELP",
    "TIME",
    "WAIT 0 0",
    "ASKING",
    "READONLY",
    "READWRITE",
    "FAILOVER",
    "CLUSTER INFO",
    "CLUSTER MYID",
    "CLUSTER SLOTS",
    "CLUSTER SHARDS",
    "CLUSTER NODES",
    "CLUSTER KEYSLOT a",
    "CLUSTER COUNTKEYSINSLOT 1",
    "CLUSTER GETKEYSINSLOT 1 1",
    "CLUSTER MEET h 1",
    "CLUSTER RESET",
    "CLUSTER REPLICAS x",
    "CLUSTER LINKS",
    "CLUSTER HELP",
];

/// Commands that Redis 7.0 lacks.
pub const NEWER: &[&str] = &[
    "HEXPIRE a 1 FIELDS 1 f",
    "HPEXPIRE a 1 FIELDS 1 f",
    "HEXPIREAT a 1 FIELDS 1 f",
    "HPEXPIREAT a 1 FIELDS 1 f",
    "HTTL a FIELDS 1 f",
    "HPTTL a FIELDS 1 f",
    "HEXPIRETIME a FIELDS 1 f",
    "HPEXPIRETIME a FIELDS 1 f",
    "HPERSIST a FIELDS 1 f",
    "HGETEX a FIELDS 1 f",
    "HSETEX a FIELDS 1 f v",
    "HGETDEL a FIELDS 1 f",
    "CLIENT NO-TOUCH ON",
    "CLIENT SETINFO LIB-NAME x",
];

/// Rules of users.
pub const RULES: &[&str] = &[
    "+@all ~* &*",
    "+@all",
    "-@all ~* &*",
    "+@all ~a",
    "+@all %R~*",
    "+@all %W~*",
    "+@all %R~a %W~b",
    "+@all %W~a %R~b %R~c",
    "+@all %RW~a %R~b",
    "+@all %RW~a %W~b",
    "+@all %RW~a %R~b %R~c",
    "+@all (+@all ~a) (+@all ~b)",
    "-@all +@read ~* &*",
    "-@all +@write ~* &*",
    "-@all +@keyspace ~* &*",
    "-@all +@set ~* &*",
    "-@all +@sortedset ~* &*",
    "-@all +@list ~* &*",
    "-@all +@hash ~* &*",
    "-@all +@string ~* &*",
    "-@all +@bitmap ~* &*",
    "-@all +@hyperloglog ~* &*",
    "-@all +@geo ~* &*",
    "-@all +@stream ~* &*",
    "-@all +@pubsub ~* &*",
    "-@all +@admin ~* &*",
    "-@all +@fast ~* &*",
    "-@all +@slow ~* &*",
    "-@all +@blocking ~* &*",
    "-@all +@dangerous ~* &*",
    "-@all +@connection ~* &*",
    "-@all +@transaction ~* &*",
    "-@all +@scripting ~* &*",
    "+@all -@dangerous ~* &*",
    "+@all -@admin -@write ~* &*",
    "+@all ~* &ch",
    "+@all ~* &c*",
    "+@all ~* &ch &ch2",
    "-@all +config|get +client|id +acl|whoami +xinfo|stream ~* &*",
    "+@all -config|get -client|id -acl|whoami -xinfo|stream ~* &*",
    "-@all +config +client +acl +memory +object ~* &*",
    "-@all +select|0 +get|a +set ~* &*",
    "-@all (+get ~a) (+set ~b) (+@list %R~a)",
    "-@all (+@all %R~a) (+@all %W~b)",
    "-@all +@read ~a (+@write ~b)",
    "-@all +ping ~* &*",
    "+@all -eval -fcall ~a",
    "+@all ~a %R~b (+mget ~*)",
    "-@all +@read +@write %R~a %W~a ~b",
    "+@all ~?",
    "+@all ~[b-c]",
    "+@all ~[^a]",
];

/// Commands with another verdict here, with the reasons.
const DIFFERENT: &[(&str, &str)] = &[
    ("PFMERGE a", "without sources Redis checks no key"),
    ("DEBUG OBJECT a", "Redis does not report the key"),
    ("DEBUG DIGEST-VALUE a", "Redis does not report the keys"),
];

/// Commands that older versions put into other categories.
const OTHER_CATEGORIES: &[&str] = &["WAIT 0 0"];

/// Creates a user with the rules, and returns the verdict on each command.
fn judgements(connection: &mut TestkitConnection, rules: &str, commands: &[&str]) -> Vec<String> {
    let set = format!("ACL SETUSER u reset on nopass {rules}");
    assert_eq!(ask(connection, &set), "OK", "{rules}");
    let lines = commands
        .iter()
        .map(|command| format!("ACL DRYRUN u {command}"));
    let requests = encode_lines(lines);
    let replies = connection.exchange(&requests, commands.len());
    let judge = |reply: String| {
        ["' command", "' key", "' channel"]
            .into_iter()
            .find(|part| reply.contains(part))
            .map_or(reply.clone(), |part| format!("no{part}"))
    };
    let replies = replies.expect("replies").into_iter();
    replies.map(|reply| judge(reply.to_string())).collect()
}

#[test]
fn commands_are_allowed_and_denied_as_by_other_servers() {
    let ours = Nearfield::start(ServerOptions::default());
    for peer in PeerServer::ALL {
        let Some(server) = peer.start(&[]) else {
            continue;
        };
        let is_old = peer == PeerServer::Redis7;
        let newer = NEWER.iter().filter(|_| peer == PeerServer::Redis8);
        let is_other = |command: &&str| {
            let others = DIFFERENT.iter().map(|(other, _)| other);
            let older = OTHER_CATEGORIES.iter().filter(|_| is_old);
            others.chain(older).any(|other| other == command)
        };
        let commands = COMMANDS.iter().chain(newer).copied();
        let commands = commands.filter(|command| !is_other(command));
        let commands: Vec<&str> = commands.collect();
        let mut connections = [connect(ours.address), connect(server.address)];
        for rules in RULES {
            let [mine, theirs] = connections
                .each_mut()
                .map(|connection| judgements(connection, rules, &commands));
            for ((command, mine), theirs) in commands.iter().zip(mine).zip(theirs) {
                assert_eq!(mine, theirs, "{command} of {}, with {rules}", peer.name());
            }
        }
    }
}

#[test]
fn every_command_that_others_know_is_judged() {
    let named = COMMANDS.iter().chain(NEWER);
    let named: BTreeSet<String> = named
        .map(|command| {
            let mut words = command.split(' ').map(str::to_lowercase);
            let (first, second) = (words.next().unwrap_or_default(), words.next());
            let is_container = |command: &&CommandDefinition| {
                command.name == first && !command.subcommands().is_empty()
            };
            match second {
                Some(second) if TABLE.all().any(|command| is_container(&command)) => {
                    format!("{first} {second}")
                }
                _ => first,
            }
        })
        .collect();
    let Some(server) = PeerServer::Redis7.start(&[]) else {
        return;
    };
    let mut client = connect(server.address);
    for command in TABLE.all() {
        let names: Vec<String> = match command.subcommands() {
            [] => vec![command.name.to_owned()],
            subcommands => subcommands
                .iter()
                .map(|it| format!("{} {}", command.name, it.name))
                .collect(),
        };
        for name in names {
            let info = ask(
                &mut client,
                &format!("COMMAND INFO {}", name.replace(' ', "|")),
            );
            let is_known = !info.contains("(nil)") && !name.starts_with("cluster");
            assert!(!is_known || named.contains(&name), "{name} is not tried");
        }
    }
}

#[test]
fn a_condition_on_the_old_value_needs_the_right_to_read() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut admin = connect(ours.address);
    assert_eq!(ask(&mut admin, "SET wo:k secret"), "OK");
    let rules = "ACL SETUSER w on nopass +@all %W~wo:*";
    assert_eq!(ask(&mut admin, rules), "OK");
    let mut client = connect(ours.address);
    assert_eq!(ask(&mut client, "AUTH w w"), "OK");
    for command in [
        "SET wo:k v IFEQ secret",
        "SET wo:k v EX 9 IFEQ guess",
        "SET wo:k v GET",
        "GETEX wo:k",
        "DELIFEQ wo:k guess",
        "BITFIELD wo:k INCRBY u8 0 0",
    ] {
        let refused = ask(&mut client, command);
        assert!(refused.contains("NOPERM"), "{command}: {refused}");
    }
    for command in ["SET wo:k IFEQ", "SET wo:k GET", "SET wo:k v KEEPTTL"] {
        assert_eq!(ask(&mut client, command), "OK", "{command}");
    }
}

#[test]
fn the_slow_log_shows_no_secrets() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut client = connect(ours.address);
    assert_eq!(
        ask(&mut client, "CONFIG SET slowlog-log-slower-than 0"),
        "OK"
    );
    for command in [
        "CONFIG SET maxclients 100 requirepass topsecret",
        "AUTH topsecret",
        "CONFIG SET MASTERAUTH topsecret",
        "CONFIG SET primaryauth topsecret tls-client-key-file-pass topsecret",
        "CONFIG SET masteruser topsecret",
        "ACL SETUSER topsecret on >topsecret",
        "ACL GETUSER topsecret",
        "ACL DRYRUN topsecret get topsecret",
        "ACL DELUSER topsecret",
        "HELLO 2 AUTH default topsecret",
        "MIGRATE 127.0.0.1 1 nokey 0 1 AUTH2 topsecret topsecret",
        "MIGRATE 127.0.0.1 1 nokey 0 1 AUTH topsecret",
    ] {
        ask(&mut client, command);
        ask(&mut client, "MULTI");
        ask(&mut client, command);
        ask(&mut client, "EXEC");
    }
    let shown = ask(&mut client, "SLOWLOG GET -1");
    assert!(!shown.contains("topsecret"), "{shown}");
    assert!(shown.contains("maxclients"), "{shown}");
    assert!(shown.contains("(redacted)"), "{shown}");
    let listed = ask(&mut client, "CLIENT LIST");
    assert!(!listed.contains("topsecret"), "{listed}");
}

/// Flags that newer versions of Redis give to other commands than Redis 7.0 does, or that commands
/// which differ here have.
const OTHER_FLAGS: &[&str] = &["noscript", "blocking", "allow_busy"];
/// Containers and their help texts (no client reads their flags), and commands that take more words
/// here.
const OTHERWISE: &[&str] = &["asking", "debug", "memory", "object", "wait"];

/// Returns the lines of those parts of `COMMAND INFO` that describe flags and keys, in order.
fn described(connection: &mut TestkitConnection, name: &str) -> Option<Vec<String>> {
    let info = connection.command(&[b"COMMAND", b"INFO", name.as_bytes()]);
    let Ok(RespReplyValue::Array(commands)) = info else {
        panic!("no description of {name}");
    };
    let Some(RespReplyValue::Array(parts)) = commands.first() else {
        return None;
    };
    let words = |part: &RespReplyValue| -> Vec<String> {
        let text = part.to_string();
        let words = text.split_whitespace();
        let is_word = |word: &&str| !word.ends_with(')') && !OTHER_FLAGS.contains(word);
        let mut words: Vec<String> = words.filter(is_word).map(str::to_owned).collect();
        words.sort_unstable();
        words
    };
    let shown = [2, 3, 4, 5, 8].map(|part| words(&parts[part]));
    Some(shown.concat())
}

#[test]
fn flags_and_keys_of_commands_are_described_as_by_redis() {
    let Some(redis) = PeerServer::Redis7.start(&[]) else {
        return;
    };
    let ours = Nearfield::start(ServerOptions::default());
    let (mut mine, mut theirs) = (connect(ours.address), connect(redis.address));
    let mut compared = 0;
    for command in TABLE.all() {
        let subcommands = command.subcommands().iter();
        let names = subcommands.map(|it| format!("{}|{}", command.name, it.name));
        for name in names.chain([command.name.to_owned()]) {
            let is_other = OTHERWISE.contains(&command.name);
            // Redis's own notes on a command are not compared.
            let has_notes = |parts: &Vec<String>| parts.iter().any(|it| it == "\"notes\"");
            let theirs = described(&mut theirs, &name).filter(|it| !is_other && !has_notes(it));
            if let Some(theirs) = theirs {
                assert_eq!(described(&mut mine, &name), Some(theirs), "{name}");
                compared += 1;
            }
        }
    }
    assert!(compared > 330, "{compared}");
}

#[test]
fn what_was_denied_is_noted_with_all_that_is_known_of_the_client() {
    on_both(|address| {
        let mut admin = connect(address);
        let rules = "ACL SETUSER u on nopass +@all -flushall ~ok:*";
        assert_eq!(ask(&mut admin, rules), "OK");
        let mut client = connect(address);
        for command in [
            "AUTH u u",
            "CLIENT SETNAME visitor",
            "SELECT 3",
            "SUBSCRIBE",
        ] {
            ask(&mut client, command);
        }
        let fields = |text: &str| -> Vec<(String, String)> {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        };
        let shown = |admin: &mut TestkitConnection| {
            let log = ask(admin, "ACL LOG 1");
            let line = log
                .lines()
                .find(|line| line.contains("id="))
                .map(str::to_owned);
            let line = line.unwrap_or_else(|| panic!("the log is not empty: {log}"));
            fields(line.split('"').nth(1).unwrap_or_default())
        };
        let of = |fields: &[(String, String)], wanted: &str| {
            let found = fields.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        for (commands, command, multi) in [
            (&["GET other"][..], "get", "-1"),
            (&["FLUSHALL"], "flushall", "-1"),
            (&["MULTI", "SET ok:1 1", "SET other 1"], "set", "1"),
            (&["DISCARD", "AUTH u2 wrong"], "auth", "-1"),
            (&["OBJECT ENCODING other"], "object|encoding", "-1"),
        ] {
            for sent in commands {
                ask(&mut client, sent);
            }
            let noted = shown(&mut admin);
            assert_eq!(of(&noted, "cmd"), command, "{noted:?}");
            assert_eq!(of(&noted, "multi"), multi, "{noted:?}");
            assert_eq!(of(&noted, "db"), "3", "{noted:?}");
            assert_eq!(of(&noted, "name"), "visitor", "{noted:?}");
            assert_eq!(of(&noted, "user"), "u", "{noted:?}");
            // The fields are the same as in the list of clients.
            let listed = fields(ask_text(&mut admin, "CLIENT INFO").trim_end());
            let names = |fields: &[(String, String)]| -> Vec<String> {
                fields.iter().map(|(name, _)| name.clone()).collect()
            };
            assert_eq!(names(&noted), names(&listed));
        }
    });
}
