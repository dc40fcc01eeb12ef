//! Traversal programs at the memory nodes. Objects are read and written by calls.

use super::super::calls::{Call, Servers};
use super::super::deployment::{Deployment, DeploymentError, Then, done};
use super::afar::{self, Reserve};
use nearfield_offload::net::udp;
use nearfield_offload::structures::BPlusTree;
use nearfield_offload::traversal::{Outcome, Query, Runner};
use std::sync::Arc;

/// Limit of iterations, more than any query of the applications makes.
const ITERATIONS: u64 = 1 << 20;

pub(in super::super) struct Programs {
    pub runner: udp::Client,
    pub servers: Servers,
    pub reserve: Arc<Reserve>,
}

impl Deployment for Programs {
    fn run(&mut self, query: &Query) -> Result<Outcome, DeploymentError> {
        done(self.runner.run(query, ITERATIONS)?)
    }

    fn access(&mut self, address: u64, then: Then<'_>) -> Result<(), DeploymentError> {
        access(&mut self.servers, address, then)
    }

    fn insert(
        &mut self,
        tree: &mut BPlusTree,
        key: u64,
        value: u64,
    ) -> Result<(), DeploymentError> {
        let reserve = Arc::clone(&self.reserve);
        afar::insert(self, &reserve, tree, (key, value))
    }

    fn round_trips(&self) -> u64 {
        let counters = self.runner.counters();
        counters.asked + counters.sent_on + self.servers.calls()
    }
}

/// Reads or writes bytes by a call.
pub(super) fn access(
    servers: &mut Servers,
    address: u64,
    then: Then<'_>,
) -> Result<(), DeploymentError> {
    match then {
        Then::Read(into) => {
            let bytes = into.len() as u32;
            let answer = servers.call(&Call::Read { address, bytes })?;
            copy(answer, into)
        }
        Then::Write(bytes) => {
            servers.call(&Call::Write { address, bytes })?;
            Ok(())
        }
    }
}

/// Copies a reply of the expected length.
pub(super) fn copy(answer: &[u8], into: &mut [u8]) -> Result<(), DeploymentError> {
    if answer.len() != into.len() {
        return Err(super::super::calls::CallError::Refused.into());
    }
    into.copy_from_slice(answer);
    Ok(())
}
