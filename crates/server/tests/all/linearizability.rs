//! Commands and transactions of several clients at once take effect one at a time, each between its
//! request and its reply.
//!
//! Clients send pipelines of commands on single keys, transactions, and transactions that watch a
//! key, on few keys and to a server with two threads. Their replies must fit some order, which the
//! checker of nearfield-testkit searches for.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use nearfield_server_testkit::stir::{TierMoveCounts, small_tiers, stir};
use nearfield_testkit::history::{CallInterval, HistoryRecorder};
use nearfield_testkit::linearizability::{LinearizableOperation, order};
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
struct HistoryOperation {
    client: u32,
    interval: CallInterval,
    steps: Vec<(usize, HistoryEffect)>,
}

/// The effect of a command on a key, as far as its reply shows it.
#[derive(Clone, Copy, Debug)]
enum HistoryEffect {
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

impl LinearizableOperation for HistoryOperation {
    type State = [Option<i64>; KEYS];

    fn session(&self) -> u32 {
        self.client
    }

    fn interval(&self) -> CallInterval {
        self.interval
    }

    fn after(&self, state: &Self::State) -> Option<Self::State> {
        let mut after = *state;
        for &(key, did) in &self.steps {
            let met = after[key];
            after[key] = match did {
                HistoryEffect::Read(read) => (read == met).then_some(met)?,
                HistoryEffect::Set(value) => Some(value),
                HistoryEffect::RaisedTo(value) => {
                    (value == met.unwrap_or(0) + 1).then_some(Some(value))?
                }
                HistoryEffect::Deleted(deleted) => (deleted == met.is_some()).then_some(None)?,
                HistoryEffect::Found(found) => (found == met.is_some()).then_some(met)?,
                HistoryEffect::Replaced(before, value) => {
                    (before == met).then_some(before.map(|_| value))?
                }
                HistoryEffect::Counted(count) => {
                    let present = after.iter().flatten().count() as i64;
                    (present == count).then_some(met)?
                }
                HistoryEffect::DeletedAll => None,
            };
        }
        Some(after)
    }

    fn is_read(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.all(|(_, did)| {
            matches!(
                did,
                HistoryEffect::Read(_)
                    | HistoryEffect::Deleted(false)
                    | HistoryEffect::Found(_)
                    | HistoryEffect::Replaced(None, _)
            )
        })
    }
}

impl Display for HistoryOperation {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let CallInterval { invoked, returned } = self.interval;
        write!(formatter, "[{invoked}, {returned}] client {}:", self.client)?;
        let mut steps = self.steps.iter();
        steps.try_for_each(|(key, did)| write!(formatter, " key{key} {did:?}"))
    }
}

#[derive(Clone, Copy, Debug)]
enum HistoryCommand {
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

impl HistoryCommand {
    fn append_to(self, request: &mut Vec<u8>, key: usize) {
        let name = |key: usize| format!("key{key}").into_bytes();
        let all: Vec<Vec<u8>> = (0..KEYS).map(name).collect();
        let key = name(key);
        match self {
            HistoryCommand::Get => encode(request, &[b"GET", &key]),
            HistoryCommand::Set(value) => {
                encode(request, &[b"SET", &key, value.to_string().as_bytes()])
            }
            HistoryCommand::SetPresent(value) => {
                let value = value.to_string();
                encode(request, &[b"SET", &key, value.as_bytes(), b"XX", b"GET"]);
            }
            HistoryCommand::Incr => encode(request, &[b"INCR", &key]),
            HistoryCommand::Del => encode(request, &[b"DEL", &key]),
            HistoryCommand::Exists => encode(request, &[b"EXISTS", &key]),
            HistoryCommand::Mget => encode(request, &with_name(b"MGET", &all)),
            HistoryCommand::DelAll => encode(request, &with_name(b"DEL", &all)),
            HistoryCommand::Mset(value) => {
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
    fn did(self, key: usize, reply: &RespReplyValue) -> Vec<(usize, HistoryEffect)> {
        let did = match (self, reply) {
            (HistoryCommand::Get, value) => HistoryEffect::Read(number(value)),
            (HistoryCommand::Set(value), RespReplyValue::Simple(_)) => HistoryEffect::Set(value),
            (HistoryCommand::SetPresent(value), before) => {
                HistoryEffect::Replaced(number(before), value)
            }
            (HistoryCommand::Incr, &RespReplyValue::Integer(value)) => {
                HistoryEffect::RaisedTo(value)
            }
            (HistoryCommand::Del, &RespReplyValue::Integer(count)) => {
                HistoryEffect::Deleted(count == 1)
            }
            (HistoryCommand::Exists, &RespReplyValue::Integer(count)) => {
                HistoryEffect::Found(count == 1)
            }
            (HistoryCommand::Mget, RespReplyValue::Array(values)) => {
                let reads = values
                    .iter()
                    .map(|value| HistoryEffect::Read(number(value)));
                return reads.enumerate().collect();
            }
            (HistoryCommand::Mset(value), RespReplyValue::Simple(_)) => {
                return (0..KEYS)
                    .map(|key| (key, HistoryEffect::Set(value)))
                    .collect();
            }
            (HistoryCommand::DelAll, &RespReplyValue::Integer(count)) => {
                let deleted = (0..KEYS).map(|key| (key, HistoryEffect::DeletedAll));
                return std::iter::once((0, HistoryEffect::Counted(count)))
                    .chain(deleted)
                    .collect();
            }
            _ => panic!("{self:?} received the reply {reply}"),
        };
        vec![(key, did)]
    }
}

fn with_name<'w>(name: &'w [u8], words: &'w [Vec<u8>]) -> Vec<&'w [u8]> {
    let words = words.iter().map(Vec::as_slice);
    std::iter::once(name).chain(words).collect()
}

pub(super) fn number(value: &RespReplyValue) -> Option<i64> {
    match value {
        RespReplyValue::NullBulk => None,
        RespReplyValue::Bulk(text) => Some(std::str::from_utf8(text).unwrap().parse().unwrap()),
        other => panic!("no value: {other}"),
    }
}

/// The kinds of requests that clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HistoryLoad {
    /// Pipelines, transactions, and transactions that watch a key. While a key is watched, commands
    /// are executed one by one.
    All,
    /// Only pipelines. Their commands become batches.
    Pipelines,
}

struct HistoryClient<'r> {
    number: u32,
    load: HistoryLoad,
    random: SmallRng,
    connection: TestkitConnection,
    recorder: &'r HistoryRecorder,
    /// The source of values that differ, and still do when they are incremented.
    values: &'r AtomicI64,
    done: Vec<HistoryOperation>,
    has_incr: bool,
}

impl HistoryClient<'_> {
    fn run(mut self) -> Vec<HistoryOperation> {
        for _ in 0..TURNS {
            match self.random.random_range(0..10) {
                _ if self.load == HistoryLoad::Pipelines => self.pipeline(),
                0..6 => self.pipeline(),
                6..8 => self.transaction(None),
                _ => self.watched_transaction(),
            }
        }
        self.done
    }

