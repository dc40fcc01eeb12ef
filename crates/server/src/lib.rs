//! The Redis protocol in front of Nearfield's ordered keyspace.

#![forbid(unsafe_code)]

pub mod object;
