//! The knowledge that comparisons give.

use super::number::NumberBounds;
use super::refusal::InstructionRefusal;
use super::state::AbstractState;
use super::value::{AbstractValue, ValueSymbol};
use super::{certain, known, operand};
use crate::isa::{BranchCondition, Operand, Register, Width};

/// The comparison of a branch.
#[derive(Clone, Copy, Debug)]
pub struct BranchComparison {
    /// The index of the instruction.
    pub index: usize,
    pub width: Width,
    pub condition: BranchCondition,
    pub left: Register,
    pub right: Operand,
}

/// Returns the state if a comparison holds, or if it does not.
pub fn refined(
    state: &AbstractState,
    comparison: BranchComparison,
    holds: bool,
) -> Result<AbstractState, InstructionRefusal> {
    let BranchComparison {
        index,
        width,
        condition,
        left,
        right,
    } = comparison;
    let (a, b) = (known(state, left)?, operand(state, right)?);
    let mut refined = state.clone();
    let right = match right {
        Operand::Register(register) => Some(register),
        Operand::Immediate(_) => None,
    };
    // A register is named where it is an address, so the other side of the branch names it alike.
    match (a, b) {
        (AbstractValue::Number(a), AbstractValue::Number(b)) => {
            let narrowed = a.bounds.narrow_where(width, condition, holds, b.bounds);
            // If no numbers are left, no execution takes this side.
            if let Some((a, b)) = narrowed {
                refined.learn(left, a);
                if let Some(right) = right {
                    refined.learn(right, b);
                }
            }
        }
        (AbstractValue::Address(a), AbstractValue::Address(b)) => {
            comparable(comparison, a.window == b.window)?;
            certain(a, left)?;
            certain(b, right.unwrap_or(left))?;
            // Sums with addresses wrap around at the end of memory, so their order may not be that
            // of the distances, and nothing is learned from it. Nor is it from equality, which
            // programs do not use to find bounds.
        }
        (AbstractValue::Address(_), AbstractValue::Number(number)) => {
            comparable(comparison, is_zero(number.bounds, condition))?;
            compare_zero(
                &mut refined,
                left,
                index,
                (condition == BranchCondition::Equal) == holds,
            );
        }
        (AbstractValue::Number(number), AbstractValue::Address(_)) => {
            comparable(comparison, is_zero(number.bounds, condition))?;
            let right = right.unwrap_or(left);
            compare_zero(
                &mut refined,
                right,
                index,
                (condition == BranchCondition::Equal) == holds,
            );
        }
        // `known` returns numbers and addresses only.
        (AbstractValue::Unknown, _) | (_, AbstractValue::Unknown) => {}
    }
    Ok(refined)
}

/// Returns true for the test if an address is zero, which shows nothing else of it.
fn is_zero(number: NumberBounds, condition: BranchCondition) -> bool {
    let equality = matches!(
        condition,
        BranchCondition::Equal | BranchCondition::NotEqual
    );
    equality && number.single() == Some(0)
}

/// Refuses a comparison that would show a part of an address, or where windows are.
fn comparable(comparison: BranchComparison, is_allowed: bool) -> Result<(), InstructionRefusal> {
    // Halves of addresses and their bits depend on where the window is.
    let whole = comparison.width == Width::W64;
    if is_allowed && whole && comparison.condition != BranchCondition::SharesBits {
        return Ok(());
    }
    Err(InstructionRefusal::ComparesAddress {
        register: comparison.left,
        condition: comparison.condition,
    })
}

/// Notes that an address is zero, or that it is not.
fn compare_zero(state: &mut AbstractState, register: Register, index: usize, is_zero: bool) {
    if let AbstractValue::Address(address) = state.named(register, ValueSymbol::of_operand(index)) {
        state.learn_zero(address, is_zero);
    }
}
