//! What is asked of a server: requests, and what has to be there before.

use crate::error::LabError;
use crate::text::shortened;
use rand::{Rng, RngExt};
use std::str::FromStr;

/// A kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// One SET to nine GETs of uniformly chosen keys.
    Mixed,
    /// MGET of sixteen keys.
    Mget,
    /// MSET of ten keys.
    Mset,
    /// SET of one key with GET, which answers the value before.
    SetGet,
    /// As many DELs as SETs, so that half of the DELs find a key.
    Del,
    /// EXISTS of one key.
    Exists,
    /// INCR of one key.
    Incr,
    /// KNEAREST of one key, which only Nearfield knows.
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
}

/// Members of the sorted set.
const MEMBERS: u64 = 1_000_000;
/// Fields of the hash, and elements of the list at first.
const FIELDS: u64 = 100_000;

impl Task {
    /// All kinds, with their names.
    pub const ALL: [(Task, &'static str); 14] = [
        (Task::Mixed, "mixed"),
        (Task::Mget, "mget"),
        (Task::Mset, "mset"),
        (Task::SetGet, "set-get"),
        (Task::Del, "del"),
        (Task::Exists, "exists"),
        (Task::Incr, "incr"),
        (Task::Knearest, "knearest"),
        (Task::Zadd, "zadd"),
        (Task::Zrangebyscore, "zrangebyscore"),
        (Task::Lpush, "lpush"),
        (Task::Lrange, "lrange"),
        (Task::Hset, "hset"),
        (Task::Hget, "hget"),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Task::ALL.iter().find(|(task, _)| *task == self);
        found.map_or("", |(_, name)| name)
    }

    /// How many requests [`prepare`](Task::prepare) makes.
    #[must_use]
    pub fn preparations(self, keys: u64) -> u64 {
        match self {
            Task::Mixed
            | Task::Mget
            | Task::Mset
            | Task::SetGet
            | Task::Del
            | Task::Exists
            | Task::Incr
            | Task::Knearest => keys,
            Task::Zadd | Task::Zrangebyscore => MEMBERS,
            Task::Lpush | Task::Lrange | Task::Hset | Task::Hget => FIELDS,
        }
    }

    /// Appends the `position`-th request that fills the server.
    pub fn prepare(self, position: u64, keys: u64, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Task::Mixed
            | Task::Mget
            | Task::Mset
            | Task::SetGet
            | Task::Del
            | Task::Exists
            | Task::Incr
            | Task::Knearest => {
                let key = scatter(position, keys);
                let value = if self == Task::Incr { b"1000" } else { value };
                write(out, &[b"SET", &key_of(key), value]);
            }
            Task::Zadd | Task::Zrangebyscore => {
                let member = scatter(position, MEMBERS);
                let score = member.to_string();
                write(out, &[b"ZADD", b"z", score.as_bytes(), &key_of(member)]);
            }
            Task::Lpush | Task::Lrange => write(out, &[b"RPUSH", b"l", value]),
            Task::Hset | Task::Hget => {
                let field = key_of(scatter(position, FIELDS));
                write(out, &[b"HSET", b"h", &field, value]);
            }
        }
    }

    /// Appends a request.
    pub fn request(self, keys: u64, value: &[u8], random: &mut impl Rng, out: &mut Vec<u8>) {
        match self {
            Task::Mixed => {
                let key = key_of(random.random_range(0..keys));
                if random.random_range(0..10) == 0 {
                    write(out, &[b"SET", &key, value]);
                } else {
                    write(out, &[b"GET", &key]);
                }
            }
            Task::Mget => {
                let keys: [Vec<u8>; 16] =
                    std::array::from_fn(|_| key_of(random.random_range(0..keys)));
                let words = keys.iter().map(Vec::as_slice);
                let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(words).collect();
                write(out, &words);
            }
            Task::Mset => {
                let keys: [Vec<u8>; 10] =
                    std::array::from_fn(|_| key_of(random.random_range(0..keys)));
                let words = keys.iter().flat_map(|key| [key.as_slice(), value]);
                let words: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(words).collect();
                write(out, &words);
            }
            Task::SetGet => {
                let key = key_of(random.random_range(0..keys));
                write(out, &[b"SET", &key, value, b"GET"]);
            }
            Task::Del => {
                let key = key_of(random.random_range(0..keys));
                if random.random() {
                    write(out, &[b"SET", &key, value]);
                } else {
                    write(out, &[b"DEL", &key]);
                }
            }
            Task::Exists => write(out, &[b"EXISTS", &key_of(random.random_range(0..keys))]),
            Task::Incr => write(out, &[b"INCR", &key_of(random.random_range(0..keys))]),
            Task::Knearest => write(out, &[b"KNEAREST", &key_of(random.random_range(0..keys))]),
            Task::Zadd => {
                let member = key_of(random.random_range(0..MEMBERS));
                let score = random.random_range(0..MEMBERS).to_string();
                write(out, &[b"ZADD", b"z", score.as_bytes(), &member]);
            }
            Task::Zrangebyscore => {
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
            Task::Lpush => write(out, &[b"LPUSH", b"l", value]),
            Task::Lrange => write(out, &[b"LRANGE", b"l", b"0", b"99"]),
            Task::Hset => {
                let field = key_of(random.random_range(0..FIELDS));
                write(out, &[b"HSET", b"h", &field, value]);
            }
            Task::Hget => {
                let field = key_of(random.random_range(0..FIELDS));
                write(out, &[b"HGET", b"h", &field]);
            }
        }
    }
}

impl FromStr for Task {
    type Err = LabError;

    fn from_str(name: &str) -> Result<Self, LabError> {
        let found = Task::ALL.iter().find(|(_, other)| *other == name);
        found
            .map(|(task, _)| *task)
            .ok_or_else(|| LabError::UnknownName {
                what: "task",
                given: shortened(name),
                allowed: "mixed, mget, mset, set-get, del, exists, incr, knearest, zadd, \
                          zrangebyscore, lpush, lrange, hset, hget",
            })
    }
}

/// A key of eight bytes for numbers below ten million.
fn key_of(number: u64) -> Vec<u8> {
    format!("k{number:07}").into_bytes()
}

/// The numbers below `count` in an order that jumps about, each once.
fn scatter(position: u64, count: u64) -> u64 {
    // A prime beyond all counts has no factor in common with them.
    const STRIDE: u128 = 11_400_714_819_323_198_549;
    (u128::from(position) * STRIDE % u128::from(count)) as u64
}

/// Appends a request of these words.
pub fn write(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
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
        assert_eq!(key_of(9_999_999).len(), 8);
    }
}
