//! The plan of measurements: the combinations that a request asks for, checked before anything is
//! measured.

use super::contestant::BenchContestant;
use crate::error::{KeyFileFault, LabError};
use crate::harness::cores;
use crate::memory::available_bytes;
use crate::text::display_bytes;
use crate::workload::{Distribution, KeySetSpec, Mix};
use nearfield_peers::PeerKind;
use std::fs::File;

/// The most operations in a batch.
pub const BATCH_MAX: u64 = 1 << 24;
/// The most threads that may be requested: more than any machine has cores.
const THREADS_MAX: u64 = 1024;
/// The least bytes that a key takes: its 8 bytes here and with a contestant, and an entry there.
const BYTES_PER_KEY_MIN: u64 = 8 + 8 + 16;

/// The user's request; each list is swept.
#[derive(Clone, Debug)]
pub struct BenchRequest {
    /// Key sets.
    pub keys: Vec<KeySetSpec>,
    /// Numbers of keys; empty for each set's default.
    pub counts: Vec<u64>,
    /// Mixes of operations.
    pub mixes: Vec<Mix>,
    /// Distributions; empty for each mix's own.
    pub distributions: Vec<Distribution>,
    /// Numbers of threads.
    pub threads: Vec<u64>,
    /// Operations in a batch; 1 for one operation at a time.
    pub batches: Vec<u64>,
    /// Contestants that take part.
    pub contestants: Vec<BenchContestant>,
    /// True if Nearfield also counts the work of its operations.
    pub counters: bool,
}

impl Default for BenchRequest {
    /// Returns a request of gets on 10 million sparse keys by one thread. The contestants are
    /// Nearfield in batches of 4096, the radix trees, the two best-known B-trees and the fastest
    /// hash map.
    fn default() -> Self {
        let peers = [
            PeerKind::Congee,
            PeerKind::Blart,
            PeerKind::BTreeMap,
            PeerKind::Masstree,
            PeerKind::Dashmap,
        ];
        let contestants = std::iter::once(BenchContestant::Nearfield);
        BenchRequest {
            keys: vec![KeySetSpec::Sparse],
            counts: Vec::new(),
            mixes: vec![Mix::YcsbC],
            distributions: Vec::new(),
            threads: vec![1],
            batches: vec![4096],
            contestants: contestants
                .chain(peers.map(BenchContestant::Peer))
                .collect(),
            counters: false,
        }
    }
}

/// One combination and the contestants that are measured in it.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchTable {
    /// The key set.
    pub keys: KeySetSpec,
    /// The number of keys; `None` for all of a file.
    pub count: Option<u64>,
    /// The mix of operations.
    pub mix: Mix,
    /// The distribution of the keys.
    pub distribution: Distribution,
    /// Threads that share the map.
    pub threads: usize,
    /// Operations in a batch.
    pub batch: usize,
    /// Contestants that are measured.
    pub contestants: Vec<BenchContestant>,
    /// True if the contestants that can count their work also do so.
    pub counters: bool,
    /// Contestants that are left out, with the reason.
    pub skips: Vec<(BenchContestant, &'static str)>,
}

/// Tables in the order of measurement: those of one key set together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BenchPlan {
    /// The tables.
    pub tables: Vec<BenchTable>,
    /// Notes that the user should read before the start.
    pub notes: Vec<String>,
}

impl BenchPlan {
    /// Checks a request and lists its tables.
    ///
    /// # Errors
    /// `OutOfRange` naming the flag for a number that cannot be measured.
    pub fn new(request: &BenchRequest) -> Result<Self, LabError> {
        check(request)?;
        let mut plan = BenchPlan {
            tables: Vec::new(),
            notes: notes(request),
        };
        for keys in &request.keys {
            let counts: Vec<Option<u64>> = match request.counts.as_slice() {
                [] => vec![keys.count_default()],
                counts => counts.iter().copied().map(Some).collect(),
            };
            for count in counts {
                plan.add(request, keys, count);
            }
        }
        Ok(plan)
    }

