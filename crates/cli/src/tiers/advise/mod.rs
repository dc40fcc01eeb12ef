//! `nearfield tiers advise`: what tiers would save on a running server, which is not changed.

mod advice;
mod error;
mod kind;
mod pace;
mod server;
mod show;
mod survey;

use crate::client::ConnectArguments;
use advice::{Advice, HotBy};
use clap::Args;
use error::AdviseError;
use serde::Serialize;
use server::SurveyedServer;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use survey::Survey;

/// Show what tiers would save on a running Redis, Valkey or Nearfield server.
///
/// The server is only read: SCAN lists its keys, and a sample of them is queried for type, memory
/// and hotness (OBJECT FREQ if the server evicts by LFU, else OBJECT IDLETIME). Some values are
/// read to measure how well they compress. After each reply the command sleeps four times the
/// reply's duration. Reads do not count as uses if the server knows CLIENT NO-TOUCH (Redis 7.2,
/// Valkey, Nearfield); otherwise each value that is read counts as used once more.
///
/// Ctrl-C stops the survey early and shows the results so far.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct AdviseArguments {
    #[command(flatten)]
    address: ConnectArguments,
    /// Approximate number of keys in the sample, chosen at random from all
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    samples: u64,
    /// Write the advice to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield tiers advise --port 6379
      A Redis server on this machine.
  NEARFIELD_PASSWORD=secret nearfield tiers advise --host cache.example --port 6379 --user advisor
      As a user with a password. These rights are enough:
      ACL SETUSER advisor on >secret ~* +@read +select +info +client
  nearfield tiers advise --port 6379 --samples 10000 --json advice.json
      A quicker survey, and the numbers in a file.";

/// Exit code that a shell reports for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// The content of the JSON file.
#[derive(Debug, Serialize)]
struct AdviseReport {
    host: String,
    port: u16,
    /// Kind and version of the server.
    server: String,
    /// The eviction policy.
    policy: String,
    hot_by: HotBy,
    keys: u64,
    keys_seen: u64,
    values_seen: u64,
    requests: u64,
    seconds: f64,
    /// True if all keys were listed before the survey was stopped.
    complete: bool,
    notes: Vec<String>,
    #[serde(flatten)]
    advice: Advice,
}

/// Runs the command.
pub fn run(arguments: &AdviseArguments) -> ExitCode {
    match advise(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            let ConnectArguments { host, port, .. } = &arguments.address;
            eprintln!("nearfield: {host}:{port}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Surveys the server and prints the advice. Returns false if the user stopped it.
fn advise(arguments: &AdviseArguments) -> Result<bool, AdviseError> {
    if let Some(path) = &arguments.json {
        // The file is opened before the server is queried, so that an error costs no survey.
        // Opened to append, because an earlier report must stay if the survey fails.
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|source| refused(path, source))?;
    }
    let stop = stop_at_ctrl_c();
    let start = Instant::now();
    let client = arguments.address.connect()?;
    let mut server = SurveyedServer::query(client)?;
    let keys = server.facts.keys();
    if keys == 0 {
        return Err(AdviseError::Empty);
    }
    let survey = Survey::make(&mut server, arguments.samples, &stop, show_progress);
    clear_progress();
    let survey = survey?;
    if survey.seen.is_empty() {
        let seen = survey.named;
        return Err(AdviseError::Nothing { seen });
    }
    let hot_by = server.facts.hot_by();
    let ConnectArguments { host, port, .. } = &arguments.address;
    let report = AdviseReport {
        host: host.clone(),
        port: *port,
        server: server.facts.version.clone(),
        policy: server.facts.policy.clone(),
        hot_by,
        keys,
        keys_seen: survey.seen.len() as u64,
        values_seen: survey.values.len() as u64,
        requests: server.pace.requests,
        seconds: start.elapsed().as_secs_f64(),
        complete: !survey.interrupted,
        notes: notes(&server, &survey),
        advice: Advice::of(&survey, keys, hot_by),
    };
    if let Some(path) = &arguments.json {
        write(path, &report)?;
    }
    // A reader that closed the output, such as `head`, is no reason to fail.
    let _ = write!(io::stdout(), "{}", show::text(&report));
    Ok(!survey.interrupted)
}

/// Returns the remarks that the reader needs to judge the numbers.
fn notes(server: &SurveyedServer, survey: &Survey) -> Vec<String> {
    let mut notes = Vec::new();
    if survey.interrupted {
        notes.push(format!(
            "stopped early, after {} of {} keys were listed; the others are assumed to be like \
             them",
            survey.named,
            server.facts.keys()
        ));
    }
    if server.facts.in_cluster {
        notes.push("this is one node of a cluster; all numbers are of its own keys".to_owned());
    }
    if !server.without_touch {
        notes.push(format!(
            "the server cannot be read without counting uses; {} values count as used once more",
            survey.values.len()
        ));
    }
    if server.facts.hot_by() == HotBy::IdleSeconds {
        notes.push(
            "the server records the last use of a key, not the number of uses; uses are a rough \
             estimate"
                .to_owned(),
        );
    }
    notes
}

fn write(path: &Path, report: &AdviseReport) -> Result<(), AdviseError> {
    let text = serde_json::to_string_pretty(report).map_err(io::Error::from);
    let written = text.and_then(|text| std::fs::write(path, text + "\n"));
    written.map_err(|source| refused(path, source))
}

fn refused(path: &Path, source: io::Error) -> AdviseError {
    AdviseError::File {
        path: path.display().to_string(),
        source,
    }
}

/// Returns a flag that Ctrl-C raises. A second one ends the program at once.
fn stop_at_ctrl_c() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    let handler = move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("note: Ctrl-C ends the program without a result: {error}");
    }
    stop
}

/// Shows the progress on a terminal.
fn show_progress(part: f64) {
    if io::stderr().is_terminal() {
        // Not on the standard output, which may be redirected.
        eprint!(
            "\r\x1b[K{:.0} % of the keys; Ctrl-C shows the results so far",
            part * 100.0
        );
    }
}

fn clear_progress() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
