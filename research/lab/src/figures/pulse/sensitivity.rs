//! Figure `sensitivity`: the effect of each assumed parameter, halved and doubled, alone.

use super::applications::{PulseApplication, WEB_SERVICE, WIRED_TIGER};
use super::measure::{MemoryNodeHardware, PulseSetup, measure};
use super::paged::{RequestPagingMeans, paged, paper_cache};
use super::power::fewest;
use super::rows::row;
use super::scale::{Figure, PulseScale};
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::Quantity;
use crate::harness::Interrupt;
use nearfield_hardware::VirtualTime;
use nearfield_hardware::accelerator::pulse::energy::{
    AcceleratorPower, ProcessorPower, microjoules,
};
use nearfield_hardware::accelerator::pulse::{PulseDesign, PulseParameters};
use nearfield_hardware::accelerator::rack::{self, RackForwarder};
use nearfield_hardware::accelerator::{cores, paging};
use std::sync::{Arc, Mutex, PoisonError};

/// The parameters that results are computed with.
#[derive(Clone, Copy)]
struct Knobs {
    pulse: PulseParameters,
    rack: rack::RackParameters,
    cores: cores::CoresParameters,
    paging: paging::PagingParameters,
    accelerator: AcceleratorPower,
    processor: ProcessorPower,
}

const AS_ASSUMED: Knobs = Knobs {
    pulse: PulseParameters::PAPER,
    rack: rack::RackParameters::PAPER,
    cores: cores::CoresParameters::XEON,
    paging: paging::PagingParameters::FASTSWAP,
    accelerator: AcceleratorPower::PAPER,
    processor: ProcessorPower::XEON,
};

