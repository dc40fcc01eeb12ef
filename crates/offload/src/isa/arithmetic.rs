//! The results of operations and comparisons: RFC 9669, sections 4.1 to 4.3.

use super::instruction::{AluOperation, BranchCondition, ByteOrder, OperandSize};

/// Computes an operation on 64 bits.
///
/// ```
/// use nearfield_offload::isa::{AluOperation, arithmetic::alu64};
/// assert_eq!(alu64(AluOperation::Divide, 7, 0), 0);
/// assert_eq!(alu64(AluOperation::Modulo, 7, 0), 7);
/// assert_eq!(alu64(AluOperation::ShiftLeft, 1, 65), 2);
/// ```
pub fn alu64(operation: AluOperation, a: u64, b: u64) -> u64 {
    let (signed_a, signed_b) = (a as i64, b as i64);
    match operation {
        AluOperation::Add => a.wrapping_add(b),
        AluOperation::Subtract => a.wrapping_sub(b),
        AluOperation::Multiply => a.wrapping_mul(b),
        AluOperation::Divide => a.checked_div(b).unwrap_or(0),
        AluOperation::SignedDivide if b == 0 => 0,
        // The least number divided by -1 is itself, which `wrapping_div` returns instead of a
        // panic.
        AluOperation::SignedDivide => signed_a.wrapping_div(signed_b) as u64,
        AluOperation::Or => a | b,
        AluOperation::And => a & b,
        // Like BPF, wrapping shifts use only the lower 6 bits of the distance.
        AluOperation::ShiftLeft => a.wrapping_shl(b as u32),
        AluOperation::ShiftRight => a.wrapping_shr(b as u32),
        AluOperation::Modulo => a.checked_rem(b).unwrap_or(a),
        AluOperation::SignedModulo if b == 0 => a,
        AluOperation::SignedModulo => signed_a.wrapping_rem(signed_b) as u64,
        AluOperation::Xor => a ^ b,
        AluOperation::Move => b,
        AluOperation::ShiftRightSigned => signed_a.wrapping_shr(b as u32) as u64,
    }
}

/// Computes an operation on 32 bits.
pub fn alu32(operation: AluOperation, a: u32, b: u32) -> u32 {
    let (signed_a, signed_b) = (a as i32, b as i32);
    match operation {
        AluOperation::SignedDivide if b == 0 => 0,
        AluOperation::SignedDivide => signed_a.wrapping_div(signed_b) as u32,
        AluOperation::SignedModulo if b == 0 => a,
        AluOperation::SignedModulo => signed_a.wrapping_rem(signed_b) as u32,
        AluOperation::ShiftLeft => a.wrapping_shl(b),
        AluOperation::ShiftRight => a.wrapping_shr(b),
        AluOperation::ShiftRightSigned => signed_a.wrapping_shr(b) as u32,
        // For the other operations, the lower half of the result depends on the lower halves only,
        // or the result has no upper half.
        _ => alu64(operation, a.into(), b.into()) as u32,
    }
}

/// Returns true if a comparison of 64 bits holds.
pub fn compare64(condition: BranchCondition, a: u64, b: u64) -> bool {
    let (signed_a, signed_b) = (a as i64, b as i64);
    match condition {
        BranchCondition::Equal => a == b,
        BranchCondition::NotEqual => a != b,
        BranchCondition::Greater => a > b,
        BranchCondition::GreaterOrEqual => a >= b,
        BranchCondition::Less => a < b,
        BranchCondition::LessOrEqual => a <= b,
        BranchCondition::SignedGreater => signed_a > signed_b,
        BranchCondition::SignedGreaterOrEqual => signed_a >= signed_b,
        BranchCondition::SignedLess => signed_a < signed_b,
        BranchCondition::SignedLessOrEqual => signed_a <= signed_b,
        BranchCondition::SharesBits => a & b != 0,
    }
}

/// Returns true if a comparison of 32 bits holds.
pub fn compare32(condition: BranchCondition, a: u32, b: u32) -> bool {
    // Sign extension keeps the order of both signed and unsigned numbers, and shared bits.
    let extend = |half: u32| half as i32 as i64 as u64;
    compare64(condition, extend(a), extend(b))
}

/// Changes the byte order of a value. Bytes above its size are zero.
pub fn reorder(order: ByteOrder, size: OperandSize, value: u64) -> u64 {
    let low = value & (u64::MAX >> (64 - size.bits()));
    match order {
        // Memory is little-endian for programs on every processor, so nothing is swapped.
        ByteOrder::Little => low,
        // Swapping all 8 bytes puts those of the size at the upper end.
        ByteOrder::Big | ByteOrder::Swapped => low.swap_bytes() >> (64 - size.bits()),
    }
}

/// Extends the sign of a value from its size.
pub fn sign_extend(size: OperandSize, value: u64) -> u64 {
    let unused = 64 - size.bits();
    // The sign of a shift to the right is that of the highest bit, so put it there first.
    ((value << unused) as i64 >> unused) as u64
}
