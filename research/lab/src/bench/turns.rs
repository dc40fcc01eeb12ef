//! Slices in turn: every contestant runs a part of the operations before any runs the next.

use super::conductor::{ConductorEvent, Observer};
use super::contestant::BenchContestant;
use super::field::{LoadedContestant, LoadedKeySet, Starter, memory_estimate, unexpected_reply};
use super::report::TableResult;
use super::tally::ContestantResults;
use super::wire::{ContestantOrder, ContestantReply, write_words};
use crate::harness::{Completion, in_turns};
use crate::memory::available_bytes;
use crate::text::display_bytes;
use crate::workload::{OpStream, Streams};
use std::convert::Infallible;

/// Number of slices that count.
const SLICES: usize = 5;
/// Number of parts of the operations: one to warm up, the slices, and one to count.
pub(super) const PARTS: usize = SLICES + 2;

/// A measurement of contestants on the same operations.
pub(super) struct TableMeasurement<'t> {
    pub(super) starter: &'t Starter<'t>,
    pub(super) streams: &'t Streams,
}

impl TableMeasurement<'_> {
    /// Measures all contestants of a table: together if their maps fit in memory together, else one
    /// after the other.
    pub(super) fn measure(
        &self,
        stage: &mut LoadedKeySet,
        result: &mut TableResult,
        observe: &mut Observer<'_>,
    ) {
        let available = available_bytes().unwrap_or(u64::MAX) / 10 * 9;
        let contestants = result.table.contestants.clone();
        let needs = contestants.iter().map(|&c| (c, self.need(c, stage)));
        let (fitting, misfits): (Vec<_>, Vec<_>) = needs.partition(|need| need.1 <= available);
        for (contestant, need) in misfits {
            let [need, available] = [need, available].map(display_bytes);
            let error = format!("needs about {need} of memory, {available} are available");
            result.fail(contestant, error);
        }
        let contestants: Vec<_> = fitting.iter().map(|need| need.0).collect();
        if fitting.iter().map(|need| need.1).sum::<u64>() <= available {
            return self.take_turns(&contestants, stage, result, observe);
        }
        let note = "not all contestants fit in memory at once: measured one after the other";
        observe(ConductorEvent::Note(note.to_owned()));
        for contestant in contestants {
            // The memory of the map before is needed for the next.
            stage.maps.clear();
            self.take_turns(&[contestant], stage, result, observe);
        }
    }

    /// Estimates the memory that a contestant needs in addition to what it has.
    fn need(&self, contestant: BenchContestant, stage: &LoadedKeySet) -> u64 {
        let operations = self.streams.threads().iter().map(OpStream::len).sum();
        match stage.map_of(contestant, self.streams.loaded()) {
            Some(_) => memory_estimate(contestant, 0, 0, operations),
            None => {
                let keys = &stage.keys;
                memory_estimate(contestant, keys.len(), keys.key_bytes(), operations)
            }
        }
    }

    /// Starts the contestants that are not running yet, and makes all run slices in turn.
    fn take_turns(
        &self,
        contestants: &[BenchContestant],
        stage: &mut LoadedKeySet,
        result: &mut TableResult,
        observe: &mut Observer<'_>,
    ) {
        observe(ConductorEvent::Step(format!(
            "loading {} keys",
            self.streams.loaded()
        )));
        let mut tallies = self.load_missing(contestants, stage);
        for tally in &mut tallies {
            tally.on_map(&mut stage.maps, |map, tally| {
                tally.memory = Some((map.memory, map.loaded));
                self.give_streams(map, result.table.batch)
            });
        }
        let (mut done, total) = (0, (SLICES + 1) * tallies.len());
        let interrupt = self.starter.interrupt;
        let Ok(completion) = in_turns(SLICES + 1, &mut tallies, interrupt, |part, tally| {
            observe(ConductorEvent::Slice(done, total));
            done += 1;
            tally.on_map(&mut stage.maps, |map, tally| run_slice(map, part, tally));
            Ok::<_, Infallible>(())
        });
        if completion == Completion::Interrupted {
            return;
        }
        // After all slices, because counting makes operations slower.
        if result.table.counters {
            for tally in tallies
                .iter_mut()
                .filter(|tally| tally.contestant.is_ours())
            {
                tally.on_map(&mut stage.maps, count_slice);
            }
        }
        debug_assert!(tallies.iter().all(|tally| tally.rates.len() <= SLICES));
        tallies.into_iter().for_each(|tally| tally.close(result));
    }

    /// Starts and loads the contestants whose maps are not loaded yet.
    fn load_missing(
        &self,
        contestants: &[BenchContestant],
        stage: &mut LoadedKeySet,
    ) -> Vec<ContestantResults> {
        let loaded = self.streams.loaded();
        // Streams hit each key, so a map with another number of keys cannot be used again.
        stage.maps.retain(|map| map.loaded == loaded);
        let missing = contestants
            .iter()
            .copied()
            .filter(|&c| stage.map_of(c, loaded).is_none());
        let missing: Vec<_> = missing.collect();
        let mut tallies: Vec<ContestantResults> = contestants
            .iter()
            .map(|&c| ContestantResults::of(c))
            .collect();
        for (contestant, map) in self.starter.load_all(&missing, &stage.keys, loaded) {
            match map {
                Ok(map) => stage.maps.push(map),
                Err(error) => {
                    let mut tallies = tallies.iter_mut();
                    if let Some(tally) = tallies.find(|tally| tally.contestant == contestant) {
                        tally.failure = Some(error);
                    }
                }
            }
        }
        tallies
    }

    fn give_streams(&self, map: &mut LoadedContestant, batch: usize) -> Result<(), String> {
        let streams = self.streams.threads();
        let lengths = streams.iter().map(OpStream::len).collect();
        map.process
            .send(&ContestantOrder::Streams { lengths, batch }, |target| {
                streams
                    .iter()
                    .try_for_each(|stream| write_words(target, stream.words().iter().copied()))
            })?;
        match map.process.receive()? {
            ContestantReply::Ready => Ok(()),
            reply => Err(unexpected_reply(&reply)),
        }
    }
}

fn run_slice(
    map: &mut LoadedContestant,
    part: usize,
    tally: &mut ContestantResults,
) -> Result<(), String> {
    debug_assert!(part < PARTS - 1, "the last part is for counting");
    let order = ContestantOrder::Slice {
        part,
        parts: PARTS,
        version: part as u16,
    };
    match map.process.exchange(&order)? {
        ContestantReply::Sliced { slice } if part > 0 => {
            tally.rates.push(slice.rate_mops);
            // The process sums durations since the warm-up, so the last slice has all of them.
            tally.latency = slice.latency;
            Ok(())
        }
        ContestantReply::Sliced { .. } => Ok(()),
        reply => Err(unexpected_reply(&reply)),
    }
}

fn count_slice(map: &mut LoadedContestant, tally: &mut ContestantResults) -> Result<(), String> {
    let part = PARTS - 1;
    match map.process.exchange(&ContestantOrder::Count {
        part,
        parts: PARTS,
        version: part as u16,
    })? {
        ContestantReply::Counted { counts } => {
            tally.counts = Some(counts);
            Ok(())
        }
        reply => Err(unexpected_reply(&reply)),
    }
}
