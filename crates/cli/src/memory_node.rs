//! `nearfield memory-node`: memory for processes of this machine or of other machines.

use crate::expose::Exposure;
use crate::offload::{Offload, OffloadMemoryNode, print_line};
use clap::Args;
use nearfield_core::byte_size;
use nearfield_fabric::NodeId;
use nearfield_fabric::membership::{
    EtcdMembers, NodeAddress, Registration, RegistrationEvent, Reservation,
};
use nearfield_fabric::transport::shm::ShmNode;
use nearfield_fabric::transport::ucx::UcxNode;
use parking_lot::FairMutex;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Serve memory that other processes read and write directly.
///
/// With shm:NAME the memory is an object in /dev/shm. Only processes of the same user have access
/// to it. With ucx:HOST:PORT other machines reach it by UCX (Debian's libucx0, 1.13 or newer): over
/// RDMA where both have adapters, else over TCP, which this process serves. A client that reaches
/// the port has access to all keys without a password, so addresses that other machines reach
/// require --expose, which is for trusted networks. In both cases all memory is allocated when the
/// command starts, and its content is lost when it ends.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MemoryNodeArguments {
    /// The address of the node: shm:NAME, in the shared memory of this machine, or ucx:HOST:PORT
    #[arg(long, value_name = "shm:NAME|ucx:HOST:PORT", value_parser = listen)]
    listen: Listen,

    /// The size of the memory, such as 500mb or 8gb (2^30 bytes each; 8g are 10^9 each); rounded up
    /// to 4kb
    #[arg(long, value_name = "BYTES", value_parser = byte_size)]
    size: u64,

    /// The number of the node in addresses; nodes that a client uses together need different ones
    /// [default: 0, or the number in etcd]
    #[arg(long, value_name = "N")]
    number: Option<u16>,

    /// Register the node in etcd, with the URLs of its members, separated by commas
    #[arg(long, value_name = "URLS")]
    etcd: Option<EtcdMembers>,

    /// The name to register it by, which keeps its number when the node starts again
    /// [default: the one in --listen]
    #[arg(long, value_name = "NAME", requires = "etcd")]
    name: Option<String>,

    /// Seconds after the death of this process until etcd removes its registration, 2 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "etcd")]
    lease: u64,

    #[command(flatten)]
    exposure: Exposure,

    #[command(flatten)]
    offload: Offload,
}

/// The transport and address at which a node listens.
#[derive(Clone, Debug)]
enum Listen {
    Shm(String),
    Ucx(String),
}

const EXAMPLES: &str = "\
Examples:
  nearfield memory-node --listen shm:pool --size 8gb
      Clients attach to shm:pool until Ctrl-C ends it.
  nearfield memory-node --listen shm:left --size 4gb --number 0
  nearfield memory-node --listen shm:right --size 4gb --number 1
      Two nodes, each in a terminal of its own, that clients use as one pool.
  nearfield memory-node --listen ucx:192.0.2.7:7000 --size 64gb --expose
      Clients on other machines connect to 192.0.2.7:7000.
  nearfield memory-node --listen shm:left --size 4gb --etcd http://a:2379,http://b:2379
      Registered as left, by a number from etcd; `nearfield nodes --etcd` shows it.
  echo \"1 $(openssl rand -hex 32) rest\" > tenants
  nearfield memory-node --listen shm:pool --size 8gb --offload 127.0.0.1:7001 --tenants tenants
      Tenant 1 runs traversal programs on all of the memory.";

impl Listen {
    /// Returns the name of a node without --name.
    fn default_name(&self) -> String {
        match self {
            Listen::Shm(name) => name.clone(),
            Listen::Ucx(address) => address.replace(':', "-"),
        }
    }
}

fn listen(text: &str) -> Result<Listen, String> {
    match text.split_once(':') {
        Some(("shm", name)) => Ok(Listen::Shm(name.to_owned())),
        Some(("ucx", address)) => Ok(Listen::Ucx(address.to_owned())),
        _ => Err("must begin with shm: or ucx:".to_owned()),
    }
}

