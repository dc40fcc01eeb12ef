//! Commands on streams of several clients at once take effect one at a time, each between its
//! request and its reply.
//!
//! Clients send pipelines and transactions that add, read, delete, trim, deliver to a group and
//! acknowledge, on few streams and to a server with two threads. Their replies must fit some order
//! of the commands on the streams of `model`.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod client;
mod model;

use client::StreamHistoryClient;
use model::{Entry, Id, RequestedStreamId, STREAMS, StreamHistoryEffect, StreamHistoryOperation};
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::saving::saving_into;
use nearfield_testkit::history::{CallInterval, HistoryRecorder};
use nearfield_testkit::linearizability::order;
use nearfield_testkit::seeds;
use std::sync::atomic::AtomicI64;
use std::thread;

const CLIENTS: u32 = 4;
const TURNS: usize = 40;
const ROUNDS: u64 = 30;

/// Lets clients work on empty streams, and returns their effects.
fn record(server: &Nearfield, seed: u64) -> Vec<StreamHistoryOperation> {
    let mut connection = TestkitConnection::open(server.address).unwrap();
    connection.command(&[b"FLUSHALL"]).unwrap();
    for stream in 0..STREAMS {
        let key = client::key(stream);
        let create: [&[u8]; 6] = [b"XGROUP", b"CREATE", &key, b"g", b"0", b"MKSTREAM"];
        connection.command(&create).unwrap();
    }
    connection.close();
    let (recorder, values) = (HistoryRecorder::new(), AtomicI64::new(0));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let seed = seed * u64::from(CLIENTS) + u64::from(number);
                let client =
                    StreamHistoryClient::new(number, seed, server.address, &recorder, &values);
                scope.spawn(move || client.run(TURNS))
            })
            .collect();
        let histories = threads.into_iter().map(|thread| thread.join().unwrap());
        histories.flatten().collect()
    })
}

fn start(folder: &TestkitFolder) -> Nearfield {
    Nearfield::start(saving_into(folder, 2))
}

#[test]
fn commands_and_transactions_on_streams_take_effect_one_at_a_time() {
    let folder = TestkitFolder::new();
    let server = start(&folder);
    let mut names = std::collections::BTreeSet::new();
    seeds::each(ROUNDS, |seed| {
        let history = record(&server, seed);
        names.extend(history.iter().flat_map(StreamHistoryOperation::names));
        order(history).unwrap_or_else(|dead_end| panic!("round {seed}: {dead_end}"));
    });
    let all = [
        "acknowledged",
        "added",
        "deleted",
        "delivered",
        "listed",
        "measured",
        "newest",
        "refused",
        "trimmed",
    ];
    // A single seed may lack one.
    if std::env::var_os("NEARFIELD_SEED").is_none() {
        assert_eq!(names.into_iter().collect::<Vec<_>>(), all);
    }
}

/// Changes the recorded effect of one command in a real history, which must be noticed.
fn is_noticed(name: &str, change: impl Fn(&mut StreamHistoryEffect) -> bool) {
    let folder = TestkitFolder::new();
    let mut history = record(&start(&folder), ROUNDS);
    let mut steps = history.iter_mut().flat_map(|done| &mut done.steps);
    assert!(
        steps.any(|(_, did)| change(did)),
        "nothing to change: {name}"
    );
    assert!(order(history).is_err(), "{name}");
}

#[test]
fn a_reply_that_was_changed_is_noticed() {
    is_noticed("an entry that no client has added", |did| match did {
        StreamHistoryEffect::Listed { found, .. } if !found.is_empty() => {
            found[0].1 = -1;
            true
        }
        _ => false,
    });
    is_noticed("a delivery of the same entry twice", |did| match did {
        StreamHistoryEffect::Delivered { found, count } if !found.is_empty() => {
            found.push(found[0]);
            *count = found.len();
            true
        }
        _ => false,
    });
    is_noticed(
        "an acknowledgement of an entry that was acknowledged",
        |did| match did {
            StreamHistoryEffect::Acknowledged(ids, count) if *count > 0 => {
                *count = ids.len() as i64 + 1;
                true
            }
            _ => false,
        },
    );
}

