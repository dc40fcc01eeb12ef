//! Figures 7 and 9, and utilization: all systems on one to four memory nodes.

use super::applications::{
    PulseApplication, PulseKeyDistribution, WEB_SERVICE, WIRED_TIGER, btrdb,
};
use super::data::Allocation;
use super::measure::{MemoryNodeHardware, PULSE, PULSE_ACC, PulseSetup, RPC, RPC_ARM, measure};
use super::paged::{paged, paper_cache};
use super::rows::{latency, memory_nodes, of_latency, of_rate, row};
use super::scale::{Figure, PulseScale};
use crate::figures::job::{FigureJob, PointError, RunningJob};
use crate::figures::row::{Quantity, Row};
use nearfield_hardware::VirtualTime;
use nearfield_hardware::accelerator::{cores, paging, rack};

/// The greatest number of memory nodes of the paper.
const NODES: usize = 4;

pub(super) const CACHE_BASED: &str = "cache-based";
pub(super) const CACHE_RPC: &str = "Cache+RPC";
/// The same system with the slower faults of figure 2a.
const NETWORK_SWAP: &str = "cache-based, faults of 2a";
/// The same system with the hits that our count of pages finds in place of the artifact's.
const COUNTED_HITS: &str = "cache-based, counted hits";

/// A system with its name in rows.
#[derive(Clone, Copy)]
struct PulseContender {
    name: &'static str,
    system: Option<MemoryNodeHardware>,
    rack: rack::RackParameters,
}

/// Returns the paper's Cache+RPC, which has a TCP stack in user space.
fn cache_rpc() -> PulseContender {
    PulseContender {
        name: CACHE_RPC,
        system: Some(MemoryNodeHardware::Cores(cores::CoresParameters {
            // *Assumed*: 3 µs in place of half a microsecond of the server's software.
            receive: VirtualTime::from_nanoseconds(3000),
            send: VirtualTime::from_nanoseconds(3000),
            ..cores::CoresParameters::XEON
        })),
        rack: rack::RackParameters {
            // *Assumed*: 5 µs in place of 1 µs of the caller's software.
            caller: VirtualTime::from_nanoseconds(5000),
            ..rack::RackParameters::PAPER
        },
    }
}

fn contenders(application: PulseApplication) -> Vec<PulseContender> {
    let direct = |name, system| PulseContender {
        name,
        system,
        rack: rack::RackParameters::PAPER,
    };
    let mut all = vec![
        direct("pulse", Some(PULSE)),
        direct("pulse-acc", Some(PULSE_ACC)),
        direct("RPC", Some(RPC)),
        direct("RPC-ARM", Some(RPC_ARM)),
        direct(CACHE_BASED, None),
    ];
    // The paper has Cache+RPC on one node, for this application only.
    if matches!(application, PulseApplication::WebService { .. }) {
        all.push(cache_rpc());
    }
    all
}

pub(super) fn applications() -> Vec<PulseApplication> {
    let windows = [1, 2, 4, 8].map(btrdb);
    [WEB_SERVICE, WIRED_TIGER]
        .into_iter()
        .chain(windows)
        .collect()
}

/// The figures that share these runs.
const SHARED: [&str; 3] = ["7", "9", "a2"];

