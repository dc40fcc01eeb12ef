//! The load of a bench as commands of Redis, for a real server in place of objects without
//! contents.

use super::bench::{BENCHES, Type, content};
use super::load::{AdmRequest, AdmWorkload};
use super::scale::AdmScale;
use crate::error::LabError;

/// The commands of a bench: those that load all objects, and then its requests.
///
/// ```
/// use nearfield_lab::figures::{AdmCommands, AdmScale};
///
/// let scale = AdmScale { requests_per_object: 1, ..AdmScale::quick().with_keys(1000)? };
/// let mut commands = 0;
/// AdmCommands::new(&scale, 1, "hash")?.each(|words| {
///     commands += 1;
///     assert!(words.len() > 1);
///     Ok::<(), std::io::Error>(())
/// })?;
/// assert_eq!(commands, 2000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdmCommands {
    load: AdmWorkload,
}

/// The words of a command.
type CommandWords = Vec<Vec<u8>>;

impl AdmCommands {
    /// Creates the commands of a bench of the paper, on objects of one type.
    ///
    /// # Errors
    /// There is no such bench or type.
    pub fn new(scale: &AdmScale, bench: u32, kind: &str) -> Result<AdmCommands, LabError> {
        let found = BENCHES.into_iter().find(|it| it.number == bench);
        let bench = found.ok_or_else(|| LabError::OutOfRange {
            subject: "--bench",
            given: bench.to_string(),
            allowed: "1 to 5".to_owned(),
        })?;
        let is_kind = |it: &Type| it.name().eq_ignore_ascii_case(kind);
        let found = Type::ALL.into_iter().find(is_kind);
        let kind = found.ok_or_else(|| LabError::UnknownName {
            subject: "type",
            given: kind.to_owned(),
            allowed: "string, list, zset, hash",
        })?;
        let load = AdmWorkload::new(scale, bench, kind);
        Ok(AdmCommands { load })
    }

    /// Creates the commands of a load.
    pub(super) fn of(load: &AdmWorkload) -> AdmCommands {
        AdmCommands { load: load.clone() }
    }

    /// Calls `take` with the words of each command, in order.
    ///
    /// # Errors
    /// The first error of `take`, which ends the commands.
    pub fn each<E>(&self, mut take: impl FnMut(&[Vec<u8>]) -> Result<(), E>) -> Result<(), E> {
        self.each_load(self.load.order(), &mut take)?;
        self.each_request(&mut take)
    }

