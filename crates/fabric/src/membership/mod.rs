//! Which memory nodes there are, where, and by which numbers.
//!
//! Nodes on one machine can be listed ([`Membership::of_list`]). Those of a cluster register in
//! etcd ([`Reservation`], [`Registration`]) by a *lease*: a time after which etcd forgets who has
//! not kept it alive. Clients follow what is registered ([`Membership::follow`]), and learn of
//! nodes that come and go ([`Membership::changes`]).
//!
//! # What is promised, and what is not
//!
//! - A name has one number for good, and a number one name. A node that starts again by its name
//!   has the same number, another incarnation, and empty memory.
//! - A node that ends is lost to clients at once, and one whose process dies when its lease runs
//!   out, within about a second. Only durations are measured, by etcd's leader and by each node,
//!   and nobody compares clocks: a node keeps its lease alive three times in its length, so that
//!   its clock may be slow by more than half. (A new leader of etcd gives each lease its whole time
//!   again, so that a loss may be told so much later.)
//! - That a node is registered does not mean that it can be reached, nor the other way round: a
//!   verb's [`NodeLost`](crate::FabricError::NodeLost) says what is so for this client.
//! - While etcd has no leader or is out of reach, all keep working with the nodes that they know.
//!   When it comes back, leases are kept alive again; who has lost his registers again, by the same
//!   number, even if etcd has lost all that it held. Only then are nodes that stay away told as
//!   lost.
//! - Every call that waits for etcd ends within seconds.
//!
//! etcd is asked over HTTP without TLS and without a password.

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
pub use node::{Node, VERSION};
pub use registration::{Registration, RegistrationEvent, Reservation};
pub use view::{Change, Membership};

use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long etcd is waited for by those who have just started: an election takes seconds.
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
