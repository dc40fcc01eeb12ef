//! A simulated client's endpoint.

use super::request::SimVerb;
use super::state::SimState;
use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::{ClientProcessorWork, Endpoint};
use crate::error::FabricError;
use crate::verb::FabricVerb;
use nearfield_hardware::VirtualTime;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// A simulated client's access to the nodes. Clones belong to the same client, and die with it.
#[derive(Clone, Debug)]
pub struct SimEndpoint {
    pub(super) state: Rc<RefCell<SimState>>,
    pub(super) client: u32,
    /// The index of the client among the clients.
    pub(super) place: usize,
    /// True if verbs take no time.
    pub(super) instant: bool,
}

/// A time that a task waits for.
struct Alarm<'e> {
    endpoint: &'e SimEndpoint,
    timer: usize,
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.endpoint.state.borrow_mut().abandon_timer(self.timer);
    }
}

/// A request that a task waits for. If the task stops waiting, the request continues by itself.
struct SimPendingRequest<'e> {
    endpoint: &'e SimEndpoint,
    request: usize,
}

impl Drop for SimPendingRequest<'_> {
    fn drop(&mut self) {
        self.endpoint.state.borrow_mut().abandon(self.request);
    }
}

impl SimEndpoint {
    /// Returns the number of the client.
    pub fn client(&self) -> u32 {
        self.client
    }

    /// Posts steps and waits for their completion.
    async fn done(&self, steps: Vec<SimVerb>) -> Result<Vec<SimVerb>, FabricError> {
        let posted = self.state.borrow_mut().post(self.place, steps, false);
        let Some(request) = posted else {
            // Tasks of dead clients stop here until they are dropped.
            return std::future::pending().await;
        };
        let awaited = SimPendingRequest {
            endpoint: self,
            request,
        };
        let steps = poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            let Some(posted) = state.requests.get_mut(awaited.request) else {
                return Poll::Pending;
            };
            if !posted.answered {
                posted.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(match posted.error.take() {
                Some(error) => Err(error),
                None => Ok(std::mem::take(&mut posted.steps)),
            })
        });
        steps.await
    }

    /// Waits while the client's processor works for an operation of an index, by the network's
    /// parameters.
    pub async fn begin_operation(&self) {
        let time = self.state.borrow().network.client.operation;
        self.work_for(time).await;
    }

    async fn work_for(&self, time: VirtualTime) {
        let done = self.state.borrow_mut().occupy(self.place, time);
        if let Some(done) = done {
            self.wait_until(done).await;
        }
    }

    async fn wait_until(&self, time: VirtualTime) {
        let timer = self.state.borrow_mut().plan_timer(time);
        let alarm = Alarm {
            endpoint: self,
            timer,
        };
        poll_fn(
            |context| match self.state.borrow_mut().timers.get_mut(alarm.timer) {
                Some(timer) if !timer.rings => {
                    timer.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            },
        )
        .await;
    }
}

impl Endpoint for SimEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        let count = self.state.borrow().nodes.len();
        (0..count as u16).map(NodeId).collect()
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        self.state.borrow().node(node).is_ok_and(|node| node.up)
    }

    fn atomic_bytes(&self) -> u64 {
        self.state.borrow().delivery.atomic_bytes()
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        let prepared = {
            let state = &mut *self.state.borrow_mut();
            state.check(verbs)?;
            if verbs.is_empty() {
                return Ok(());
            }
            if self.instant {
                state.apply(verbs);
                return Ok(());
            }
            state.prepare(self.place, verbs)
        };
        if let Some(prepared) = prepared {
            self.wait_until(prepared).await;
        }
        let answer = self.state.borrow_mut().post_at_once(self.place, verbs);
        if let Some(answer) = answer {
            self.wait_until(answer).await;
            return Ok(());
        }
        let steps = self.done(verbs.iter().map(SimVerb::of).collect()).await?;
        for (step, verb) in steps.into_iter().zip(verbs) {
            step.answer(verb);
        }
        Ok(())
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        let verbs = &mut [FabricVerb::Write { to, bytes }];
        let state = &mut *self.state.borrow_mut();
        state.check(verbs)?;
        if self.instant {
            state.apply(verbs);
            return Ok(());
        }
        // The processor prepares this before its later work.
        state.prepare(self.place, verbs);
        if state.post_at_once(self.place, verbs).is_none() {
            state.post(self.place, verbs.iter().map(SimVerb::of).collect(), true);
        }
        Ok(())
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.state.borrow().node(node)?;
        if self.instant {
            let state = &mut *self.state.borrow_mut();
            return state.node_mut(node)?.allocate(node, bytes);
        }
        let at = GlobalAddress::NULL;
        let steps = self
            .done(vec![SimVerb::Allocate { node, bytes, at }])
            .await?;
        match steps[..] {
            [SimVerb::Allocate { at, .. }] => Ok(at),
            _ => unreachable!("the steps return in the order of their posts"),
        }
    }

    async fn allocate_at(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.state.borrow().node(address.node())?;
        if self.instant {
            let state = &mut *self.state.borrow_mut();
            return state.node_mut(address.node())?.allocate_at(address, bytes);
        }
        let at = address;
        let step = SimVerb::AllocateAt { at, bytes };
        self.done(vec![step]).await.map(drop)
    }

    async fn find_memory(
        &self,
        from: GlobalAddress,
        is_allocated: bool,
    ) -> Result<Option<GlobalAddress>, FabricError> {
        self.state.borrow().node(from.node())?;
        if self.instant {
            let state = self.state.borrow();
            return Ok(state.node(from.node())?.find_memory(from, is_allocated));
        }
        let step = SimVerb::Find {
            from,
            is_allocated,
            found: None,
        };
        let steps = self.done(vec![step]).await?;
        match steps[..] {
            [SimVerb::Find { found, .. }] => Ok(found),
            _ => unreachable!("the steps return in the order of their posts"),
        }
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.state.borrow().node(address.node())?;
        if self.instant {
            let state = &mut *self.state.borrow_mut();
            return state.node_mut(address.node())?.free(address, bytes);
        }
        let at = address;
        self.done(vec![SimVerb::Free { at, bytes }]).await.map(drop)
    }

    async fn charge(&self, work: ClientProcessorWork) {
        if self.instant {
            return;
        }
        let client = self.state.borrow().network.client;
        self.work_for(match work {
            ClientProcessorWork::Speculation => client.speculation,
        })
        .await;
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.state.borrow().now.as_picoseconds() / 1000)
    }

    async fn sleep(&self, time: Duration) {
        let until = self.state.borrow().now + VirtualTime::from_nanoseconds(time.as_nanos() as u64);
        self.wait_until(until).await;
    }
}
