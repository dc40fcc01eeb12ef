//! Random commands, and the comparison of their replies.
//!
//! These are left out, because they are random, depend on the time or the program, or differ
//! between Redis 7.0, the compared version, and 7.2, the target:
//! - RANDOMKEY, and SPOP, SRANDMEMBER, HRANDFIELD and ZRANDMEMBER with less than all members;
//! - cursors other than 0 of SCAN and the like;
//! - DUMP and RESTORE (the version of the payload), OBJECT ENCODING (sets are listpacks since 7.2),
//!   OBJECT FREQ and IDLETIME, DEBUG, INFO, MEMORY;
//! - ZRANK and ZREVRANK WITHSCORE, or with too many other arguments, and CLIENT NO-TOUCH (since
//!   7.2);
//! - wrong arguments of BITCOUNT and BITPOS of a missing key, and the least 64-bit number as RANK
//!   of LPOS (errors since 7.2);
//! - numbers that 7.0 (`%.17g`) and 7.2 (the shortest text) write differently, so that only numbers
//!   of few binary digits are used;
//! - zero bytes in place of a number, which Redis takes for the end of the text;
//! - the order of a set that SORT does not sort, because its pattern has no `*`;
//! - ranges by members of sorted sets with different scores, which are not specified;
//! - XADD with `*`, and all else that takes its time from the clock, except results that are
//!   compared by `near`;
//! - deadlines that pass during the test, and GT and LT next to deadlines that depend on the time.

pub use super::mode::Mode;
use super::reply::RespReplyValue;
use super::{field_commands, function_commands, place_commands, stream_commands};
use rand::RngExt;
use rand::rngs::SmallRng;

/// The keys that commands use.
pub const KEYS: &[&[u8]] = &[b"k1", b"k2", b"k3", b"k4", b"k5", b"k6", b"{k}", b""];

/// A key of a sorted set with equal scores, because ranges by members have no meaning otherwise.
pub const LEX_KEY: &[u8] = b"lex";

/// A command of an episode.
#[derive(Clone, Debug)]
pub struct GeneratedCommand {
    /// The words, the name first.
    pub words: Vec<Vec<u8>>,
    /// The family of commands to which it belongs.
    pub family: &'static str,
    /// The comparison of its replies.
    pub mode: Mode,
}

impl GeneratedCommand {
    /// Returns the commands that must be sent before it, so that Redis 7.0 and later servers know
    /// the same consumers of groups afterwards.
    pub fn creating_consumer(&self) -> impl Iterator<Item = GeneratedCommand> {
        let create = stream_commands::creating_consumer(&self.words).into_iter();
        create.map(|words| GeneratedCommand {
            words,
            family: self.family,
            mode: Mode::Exact,
        })
    }

