//! The translation of a verified program: accesses go straight to the windows, and stores are
//! noted.

use super::{Accesses, Translation, enter, finish};
use crate::executor::stores::Stores;
use crate::isa::{OperandSize, Register, STACK_BYTES};
use crate::program::{NODE_BYTES_MAX, ProgramAccess, ProgramWindow, TraversalProgram};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, Function, InstBuilder, MemFlags, Signature, StackSlotData,
    StackSlotKind, Type, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::mem::offset_of;

/// Sets the signature of a program. Its parameters are the node's origin, the scratchpad, the
/// current address, the allocation, its address, and the stores; its result is register 0.
pub fn signature(signature: &mut Signature, pointer: Type) {
    // The translation adds to pointers as to all registers of a program.
    debug_assert_eq!(pointer, types::I64);
    let kinds = [pointer, pointer, types::I64, pointer, types::I64, pointer];
    signature.params.extend(kinds.map(AbiParam::new));
    signature.returns.push(AbiParam::new(types::I64));
}

/// Translates a program into the body of a function.
pub fn translate(program: &TraversalProgram, function: &mut Function) {
    let mut frontend = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(function, &mut frontend);
    let [node, scratchpad, address, allocation, region, stores] = enter(&mut builder);
    let accesses = VerifiedAccesses {
        program,
        node,
        allocation,
        stores,
        exit: None,
    };
    let mut translation = Translation::new(builder, program.code(), accesses);
    body(
        &mut translation,
        [node, scratchpad, address, allocation, region],
    );
    finish(translation.builder);
}

/// Translates a program from the present block on, with `arguments` in registers 1 to 5.
pub fn body(translation: &mut Translation<'_, VerifiedAccesses<'_>>, arguments: [Value; 5]) {
    // A verified program reads no register that is not set, but Cranelift does not know that.
    let zero = translation.constant(0);
    for register in Register::ALL {
        translation.set(register, zero);
    }
    let registers = [
        Register::R1,
        Register::R2,
        Register::R3,
        Register::R4,
        Register::R5,
    ];
    for (register, value) in registers.into_iter().zip(arguments) {
        translation.set(register, value);
    }
    let program = translation.accesses.program;
    // Most programs use no stack. Their functions then need no frame of 512 bytes. A program that
    // only compares places of its stack has one, because the end of no stack would be zero.
    let mut instructions = program.code().instructions().iter();
    let stack_is_used = instructions.any(|instruction| instruction.reads(Register::R10));
    if stack_is_used {
        // The slot is aligned to 2³ bytes, which the verifier counts on.
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, STACK_BYTES as u32, 3);
        let slot = translation.builder.create_sized_stack_slot(data);
        let end = STACK_BYTES as i32;
        let ins = translation.builder.ins();
        let end = ins.stack_addr(types::I64, slot, end);
        translation.set(Register::R10, end);
    }
    translation.go_to(0);
    translation.instructions();
}

/// The values that a verified program uses.
pub struct VerifiedAccesses<'p> {
    pub program: &'p TraversalProgram,
    /// The place of the current address.
    pub node: Value,
    pub allocation: Value,
    /// A pointer to [`Stores`].
    pub stores: Value,
    /// The block that receives register 0 at the code's end. Without it, the function returns
    /// register 0.
    pub exit: Option<Block>,
}

impl Accesses for VerifiedAccesses<'_> {
    fn place(
        translation: &mut Translation<'_, Self>,
        _: usize,
        _: OperandSize,
        base: Register,
        offset: i16,
    ) -> Value {
        let base = translation.get(base);
        let ins = translation.builder.ins();
        ins.iadd_imm(base, i64::from(offset))
    }

    fn stored(translation: &mut Translation<'_, Self>, index: usize, place: Value) {
        let Some(access) = translation.accesses.program.access(index) else {
            return;
        };
        let start = i64::from(translation.accesses.program.node_load().start);
        let (origin, start, set) = match access.window {
            ProgramWindow::Node => {
                let set = offset_of!(Stores, node);
                (translation.accesses.node, start, set)
            }
            ProgramWindow::Allocation => {
                let set = offset_of!(Stores, allocation);
                (translation.accesses.allocation, 0, set)
            }
            // The scratchpad is written in place, and the stack ends with the iteration: nobody
            // writes their bytes back.
            ProgramWindow::Scratchpad | ProgramWindow::Stack => return,
        };
        if access.min == access.max {
            translation.note_fixed(set, access.min - start, access);
        } else {
            translation.note_computed(set, place, origin, start, access);
        }
    }

    // The verifier refuses code with calls and loops: the jump is made once at most.
    fn jumps_back(_: &mut Translation<'_, Self>, _: usize) {}

    fn call(translation: &mut Translation<'_, Self>, _: usize) {
        translation.end_program();
    }

    fn exit(translation: &mut Translation<'_, Self>) {
        let Some(exit) = translation.accesses.exit else {
            return translation.end_program();
        };
        let result = translation.get(Register::R0);
        let ins = translation.builder.ins();
        ins.jump(exit, &[BlockArg::Value(result)]);
    }
}

/// Returns a bit for each byte of an access.
fn bits(access: ProgramAccess) -> i64 {
    (1 << access.bytes) - 1
}

impl Translation<'_, VerifiedAccesses<'_>> {
    /// Notes a store at a place that the verifier knows.
    fn note_fixed(&mut self, set: usize, place: i64, access: ProgramAccess) {
        debug_assert!(
            (0..NODE_BYTES_MAX as i64).contains(&place),
            "{place} is in no set"
        );
        // The bits may reach into the next word, so both words are computed at once.
        let bits = i128::from(bits(access)) << (place % 64);
        let word = set as i64 + place / 64 * 8;
        // Usually the second word has no bits, and then is not touched.
        for (offset, bits) in [(word, bits as i64), (word + 8, (bits >> 64) as i64)] {
            if bits != 0 {
                let bits = self.constant(bits);
                self.add_bits(self.accesses.stores, offset as i32, bits);
            }
        }
    }

    /// Notes a store at a place that depends on data: the store's bytes are within at most two
    /// words of the set.
    fn note_computed(
        &mut self,
        set: usize,
        place: Value,
        origin: Value,
        start: i64,
        access: ProgramAccess,
    ) {
        let distance = self.builder.ins().isub(place, origin);
        let byte = self.builder.ins().iadd_imm(distance, -start);
        let word = self.builder.ins().ushr_imm(byte, 6);
        let word = self.builder.ins().ishl_imm(word, 3);
        let word = self.builder.ins().iadd(self.accesses.stores, word);
        let shift = self.builder.ins().band_imm(byte, 63);
        let bits = self.constant(bits(access));
        let low = self.builder.ins().ishl(bits, shift);
        // The bits beyond the word. A shift by 64 would shift by 0, so it is made in two steps.
        let half = self.builder.ins().ushr_imm(bits, 1);
        let back = self.constant(63);
        let back = self.builder.ins().isub(back, shift);
        let high = self.builder.ins().ushr(half, back);
        self.add_bits(word, set as i32, low);
        self.add_bits(word, set as i32 + 8, high);
    }

    fn add_bits(&mut self, base: Value, offset: i32, bits: Value) {
        let flags = MemFlags::trusted();
        let before = self.builder.ins().load(types::I64, flags, base, offset);
        let after = self.builder.ins().bor(before, bits);
        self.builder.ins().store(flags, after, base, offset);
    }
}
