//! One iteration, from load to stores.

use super::engine::ProgramEngine;
use super::memory::TraversalMemory;
use super::status::TraversalStatus;
use crate::executor::TraversalWorkspace;
use crate::program::TraversalProgram;

/// The continuation after an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraversalContinuation {
    /// Another iteration, at this address.
    Node(u64),
    /// The end: the traversal is done.
    Done,
}

/// Runs one iteration at the workspace's address. An iteration that fails has no effect: the
/// workspace's scratchpad is as before.
///
/// Stores become visible at its end.
///
/// # Errors
/// The status with which the traversal stops.
pub fn iterate(
    engine: &ProgramEngine,
    memory: &impl TraversalMemory,
    workspace: &mut TraversalWorkspace,
) -> Result<TraversalContinuation, TraversalStatus> {
    let program = engine.program();
    let load = program.node_load();
    workspace.begin(program.declaration());
    let from = workspace.address.wrapping_add_signed(load.start.into());
    if load.bytes == 0 {
        // The program reads nothing of the node, but the node's address must still be valid.
        memory.load(from, &mut [0])?;
    } else {
        memory.load(from, workspace.node_mut(load))?;
    }
    // If stores fail, the iteration is undone, so keep the scratchpad from before it.
    let before = program
        .changes_memory()
        .then(|| workspace.scratchpad.clone());
    let next = engine
        .iterate(workspace)
        .map_err(|_| TraversalStatus::Malfunction)?;
    debug_assert!(
        before.is_some() || !workspace.has_stores(),
        "the verifier saw no store"
    );
    if workspace.has_stores()
        && let Err(status) = store(program, memory, workspace)
    {
        if let Some(before) = before {
            workspace.scratchpad = before;
        }
        return Err(status);
    }
    Ok(match next {
        0 => TraversalContinuation::Done,
        address => TraversalContinuation::Node(address),
    })
}

fn store(
    program: &TraversalProgram,
    memory: &impl TraversalMemory,
    workspace: &mut TraversalWorkspace,
) -> Result<(), TraversalStatus> {
    let load = program.node_load();
    if workspace.allocates() && workspace.region == 0 {
        return Err(TraversalStatus::OutOfRegions);
    }
    let region = workspace.region;
    let address = workspace.address;
    let allocated = |distance: u64| region.wrapping_add(distance);
    let of_node = |distance: i64| address.wrapping_add_signed(distance);
    // All stores are checked before the first one is made, because none can be undone.
    for (distance, bytes) in workspace.stored_allocation() {
        memory.check_store(allocated(distance), bytes.len())?;
    }
    for (distance, bytes) in workspace.stored_node(load) {
        memory.check_store(of_node(distance), bytes.len())?;
    }
    // The node may publish the allocation, so it is stored last.
    for (distance, bytes) in workspace.stored_allocation() {
        memory.store(allocated(distance), bytes)?;
    }
    for (distance, bytes) in workspace.stored_node(load) {
        memory.store(of_node(distance), bytes)?;
    }
    // The region is taken only here: an iteration that fails leaves it to the next one.
    workspace.take_region(program.declaration());
    Ok(())
}
