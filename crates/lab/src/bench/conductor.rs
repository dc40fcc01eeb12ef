//! Runs a plan: starts the contestants, has them take turns, and sums up.

use super::contestant::Contestant;
use super::field::{Seat, Starter, memory_estimate, out_of_turn};
use super::interrupt::Interrupt;
use super::plan::{Plan, Table};
use super::team::together;
use super::wire::{Answer, Counts, Latency, Memory, Order, pack, write_words};
use crate::error::LabError;
use crate::limit::MachineLimit;
use crate::memory::{available_bytes, display_bytes};
use crate::report::statistics::Sample;
use crate::workload::{KeySet, Mix, OpStream, StreamSpec, Streams};
use std::process::Command;

/// Determines all keys and operations.
const SEED: u64 = 1;
/// Slices that count.
const SLICES: usize = 5;
/// What the operations are cut into: one part to warm up, the slices, and one to count.
const PARTS: usize = SLICES + 2;
/// Loads that count, each in a process of its own.
const LOADS: usize = 3;
const LINE_BYTES: u64 = 64;
/// The smallest buffer that the limit can be measured with is a huge page.
const LIMIT_LINES_MIN: usize = 1 << 15;
/// Keys up to which a slice has the smaller number of operations.
const SMALL_KEYS: usize = 4_000_000;

/// What a contestant achieved.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Rates of the slices, in millions of operations for each second of CPU time.
    pub rates_mops: Sample,
    /// Latency of an operation, or of a batch where operations come in batches.
    pub latency: Option<Latency>,
    /// Growth of memory by the load, for each key.
    pub bytes_per_key: Option<f64>,
    /// The share of that growth that lies in huge pages.
    pub huge_page_share: Option<f64>,
    /// What a slice of the operations took, where that was asked for and can be told.
    pub counts: Option<Counts>,
}

/// A contestant that did not get through.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Who.
    pub contestant: Contestant,
    /// How it ended, or why it refused.
    pub error: String,
}

/// A finished table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableResult {
    /// What was measured.
    pub table: Table,
    /// The number of keys in the set.
    pub keys: usize,
    /// Who got through, in the table's order.
    pub measured: Vec<(Contestant, Measurement)>,
    /// Who did not.
    pub failures: Vec<Failure>,
    /// The most operations that the machine allows, in millions a second of CPU time, where
    /// each must read a cache line of its own.
    pub limit: Option<Measurement>,
}

/// Something that a user who waits wants to know.
#[derive(Debug)]
pub enum Event<'e> {
    /// A step of the work has begun.
    Step(String),
    /// Slices done and to do, of the table at hand.
    Slice(usize, usize),
    /// A table is finished.
    Table(&'e TableResult),
    /// A circumstance that matters to the figures.
    Note(String),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Every table was measured.
    Finished,
    /// Somebody interrupted; the tables reported until then are complete.
    Interrupted,
}

/// Runs plans. `command` starts a process that calls [`serve`](super::serve).
pub struct Conductor<'c> {
    starter: Starter<'c>,
}

/// The keys at hand and the maps that hold them.
struct Stage {
    keys: KeySet,
    seats: Vec<Seat>,
    /// With the number of threads that it is for.
    limit: Option<(usize, Measurement)>,
}

impl<'c> Conductor<'c> {
    /// A conductor that starts contestants with `command`.
    pub fn new(command: &'c dyn Fn() -> Command, interrupt: &'c Interrupt) -> Self {
        Conductor {
            starter: Starter { command, interrupt },
        }
    }

