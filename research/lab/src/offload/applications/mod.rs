//! The paper's applications on traversal programs and on its rivals, on memory nodes in this
//! process. All deployments reach the same memory by UDP on the loopback interface.
//!
//! An application is written once, against [`Deployment`](deployment::Deployment). `deployments/`
//! has its implementations: programs at the memory nodes, paging, and calls of native code
//! (`native.rs`) with a cache at the caller and without. `calls/` is the rivals' protocol,
//! `slabs.rs` distributes data over nodes, `site.rs` has the nodes. Every reply is checked.

mod application;
mod calls;
mod deployment;
mod deployments;
mod measure;
mod native;
mod ordered_table;
mod sealer;
mod site;
mod slabs;
mod slow_core;
#[cfg(test)]
mod tests;
mod time_series;
mod web_service;

use super::OffloadError;
use super::memory::BenchMemory;
use super::structures::FIRST;
use crate::harness::Interrupt;
use crate::report::ReportRow;
use crate::workload::Mix;
use measure::{DeploymentKind, NodeAddressRanges};
use native::TENANT;
use nearfield_hardware::accelerator::TableError;
use nearfield_offload::node::{
    LocalMemory, NodeRange, NodeRanges, RackMemory, RangeError, TenantPermission,
};
use ordered_table::OrderedTableApplication;
pub use sealer::SealError;
use serde::{Deserialize, Serialize};
use slabs::RackSlabHeap;
use std::time::Duration;
use time_series::TimeSeriesApplication;
use web_service::{ApplicationBuildError, WebService};

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct ApplicationsPlan {
    /// Number of keys of each application.
    pub keys: u64,
    /// Number of memory nodes that hold its data, at least one.
    pub nodes: usize,
    /// Number of callers at the same time, for rates.
    pub callers: usize,
    /// Number of turns of each contestant.
    pub rounds: usize,
    /// Length of a turn, for latency and for the rate each.
    pub turn: Duration,
}

/// Divisor of the data that gives the size of callers' caches: the paper's are 2 of 32 GiB.
const CACHED_PART: u64 = 16;

/// The results of one deployment of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeploymentResult {
    /// The application.
    pub application: String,
    /// Number of callers at the same time, for the rate. Latencies are those of one alone.
    pub callers: usize,
    /// Number of memory nodes that hold its data.
    pub nodes: usize,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// Bytes of the callers' cache.
    pub cache_bytes: u64,
    /// Microseconds of processor time at the memory nodes, for each request.
    pub node_us: Option<f64>,
    /// Round trips of a request.
    pub round_trips: Option<f64>,
    /// Number of visits of memory nodes for a request.
    pub visits: Option<f64>,
    /// Bytes of datagrams of a request, into memory nodes and out of them.
    pub wire_bytes: Option<f64>,
}

