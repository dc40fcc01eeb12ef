//! The verifier, which decides if code is a program.
//!
//! Code has no loop, so one pass in an order of its paths ([`order`]) sees every path. It tracks
//! the possible contents of each register and each part of the stack: a number within bounds
//! ([`word`], [`number`]), or an address at a distance from the origin of a window. At a join of
//! paths, it keeps what is true on both. It proves that each access is within its window, so
//! executors need not check it again.
//!
//! A branch that cannot be taken is followed all the same, with what is known before it: native
//! code contains the instructions behind it, so they are checked like all others.

mod compare;
mod compute;
mod number;
mod order;
mod refusal;
mod state;
mod value;
mod word;

pub use refusal::{InstructionRefusal, VerifyError};

use super::program::ProgramAccess;
use super::window::{NODE_BYTES_MAX, ProgramWindow, REGION_BYTES};
use crate::isa::{BpfCode, Instruction, Operand, OperandSize, Register, STACK_BYTES, Width};
use compare::{BranchComparison, refined};
use number::NumberBounds;
use state::AbstractState;
use value::{AbstractAddress, AbstractNumber, AbstractValue, ValueSymbol};

/// The results of the verifier.
#[derive(Debug)]
pub struct Findings {
    /// The access of each instruction, if it is a load or a store.
    pub accesses: Vec<Option<ProgramAccess>>,
    /// The bytes of the node that are accessed, counted from the current address.
    pub node: (i64, i64),
    /// Number of instructions of the longest path.
    pub longest_path: usize,
}

/// Checks all instructions.
pub fn verify(code: &BpfCode, scratchpad: usize, allocates: bool) -> Result<Findings, VerifyError> {
    let count = code.instructions().len();
    let mut pass = VerifierPass {
        code,
        scratchpad: scratchpad as i64,
        states: vec![None; count],
        lengths: vec![0; count],
        accesses: vec![None; count],
        node: None,
    };
    if let Some(first) = pass.states.first_mut() {
        *first = Some(AbstractState::new(allocates));
    }
    let refused = |index, refusal| VerifyError::Instruction {
        slot: code.slot(index),
        text: code.instruction_text(index),
        refusal,
    };
    let order = order::visiting_order(code).map_err(|(index, refusal)| refused(index, refusal))?;
    let mut longest_path = 0;
    for index in order {
        pass.instruction(index, &code.instructions()[index])
            .map_err(|refusal| refused(index, refusal))?;
        longest_path = longest_path.max(pass.lengths[index] + 1);
    }
    // Without loops, no path has an instruction twice.
    debug_assert!(longest_path <= count);
    Ok(Findings {
        accesses: pass.accesses,
        node: pass.node.unwrap_or_default(),
        longest_path,
    })
}

struct VerifierPass<'c> {
    code: &'c BpfCode,
    scratchpad: i64,
    /// The state known before each instruction; `None` if no path has led there so far.
    states: Vec<Option<AbstractState>>,
    /// Number of instructions of the longest path to each instruction.
    lengths: Vec<usize>,
    accesses: Vec<Option<ProgramAccess>>,
    node: Option<(i64, i64)>,
}

impl VerifierPass<'_> {
    fn instruction(
        &mut self,
        index: usize,
        instruction: &Instruction,
    ) -> Result<(), InstructionRefusal> {
        let mut state = self.states[index]
            .take()
            .ok_or(InstructionRefusal::Unreachable)?;
        match *instruction {
            Instruction::Call { .. } => return Err(InstructionRefusal::Call),
            Instruction::Exit => {
                // Addresses of windows differ between executors, and mean nothing to the next
                // iteration.
                return match known(&state, Register::R0)? {
                    AbstractValue::Address { .. } => Err(InstructionRefusal::ReturnsAddress),
                    _ => Ok(()),
                };
            }
            Instruction::Jump { .. } | Instruction::LongJump { .. } => {
                self.jump(index, state);
                return Ok(());
            }
            Instruction::Branch {
                width,
                condition,
                left,
                right,
                ..
            } => {
                let comparison = BranchComparison {
                    index,
                    width,
                    condition,
                    left,
                    right,
                };
                // Both sides learn from the comparison: the target that it holds, the next
                // instruction that it does not.
                let taken = refined(&state, comparison, true)?;
                self.jump(index, taken);
                state = refined(&state, comparison, false)?;
            }
            Instruction::Load {
                size,
                signed,
                destination,
                base,
                offset,
            } => {
                let access = self.access(index, &state, base, offset, size, false)?;
                let value = loaded(&state, access, size, signed)?;
                state.set(destination, value);
                state.named(destination, ValueSymbol::of_result(index));
            }
            Instruction::Store {
                size,
                base,
                offset,
                source,
            } => {
                operand(&state, source)?;
                let access = self.access(index, &state, base, offset, size, true)?;
                store(&mut state, index, access, size, source)?;
            }
            _ => compute::compute(&mut state, index, instruction)?,
        }
        self.reach(index + 1, index, state);
        Ok(())
    }

    /// Checks a load or store, whose bytes must be within their window.
    fn access(
        &mut self,
        index: usize,
        state: &AbstractState,
        base: Register,
        offset: i16,
        size: OperandSize,
        stores: bool,
    ) -> Result<ProgramAccess, InstructionRefusal> {
        let AbstractValue::Address(address) = known(state, base)? else {
            return Err(InstructionRefusal::NotAnAddress { register: base });
        };
        let AbstractAddress {
            window, min, max, ..
        } = certain(address, base)?;
        let bytes = size.bytes() as i64;
        let (min, max) = (min + i64::from(offset), max + i64::from(offset));
        let (start, end) = (min, max + bytes);
        let bounds = match window {
            ProgramWindow::Node => None,
            ProgramWindow::Scratchpad => Some((0, self.scratchpad)),
            ProgramWindow::Allocation => Some((0, REGION_BYTES as i64)),
            ProgramWindow::Stack => Some((-(STACK_BYTES as i64), 0)),
        };
        if let Some((from, to)) = bounds
            && (start < from || end > to)
        {
            return Err(InstructionRefusal::OutOfBounds {
                window,
                start,
                end,
                from,
                to,
            });
        }
        if window == ProgramWindow::Node {
            // The window of the node is not declared. It is the span of all accesses, which one
            // load must fetch.
            let (first, last) = self.node.unwrap_or((start, end));
            let (start, end) = (first.min(start), last.max(end));
            if end - start > NODE_BYTES_MAX as i64 {
                return Err(InstructionRefusal::NodeTooLong { start, end });
            }
            self.node = Some((start, end));
        }
        let access = ProgramAccess {
            window,
            min,
            max,
            bytes: size.bytes() as usize,
            stores,
        };
        self.accesses[index] = Some(access);
        Ok(access)
    }

    fn jump(&mut self, index: usize, state: AbstractState) {
        let target = self.code.target(index).unwrap_or_default();
        self.reach(target, index, state);
    }

    /// Notes that a path leads from one instruction to another one, which is visited later.
    fn reach(&mut self, target: usize, from: usize, state: AbstractState) {
        // Code ends with an exit or a jump, so there is such an instruction.
        debug_assert!(target < self.states.len());
        let length = self.lengths[from] + 1;
        if let Some(there) = self.states.get_mut(target) {
            match there {
                Some(there) => there.join(&state),
                None => *there = Some(state),
            }
            self.lengths[target] = self.lengths[target].max(length);
        }
    }
}

