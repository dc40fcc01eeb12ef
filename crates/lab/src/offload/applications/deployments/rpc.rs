//! Calls of native code at the memory nodes: one for a traversal with its object. A traversal that
//! leaves a memory node returns to the caller, which calls the next one.

use super::super::calls::{Call, CallError, Follow, Reached, Servers, trimmed};
use super::super::deployment::{Deployment, DeploymentError, Then};
use super::afar::{self, Reserve};
use super::programs::{access, copy};
use nearfield_offload::structures::BPlusTree;
use nearfield_offload::traversal::{Outcome, Query, Status};
use std::sync::Arc;

pub(in super::super) struct Rpc {
    pub servers: Servers,
    pub reserve: Arc<Reserve>,
}

impl Rpc {
    /// Runs a query by native code. Returns true if the last memory node has also made the access
    /// that follows; bytes that it has read are in `into` then.
    fn traverse(
        &mut self,
        query: &Query,
        follow: &Follow<'_>,
        into: &mut [u8],
    ) -> Result<(Outcome, bool), DeploymentError> {
        let mut address = query.start;
        let mut scratchpad = query.scratchpad.clone();
        loop {
            let call = Call::Traverse {
                program: query.program.hash(),
                start: address,
                scratchpad: trimmed(&scratchpad),
                follow: follow.clone(),
            };
            let reached = Reached::decode(self.servers.call(&call)?).ok_or(CallError::Refused)?;
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
            let outcome = Outcome {
                status: Status::Done,
                address,
                scratchpad,
                iterations: 0,
            };
            return Ok((outcome, is_followed));
        }
    }
}

impl Deployment for Rpc {
    fn run(&mut self, query: &Query) -> Result<Outcome, DeploymentError> {
        let (outcome, _) = self.traverse(query, &Follow::Nothing, &mut [])?;
        Ok(outcome)
    }

    fn access(&mut self, address: u64, then: Then<'_>) -> Result<(), DeploymentError> {
        access(&mut self.servers, address, then)
    }

    fn run_then(
        &mut self,
        query: &Query,
        word: usize,
        then: Then<'_>,
    ) -> Result<Outcome, DeploymentError> {
        let number = word as u16;
        let (outcome, is_followed, then) = match then {
            Then::Read(into) => {
                let bytes = into.len() as u32;
                let follow = Follow::Read {
                    word: number,
                    bytes,
                };
                let (outcome, is_followed) = self.traverse(query, &follow, into)?;
                (outcome, is_followed, Then::Read(into))
            }
            Then::Write(bytes) => {
                let follow = Follow::Write {
                    word: number,
                    bytes,
                };
                let (outcome, is_followed) = self.traverse(query, &follow, &mut [])?;
                (outcome, is_followed, then)
            }
        };
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
            return afar::insert(self, &reserve, tree, (key, value));
        }
        let root = tree.root();
        let answer = self.servers.call(&Call::Insert { root, key, value })?;
        let now: [u8; 8] = answer.try_into().map_err(|_| CallError::Refused)?;
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
