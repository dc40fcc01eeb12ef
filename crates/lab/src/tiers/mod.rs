//! Tiers of compressed memory and of files: what they save, and what a read of a cold value takes
//! more than one of a value in memory.

mod compressed;
mod files;
mod served;
mod values;

pub use compressed::{ColdRead, compressed};
pub use files::{DiskRead, files};
pub use served::{ColdServed, HotServed, cold, hot};
pub use values::Values;

use crate::error::LabError;
use crate::server::ServerError;
use nearfield_tiers::{OpenError, ParseError, ReadError, Refused};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How often each side has its turn.
    pub rounds: usize,
    /// How long a turn is.
    pub turn: Duration,
    /// Where the tier in files lies.
    pub folder: PathBuf,
    /// Bytes of values in the files.
    pub file_bytes: u64,
    /// Reads of the disk that are under way at once.
    pub depth: usize,
}

/// Why tiers cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TiersError {
    /// The values cannot be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A tier cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A tier has a size that is none.
    #[error(transparent)]
    Size(#[from] ParseError),
    /// A tier does not take a value.
    #[error("a tier does not take a value: {0}")]
    Put(#[from] Refused),
    /// A tier does not give a value back.
    #[error("a tier does not give a value back: {0}")]
    Read(#[from] ReadError),
    /// A tier gives other bytes than were put.
    #[error("a tier answers other bytes than were put")]
    Wrong,
    /// The bare loop cannot read the disk.
    #[error("the disk cannot be read: {0}")]
    Disk(#[from] io::Error),
    /// There are no values to draw from.
    #[error("there are no values")]
    NoValues,
    /// A server fails.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Somebody stopped it.
    #[error("interrupted")]
    Interrupted,
}
