//! The `nearfield` command: one file per subcommand.

#![deny(unsafe_code)]

mod allocator;
mod client;
mod daemon;
mod expose;
#[cfg(target_os = "linux")]
mod memory_node;
mod nodes;
#[cfg(target_os = "linux")]
mod offload;
mod pool;
#[cfg(target_os = "linux")]
mod program;
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
    #[cfg(target_os = "linux")]
    MemoryNode(memory_node::MemoryNodeArguments),
    Nodes(nodes::NodesArguments),
    Pool(pool::PoolArguments),
    #[cfg(target_os = "linux")]
    Switch(switch::SwitchArguments),
    #[cfg(target_os = "linux")]
    Program(program::ProgramArguments),
}

fn main() -> ExitCode {
    match NearfieldCli::parse().command {
        NearfieldCommand::Serve(arguments) => serve::run(&arguments),
        NearfieldCommand::Top(arguments) => top::run(&arguments),
        NearfieldCommand::Tiers(arguments) => tiers::run(&arguments),
        #[cfg(target_os = "linux")]
        NearfieldCommand::MemoryNode(arguments) => memory_node::run(&arguments),
        NearfieldCommand::Nodes(arguments) => nodes::run(&arguments),
        NearfieldCommand::Pool(arguments) => pool::run(&arguments),
        #[cfg(target_os = "linux")]
        NearfieldCommand::Switch(arguments) => switch::run(&arguments),
        #[cfg(target_os = "linux")]
        NearfieldCommand::Program(arguments) => program::run(&arguments),
    }
}
