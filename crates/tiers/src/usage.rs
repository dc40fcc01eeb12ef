//! The usage of a tier, and the errors of putting and reading values.

use std::io::ErrorKind;
use std::path::PathBuf;

/// The usage of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierUsage {
    /// Number of bytes that the tier may use.
    pub capacity_bytes: u64,
    /// Number of bytes that it uses now: of memory, or of the disk.
    pub used_bytes: u64,
    /// Number of these bytes that dictionaries use, which all values share.
    pub dictionary_bytes: u64,
    /// Number of values in it.
    pub values: u64,
    /// Number of bytes of these values, before compression.
    pub value_bytes: u64,
}

/// Reason for which a tier refuses a value. The value stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum TierRefusal {
    /// No room is left.
    #[error("the tier is full")]
    Full,
    /// The value is larger than the tier accepts.
    #[error("a value of {bytes} bytes exceeds the tier's limit of {limit}")]
    TooLarge {
        /// Number of bytes of the value.
        bytes: usize,
        /// Number of bytes that a value may have.
        limit: usize,
    },
    /// The value hardly shrinks when it is compressed.
    #[error("the value cannot be made smaller")]
    Incompressible,
    /// The disk failed. The tier continues once a later write succeeds.
    #[error("cannot write to {path}: {source}")]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl TierRefusal {
    /// Returns true if the disk may only be busy: the thread waited for it for less than
    /// [`PATIENCE`](crate::disk::PATIENCE).
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, TierRefusal::Disk { source, .. } if source.kind() == ErrorKind::WouldBlock)
    }
}

/// Reason for which a value cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes differ from those that were written.
    #[error("the bytes read from the tier differ from those written")]
    Damaged,
    /// The disk failed.
    #[error("cannot read from the tier: {0}")]
    Disk(#[from] std::io::Error),
    /// No value is at the place. The store released it before.
    #[error("the tier holds no value at this place")]
    Absent,
}

impl ReadError {
    /// Returns true if the disk did not respond in time.
    pub fn is_late(&self) -> bool {
        self.is_busy() || matches!(self, ReadError::Disk(why) if why.kind() == ErrorKind::TimedOut)
    }

    /// Returns true if the disk may only be busy: the thread waited for it for less than
    /// [`PATIENCE`](crate::disk::PATIENCE).
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, ReadError::Disk(why) if why.kind() == ErrorKind::WouldBlock)
    }
}
