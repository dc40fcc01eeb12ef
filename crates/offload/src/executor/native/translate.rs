//! From code to Cranelift's intermediate language.
//!
//! All functions of the code become one function. Registers are its variables; calls push the
//! registers that they keep, and the number of the call, by which an exit finds the way back.

use super::call::{ACCESS, BUDGET, CALL_DEPTH, Context};
use crate::executor::machine::{CALL_DEPTH_MAX, STACK_BYTES};
use crate::isa::{
    AluOperation, ByteOrder, Code, Condition, Instruction, Operand, Register, Size, Width,
};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, Endianness, FuncRef, Function, InstBuilder, MemFlags, Signature,
    Type, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Switch, Variable};

/// What translated code names outside of itself.
pub struct Names {
    pub resolve: FuncRef,
    pub pointer: Type,
}

/// Context and machine; the result is register 0.
pub fn entry_signature(signature: &mut Signature, pointer: Type) {
    signature.params.extend([AbiParam::new(pointer); 2]);
    signature.returns.push(AbiParam::new(types::I64));
}

/// Machine, address and number of bytes; the result is a pointer.
pub fn resolve_signature(signature: &mut Signature, pointer: Type) {
    let parameters = [pointer, types::I64, types::I64].map(AbiParam::new);
    signature.params.extend(parameters);
    signature.returns.push(AbiParam::new(pointer));
}

/// Fills the body of a function.
pub fn translate(code: &Code, function: &mut Function, names: Names) {
    let mut frontend = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(function, &mut frontend);
    let registers = std::array::from_fn(|_| builder.declare_var(types::I64));
    let (budget, depth) = (
        builder.declare_var(types::I64),
        builder.declare_var(types::I64),
    );
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let (context, machine) = match *builder.block_params(entry) {
        [context, machine] => (context, machine),
        _ => unreachable!("the signature has two parameters"),
    };
    let fault = builder.create_block();
    for kind in [types::I64; 4] {
        builder.append_block_param(fault, kind);
    }
    let mut translation = Translation {
        blocks: blocks(code, &mut builder),
        builder,
        code,
        names,
        registers,
        budget,
        depth,
        context,
        machine,
        fault,
        exit: None,
    };
    translation.begin();
    for (index, instruction) in code.instructions().iter().enumerate() {
        translation.instruction(index, instruction);
    }
    translation.end();
    translation.builder.seal_all_blocks();
    translation.builder.finalize();
}

/// A block for each instruction where one begins.
fn blocks(code: &Code, builder: &mut FunctionBuilder<'_>) -> Vec<Option<Block>> {
    let instructions = code.instructions();
    let mut begins = vec![false; instructions.len() + 1];
    begins[0] = true;
    for (index, instruction) in instructions.iter().enumerate() {
        if let Some(target) = code.target(index) {
            begins[target] = true;
        }
        if instruction.distance().is_some() || *instruction == Instruction::Exit {
            begins[index + 1] = true;
        }
    }
    begins.pop();
    let block = |begins: bool| begins.then(|| builder.create_block());
    begins.into_iter().map(block).collect()
}

struct Translation<'t> {
    builder: FunctionBuilder<'t>,
    code: &'t Code,
    names: Names,
    /// The block that begins at each instruction.
    blocks: Vec<Option<Block>>,
    registers: [Variable; 11],
    budget: Variable,
    /// How many functions called each other; the first is 0.
    depth: Variable,
    context: Value,
    machine: Value,
    /// Its parameters are status, slot, address and bytes.
    fault: Block,
    /// Where exits go, if there are calls.
    exit: Option<Block>,
}

