//! The six workloads: keys, and operations on them.

use super::scale::DcartScale;
use super::trace::{self, TraceWorkload};
use crate::error::LabError;
use crate::text::shortened;
use crate::workload::{Distribution, KeySet, KeySetSpec, Mix, Op, StreamSpec};
use nearfield_hardware::accelerator::dcart::DcartAction;
use std::str::FromStr;

/// A workload of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DcartWorkloadKind {
    /// Starts of ranges of IPv4 addresses.
    Ipgeo,
    /// Words.
    Dict,
    /// E-mail addresses.
    Ea,
    /// Dense integers in ascending order.
    De,
    /// Random integers.
    Rs,
    /// Dense integers in random order.
    Rd,
    /// Operations that the user has recorded: not a workload of the paper.
    Trace,
}

impl DcartWorkloadKind {
    /// The paper's workloads.
    pub(super) const ALL: [DcartWorkloadKind; 6] = [
        DcartWorkloadKind::Ipgeo,
        DcartWorkloadKind::Dict,
        DcartWorkloadKind::Ea,
        DcartWorkloadKind::De,
        DcartWorkloadKind::Rs,
        DcartWorkloadKind::Rd,
    ];

    /// The paper's workloads with real keys.
    pub(super) const REAL: [DcartWorkloadKind; 3] = [
        DcartWorkloadKind::Ipgeo,
        DcartWorkloadKind::Dict,
        DcartWorkloadKind::Ea,
    ];

    /// Returns the name in the paper.
    pub(super) fn name(self) -> &'static str {
        match self {
            DcartWorkloadKind::Ipgeo => "IPGEO",
            DcartWorkloadKind::Dict => "DICT",
            DcartWorkloadKind::Ea => "EA",
            DcartWorkloadKind::De => "DE",
            DcartWorkloadKind::Rs => "RS",
            DcartWorkloadKind::Rd => "RD",
            DcartWorkloadKind::Trace => "trace",
        }
    }

    /// Returns its number on an axis.
    pub(super) fn number(self) -> f64 {
        let place = DcartWorkloadKind::ALL.iter().position(|one| *one == self);
        place.unwrap_or(DcartWorkloadKind::ALL.len()) as f64 + 1.0
    }

    /// Returns all workloads of the paper, and the trace.
    fn any() -> impl Iterator<Item = DcartWorkloadKind> {
        DcartWorkloadKind::ALL
            .into_iter()
            .chain([DcartWorkloadKind::Trace])
    }

    /// Finds the workload of a number on an axis.
    pub(super) fn of_number(number: f64) -> Option<DcartWorkloadKind> {
        DcartWorkloadKind::any().find(|one| one.number().total_cmp(&number).is_eq())
    }

    /// Finds the workload of a name in figures.
    pub(super) fn of_name(name: &str) -> Option<DcartWorkloadKind> {
        DcartWorkloadKind::any().find(|one| one.name() == name)
    }

    /// Describes the source of its keys.
    pub(super) fn source(self, scale: &DcartScale) -> String {
        let file = match self {
            DcartWorkloadKind::Trace => scale.trace(),
            _ => scale.key_file(self),
        };
        file.map_or("generated".to_owned(), |file| file.display().to_string())
    }

    fn keys(self, scale: &DcartScale) -> Result<KeySet, LabError> {
        if let Some(file) = scale.key_file(self) {
            let most = Some(scale.synthetic_keys);
            return KeySetSpec::File(file.to_owned()).generate(most, scale.seed);
        }
        let (spec, count) = match self {
            DcartWorkloadKind::Ipgeo => (KeySetSpec::Ipv4, None),
            DcartWorkloadKind::Dict => (KeySetSpec::Words, None),
            DcartWorkloadKind::Ea => (KeySetSpec::Email, Some(scale.email_keys)),
            DcartWorkloadKind::De => (KeySetSpec::Dense, Some(scale.synthetic_keys)),
            DcartWorkloadKind::Rs => (KeySetSpec::Sparse, Some(scale.synthetic_keys)),
            DcartWorkloadKind::Rd => (KeySetSpec::RandomDense, Some(scale.synthetic_keys)),
            DcartWorkloadKind::Trace => {
                return Err(LabError::OutOfRange {
                    subject: "--trace",
                    given: "absent".to_owned(),
                    allowed: "a file of operations".to_owned(),
                });
            }
        };
        // Small scales shrink the real sets, too.
        let count = count.or_else(|| {
            let default = spec.count_default()?;
            Some(default.min(scale.synthetic_keys))
        });
        spec.generate(count, scale.seed)
    }
}

impl FromStr for DcartWorkloadKind {
    type Err = LabError;

    fn from_str(text: &str) -> Result<DcartWorkloadKind, LabError> {
        let is = |one: &DcartWorkloadKind| one.name().eq_ignore_ascii_case(text);
        let found = DcartWorkloadKind::ALL.into_iter().find(is);
        found.ok_or_else(|| LabError::UnknownName {
            subject: "workload",
            given: shortened(text),
            allowed: "IPGEO, DICT, EA, DE, RS, RD",
        })
    }
}

/// The distribution of the keys. *Assumed*: the paper shows that they are skewed, but gives no law.
pub(super) const ZIPF: Distribution = Distribution::Zipf(0.99);

