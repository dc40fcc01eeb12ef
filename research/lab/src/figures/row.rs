//! Points, claims and models of figures, as rows for programs. `docs/pool-figures.md` and
//! `docs/pim-figures.md` explain every field.

use crate::report::{self, NumberOrigin};
use nearfield_hardware::modules;
use nearfield_hardware::network::NetworkParameters;
use serde::{Deserialize, Serialize};

/// A model of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkModel {
    /// The name in rows.
    pub name: String,
    /// The source of its figures.
    pub source: String,
    /// Time from a request to its response, in nanoseconds.
    pub round_trip_ns: f64,
    /// Bandwidth of a memory node's link, in bytes a second in each direction.
    pub bytes_per_second: f64,
    /// Bytes that a message adds to its payload.
    pub header_bytes: u64,
    /// Reads a second at a memory node.
    pub reads_per_second: f64,
    /// Writes a second at a memory node.
    pub writes_per_second: f64,
    /// Atomics a second at a memory node.
    pub atomics_per_second: f64,
    /// Atomics a second on one word.
    pub same_word_per_second: f64,
}

impl NetworkModel {
    pub(super) fn of(parameters: NetworkParameters) -> NetworkModel {
        NetworkModel {
            name: parameters.name.to_owned(),
            source: parameters.source.to_owned(),
            round_trip_ns: parameters.round_trip.as_nanoseconds(),
            bytes_per_second: parameters.bytes_per_second,
            header_bytes: parameters.header_bytes,
            reads_per_second: parameters.reads_per_second,
            writes_per_second: parameters.writes_per_second,
            atomics_per_second: parameters.atomics_per_second,
            same_word_per_second: parameters.same_word_per_second,
        }
    }
}

/// A model of modules and their host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleSystemModel {
    /// The name in rows.
    pub name: String,
    /// The source of its figures.
    pub source: String,
    /// Cycles of a processor in a second.
    pub cycles_per_second: f64,
    /// Threads of a processor.
    pub tasklets: usize,
    /// Latency of a word of the thread's bank, in nanoseconds.
    pub word_ns: f64,
    /// Fixed cost of each transfer besides its bytes, in nanoseconds.
    pub transfer_ns: f64,
    /// Cost of starting modules in each round, in nanoseconds.
    pub launch_ns: f64,
    /// Bandwidth between the host and all of 2048 modules, in bytes a second: to the modules, and
    /// back.
    pub bytes_per_second: [f64; 2],
    /// The memory of a module, in bytes.
    pub bank_bytes: u64,
    /// Power of a running processor, in watts.
    pub watts_per_module: f64,
    /// Energy of a byte between host and modules, in joules.
    pub joules_per_byte: f64,
}

impl ModuleSystemModel {
    pub(super) fn of(parameters: &modules::ModuleParameters) -> ModuleSystemModel {
        use modules::ModuleTransferDirection;
        const MODULES: usize = 2048;
        const EACH: u64 = 1 << 20;
        let moved = [EACH; MODULES];
        // The fixed cost of a transfer has a field of its own.
        let rate = |direction| {
            let seconds =
                (parameters.transfer(direction, &moved) - parameters.transfer).as_seconds();
            (MODULES as u64 * EACH) as f64 / seconds
        };
        let dma = &parameters.dma;
        let word_cycles = dma.read_latency + 8.0 * dma.latency_per_byte;
        ModuleSystemModel {
            name: parameters.name.to_owned(),
            source: parameters.source.to_owned(),
            cycles_per_second: parameters.cycles_per_second,
            tasklets: parameters.tasklets,
            word_ns: word_cycles / parameters.cycles_per_second * 1e9,
            transfer_ns: parameters.transfer.as_nanoseconds(),
            launch_ns: parameters.launch.as_nanoseconds(),
            bytes_per_second: [
                rate(ModuleTransferDirection::In),
                rate(ModuleTransferDirection::Out),
            ],
            bank_bytes: parameters.bank_bytes,
            watts_per_module: parameters.watts_per_module,
            joules_per_byte: parameters.joules_per_byte,
        }
    }
}

/// A number with its name and unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The name of the quantity.
    pub name: String,
    /// The unit; empty if there is none.
    pub unit: String,
    /// The number.
    pub value: f64,
}

impl Quantity {
    pub(super) fn new(name: &str, unit: &str, value: impl Into<f64>) -> Quantity {
        Quantity {
            name: name.to_owned(),
            unit: unit.to_owned(),
            value: value.into(),
        }
    }

