//! A simulated client's way to the nodes.

use super::request::Step;
use super::state::{Event, State};
use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::Verb;
use nearfield_hardware::Time;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// A simulated client's way to the nodes. Clones belong to the same client, and die with it.
#[derive(Clone, Debug)]
pub struct SimEndpoint {
    pub(super) state: Rc<RefCell<State>>,
    pub(super) client: u32,
}

/// A request that somebody waits for; without him it goes on by itself.
struct Awaited<'e> {
    endpoint: &'e SimEndpoint,
    request: usize,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.endpoint.state.borrow_mut().abandon(self.request);
    }
}

impl SimEndpoint {
    /// The number of the client.
    pub fn client(&self) -> u32 {
        self.client
    }

    /// Posts steps and waits for the answer.
    async fn done(&self, steps: Vec<Step>) -> Result<Vec<Step>, FabricError> {
        let posted = self.state.borrow_mut().post(self.client, steps, false);
        let Some(request) = posted else {
            // The dead do not go on; their tasks are dropped.
            return std::future::pending().await;
        };
        let awaited = Awaited {
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

    fn check(&self, verb: &Verb<'_>) -> Result<(), FabricError> {
        let state = self.state.borrow();
        verb.check(state.node(verb.node())?.memory.len() as u64)
    }
}

impl Endpoint for SimEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        let count = self.state.borrow().nodes.len();
        (0..count as u16).map(NodeId).collect()
    }

    fn atomic_bytes(&self) -> u64 {
        self.state.borrow().delivery.atomic_bytes()
    }

    async fn post(&self, verbs: &mut [Verb<'_>]) -> Result<(), FabricError> {
        for verb in &*verbs {
            self.check(verb)?;
        }
        if verbs.is_empty() {
            return Ok(());
        }
        let steps = self.done(verbs.iter().map(Step::of).collect()).await?;
        for (step, verb) in steps.into_iter().zip(verbs) {
            step.answer(verb);
        }
        Ok(())
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        let verb = Verb::Write { to, bytes };
        self.check(&verb)?;
        let steps = vec![Step::of(&verb)];
        self.state.borrow_mut().post(self.client, steps, true);
        Ok(())
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.state.borrow().node(node)?;
        let at = GlobalAddress::NULL;
        let steps = self.done(vec![Step::Allocate { node, bytes, at }]).await?;
        match steps[..] {
            [Step::Allocate { at, .. }] => Ok(at),
            _ => unreachable!("the steps come back as they were posted"),
        }
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.state.borrow().node(address.node())?;
        let at = address;
        self.done(vec![Step::Free { at, bytes }]).await.map(drop)
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.state.borrow().now.as_picoseconds() / 1000)
    }

    async fn sleep(&self, time: Duration) {
        let timer = {
            let mut state = self.state.borrow_mut();
            let timer = state.timers.insert(None);
            let until = state.now + Time::from_nanoseconds(time.as_nanos() as u64);
            state.plan(until, Event::Wake { timer });
            timer
        };
        poll_fn(
            |context| match self.state.borrow_mut().timers.get_mut(timer) {
                Some(waker) => {
                    *waker = Some(context.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            },
        )
        .await;
    }
}
