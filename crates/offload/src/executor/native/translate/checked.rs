//! The translation of any code: each access calls a function that checks it, and backward jumps and
//! calls spend a budget.

use super::{Accesses, Translation, enter, finish};
use crate::executor::machine::CALL_DEPTH_MAX;
use crate::executor::native::call::{ACCESS, BUDGET, CALL_DEPTH, NativeContext};
use crate::isa::{BpfCode, Instruction, OperandSize, Register, STACK_BYTES};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, FuncRef, Function, InstBuilder, MemFlags, Signature, Type, Value,
    types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Switch, Variable};

/// The function and the type that translated code refers to.
pub struct ResolverSymbols {
    pub resolve: FuncRef,
    pub pointer: Type,
}

/// Sets the signature of the code: its parameters are context and machine, its result is register
/// 0.
pub fn entry_signature(signature: &mut Signature, pointer: Type) {
    signature.params.extend([AbiParam::new(pointer); 2]);
    signature.returns.push(AbiParam::new(types::I64));
}

/// Sets the signature of `resolve`: its parameters are machine, address and number of bytes, its
/// result is a pointer.
pub fn resolve_signature(signature: &mut Signature, pointer: Type) {
    let parameters = [pointer, types::I64, types::I64].map(AbiParam::new);
    signature.params.extend(parameters);
    signature.returns.push(AbiParam::new(pointer));
}

/// Translates code into the body of a function.
pub fn translate(code: &BpfCode, function: &mut Function, names: ResolverSymbols) {
    let mut frontend = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(function, &mut frontend);
    let (budget, depth) = (
        builder.declare_var(types::I64),
        builder.declare_var(types::I64),
    );
    let [context, machine] = enter(&mut builder);
    let fault = builder.create_block();
    for kind in [types::I64; 4] {
        builder.append_block_param(fault, kind);
    }
    let accesses = CheckedAccesses {
        names,
        budget,
        depth,
        context,
        machine,
        fault,
        exit: None,
    };
    let mut translation = Translation::new(builder, code, accesses);
    translation.begin();
    translation.instructions();
    translation.end();
    finish(translation.builder);
}

/// The values that checked code uses.
pub struct CheckedAccesses {
    names: ResolverSymbols,
    budget: Variable,
    /// Number of callers of the active function; 0 in the first one.
    depth: Variable,
    context: Value,
    machine: Value,
    /// The block of faults. Its parameters are status, slot, address and bytes.
    fault: Block,
    /// The block of exits, if there are calls.
    exit: Option<Block>,
}

impl Accesses for CheckedAccesses {
    /// Calls the function that checks the access.
    fn place(
        translation: &mut Translation<'_, CheckedAccesses>,
        index: usize,
        size: OperandSize,
        base: Register,
        offset: i16,
    ) -> Value {
        translation.resolve(index, size, base, offset)
    }

    fn stored(_: &mut Translation<'_, CheckedAccesses>, _: usize, _: Value) {}

    fn jumps_back(translation: &mut Translation<'_, CheckedAccesses>, index: usize) {
        translation.spend(index);
    }

    fn call(translation: &mut Translation<'_, CheckedAccesses>, index: usize) {
        translation.call(index);
    }

    fn exit(translation: &mut Translation<'_, CheckedAccesses>) {
        match translation.accesses.exit {
            Some(exit) => {
                translation.builder.ins().jump(exit, &[]);
            }
            None => translation.end_program(),
        }
    }
}

impl Translation<'_, CheckedAccesses> {
    fn begin(&mut self) {
        for (number, &variable) in self.registers.clone().iter().enumerate() {
            let offset = NativeContext::REGISTERS + 8 * number as i32;
            let value = self.load_context(offset);
            self.builder.def_var(variable, value);
        }
        let budget = self.load_context(NativeContext::BUDGET);
        self.builder.def_var(self.accesses.budget, budget);
        let zero = self.constant(0);
        self.builder.def_var(self.accesses.depth, zero);
        // Without calls, an exit ends the program, and needs no block that looks at the depth.
        let is_call = |instruction: &Instruction| matches!(instruction, Instruction::Call { .. });
        if self.code.instructions().iter().any(is_call) {
            self.accesses.exit = Some(self.builder.create_block());
        }
        self.go_to(0);
    }

    /// Fills the blocks that instructions share: those of faults and of exits.
    fn end(&mut self) {
        self.builder.switch_to_block(self.accesses.fault);
        // Cranelift moves the block behind the others, so that they are closer together.
        self.builder.set_cold_block(self.accesses.fault);
        let parameters = self.builder.block_params(self.accesses.fault).to_vec();
        let places = [
            NativeContext::STATUS,
            NativeContext::SLOT,
            NativeContext::ADDRESS,
            NativeContext::BYTES,
        ];
        for (value, place) in parameters.into_iter().zip(places) {
            let flags = MemFlags::trusted();
            self.builder
                .ins()
                .store(flags, value, self.accesses.context, place);
        }
        let zero = self.constant(0);
        self.builder.ins().return_(&[zero]);
        if let Some(exit) = self.accesses.exit {
            self.leave(exit);
        }
    }

