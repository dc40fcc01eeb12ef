//! Points, claims and models of figures, as rows for programs. `docs/pool-figures.md` and
//! `docs/pim-figures.md` explain every field.

use crate::report::{self, Kind};
use nearfield_hardware::modules;
use nearfield_hardware::network::Parameters;
use serde::{Deserialize, Serialize};

/// A model of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Its name in rows.
    pub name: String,
    /// Where its figures are from.
    pub source: String,
    /// From a request to its answer, in nanoseconds.
    pub round_trip_ns: f64,
    /// What the link of a memory node carries, in bytes a second in each direction.
    pub bytes_per_second: f64,
    /// What a message adds to its bytes.
    pub header_bytes: u64,
    /// Reads, writes, atomics, and atomics on one word, a second.
    pub reads_per_second: f64,
    /// See above.
    pub writes_per_second: f64,
    /// See above.
    pub atomics_per_second: f64,
    /// See above.
    pub same_word_per_second: f64,
}

impl Network {
    pub(super) fn of(parameters: Parameters) -> Network {
        Network {
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
pub struct Device {
    /// Its name in rows.
    pub name: String,
    /// Where its figures are from.
    pub source: String,
    /// Cycles of a processor in a second.
    pub cycles_per_second: f64,
    /// Threads of a processor.
    pub tasklets: usize,
    /// What a thread waits for a word of its bank, in nanoseconds.
    pub word_ns: f64,
    /// What each transfer takes besides its bytes, in nanoseconds.
    pub transfer_ns: f64,
    /// What it takes to start modules in each round, in nanoseconds.
    pub launch_ns: f64,
    /// Between the host and all of 2048 modules, in bytes a second: there, and back.
    pub bytes_per_second: [f64; 2],
    /// The memory of a module, in bytes.
    pub bank_bytes: u64,
    /// Watts of a processor that runs.
    pub watts_per_module: f64,
    /// Joules of a byte between host and modules.
    pub joules_per_byte: f64,
}

impl Device {
    pub(super) fn of(parameters: &modules::Parameters) -> Device {
        use modules::Way;
        const MODULES: usize = 2048;
        const EACH: u64 = 1 << 20;
        let moved = [EACH; MODULES];
        let rate = |way| {
            let seconds = (parameters.transfer(way, &moved) - parameters.transfer).as_seconds();
            (MODULES as u64 * EACH) as f64 / seconds
        };
        let dma = &parameters.dma;
        let word_cycles = dma.read_latency + 8.0 * dma.latency_per_byte;
        Device {
            name: parameters.name.to_owned(),
            source: parameters.source.to_owned(),
            cycles_per_second: parameters.cycles_per_second,
            tasklets: parameters.tasklets,
            word_ns: word_cycles / parameters.cycles_per_second * 1e9,
            transfer_ns: parameters.transfer.as_nanoseconds(),
            launch_ns: parameters.launch.as_nanoseconds(),
            bytes_per_second: [rate(Way::In), rate(Way::Out)],
            bank_bytes: parameters.bank_bytes,
            watts_per_module: parameters.watts_per_module,
            joules_per_byte: parameters.joules_per_byte,
        }
    }
}

/// A number with what it is of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// What it is of.
    pub name: String,
    /// Its unit; empty for what has none.
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

    /// The axis that it lies on.
    pub(super) fn axis(&self) -> String {
        match &*self.unit {
            "" => self.name.clone(),
            unit => format!("{}, {unit}", self.name),
        }
    }
}

/// What lies on the vertical axis of spans: how long something lasts that begins where it lies on
/// the other.
pub(super) const LASTS: &str = "lasts";

/// One point of a figure. `threads` of its setting are clients, of all compute nodes together, with
/// two operations under way each.
pub type Row = report::Row<Point>;

/// Where a point lies, and what is known of it beside its rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The figure of the paper.
    pub figure: String,
    /// The part of it; empty where it has one.
    pub panel: String,
    /// Where it lies on the horizontal axis.
    pub x: Quantity,
    /// And on the vertical one.
    pub y: Quantity,
    /// The network, where there was one.
    pub network: Option<String>,
    /// Compute nodes.
    pub compute_nodes: Option<usize>,
    /// Memory nodes.
    pub memory_nodes: Option<usize>,
    /// What a compute node may keep; null where there is no limit.
    pub cache_bytes_max: Option<usize>,
    /// What it keeps, hotspots included.
    pub cache_bytes: Option<f64>,
    /// Messages that ports of memory nodes have taken for each operation: reads, writes, atomics.
    pub messages_per_operation: Option<[f64; 3]>,
    /// Bytes that they have carried for each operation, in both directions, without headers.
    pub bytes_per_operation: Option<f64>,
    /// The share of speculative reads that were right.
    pub hit_rate: Option<f64>,
    /// The number of keys as a part of that in the paper; caches are this part of the paper's.
    pub scale: Option<f64>,
    /// Where keys come from, if that was to be chosen: `generated`, or a file.
    #[serde(default)]
    pub key_source: Option<String>,
    /// The modules, where there were some: by which figures they are modelled.
    pub device: Option<String>,
    /// How many modules.
    pub modules: Option<usize>,
    /// What batches took of them.
    pub work: Option<Work>,
}

impl Row {
    /// A point that no clients have worked for.
    pub(super) fn counted(figure: &str, peer: &str, x: Quantity, y: Quantity) -> Row {
        let detail = Point {
            figure: figure.to_owned(),
            x,
            y,
            ..Point::default()
        };
        Row {
            setting: None,
            peer: peer.to_owned(),
            rate_mops: None,
            latency_ns: None,
            bytes_per_key: None,
            detail,
            kind: Kind::Counted,
        }
    }

