//! A memory node's part: a registration that lasts as long as its process.

use super::address::{NodeAddress, is_name};
use super::error::MembershipError;
use super::gateway::{EtcdMembers, Gateway};
use super::node::{LEASE_SECONDS, LeasedMember, MemberNode};
use super::registry::{LeaseId, NodeRegistry};
use super::{PATIENCE, spawn};
use crate::address::NodeId;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of times that a lease is renewed in its length.
const RENEWALS_PER_LEASE: u32 = 3;
/// Time between retries while etcd is unreachable.
const RETRY: Duration = Duration::from_millis(300);
/// Time for which the end of a registration waits for etcd; if that fails, the lease expires.
const LAST_PATIENCE: Duration = Duration::ZERO;

/// A name and a number that a memory node owns even while no process serves it. It creates
/// registrations.
#[derive(Debug)]
pub struct Reservation {
    gateway: Gateway,
    name: String,
    number: NodeId,
    lease: Duration,
    incarnation: u64,
}

/// An event of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistrationEvent {
    /// etcd is unreachable. Clients that know the node keep it as long as they cannot reach etcd
    /// either, and at least until the lease expires.
    Unreachable(MembershipError),
    /// The lease was renewed again after that.
    Reached,
    /// The lease had expired, or etcd had lost it, and there is a new one.
    RegisteredAgain,
    /// The lease had expired, and another node uses the name or number now. The registration is
    /// retried while the process lives.
    Refused(MembershipError),
}

/// A registered memory node. A drop of this ends the registration: at once if etcd responds within
/// about 2 s, otherwise when the lease has expired.
#[derive(Debug)]
pub struct Registration {
    node: MemberNode,
    /// The sender that ends the thread when it is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reservation {
    /// Reserves the number of the memory node `name`: the one that it had when it last was
    /// registered, or otherwise `number`, or the lowest free one. Waits while a process of this
    /// name may have died less than its lease ago.
    ///
    /// `lease`, in whole seconds, is the time for which the node is assumed to live after the death
    /// of this process.
    ///
    /// # Errors
    /// `Name`, `Lease`; `NameTaken` if a living process has the name, `NumberTaken` if another name
    /// has the number, `OtherNumber`, `NoNumberLeft`; `Contended` if etcd accepts no change within
    /// about a minute; `Unreachable` within 6 s and 2 s for each member, `NotEtcd`, `Refused`;
    /// `Version`, `Foreign`.
    pub fn new(
        members: &EtcdMembers,
        name: &str,
        number: Option<NodeId>,
        lease: Duration,
    ) -> Result<Reservation, MembershipError> {
        if !is_name(name) {
            let name = MembershipError::shortened(name);
            return Err(MembershipError::Name { name });
        }
        if !LEASE_SECONDS.contains(&lease.as_secs()) {
            return Err(MembershipError::Lease { lease });
        }
        let mut reservation = Reservation {
            gateway: Gateway::new(members),
            name: name.to_owned(),
            number: NodeId::default(),
            lease,
            incarnation: rand::random(),
        };
        let registry = NodeRegistry {
            gateway: &reservation.gateway,
            patience: PATIENCE,
        };
        registry.wait_for_name(name, reservation.incarnation)?;
        reservation.number = registry.reserve(name, number)?;
        Ok(reservation)
    }

    /// Returns the node's number.
    pub fn number(&self) -> NodeId {
        self.number
    }

    /// Registers the node at `address` with memory of `bytes`. A thread renews the registration and
    /// calls `notice` with its events.
    ///
    /// # Errors
    /// As [`new`](Reservation::new).
    pub fn announce(
        self,
        address: NodeAddress,
        bytes: u64,
        notice: impl FnMut(RegistrationEvent) + Send + 'static,
    ) -> Result<Registration, MembershipError> {
        let registered = LeasedMember {
            node: MemberNode {
                number: self.number,
                name: self.name,
                address,
                bytes: Some(bytes),
                incarnation: self.incarnation,
            },
            // The lease in etcd is of whole seconds.
            lease: Duration::from_secs(self.lease.as_secs()),
        };
        let registry = NodeRegistry {
            gateway: &self.gateway,
            patience: PATIENCE,
        };
        debug_assert!(LEASE_SECONDS.contains(&registered.lease.as_secs()));
        let lease = registry.announce(&registered)?;
        let node = registered.node.clone();
        let (stop, stopped) = channel();
        let gateway = self.gateway;
        let keeper = RegistrationThread {
            registered,
            lease: Some(lease),
            unreachable: false,
            notice,
        };
        Ok(Registration {
            node,
            stop: Some(stop),
            thread: Some(spawn("registration", move || {
                keeper.run(&gateway, &stopped);
            })?),
        })
    }
}

impl Registration {
    /// Returns the registered node.
    pub fn node(&self) -> &MemberNode {
        &self.node
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The pause of the thread ends at once when its channel does.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread panics only if `notice` panics, which has reported it.
            let _ = thread.join();
        }
    }
}

/// The thread that keeps a registration.
struct RegistrationThread<N> {
    registered: LeasedMember,
    /// The lease; `None` once it has expired.
    lease: Option<LeaseId>,
    unreachable: bool,
    notice: N,
}

impl<N: FnMut(RegistrationEvent)> RegistrationThread<N> {
    fn run(mut self, gateway: &Gateway, stopped: &Receiver<()>) {
        let interval = self.registered.lease / RENEWALS_PER_LEASE;
        // A wait for one response is shorter than the lease.
        let registry = NodeRegistry {
            gateway,
            patience: Duration::ZERO,
        };
        let mut pause = interval;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = match self.renew(&registry) {
                Ok(()) => interval,
                Err(MembershipError::Unreachable { tried }) => {
                    // Reported once for each outage, not for each retry.
                    if !std::mem::replace(&mut self.unreachable, true) {
                        let error = MembershipError::Unreachable { tried };
                        (self.notice)(RegistrationEvent::Unreachable(error));
                    }
                    RETRY
                }
                Err(error) => {
                    // Retried: the other node may end, and then clients find this one again.
                    (self.notice)(RegistrationEvent::Refused(error));
                    interval
                }
            };
        }
        if let Some(lease) = self.lease {
            let registry = NodeRegistry {
                gateway,
                patience: LAST_PATIENCE,
            };
            // If etcd does not respond, the lease expires.
            let _ = registry.revoke(lease);
        }
    }

    fn renew(&mut self, registry: &NodeRegistry<'_>) -> Result<(), MembershipError> {
        if let Some(lease) = self.lease {
            if registry.keep_alive(lease)? {
                if std::mem::take(&mut self.unreachable) {
                    (self.notice)(RegistrationEvent::Reached);
                }
                return Ok(());
            }
            // Forgotten first: if the next request fails, this lease is not renewed again.
            self.lease = None;
        }
        self.lease = Some(registry.announce(&self.registered)?);
        self.unreachable = false;
        (self.notice)(RegistrationEvent::RegisteredAgain);
        Ok(())
    }
}
