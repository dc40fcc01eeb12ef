//! The requests to a server, and the data that they need.

use crate::error::LabError;
use crate::text::shortened;
use nearfield_server::resp::encode::request as write;
use rand::{Rng, RngExt};
use std::str::FromStr;

/// A kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTaskKind {
    /// One SET to nine GETs of uniformly chosen keys.
    Mixed,
    /// SET of one key.
    Set,
    /// GET of one key.
    Get,
    /// SETEX of one key, with a time to live of ten minutes.
    Setex,
    /// MGET of sixteen keys.
    Mget,
    /// MSET of ten keys.
    Mset,
    /// SET of one key with GET, which returns the previous value.
    SetGet,
    /// Equally many DELs and SETs, so that half of the DELs find a key.
    Del,
    /// EXISTS of one key.
    Exists,
    /// INCR of one key.
    Incr,
    /// FCALL of a function that reads one key.
    Fcall,
    /// KNEAREST of one key, which only Nearfield supports.
    Knearest,
    /// ZADD of a new score to a member of a sorted set.
    Zadd,
    /// ZRANGEBYSCORE of ten members from a score on.
    Zrangebyscore,
    /// LPUSH to one list.
    Lpush,
    /// LRANGE of the first hundred elements of a list.
    Lrange,
    /// HSET of a field of one hash.
    Hset,
    /// HGET of a field of one hash.
    Hget,
    /// XADD of an entry of one field to one stream, which keeps about a hundred thousand.
    Xadd,
    /// Equally many XADDs and XREADGROUPs of one entry, without separate acknowledgement (NOACK).
    Xreadgroup,
    /// PFADD of one element of many to one value.
    Pfadd,
    /// GEOSEARCH of the ten places nearest to a point, within 100 km.
    Geosearch,
}

/// The keys of a server: their number, and the bytes of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerKeySpec {
    /// Number of keys.
    pub count: u64,
    /// Bytes of a key, and of a member or field of a key.
    pub bytes: usize,
}

impl ServerKeySpec {
    /// The fewest bytes of a key: they hold all numbers below ten million.
    pub const BYTES_MIN: usize = 8;

    /// Returns the key, member or field of a number.
    fn name(self, number: u64) -> Vec<u8> {
        debug_assert!(self.bytes >= ServerKeySpec::BYTES_MIN);
        format!("k{number:0digits$}", digits = self.bytes - 1).into_bytes()
    }

    /// Draws a key uniformly.
    fn any(self, random: &mut impl Rng) -> Vec<u8> {
        self.name(random.random_range(0..self.count))
    }
}

/// Number of members of the sorted set.
const MEMBERS: u64 = 1_000_000;
/// Number of fields of the hash, and of initial elements of the list.
const FIELDS: u64 = 100_000;
/// The library of the function that FCALL calls.
const LIBRARY: &[u8] = b"#!lua name=reads\nredis.register_function('read', \
    function(keys) return redis.call('get', keys[1]) end)";
/// Time to live in seconds: longer than a measurement, so that no key expires.
const SECONDS: &[u8] = b"600";

impl ServerTaskKind {
    /// All tasks, with their names.
    pub const ALL: [(ServerTaskKind, &'static str); 22] = [
        (ServerTaskKind::Mixed, "mixed"),
        (ServerTaskKind::Set, "set"),
        (ServerTaskKind::Get, "get"),
        (ServerTaskKind::Setex, "setex"),
        (ServerTaskKind::Mget, "mget"),
        (ServerTaskKind::Mset, "mset"),
        (ServerTaskKind::SetGet, "set-get"),
        (ServerTaskKind::Del, "del"),
        (ServerTaskKind::Exists, "exists"),
        (ServerTaskKind::Incr, "incr"),
        (ServerTaskKind::Fcall, "fcall"),
        (ServerTaskKind::Knearest, "knearest"),
        (ServerTaskKind::Zadd, "zadd"),
        (ServerTaskKind::Zrangebyscore, "zrangebyscore"),
        (ServerTaskKind::Lpush, "lpush"),
        (ServerTaskKind::Lrange, "lrange"),
        (ServerTaskKind::Hset, "hset"),
        (ServerTaskKind::Hget, "hget"),
        (ServerTaskKind::Xadd, "xadd"),
        (ServerTaskKind::Xreadgroup, "xreadgroup"),
        (ServerTaskKind::Pfadd, "pfadd"),
        (ServerTaskKind::Geosearch, "geosearch"),
    ];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = ServerTaskKind::ALL.iter().find(|(task, _)| *task == self);
        found.map_or("", |(_, name)| name)
    }

