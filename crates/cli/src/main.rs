//! The `nearfield` command: one subcommand a file.

#![forbid(unsafe_code)]

mod bench;
mod bench_pim;
mod bench_pool;
mod bench_server;
mod figures;
mod measuring;
#[cfg(target_os = "linux")]
mod memory_node;
mod nodes;
mod serve;
mod top;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

// Every map of a benchmark allocates from it, Nearfield's own included.
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
    Bench(Box<bench::Arguments>),
    BenchPim(bench_pim::Arguments),
    BenchPool(bench_pool::Arguments),
    BenchServer(bench_server::Arguments),
    Figures(figures::Arguments),
    #[cfg(target_os = "linux")]
    MemoryNode(memory_node::Arguments),
    Nodes(nodes::Arguments),
    /// A contestant's process of `bench`: orders on the standard input.
    #[command(name = bench::CONTESTANT_COMMAND, hide = true)]
    BenchContestant,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::BenchPim(arguments) => bench_pim::run(&arguments),
        Command::BenchPool(arguments) => bench_pool::run(&arguments),
        Command::BenchServer(arguments) => bench_server::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::MemoryNode(arguments) => memory_node::run(&arguments),
        Command::Nodes(arguments) => nodes::run(&arguments),
        Command::BenchContestant => bench::serve(),
    }
}
