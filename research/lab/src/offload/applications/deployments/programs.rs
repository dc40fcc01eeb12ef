//! Traversal programs at the memory nodes. Objects are read and written by calls.

use super::super::calls::{NodeCall, NodeCallClients};
use super::super::deployment::{Deployment, DeploymentError, ObjectAccess, done};
use super::remote_heap::{self, Reserve};
use nearfield_offload::net::udp;
use nearfield_offload::structures::BPlusTree;
use nearfield_offload::traversal::{QueryRunner, TraversalOutcome, TraversalQuery};
use std::sync::Arc;

/// Limit of iterations, more than any query of the applications makes.
const ITERATIONS: u64 = 1 << 20;

pub(in super::super) struct ProgramDeployment {
    pub runner: udp::OffloadClient,
    pub servers: NodeCallClients,
    pub reserve: Arc<Reserve>,
}

impl Deployment for ProgramDeployment {
    fn run(&mut self, query: &TraversalQuery) -> Result<TraversalOutcome, DeploymentError> {
        done(self.runner.run(query, ITERATIONS)?)
    }

    fn access(&mut self, address: u64, then: ObjectAccess<'_>) -> Result<(), DeploymentError> {
        access(&mut self.servers, address, then)
    }

    fn insert(
        &mut self,
        tree: &mut BPlusTree,
        key: u64,
        value: u64,
    ) -> Result<(), DeploymentError> {
        let reserve = Arc::clone(&self.reserve);
        remote_heap::insert(self, &reserve, tree, (key, value))
    }

    fn round_trips(&self) -> u64 {
        let counters = self.runner.counters();
        counters.asked + counters.sent_on + self.servers.calls()
    }
}

/// Reads or writes bytes by a call.
pub(super) fn access(
    servers: &mut NodeCallClients,
    address: u64,
    then: ObjectAccess<'_>,
) -> Result<(), DeploymentError> {
    match then {
        ObjectAccess::Read(into) => {
            let bytes = into.len() as u32;
            let reply = servers.call(&NodeCall::Read { address, bytes })?;
            copy(reply, into)
        }
        ObjectAccess::Write(bytes) => {
            servers.call(&NodeCall::Write { address, bytes })?;
            Ok(())
        }
    }
}

/// Copies a reply of the expected length.
pub(super) fn copy(reply: &[u8], into: &mut [u8]) -> Result<(), DeploymentError> {
    if reply.len() != into.len() {
        return Err(super::super::calls::NodeCallError::Refused.into());
    }
    into.copy_from_slice(reply);
    Ok(())
}
