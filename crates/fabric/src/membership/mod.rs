//! The memory nodes, with their addresses and numbers.
//!
//! Nodes on one machine can be listed ([`NodeMembership::of_list`]). The nodes of a cluster
//! register in etcd ([`Reservation`], [`Registration`]) with a *lease*. etcd forgets a node that
//! does not renew its lease for that time. Clients follow the registrations
//! ([`NodeMembership::follow`]), and receive events of nodes that come and go
//! ([`NodeMembership::changes`]).
//!
//! # Guarantees and their limits
//!
//! - A name has one number for ever, and a number one name. A node that restarts with its name has
//!   the same number, another incarnation, and empty memory.
//! - Clients lose a node at once when it ends, and within about a second after its lease expires
//!   when its process dies. etcd's leader and each node measure only durations, so no clocks are
//!   compared. A node renews its lease three times in its length, so its clock may be slow by more
//!   than half. (A new leader of etcd gives each lease its whole time again, which delays the
//!   report of a loss by that time.)
//! - A registered node may be unreachable, and a reachable one unregistered. A verb's
//!   [`NodeLost`](crate::FabricError::NodeLost) holds for its own client.
//! - While etcd has no leader or is unreachable, all clients keep working with their known nodes.
//!   When it returns, nodes renew their leases again. A node whose registration is lost registers
//!   again with the same number, even if etcd has lost all its data. Only then do clients learn of
//!   the loss of nodes that do not return.
//! - Every call that waits for etcd ends within seconds.
//!
//! Clients use HTTP for etcd, without TLS or a password.

mod address;
mod error;
mod gateway;
mod node;
mod registration;
mod registry;
mod view;

pub use address::NodeAddress;
pub(crate) use address::is_name;
pub use error::MembershipError;
pub use gateway::EtcdMembers;
pub use node::{MemberNode, VERSION};
pub use registration::{Registration, RegistrationEvent, Reservation};
pub use view::{MembershipChange, NodeMembership};

use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The time for which a starting process waits for etcd, because an election takes seconds.
const PATIENCE: Duration = Duration::from_secs(6);

fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, MembershipError> {
    let spawned = Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|error| MembershipError::Thread {
        problem: error.to_string(),
    })
}
