//! A single accelerator: tables 3 and 4, figures 4, 10 and 11, and those of the list.

use super::applications::{
    PulseApplication, PulseRequestGenerator, WEB_SERVICE, WIRED_TIGER, btrdb,
};
use super::measure::{MemoryNodeHardware, PulseSetup, follow, measure};
use super::rows::{of_latency, of_rate, row};
use super::scale::{Figure, PulseScale};
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::{LASTS, Quantity, Row};
use nearfield_hardware::VirtualTime;
use nearfield_hardware::accelerator::pulse::area::{PulseArea, TABLE_4};
use nearfield_hardware::accelerator::pulse::energy::AcceleratorPower;
use nearfield_hardware::accelerator::pulse::schedule::staggered;
use nearfield_hardware::accelerator::pulse::{PulseDesign, PulseParameters, PulseUsage};
use nearfield_hardware::accelerator::rack::RackForwarder;

/// Returns a system with this accelerator in place of the prototype.
pub(super) fn accelerator(parameters: PulseParameters, design: PulseDesign) -> MemoryNodeHardware {
    MemoryNodeHardware::Pulse {
        parameters,
        design,
        rerouting: RackForwarder::Switch,
    }
}

/// Creates the job of figure 4: three traversals on one logic and two memory pipelines.
pub(super) fn schedule(figure: &Figure, _: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let rows = move || {
        let unit = VirtualTime::from_nanoseconds(30);
        let mut rows = Vec::new();
        for slot in staggered(1, 2, 3, unit) {
            let name = ["A", "B", "C"]
                .get(slot.traversal)
                .copied()
                .unwrap_or_default();
            let iteration = slot.iteration + 1;
            for (part, (pipeline, begins), lasts) in
                [("memory", slot.memory, 60.0), ("logic", slot.logic, 30.0)]
            {
                let peer = format!("{name}{iteration} on {part} {}", pipeline + 1);
                let x = Quantity::new("time", "ns", begins.as_nanoseconds());
                rows.push(row(figure, "", &peer, x, Quantity::new(LASTS, "ns", lasts)));
            }
        }
        rows
    };
    vec![FigureJob::count(figure, "schedule", rows)]
}

/// Creates the jobs of table 3: iterations of a request, and the times of logic and fetch.
pub(super) fn ratios(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let applications = [
        WEB_SERVICE,
        WIRED_TIGER,
        btrdb(1),
        btrdb(2),
        btrdb(4),
        btrdb(8),
    ];
    let job = |(number, application): (usize, PulseApplication)| {
        let scale = scale.clone();
        FigureJob::new(figure, &application.name(), 1, move |run| {
            let parameters = PulseParameters::PAPER;
            let mut load = PulseRequestGenerator::new(application, 1, &scale)?;
            let (mut iterations, mut instructions) = (0.0, 0.0);
            let (mut logic, mut fetch) = (0.0, 0.0);
            let requests = (scale.traversals / 10).max(1);
            for number in 0..requests {
                if number % 256 == 0 && run.interrupt.is_raised() {
                    return Err(PointError::Interrupted);
                }
                let path = follow(&mut load)?;
                for (span, &count) in path.fetches.iter().zip(&path.instructions) {
                    // The object of WebService is not a node.
                    if span.bytes > 256 {
                        continue;
                    }
                    iterations += 1.0;
                    instructions += f64::from(count);
                    logic += parameters.logic(count).as_nanoseconds();
                    fetch += parameters.fetch(span.address, span.bytes).as_nanoseconds();
                }
            }
            let peer = application.name();
            let x = || Quantity::new("application", "", number as f64 + 1.0);
            let each = iterations / requests as f64;
            let program = load.program();
            for y in [
                Quantity::new("iterations", "a request", each),
                Quantity::new("logic time over fetch time", "", logic / fetch),
                Quantity::new("instructions", "an iteration", instructions / iterations),
                Quantity::new("program", "instructions", program.code().slots() as f64),
            ] {
                run.rows.push(row(figure, "", &peer, x(), y));
            }
            run.end_phase();
            Ok(())
        })
    };
    applications.into_iter().enumerate().map(job).collect()
}

