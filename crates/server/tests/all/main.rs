//! Tests of the server. `transcripts` is a program of its own because it makes a test of each
//! file.
//!
//! One program has all modules, so that generic code is compiled once.

mod arguments;
mod clients;
mod coverage;
mod crash;
mod differential;
mod durability;
mod eviction;
mod handover;
mod limits;
mod linearizability;
mod rdb;
mod replay;
mod scan;
mod tls;
