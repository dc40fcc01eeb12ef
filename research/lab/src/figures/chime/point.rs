//! Points of a figure: the work of clients on an index, and the position of its outcome in the
//! figure.

use super::contender::{ChimeContender, ContenderSizes};
use super::scale::{ChimeScale, POOL_BYTES_PER_KEY};
use super::simulate::{CacheWarming, ChimePhase, ChimeSetup, PhaseOutcome, WARM_PART};
use crate::figures::job::FigureJob;
use crate::figures::row::{self, Quantity, Row};
use crate::report::{MeasurementSetting, NumberOrigin};
use crate::workload::{Distribution, Mix};
use nearfield_hardware::network::{NetworkParameters, NetworkPreset};

/// The function that turns an outcome into points of the figure.
pub(super) type Places = Box<dyn Fn(&PhaseOutcome) -> Vec<OutcomePoint> + Send>;

/// A phase and its points in the figure.
pub(super) struct FigurePhase {
    pub phase: ChimePhase,
    pub places: Places,
}

pub(super) struct OutcomePoint {
    pub panel: String,
    pub x: Quantity,
    pub y: Quantity,
}

impl OutcomePoint {
    /// Creates a point with the throughput as its height.
    pub(super) fn rate(
        panel: impl Into<String>,
        x: Quantity,
        outcome: &PhaseOutcome,
    ) -> OutcomePoint {
        OutcomePoint {
            panel: panel.into(),
            x,
            y: Quantity::new("throughput", "Mops", outcome.rate_mops),
        }
    }
}

impl FigurePhase {
    /// Creates a phase with a point of throughput over a quantity that is known beforehand.
    pub(super) fn rate(panel: impl Into<String>, x: Quantity, phase: ChimePhase) -> FigurePhase {
        let panel = panel.into();
        FigurePhase {
            phase,
            places: Box::new(move |outcome| vec![OutcomePoint::rate(&*panel, x.clone(), outcome)]),
        }
    }
}

/// Number of coroutines of a client, as in the artifact's figures.
const TASKS: usize = 2;

impl ChimeSetup {
    /// Creates the paper's setup: ten compute nodes, one memory node behind a 100 Gb/s link, all
    /// keys loaded.
    pub(super) fn of_paper(scale: &ChimeScale, sizes: &ContenderSizes) -> ChimeSetup {
        // The bytes of the pool for each key include an entry of 16 bytes.
        debug_assert!(sizes.key_bytes + sizes.value_bytes >= 16);
        let entry = sizes.key_bytes + sizes.value_bytes - 16;
        let mut setup = ChimeSetup {
            network: NetworkPreset::ConnectX6.parameters(),
            memory_nodes: 1,
            compute_nodes: scale.compute_nodes,
            tasks: TASKS,
            loaded: scale.keys,
            pool_bytes: 0,
            key_bytes: sizes.key_bytes,
            value_bytes: sizes.value_bytes,
            seed: scale.seed,
        };
        setup.make_room(scale.keys, entry);
        setup
    }

    /// Makes room for this number of keys, each of which takes `entry_more` bytes besides 16.
    pub(super) fn make_room(&mut self, keys: usize, entry_more: usize) {
        self.pool_bytes = keys * (POOL_BYTES_PER_KEY + 4 * entry_more);
    }
}

impl ChimePhase {
    /// Creates a phase in which this number of the paper's clients do a mix.
    pub(super) fn of(scale: &ChimeScale, mix: Mix, clients_of_paper: usize) -> ChimePhase {
        // A scan is as much work as tens of other operations.
        let share = if mix.shares().scan > 0 { 8 } else { 1 };
        ChimePhase {
            mix,
            distribution: match mix {
                // LOAD inserts in order, and chooses no key.
                Mix::Load => None,
                _ => Some(mix.distribution_default()),
            },
            clients: scale.clients(clients_of_paper),
            operations: scale.operations / share,
            warming: CacheWarming::None,
            network: None,
        }
    }

    pub(super) fn warmed(self, warming: CacheWarming) -> ChimePhase {
        ChimePhase { warming, ..self }
    }

    /// Warms the caches if the phase is the first of its job. Later ones find them warm.
    pub(super) fn warmed_if(self, is_first: bool, warming: CacheWarming) -> ChimePhase {
        self.warmed(if is_first {
            warming
        } else {
            CacheWarming::None
        })
    }

