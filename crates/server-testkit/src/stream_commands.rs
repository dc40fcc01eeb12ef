//! Random commands on streams, in the language of [`commands`](super::commands).

/// Lines of commands.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    (
        "streams",
        "XADD xkey xnew (xfield val)+
        XADD xkey xnew f val
        XADD key xnew (xfield val)+
        XADD xkey [NOMKSTREAM] [MAXLEN [(= | ~)] cnt] [LIMIT cnt] xnew (xfield val)+
        XADD xkey [NOMKSTREAM] [MINID [(= | ~)] xid] [LIMIT cnt] xnew (xfield val)+
        XLEN xkey
        XDEL xkey xid+
        XTRIM xkey (MAXLEN | MINID) [(= | ~)] (cnt | xid) [LIMIT cnt]
        XRANGE xkey xbound xbound [COUNT cnt]
        XREVRANGE xkey xbound xbound [COUNT cnt]
        XSETID xkey xid [ENTRIESADDED cnt] [MAXDELETEDID xid]
        ! XREAD [COUNT cnt] STREAMS xkey (xid | xlast)
        ! XREAD [COUNT cnt] [BLOCK 1] STREAMS xkey xkey xid (xid | $)
        XINFO STREAM xkey
        XINFO GROUPS xkey
        DEL xkey",
    ),
    (
        "stream groups",
        "XGROUP CREATE xkey xgroup (xid | $) [MKSTREAM] [ENTRIESREAD cnt]
        XGROUP CREATE xkey xgroup (xid | $) [MKSTREAM]
        XGROUP SETID xkey xgroup (xid | xlast) [ENTRIESREAD cnt]
        XGROUP DESTROY xkey xgroup
        XGROUP CREATECONSUMER xkey xgroup xconsumer
        XGROUP DELCONSUMER xkey xgroup xconsumer
        ! XREADGROUP GROUP xgroup xconsumer [COUNT cnt] [NOACK] STREAMS xkey (> | > | > | xid | $)
        ! XREADGROUP GROUP xgroup xconsumer COUNT cnt STREAMS xkey >
        ! XREADGROUP GROUP xgroup xconsumer [COUNT cnt] [BLOCK 1] STREAMS xkey xkey > (> | xid)
        XACK xkey xgroup xid+
        XPENDING xkey xgroup
        near=20000 XPENDING xkey xgroup [IDLE (0 | 100000 | -1 | a)] xbound xbound cnt [xconsumer]
        XCLAIM xkey xgroup xconsumer (0 | 0 | 100000 | -1 | a) xid+ [FORCE] [JUSTID] \
            [RETRYCOUNT cnt] [LASTID xid]
        XCLAIM xkey xgroup xconsumer 0 xid+ (IDLE (0 | 1000 | -1) | TIME (1 | 1000 | a)) [FORCE]
        XAUTOCLAIM xkey xgroup xconsumer (0 | 0 | 100000 | -1 | a) xbound [COUNT cnt] [JUSTID]
        near=20000 XINFO CONSUMERS xkey xgroup
        times=20000 XINFO STREAM xkey FULL [COUNT cnt]",
    ),
];

/// Returns the commands that create the consumer that a command names. Redis does so from 7.2 on,
/// even if the consumer is given nothing.
pub(super) fn creating_consumer(words: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let (keys, group) = match words {
        [name, key, group @ ..] if is(name, "XCLAIM") || is(name, "XAUTOCLAIM") => {
            (std::slice::from_ref(key), group)
        }
        [name, _, group @ ..] if is(name, "XREADGROUP") => {
            let streams = group.iter().position(|word| is(word, "STREAMS"));
            let keys = streams.map_or(&[][..], |at| &group[at + 1..]);
            (&keys[..keys.len() / 2], group)
        }
        _ => return Vec::new(),
    };
    let [group, consumer, ..] = group else {
        return Vec::new();
    };
    let create = |key: &Vec<u8>| {
        let words = [&b"XGROUP"[..], b"CREATECONSUMER", key, group, consumer];
        words.map(<[u8]>::to_vec).to_vec()
    };
    keys.iter().map(create).collect()
}

/// The words of each kind that a line of a command may name.
pub(super) const KINDS: &[(&str, &[&str])] = &[
    ("xkey", &["k1", "k1", "k2", "k2", "x1", "x2", "x3"]),
    (
        "xnew",
        &[
            "1-1",
            "1-*",
            "2-*",
            "3-*",
            "3-5",
            "4",
            "5-*",
            "5-*",
            "5-*",
            "6-*",
            "6-*",
            "7-*",
            "7-1",
            "8-*",
            "9-*",
            "0-1",
            "0-*",
            "0-0",
            "0",
            "12-3",
            "x",
            "",
            "-",
            "1-",
            "18446744073709551615-*",
        ],
    ),
    (
        "xid",
        &[
            "0", "0-0", "0-1", "1", "1-1", "1-2", "2", "2-0", "2-1", "3-0", "3-1", "3-5", "3-6",
            "4-0", "4-1", "5-0", "5-1", "5-2", "5-3", "6-0", "6-1", "6-2", "7-0", "7-1", "7-2",
            "8-0", "8-1", "9-0", "9-1", "12-3", "20-0", "x",
        ],
    ),
    (
        "xbound",
        &[
            "-",
            "-",
            "-",
            "+",
            "+",
            "+",
            "0",
            "1",
            "(1-1",
            "2",
            "3-5",
            "(3-5",
            "(4",
            "5-0",
            "(5-1",
            "6",
            "7-1",
            "9",
            "(0-0",
            "(",
            "(18446744073709551615-18446744073709551615",
            "x",
        ],
    ),
    ("xlast", &["$", "$", "+", "-", ">"]),
    (
        "xfield",
        &["f", "f", "f", "g", "h", "1", "-7", "a longer field"],
    ),
    ("xgroup", &["g", "g", "g", "h", "0"]),
    ("xconsumer", &["alice", "alice", "bob", "carol", ""]),
];
