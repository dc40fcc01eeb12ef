//! The tier in files: reads of cold values, compared with a bare loop of reads of the same disk.

use super::{TiersBenchPlan, TiersError, ValueCorpus};
use crate::harness::{
    Completion, Durations, Interrupt, LatencySummary, MeasurementSample, in_turns,
};
use crate::limit::device::{self, Extent, Method, SECTOR_BYTES};
use crate::report::{self, MeasurementProgress, NumberOrigin};
use crate::workload::random;
use nearfield_tiers::{ColdPlace, ReadError, TierReadRing, Tiers};
use rand::RngExt;
use serde::Serialize;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Index of the tier in the list of tiers.
const TIER: usize = 1;
/// Bytes of a record before its value.
const HEADER_BYTES: u64 = 16;
/// Number of values that are put between two checks of the interrupt.
const PUT_AT_ONCE: usize = 1000;

/// Values of one kind in files.
pub type Row = report::ReportRow<DiskRead>;

/// The results of reads of the tier, and of bare ones.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DiskRead {
    /// The kind of values.
    pub values: String,
    /// Number of values.
    pub count: u64,
    /// Their bytes.
    pub value_bytes: u64,
    /// Number of reads in flight.
    pub depth: usize,
    /// The method of the bare loop: `io_uring` or `threads`.
    pub bare_method: &'static str,
    /// True if reads bypass the system's cache. Otherwise they do not measure the disk.
    pub direct: bool,
    /// The tier, read by a thread for each read in flight.
    pub tier: FileReadRate,
    /// The tier, read by one thread through `io_uring`, as the server does if the kernel permits
    /// it.
    pub ring: Option<FileReadRate>,
    /// The bare loop.
    pub bare: FileReadRate,
    /// The ratio of the tier's rate to the loop's.
    pub rate_ratio: f64,
    /// The ratio of the tier's 99th percentile to the loop's.
    pub p99_ratio: f64,
}

/// The results of one side, the medians of its turns.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct FileReadRate {
    /// Thousands of reads a second.
    pub kops: f64,
    /// Latency of a read.
    pub latency_ns: LatencySummary,
}

/// Puts values into a tier in files until they have the bytes of the plan, and reads them at random
/// with the plan's number of reads in flight. In turns with that, a bare loop reads as many sectors
/// of another file in the folder.
///
/// # Errors
/// There is nothing to read, a tier or the disk refuses a request, or the interrupt is raised.
pub fn files(
    plan: &TiersBenchPlan,
    values: &ValueCorpus,
    interrupt: &Interrupt,
) -> Result<Row, TiersError> {
    let room = (plan.file_bytes >> 20) * 3 / 2 + 64;
    let folder = plan.folder.display();
    let tiers = [
        "memory=1mb".parse()?,
        format!("file:{folder}={room}mb").parse()?,
    ];
    let tiers = Tiers::open(&tiers)?;
    let mut progress = MeasurementProgress::new("step", 2 + 3 * plan.rounds);
    progress.step("writing values".to_owned());
    let (places, extents) = fill(&tiers, values, plan.file_bytes, interrupt)?;
    progress.part();
    progress.step("writing a file for the bare loop".to_owned());
    let (file, direct) = bare_file(&plan.folder, &extents)?;
    progress.part();
    let method = Method::here();
    let bare = FileReadSide::Bare(&file, &extents, method);
    let mut sides = vec![FileReadSide::Tier(&tiers, &places), bare];
    // The kernel may refuse rings.
    sides.extend(
        TierReadRing::new(plan.depth)
            .is_ok()
            .then_some(FileReadSide::Ring(&tiers, &places)),
    );
    let mut sides: Vec<_> = sides.into_iter().map(|side| (side, Vec::new())).collect();
    let ended = in_turns(
        plan.rounds,
        &mut sides,
        interrupt,
        |round, (side, turns)| {
            progress.step(side.name().to_owned());
            turns.push(side.turn(plan, round as u64)?);
            progress.part();
            Ok::<_, TiersError>(())
        },
    )?;
    if ended == Completion::Interrupted {
        return Err(TiersError::Interrupted);
    }
    let rates = sides
        .iter()
        .map(|(_, turns)| FileReadRate::of(turns, plan.turn));
    let rates: Vec<FileReadRate> = rates.collect();
    // The ring is the last side, if the kernel permits it.
    let (&[tier, bare], ring) = rates.split_first_chunk().ok_or(TiersError::NoValues)?;
    let usage = tiers.usage(TIER).unwrap_or_default();
    let detail = DiskRead {
        values: values.name.clone(),
        count: usage.values,
        value_bytes: usage.value_bytes,
        depth: plan.depth,
        bare_method: method.name(),
        direct,
        rate_ratio: tier.kops / bare.kops,
        p99_ratio: tier.latency_ns.p99 as f64 / bare.latency_ns.p99 as f64,
        tier,
        ring: ring.first().copied(),
        bare,
    };
    Ok(Row {
        rate_mops: Some(tier.kops / 1e3),
        latency_ns: Some(tier.latency_ns),
        ..Row::new("file", NumberOrigin::Measured, detail)
    })
}

