//! Tests of the `nearfield-bench` command: each starts the program and checks its output.
//!
//! One program has all modules, so that generic code is compiled once.

mod adm_commands;
mod bench;
mod bench_pim;
mod bench_tiers;
mod dram;
mod figures;
mod program;
