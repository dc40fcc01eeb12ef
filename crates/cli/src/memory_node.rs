//! `nearfield memory-node`: memory that processes of this machine share.

use clap::Args;
use nearfield_fabric::NodeId;
use nearfield_fabric::membership::{
    EtcdMembers, NodeAddress, Registration, RegistrationEvent, Reservation,
};
use nearfield_fabric::shm::ShmNode;
use nearfield_server::config::memory;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Serve memory that other processes read and write directly.
///
/// The memory is an object in /dev/shm, reserved as a whole when the command starts and empty
/// again when it ends. Only processes of the same user have access to it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Where clients find the node: shm:NAME, in the shared memory of this machine
    #[arg(long, value_name = "shm:NAME", value_parser = listen)]
    listen: String,

    /// How much memory it has, such as 8gb (2^30 bytes each) or 500mb; rounded up to 4 kb
    #[arg(long, value_name = "BYTES", value_parser = size)]
    size: u64,

    /// The number of the node in addresses; nodes that a client uses together need different ones
    /// [default: 0, or what etcd says]
    #[arg(long, value_name = "N")]
    number: Option<u16>,

    /// Register the node in etcd, whose members are at these URLs, separated by commas
    #[arg(long, value_name = "URLS")]
    etcd: Option<EtcdMembers>,

    /// The name to register it by, which keeps its number when the node starts again
    /// [default: the one in --listen]
    #[arg(long, value_name = "NAME", requires = "etcd")]
    name: Option<String>,

    /// How long after the death of this process etcd takes it to live, 2 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "etcd")]
    lease: u64,
}

const EXAMPLES: &str = "\
Examples:
  nearfield memory-node --listen shm:pool --size 8gb
      Clients attach to shm:pool until Ctrl-C ends it.
  nearfield memory-node --listen shm:left --size 4gb --number 0
  nearfield memory-node --listen shm:right --size 4gb --number 1
      Two nodes, each in a terminal of its own, that clients use as one pool.
  nearfield memory-node --listen shm:left --size 4gb --etcd http://a:2379,http://b:2379
      Registered as left by a number that etcd gives; `nearfield nodes --etcd` shows it.";

/// The name behind `shm:`.
fn listen(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("shm:");
    let name = name.ok_or("has to begin with shm:, the only way to a node so far")?;
    Ok(name.to_owned())
}

/// As in the server's configuration: `1g` is 10^9 bytes, `1gb` is 2^30.
fn size(text: &str) -> Result<u64, String> {
    memory(text).ok_or_else(|| "is no amount of memory such as 8gb or 500mb".to_owned())
}

/// Serves until a signal comes, and answers how it ended.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    // Before the object is there, so that no signal leaves it behind.
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed))?;
    let listen = &arguments.listen;
    let wanted = arguments.number.map(NodeId);
    let reservation = match &arguments.etcd {
        Some(members) => {
            let name = arguments.name.as_ref().unwrap_or(listen);
            let lease = Duration::from_secs(arguments.lease);
            Some(Reservation::new(members, name, wanted, lease)?)
        }
        None => None,
    };
    let number = reservation.as_ref().map(Reservation::number);
    let number = number.or(wanted).unwrap_or_default();
    let node = ShmNode::create(listen, number, arguments.size)?;
    let address = NodeAddress::Shm {
        name: listen.clone(),
    };
    // Ends before the node does.
    let _registration = match reservation {
        Some(reservation) => Some(announce(reservation, address, node.bytes())?),
        None => None,
    };
    // Nobody may be reading here.
    let _ = writeln!(std::io::stdout(), "{}", welcome(&node));
    node.serve(&stop);
    Ok(())
}

/// Registers a node, and says on the standard error what becomes of that.
fn announce(
    reservation: Reservation,
    address: NodeAddress,
    bytes: u64,
) -> Result<Registration, Box<dyn std::error::Error>> {
    let notice = |event| match event {
        RegistrationEvent::Unreachable(error) => eprintln!("warning: {error}; trying again"),
        RegistrationEvent::Reached => eprintln!("etcd answers again; the node is registered"),
        RegistrationEvent::RegisteredAgain => eprintln!("the node is registered anew"),
        RegistrationEvent::Refused(error) => {
            eprintln!("warning: the node is not registered: {error}");
        }
        _ => {}
    };
    Ok(reservation.announce(address, bytes, notice)?)
}

/// What tells somebody new what to do next.
fn welcome(node: &ShmNode) -> String {
    let name = node.name();
    format!(
        "Memory {} is ready with {} bytes. A Rust program attaches to it by\n\n\
         \x20   nearfield_fabric::shm::ShmEndpoint::attach([\"{name}\"])\n\n\
         Its memory is /dev/shm/nearfield-{name}. Ctrl-C ends it and removes that.\n",
        node.number(),
        node.bytes()
    )
}
