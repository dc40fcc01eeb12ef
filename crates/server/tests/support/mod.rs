//! What the tests that talk to a server share: servers to talk to, connections, and replies.

#![allow(dead_code, reason = "each test uses a part of this")]

pub mod commands;
pub mod connection;
pub mod faulty;
pub mod play;
pub mod reply;
pub mod script;
pub mod servers;
pub mod state;
