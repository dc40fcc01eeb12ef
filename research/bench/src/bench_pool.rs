//! `nearfield-bench bench-pool`: the speed of a map in the pool, one operation at a time and in
//! batches.

use crate::measuring::fail;
use clap::Args;
use nearfield::{Batch, OrderedMap, PoolPlacement, Words};
use nearfield_core::byte_size;
#[cfg(target_os = "linux")]
use nearfield_fabric::NodeId;
use nearfield_fabric::membership::NodeAddress;
#[cfg(target_os = "linux")]
use nearfield_fabric::transport::shm::ShmNode;
use nearfield_lab::parse_quantity;
use nearfield_lab::report::{self, NumberOrigin, ReportSink};
use serde::Serialize;
use std::ops::Bound;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// Measure a map in the memory of memory nodes, by one client thread.
///
/// Loads random keys of 8 bytes with values of 8 bytes, and reads and writes uniformly random ones
/// of them: one operation at a time, and in batches that have many operations in flight at once.
/// A run is a batch of adjacent keys, of which many share a leaf. Every result is checked. The map
/// is left at the nodes.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchPoolArguments {
    /// The memory nodes, such as shm:NAME or ucx:HOST:PORT [default: one in a thread of this
    /// process]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    nodes: Vec<NodeAddress>,

    /// The number of keys, such as 300k or 10M; existing keys are not loaded again
    #[arg(long, value_name = "N", default_value = "10M", value_parser = count)]
    keys: u64,

    /// Operations in a batch
    #[arg(long, value_name = "N", default_value_t = 4096)]
    batch: usize,

    /// Operations of a batch that are in flight at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    in_flight: usize,

    /// The client's budget for cached inner nodes, such as 100mb
    #[arg(long, value_name = "BYTES", default_value = "100mb", value_parser = byte_size)]
    cache: u64,

    /// Duration of the measurement of each row
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    seconds: f64,

    /// Write the measurements to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield-bench bench-pool
      10 million keys on a node in a thread of this process, over shared memory.
  nearfield memory-node --listen shm:pool --size 4gb
  nearfield-bench bench-pool --nodes shm:pool --keys 10M
      On a node of its own, in two terminals; also with ucx:HOST:PORT in place of shm:pool.
  nearfield-bench bench-pool --in-flight 1
      The gain of many operations in flight.";

/// Bytes of a leaf for each entry, with a third of its slots empty, and the same again for leaves
/// that are split during the load.
const BYTES_PER_KEY: u64 = 100;
/// Bytes of a node for everything else.
const NODE_BYTES: u64 = 64 << 20;
/// Number of entries of a scan.
const SCANNED: u32 = 100;

fn count(text: &str) -> Result<u64, String> {
    parse_quantity("number of keys", text).map_err(|error| error.to_string())
}

