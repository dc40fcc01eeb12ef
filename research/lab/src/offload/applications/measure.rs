//! Rates and latencies of all deployments of an application.

use super::application::RemoteApplication;
use super::calls::NodeCallClients;
use super::deployment::Deployment;
use super::deployments::{
    CachedRpcDeployment, ObjectCache, PageCache, PagingDeployment, ProgramDeployment, Reserve, Rpc,
};
use super::native::{NativeCode, TENANT};
use super::sealer::Sealer;
use super::site::{ApplicationSite, KEY, with_nodes};
use super::slow_core::slowdown;
use super::{ApplicationError, ApplicationsPlan, DeploymentResult};
use crate::harness::{
    Completion, Durations, Interrupt, LatencySummary, MeasurementSample, in_turns,
};
use crate::report::{NumberOrigin, ReportRow};
use nearfield_offload::net::udp;
use nearfield_offload::node::{LocalMemory, RackMemory, TenantMemory};
use nearfield_offload::structures::NodeArena;
use nearfield_offload::wire::DATAGRAM_BYTES_MAX;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A kind of access from applications to their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeploymentKind {
    Programs,
    /// Traversal programs. Memory nodes return a traversal that leaves them to the caller:
    /// `pulse-acc` in the paper.
    Returning,
    Paging,
    Rpc,
    CachedRpc,
}

impl DeploymentKind {
    pub(super) const ALL: [DeploymentKind; 5] = [
        DeploymentKind::Programs,
        DeploymentKind::Returning,
        DeploymentKind::Paging,
        DeploymentKind::Rpc,
        DeploymentKind::CachedRpc,
    ];
    /// The kinds for requests without a key, whose results cannot be cached by key.
    pub(super) const WITHOUT_KEYS: [DeploymentKind; 4] = [
        DeploymentKind::Programs,
        DeploymentKind::Returning,
        DeploymentKind::Paging,
        DeploymentKind::Rpc,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            DeploymentKind::Programs => "traversal programs",
            DeploymentKind::Returning => "programs, returning",
            DeploymentKind::Paging => "paging with a cache",
            DeploymentKind::Rpc => "RPC",
            DeploymentKind::CachedRpc => "Cache+RPC",
        }
    }
}

/// The name of the model's row.
const SLOW: &str = "RPC on a slow core";
/// Number of queries that the slow core is modelled by.
const MODELLED: usize = 200;

/// The addresses of memory nodes, by their use. Each field has a range for each node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeAddressRanges {
    /// The data of an application.
    pub data: Vec<Range<u64>>,
    /// Memory from which the nodes' own code allocates.
    pub node: Vec<Range<u64>>,
    /// Memory from which callers allocate.
    pub callers: Vec<Range<u64>>,
}

impl NodeAddressRanges {
    /// Returns the bytes for data.
    fn data_bytes(&self) -> u64 {
        self.data.iter().map(|part| part.end - part.start).sum()
    }
}

/// The caches and memory that the callers of a machine share.
pub(super) struct CallerMachine {
    pages: Arc<PageCache>,
    objects: Arc<ObjectCache>,
    reserve: Arc<Reserve>,
}

impl CallerMachine {
    /// Creates a machine with empty caches of this many bytes.
    pub(super) fn new(cache_bytes: u64, reserve: &Arc<Reserve>) -> CallerMachine {
        let object = super::web_service::OBJECT_BYTES;
        CallerMachine {
            pages: Arc::new(PageCache::new(cache_bytes)),
            objects: Arc::new(ObjectCache::new(cache_bytes, object)),
            reserve: Arc::clone(reserve),
        }
    }

    /// Creates a caller with a deployment of this kind.
    pub(super) fn caller(
        &self,
        kind: DeploymentKind,
        site: &ApplicationSite<'_>,
    ) -> io::Result<Box<dyn Deployment>> {
        let servers = NodeCallClients::new(&site.servers)?;
        let reserve = Arc::clone(&self.reserve);
        Ok(match kind {
            DeploymentKind::Programs | DeploymentKind::Returning => Box::new(ProgramDeployment {
                runner: udp::OffloadClient::new(site.programs, TENANT, KEY, |settings| {
                    settings.returns_to_caller = kind == DeploymentKind::Returning;
                    // The loopback interface carries long datagrams, as for the nodes' replies.
                    settings.datagram_bytes = DATAGRAM_BYTES_MAX;
                })?,
                servers,
                reserve,
                longer: None,
            }),
            DeploymentKind::Paging => Box::new(PagingDeployment::new(
                servers,
                Arc::clone(&self.pages),
                reserve,
            )),
            DeploymentKind::Rpc => Box::new(Rpc { servers, reserve }),
            DeploymentKind::CachedRpc => Box::new(CachedRpcDeployment {
                rpc: Rpc { servers, reserve },
                cache: Arc::clone(&self.objects),
            }),
        })
    }
}

