//! Valid payloads and files, made by a server, from which mutations start.

use crate::target::{AttackedServer, TargetLimits, ask};
use nearfield_server::commands::TABLE;
use nearfield_server_testkit::commands::Generator;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::reply::RespReplyValue;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Number of commands of each generator that the server executes.
const COMMANDS: usize = 1200;
/// Number of commands after which all values are dumped.
const BETWEEN_DUMPS: usize = 100;

/// Valid payloads and files.
#[derive(Debug)]
pub(crate) struct AttackSamples {
    /// Replies to DUMP.
    pub(crate) payloads: Vec<Vec<u8>>,
    /// Replies to FUNCTION DUMP.
    pub(crate) libraries: Vec<Vec<u8>>,
    /// A snapshot.
    pub(crate) snapshot: Vec<u8>,
    /// Names and contents of the files of a server with a log.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl AttackSamples {
    /// Creates samples from a seed, with the server of a program.
    ///
    /// # Errors
    /// The server fails.
    pub(crate) fn make(program: &Path, seed: u64) -> io::Result<AttackSamples> {
        let mut target = AttackedServer::start(
            program,
            // No value may be evicted before it is dumped.
            &TargetLimits {
                memory_bytes: 1 << 30,
                policy: "noeviction",
                threads: 1,
                logs: true,
            },
        )?;
        let mut control = target.control()?;
        let mut payloads = BTreeSet::new();
        let mut libraries = BTreeSet::new();
        let random = |number: u64| SmallRng::seed_from_u64(seed ^ number);
        let known = |name: &[u8]| TABLE.find(name).is_some();
        let generators = [
            Generator::new(random(1), known),
            Generator::of_streams(random(2), known),
            Generator::of_fields(random(3), known),
        ];
        for mut generator in generators {
            for number in 1..=COMMANDS {
                let sent = generator.next_command();
                let words: Vec<&[u8]> = sent.words.iter().map(Vec::as_slice).collect();
                control.command(&words)?;
                if number % BETWEEN_DUMPS == 0 {
                    dump(&mut control, &mut payloads)?;
                    let functions = control.command(&[b"FUNCTION", b"DUMP"])?;
                    if let RespReplyValue::Bulk(payload) = functions {
                        libraries.insert(payload);
                    }
                }
            }
        }
        // The files of a log and of its base.
        ask(&mut control, &["SAVE"])?;
        let data = target.folder.join("data");
        let snapshot = fs::read(data.join("dump.rdb"))?;
        ask(&mut control, &["SET", "in the log", "alone"])?;
        target.shut_down(Duration::from_secs(60))?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&data)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Each server makes a lock of its own.
            if name != "nearfield.lock" && entry.file_type()?.is_file() {
                files.push((name, fs::read(entry.path())?));
            }
        }
        files.sort();
        if payloads.is_empty() || libraries.is_empty() || files.is_empty() {
            return Err(io::Error::other("the server wrote no file to start with"));
        }
        Ok(AttackSamples {
            payloads: payloads.into_iter().collect(),
            libraries: libraries.into_iter().collect(),
            snapshot,
            files,
        })
    }
}

/// Adds the payload of each key.
fn dump(control: &mut TestkitConnection, payloads: &mut BTreeSet<Vec<u8>>) -> io::Result<()> {
    // The generator may have left a transaction open.
    control.command(&[b"DISCARD"])?;
    let RespReplyValue::Array(keys) = ask(control, &["KEYS", "*"])? else {
        return Ok(());
    };
    for key in keys {
        if let RespReplyValue::Bulk(key) = key
            && let RespReplyValue::Bulk(payload) = control.command(&[b"DUMP", &key])?
            && payload.len() < 1 << 16
        {
            payloads.insert(payload);
        }
    }
    Ok(())
}
