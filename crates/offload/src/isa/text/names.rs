//! The names that assembler and disassembler share.

use crate::isa::{AluOperation, BranchCondition, ByteOrder, OperandSize, Width};

pub const ALU: [(AluOperation, &str); 14] = [
    (AluOperation::Add, "add"),
    (AluOperation::Subtract, "sub"),
    (AluOperation::Multiply, "mul"),
    (AluOperation::Divide, "div"),
    (AluOperation::SignedDivide, "sdiv"),
    (AluOperation::Or, "or"),
    (AluOperation::And, "and"),
    (AluOperation::ShiftLeft, "lsh"),
    (AluOperation::ShiftRight, "rsh"),
    (AluOperation::Modulo, "mod"),
    (AluOperation::SignedModulo, "smod"),
    (AluOperation::Xor, "xor"),
    (AluOperation::Move, "mov"),
    (AluOperation::ShiftRightSigned, "arsh"),
];

pub const CONDITIONS: [(BranchCondition, &str); 11] = [
    (BranchCondition::Equal, "jeq"),
    (BranchCondition::NotEqual, "jne"),
    (BranchCondition::Greater, "jgt"),
    (BranchCondition::GreaterOrEqual, "jge"),
    (BranchCondition::Less, "jlt"),
    (BranchCondition::LessOrEqual, "jle"),
    (BranchCondition::SignedGreater, "jsgt"),
    (BranchCondition::SignedGreaterOrEqual, "jsge"),
    (BranchCondition::SignedLess, "jslt"),
    (BranchCondition::SignedLessOrEqual, "jsle"),
    (BranchCondition::SharesBits, "jset"),
];

pub const ORDERS: [(ByteOrder, &str); 3] = [
    (ByteOrder::Little, "le"),
    (ByteOrder::Big, "be"),
    (ByteOrder::Swapped, "bswap"),
];

pub const SIZES: [(OperandSize, &str); 4] = [
    (OperandSize::Byte, "b"),
    (OperandSize::Half, "h"),
    (OperandSize::Word, "w"),
    (OperandSize::Double, "dw"),
];

pub const SIGN_EXTENSIONS: [((OperandSize, Width), &str); 5] = [
    ((OperandSize::Byte, Width::W64), "movsx864"),
    ((OperandSize::Half, Width::W64), "movsx1664"),
    ((OperandSize::Word, Width::W64), "movsx3264"),
    ((OperandSize::Byte, Width::W32), "movsx832"),
    ((OperandSize::Half, Width::W32), "movsx1632"),
];

pub fn named<T: Copy>(names: &[(T, &str)], name: &str) -> Option<T> {
    let found = names.iter().find(|(_, other)| *other == name);
    found.map(|&(value, _)| value)
}

pub fn name_of<T: PartialEq>(names: &[(T, &'static str)], value: T) -> &'static str {
    let found = names.iter().find(|(other, _)| *other == value);
    found.map_or("", |&(_, name)| name)
}

/// Splits the suffix that stands for 32 bits from a name.
pub fn width_of(name: &str) -> (&str, Width) {
    match name.strip_suffix("32") {
        Some(name) => (name, Width::W32),
        None => (name, Width::W64),
    }
}
