//! The Redis protocol in front of Nearfield's ordered keyspace.

#![deny(unsafe_code)]

pub mod access_trace;
pub mod acl;
mod admission;
pub mod allocator;
pub mod blocking;
pub mod carried;
pub mod catalog;
pub mod client;
pub mod clock;
pub mod command;
pub mod commands;
pub mod config;
pub mod connection;
pub mod cursors;
pub mod disk;
pub mod error;
pub mod eviction;
pub mod execute;
pub mod glob;
pub mod hexadecimal;
pub mod info;
pub mod keyspace;
pub mod log;
pub mod logging;
pub mod long_double;
pub mod machine;
pub mod metrics;
pub mod migration;
pub mod net;
pub mod number;
pub mod object;
pub mod observe;
pub mod pause;
pub mod persistence;
pub mod push;
pub mod rdb;
pub mod resp;
pub mod script;
mod secret_file;
pub mod server;
pub mod signals;
pub mod singly;
pub mod steps;
pub mod tiering;
pub mod watch;
