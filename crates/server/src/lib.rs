//! The Redis protocol in front of Nearfield's ordered keyspace.

#![forbid(unsafe_code)]

pub mod acl;
pub mod blocking;
pub mod client;
pub mod command;
pub mod cursors;
pub mod error;
pub mod execute;
pub mod glob;
pub mod keyspace;
pub mod long_double;
pub mod net;
pub mod number;
pub mod object;
pub mod rdb;
pub mod resp;
pub mod server;
pub mod watch;