pub(super) fn jobs(scale: &PulseScale, figures: &[&'static str]) -> Vec<FigureJob> {
    let wanted: Vec<_> = SHARED
        .into_iter()
        .filter(|name| figures.contains(name))
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut jobs = Vec::new();
    for application in applications() {
        jobs.extend(of_application(application, &wanted, scale));
    }
    jobs
}

/// Creates the jobs of appendix figure 6: as figure 7, with uniform keys.
pub(super) fn uniform(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let choice = PulseKeyDistribution::Uniform;
    let applications = [
        PulseApplication::WebService {
            updates: 5,
            choice,
            cached: 0,
        },
        PulseApplication::WiredTiger {
            choice,
            allocation: Allocation::Slabs(super::applications::COARSE),
        },
    ];
    let jobs = applications.map(|application| of_application(application, &[figure.name], scale));
    jobs.into_iter().flatten().collect()
}

fn of_application(
    application: PulseApplication,
    wanted: &[&'static str],
    scale: &PulseScale,
) -> Vec<FigureJob> {
    let job = |contender: PulseContender| {
        let (own, figures) = (scale.clone(), wanted.to_vec());
        let title = format!("{} of {}", application.name(), contender.name);
        let most = if contender.name == CACHE_RPC {
            1
        } else {
            NODES
        };
        let mut job = FigureJob::new("", &title, most, move |run| {
            for nodes in 1..=most {
                point(run, &figures, application, contender, nodes, &own)?;
                run.end_phase();
            }
            Ok(())
        });
        job.figures = wanted.to_vec();
        // Memory for a cache of pages, and their places.
        job.bytes = 64 << 20;
        job
    };
    contenders(application).into_iter().map(job).collect()
}

fn point(
    run: &mut RunningJob<'_>,
    figures: &[&'static str],
    application: PulseApplication,
    contender: PulseContender,
    nodes: usize,
    scale: &PulseScale,
) -> Result<(), PointError> {
    let name = application.name();
    let PulseContender {
        name: peer,
        system,
        rack,
    } = contender;
    let mut add = |figure: &'static str, row: Row| {
        if figures.contains(&figure) {
            let mut row = row;
            row.detail.memory_nodes = Some(nodes);
            run.rows.push(row);
        }
    };
    let x = || memory_nodes(nodes);
    let Some(system) = system else {
        let paged = paged(application, nodes, paper_cache, scale, run.interrupt)?;
        let fastswap = paging::PagingParameters::FASTSWAP;
        let published = paged.faults_at(application.published_hit_rate());
        let callers = PulseSetup::new(application, PULSE)
            .on(nodes)
            .saturated()
            .under_way;
        let mut wire = 0.0;
        for (peer, parameters, faults) in [
            (peer, fastswap, published),
            (
                NETWORK_SWAP,
                paging::PagingParameters::NETWORK_SWAP,
                published,
            ),
            (COUNTED_HITS, fastswap, paged.faults),
        ] {
            let requests = scale.requests as u64;
            let alone = parameters.run(1, requests.min(1000), paged.nodes, faults);
            let full = parameters.run(callers, requests, paged.nodes, faults);
            let nanoseconds = alone.latency_ns + application.own_ns();
            let mops = full.requests_per_second / 1e6;
            for figure in ["7", "a6"] {
                add(figure, row(figure, &name, peer, x(), latency(nanoseconds)));
                add(figure, of_rate(figure, &name, peer, x(), mops));
            }
            let waiting = full.waiting_ns / 1e3;
            let y = Quantity::new("wait for a free page", "µs a fault", waiting);
            add("a2", row("a2", &name, peer, x(), y));
            if peer == CACHE_BASED {
                wire = full.requests_per_second * faults * parameters.page_bytes as f64;
            }
        }
        let hits = Quantity::new("counted hits of pages", "%", 100.0 * paged.hit_rate());
        add("a2", row("a2", &name, peer, x(), hits));
        add("a2", row("a2", &name, peer, x(), wire_share(wire)));
        add(
            "a2",
            row("a2", &name, peer, x(), memory_share(wire / nodes as f64)),
        );
        return Ok(());
    };
    let setup = PulseSetup {
        rack,
        ..PulseSetup::new(application, system).on(nodes)
    };
    let alone = measure(&setup, scale, run.interrupt)?;
    let full = measure(&setup.saturated(), scale, run.interrupt)?;
    for figure in ["7", "a6", "9"] {
        // Figure 9 compares pulse with its own variant, the others compare systems.
        let is_wanted = match figure {
            "9" => peer.starts_with("pulse"),
            _ => peer != "pulse-acc",
        };
        if is_wanted {
            add(figure, of_latency(figure, &name, peer, x(), &alone));
            add(figure, of_rate(figure, &name, peer, x(), full.mops));
        }
    }
    if peer == "pulse" || peer == "pulse-acc" {
        let crossings = Quantity::new("crossings", "a request", alone.crossings);
        add("9", row("9", &name, peer, x(), crossings));
    }
    if peer != "pulse-acc" {
        let wire = wire_share(full.wire_bytes_per_second);
        add("a2", row("a2", &name, peer, x(), wire));
        let memory = memory_share(full.memory_bytes_per_second);
        add("a2", row("a2", &name, peer, x(), memory));
    }
    Ok(())
}

fn wire_share(bytes_per_second: f64) -> Quantity {
    let whole = rack::RackParameters::PAPER.bytes_per_second;
    Quantity::new(
        "bandwidth of the callers' wire",
        "%",
        100.0 * bytes_per_second / whole,
    )
}

fn memory_share(bytes_per_second: f64) -> Quantity {
    let whole = cores::CoresParameters::XEON.memory_bytes_per_second;
    Quantity::new("bandwidth of memory", "%", 100.0 * bytes_per_second / whole)
}
