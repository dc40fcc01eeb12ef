//! The memory nodes of a run: their addresses, their processes, and the endpoints of clients.

use crate::yielding::YieldingEndpoint;
use nearfield_fabric::NodeId;
use nearfield_fabric::membership::{
    EtcdMembers, MemberNode, MembershipChange, NodeAddress, NodeMembership, RegistrationEvent,
    Reservation,
};
use nearfield_fabric::transport::shm::{ShmEndpoint, ShmNode};
use nearfield_fabric::transport::ucx::{UcxEndpoint, UcxNode};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

const NODE_BYTES: u64 = 1 << 30;
/// Number of bytes of UCX's nodes, which allocate them at once.
const UCX_NODE_BYTES: u64 = 1 << 28;
/// Time after which etcd takes a node that does not renew its lease for dead.
const REGISTRATION: Duration = Duration::from_secs(2);
/// Time for which it waits: longer than nodes need to start and etcd is away.
const PATIENCE: Duration = Duration::from_secs(120);

/// The nodes of a run.
#[derive(Clone, Debug)]
pub enum RunMemoryNodes {
    /// A list as `nearfield memory-node --nodes` takes it.
    Listed(String),
    /// This many nodes, with numbers from 0 on, in shared memory, registered in etcd.
    Registered { count: usize, members: EtcdMembers },
}

/// An endpoint of all nodes.
pub enum AllNodesEndpoint {
    Shm(YieldingEndpoint<ShmEndpoint>),
    Ucx(UcxEndpoint),
}

/// The endpoint, and the source of the list of nodes.
pub struct MemoryNodesConnection {
    pub way: AllNodesEndpoint,
    pub changes: Receiver<MembershipChange>,
    _membership: NodeMembership,
}

impl RunMemoryNodes {
    pub fn count(&self) -> usize {
        match self {
            RunMemoryNodes::Listed(list) => listed(list).len(),
            RunMemoryNodes::Registered { count, .. } => *count,
        }
    }

    /// Returns the names of all objects in shared memory.
    pub fn shared_names(&self, run: &str) -> Vec<String> {
        let names = |node: MemberNode| match node.address {
            NodeAddress::Shm { name } => Some(name),
            _ => None,
        };
        match self {
            RunMemoryNodes::Listed(list) => listed(list).into_iter().filter_map(names).collect(),
            RunMemoryNodes::Registered { count, .. } => {
                (0..*count).map(|at| format!("{run}-{at}")).collect()
            }
        }
    }

    /// Serves one of them forever.
    pub fn serve(&self, run: &str, number: u16) {
        let stop = AtomicBool::new(false);
        let number = NodeId(number);
        match self {
            RunMemoryNodes::Listed(list) => match &listed(list)[usize::from(number.0)].address {
                NodeAddress::Shm { name } => {
                    let node = ShmNode::create(name, number, NODE_BYTES).expect("a node");
                    node.serve(&stop);
                }
                NodeAddress::Ucx { host, port } => {
                    let address = format!("{host}:{port}");
                    let node = UcxNode::listen(&address, number, UCX_NODE_BYTES);
                    node.expect("a node").serve(&stop);
                }
                other => panic!("no transport for {other}"),
            },
            RunMemoryNodes::Registered { members, .. } => {
                let name = format!("{run}-{}", number.0);
                let reservation = Reservation::new(members, &name, Some(number), REGISTRATION);
                let reservation = reservation.expect("a number");
                let node = ShmNode::create(&name, number, NODE_BYTES).expect("a node");
                let address = NodeAddress::Shm { name };
                let refused = |event| {
                    if let RegistrationEvent::Refused(error) = event {
                        eprintln!("a node is refused: {error}");
                    }
                };
                let registration = reservation.announce(address, NODE_BYTES, refused);
                let _registration = registration.expect("it is registered");
                node.serve(&stop);
            }
        }
    }

    /// Finds all nodes, and connects to them. Waits while they start (`at_first`), or etcd is away.
    pub fn connect(&self, at_first: bool) -> MemoryNodesConnection {
        let may_wait = at_first || matches!(self, RunMemoryNodes::Registered { .. });
        let patience = if may_wait { PATIENCE } else { Duration::ZERO };
        let began = Instant::now();
        loop {
            let why = match self.try_connect(false) {
                Ok(connected) => return connected,
                Err(why) => why,
            };
            assert!(began.elapsed() < patience, "no nodes: {why}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Connects to the nodes that are left in shared memory.
    pub fn connect_to_rest(&self) -> MemoryNodesConnection {
        self.try_connect(true).expect("a node is left")
    }

    /// Returns the connection, or the reason for which there is none yet.
    fn try_connect(&self, accepts_losses: bool) -> Result<MemoryNodesConnection, String> {
        let membership = match self {
            RunMemoryNodes::Listed(list) => NodeMembership::of_list(list).expect("a list"),
            RunMemoryNodes::Registered { members, .. } => {
                NodeMembership::follow(members).map_err(|error| error.to_string())?
            }
        };
        let nodes = membership.nodes();
        if nodes.len() < self.count() {
            return Err(format!("{} are known", nodes.len()));
        }
        let (mut shared, mut remote) = (Vec::new(), Vec::new());
        for node in nodes {
            match node.address {
                NodeAddress::Shm { name } => shared.push(name),
                NodeAddress::Ucx { host, port } => remote.push(format!("{host}:{port}")),
                other => panic!("no transport for {other}"),
            }
        }
        let way = if remote.is_empty() {
            let attached = if accepts_losses {
                ShmEndpoint::attach_reachable(&shared)
            } else {
                ShmEndpoint::attach(&shared)
            };
            let endpoint = attached.map_err(|error| error.to_string())?;
            AllNodesEndpoint::Shm(YieldingEndpoint(endpoint))
        } else {
            let endpoint = UcxEndpoint::connect(&remote).map_err(|error| error.to_string())?;
            AllNodesEndpoint::Ucx(endpoint)
        };
        Ok(MemoryNodesConnection {
            way,
            changes: membership.changes(),
            _membership: membership,
        })
    }
}

fn listed(list: &str) -> Vec<MemberNode> {
    NodeMembership::of_list(list).expect("a list").nodes()
}

impl fmt::Display for RunMemoryNodes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunMemoryNodes::Listed(list) => write!(formatter, "list {list}"),
            RunMemoryNodes::Registered { count, members } => {
                write!(formatter, "{count} {}", members.urls().join(","))
            }
        }
    }
}

impl From<&str> for RunMemoryNodes {
    /// Parses the output of `Display`.
    fn from(text: &str) -> RunMemoryNodes {
        match text.split_once(' ').expect("two words") {
            ("list", list) => RunMemoryNodes::Listed(list.to_owned()),
            (count, members) => RunMemoryNodes::Registered {
                count: count.parse().expect("a number"),
                members: members.parse().expect("URLs"),
            },
        }
    }
}
