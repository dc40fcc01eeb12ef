//! The tier of compressed memory: the compression ratio of values, and the cost of a read.

use super::{TiersBenchPlan, TiersError, ValueCorpus};
use crate::clock::thread_cpu_time;
use crate::harness::{Completion, Interrupt, MeasurementSample, in_turns};
use crate::report::{self, NumberOrigin};
use crate::workload::random;
use nearfield_tiers::{ColdPlace, Tiers};
use rand::RngExt;
use serde::Serialize;
use std::hint::black_box;
use std::time::Duration;

/// Index of the tier in the list of tiers.
const TIER: usize = 1;
/// The most passes over the values in which old ones are put again.
const REWRITES_MAX: usize = 4;
/// Number of reads between two readings of the clock.
const READS: usize = 200;

/// Values of one kind in compressed memory.
pub type Row = report::ReportRow<ColdRead>;

/// The results for values in the tier.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ColdRead {
    /// The kind of values.
    pub values: String,
    /// Number of values.
    pub count: u64,
    /// Their bytes.
    pub value_bytes: u64,
    /// Bytes that the tier takes for them, without its dictionaries.
    pub tier_bytes: u64,
    /// Bytes of its dictionaries, for all values of a store together.
    pub dictionary_bytes: u64,
    /// The ratio of the bytes of values to those in the tier, without dictionaries.
    pub ratio: f64,
    /// Processor time of a read from the tier, the median of the turns, in nanoseconds.
    pub cold_ns: f64,
    /// Processor time of a read from memory, likewise.
    pub hot_ns: f64,
    /// Difference of these times.
    pub more_ns: f64,
}

/// Puts values into a tier of compressed memory, reads all of them once to check them, and then
/// some at random, in turns with reads of the same values in memory.
///
/// # Errors
/// A tier refuses a value, or returns other bytes; or the interrupt is raised.
pub fn compressed(
    plan: &TiersBenchPlan,
    values: &ValueCorpus,
    interrupt: &Interrupt,
) -> Result<Row, TiersError> {
    // Enough for values that do not compress.
    let room = (values.bytes() >> 20) + 64;
    let tiers = [
        "memory=1mb".parse()?,
        format!("compressed={room}mb").parse()?,
    ];
    let tiers = Tiers::open(&tiers)?;
    let places = fill(&tiers, &values.list)?;
    check(&tiers, &places, &values.list)?;
    let mut sides = [
        CompressedReadSide::Cold(&tiers, &places),
        CompressedReadSide::Hot(&values.list),
    ]
    .map(|side| (side, Vec::new()));
    let ended = in_turns(
        plan.rounds,
        &mut sides,
        interrupt,
        |round, (side, turns)| {
            turns.push(side.turn(plan.turn, round as u64)?);
            Ok::<_, TiersError>(())
        },
    )?;
    if ended == Completion::Interrupted {
        return Err(TiersError::Interrupted);
    }
    let [cold_ns, hot_ns] =
        sides.map(|(_, turns)| MeasurementSample::new(turns).map_or(0.0, |it| it.median()));
    let usage = tiers.usage(TIER).unwrap_or_default();
    debug_assert!(usage.dictionary_bytes <= usage.used_bytes);
    let tier_bytes = usage.used_bytes - usage.dictionary_bytes;
    let detail = ColdRead {
        values: values.name.clone(),
        count: usage.values,
        value_bytes: usage.value_bytes,
        tier_bytes,
        dictionary_bytes: usage.dictionary_bytes,
        ratio: usage.value_bytes as f64 / tier_bytes as f64,
        cold_ns,
        hot_ns,
        more_ns: cold_ns - hot_ns,
    };
    Ok(Row {
        rate_mops: Some(1e3 / cold_ns),
        bytes_per_key: Some(tier_bytes as f64 / values.list.len() as f64),
        ..Row::new("compressed", NumberOrigin::Measured, detail)
    })
}

