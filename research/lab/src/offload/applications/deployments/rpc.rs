//! Calls of native code at the memory nodes: one for a traversal with its object. A traversal that
//! leaves a memory node returns to the caller, which calls the next one.

use super::super::calls::{
    Follow, NodeCall, NodeCallClients, NodeCallError, TraversalReply, trimmed,
};
use super::super::deployment::{Deployment, DeploymentError, ObjectAccess};
use super::programs::{access, copy};
use super::remote_heap::{self, Reserve};
use nearfield_offload::structures::BPlusTree;
use nearfield_offload::traversal::{TraversalOutcome, TraversalQuery, TraversalStatus};
use std::sync::Arc;

pub(in super::super) struct Rpc {
    pub servers: NodeCallClients,
    pub reserve: Arc<Reserve>,
}

impl Rpc {
    /// Runs a query by native code. Returns true if the last memory node has also made the access
    /// that follows; bytes that it has read are in `into` then.
    fn traverse(
        &mut self,
        query: &TraversalQuery,
        follow: &Follow<'_>,
        into: &mut [u8],
    ) -> Result<(TraversalOutcome, bool), DeploymentError> {
        let mut address = query.start;
        let mut scratchpad = query.scratchpad.clone();
        loop {
            let call = NodeCall::Traverse {
                program: query.program.hash(),
                start: address,
                scratchpad: trimmed(&scratchpad),
                follow: follow.clone(),
            };
            let reached =
                TraversalReply::decode(self.servers.call(&call)?).ok_or(NodeCallError::Refused)?;
            scratchpad = reached.scratchpad.to_vec();
            if reached.next != 0 {
                address = reached.next;
                continue;
            }
            if reached.is_followed {
                copy(reached.object, into)?;
            }
            let is_followed = reached.is_followed;
            scratchpad.resize(query.program.scratchpad_bytes(), 0);
            let outcome = TraversalOutcome {
                status: TraversalStatus::Done,
                address,
                scratchpad,
                // Native code does not count them.
                iterations: 0,
            };
            return Ok((outcome, is_followed));
        }
    }
}

impl Deployment for Rpc {
    fn run(&mut self, query: &TraversalQuery) -> Result<TraversalOutcome, DeploymentError> {
        let (outcome, _) = self.traverse(query, &Follow::Nothing, &mut [])?;
        Ok(outcome)
    }

    fn access(&mut self, address: u64, then: ObjectAccess<'_>) -> Result<(), DeploymentError> {
        access(&mut self.servers, address, then)
    }

    fn run_then(
        &mut self,
        query: &TraversalQuery,
        word: usize,
        then: ObjectAccess<'_>,
    ) -> Result<TraversalOutcome, DeploymentError> {
        debug_assert!(u16::try_from(word).is_ok());
        let number = word as u16;
        let (outcome, is_followed, then) = match then {
            ObjectAccess::Read(into) => {
                let bytes = into.len() as u32;
                let follow = Follow::Read {
                    word: number,
                    bytes,
                };
                let (outcome, is_followed) = self.traverse(query, &follow, into)?;
                (outcome, is_followed, ObjectAccess::Read(into))
            }
            ObjectAccess::Write(bytes) => {
                let follow = Follow::Write {
                    word: number,
                    bytes,
                };
                let (outcome, is_followed) = self.traverse(query, &follow, &mut [])?;
                (outcome, is_followed, then)
            }
        };
        // The object may be at another node than the end of the traversal.
        if !is_followed {
            self.access(outcome.word(word), then)?;
        }
        Ok(outcome)
    }

    /// Inserts at the memory node if there is only one. A tree on several nodes is changed by reads
    /// and writes of the caller.
    fn insert(
        &mut self,
        tree: &mut BPlusTree,
        key: u64,
        value: u64,
    ) -> Result<(), DeploymentError> {
        if self.servers.are_several() {
            let reserve = Arc::clone(&self.reserve);
            return remote_heap::insert(self, &reserve, tree, (key, value));
        }
        let root = tree.root();
        let reply = self.servers.call(&NodeCall::Insert { root, key, value })?;
        let now: [u8; 8] = reply.try_into().map_err(|_| NodeCallError::Refused)?;
        let now = u64::from_le_bytes(now);
        if now != root {
            *tree = BPlusTree::at(now);
        }
        Ok(())
    }

    fn round_trips(&self) -> u64 {
        self.servers.calls()
    }
}
