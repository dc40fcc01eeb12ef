//! The demand of a batch: the work of its operations in modules, by subrange.

use super::RadarHost;
use super::skew::{Costs, SHARE, Subrange};
use crate::device::ModuleDevice;
use crate::dispatch::directory::PartitionPlace;
use crate::dispatch::routing::BatchRouting;
use crate::dispatch::shared_scans::{PartitionScanRead, ScanKeyRange, is_shared, part_of_scan};
use nearfield_core::plan::inclusive;
use nearfield_core::{BatchInput, IndexOperation, ScanDirection, Words};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The demand of a batch.
pub(super) struct Demand {
    /// Load of each module, in operations.
    pub loads: Vec<u64>,
    /// Demand of each subrange, by place, including those of the host.
    subranges: Vec<u64>,
    points: u64,
    ranges: u64,
    /// The sum of the squares of the operations' weights.
    squares: u64,
    /// Number of operations that write keys without a subrange.
    coming: u64,
}

/// Least number of subranges of a busy module that are examined operation by operation. More are
/// examined only if the module is busy even without these.
const TRIES: usize = 8;
/// Number of entries of a scan that count as one operation on a key. Entries are cheaper because
/// they are transferred, but not searched for.
const ENTRIES_PER_OPERATION: u64 = 4;
/// The greatest number of keys that represent a scan's read of a subrange. A read has several keys
/// because it is divided with the subrange.
const POINTS_MAX: u64 = 32;
/// The fractional part of the golden ratio as a fixed-point number. Its multiples are spread
/// evenly.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Number of standard deviations by which a module may exceed the average before a move, if most
/// operations are scans.
const CHANCE_OF_SCANS: f64 = 4.0;

/// An operation's share of work in a subrange, as counted for loads.
#[derive(Clone, Copy, Debug)]
struct WorkShare {
    /// The key where the work is done.
    key: u64,
    /// Number of operations for which it counts.
    weight: u64,
    /// True if it searches the greatest key at or below `key`.
    is_floor: bool,
}

impl WorkShare {
    fn of(key: u64) -> WorkShare {
        WorkShare {
            key,
            weight: 1,
            is_floor: false,
        }
    }
}

/// The keys on which an operation works, as counted for loads.
enum Wants {
    Key(u64),
    /// The nearest key at or below a key, or at or above it.
    Nearest(u64, ScanDirection),
    /// A range with a limit of entries.
    Range(ScanKeyRange),
    Nothing,
}

