//! Servers that save into a given folder, and log nothing.

use super::folder::Folder;
use nearfield_server::config::{Durability, Options};

/// Returns the options of a server with `threads` threads that saves into a folder.
pub fn saving_into(folder: &Folder, threads: usize) -> Options {
    Options {
        threads,
        persistence: Durability {
            directory: Some(folder.0.clone()),
            log: Some(false),
            ..Durability::default()
        },
        ..Options::default()
    }
}