/// Reason why applications cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationError {
    /// A memory node that is missing.
    #[error(transparent)]
    Memory(#[from] OffloadError),
    /// Memory that cannot be divided into ranges.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// Addresses that the model cannot translate.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Data that cannot be built.
    #[error("no data for {application}: {reason}")]
    Build {
        /// The application.
        application: &'static str,
        /// The reason.
        reason: String,
    },
    /// A socket or a thread that cannot be created.
    #[error("no memory node in this process: {0}")]
    Site(#[from] std::io::Error),
    /// Objects that cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A request without a reply.
    #[error("a request of {application} failed: {reason}")]
    NoReply {
        /// The application.
        application: String,
        /// The reason.
        reason: String,
    },
    /// A wrong reply.
    #[error("{application} replied wrongly to {request}")]
    Wrong {
        /// The application.
        application: String,
        /// The request.
        request: String,
    },
    /// A request of the user to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The windows of the time series, in seconds.
const WINDOWS: [u64; 4] = [1, 2, 4, 8];

/// Measures all applications. `show_step` receives the present step, `finished` the rows of each
/// application.
///
/// # Errors
/// See [`ApplicationError`].
pub fn measure_applications(
    plan: &ApplicationsPlan,
    interrupt: &Interrupt,
    show_step: &mut dyn FnMut(&str),
    finished: &mut dyn FnMut(&[ReportRow<DeploymentResult>]),
) -> Result<(), ApplicationError> {
    let (keys, streams) = (plan.keys, plan.callers * DeploymentKind::ALL.len());
    let nodes = plan.nodes.max(1);
    for mix in [Mix::YcsbA, Mix::YcsbB, Mix::YcsbC] {
        show_step(&format!(
            "filling the hash table of WebService {}",
            mix.name()
        ));
        with_memory(web_service::bytes(keys), nodes, |rack, heap, parts| {
            let built = WebService::new(heap, keys, mix, streams);
            let application = built.map_err(build_error("WebService"))?;
            show_step(&format!("running WebService {}", mix.name()));
            let kinds = &DeploymentKind::ALL;
            let rows = measure::measure(&application, plan, (rack, parts), kinds, interrupt)?;
            finished(&rows);
            Ok(())
        })?;
    }
    let kinds = &DeploymentKind::WITHOUT_KEYS;
    show_step("filling the ordered table");
    with_memory(ordered_table::bytes(keys), nodes, |rack, heap, parts| {
        let built = OrderedTableApplication::new(heap, keys, streams);
        let application = built.map_err(build_error("the ordered table"))?;
        show_step("running the ordered table");
        let rows = measure::measure(&application, plan, (rack, parts), kinds, interrupt)?;
        finished(&rows);
        Ok(())
    })?;
    show_step("filling the time series");
    with_memory(time_series::bytes(keys), nodes, |rack, heap, parts| {
        let built = TimeSeriesApplication::new(heap, keys, 1);
        let series = built.map_err(build_error("the time series"))?;
        for seconds in WINDOWS {
            show_step(&format!("running windows of {seconds} s"));
            let application = series.with_seconds(seconds);
            let rows = measure::measure(&application, plan, (rack, parts), kinds, interrupt)?;
            finished(&rows);
        }
        Ok(())
    })
}

fn build_error(
    application: &'static str,
) -> impl FnOnce(ApplicationBuildError) -> ApplicationError {
    move |error| ApplicationError::Build {
        application,
        reason: error.to_string(),
    }
}

/// The first address of a memory node's data: the bytes before belong to the node.
const PAGE: u64 = 4096;
/// Distance of the first addresses of successive memory nodes.
const NODE: u64 = 1 << 40;

/// Allocates memory for all nodes at the same time.
fn memories(nodes: usize, bytes: u64) -> Result<Vec<BenchMemory>, OffloadError> {
    std::thread::scope(|scope| {
        // In parallel, because each node waits for its large pages.
        let threads = (0..nodes).map(|_| scope.spawn(|| BenchMemory::new(bytes)));
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(memory) => memory,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

/// Calls `body` with memory nodes for this many bytes of data: their memory, a heap for the data,
/// and the parts for later allocations.
fn with_memory<R>(
    data_bytes: u64,
    nodes: usize,
    body: impl FnOnce(
        &RackMemory<'_>,
        &mut RackSlabHeap<'_>,
        &NodeAddressRanges,
    ) -> Result<R, ApplicationError>,
) -> Result<R, ApplicationError> {
    let slab = slabs::slab_bytes(data_bytes, nodes);
    let data = data_bytes.div_ceil(nodes as u64).next_multiple_of(slab);
    // Room for the insertions of a run.
    let each = (data / 4).max(1 << 20).next_multiple_of(PAGE);
    let whole = data + 2 * each;
    let memories = memories(nodes, whole)?;
    let (mut locals, mut parts) = (Vec::new(), NodeAddressRanges::default());
    for (memory, start) in memories.iter().zip((FIRST..).step_by(NODE as usize)) {
        let range = NodeRange {
            start,
            bytes: whole,
            offset: FIRST,
            tenant: TENANT,
            permission: TenantPermission::Write,
        };
        locals.push(LocalMemory::new(
            memory.words(),
            NodeRanges::new(vec![range])?,
        )?);
        let (end, behind) = (start + data, start + data + each);
        parts.data.push(start..end);
        parts.node.push(end..behind);
        parts.callers.push(behind..behind + each);
    }
    let rack = RackMemory::new(locals, TENANT);
    let mut heap = RackSlabHeap::new(&rack, &parts.data, slab);
    body(&rack, &mut heap, &parts)
}
