//! Instructions that only change a register.

use super::number::NumberBounds;
use super::refusal::InstructionRefusal;
use super::state::AbstractState;
use super::value::{
    AbstractAddress, AbstractNumber, AbstractValue, DISTANCE_MAX, KnownDivision, KnownDivisor,
    LowOrigin, SymbolRelation, ValueSymbol,
};
use super::{certain, known, number_of, operand};
use crate::isa::{AluOperation, Instruction, Operand, OperandSize, Register, Width};
use crate::program::ProgramWindow;

/// Applies an instruction. Its result gets a name.
pub fn compute(
    state: &mut AbstractState,
    index: usize,
    instruction: &Instruction,
) -> Result<(), InstructionRefusal> {
    let (destination, value) = match *instruction {
        Instruction::Alu {
            width,
            operation: AluOperation::Move,
            destination,
            source,
        } => (destination, moved(state, index, width, source)?),
        Instruction::Alu {
            width,
            operation,
            destination,
            source,
        } => {
            // A divisor is recognized by its name when its quotient is multiplied.
            if let Operand::Register(register) = source {
                state.named(register, ValueSymbol::of_operand(index));
            }
            let value = alu(state, width, operation, destination, source)?;
            (destination, value)
        }
        Instruction::Negate { width, destination } => {
            let bounds = number_of(state, destination)?.bounds.negated(width);
            (destination, AbstractValue::number(bounds))
        }
        Instruction::SignExtend {
            width,
            from,
            destination,
            source,
        } => {
            let operand = number_of(state, source)?;
            let mut extended = AbstractNumber::new(operand.bounds.sign_extended(from, width));
            if from == OperandSize::Word {
                extended.relation = LowOrigin::of(operand).map(SymbolRelation::LowHalf);
            }
            (destination, AbstractValue::Number(extended))
        }
        Instruction::Reorder {
            order,
            size,
            destination,
        } => {
            let bounds = number_of(state, destination)?.bounds.reordered(order, size);
            (destination, AbstractValue::number(bounds))
        }
        Instruction::LoadImmediate { destination, value } => {
            let bounds = NumberBounds::one(value);
            (destination, AbstractValue::number(bounds))
        }
        _ => return Ok(()),
    };
    state.set(destination, value);
    state.named(destination, ValueSymbol::of_result(index));
    Ok(())
}

/// Returns a copy. The original gets a name if it has none, so that both have the same one.
fn moved(
    state: &mut AbstractState,
    index: usize,
    width: Width,
    source: Operand,
) -> Result<AbstractValue, InstructionRefusal> {
    let mut value = operand(state, source)?;
    if let Operand::Register(register) = source {
        value = state.named(register, ValueSymbol::of_operand(index));
    }
    let is_same = match value {
        AbstractValue::Number(number) => width == Width::W64 || number.bounds.has_no_upper_half(),
        _ => width == Width::W64,
    };
    match (value, source) {
        (value, Operand::Register(_)) if is_same => Ok(value),
        (AbstractValue::Number(number), _) => {
            let mut low = AbstractNumber::new(number.bounds.truncated(match width {
                Width::W32 => OperandSize::Word,
                Width::W64 => OperandSize::Double,
            }));
            low.relation = LowOrigin::of(number).map(SymbolRelation::LowHalf);
            Ok(AbstractValue::Number(low))
        }
        // Half of an address is neither an address nor a number that a program may see.
        (_, Operand::Register(register)) => Err(InstructionRefusal::AddressArithmetic { register }),
        (value, Operand::Immediate(_)) => Ok(value),
    }
}

fn alu(
    state: &AbstractState,
    width: Width,
    operation: AluOperation,
    destination: Register,
    source: Operand,
) -> Result<AbstractValue, InstructionRefusal> {
    let right = operand(state, source)?;
    let left = known(state, destination)?;
    let refused = |register| Err(InstructionRefusal::AddressArithmetic { register });
    let source = match source {
        Operand::Register(register) => register,
        Operand::Immediate(_) => destination,
    };
    match (left, right, operation, width) {
        (AbstractValue::Number(a), AbstractValue::Number(b), _, _) => {
            Ok(AbstractValue::Number(combined(width, operation, a, b)))
        }
        (
            AbstractValue::Address(address),
            AbstractValue::Number(by),
            AluOperation::Add,
            Width::W64,
        ) => displaced(certain(address, destination)?, by, false),
        // A sum may have the address on either side; a difference only on the left.
        (
            AbstractValue::Number(by),
            AbstractValue::Address(address),
            AluOperation::Add,
            Width::W64,
        ) => displaced(certain(address, source)?, by, false),
        (
            AbstractValue::Address(address),
            AbstractValue::Number(by),
            AluOperation::Subtract,
            Width::W64,
        ) => displaced(certain(address, destination)?, by, true),
        // The distance of two places in one window does not depend on where the window is.
        (
            AbstractValue::Address(a),
            AbstractValue::Address(b),
            AluOperation::Subtract,
            Width::W64,
        ) if a.window == b.window => {
            let (a, b) = (certain(a, destination)?, certain(b, source)?);
            let bounds = NumberBounds::signed(a.min - b.max, a.max - b.min);
            Ok(AbstractValue::number(bounds))
        }
        // Compilers add the last bits to an aligned place of the stack so. Both executors align
        // the stack to 8 bytes, so no bit is in both operands, and the result is the sum.
        (
            AbstractValue::Address(address),
            AbstractValue::Number(bits),
            AluOperation::Or,
            Width::W64,
        ) if address.window == ProgramWindow::Stack
            && address.min == address.max
            && address.min % 8 == 0
            && bits.bounds.whole.max < 8 =>
        {
            displaced(certain(address, destination)?, bits, false)
        }
        (AbstractValue::Number(_), _, _, _) => refused(source),
        _ => refused(destination),
    }
}

