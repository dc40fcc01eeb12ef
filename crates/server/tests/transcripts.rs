//! Plays the transcripts in `tests/transcripts` against our server and, where it is installed,
//! against Debian's redis-server: both must reply as the transcript says. Each case is a test of
//! its own, named `folder/file::case`.
//!
//! A transcript is a text file:
//!
//! ```text
//! // A comment. Empty lines mean nothing, too.
//! # SET with NX refuses a present key
//! > SET k v
//! < OK
//! > SET k "w \x00" NX
//! < (nil)
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `# name` | begins a case; the servers are empty, and all connections are new |
//! | `@resp3` | the case's connections send `HELLO 3` first |
//! | `@own` | only our server is asked, as Redis 7.0 replies differently; a comment says why |
//! | `@redis8`, `@valkey9` | Redis 8, Valkey 9 or both take the place of Redis 7.0 |
//! | `@unordered` | elements of arrays and sets may come in any order |
//! | `> words` | sends a command, with redis-cli's quoting |
//! | `< text` | a line of the reply as `redis-cli --no-raw` prints it |
//! | `<?` | there is no reply yet |
//! | `closed` | the server closes the connection |
//! | `raw> bytes` | sends bytes, with the escapes `\r \n \t \0 \\ \" \xhh` |
//! | `raw< bytes` | the bytes that arrive; further such lines continue them |
//! | `sleep 20` | waits this many milliseconds |
//!
//! `2> `, `2< `, `2<?`, `2closed`, `2raw> ` and `2raw< ` belong to a second connection, and so on
//! for any number; without a number they belong to connection 1. A connection is opened when it is
//! first used.
//!
//! A command is followed by the lines of its reply, or by `<?` and later its reply. As many replies
//! are read as it takes to fill the lines that stand together, so a SUBSCRIBE of two channels is
//! followed by the lines of two replies. All replies must be read: a reply that is left over at the
//! end is an error. `…` in a reply stands for any text within a line, and as the last line for any
//! further lines of the reply.
//!
//! Replies are printed as by redis-cli: null bulks, null arrays and RESP3's null are all `(nil)`;
//! use `raw<` where the difference matters. Elements of pushed messages are numbered `1>`, unlike
//! in redis-cli, to tell them from arrays.
//!
//! `NEARFIELD_TRANSCRIPT_UPDATE=1 cargo test -p nearfield-server --test transcripts -- NAME` writes
//! the replies of redis-server (of the first server that a case names, of ours for `@own` cases)
//! into the files of the cases whose names contain NAME. Commands without any reply lines get
//! theirs, so that a new case is written as commands only. Replies that match already stay as they
//! are. Review the difference before you commit it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use libtest_mimic::{Arguments, Failed, Trial};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::peer::PeerServer;
use nearfield_server_testkit::play::{ReplyReadOptions, compare, play};
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::saving::saving_into;
use nearfield_server_testkit::script::{self, TranscriptAction, TranscriptCase};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const STRICT: ReplyReadOptions = ReplyReadOptions {
    patience: Duration::from_secs(10),
    all: false,
};
const UPDATING: ReplyReadOptions = ReplyReadOptions {
    patience: Duration::from_millis(500),
    all: true,
};
/// Number of cases that run at once. Cases mostly wait for servers, so there may be more than
/// cores.
const CASES_AT_ONCE: usize = 4;

/// The servers that one case at a time is played against.
struct TranscriptStage {
    ours: Nearfield,
    _folder: TestkitFolder,
    peers: Vec<(PeerServer, Option<RedisPeerProcess>)>,
}

impl TranscriptStage {
    fn new() -> TranscriptStage {
        let folder = TestkitFolder::new();
        TranscriptStage {
            ours: Nearfield::start(saving_into(&folder, 2)),
            _folder: folder,
            peers: Vec::new(),
        }
    }