/// Measures and returns the exit code.
pub(crate) fn run(arguments: &BenchPoolArguments) -> ExitCode {
    match measure(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

/// A row of the table.
type Row = report::ReportRow<BenchPoolCalls>;

/// The calls that a row measures: which operation, on which nodes, and for how long.
#[derive(Debug, Serialize)]
struct BenchPoolCalls {
    operation: &'static str,
    /// Number of operations in a batch; 1 for single calls.
    batch: usize,
    operations: u64,
    seconds: f64,
    millions_per_second: f64,
}

/// The content of the JSON report.
#[derive(Debug, Serialize)]
struct BenchPoolReport {
    nodes: Vec<String>,
    keys: u64,
    in_flight: usize,
    cache_limit_bytes: u64,
    cache_bytes: usize,
    rows: Vec<Row>,
}

fn measure(arguments: &BenchPoolArguments) -> Result<(), Failure> {
    let sink = ReportSink::open(arguments.json.as_deref(), None)?;
    let own = match arguments.nodes.is_empty() {
        true => Some(LocalMemoryNode::start(arguments.keys)?),
        false => None,
    };
    let nodes = match &own {
        Some(own) => vec![own.address.clone()],
        None => arguments.nodes.clone(),
    };
    let map = OrderedMap::<Words>::builder()
        .pool(PoolPlacement::at(nodes.clone()))
        .cache_bytes(arguments.cache as usize)
        .in_flight(arguments.in_flight)
        .build()?;
    let mut bench = PoolBench {
        map,
        keys: arguments.keys,
        time: Duration::from_secs_f64(arguments.seconds),
        random: 0x9e37_79b9,
        rows: Vec::new(),
    };
    bench.run(arguments.batch.max(1))?;
    let report = BenchPoolReport {
        nodes: nodes.iter().map(ToString::to_string).collect(),
        keys: arguments.keys,
        in_flight: arguments.in_flight,
        cache_limit_bytes: arguments.cache,
        cache_bytes: bench.map.cache_bytes(),
        rows: bench.rows,
    };
    println!(
        "{} keys on {}, {} in flight, {} bytes of inner nodes cached",
        report.keys,
        report.nodes.join(", "),
        report.in_flight,
        report.cache_bytes
    );
    sink.write(&report, String::new)?;
    Ok(())
}

/// A memory node in a thread of this process.
struct LocalMemoryNode {
    address: NodeAddress,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LocalMemoryNode {
    #[cfg(target_os = "linux")]
    fn start(keys: u64) -> Result<LocalMemoryNode, Failure> {
        let name = format!("bench-{}", std::process::id());
        let node = ShmNode::create(&name, NodeId(0), NODE_BYTES + keys * BYTES_PER_KEY)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || node.serve(&stop)
        });
        Ok(LocalMemoryNode {
            address: NodeAddress::Shm { name },
            stop,
            thread: Some(thread),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn start(_keys: u64) -> Result<LocalMemoryNode, Failure> {
        Err("this machine has no shared memory: set --nodes".into())
    }
}

impl Drop for LocalMemoryNode {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread's result carries no information.
            let _ = thread.join();
        }
    }
}

/// A map that is measured, and the rows so far.
struct PoolBench {
    map: OrderedMap<Words, PoolPlacement>,
    keys: u64,
    time: Duration,
    random: u64,
    rows: Vec<Row>,
}

/// Returns a different key for each number, in no order.
fn key(number: u64) -> u64 {
    // The finisher of SplitMix64, which is a bijection.
    let mut bits = number;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Returns the value of a key.
fn value(key: u64) -> u64 {
    key.rotate_left(17)
}

fn check(found: Option<u64>, key: u64) -> Result<(), Failure> {
    match found == Some(value(key)) {
        true => Ok(()),
        false => Err(format!("key {key:#x} has the value {found:x?}").into()),
    }
}

impl PoolBench {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        self.load(batch)?;
        self.row("get", 1, |bench| {
            let key = bench.draw();
            check(bench.map.get(key)?, key)?;
            Ok(1)
        })?;
        self.batches("get", batch, |gets, key| {
            gets.get(key);
        })?;
        self.row("insert", 1, |bench| {
            let key = bench.draw();
            // All keys exist, so that an insert returns the value before.
            check(bench.map.insert(key, value(key))?, key)?;
            Ok(1)
        })?;
        self.batches("insert", batch, |inserts, key| {
            inserts.insert(key, value(key));
        })?;
        self.runs(batch)?;
        self.row("scan of 100", 1, |bench| {
            let from = Bound::Included(bench.draw());
            let mut scan = Batch::new();
            scan.scan(
                from,
                Bound::Unbounded,
                SCANNED,
                nearfield::ScanDirection::Ascending,
            );
            bench.map.execute(&mut scan)?;
            for (key, found) in scan.entries(0) {
                check(Some(found), key)?;
            }
            Ok(1)
        })
    }

    /// Measures batches. `add` adds an operation that returns the value of its key.
    fn batches(
        &mut self,
        operation: &'static str,
        size: usize,
        add: fn(&mut Batch<Words>, u64),
    ) -> Result<(), Failure> {
        let mut batch = Batch::with_capacity(size);
        let mut keys = Vec::with_capacity(size);
        self.row(operation, size, |bench| {
            batch.clear();
            keys.clear();
            for _ in 0..size {
                let key = bench.draw();
                keys.push(key);
                add(&mut batch, key);
            }
            debug_assert_eq!(batch.len(), keys.len(), "an operation for each key");
            bench.map.execute(&mut batch)?;
            for (position, &key) in keys.iter().enumerate() {
                check(batch.value(position), key)?;
            }
            Ok(size as u64)
        })
    }

    /// Measures batches of inserts of adjacent keys, which exist.
    fn runs(&mut self, size: usize) -> Result<(), Failure> {
        let mut sorted: Vec<u64> = (0..self.keys).map(key).collect();
        sorted.sort_unstable();
        let size = size.min(sorted.len());
        let firsts = (sorted.len() - size + 1) as u64;
        let mut batch = Batch::with_capacity(size);
        self.row("insert, run", size, |bench| {
            batch.clear();
            let first = bench.draw_below(firsts) as usize;
            let run = &sorted[first..first + size];
            for &key in run {
                batch.insert(key, value(key));
            }
            bench.map.execute(&mut batch)?;
            for (position, &key) in run.iter().enumerate() {
                check(batch.value(position), key)?;
            }
            Ok(size as u64)
        })
    }

    /// Loads the keys, unless they are present.
    fn load(&mut self, batch: usize) -> Result<(), Failure> {
        debug_assert!(batch > 0);
        // A second run on the same nodes finds the keys of the first. They are loaded in order, so
        // none is missing if the last one is there.
        let last = self.keys.saturating_sub(1);
        if self.map.get(key(last))?.is_some() {
            return Ok(());
        }
        let start = Instant::now();
        let mut entries = Vec::with_capacity(batch);
        for first in (0..self.keys).step_by(batch) {
            entries.clear();
            let numbers = first..self.keys.min(first + batch as u64);
            entries.extend(numbers.map(|number| (key(number), value(key(number)))));
            self.map.insert_many(&entries)?;
        }
        self.note("load", batch, self.keys, start.elapsed());
        Ok(())
    }

    /// Draws one of the keys.
    fn draw(&mut self) -> u64 {
        key(self.draw_below(self.keys))
    }

    /// Draws a number below `bound`; 0 if that is 0.
    fn draw_below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // The upper half of the product is below the factor, without the bias of a remainder.
        let number = ((u128::from(key(self.random)) * u128::from(bound)) >> 64) as u64;
        debug_assert!(number <= bound.saturating_sub(1));
        number
    }

    /// Calls `act` until the time has passed, and adds a row. `act` returns the number of
    /// operations that it has done.
    fn row(
        &mut self,
        operation: &'static str,
        batch: usize,
        mut act: impl FnMut(&mut PoolBench) -> Result<u64, Failure>,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        let mut operations = 0;
        while start.elapsed() < self.time {
            operations += act(self)?;
        }
        self.note(operation, batch, operations, start.elapsed());
        Ok(())
    }

    fn note(&mut self, operation: &'static str, batch: usize, operations: u64, time: Duration) {
        let seconds = time.as_secs_f64();
        let millions_per_second = operations as f64 / seconds / 1e6;
        if self.rows.is_empty() {
            println!(
                "{:<12} {:>8} {:>12} {:>10}",
                "operation", "batch", "M/s", "ns each"
            );
        }
        println!(
            "{operation:<12} {batch:>8} {millions_per_second:>12.3} {:>10.0}",
            1e3 / millions_per_second
        );
        let detail = BenchPoolCalls {
            operation,
            batch,
            operations,
            seconds,
            millions_per_second,
        };
        self.rows.push(Row {
            rate_mops: Some(millions_per_second),
            ..Row::new("pool", NumberOrigin::Measured, detail)
        });
    }
}
