//! A compute node's part: the list of memory nodes, and its changes.

use super::error::MembershipError;
use super::gateway::{EtcdMembers, Gateway};
use super::node::{MemberNode, parse_list};
use super::registry::{NODES, NodeRegistry, RegistryListing};
use super::{PATIENCE, spawn};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time after which the list is read again even if no change was reported.
const LOOK: Duration = Duration::from_secs(2);
/// Time between retries while etcd is unreachable.
const RETRY: Duration = Duration::from_millis(200);
/// Time, beyond their leases, for which clients wait after an outage of etcd for nodes to register
/// again.
const SETTLING: Duration = Duration::from_secs(1);

/// An event of a memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MembershipChange {
    /// A node is registered.
    Found(MemberNode),
    /// A node has ended, or has not renewed its lease. The content of its memory is lost, even if a
    /// node of the same name and number appears later.
    Lost(MemberNode),
    /// A registration cannot be read, such as one of another version.
    Refused(MembershipError),
}

/// The list of memory nodes. A static list never changes. A thread follows the nodes in etcd until
/// this is dropped.
///
/// While etcd is unreachable, the list stays unchanged. After that, a missing node has the time of
/// its lease to register again before its loss is reported, because etcd may have forgotten it.
#[derive(Debug)]
pub struct NodeMembership {
    shared: Arc<SharedMembershipView>,
}

#[derive(Debug, Default)]
struct SharedMembershipView(Mutex<MembershipView>);

#[derive(Debug, Default)]
struct MembershipView {
    nodes: BTreeMap<String, KnownMember>,
    refused: Vec<MembershipError>,
    /// The reason why etcd was unreachable at the last request.
    outage: Option<MembershipError>,
    subscribers: Vec<Sender<MembershipChange>>,
    ended: bool,
}

#[derive(Clone, Debug)]
struct KnownMember {
    node: MemberNode,
    lease: Duration,
}

impl SharedMembershipView {
    fn view(&self) -> MutexGuard<'_, MembershipView> {
        // A panic of a thread that holds the lock leaves no inconsistent state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeMembership {
    /// Creates the membership of a list: `[NUMBER=]ADDRESS`, separated by commas. A node without a
    /// number has its position in the list, from 0.
    ///
    /// ```
    /// use nearfield_fabric::membership::NodeMembership;
    /// let nodes = NodeMembership::of_list("shm:left,shm:right")?.nodes();
    /// assert_eq!((nodes[1].number.0, nodes[1].address.to_string().as_str()), (1, "shm:right"));
    /// # Ok::<_, nearfield_fabric::membership::MembershipError>(())
    /// ```
    ///
    /// # Errors
    /// `Entry`, `Address`; `NumberTaken`, `NameTaken` if two entries have the same number or
    /// address.
    pub fn of_list(text: &str) -> Result<NodeMembership, MembershipError> {
        let known = |node: MemberNode| {
            let lease = Duration::ZERO;
            (node.address.to_string(), KnownMember { node, lease })
        };
        let view = MembershipView {
            nodes: parse_list(text)?.into_iter().map(known).collect(),
            ..MembershipView::default()
        };
        let shared = Arc::new(SharedMembershipView(Mutex::new(view)));
        Ok(NodeMembership { shared })
    }

    /// Follows the nodes that are registered in etcd, from now on.
    ///
    /// # Errors
    /// `Unreachable` within 6 s and 2 s for each member; `NotEtcd`, `Refused`.
    pub fn follow(members: &EtcdMembers) -> Result<NodeMembership, MembershipError> {
        let gateway = Gateway::new(members);
        let registry = NodeRegistry {
            gateway: &gateway,
            patience: PATIENCE,
        };
        let listing = registry.list()?;
        let shared = Arc::new(SharedMembershipView::default());
        let revision = listing.revision;
        shared.view().update(listing, true);
        let follower = Follower {
            shared: Arc::clone(&shared),
            revision,
            settled: Instant::now(),
        };
        spawn("membership", move || follower.run(&gateway))?;
        Ok(NodeMembership { shared })
    }

    /// Returns the known nodes, in the order of their numbers.
    pub fn nodes(&self) -> Vec<MemberNode> {
        let view = self.shared.view();
        let mut nodes: Vec<_> = view
            .nodes
            .values()
            .map(|known| known.node.clone())
            .collect();
        nodes.sort_by_key(|node| node.number);
        nodes
    }

    /// Returns the reasons why registrations are not among the nodes.
    pub fn refused(&self) -> Vec<MembershipError> {
        self.shared.view().refused.clone()
    }

    /// Returns the reason why nodes may have come or gone unnoticed: etcd did not respond to the
    /// last request.
    pub fn outage(&self) -> Option<MembershipError> {
        self.shared.view().outage.clone()
    }

    /// Receives events from now on, after a [`MembershipChange::Found`] of each known node, so that
    /// no event is missed.
    pub fn changes(&self) -> Receiver<MembershipChange> {
        let (sender, receiver) = channel();
        let mut view = self.shared.view();
        let found = view
            .nodes
            .values()
            .map(|known| MembershipChange::Found(known.node.clone()));
        for change in found.chain(view.refused.iter().cloned().map(MembershipChange::Refused)) {
            // The receiver exists, so the send cannot fail.
            let _ = sender.send(change);
        }
        // Under the same lock as the list, so that no change falls in between.
        view.subscribers.push(sender);
        receiver
    }
}

