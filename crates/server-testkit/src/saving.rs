//! Servers that keep their keys in a given folder.

use super::folder::TestkitFolder;
use nearfield_server::config::{Durability, ServerOptions};
use std::path::Path;

/// Returns the options of a server with `threads` threads that saves into a folder, and logs
/// nothing.
pub fn saving_into(folder: &TestkitFolder, threads: usize) -> ServerOptions {
    let mut options = logging_into(folder, threads);
    options.persistence.log = Some(false);
    options
}

/// Returns the options of a server with `threads` threads that logs into a folder.
pub fn logging_into(folder: &TestkitFolder, threads: usize) -> ServerOptions {
    ServerOptions {
        threads,
        persistence: logged_in(&folder.0),
        ..ServerOptions::default()
    }
}

/// Returns the options for the files of a server that logs into a folder.
pub fn logged_in(folder: &Path) -> Durability {
    Durability {
        directory: Some(folder.to_owned()),
        log: Some(true),
        ..Durability::default()
    }
}