/// Puts values as the server does: in batches of the size that the tier wants.
fn fill(tiers: &Tiers, values: &[Vec<u8>]) -> Result<Vec<ColdPlace>, TiersError> {
    let mut places = put(tiers, values.iter().map(Vec::as_slice).collect())?;
    // The first values were compressed before the newest dictionary, and are put again.
    for _ in 0..REWRITES_MAX {
        let old = places.iter().enumerate();
        let old: Vec<usize> = old
            .filter(|(_, place)| tiers.wants_rewrite(**place))
            .map(|(number, _)| number)
            .collect();
        if old.is_empty() {
            break;
        }
        let again = old.iter().filter_map(|&number| values.get(number));
        let again = put(tiers, again.map(Vec::as_slice).collect())?;
        debug_assert_eq!(old.len(), again.len());
        for (number, place) in old.into_iter().zip(again) {
            if let Some(old) = places.get_mut(number) {
                tiers.release(std::mem::replace(old, place));
            }
        }
    }
    Ok(places)
}

fn put(tiers: &Tiers, values: Vec<&[u8]>) -> Result<Vec<ColdPlace>, TiersError> {
    let mut places = Vec::with_capacity(values.len());
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for value in values {
        bytes += value.len();
        batch.push(value);
        if tiers.is_batch(TIER, bytes, value.len()) {
            places.extend(tiers.put(TIER, &batch)?);
            tiers.tend();
            (batch, bytes) = (Vec::new(), 0);
        }
    }
    if !batch.is_empty() {
        places.extend(tiers.put(TIER, &batch)?);
    }
    Ok(places)
}

/// Checks that all values are those that were put.
fn check(tiers: &Tiers, places: &[ColdPlace], values: &[Vec<u8>]) -> Result<(), TiersError> {
    debug_assert_eq!(places.len(), values.len());
    let mut read = Vec::new();
    for (place, value) in places.iter().zip(values) {
        read.clear();
        tiers.read(*place, &mut read)?;
        if read != *value {
            return Err(TiersError::Wrong);
        }
    }
    Ok(())
}

/// The source of the values that are read.
enum CompressedReadSide<'s> {
    Cold(&'s Tiers, &'s [ColdPlace]),
    Hot(&'s [Vec<u8>]),
}

impl CompressedReadSide<'_> {
    /// Measures the nanoseconds of processor time for a read.
    fn turn(&self, turn: Duration, round: u64) -> Result<f64, TiersError> {
        let mut random = random(round, 3);
        let (mut reads, mut out) = (0, Vec::new());
        let start = thread_cpu_time();
        let took = loop {
            for _ in 0..READS {
                out.clear();
                match self {
                    CompressedReadSide::Cold(tiers, places) => {
                        let at = random.random_range(0..places.len());
                        tiers.read(places[at], &mut out)?;
                    }
                    CompressedReadSide::Hot(values) => {
                        let at = random.random_range(0..values.len());
                        // The tier copies into this buffer, too.
                        out.extend_from_slice(&values[at]);
                    }
                }
                black_box(&out);
            }
            reads += READS;
            let took = thread_cpu_time() - start;
            if took >= turn {
                break took;
            }
        };
        Ok(took.as_nanos() as f64 / reads as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_smaller_and_take_longer_to_read() {
        let values = ValueCorpus::records(8000, None).unwrap();
        let plan = TiersBenchPlan {
            rounds: 2,
            turn: Duration::from_millis(20),
            folder: std::env::temp_dir(),
            file_bytes: 0,
            depth: 1,
            writing: Duration::ZERO,
        };
        let row = compressed(&plan, &values, &Interrupt::default()).unwrap();
        let read = row.detail;
        assert_eq!(read.count, 8000);
        assert_eq!(read.value_bytes, values.bytes());
        assert!(read.ratio > 1.5, "{read:?}");
        assert!(read.more_ns > 0.0, "{read:?}");
    }
}