/// Returns an address moved by a number.
fn displaced(
    address: AbstractAddress,
    by: AbstractNumber,
    back: bool,
) -> Result<AbstractValue, InstructionRefusal> {
    // An addition wraps around, so a large number without sign is a negative one.
    let (least, most) = (by.bounds.whole.signed_min, by.bounds.whole.signed_max);
    if least < -DISTANCE_MAX || most > DISTANCE_MAX {
        return Err(InstructionRefusal::Unbounded);
    }
    let (least, most) = if back { (-most, -least) } else { (least, most) };
    debug_assert!(least <= most);
    Ok(AbstractValue::Address(AbstractAddress {
        min: address.min + least,
        max: address.max + most,
        symbol: None,
        ..address
    }))
}

/// Returns the result of an operation on two numbers.
fn combined(
    width: Width,
    operation: AluOperation,
    a: AbstractNumber,
    b: AbstractNumber,
) -> AbstractNumber {
    let mut result = AbstractNumber::new(a.bounds.alu(width, operation, b.bounds));
    let by = b.bounds.single();
    result.relation = match operation {
        AluOperation::Divide => quotient(width, a, b),
        // The operands of a product may have either order.
        AluOperation::Multiply => multiple(width, a, b).or_else(|| multiple(width, b, a)),
        AluOperation::Add => by.and_then(|plus| sum(width, a, plus)),
        AluOperation::Subtract => {
            if let Some(remainder) = remainder(width, a, b) {
                // Both bounds hold, so their common numbers do.
                result.bounds = result.bounds.meet(remainder).unwrap_or(remainder);
            }
            by.and_then(|minus| sum(width, a, minus.wrapping_neg()))
        }
        AluOperation::ShiftLeft if width == Width::W64 && by == Some(32) => {
            LowOrigin::of(a).map(|of| SymbolRelation::Raised {
                of,
                is_low: a.bounds.has_no_upper_half(),
                extends: a.bounds.extends_low_half(),
            })
        }
        AluOperation::ShiftRight | AluOperation::ShiftRightSigned
            if width == Width::W64 && by == Some(32) =>
        {
            lower(&mut result, operation, a)
        }
        _ => None,
    };
    result
}

/// Returns true if an operation on halves is the one on whole numbers.
fn is_whole(width: Width, a: AbstractNumber, b: AbstractNumber) -> bool {
    width == Width::W64 || a.bounds.has_no_upper_half() && b.bounds.has_no_upper_half()
}

fn sum(width: Width, a: AbstractNumber, plus: u64) -> Option<SymbolRelation> {
    let of = match (width, a.relation) {
        // The lower half of a sum depends on the lower halves only.
        (Width::W32, Some(SymbolRelation::LowHalf(LowOrigin { of, .. }))) => Some(of),
        _ => a.symbol,
    };
    of.map(|of| SymbolRelation::Sum { of, plus, width })
}

fn quotient(width: Width, a: AbstractNumber, b: AbstractNumber) -> Option<SymbolRelation> {
    let is_low = a.bounds.has_no_upper_half();
    let low_of = match a.relation {
        Some(SymbolRelation::LowHalf(LowOrigin { of, .. })) if is_low => Some(of),
        _ => None,
    };
    let division = KnownDivision {
        of: a.symbol?,
        low_of,
        by: KnownDivisor::of(b)?,
        is_low,
    };
    is_whole(width, a, b).then_some(SymbolRelation::Quotient(division))
}

/// Returns the relation of a product, if it multiplies a quotient by its divisor.
fn multiple(
    width: Width,
    quotient: AbstractNumber,
    factor: AbstractNumber,
) -> Option<SymbolRelation> {
    let Some(SymbolRelation::Quotient(division)) = quotient.relation else {
        return None;
    };
    // The product is at most the dividend, so it does not wrap around if the dividend fits.
    let fits = width == Width::W64 || division.is_low && is_whole(width, quotient, factor);
    let is_multiple = fits && division.by.is(factor);
    is_multiple.then_some(SymbolRelation::Multiple(division))
}

/// Returns the bounds of `a - b`, if that is a remainder: compilers without an instruction for it
/// compute `x - x / n * n`. With zero as the divisor, that is `x`, as the remainder is.
fn remainder(width: Width, a: AbstractNumber, b: AbstractNumber) -> Option<NumberBounds> {
    let Some(SymbolRelation::Multiple(division)) = b.relation else {
        return None;
    };
    let dividend = if a.symbol == Some(division.of) && is_whole(width, a, b) {
        a.bounds
    } else if width == Width::W32 && a.symbol.is_some() && a.symbol == division.low_of {
        // The lower half of `a` is the dividend, and the product is not above it.
        a.bounds.truncated(OperandSize::Word)
    } else {
        return None;
    };
    let by = division.by.bounds();
    Some(dividend.alu(Width::W64, AluOperation::Modulo, by))
}

/// Finds what a number is that was shifted left by 32 bits and right again: its lower half,
/// extended. If it was the extension of its lower half before, it is the same number again.
fn lower(
    result: &mut AbstractNumber,
    operation: AluOperation,
    raised: AbstractNumber,
) -> Option<SymbolRelation> {
    let Some(SymbolRelation::Raised {
        of,
        is_low,
        extends,
    }) = raised.relation
    else {
        return None;
    };
    let is_same = match operation {
        AluOperation::ShiftRight => is_low,
        _ => extends,
    };
    if is_same {
        result.symbol = Some(of.of);
    }
    Some(SymbolRelation::LowHalf(of))
}
