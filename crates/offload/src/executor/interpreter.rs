//! The executor that defines the semantics of code.

use super::machine::{BpfMachine, CALL_DEPTH_MAX, ExecutionFault};
use super::memory::InterpreterMemory;
use super::workspace::{TraversalWorkspace, WorkspaceWindows};
use crate::isa::arithmetic::{alu32, alu64, compare32, compare64, reorder, sign_extend};
use crate::isa::{BpfCode, Instruction, Operand, Register, STACK_BYTES, Width};
use crate::program::{NodeLoad, TraversalProgram};

/// An executor that runs one instruction after the other, and checks every access.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interpreter;

/// The registers that a call preserves.
const KEPT: [Register; 4] = [Register::R6, Register::R7, Register::R8, Register::R9];

/// The return position of a function, with the registers that its caller keeps.
struct Frame {
    index: usize,
    kept: [u64; 4],
}

impl Interpreter {
    /// Runs code to its exit, and returns register 0. Makes at most `budget` backward jumps and
    /// calls, which bounds the number of instructions, too.
    ///
    /// # Errors
    /// See [`ExecutionFault`]. Stores before the fault stay.
    pub fn run(
        self,
        code: &BpfCode,
        machine: &mut BpfMachine<'_>,
        budget: u64,
    ) -> Result<u64, ExecutionFault> {
        let registers = machine.registers;
        InterpreterRun::new(code, registers, machine, budget).finish()
    }

    /// Runs one iteration of a program, and returns the address of the next node, or zero at the
    /// end of the traversal.
    ///
    /// # Errors
    /// None for a verified program: a fault is a mistake of the verifier.
    pub fn iterate(
        self,
        program: &TraversalProgram,
        workspace: &mut TraversalWorkspace,
    ) -> Result<u64, ExecutionFault> {
        self.iterate_code(program.code(), program.node_load(), workspace, 0)
    }

    /// Runs one iteration of any code, verified or not. Checks each access against the windows; the
    /// window of the node has the bytes of `load`. Registers and bytes of the stack that are not
    /// set hold `garbage`; a program's results do not depend on it.
    ///
    /// Makes at most one backward jump or call for each instruction. Programs have no loops, so
    /// they execute no instruction twice, and never need more.
    ///
    /// # Errors
    /// See [`ExecutionFault`].
    pub fn iterate_code(
        self,
        code: &BpfCode,
        load: NodeLoad,
        workspace: &mut TraversalWorkspace,
        garbage: u64,
    ) -> Result<u64, ExecutionFault> {
        let mut windows = WorkspaceWindows::new(workspace, load, garbage);
        let registers = windows.registers(garbage);
        let budget = code.instructions().len() as u64;
        InterpreterRun::new(code, registers, &mut windows, budget).finish()
    }

    /// Runs an iteration as [`iterate`](Interpreter::iterate) does, and counts the instructions,
    /// too.
    ///
    /// # Errors
    /// As [`iterate`](Interpreter::iterate).
    pub fn iterate_counting(
        self,
        program: &TraversalProgram,
        workspace: &mut TraversalWorkspace,
    ) -> Result<(u64, u64), ExecutionFault> {
        let mut windows = WorkspaceWindows::new(workspace, program.node_load(), 0);
        let registers = windows.registers(0);
        let code = program.code();
        let budget = code.instructions().len() as u64;
        let mut run = InterpreterRun::new(code, registers, &mut windows, budget);
        let next = run.finish()?;
        Ok((next, run.instructions))
    }
}

struct InterpreterRun<'r, M> {
    registers: [u64; 11],
    frames: Vec<Frame>,
    budget: u64,
    machine: &'r mut M,
    code: &'r BpfCode,
    instructions: u64,
}