    /// Returns the number of requests that [`prepare`](ServerTaskKind::prepare) makes.
    #[must_use]
    pub fn preparations(self, keys: ServerKeySpec) -> u64 {
        match self {
            ServerTaskKind::Mixed
            | ServerTaskKind::Set
            | ServerTaskKind::Get
            | ServerTaskKind::Setex
            | ServerTaskKind::Mget
            | ServerTaskKind::Mset
            | ServerTaskKind::SetGet
            | ServerTaskKind::Del
            | ServerTaskKind::Exists
            | ServerTaskKind::Incr
            | ServerTaskKind::Knearest => keys.count,
            // One more request loads the function.
            ServerTaskKind::Fcall => keys.count + keys.count.min(1),
            ServerTaskKind::Zadd | ServerTaskKind::Zrangebyscore => MEMBERS,
            ServerTaskKind::Lpush
            | ServerTaskKind::Lrange
            | ServerTaskKind::Hset
            | ServerTaskKind::Hget => FIELDS,
            ServerTaskKind::Xadd | ServerTaskKind::Geosearch => FIELDS,
            // One request creates the group.
            ServerTaskKind::Xreadgroup | ServerTaskKind::Pfadd => 1,
        }
    }

    /// Returns true if the number of keys can be chosen, and false if there is one key with many
    /// elements.
    #[must_use]
    pub fn has_many_keys(self) -> bool {
        let none = ServerKeySpec {
            count: 0,
            bytes: ServerKeySpec::BYTES_MIN,
        };
        // A task with data of its own prepares them for any number of keys.
        self.preparations(none) == 0
    }

    /// Appends the `position`-th request that fills the server.
    pub fn prepare(self, position: u64, keys: ServerKeySpec, value: &[u8], out: &mut Vec<u8>) {
        match self {
            ServerTaskKind::Mixed
            | ServerTaskKind::Set
            | ServerTaskKind::Get
            | ServerTaskKind::Mget
            | ServerTaskKind::Mset
            | ServerTaskKind::SetGet
            | ServerTaskKind::Del
            | ServerTaskKind::Exists
            | ServerTaskKind::Incr
            | ServerTaskKind::Knearest => {
                let key = keys.name(scatter(position, keys.count));
                // INCR refuses a value that is no number.
                let value = if self == ServerTaskKind::Incr {
                    b"1000"
                } else {
                    value
                };
                write(out, &[b"SET", &key, value]);
            }
            ServerTaskKind::Fcall => match position.checked_sub(1) {
                None => write(out, &[b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY]),
                Some(position) => ServerTaskKind::Get.prepare(position, keys, value, out),
            },
            ServerTaskKind::Setex => {
                let key = keys.name(scatter(position, keys.count));
                write(out, &[b"SETEX", &key, SECONDS, value]);
            }
            ServerTaskKind::Zadd | ServerTaskKind::Zrangebyscore => {
                let member = scatter(position, MEMBERS);
                let score = member.to_string();
                let member = keys.name(member);
                write(out, &[b"ZADD", b"z", score.as_bytes(), &member]);
            }
            ServerTaskKind::Lpush | ServerTaskKind::Lrange => write(out, &[b"RPUSH", b"l", value]),
            ServerTaskKind::Hset | ServerTaskKind::Hget => {
                let field = keys.name(scatter(position, FIELDS));
                write(out, &[b"HSET", b"h", &field, value]);
            }
            ServerTaskKind::Xadd => write(out, &[b"XADD", b"x", b"*", b"field", value]),
            ServerTaskKind::Xreadgroup => {
                write(
                    out,
                    &[b"XGROUP", b"CREATE", b"x", b"group", b"$", b"MKSTREAM"],
                );
            }
            ServerTaskKind::Pfadd => write(out, &[b"PFADD", b"p", b"element"]),
            ServerTaskKind::Geosearch => {
                let number = scatter(position, FIELDS);
                let (longitude, latitude) = place(number);
                write(
                    out,
                    &[b"GEOADD", b"g", &longitude, &latitude, &keys.name(number)],
                );
            }
        }
    }