fn constant(value: i32) -> NumberBounds {
    NumberBounds::one(i64::from(value) as u64)
}

/// Returns the value of a register, which must have been written.
fn known(state: &AbstractState, register: Register) -> Result<AbstractValue, InstructionRefusal> {
    match state.get(register) {
        AbstractValue::Unknown => Err(InstructionRefusal::Uninitialised { register }),
        value => Ok(value),
    }
}

/// Returns the value of an operand, which must have been written.
fn operand(state: &AbstractState, operand: Operand) -> Result<AbstractValue, InstructionRefusal> {
    match operand {
        Operand::Register(register) => known(state, register),
        Operand::Immediate(value) => Ok(AbstractValue::number(constant(value))),
    }
}

/// Returns the number of a register that must not hold an address.
fn number_of(
    state: &AbstractState,
    register: Register,
) -> Result<AbstractNumber, InstructionRefusal> {
    match known(state, register)? {
        AbstractValue::Number(number) => Ok(number),
        _ => Err(InstructionRefusal::AddressArithmetic { register }),
    }
}

/// Returns an address that is certain not to be zero instead.
fn certain(
    address: AbstractAddress,
    register: Register,
) -> Result<AbstractAddress, InstructionRefusal> {
    match address.or_zero {
        true => Err(InstructionRefusal::MayBeZero { register }),
        false => Ok(address),
    }
}

fn loaded(
    state: &AbstractState,
    access: ProgramAccess,
    size: OperandSize,
    signed: bool,
) -> Result<AbstractValue, InstructionRefusal> {
    let mut bounds = NumberBounds::of_bits(size.bits());
    if access.window == ProgramWindow::Stack {
        let (min, max) = places(access);
        match state.load(min, max, size) {
            Some(AbstractValue::Number(number)) if signed => bounds = number.bounds,
            Some(value) => return Ok(value),
            // An executor does not clear the stack: unwritten bytes may be of another traversal.
            None => {
                if let Some(byte) = state.unwritten(min..max + access.bytes) {
                    let offset = byte as i64 - STACK_BYTES as i64;
                    return Err(InstructionRefusal::UninitialisedStack { offset });
                }
            }
        }
    }
    if signed {
        bounds = bounds.sign_extended(size, Width::W64);
    }
    Ok(AbstractValue::number(bounds))
}

fn store(
    state: &mut AbstractState,
    index: usize,
    access: ProgramAccess,
    size: OperandSize,
    source: Operand,
) -> Result<(), InstructionRefusal> {
    let (min, max) = places(access);
    let value = match source {
        // The register and its copy on the stack stay equal, and the verifier sees that by the
        // name.
        Operand::Register(register) => state.named(register, ValueSymbol::of_operand(index)),
        Operand::Immediate(value) => AbstractValue::number(constant(value)),
    };
    if let (AbstractValue::Address(_), Operand::Register(register)) = (value, source) {
        let whole = access.window == ProgramWindow::Stack
            && access.bytes == 8
            && min == max
            && min.is_multiple_of(8);
        // Elsewhere its bytes would outlive the iteration, or be loaded as a number.
        if !whole {
            return Err(InstructionRefusal::StoresAddress { register });
        }
    }
    if access.window == ProgramWindow::Stack {
        state.store(min, max, size, value);
    }
    Ok(())
}

/// Returns the first and last place of an access to the stack, counted from the stack's start. For
/// other windows the places mean nothing.
fn places(access: ProgramAccess) -> (usize, usize) {
    let place = |offset: i64| (offset + STACK_BYTES as i64) as usize;
    (place(access.min), place(access.max))
}

#[cfg(test)]
mod tests;