    /// Returns the address of another server, if it is installed.
    fn peer(&mut self, peer: PeerServer) -> Option<SocketAddr> {
        let started = self.peers.iter().position(|it| it.0 == peer);
        let started = started.unwrap_or_else(|| {
            let options = ["--enable-debug-command", "yes"];
            self.peers.push((peer, peer.start(&options)));
            self.peers.len() - 1
        });
        self.peers[started].1.as_ref().map(|server| server.address)
    }
}

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    if std::env::var_os("NEARFIELD_TRANSCRIPT_UPDATE").is_some() {
        update(&root, &files, &arguments);
        return;
    }
    let stages: Arc<Mutex<Vec<TranscriptStage>>> = Arc::default();
    let mut trials = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let place = place(&root, &file);
        match script::parse(&text) {
            Ok(cases) => {
                let lines: Arc<Vec<String>> = Arc::new(text.lines().map(str::to_owned).collect());
                for case in cases {
                    let name = format!("{place}::{}", case.name);
                    let (place, lines) = (place.clone(), Arc::clone(&lines));
                    let stages = Arc::clone(&stages);
                    trials.push(Trial::test(name, move || {
                        let stage = stages.lock().unwrap().pop();
                        let mut stage = stage.unwrap_or_else(TranscriptStage::new);
                        let result = check(&case, &place, &lines, &mut stage);
                        // A failed case may have left a server in a strange state.
                        if result.is_ok() {
                            stages.lock().unwrap().push(stage);
                        }
                        result
                    }));
                }
            }
            Err(why) => {
                let why = format!("{place}: {why}");
                trials.push(Trial::test(place, move || Err(Failed::from(why))));
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    stages.lock().unwrap().clear();
    conclusion.exit();
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
}

/// Returns the name of a file below `root`, without its extension.
fn place(root: &Path, file: &Path) -> String {
    let inner = file.strip_prefix(root).unwrap().with_extension("");
    inner.to_string_lossy().into_owned()
}

fn check(
    case: &TranscriptCase,
    place: &str,
    lines: &[String],
    stage: &mut TranscriptStage,
) -> Result<(), Failed> {
    let mut played = vec![("Nearfield", play(case, stage.ours.address, STRICT)?)];
    for &peer in &case.peers {
        if let Some(address) = stage.peer(peer) {
            played.push((peer.name(), play(case, address, STRICT)?));
        }
    }
    let shown = |text: &str| format!("    {}\n", text.replace('\n', "\n    "));
    let longest = played.iter().map(|(_, played)| played.len()).max();
    for position in 0..case.steps.len().max(longest.unwrap_or(0)) {
        let step = case.steps.get(position);
        let judge = |played: Option<&Option<String>>| match (step, played) {
            (_, Some(None)) | (None, None) => None,
            (Some(_), None) => Some("(not reached)".to_owned()),
            (None, Some(Some(text))) => Some(text.clone()),
            (Some(step), Some(Some(text))) => {
                let same = compare(&step.action, text, case.unordered).1;
                (!same).then(|| text.clone())
            }
        };
        let judged = played
            .iter()
            .map(|(name, it)| (name, judge(it.get(position))));
        let judged: Vec<_> = judged.collect();
        if judged.iter().all(|(_, wrong)| wrong.is_none()) {
            continue;
        }
        let mut report = String::new();
        if let Some(step) = step {
            report += &format!("tests/transcripts/{place}.txt:{}\n", step.lines.start + 1);
            let before = case.steps.first().map_or(0, |first| first.lines.start);
            let before = before.max(step.lines.start.saturating_sub(12));
            for line in lines.get(before..step.lines.start).unwrap_or_default() {
                report += &format!("  {line}\n");
            }
            let expected = compare(&step.action, "", case.unordered).0;
            report += &format!("expected:\n{}", shown(&expected));
        }
        for (name, wrong) in judged {
            let wrong = wrong.unwrap_or_else(|| "(as expected)".to_owned());
            report += &format!("{name}:\n{}", shown(&wrong));
        }
        return Err(Failed::from(report));
    }
    Ok(())
}

/// Writes the replies of servers into the files.
fn update(root: &Path, files: &[PathBuf], arguments: &Arguments) {
    let mut stage = TranscriptStage::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let place = place(root, file);
        let cases = script::parse(&text).unwrap_or_else(|why| panic!("{place}: {why}"));
        // From the last line to the first, so that line numbers stay valid.
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for case in cases.iter().rev() {
            let name = format!("{place}::{}", case.name);
            let filter = arguments.filter.as_deref().unwrap_or_default();
            if !name.contains(filter) {
                continue;
            }
            let address = match case.peers.first() {
                Some(&peer) => stage.peer(peer).expect("the server to ask"),
                None => stage.ours.address,
            };
            let played = play(case, address, UPDATING).unwrap_or_else(|why| panic!("{why}"));
            if played.len() != case.steps.len() {
                eprintln!(
                    "{name}: {}",
                    played.last().cloned().flatten().unwrap_or_default()
                );
            }
            for (step, played) in case.steps.iter().zip(&played).rev() {
                let Some(played) = played else { continue };
                if compare(&step.action, played, case.unordered).1 {
                    continue;
                }
                let before = match step.connection {
                    1 => String::new(),
                    number => number.to_string(),
                };
                let replies: Vec<String> = match &step.action {
                    TranscriptAction::Replies(_) if played == "(no reply)" => {
                        vec![format!("{before}<?")]
                    }
                    TranscriptAction::Replies(_) => {
                        let lines = played.split('\n');
                        lines.map(|line| format!("{before}< {line}")).collect()
                    }
                    TranscriptAction::Bytes(_) => vec![format!("{before}raw< {played}")],
                    _ => {
                        eprintln!("{name}, line {}: {played}", step.lines.start + 1);
                        continue;
                    }
                };
                lines.splice(step.lines.clone(), replies);
            }
        }
        let updated = lines.join("\n") + "\n";
        if updated != text {
            println!("{place} is updated");
            fs::write(file, updated).unwrap();
        }
    }
}