/// Returns the name of a design in rows: its logic.
fn logic_of(design: PulseDesign) -> String {
    match design {
        PulseDesign::Coupled { .. } => "coupled".to_owned(),
        PulseDesign::Disaggregated { logic, .. } => format!("{logic} logic"),
    }
}

fn memory_pipelines(design: PulseDesign) -> Quantity {
    Quantity::new("memory pipelines", "", design.memory() as f64)
}

/// Returns the time that a request holds its workspace at full throughput, and the parts of it for
/// a fetch and for logic; also the paper's time.
fn held(design: PulseDesign, usage: &PulseUsage) -> Vec<Quantity> {
    let each = |time: VirtualTime, count: u64| time.as_nanoseconds() / count.max(1) as f64;
    let parts = usage.breakdown;
    let ours = each(usage.workspaces_busy, usage.departures) / 1e3;
    let mut all = vec![
        Quantity::new("workspace held", "µs a request", ours),
        Quantity::new(
            "fetch and its waits",
            "ns",
            each(parts.memory, parts.fetches),
        ),
        Quantity::new(
            "logic",
            "ns an iteration",
            each(parts.logic, usage.iterations),
        ),
    ];
    if let Some(published) = TABLE_4.iter().find(|row| row.design == design) {
        // The paper has no such time. It follows from the throughput and the calibrated number of
        // workspaces, which is that of the requests in flight.
        let paper = design.workspaces() as f64 / published.mops;
        all.push(Quantity::new(
            "workspace held, the paper's",
            "µs a request",
            paper,
        ));
    }
    all
}

/// Creates the jobs of table 4, and of figure 11 from the same runs.
pub(super) fn designs(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let is_wanted = move |design: PulseDesign| figure != "11" || design.logic() == 1;
    let designs = TABLE_4
        .iter()
        .map(|row| row.design)
        .filter(|&design| is_wanted(design));
    let job = |design: PulseDesign| {
        let scale = scale.clone();
        FigureJob::new(figure, &design.to_string(), 1, move |run| {
            let system = accelerator(PulseParameters::PAPER, design);
            let setup = PulseSetup::new(WEB_SERVICE, system);
            let full = measure(&setup.saturated(), &scale, run.interrupt)?;
            let (peer, x) = (logic_of(design), || memory_pipelines(design));
            if figure == "11" {
                let watts = AcceleratorPower::PAPER.watts(design);
                let eta = Quantity::new("logic for each memory pipeline", "", design.eta());
                let y = Quantity::new("throughput per watt", "kops", full.mops * 1e3 / watts);
                if matches!(design, PulseDesign::Disaggregated { .. }) {
                    run.rows.push(row(figure, "", &peer, eta, y));
                }
                run.end_phase();
                return Ok(());
            }
            let alone = measure(&setup, &scale, run.interrupt)?;
            run.rows.push(of_rate(figure, "", &peer, x(), full.mops));
            run.rows.push(of_latency(figure, "", &peer, x(), &alone));
            let area = PulseArea::published(design).unwrap_or_else(|| PulseArea::fitted(design));
            let parts = Quantity::new("area of the paper's card", "% + %", area.sum());
            run.rows.push(row(figure, "", &peer, x(), parts));
            for y in held(design, &full.usage) {
                run.rows.push(row(figure, "", &peer, x(), y));
            }
            let shares = full.usage.shares(
                &PulseParameters::PAPER,
                design,
                VirtualTime::from_picoseconds((full.seconds * 1e12) as u64),
            );
            for (name, share) in ["memory busy", "logic busy", "channels busy"]
                .into_iter()
                .zip(shares)
            {
                let y = Quantity::new(name, "%", 100.0 * share);
                run.rows.push(row(figure, "", &peer, x(), y));
            }
            run.end_phase();
            Ok(())
        })
    };
    designs.map(job).collect()
}

