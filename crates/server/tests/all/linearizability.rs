//! Commands and transactions of several clients at once take effect one at a time, each between its
//! request and its reply.
//!
//! Clients send pipelines of commands on single keys, transactions, and transactions that watch a
//! key, on few keys and to a server with two threads. Their replies must fit some order, which the
//! checker of nearfield-testkit searches for.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::command;
use nearfield_server::config::Options;
use nearfield_server_testkit::connection::{Connection, encode};
use nearfield_server_testkit::folder::Folder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::Value;
use nearfield_server_testkit::saving::saving_into;
use nearfield_server_testkit::stir::{Stirred, small_tiers, stir};
use nearfield_testkit::history::{Interval, Recorder};
use nearfield_testkit::linearizability::{Operation, order};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

const KEYS: usize = 3;
const CLIENTS: u32 = 4;
const TURNS: usize = 60;
const ROUNDS: u64 = 40;
/// Largest number of repetitions of the check with moving values, until enough values have moved.
const CHECKS_MAX: u64 = 20;

/// The effects of commands that took effect together.
#[derive(Clone, Debug)]
struct Done {
    client: u32,
    interval: Interval,
    steps: Vec<(usize, Did)>,
}

/// The effect of a command on a key, as far as its reply shows it.
#[derive(Clone, Copy, Debug)]
enum Did {
    Read(Option<i64>),
    Set(i64),
    RaisedTo(i64),
    Deleted(bool),
    Found(bool),
    /// Setting of the second value if the key was there; the first is the value before.
    Replaced(Option<i64>, i64),
    /// The number of all keys that exist.
    Counted(i64),
    DeletedAll,
}

impl Operation for Done {
    type State = [Option<i64>; KEYS];

    fn session(&self) -> u32 {
        self.client
    }

    fn interval(&self) -> Interval {
        self.interval
    }

    fn after(&self, state: &Self::State) -> Option<Self::State> {
        let mut after = *state;
        for &(key, did) in &self.steps {
            let met = after[key];
            after[key] = match did {
                Did::Read(read) => (read == met).then_some(met)?,
                Did::Set(value) => Some(value),
                Did::RaisedTo(value) => (value == met.unwrap_or(0) + 1).then_some(Some(value))?,
                Did::Deleted(deleted) => (deleted == met.is_some()).then_some(None)?,
                Did::Found(found) => (found == met.is_some()).then_some(met)?,
                Did::Replaced(before, value) => (before == met).then_some(before.map(|_| value))?,
                Did::Counted(count) => {
                    let present = after.iter().flatten().count() as i64;
                    (present == count).then_some(met)?
                }
                Did::DeletedAll => None,
            };
        }
        Some(after)
    }

    fn is_read(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.all(|(_, did)| {
            matches!(
                did,
                Did::Read(_) | Did::Deleted(false) | Did::Found(_) | Did::Replaced(None, _)
            )
        })
    }
}

impl Display for Done {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Interval { invoked, returned } = self.interval;
        write!(formatter, "[{invoked}, {returned}] client {}:", self.client)?;
        let mut steps = self.steps.iter();
        steps.try_for_each(|(key, did)| write!(formatter, " key{key} {did:?}"))
    }
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Get,
    Set(i64),
    /// Sets only a present key; replies with the value before.
    SetPresent(i64),
    Incr,
    Del,
    Exists,
    /// Commands on all keys at once, as the next three.
    Mget,
    Mset(i64),
    DelAll,
}

