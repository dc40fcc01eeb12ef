//! The names that assembler and disassembler share.

use crate::isa::{AluOperation, ByteOrder, Condition, Size, Width};

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

pub const CONDITIONS: [(Condition, &str); 11] = [
    (Condition::Equal, "jeq"),
    (Condition::NotEqual, "jne"),
    (Condition::Greater, "jgt"),
    (Condition::GreaterOrEqual, "jge"),
    (Condition::Less, "jlt"),
    (Condition::LessOrEqual, "jle"),
    (Condition::SignedGreater, "jsgt"),
    (Condition::SignedGreaterOrEqual, "jsge"),
    (Condition::SignedLess, "jslt"),
    (Condition::SignedLessOrEqual, "jsle"),
    (Condition::SharesBits, "jset"),
];

pub const ORDERS: [(ByteOrder, &str); 3] = [
    (ByteOrder::Little, "le"),
    (ByteOrder::Big, "be"),
    (ByteOrder::Swapped, "bswap"),
];

pub const SIZES: [(Size, &str); 4] = [
    (Size::Byte, "b"),
    (Size::Half, "h"),
    (Size::Word, "w"),
    (Size::Double, "dw"),
];

pub const SIGN_EXTENSIONS: [((Size, Width), &str); 5] = [
    ((Size::Byte, Width::W64), "movsx864"),
    ((Size::Half, Width::W64), "movsx1664"),
    ((Size::Word, Width::W64), "movsx3264"),
    ((Size::Byte, Width::W32), "movsx832"),
    ((Size::Half, Width::W32), "movsx1632"),
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