/// Creates the native code of each memory node for an application.
pub(super) fn natives<'m>(
    application: &impl RemoteApplication,
    rack: &'m RackMemory<'m>,
    parts: &NodeAddressRanges,
) -> Vec<NativeCode<'m>> {
    let nodes = rack.nodes().iter().zip(&parts.node);
    let native = |(memory, part): (&'m LocalMemory<'m>, &Range<u64>)| {
        let heap: NodeArena<TenantMemory<'m>> =
            NodeArena::new(memory.of(TENANT), vec![part.clone()]);
        application.with_native(NativeCode::new(memory, heap))
    };
    nodes.map(native).collect()
}

/// The results of the turns of a contestant.
struct DeploymentTurns<S> {
    kind: DeploymentKind,
    streams: Vec<S>,
    latency: Durations,
    rates: Vec<f64>,
    node_us: Vec<f64>,
    round_trips: Vec<f64>,
    visits: Vec<f64>,
    wire_bytes: Vec<f64>,
}

/// The work of a caller in a turn.
struct CallerTurnCounts {
    requests: u64,
    round_trips: u64,
}

/// Serves requests for some time; calls `each` with the latency of each.
fn serve<A: RemoteApplication>(
    application: &A,
    stream: &mut impl Iterator<Item = A::Request>,
    caller: &mut dyn Deployment,
    sealer: &mut Sealer,
    turn: Duration,
    interrupt: &Interrupt,
    mut each: impl FnMut(Duration),
) -> Result<CallerTurnCounts, ApplicationError> {
    let begun = Instant::now();
    let before = caller.round_trips();
    let mut requests = 0;
    while begun.elapsed() < turn && !interrupt.is_raised() {
        let Some(request) = stream.next() else {
            break;
        };
        let start = Instant::now();
        let reply = application.serve(&request, caller, sealer);
        let took = start.elapsed();
        let reply = reply.map_err(|error| ApplicationError::NoReply {
            application: application.name(),
            reason: error.to_string(),
        })?;
        if !application.is_right(&request, &reply) {
            return Err(ApplicationError::Wrong {
                application: application.name(),
                request: format!("{request:?}"),
            });
        }
        each(took);
        requests += 1;
    }
    Ok(CallerTurnCounts {
        requests,
        round_trips: caller.round_trips() - before,
    })
}

