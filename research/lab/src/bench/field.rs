//! The running processes of the contestants, each with its loaded map.

use super::contestant::BenchContestant;
use super::process::ContestantProcess;
use super::wire::{
    ContestantOrder, ContestantReply, LoadMemoryGrowth, SliceSpeed, keys_order, write_keys,
};
use crate::harness::Interrupt;
use crate::workload::KeySet;
use nearfield_peers::PeerKind;
use std::process::Command;

/// A loaded map in a process.
pub(super) struct LoadedContestant {
    pub(super) contestant: BenchContestant,
    pub(super) process: ContestantProcess,
    pub(super) memory: LoadMemoryGrowth,
    pub(super) loaded: usize,
}

/// The present key set and the maps that hold it.
pub(super) struct LoadedKeySet {
    pub(super) keys: KeySet,
    pub(super) maps: Vec<LoadedContestant>,
}

impl LoadedKeySet {
    /// Finds the contestant's map with the first `loaded` keys.
    pub(super) fn map_of(
        &self,
        contestant: BenchContestant,
        loaded: usize,
    ) -> Option<&LoadedContestant> {
        let mut maps = self.maps.iter();
        maps.find(|map| (map.contestant, map.loaded) == (contestant, loaded))
    }
}

/// A starter of processes that can become contestants.
pub(super) struct Starter<'c> {
    pub(super) command: &'c dyn Fn() -> Command,
    pub(super) interrupt: &'c Interrupt,
}

impl Starter<'_> {
    /// Starts a process for each contestant and makes all of them load the first `loaded` keys.
    pub(super) fn load_all(
        &self,
        contestants: &[BenchContestant],
        keys: &KeySet,
        loaded: usize,
    ) -> Vec<(BenchContestant, Result<LoadedContestant, String>)> {
        let order = ContestantOrder::Load {
            loaded,
            threads: 1,
            batch: LOAD_BATCH,
        };
        // Each gets its order before the first reply is awaited, so that all load at once. Only
        // memory is measured meanwhile.
        let loading: Vec<_> = contestants
            .iter()
            .map(|&contestant| {
                let started = self.start(contestant, keys);
                let process = started.and_then(|mut process| {
                    process.send(&order, |_| Ok(()))?;
                    Ok(process)
                });
                (contestant, process)
            })
            .collect();
        let finish =
            |(contestant, process): (BenchContestant, Result<ContestantProcess, String>)| {
                let map = process.and_then(|mut process| {
                    let memory = loaded_reply(process.receive()?)?.1;
                    Ok(LoadedContestant {
                        contestant,
                        process,
                        memory,
                        loaded,
                    })
                });
                (contestant, map)
            };
        loading.into_iter().map(finish).collect()
    }

    /// Measures a load of all keys in a fresh process.
    pub(super) fn load(
        &self,
        contestant: BenchContestant,
        keys: &KeySet,
        threads: usize,
        batch: usize,
    ) -> Result<(SliceSpeed, LoadMemoryGrowth), String> {
        let mut process = self.start(contestant, keys)?;
        loaded_reply(process.exchange(&ContestantOrder::Load {
            loaded: keys.len(),
            threads,
            batch,
        })?)
    }

    fn start(
        &self,
        contestant: BenchContestant,
        keys: &KeySet,
    ) -> Result<ContestantProcess, String> {
        let mut process = ContestantProcess::start((self.command)(), self.interrupt)
            .map_err(|error| format!("cannot be started: {error}"))?;
        let order = keys_order(contestant.name(), keys);
        process.send(&order, |target| write_keys(target, keys))?;
        match process.receive()? {
            ContestantReply::Ready => Ok(process),
            reply => Err(unexpected_reply(&reply)),
        }
    }
}

/// Operations in a batch while loading for mixes other than `load`.
const LOAD_BATCH: usize = 4096;

fn loaded_reply(reply: ContestantReply) -> Result<(SliceSpeed, LoadMemoryGrowth), String> {
    match reply {
        ContestantReply::Loaded { slice, memory } => Ok((slice, memory)),
        reply => Err(unexpected_reply(&reply)),
    }
}

/// Formats the error for a reply of the wrong kind.
pub(super) fn unexpected_reply(reply: &ContestantReply) -> String {
    format!("unexpected reply: {reply:?}")
}

/// Estimates the memory that a contestant takes for `keys` keys of `key_bytes` bytes together and
/// for `operations` operations. The estimate is rough and rather too high; it follows measurements
/// at 1M to 50M sparse keys.
pub(super) fn memory_estimate(
    contestant: BenchContestant,
    keys: usize,
    key_bytes: usize,
    operations: usize,
) -> u64 {
    let per_key = match contestant {
        BenchContestant::Peer(PeerKind::Congee) => 110,
        BenchContestant::Peer(PeerKind::Masstree) => 145,
        BenchContestant::Peer(PeerKind::Blart | PeerKind::Scc) => 80,
        BenchContestant::Peer(PeerKind::Indexset) => 40,
        _ => 65,
    };
    // The slices of string keys, and the tasks that operations are converted to.
    let (slice, task) = (16, 48);
    keys as u64 * (per_key + slice) + key_bytes as u64 + operations as u64 * task
}