    fn add(&mut self, request: &BenchRequest, keys: &KeySetSpec, count: Option<u64>) {
        for &mix in &request.mixes {
            let distributions = match (mix, request.distributions.as_slice()) {
                // A load inserts each key once, in the order of the set.
                (Mix::Load, _) | (_, []) => &[mix.distribution_default()][..],
                (_, distributions) => distributions,
            };
            for &distribution in distributions {
                for &threads in &request.threads {
                    for &batch in &request.batches {
                        let (contestants, skips) = divide(request, keys, mix, threads);
                        self.tables.push(BenchTable {
                            keys: keys.clone(),
                            count,
                            mix,
                            distribution,
                            threads: threads as usize,
                            batch: batch as usize,
                            contestants,
                            counters: request.counters,
                            skips,
                        });
                    }
                }
            }
        }
    }
}

fn check(request: &BenchRequest) -> Result<(), LabError> {
    let within = |subject, given: u64, max: u64| match given {
        _ if (1..=max).contains(&given) => Ok(()),
        _ => Err(out_of_range(subject, given, format!("1 to {max}"))),
    };
    request
        .threads
        .iter()
        .try_for_each(|&threads| within("--threads", threads, THREADS_MAX))?;
    request
        .batches
        .iter()
        .try_for_each(|&batch| within("--batch", batch, BATCH_MAX))?;
    for keys in &request.keys {
        // Opened early: otherwise a missing file is noticed after the tables of other sets.
        if let KeySetSpec::File(path) = keys
            && let Err(error) = File::open(path)
        {
            let fault = KeyFileFault::Unreadable(error);
            return Err(LabError::KeyFile {
                path: path.clone(),
                fault,
            });
        }
    }
    for &count in &request.counts {
        // A file gives all its keys, even if more are requested.
        for keys in request
            .keys
            .iter()
            .filter(|keys| !matches!(keys, KeySetSpec::File(_)))
        {
            within("--count", count, keys.count_max())?;
        }
        let available = available_bytes().unwrap_or(u64::MAX);
        if count > available / BYTES_PER_KEY_MIN {
            let max = available / BYTES_PER_KEY_MIN;
            let available = display_bytes(available);
            let allowed = format!("1 to {max} in the {available} of memory available");
            return Err(out_of_range("--count", count, allowed));
        }
    }
    Ok(())
}

fn out_of_range(subject: &'static str, given: u64, allowed: String) -> LabError {
    LabError::OutOfRange {
        subject,
        given: given.to_string(),
        allowed,
    }
}

fn notes(request: &BenchRequest) -> Vec<String> {
    let cores = cores().len() as u64;
    let threads = request.threads.iter().filter(|&&threads| threads > cores);
    threads
        .map(|threads| format!("{threads} threads share {cores} cores: rates are of CPU time"))
        .collect()
}