/// A parameter: its name, and the function that multiplies it.
type Knob = (&'static str, fn(&mut Knobs, f64));

fn times(time: &mut VirtualTime, factor: f64) {
    let picoseconds = time.as_picoseconds() as f64 * factor;
    *time = VirtualTime::from_picoseconds(picoseconds.round() as u64);
}

fn counts(count: &mut u64, factor: f64) {
    *count = (*count as f64 * factor).ceil() as u64;
}

const KNOBS: [Knob; 16] = [
    ("access to DRAM", |knobs, factor| {
        times(&mut knobs.pulse.access, factor)
    }),
    ("translation", |knobs, factor| {
        counts(&mut knobs.pulse.translate_cycles, factor)
    }),
    ("scheduler", |knobs, factor| {
        // Cycles are whole, so half of three is one.
        let cycles = knobs.pulse.schedule_cycles as f64 * factor;
        knobs.pulse.schedule_cycles = cycles.floor() as u64;
    }),
    ("instructions of a cycle", |knobs, factor| {
        let count = &mut knobs.pulse.instructions_per_cycle;
        *count = (f64::from(*count) * factor) as u32;
    }),
    ("network stack", |knobs, factor| {
        counts(&mut knobs.pulse.network_cycles, factor)
    }),
    ("bandwidth of a channel", |knobs, factor| {
        knobs.pulse.channel_bytes_per_second *= factor
    }),
    ("caller's software", |knobs, factor| {
        times(&mut knobs.rack.caller, factor)
    }),
    ("caller's interface", |knobs, factor| {
        times(&mut knobs.rack.interface, factor)
    }),
    ("switch", |knobs, factor| {
        times(&mut knobs.rack.switch, factor)
    }),
    ("access of a core", |knobs, factor| {
        times(&mut knobs.cores.access, factor)
    }),
    ("software of a core", |knobs, factor| {
        times(&mut knobs.cores.receive, factor);
        times(&mut knobs.cores.send, factor);
    }),
    ("instructions of a core", |knobs, factor| {
        knobs.cores.instructions_per_second *= factor
    }),
    ("page fault", |knobs, factor| {
        times(&mut knobs.paging.fault, factor)
    }),
    ("power of the rest of a card", |knobs, factor| {
        knobs.accelerator.rest *= factor
    }),
    ("power of pipelines", |knobs, factor| {
        knobs.accelerator.per_percent *= factor
    }),
    ("power of a processor without cores", |knobs, factor| {
        knobs.processor.rest *= factor
    }),
];

/// Number of cores of the processor.
const CORES: usize = 18;

/// The faults of WiredTiger, which depend on no parameter; the first job computes them.
type Faults = Arc<Mutex<Option<RequestPagingMeans>>>;

pub(super) fn jobs(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let scale = PulseScale {
        requests: (scale.requests / 4).max(60),
        ..scale.clone()
    };
    let faults = Faults::default();
    let base: Knob = ("as assumed", |_, _| {});
    let job = |(name, turn): Knob| {
        let (scale, faults) = (scale.clone(), Arc::clone(&faults));
        let factors: &[f64] = if name == base.0 { &[1.0] } else { &[0.5, 2.0] };
        FigureJob::new(figure, name, factors.len(), move |run| {
            for &factor in factors {
                let mut knobs = AS_ASSUMED;
                turn(&mut knobs, factor);
                for (panel, number) in results(&knobs, &faults, &scale, run.interrupt)? {
                    let x = Quantity::new("parameter as a multiple", "", factor);
                    let y = Quantity::new("result", "x", number);
                    run.rows.push(row(figure, panel, name, x, y));
                }
                run.end_phase();
            }
            Ok(())
        })
    };
    std::iter::once(base).chain(KNOBS).map(job).collect()
}

/// Computes the main results of the paper, as ratios.
fn results(
    knobs: &Knobs,
    faults: &Faults,
    scale: &PulseScale,
    interrupt: &Interrupt,
) -> Result<[(&'static str, f64); 5], PointError> {
    let pulse = |design, rerouting| MemoryNodeHardware::Pulse {
        parameters: knobs.pulse,
        design,
        rerouting,
    };
    let setup = |application: PulseApplication, system| PulseSetup {
        rack: knobs.rack,
        ..PulseSetup::new(application, system)
    };
    let run = |setup: PulseSetup| measure(&setup, scale, interrupt);
    let prototype = pulse(PulseDesign::PROTOTYPE, RackForwarder::Switch);
    let rpc = MemoryNodeHardware::Cores(knobs.cores);
    let alone = run(setup(WIRED_TIGER, prototype))?.latency_ns;
    let by_rpc = run(setup(WIRED_TIGER, rpc))?.latency_ns;
    let paged = {
        // Locked while they are counted, so that other jobs wait instead of counting them, too.
        let mut known = faults.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some(paged) => paged,
            None => *known.insert(paged(WIRED_TIGER, 1, paper_cache, scale, interrupt)?),
        }
    };
    let faults = paged.faults_at(WIRED_TIGER.published_hit_rate());
    let by_pages = knobs.paging.latency_ns(paged.nodes, faults);
    let two = |rerouting| {
        let system = pulse(PulseDesign::PROTOTYPE, rerouting);
        Ok::<f64, PointError>(run(setup(WIRED_TIGER, system).on(2))?.latency_ns)
    };
    let rate = |design| {
        let system = pulse(design, RackForwarder::Switch);
        Ok::<f64, PointError>(run(setup(WEB_SERVICE, system).saturated())?.mops)
    };
    let (logic, memory) = (1, 4);
    let one_to_four = rate(PulseDesign::Disaggregated { logic, memory })?;
    let coupled = rate(PulseDesign::Coupled { cores: 4 })?;
    let full = run(setup(WEB_SERVICE, prototype).saturated())?;
    let (cores, by_cores) = fewest(WEB_SERVICE, knobs.cores, CORES, scale, interrupt)?;
    let energy = |watts, mops: f64, bytes| microjoules(watts, mops * 1e6, bytes);
    let of_pulse = energy(
        knobs.accelerator.watts(PulseDesign::PROTOTYPE),
        full.mops,
        full.memory_bytes,
    );
    let of_rpc = energy(
        knobs.processor.watts(cores),
        by_cores.mops,
        by_cores.memory_bytes,
    );
    Ok([
        (
            "WiredTiger: latency of cache-based over pulse",
            by_pages / alone,
        ),
        ("WiredTiger: latency of RPC over pulse", by_rpc / alone),
        (
            "WiredTiger on two nodes: latency of pulse-acc over pulse",
            two(RackForwarder::Caller)? / two(RackForwarder::Switch)?,
        ),
        (
            "WebService: 1 logic and 4 memory over 4 coupled",
            one_to_four / coupled,
        ),
        ("WebService: energy of RPC over pulse", of_rpc / of_pulse),
    ])
}
