//! Longer searches for faults: `cargo run -p xtask -- soak [--minutes N] [SUITE]`.
//!
//! Each suite of random tests gets an equal share of the time, in runs with fresh seeds. A failure
//! is printed with the command that replays it, and the search goes on with the next suite.

use anyhow::{Context, bail};
use std::hash::{BuildHasher, RandomState};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Tests that draw everything from a seed.
struct Suite {
    name: &'static str,
    package: &'static str,
    /// The test program, and a part of the names of its tests.
    program: &'static str,
    filter: &'static str,
    /// The variable that says how much one run does. Another name than that of the number of seeds
    /// is of a suite whose runs have one seed each.
    amount: &'static str,
}

const SEEDS: &str = "NEARFIELD_SEEDS";
const FIRST_SEED: &str = "NEARFIELD_FIRST_SEED";
const ONE_SEED: &str = "NEARFIELD_SEED";

const fn suite(
    name: &'static str,
    package: &'static str,
    program: &'static str,
    filter: &'static str,
) -> Suite {
    let amount = SEEDS;
    Suite {
        name,
        package,
        program,
        filter,
        amount,
    }
}

const SUITES: &[Suite] = &[
    suite("radix-model", "nearfield-radix", "all", "model::"),
    suite("radix-threads", "nearfield-radix", "stress", "linearizable"),
    suite("map-model", "nearfield", "all", "model::"),
    suite("pim-model", "nearfield-pim", "all", "model::"),
    suite("pim-threads", "nearfield-pim", "all", "concurrent::"),
    suite("pool-tree", "nearfield-pool", "all", "simulated::"),
    suite("pool-together", "nearfield-pool", "all", "together::"),
    suite("pool-stores", "nearfield-pool", "all", "store::"),
    Suite {
        amount: "NEARFIELD_COMMANDS",
        ..suite(
            "server-differential",
            "nearfield-server",
            "all",
            "random_commands",
        )
    },
    Suite {
        amount: "NEARFIELD_KILLS",
        ..suite("server-crash", "nearfield-server", "all", "survives_kills")
    },
];

/// What came of a suite.
#[derive(Default)]
struct Tally {
    first: Option<u64>,
    done: u64,
    failures: u64,
    spent: Duration,
}

pub fn soak(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let (minutes, suites) = read(arguments)?;
    let stopped = Arc::new(AtomicBool::new(false));
    let by_signal = Arc::clone(&stopped);
    ctrlc::set_handler(move || by_signal.store(true, Ordering::Relaxed))?;

    for suite in &suites {
        let built = cargo(suite).arg("--no-run").status()?;
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        if !built.success() {
            bail!("{} does not build", suite.name);
        }
    }
    let share = Duration::from_secs_f64(minutes * 60.0 / suites.len() as f64);
    let mut tallies = Vec::new();
    for suite in suites {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        tallies.push((suite, search(suite, share, &stopped)?));
    }
    println!(
        "{:<22}{:>18}{:>12}{:>12}{:>10}",
        "suite", "first seed", "done", "a second", "failures"
    );
    for (suite, tally) in &tallies {
        println!(
            "{:<22}{:>18}{:>12}{:>12.1}{:>10}",
            suite.name,
            tally
                .first
                .map_or(String::from("-"), |seed| seed.to_string()),
            tally.done,
            tally.done as f64 / tally.spent.as_secs_f64().max(0.001),
            tally.failures
        );
    }
    let failed = tallies.iter().any(|(_, tally)| tally.failures > 0);
    Ok(ExitCode::from(u8::from(failed)))
}

/// How long to search, and in which suites.
fn read(arguments: &[&str]) -> anyhow::Result<(f64, Vec<&'static Suite>)> {
    let (minutes, names) = match arguments {
        ["--minutes", minutes, names @ ..] => {
            let minutes: f64 = minutes.parse().context("--minutes")?;
            (minutes, names)
        }
        names => (10.0, names),
    };
    if !minutes.is_finite() || minutes < 0.0 {
        bail!("--minutes {minutes} is no duration");
    }
    let suites: Vec<&Suite> = match names {
        [] => SUITES.iter().collect(),
        [name] => SUITES.iter().filter(|suite| suite.name == *name).collect(),
        _ => Vec::new(),
    };
    if suites.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        bail!("at most one of these suites: {}", names.join(", "));
    }
    Ok((minutes, suites))
}