    /// Returns the label of its axis.
    pub(super) fn axis(&self) -> String {
        match &*self.unit {
            "" => self.name.clone(),
            unit => format!("{}, {unit}", self.name),
        }
    }
}

/// Name of the vertical quantity of spans: the duration of an activity that starts at the
/// horizontal coordinate.
pub(super) const LASTS: &str = "lasts";

/// One point of a figure. `threads` of its setting are clients, of all compute nodes together, with
/// two operations in flight each.
pub type Row = report::ReportRow<FigurePoint>;

/// The position of a point, and its details besides its rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FigurePoint {
    /// The figure of the paper.
    pub figure: String,
    /// The panel of the figure; empty if there is only one.
    pub panel: String,
    /// The horizontal coordinate.
    pub x: Quantity,
    /// The vertical coordinate.
    pub y: Quantity,
    /// The network, if there was one.
    pub network: Option<String>,
    /// Compute nodes.
    pub compute_nodes: Option<usize>,
    /// Memory nodes.
    pub memory_nodes: Option<usize>,
    /// Limit of a compute node's cache, in bytes; null if there is none.
    pub cache_bytes_max: Option<usize>,
    /// Bytes in the cache of a compute node, hotspots included.
    pub cache_bytes: Option<f64>,
    /// Messages at the ports of memory nodes for each operation: reads, writes, atomics.
    pub messages_per_operation: Option<[f64; 3]>,
    /// Bytes through these ports for each operation, in both directions, without headers.
    pub bytes_per_operation: Option<f64>,
    /// The share of speculative reads that were right.
    pub hit_rate: Option<f64>,
    /// The number of keys as a part of that in the paper; caches are this part of the paper's.
    pub scale: Option<f64>,
    /// The source of the keys, if it could be chosen: `generated`, or a file.
    #[serde(default)]
    pub key_source: Option<String>,
    /// The model of the modules, if there were any.
    pub device: Option<String>,
    /// Number of modules.
    pub modules: Option<usize>,
    /// The work of batches in the modules.
    pub work: Option<ModuleWorkCounts>,
}

impl Row {
    /// Creates a point that is computed without clients.
    pub(super) fn counted(figure: &str, peer: &str, x: Quantity, y: Quantity) -> Row {
        let detail = FigurePoint {
            figure: figure.to_owned(),
            x,
            y,
            ..FigurePoint::default()
        };
        Row::new(peer, NumberOrigin::Counted, detail)
    }

    /// Creates a point with its rate as the height.
    pub(super) fn rated(
        figure: &str,
        peer: &str,
        x: Quantity,
        mops: f64,
        kind: NumberOrigin,
    ) -> Row {
        Row {
            rate_mops: Some(mops),
            kind,
            ..Row::counted(figure, peer, x, Quantity::new("throughput", "Mops", mops))
        }
    }

    /// Moves the point into a panel of its figure.
    pub(super) fn in_panel(mut self, panel: impl Into<String>) -> Row {
        self.detail.panel = panel.into();
        self
    }

    /// Replaces the vertical coordinate.
    pub(super) fn at(mut self, y: Quantity) -> Row {
        self.detail.y = y;
        self
    }

    /// Turns the point into another number of the same run, without rate and work.
    pub(super) fn aside(self, y: Quantity, kind: NumberOrigin) -> Row {
        let mut row = self.at(y);
        (row.rate_mops, row.kind) = (None, kind);
        (row.detail.work, row.detail.device) = (None, None);
        row
    }
}

