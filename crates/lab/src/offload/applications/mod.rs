//! The paper's applications on traversal programs and on its rivals, on one memory node in this
//! process. All deployments reach the same memory by UDP on the loopback interface.
//!
//! An application is written once, against [`Deployment`](deployment::Deployment). `deployments/`
//! has the ways to its data: programs at the memory node, paging, and calls of native code
//! (`native.rs`) with a cache at the caller and without. `calls/` is the rivals' protocol,
//! `site.rs` the memory node. Every answer is checked.

mod application;
mod calls;
mod deployment;
mod deployments;
mod measure;
mod native;
mod ordered_table;
mod sealer;
mod site;
mod slow_core;
#[cfg(test)]
mod tests;
mod time_series;
mod web_service;

use super::OffloadError;
use super::memory::BenchMemory;
use super::structures::FIRST;
use crate::harness::Interrupt;
use crate::report::Row;
use crate::workload::Mix;
use measure::{Parts, Way};
use native::TENANT;
use nearfield_hardware::accelerator::TableError;
use nearfield_offload::node::{LocalMemory, Permission, Range, RangeError, Ranges, TenantMemory};
use nearfield_offload::structures::Arena;
use ordered_table::OrderedTable;
pub use sealer::SealError;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use time_series::TimeSeries;
use web_service::{BuildError, WebService};

/// What is measured.
#[derive(Clone, Debug)]
pub struct ApplicationsPlan {
    /// Keys of each application.
    pub keys: u64,
    /// Callers at the same time, for rates.
    pub callers: usize,
    /// How often each contestant has its turn.
    pub rounds: usize,
    /// How long a turn is, for latency and for the rate each.
    pub turn: Duration,
}

/// Caches of callers have this part of the data: the paper's have 2 of 32 GiB.
const CACHED_PART: u64 = 16;

/// What one deployment of an application has done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The application.
    pub application: String,
    /// Callers at the same time, of the rate. Latencies are those of one alone.
    pub callers: usize,
    /// Bytes of memory that its data has.
    pub data_bytes: u64,
    /// Bytes of the callers' cache.
    pub cache_bytes: u64,
    /// Microseconds of processor time at the memory node, for each request.
    pub node_us: Option<f64>,
    /// Round trips of a request.
    pub round_trips: Option<f64>,
    /// Bytes of datagrams of a request, there and back.
    pub wire_bytes: Option<f64>,
}

/// Why applications cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationError {
    /// There is no memory node.
    #[error(transparent)]
    Memory(#[from] OffloadError),
    /// The memory cannot be divided.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The model cannot translate addresses.
    #[error(transparent)]
    Table(#[from] TableError),
    /// There is no data.
    #[error("no data for {application}: {reason}")]
    Build {
        /// The application.
        application: &'static str,
        /// Why.
        reason: String,
    },
    /// A socket or a thread is missing.
    #[error("no memory node in this process: {0}")]
    Site(#[from] std::io::Error),
    /// Objects cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A request has no answer.
    #[error("{application} has no answer: {reason}")]
    NoAnswer {
        /// The application.
        application: String,
        /// Why.
        reason: String,
    },
    /// An answer is wrong.
    #[error("{application} has a wrong answer to {request}")]
    Wrong {
        /// The application.
        application: String,
        /// The request.
        request: String,
    },
    /// Somebody stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// The windows of the time series, in seconds.
const WINDOWS: [u64; 4] = [1, 2, 4, 8];

/// Measures all applications. `say` is told what is under way, `finished` has the rows of each
/// application.
///
/// # Errors
/// See [`ApplicationError`].
pub fn measure_applications(
    plan: &ApplicationsPlan,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str),
    finished: &mut dyn FnMut(&[Row<Measured>]),
) -> Result<(), ApplicationError> {
    let (keys, streams) = (plan.keys, plan.callers * Way::ALL.len());
    for mix in [Mix::YcsbA, Mix::YcsbB, Mix::YcsbC] {
        say(&format!(
            "filling the hash table of WebService {}",
            mix.name()
        ));
        with_memory(web_service::bytes(keys), |memory, heap, parts| {
            let built = WebService::new(heap, keys, mix, streams);
            let application = built.map_err(because("WebService"))?;
            say(&format!("running WebService {}", mix.name()));
            let ways = &Way::ALL;
            let rows = measure::measure(&application, plan, (memory, parts), ways, interrupt)?;
            finished(&rows);
            Ok(())
        })?;
    }
    // Cache+RPC keeps what was found for a key; the others' requests have none.
    let ways = [Way::Programs, Way::Paging, Way::Rpc];
    say("filling the ordered table");
    with_memory(ordered_table::bytes(keys), |memory, heap, parts| {
        let built = OrderedTable::new(heap, keys, streams);
        let application = built.map_err(because("the ordered table"))?;
        say("running the ordered table");
        let rows = measure::measure(&application, plan, (memory, parts), &ways, interrupt)?;
        finished(&rows);
        Ok(())
    })?;
    say("filling the time series");
    with_memory(time_series::bytes(keys), |memory, heap, parts| {
        let built = TimeSeries::new(heap, keys, 1);
        let series = built.map_err(because("the time series"))?;
        for seconds in WINDOWS {
            say(&format!("running windows of {seconds} s"));
            let application = series.with_seconds(seconds);
            let rows = measure::measure(&application, plan, (memory, parts), &ways, interrupt)?;
            finished(&rows);
        }
        Ok(())
    })
}

fn because(application: &'static str) -> impl FnOnce(BuildError) -> ApplicationError {
    move |error| ApplicationError::Build {
        application,
        reason: error.to_string(),
    }
}

/// Where the data of a memory node begins: what lies before belongs to the node.
const PAGE: u64 = 4096;

/// Calls `body` with a memory node for so many bytes of data: its memory, a heap in which the data
/// goes, and the parts for later allocations.
fn with_memory<R>(
    data_bytes: u64,
    body: impl FnOnce(
        &LocalMemory<'_>,
        &mut Arena<TenantMemory<'_>>,
        &Parts,
    ) -> Result<R, ApplicationError>,
) -> Result<R, ApplicationError> {
    let data = data_bytes.next_multiple_of(PAGE);
    // What the insertions of a run may take.
    let each = (data / 4).max(1 << 20).next_multiple_of(PAGE);
    let memory = BenchMemory::new(data + 2 * each)?;
    let ranges = Ranges::new(vec![Range {
        start: FIRST,
        bytes: data + 2 * each,
        offset: FIRST,
        tenant: TENANT,
        permission: Permission::Write,
    }])?;
    let local = LocalMemory::new(memory.words(), ranges)?;
    let end = FIRST + data;
    let whole = FIRST..end;
    let mut heap = Arena::new(local.of(TENANT), vec![whole]);
    let parts = Parts {
        node: end..end + each,
        callers: end + each..end + 2 * each,
    };
    body(&local, &mut heap, &parts)
}