impl Command {
    fn append_to(self, request: &mut Vec<u8>, key: usize) {
        let name = |key: usize| format!("key{key}").into_bytes();
        let all: Vec<Vec<u8>> = (0..KEYS).map(name).collect();
        let key = name(key);
        match self {
            Command::Get => encode(request, &[b"GET", &key]),
            Command::Set(value) => encode(request, &[b"SET", &key, value.to_string().as_bytes()]),
            Command::SetPresent(value) => {
                let value = value.to_string();
                encode(request, &[b"SET", &key, value.as_bytes(), b"XX", b"GET"]);
            }
            Command::Incr => encode(request, &[b"INCR", &key]),
            Command::Del => encode(request, &[b"DEL", &key]),
            Command::Exists => encode(request, &[b"EXISTS", &key]),
            Command::Mget => encode(request, &with_name(b"MGET", &all)),
            Command::DelAll => encode(request, &with_name(b"DEL", &all)),
            Command::Mset(value) => {
                let value = value.to_string().into_bytes();
                let pairs: Vec<Vec<u8>> = all
                    .into_iter()
                    .flat_map(|key| [key, value.clone()])
                    .collect();
                encode(request, &with_name(b"MSET", &pairs));
            }
        }
    }

    /// Returns the effects on keys.
    fn did(self, key: usize, reply: &Value) -> Vec<(usize, Did)> {
        let did = match (self, reply) {
            (Command::Get, value) => Did::Read(number(value)),
            (Command::Set(value), Value::Simple(_)) => Did::Set(value),
            (Command::SetPresent(value), before) => Did::Replaced(number(before), value),
            (Command::Incr, &Value::Integer(value)) => Did::RaisedTo(value),
            (Command::Del, &Value::Integer(count)) => Did::Deleted(count == 1),
            (Command::Exists, &Value::Integer(count)) => Did::Found(count == 1),
            (Command::Mget, Value::Array(values)) => {
                let reads = values.iter().map(|value| Did::Read(number(value)));
                return reads.enumerate().collect();
            }
            (Command::Mset(value), Value::Simple(_)) => {
                return (0..KEYS).map(|key| (key, Did::Set(value))).collect();
            }
            (Command::DelAll, &Value::Integer(count)) => {
                let deleted = (0..KEYS).map(|key| (key, Did::DeletedAll));
                return std::iter::once((0, Did::Counted(count)))
                    .chain(deleted)
                    .collect();
            }
            _ => panic!("{self:?} is answered {reply}"),
        };
        vec![(key, did)]
    }
}

fn with_name<'w>(name: &'w [u8], words: &'w [Vec<u8>]) -> Vec<&'w [u8]> {
    let words = words.iter().map(Vec::as_slice);
    std::iter::once(name).chain(words).collect()
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::NullBulk => None,
        Value::Bulk(text) => Some(std::str::from_utf8(text).unwrap().parse().unwrap()),
        other => panic!("no value: {other}"),
    }
}

/// The kinds of requests that clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Pipelines, transactions, and transactions that watch a key. While a key is watched, commands
    /// are executed one by one.
    All,
    /// Only pipelines. Their commands become batches.
    Pipelines,
}

struct Client<'r> {
    number: u32,
    load: Load,
    random: SmallRng,
    connection: Connection,
    recorder: &'r Recorder,
    /// The source of values that differ, and still do when they are incremented.
    values: &'r AtomicI64,
    done: Vec<Done>,
    has_incr: bool,
}