/// The keys as bytes, and operations on them.
#[derive(Clone, Debug)]
pub(super) struct DcartWorkload {
    /// True if keys are integers.
    is_words: bool,
    keys: DcartPackedKeys,
    /// Number of keys that exist before the first operation.
    loaded: u32,
    /// The number of a key, and the action on it.
    pub(super) operations: Vec<(u32, DcartAction)>,
    /// Number of bytes that all keys have in common at their beginning.
    shared: usize,
}

/// Keys, stored one behind the other.
#[derive(Clone, Debug)]
struct DcartPackedKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl DcartPackedKeys {
    fn get(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        debug_assert!(begin <= self.ends[number]);
        &self.bytes[begin..self.ends[number]]
    }
}

impl DcartWorkload {
    /// Creates a load from a workload, a mix and a distribution; a trace has its own mix and
    /// distribution.
    pub(super) fn new(
        workload: DcartWorkloadKind,
        mix: Mix,
        distribution: Distribution,
        operations: usize,
        scale: &DcartScale,
    ) -> Result<DcartWorkload, LabError> {
        if let (DcartWorkloadKind::Trace, Some(path)) = (workload, scale.trace()) {
            return Ok(DcartWorkload::of_trace(trace::read(path)?));
        }
        let set = workload.keys(scale)?;
        let streams = StreamSpec {
            mix,
            distribution: Some(distribution),
            keys: set.len(),
            threads: 1,
            operations,
            seed: scale.seed,
            hot_seed: scale.seed,
        };
        let streams = streams.generate()?;
        let stream = streams.threads().iter().flat_map(|stream| stream.iter());
        // DCART's mixes have reads and updates only.
        let operations = stream.map(|op| match op {
            Op::Read(key) | Op::Scan(key, _) => (key as u32, DcartAction::Get),
            Op::Update(key) | Op::Insert(key) | Op::ReadModifyWrite(key) => {
                (key as u32, DcartAction::Update)
            }
        });
        let operations = operations.collect();
        let is_words = matches!(set, KeySet::Words(_));
        let keys = match set {
            // Addresses have four bytes, other integers eight, the most significant first.
            KeySet::Words(words) => {
                let is_address = |word: &u64| *word <= u64::from(u32::MAX);
                let are_addresses =
                    workload == DcartWorkloadKind::Ipgeo && words.iter().all(is_address);
                let from = if are_addresses { 4 } else { 0 };
                let keys = words.iter().map(|word| word.to_be_bytes());
                DcartPackedKeys::of(keys.map(|key| key[from..].to_vec()))
            }
            KeySet::Bytes(strings) => DcartPackedKeys::of(strings.iter().map(<[u8]>::to_vec)),
        };
        let shared = keys.shared();
        Ok(DcartWorkload {
            is_words,
            loaded: keys.ends.len() as u32,
            keys,
            operations,
            shared,
        })
    }

    fn of_trace(trace: TraceWorkload) -> DcartWorkload {
        let keys = DcartPackedKeys::of(trace.keys.into_iter());
        DcartWorkload {
            is_words: false,
            loaded: trace.loaded,
            shared: keys.shared(),
            keys,
            operations: trace.operations,
        }
    }

    /// Returns true if all keys exist at any time.
    pub(super) fn keeps_keys(&self) -> bool {
        let removes = |(_, action): &(u32, DcartAction)| *action == DcartAction::Remove;
        self.loaded == self.keys() && !self.operations.iter().any(removes)
    }

    /// Turns writes into inserts of the last tenth of the keys, until none of these is left.
    pub(super) fn inserting(mut self) -> DcartWorkload {
        let keys = self.keys();
        self.loaded = keys - keys / 10;
        let mut next = self.loaded;
        for (number, action) in &mut self.operations {
            if action.writes() && next < keys {
                (*number, *action) = (next, DcartAction::Insert);
                next += 1;
            } else {
                // The last tenth may not be inserted yet.
                *number %= self.loaded;
                *action = DcartAction::Get;
            }
        }
        self
    }

    /// Returns the number of keys that exist before the first operation: those below this number.
    pub(super) fn loaded(&self) -> u32 {
        self.loaded
    }

    pub(super) fn key(&self, number: u32) -> &[u8] {
        self.keys.get(number as usize)
    }

    /// Returns true if keys are integers.
    pub(super) fn is_words(&self) -> bool {
        self.is_words
    }

    pub(super) fn keys(&self) -> u32 {
        self.keys.ends.len() as u32
    }

    /// Returns the eight bits by which a key is combined: those behind the bytes that all keys
    /// share.
    pub(super) fn label(&self, number: u32) -> u8 {
        // *Assumed*: the paper combines by the first eight bits, which would put all dense integers
        // into one bucket.
        self.key(number).get(self.shared).copied().unwrap_or(0)
    }
}

impl DcartPackedKeys {
    fn of(keys: impl Iterator<Item = Vec<u8>>) -> DcartPackedKeys {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for key in keys {
            bytes.extend_from_slice(&key);
            ends.push(bytes.len());
        }
        DcartPackedKeys { bytes, ends }
    }

    fn shared(&self) -> usize {
        let first = self.get(0);
        (1..self.ends.len()).fold(first.len(), |shared, number| {
            let pairs = first[..shared].iter().zip(self.get(number));
            pairs.take_while(|(one, other)| one == other).count()
        })
    }
}
