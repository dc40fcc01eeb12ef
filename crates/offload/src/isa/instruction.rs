//! Instructions, independent of their encoding.

use std::fmt;

/// Size of the stack of one function, in bytes. It is below the address in register 10.
pub const STACK_BYTES: usize = 512;

/// A register of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names describe the variants")]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The frame pointer: the end of the stack. No instruction writes it.
    R10,
}

impl Register {
    /// All registers, in the order of their numbers.
    pub const ALL: [Register; 11] = [
        Register::R0,
        Register::R1,
        Register::R2,
        Register::R3,
        Register::R4,
        Register::R5,
        Register::R6,
        Register::R7,
        Register::R8,
        Register::R9,
        Register::R10,
    ];

    /// Returns the register of a number, if there is one.
    pub fn from_number(number: u8) -> Option<Register> {
        Register::ALL.get(usize::from(number)).copied()
    }

    /// Returns the number.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Register {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "r{}", self.number())
    }
}

/// The second operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The content of a register.
    Register(Register),
    /// A constant. Its sign is extended if the operation has 64 bits.
    Immediate(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Operand {
        Operand::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(immediate: i32) -> Operand {
        Operand::Immediate(immediate)
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Register(register) => register.fmt(formatter),
            Operand::Immediate(immediate) => immediate.fmt(formatter),
        }
    }
}

/// The width of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// The lower 32 bits of the operands. The upper 32 bits of the result are zero.
    W32,
    /// All 64 bits.
    W64,
}

impl Width {
    /// Both widths.
    pub const ALL: [Width; 2] = [Width::W32, Width::W64];
}

/// The size of a value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperandSize {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
    /// 8 bytes.
    Double,
}

impl OperandSize {
    /// All sizes, in ascending order.
    pub const ALL: [OperandSize; 4] = [
        OperandSize::Byte,
        OperandSize::Half,
        OperandSize::Word,
        OperandSize::Double,
    ];

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            OperandSize::Byte => 1,
            OperandSize::Half => 2,
            OperandSize::Word => 4,
            OperandSize::Double => 8,
        }
    }

    /// Returns the number of bits.
    pub const fn bits(self) -> u32 {
        8 * self.bytes() as u32
    }
}

/// Operations with two operands, of which the first receives the result. A division by zero returns
/// zero; the remainder of a division by zero is the dividend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AluOperation {
    /// Sum, which wraps around.
    Add,
    /// Difference, which wraps around.
    Subtract,
    /// Product, which wraps around.
    Multiply,
    /// Quotient of unsigned numbers.
    Divide,
    /// Quotient of signed numbers, truncated toward zero. The least number divided by -1 is
    /// itself.
    SignedDivide,
    /// Bits that are in one of both.
    Or,
    /// Bits that are in both.
    And,
    /// Shift to the left. Shifts use the lower 5 or 6 bits of the second operand.
    ShiftLeft,
    /// Shift to the right that fills with zeros.
    ShiftRight,
    /// Remainder of unsigned numbers.
    Modulo,
    /// Remainder of signed numbers, which has the sign of the dividend.
    SignedModulo,
    /// Bits that are in exactly one.
    Xor,
    /// The second operand.
    Move,
    /// Shift to the right that fills with the sign.
    ShiftRightSigned,
}

impl AluOperation {
    /// All operations.
    pub const ALL: [AluOperation; 14] = [
        AluOperation::Add,
        AluOperation::Subtract,
        AluOperation::Multiply,
        AluOperation::Divide,
        AluOperation::SignedDivide,
        AluOperation::Or,
        AluOperation::And,
        AluOperation::ShiftLeft,
        AluOperation::ShiftRight,
        AluOperation::Modulo,
        AluOperation::SignedModulo,
        AluOperation::Xor,
        AluOperation::Move,
        AluOperation::ShiftRightSigned,
    ];
}

/// The comparison of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names describe the variants")]
pub enum BranchCondition {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    SignedGreater,
    SignedGreaterOrEqual,
    SignedLess,
    SignedLessOrEqual,
    /// A bit is in both operands.
    SharesBits,
}

impl BranchCondition {
    /// All conditions. The last one is the only one that is not a comparison of numbers.
    pub const ALL: [BranchCondition; 11] = [
        BranchCondition::Equal,
        BranchCondition::NotEqual,
        BranchCondition::Greater,
        BranchCondition::GreaterOrEqual,
        BranchCondition::Less,
        BranchCondition::LessOrEqual,
        BranchCondition::SignedGreater,
        BranchCondition::SignedGreaterOrEqual,
        BranchCondition::SignedLess,
        BranchCondition::SignedLessOrEqual,
        BranchCondition::SharesBits,
    ];
}

/// An order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// A conversion to or from little-endian. The machine is little-endian, so that this only
    /// truncates.
    Little,
    /// A conversion to or from big-endian.
    Big,
    /// The reverse of the present order.
    Swapped,
}

impl ByteOrder {
    /// All orders.
    pub const ALL: [ByteOrder; 3] = [ByteOrder::Little, ByteOrder::Big, ByteOrder::Swapped];
}

