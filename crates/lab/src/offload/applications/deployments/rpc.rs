//! Calls of native code at the memory node: one for a traversal with its object.

use super::super::calls::{Call, CallError, Client, Follow};
use super::super::deployment::{Deployment, DeploymentError, Then};
use super::programs::{access, copy};
use nearfield_offload::structures::BPlusTree;
use nearfield_offload::traversal::{Outcome, Query, Status};

pub(in super::super) struct Rpc {
    pub client: Client,
}

impl Rpc {
    fn traverse(
        &mut self,
        query: &Query,
        follow: Follow<'_>,
        into: &mut [u8],
    ) -> Result<Outcome, DeploymentError> {
        let scratchpad = &query.scratchpad;
        let used = scratchpad.iter().rposition(|&byte| byte != 0);
        let call = Call::Traverse {
            program: query.program.hash(),
            start: query.start,
            scratchpad: scratchpad
                .get(..used.map_or(0, |at| at + 1))
                .unwrap_or_default(),
            follow,
        };
        let answer = self.client.call(&call)?;
        let refused = CallError::Refused;
        let Some((length, rest)) = answer.split_first_chunk() else {
            return Err(refused.into());
        };
        let length = usize::from(u16::from_le_bytes(*length));
        let Some((left, object)) = rest.split_at_checked(length) else {
            return Err(refused.into());
        };
        copy(object, into)?;
        let mut scratchpad = left.to_vec();
        scratchpad.resize(query.program.scratchpad_bytes(), 0);
        Ok(Outcome {
            status: Status::Done,
            address: query.start,
            scratchpad,
            iterations: 0,
        })
    }
}

impl Deployment for Rpc {
    fn run(&mut self, query: &Query) -> Result<Outcome, DeploymentError> {
        self.traverse(query, Follow::Nothing, &mut [])
    }

    fn access(&mut self, address: u64, then: Then<'_>) -> Result<(), DeploymentError> {
        access(&mut self.client, address, then)
    }

    fn run_then(
        &mut self,
        query: &Query,
        word: usize,
        then: Then<'_>,
    ) -> Result<Outcome, DeploymentError> {
        let word = word as u16;
        match then {
            Then::Read(into) => {
                let bytes = into.len() as u32;
                self.traverse(query, Follow::Read { word, bytes }, into)
            }
            Then::Write(bytes) => self.traverse(query, Follow::Write { word, bytes }, &mut []),
        }
    }

    fn insert(
        &mut self,
        tree: &mut BPlusTree,
        key: u64,
        value: u64,
    ) -> Result<(), DeploymentError> {
        let root = tree.root();
        let answer = self.client.call(&Call::Insert { root, key, value })?;
        let now: [u8; 8] = answer.try_into().map_err(|_| CallError::Refused)?;
        let now = u64::from_le_bytes(now);
        if now != root {
            *tree = BPlusTree::at(now);
        }
        Ok(())
    }

    fn round_trips(&self) -> u64 {
        self.client.calls()
    }
}
