//! Traversal programs at the memory nodes. An answer carries the object that is read, and a request
//! the object that is written. A program inserts into a leaf with room.

use super::super::calls::{NodeCall, NodeCallClients};
use super::super::deployment::{Deployment, DeploymentError, ObjectAccess, done};
use super::remote_heap::{self, Reserve};
use nearfield_offload::net::udp;
use nearfield_offload::program::{Declaration, ProgramHash, TraversalProgram};
use nearfield_offload::structures::{BPlusTree, was_put};
use nearfield_offload::traversal::{QueryRunner, TraversalOutcome, TraversalQuery};
use nearfield_offload::wire::OBJECT_BYTES_MAX;
use std::sync::Arc;

/// Limit of iterations, more than any query of the applications makes.
const ITERATIONS: u64 = 1 << 20;

pub(in super::super) struct ProgramDeployment {
    pub runner: udp::OffloadClient,
    pub servers: NodeCallClients,
    pub reserve: Arc<Reserve>,
    /// The program of the latest query for an object, with one more word of scratchpad.
    pub longer: Option<(ProgramHash, Arc<TraversalProgram>)>,
}

impl ProgramDeployment {
    /// Returns a program with one more word of scratchpad; `None` if there is no room for it.
    fn longer(&mut self, program: &TraversalProgram) -> Option<Arc<TraversalProgram>> {
        let hash = program.hash();
        if let Some((known, longer)) = &self.longer
            && *known == hash
        {
            return Some(Arc::clone(longer));
        }
        let declaration = program.declaration();
        let declaration = Declaration {
            scratchpad: declaration.scratchpad.checked_add(8)?,
            ..declaration
        };
        let longer = TraversalProgram::verify(program.code().clone(), declaration);
        let longer = Arc::new(longer.ok()?);
        self.longer = Some((hash, Arc::clone(&longer)));
        Some(longer)
    }

    /// Returns a query that leaves an object of a known length in its answer, and the words with
    /// the object's address and length; `None` if the scratchpad has no room for the length.
    fn with_length(
        &mut self,
        query: &TraversalQuery,
        word: usize,
        bytes: usize,
    ) -> Option<(TraversalQuery, [u8; 2])> {
        let length_at = query.program.scratchpad_bytes();
        let words = [word, length_at / 8].map(u8::try_from);
        let [Ok(address), Ok(length)] = words else {
            return None;
        };
        if !length_at.is_multiple_of(8) || bytes > OBJECT_BYTES_MAX {
            return None;
        }
        let program = self.longer(&query.program)?;
        let mut scratchpad = query.scratchpad.clone();
        scratchpad.resize(length_at, 0);
        scratchpad.extend((bytes as u64).to_le_bytes());
        let query = TraversalQuery {
            program,
            start: query.start,
            scratchpad,
        };
        Some((query, [address, length]))
    }
}

impl Deployment for ProgramDeployment {
    fn run(&mut self, query: &TraversalQuery) -> Result<TraversalOutcome, DeploymentError> {
        done(self.runner.run(query, ITERATIONS)?)
    }

    fn access(&mut self, address: u64, then: ObjectAccess<'_>) -> Result<(), DeploymentError> {
        access(&mut self.servers, address, then)
    }

    fn run_then(
        &mut self,
        query: &TraversalQuery,
        word: usize,
        mut then: ObjectAccess<'_>,
    ) -> Result<TraversalOutcome, DeploymentError> {
        match &mut then {
            ObjectAccess::Read(into) => {
                if let Some((query, words)) = self.with_length(query, word, into.len()) {
                    let (outcome, object) =
                        self.runner.run_with_object(&query, ITERATIONS, words)?;
                    let outcome = done(outcome)?;
                    copy(&object, into)?;
                    return Ok(outcome);
                }
            }
            ObjectAccess::Write(bytes) => {
                if let Ok(word) = u8::try_from(word)
                    && (1..=OBJECT_BYTES_MAX).contains(&bytes.len())
                {
                    let outcome = self.runner.run_storing(query, ITERATIONS, word, bytes)?;
                    return done(outcome);
                }
            }
        }
        let outcome = self.run(query)?;
        self.access(outcome.word(word), then)?;
        Ok(outcome)
    }

    fn insert(
        &mut self,
        tree: &mut BPlusTree,
        key: u64,
        value: u64,
    ) -> Result<(), DeploymentError> {
        let outcome = self.run(&tree.put(key, value))?;
        if was_put(&outcome).is_some() {
            return Ok(());
        }
        // The leaf has no room. Its division allocates, which no program does here.
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
