//! The `nearfield-bench` command: measurements and figures, one subcommand a file. They are a
//! program of their own because they bring other projects' maps, models of hardware and plots, and
//! the server needs none of these.

#![forbid(unsafe_code)]

mod adm_commands;
mod bench;
mod bench_applications;
mod bench_offload;
mod bench_pim;
mod bench_pool;
mod bench_server;
mod bench_tiers;
mod dram;
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
struct BenchCli {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    AdmCommands(adm_commands::AdmCommandsArguments),
    Bench(Box<bench::BenchArguments>),
    BenchApplications(bench_applications::BenchApplicationsArguments),
    BenchOffload(bench_offload::BenchOffloadArguments),
    BenchPim(bench_pim::BenchPimArguments),
    BenchPool(bench_pool::BenchPoolArguments),
    BenchServer(bench_server::BenchServerArguments),
    BenchTiers(bench_tiers::BenchTiersArguments),
    Dram(dram::DramArguments),
    Figures(figures::FiguresArguments),
    /// A contestant's process of `bench`, which reads orders from standard input.
    #[command(name = bench::CONTESTANT_COMMAND, hide = true)]
    BenchContestant,
    /// A contestant's process of `bench-server`.
    #[command(hide = true)]
    Serve(serve::BenchServeArguments),
}

fn main() -> ExitCode {
    match BenchCli::parse().command {
        BenchCommand::AdmCommands(arguments) => adm_commands::run(&arguments),
        BenchCommand::Bench(arguments) => bench::run(&arguments),
        BenchCommand::BenchApplications(arguments) => bench_applications::run(&arguments),
        BenchCommand::BenchOffload(arguments) => bench_offload::run(&arguments),
        BenchCommand::BenchPim(arguments) => bench_pim::run(&arguments),
        BenchCommand::BenchPool(arguments) => bench_pool::run(&arguments),
        BenchCommand::BenchServer(arguments) => bench_server::run(&arguments),
        BenchCommand::BenchTiers(arguments) => bench_tiers::run(&arguments),
        BenchCommand::Dram(arguments) => dram::run(&arguments),
        BenchCommand::Figures(arguments) => figures::run(&arguments),
        BenchCommand::BenchContestant => bench::serve(),
        BenchCommand::Serve(arguments) => serve::run(&arguments),
    }
}
