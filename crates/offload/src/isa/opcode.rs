//! The numbers of RFC 9669, sections 3 to 5.

use super::instruction::{AluOperation, BranchCondition, OperandSize};

pub const CLASS_MASK: u8 = 0x07;
pub const LD: u8 = 0x00;
pub const LDX: u8 = 0x01;
pub const ST: u8 = 0x02;
pub const STX: u8 = 0x03;
pub const ALU: u8 = 0x04;
pub const JMP: u8 = 0x05;
pub const JMP32: u8 = 0x06;
pub const ALU64: u8 = 0x07;

/// The bit which means that the source is a register.
pub const SOURCE_REGISTER: u8 = 0x08;
pub const CODE_MASK: u8 = 0xf0;

pub const MODE_MASK: u8 = 0xe0;
pub const ABS: u8 = 0x20;
pub const IND: u8 = 0x40;
pub const MEM: u8 = 0x60;
pub const MEMSX: u8 = 0x80;
pub const ATOMIC: u8 = 0xc0;

pub const NEG: u8 = 0x80;
pub const MOV: u8 = 0xb0;
pub const END: u8 = 0xd0;

pub const JA: u8 = 0x00;
pub const CALL: u8 = 0x80;
pub const EXIT: u8 = 0x90;

pub const SIZE_MASK: u8 = 0x18;

/// The opcode that loads a constant of 64 bits.
pub const LDDW: u8 = 0x18;

pub fn size(opcode: u8) -> OperandSize {
    match opcode & SIZE_MASK {
        0x00 => OperandSize::Word,
        0x08 => OperandSize::Half,
        0x10 => OperandSize::Byte,
        _ => OperandSize::Double,
    }
}

pub fn size_bits(size: OperandSize) -> u8 {
    match size {
        OperandSize::Word => 0x00,
        OperandSize::Half => 0x08,
        OperandSize::Byte => 0x10,
        OperandSize::Double => 0x18,
    }
}

/// Returns the operation of a code and of the offset field, which distinguishes signed divisions.
pub fn alu(code: u8, offset: i16) -> Option<AluOperation> {
    Some(match (code, offset) {
        (0x00, 0) => AluOperation::Add,
        (0x10, 0) => AluOperation::Subtract,
        (0x20, 0) => AluOperation::Multiply,
        (0x30, 0) => AluOperation::Divide,
        (0x30, 1) => AluOperation::SignedDivide,
        (0x40, 0) => AluOperation::Or,
        (0x50, 0) => AluOperation::And,
        (0x60, 0) => AluOperation::ShiftLeft,
        (0x70, 0) => AluOperation::ShiftRight,
        (0x90, 0) => AluOperation::Modulo,
        (0x90, 1) => AluOperation::SignedModulo,
        (0xa0, 0) => AluOperation::Xor,
        (MOV, 0) => AluOperation::Move,
        (0xc0, 0) => AluOperation::ShiftRightSigned,
        // Negation and byte orders have no second operand, and are decoded before.
        _ => return None,
    })
}

pub fn alu_code(operation: AluOperation) -> (u8, i16) {
    match operation {
        AluOperation::Add => (0x00, 0),
        AluOperation::Subtract => (0x10, 0),
        AluOperation::Multiply => (0x20, 0),
        AluOperation::Divide => (0x30, 0),
        AluOperation::SignedDivide => (0x30, 1),
        AluOperation::Or => (0x40, 0),
        AluOperation::And => (0x50, 0),
        AluOperation::ShiftLeft => (0x60, 0),
        AluOperation::ShiftRight => (0x70, 0),
        AluOperation::Modulo => (0x90, 0),
        AluOperation::SignedModulo => (0x90, 1),
        AluOperation::Xor => (0xa0, 0),
        AluOperation::Move => (MOV, 0),
        AluOperation::ShiftRightSigned => (0xc0, 0),
    }
}

pub fn condition(code: u8) -> Option<BranchCondition> {
    Some(match code {
        0x10 => BranchCondition::Equal,
        0x20 => BranchCondition::Greater,
        0x30 => BranchCondition::GreaterOrEqual,
        0x40 => BranchCondition::SharesBits,
        0x50 => BranchCondition::NotEqual,
        0x60 => BranchCondition::SignedGreater,
        0x70 => BranchCondition::SignedGreaterOrEqual,
        0xa0 => BranchCondition::Less,
        0xb0 => BranchCondition::LessOrEqual,
        0xc0 => BranchCondition::SignedLess,
        0xd0 => BranchCondition::SignedLessOrEqual,
        // Jumps, calls and exits compare nothing, and are decoded before.
        _ => return None,
    })
}

pub fn condition_code(condition: BranchCondition) -> u8 {
    match condition {
        BranchCondition::Equal => 0x10,
        BranchCondition::Greater => 0x20,
        BranchCondition::GreaterOrEqual => 0x30,
        BranchCondition::SharesBits => 0x40,
        BranchCondition::NotEqual => 0x50,
        BranchCondition::SignedGreater => 0x60,
        BranchCondition::SignedGreaterOrEqual => 0x70,
        BranchCondition::Less => 0xa0,
        BranchCondition::LessOrEqual => 0xb0,
        BranchCondition::SignedLess => 0xc0,
        BranchCondition::SignedLessOrEqual => 0xd0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_and_condition_is_listed_once() {
        let codes = (0..=u8::MAX).flat_map(|code| [(code, 0), (code, 1)]);
        let operations = codes.filter_map(|(code, offset)| alu(code, offset));
        let operations: Vec<AluOperation> = operations.collect();
        assert_eq!(operations.len(), AluOperation::ALL.len());
        for operation in operations {
            assert!(AluOperation::ALL.contains(&operation), "{operation:?}");
        }
        let conditions: Vec<BranchCondition> = (0..=u8::MAX).filter_map(condition).collect();
        assert_eq!(conditions.len(), BranchCondition::ALL.len());
        for condition in conditions {
            assert!(BranchCondition::ALL.contains(&condition), "{condition:?}");
        }
    }
}
