//! Calls of translated code, and its access to memory.
//!
//! Translated code receives a [`NativeContext`], which holds the registers and receives the fault,
//! and the machine. It holds no address of memory itself: for each load and store it calls
//! [`resolve`], which checks the access as the interpreter does.

use super::TranslateError;
use super::module::{finish, module};
use super::translate::checked::{self, ResolverSymbols};
use crate::executor::machine::{BpfMachine, CALL_DEPTH_MAX, ExecutionFault};
use crate::executor::memory::InterpreterMemory;
use crate::isa::BpfCode;
use cranelift_jit::JITModule;
use cranelift_module::{Linkage, Module, ModuleError};
use std::ffi::c_void;
use std::mem::{ManuallyDrop, offset_of, transmute};

/// The data that translated code and its caller exchange. The translation contains the offsets of
/// these fields.
#[repr(C)]
pub(super) struct NativeContext {
    status: u64,
    slot: u64,
    address: u64,
    bytes: u64,
    budget: u64,
    registers: [u64; 11],
    /// For each active function except the first: registers 6 to 9 of its caller, and the index of
    /// the call.
    frames: [[u64; 5]; CALL_DEPTH_MAX],
}

impl NativeContext {
    pub(super) const SLOT: i32 = offset_of!(NativeContext, slot) as i32;
    pub(super) const ADDRESS: i32 = offset_of!(NativeContext, address) as i32;
    pub(super) const BYTES: i32 = offset_of!(NativeContext, bytes) as i32;
    pub(super) const STATUS: i32 = offset_of!(NativeContext, status) as i32;
    pub(super) const BUDGET: i32 = offset_of!(NativeContext, budget) as i32;
    pub(super) const REGISTERS: i32 = offset_of!(NativeContext, registers) as i32;
    pub(super) const FRAMES: i32 = offset_of!(NativeContext, frames) as i32;
    pub(super) const FRAME_BYTES: i64 = 40;
}

const _: () = assert!(NativeContext::FRAME_BYTES as usize == size_of::<[u64; 5]>());

/// The values of the status.
pub(super) const ACCESS: i64 = 1;
pub(super) const CALL_DEPTH: i64 = 2;
pub(super) const BUDGET: i64 = 3;

type Entry = extern "C" fn(*mut NativeContext, *mut c_void) -> u64;

/// Code that the processor executes. Every access is checked, as by the interpreter, so any code
/// may run.
///
/// ```
/// use nearfield_offload::executor::{BpfMachine, Native};
/// use nearfield_offload::isa::assemble;
///
/// let code = assemble("ldxw r0, [r1+4]\n be32 r0\n exit")?;
/// let native = Native::translate(&code)?;
/// let mut memory = [0, 0, 0, 0, 1, 2, 3, 4];
/// let result = native.run(&mut BpfMachine::with_memory(&mut memory), 100);
/// assert_eq!(result, Ok(0x0102_0304));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Native {
    /// The owner of the memory of the code.
    module: ManuallyDrop<JITModule>,
    entry: Entry,
}

impl Native {
    /// Translates code for the processor of this process.
    ///
    /// # Errors
    /// See [`TranslateError`].
    pub fn translate(code: &BpfCode) -> Result<Native, TranslateError> {
        let mut module = ManuallyDrop::new(module(&[("resolve", resolve as *const u8)])?);
        let boxed = |error: ModuleError| Box::new(error);
        let pointer = module.target_config().pointer_type();
        let mut resolve_signature = module.make_signature();
        checked::resolve_signature(&mut resolve_signature, pointer);
        let resolve = module
            .declare_function("resolve", Linkage::Import, &resolve_signature)
            .map_err(boxed)?;
        let mut context = module.make_context();
        checked::entry_signature(&mut context.func.signature, pointer);
        let names = ResolverSymbols {
            resolve: module.declare_func_in_func(resolve, &mut context.func),
            pointer,
        };
        checked::translate(code, &mut context.func, names);
        let address = finish(&mut module, vec![context])?[0];
        // SAFETY: the module has finished the function at this address, with the signature that
        // `entry_signature` gives it, which is that of `Entry`, in C's convention of this target.
        let entry = unsafe { transmute::<*const u8, Entry>(address) };
        Ok(Native { module, entry })
    }

    /// Runs the code to its exit, and returns register 0. Makes at most `budget` backward jumps and
    /// calls.
    ///
    /// # Errors
    /// See [`ExecutionFault`]. Stores before the fault stay.
    pub fn run(&self, machine: &mut BpfMachine<'_>, budget: u64) -> Result<u64, ExecutionFault> {
        let mut context = NativeContext {
            status: 0,
            slot: 0,
            address: 0,
            bytes: 0,
            budget,
            registers: machine.registers,
            frames: [[0; 5]; CALL_DEPTH_MAX],
        };
        // The code uses the machine only as the argument of `resolve`, during this call.
        let result = (self.entry)(&raw mut context, (&raw mut *machine).cast());
        let slot = context.slot as usize;
        debug_assert!(
            matches!(context.status as i64, 0..=BUDGET),
            "no such status"
        );
        match context.status as i64 {
            // Faults are words of the context: native code has no unwinding.
            ACCESS => Err(ExecutionFault::Access {
                slot,
                address: context.address,
                bytes: context.bytes,
            }),
            CALL_DEPTH => Err(ExecutionFault::CallDepth { slot }),
            BUDGET => Err(ExecutionFault::Budget { slot }),
            _ => Ok(result),
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: the module is not used again, because its owner ends here. The address of the
        // code does not leave the owner, and runs borrow it, so none is in progress.
        unsafe { ManuallyDrop::take(&mut self.module).free_memory() };
    }
}

/// Returns the bytes at an address of the program, or null if it has none there.
extern "C" fn resolve(machine: *mut c_void, address: u64, bytes: u64) -> *mut u8 {
    // SAFETY: translated code passes the machine that `run` passed to it. `run` has borrowed it
    // exclusively and does not use it before the code returns. The lifetime of its regions is
    // longer than that borrow.
    let machine = unsafe { &mut *machine.cast::<BpfMachine<'_>>() };
    // The code accesses only the bytes that it requested, and only before its next call.
    machine
        .resolve(address, bytes)
        .map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
}
