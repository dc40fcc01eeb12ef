//! The order in which clients of other threads see the commands of a pipeline.
//!
//! Each test has two clients that know which values the other one can have read, and that work at
//! the same time on a server with two threads.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server_testkit::connection::{TestkitConnection, encode_lines};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use std::sync::Barrier;
use std::thread;

const TURNS: usize = 5000;

/// Sends commands, each a line, at once, and reads their replies as numbers; an absent key counts
/// as 0.
fn exchange(connection: &mut TestkitConnection, lines: &[String]) -> Vec<usize> {
    let request = encode_lines(lines);
    connection.send(&request).unwrap();
    let number = |value: &RespReplyValue| match value {
        RespReplyValue::Integer(number) => usize::try_from(*number).unwrap(),
        RespReplyValue::Bulk(text) => std::str::from_utf8(text).unwrap().parse().unwrap(),
        _ => 0,
    };
    let replies = lines.iter().map(|_| connection.receive().unwrap());
    replies.map(|reply| number(&reply)).collect()
}

fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
    lines.map(str::to_owned).to_vec()
}

/// Lets two clients take turns at the same time, each with a pipeline made from the number of the
/// turn, from 1 on. Returns the replies to each.
fn both(
    first: impl Fn(usize) -> Vec<String> + Sync,
    second: impl Fn(usize) -> Vec<String> + Sync,
) -> [Vec<Vec<usize>>; 2] {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(saving_into(&folder, 2));
    let start = Barrier::new(2);
    let run = |pipeline: &dyn Fn(usize) -> Vec<String>| {
        let mut connection = TestkitConnection::open(server.address).unwrap();
        start.wait();
        let turns = (1..=TURNS).map(|turn| exchange(&mut connection, &pipeline(turn)));
        turns.collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let one = scope.spawn(|| run(&first));
        let other = scope.spawn(|| run(&second));
        [one.join().unwrap(), other.join().unwrap()]
    })
}

#[test]
fn the_last_write_is_seen_after_the_first() {
    // The keys repeat, so that sorting the batch by key would pay off.
    let write = |turn| {
        let data = format!("SET data {turn}");
        let announced = format!("SET announced {turn}");
        [vec![data; 3], vec![announced; 3]].concat()
    };
    let [_, reads] = both(write, |_| lines(["GET announced", "GET data"]));
    for read in reads {
        assert!(
            read[1] >= read[0],
            "announced {} before {}",
            read[0],
            read[1]
        );
    }
}

#[test]
fn a_read_behind_a_change_is_not_before_it() {
    let [left, right] = both(
        |_| lines(["INCR left", "GET right"]),
        |_| lines(["INCR right", "GET left"]),
    );
    for read in left {
        let (raised_left, read_right) = (read[0], read[1]);
        // The next change of `right` came after this read, which came after the change of `left`.
        if let Some(next) = right.get(read_right) {
            assert_eq!(next[0], read_right + 1);
            assert!(
                next[1] >= raised_left,
                "left was {raised_left} while right was {read_right}, and later {}",
                next[1]
            );
        }
    }
}

#[test]
fn changes_in_turn_are_seen_in_turn() {
    // `right` is incremented after the first increment of `left` and before the second one.
    let [_, reads] = both(
        |_| lines(["INCR left", "INCR right", "INCR left"]),
        |_| lines(["GET left", "GET right"]),
    );
    for read in reads {
        let (left, right) = (read[0], read[1]);
        assert!(right >= left / 2, "left was {left} and right {right} later");
    }
}
