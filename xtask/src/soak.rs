//! Longer searches for faults: `cargo run -p xtask -- soak [--minutes N] [SUITE]`, or
//! `soak --seeds N SUITE`.
//!
//! Each suite of random tests gets an equal share of the time, in runs with fresh seeds. A failure
//! is printed with the command that replays it, and the search continues with the next suite. With
//! a number of seeds the search ends when the tests of the suite have passed them.

use crate::watchdog;
use anyhow::{Context, bail};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time by which a run may exceed its suite's share. A run that takes longer hangs, for example
/// because a server does not respond.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time for which the length of runs is chosen if a number of seeds ends the search. Longer runs
/// would show the progress too rarely.
const SEEDS_SHARE: Duration = Duration::from_secs(480);

/// The end of the search in a suite.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SoakEnd {
    Minutes(f64),
    Seeds(u64),
}

/// The program of the tests within a package's library.
const LIBRARY: &str = "--lib";

/// A suite of tests that draw everything from a seed.
struct Suite {
    name: &'static str,
    package: &'static str,
    /// The test program, and words after `--` that select its tests by parts of their names.
    program: &'static str,
    filter: &'static str,
    counts: SoakWorkUnit,
}

impl Suite {
    /// Returns the words that choose the test program for cargo.
    fn chosen_program(&self) -> Vec<&'static str> {
        match self.program {
            LIBRARY => vec![LIBRARY],
            program => vec!["--test", program],
        }
    }
}

/// The unit of a suite's work, and the amount of it in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SoakWorkUnit {
    /// Seeds; an environment variable sets their number.
    Seeds,
    /// Work of another kind, from one seed per run; an environment variable sets the amount.
    Work {
        variable: &'static str,
        /// The least amount for which the suite's own checks hold.
        least: u64,
    },
    /// Inputs of the fuzz targets; an environment variable sets the seconds.
    Inputs,
}

const SEEDS: &str = "NEARFIELD_SEEDS";
const FIRST_SEED: &str = "NEARFIELD_FIRST_SEED";
const ONE_SEED: &str = "NEARFIELD_SEED";
const FUZZ_SECONDS: &str = "FUZZ_SECONDS";

const fn suite(
    name: &'static str,
    package: &'static str,
    program: &'static str,
    filter: &'static str,
) -> Suite {
    Suite {
        name,
        package,
        program,
        filter,
        counts: SoakWorkUnit::Seeds,
    }
}

const fn pool(name: &'static str, filter: &'static str) -> Suite {
    suite(name, "nearfield-pool", "all", filter)
}

const fn pool_rivals(name: &'static str, filter: &'static str) -> Suite {
    suite(name, "nearfield-pool-rivals", "all", filter)
}

const fn server(name: &'static str, filter: &'static str) -> Suite {
    suite(name, "nearfield-server", "all", filter)
}

const fn work(suite: Suite, variable: &'static str, least: u64) -> Suite {
    assert!(least > 0, "a run that does nothing counts as a failure");
    let counts = SoakWorkUnit::Work { variable, least };
    Suite { counts, ..suite }
}

