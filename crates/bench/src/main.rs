//! The `nearfield-bench` command: measurements and figures, one subcommand a file. They are a
//! program of their own because they bring other projects' maps, models of hardware and plots, and
//! the server needs none of these.

#![forbid(unsafe_code)]

mod bench;
mod bench_applications;
mod bench_offload;
mod bench_pim;
mod bench_pool;
mod bench_server;
mod bench_tiers;
mod figures;
mod measuring;
mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

// Every map of a benchmark allocates from it, Nearfield's own included.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure Nearfield and its peers, and print figures of papers.
#[derive(Debug, Parser)]
#[command(name = "nearfield-bench", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::Arguments>),
    BenchApplications(bench_applications::Arguments),
    BenchOffload(bench_offload::Arguments),
    BenchPim(bench_pim::Arguments),
    BenchPool(bench_pool::Arguments),
    BenchServer(bench_server::Arguments),
    BenchTiers(bench_tiers::Arguments),
    Figures(figures::Arguments),
    /// A contestant's process of `bench`, which reads orders from standard input.
    #[command(name = bench::CONTESTANT_COMMAND, hide = true)]
    BenchContestant,
    /// A contestant's process of `bench-server`.
    #[command(hide = true)]
    Serve(serve::Arguments),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::BenchApplications(arguments) => bench_applications::run(&arguments),
        Command::BenchOffload(arguments) => bench_offload::run(&arguments),
        Command::BenchPim(arguments) => bench_pim::run(&arguments),
        Command::BenchPool(arguments) => bench_pool::run(&arguments),
        Command::BenchServer(arguments) => bench_server::run(&arguments),
        Command::BenchTiers(arguments) => bench_tiers::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments),
        Command::BenchContestant => bench::serve(),
        Command::Serve(arguments) => serve::run(&arguments),
    }
}
