//! The shared parts of the server's tests: servers, ours and Redis's; connections and replies;
//! transcripts; random commands; and disks that fail.
//!
//! A fault here is a failed test, so most functions panic.

#![forbid(unsafe_code)]

pub mod commands;
pub mod connection;
pub mod faulty;
pub mod faulty_tier;
mod field_commands;
pub mod folder;
mod function_commands;
pub mod mode;
pub mod nearfield;
pub mod peer;
mod place_commands;
pub mod play;
pub mod process;
pub mod redis;
pub mod reply;
pub mod saving;
pub mod script;
pub mod state;
pub mod steps;
pub mod stir;
mod stream_commands;
