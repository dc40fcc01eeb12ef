//! The size of a run.

use super::designs;
use super::trace;
use super::workload::DcartWorkloadKind;
use crate::error::{LabError, check_range};
use crate::figures::paper;
use nearfield_hardware::accelerator::dcart::DcartParameters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Number of keys and operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DcartScale {
    /// Number of keys of a set that is generated in any size: 50M in the paper.
    pub synthetic_keys: u64,
    /// Number of e-mail addresses.
    pub email_keys: u64,
    /// Number of operations of a point.
    pub dcart_operations: usize,
    /// Number of operations of rivals that are timed, for each of three repetitions.
    pub timed_operations: usize,
    /// The seed of everything random.
    pub seed: u64,
    /// Files of keys, by workload. Keys of the others are generated.
    #[serde(default)]
    pub key_files: BTreeMap<String, PathBuf>,
    /// A file of operations, which replace the workloads.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// Changes to the paper's accelerator, in the format of [`DcartParameters::set_all`].
    #[serde(default)]
    pub parameters: String,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<DcartScale>;

impl DcartScale {
    /// Creates a scale for minutes.
    #[must_use]
    pub fn quick() -> DcartScale {
        DcartScale {
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

    /// Creates a scale with a fifth of the paper's generated keys.
    #[must_use]
    pub fn full() -> DcartScale {
        DcartScale {
            synthetic_keys: 10_000_000,
            email_keys: 1_000_000,
            dcart_operations: 2_000_000,
            timed_operations: 10_000_000,
            ..DcartScale::quick()
        }
    }

    /// Creates a scale for seconds, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> DcartScale {
        DcartScale {
            synthetic_keys: 3000,
            email_keys: 3000,
            dcart_operations: 4000,
            timed_operations: 4000,
            ..DcartScale::quick()
        }
    }

    /// Takes the keys of a workload from a file: a key a line, or the first column of a table.
    ///
    /// # Errors
    /// `UnknownName` for a workload that does not exist.
    pub fn with_key_file(mut self, workload: &str, file: PathBuf) -> Result<DcartScale, LabError> {
        let name = workload.parse::<DcartWorkloadKind>()?.name().to_owned();
        self.key_files.insert(name, file);
        Ok(self)
    }

    /// Replaces the workloads by recorded operations, in the format of
    /// [`DcartTrace`](nearfield_hardware::accelerator::dcart::DcartTrace), also compressed by gzip.
    ///
    /// # Errors
    /// `File` if it cannot be opened, `DcartTrace` if it does not parse, `OutOfRange` if it has no
    /// operations or too many, and `OutOfMemory`.
    pub fn with_trace(self, path: PathBuf) -> Result<DcartScale, LabError> {
        // Only a check: a bad file is refused before anything is run.
        trace::read(&path)?;
        Ok(DcartScale {
            trace: Some(path),
            ..self
        })
    }

    /// Changes parameters of the accelerator: those of a text, then single ones. All designs have
    /// them, except designs that vary the same parameter.
    ///
    /// # Errors
    /// `Accelerator` for parameters that do not exist or have an impossible value.
    pub fn with_parameters(
        self,
        text: &str,
        single: &[(String, String)],
    ) -> Result<DcartScale, LabError> {
        let mut tried = DcartParameters::published();
        tried.set_all(text)?;
        let mut parameters = text.to_owned();
        for (name, value) in single {
            tried.set(name, value)?;
            parameters.push_str(&format!("\n{name}={value}"));
        }
        let scale = DcartScale { parameters, ..self };
        // A design that sets other parameters may be impossible with these.
        designs::check(&scale)?;
        Ok(scale)
    }

    /// Returns the recorded operations, if there are any.
    pub(super) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// Returns the workloads of a figure: these, or the trace in their place.
    pub(super) fn workloads(&self, paper: &[DcartWorkloadKind]) -> Vec<DcartWorkloadKind> {
        match self.trace {
            Some(_) => vec![DcartWorkloadKind::Trace],
            None => paper.to_vec(),
        }
    }

    /// Returns the file of a workload's keys, if it has one.
    pub(super) fn key_file(&self, workload: DcartWorkloadKind) -> Option<&Path> {
        self.key_files.get(workload.name()).map(PathBuf::as_path)
    }

    /// Sets the number of keys of each generated set. E-mail addresses are never more than before.
    ///
    /// # Errors
    /// `OutOfRange` for less than a thousand or more than 50 million.
    pub fn with_keys(self, keys: u64) -> Result<DcartScale, LabError> {
        check_range("--count", keys, 1000..=50_000_000)?;
        Ok(DcartScale {
            synthetic_keys: keys,
            email_keys: self.email_keys.min(keys),
            ..self
        })
    }
}