/// One instruction. Distances of jumps count slots of 8 bytes from the next instruction, as in the
/// bytes; [`LoadImmediate`](Instruction::LoadImmediate) has two slots, other instructions one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// `destination = destination operation source`.
    Alu {
        /// The width of operands and result.
        width: Width,
        /// The operation.
        operation: AluOperation,
        /// The first operand, and the result.
        destination: Register,
        /// The second operand.
        source: Operand,
    },
    /// `destination = -destination`.
    Negate {
        /// The width of operand and result.
        width: Width,
        /// The operand, and the result.
        destination: Register,
    },
    /// Extends the sign of the lower bits of a register to `width`.
    SignExtend {
        /// The width of the result.
        width: Width,
        /// The size of the lower bits: smaller than `width`.
        from: OperandSize,
        /// The result.
        destination: Register,
        /// The operand.
        source: Register,
    },
    /// Changes the order of the lower bytes, and clears the others.
    Reorder {
        /// The order.
        order: ByteOrder,
        /// The number of bytes; more than one.
        size: OperandSize,
        /// The operand, and the result.
        destination: Register,
    },
    /// A constant of 64 bits.
    LoadImmediate {
        /// The register.
        destination: Register,
        /// The constant.
        value: u64,
    },
    /// Loads from memory, little-endian.
    Load {
        /// The size of the value in memory.
        size: OperandSize,
        /// True if the sign is extended, false if the upper bits are zero. Never true for 8 bytes.
        signed: bool,
        /// The register that receives the value.
        destination: Register,
        /// The register with the address.
        base: Register,
        /// The offset that is added to the address.
        offset: i16,
    },
    /// Stores into memory, little-endian.
    Store {
        /// The size of the value in memory.
        size: OperandSize,
        /// The register with the address.
        base: Register,
        /// The offset that is added to the address.
        offset: i16,
        /// The value, of which the lower bytes are stored.
        source: Operand,
    },
    /// Jumps always.
    Jump {
        /// The distance, in the field of 16 bits.
        distance: i16,
    },
    /// Jumps always.
    LongJump {
        /// The distance, in the field of 32 bits.
        distance: i32,
    },
    /// Jumps if a comparison is true.
    Branch {
        /// The width of the operands.
        width: Width,
        /// The comparison.
        condition: BranchCondition,
        /// The first operand.
        left: Register,
        /// The second operand.
        right: Operand,
        /// The distance.
        distance: i16,
    },
    /// Calls a function of the program, which has a stack of its own. Registers 6 to 9 are as
    /// before when it has returned.
    Call {
        /// The distance.
        distance: i32,
    },
    /// Returns from a function, or ends the program with register 0 as its result.
    Exit,
}

impl Instruction {
    /// Returns the number of 8-byte slots of its encoding.
    pub const fn slots(&self) -> usize {
        match self {
            Instruction::LoadImmediate { .. } => 2,
            _ => 1,
        }
    }

    /// Returns the distance if it is a jump or call.
    pub fn distance(&self) -> Option<i64> {
        match *self {
            Instruction::Jump { distance } | Instruction::Branch { distance, .. } => {
                Some(distance.into())
            }
            Instruction::LongJump { distance } | Instruction::Call { distance } => {
                Some(distance.into())
            }
            _ => None,
        }
    }

    /// Returns the register that it writes; calls are left out.
    pub fn written(&self) -> Option<Register> {
        match *self {
            Instruction::Alu { destination, .. }
            | Instruction::Negate { destination, .. }
            | Instruction::SignExtend { destination, .. }
            | Instruction::Reorder { destination, .. }
            | Instruction::LoadImmediate { destination, .. }
            | Instruction::Load { destination, .. } => Some(destination),
            _ => None,
        }
    }

    /// Returns true if it uses the content of a register.
    pub fn reads(&self, register: Register) -> bool {
        let is_read = |operand: Operand| operand == Operand::Register(register);
        match *self {
            Instruction::Alu {
                operation: AluOperation::Move,
                source,
                ..
            } => is_read(source),
            Instruction::Alu {
                destination,
                source,
                ..
            } => destination == register || is_read(source),
            Instruction::Negate { destination, .. } | Instruction::Reorder { destination, .. } => {
                destination == register
            }
            Instruction::SignExtend { source, .. } => source == register,
            Instruction::Load { base, .. } => base == register,
            Instruction::Store { base, source, .. } => base == register || is_read(source),
            Instruction::Branch { left, right, .. } => left == register || is_read(right),
            Instruction::Exit => register == Register::R0,
            Instruction::LoadImmediate { .. }
            | Instruction::Jump { .. }
            | Instruction::LongJump { .. }
            | Instruction::Call { .. } => false,
        }
    }

    /// Returns false if control never passes to the following instruction.
    pub fn continues(&self) -> bool {
        !matches!(
            self,
            Instruction::Jump { .. } | Instruction::LongJump { .. } | Instruction::Exit
        )
    }
}