/// The work of batches in modules and on their host. Counts depend on no model except that of the
/// bytes a program copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleWorkCounts {
    /// Number of batches that counted.
    pub batches: u64,
    /// Rounds of a batch: data to all modules, a program in each, data back.
    pub rounds: f64,
    /// Number of these rounds with input that modules have output in the same batch: data that goes
    /// from module to module through the host.
    pub rounds_between: f64,
    /// Rounds of the batch that had most, including batches that did not count.
    pub rounds_max: u64,
    /// Pointers followed for each operation.
    pub hops: f64,
    /// Keys compared for each operation.
    pub compares: f64,
    /// Copies between banks and processors for each operation.
    pub copies: f64,
    /// Bytes of these copies for each operation.
    pub copied_bytes: f64,
    /// Instructions of modules for each operation.
    pub instructions: f64,
    /// Useful bytes between host and modules for each operation: to the modules, and back.
    pub useful_bytes: [f64; 2],
    /// Bytes moved for that; more, because all modules of a transfer are sent equally many.
    pub moved_bytes: [f64; 2],
    /// Time that modules ran in a batch, in nanoseconds: in each round that of the slowest.
    pub modules_ns: f64,
    /// Time of data transfers in a batch, in nanoseconds.
    pub transfer_ns: f64,
    /// Time to start modules and notice that they were done.
    pub launch_ns: f64,
    /// Time that the host worked by itself.
    pub host_ns: f64,
    /// Time of a batch between clients and the index, if there is a protocol between them, measured
    /// on this machine: the median of the batches. No throughput includes it.
    #[serde(default)]
    pub on_the_way_ns: f64,
    /// Time that the host was idle.
    pub host_idle_ns: f64,
    /// Time that no module ran.
    pub modules_idle_ns: f64,
    /// Bytes sent to the module that was sent most, divided by the mean of all modules.
    pub imbalance: f64,
    /// Running time of the slowest module, divided by the mean of all modules.
    pub imbalance_ns: f64,
    /// Microjoules for each operation, of running modules and of transfers.
    pub microjoules: f64,
    /// Contention nodes pulled to the host in a batch.
    pub pulled: f64,
    /// Subranges divided in a batch.
    pub divided: f64,
    /// Keys moved in a batch.
    pub moved_keys: f64,
    /// Bytes in use in all banks.
    pub modules_bytes: u64,
    /// Bytes of the host's structures for finding keys.
    pub host_bytes: u64,
}

/// A number that the paper states, or a goal of this project, with the result here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperClaim {
    /// Its name.
    pub id: String,
    /// The text of the claim.
    pub text: String,
    /// The paper's number; null if the paper has none.
    pub paper: Option<f64>,
    /// The number here; null if the rows that it follows from were not run.
    pub ours: Option<f64>,
    /// The unit of both: `x` for a ratio.
    pub unit: String,
    /// The kind of our number: modelled, measured or counted.
    pub kind: NumberOrigin,
    /// The direction of the paper's number.
    pub direction: ClaimDirection,
    /// The way in which our number came about.
    pub basis: ClaimBasis,
}

/// The direction of a paper's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimDirection {
    /// The paper has this number.
    Equal,
    /// The paper has this number or more.
    AtLeast,
    /// The paper has this number or less.
    AtMost,
}

/// The way in which a number of ours came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimBasis {
    /// A number that follows from parameters that were chosen without it.
    Predicted,
    /// A parameter was chosen so that it comes close, or it restates an assumed parameter. Its
    /// agreement is no evidence.
    Calibrated,
}

/// The greatest relative difference from a paper's number that counts as agreement.
const TOLERANCE: f64 = 0.1;

impl PaperClaim {
    /// Returns true if our number agrees with the paper's: within a tenth, or in its direction.
    /// Returns `None` if one of them is missing.
    ///
    /// ```
    /// use nearfield_lab::figures::{ClaimBasis, ClaimDirection, PaperClaim};
    /// use nearfield_lab::report::NumberOrigin;
    /// let mut claim = PaperClaim {
    ///     id: "paper.speed".to_owned(),
    ///     text: "one is twice as fast as the other".to_owned(),
    ///     paper: Some(2.0),
    ///     ours: Some(2.5),
    ///     unit: "x".to_owned(),
    ///     kind: NumberOrigin::Modelled,
    ///     direction: ClaimDirection::Equal,
    ///     basis: ClaimBasis::Predicted,
    /// };
    /// assert_eq!(claim.agrees(), Some(false));
    /// claim.direction = ClaimDirection::AtLeast;
    /// assert_eq!(claim.agrees(), Some(true));
    /// claim.ours = None;
    /// assert_eq!(claim.agrees(), None);
    /// ```
    pub fn agrees(&self) -> Option<bool> {
        let (paper, ours) = self.paper.zip(self.ours)?;
        Some(match self.direction {
            ClaimDirection::Equal => (ours - paper).abs() <= TOLERANCE * paper.abs(),
            ClaimDirection::AtLeast => ours >= paper,
            ClaimDirection::AtMost => ours <= paper,
        })
    }
}

/// A point that is missing in a figure, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingFigurePoint {
    /// The figure.
    pub figure: String,
    /// The contender.
    pub peer: String,
    /// The reason.
    pub reason: String,
}
