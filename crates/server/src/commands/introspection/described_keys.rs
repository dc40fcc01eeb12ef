//! Positions of keys in commands, as `COMMAND INFO` shows them.

use crate::catalog::key_uses;
use crate::command::{CommandDefinition, CommandKeySpec};
use crate::resp::RespReply;

/// The start of the search for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchStart {
    /// The argument at this position.
    Index(usize),
    /// The argument after a keyword, which is searched for from a position; if negative, from the
    /// end.
    Keyword(&'static str, i64),
    /// An unknown position: it depends on the value of another key.
    Unknown,
}

/// The arguments that are keys, counted from the start of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyRun {
    /// Every `step`-th argument up to the one at distance `last` (negative: from the end). If
    /// `limit` is not 0, only one part in `limit` of the remaining arguments.
    Range { last: i64, step: i64, limit: i64 },
    /// The arguments after one that is their number.
    Counted,
    /// An unknown number of keys.
    Unknown,
}

/// A group of keys and their uses.
#[derive(Clone, Debug)]
struct KeyPlace {
    start: SearchStart,
    run: KeyRun,
    uses: Vec<&'static str>,
}

const ONE: KeyRun = KeyRun::Range {
    last: 0,
    step: 1,
    limit: 0,
};

/// The commands on the channels of a shard, with the position of the last channel. Channels are
/// found like keys, but are not keys.
const SHARD_CHANNELS: &[(&str, i32)] = &[("spublish", 1), ("ssubscribe", -1), ("sunsubscribe", -1)];

/// The keys that a function finds, as far as they can be described.
const FOUND: &[(&str, &[(SearchStart, KeyRun)])] = &[
    (
        "sort",
        &[
            (SearchStart::Index(1), ONE),
            (SearchStart::Unknown, KeyRun::Unknown),
            (SearchStart::Unknown, KeyRun::Unknown),
        ],
    ),
    ("georadius", STORES_FROM_6),
    ("georadiusbymember", STORES_FROM_5),
    ("xread", &[(SearchStart::Keyword("STREAMS", 1), FIRST_HALF)]),
    (
        "xreadgroup",
        &[(SearchStart::Keyword("STREAMS", 4), FIRST_HALF)],
    ),
];
const STORES_FROM_6: &[(SearchStart, KeyRun)] = &[
    (SearchStart::Index(1), ONE),
    (SearchStart::Keyword("STORE", 6), ONE),
    (SearchStart::Keyword("STOREDIST", 6), ONE),
];
const STORES_FROM_5: &[(SearchStart, KeyRun)] = &[
    (SearchStart::Index(1), ONE),
    (SearchStart::Keyword("STORE", 5), ONE),
    (SearchStart::Keyword("STOREDIST", 5), ONE),
];
const FIRST_HALF: KeyRun = KeyRun::Range {
    last: -1,
    step: 1,
    // The other half are the identifiers.
    limit: 2,
};

/// Returns the first key's position, the last one's (negative: from the end) and the step, for
/// clients that ask for these only.
pub fn first_last_step(command: &CommandDefinition) -> (i64, i64, i64) {
    let channels = SHARD_CHANNELS.iter().find(|it| it.0 == command.name);
    if let Some((_, last)) = channels {
        return (1, i64::from(*last), 1);
    }
    match command.keys {
        CommandKeySpec::Range { first, last, step } => (first as i64, i64::from(last), step as i64),
        CommandKeySpec::Counted {
            target: Some(target),
            ..
        } => (target as i64, target as i64, 1),
        CommandKeySpec::OneOrBehind { key, .. } => (key as i64, key as i64, 1),
        CommandKeySpec::Custom(_) => match places(command).first() {
            Some(KeyPlace {
                start: SearchStart::Index(first),
                ..
            }) => (*first as i64, *first as i64, 1),
            _ => (0, 0, 0),
        },
        // The first key depends on the arguments, so that there is none to show.
        CommandKeySpec::None | CommandKeySpec::Counted { .. } => (0, 0, 0),
    }
}