impl<D: ModuleDevice> RadarHost<D> {
    /// Passes each operation's subranges to `each`, with their modules and the operation's share of
    /// work. Returns the number of operations on single keys, the number on ranges, and the sum of
    /// the squares of their weights in modules.
    fn each_demand(
        &self,
        input: BatchInput<'_, Words>,
        requests: &BatchRouting,
        mut each: impl FnMut(PartitionPlace, usize, WorkShare),
    ) -> (u64, u64, u64) {
        let host = self.host();
        let (mut points, mut ranges, mut squares) = (0, 0, 0);
        let directory = &self.directory;
        let spread = |place, number| self.replicas.spread(directory, place, number);
        let mut walk = requests.walk();
        for (position, operation) in input.operations().iter().enumerate() {
            match wants(input, operation) {
                Wants::Key(key) => {
                    points += 1;
                    // An operation that shares an earlier task makes no work in a module.
                    if requests.source(position).is_some() {
                        continue;
                    }
                    if let Some(place) = requests.place(position, key, directory) {
                        if operation.is_write() {
                            walk.wrote(place);
                        }
                        squares += u64::from(directory.partition(place).module != host);
                        each(place, spread(place, points), WorkShare::of(key));
                    }
                }
                Wants::Nearest(key, direction) => {
                    points += 1;
                    let descends = direction == ScanDirection::Descending;
                    let (from, to) = match descends {
                        true => (0, key),
                        false => (key, u64::MAX),
                    };
                    // Each partition that may be asked does the work, although only one has the
                    // entry.
                    directory.candidates(from, to, 1, descends, |place| {
                        let (start, partition) =
                            (directory.start(place), directory.partition(place));
                        squares += u64::from(partition.module != host);
                        let share = WorkShare {
                            is_floor: descends,
                            ..WorkShare::of(key.clamp(start, partition.last))
                        };
                        each(place, spread(place, points), share);
                    });
                }
                Wants::Range(reach) => {
                    ranges += 1;
                    let ScanKeyRange { from, to, limit } = reach;
                    if !self.options.weighs_scans {
                        // As in the paper, the load of a module is the number of operations that it
                        // processes: a scan counts once in each subrange that it reads. The key at
                        // which it counts is chosen evenly from its range, because its work is
                        // spread over the range.
                        let fraction = u64::wrapping_mul(ranges, GOLDEN);
                        directory.candidates(from, to, limit, false, |place| {
                            let (start, partition) =
                                (directory.start(place), directory.partition(place));
                            let own = reach.within(start, partition);
                            let offset = u128::from(own.to - own.from) * u128::from(fraction);
                            squares += u64::from(partition.module != host);
                            let key = own.from + (offset >> u64::BITS) as u64;
                            each(place, partition.module, WorkShare::of(key));
                        });
                        continue;
                    }
                    let mut left = limit;
                    directory.candidates(from, to, limit, false, |place| {
                        let (start, partition) =
                            (directory.start(place), directory.partition(place));
                        let own = reach.within(start, partition);
                        let rest = ScanKeyRange { limit: left, ..own };
                        // Shared reads are found by the whole limit, as the plan will find them.
                        let read = match is_shared(operation) {
                            true => walk.read(place, &own),
                            false => PartitionScanRead::Own,
                        };
                        left = left.saturating_sub(part_of_scan(start, partition, rest).2);
                        let read = match read {
                            PartitionScanRead::Own => rest,
                            PartitionScanRead::First(number, all) => {
                                walk.note(number, 0);
                                all
                            }
                            PartitionScanRead::Again(_) => return,
                        };
                        let (first, last, entries) = part_of_scan(start, partition, read);
                        let module = spread(place, ranges);
                        let weight = 1 + entries / ENTRIES_PER_OPERATION;
                        // A scan moves the load of a module by its whole weight, so its variance
                        // grows with the square.
                        squares += weight * weight * u64::from(module != host);
                        debug_assert!(first <= last);
                        let points = weight.min(POINTS_MAX);
                        let step = (last - first) / points;
                        for point in 0..points {
                            // The remainder goes to the first key.
                            let rest = if point == 0 { weight % points } else { 0 };
                            let share = WorkShare {
                                weight: weight / points + rest,
                                ..WorkShare::of(first + point * step)
                            };
                            each(place, module, share);
                        }
                    });
                }
                Wants::Nothing => {}
            }
        }
        (points, ranges, squares)
    }

    /// Returns the demand of a batch.
    pub(super) fn demand(&self, input: BatchInput<'_, Words>, requests: &BatchRouting) -> Demand {
        let mut loads = vec![0; self.device.modules()];
        let mut subranges = vec![0; self.directory.places()];
        let (points, ranges, squares) =
            self.each_demand(input, requests, |place, module, share| {
                // The host's load is not counted, because no decision uses it.
                if let Some(load) = loads.get_mut(module) {
                    *load += share.weight;
                }
                subranges[place.number()] += share.weight;
            });
        // Writes to new subranges have no module yet. They count for the fair load, but for no
        // module.
        let operations = input.operations().iter().enumerate();
        let coming = operations.filter(|(position, operation)| {
            let key = operation.point_key().filter(|_| operation.is_write());
            key.is_some_and(|key| requests.place(*position, key, &self.directory).is_none())
        });
        let coming = coming.count() as u64;
        Demand {
            loads,
            subranges,
            points,
            ranges,
            squares,
            coming,
        }
    }

    /// Records the batch of each subrange's last request. For subranges of the host, requests count
    /// only if they are many enough to make the subrange hot.
    pub(super) fn touch(&mut self, demand: &Demand) {
        let host = self.host();
        let fair = demand.loads.iter().sum::<u64>() / host.max(1) as u64;
        let RadarHost {
            directory, batches, ..
        } = self;
        directory.touch(*batches, |place, partition| {
            let weight = demand.subranges[place.number()];
            weight > 0 && (partition.module != host || weight >= fair / SHARE)
        });
    }