impl<'r, M: InterpreterMemory> InterpreterRun<'r, M> {
    fn new(
        code: &'r BpfCode,
        registers: [u64; 11],
        machine: &'r mut M,
        budget: u64,
    ) -> InterpreterRun<'r, M> {
        InterpreterRun {
            registers,
            frames: Vec::new(),
            budget,
            machine,
            code,
            instructions: 0,
        }
    }

    fn finish(&mut self) -> Result<u64, ExecutionFault> {
        let mut index = 0;
        loop {
            debug_assert!(
                index < self.code.instructions().len(),
                "control stays inside"
            );
            let slot = self.code.slot(index);
            self.instructions += 1;
            match self.step(index, slot)? {
                Some(next) => index = next,
                None => return Ok(self.get(Register::R0)),
            }
        }
    }

    /// Executes an instruction, and returns the index of the next one, or `None` at the end.
    fn step(&mut self, index: usize, slot: usize) -> Result<Option<usize>, ExecutionFault> {
        let Some(instruction) = self.code.instructions().get(index) else {
            // Code ends with an exit or a jump, so this is never reached.
            return Ok(None);
        };
        match *instruction {
            Instruction::Load {
                size,
                signed,
                destination,
                base,
                offset,
            } => {
                // The sum wraps around as in native code. `load` checks where it ends.
                let address = self.get(base).wrapping_add_signed(offset.into());
                let Some(value) = self.machine.load(address, size) else {
                    let bytes = size.bytes();
                    return Err(ExecutionFault::Access {
                        slot,
                        address,
                        bytes,
                    });
                };
                let extended = if signed {
                    sign_extend(size, value)
                } else {
                    value
                };
                self.set(destination, extended);
            }
            Instruction::Store {
                size,
                base,
                offset,
                source,
            } => {
                let address = self.get(base).wrapping_add_signed(offset.into());
                let value = self.operand(source);
                if self.machine.store(address, size, value).is_none() {
                    let bytes = size.bytes();
                    return Err(ExecutionFault::Access {
                        slot,
                        address,
                        bytes,
                    });
                }
            }
            Instruction::Jump { .. } | Instruction::LongJump { .. } => {
                // Both kinds of jumps have their target in the code, so their fields are not read
                // again.
                return self.jump(index, slot).map(Some);
            }
            Instruction::Branch {
                width,
                condition,
                left,
                right,
                ..
            } => {
                let (left, right) = (self.get(left), self.operand(right));
                let holds = match width {
                    Width::W32 => compare32(condition, left as u32, right as u32),
                    Width::W64 => compare64(condition, left, right),
                };
                if holds {
                    return self.jump(index, slot).map(Some);
                }
            }
            Instruction::Call { .. } => return self.call(index, slot).map(Some),
            Instruction::Exit => return Ok(self.leave()),
            _ => self.compute(instruction),
        }
        Ok(Some(index + 1))
    }

    /// Executes an instruction that only changes a register.
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
                    Width::W32 => alu32(operation, a as u32, b as u32).into(),
                    Width::W64 => alu64(operation, a, b),
                };
                self.set(destination, result);
            }
            Instruction::Negate { width, destination } => {
                let value = self.get(destination);
                let result = match width {
                    Width::W32 => (value as u32).wrapping_neg().into(),
                    Width::W64 => value.wrapping_neg(),
                };
                self.set(destination, result);
            }
            Instruction::SignExtend {
                width,
                from,
                destination,
                source,
            } => {
                let value = sign_extend(from, self.get(source));
                let result = match width {
                    Width::W32 => u64::from(value as u32),
                    Width::W64 => value,
                };
                self.set(destination, result);
            }
            Instruction::Reorder {
                order,
                size,
                destination,
            } => {
                let value = self.get(destination);
                self.set(destination, reorder(order, size, value));
            }
            Instruction::LoadImmediate { destination, value } => self.set(destination, value),
            _ => {}
        }
    }

    fn jump(&mut self, index: usize, slot: usize) -> Result<usize, ExecutionFault> {
        debug_assert!(self.code.target(index).is_some());
        let target = self.code.target(index).unwrap_or_default();
        // Only backward jumps spend: without one, each instruction is executed once at most.
        if target <= index {
            self.spend(slot)?;
        }
        Ok(target)
    }

    fn call(&mut self, index: usize, slot: usize) -> Result<usize, ExecutionFault> {
        // The budget is checked before the depth, as in native code: both executors must return the
        // same fault.
        self.spend(slot)?;
        debug_assert!(self.frames.len() < CALL_DEPTH_MAX);
        // The first function is active without a frame.
        if self.frames.len() + 1 == CALL_DEPTH_MAX {
            return Err(ExecutionFault::CallDepth { slot });
        }
        let frame = Frame {
            index: index + 1,
            kept: KEPT.map(|register| self.get(register)),
        };
        self.frames.push(frame);
        // The stacks of all depths are adjacent, and the register has the end of the active one.
        let end = self.get(Register::R10) + STACK_BYTES as u64;
        self.set(Register::R10, end);
        Ok(self.code.target(index).unwrap_or_default())
    }

    /// Returns from a function. The index is `None` at the end of the run.
    fn leave(&mut self) -> Option<usize> {
        let frame = self.frames.pop()?;
        for (register, value) in KEPT.into_iter().zip(frame.kept) {
            self.set(register, value);
        }
        let end = self.get(Register::R10) - STACK_BYTES as u64;
        self.set(Register::R10, end);
        Some(frame.index)
    }

    fn spend(&mut self, slot: usize) -> Result<(), ExecutionFault> {
        self.budget = self
            .budget
            .checked_sub(1)
            .ok_or(ExecutionFault::Budget { slot })?;
        Ok(())
    }

    fn get(&self, register: Register) -> u64 {
        self.registers[usize::from(register.number())]
    }

    fn set(&mut self, register: Register, value: u64) {
        self.registers[usize::from(register.number())] = value;
    }

    fn operand(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.get(register),
            // Operations of 32 bits use the lower half, so one extension of the sign serves both
            // widths.
            Operand::Immediate(immediate) => i64::from(immediate) as u64,
        }
    }
}
