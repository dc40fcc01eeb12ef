//! The translation from code to Cranelift's intermediate language.
//!
//! All functions of the code become one function. Registers are its variables. [`checked`] and
//! [`verified`] define the access to memory, and the checks besides.

mod arithmetic;
pub mod checked;
pub mod round;
pub mod verified;

use crate::isa::{BpfCode, Instruction, Operand, OperandSize, Register};
use cranelift_codegen::ir::{Block, Endianness, InstBuilder, MemFlags, Type, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};

/// The translation of accesses to memory, backward jumps, calls and exits.
pub trait Accesses: Sized {
    /// Returns the pointer of a load or store.
    fn place(
        translation: &mut Translation<'_, Self>,
        index: usize,
        size: OperandSize,
        base: Register,
        offset: i16,
    ) -> Value;

    /// Adds the work that follows a store.
    fn stored(translation: &mut Translation<'_, Self>, index: usize, place: Value);

    /// Adds the work before a backward jump.
    fn jumps_back(translation: &mut Translation<'_, Self>, index: usize);

    /// Ends the block with a call.
    fn call(translation: &mut Translation<'_, Self>, index: usize);

    /// Ends the block with an exit.
    fn exit(translation: &mut Translation<'_, Self>);
}

/// Creates a block at each instruction where one begins.
fn blocks(code: &BpfCode, builder: &mut FunctionBuilder<'_>) -> Vec<Option<Block>> {
    let instructions = code.instructions();
    // One place more than instructions: the last one exits or jumps, which marks the place after
    // it.
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

/// Begins the body of a function. Returns its parameters.
fn enter<const PARAMETERS: usize>(builder: &mut FunctionBuilder<'_>) -> [Value; PARAMETERS] {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let parameters = builder.block_params(entry).try_into();
    parameters.unwrap_or_else(|_| unreachable!("the signature has {PARAMETERS} parameters"))
}

/// A translation in progress.
pub struct Translation<'t, A> {
    builder: FunctionBuilder<'t>,
    code: &'t BpfCode,
    /// The block that begins at each instruction.
    blocks: Vec<Option<Block>>,
    registers: [Variable; 11],
    accesses: A,
}

impl<'t, A> Translation<'t, A> {
    fn new(mut builder: FunctionBuilder<'t>, code: &'t BpfCode, accesses: A) -> Translation<'t, A> {
        Translation {
            blocks: blocks(code, &mut builder),
            registers: std::array::from_fn(|_| builder.declare_var(types::I64)),
            builder,
            code,
            accesses,
        }
    }
}

/// Ends the body of a function.
fn finish(mut builder: FunctionBuilder<'_>) {
    // Backward jumps give a block predecessors late, so no block is sealed before the end.
    builder.seal_all_blocks();
    builder.finalize();
}

impl<A: Accesses> Translation<'_, A> {
    fn instructions(&mut self) {
        let code = self.code;
        for (index, instruction) in code.instructions().iter().enumerate() {
            self.instruction(index, instruction);
        }
    }

    fn end_program(&mut self) {
        let result = self.get(Register::R0);
        self.builder.ins().return_(&[result]);
    }

    fn instruction(&mut self, index: usize, instruction: &Instruction) {
        if self.begins_block(index) {
            let block = self.block(index);
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
                // The taken side may have to spend budget first, so it needs a block before that of
                // its target.
                let taken = self.builder.create_block();
                let next = self.block(index + 1);
                self.builder.ins().brif(holds, taken, &[], next, &[]);
                self.builder.switch_to_block(taken);
                self.jump(index);
            }
            Instruction::Call { .. } => A::call(self, index),
            Instruction::Exit => A::exit(self),
            Instruction::Load {
                size,
                signed,
                destination,
                base,
                offset,
            } => {
                let place = A::place(self, index, size, base, offset);
                let (flags, kind) = (memory(), integer(size));
                let value = self.builder.ins().load(kind, flags, place, 0);
                let value = match (size, signed) {
                    // Cranelift refuses to extend a value to its own type.
                    (OperandSize::Double, _) => value,
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
                let place = A::place(self, index, size, base, offset);
                let value = self.operand(source);
                // The type of the value is the store's size.
                let value = self.low(size, value);
                self.builder.ins().store(memory(), value, place, 0);
                A::stored(self, index, place);
            }
            _ => self.compute(instruction),
        }
        // Blocks of Cranelift do not fall through: each ends with a jump.
        let continues = instruction.distance().is_none() && *instruction != Instruction::Exit;
        if continues && self.begins_block(index + 1) {
            self.go_to(index + 1);
        }
    }

    /// Ends the block with the jump of an instruction.
    fn jump(&mut self, index: usize) {
        let target = self.code.target(index).unwrap_or_default();
        if target <= index {
            A::jumps_back(self, index);
        }
        self.go_to(target);
    }

    fn begins_block(&self, index: usize) -> bool {
        self.blocks.get(index).is_some_and(Option::is_some)
    }

    /// Returns the block of an instruction where one begins: the target of a jump, or the
    /// instruction after a jump. Code does not end with an instruction that continues, so there is
    /// such a block.
    fn block(&mut self, index: usize) -> Block {
        debug_assert!(
            self.begins_block(index),
            "no block begins at instruction {index}"
        );
        match self.blocks.get(index).copied().flatten() {
            Some(block) => block,
            None => self.builder.create_block(),
        }
    }

    fn go_to(&mut self, index: usize) {
        let block = self.block(index);
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
}

fn integer(size: OperandSize) -> Type {
    match size {
        OperandSize::Byte => types::I8,
        OperandSize::Half => types::I16,
        OperandSize::Word => types::I32,
        OperandSize::Double => types::I64,
    }
}

/// Returns the flags of accesses by code: checked or verified, unaligned, little-endian.
fn memory() -> MemFlags {
    // They never trap: `resolve` or the verifier has found the bytes to be accessible. There is no
    // flag of alignment, because code may access any place.
    MemFlags::new()
        .with_notrap()
        .with_endianness(Endianness::Little)
}