fn cargo(suite: &Suite) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--quiet", "-p", suite.package])
        .args(["--test", suite.program])
        .stdin(Stdio::null());
    command
}

/// Runs a suite until its share of the time is over. Runs grow while they are short.
fn search(suite: &Suite, share: Duration, stopped: &AtomicBool) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let start = Instant::now();
    let mut amount = 5;
    while start.elapsed() < share && !stopped.load(Ordering::Relaxed) {
        let seed = RandomState::new().hash_one(0) >> 24;
        let begin = Instant::now();
        let first = if suite.amount == SEEDS {
            FIRST_SEED
        } else {
            ONE_SEED
        };
        let output = cargo(suite)
            .arg(suite.filter)
            .env(first, seed.to_string())
            .env(suite.amount, amount.to_string())
            .output()?;
        // A test that ends because of Ctrl-C has not failed.
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        println!("{}: {first}={seed} {}={amount}", suite.name, suite.amount);
        tally.first.get_or_insert(seed);
        tally.done += done(suite, amount, &output);
        if !output.status.success() {
            tally.failures += 1;
            println!("{}", describe(suite, first, seed, amount, &output));
        }
        if output.status.success() && begin.elapsed() < share / 8 {
            amount *= 2;
        }
    }
    tally.spent = start.elapsed();
    Ok(tally)
}

/// The seeds that passed, as the testkit has counted them; or, in a suite whose runs have one seed
/// each, what the tests that passed have done.
fn done(suite: &Suite, amount: u64, output: &Output) -> u64 {
    if suite.amount == SEEDS {
        let text = String::from_utf8_lossy(&output.stderr);
        let counts = text
            .lines()
            .filter_map(|line| line.strip_prefix("seeds passed: "));
        return counts.filter_map(|count| count.parse::<u64>().ok()).sum();
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = text.lines().filter_map(|line| {
        let (before, _) = line.split_once(" passed")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    amount * counts.sum::<u64>()
}

/// The commands that replay a failure: those that the tests have printed, or this run again.
fn describe(suite: &Suite, first: &str, seed: u64, amount: u64, output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let replays = text.iter().flat_map(|text| text.lines());
    let mut lines: Vec<&str> = replays
        .filter(|line| line.contains("NEARFIELD_SEED="))
        .collect();
    lines.dedup();
    let again = format!(
        "{first}={seed} {}={amount} cargo test -p {} --test {} {}",
        suite.amount, suite.package, suite.program, suite.filter
    );
    if lines.is_empty() {
        lines.push(&again);
    }
    format!(
        "{} failed; to replay it:\n  {}",
        suite.name,
        lines.join("\n  ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn output(text: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(256),
            stdout: text.into(),
            stderr: Vec::new(),
        }
    }

    #[test]
    fn arguments_choose_time_and_suite() {
        let (minutes, suites) = read(&["--minutes", "3", "pim-model"]).unwrap();
        assert_eq!((minutes, suites.len()), (3.0, 1));
        assert_eq!(read(&[]).unwrap().1.len(), SUITES.len());
        assert!(read(&["nothing"]).is_err());
        assert!(read(&["--minutes", "-1"]).is_err());
    }

    #[test]
    fn seeds_are_counted_as_the_testkit_prints_them() {
        let mut printed = output("test result: ok. 3 passed; 0 failed");
        printed.stderr = b"seeds passed: 10\nother\nseeds passed: 7\n".to_vec();
        assert_eq!(done(&SUITES[0], 10, &printed), 17);
    }

    #[test]
    fn a_failure_is_replayed_by_what_its_test_has_printed() {
        let printed = output("panicked\nNEARFIELD_SEED=7 cargo test -p a b\n1 passed; 1 failed");
        let last = SUITES.last().unwrap();
        assert_eq!(done(last, 10, &printed), 10);
        let shown = describe(&SUITES[0], FIRST_SEED, 5, 10, &printed);
        assert!(
            shown.ends_with("\n  NEARFIELD_SEED=7 cargo test -p a b"),
            "{shown}"
        );
        let shown = describe(&SUITES[0], FIRST_SEED, 5, 10, &output("signal 11"));
        assert!(
            shown.contains("NEARFIELD_FIRST_SEED=5 NEARFIELD_SEEDS=10 cargo"),
            "{shown}"
        );
    }
}