/// Serves until a signal arrives. Returns the exit code.
pub(crate) fn run(arguments: &MemoryNodeArguments) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &MemoryNodeArguments) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(listen) = arguments.offload.listens_at() {
        arguments.exposure.check(&listen.to_string())?;
    }
    // Signals are caught before the shared-memory object is created, so that none leaves it behind.
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed))?;
    let wanted = arguments.number.map(NodeId);
    let reservation = match &arguments.etcd {
        Some(members) => {
            let name = arguments.name.clone();
            let name = name.unwrap_or_else(|| arguments.listen.default_name());
            let lease = Duration::from_secs(arguments.lease);
            Some(Reservation::new(members, &name, wanted, lease)?)
        }
        None => None,
    };
    let number = reservation.as_ref().map(Reservation::number);
    let number = number.or(wanted).unwrap_or_default();
    // The registration must end before the node does.
    match &arguments.listen {
        Listen::Shm(name) => {
            let node = ShmNode::create(name, number, arguments.size)?;
            let address = NodeAddress::Shm { name: name.clone() };
            let _registration = announce(reservation, address, node.bytes())?;
            print_line(&welcome(
                number,
                node.bytes(),
                &format!(
                    "attaches to it by\n\n    \
                 nearfield_fabric::transport::shm::ShmEndpoint::attach([\"{name}\"])"
                ),
                &format!(
                    "Its memory is /dev/shm/nearfield-{name}, in pages of {}. Ctrl-C ends it and \
                     removes that.",
                    match node.large_page_bytes() {
                        0 => "4 KiB, because this system offers no larger ones",
                        _ => "2 MiB where it is allocated",
                    }
                ),
            ));
            let programs = arguments.offload.prepare(number, node.words(), None)?;
            serve_with_programs(programs.as_ref(), &stop, || node.serve(&stop))?;
        }
        Listen::Ucx(address) => {
            arguments.exposure.check(address)?;
            let node = UcxNode::listen(address, number, arguments.size)?;
            let at = node.address();
            if reservation.is_some() && at.ip().is_unspecified() {
                return Err(
                    format!("{at} cannot be registered: clients could not reach it").into(),
                );
            }
            let address = NodeAddress::Ucx {
                host: at.ip().to_string(),
                port: at.port(),
            };
            let _registration = announce(reservation, address, node.bytes())?;
            print_line(&welcome(
                number,
                node.bytes(),
                &format!(
                    "connects to it by\n\n    \
                 nearfield_fabric::transport::ucx::UcxEndpoint::connect([\"{at}\"])"
                ),
                "Ctrl-C ends it, and its memory is lost.",
            ));
            // Leaves over UCX have no change counters, so programs may read them only between two
            // posts.
            let turn = FairMutex::new(());
            let programs = arguments
                .offload
                .prepare(number, node.words(), Some(&turn))?;
            if programs.is_some() && !node.does_posts() {
                return Err(
                    "--offload cannot be used with an adapter that accesses memory by \
                            itself: set UCX_TLS=tcp,self, or use --listen shm:NAME"
                        .into(),
                );
            }
            serve_with_programs(programs.as_ref(), &stop, || {
                node.serve_in_turn(&stop, &turn)
            })?;
        }
    }
    Ok(())
}

/// Serves a node, and runs programs in another thread if they are prepared.
fn serve_with_programs(
    programs: Option<&OffloadMemoryNode<'_>>,
    stop: &AtomicBool,
    serve: impl FnOnce(),
) -> Result<(), Box<dyn std::error::Error>> {
    let Some(programs) = programs else {
        serve();
        return Ok(());
    };
    print_line(&programs.welcome()?);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let served = programs.serve(stop);
            // If programs fail, the node ends, too, and the error is shown.
            stop.store(true, Ordering::Relaxed);
            served
        });
        serve();
        match running.join() {
            Ok(served) => Ok(served?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Registers a node, if requested, and prints its events on the standard error.
fn announce(
    reservation: Option<Reservation>,
    address: NodeAddress,
    bytes: u64,
) -> Result<Option<Registration>, Box<dyn std::error::Error>> {
    let Some(reservation) = reservation else {
        return Ok(None);
    };
    let notice = |event| match event {
        RegistrationEvent::Unreachable(error) => eprintln!("warning: {error}; trying again"),
        RegistrationEvent::Reached => eprintln!("etcd replies again; the node is registered"),
        RegistrationEvent::RegisteredAgain => eprintln!("the node is registered again"),
        RegistrationEvent::Refused(error) => {
            eprintln!("warning: the node is not registered: {error}");
        }
        _ => {}
    };
    Ok(Some(reservation.announce(address, bytes, notice)?))
}

/// Returns the next steps for a new user.
fn welcome(number: NodeId, bytes: u64, attach: &str, end: &str) -> String {
    format!("Memory {number} is ready with {bytes} bytes. A Rust program {attach}\n\n{end}\n")
}
