//! `nearfield pool`: commands on a pool of memory nodes.

use clap::{Args, Subcommand};
use nearfield::{
    ByteStrings, NodeAddress, NodeId, OrderedMap, PoolGrowth, PoolGrowthPhase, PoolNodeCensus,
    PoolNodeContent, PoolNodeStatus, PoolPlacement,
};
use nearfield_server::keyspace::Home;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Show the memory nodes of a pool, add nodes, take nodes out of it or in again, and repair a pool
/// without lost ones.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct PoolArguments {
    #[command(subcommand)]
    command: PoolCommand,
}

#[derive(Debug, Subcommand)]
enum PoolCommand {
    Status(PoolStatusArguments),
    Repair(PoolRepairArguments),
    Rejoin(PoolRejoinArguments),
    Drain(PoolDrainArguments),
    Add(PoolAddArguments),
}

/// Look at each memory node of a pool.
///
/// Fails unless all nodes are parts of one pool, or were excluded by a repair or a drain. A node
/// that is empty has been restarted, and has lost the keys that it held.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
struct PoolStatusArguments {
    /// The memory nodes of the pool, as `nearfield serve` takes them
    #[arg(long, value_name = "NODES")]
    pool: PoolPlacement,

    /// Count the keys on each node, and the long values, which may be on another node than their
    /// keys. This reads all keys
    #[arg(long)]
    keys: bool,

    /// The longest key in the pool, in bytes, as `nearfield serve` takes it
    #[arg(long, value_name = "BYTES", default_value_t = 64, requires = "keys")]
    pool_key_bytes: usize,

    /// The longest key that is stored in its entry, in bytes, as `nearfield serve` takes it
    #[arg(long, value_name = "BYTES", requires = "keys")]
    pool_key_slot_bytes: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield pool status --pool shm:left,7=shm:right
  nearfield pool status --pool etcd:http://a:2379 --keys";

/// Make the keys of memory nodes that are gone usable again, without their values.
///
/// Puts empty parts of the index on the other nodes in the places of the lost ones. Servers may run
/// meanwhile, and notice it within two seconds. The named nodes must be gone for all servers.
///
/// A node that is excluded is never used again, even if it comes back with its memory. It stays in
/// the list of nodes. The first node of a pool cannot be excluded. A repair that has failed can be
/// run again.
#[derive(Debug, Args)]
#[command(after_long_help = REPAIR_EXAMPLES)]
struct PoolRepairArguments {
    /// The memory nodes of the pool, as `nearfield serve` takes them
    #[arg(long, value_name = "NODES")]
    pool: PoolPlacement,

    /// The numbers of the nodes to exclude, separated by commas. Fails if others cannot be reached
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', required = true)]
    lost: Vec<u16>,

    /// Remove the keys on other nodes whose long values are lost; otherwise they fail until they
    /// are overwritten
    #[arg(long)]
    forget: bool,

    /// The longest key in the pool, in bytes, as `nearfield serve` takes it
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pool_key_bytes: usize,

    /// The longest key that is stored in its entry, in bytes, as `nearfield serve` takes it
    #[arg(long, value_name = "BYTES")]
    pool_key_slot_bytes: Option<usize>,
}

const REPAIR_EXAMPLES: &str = "\
Examples:
  nearfield pool repair --pool shm:left,shm:right --lost 1
  nearfield pool repair --pool etcd:http://a:2379 --lost 1,4 --forget";

/// Take memory nodes that have come back empty into a pool with two replicas.
///
/// The other node of the pair has the keys, and they are copied. Servers may run meanwhile: reads
/// go on, and writes wait for the copy. All nodes must be served. If the command is interrupted,
/// restart the empty node, and run it again.
#[derive(Debug, Args)]
#[command(after_long_help = REJOIN_EXAMPLES)]
struct PoolRejoinArguments {
    /// The memory nodes of the pool, as `nearfield serve` takes them
    #[arg(long, value_name = "NODES")]
    pool: PoolPlacement,
}

const REJOIN_EXAMPLES: &str = "\
Examples:
  nearfield memory-node --listen shm:right --number 1 &
  nearfield pool rejoin --pool shm:left,shm:right";

/// Move all that is on a memory node to the other nodes, so that it can be ended.
///
/// Servers may run meanwhile. From the beginning on they put nothing more on the node. It is
/// excluded at the end, and never used again; it stays in the list of nodes. The first node of a
/// pool cannot be drained. A drain that has failed can be run again, or ended with --cancel.
#[derive(Debug, Args)]
#[command(after_long_help = DRAIN_EXAMPLES)]
struct PoolDrainArguments {
    /// The memory nodes of the pool, as `nearfield serve` takes them
    #[arg(long, value_name = "NODES")]
    pool: PoolPlacement,