impl Drop for NodeMembership {
    fn drop(&mut self) {
        // The thread may be waiting for a response, 2 s at most, and ends by itself after that.
        self.shared.view().ended = true;
    }
}

impl MembershipView {
    /// Adopts a listing. Unless it is `complete`, missing nodes are kept.
    fn update(&mut self, listing: RegistryListing, complete: bool) {
        self.outage = None;
        let mut before = std::mem::take(&mut self.nodes);
        let mut changes = Vec::new();
        for registered in listing.nodes {
            let node = registered.node;
            let known = KnownMember {
                node: node.clone(),
                lease: registered.lease,
            };
            match before.remove(&node.name) {
                Some(former) if former.node == node => {}
                // Another incarnation has other memory, so for clients the former node is lost.
                Some(former) => {
                    changes.push(MembershipChange::Lost(former.node));
                    changes.push(MembershipChange::Found(node.clone()));
                }
                None => changes.push(MembershipChange::Found(node.clone())),
            }
            self.nodes.insert(node.name, known);
        }
        if complete {
            let lost = before
                .into_values()
                .map(|known| MembershipChange::Lost(known.node));
            // Losses come first, because a found node may have the number of a lost one.
            changes.splice(0..0, lost);
        } else {
            self.nodes.extend(before);
        }
        let new = listing.refused.iter();
        let new = new.filter(|error| !self.refused.contains(error));
        changes.extend(new.cloned().map(MembershipChange::Refused));
        self.refused = listing.refused;
        // Drop subscribers that no longer receive.
        self.subscribers.retain(|subscriber| {
            changes
                .iter()
                .all(|change| subscriber.send(change.clone()).is_ok())
        });
    }

    fn longest_lease(&self) -> Duration {
        let leases = self.nodes.values().map(|known| known.lease);
        leases.max().unwrap_or_default()
    }
}

/// The thread that reads the list repeatedly. A watch only triggers a read. Each read returns the
/// complete list, so missed or compacted events do no harm.
struct Follower {
    shared: Arc<SharedMembershipView>,
    /// The revision of etcd's state when it was last read.
    revision: u64,
    /// The time from which missing nodes are lost.
    settled: Instant,
}

impl Follower {
    fn run(mut self, gateway: &Gateway) {
        let registry = NodeRegistry {
            gateway,
            patience: Duration::ZERO,
        };
        while !self.shared.view().ended {
            // Read without the lock: a request may take seconds.
            let listing = registry.list();
            let mut view = self.shared.view();
            let now = Instant::now();
            match listing {
                Ok(listing) => {
                    // A revision below that of the last read comes from another state of the
                    // cluster.
                    if view.outage.is_some() || listing.revision < self.revision {
                        self.settled = now + view.longest_lease() + SETTLING;
                    }
                    self.revision = listing.revision;
                    view.update(listing, now >= self.settled);
                }
                Err(error) => {
                    view.outage = Some(error);
                    drop(view);
                    std::thread::sleep(RETRY);
                    continue;
                }
            }
            drop(view);
            if gateway
                .wait_for_change(NODES, self.revision.saturating_add(1), LOOK)
                .is_err()
            {
                std::thread::sleep(RETRY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::LeasedMember;
    use super::*;
    use crate::address::NodeId;

    fn node(name: &str, number: u16, incarnation: u64) -> MemberNode {
        MemberNode {
            number: NodeId(number),
            name: name.to_owned(),
            address: format!("shm:{name}").parse().unwrap(),
            bytes: Some(1 << 20),
            incarnation,
        }
    }

    fn listing(nodes: &[&MemberNode], refused: &[&MembershipError]) -> RegistryListing {
        let registered = |node: &&MemberNode| LeasedMember {
            node: (*node).clone(),
            lease: Duration::from_secs(2),
        };
        RegistryListing {
            revision: 1,
            nodes: nodes.iter().map(registered).collect(),
            refused: refused.iter().map(|&error| error.clone()).collect(),
        }
    }

    #[test]
    fn whoever_listens_is_told_what_is_there_and_then_each_change_once() {
        let membership = NodeMembership {
            shared: Arc::default(),
        };
        let [a, b, again] = [node("a", 0, 1), node("b", 1, 2), node("a", 0, 3)];
        let update = |listing, complete| membership.shared.view().update(listing, complete);
        update(listing(&[&a], &[]), true);
        let changes = membership.changes();
        let heard = || changes.try_iter().collect::<Vec<_>>();
        assert_eq!(heard(), [MembershipChange::Found(a.clone())]);
        update(listing(&[&a, &b], &[]), true);
        assert_eq!(heard(), [MembershipChange::Found(b.clone())]);
        update(listing(&[&a, &b], &[]), true);
        assert_eq!(heard(), []);
        update(listing(&[&again], &[]), false);
        let other = [
            MembershipChange::Lost(a),
            MembershipChange::Found(again.clone()),
        ];
        assert_eq!(heard(), other);
        assert_eq!(membership.nodes(), [again.clone(), b.clone()]);
        let error = MembershipError::Version {
            name: "c".to_owned(),
            found: 2,
            known: 1,
        };
        update(listing(&[&again], &[&error]), true);
        assert_eq!(
            heard(),
            [
                MembershipChange::Lost(b),
                MembershipChange::Refused(error.clone())
            ]
        );
        update(listing(&[&again], &[&error]), true);
        assert_eq!(heard(), []);
        assert_eq!(membership.refused(), [error]);
    }
}