/// Divides the contestants into those that can be measured and those that cannot.
fn divide(
    request: &BenchRequest,
    keys: &KeySetSpec,
    mix: Mix,
    threads: u64,
) -> (Vec<BenchContestant>, Vec<(BenchContestant, &'static str)>) {
    let mut contestants = Vec::new();
    let mut skips = Vec::new();
    for &contestant in &request.contestants {
        if threads > 1 && !contestant.is_shared() {
            skips.push((contestant, "for one thread only"));
        } else if mix.shares().scan > 0 && !contestant.is_ordered() {
            skips.push((contestant, "a hash map has no scans"));
        } else if matches!(keys, KeySetSpec::Words | KeySetSpec::Email) && !contestant.takes_text()
        {
            skips.push((contestant, "takes only keys of 8 bytes"));
        } else {
            contestants.push(contestant);
        }
    }
    (contestants, skips)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> BenchRequest {
        BenchRequest {
            keys: vec![KeySetSpec::Sparse],
            counts: vec![1000],
            mixes: vec![Mix::YcsbC],
            distributions: Vec::new(),
            threads: vec![1],
            batches: vec![1],
            contestants: BenchContestant::all().collect(),
            counters: false,
        }
    }

    fn changed(change: fn(&mut BenchRequest)) -> BenchRequest {
        let mut request = request();
        change(&mut request);
        request
    }

    #[test]
    fn lists_are_swept_with_key_sets_outermost() {
        let plan = BenchPlan::new(&BenchRequest {
            keys: vec![KeySetSpec::Sparse, KeySetSpec::Words],
            counts: vec![10, 20],
            mixes: vec![Mix::YcsbC, Mix::YcsbA],
            distributions: vec![Distribution::Uniform, Distribution::ZIPF],
            threads: vec![1, 2],
            batches: vec![1, 64, 4096],
            ..request()
        })
        .unwrap();
        assert_eq!(plan.tables.len(), 2 * 2 * 2 * 2 * 2 * 3);
        assert!(
            plan.tables[..plan.tables.len() / 2]
                .iter()
                .all(|t| t.keys == KeySetSpec::Sparse)
        );
        assert_eq!(plan.tables[1].batch, 64);
    }

    #[test]
    fn mixes_bring_their_distribution() {
        let mixes = vec![Mix::Load, Mix::YcsbC, Mix::YcsbD, Mix::DcartC];
        let plan = BenchPlan::new(&BenchRequest { mixes, ..request() }).unwrap();
        let distributions: Vec<_> = plan.tables.iter().map(|table| table.distribution).collect();
        let (uniform, zipf) = (Distribution::Uniform, Distribution::ZIPF);
        assert_eq!(
            distributions,
            [uniform, zipf, Distribution::Latest, uniform]
        );
    }

    #[test]
    fn unsuitable_contestants_are_skipped_with_a_reason() {
        let skipped = |request: &BenchRequest| -> Vec<&'static str> {
            let table = BenchPlan::new(request).unwrap().tables.remove(0);
            assert_eq!(
                table.contestants.len() + table.skips.len(),
                BenchContestant::all().count()
            );
            table.skips.iter().map(|skip| skip.0.name()).collect()
        };
        assert!(skipped(&request()).is_empty());
        let threads = changed(|it| it.threads = vec![2]);
        assert_eq!(
            skipped(&threads),
            ["btreemap", "brie-tree", "blart", "indexset"]
        );
        let scans = changed(|it| it.mixes = vec![Mix::YcsbE]);
        assert_eq!(skipped(&scans), ["papaya", "dashmap"]);
        let words = changed(|it| it.keys = vec![KeySetSpec::Words]);
        assert_eq!(skipped(&words), ["brie-tree", "congee"]);
    }

    #[test]
    fn absurd_numbers_name_their_flag_and_its_range() {
        let refused = |change: fn(&mut BenchRequest)| {
            let error = BenchPlan::new(&changed(change)).unwrap_err();
            error.to_string()
        };
        let batch = refused(|it| it.batches = vec![100_000_000]);
        assert_eq!(batch, "--batch is 100000000; allowed: 1 to 16777216");
        let threads = refused(|it| it.threads = vec![0]);
        assert_eq!(threads, "--threads is 0; allowed: 1 to 1024");
        let count = refused(|it| it.counts = vec![1_000_000_000_000_000]);
        assert!(
            count.starts_with("--count is 1000000000000000; allowed: 1 to "),
            "{count}"
        );
        let words = refused(|it| {
            it.keys = vec![KeySetSpec::Words];
            it.counts = vec![1 << 30];
        });
        assert!(words.starts_with("--count is "));
    }

    #[test]
    fn more_threads_than_cores_is_a_note() {
        let plan = BenchPlan::new(&changed(|it| it.threads = vec![512])).unwrap();
        assert!(
            plan.notes[0].starts_with("512 threads share"),
            "{:?}",
            plan.notes
        );
    }
}
