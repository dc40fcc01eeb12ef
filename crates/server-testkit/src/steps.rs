//! Steps of tests of connections: sending commands in words, and waiting for events.

use super::connection::{PATIENCE, TestkitConnection, encode_lines};
use super::nearfield::Nearfield;
use super::redis::RedisPeerProcess;
use super::reply::RespReplyValue;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Runs a test against our server, with two threads, and against redis-server if it is installed,
/// each without any keys.
pub fn on_both(test: impl Fn(SocketAddr)) {
    let ours = Nearfield::with_threads(2);
    test(ours.address);
    drop(ours);
    // Our servers that tests start allow DEBUG, too.
    if let Some(redis) = RedisPeerProcess::start(&["--enable-debug-command", "yes"]) {
        test(redis.address);
    }
}

/// Connects.
pub fn connect(address: SocketAddr) -> TestkitConnection {
    TestkitConnection::open(address).expect("the server listens")
}

/// Sends a command with words separated by blanks.
pub fn send_command(connection: &mut TestkitConnection, command: &str) {
    let request = encode_lines([command]);
    connection.send(&request).expect("the connection is open");
}

/// Returns the next reply, printed like redis-cli does.
pub fn receive_reply(connection: &mut TestkitConnection) -> String {
    connection.receive().expect("a reply").to_string()
}

/// Sends a command with words separated by blanks; returns the reply, printed like redis-cli does.
pub fn ask(connection: &mut TestkitConnection, command: &str) -> String {
    send_command(connection, command);
    receive_reply(connection)
}

/// Sends a command and returns its reply, which must be a number.
pub fn ask_number(connection: &mut TestkitConnection, command: &str) -> i64 {
    send_command(connection, command);
    match connection.receive() {
        Ok(RespReplyValue::Integer(number)) => number,
        other => panic!("no number is {command}: {other:?}"),
    }
}

/// Sends a command and returns its reply, which must be a text.
pub fn ask_text(connection: &mut TestkitConnection, command: &str) -> String {
    send_command(connection, command);
    match connection.receive() {
        Ok(RespReplyValue::Bulk(text) | RespReplyValue::Verbatim(text)) => {
            String::from_utf8(text).expect("text is UTF-8")
        }
        other => panic!("no text is {command}: {other:?}"),
    }
}

/// Returns a number of `INFO`.
pub fn info(connection: &mut TestkitConnection, field: &str) -> u64 {
    let text = ask_text(connection, "INFO everything");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = value.unwrap_or_else(|| panic!("no {field} in INFO"));
    value.trim().parse().expect("a number")
}

/// Returns a field of a client in `CLIENT LIST`; `None` if the client is not listed.
pub fn listed(connection: &mut TestkitConnection, id: i64, field: &str) -> Option<String> {
    let text = ask_text(connection, "CLIENT LIST");
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("id={id} ")))?;
    let mut fields = line.split(' ');
    let value = fields.find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
    value.map(str::to_owned)
}

/// Waits until a condition holds.
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "it never became true: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the server has closed a connection, and counts the replies before.
pub fn until_closed(connection: &mut TestkitConnection) -> usize {
    let mut replies = 0;
    loop {
        match connection.receive() {
            Ok(_) => replies += 1,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return replies,
            Err(error) => panic!("the server has not closed the connection: {error}"),
        }
    }
}