/// Puts the values one after the other, repeatedly. Returns their places, and the sectors that they
/// would have in a file.
fn fill(
    tiers: &Tiers,
    values: &ValueCorpus,
    bytes: u64,
    interrupt: &Interrupt,
) -> Result<(Vec<ColdPlace>, Vec<Extent>), TiersError> {
    // Without values the loop would not end, and without bytes there would be nothing to read.
    if values.list.is_empty() || bytes == 0 {
        return Err(TiersError::NoValues);
    }
    let (mut places, mut extents, mut at) = (Vec::new(), Vec::new(), 0);
    while at < bytes {
        for some in values.list.chunks(PUT_AT_ONCE) {
            if interrupt.is_raised() {
                return Err(TiersError::Interrupted);
            }
            for value in some {
                places.extend(tiers.put(TIER, &[value])?);
                // As records lie in the files of the tier, so that the bare loop reads as many
                // sectors.
                let end = at + HEADER_BYTES + value.len() as u64;
                let first = at / SECTOR_BYTES;
                extents.push((first, (end.div_ceil(SECTOR_BYTES) - first) as u32));
                at = end.next_multiple_of(HEADER_BYTES);
            }
            if at >= bytes {
                break;
            }
        }
    }
    debug_assert_eq!(
        places.len(),
        extents.len(),
        "both sides read the same values"
    );
    Ok((places, extents))
}

/// Creates an unnamed file with all extents, and returns whether reads of it bypass the cache.
fn bare_file(folder: &Path, extents: &[Extent]) -> io::Result<(File, bool)> {
    const DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let path = folder.join(format!("nearfield-bare-{}", std::process::id()));
    let mut file = File::create(&path)?;
    let end = extents
        .last()
        .map_or(0, |(first, count)| first + u64::from(*count));
    // The content is not zero, because some disks do not store zeros.
    let mut block = vec![0; 1 << 20];
    let mut random = random(1, 6);
    let write = || {
        let mut left = end * SECTOR_BYTES;
        while left > 0 {
            random.fill(&mut block[..]);
            let part = block.get(..left.min(1 << 20) as usize).unwrap_or_default();
            file.write_all(part)?;
            left -= part.len() as u64;
        }
        file.sync_all()
    };
    let mut write = write;
    let written = write();
    let open = |flags| {
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path)
    };
    let opened = match open(DIRECT) {
        Ok(file) => Ok((file, true)),
        // Some file systems refuse direct reads.
        Err(_) => open(0).map(|file| (file, false)),
    };
    // Removed while it is open, also after an error, so that no run leaves it behind.
    std::fs::remove_file(&path)?;
    written?;
    opened
}

enum FileReadSide<'s> {
    Ring(&'s Tiers, &'s [ColdPlace]),
    Tier(&'s Tiers, &'s [ColdPlace]),
    Bare(&'s File, &'s [Extent], Method),
}

impl FileReadSide<'_> {
    fn name(&self) -> &'static str {
        match self {
            FileReadSide::Tier(..) | FileReadSide::Ring(..) => "reading cold values",
            FileReadSide::Bare(..) => "reading by the bare loop",
        }
    }

    fn turn(&self, plan: &TiersBenchPlan, round: u64) -> Result<Durations, TiersError> {
        match self {
            FileReadSide::Tier(tiers, places) => read_tier(tiers, places, plan, round),
            FileReadSide::Ring(tiers, places) => read_by_ring(tiers, places, plan, round),
            FileReadSide::Bare(file, extents, method) => Ok(device::read(
                file, extents, *method, plan.depth, plan.turn, round,
            )?),
        }
    }
}

