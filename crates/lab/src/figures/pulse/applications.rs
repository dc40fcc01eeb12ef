//! The paper's three applications as loads, with results that are checked (Table 3).

use super::clock::Clock;
use super::data::{
    Allocation, Data, HashTable, Image, List, OBJECT_BYTES, OrderedTable, Stored, TimeSeries,
};
use super::programs::{self, ABSENT, KEYS, PAIRS, SCAN_MAX, VALUES};
use super::scale::Scale;
use crate::error::LabError;
use crate::workload::{HERTZ, Permutation, Random, random};
use nearfield_hardware::accelerator::{End, Span};
use nearfield_offload::modelled::{Object, Offloaded};
use nearfield_offload::program::Program;
use nearfield_offload::traversal::{Outcome, Query, Status};
use rand::RngExt;
use rand_distr::{Distribution, Zipf};
use std::rc::Rc;
use std::sync::Arc;

/// The distribution of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Zipf's distribution with YCSB's θ of 0.99. The hot keys are scattered.
    Zipf,
    Uniform,
}

/// An application with a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Application {
    /// Look-ups of 32 keys, and an object. `updates` of a hundred requests change a value. The
    /// caller caches the results of `cached` keys.
    WebService {
        updates: u32,
        choice: Choice,
        cached: usize,
    },
    /// Scans of 1 to 100 keys.
    WiredTiger {
        choice: Choice,
        allocation: Allocation,
    },
    /// Sum, count, least and greatest of a window of `seconds`.
    BtrDb {
        seconds: u64,
        choice: Choice,
        allocation: Allocation,
    },
    /// A walk over this number of nodes of a list.
    List { nodes: u64 },
}

/// A slab of 1 GiB, the paper's coarsest.
pub(super) const COARSE: u64 = 1 << 30;

/// YCSB's B: five updates in a hundred requests.
pub(super) const WEB_SERVICE: Application = Application::WebService {
    updates: 5,
    choice: Choice::Zipf,
    cached: 0,
};
pub(super) const WIRED_TIGER: Application = Application::WiredTiger {
    choice: Choice::Zipf,
    allocation: Allocation::Slabs(COARSE),
};

pub(super) const fn btrdb(seconds: u64) -> Application {
    Application::BtrDb {
        seconds,
        choice: Choice::Uniform,
        allocation: Allocation::Slabs(COARSE),
    }
}

impl Application {
    /// Returns its name in rows.
    pub(super) fn name(self) -> String {
        match self {
            Application::WebService { .. } => "WebService".to_owned(),
            Application::WiredTiger { .. } => "WiredTiger".to_owned(),
            Application::BtrDb { seconds, .. } => format!("BTrDB {seconds} s"),
            Application::List { nodes } => format!("list of {nodes}"),
        }
    }

    /// Returns the time of the caller's own work on a response, in nanoseconds: WebService encrypts
    /// and compresses an object. The artifact's log of one caller leaves 20 µs for it (26.9 µs for
    /// a request); the others have next to nothing to do.
    pub(super) fn own_ns(self) -> f64 {
        match self {
            Application::WebService { .. } => 20_000.0,
            _ => 0.0,
        }
    }
}

/// The data of any application, behind one type.
pub(super) enum AnyData {
    HashTable(HashTable),
    OrderedTable(OrderedTable),
    TimeSeries(TimeSeries),
    List(List),
}

impl Data for AnyData {
    fn image(&self, address: u64) -> Option<Image> {
        match self {
            AnyData::HashTable(data) => data.image(address),
            AnyData::OrderedTable(data) => data.image(address),
            AnyData::TimeSeries(data) => data.image(address),
            AnyData::List(data) => data.image(address),
        }
    }

    fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        match self {
            AnyData::HashTable(data) => data.ranges(),
            AnyData::OrderedTable(data) => data.ranges(),
            AnyData::TimeSeries(data) => data.ranges(),
            AnyData::List(data) => data.ranges(),
        }
    }
}

/// The memory of all memory nodes.
pub(super) type Memory = Stored<AnyData>;

/// A traversal of an application.
pub(super) type Work = Offloaded<Memory>;

/// A generator of requests of an application.
pub(super) struct Load {
    application: Application,
    memory: Rc<Memory>,
    ranges: Vec<std::ops::Range<u64>>,
    program: Arc<Program>,
    memory_nodes: u64,
    scatter: Permutation,
    zipf: Option<Zipf<f64>>,
    count: u64,
    random: Random,
    number: u64,
    cache: Clock,
}

