//! The verifier, which decides if code is a program.
//!
//! Jumps go forward only, so one pass in the order of the instructions sees every path. It tracks
//! the possible contents of each register and each word of the stack: a number in an interval, or
//! an address at a distance from the origin of a window. At a join of paths, it keeps what is true
//! on both. It proves that each access is within its window, so executors need not check it again.

mod interval;
mod refusal;
mod state;
mod value;

pub use refusal::{InstructionRefusal, VerifyError};

use super::program::ProgramAccess;
use super::window::{NODE_BYTES_MAX, ProgramWindow, REGION_BYTES};
use crate::isa::{
    AluOperation, BpfCode, BranchCondition, Instruction, Operand, OperandSize, Register,
    STACK_BYTES, Width,
};
use interval::{UnsignedInterval, opposite};
use state::AbstractState;
use value::{AbstractValue, DISTANCE_MAX};

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
    let mut longest_path = 0;
    for (index, instruction) in code.instructions().iter().enumerate() {
        pass.instruction(index, instruction)
            .map_err(|refusal| VerifyError::Instruction {
                slot: code.slot(index),
                text: code.instruction_text(index),
                refusal,
            })?;
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
                return self.jump(index, state);
            }
            Instruction::Branch {
                width,
                condition,
                left,
                right,
                ..
            } => {
                // Both sides learn from the comparison: the target that it holds, the next
                // instruction that its opposite does.
                let taken = refined(&state, width, condition, left, right)?;
                self.jump(index, taken)?;
                if let Some(opposite) = opposite(condition) {
                    state = refined(&state, width, opposite, left, right)?;
                }
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
            }
            Instruction::Store {
                size,
                base,
                offset,
                source,
            } => {
                let value = match source {
                    Operand::Register(register) => known(&state, register)?,
                    Operand::Immediate(value) => AbstractValue::Number(constant(value)),
                };
                let access = self.access(index, &state, base, offset, size, true)?;
                store(&mut state, access, source, value)?;
            }
            _ => compute(&mut state, instruction)?,
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
        let AbstractValue::Address { window, min, max } = known(state, base)? else {
            return Err(InstructionRefusal::NotAnAddress { register: base });
        };
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

    fn jump(&mut self, index: usize, state: AbstractState) -> Result<(), InstructionRefusal> {
        let target = self.code.target(index).unwrap_or_default();
        if target <= index {
            return Err(InstructionRefusal::BackwardJump);
        }
        self.reach(target, index, state);
        Ok(())
    }

    /// Notes that a path leads from one instruction to a later one.
    fn reach(&mut self, target: usize, from: usize, state: AbstractState) {
        // One pass suffices only if no path returns to an instruction that was already checked.
        debug_assert!(target > from);
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

fn constant(value: i32) -> UnsignedInterval {
    UnsignedInterval::one(i64::from(value) as u64)
}

/// Returns the value of a register, which must have been written.
fn known(state: &AbstractState, register: Register) -> Result<AbstractValue, InstructionRefusal> {
    match state.get(register) {
        AbstractValue::Unknown => Err(InstructionRefusal::Uninitialised { register }),
        value => Ok(value),
    }
}

/// Returns the interval of a register that must not hold an address.
fn number(
    state: &AbstractState,
    register: Register,
) -> Result<UnsignedInterval, InstructionRefusal> {
    match known(state, register)? {
        AbstractValue::Number(interval) => Ok(interval),
        _ => Err(InstructionRefusal::AddressArithmetic { register }),
    }
}

fn loaded(
    state: &AbstractState,
    access: ProgramAccess,
    size: OperandSize,
    signed: bool,
) -> Result<AbstractValue, InstructionRefusal> {
    if access.window == ProgramWindow::Stack {
        let (min, max) = places(access);
        if let Some(value) = state.word(min, max, access.bytes) {
            return Ok(value);
        }
        // An executor does not clear the stack: unwritten bytes may be of another traversal.
        if let Some(byte) = state.unwritten(min..max + access.bytes) {
            let offset = byte as i64 - STACK_BYTES as i64;
            return Err(InstructionRefusal::UninitialisedStack { offset });
        }
    }
    Ok(AbstractValue::Number(match signed {
        true => UnsignedInterval::ALL,
        false => UnsignedInterval::of_bits(size.bits()),
    }))
}

fn store(
    state: &mut AbstractState,
    access: ProgramAccess,
    source: Operand,
    value: AbstractValue,
) -> Result<(), InstructionRefusal> {
    let (min, max) = places(access);
    if let (AbstractValue::Address { .. }, Operand::Register(register)) = (value, source) {
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
        state.store(min, max, access.bytes, value);
    }
    Ok(())
}

/// Returns the first and last place of an access to the stack, counted from the stack's start. For
/// other windows the places mean nothing.
fn places(access: ProgramAccess) -> (usize, usize) {
    let place = |offset: i64| (offset + STACK_BYTES as i64) as usize;
    (place(access.min), place(access.max))
}

/// Applies an instruction that only changes a register.
fn compute(state: &mut AbstractState, instruction: &Instruction) -> Result<(), InstructionRefusal> {
    match *instruction {
        Instruction::Alu {
            width,
            operation,
            destination,
            source,
        } => {
            let value = alu(state, width, operation, destination, source)?;
            state.set(destination, value);
        }
        Instruction::Negate { width, destination } => {
            number(state, destination)?;
            let bits = bits(width);
            state.set(
                destination,
                AbstractValue::Number(UnsignedInterval::of_bits(bits)),
            );
        }
        Instruction::SignExtend {
            width,
            destination,
            source,
            ..
        } => {
            number(state, source)?;
            let bits = bits(width);
            state.set(
                destination,
                AbstractValue::Number(UnsignedInterval::of_bits(bits)),
            );
        }
        Instruction::Reorder {
            size, destination, ..
        } => {
            number(state, destination)?;
            let bits = size.bits();
            state.set(
                destination,
                AbstractValue::Number(UnsignedInterval::of_bits(bits)),
            );
        }
        Instruction::LoadImmediate { destination, value } => {
            state.set(
                destination,
                AbstractValue::Number(UnsignedInterval::one(value)),
            );
        }
        _ => {}
    }
    Ok(())
}

fn bits(width: Width) -> u32 {
    match width {
        Width::W32 => 32,
        Width::W64 => 64,
    }
}

fn alu(
    state: &AbstractState,
    width: Width,
    operation: AluOperation,
    destination: Register,
    source: Operand,
) -> Result<AbstractValue, InstructionRefusal> {
    let right = match source {
        Operand::Register(register) => known(state, register)?,
        Operand::Immediate(value) => AbstractValue::Number(constant(value)),
    };
    if operation == AluOperation::Move {
        return match (width, right, source) {
            (Width::W64, _, _) => Ok(right),
            (Width::W32, AbstractValue::Number(interval), _) => {
                Ok(AbstractValue::Number(interval.low_half()))
            }
            // Half of an address is neither an address nor a number that a program may see.
            (Width::W32, _, Operand::Register(register)) => {
                Err(InstructionRefusal::AddressArithmetic { register })
            }
            _ => Ok(AbstractValue::NUMBER),
        };
    }
    let left = known(state, destination)?;
    let refused = |register| Err(InstructionRefusal::AddressArithmetic { register });
    let source = match source {
        Operand::Register(register) => register,
        Operand::Immediate(_) => destination,
    };
    match (left, right, operation, width) {
        (AbstractValue::Number(a), AbstractValue::Number(b), _, _) => {
            Ok(AbstractValue::Number(a.alu(width, operation, b)))
        }
        (address, AbstractValue::Number(by), AluOperation::Add, Width::W64) => {
            moved(address, by, false)
        }
        // A sum may have the address on either side; a difference only on the left.
        (AbstractValue::Number(by), address, AluOperation::Add, Width::W64) => {
            moved(address, by, false)
        }
        (address, AbstractValue::Number(by), AluOperation::Subtract, Width::W64) => {
            moved(address, by, true)
        }
        (AbstractValue::Number(_), _, _, _) => refused(source),
        _ => refused(destination),
    }
}

/// Returns an address moved by a number.
fn moved(
    address: AbstractValue,
    by: UnsignedInterval,
    back: bool,
) -> Result<AbstractValue, InstructionRefusal> {
    let (least, most) = match by.single() {
        Some(value) => (value as i64, value as i64),
        // Seen as signed numbers, the interval must not contain both signs.
        None if by.max <= DISTANCE_MAX as u64 => (by.min as i64, by.max as i64),
        None => return Err(InstructionRefusal::Unbounded),
    };
    if least < -DISTANCE_MAX || most > DISTANCE_MAX {
        return Err(InstructionRefusal::Unbounded);
    }
    let (least, most) = if back { (-most, -least) } else { (least, most) };
    debug_assert!(least <= most);
    let AbstractValue::Address { window, min, max } = address else {
        return Ok(AbstractValue::NUMBER);
    };
    Ok(AbstractValue::Address {
        window,
        min: min + least,
        max: max + most,
    })
}

/// Returns the state if a comparison holds.
fn refined(
    state: &AbstractState,
    width: Width,
    condition: BranchCondition,
    left: Register,
    right: Operand,
) -> Result<AbstractState, InstructionRefusal> {
    let interval = |register| match known(state, register)? {
        AbstractValue::Number(interval) => Ok(interval),
        _ => Err(InstructionRefusal::ComparesAddress {
            register,
            condition,
        }),
    };
    let mut a = interval(left)?;
    let mut b = match right {
        Operand::Register(register) => interval(register)?,
        Operand::Immediate(value) => constant(value),
    };
    let mut refined = state.clone();
    if width == Width::W32 {
        // An immediate was extended to 64 bits, but only its lower half is compared.
        b = match right {
            Operand::Immediate(_) => b.low_half(),
            Operand::Register(_) => b,
        };
        // Below these bounds, the halves compare as the whole numbers do.
        let most = match condition {
            BranchCondition::SignedGreater
            | BranchCondition::SignedGreaterOrEqual
            | BranchCondition::SignedLess
            | BranchCondition::SignedLessOrEqual => i32::MAX as u64,
            _ => u32::MAX.into(),
        };
        if a.max > most || b.max > most {
            return Ok(refined);
        }
    }
    (a, b) = a.narrow_where(condition, b);
    refined.set(left, AbstractValue::Number(a));
    if let Operand::Register(register) = right
        // A register that is compared with itself has got its interval already.
        && register != left
    {
        refined.set(register, AbstractValue::Number(b));
    }
    Ok(refined)
}

#[cfg(test)]
mod tests;
