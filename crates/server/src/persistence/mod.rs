//! Persistence: starts, runs and ends the [log](crate::log) and
//! [snapshots](crate::keyspace::snapshot) with the server.

mod foreign;
pub mod load;
mod rebuild;
mod start;
mod switch;
mod tasks;

pub use start::{load_log, start};
pub use switch::prepare as prepare_log;
pub use tasks::{save_now, shut_down, spawn};

use crate::disk::{PersistenceDisk, write_all};
use crate::log::LogFile;
use crate::log::frame::{LogTag, OPENING_BYTES, opening};
use crate::server::ServerCore;
use std::io;
use std::path::PathBuf;

/// Returns the snapshot that `SAVE` makes (`dbfilename`).
pub fn dump(server: &ServerCore) -> PathBuf {
    server.path(&server.config.text("dbfilename"))
}

/// Opens a new log, which begins with a frame without commands.
fn create_log(disk: &dyn PersistenceDisk, path: PathBuf) -> io::Result<LogFile> {
    let tag = LogTag::random();
    let (file, opening) = (disk.create(&path)?, opening(tag));
    write_all(&*file, &opening)?;
    file.sync()?;
    let length = opening.len() as u64;
    // The start tells unused logs by this length.
    debug_assert_eq!(length, OPENING_BYTES);
    Ok(LogFile {
        file,
        path,
        tag: Some(tag),
        length,
        synced: length,
    })
}