    fn command(&mut self) -> (usize, HistoryCommand) {
        let key = self.random.random_range(0..KEYS);
        let value = || self.values.fetch_add(1_000_000, Ordering::Relaxed);
        let command = match self.random.random_range(0..16) {
            0..4 => HistoryCommand::Get,
            4..7 if self.has_incr => HistoryCommand::Incr,
            9 => HistoryCommand::Del,
            10 => HistoryCommand::Exists,
            11 => HistoryCommand::SetPresent(value()),
            12..14 => HistoryCommand::Mget,
            14 => HistoryCommand::Mset(value()),
            15 => HistoryCommand::DelAll,
            _ => HistoryCommand::Set(value()),
        };
        (key, command)
    }

    fn commands(&mut self) -> Vec<(usize, HistoryCommand)> {
        let count = self.random.random_range(1..=4);
        (0..count).map(|_| self.command()).collect()
    }

    /// Sends requests at once and reads `replies` replies.
    fn exchange(&mut self, request: &[u8], replies: usize) -> (CallInterval, Vec<RespReplyValue>) {
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
            self.done.push(HistoryOperation {
                client: self.number,
                interval,
                steps: command.did(*key, reply),
            });
        }
    }

    /// Executes commands in a transaction. A value that was read before, of a key that is watched,
    /// must still be there.
    fn transaction(&mut self, watched: Option<(usize, HistoryEffect)>) {
        let commands = self.commands();
        let mut request = Vec::new();
        encode(&mut request, &[b"MULTI"]);
        for (key, command) in &commands {
            command.append_to(&mut request, *key);
        }
        encode(&mut request, &[b"EXEC"]);
        let (interval, replies) = self.exchange(&request, commands.len() + 2);
        match replies.last() {
            Some(RespReplyValue::NullArray) if watched.is_some() => {}
            Some(RespReplyValue::Array(replies)) => {
                assert_eq!(replies.len(), commands.len());
                let steps = commands.iter().zip(replies);
                let steps = steps.flat_map(|((key, command), reply)| command.did(*key, reply));
                self.done.push(HistoryOperation {
                    client: self.number,
                    interval,
                    steps: watched.into_iter().chain(steps).collect(),
                });
            }
            other => panic!("EXEC received the reply {other:?}"),
        }
    }

    fn watched_transaction(&mut self) {
        let key = self.random.random_range(0..KEYS);
        let mut request = Vec::new();
        encode(&mut request, &[b"WATCH", format!("key{key}").as_bytes()]);
        HistoryCommand::Get.append_to(&mut request, key);
        let (interval, replies) = self.exchange(&request, 2);
        let read = HistoryCommand::Get.did(key, &replies[1])[0];
        self.done.push(HistoryOperation {
            client: self.number,
            interval,
            steps: vec![read],
        });
        self.transaction(Some(read));
    }
}

