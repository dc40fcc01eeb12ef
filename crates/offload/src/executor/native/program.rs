//! Calls of the native code of programs.
//!
//! The verifier has proved that every access of a program is within its windows, so the code does
//! not check them again. It receives pointers to the windows.

use super::TranslateError;
use super::module::{finish, module};
use super::translate::{round, verified};
use crate::executor::lane::TraversalLane;
use crate::executor::stores::Stores;
use crate::executor::workspace::TraversalWorkspace;
use crate::program::TraversalProgram;
use cranelift_jit::JITModule;
use cranelift_module::Module;
use std::mem::{ManuallyDrop, transmute};
use std::sync::Arc;

type Iteration = unsafe extern "C" fn(*mut u8, *mut u8, u64, *mut u8, u64, *mut Stores) -> u64;
type Round = unsafe extern "C" fn(
    *mut TraversalLane,
    *mut TraversalLane,
    *mut *mut TraversalLane,
    u64,
) -> usize;

/// A program that the processor executes.
///
/// ```
/// use nearfield_offload::executor::{NativeProgram, TraversalWorkspace};
/// use nearfield_offload::isa::assemble;
/// use nearfield_offload::program::{Declaration, TraversalProgram};
///
/// let code = assemble("ldxdw r0, [r1+8]\n stxdw [r2], r0\n exit")?;
/// let program = TraversalProgram::verify(code, Declaration::scratchpad(8))?;
/// let native = NativeProgram::translate(program.into())?;
/// let mut workspace = TraversalWorkspace::new(0x5000, vec![0; 8]);
/// let load = native.program().node_load();
/// workspace.node_mut(load).copy_from_slice(&7u64.to_le_bytes());
/// assert_eq!(native.iterate(&mut workspace), 7);
/// assert_eq!(workspace.scratchpad, 7u64.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NativeProgram {
    /// The owner of the memory of the code.
    module: ManuallyDrop<JITModule>,
    iteration: Iteration,
    program: Arc<TraversalProgram>,
    /// The loop over lanes, for a program that only reads.
    round: Option<Round>,
}

// SAFETY: the module is not used before it is dropped, and nothing else of it is shared. Its code
// is not changed after it was finished.
unsafe impl Send for NativeProgram {}
// SAFETY: as above: threads only call the code, which has no state of its own.
unsafe impl Sync for NativeProgram {}

impl NativeProgram {
    /// Translates a program for the processor of this process.
    ///
    /// # Errors
    /// See [`TranslateError`].
    pub fn translate(program: Arc<TraversalProgram>) -> Result<NativeProgram, TranslateError> {
        let mut module = ManuallyDrop::new(module(&[])?);
        let pointer = module.target_config().pointer_type();
        let mut context = module.make_context();
        verified::signature(&mut context.func.signature, pointer);
        verified::translate(&program, &mut context.func);
        let mut contexts = vec![context];
        // Stores must be checked against permissions before any is made, so only programs without
        // them run on nodes in place. A lane has no region either, which a program that declares
        // regions may look at even if it does not take one.
        if !program.changes_memory() && program.declaration().regions_at.is_none() {
            let mut context = module.make_context();
            round::signature(&mut context.func.signature, pointer);
            round::translate(&program, &mut context.func);
            contexts.push(context);
        }
        let addresses = finish(&mut module, contexts)?;
        // SAFETY: the module has finished the function at this address, with the signature of
        // `verified::signature`, which is that of `Iteration`, in C's convention of this target.
        let iteration = unsafe { transmute::<*const u8, Iteration>(addresses[0]) };
        let round = addresses.get(1).map(|&address| {
            // SAFETY: as above, with `round::signature` and `Round`.
            unsafe { transmute::<*const u8, Round>(address) }
        });
        Ok(NativeProgram {
            module,
            iteration,
            round,
            program,
        })
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<TraversalProgram> {
        &self.program
    }

    /// Returns true if [`round`](NativeProgram::round) runs it.
    pub(crate) fn is_in_place(&self) -> bool {
        self.round.is_some()
    }

    /// Runs one iteration, as the interpreter does.
    ///
    /// # Panics
    /// The scratchpad has another length than the program declares.
    pub fn iterate(&self, workspace: &mut TraversalWorkspace) -> u64 {
        let bytes = self.program.scratchpad_bytes();
        assert_eq!(workspace.scratchpad.len(), bytes, "the declared length");
        // The code adds offsets to the address of the node, before which the load may begin.
        let start = isize::from(self.program.node_load().start);
        let node = workspace.node.as_mut_ptr();
        // SAFETY: the code accesses only these, and only during this call, by the verifier's proof:
        // - of the node the bytes of the program's load, at most as many as the workspace has; they
        //   begin `start` bytes from the origin,
        // - the scratchpad, which has the declared length,
        // - the allocation, and bits of 256 bytes in both sets of stores.
        // All are parts of `workspace`, which is borrowed exclusively.
        unsafe {
            (self.iteration)(
                node.wrapping_offset(-start),
                workspace.scratchpad.as_mut_ptr(),
                workspace.address,
                workspace.allocation.as_mut_ptr(),
                workspace.region,
                &raw mut workspace.stores,
            )
        }
    }

    /// Makes one iteration of each lane, on its node in place. Makes up to `repeats` more: of the
    /// first lane while it continues, then of the next. Writes the lanes that stop to `stops`,
    /// which must have room for all, and returns their number. [`TraversalLane::next`] of a lane
    /// that stops has the reason; the others are at their next nodes. Returns `None` if there is no
    /// lane, or if the program changes memory, because such a program is not run in place.
    ///
    /// Other threads may change nodes meanwhile. Two loads of one field may differ then, and the
    /// bytes of a field that is not an aligned word may be of different times.
    ///
    /// # Safety
    /// For each lane
    /// - as many bytes as the program loads must be readable from `node`, and from any place that
    ///   `near` can return;
    /// - `scratchpad` must point to as many bytes as the program declares, which nothing else
    ///   accesses during this call.
    #[inline]
    pub(crate) unsafe fn round(
        &self,
        lanes: &mut [TraversalLane],
        stops: &mut [*mut TraversalLane],
        repeats: usize,
    ) -> Option<usize> {
        let round = self.round?;
        // The loop looks for the end after its first lane.
        if lanes.is_empty() || lanes.len() > stops.len() {
            return None;
        }
        let room = lanes.len();
        let lanes = lanes.as_mut_ptr_range();
        // SAFETY: by the caller's duties, and as in `iterate`, except that the code only loads from
        // a node. These bytes may change at any time; the loads are the processor's own, to which
        // no rule of Rust applies. The program does not access the allocation, and stores into
        // neither window whose stores are noted. Each lane stops once at most, and there is room
        // for all.
        let count = unsafe { round(lanes.start, lanes.end, stops.as_mut_ptr(), repeats as u64) };
        // The fence keeps the loads of the next iteration from returning older bytes than this one
        // loaded.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        debug_assert!(count <= room, "{count} of {room} lanes stopped");
        Some(count)
    }
}

impl Drop for NativeProgram {
    fn drop(&mut self) {
        // SAFETY: the module is not used again, because its owner ends here. The address of the
        // code does not leave the owner, and runs borrow it, so none is in progress.
        unsafe { ManuallyDrop::take(&mut self.module).free_memory() };
    }
}

impl std::fmt::Debug for NativeProgram {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("NativeProgram")
            .field(&self.program.hash())
            .finish()
    }
}