impl Translation<'_> {
    fn begin(&mut self) {
        for (number, &variable) in self.registers.clone().iter().enumerate() {
            let offset = Context::REGISTERS + 8 * number as i32;
            let value = self.load_context(offset);
            self.builder.def_var(variable, value);
        }
        let budget = self.load_context(Context::BUDGET);
        self.builder.def_var(self.budget, budget);
        let zero = self.constant(0);
        self.builder.def_var(self.depth, zero);
        let is_call = |instruction: &Instruction| matches!(instruction, Instruction::Call { .. });
        if self.code.instructions().iter().any(is_call) {
            self.exit = Some(self.builder.create_block());
        }
        self.go_to(0);
    }

    /// The blocks that instructions share: of faults and of exits.
    fn end(&mut self) {
        self.builder.switch_to_block(self.fault);
        self.builder.set_cold_block(self.fault);
        let parameters = self.builder.block_params(self.fault).to_vec();
        let places = [
            Context::STATUS,
            Context::SLOT,
            Context::ADDRESS,
            Context::BYTES,
        ];
        for (value, place) in parameters.into_iter().zip(places) {
            let flags = MemFlags::trusted();
            self.builder.ins().store(flags, value, self.context, place);
        }
        let zero = self.constant(0);
        self.builder.ins().return_(&[zero]);
        if let Some(exit) = self.exit {
            self.leave(exit);
        }
    }

    /// Returns from the function, or from the program.
    fn leave(&mut self, exit: Block) {
        self.builder.switch_to_block(exit);
        let depth = self.builder.use_var(self.depth);
        let (last, back) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(depth, back, &[], last, &[]);
        self.builder.switch_to_block(last);
        self.end_program();
        self.builder.switch_to_block(back);
        let depth = self.builder.ins().iadd_imm(depth, -1);
        self.builder.def_var(self.depth, depth);
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
        let mut switch = Switch::new();
        for (index, instruction) in self.code.instructions().iter().enumerate() {
            if let (Instruction::Call { .. }, Some(block)) = (instruction, self.block(index + 1)) {
                switch.set_entry(index as u128, block);
            }
        }
        // A frame has the number of a call, so this is not reached.
        let nowhere = self.builder.create_block();
        switch.emit(&mut self.builder, call, nowhere);
        self.builder.switch_to_block(nowhere);
        self.end_program();
    }

    fn end_program(&mut self) {
        let result = self.get(Register::R0);
        self.builder.ins().return_(&[result]);
    }

    fn instruction(&mut self, index: usize, instruction: &Instruction) {
        if let Some(block) = self.block(index) {
            self.builder.switch_to_block(block);
        }
        match *instruction {
            Instruction::Jump { .. } | Instruction::LongJump { .. } => self.jump(index),
            Instruction::Branch {
                width,
                condition,
                left,
                right,
                ..
            } => {
                let holds = self.compare(width, condition, left, right);
                let (taken, next) = (self.builder.create_block(), index + 1);
                let next = self.block(next).unwrap_or(self.fault);
                self.builder.ins().brif(holds, taken, &[], next, &[]);
                self.builder.switch_to_block(taken);
                self.jump(index);
            }
            Instruction::Call { .. } => self.call(index),
            Instruction::Exit => match self.exit {
                Some(exit) => {
                    self.builder.ins().jump(exit, &[]);
                }
                None => self.end_program(),
            },
            Instruction::Load {
                size,
                signed,
                destination,
                base,
                offset,
            } => {
                let place = self.resolve(index, size, base, offset);
                let (flags, kind) = (memory(), integer(size));
                let value = self.builder.ins().load(kind, flags, place, 0);
                let value = match (size, signed) {
                    (Size::Double, _) => value,
                    (_, true) => self.builder.ins().sextend(types::I64, value),
                    (_, false) => self.builder.ins().uextend(types::I64, value),
                };
                self.set(destination, value);
            }
            Instruction::Store {
                size,
                base,
                offset,
                source,
            } => {
                let place = self.resolve(index, size, base, offset);
                let value = self.operand(source);
                let value = self.low(size, value);
                self.builder.ins().store(memory(), value, place, 0);
            }
            _ => self.compute(instruction),
        }
        let continues = instruction.distance().is_none() && *instruction != Instruction::Exit;
        if continues && self.block(index + 1).is_some() {
            self.go_to(index + 1);
        }
    }

    fn compute(&mut self, instruction: &Instruction) {
        match *instruction {
            Instruction::Alu {
                width,
                operation,
                destination,
                source,
            } => {
                let (a, b) = (self.get(destination), self.operand(source));
                let result = match width {
                    Width::W64 => self.alu(types::I64, operation, a, b),
                    Width::W32 => {
                        let (a, b) = (self.low(Size::Word, a), self.low(Size::Word, b));
                        let result = self.alu(types::I32, operation, a, b);
                        self.builder.ins().uextend(types::I64, result)
                    }
                };
                self.set(destination, result);
            }
            Instruction::Negate { width, destination } => {
                let value = self.get(destination);
                let result = self.builder.ins().ineg(value);
                let result = self.narrowed(width, result);
                self.set(destination, result);
            }
            Instruction::SignExtend {
                width,
                from,
                destination,
                source,
            } => {
                let value = self.get(source);
                let value = self.low(from, value);
                let result = self.builder.ins().sextend(types::I64, value);
                let result = self.narrowed(width, result);
                self.set(destination, result);
            }
            Instruction::Reorder {
                order,
                size,
                destination,
            } => {
                let value = self.get(destination);
                let mut value = self.low(size, value);
                if order != ByteOrder::Little {
                    value = self.builder.ins().bswap(value);
                }
                if size != Size::Double {
                    value = self.builder.ins().uextend(types::I64, value);
                }
                self.set(destination, value);
            }
            Instruction::LoadImmediate { destination, value } => {
                let value = self.constant(value as i64);
                self.set(destination, value);
            }
            _ => {}
        }
    }

    fn alu(&mut self, kind: Type, operation: AluOperation, a: Value, b: Value) -> Value {
        match operation {
            AluOperation::Divide
            | AluOperation::SignedDivide
            | AluOperation::Modulo
            | AluOperation::SignedModulo => return self.divide(kind, operation, a, b),
            _ => {}
        }
        let ins = self.builder.ins();
        match operation {
            AluOperation::Add => ins.iadd(a, b),
            AluOperation::Subtract => ins.isub(a, b),
            AluOperation::Multiply => ins.imul(a, b),
            AluOperation::Or => ins.bor(a, b),
            AluOperation::And => ins.band(a, b),
            // Cranelift's shifts use the lower bits of the distance, too.
            AluOperation::ShiftLeft => ins.ishl(a, b),
            AluOperation::ShiftRight => ins.ushr(a, b),
            AluOperation::ShiftRightSigned => ins.sshr(a, b),
            AluOperation::Xor => ins.bxor(a, b),
            _ => b,
        }
    }

    /// Division traps in Cranelift where it does not here, so those divisors are replaced by 1, and
    /// then the results.
    fn divide(&mut self, kind: Type, operation: AluOperation, a: Value, b: Value) -> Value {
        let is_zero = self.builder.ins().icmp_imm(IntCC::Equal, b, 0);
        let one = self.builder.ins().iconst(kind, 1);
        let divisor = self.builder.ins().select(is_zero, one, b);
        let zero = self.builder.ins().iconst(kind, 0);
        match operation {
            AluOperation::Divide => {
                let quotient = self.builder.ins().udiv(a, divisor);
                self.builder.ins().select(is_zero, zero, quotient)
            }
            AluOperation::Modulo => {
                let rest = self.builder.ins().urem(a, divisor);
                self.builder.ins().select(is_zero, a, rest)
            }
            _ => {
                let is_minus_one = self.builder.ins().icmp_imm(IntCC::Equal, b, -1);
                let divisor = self.builder.ins().select(is_minus_one, one, divisor);
                if operation == AluOperation::SignedModulo {
                    // The remainder of a division by 1 is that of one by -1: zero.
                    let rest = self.builder.ins().srem(a, divisor);
                    return self.builder.ins().select(is_zero, a, rest);
                }
                let quotient = self.builder.ins().sdiv(a, divisor);
                let negative = self.builder.ins().ineg(a);
                let quotient = self.builder.ins().select(is_minus_one, negative, quotient);
                self.builder.ins().select(is_zero, zero, quotient)
            }
        }
    }

    fn compare(
        &mut self,
        width: Width,
        condition: Condition,
        left: Register,
        right: Operand,
    ) -> Value {
        let (mut a, mut b) = (self.get(left), self.operand(right));
        if width == Width::W32 {
            (a, b) = (self.low(Size::Word, a), self.low(Size::Word, b));
        }
        let code = match condition {
            Condition::Equal => IntCC::Equal,
            Condition::NotEqual => IntCC::NotEqual,
            Condition::Greater => IntCC::UnsignedGreaterThan,
            Condition::GreaterOrEqual => IntCC::UnsignedGreaterThanOrEqual,
            Condition::Less => IntCC::UnsignedLessThan,
            Condition::LessOrEqual => IntCC::UnsignedLessThanOrEqual,
            Condition::SignedGreater => IntCC::SignedGreaterThan,
            Condition::SignedGreaterOrEqual => IntCC::SignedGreaterThanOrEqual,
            Condition::SignedLess => IntCC::SignedLessThan,
            Condition::SignedLessOrEqual => IntCC::SignedLessThanOrEqual,
            Condition::SharesBits => return self.builder.ins().band(a, b),
        };
        self.builder.ins().icmp(code, a, b)
    }

    /// Ends the block with the jump of an instruction.
    fn jump(&mut self, index: usize) {
        let target = self.code.target(index).unwrap_or_default();
        if target <= index {
            self.spend(index);
        }
        self.go_to(target);
    }

    fn call(&mut self, index: usize) {
        self.spend(index);
        let depth = self.builder.use_var(self.depth);
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
        self.builder.def_var(self.depth, depth);
        let stack = self.get(Register::R10);
        let stack = self.builder.ins().iadd_imm(stack, STACK_BYTES as i64);
        self.set(Register::R10, stack);
        self.go_to(self.code.target(index).unwrap_or_default());
    }

    fn spend(&mut self, index: usize) {
        let budget = self.builder.use_var(self.budget);
        let empty = self.builder.ins().icmp_imm(IntCC::Equal, budget, 0);
        let zero = self.constant(0);
        self.fault_if(empty, BUDGET, index, [zero, zero]);
        let budget = self.builder.ins().iadd_imm(budget, -1);
        self.builder.def_var(self.budget, budget);
    }

    /// The pointer of an access.
    fn resolve(&mut self, index: usize, size: Size, base: Register, offset: i16) -> Value {
        let base = self.get(base);
        let address = self.builder.ins().iadd_imm(base, i64::from(offset));
        let bytes = self.constant(size.bytes() as i64);
        let arguments = [self.machine, address, bytes];
        let call = self.builder.ins().call(self.names.resolve, &arguments);
        let place = match *self.builder.inst_results(call) {
            [place] => place,
            _ => unreachable!("the signature has one result"),
        };
        let null = self.builder.ins().icmp_imm(IntCC::Equal, place, 0);
        self.fault_if(null, ACCESS, index, [address, bytes]);
        debug_assert_eq!(self.names.pointer, types::I64);
        place
    }

    /// Ends the program with a fault if a condition holds, and goes on otherwise.
    fn fault_if(&mut self, condition: Value, status: i64, index: usize, details: [Value; 2]) {
        let status = self.constant(status);
        let slot = self.constant(self.code.slot(index) as i64);
        let [address, bytes] = details;
        let arguments = [status, slot, address, bytes].map(BlockArg::Value);
        let (fault, next) = (self.fault, self.builder.create_block());
        let ins = self.builder.ins();
        ins.brif(condition, fault, &arguments, next, &[]);
        self.builder.switch_to_block(next);
    }

    /// The address of a frame.
    fn frame(&mut self, depth: Value) -> Value {
        let offset = self.builder.ins().imul_imm(depth, Context::FRAME_BYTES);
        let offset = self
            .builder
            .ins()
            .iadd_imm(offset, i64::from(Context::FRAMES));
        self.builder.ins().iadd(self.context, offset)
    }

    fn block(&self, index: usize) -> Option<Block> {
        self.blocks.get(index).copied().flatten()
    }

    fn go_to(&mut self, index: usize) {
        let block = self.block(index).unwrap_or(self.fault);
        self.builder.ins().jump(block, &[]);
    }

    fn get(&mut self, register: Register) -> Value {
        self.builder
            .use_var(self.registers[usize::from(register.number())])
    }

    fn set(&mut self, register: Register, value: Value) {
        self.builder
            .def_var(self.registers[usize::from(register.number())], value);
    }

    fn operand(&mut self, operand: Operand) -> Value {
        match operand {
            Operand::Register(register) => self.get(register),
            Operand::Immediate(immediate) => self.constant(immediate.into()),
        }
    }

    fn constant(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    fn load_context(&mut self, offset: i32) -> Value {
        let flags = MemFlags::trusted();
        self.builder
            .ins()
            .load(types::I64, flags, self.context, offset)
    }

    /// The lower bytes of a value.
    fn low(&mut self, size: Size, value: Value) -> Value {
        match size {
            Size::Double => value,
            _ => self.builder.ins().ireduce(integer(size), value),
        }
    }

    /// A value of 64 bits, or its lower 32 bits.
    fn narrowed(&mut self, width: Width, value: Value) -> Value {
        if width == Width::W64 {
            return value;
        }
        let low = self.low(Size::Word, value);
        self.builder.ins().uextend(types::I64, low)
    }
}

/// The registers that a call keeps.
const KEPT: [Register; 4] = [Register::R6, Register::R7, Register::R8, Register::R9];

fn integer(size: Size) -> Type {
    match size {
        Size::Byte => types::I8,
        Size::Half => types::I16,
        Size::Word => types::I32,
        Size::Double => types::I64,
    }
}

/// Memory of a program: checked, unaligned, little-endian.
fn memory() -> MemFlags {
    MemFlags::new()
        .with_notrap()
        .with_endianness(Endianness::Little)
}