/// Runs one caller alone, for latency, then all of them together, for the rate.
fn turn<A: RemoteApplication>(
    application: &A,
    plan: &ApplicationsPlan,
    (site, machine): (&ApplicationSite<'_>, CallerMachine),
    turns: &mut DeploymentTurns<impl Iterator<Item = A::Request> + Send>,
    interrupt: &Interrupt,
) -> Result<(), ApplicationError> {
    let caller = || -> Result<_, ApplicationError> {
        Ok((machine.caller(turns.kind, site)?, Sealer::new()?))
    };
    let mut callers = Vec::new();
    for _ in 0..turns.streams.len() {
        callers.push(caller()?);
    }
    if let (Some(stream), Some((caller, sealer))) = (turns.streams.first_mut(), callers.first_mut())
    {
        // In a warm-up, caches fill and the node translates the program.
        let (half, whole) = (plan.turn / 2, plan.turn);
        serve(
            application,
            stream,
            &mut **caller,
            sealer,
            half,
            interrupt,
            drop,
        )?;
        let latency = &mut turns.latency;
        let each = |took| latency.record(took);
        serve(
            application,
            stream,
            &mut **caller,
            sealer,
            whole,
            interrupt,
            each,
        )?;
    }
    let (before, begun) = (site.done(), Instant::now());
    let pairs = turns.streams.iter_mut().zip(&mut callers);
    let served: Result<Vec<CallerTurnCounts>, ApplicationError> = std::thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .map(|(stream, (caller, sealer))| {
                scope.spawn(move || {
                    let turn = plan.turn;
                    serve(
                        application,
                        stream,
                        &mut **caller,
                        sealer,
                        turn,
                        interrupt,
                        drop,
                    )
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            let joined = thread.join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let served = served?;
    let (elapsed, after) = (begun.elapsed(), site.done());
    let requests = served.iter().map(|served| served.requests).sum::<u64>() as f64;
    // After an interrupt there may be none.
    if requests == 0.0 {
        return Ok(());
    }
    let round_trips = served.iter().map(|served| served.round_trips).sum::<u64>() as f64;
    turns.rates.push(requests / elapsed.as_secs_f64());
    turns.round_trips.push(round_trips / requests);
    let cpu = after.cpu.saturating_sub(before.cpu);
    turns.node_us.push(cpu.as_secs_f64() * 1e6 / requests);
    turns
        .visits
        .push((after.sent - before.sent) as f64 / requests);
    turns
        .wire_bytes
        .push((after.bytes - before.bytes) as f64 / requests);
    Ok(())
}

/// Measures an application. The contestants take turns.
pub(super) fn measure<A: RemoteApplication>(
    application: &A,
    plan: &ApplicationsPlan,
    (rack, parts): (&RackMemory<'_>, &NodeAddressRanges),
    kinds: &[DeploymentKind],
    interrupt: &Interrupt,
) -> Result<Vec<ReportRow<DeploymentResult>>, ApplicationError> {
    let nodes = rack.nodes().len();
    let data_bytes = parts.data_bytes();
    let cache_bytes = data_bytes / super::CACHED_PART;
    let contestant = |(number, &kind): (usize, &DeploymentKind)| DeploymentTurns {
        kind,
        // No two contestants insert the same keys.
        streams: (0..plan.callers)
            .map(|caller| application.requests(number * plan.callers + caller))
            .collect(),
        latency: Durations::new(),
        rates: Vec::new(),
        node_us: Vec::new(),
        round_trips: Vec::new(),
        visits: Vec::new(),
        wire_bytes: Vec::new(),
    };
    // With a single memory node no traversal leaves it.
    let kinds = kinds
        .iter()
        .filter(|&&kind| kind != DeploymentKind::Returning || nodes > 1);
    let mut contestants: Vec<_> = kinds.enumerate().map(contestant).collect();
    let reserve = Arc::new(Reserve::new(&parts.callers));
    let natives = natives(application, rack, parts);
    let measured = with_nodes(rack, natives, |site| {
        in_turns(plan.rounds, &mut contestants, interrupt, |_, turns| {
            // Others have changed data since this contestant's last turn, so its caches start empty
            // again.
            let machine = CallerMachine::new(cache_bytes, &reserve);
            turn(application, plan, (site, machine), turns, interrupt)
        })
    })?;
    if measured? == Completion::Interrupted || interrupt.is_raised() {
        return Err(ApplicationError::Interrupted);
    }
    let mut queries = Vec::new();
    for request in application.requests(0).take(MODELLED) {
        queries.extend(application.query(&request));
    }
    let slowdown = slowdown(rack, &queries)?;
    let mut rows = Vec::new();
    for turns in contestants {
        let median =
            |values: Vec<f64>| MeasurementSample::new(values).map(|sample| sample.median());
        let detail = DeploymentResult {
            application: application.name(),
            callers: plan.callers,
            nodes,
            data_bytes,
            cache_bytes: match turns.kind {
                DeploymentKind::Paging | DeploymentKind::CachedRpc => cache_bytes,
                DeploymentKind::Programs | DeploymentKind::Returning | DeploymentKind::Rpc => 0,
            },
            node_us: median(turns.node_us),
            round_trips: median(turns.round_trips),
            visits: median(turns.visits),
            wire_bytes: median(turns.wire_bytes),
        };
        let row = ReportRow {
            rate_mops: median(turns.rates).map(|rate| rate / 1e6),
            latency_ns: turns.latency.percentiles(),
            ..ReportRow::new(turns.kind.name(), NumberOrigin::Measured, detail)
        };
        let slow = match (turns.kind, slowdown) {
            (DeploymentKind::Rpc, Some(slowdown)) => Some(on_slow_core(&row, slowdown)),
            _ => None,
        };
        rows.push(row);
        rows.extend(slow);
    }
    Ok(rows)
}

/// Models RPC with a core at the memory node that is slower by a factor, from the measured RPC.
fn on_slow_core(rpc: &ReportRow<DeploymentResult>, slowdown: f64) -> ReportRow<DeploymentResult> {
    let node_us = rpc.detail.node_us.map(|node_us| node_us * slowdown);
    // The measured latency includes the node's time on this machine; only the rest is added.
    let more = node_us.unwrap_or(0.0) * (1.0 - 1.0 / slowdown) * 1e3;
    let later = |nanoseconds: u64| nanoseconds + more as u64;
    let rate_max = node_us.map_or(f64::INFINITY, |node_us| 1.0 / node_us);
    ReportRow {
        peer: SLOW.to_owned(),
        rate_mops: rpc.rate_mops.map(|rate| rate.min(rate_max)),
        latency_ns: rpc.latency_ns.map(|latency| LatencySummary {
            p50: later(latency.p50),
            p99: later(latency.p99),
            p999: later(latency.p999),
        }),
        detail: DeploymentResult {
            node_us,
            ..rpc.detail.clone()
        },
        kind: NumberOrigin::Modelled,
        ..rpc.clone()
    }
}
