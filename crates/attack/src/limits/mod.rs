//! Cost of clients at the limits of a server, for it and for its other clients, compared with other
//! servers.

mod cases;
mod served;

use crate::pulse;
use cases::LimitCase;
use serde::Serialize;
use served::{ServedProgram, ServerResourceUsage};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The servers to measure, and the load.
#[derive(Clone, Debug)]
pub struct LimitOrders {
    /// Programs of servers: ours takes `serve --config FILE`, others `FILE`.
    pub programs: Vec<PathBuf>,
    /// Divisor of all numbers, for quick trials.
    pub divisor: usize,
    /// Part of the name of the cases that are run.
    pub only: Option<String>,
}

/// Cost of one case at one server.
#[derive(Clone, Debug, Serialize)]
pub struct LimitRow {
    /// The case.
    pub case: &'static str,
    /// The server's program.
    pub server: String,
    /// Duration of the case, in seconds.
    pub seconds: f64,
    /// The resident memory before, in MiB.
    pub before_mib: f64,
    /// The greatest resident memory meanwhile, in MiB.
    pub peak_mib: f64,
    /// The processor time of the server, in seconds.
    pub processor_seconds: f64,
    /// Median latency of another client's PING, in milliseconds.
    pub ping_median_ms: f64,
    /// Latency of that PING at the 99.9th percentile, in milliseconds.
    pub ping_999_ms: f64,
    /// Longest latency of that PING, in milliseconds.
    pub ping_worst_ms: f64,
    /// Idle share of the cores.
    pub idle: f64,
    /// Fate of the clients.
    pub note: String,
}

/// The rows, which are displayed as a table in Markdown.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct LimitTable(pub Vec<LimitRow>);

impl fmt::Display for LimitTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "| clients | server | time | resident before | peak | processor time \
             | PING median | 99.9 % | worst | idle cores | |"
        )?;
        writeln!(out, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")?;
        for row in &self.0 {
            writeln!(
                out,
                "| {} | {} | {:.1} s | {:.0} MiB | {:.0} MiB | {:.2} s | {:.2} ms | {:.1} ms \
                 | {:.1} ms | {:.0} % | {} |",
                row.case,
                row.server,
                row.seconds,
                row.before_mib,
                row.peak_mib,
                row.processor_seconds,
                row.ping_median_ms,
                row.ping_999_ms,
                row.ping_worst_ms,
                100.0 * row.idle,
                row.note,
            )?;
        }
        Ok(())
    }
}

/// Measures each case with each server, one after the other, until `stop` is set. Calls `show` with
/// each row.
///
/// # Errors
/// A server does not start, or a client fails.
pub fn measure(
    orders: &LimitOrders,
    stop: &AtomicBool,
    show: &dyn Fn(&LimitRow),
) -> io::Result<LimitTable> {
    let mut rows = Vec::new();
    for case in cases::CASES {
        let is_wanted = |only: &String| case.name.contains(only.as_str());
        if !orders.only.as_ref().is_none_or(is_wanted) {
            continue;
        }
        for program in &orders.programs {
            if stop.load(Ordering::Relaxed) {
                return Ok(LimitTable(rows));
            }
            let server = ServedProgram::start(program)?;
            let row = row(case, &server, orders.divisor.max(1))?;
            show(&row);
            rows.push(row);
        }
    }
    Ok(LimitTable(rows))
}

fn row(case: &LimitCase, server: &ServedProgram, divisor: usize) -> io::Result<LimitRow> {
    const TICK: Duration = Duration::from_millis(10);
    /// Time without any reply after which a server has failed.
    const PATIENCE: Duration = Duration::from_secs(300);
    let over = AtomicBool::new(false);
    let worst_us = AtomicU64::new(0);
    let address = server.address;
    thread::scope(|scope| {
        let before = ServerResourceUsage::of(server);
        let begin = Instant::now();
        let open = || nearfield_server_testkit::connection::TestkitConnection::open(address);
        let (over, worst_us) = (&over, &worst_us);
        let pulse = scope.spawn(move || pulse::feel(&open, PATIENCE, over, worst_us));
        let clients = scope.spawn(|| (case.run)(server, divisor));
        let mut peak = before.resident_bytes;
        while !clients.is_finished() {
            peak = peak.max(ServerResourceUsage::of(server).resident_bytes);
            thread::sleep(TICK);
        }
        let after = ServerResourceUsage::of(server);
        over.store(true, Ordering::Relaxed);
        let resume = |panic| std::panic::resume_unwind(panic);
        let note = clients.join().unwrap_or_else(resume);
        let pulse = pulse
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let processor = after.processor_time.saturating_sub(before.processor_time);
        Ok(LimitRow {
            case: case.name,
            server: server.name.clone(),
            seconds: begin.elapsed().as_secs_f64(),
            before_mib: mib(before.resident_bytes),
            peak_mib: mib(peak.max(after.resident_bytes)),
            processor_seconds: processor.as_secs_f64(),
            ping_median_ms: pulse.latency_ms(500.0),
            ping_999_ms: pulse.latency_ms(999.0),
            ping_worst_ms: pulse.latency_ms(1000.0),
            idle: after.cores.idle_since(before.cores),
            note: match &pulse.fault {
                None => note?,
                Some(fault) => format!("{}; {fault}", note?),
            },
        })
    })
}