    /// Returns from the function, or from the program.
    fn leave(&mut self, exit: Block) {
        self.builder.switch_to_block(exit);
        let depth = self.builder.use_var(self.accesses.depth);
        let (last, back) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(depth, back, &[], last, &[]);
        self.builder.switch_to_block(last);
        self.end_program();
        self.builder.switch_to_block(back);
        let depth = self.builder.ins().iadd_imm(depth, -1);
        self.builder.def_var(self.accesses.depth, depth);
        let frame = self.frame(depth);
        for (position, register) in KEPT.into_iter().enumerate() {
            let (flags, offset) = (MemFlags::trusted(), 8 * position as i32);
            let value = self.builder.ins().load(types::I64, flags, frame, offset);
            self.set(register, value);
        }
        let flags = MemFlags::trusted();
        let call = self.builder.ins().load(types::I64, flags, frame, 32);
        let stack = self.get(Register::R10);
        let stack = self.builder.ins().iadd_imm(stack, -(STACK_BYTES as i64));
        self.set(Register::R10, stack);
        // Cranelift has no jump to a computed address. So a frame holds the index of its call, and
        // the switch finds the block after that call.
        let mut switch = Switch::new();
        let code = self.code;
        for (index, instruction) in code.instructions().iter().enumerate() {
            if let Instruction::Call { .. } = instruction {
                let block = self.block(index + 1);
                switch.set_entry(index as u128, block);
            }
        }
        // A frame holds the index of a call, so this is never reached.
        let nowhere = self.builder.create_block();
        switch.emit(&mut self.builder, call, nowhere);
        self.builder.switch_to_block(nowhere);
        self.end_program();
    }

    fn call(&mut self, index: usize) {
        // The budget is checked before the depth, as by the interpreter.
        self.spend(index);
        let depth = self.builder.use_var(self.accesses.depth);
        // The first function is active, too, and has no frame.
        let last = CALL_DEPTH_MAX as i64 - 1;
        let full = self.builder.ins().icmp_imm(IntCC::Equal, depth, last);
        let zero = self.constant(0);
        self.fault_if(full, CALL_DEPTH, index, [zero, zero]);
        let frame = self.frame(depth);
        for (position, register) in KEPT.into_iter().enumerate() {
            let (flags, offset) = (MemFlags::trusted(), 8 * position as i32);
            let value = self.get(register);
            self.builder.ins().store(flags, value, frame, offset);
        }
        let call = self.constant(index as i64);
        let flags = MemFlags::trusted();
        self.builder.ins().store(flags, call, frame, 32);
        let depth = self.builder.ins().iadd_imm(depth, 1);
        self.builder.def_var(self.accesses.depth, depth);
        let stack = self.get(Register::R10);
        let stack = self.builder.ins().iadd_imm(stack, STACK_BYTES as i64);
        self.set(Register::R10, stack);
        self.go_to(self.code.target(index).unwrap_or_default());
    }

    fn spend(&mut self, index: usize) {
        let budget = self.builder.use_var(self.accesses.budget);
        let empty = self.builder.ins().icmp_imm(IntCC::Equal, budget, 0);
        let zero = self.constant(0);
        self.fault_if(empty, BUDGET, index, [zero, zero]);
        let budget = self.builder.ins().iadd_imm(budget, -1);
        self.builder.def_var(self.accesses.budget, budget);
    }

    /// Returns the pointer of an access.
    fn resolve(&mut self, index: usize, size: OperandSize, base: Register, offset: i16) -> Value {
        let base = self.get(base);
        let address = self.builder.ins().iadd_imm(base, i64::from(offset));
        let bytes = self.constant(size.bytes() as i64);
        let arguments = [self.accesses.machine, address, bytes];
        let call = self
            .builder
            .ins()
            .call(self.accesses.names.resolve, &arguments);
        let place = match *self.builder.inst_results(call) {
            [place] => place,
            _ => unreachable!("the signature has one result"),
        };
        let null = self.builder.ins().icmp_imm(IntCC::Equal, place, 0);
        self.fault_if(null, ACCESS, index, [address, bytes]);
        debug_assert_eq!(self.accesses.names.pointer, types::I64);
        place
    }

    /// Ends the program with a fault if a condition holds, and continues otherwise.
    fn fault_if(&mut self, condition: Value, status: i64, index: usize, details: [Value; 2]) {
        let status = self.constant(status);
        let slot = self.constant(self.code.slot(index) as i64);
        let [address, bytes] = details;
        let arguments = [status, slot, address, bytes].map(BlockArg::Value);
        let (fault, next) = (self.accesses.fault, self.builder.create_block());
        let ins = self.builder.ins();
        ins.brif(condition, fault, &arguments, next, &[]);
        self.builder.switch_to_block(next);
    }

    /// Computes the address of a frame.
    fn frame(&mut self, depth: Value) -> Value {
        let offset = self
            .builder
            .ins()
            .imul_imm(depth, NativeContext::FRAME_BYTES);
        let offset = self
            .builder
            .ins()
            .iadd_imm(offset, i64::from(NativeContext::FRAMES));
        self.builder.ins().iadd(self.accesses.context, offset)
    }

    fn load_context(&mut self, offset: i32) -> Value {
        let flags = MemFlags::trusted();
        self.builder
            .ins()
            .load(types::I64, flags, self.accesses.context, offset)
    }
}

/// The registers that a call preserves.
const KEPT: [Register; 4] = [Register::R6, Register::R7, Register::R8, Register::R9];
