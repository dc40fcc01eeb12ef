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
struct NearfieldCli {
    #[command(subcommand)]
    command: NearfieldCommand,
}

#[derive(Debug, Subcommand)]
enum NearfieldCommand {
    Serve(Box<serve::ServeArguments>),
    Top(top::TopArguments),
    Tiers(tiers::TiersArguments),
    /// Measure Nearfield and other ordered maps (program nearfield-bench).
    Bench(measure::ForwardedArguments),
    /// Measure applications on traversal programs, on paging and on RPC (program nearfield-bench).
    BenchApplications(measure::ForwardedArguments),
    /// Measure traversal programs on a core (program nearfield-bench).
    BenchOffload(measure::ForwardedArguments),
    /// Measure the map in modules (program nearfield-bench).
    BenchPim(measure::ForwardedArguments),
    /// Measure the map in a pool (program nearfield-bench).
    BenchPool(measure::ForwardedArguments),
    /// Measure the server and its rivals (program nearfield-bench).
    BenchServer(measure::ForwardedArguments),
    Dram(dram::DramArguments),
    /// Measure the tiers of compressed memory and of files (program nearfield-bench).
    BenchTiers(measure::ForwardedArguments),
    /// Print figures of papers (program nearfield-bench).
    Figures(measure::ForwardedArguments),
    #[cfg(target_os = "linux")]
    MemoryNode(memory_node::MemoryNodeArguments),
    Nodes(nodes::NodesArguments),
    #[cfg(target_os = "linux")]
    Switch(switch::SwitchArguments),
}

fn main() -> ExitCode {
    match NearfieldCli::parse().command {
        NearfieldCommand::Serve(arguments) => serve::run(&arguments),
        NearfieldCommand::Top(arguments) => top::run(&arguments),
        NearfieldCommand::Tiers(arguments) => tiers::run(&arguments),
        NearfieldCommand::Bench(arguments) => measure::run("bench", &arguments),
        NearfieldCommand::BenchApplications(arguments) => {
            measure::run("bench-applications", &arguments)
        }
        NearfieldCommand::BenchOffload(arguments) => measure::run("bench-offload", &arguments),
        NearfieldCommand::BenchPim(arguments) => measure::run("bench-pim", &arguments),
        NearfieldCommand::BenchPool(arguments) => measure::run("bench-pool", &arguments),
        NearfieldCommand::BenchServer(arguments) => measure::run("bench-server", &arguments),
        NearfieldCommand::Dram(arguments) => dram::run(&arguments),
        NearfieldCommand::BenchTiers(arguments) => measure::run("bench-tiers", &arguments),
        NearfieldCommand::Figures(arguments) => measure::run("figures", &arguments),
        #[cfg(target_os = "linux")]
        NearfieldCommand::MemoryNode(arguments) => memory_node::run(&arguments),
        NearfieldCommand::Nodes(arguments) => nodes::run(&arguments),
        #[cfg(target_os = "linux")]
        NearfieldCommand::Switch(arguments) => switch::run(&arguments),
    }
}
