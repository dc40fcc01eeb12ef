//! Servers that save where they are told to, and log nothing.

use super::folder::Folder;
use nearfield_server::config::{Durability, Options};

/// The options of a server of `threads` threads that saves into a folder.
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
