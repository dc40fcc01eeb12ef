//! Random commands on places and on HyperLogLogs, in the language of [`commands`](super::commands).
//!
//! The order of places at the same distance is not specified, so `COUNT` is left out. `STOREDIST`
//! is left out because distances have many digits, which 7.0 and 7.2 write differently as scores.

/// Lines of commands.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    (
        "places",
        "GEOADD gkey (glon glat mem)+
        GEOADD gkey [(NX | XX)] [CH] (glon glat mem)+
        GEOPOS key mem+
        GEOHASH key mem+
        GEODIST key mem mem [gunit]
        GEOPOS gkey mem+
        GEOHASH gkey mem+
        GEODIST gkey mem mem [gunit]
        ~ GEOSEARCH gkey gfrom gshape [(ASC | DESC)]
        ~ GEOSEARCH gkey gfrom gshape [WITHCOORD] [WITHDIST] [WITHHASH]
        GEOSEARCHSTORE gkey gkey gfrom gshape
        ~ GEORADIUS gkey glon glat gradius gunit [WITHDIST] [WITHHASH]
        ~ GEORADIUSBYMEMBER gkey mem gradius gunit [WITHCOORD]
        ~ GEORADIUS_RO gkey glon glat gradius gunit
        ~ GEORADIUSBYMEMBER_RO gkey mem gradius gunit
        ZREM gkey mem",
    ),
    (
        "numbers of elements",
        "PFADD pkey mem+
        PFADD pkey pmem+
        PFADD pkey
        PFCOUNT pkey+
        PFCOUNT pkey
        PFMERGE pkey pkey+
        PFMERGE pkey
        STRLEN pkey
        GET pkey
        SET pkey val
        DEL pkey",
    ),
];

/// The words of each kind that a line of a command may name. An entry of several words has blanks.
pub(super) const KINDS: &[(&str, &[&str])] = &[
    ("gkey", &["g1", "g1", "g2"]),
    (
        "glon",
        &[
            "0",
            "13.361389",
            "15.087269",
            "-122.4194",
            "179.9",
            "-179.9",
            "2.35",
            "2.36",
            "181",
            "a",
        ],
    ),
    (
        "glat",
        &[
            "0",
            "38.115556",
            "37.502669",
            "37.7749",
            "85",
            "-85",
            "48.85",
            "48.86",
            "86",
            "nan",
        ],
    ),
    ("gunit", &["m", "km", "ft", "mi", "KM", "x"]),
    (
        "gradius",
        &["0", "1", "100", "1000.5", "200000", "20000000", "-1", "a"],
    ),
    (
        "gfrom",
        &[
            "FROMLONLAT 2.35 48.85",
            "FROMLONLAT 15 37",
            "FROMMEMBER a",
            "FROMMEMBER b",
        ],
    ),
    (
        "gshape",
        &[
            "BYRADIUS 100 km",
            "BYRADIUS 2000 mi",
            "BYRADIUS 20000 km",
            "BYBOX 400 400 km",
            "BYBOX 30000 10 km",
            "BYBOX 5000 5000 m",
        ],
    ),
    ("pkey", &["p1", "p1", "p2", "p3"]),
    (
        "pmem",
        &[
            "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "pa", "pb", "pc", "pd",
        ],
    ),
];

/// Splits a word of the kind `name`, which may consist of several.
pub(super) fn apart(name: &str, word: Vec<u8>) -> Vec<Vec<u8>> {
    match name {
        "gfrom" | "gshape" => word
            .split(|&byte| byte == b' ')
            .map(<[u8]>::to_vec)
            .collect(),
        _ => vec![word],
    }
}