/// Lets clients work on the empty server, and returns their effects.
fn record(server: &Nearfield, load: HistoryLoad, seed: u64) -> Vec<HistoryOperation> {
    let mut connection = TestkitConnection::open(server.address).unwrap();
    connection.command(&[b"FLUSHALL"]).unwrap();
    connection.close();
    let (recorder, values) = (HistoryRecorder::new(), AtomicI64::new(1_000_000));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| HistoryClient {
                number,
                load,
                random: SmallRng::seed_from_u64(seed * u64::from(CLIENTS) + u64::from(number)),
                connection: TestkitConnection::open(server.address).unwrap(),
                recorder: &recorder,
                values: &values,
                done: Vec::new(),
                has_incr: TABLE.find(b"incr").is_some(),
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
    let folder = TestkitFolder::new();
    let server = Nearfield::start(saving_into(&folder, 2));
    check_rounds(&server, HistoryLoad::All, ROUNDS);
}

/// Commands of a pipeline take effect in their order, also where their keys differ and they are
/// executed as one batch.
#[test]
fn commands_and_pipelines_take_effect_in_order() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(saving_into(&folder, 2));
    check_rounds(&server, HistoryLoad::Pipelines, ROUNDS);
}

#[test]
fn commands_take_effect_one_at_a_time_while_values_move_between_tiers() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(ServerOptions {
        tiers: Some(small_tiers(&folder.0.join("tiers"))),
        ..saving_into(&folder, 2)
    });
    let (stop, moved) = (AtomicBool::new(false), TierMoveCounts::default());
    thread::scope(|scope| {
        scope.spawn(|| stir(&server.server.keyspace, &stop, &moved));
        // Few values move during one check if other processes keep the machine busy.
        for _ in 0..CHECKS_MAX {
            check_rounds(&server, HistoryLoad::All, ROUNDS / 2);
            if moved.values.load(Ordering::Relaxed) > 100 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let moved = moved.values.into_inner();
    assert!(moved > 100, "{moved} moves");
}

fn check_rounds(server: &Nearfield, load: HistoryLoad, rounds: u64) {
    seeds::each(rounds, |seed| {
        let history = record(server, load, seed);
        assert!(history.len() >= CLIENTS as usize * TURNS / 2);
        order(history).unwrap_or_else(|dead_end| panic!("round {seed}: {dead_end}"));
    });
}

#[test]
fn a_reply_that_was_changed_is_noticed() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(saving_into(&folder, 2));
    let mut history = record(&server, HistoryLoad::All, ROUNDS);
    let steps = history.iter_mut().flat_map(|done| &mut done.steps);
    let reads = steps.filter_map(|(_, did)| match did {
        HistoryEffect::Read(Some(value)) => Some(value),
        _ => None,
    });
    // No client has set this value.
    *reads.last().unwrap() += 500_000;
    assert!(order(history).is_err());
}

fn done(client: u32, ticks: (u64, u64), steps: &[(usize, HistoryEffect)]) -> HistoryOperation {
    HistoryOperation {
        client,
        interval: CallInterval {
            invoked: ticks.0,
            returned: ticks.1,
        },
        steps: steps.to_vec(),
    }
}

#[test]
fn half_a_transaction_is_noticed() {
    let writer = done(
        0,
        (0, 9),
        &[(0, HistoryEffect::Set(1)), (1, HistoryEffect::Set(1))],
    );
    let (new, old) = (
        (0, HistoryEffect::Read(Some(1))),
        (1, HistoryEffect::Read(None)),
    );
    let whole = done(1, (1, 8), &[new, (1, HistoryEffect::Read(Some(1)))]);
    assert!(order(vec![writer.clone(), whole]).is_ok());
    assert!(order(vec![writer.clone(), done(1, (1, 8), &[new, old])]).is_err());
    // Two commands one after the other may not see this either.
    let apart = [done(1, (1, 2), &[new]), done(1, (3, 4), &[old])];
    assert!(order([&[writer][..], &apart].concat()).is_err());
}

#[test]
fn a_count_of_other_keys_than_there_are_is_noticed() {
    let write = done(
        0,
        (0, 1),
        &[(0, HistoryEffect::Set(1)), (1, HistoryEffect::Set(1))],
    );
    let deleted = |count| {
        let keys = [
            (0, HistoryEffect::DeletedAll),
            (1, HistoryEffect::DeletedAll),
        ];
        done(
            1,
            (2, 3),
            &[&[(0, HistoryEffect::Counted(count))][..], &keys].concat(),
        )
    };
    assert!(order(vec![write.clone(), deleted(2)]).is_ok());
    assert!(order(vec![write, deleted(1)]).is_err());
}

#[test]
fn a_lost_increment_is_noticed() {
    let raised = |client, to| done(client, (0, 9), &[(0, HistoryEffect::RaisedTo(to))]);
    assert!(order(vec![raised(0, 2), raised(1, 1)]).is_ok());
    assert!(order(vec![raised(0, 1), raised(1, 1)]).is_err());
}

#[test]
fn a_late_read_of_an_old_value_is_noticed() {
    let write = done(0, (0, 1), &[(0, HistoryEffect::Set(1))]);
    let read = |ticks, value| done(1, ticks, &[(0, HistoryEffect::Read(value))]);
    assert!(order(vec![write.clone(), read((2, 3), Some(1))]).is_ok());
    assert!(order(vec![write, read((2, 3), None)]).is_err());
}