    /// Returns the hottest subranges of busy modules, with the operations on each.
    pub(super) fn busy_subranges(
        &self,
        input: BatchInput<'_, Words>,
        requests: &BatchRouting,
        demand: &Demand,
        costs: &Costs,
    ) -> Vec<Subrange> {
        let much = costs.much(&demand.loads);
        let mut of_module: BTreeMap<usize, Vec<(u64, PartitionPlace)>> = BTreeMap::new();
        let directory = &self.directory;
        for place in directory.in_order() {
            // A subrange with copies is spread already. Its load in this module is only a part of
            // its demand.
            let (weight, partition) =
                (demand.subranges[place.number()], directory.partition(place));
            if weight > 0
                && partition.module != self.host()
                && demand.loads[partition.module] > much
                && !self.replicas.has(directory.start(place))
            {
                let own = of_module.entry(partition.module).or_default();
                own.push((weight, place));
            }
        }
        let mut subranges = Vec::new();
        // Index into `subranges`, by place.
        let mut found: Vec<Option<usize>> = vec![None; directory.places()];
        for (module, mut own) in of_module {
            own.sort_unstable_by_key(|&(weight, place)| Reverse((weight, directory.start(place))));
            // Subranges are taken from the hottest on until the rest of the module is not busy.
            let mut left = demand.loads[module];
            let wanted = own.iter().take_while(|(weight, _)| {
                let is_busy = left > much;
                left = left.saturating_sub(*weight);
                is_busy
            });
            let wanted = wanted.count().max(TRIES);
            own.truncate(wanted);
            for (weight, place) in own {
                let partition = directory.partition(place);
                found[place.number()] = Some(subranges.len());
                subranges.push(Subrange {
                    start: directory.start(place),
                    last: partition.last,
                    module,
                    keys: partition.count,
                    weight,
                    wanted: Vec::new(),
                    floors: Vec::new(),
                    is_read: true,
                });
            }
        }
        if subranges.is_empty() {
            return subranges;
        }
        self.each_demand(input, requests, |place, _, share| {
            if let Some(number) = found[place.number()] {
                let subrange = &mut subranges[number];
                subrange.wanted.push((share.key, share.weight));
                if share.is_floor {
                    subrange.floors.push(share.key);
                }
            }
        });
        for (position, operation) in input.operations().iter().enumerate() {
            if operation.is_write()
                && let Some(key) = operation.point_key()
                && let Some(place) = requests.place(position, key, directory)
                && let Some(number) = found[place.number()]
            {
                subranges[number].is_read = false;
            }
        }
        subranges.sort_unstable_by_key(|subrange| subrange.start);
        for subrange in &mut subranges {
            subrange.wanted.sort_unstable();
            subrange.floors.sort_unstable();
        }
        subranges
    }

    /// Returns the costs of moving, for a batch with this demand.
    pub(super) fn costs(&self, demand: &Demand) -> Costs {
        let modules = self.device.modules();
        let mean = self.directory.keys() as f64 / modules.max(1) as f64;
        let height = mean.max(2.0).log2();
        let averages = self.averages.unwrap_or(super::Averages {
            point: 1.5 * height,
            range: 1.5 * height + 500.0,
        });
        let all = (demand.points + demand.ranges) as f64;
        // The standard deviation of a module's load if each operation chose its module at random.
        let deviation = (demand.squares as f64 / modules.max(1) as f64).sqrt();
        let costs = Costs {
            point: averages.point,
            range: averages.range,
            points: demand.points as f64 / all.max(1.0),
            coming: demand.coming,
            height,
            tolerance: self.options.tolerance,
            chance: self.options.chance * deviation,
            price: self.options.price,
        };
        // If most operations are scans, each module has few operations with great weights. Among
        // hundreds of modules, chance alone then makes some exceed the average further than with
        // many small operations. If chance explains the loads, nothing is moved.
        let by_chance = Costs {
            chance: costs.chance.max(CHANCE_OF_SCANS * deviation),
            ..costs
        };
        let most = demand.loads.iter().max().copied().unwrap_or(0);
        let counts = self.options.chance > 0.0 && demand.ranges > demand.points;
        match counts && most <= by_chance.much(&demand.loads) {
            true => by_chance,
            false => costs,
        }
    }
}

fn wants(input: BatchInput<'_, Words>, operation: &IndexOperation<Words>) -> Wants {
    match *operation {
        IndexOperation::Predecessor { key } => Wants::Nearest(key, ScanDirection::Descending),
        IndexOperation::Successor { key } => Wants::Nearest(key, ScanDirection::Ascending),
        IndexOperation::Scan { range, limit, .. } => match inclusive(input.range(range)) {
            Some((from, to)) => Wants::Range(ScanKeyRange {
                from,
                to,
                limit: limit.into(),
            }),
            None => Wants::Nothing,
        },
        _ => operation.point_key().map_or(Wants::Nothing, Wants::Key),
    }
}
