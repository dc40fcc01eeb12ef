//! How large a run is.

use super::designs;
use super::trace;
use super::workload::Workload;
use crate::error::LabError;
use crate::figures::paper;
use nearfield_hardware::accelerator::dcart::Parameters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Keys and operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Keys of a set that is generated in any size: 50M in the paper.
    pub synthetic_keys: u64,
    /// E-mail addresses.
    pub email_keys: u64,
    /// Operations of a point.
    pub dcart_operations: usize,
    /// Operations of rivals that are timed, for each of three repetitions.
    pub timed_operations: usize,
    /// Determines everything random.
    pub seed: u64,
    /// Files of keys, by workload. Keys of others are generated.
    #[serde(default)]
    pub key_files: BTreeMap<String, PathBuf>,
    /// A file of operations, which take the place of the workloads.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// What differs from the paper's accelerator, as [`Parameters::set_all`] reads it.
    #[serde(default)]
    pub parameters: String,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<Scale>;

impl Scale {
    /// Minutes.
    #[must_use]
    pub fn quick() -> Scale {
        Scale {
            synthetic_keys: 1_000_000,
            email_keys: 300_000,
            dcart_operations: 300_000,
            timed_operations: 1_000_000,
            seed: 1,
            key_files: BTreeMap::new(),
            trace: None,
            parameters: String::new(),
        }
    }

    /// A fifth of the paper's generated keys.
    #[must_use]
    pub fn full() -> Scale {
        Scale {
            synthetic_keys: 10_000_000,
            email_keys: 1_000_000,
            dcart_operations: 2_000_000,
            timed_operations: 10_000_000,
            ..Scale::quick()
        }
    }

    /// Seconds, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> Scale {
        Scale {
            synthetic_keys: 3000,
            email_keys: 3000,
            dcart_operations: 4000,
            timed_operations: 4000,
            ..Scale::quick()
        }
    }

    /// With the keys of a workload from a file: a key a line, or the first column of a table.
    ///
    /// # Errors
    /// `UnknownName` for a workload that there is not.
    pub fn with_key_file(mut self, workload: &str, file: PathBuf) -> Result<Scale, LabError> {
        let name = workload.parse::<Workload>()?.name().to_owned();
        self.key_files.insert(name, file);
        Ok(self)
    }

    /// With recorded operations in place of the workloads, in the form that
    /// [`Trace`](nearfield_hardware::accelerator::dcart::Trace) reads, also compressed by gzip.
    ///
    /// # Errors
    /// `File` for one that cannot be opened, `Trace` for what is wrong in it, `OutOfRange` for one
    /// without operations or with too many, and `OutOfMemory`.
    pub fn with_trace(self, path: PathBuf) -> Result<Scale, LabError> {
        trace::read(&path)?;
        Ok(Scale {
            trace: Some(path),
            ..self
        })
    }

    /// With other parameters of the accelerator: a text, and single ones. All designs but those
    /// whose purpose is another value have them.
    ///
    /// # Errors
    /// `Accelerator` for parameters that there are not, or that cannot be.
    pub fn with_parameters(
        self,
        text: &str,
        single: &[(String, String)],
    ) -> Result<Scale, LabError> {
        let mut tried = Parameters::published();
        tried.set_all(text)?;
        let mut parameters = text.to_owned();
        for (name, value) in single {
            tried.set(name, value)?;
            parameters.push_str(&format!("\n{name}={value}"));
        }
        let scale = Scale { parameters, ..self };
        designs::check(&scale)?;
        Ok(scale)
    }

    /// The recorded operations, if there are some.
    pub(super) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// The workloads of a figure: these, or the trace in their place.
    pub(super) fn workloads(&self, paper: &[Workload]) -> Vec<Workload> {
        match self.trace {
            Some(_) => vec![Workload::Trace],
            None => paper.to_vec(),
        }
    }

    /// The file of a workload's keys, if it has one.
    pub(super) fn key_file(&self, workload: Workload) -> Option<&Path> {
        self.key_files.get(workload.name()).map(PathBuf::as_path)
    }

    /// With so many keys of each generated set, e-mail addresses no more than there were.
    ///
    /// # Errors
    /// `OutOfRange` for less than a thousand or more than 50 million.
    pub fn with_keys(self, keys: u64) -> Result<Scale, LabError> {
        if !(1000..=50_000_000).contains(&keys) {
            return Err(LabError::OutOfRange {
                what: "--count",
                given: keys.to_string(),
                allowed: "1000 to 50000000".to_owned(),
            });
        }
        Ok(Scale {
            synthetic_keys: keys,
            email_keys: self.email_keys.min(keys),
            ..self
        })
    }
}
