//! The `nearfield` command: one file per subcommand.

#![deny(unsafe_code)]

mod allocator;
mod client;
mod daemon;
mod dram;
mod expose;
mod measure;
#[cfg(target_os = "linux")]
mod memory_node;
mod nodes;
#[cfg(target_os = "linux")]
mod offload;
mod serve;
#[cfg(target_os = "linux")]
mod switch;
mod text;
mod tiers;
mod top;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An in-memory ordered key-value engine that runs each operation where its data lives.
#[derive(Debug, Parser)]
#[command(name = "nearfield", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Arguments>),
    Top(top::Arguments),
    Tiers(tiers::Arguments),
    /// Measure Nearfield and other ordered maps (program nearfield-bench).
    Bench(measure::Arguments),
    /// Measure applications on traversal programs, on paging and on RPC (program nearfield-bench).
    BenchApplications(measure::Arguments),
    /// Measure traversal programs on a core (program nearfield-bench).
    BenchOffload(measure::Arguments),
    /// Measure the map in modules (program nearfield-bench).
    BenchPim(measure::Arguments),
    /// Measure the map in a pool (program nearfield-bench).
    BenchPool(measure::Arguments),
    /// Measure the server and its rivals (program nearfield-bench).
    BenchServer(measure::Arguments),
    Dram(dram::Arguments),
    /// Measure the tiers of compressed memory and of files (program nearfield-bench).
    BenchTiers(measure::Arguments),
    /// Print figures of papers (program nearfield-bench).
    Figures(measure::Arguments),
    #[cfg(target_os = "linux")]
    MemoryNode(memory_node::Arguments),
    Nodes(nodes::Arguments),
    #[cfg(target_os = "linux")]
    Switch(switch::Arguments),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Tiers(arguments) => tiers::run(&arguments),
        Command::Bench(arguments) => measure::run("bench", &arguments),
        Command::BenchApplications(arguments) => measure::run("bench-applications", &arguments),
        Command::BenchOffload(arguments) => measure::run("bench-offload", &arguments),
        Command::BenchPim(arguments) => measure::run("bench-pim", &arguments),
        Command::BenchPool(arguments) => measure::run("bench-pool", &arguments),
        Command::BenchServer(arguments) => measure::run("bench-server", &arguments),
        Command::Dram(arguments) => dram::run(&arguments),
        Command::BenchTiers(arguments) => measure::run("bench-tiers", &arguments),
        Command::Figures(arguments) => measure::run("figures", &arguments),
        #[cfg(target_os = "linux")]
        Command::MemoryNode(arguments) => memory_node::run(&arguments),
        Command::Nodes(arguments) => nodes::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Switch(arguments) => switch::run(&arguments),
    }
}
