//! `nearfield-bench bench`: turns flags into a plan and lets the lab run it.

use crate::measuring::{fail, interrupt, interrupted, reject};
use clap::Args;
use nearfield_lab::bench::{
    BenchContestant, BenchPlan, BenchRequest, BenchSession, Conductor, Techniques, default_suite,
    serve as serve_contestant,
};
use nearfield_lab::error::LabError;
use nearfield_lab::harness::Completion;
use nearfield_lab::parse_quantity;
use nearfield_lab::workload::{Distribution, KeySetSpec, Mix};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The hidden subcommand that the processes of contestants run.
pub(crate) const CONTESTANT_COMMAND: &str = "bench-contestant";

/// Measure Nearfield and other ordered maps on this machine.
///
/// Without flags: a suite of four key sets and four mixes that takes about two minutes. With flags:
/// every combination of the values given; each flag except the files takes a list. Rates are
/// millions of operations for each second of CPU time, the median of five slices that the
/// contestants run in turn. Every result is checked.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchArguments {
    /// Key sets, such as sparse, email or file:PATH [default: sparse]
    ///
    /// sparse: random 64-bit integers; dense: 0, 1, 2, … loaded in order; random-dense: the same
    /// in random order; digits: the same as strings of 16 digits, loaded in order; words and email:
    /// synthetic strings; ipv4: starts of address ranges; file:PATH: the lines of a file, which may
    /// end in .gz.
    #[arg(long, value_name = "SET,…", value_delimiter = ',')]
    keys: Vec<KeySetSpec>,

    /// Numbers of keys, such as 300k, 50M or 1G [default: each set's own]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count)]
    count: Vec<u64>,

    /// Mixes of operations: load, A to F (YCSB's), dcart-A to dcart-E [default: C]
    ///
    /// load: insert all keys; A: half updates; B: one update in twenty; C: gets only; D: reads of
    /// the latest keys; E: scans of 1 to 100 keys; F: read-modify-writes; dcart-A to dcart-E:
    /// 0, 25, 50, 75 and 100 % updates.
    #[arg(long, value_name = "MIX,…", value_delimiter = ',')]
    mix: Vec<Mix>,

    /// Distribution of the keys: uniform, zipf:THETA or latest [default: as the mix's authors did]
    #[arg(long, value_name = "DIST,…", value_delimiter = ',')]
    distribution: Vec<Distribution>,

    /// Threads that share a map, each on a core of its own [default: 1]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = threads)]
    threads: Vec<u64>,

    /// Operations in a batch of Nearfield, 1 to 16777216; 1 is one at a time, as the peers do
    /// [default: 4096]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = batch)]
    batch: Vec<u64>,

    /// The contestants: nearfield, btreemap, brie-tree, congee, blart, ferntree, indexset,
    /// masstree, scc, crossbeam-skiplist, papaya, dashmap; of DCART's paper art-olc, art-rowex,
    /// smart, heart; and for the engine's techniques one by one nearfield-operation-centric,
    /// -interleaved, -combined, -shared, -triggered, -data-centric
    /// [default: nearfield,congee,blart,btreemap,masstree,dashmap]
    #[arg(long, value_name = "PEER,…", value_delimiter = ',')]
    peers: Vec<BenchContestant>,

    /// Count the accesses of Nearfield's operations, and of the same operations executed one after
    /// the other
    #[arg(long)]
    counters: bool,

    /// Operations of a thread in a slice, for tests of this command: a short slice has no rate that
    /// can be compared
    #[arg(long, value_name = "N", hide = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    slice: Option<u64>,

    /// Write the measurements to this file, after every table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write one page with all tables and plots to this file, after every table
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield-bench bench
      The default suite.
  nearfield-bench bench --keys sparse --count 50M --mix C,A --peers nearfield,congee
      Gets and updates on 50 million random keys, compared with congee. Takes 6 GB.
  nearfield-bench bench --batch 1,16,256,4096 --html batch.html
      The gain of batches: one table and one point of the plot for each size.
  nearfield-bench bench --keys file:urls.txt.gz --mix load,C,E --json urls.json
      Your own keys.
  nearfield-bench bench --threads 1,2 --distribution uniform,zipf:1.2 --mix dcart-C
      Four tables.

docs/benchmarks.md describes the measurement of rates and the limits of each peer.";

fn count(text: &str) -> Result<u64, LabError> {
    parse_quantity("number of keys", text)
}

fn threads(text: &str) -> Result<u64, LabError> {
    parse_quantity("number of threads", text)
}

fn batch(text: &str) -> Result<u64, LabError> {
    parse_quantity("size of a batch", text)
}

impl BenchArguments {
    fn plan(&self) -> Result<BenchPlan, LabError> {
        let lists = [
            self.keys.is_empty(),
            self.count.is_empty(),
            self.mix.is_empty(),
            self.distribution.is_empty(),
            self.threads.is_empty(),
            self.batch.is_empty(),
            self.peers.is_empty(),
            !self.counters,
        ];
        // Any flag except the files replaces the suite.
        if lists.into_iter().all(|is_empty| is_empty) {
            return default_suite();
        }
        let default = BenchRequest::default();
        let mut contestants = default.contestants;
        if self.counters {
            debug_assert_eq!(contestants.first(), Some(&BenchContestant::Nearfield));
            // Next to Nearfield, because its counts are the baseline.
            contestants.insert(1, BenchContestant::Chosen(Techniques::OperationCentric));
        }
        BenchPlan::new(&BenchRequest {
            keys: or_default(&self.keys, default.keys),
            counts: self.count.clone(),
            mixes: or_default(&self.mix, default.mixes),
            distributions: self.distribution.clone(),
            threads: or_default(&self.threads, default.threads),
            batches: or_default(&self.batch, default.batches),
            contestants: or_default(&self.peers, contestants),
            counters: self.counters,
        })
    }
}

/// Returns the values of a flag, or the default if the flag was not given.
fn or_default<T: Clone>(given: &[T], default: Vec<T>) -> Vec<T> {
    if given.is_empty() {
        default
    } else {
        given.to_vec()
    }
}

/// Measures and returns the exit code: 0, 1 for a failure, 2 for a bad flag, 130 for Ctrl-C.
pub(crate) fn run(arguments: &BenchArguments) -> ExitCode {
    let plan = arguments.plan().unwrap_or_else(|error| reject(error));
    let session = BenchSession::open(arguments.json.as_deref(), arguments.html.as_deref());
    let mut session = session.unwrap_or_else(|error| reject(error));
    let interrupt = interrupt("the present table");
    let command = || {
        // Finds this very program, even if a new build has taken its name.
        let mut command = Command::new("/proc/self/exe");
        command.arg(CONTESTANT_COMMAND);
        command
    };
    let slice = arguments.slice.map(|operations| operations as usize);
    let conductor = Conductor::new(&command, &interrupt).with_slice(slice);
    match session.run(&conductor, &plan) {
        Ok(Completion::Finished) => ExitCode::SUCCESS,
        Ok(Completion::Interrupted) => interrupted("the reports hold the tables finished before"),
        Err(error) => fail(error),
    }
}

/// Serves a conductor as a contestant's process.
pub(crate) fn serve() -> ExitCode {
    match serve_contestant() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}