fn done(client: u32, ticks: (u64, u64), did: StreamHistoryEffect) -> StreamHistoryOperation {
    StreamHistoryOperation {
        client,
        interval: CallInterval {
            invoked: ticks.0,
            returned: ticks.1,
        },
        steps: vec![(0, did)],
    }
}

fn added(id: Id, value: i64) -> StreamHistoryEffect {
    StreamHistoryEffect::Added {
        asked: RequestedStreamId::Next,
        value,
        keep: None,
        id: Some(id),
    }
}

fn delivered(found: &[Entry]) -> StreamHistoryEffect {
    StreamHistoryEffect::Delivered {
        count: 9,
        found: found.to_vec(),
    }
}

#[test]
fn ids_that_do_not_increase_are_noticed() {
    let adds = |first, second| {
        order(vec![
            done(0, (0, 1), added(first, 1)),
            done(1, (2, 3), added(second, 2)),
        ])
    };
    assert!(adds((5, 0), (5, 1)).is_ok());
    assert!(adds((5, 0), (6, 0)).is_ok());
    for second in [(5, 0), (5, 2), (4, 0), (6, 1)] {
        assert!(adds((5, 0), second).is_err(), "{second:?}");
    }
    let refused = |id| StreamHistoryEffect::Added {
        asked: RequestedStreamId::Id(id),
        value: 2,
        keep: None,
        id: None,
    };
    let add = done(0, (0, 1), added((5, 0), 1));
    assert!(order(vec![add.clone(), done(1, (2, 3), refused((5, 0)))]).is_ok());
    assert!(order(vec![add, done(1, (2, 3), refused((5, 1)))]).is_err());
}

#[test]
fn a_read_that_lacks_an_entry_is_noticed() {
    let listed = |found: &[Entry]| StreamHistoryEffect::Listed {
        after: (0, 0),
        count: 9,
        found: found.to_vec(),
    };
    let add = |ticks| done(0, ticks, added((5, 0), 1));
    assert!(order(vec![add((0, 1)), done(1, (2, 3), listed(&[((5, 0), 1)]))]).is_ok());
    assert!(order(vec![add((0, 1)), done(1, (2, 3), listed(&[]))]).is_err());
    // It may come before an add that is still in progress.
    assert!(order(vec![add((0, 4)), done(1, (2, 3), listed(&[]))]).is_ok());
}

#[test]
fn a_delivery_to_two_consumers_is_noticed() {
    let entry = ((5, 0), 1);
    let add = done(0, (0, 1), added(entry.0, entry.1));
    let to = |client, found: &[Entry]| done(client, (2, 9), delivered(found));
    assert!(order(vec![add.clone(), to(1, &[entry]), to(2, &[])]).is_ok());
    assert!(order(vec![add.clone(), to(1, &[entry]), to(2, &[entry])]).is_err());
    assert!(order(vec![add, to(1, &[]), to(2, &[])]).is_err());
}

#[test]
fn an_acknowledgement_that_counts_twice_is_noticed() {
    let entry = ((5, 0), 1);
    let history = |second| {
        let acknowledged = |count| StreamHistoryEffect::Acknowledged(vec![entry.0], count);
        vec![
            done(0, (0, 1), added(entry.0, entry.1)),
            done(0, (2, 3), delivered(&[entry])),
            done(1, (4, 9), acknowledged(1)),
            done(2, (4, 9), acknowledged(second)),
        ]
    };
    assert!(order(history(0)).is_ok());
    assert!(order(history(1)).is_err());
}

#[test]
fn a_trim_that_leaves_too_many_is_noticed() {
    let history = |removed| {
        vec![
            done(0, (0, 1), added((5, 0), 1)),
            done(0, (2, 3), added((5, 1), 2)),
            done(0, (4, 5), StreamHistoryEffect::Trimmed(1, removed)),
            done(0, (6, 7), StreamHistoryEffect::Measured(1)),
        ]
    };
    assert!(order(history(1)).is_ok());
    assert!(order(history(0)).is_err());
}
