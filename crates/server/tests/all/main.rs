//! Tests of the server. `transcripts` is a program of its own because it makes a test of each file,
//! and `limits` because its tests measure the peak memory of their process.
//!
//! One program has all modules, so that generic code is compiled once.

mod access_trace;
mod arguments;
mod batches;
mod clients;
mod configuration;
mod coverage;
mod crash;
mod damage;
mod differential;
mod durability;
mod endless;
mod eviction;
mod full_disk;
mod functions;
mod geo;
mod handover;
mod hash_expiry;
mod hostile_scripts;
mod hyperloglog;
mod judged;
mod killable;
mod latency;
mod linearizability;
mod log_switch;
mod migrate;
mod monitoring;
mod notes;
mod permissions;
mod pipelines;
mod pool;
mod pool_counts;
mod pool_keys;
mod pool_repair;
mod ports;
mod rdb;
mod replay;
mod rights;
mod rivals;
mod saved;
mod scan;
mod scripts;
mod stream_delivery;
mod stream_order;
mod streams;
mod tiers;
mod tls;
mod waiting;
mod within;
mod work;
