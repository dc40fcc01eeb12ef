//! Persistence: starts, runs and ends the [log](crate::log) and
//! [snapshots](crate::keyspace::snapshot) with the server.

pub mod load;
mod start;
mod switch;
mod tasks;

pub use start::{load_log, start};
pub use switch::prepare as prepare_log;
pub use tasks::{save_now, shut_down, spawn};

use crate::disk::Disk;
use crate::log::LogFile;
use crate::server::Server;
use std::io;
use std::path::PathBuf;

/// Returns the snapshot that `SAVE` makes (`dbfilename`).
pub fn dump(server: &Server) -> PathBuf {
    server.path(&server.config.text("dbfilename"))
}

/// Opens a new log.
fn create_log(disk: &dyn Disk, path: PathBuf) -> io::Result<LogFile> {
    Ok(LogFile {
        file: disk.create(&path)?,
        path,
        length: 0,
        synced: 0,
    })
}
