//! Transcripts: their format, which the head of `tests/transcripts.rs` describes.

use super::connection::encode;
use super::peer::Peer;
use nearfield_server::resp::request::split_words;
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

/// A case of a transcript.
#[derive(Clone, Debug)]
pub struct Case {
    /// The feature that it shows.
    pub name: String,
    /// True if its connections speak RESP3.
    pub resp3: bool,
    /// The other servers that it is played against: Redis 7 unless the case says otherwise.
    pub peers: Vec<Peer>,
    /// True if the elements of replies may have any order.
    pub unordered: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A step at some lines of a transcript.
#[derive(Clone, Debug)]
pub struct Step {
    /// The lines, counted from 0; empty where a reply is missing.
    pub lines: Range<usize>,
    /// The number of the connection, as it is written.
    pub connection: u32,
    /// Its action.
    pub action: Action,
}

/// An action.
#[derive(Clone, Debug)]
pub enum Action {
    /// The sending of bytes.
    Send(Vec<u8>),
    /// The reading of replies that print as these lines.
    Replies(Vec<String>),
    /// The reading of these bytes.
    Bytes(Vec<u8>),
    /// The check that there is no reply yet.
    Silence,
    /// The check that the server closes the connection.
    Closed,
    /// A pause.
    Sleep(Duration),
}

/// Reads a transcript. A command without a reply gets one of no lines.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut names = HashSet::new();
    // The connection that still lacks the line with the reply to its command.
    let mut unanswered: Option<u32> = None;
    for (number, line) in text.lines().enumerate() {
        let fail = |why: String| Err(format!("line {}: {why}", number + 1));
        let found = Line::read(line);
        if let Some(connection) = unanswered
            && !matches!(found, Line::Note)
            && !answers(&found, connection)
            && let Some(case) = cases.last_mut()
        {
            unanswered = None;
            let at = case.steps.last().map_or(number, |step| step.lines.end);
            case.steps.push(Step {
                lines: at..at,
                connection,
                action: Action::Replies(Vec::new()),
            });
        }
        match found {
            Line::Note => {}
            Line::Case(name) => {
                if !names.insert(name.to_owned()) {
                    return fail(format!("there is another case {name:?}"));
                }
                cases.push(Case {
                    name: name.to_owned(),
                    resp3: false,
                    peers: vec![Peer::Redis7],
                    unordered: false,
                    steps: Vec::new(),
                });
            }
            Line::Unknown => return fail(format!("{line:?} begins as no line does")),
            found => {
                let Some(case) = cases.last_mut() else {
                    return fail("a line before the first case".to_owned());
                };
                if let Line::Command(connection, _) = found {
                    unanswered = Some(connection);
                } else {
                    unanswered = None;
                }
                if let Err(why) = case.add(number, found) {
                    return fail(why);
                }
            }
        }
    }
    if let (Some(connection), Some(case)) = (unanswered, cases.last_mut()) {
        let at = case.steps.last().map_or(0, |step| step.lines.end);
        case.steps.push(Step {
            lines: at..at,
            connection,
            action: Action::Replies(Vec::new()),
        });
    }
    Ok(cases)
}

