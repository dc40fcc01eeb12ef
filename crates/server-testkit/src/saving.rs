//! Servers that save into a given folder, and log nothing.

use super::folder::TestkitFolder;
use nearfield_server::config::{Durability, ServerOptions};

/// Returns the options of a server with `threads` threads that saves into a folder.
pub fn saving_into(folder: &TestkitFolder, threads: usize) -> ServerOptions {
    ServerOptions {
        threads,
        persistence: Durability {
            directory: Some(folder.0.clone()),
            log: Some(false),
            ..Durability::default()
        },
        ..ServerOptions::default()
    }
}