/// Creates the job of figure 10: the parts of WebService's time.
pub(super) fn breakdown(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let (figure, scale) = (figure.name, scale.clone());
    vec![FigureJob::new(figure, "WebService", 1, move |run| {
        let system = accelerator(PulseParameters::PAPER, PulseDesign::PROTOTYPE);
        let outcome = measure(&PulseSetup::new(WEB_SERVICE, system), &scale, run.interrupt)?;
        let usage = outcome.usage;
        let parts = usage.breakdown;
        let iterations = usage.iterations as f64;
        let requests = usage.departures as f64;
        let x = || Quantity::new("", "", 0.0);
        for (name, time, count) in [
            ("network stack, each way", parts.network, 2.0 * requests),
            (
                "scheduler, each event",
                parts.schedule,
                2.0 * iterations + requests,
            ),
            (
                "memory pipeline, each fetch",
                parts.memory,
                parts.fetches as f64,
            ),
            ("logic pipeline, each iteration", parts.logic, iterations),
            ("all of it, each request", VirtualTime::ZERO, 0.0),
        ] {
            let nanoseconds = match count {
                0.0 => {
                    let all = parts.network + parts.schedule + parts.memory + parts.logic;
                    (all + parts.waiting).as_nanoseconds() / requests
                }
                count => time.as_nanoseconds() / count,
            };
            let y = Quantity::new("time", "ns", nanoseconds);
            run.rows.push(row(figure, "", name, x(), y));
        }
        run.end_phase();
        Ok(())
    })]
}

/// Creates the job of appendix figure 4a: latency by the length of a traversal.
pub(super) fn lengths(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let (figure, scale) = (figure.name, scale.clone());
    let lengths = [1, 8, 16, 32, 64, 128, 256, 512];
    vec![FigureJob::new(figure, "list", lengths.len(), move |run| {
        for nodes in lengths {
            let application = PulseApplication::List { nodes };
            let system = accelerator(PulseParameters::PAPER, PulseDesign::PROTOTYPE);
            let outcome = measure(&PulseSetup::new(application, system), &scale, run.interrupt)?;
            let x = Quantity::new("nodes of a traversal", "", nodes as f64);
            run.rows.push(of_latency(figure, "", "pulse", x, &outcome));
            run.end_phase();
        }
        Ok(())
    })]
}

/// The greatest number of memory pipelines in appendix figure 4b.
const PIPELINES_MAX: usize = 8;

/// Creates the jobs of appendix figure 4b: memory bandwidth by memory pipelines, with the vendor's
/// interconnect and without a shared one.
pub(super) fn bandwidth(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let direct = PulseParameters {
        shares_interconnect: false,
        ..PulseParameters::PAPER
    };
    let variants = [
        ("pulse", PulseParameters::PAPER),
        ("without interconnect", direct),
    ];
    let job = |(peer, parameters): (&'static str, PulseParameters)| {
        let scale = scale.clone();
        FigureJob::new(figure, peer, PIPELINES_MAX, move |run| {
            for memory in 1..=PIPELINES_MAX {
                let design = PulseDesign::Disaggregated { logic: 3, memory };
                let list = PulseApplication::List { nodes: 64 };
                let setup = PulseSetup::new(list, accelerator(parameters, design));
                let outcome = measure(&setup.saturated(), &scale, run.interrupt)?;
                let gigabytes = outcome.memory_bytes_per_second / 1e9;
                let y = Quantity::new("memory bandwidth", "GB/s", gigabytes);
                run.rows
                    .push(row(figure, "", peer, memory_pipelines(design), y));
                run.end_phase();
            }
            Ok(())
        })
    };
    variants.map(job).into()
}

/// Creates a job for rows that come from formulas, without a run.
pub(super) fn counted(
    figure: &'static str,
    rows: impl FnOnce() -> Vec<Row> + Send + 'static,
) -> Vec<FigureJob> {
    vec![FigureJob::count(figure, "formulas", rows)]
}