impl Client<'_> {
    fn run(mut self) -> Vec<Done> {
        for _ in 0..TURNS {
            match self.random.random_range(0..10) {
                _ if self.load == Load::Pipelines => self.pipeline(),
                0..6 => self.pipeline(),
                6..8 => self.transaction(None),
                _ => self.watched_transaction(),
            }
        }
        self.done
    }

    fn command(&mut self) -> (usize, Command) {
        let key = self.random.random_range(0..KEYS);
        let value = || self.values.fetch_add(1_000_000, Ordering::Relaxed);
        let command = match self.random.random_range(0..16) {
            0..4 => Command::Get,
            4..7 if self.has_incr => Command::Incr,
            9 => Command::Del,
            10 => Command::Exists,
            11 => Command::SetPresent(value()),
            12..14 => Command::Mget,
            14 => Command::Mset(value()),
            15 => Command::DelAll,
            _ => Command::Set(value()),
        };
        (key, command)
    }

    fn commands(&mut self) -> Vec<(usize, Command)> {
        let count = self.random.random_range(1..=4);
        (0..count).map(|_| self.command()).collect()
    }

    /// Sends requests at once and reads `replies` replies.
    fn exchange(&mut self, request: &[u8], replies: usize) -> (Interval, Vec<Value>) {
        let connection = &mut self.connection;
        self.recorder
            .call(|| connection.exchange(request, replies).unwrap())
    }

    fn pipeline(&mut self) {
        let commands = self.commands();
        let mut request = Vec::new();
        for (key, command) in &commands {
            command.append_to(&mut request, *key);
        }
        let (interval, replies) = self.exchange(&request, commands.len());
        for ((key, command), reply) in commands.iter().zip(&replies) {
            self.done.push(Done {
                client: self.number,
                interval,
                steps: command.did(*key, reply),
            });
        }
    }

    /// Executes commands in a transaction. A value that was read before, of a key that is watched,
    /// must still be there.
    fn transaction(&mut self, watched: Option<(usize, Did)>) {
        let commands = self.commands();
        let mut request = Vec::new();
        encode(&mut request, &[b"MULTI"]);
        for (key, command) in &commands {
            command.append_to(&mut request, *key);
        }
        encode(&mut request, &[b"EXEC"]);
        let (interval, replies) = self.exchange(&request, commands.len() + 2);
        match replies.last() {
            Some(Value::NullArray) if watched.is_some() => {}
            Some(Value::Array(replies)) => {
                assert_eq!(replies.len(), commands.len());
                let steps = commands.iter().zip(replies);
                let steps = steps.flat_map(|((key, command), reply)| command.did(*key, reply));
                self.done.push(Done {
                    client: self.number,
                    interval,
                    steps: watched.into_iter().chain(steps).collect(),
                });
            }
            other => panic!("EXEC is answered {other:?}"),
        }
    }

    fn watched_transaction(&mut self) {
        let key = self.random.random_range(0..KEYS);
        let mut request = Vec::new();
        encode(&mut request, &[b"WATCH", format!("key{key}").as_bytes()]);
        Command::Get.append_to(&mut request, key);
        let (interval, replies) = self.exchange(&request, 2);
        let read = Command::Get.did(key, &replies[1])[0];
        self.done.push(Done {
            client: self.number,
            interval,
            steps: vec![read],
        });
        self.transaction(Some(read));
    }
}

/// Lets clients work on the empty server, and returns their effects.
fn record(server: &Nearfield, load: Load, seed: u64) -> Vec<Done> {
    let mut connection = Connection::open(server.address).unwrap();
    connection.command(&[b"FLUSHALL"]).unwrap();
    connection.close();
    let (recorder, values) = (Recorder::new(), AtomicI64::new(1_000_000));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| Client {
                number,
                load,
                random: SmallRng::seed_from_u64(seed * u64::from(CLIENTS) + u64::from(number)),
                connection: Connection::open(server.address).unwrap(),
                recorder: &recorder,
                values: &values,
                done: Vec::new(),
                has_incr: command::find(b"incr").is_some(),
            })
            .collect();
        let threads: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(|| client.run()))
            .collect();
        let histories = threads.into_iter().map(|thread| thread.join().unwrap());
        histories.flatten().collect()
    })
}

#[test]
fn commands_and_transactions_take_effect_one_at_a_time() {
    let folder = Folder::new();
    let server = Nearfield::start(saving_into(&folder, 2));
    check_rounds(&server, Load::All, ROUNDS);
}

/// Commands of a pipeline take effect in their order, also where their keys differ and they are
/// executed as one batch.
#[test]
fn commands_and_pipelines_take_effect_in_order() {
    let folder = Folder::new();
    let server = Nearfield::start(saving_into(&folder, 2));
    check_rounds(&server, Load::Pipelines, ROUNDS);
}