fn places(command: &CommandDefinition) -> Vec<KeyPlace> {
    let uses = |number| {
        let uses = key_uses::of(command, number);
        if key_uses::is_variable(command) {
            [uses, &["variable_flags"]].concat()
        } else {
            uses.to_vec()
        }
    };
    let place = |start, run, uses| KeyPlace { start, run, uses };
    let channels = SHARD_CHANNELS.iter().find(|it| it.0 == command.name);
    if let Some((_, last)) = channels {
        let last = i64::from(*last).min(0);
        let run = KeyRun::Range {
            last,
            step: 1,
            limit: 0,
        };
        return vec![place(SearchStart::Index(1), run, vec!["not_key"])];
    }
    match command.keys {
        CommandKeySpec::None => Vec::new(),
        CommandKeySpec::Custom(_) => {
            let found = FOUND.iter().find(|it| it.0 == command.name);
            let found = found.map_or(&[][..], |it| it.1);
            let uses = |number: usize, start| match (command.name, start) {
                // The patterns of BY and GET name these keys.
                ("sort", SearchStart::Unknown) if number == 1 => uses(0),
                _ => uses(number),
            };
            let numbered = found.iter().enumerate();
            numbered
                .map(|(number, &(start, run))| place(start, run, uses(number, start)))
                .collect()
        }
        CommandKeySpec::Range { first, last, step } => {
            let (step, fixed) = (step as i64, last >= 0);
            let run = |from: usize| KeyRun::Range {
                last: if fixed {
                    // A fixed position is shown as a distance from the first key.
                    i64::from(last) - from as i64
                } else {
                    i64::from(last)
                },
                step,
                limit: 0,
            };
            let mut places = Vec::new();
            // As in Redis, keys with different uses are described as two groups.
            if uses(0) == uses(1) || last == first as i32 {
                places.push(place(SearchStart::Index(first), run(first), uses(0)));
            } else {
                places.push(place(SearchStart::Index(first), ONE, uses(0)));
                let next = first + step as usize;
                places.push(place(SearchStart::Index(next), run(next), uses(1)));
            }
            if command.name == "sort_ro" {
                // The patterns of BY and GET name more keys.
                places.push(place(SearchStart::Unknown, KeyRun::Unknown, uses(0)));
            }
            places
        }
        CommandKeySpec::OneOrBehind {
            key, keyword, from, ..
        } => {
            let behind = KeyRun::Range {
                last: -1,
                step: 1,
                limit: 0,
            };
            // As in Redis, clients should ask COMMAND GETKEYS about the keys after a keyword.
            let incomplete = [&uses(0)[..], &["incomplete"]].concat();
            let keyword = SearchStart::Keyword(keyword, i64::from(from));
            vec![
                place(SearchStart::Index(key), ONE, uses(0)),
                place(keyword, behind, incomplete),
            ]
        }
        CommandKeySpec::Counted { count, target } => {
            let mut places = Vec::new();
            if let Some(target) = target {
                places.push(place(SearchStart::Index(target), ONE, uses(0)));
            }
            let number = places.len();
            debug_assert!(number <= 1, "only a target comes before the counted keys");
            places.push(place(
                SearchStart::Index(count),
                KeyRun::Counted,
                uses(number),
            ));
            places
        }
    }
}

/// Writes the positions of a command's keys.
pub fn describe_keys(reply: &mut RespReply, command: &CommandDefinition) {
    let places = places(command);
    reply.array(places.len());
    for KeyPlace { start, run, uses } in places {
        reply.map(3);
        reply.bulk(b"flags");
        reply.set(uses.len());
        for word in uses {
            reply.simple(word);
        }
        reply.bulk(b"begin_search");
        match start {
            SearchStart::Index(index) => {
                let index = i64::try_from(index).unwrap_or(i64::MAX);
                write_part(reply, "index", &[("index", index)]);
            }
            SearchStart::Keyword(keyword, from) => {
                begin_part(reply, "keyword");
                reply.map(2);
                reply.bulk(b"keyword");
                reply.bulk(keyword.as_bytes());
                reply.bulk(b"startfrom");
                reply.integer(from);
            }
            SearchStart::Unknown => write_part(reply, "unknown", &[]),
        }
        reply.bulk(b"find_keys");
        match run {
            KeyRun::Range { last, step, limit } => {
                let numbers = [("lastkey", last), ("keystep", step), ("limit", limit)];
                write_part(reply, "range", &numbers);
            }
            KeyRun::Counted => {
                let numbers = [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
                write_part(reply, "keynum", &numbers);
            }
            KeyRun::Unknown => write_part(reply, "unknown", &[]),
        }
    }
}

fn begin_part(reply: &mut RespReply, kind: &str) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
}

fn write_part(reply: &mut RespReply, kind: &str, numbers: &[(&str, i64)]) {
    begin_part(reply, kind);
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(*number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::TABLE;

    #[test]
    fn every_command_with_keys_says_where_they_are() {
        let names = FOUND.iter().map(|it| it.0);
        let names = names.chain(SHARD_CHANNELS.iter().map(|it| it.0));
        for name in names {
            assert!(TABLE.find(name.as_bytes()).is_some(), "{name}");
        }
        let subcommands = TABLE.all().flat_map(CommandDefinition::subcommands);
        for command in TABLE.all().chain(subcommands) {
            let has_keys = !matches!(command.keys, CommandKeySpec::None);
            assert!(!has_keys || !places(command).is_empty(), "{}", command.name);
        }
    }
}