const SUITES: &[Suite] = &[
    suite("radix-model", "nearfield-radix", "all", "model::"),
    suite("radix-threads", "nearfield-radix", "stress", "linearizable"),
    suite(
        "radix-streams",
        "nearfield-radix",
        "all",
        "pipeline::streams_of recorded::",
    ),
    suite(
        "radix-rivals",
        "nearfield-radix-rivals",
        "rivals",
        "placement::",
    ),
    suite(
        "map-model",
        "nearfield",
        "all",
        "model:: pool::words_agree pool::bytes_agree pool::long_bytes",
    ),
    suite("pim-model", "nearfield-pim", "all", "model::"),
    suite("pim-threads", "nearfield-pim", "all", "concurrent::"),
    suite(
        "pim-rivals",
        "nearfield-pim-rivals",
        "all",
        "model:: concurrent:: jump_push::modules_that",
    ),
    suite("learned-model", "nearfield-learned", "all", "index::"),
    suite(
        "dcart-model",
        "nearfield-lab",
        LIBRARY,
        "a_tree_behind_the_accelerator",
    ),
    pool("pool-model", "model::"),
    pool("pool-tree", "simulated::"),
    pool(
        "pool-batches",
        "batched_changes:: sorted_load::trees filtered::programs_agree",
    ),
    pool("pool-shared-node", "shared_compute_node::"),
    pool("pool-coordination", "coordination::"),
    pool("pool-stores", "store::"),
    pool("pool-damage", "damaged::"),
    pool_rivals("pool-rolex", "rolex_simulated:: rolex_map::"),
    pool_rivals("pool-smart", "smart_simulated::"),
    pool_rivals("pool-marlin", "marlin_simulated::"),
    pool_rivals("pool-rivals-shared-node", "shared_compute_node::"),
    pool_rivals("pool-rivals-damage", "damaged::"),
    work(
        server("server-differential", "random_commands"),
        "NEARFIELD_COMMANDS",
        1000,
    ),
    work(
        server("server-geo", "geo::searches"),
        "NEARFIELD_SEARCHES",
        300,
    ),
    work(
        server("server-crash", "survives_kills"),
        "NEARFIELD_KILLS",
        5,
    ),
    work(
        server("server-deliveries", "stream_delivery::groups_get"),
        "NEARFIELD_KILLS",
        5,
    ),
    server(
        "server-linearizability",
        "linearizability::commands_and stream_order::commands_and",
    ),
    server("server-shared-pool", "pool::each_key_is_linearizable"),
    server(
        "server-batches",
        "batches::a_batch_answers batches::keys_in batches::the_log",
    ),
    server("server-replay", "replay::"),
    server("server-expiry", "notes::keys_expire"),
    work(
        server("server-tiers", "tiers::values_that_move"),
        "NEARFIELD_EPISODES",
        80,
    ),
    work(
        suite("server-attack", "nearfield-cli", "all", "attack::streams"),
        "NEARFIELD_STREAMS",
        1000,
    ),
    suite(
        "offload-programs",
        "nearfield-offload",
        "all",
        "differential:: programs::jumps modelled::",
    ),
    // A seed calls clang for a third of the pairs of levels and versions.
    suite(
        "offload-clang",
        "nearfield-offload",
        "all",
        "c_corpus::what",
    ),
    // All programs go through the oracle of the fuzz target `program`.
    suite(
        "offload-oracle",
        "nearfield-offload",
        "all",
        "programs::accepted",
    ),
    suite(
        "offload-network",
        "nearfield-offload",
        "all",
        "network::once::stores network::once::entries network::deaths::replies structures::",
    ),
    // `.ci/run` starts the fuzz targets, so there is no package to test.
    Suite {
        counts: SoakWorkUnit::Inputs,
        ..suite("fuzz", "", "", "")
    },
];

/// The results of a suite.
#[derive(Default)]
struct SoakTally {
    first: Option<u64>,
    done: u64,
    failures: u64,
    spent: Duration,
}

pub fn soak(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let (end, suites) = read(arguments)?;
    let stopped = Arc::new(AtomicBool::new(false));
    let by_signal = Arc::clone(&stopped);
    // A signal ends the search, and the table of what it has done is still printed.
    ctrlc::set_handler(move || by_signal.store(true, Ordering::Relaxed))?;

    // All are built before the search, so that building takes no suite's time.
    for suite in &suites {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        if suite.counts != SoakWorkUnit::Inputs && !cargo(suite).arg("--no-run").status()?.success()
        {
            bail!("{} does not build", suite.name);
        }
    }
    debug_assert!(!suites.is_empty());
    let (share, seeds) = match end {
        SoakEnd::Minutes(minutes) => {
            let share = Duration::from_secs_f64(minutes * 60.0 / suites.len() as f64);
            (share, None)
        }
        SoakEnd::Seeds(seeds) => (SEEDS_SHARE, Some(seeds)),
    };
    let mut tallies = Vec::new();
    for suite in suites {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        tallies.push((suite, search(suite, share, seeds, &stopped)?));
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

/// Parses the arguments: the end of the search, and the suites.
fn read(arguments: &[&str]) -> anyhow::Result<(SoakEnd, Vec<&'static Suite>)> {
    let (end, names) = match arguments {
        ["--minutes", minutes, names @ ..] => {
            let minutes: f64 = minutes.parse().context("--minutes")?;
            if !minutes.is_finite() || minutes < 0.0 {
                bail!("--minutes {minutes} is not a duration");
            }
            (SoakEnd::Minutes(minutes), names)
        }
        ["--seeds", seeds, names @ ..] => {
            let seeds: u64 = seeds.parse().context("--seeds")?;
            (SoakEnd::Seeds(seeds), names)
        }
        names => (SoakEnd::Minutes(10.0), names),
    };
    let suites: Vec<&Suite> = match names {
        [] => SUITES.iter().collect(),
        [name] => SUITES.iter().filter(|suite| suite.name == *name).collect(),
        _ => Vec::new(),
    };
    if suites.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        bail!("at most one of these suites: {}", names.join(", "));
    }
    debug_assert!(
        names.is_empty() || suites.len() == 1,
        "each suite has its own name"
    );
    let counts_seeds = |suite: &&Suite| suite.counts == SoakWorkUnit::Seeds;
    if matches!(end, SoakEnd::Seeds(_)) && !(names.len() == 1 && suites.iter().all(counts_seeds)) {
        bail!("--seeds needs one suite that counts seeds");
    }
    Ok((end, suites))
}

/// Returns the command that builds a suite, and runs it with its filter.
fn cargo(suite: &Suite) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--quiet", "-p", suite.package])
        .args(suite.chosen_program())
        // A test that reads input must not wait for the terminal.
        .stdin(Stdio::null());
    command
}

