//! The server with tiers, as clients see it.

mod cold;
mod hot;
mod writes;

pub use cold::{ColdServed, cold};
pub use hot::{HotServed, hot};
pub use writes::{OverflowTier, SustainedWrites, writes};

use super::{TiersError, ValueCorpus};
use crate::harness::Interrupt;
use crate::server::load::{ConnectionShape, ServerLoadResult, drive};
use crate::server::process::{ServerProcess, tier_number};
use crate::server::program::ServerProgram;
use crate::workload::{Permutation, Random, random};
use nearfield_server::resp::encode::request as write;
use rand_distr::{Distribution, Zipf};
use std::time::{Duration, Instant};

/// Bytes of a key.
const KEY_BYTES: u64 = 16;
/// Bytes that a key and its place take in memory besides the key. *Assumed* to size the memory
/// tier; the share of requests that it serves is measured.
const ENTRY_BYTES: u64 = 32;
/// YCSB's constant of skew.
const THETA: f64 = 0.99;

/// A server that holds values, and ends when this value is dropped.
#[derive(Debug)]
struct FilledServer {
    process: ServerProcess,
    keys: u64,
}

impl FilledServer {
    /// Starts a server with these tiers, and fills it with this number of keys; the values repeat.
    fn fill(
        name: &str,
        tiers: &[String],
        values: &ValueCorpus,
        keys: u64,
        interrupt: &Interrupt,
    ) -> Result<FilledServer, TiersError> {
        let process = ServerProcess::start(name, |port| {
            let mut command = ServerProgram::Own { threads: 1 }.command(port, None);
            tiers.iter().for_each(|tier| {
                command.args(["--tier", tier]);
            });
            command
        })?;
        let shape = ConnectionShape {
            connections: 4,
            pipeline: 64,
        };
        let mut next = 0;
        drive(&process, shape, |most, out| {
            if interrupt.is_raised() {
                return 0;
            }
            let count = (keys - next).min(most as u64);
            for number in next..next + count {
                let value = values.list.get(number as usize % values.list.len());
                let value = value.map_or(&[][..], Vec::as_slice);
                write(out, &[b"SET", &key(number), value]);
            }
            next += count;
            count as usize
        })?;
        match interrupt.is_raised() {
            true => Err(TiersError::Interrupted),
            false => Ok(FilledServer { process, keys }),
        }
    }

    /// Makes clients get keys that `draw` draws, for the time `turn`.
    fn get(
        &self,
        shape: ConnectionShape,
        turn: Duration,
        mut draw: impl FnMut() -> u64,
    ) -> Result<ServerLoadResult, TiersError> {
        let start = Instant::now();
        Ok(drive(&self.process, shape, |most, out| {
            if start.elapsed() >= turn {
                return 0;
            }
            (0..most).for_each(|_| write(out, &[b"GET", &key(draw())]));
            most
        })?)
    }

    /// Makes clients set keys for the time `turn`, or until the interrupt is raised. `draw` draws
    /// the number of a key and the index of a value.
    fn set(
        &self,
        shape: ConnectionShape,
        turn: Duration,
        values: &ValueCorpus,
        interrupt: &Interrupt,
        mut draw: impl FnMut() -> (u64, usize),
    ) -> Result<ServerLoadResult, TiersError> {
        let start = Instant::now();
        Ok(drive(&self.process, shape, |most, out| {
            if start.elapsed() >= turn || interrupt.is_raised() {
                return 0;
            }
            for _ in 0..most {
                let (number, index) = draw();
                let value = values.list.get(index).map_or(&[][..], Vec::as_slice);
                write(out, &[b"SET", &key(number), value]);
            }
            most
        })?)
    }

    /// Sends a command for each number.
    fn each(
        &self,
        numbers: std::ops::Range<u64>,
        command: impl Fn(u64, &mut Vec<u8>),
    ) -> Result<(), TiersError> {
        let shape = ConnectionShape {
            connections: 1,
            pipeline: 64,
        };
        let mut numbers = numbers;
        drive(&self.process, shape, |most, out| {
            let mut count = 0;
            for number in numbers.by_ref().take(most) {
                command(number, out);
                count += 1;
            }
            count
        })?;
        Ok(())
    }

    /// Returns a statistic of a tier that the server reports.
    fn figure(&self, tier: usize, field: &str) -> f64 {
        let page = self.process.info("tiers").unwrap_or_default();
        tier_number(&page, tier, field)
    }
}

/// Returns the key of a number.
fn key(number: u64) -> [u8; KEY_BYTES as usize] {
    let mut key = *b"key:000000000000";
    let (mut at, mut rest) = (key.len(), number);
    while rest > 0 && at > 4 {
        at -= 1;
        if let Some(digit) = key.get_mut(at) {
            *digit = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
    }
    debug_assert_eq!(rest, 0, "a key has twelve digits");
    key
}

/// A generator of keys by Zipf's distribution. It scatters ranks over the keys.
struct ZipfKeyDraws {
    zipf: Zipf<f64>,
    scatter: Permutation,
    random: Random,
    /// Number of ranks; those from this one on are drawn again.
    ranks: u64,
}

impl ZipfKeyDraws {
    /// Creates a generator for the first `ranks` of this number of keys. The scatter is always the
    /// same.
    fn new(keys: u64, ranks: u64, seed: u64) -> Option<ZipfKeyDraws> {
        Some(ZipfKeyDraws {
            zipf: Zipf::new(keys as f64, THETA).ok()?,
            scatter: Permutation::new(keys, 1),
            random: random(seed, 11),
            ranks: ranks.clamp(1, keys),
        })
    }

    fn draw(&mut self) -> u64 {
        loop {
            let rank = self.zipf.sample(&mut self.random) as u64 - 1;
            // Zipf's distribution of fewer ranks is this one, drawn again outside of them.
            if rank < self.ranks {
                return self.scatter.at(rank);
            }
        }
    }
}
