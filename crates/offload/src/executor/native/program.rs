//! How native code of programs is called.
//!
//! The verifier has proved that every access of a program lies within its windows, so the code does
//! not check them again. It gets pointers to the windows.

use super::TranslateError;
use super::module::{finish, module};
use super::translate::verified;
use crate::executor::stores::Stores;
use crate::executor::workspace::Workspace;
use crate::program::{NodeLoad, Program, Window};
use cranelift_jit::JITModule;
use cranelift_module::Module;
use std::mem::{ManuallyDrop, transmute};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

type Iteration = unsafe extern "C" fn(*mut u8, *mut u8, u64, *mut u8, u64, *mut Stores) -> u64;

/// A program that the processor executes.
///
/// ```
/// use nearfield_offload::executor::{NativeProgram, Workspace};
/// use nearfield_offload::isa::assemble;
/// use nearfield_offload::program::{Declaration, Program};
///
/// let code = assemble("ldxdw r0, [r1+8]\n stxdw [r2], r0\n exit")?;
/// let program = Program::verify(code, Declaration::scratchpad(8))?;
/// let native = NativeProgram::translate(program.into())?;
/// let mut workspace = Workspace::new(0x5000, vec![0; 8]);
/// let load = native.program().node_load();
/// workspace.node_mut(load).copy_from_slice(&7u64.to_le_bytes());
/// assert_eq!(native.iterate(&mut workspace), 7);
/// assert_eq!(workspace.scratchpad, 7u64.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NativeProgram {
    /// It owns the memory of the code.
    module: ManuallyDrop<JITModule>,
    iteration: Iteration,
    program: Arc<Program>,
    is_in_place: bool,
    /// The program's own, close at hand.
    load: NodeLoad,
    scratchpad_bytes: usize,
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
    pub fn translate(program: Arc<Program>) -> Result<NativeProgram, TranslateError> {
        let mut module = ManuallyDrop::new(module(&[])?);
        let pointer = module.target_config().pointer_type();
        let mut context = module.make_context();
        verified::signature(&mut context.func.signature, pointer);
        verified::translate(&program, &mut context.func);
        let address = finish(&mut module, context)?;
        // SAFETY: the module has finished the function at this address, with the signature of
        // `verified::signature`, which is that of `Iteration`, in C's convention of this target.
        let iteration = unsafe { transmute::<*const u8, Iteration>(address) };
        Ok(NativeProgram {
            module,
            iteration,
            load: program.node_load(),
            scratchpad_bytes: program.scratchpad_bytes(),
            is_in_place: !program.changes_memory() && !program.accesses(Window::Allocation),
            program,
        })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// True if [`iterate_in_place`](NativeProgram::iterate_in_place) runs it.
    pub fn is_in_place(&self) -> bool {
        self.is_in_place
    }

    /// Runs one iteration, as the interpreter does.
    ///
    /// # Panics
    /// The scratchpad has another length than the program declares.
    pub fn iterate(&self, workspace: &mut Workspace) -> u64 {
        let bytes = self.program.scratchpad_bytes();
        assert_eq!(workspace.scratchpad.len(), bytes, "the declared length");
        let start = isize::from(self.program.node_load().start);
        let node = workspace.node.as_mut_ptr();
        // SAFETY: the code accesses these, and no more, during this call, by the verifier's proof:
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

    /// Runs one iteration on a node that stays where it is: `offset` is where the program's load
    /// begins in `memory`. Programs that change memory are not run: `None`.
    ///
    /// Other threads may change the node meanwhile. Two loads of one field may differ then, and the
    /// bytes of a field that is not an aligned word may be of different times.
    ///
    /// # Panics
    /// The load does not lie in `memory`, or the scratchpad has another length than the program
    /// declares.
    #[inline]
    pub fn iterate_in_place(
        &self,
        memory: &[AtomicU64],
        offset: usize,
        address: u64,
        scratchpad: &mut [u8],
    ) -> Option<u64> {
        if !self.is_in_place {
            return None;
        }
        let load = self.load;
        let end = offset.checked_add(load.bytes.into());
        assert!(
            end.is_some_and(|end| end <= size_of_val(memory)),
            "in memory"
        );
        assert!(scratchpad.len() == self.scratchpad_bytes, "declared");
        let node = memory.as_ptr().cast::<u8>().wrapping_add(offset);
        let origin = node.wrapping_offset(-isize::from(load.start)).cast_mut();
        // SAFETY: as in `iterate`, but of the node the code only loads, and only bytes of `memory`.
        // These are atomics, so they may change at any time; the loads are the processor's own, to
        // which no rule of Rust applies. The program does not access the allocation, and stores
        // into neither window whose stores are noted.
        let next = unsafe {
            (self.iteration)(
                origin,
                scratchpad.as_mut_ptr(),
                address,
                null_mut(),
                0,
                null_mut(),
            )
        };
        // What the next iteration loads is not older than what this one has loaded.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        Some(next)
    }
}

impl Drop for NativeProgram {
    fn drop(&mut self) {
        // SAFETY: the module is not used again, as this is the end of its owner. The address of
        // the code does not leave the owner, and runs borrow it, so that none is under way.
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