    /// A point whose height is its rate.
    pub(super) fn rated(figure: &str, peer: &str, x: Quantity, mops: f64, kind: Kind) -> Row {
        Row {
            rate_mops: Some(mops),
            kind,
            ..Row::counted(figure, peer, x, Quantity::new("throughput", "Mops", mops))
        }
    }

    /// The point in a part of its figure.
    pub(super) fn in_panel(mut self, panel: impl Into<String>) -> Row {
        self.detail.panel = panel.into();
        self
    }

    /// The same at another height.
    pub(super) fn at(mut self, y: Quantity) -> Row {
        self.detail.y = y;
        self
    }

    /// Another number of the same run, which is no rate and takes no work.
    pub(super) fn aside(self, y: Quantity, kind: Kind) -> Row {
        let mut row = self.at(y);
        (row.rate_mops, row.kind) = (None, kind);
        (row.detail.work, row.detail.device) = (None, None);
        row
    }
}

/// What batches took of modules and of their host. Counts depend on no model but that of what a
/// program copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Batches that counted.
    pub batches: u64,
    /// Rounds of a batch: data to all modules, a program in each, data back.
    pub rounds: f64,
    /// Of those, rounds whose input is what modules have put out in the batch: what goes from
    /// module to module, through the host.
    pub rounds_between: f64,
    /// Rounds of the batch that had most, also of those before any counted.
    pub rounds_max: u64,
    /// Pointers followed for each operation.
    pub hops: f64,
    /// Keys compared for each operation.
    pub compares: f64,
    /// Copies between banks and processors for each operation.
    pub copies: f64,
    /// Bytes of them.
    pub copied_bytes: f64,
    /// Instructions of modules for each operation.
    pub instructions: f64,
    /// Bytes between host and modules for each operation that mean something: there, and back.
    pub useful_bytes: [f64; 2],
    /// Bytes that were moved for that, as all modules of a transfer are sent as much.
    pub moved_bytes: [f64; 2],
    /// How long modules ran in a batch, in nanoseconds: in each round that which ran longest.
    pub modules_ns: f64,
    /// How long data were moved.
    pub transfer_ns: f64,
    /// How long it took to start modules and see that they were done.
    pub launch_ns: f64,
    /// How long the host worked by itself.
    pub host_ns: f64,
    /// How long a batch was on its way between clients and the index, where a protocol is between,
    /// measured on this machine: the median of the batches. No throughput has it in it.
    #[serde(default)]
    pub on_the_way_ns: f64,
    /// How long the host had nothing to do.
    pub host_idle_ns: f64,
    /// How long no module ran.
    pub modules_idle_ns: f64,
    /// What the module that was sent most was sent, over what each was sent on the average.
    pub imbalance: f64,
    /// How long the module ran that ran longest, over how long each ran on the average.
    pub imbalance_ns: f64,
    /// Microjoules for each operation, of modules that run and of transfers.
    pub microjoules: f64,
    /// Contention nodes pulled to the host in a batch.
    pub pulled: f64,
    /// Subranges divided in a batch.
    pub divided: f64,
    /// Keys moved in a batch.
    pub moved_keys: f64,
    /// What is in use of all banks, in bytes.
    pub modules_bytes: u64,
    /// What the host keeps to find things.
    pub host_bytes: u64,
}

/// A number that the paper states, or that is asked of this project, and what came out here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// What it says.
    pub text: String,
    /// The paper's number; null where the paper has none.
    pub paper: Option<f64>,
    /// The number here; null where what it follows from was not run.
    pub ours: Option<f64>,
    /// The unit of both: `x` for a ratio.
    pub unit: String,
    /// How ours came to be.
    pub kind: Kind,
}

/// What is not in a figure, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// The figure.
    pub figure: String,
    /// What was to be run.
    pub peer: String,
    /// Why it is not there.
    pub reason: String,
}