    pub(super) fn over(self, network: NetworkParameters) -> ChimePhase {
        ChimePhase {
            network: Some(network),
            ..self
        }
    }

    pub(super) fn chosen(self, distribution: Distribution) -> ChimePhase {
        ChimePhase {
            distribution: Some(distribution),
            ..self
        }
    }
}

/// Chooses the warming of a contender's cache: without a limit everything is read. If the cache
/// depends on hotness, `operations` of a compute node train it.
pub(super) fn warming(
    contender: &ChimeContender,
    scale: &ChimeScale,
    operations: usize,
) -> CacheWarming {
    match (contender.cache_bytes, contender.learns()) {
        (Some(_), true) => CacheWarming::Operations(operations),
        // Inner nodes are cached whichever keys are read, so a part of the keys reaches all.
        (Some(_), false) => CacheWarming::Operations(operations.min(scale.keys / WARM_PART)),
        (None, true) => CacheWarming::All(operations),
        (None, false) => CacheWarming::All(0),
    }
}

/// Creates the setup of LOAD, which begins with a twelfth of the keys.
pub(super) fn load_setup(scale: &ChimeScale, sizes: &ContenderSizes) -> ChimeSetup {
    let mut setup = ChimeSetup {
        loaded: scale.keys / 12,
        ..ChimeSetup::of_paper(scale, sizes)
    };
    setup.make_room(scale.keys * 3, 0);
    setup
}

/// Creates a part of LOAD, one of `parts` of equal length: twice as many keys as the paper's, or as
/// many if axes are coarse.
pub(super) fn load_phase(scale: &ChimeScale, clients: usize, parts: usize) -> ChimePhase {
    ChimePhase {
        operations: scale.keys * (2 - usize::from(scale.coarse)) / parts,
        ..ChimePhase::of(scale, Mix::Load, clients)
    }
}

impl FigureJob {
    /// Creates a job that runs clients on an index in virtual time, one phase after the other.
    pub(super) fn simulate(
        figure: &'static str,
        scale: &ChimeScale,
        contender: ChimeContender,
        setup: ChimeSetup,
        points: Vec<FigurePhase>,
    ) -> FigureJob {
        let scale = scale.clone();
        let (bytes, phases) = (setup.pool_bytes, points.len());
        let name = contender.name;
        let job = FigureJob::new(figure, name, phases, move |run| {
            let phases: Vec<ChimePhase> = points.iter().map(|point| point.phase.clone()).collect();
            let (interrupt, results) = (run.interrupt, run.results);
            contender.perform(&setup, &phases, interrupt, results, |number, outcome| {
                let FigurePhase { phase, places } = &points[number];
                for place in places(&outcome) {
                    let row = row(figure, &contender, &setup, phase, &scale, place, &outcome);
                    run.rows.push(row);
                }
                run.end_phase();
            })
        });
        FigureJob { bytes, ..job }
    }
}

fn row(
    figure: &str,
    contender: &ChimeContender,
    setup: &ChimeSetup,
    phase: &ChimePhase,
    scale: &ChimeScale,
    place: OutcomePoint,
    outcome: &PhaseOutcome,
) -> Row {
    let distribution = phase.distribution;
    let distribution = distribution.unwrap_or_else(|| phase.mix.distribution_default());
    Row {
        setting: Some(MeasurementSetting {
            keys: "sparse".to_owned(),
            count: setup.loaded,
            mix: phase.mix.to_string(),
            distribution: distribution.to_string(),
            threads: phase.clients,
            batch: 1,
        }),
        peer: contender.name.to_owned(),
        rate_mops: Some(outcome.rate_mops),
        latency_ns: Some(outcome.latency),
        bytes_per_key: Some(outcome.pool_bytes_per_key),
        detail: row::FigurePoint {
            figure: figure.to_owned(),
            panel: place.panel,
            x: place.x,
            y: place.y,
            network: Some(setup.network.name.to_owned()),
            compute_nodes: Some(setup.compute_nodes),
            memory_nodes: Some(setup.memory_nodes),
            cache_bytes_max: contender.cache_bytes,
            cache_bytes: Some(outcome.cache_bytes),
            messages_per_operation: Some(outcome.messages_per_operation),
            bytes_per_operation: Some(outcome.bytes_per_operation),
            hit_rate: outcome.hit_rate,
            scale: Some(scale.part()),
            ..row::FigurePoint::default()
        },
        kind: NumberOrigin::Modelled,
    }
}