    /// The number of the node
    #[arg(long, value_name = "NUMBER")]
    node: u16,

    /// Let servers use the node again, after a drain that has failed
    #[arg(long)]
    cancel: bool,

    /// The longest key in the pool, in bytes, as `nearfield serve` takes it
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pool_key_bytes: usize,

    /// The longest key that is stored in its entry, in bytes, as `nearfield serve` takes it
    #[arg(long, value_name = "BYTES")]
    pool_key_slot_bytes: Option<usize>,
}

const DRAIN_EXAMPLES: &str = "\
Examples:
  nearfield pool drain --pool shm:left,shm:right --node 1
  nearfield pool drain --pool etcd:http://a:2379 --node 4";

/// Add a memory node to a pool, and move its share of the keys to it.
///
/// Servers may run meanwhile. After some 7 s all of them use the node, whichever nodes they were
/// started with: the pool keeps its address. Then keys and long values are moved to it in the
/// background. Ctrl-C stops that, and another run of the command continues it, as it does after a
/// failure. The exit status is 0 only if the node has its share.
///
/// The number of the node must be greater than those of the pool's nodes. Nodes cannot be added to
/// a pool with two replicas.
#[derive(Debug, Args)]
#[command(after_long_help = ADD_EXAMPLES)]
struct PoolAddArguments {
    /// The memory nodes of the pool, as `nearfield serve` takes them
    #[arg(long, value_name = "NODES")]
    pool: PoolPlacement,

    /// The address of the node, as it listens there
    #[arg(long, value_name = "shm:NAME|ucx:HOST:PORT")]
    node: NodeAddress,

    /// The greatest number of parts of the index and of long values that are moved in a second.
    /// Each move takes a few round trips, and blocks writes to up to 64 keys meanwhile. After some
    /// 900 moves servers read inner nodes again
    #[arg(long, value_name = "MOVES", default_value_t = 200)]
    rate: u32,

    /// The longest key in the pool, in bytes, as `nearfield serve` takes it
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pool_key_bytes: usize,