/// Returns one run of a suite: its command, and the environment variables that set its work.
fn run(suite: &Suite, seed: u64, amount: u64) -> (Command, Vec<(&'static str, u64)>) {
    let mut command = cargo(suite);
    let variables = match suite.counts {
        SoakWorkUnit::Seeds => vec![(FIRST_SEED, seed), (SEEDS, amount)],
        SoakWorkUnit::Work { variable, .. } => vec![(ONE_SEED, seed), (variable, amount)],
        SoakWorkUnit::Inputs => {
            command = Command::new(".ci/run");
            command.arg("fuzz").stdin(Stdio::null());
            vec![(FUZZ_SECONDS, amount)]
        }
    };
    if suite.counts != SoakWorkUnit::Inputs {
        // The harness runs the tests that match any of the words.
        command.arg("--").args(suite.filter.split(' '));
    }
    command.envs(
        variables
            .iter()
            .map(|(name, value)| (*name, value.to_string())),
    );
    (command, variables)
}

/// Returns the amount of work of a suite's first run.
fn first_amount(suite: &Suite, share: Duration) -> anyhow::Result<u64> {
    Ok(match suite.counts {
        SoakWorkUnit::Seeds => 5,
        SoakWorkUnit::Work { least, .. } => least,
        // Each target gets its part of the time in one run, because the inputs that it finds are
        // kept.
        SoakWorkUnit::Inputs => {
            let targets = std::fs::read_dir("fuzz/fuzz_targets").context("fuzz targets")?;
            (share.as_secs() / targets.count().max(1) as u64).max(1)
        }
    })
}

/// Runs a suite until its share of the time has passed, or until this many seeds have passed. Short
/// runs are followed by longer ones.
fn search(
    suite: &Suite,
    share: Duration,
    seeds: Option<u64>,
    stopped: &AtomicBool,
) -> anyhow::Result<SoakTally> {
    let mut tally = SoakTally::default();
    let start = Instant::now();
    let mut amount = first_amount(suite, share)?;
    while !stopped.load(Ordering::Relaxed) {
        let is_done = match seeds {
            Some(seeds) => tally.done >= seeds,
            None => start.elapsed() >= share,
        };
        if is_done {
            break;
        }
        debug_assert!(amount > 0);
        // The keys of a `RandomState` are random, which is all that a seed needs.
        let seed = RandomState::new().hash_one(0) >> 24;
        let begin = Instant::now();
        let (mut command, variables) = run(suite, seed, amount);
        let (output, hangs) =
            watchdog::output(&mut command, share + PATIENCE, stopped).context(suite.name)?;
        // A test that ends because of Ctrl-C has not failed.
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        println!("{}: {}", suite.name, assignments(&variables));
        // Fuzzers choose their own seeds.
        if suite.counts != SoakWorkUnit::Inputs {
            tally.first.get_or_insert(seed);
        }
        let done = done(suite, amount, &output);
        tally.done += done;
        if let Some(seeds) = seeds {
            println!("  {} of {seeds} seeds have passed", tally.done);
        }
        if !output.status.success() {
            tally.failures += 1;
            if hangs {
                println!("{}: the run did not end, and was killed", suite.name);
            }
            println!("{}", describe(suite, &variables, &output));
            let kept = keep(suite, seed, &output)?;
            println!("  its output is in {}", kept.display());
            if seeds.is_some() {
                // A fault that most seeds show would never let them pass.
                break;
            }
        } else if done == 0 {
            // A suite whose tests were renamed would otherwise pass forever.
            tally.failures += 1;
            println!("{}: no test has run: its filter matches none", suite.name);
            break;
        }
        // Each run starts a program, so short ones lose time. Long ones would miss the deadline.
        if output.status.success() && begin.elapsed() < share / 8 {
            amount *= 2;
        }
    }
    tally.spent = start.elapsed();
    Ok(tally)
}

/// Saves the output of a failed run.
fn keep(suite: &Suite, seed: u64, output: &Output) -> anyhow::Result<PathBuf> {
    // A replay of threads may need several attempts, so this output may be all that there is.
    let folder = PathBuf::from("target/soak");
    std::fs::create_dir_all(&folder).context("target/soak")?;
    let path = folder.join(format!("{}-{seed}.log", suite.name));
    let printed = [&output.stdout[..], &output.stderr[..]].concat();
    std::fs::write(&path, printed).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Returns the number of seeds that passed, as counted by the testkit, or of inputs, as counted by
/// the fuzzers. In a suite with one seed per run, returns the work of the tests that passed.
fn done(suite: &Suite, amount: u64, output: &Output) -> u64 {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    let behind = |text: &str, start: &str| -> u64 {
        let counts = text.lines().filter_map(|line| line.strip_prefix(start));
        counts
            .filter_map(|count| count.trim().parse::<u64>().ok())
            .sum()
    };
    match suite.counts {
        SoakWorkUnit::Seeds => behind(&stderr, "seeds passed: "),
        SoakWorkUnit::Inputs => behind(&stdout, "stat::number_of_executed_units:"),
        SoakWorkUnit::Work { .. } => {
            let counts = stdout.lines().filter_map(|line| {
                let (before, _) = line.split_once(" passed")?;
                before.rsplit(' ').next()?.parse::<u64>().ok()
            });
            amount * counts.sum::<u64>()
        }
    }
}

fn assignments(variables: &[(&str, u64)]) -> String {
    let assignments = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    assignments.collect::<Vec<_>>().join(" ")
}

/// Returns the commands that replay a failure: those that the tests printed, or otherwise that of
/// the run. For a fuzz target, returns its output, which names the input.
fn describe(suite: &Suite, variables: &[(&str, u64)], output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let printed = text.iter().flat_map(|text| text.lines());
    let (is_replay, again): (fn(&&str) -> bool, String) = match suite.counts {
        SoakWorkUnit::Inputs => (
            |line| {
                ["panicked at", "Test unit written to", "ERROR"]
                    .iter()
                    .any(|it| line.contains(it))
            },
            format!("{} .ci/run fuzz", assignments(variables)),
        ),
        _ => (
            |line| line.contains("NEARFIELD_SEED="),
            format!(
                "{} cargo test -p {} {} -- {}",
                assignments(variables),
                suite.package,
                suite.chosen_program().join(" "),
                suite.filter
            ),
        ),
    };
    let mut lines: Vec<&str> = printed.filter(is_replay).collect();
    lines.dedup();
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
        let (end, suites) = read(&["--minutes", "3", "pim-model"]).unwrap();
        assert_eq!((end, suites.len()), (SoakEnd::Minutes(3.0), 1));
        let (end, suites) = read(&["--seeds", "9", "offload-oracle"]).unwrap();
        assert_eq!((end, suites.len()), (SoakEnd::Seeds(9), 1));
        for wrong in [
            &["--seeds", "9"][..],
            &["--seeds", "9", "fuzz"],
            &["--seeds", "9", "server-crash"],
            &["--seeds", "-1", "pim-model"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(read(&[]).unwrap().1.len(), SUITES.len());
        assert!(read(&["nothing"]).is_err());
        assert!(read(&["--minutes", "-1"]).is_err());
    }

    #[test]
    fn a_suite_in_a_library_has_no_program_of_its_own() {
        let suite = SUITES.iter().find(|suite| suite.program == LIBRARY);
        let (_, variables) = run(suite.unwrap(), 5, 10);
        let shown = describe(suite.unwrap(), &variables, &output(""));
        assert!(shown.contains("-p nearfield-lab --lib -- "), "{shown}");
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
        let kills = SUITES.iter().find(|suite| suite.name == "server-crash");
        assert_eq!(done(kills.unwrap(), 10, &printed), 10);
        let (_, variables) = run(&SUITES[0], 5, 10);
        let shown = describe(&SUITES[0], &variables, &printed);
        assert!(
            shown.ends_with("\n  NEARFIELD_SEED=7 cargo test -p a b"),
            "{shown}"
        );
        let shown = describe(&SUITES[0], &variables, &output("signal 11"));
        assert!(
            shown.contains("NEARFIELD_FIRST_SEED=5 NEARFIELD_SEEDS=10 cargo"),
            "{shown}"
        );
    }

    #[test]
    fn inputs_are_counted_over_all_targets() {
        let fuzz = SUITES.last().unwrap();
        let printed =
            output("stat::number_of_executed_units: 30\nx\nstat::number_of_executed_units: 12");
        assert_eq!(done(fuzz, 1, &printed), 42);
        let printed = output("==1== ERROR: libFuzzer: timeout\nTest unit written to a/b");
        let shown = describe(fuzz, &[(FUZZ_SECONDS, 1)], &printed);
        assert!(shown.ends_with("written to a/b"), "{shown}");
    }
}