    /// Returns the command in the form in which redis-cli takes it.
    pub fn shown(&self) -> String {
        let words = self.words.iter().map(|word| {
            let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
            if !word.is_empty() && word.iter().all(plain) {
                String::from_utf8_lossy(word).into_owned()
            } else {
                RespReplyValue::Bulk(word.clone()).to_string()
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Lines of commands. Words in lower case stand for random words (see [`slot`]), `[a]` for an
/// option, `(a | b)` for a choice, `a+` for one or more. Before a command, the comparison of its
/// replies may be given: `~` unordered, `~~` unordered pairs, `scan`, `scanpairs`, `near=N`,
/// `times=N`. `!` protects its arguments from being replaced by odd ones, where that would make it
/// wait, reply without end, or depend on the time.
const COMMANDS: &[(&str, &str)] = &[
    (
        "strings",
        "GET key
        SET key val [(NX | XX)] [GET]
        SETNX key val
        GETSET key val
        GETDEL key
        ! GETEX key [(EX far | PX farms | EXAT at | PXAT atms | PERSIST | EX badtime)]
        ! SET key val (EX far | PX farms | EXAT at | PXAT atms | KEEPTTL | EX badtime) \
            [(NX | XX | GET)]
        ! SETEX key (far | badtime) val
        ! PSETEX key (farms | badtime) val
        MGET key+
        MSET (key val)+
        MSETNX (key val)+
        APPEND key val
        STRLEN key
        INCR key
        DECR key
        INCRBY key int
        DECRBY key int
        INCRBYFLOAT key flt
        GETRANGE key idx idx
        SUBSTR key idx idx
        SETRANGE key (0 | 1 | 5 | 100 | -1 | 536870912) val
        LCS key key [(LEN | IDX [MINMATCHLEN cnt] [WITHMATCHLEN])]",
    ),
    (
        "bits",
        "SETBIT key bit (0 | 1 | 2)
        GETBIT key bit
        ! BITCOUNT key
        ! BITCOUNT key pos pos [(BYTE | BIT)]
        ! BITPOS key (0 | 1 | 2) [pos]
        ! BITPOS key (0 | 1) pos pos [(BYTE | BIT)]
        BITOP (AND | OR | XOR) key key+
        BITOP NOT key key
        ! BITFIELD bitkey (OVERFLOW FAIL \
            (GET enc fieldbit | SET enc fieldbit int | INCRBY enc fieldbit int))+
        BITFIELD key ([OVERFLOW (WRAP | SAT)] \
            (GET enc fieldbit | SET enc fieldbit int | INCRBY enc fieldbit int))+
        BITFIELD_RO key (GET enc fieldbit)+",
    ),
    (
        "keys",
        "DEL key+
        UNLINK key+
        EXISTS key+
        TOUCH key+
        TYPE key
        RENAME key key
        RENAMENX key key
        COPY key key [REPLACE]
        COPY key key DB (0 | 1 | 16) [REPLACE]
        MOVE key (0 | 1 | 16)
        SELECT (0 | 0 | 0 | 1 | 16 | x)
        ~ KEYS pat
        scan SCAN 0 COUNT 10000 [MATCH pat] [TYPE (string | list | set | hash | zset | none)]
        DBSIZE
        SORT key [LIMIT idx idx] [(ASC | DESC)] [ALPHA]
        SORT key ALPHA [(ASC | DESC)] STORE key
        ! SORT key BY (w_* | *->f) GET # GET (* | k* | *->a)
        SORT_RO key [LIMIT idx idx] [(ASC | DESC)] [ALPHA]
        ! OBJECT REFCOUNT nokey
        ECHO val
        PING [val]",
    ),
    (
        "rare",
        "FLUSHALL\nFLUSHDB\nFLUSHALL (ASYNC | SYNC | x)\nSWAPDB (0 | 1 | 16) (0 | 1 | x)",
    ),
    (
        "expiry",
        "! EXPIRE key (far | badtime) [(NX | XX)]
        ! PEXPIRE key (farms | badtime) [(NX | XX)]
        ! EXPIREAT key (at | badtime) [(NX | XX | GT | LT)]
        ! PEXPIREAT key (atms | badtime) [(NX | XX | GT | LT | GT LT | NX GT | x)]
        ! PERSIST key
        near=20 TTL key
        near=20000 PTTL key
        near=20 EXPIRETIME key
        near=20000 PEXPIRETIME key",
    ),
    (
        "lists",
        "LPUSH key val+
        RPUSH key val+
        LPUSHX key val+
        RPUSHX key val+
        LPOP key [cnt]
        RPOP key [cnt]
        LLEN key
        LRANGE key idx idx
        LINDEX key idx
        LSET key idx val
        LINSERT key (BEFORE | AFTER | x) val val
        LREM key idx val
        LTRIM key idx idx
        LPOS key val [RANK pos] [COUNT cnt] [MAXLEN cnt]
        RPOPLPUSH key key
        LMOVE key key (LEFT | RIGHT) (LEFT | RIGHT)
        LMPOP cnt key key (LEFT | RIGHT) [COUNT cnt]
        LMPOP 1 key (LEFT | RIGHT) [COUNT cnt]
        ! BLPOP key key 0.001
        ! BRPOP key (0.001 | -1 | x)
        ! BLMOVE key key (LEFT | RIGHT) (LEFT | RIGHT) 0.001
        ! BRPOPLPUSH key key 0.001
        ! BLMPOP 0.001 2 key key (LEFT | RIGHT) [COUNT cnt]",
    ),
    (
        "hashes",
        "HSET key (mem val)+
        HMSET key (mem val)+
        HSETNX key mem val
        HGET key mem
        HMGET key mem+
        ~~ HGETALL key
        ~ HKEYS key
        ~ HVALS key
        HDEL key mem+
        HLEN key
        HEXISTS key mem
        HSTRLEN key mem
        HINCRBY key mem int
        HINCRBYFLOAT key mem flt
        ! ~ HRANDFIELD key 1000
        ! ~~ HRANDFIELD key 1000 WITHVALUES
        ! HRANDFIELD key 0
        scanpairs HSCAN key 0 COUNT 10000 [MATCH pat]",
    ),
    (
        "sets",
        "SADD key mem+
        SREM key mem+
        SISMEMBER key mem
        SMISMEMBER key mem+
        SCARD key
        ~ SMEMBERS key
        SMOVE key key mem
        ~ SINTER key+
        ~ SUNION key+
        ~ SDIFF key+
        SINTERSTORE key key+
        SUNIONSTORE key key+
        SDIFFSTORE key key+
        SINTERCARD cnt key key [LIMIT cnt]
        SINTERCARD 1 key [LIMIT cnt]
        ! ~ SPOP key 1000
        ! SPOP key 0
        ! ~ SRANDMEMBER key 1000
        scan SSCAN key 0 COUNT 10000 [MATCH pat]",
    ),
    (
        "sorted sets",
        "ZADD key [(NX | XX)] [(GT | LT)] [CH] (score mem)+
        ZADD key (score mem)+
        ZADD key [(NX | XX)] INCR score mem
        ZINCRBY key score mem
        ZREM key mem+
        ZCARD key
        ZSCORE key mem
        ZMSCORE key mem+
        ! ZRANK key mem
        ! ZREVRANK key mem
        ZCOUNT key sbound sbound
        ! ZADD lexkey (0 mem)+
        ! ZREM lexkey mem+
        ! ZLEXCOUNT lexkey lbound lbound
        ZREMRANGEBYRANK key idx idx
        ZREMRANGEBYSCORE key sbound sbound
        ! ZREMRANGEBYLEX lexkey lbound lbound
        ZPOPMIN key [cnt]
        ZPOPMAX key [cnt]
        ZMPOP 2 key key (MIN | MAX) [COUNT cnt]
        ! BZPOPMIN key key 0.001
        ! BZPOPMAX key 0.001
        ! BZMPOP 0.001 1 key (MIN | MAX) [COUNT cnt]
        ZUNIONSTORE key 2 key key [WEIGHTS flt flt] [AGGREGATE (SUM | MIN | MAX)]
        ZINTERSTORE key 2 key key [WEIGHTS flt flt] [AGGREGATE (SUM | MIN | MAX)]
        ZDIFFSTORE key 2 key key
        ZUNION 2 key key [WEIGHTS flt flt] [AGGREGATE (SUM | MIN | MAX)] [WITHSCORES]
        ZINTER 2 key key [WEIGHTS flt flt] [AGGREGATE (SUM | MIN | MAX)] [WITHSCORES]
        ZDIFF cnt key key [WITHSCORES]
        ZINTERCARD 2 key key [LIMIT cnt]
        ! ~ ZRANDMEMBER key 1000
        ! ~~ ZRANDMEMBER key 1000 WITHSCORES
        scanpairs ZSCAN key 0 COUNT 10000 [MATCH pat]",
    ),
    (
        "ranges",
        "ZRANGE key idx idx [REV] [WITHSCORES]
        ZRANGE key sbound sbound BYSCORE [REV] [LIMIT idx idx] [WITHSCORES]
        ! ZRANGE lexkey lbound lbound BYLEX [REV] [LIMIT idx idx]
        ZRANGE key idx idx LIMIT idx idx
        ZREVRANGE key idx idx [WITHSCORES]
        ZRANGEBYSCORE key sbound sbound [WITHSCORES] [LIMIT idx idx]
        ZREVRANGEBYSCORE key sbound sbound [WITHSCORES] [LIMIT idx idx]
        ! ZRANGEBYLEX lexkey lbound lbound [LIMIT idx idx]
        ! ZREVRANGEBYLEX lexkey lbound lbound [LIMIT idx idx]
        ZRANGESTORE key key idx idx [REV]
        ZRANGESTORE key key sbound sbound BYSCORE [REV] [LIMIT idx idx]
        ! ZRANGESTORE key lexkey lbound lbound BYLEX [REV] [LIMIT idx idx]",
    ),
    (
        "transactions",
        "MULTI\nMULTI\nMULTI\nEXEC\nDISCARD\nWATCH key+\nWATCH key+\nUNWATCH",
    ),
];

/// The words of each kind that a line of a command may name.
const KINDS: &[(&str, &[&str])] = &[
    ("nokey", &["absent"]),
    ("lexkey", &["lex"]),
    // No client watches this key: operations that only fail create the key, which Redis does not
    // count as a change.
    ("bitkey", &["bits"]),
    (
        "val",
        &[
            "",
            "a",
            "b",
            "c",
            "foo",
            "bar",
            "foobar",
            "0",
            "1",
            "-1",
            "10",
            "007",
            " 1",
            "1.5",
            "-0.25",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "1e3",
            "inf",
            "a string that is longer than what fits into one entry of a listpack, by far",
            "x\u{0}\r\n",
            "1234567890123456789012345678901234567890123456",
        ],
    ),
    (
        "mem",
        &[
            "a",
            "b",
            "c",
            "d",
            "e",
            "f",
            "aa",
            "ab",
            "",
            "0",
            "1",
            "2",
            "3",
            "-5",
            "100000",
            "70000000000",
            "1.5",
            "01",
            "a member that is longer than what fits into one entry of a listpack",
            "b\u{0}\n",
        ],
    ),
    (
        "int",
        &[
            "0",
            "1",
            "1",
            "-1",
            "2",
            "5",
            "-7",
            "100",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "1.5",
            "",
            "a",
            "01",
            " 1",
        ],
    ),
    (
        "idx",
        &[
            "0",
            "0",
            "1",
            "2",
            "3",
            "5",
            "-1",
            "-1",
            "-2",
            "-3",
            "-5",
            "10",
            "100",
            "-100",
            "9223372036854775807",
            "-9223372036854775808",
            "a",
        ],
    ),
    (
        "pos",
        &[
            "0",
            "1",
            "2",
            "3",
            "5",
            "-1",
            "-2",
            "-3",
            "10",
            "100",
            "-100",
            "9223372036854775807",
        ],
    ),
    (
        "cnt",
        &["0", "1", "1", "2", "2", "3", "10", "1000", "-1", "a", ""],
    ),
    (
        "flt",
        &[
            "0", "1", "-1", "0.5", "-2.25", "3", "1e2", "1024", "inf", "-inf", "nan", "a", "", " 1",
        ],
    ),
    (
        "score",
        &[
            "0",
            "0",
            "1",
            "1",
            "2",
            "3",
            "-1",
            "1.5",
            "-2.25",
            "0.125",
            "1e3",
            "1099511627776",
            "inf",
            "-inf",
            "+inf",
            "nan",
            "a",
            "",
        ],
    ),
    (
        "sbound",
        &[
            "-inf", "+inf", "inf", "0", "1", "2", "(0", "(1", "(1.5", "-1", "(-2.25", "1.5", "3",
            "(inf", "(-inf", "a", "(", "",
        ],
    ),
    (
        "lbound",
        &[
            "-", "+", "[a", "(a", "[b", "(c", "[", "(", "[d", "[zz", "a", "", "[aa", "(ab",
        ],
    ),
    (
        "bit",
        &[
            "0",
            "1",
            "2",
            "7",
            "8",
            "9",
            "15",
            "63",
            "64",
            "100",
            "500",
            "-1",
            "4294967296",
            "a",
            "",
        ],
    ),
    (
        "fieldbit",
        &[
            "0",
            "1",
            "7",
            "8",
            "#0",
            "#1",
            "#3",
            "60",
            "100",
            "-1",
            "a",
            "#a",
            "4294967296",
        ],
    ),
    (
        "enc",
        &[
            "u1", "u2", "u8", "i8", "u7", "i5", "u16", "i16", "u32", "i32", "u63", "i64", "u64",
            "i65", "a", "i0",
        ],
    ),
    (
        "pat",
        &[
            "*", "k*", "k?", "k[1-3]", "?", "", "[^a]", "a*", "*a", "[ab]*", "\\*", "k[^2]", "*1*",
        ],
    ),
    ("far", &["100000", "200000", "4000000"]),
    ("farms", &["100000000", "200000000", "4000000000"]),
    ("at", &["4000000000", "4100000000", "4200000000"]),
    ("atms", &["4000000000000", "4100000000000", "4200000000001"]),
    (
        "badtime",
        &[
            "0",
            "-1",
            "-9223372036854775808",
            "9223372036854775807",
            "a",
            "",
            "1.5",
            "9223372036854775",
        ],
    ),
];

/// Returns a random word of a kind; `None` if `name` is not a kind but the word itself.
fn slot(name: &str, random: &mut SmallRng) -> Option<Vec<u8>> {
    if name == "key" {
        // The first keys are chosen more often, so that they hold more.
        let count = random.random_range(1..=KEYS.len());
        return Some(KEYS[random.random_range(0..count)].to_vec());
    }
    let (_, words) = KINDS
        .iter()
        .chain(stream_commands::KINDS)
        .chain(function_commands::KINDS)
        .chain(place_commands::KINDS)
        .chain(field_commands::KINDS)
        .find(|(kind, _)| *kind == name)?;
    let word = words[random.random_range(0..words.len())];
    Some(word.as_bytes().to_vec())
}

/// Odd words, which replace any argument.
const ODD: &[&str] = &[
    "",
    "-1",
    "0",
    "a",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1.5",
    "nan",
    "inf",
    "k1",
    "LIMIT",
    "WITHSCORES",
    "COUNT",
    "NX",
    "x\u{0}",
    "99999999999999999999999999",
];

enum CommandSyntaxNode {
    Word(String),
    All(Vec<CommandSyntaxNode>),
    One(Vec<CommandSyntaxNode>),
    Maybe(Box<CommandSyntaxNode>),
    Some(Box<CommandSyntaxNode>),
}

impl CommandSyntaxNode {
    /// Reads alternatives up to the end or a closing bracket.
    fn read(tokens: &mut std::iter::Peekable<std::vec::IntoIter<String>>) -> CommandSyntaxNode {
        let mut alternatives = vec![Vec::new()];
        while let Some(token) = tokens.next_if(|token| token != ")" && token != "]") {
            let node = match token.as_str() {
                "|" => {
                    alternatives.push(Vec::new());
                    continue;
                }
                "(" | "[" => {
                    let inner = CommandSyntaxNode::read(tokens);
                    tokens.next().expect("a closing bracket");
                    if token == "[" {
                        CommandSyntaxNode::Maybe(Box::new(inner))
                    } else {
                        inner
                    }
                }
                _ => CommandSyntaxNode::Word(token),
            };
            let node = match tokens.next_if(|token| token == "+") {
                Some(_) => CommandSyntaxNode::Some(Box::new(node)),
                None => node,
            };
            if let Some(last) = alternatives.last_mut() {
                last.push(node);
            }
        }
        let mut alternatives: Vec<CommandSyntaxNode> = alternatives
            .into_iter()
            .map(CommandSyntaxNode::All)
            .collect();
        match alternatives.len() {
            1 => alternatives.remove(0),
            _ => CommandSyntaxNode::One(alternatives),
        }
    }

    fn write(&self, random: &mut SmallRng, words: &mut Vec<Vec<u8>>) {
        match self {
            CommandSyntaxNode::Word(name) => {
                let word = slot(name, random).unwrap_or_else(|| name.clone().into_bytes());
                words.extend(place_commands::apart(name, word));
            }
            CommandSyntaxNode::All(nodes) => {
                for node in nodes {
                    node.write(random, words);
                }
            }
            CommandSyntaxNode::One(nodes) => {
                nodes[random.random_range(0..nodes.len())].write(random, words)
            }
            CommandSyntaxNode::Maybe(node) => {
                if random.random_bool(0.4) {
                    node.write(random, words);
                }
            }
            CommandSyntaxNode::Some(node) => {
                for _ in 0..random.random_range(1..=3) {
                    node.write(random, words);
                }
            }
        }
    }
}

struct Template {
    mode: Mode,
    odd: bool,
    node: CommandSyntaxNode,
}

impl Template {
    /// Reads a line; `None` if its command is not `known`.
    fn read(line: &str, known: fn(&[u8]) -> bool) -> Option<Template> {
        let mut template = Template {
            mode: Mode::Exact,
            odd: true,
            node: CommandSyntaxNode::All(Vec::new()),
        };
        let mut rest = line.trim();
        loop {
            let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
            match first {
                "!" => template.odd = false,
                "~" => template.mode = Mode::Unordered,
                "~~" => template.mode = Mode::Pairs,
                "scan" => template.mode = Mode::Scan,
                "scanpairs" => template.mode = Mode::ScanPairs,
                _ => match first.split_once('=') {
                    Some(("near", distance)) => {
                        template.mode = Mode::Near(distance.parse().expect("a number"))
                    }
                    Some(("times", distance)) => {
                        template.mode = Mode::Times(distance.parse().expect("a number"))
                    }
                    _ => break,
                },
            }
            rest = after;
        }
        let name = rest.split(' ').next().unwrap_or_default();
        if !known(name.as_bytes()) {
            return None;
        }
        let mut spaced = rest.to_owned();
        for mark in ["(", ")", "[", "]", "|", "+"] {
            // Brackets within a word, as in `k[1-3]`, do not occur here.
            spaced = spaced.replace(mark, &format!(" {mark} "));
        }
        let tokens: Vec<String> = spaced.split_whitespace().map(str::to_owned).collect();
        let mut tokens = tokens.into_iter().peekable();
        template.node = CommandSyntaxNode::read(&mut tokens);
        assert!(tokens.next().is_none(), "a closing bracket in {line}");
        Some(template)
    }
}

/// Families of commands: their names, and lines of commands.
type Families = &'static [(&'static str, &'static str)];

/// The generator of the commands of an episode.
pub struct Generator {
    random: SmallRng,
    /// Each family with its weight.
    families: Vec<(&'static str, u32, Vec<Template>)>,
    in_transaction: bool,
}

impl Generator {
    /// Creates a generator of `known` commands, which prefers some families.
    pub fn new(random: SmallRng, known: fn(&[u8]) -> bool) -> Generator {
        let all = [
            COMMANDS,
            stream_commands::COMMANDS,
            function_commands::COMMANDS,
            place_commands::COMMANDS,
        ];
        Generator::of(&all, random, known)
    }

    /// Creates a generator of commands on streams and their groups, as in Valkey 9.
    pub fn of_streams(random: SmallRng, known: fn(&[u8]) -> bool) -> Generator {
        Generator::of(&[stream_commands::COMMANDS], random, known)
    }

    /// Creates a generator of commands on hashes with fields that expire, as in Redis 8.
    pub fn of_fields(random: SmallRng, known: fn(&[u8]) -> bool) -> Generator {
        Generator::of(&[field_commands::COMMANDS], random, known)
    }

    fn of(all: &[Families], mut random: SmallRng, known: fn(&[u8]) -> bool) -> Generator {
        let mut families = Vec::new();
        for (family, lines) in all.iter().copied().flatten() {
            let templates: Vec<Template> = lines
                .lines()
                .filter_map(|line| Template::read(line, known))
                .collect();
            let weight = weight_of(family, &mut random);
            if !templates.is_empty() {
                families.push((*family, weight, templates));
            }
        }
        Generator {
            random,
            families,
            in_transaction: false,
        }
    }

    /// Restarts like a new generator with that random number generator, but keeps the known
    /// commands.
    pub fn restart(&mut self, random: SmallRng) {
        self.random = random;
        self.in_transaction = false;
        for (family, weight, _) in &mut self.families {
            *weight = weight_of(family, &mut self.random);
        }
    }

    /// Returns the next command.
    pub fn next_command(&mut self) -> GeneratedCommand {
        let random = &mut self.random;
        if self.in_transaction && random.random_bool(0.15) {
            self.in_transaction = false;
            return GeneratedCommand {
                words: vec![b"EXEC".to_vec()],
                family: "transactions",
                mode: Mode::Exact,
            };
        }
        let total: u32 = self.families.iter().map(|(_, weight, _)| weight).sum();
        assert!(total > 0, "no command is known");
        let mut choice = random.random_range(0..total);
        let mut chosen = &self.families[0];
        for family in &self.families {
            chosen = family;
            if choice < family.1 {
                break;
            }
            choice -= family.1;
        }
        let (family, _, templates) = chosen;
        let template = &templates[random.random_range(0..templates.len())];
        let mut words = Vec::new();
        template.node.write(random, &mut words);
        if template.odd && random.random_bool(0.03) {
            odd(&mut words, random);
            if matches!(template.mode, Mode::Scan | Mode::ScanPairs) {
                begin_scan(&mut words);
            }
            if *family == "sorted sets" {
                without_large_scores(&mut words);
            }
        }
        assert!(!words.is_empty(), "a command keeps its name");
        match words[0].as_slice() {
            b"MULTI" => self.in_transaction = true,
            b"EXEC" | b"DISCARD" => self.in_transaction = false,
            _ => {}
        }
        if random.random_bool(0.1) {
            words[0].make_ascii_lowercase();
        }
        GeneratedCommand {
            words,
            family,
            mode: template.mode,
        }
    }
}

/// Returns the weight of a family of commands.
fn weight_of(family: &str, random: &mut SmallRng) -> u32 {
    match family {
        "rare" => 1,
        "transactions" => 8,
        _ => [5, 20, 100][random.random_range(0..3)],
    }
}

/// Makes a command of the family of SCAN begin at 0 instead of at its cursor.
fn begin_scan(words: &mut [Vec<u8>]) {
    // A cursor has a meaning only for the server that has given it.
    let position = if words[0].eq_ignore_ascii_case(b"SCAN") {
        1
    } else {
        2
    };
    if let Some(cursor) = words.get_mut(position) {
        let number = str::from_utf8(cursor).ok().map(str::parse::<i128>);
        if let Some(Ok(_)) = number {
            *cursor = b"0".to_vec();
        }
    }
}

/// Replaces scores and weights that have too many digits: 7.0 and 7.2 write them differently.
fn without_large_scores(words: &mut [Vec<u8>]) {
    const SCORED: &[&[u8]] = &[
        b"ZADD",
        b"ZINCRBY",
        b"ZUNION",
        b"ZUNIONSTORE",
        b"ZINTER",
        b"ZINTERSTORE",
    ];
    if SCORED.contains(&&*words[0]) {
        for word in words.iter_mut().skip(2) {
            let number = str::from_utf8(word).ok().map(str::parse::<f64>);
            if matches!(number, Some(Ok(number)) if number.is_finite() && number.abs() > 1e16) {
                *word = b"1099511627776".to_vec();
            }
        }
    }
}

/// Adds, removes or replaces an argument.
fn odd(words: &mut Vec<Vec<u8>>, random: &mut SmallRng) {
    let word = ODD[random.random_range(0..ODD.len())].as_bytes().to_vec();
    let position = random.random_range(0..words.len());
    match random.random_range(0..3) {
        0 => words.push(word),
        1 if words.len() > 1 => {
            words.pop();
        }
        _ if position > 0 => words[position] = word,
        _ => {}
    }
}