    /// The longest key that is stored in its entry, in bytes, as `nearfield serve` takes it
    #[arg(long, value_name = "BYTES")]
    pool_key_slot_bytes: Option<usize>,
}

const ADD_EXAMPLES: &str = "\
Examples:
  nearfield memory-node --listen shm:third --size 4gb --number 2 &
  nearfield pool add --pool shm:left,shm:right --node shm:third
  nearfield pool add --pool etcd:http://a:2379 --node ucx:192.0.2.7:7000 --rate 50";

/// Runs the command.
pub(crate) fn run(arguments: &PoolArguments) -> ExitCode {
    let done = match &arguments.command {
        PoolCommand::Status(arguments) => status(arguments),
        PoolCommand::Repair(arguments) => repair(arguments).map(|()| ExitCode::SUCCESS),
        PoolCommand::Rejoin(arguments) => rejoin(arguments).map(|()| ExitCode::SUCCESS),
        PoolCommand::Drain(arguments) => drain(arguments).map(|()| ExitCode::SUCCESS),
        PoolCommand::Add(arguments) => add(arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// The map of a pool, as servers open it.
type ServedMap = OrderedMap<ByteStrings, PoolPlacement>;

/// Opens the map of a pool with these nodes, which must exist.
fn existing_map(
    pool: &PoolPlacement,
    nodes: &[PoolNodeStatus],
    (key_bytes_max, key_slot_bytes): (usize, Option<usize>),
) -> Result<ServedMap, Box<dyn Error>> {
    let is_part = |node: &PoolNodeStatus| matches!(node.content, PoolNodeContent::Part(_));
    // Otherwise a pool would be created.
    if !nodes.iter().any(is_part) {
        return Err("no node is a part of a pool".into());
    }
    // The nodes in etcd include those that are not registered any more.
    let pool = pool.clone().with_at_least(nodes.len());
    let pool = pool.without_empty_nodes();
    Ok(Home::pool_map(pool, key_bytes_max, key_slot_bytes)?)
}

fn repair(arguments: &PoolRepairArguments) -> Result<(), Box<dyn Error>> {
    let nodes = arguments.pool.statuses()?;
    let lost: Vec<NodeId> = arguments.lost.iter().copied().map(NodeId).collect();
    let keys = (arguments.pool_key_bytes, arguments.pool_key_slot_bytes);
    let map = existing_map(&arguments.pool, &nodes, keys)?;
    let repaired = map.repair(&lost, arguments.forget)?;
    let left = repaired.lost_values - repaired.forgotten;
    // The reader of the output may have closed it.
    let _ = writeln!(
        std::io::stdout(),
        "{} leaves were replaced, and {} lead to another one.\n{} keys were removed because their \
         values were lost, and {left} are left.",
        repaired.leaves,
        repaired.links,
        repaired.forgotten
    );
    Ok(())
}

fn rejoin(arguments: &PoolRejoinArguments) -> Result<(), Box<dyn Error>> {
    let rejoined = arguments.pool.rejoin()?;
    let mut output = std::io::stdout();
    // The reader of the output may have closed it.
    if rejoined.is_empty() {
        let _ = writeln!(output, "No node is empty.");
    }
    for node in rejoined {
        let (number, bytes) = (node.number, node.copied_bytes);
        let _ = writeln!(
            output,
            "memory {number} was taken in: {bytes} bytes were copied"
        );
    }
    Ok(())
}

fn drain(arguments: &PoolDrainArguments) -> Result<(), Box<dyn Error>> {
    let nodes = arguments.pool.statuses()?;
    let keys = (arguments.pool_key_bytes, arguments.pool_key_slot_bytes);
    let map = existing_map(&arguments.pool, &nodes, keys)?;
    let node = NodeId(arguments.node);
    if arguments.cancel {
        return Ok(map.cancel_drain(node)?);
    }
    let drained = map.drain(node)?;
    // The reader of the output may have closed it.
    let _ = writeln!(
        std::io::stdout(),
        "{} leaves and {} long values of {} bytes were moved. The node can be ended.",
        drained.leaves,
        drained.values,
        drained.value_bytes
    );
    Ok(())
}

/// The interval of the lines that show the progress of an addition.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

fn add(arguments: &PoolAddArguments) -> Result<ExitCode, Box<dyn Error>> {
    let nodes = arguments.pool.statuses()?;
    let keys = (arguments.pool_key_bytes, arguments.pool_key_slot_bytes);
    // The nodes in etcd may include this one, which is no part of the pool yet.
    let is_part = |node: &&PoolNodeStatus| node.content != PoolNodeContent::Nothing;
    let parts: Vec<PoolNodeStatus> = nodes.iter().filter(is_part).cloned().collect();
    let map = existing_map(&arguments.pool, &parts, keys)?;
    let stop = Arc::new(AtomicBool::new(false));
    let by_signal = Arc::clone(&stop);
    ctrlc::set_handler(move || by_signal.store(true, Ordering::Relaxed))?;
    let mut shown = Instant::now();
    let grown = map.add_node(&arguments.node, arguments.rate, |growth| {
        if shown.elapsed() >= PROGRESS_INTERVAL {
            shown = Instant::now();
            // The reader of the output may have closed it.
            let _ = writeln!(std::io::stdout(), "{}", described_growth(growth));
        }
        !stop.load(Ordering::Relaxed)
    })?;
    let is_done = grown.phase == PoolGrowthPhase::Done;
    let end = match is_done {
        true => "The node has its share.",
        false => "Stopped. Run the command again to continue.",
    };
    let (leaves, values, bytes) = (grown.leaves, grown.values, grown.value_bytes);
    let _ = writeln!(
        std::io::stdout(),
        "{leaves} leaves and {values} long values of {bytes} bytes were moved. {end}"
    );
    Ok(match is_done {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn described_growth(growth: &PoolGrowth) -> String {
    match growth.phase {
        PoolGrowthPhase::Joining => "servers connect to the node".to_owned(),
        PoolGrowthPhase::Leaves => {
            let (moved, all) = (growth.leaves, growth.leaves_to_move);
            format!("{moved} of about {all} leaves were moved")
        }
        _ => {
            let (moved, all) = (growth.value_bytes, growth.value_bytes_to_move);
            format!("{moved} of about {all} bytes of long values were moved")
        }
    }
}

fn status(arguments: &PoolStatusArguments) -> Result<ExitCode, Box<dyn Error>> {
    let nodes = arguments.pool.statuses()?;
    let keys = (arguments.pool_key_bytes, arguments.pool_key_slot_bytes);
    let census = match arguments.keys {
        true => existing_map(&arguments.pool, &nodes, keys)?.pool_census()?,
        false => Vec::new(),
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
        let part = census.iter().find(|part| part.node == node.number);
        let keys = part.map(described_keys).unwrap_or_default();
        // The reader of the output may have closed it.
        let _ = writeln!(
            std::io::stdout(),
            "{number:<7} {address:<24} {memory}{line}{keys}"
        );
    }
    let is_well = |(node, line): (&PoolNodeStatus, &String)| {
        node.content == PoolNodeContent::Excluded || line.starts_with(PART)
    };
    Ok(match nodes.iter().zip(&lines).all(is_well) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Describes the keys and long values on a node.
fn described_keys(part: &PoolNodeCensus) -> String {
    format!(
        ", {} keys in {} leaves of {} bytes, {} long values of {} bytes",
        part.keys, part.leaves, part.leaf_bytes, part.long_values, part.long_value_bytes
    )
}

/// The beginning of the description of a node that is a part of the pool.
const PART: &str = "part";

/// Describes each node. The first one that is a part of a pool decides which pool is meant.
fn described(nodes: &[PoolNodeStatus]) -> Vec<String> {
    let pool = nodes.iter().find_map(|node| match &node.content {
        PoolNodeContent::Part(member) => Some(member.identity),
        _ => None,
    });
    // Nodes that were added know of more nodes than those of before.
    let counts = nodes.iter().map(|node| match &node.content {
        PoolNodeContent::Part(member) if pool == Some(member.identity) => member.count,
        _ => 0,
    });
    let count = counts.max().unwrap_or_default();
    let line = |node: &PoolNodeStatus| match &node.content {
        PoolNodeContent::Part(member) if pool == Some(member.identity) => {
            let position = member.position;
            let alone = if node.serves_alone {
                ", without the other node of its pair"
            } else {
                ""
            };
            format!(
                "{PART} {position} of {count} of pool {:016x}{alone}",
                member.identity
            )
        }
        PoolNodeContent::Part(member) => format!("belongs to pool {:016x}", member.identity),
        PoolNodeContent::Nothing => "empty".to_owned(),
        PoolNodeContent::Excluded => "excluded by a repair or a drain".to_owned(),
        PoolNodeContent::Unknown(reason) => format!("lost: {reason}"),
        other => format!("{other:?}"),
    };
    nodes.iter().map(line).collect()
}