    /// Appends a request.
    pub fn request(
        self,
        keys: ServerKeySpec,
        value: &[u8],
        random: &mut impl Rng,
        out: &mut Vec<u8>,
    ) {
        match self {
            ServerTaskKind::Mixed => {
                let key = keys.any(random);
                if random.random_range(0..10) == 0 {
                    write(out, &[b"SET", &key, value]);
                } else {
                    write(out, &[b"GET", &key]);
                }
            }
            ServerTaskKind::Set => write(out, &[b"SET", &keys.any(random), value]),
            ServerTaskKind::Get => write(out, &[b"GET", &keys.any(random)]),
            ServerTaskKind::Setex => write(out, &[b"SETEX", &keys.any(random), SECONDS, value]),
            ServerTaskKind::Mget => {
                let chosen: [Vec<u8>; 16] = std::array::from_fn(|_| keys.any(random));
                let words = chosen.iter().map(Vec::as_slice);
                let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(words).collect();
                write(out, &words);
            }
            ServerTaskKind::Mset => {
                let chosen: [Vec<u8>; 10] = std::array::from_fn(|_| keys.any(random));
                let words = chosen.iter().flat_map(|key| [key.as_slice(), value]);
                let words: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(words).collect();
                write(out, &words);
            }
            ServerTaskKind::SetGet => {
                let key = keys.any(random);
                write(out, &[b"SET", &key, value, b"GET"]);
            }
            ServerTaskKind::Del => {
                let key = keys.any(random);
                if random.random() {
                    write(out, &[b"SET", &key, value]);
                } else {
                    write(out, &[b"DEL", &key]);
                }
            }
            ServerTaskKind::Exists => write(out, &[b"EXISTS", &keys.any(random)]),
            ServerTaskKind::Incr => write(out, &[b"INCR", &keys.any(random)]),
            ServerTaskKind::Fcall => write(out, &[b"FCALL", b"read", b"1", &keys.any(random)]),
            ServerTaskKind::Knearest => write(out, &[b"KNEAREST", &keys.any(random)]),
            ServerTaskKind::Zadd => {
                let member = keys.name(random.random_range(0..MEMBERS));
                let score = random.random_range(0..MEMBERS).to_string();
                write(out, &[b"ZADD", b"z", score.as_bytes(), &member]);
            }
            ServerTaskKind::Zrangebyscore => {
                let from = format!("({}", random.random_range(0..MEMBERS));
                let words: [&[u8]; 7] = [
                    b"ZRANGEBYSCORE",
                    b"z",
                    from.as_bytes(),
                    b"+inf",
                    b"LIMIT",
                    b"0",
                    b"10",
                ];
                write(out, &words);
            }
            ServerTaskKind::Lpush => write(out, &[b"LPUSH", b"l", value]),
            ServerTaskKind::Lrange => write(out, &[b"LRANGE", b"l", b"0", b"99"]),
            ServerTaskKind::Hset => {
                let field = keys.name(random.random_range(0..FIELDS));
                write(out, &[b"HSET", b"h", &field, value]);
            }
            ServerTaskKind::Hget => {
                let field = keys.name(random.random_range(0..FIELDS));
                write(out, &[b"HGET", b"h", &field]);
            }
            ServerTaskKind::Xadd => {
                let entries_max = FIELDS.to_string();
                let head: [&[u8]; 5] = [b"XADD", b"x", b"MAXLEN", b"~", entries_max.as_bytes()];
                let words = [&head[..], &[b"*", b"field", value]].concat();
                write(out, &words);
            }
            ServerTaskKind::Xreadgroup => {
                if random.random() {
                    ServerTaskKind::Xadd.request(keys, value, random, out);
                    return;
                }
                let words: [&[u8]; 10] = [
                    b"XREADGROUP",
                    b"GROUP",
                    b"group",
                    b"consumer",
                    b"COUNT",
                    b"1",
                    b"NOACK",
                    b"STREAMS",
                    b"x",
                    b">",
                ];
                write(out, &words);
            }
            ServerTaskKind::Pfadd => write(out, &[b"PFADD", b"p", &keys.any(random)]),
            ServerTaskKind::Geosearch => {
                let (longitude, latitude) = place(random.random_range(0..FIELDS));
                let words: [&[u8]; 11] = [
                    b"GEOSEARCH",
                    b"g",
                    b"FROMLONLAT",
                    &longitude,
                    &latitude,
                    b"BYRADIUS",
                    b"100",
                    b"km",
                    b"ASC",
                    b"COUNT",
                    b"10",
                ];
                write(out, &words);
            }
        }
    }
}

/// Returns the longitude and latitude of a number below [`FIELDS`], on a grid of 800 columns.
fn place(number: u64) -> (Vec<u8>, Vec<u8>) {
    const COLUMNS: u64 = 800;
    debug_assert!(number < FIELDS, "place {number} is off the grid");
    let degrees = |count: u64, step: f64, least: f64| {
        format!("{:.4}", least + count as f64 * step).into_bytes()
    };
    let longitude = degrees(number % COLUMNS, 0.4, -160.0);
    (longitude, degrees(number / COLUMNS, 0.8, -50.0))
}

impl FromStr for ServerTaskKind {
    type Err = LabError;

    fn from_str(name: &str) -> Result<Self, LabError> {
        let found = ServerTaskKind::ALL.iter().find(|(_, other)| *other == name);
        found
            .map(|(task, _)| *task)
            .ok_or_else(|| LabError::UnknownName {
                subject: "task",
                given: shortened(name),
                allowed: "mixed, set, get, setex, mget, mset, set-get, del, exists, incr, \
                          fcall, knearest, zadd, zrangebyscore, lpush, lrange, hset, hget, \
                          xadd, xreadgroup, pfadd, geosearch",
            })
    }
}

/// Permutes the numbers below `count`, so that successive ones are far apart.
fn scatter(position: u64, count: u64) -> u64 {
    // The stride is a prime greater than all counts, so it has no factor in common with them.
    const STRIDE: u128 = 11_400_714_819_323_198_549;
    (u128::from(position) * STRIDE % u128::from(count)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_loaded_once() {
        let mut seen = vec![false; 100_000];
        for position in 0..100_000 {
            let key = scatter(position, 100_000) as usize;
            assert!(!std::mem::replace(&mut seen[key], true));
        }
        for bytes in [ServerKeySpec::BYTES_MIN, 16] {
            let keys = ServerKeySpec {
                count: 10_000_000,
                bytes,
            };
            assert_eq!(keys.name(9_999_999).len(), bytes);
        }
    }
}
