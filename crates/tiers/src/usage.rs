//! What a tier holds, and why it takes or gives no more.

use std::path::PathBuf;

/// What a tier holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The most bytes that the tier may take.
    pub capacity_bytes: u64,
    /// The bytes that it takes now: of memory, or of the disk.
    pub used_bytes: u64,
    /// The part of these that dictionaries take, which all values share.
    pub dictionary_bytes: u64,
    /// The values that lie in it.
    pub values: u64,
    /// The bytes of these values, before they were compressed.
    pub value_bytes: u64,
}

/// Why a tier does not take a value. The value stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no room.
    #[error("the tier is full")]
    Full,
    /// The value is larger than the tier takes.
    #[error("a value of {bytes} bytes is more than the {limit} that the tier takes")]
    TooLarge {
        /// The bytes of the value.
        bytes: usize,
        /// The most bytes of a value.
        limit: usize,
    },
    /// The value is about as large when it is compressed.
    #[error("the value cannot be made smaller")]
    Incompressible,
    /// The disk has failed. The tier goes on once a later write succeeds.
    #[error("cannot write to {path}: {source}")]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Why a value cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes are not those that were written.
    #[error("the bytes read from the tier are not those that were written")]
    Damaged,
    /// The disk has failed.
    #[error("cannot read from the tier: {0}")]
    Disk(#[from] std::io::Error),
    /// There is no value at the place. The store has released it before.
    #[error("the tier holds no value at this place")]
    Absent,
}

impl ReadError {
    /// True if the disk has not answered in time.
    pub fn is_late(&self) -> bool {
        matches!(self, ReadError::Disk(why) if why.kind() == std::io::ErrorKind::TimedOut)
    }
}
