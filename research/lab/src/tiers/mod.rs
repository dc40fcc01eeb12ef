//! Tiers of compressed memory and of files: the memory that they save, and the extra cost of
//! reading a cold value.

mod compressed;
mod files;
mod served;
mod values;

pub use compressed::{ColdRead, compressed};
pub use files::{DiskRead, files};
pub use served::{ColdServed, HotServed, OverflowTier, SustainedWrites, cold, hot, writes};
pub use values::ValueCorpus;

use crate::error::LabError;
use crate::server::ServerError;
use nearfield_tiers::{ParseError, ReadError, TierOpenError, TierRefusal};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct TiersBenchPlan {
    /// Number of turns of each side.
    pub rounds: usize,
    /// Length of a turn.
    pub turn: Duration,
    /// The folder of the tier in files.
    pub folder: PathBuf,
    /// Bytes of values in the files.
    pub file_bytes: u64,
    /// Number of reads of the disk in flight.
    pub depth: usize,
    /// Time for which values are written beyond memory.
    pub writing: Duration,
}

/// Reason why tiers cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TiersError {
    /// Values that cannot be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A tier that cannot be opened.
    #[error(transparent)]
    Open(#[from] TierOpenError),
    /// An invalid size of a tier.
    #[error(transparent)]
    Size(#[from] ParseError),
    /// A value that a tier refuses.
    #[error("a tier refused a value: {0}")]
    Put(#[from] TierRefusal),
    /// A value that a tier cannot read back.
    #[error("a tier cannot read a value back: {0}")]
    Read(#[from] ReadError),
    /// Bytes of a tier that differ from those that were put.
    #[error("a tier returned other bytes than were put")]
    Wrong,
    /// A disk that the bare loop cannot read.
    #[error("the disk cannot be read: {0}")]
    Disk(#[from] io::Error),
    /// A missing set of values to draw from.
    #[error("there are no values")]
    NoValues,
    /// A server that fails.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A request of the user to stop.
    #[error("interrupted")]
    Interrupted,
}
