//! The trace of the memory accesses of commands, which a model of memory can replay.
//!
//! Each access to an object is a line:
//!
//! ```text
//! OBJECT TIER BYTES OFFSET LENGTH READ|WRITE PICOSECONDS
//! ```
//!
//! The object is the hash of its key in hexadecimal, and the bytes are those of its value. The time
//! is that since the server began. A move of a value between tiers is a read in one tier and a
//! write in the other.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

/// An access to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedAccess {
    /// The hash of the object's key.
    pub object: u64,
    /// The tier of the value.
    pub tier: usize,
    /// The bytes of the value.
    pub bytes: usize,
    /// The first byte that is accessed.
    pub offset: usize,
    /// Number of bytes that are accessed.
    pub length: usize,
    /// True if they are written.
    pub is_write: bool,
}

/// The file of a trace.
#[derive(Debug)]
pub struct AccessTrace {
    began: Instant,
    /// The file; `None` after it could not be written.
    file: Mutex<Option<BufWriter<File>>>,
}

impl AccessTrace {
    /// Creates the file, in place of one of the same name.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path) -> io::Result<AccessTrace> {
        let file = BufWriter::with_capacity(1 << 16, File::create(path)?);
        Ok(AccessTrace {
            began: Instant::now(),
            file: Mutex::new(Some(file)),
        })
    }

    /// Adds an access, which happens now.
    pub fn add(&self, access: &TracedAccess) {
        debug_assert!(access.offset + access.length <= access.bytes);
        let kind = if access.is_write { "WRITE" } else { "READ" };
        self.write(|file| {
            // The time is read under the lock, so that times in the file increase.
            let picoseconds = self.began.elapsed().as_nanos() * 1000;
            writeln!(
                file,
                "{:x} {} {} {} {} {kind} {picoseconds}",
                access.object, access.tier, access.bytes, access.offset, access.length
            )
        });
    }

    /// Writes to the file what was added.
    pub fn flush(&self) {
        self.write(|file| file.flush());
    }

    fn write(&self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let mut file = self.file.lock();
        let Some(open) = file.as_mut() else {
            return;
        };
        if let Err(error) = write(open) {
            // Commands must not fail because of the trace.
            tracing::error!("the access trace ends, because it cannot be written: {error}");
            *file = None;
        }
    }
}
