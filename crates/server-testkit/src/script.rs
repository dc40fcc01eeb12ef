//! Transcripts: their format, which the head of `tests/transcripts.rs` describes.

use super::connection::encode;
use super::peer::PeerServer;
use nearfield_server::resp::request::split_words;
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

/// A case of a transcript.
#[derive(Clone, Debug)]
pub struct TranscriptCase {
    /// The feature that it shows.
    pub name: String,
    /// True if its connections speak RESP3.
    pub resp3: bool,
    /// The other servers that it is played against: Redis 7 unless the case says otherwise.
    pub peers: Vec<PeerServer>,
    /// True if the elements of replies may have any order.
    pub unordered: bool,
    /// The steps, in order.
    pub steps: Vec<TranscriptStep>,
}

/// A step at some lines of a transcript.
#[derive(Clone, Debug)]
pub struct TranscriptStep {
    /// The lines, counted from 0; empty where a reply is missing.
    pub lines: Range<usize>,
    /// The number of the connection, as it is written.
    pub connection: u32,
    /// Its action.
    pub action: TranscriptAction,
}

/// An action.
#[derive(Clone, Debug)]
pub enum TranscriptAction {
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
pub fn parse(text: &str) -> Result<Vec<TranscriptCase>, String> {
    let mut cases: Vec<TranscriptCase> = Vec::new();
    let mut names = HashSet::new();
    // The connection that still lacks the line with the reply to its command.
    let mut unanswered: Option<u32> = None;
    for (number, line) in text.lines().enumerate() {
        let fail = |why: String| Err(format!("line {}: {why}", number + 1));
        let found = TranscriptLine::read(line);
        if let Some(connection) = unanswered
            && !matches!(found, TranscriptLine::Note)
            && !answers(&found, connection)
            && let Some(case) = cases.last_mut()
        {
            unanswered = None;
            let at = case.steps.last().map_or(number, |step| step.lines.end);
            case.steps.push(TranscriptStep {
                lines: at..at,
                connection,
                action: TranscriptAction::Replies(Vec::new()),
            });
        }
        match found {
            TranscriptLine::Note => {}
            TranscriptLine::Case(name) => {
                if !names.insert(name.to_owned()) {
                    return fail(format!("there is another case {name:?}"));
                }
                cases.push(TranscriptCase {
                    name: name.to_owned(),
                    resp3: false,
                    peers: vec![PeerServer::Redis7],
                    unordered: false,
                    steps: Vec::new(),
                });
            }
            TranscriptLine::Unknown => {
                return fail(format!("{line:?} has an unknown first character"));
            }
            found => {
                let Some(case) = cases.last_mut() else {
                    return fail("a line before the first case".to_owned());
                };
                if let TranscriptLine::Command(connection, _) = found {
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
        case.steps.push(TranscriptStep {
            lines: at..at,
            connection,
            action: TranscriptAction::Replies(Vec::new()),
        });
    }
    Ok(cases)
}

enum TranscriptLine<'a> {
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

impl<'a> TranscriptLine<'a> {
    fn read(line: &'a str) -> TranscriptLine<'a> {
        if line.is_empty() || line.starts_with("//") {
            return TranscriptLine::Note;
        }
        if let Some(name) = line.strip_prefix("# ") {
            return TranscriptLine::Case(name.trim());
        }
        if let Some(options) = line.strip_prefix('@') {
            return TranscriptLine::Option(options);
        }
        if let Some(time) = line.strip_prefix("sleep ") {
            return TranscriptLine::Sleep(time);
        }
        let rest = line.trim_start_matches(|byte: char| byte.is_ascii_digit());
        let digits = &line[..line.len() - rest.len()];
        let connection = digits.parse().unwrap_or(1);
        if let Some(text) = rest.strip_prefix("> ") {
            return TranscriptLine::Command(connection, text);
        }
        if rest.trim_end() == "<?" {
            return TranscriptLine::Silence(connection);
        }
        if let Some(text) = rest.strip_prefix("< ") {
            return TranscriptLine::Reply(connection, text);
        }
        if let Some(text) = rest.strip_prefix("raw> ") {
            return TranscriptLine::RawRequest(connection, text);
        }
        if let Some(text) = rest.strip_prefix("raw< ") {
            return TranscriptLine::RawReply(connection, text);
        }
        match rest.trim_end() {
            "<" => TranscriptLine::Reply(connection, ""),
            "closed" => TranscriptLine::Closed(connection),
            _ => TranscriptLine::Unknown,
        }
    }
}

fn answers(line: &TranscriptLine<'_>, connection: u32) -> bool {
    match *line {
        TranscriptLine::Reply(of, _)
        | TranscriptLine::Silence(of)
        | TranscriptLine::RawReply(of, _)
        | TranscriptLine::Closed(of) => of == connection,
        _ => false,
    }
}

impl TranscriptCase {
    /// Plays the case against a newer server instead of Redis 7, which lacks the shown feature.
    fn also_peer(&mut self, peer: PeerServer) {
        self.peers.retain(|other| *other != PeerServer::Redis7);
        self.peers.push(peer);
    }

    fn add(&mut self, number: usize, line: TranscriptLine<'_>) -> Result<(), String> {
        let (connection, action) = match line {
            TranscriptLine::Option(options) => {
                for option in options
                    .split(['@', ' '])
                    .filter(|option| !option.is_empty())
                {
                    match option {
                        "resp3" => self.resp3 = true,
                        "own" => self.peers.clear(),
                        "redis8" => self.also_peer(PeerServer::Redis8),
                        "valkey9" => self.also_peer(PeerServer::Valkey9),
                        "unordered" => self.unordered = true,
                        _ => return Err(format!("there is no option {option:?}")),
                    }
                }
                if !self.steps.is_empty() {
                    return Err("options come before commands".to_owned());
                }
                return Ok(());
            }
            TranscriptLine::Command(connection, text) => {
                let words = split_words(text.as_bytes()).ok_or("unbalanced quotes")?;
                if words.is_empty() {
                    return Err("no command".to_owned());
                }
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let mut request = Vec::new();
                encode(&mut request, &words);
                (connection, TranscriptAction::Send(request))
            }
            TranscriptLine::Reply(connection, text) => {
                if let Some(last) = self.steps.last_mut()
                    && last.connection == connection
                    && let TranscriptAction::Replies(lines) = &mut last.action
                {
                    lines.push(text.to_owned());
                    last.lines.end = number + 1;
                    return Ok(());
                }
                (connection, TranscriptAction::Replies(vec![text.to_owned()]))
            }
            TranscriptLine::RawRequest(connection, text) => {
                (connection, TranscriptAction::Send(unescape(text)?))
            }
            TranscriptLine::RawReply(connection, text) => {
                let mut bytes = unescape(text)?;
                if let Some(last) = self.steps.last_mut()
                    && last.connection == connection
                    && let TranscriptAction::Bytes(before) = &mut last.action
                {
                    before.append(&mut bytes);
                    last.lines.end = number + 1;
                    return Ok(());
                }
                (connection, TranscriptAction::Bytes(bytes))
            }
            TranscriptLine::Silence(connection) => (connection, TranscriptAction::Silence),
            TranscriptLine::Closed(connection) => (connection, TranscriptAction::Closed),
            TranscriptLine::Sleep(time) => {
                let time = time
                    .trim()
                    .parse()
                    .map_err(|_| "no number of milliseconds")?;
                (1, TranscriptAction::Sleep(Duration::from_millis(time)))
            }
            TranscriptLine::Note | TranscriptLine::Case(_) | TranscriptLine::Unknown => {
                return Ok(());
            }
        };
        let end = self.steps.last().map_or(0, |last| last.lines.end);
        debug_assert!(end <= number, "steps are in the order of their lines");
        self.steps.push(TranscriptStep {
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
                byte.ok_or("fewer than two digits after \\x")?
            }
            _ => return Err(format!("an unknown escape \\{}", escape as char)),
        });
    }
    Ok(bytes)
}