/// A request, with its expected result.
pub(super) struct Asked {
    pub query: Query,
    pub object: Option<Object>,
    pub expected: Expected,
}

/// The expected result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The values of the pairs.
    Pairs(Vec<u64>),
    /// Values of successive entries.
    Values(Vec<u64>),
    /// Sum, count, least, greatest.
    Aggregate([u64; 4]),
    /// The address of the node with the value.
    Node(u64),
}

/// Limit of the iterations of a request: enough for all.
const ITERATIONS_MAX: u64 = 10_000;

impl Load {
    /// Creates a load with as many keys as in the artifact, by the number of memory nodes.
    pub(super) fn new(
        application: Application,
        memory_nodes: usize,
        scale: &Scale,
    ) -> Result<Load, LabError> {
        Load::of_parts(application, memory_nodes, memory_nodes, scale)
    }

    /// Creates a load with the keys of `parts` memory nodes, stored on `memory_nodes`.
    pub(super) fn of_parts(
        application: Application,
        parts: usize,
        memory_nodes: usize,
        scale: &Scale,
    ) -> Result<Load, LabError> {
        let nodes = parts as u64;
        let seed = scale.seed;
        let (data, program, count) = match application {
            Application::WebService { .. } => {
                let table = HashTable::new(scale.keys(100_000_000), memory_nodes, seed);
                let keys = table.keys();
                (AnyData::HashTable(table), programs::look_up()?, keys)
            }
            Application::WiredTiger { allocation, .. } => {
                let keys = scale.keys(500_000_000) * nodes;
                let table = OrderedTable::new(keys, memory_nodes, allocation, seed);
                (AnyData::OrderedTable(table), programs::scan()?, keys)
            }
            Application::BtrDb { allocation, .. } => {
                let keys = scale.keys(250_000_000) * nodes;
                let series = TimeSeries::new(keys, memory_nodes, allocation, seed);
                let keys = series.keys();
                (AnyData::TimeSeries(series), programs::aggregate()?, keys)
            }
            Application::List { nodes } => {
                let list = List::new(nodes.max(1 << 20), seed);
                let nodes = list.nodes();
                (AnyData::List(list), programs::find()?, nodes)
            }
        };
        let choice = match application {
            Application::WebService { choice, .. }
            | Application::WiredTiger { choice, .. }
            | Application::BtrDb { choice, .. } => choice,
            Application::List { .. } => Choice::Uniform,
        };
        let zipf = match choice {
            Choice::Zipf => Zipf::new(count as f64, 0.99).ok(),
            Choice::Uniform => None,
        };
        let ranges = data.ranges();
        let cached = match application {
            Application::WebService { cached, .. } => cached,
            _ => 0,
        };
        let mut load = Load {
            application,
            memory: Rc::new(Stored::new(data)),
            ranges,
            program,
            memory_nodes: memory_nodes as u64,
            scatter: Permutation::new(count, seed + 2),
            zipf,
            count,
            random: random(seed, 0x9015e),
            number: 0,
            cache: Clock::new(cached),
        };
        // Fills the cache until its content is stationary.
        for _ in 0..4 * cached {
            let key = load.chosen();
            load.cache.touch(key);
        }
        Ok(load)
    }