enum Line<'a> {
    /// A comment or an empty line.
    Note,
    Case(&'a str),
    Option(&'a str),
    Command(u32, &'a str),
    Reply(u32, &'a str),
    Silence(u32),
    RawRequest(u32, &'a str),
    RawReply(u32, &'a str),
    Closed(u32),
    Sleep(&'a str),
    Unknown,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Line<'a> {
        if line.is_empty() || line.starts_with("//") {
            return Line::Note;
        }
        if let Some(name) = line.strip_prefix("# ") {
            return Line::Case(name.trim());
        }
        if let Some(options) = line.strip_prefix('@') {
            return Line::Option(options);
        }
        if let Some(time) = line.strip_prefix("sleep ") {
            return Line::Sleep(time);
        }
        let rest = line.trim_start_matches(|byte: char| byte.is_ascii_digit());
        let digits = &line[..line.len() - rest.len()];
        let connection = digits.parse().unwrap_or(1);
        if let Some(text) = rest.strip_prefix("> ") {
            return Line::Command(connection, text);
        }
        if rest.trim_end() == "<?" {
            return Line::Silence(connection);
        }
        if let Some(text) = rest.strip_prefix("< ") {
            return Line::Reply(connection, text);
        }
        if let Some(text) = rest.strip_prefix("raw> ") {
            return Line::RawRequest(connection, text);
        }
        if let Some(text) = rest.strip_prefix("raw< ") {
            return Line::RawReply(connection, text);
        }
        match rest.trim_end() {
            "<" => Line::Reply(connection, ""),
            "closed" => Line::Closed(connection),
            _ => Line::Unknown,
        }
    }
}

fn answers(line: &Line<'_>, connection: u32) -> bool {
    match *line {
        Line::Reply(of, _) | Line::Silence(of) | Line::RawReply(of, _) | Line::Closed(of) => {
            of == connection
        }
        _ => false,
    }
}

impl Case {
    /// Plays the case against a newer server instead of Redis 7, which lacks the shown feature.
    fn also_peer(&mut self, peer: Peer) {
        self.peers.retain(|other| *other != Peer::Redis7);
        self.peers.push(peer);
    }

    fn add(&mut self, number: usize, line: Line<'_>) -> Result<(), String> {
        let (connection, action) = match line {
            Line::Option(options) => {
                for option in options
                    .split(['@', ' '])
                    .filter(|option| !option.is_empty())
                {
                    match option {
                        "resp3" => self.resp3 = true,
                        "own" => self.peers.clear(),
                        "redis8" => self.also_peer(Peer::Redis8),
                        "valkey9" => self.also_peer(Peer::Valkey9),
                        "unordered" => self.unordered = true,
                        _ => return Err(format!("there is no option {option:?}")),
                    }
                }
                if !self.steps.is_empty() {
                    return Err("options come before commands".to_owned());
                }
                return Ok(());
            }
            Line::Command(connection, text) => {
                let words = split_words(text.as_bytes()).ok_or("unbalanced quotes")?;
                if words.is_empty() {
                    return Err("no command".to_owned());
                }
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let mut request = Vec::new();
                encode(&mut request, &words);
                (connection, Action::Send(request))
            }
            Line::Reply(connection, text) => {
                if let Some(last) = self.steps.last_mut()
                    && last.connection == connection
                    && let Action::Replies(lines) = &mut last.action
                {
                    lines.push(text.to_owned());
                    last.lines.end = number + 1;
                    return Ok(());
                }
                (connection, Action::Replies(vec![text.to_owned()]))
            }
            Line::RawRequest(connection, text) => (connection, Action::Send(unescape(text)?)),
            Line::RawReply(connection, text) => {
                let mut bytes = unescape(text)?;
                if let Some(last) = self.steps.last_mut()
                    && last.connection == connection
                    && let Action::Bytes(before) = &mut last.action
                {
                    before.append(&mut bytes);
                    last.lines.end = number + 1;
                    return Ok(());
                }
                (connection, Action::Bytes(bytes))
            }
            Line::Silence(connection) => (connection, Action::Silence),
            Line::Closed(connection) => (connection, Action::Closed),
            Line::Sleep(time) => {
                let time = time
                    .trim()
                    .parse()
                    .map_err(|_| "no number of milliseconds")?;
                (1, Action::Sleep(Duration::from_millis(time)))
            }
            Line::Note | Line::Case(_) | Line::Unknown => return Ok(()),
        };
        self.steps.push(Step {
            lines: number..number + 1,
            connection,
            action,
        });
        Ok(())
    }
}

/// Reads `\r`, `\n`, `\t`, `\\`, `\"` and `\xhh`; all other characters stand for themselves.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&escape, tail) = rest.split_first().ok_or("a backslash at the end")?;
        rest = tail;
        bytes.push(match escape {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'0' => 0,
            b'\\' | b'"' | b'\'' => escape,
            b'x' => {
                let digits = rest
                    .get(..2)
                    .and_then(|digits| std::str::from_utf8(digits).ok());
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                rest = rest.get(2..).unwrap_or_default();
                byte.ok_or("no two digits behind \\x")?
            }
            _ => return Err(format!("an unknown escape \\{}", escape as char)),
        });
    }
    Ok(bytes)
}
