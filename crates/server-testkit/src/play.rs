//! The player of a transcript's case against a server.

use super::connection::TestkitConnection;
use super::script::{TranscriptAction, TranscriptCase};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a command that is expected to wait is watched.
const SILENCE: Duration = Duration::from_millis(50);
/// The sign that stands for any text within a line, or, as the last line, for any further lines.
const ANY: &str = "…";

/// The server's replies at each step of a case. It is shorter than the case if the case could not
/// continue.
pub type Played = Vec<Option<String>>;

/// The settings for reading replies.
#[derive(Clone, Copy, Debug)]
pub struct ReplyReadOptions {
    /// Timeout of a reply.
    pub patience: Duration,
    /// True if all replies are read, not only as many as are expected.
    pub all: bool,
}

/// Plays a case against the server at `address`. The server's keys are removed before.
///
/// # Errors
/// The connection to the server fails.
pub fn play(
    case: &TranscriptCase,
    address: SocketAddr,
    reading: ReplyReadOptions,
) -> Result<Played, String> {
    reset(address).map_err(|error| format!("cannot empty the server: {error}"))?;
    let mut connections: BTreeMap<u32, TestkitConnection> = BTreeMap::new();
    let mut played = Vec::new();
    for step in &case.steps {
        let connection = match connections.entry(step.connection) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let connection = open(address, case.resp3);
                entry.insert(connection.map_err(|error| format!("cannot connect: {error}"))?)
            }
        };
        let (done, go_on) = act(connection, &step.action, reading);
        played.push(done);
        if !go_on {
            return Ok(played);
        }
    }
    for (number, connection) in connections {
        let unread = connection.close();
        if !unread.is_empty() {
            let unread = unread.escape_ascii();
            played.push(Some(format!("unread on connection {number}: {unread}")));
        }
    }
    Ok(played)
}

fn open(address: SocketAddr, resp3: bool) -> io::Result<TestkitConnection> {
    let mut connection = TestkitConnection::open(address)?;
    if resp3 {
        connection.command(&[b"HELLO", b"3"])?;
    }
    Ok(connection)
}

/// Removes everything that the previous case has left.
fn reset(address: SocketAddr) -> io::Result<()> {
    let mut connection = TestkitConnection::open(address)?;
    for command in [
        "FLUSHALL",
        "FUNCTION FLUSH",
        "SCRIPT FLUSH",
        "FUNCTION FLUSH",
        "CONFIG SET notify-keyspace-events ",
        "ACL DELUSER alice bob carol",
        "ACL LOG RESET",
    ] {
        // Commands that a server does not know have no effect.
        connection.run(command)?;
    }
    connection.close();
    Ok(())
}

/// Returns the server's reply, and true if more steps are possible.
fn act(
    connection: &mut TestkitConnection,
    action: &TranscriptAction,
    reading: ReplyReadOptions,
) -> (Option<String>, bool) {
    let failed = |error: io::Error| (Some(format!("({error})")), false);
    match action {
        TranscriptAction::Send(bytes) => match connection.send(bytes) {
            Ok(()) => (None, true),
            Err(error) => failed(error),
        },
        TranscriptAction::Sleep(time) => {
            thread::sleep(*time);
            (None, true)
        }
        TranscriptAction::Silence => match connection.is_silent(SILENCE) {
            Ok(true) => (Some(String::new()), true),
            Ok(false) => (Some(read(connection, 1, reading).0), false),
            Err(error) => failed(error),
        },
        TranscriptAction::Closed => match connection.is_closed(reading.patience) {
            Ok(true) => (Some(String::new()), true),
            Ok(false) => (Some("(the connection is not closed)".to_owned()), false),
            Err(error) => failed(error),
        },
        TranscriptAction::Bytes(expected) => {
            let (count, patience) = if reading.all {
                (usize::MAX, Duration::from_millis(100))
            } else {
                (expected.len(), reading.patience)
            };
            match connection.receive_bytes(count, patience) {
                Ok(bytes) => (Some(bytes.escape_ascii().to_string()), true),
                Err(error) => failed(error),
            }
        }
        TranscriptAction::Replies(expected) => {
            let open_ended = expected.last().is_some_and(|line| line == ANY);
            let lines = expected.len() - usize::from(open_ended);
            let (text, go_on) = read(connection, lines.max(1), reading);
            (Some(text), go_on)
        }
    }
}