    /// Returns the addresses of each memory node.
    pub(super) fn ranges(&self) -> &[std::ops::Range<u64>] {
        &self.ranges
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// Draws a key. Its rank is scattered, so that hot keys are anywhere.
    fn chosen(&mut self) -> u64 {
        match &self.zipf {
            Some(zipf) => {
                let rank = zipf.sample(&mut self.random) as u64 - 1;
                self.scatter.at(rank.min(self.count - 1))
            }
            None => self.random.random_range(0..self.count),
        }
    }

    /// Returns the next request.
    pub(super) fn ask(&mut self) -> Asked {
        self.number += 1;
        let memory = Rc::clone(&self.memory);
        match &memory.data {
            AnyData::HashTable(table) => self.look_up(table),
            AnyData::OrderedTable(table) => self.scan(table),
            AnyData::TimeSeries(series) => self.window(series),
            AnyData::List(list) => self.find(list),
        }
    }

    fn look_up(&mut self, table: &HashTable) -> Asked {
        let updates = match self.application {
            Application::WebService { updates, .. } => updates,
            _ => 0,
        };
        let memory_node = self.number % self.memory_nodes;
        let mut keys: Vec<u64> = Vec::with_capacity(KEYS);
        for number in 1..=KEYS {
            let key = self.chosen();
            // The last key leads to the object, which is not cached.
            if !self.cache.touch(key) || number == KEYS {
                keys.push(key);
            }
        }
        let is_update = self.random.random_range(0..100) < updates;
        let last = keys.last().copied().unwrap_or_default();
        // The update stores the present value, so that later results stay the same, but is a real
        // store.
        let stored = match is_update {
            true => table.value(last),
            false => 0,
        };
        let mut words = vec![0, 16 * keys.len() as u64, stored];
        for &key in &keys {
            words.extend([table.bucket(memory_node, key), key]);
        }
        let start = table.bucket(memory_node, keys.first().copied().unwrap_or_default());
        let expected = keys.iter().map(|&key| table.value(key)).collect();
        let table = table.clone();
        let place = PAIRS + 16 * (keys.len() - 1);
        let object = move |scratchpad: &[u8]| {
            let value = word(scratchpad, place);
            Span {
                address: table.object(memory_node, value),
                bytes: OBJECT_BYTES as u32,
            }
        };
        Asked {
            query: Query::new(&self.program, start, &words),
            object: Some(Rc::new(object)),
            expected: Expected::Pairs(expected),
        }
    }

    fn scan(&mut self, table: &OrderedTable) -> Asked {
        let length = self.random.random_range(1..=SCAN_MAX as u64);
        let first = self.chosen().min(table.keys() - length);
        let (key, _) = table.entry_at(first);
        let values = (first..first + length).map(|number| table.entry_at(number).1);
        Asked {
            query: Query::new(&self.program, table.root(), &[key, length, 0]),
            object: None,
            expected: Expected::Values(values.collect()),
        }
    }

    fn window(&mut self, series: &TimeSeries) -> Asked {
        let seconds = match self.application {
            Application::BtrDb { seconds, .. } => seconds,
            _ => 1,
        };
        let measurements = seconds * HERTZ;
        let first = self.chosen().min(self.count - measurements - 1);
        let (begin, _) = series.entry_at(first);
        let (end, _) = series.entry_at(first + measurements);
        let mut aggregate = [0, 0, u64::MAX, 0];
        for number in first..first + measurements {
            let (_, value) = series.entry_at(number);
            aggregate[0] += value;
            aggregate[1] += 1;
            aggregate[2] = aggregate[2].min(value);
            aggregate[3] = aggregate[3].max(value);
        }
        let words = [begin, end, 0, 0, u64::MAX, 0];
        Asked {
            query: Query::new(&self.program, series.root(), &words),
            object: None,
            expected: Expected::Aggregate(aggregate),
        }
    }

    fn find(&mut self, list: &List) -> Asked {
        let nodes = match self.application {
            Application::List { nodes } => nodes,
            _ => 1,
        };
        let first = self.random.random_range(0..=self.count - nodes);
        let last = first + nodes - 1;
        Asked {
            query: Query::new(&self.program, list.address(first), &[last, 0]),
            object: None,
            expected: Expected::Node(list.address(last)),
        }
    }

    /// Returns the next request in the form for hardware.
    pub(super) fn work(&mut self) -> (Work, Expected) {
        let asked = self.ask();
        let work = Offloaded::new(&asked.query, &self.memory, ITERATIONS_MAX);
        let work = match asked.object {
            Some(object) => work.with_object(object),
            None => work,
        };
        (work, asked.expected)
    }
}

/// Describes the error in a result, if there is one.
pub(super) fn mistake(work: Work, end: End, expected: &Expected) -> Option<String> {
    let outcome: Outcome = work.outcome(end);
    if outcome.status != Status::Done {
        return Some(format!(
            "status {:?} after {}",
            outcome.status, outcome.iterations
        ));
    }
    let words = |from: usize, each: usize, count: usize| -> Vec<u64> {
        let places = (0..count).map(|number| from + each * number);
        places.map(|at| word(&outcome.scratchpad, at)).collect()
    };
    let is_right = match expected {
        Expected::Pairs(values) => {
            !values.contains(&ABSENT) && words(PAIRS, 16, values.len()) == *values
        }
        Expected::Values(values) => words(VALUES, 8, values.len()) == *values,
        Expected::Aggregate(numbers) => words(16, 8, 4) == *numbers,
        Expected::Node(address) => words(8, 8, 1) == [*address],
    };
    (!is_right).then(|| format!("not {expected:?}"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
