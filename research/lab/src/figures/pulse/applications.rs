//! The paper's three applications as loads, with results that are checked (Table 3).

use super::clock::ClockPageCache;
use super::data::{
    Allocation, GeneratedMemory, Image, NodeImageSource, OBJECT_BYTES, PulseHashTable, PulseList,
    PulseOrderedTable, PulseTimeSeries,
};
use super::programs::{self, ABSENT, KEYS, PAIRS, SCAN_MAX, VALUES};
use super::scale::PulseScale;
use crate::error::LabError;
use crate::workload::{HERTZ, Permutation, Random, random, sum_and_bounds};
use nearfield_hardware::accelerator::{DepartureReason, MemorySpan};
use nearfield_offload::modelled::{Object, OffloadedQuery};
use nearfield_offload::program::TraversalProgram;
use nearfield_offload::traversal::{TraversalOutcome, TraversalQuery, TraversalStatus};
use rand::RngExt;
use rand_distr::{Distribution, Zipf};
use std::rc::Rc;
use std::sync::Arc;

/// The distribution of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PulseKeyDistribution {
    /// Zipf's distribution with YCSB's θ of 0.99. The hot keys are scattered.
    Zipf,
    Uniform,
}

/// An application with a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PulseApplication {
    /// Lookups of 32 keys, and an object. `updates` of a hundred requests change a value. The
    /// caller caches the results of `cached` keys.
    WebService {
        updates: u32,
        choice: PulseKeyDistribution,
        cached: usize,
    },
    /// Scans of 1 to 100 keys.
    WiredTiger {
        choice: PulseKeyDistribution,
        allocation: Allocation,
    },
    /// Sum, count, least and greatest of a window of `seconds`.
    BtrDb {
        seconds: u64,
        choice: PulseKeyDistribution,
        allocation: Allocation,
    },
    /// A walk over this number of nodes of a list.
    List { nodes: u64 },
}

/// A slab of 1 GiB, the paper's coarsest.
pub(super) const COARSE: u64 = 1 << 30;

/// YCSB's B: five updates in a hundred requests.
pub(super) const WEB_SERVICE: PulseApplication = PulseApplication::WebService {
    updates: 5,
    choice: PulseKeyDistribution::Zipf,
    cached: 0,
};
pub(super) const WIRED_TIGER: PulseApplication = PulseApplication::WiredTiger {
    choice: PulseKeyDistribution::Zipf,
    allocation: Allocation::Slabs(COARSE),
};

pub(super) const fn btrdb(seconds: u64) -> PulseApplication {
    PulseApplication::BtrDb {
        seconds,
        choice: PulseKeyDistribution::Uniform,
        allocation: Allocation::Slabs(COARSE),
    }
}

impl PulseApplication {
    /// Returns its name in rows.
    pub(super) fn name(self) -> String {
        match self {
            PulseApplication::WebService { .. } => "WebService".to_owned(),
            PulseApplication::WiredTiger { .. } => "WiredTiger".to_owned(),
            PulseApplication::BtrDb { seconds, .. } => format!("BTrDB {seconds} s"),
            PulseApplication::List { nodes } => format!("list of {nodes}"),
        }
    }

    /// Returns the time of the caller's own work on a response, in nanoseconds: WebService encrypts
    /// and compresses an object.
    pub(super) fn own_ns(self) -> f64 {
        match self {
            // The remainder of 26.9 µs for a request in the artifact's log of one caller.
            PulseApplication::WebService { .. } => 20_000.0,
            // The others have next to nothing to do.
            _ => 0.0,
        }
    }
}

impl PulseApplication {
    /// Returns the share of accesses that the artifact's model finds in the caller's cache, if it
    /// has one for this load: with Zipf's distribution. For the time series it has the share of
    /// single nodes, which says nothing about pages of adjacent leaves.
    pub(super) fn published_hit_rate(self) -> Option<f64> {
        match self {
            PulseApplication::WebService { choice, .. }
            | PulseApplication::WiredTiger { choice, .. } => {
                (choice == PulseKeyDistribution::Zipf).then_some(0.2)
            }
            PulseApplication::BtrDb { .. } | PulseApplication::List { .. } => None,
        }
    }
}

/// The data of any application, behind one type.
pub(super) enum AnyData {
    HashTable(PulseHashTable),
    OrderedTable(PulseOrderedTable),
    TimeSeries(PulseTimeSeries),
    List(PulseList),
}