/// Reads replies up to `lines` lines, and prints them.
fn read(
    connection: &mut TestkitConnection,
    lines: usize,
    reading: ReplyReadOptions,
) -> (String, bool) {
    let mut text = String::new();
    loop {
        let found = if text.is_empty() {
            0
        } else {
            text.lines().count()
        };
        if found >= lines && (!reading.all || connection.is_silent(SILENCE).unwrap_or(false)) {
            return (text, true);
        }
        match connection.receive_within(reading.patience) {
            Ok(value) => {
                if found > 0 {
                    text.push('\n');
                }
                text += value.to_string().replace('\r', "").trim_end_matches('\n');
                if text.is_empty() {
                    // A reply that prints as an empty text is a line nevertheless.
                    text.push('\n');
                }
            }
            Err(error) => {
                if found > 0 {
                    text.push('\n');
                }
                text += &format!("({error})");
                return (text, reading.all);
            }
        }
    }
}

/// Returns the expected output of a step, and true if the server's output matches it.
pub fn compare(action: &TranscriptAction, played: &str, unordered: bool) -> (String, bool) {
    match action {
        TranscriptAction::Send(_) | TranscriptAction::Sleep(_) => (String::new(), false),
        TranscriptAction::Silence => ("(no reply yet)".to_owned(), played.is_empty()),
        TranscriptAction::Closed => ("(the connection is closed)".to_owned(), played.is_empty()),
        TranscriptAction::Bytes(bytes) => {
            let expected = bytes.escape_ascii().to_string();
            let same = expected == played;
            (expected, same)
        }
        TranscriptAction::Replies(lines) if lines.is_empty() => {
            ("(no expected reply)".to_owned(), false)
        }
        TranscriptAction::Replies(lines) => {
            let found: Vec<&str> = match played {
                "\n" => vec![""],
                played => played.split('\n').collect(),
            };
            let expected: Vec<&str> = lines.iter().map(String::as_str).collect();
            let same = match_lines(&expected, &found)
                || (unordered && elements(&expected) == elements(&found));
            (lines.join("\n"), same)
        }
    }
}

fn match_lines(expected: &[&str], found: &[&str]) -> bool {
    match (expected.split_last(), found) {
        (Some((&ANY, expected)), found) if !expected.is_empty() => {
            found.len() >= expected.len() && match_lines(expected, &found[..expected.len()])
        }
        _ => {
            let mut pairs = expected.iter().zip(found);
            expected.len() == found.len() && pairs.all(|(expected, found)| glob(expected, found))
        }
    }
}

/// Returns true if `found` is `expected`, in which [`ANY`] stands for any text.
fn glob(expected: &str, found: &str) -> bool {
    let Some((before, mut rest)) = expected.split_once(ANY) else {
        return expected.trim_end() == found.trim_end();
    };
    let Some(mut found) = found.strip_prefix(before) else {
        return false;
    };
    while let Some((part, after)) = rest.split_once(ANY) {
        let Some(position) = found.find(part) else {
            return false;
        };
        found = &found[position + part.len()..];
        rest = after;
    }
    found.ends_with(rest)
}

/// Returns the elements of a printed array without their numbers, sorted.
fn elements(lines: &[&str]) -> Vec<String> {
    let mut elements: Vec<String> = Vec::new();
    let mut width = 0;
    for line in lines {
        let rest = line
            .trim_start()
            .trim_start_matches(|byte: char| byte.is_ascii_digit());
        let digits = line.len() - rest.len();
        let numbered = rest.starts_with([')', '~', '#', '>']) && digits > 0;
        if numbered && (elements.is_empty() || digits == width) {
            width = digits;
            elements.push(rest.get(2..).unwrap_or_default().to_owned());
        } else {
            let last = elements.pop().unwrap_or_default();
            elements.push(format!("{last}\n{}", line.trim_start()));
        }
    }
    elements.sort();
    elements
}

/// Only transcripts use these.
impl TestkitConnection {
    /// Reads `count` bytes, or fewer if no more arrive.
    fn receive_bytes(&mut self, count: usize, patience: Duration) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + patience;
        while self.input.len() - self.start < count && !self.ended && Instant::now() < deadline {
            self.fill(deadline)?;
        }
        let end = self.input.len().min(self.start.saturating_add(count));
        debug_assert!(self.start <= end);
        let bytes = self.input[self.start..end].to_vec();
        self.start = end;
        Ok(bytes)
    }

    /// Returns true if nothing arrives for `time`.
    fn is_silent(&mut self, time: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + time;
        while self.input.len() == self.start && !self.ended && Instant::now() < deadline {
            self.fill(deadline)?;
        }
        Ok(self.input.len() == self.start && !self.ended)
    }

    /// Returns true if the server closes the connection and has sent nothing before.
    fn is_closed(&mut self, patience: Duration) -> io::Result<bool> {
        Ok(!self.is_silent(patience)? && self.input.len() == self.start)
    }
}
