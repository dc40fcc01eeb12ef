//! Each command gets a reply also where another one holds the keyspace exclusively: within a
//! transaction, and called by a script. A command that waits for the phase of its own thread would
//! block the server.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::command::{CommandDefinition, CommandImplementation, Flags};
use nearfield_server::commands::TABLE;
use nearfield_server::resp::request::split_words;
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::saving::saving_into;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

type Words = Vec<Vec<u8>>;

/// Number of forms of a command that are tried.
const FORMS: usize = 3;
/// The command that changes the number of replies on its own connection, so that they cannot be
/// counted.
const SILENT: &str = "client|reply";

/// Returns the commands of the transcripts, by the names of commands and subcommands.
fn sent_in_transcripts() -> BTreeMap<String, Vec<Words>> {
    let mut found = BTreeMap::<String, Vec<Words>>::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            for line in text.lines().filter_map(|line| line.strip_prefix("> ")) {
                let Some(words) = split_words(line.as_bytes()).filter(|it| !it.is_empty()) else {
                    continue;
                };
                let name = words.iter().take(2).map(|word| {
                    let name = String::from_utf8_lossy(word);
                    name.to_ascii_lowercase()
                });
                let name: Vec<String> = name.collect();
                found.entry(name.join("|")).or_default().push(words.clone());
                if let [first, _] = &name[..] {
                    found.entry(first.clone()).or_default().push(words);
                }
            }
        }
    }
    found
}

/// Returns forms of a command, of different lengths; a made-up one if the transcripts have none.
fn forms(
    name: &str,
    command: &CommandDefinition,
    sent: &BTreeMap<String, Vec<Words>>,
) -> Vec<Words> {
    let mut forms: Vec<Words> = Vec::new();
    for words in sent.get(name).into_iter().flatten() {
        let is_new = forms.iter().all(|form| form.len() != words.len());
        if is_new && command.accepts(words.len()) && forms.len() < FORMS {
            forms.push(words.clone());
        }
    }
    if forms.is_empty() {
        let mut words: Words = name.split('|').map(|it| it.as_bytes().to_vec()).collect();
        words.resize(command.arity.unsigned_abs() as usize, b"1".to_vec());
        forms.push(words);
    }
    forms
}

/// Returns the requests that execute a command within a transaction, and within a script, each with
/// the number of its replies.
fn requests(words: &Words) -> [(Vec<u8>, usize); 2] {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let mut transaction = Vec::new();
    encode(&mut transaction, &[b"MULTI"]);
    encode(&mut transaction, &words);
    encode(&mut transaction, &[b"EXEC"]);
    let mut script = Vec::new();
    let text = b"return redis.pcall(unpack(ARGV))";
    let call = [&b"EVAL"[..], text, b"0"].into_iter().chain(words);
    encode(&mut script, &call.collect::<Vec<_>>());
    [(transaction, 3), (script, 1)]
}

/// Returns true if all replies arrived; after a command that closes the client they need not.
fn is_answered(connection: &mut TestkitConnection, (request, replies): &(Vec<u8>, usize)) -> bool {
    connection.send(request).unwrap();
    for _ in 0..*replies {
        match connection.receive() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => return false,
            Err(_) => return true,
        }
    }
    true
}

#[test]
fn every_command_is_answered_within_transactions_and_scripts() {
    let sent = sent_in_transcripts();
    let mut tried = 0;
    let folder = TestkitFolder::new();
    let start = || Nearfield::start(saving_into(&folder, 1));
    let mut server = start();
    for command in TABLE.all() {
        let rows: Vec<(String, &CommandDefinition)> = match command.run {
            CommandImplementation::Container(subcommands) => subcommands
                .iter()
                .map(|it| (format!("{}|{}", command.name, it.name), it))
                .collect(),
            _ => vec![(command.name.to_owned(), command)],
        };
        let configures = rows.iter().any(|it| it.1.flags.has(Flags::ADMIN));
        for (name, command) in rows.into_iter().filter(|(name, _)| name != SILENT) {
            for words in forms(&name, command, &sent) {
                for request in requests(&words) {
                    tried += 1;
                    let mut connection = server.connect();
                    if !is_answered(&mut connection, &request) {
                        // The server cannot be stopped any more.
                        std::mem::forget(server);
                        panic!("{name} receives no reply: {}", request.0.escape_ascii());
                    }
                    let server = &server.server;
                    server.pause.end(&server.singly, &server.clients);
                }
            }
        }
        // Settings of one case must not affect the others.
        if configures {
            drop(server);
            server = start();
        }
    }
    assert!(tried > 700, "only {tried} were tried");
}