impl NodeImageSource for AnyData {
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
pub(super) type Memory = GeneratedMemory<AnyData>;

/// A traversal of an application.
pub(super) type Work = OffloadedQuery<Memory>;

/// A generator of requests of an application.
pub(super) struct PulseRequestGenerator {
    application: PulseApplication,
    memory: Rc<Memory>,
    ranges: Vec<std::ops::Range<u64>>,
    program: Arc<TraversalProgram>,
    memory_nodes: u64,
    scatter: Permutation,
    zipf: Option<Zipf<f64>>,
    count: u64,
    random: Random,
    number: u64,
    cache: ClockPageCache,
}

/// A request, with its expected result.
pub(super) struct ExpectedRequest {
    pub query: TraversalQuery,
    pub object: Option<Object>,
    /// True if it changes data.
    pub writes: bool,
    pub expected: ExpectedResult,
}

/// A request in the form for hardware.
pub(super) struct GeneratedRequest {
    pub work: Work,
    pub expected: ExpectedResult,
    /// True if it changes data.
    pub writes: bool,
}

/// The expected result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpectedResult {
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

impl PulseRequestGenerator {
    /// Creates a load with as many keys as in the artifact, by the number of memory nodes.
    pub(super) fn new(
        application: PulseApplication,
        memory_nodes: usize,
        scale: &PulseScale,
    ) -> Result<PulseRequestGenerator, LabError> {
        PulseRequestGenerator::of_parts(application, memory_nodes, memory_nodes, scale)
    }