    /// Calls `take` with the commands that load the objects of keys, in the order of these.
    pub(super) fn each_load<E>(
        &self,
        keys: Vec<usize>,
        mut take: impl FnMut(&[Vec<u8>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let values = self.load.values();
        for key in keys {
            take(&self.load_command(key, values[key]))?;
        }
        Ok(())
    }

    /// Calls `take` with the commands of the requests, which need all objects.
    pub(super) fn each_request<E>(
        &self,
        mut take: impl FnMut(&[Vec<u8>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut values = self.load.values();
        for request in self.load.requests() {
            let words = match request {
                AdmRequest::Get(key) => self.get_command(key),
                AdmRequest::Set(key, value) => {
                    values[key] = value;
                    self.load_command(key, value)
                }
                AdmRequest::SetElement(key, fraction) => {
                    self.set_command(key, values[key], fraction)
                }
            };
            take(&words)?;
        }
        Ok(())
    }

    /// Returns the command that creates an object, or replaces a string.
    fn load_command(&self, key: usize, value: u64) -> CommandWords {
        let kind = self.load.kind;
        let name = match kind {
            Type::String => "SET",
            Type::List => "RPUSH",
            Type::Zset => "ZADD",
            Type::Hash => "HSET",
        };
        let mut words = begin(name, key);
        match kind {
            Type::String => words.push(filled(value)),
            Type::List | Type::Zset | Type::Hash => {
                let elements = 0..kind.elements(value);
                words.extend(elements.flat_map(|number| element(kind, value, number)));
            }
        }
        words
    }

    /// Returns the command that reads a whole object.
    fn get_command(&self, key: usize) -> CommandWords {
        let name = match self.load.kind {
            Type::String => "GET",
            Type::List => "LRANGE",
            Type::Zset => "ZRANGE",
            Type::Hash => "HGETALL",
        };
        let rest: &[&str] = match self.load.kind {
            Type::String | Type::Hash => &[],
            Type::List => &["0", "-1"],
            Type::Zset => &["0", "-1", "WITHSCORES"],
        };
        let mut words = begin(name, key);
        words.extend(rest.iter().map(|word| word.as_bytes().to_vec()));
        words
    }

    /// Returns the command that writes one element of an object.
    fn set_command(&self, key: usize, value: u64, fraction: f64) -> CommandWords {
        let kind = self.load.kind;
        let number = (fraction * kind.elements(value) as f64) as u64;
        let mut words = match kind {
            Type::String => begin("SET", key),
            Type::List => begin("LSET", key),
            Type::Zset => begin("ZADD", key),
            Type::Hash => begin("HSET", key),
        };
        if kind == Type::List {
            words.push(number.to_string().into_bytes());
        }
        words.extend(element(kind, value, number));
        if kind == Type::Zset {
            // Another score, because nothing is written for the same one.
            words[2] = format!("{number}.5").into_bytes();
        }
        words
    }
}

fn begin(name: &str, key: usize) -> CommandWords {
    // The names of memtier_benchmark.
    vec![name.into(), format!("memtier-{key}").into_bytes()]
}

/// Returns contents of memtier_benchmark, which are all the same letter.
fn filled(bytes: u64) -> Vec<u8> {
    vec![b'x'; bytes as usize]
}

/// Returns the words of an element of an object: its content, and a score or a field.
fn element(kind: Type, value: u64, number: u64) -> CommandWords {
    let (begin, end) = content(value, number);
    let content = filled(end - begin);
    match kind {
        Type::String | Type::List => vec![content],
        Type::Zset => {
            // Members differ from each other, so they begin with a number.
            let mut member = format!("{number:07}").into_bytes();
            member.extend(content.into_iter().skip(7));
            vec![number.to_string().into_bytes(), member]
        }
        Type::Hash => vec![format!("f{number:06}").into_bytes(), content],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn commands(kind: &str, bench: u32) -> Vec<CommandWords> {
        let scale = AdmScale {
            requests_per_object: 10,
            ..AdmScale::tiny()
        };
        let mut all = Vec::new();
        let commands = AdmCommands::new(&scale, bench, kind).unwrap();
        let taken = commands.each(|words| {
            all.push(words.to_vec());
            Ok::<(), ()>(())
        });
        assert_eq!(taken, Ok(()));
        all
    }

    fn count(all: &[CommandWords], name: &str) -> usize {
        all.iter()
            .filter(|words| words[0] == name.as_bytes())
            .count()
    }

    #[test]
    fn each_object_is_loaded_and_one_request_in_ten_is_a_set() {
        for (kind, load, get, set) in [
            ("string", "SET", "GET", "SET"),
            ("list", "RPUSH", "LRANGE", "LSET"),
            ("zset", "ZADD", "ZRANGE", "ZADD"),
            ("hash", "HSET", "HGETALL", "HSET"),
        ] {
            let all = commands(kind, 1);
            assert_eq!(all.len(), 11_000, "{kind}");
            assert!(all[..1000].iter().all(|words| words[0] == load.as_bytes()));
            assert_eq!(count(&all[1000..], get), 9000, "{kind}");
            assert_eq!(count(&all[1000..], set), 1000, "{kind}");
        }
        assert_eq!(count(&commands("string", 4), "GET"), 5000);
    }

    #[test]
    fn sets_of_elements_name_elements_that_exist() {
        let mut lengths = HashMap::new();
        for words in commands("list", 5) {
            match words[0].as_slice() {
                b"RPUSH" => {
                    let bytes: usize = words[2..].iter().map(Vec::len).sum();
                    assert!((1..=4000).contains(&bytes));
                    assert!(words[2..].iter().all(|element| element.len() <= 64));
                    lengths.insert(words[1].clone(), words.len() - 2);
                }
                b"LSET" => {
                    let index = String::from_utf8(words[2].clone()).unwrap();
                    assert!(index.parse::<usize>().unwrap() < lengths[&words[1]]);
                }
                _ => {}
            }
        }
        assert_eq!(lengths.len(), 1000);
        // Members and fields are written again, never added.
        for kind in ["zset", "hash"] {
            let mut known = HashSet::new();
            for (number, words) in commands(kind, 1).into_iter().enumerate() {
                let place = if kind == "zset" { 1 } else { 0 };
                for pair in words[2..].chunks_exact(2).filter(|_| number < 1000) {
                    known.insert((words[1].clone(), pair[place].clone()));
                }
                if number >= 1000 && words.len() == 4 {
                    let name = (words[1].clone(), words[2 + place].clone());
                    assert!(known.contains(&name), "{kind}: {words:?}");
                }
            }
        }
    }

    #[test]
    fn unknown_benches_and_types_are_refused() {
        let refused = |bench, kind| {
            let commands = AdmCommands::new(&AdmScale::tiny(), bench, kind);
            commands.map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused(6, "list").contains("--bench is 6"));
        assert!(refused(1, "stream").contains("string, list, zset, hash"));
    }
}