    /// Measures all tables of a plan.
    ///
    /// # Errors
    /// A key set that cannot be made, or a mix that does not fit its keys. What contestants do
    /// wrong is theirs, and reported with the table.
    pub fn run(
        &self,
        plan: &Plan,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Completion, LabError> {
        let mut stage: Option<(&Table, Stage)> = None;
        for table in &plan.tables {
            let same = |other: &Table| (&other.keys, other.count) == (&table.keys, table.count);
            if stage.as_ref().is_none_or(|(other, _)| !same(other)) {
                drop(stage.take());
                observe(Event::Step(format!("making {} keys", table.keys)));
                let keys = table.keys.generate(table.count, SEED)?;
                stage = Some((
                    table,
                    Stage {
                        keys,
                        seats: Vec::new(),
                        limit: None,
                    },
                ));
            }
            let Some((_, stage)) = &mut stage else {
                unreachable!("just filled")
            };
            let result = self.table(table, stage, observe)?;
            if self.starter.interrupt.is_raised() {
                return Ok(Completion::Interrupted);
            }
            observe(Event::Table(&result));
        }
        Ok(Completion::Finished)
    }

    fn table(
        &self,
        table: &Table,
        stage: &mut Stage,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<TableResult, LabError> {
        let mut result = TableResult {
            table: table.clone(),
            keys: stage.keys.len(),
            measured: Vec::new(),
            failures: Vec::new(),
            limit: None,
        };
        if table.mix == Mix::Load {
            stage.seats.clear();
            self.loads(table, &stage.keys, &mut result, observe);
            return Ok(result);
        }
        let streams = stream_spec(table, stage.keys.len()).generate()?;
        let (fitting, misfits) = self.fit(table, stage, &streams);
        result.failures.extend(misfits);
        if fitting.together {
            self.take_turns(&fitting.contestants, stage, &streams, &mut result, observe);
        } else {
            observe(Event::Note(
                "not all contestants fit in memory at once: measured one after the other"
                    .to_owned(),
            ));
            for contestant in fitting.contestants {
                stage.seats.clear();
                self.take_turns(&[contestant], stage, &streams, &mut result, observe);
            }
        }
        if table.mix.shares().insert > 0 {
            stage.seats.clear();
        }
        if table.mix.shares().scan == 0 {
            observe(Event::Step("measuring the machine's limit".to_owned()));
            result.limit = Some(limit_of(stage, table.threads)?);
        }
        Ok(result)
    }

    /// Measures loads in turn, each in a process of its own.
    fn loads(
        &self,
        table: &Table,
        keys: &KeySet,
        result: &mut TableResult,
        observe: &mut dyn FnMut(Event<'_>),
    ) {
        let mut tallies: Vec<Tally> = table.contestants.iter().map(|&c| Tally::of(c)).collect();
        let total = LOADS * tallies.len();
        for round in 0..LOADS {
            for (done, tally) in (round * tallies.len()..).zip(&mut tallies) {
                observe(Event::Slice(done, total));
                if tally.failure.is_none() && !self.starter.interrupt.is_raised() {
                    match self
                        .starter
                        .load(tally.contestant, keys, table.threads, table.batch)
                    {
                        Ok((slice, memory)) => {
                            tally.rates.push(slice.rate_mops);
                            tally.latency = slice.latency;
                            tally.memory.get_or_insert((memory, keys.len()));
                        }
                        Err(error) => tally.failure = Some(error),
                    }
                }
            }
        }
        tallies.into_iter().for_each(|tally| tally.close(result));
    }

    /// Seats the contestants that are not seated yet, and has all run slices in turn.
    fn take_turns(
        &self,
        contestants: &[Contestant],
        stage: &mut Stage,
        streams: &Streams,
        result: &mut TableResult,
        observe: &mut dyn FnMut(Event<'_>),
    ) {
        let mut tallies: Vec<Tally> = contestants.iter().map(|&c| Tally::of(c)).collect();
        stage.seats.retain(|seat| seat.loaded == streams.loaded());
        let is_seated = |c: &Contestant| stage.seats.iter().any(|seat| seat.contestant == *c);
        let missing: Vec<_> = contestants
            .iter()
            .copied()
            .filter(|c| !is_seated(c))
            .collect();
        observe(Event::Step(format!("loading {} keys", streams.loaded())));
        for (contestant, seat) in self
            .starter
            .seat_all(&missing, &stage.keys, streams.loaded())
        {
            match seat {
                Ok(seat) => stage.seats.push(seat),
                Err(error) => tally_of(&mut tallies, contestant).failure = Some(error),
            }
        }
        for tally in &mut tallies {
            tally.on_seat(stage, |seat, tally| {
                tally.memory = Some((seat.memory, seat.loaded));
                give_streams(seat, streams, result.table.batch)
            });
        }
        let total = (SLICES + 1) * tallies.len();
        for part in 0..=SLICES {
            for (done, tally) in (part * tallies.len()..).zip(&mut tallies) {
                observe(Event::Slice(done, total));
                if self.starter.interrupt.is_raised() {
                    return;
                }
                tally.on_seat(stage, |seat, tally| run_slice(seat, part, tally));
            }
        }
        if result.table.counters {
            for tally in tallies
                .iter_mut()
                .filter(|tally| tally.contestant.is_ours())
            {
                tally.on_seat(stage, count_slice);
            }
        }
        tallies.into_iter().for_each(|tally| tally.close(result));
    }

    /// Who fits in memory alone, whether all do together, and who does not fit at all.
    fn fit(&self, table: &Table, stage: &Stage, streams: &Streams) -> (Fitting, Vec<Failure>) {
        let available = available_bytes().unwrap_or(u64::MAX) / 10 * 9;
        let operations = streams.threads().iter().map(OpStream::len).sum();
        let need = |contestant| {
            let seated = stage
                .seats
                .iter()
                .any(|seat| seat.contestant == contestant && seat.loaded == streams.loaded());
            let keys = if seated { 0 } else { stage.keys.len() };
            let key_bytes = if seated { 0 } else { stage.keys.key_bytes() };
            memory_estimate(contestant, keys, key_bytes, operations)
        };
        let (contestants, misfits): (Vec<_>, Vec<_>) = table
            .contestants
            .iter()
            .copied()
            .partition(|&c| need(c) <= available);
        let together = contestants.iter().map(|&c| need(c)).sum::<u64>() <= available;
        let misfit = |contestant| Failure {
            contestant,
            error: format!(
                "needs about {} of memory, {} are available",
                display_bytes(need(contestant)),
                display_bytes(available)
            ),
        };
        (
            Fitting {
                contestants,
                together,
            },
            misfits.into_iter().map(misfit).collect(),
        )
    }
}

struct Fitting {
    contestants: Vec<Contestant>,
    together: bool,
}

/// What is known of a contestant while its table is being measured.
struct Tally {
    contestant: Contestant,
    rates: Vec<f64>,
    latency: Option<Latency>,
    /// With the number of keys that it is for.
    memory: Option<(Memory, usize)>,
    counts: Option<Counts>,
    failure: Option<String>,
}

impl Tally {
    fn of(contestant: Contestant) -> Self {
        Tally {
            contestant,
            rates: Vec::new(),
            latency: None,
            memory: None,
            counts: None,
            failure: None,
        }
    }

    /// Calls `act` with the contestant's seat; one that fails loses it.
    fn on_seat(
        &mut self,
        stage: &mut Stage,
        act: impl FnOnce(&mut Seat, &mut Tally) -> Result<(), String>,
    ) {
        let position = stage
            .seats
            .iter()
            .position(|seat| seat.contestant == self.contestant);
        let (Some(position), None) = (position, &self.failure) else {
            return;
        };
        if let Err(error) = act(&mut stage.seats[position], self) {
            self.failure = Some(error);
            stage.seats.remove(position);
        }
    }

    fn close(self, result: &mut TableResult) {
        let contestant = self.contestant;
        match (self.failure, Sample::new(self.rates)) {
            (None, Some(rates_mops)) => {
                let per_key = |(memory, keys): (Memory, usize)| {
                    memory.growth_bytes as f64 / keys.max(1) as f64
                };
                let huge = |(memory, _): (Memory, usize)| {
                    memory.huge_growth_bytes as f64 / memory.growth_bytes.max(1) as f64
                };
                let measurement = Measurement {
                    rates_mops,
                    latency: self.latency,
                    bytes_per_key: self.memory.map(per_key),
                    huge_page_share: self.memory.map(huge),
                    counts: self.counts,
                };
                result.measured.push((contestant, measurement));
            }
            (failure, _) => {
                let error = failure.unwrap_or_else(|| "was not measured".to_owned());
                result.failures.push(Failure { contestant, error });
            }
        }
    }
}

fn tally_of(tallies: &mut [Tally], contestant: Contestant) -> &mut Tally {
    let found = tallies
        .iter_mut()
        .find(|tally| tally.contestant == contestant);
    found.expect("every contestant of a table has a tally")
}

fn give_streams(seat: &mut Seat, streams: &Streams, batch: usize) -> Result<(), String> {
    let lengths = streams.threads().iter().map(OpStream::len).collect();
    seat.process
        .tell(&Order::Streams { lengths, batch }, |target| {
            let mut streams = streams.threads().iter();
            streams.try_for_each(|stream| write_words(target, stream.iter().map(pack)))
        })?;
    match seat.process.hear()? {
        Answer::Ready => Ok(()),
        answer => Err(out_of_turn(&answer)),
    }
}

fn run_slice(seat: &mut Seat, part: usize, tally: &mut Tally) -> Result<(), String> {
    let order = Order::Slice {
        part,
        parts: SLICES + 1,
        version: part as u16,
    };
    match seat.process.ask(&order)? {
        Answer::Sliced { slice } if part > 0 => {
            tally.rates.push(slice.rate_mops);
            tally.latency = slice.latency;
            Ok(())
        }
        Answer::Sliced { .. } => Ok(()),
        answer => Err(out_of_turn(&answer)),
    }
}

/// The limit for `threads` threads, each with a line for each of its share of the keys.
fn limit_of(stage: &mut Stage, threads: usize) -> Result<Measurement, LabError> {
    if let Some((for_threads, limit)) = &stage.limit
        && *for_threads == threads
    {
        return Ok(limit.clone());
    }
    let lines = (stage.keys.len() / threads).max(LIMIT_LINES_MIN) as u64;
    let measure = |_, ()| MachineLimit::measure(Some(lines * LINE_BYTES), &mut |_, _| {});
    let mut lines_per_second = 0.0;
    let mut huge = 0.0;
    for limit in together(vec![(); threads], measure) {
        let limit = limit?;
        lines_per_second += limit.lines_per_second;
        huge += limit.huge_page_bytes as f64 / limit.buffer_bytes as f64 / threads as f64;
    }
    let rates_mops = Sample::new(vec![lines_per_second / 1e6]).expect("a rate is a number");
    let limit = Measurement {
        rates_mops,
        latency: None,
        bytes_per_key: None,
        huge_page_share: Some(huge),
        counts: None,
    };
    stage.limit = Some((threads, limit.clone()));
    Ok(limit)
}

fn count_slice(seat: &mut Seat, tally: &mut Tally) -> Result<(), String> {
    let part = PARTS - 1;
    match seat.process.ask(&Order::Count {
        part,
        parts: PARTS,
        version: part as u16,
    })? {
        Answer::Counted { counts } => {
            tally.counts = Some(counts);
            Ok(())
        }
        answer => Err(out_of_turn(&answer)),
    }
}

/// How many operations to make for a table of `keys` keys: enough for a slice of some tenths of
/// a second, at least a batch, and no more insertions than there are keys for.
fn stream_spec(table: &Table, keys: usize) -> StreamSpec {
    let shares = table.mix.shares();
    let slice = match (shares.scan > 0, keys <= SMALL_KEYS) {
        (true, _) => 20_000,
        (false, true) => 500_000,
        (false, false) => 1_000_000,
    };
    let operations = slice.max(table.batch) * PARTS * table.threads;
    // At one insertion in twenty operations this holds out less than half of the keys.
    let insertable = if shares.insert > 0 {
        keys.saturating_mul(8)
    } else {
        usize::MAX
    };
    StreamSpec {
        mix: table.mix,
        distribution: Some(table.distribution),
        keys,
        threads: table.threads,
        operations: operations.min(insertable),
        seed: SEED,
    }
}