#[test]
fn commands_take_effect_one_at_a_time_while_values_move_between_tiers() {
    let folder = Folder::new();
    let server = Nearfield::start(Options {
        tiers: Some(small_tiers(&folder.0.join("tiers"))),
        ..saving_into(&folder, 2)
    });
    let (stop, moved) = (AtomicBool::new(false), Stirred::default());
    thread::scope(|scope| {
        scope.spawn(|| stir(&server.server.keyspace, &stop, &moved));
        // Few values move during one check if other processes keep the machine busy.
        for _ in 0..CHECKS_MAX {
            check_rounds(&server, Load::All, ROUNDS / 2);
            if moved.values.load(Ordering::Relaxed) > 100 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let moved = moved.values.into_inner();
    assert!(moved > 100, "{moved} moves");
}

fn check_rounds(server: &Nearfield, load: Load, rounds: u64) {
    seeds::each(rounds, |seed| {
        let history = record(server, load, seed);
        assert!(history.len() >= CLIENTS as usize * TURNS / 2);
        if let Err(dead_end) = order(history) {
            let shown = |all: &[Done]| {
                all.iter()
                    .map(|done| format!("  {done}\n"))
                    .collect::<String>()
            };
            panic!(
                "round {seed}: no order of the commands explains the replies; after\n{}the values \
                 are {:?}, and none of these can be next:\n{}",
                shown(&dead_end.before),
                dead_end.state,
                shown(&dead_end.stuck)
            );
        }
    });
}

#[test]
fn a_reply_that_was_changed_is_noticed() {
    let folder = Folder::new();
    let server = Nearfield::start(saving_into(&folder, 2));
    let mut history = record(&server, Load::All, ROUNDS);
    let steps = history.iter_mut().flat_map(|done| &mut done.steps);
    let reads = steps.filter_map(|(_, did)| match did {
        Did::Read(Some(value)) => Some(value),
        _ => None,
    });
    // No client has set this value.
    *reads.last().unwrap() += 500_000;
    assert!(order(history).is_err());
}

fn done(client: u32, ticks: (u64, u64), steps: &[(usize, Did)]) -> Done {
    Done {
        client,
        interval: Interval {
            invoked: ticks.0,
            returned: ticks.1,
        },
        steps: steps.to_vec(),
    }
}

#[test]
fn half_a_transaction_is_noticed() {
    let writer = done(0, (0, 9), &[(0, Did::Set(1)), (1, Did::Set(1))]);
    let (new, old) = ((0, Did::Read(Some(1))), (1, Did::Read(None)));
    let whole = done(1, (1, 8), &[new, (1, Did::Read(Some(1)))]);
    assert!(order(vec![writer.clone(), whole]).is_ok());
    assert!(order(vec![writer.clone(), done(1, (1, 8), &[new, old])]).is_err());
    // Two commands one after the other may not see this either.
    let apart = [done(1, (1, 2), &[new]), done(1, (3, 4), &[old])];
    assert!(order([&[writer][..], &apart].concat()).is_err());
}

#[test]
fn a_count_of_other_keys_than_there_are_is_noticed() {
    let write = done(0, (0, 1), &[(0, Did::Set(1)), (1, Did::Set(1))]);
    let deleted = |count| {
        let keys = [(0, Did::DeletedAll), (1, Did::DeletedAll)];
        done(
            1,
            (2, 3),
            &[&[(0, Did::Counted(count))][..], &keys].concat(),
        )
    };
    assert!(order(vec![write.clone(), deleted(2)]).is_ok());
    assert!(order(vec![write, deleted(1)]).is_err());
}

#[test]
fn a_lost_increment_is_noticed() {
    let raised = |client, to| done(client, (0, 9), &[(0, Did::RaisedTo(to))]);
    assert!(order(vec![raised(0, 2), raised(1, 1)]).is_ok());
    assert!(order(vec![raised(0, 1), raised(1, 1)]).is_err());
}

#[test]
fn a_late_read_of_an_old_value_is_noticed() {
    let write = done(0, (0, 1), &[(0, Did::Set(1))]);
    let read = |ticks, value| done(1, ticks, &[(0, Did::Read(value))]);
    assert!(order(vec![write.clone(), read((2, 3), Some(1))]).is_ok());
    assert!(order(vec![write, read((2, 3), None)]).is_err());
}
