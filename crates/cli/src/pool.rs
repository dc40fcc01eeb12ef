//! `nearfield pool`: commands on a pool of memory nodes.

use clap::{Args, Subcommand};
use nearfield::{PoolNodeContent, PoolNodeStatus, PoolPlacement};
use std::io::Write;
use std::process::ExitCode;

/// Show the memory nodes of a pool.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct PoolArguments {
    #[command(subcommand)]
    command: PoolCommand,
}

#[derive(Debug, Subcommand)]
enum PoolCommand {
    Status(PoolStatusArguments),
}

/// Look at each memory node of a pool.
///
/// Fails unless all nodes are parts of one pool. A node that is empty has been restarted, and has
/// lost the keys that it held.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
struct PoolStatusArguments {
    /// The memory nodes of the pool, as `nearfield serve` takes them
    #[arg(long, value_name = "NODES")]
    pool: PoolPlacement,
}

const EXAMPLES: &str = "\
Examples:
  nearfield pool status --pool shm:left,7=shm:right
  nearfield pool status --pool etcd:http://a:2379";

/// Runs the command.
pub(crate) fn run(arguments: &PoolArguments) -> ExitCode {
    match &arguments.command {
        PoolCommand::Status(arguments) => status(&arguments.pool),
    }
}

fn status(pool: &PoolPlacement) -> ExitCode {
    let nodes = match pool.statuses() {
        Ok(nodes) => nodes,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let lines = described(&nodes);
    for (node, line) in nodes.iter().zip(&lines) {
        let number = node.number.0;
        let address = match &node.address {
            Some(address) => address.to_string(),
            None => "-".to_owned(),
        };
        let memory = node.memory.map(|memory| match memory.allocated_bytes {
            Some(allocated) => format!("{allocated} of {} bytes, ", memory.bytes),
            None => format!("{} bytes, ", memory.bytes),
        });
        let memory = memory.unwrap_or_default();
        // The reader of the output may have closed it.
        let _ = writeln!(
            std::io::stdout(),
            "{number:<7} {address:<24} {memory}{line}"
        );
    }
    if lines.iter().all(|line| line.starts_with(PART)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The beginning of the description of a node that is a part of the pool.
const PART: &str = "part";

/// Describes each node. The first one that is a part of a pool decides which pool is meant.
fn described(nodes: &[PoolNodeStatus]) -> Vec<String> {
    let pool = nodes.iter().find_map(|node| match &node.content {
        PoolNodeContent::Part(member) => Some(member.identity),
        _ => None,
    });
    let line = |node: &PoolNodeStatus| match &node.content {
        PoolNodeContent::Part(member) if pool == Some(member.identity) => {
            let (position, count) = (member.position, member.count);
            format!(
                "{PART} {position} of {count} of pool {:016x}",
                member.identity
            )
        }
        PoolNodeContent::Part(member) => format!("belongs to pool {:016x}", member.identity),
        PoolNodeContent::Nothing => "empty".to_owned(),
        PoolNodeContent::Unknown(reason) => format!("lost: {reason}"),
        other => format!("{other:?}"),
    };
    nodes.iter().map(line).collect()
}