/// Reads by a thread for each read in flight, each of which reads one value after the other.
fn read_tier(
    tiers: &Tiers,
    places: &[ColdPlace],
    plan: &TiersBenchPlan,
    round: u64,
) -> Result<Durations, TiersError> {
    let start = Instant::now();
    let read = |number: usize| {
        let mut random = random(round, 100 + number as u64);
        let (mut durations, mut out) = (Durations::new(), Vec::new());
        while start.elapsed() < plan.turn {
            let place = places[random.random_range(0..places.len())];
            out.clear();
            let since = Instant::now();
            tiers.read(place, &mut out)?;
            durations.record(since.elapsed());
        }
        Ok::<_, TiersError>(durations)
    };
    let read = &read;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.depth)
            .map(|number| scope.spawn(move || read(number)))
            .collect();
        let mut all = Durations::new();
        for thread in threads {
            let durations = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.merge(&durations?);
        }
        Ok(all)
    })
}

/// Reads by one thread with all reads in flight.
fn read_by_ring(
    tiers: &Tiers,
    places: &[ColdPlace],
    plan: &TiersBenchPlan,
    round: u64,
) -> Result<Durations, TiersError> {
    let mut ring = TierReadRing::new(plan.depth)?;
    let mut random = random(round, 99);
    let (mut durations, mut since) = (Durations::new(), HashMap::new());
    let (start, mut number) = (Instant::now(), 0);
    loop {
        while ring.room() > 0 && start.elapsed() < plan.turn {
            let place = places[random.random_range(0..places.len())];
            let pending = tiers.pending(place).ok_or(ReadError::Absent)?;
            number += 1;
            let began = Instant::now();
            match ring.begin(pending, number) {
                Some(read) => drop(read.map(|_| durations.record(began.elapsed()))?),
                None => drop(since.insert(number, began)),
            }
        }
        if ring.under_way() == 0 {
            debug_assert!(since.is_empty(), "a read has ended unnoticed");
            return Ok(durations);
        }
        let mut failed = None;
        ring.wait(Duration::from_secs(1), |number, read| {
            if let Some(began) = since.remove(&number) {
                durations.record(began.elapsed());
            }
            failed = read.err().or(failed.take());
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
}

impl FileReadRate {
    fn of(turns: &[Durations], turn: Duration) -> FileReadRate {
        let median = |of: &dyn Fn(&Durations) -> f64| {
            let sample = MeasurementSample::new(turns.iter().map(of).collect());
            sample.map_or(0.0, |sample| sample.median())
        };
        let latency = |pick: fn(&LatencySummary) -> u64| {
            median(&|it| {
                it.percentiles()
                    .map_or(0.0, |latency| pick(&latency) as f64)
            }) as u64
        };
        FileReadRate {
            kops: median(&|it| it.count() as f64) / turn.as_secs_f64() / 1e3,
            latency_ns: LatencySummary {
                p50: latency(|it| it.p50),
                p99: latency(|it| it.p99),
                p999: latency(|it| it.p999),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_read() {
        let folder = tempfile::tempdir().unwrap();
        let values = ValueCorpus::records(2000, None).unwrap();
        let plan = TiersBenchPlan {
            rounds: 2,
            turn: Duration::from_millis(50),
            folder: folder.path().to_owned(),
            file_bytes: 4 << 20,
            depth: 4,
            writing: Duration::ZERO,
        };
        let row = files(&plan, &values, &Interrupt::default()).unwrap();
        let read = row.detail;
        assert!(read.value_bytes >= 3 << 20, "{read:?}");
        assert!(read.tier.kops > 0.0 && read.bare.kops > 0.0, "{read:?}");
        // Nothing is left in the folder.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn without_values_or_bytes_there_is_nothing_to_read() {
        let folder = tempfile::tempdir().unwrap();
        for (records, file_bytes) in [(0, 4 << 20), (2000, 0)] {
            let values = ValueCorpus::records(records, None).unwrap();
            let plan = TiersBenchPlan {
                rounds: 1,
                turn: Duration::from_millis(1),
                folder: folder.path().to_owned(),
                file_bytes,
                depth: 1,
                writing: Duration::ZERO,
            };
            let refused = files(&plan, &values, &Interrupt::default());
            assert!(matches!(refused, Err(TiersError::NoValues)), "{refused:?}");
        }
    }
}