    /// Creates a load with the keys of `parts` memory nodes, stored on `memory_nodes`.
    pub(super) fn of_parts(
        application: PulseApplication,
        parts: usize,
        memory_nodes: usize,
        scale: &PulseScale,
    ) -> Result<PulseRequestGenerator, LabError> {
        let nodes = parts as u64;
        let seed = scale.seed;
        let (data, program, count) = match application {
            PulseApplication::WebService { .. } => {
                let table = PulseHashTable::new(scale.keys(100_000_000), memory_nodes, seed);
                let keys = table.keys();
                (AnyData::HashTable(table), programs::look_up()?, keys)
            }
            PulseApplication::WiredTiger { allocation, .. } => {
                let keys = scale.keys(500_000_000) * nodes;
                let table = PulseOrderedTable::new(keys, memory_nodes, allocation, seed);
                (AnyData::OrderedTable(table), programs::scan()?, keys)
            }
            PulseApplication::BtrDb { allocation, .. } => {
                let keys = scale.keys(250_000_000) * nodes;
                let series = PulseTimeSeries::new(keys, memory_nodes, allocation, seed);
                let keys = series.keys();
                (AnyData::TimeSeries(series), programs::aggregate()?, keys)
            }
            PulseApplication::List { nodes } => {
                let list = PulseList::new(nodes.max(1 << 20), seed);
                let nodes = list.nodes();
                (AnyData::List(list), programs::find()?, nodes)
            }
        };
        let choice = match application {
            PulseApplication::WebService { choice, .. }
            | PulseApplication::WiredTiger { choice, .. }
            | PulseApplication::BtrDb { choice, .. } => choice,
            PulseApplication::List { .. } => PulseKeyDistribution::Uniform,
        };
        let zipf = match choice {
            PulseKeyDistribution::Zipf => Zipf::new(count as f64, 0.99).ok(),
            PulseKeyDistribution::Uniform => None,
        };
        let ranges = data.ranges();
        let cached = match application {
            PulseApplication::WebService { cached, .. } => cached,
            _ => 0,
        };
        let mut load = PulseRequestGenerator {
            application,
            memory: Rc::new(GeneratedMemory::new(data)),
            ranges,
            program,
            memory_nodes: memory_nodes as u64,
            scatter: Permutation::new(count, seed + 2),
            zipf,
            count,
            random: random(seed, 0x9015e),
            number: 0,
            cache: ClockPageCache::new(cached),
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

    pub(super) fn program(&self) -> &TraversalProgram {
        &self.program
    }

    /// Draws a key.
    fn chosen(&mut self) -> u64 {
        match &self.zipf {
            Some(zipf) => {
                let rank = zipf.sample(&mut self.random) as u64 - 1;
                // Scattered, so that hot keys are anywhere. Rounding at the upper end may give one
                // rank too many.
                self.scatter.at(rank.min(self.count - 1))
            }
            None => self.random.random_range(0..self.count),
        }
    }

    /// Returns the next request.
    pub(super) fn next_request(&mut self) -> ExpectedRequest {
        self.number += 1;
        let memory = Rc::clone(&self.memory);
        match &memory.data {
            AnyData::HashTable(table) => self.look_up(table),
            AnyData::OrderedTable(table) => self.scan(table),
            AnyData::TimeSeries(series) => self.window(series),
            AnyData::List(list) => self.find(list),
        }
    }

    fn look_up(&mut self, table: &PulseHashTable) -> ExpectedRequest {
        let updates = match self.application {
            PulseApplication::WebService { updates, .. } => updates,
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
        debug_assert!(
            (1..=KEYS).contains(&keys.len()),
            "the last key is never left out"
        );
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
            MemorySpan {
                address: table.object(memory_node, value),
                bytes: OBJECT_BYTES as u32,
            }
        };
        ExpectedRequest {
            query: TraversalQuery::new(&self.program, start, &words),
            object: Some(Rc::new(object)),
            writes: is_update,
            expected: ExpectedResult::Pairs(expected),
        }
    }

    fn scan(&mut self, table: &PulseOrderedTable) -> ExpectedRequest {
        let length = self.random.random_range(1..=SCAN_MAX as u64);
        debug_assert!(length <= table.keys());
        // A scan that began later would end with fewer entries than it wants.
        let first = self.chosen().min(table.keys() - length);
        let (key, _) = table.entry_at(first);
        let values = (first..first + length).map(|number| table.entry_at(number).1);
        ExpectedRequest {
            query: TraversalQuery::new(&self.program, table.root(), &[key, length, 0]),
            object: None,
            writes: false,
            expected: ExpectedResult::Values(values.collect()),
        }
    }

    fn window(&mut self, series: &PulseTimeSeries) -> ExpectedRequest {
        let seconds = match self.application {
            PulseApplication::BtrDb { seconds, .. } => seconds,
            _ => 1,
        };
        let measurements = seconds * HERTZ;
        debug_assert!(measurements < self.count);
        // A window ends at the time of the measurement behind it.
        let first = self.chosen().min(self.count - measurements - 1);
        let (begin, _) = series.entry_at(first);
        let (end, _) = series.entry_at(first + measurements);
        let [sum, least, greatest] = sum_and_bounds(first..first + measurements);
        let words = [begin, end, 0, 0, u64::MAX, 0];
        ExpectedRequest {
            query: TraversalQuery::new(&self.program, series.root(), &words),
            object: None,
            writes: false,
            expected: ExpectedResult::Aggregate([sum, measurements, least, greatest]),
        }
    }

    fn find(&mut self, list: &PulseList) -> ExpectedRequest {
        let nodes = match self.application {
            PulseApplication::List { nodes } => nodes,
            _ => 1,
        };
        debug_assert!((1..=self.count).contains(&nodes));
        let first = self.random.random_range(0..=self.count - nodes);
        let last = first + nodes - 1;
        ExpectedRequest {
            query: TraversalQuery::new(&self.program, list.address(first), &[last, 0]),
            object: None,
            writes: false,
            expected: ExpectedResult::Node(list.address(last)),
        }
    }

    /// Returns the next request in the form for hardware.
    pub(super) fn work(&mut self) -> GeneratedRequest {
        let request = self.next_request();
        let work = OffloadedQuery::new(&request.query, &self.memory, ITERATIONS_MAX);
        let work = match request.object {
            Some(object) => work.with_object(object),
            None => work,
        };
        GeneratedRequest {
            work,
            expected: request.expected,
            writes: request.writes,
        }
    }

    /// Returns a request for one key without its object, which is little more than a round trip.
    /// Only hash tables have one.
    pub(super) fn round_trip(&mut self) -> Option<GeneratedRequest> {
        let memory = Rc::clone(&self.memory);
        let AnyData::HashTable(table) = &memory.data else {
            return None;
        };
        let memory_node = self.number % self.memory_nodes;
        let key = self.chosen();
        let start = table.bucket(memory_node, key);
        let words = [0, 16, 0, start, key];
        let query = TraversalQuery::new(&self.program, start, &words);
        Some(GeneratedRequest {
            work: OffloadedQuery::new(&query, &self.memory, ITERATIONS_MAX),
            expected: ExpectedResult::Pairs(vec![table.value(key)]),
            writes: false,
        })
    }
}

/// Describes the error in a result, if there is one.
pub(super) fn mistake(
    work: Work,
    end: DepartureReason,
    expected: &ExpectedResult,
) -> Option<String> {
    let outcome: TraversalOutcome = work.outcome(end);
    if outcome.status != TraversalStatus::Done {
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
        ExpectedResult::Pairs(values) => {
            // A value that stands for an absent key would prove nothing.
            !values.contains(&ABSENT) && words(PAIRS, 16, values.len()) == *values
        }
        ExpectedResult::Values(values) => words(VALUES, 8, values.len()) == *values,
        ExpectedResult::Aggregate(numbers) => words(16, 8, 4) == *numbers,
        ExpectedResult::Node(address) => words(8, 8, 1) == [*address],
    };
    (!is_right).then(|| format!("not {expected:?}"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
