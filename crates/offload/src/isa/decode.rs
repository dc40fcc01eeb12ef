//! The decoder from bytes to instructions.

use super::code::CodeError;
use super::instruction::{ByteOrder, Instruction, Operand, OperandSize, Register, Width};
use super::opcode as op;
use std::fmt;

/// A field of an instruction's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionField {
    /// The first register.
    Destination,
    /// The second register, or the kind of a constant or a call.
    Source,
    /// The offset of 16 bits.
    Offset,
    /// The constant of 32 bits.
    Immediate,
    /// All fields except the constant in the second slot of a constant of 64 bits.
    SecondSlot,
}

impl fmt::Display for InstructionField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            InstructionField::Destination => "the destination register",
            InstructionField::Source => "the source register",
            InstructionField::Offset => "the offset",
            InstructionField::Immediate => "the immediate",
            InstructionField::SecondSlot => "the second slot",
        })
    }
}

/// Instructions of RFC 9669 that programs must not use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsupportedGroup {
    /// The groups atomic32 and atomic64.
    Atomic,
    /// The group packet: loads of the first BPF.
    Packet,
    /// Calls of functions outside the program.
    HelperCall,
    /// Constants that name a map, a variable or a function.
    Platform,
}

impl fmt::Display for UnsupportedGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            UnsupportedGroup::Atomic => "atomic operations",
            UnsupportedGroup::Packet => "legacy packet access",
            UnsupportedGroup::HelperCall => "calls of helper functions",
            UnsupportedGroup::Platform => "constants of a platform",
        })
    }
}

/// The reason why bytes are not code. Slots of 8 bytes count from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BpfDecodeError {
    /// The bytes do not end after an instruction.
    #[error("{bytes} bytes are not a multiple of 8")]
    PartialSlot {
        /// Number of bytes.
        bytes: usize,
    },
    /// RFC 9669 has no such instruction.
    #[error("slot {slot}: there is no opcode {opcode:#04x}")]
    UnknownOpcode {
        /// The slot of the instruction.
        slot: usize,
        /// The opcode.
        opcode: u8,
    },
    /// The instruction has no such variant, or it does not use the field, which then must be zero.
    #[error("slot {slot}: opcode {opcode:#04x} does not allow {value} in {field}")]
    Reserved {
        /// The slot of the instruction.
        slot: usize,
        /// The opcode.
        opcode: u8,
        /// The field.
        field: InstructionField,
        /// Its value.
        value: i64,
    },
    /// A register number above 10.
    #[error("slot {slot}: {field} is {number}, registers have numbers up to 10")]
    NoSuchRegister {
        /// The slot of the instruction.
        slot: usize,
        /// The field.
        field: InstructionField,
        /// The number.
        number: u8,
    },
    /// The bytes end within a constant of 64 bits.
    #[error("slot {slot}: the second slot of the constant is missing")]
    HalfConstant {
        /// The slot of the constant.
        slot: usize,
    },
    /// The instruction is valid, but not supported here.
    #[error("slot {slot}: {group} are not supported")]
    Unsupported {
        /// The slot of the instruction.
        slot: usize,
        /// The group of the instruction.
        group: UnsupportedGroup,
    },
    /// Each instruction is valid, but together they are not valid code.
    #[error(transparent)]
    Code(#[from] CodeError),
}

/// The fields of one slot.
#[derive(Clone, Copy)]
struct DecodedSlot {
    slot: usize,
    opcode: u8,
    destination: u8,
    source: u8,
    offset: i16,
    immediate: i32,
}

/// Decodes instructions. Jumps are not checked.
pub fn decode(bytes: &[u8]) -> Result<Vec<Instruction>, BpfDecodeError> {
    let (slots, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        let bytes = bytes.len();
        return Err(BpfDecodeError::PartialSlot { bytes });
    }
    let mut instructions = Vec::with_capacity(slots.len());
    let mut remaining = slots.iter().enumerate();
    while let Some((slot, bytes)) = remaining.next() {
        let first = DecodedSlot::of(slot, bytes);
        instructions.push(if first.opcode == op::LDDW {
            // A jump into this slot is found later: only `BpfCode` knows all targets.
            let second = remaining
                .next()
                .map(|(slot, bytes)| DecodedSlot::of(slot, bytes));
            first.constant(second.ok_or(BpfDecodeError::HalfConstant { slot })?)?
        } else {
            first.decode()?
        });
    }
    Ok(instructions)
}

impl DecodedSlot {
    fn of(slot: usize, bytes: &[u8; 8]) -> DecodedSlot {
        let [opcode, registers, low, high, a, b, c, d] = *bytes;
        DecodedSlot {
            slot,
            opcode,
            destination: registers & 0x0f,
            source: registers >> 4,
            offset: i16::from_le_bytes([low, high]),
            immediate: i32::from_le_bytes([a, b, c, d]),
        }
    }

    fn decode(self) -> Result<Instruction, BpfDecodeError> {
        match self.opcode & op::CLASS_MASK {
            op::LD => Err(match self.opcode & op::MODE_MASK {
                // Packet loads have up to 4 bytes. With 8 bytes, the mode is no opcode at all.
                op::ABS | op::IND if op::size(self.opcode) != OperandSize::Double => {
                    self.unsupported(UnsupportedGroup::Packet)
                }
                _ => self.unknown(),
            }),
            op::LDX => self.load(),
            op::ST | op::STX => self.store(),
            op::ALU => self.alu(Width::W32),
            op::ALU64 => self.alu(Width::W64),
            op::JMP => self.jump(Width::W64),
            _ => self.jump(Width::W32),
        }
    }

    fn constant(self, second: DecodedSlot) -> Result<Instruction, BpfDecodeError> {
        self.unused(InstructionField::Offset)?;
        match self.source {
            0 => {}
            // These kinds name maps, variables and code of a platform (RFC 9669, section 5.4).
            1..=6 => return Err(self.unsupported(UnsupportedGroup::Platform)),
            _ => return Err(self.reserved(InstructionField::Source)),
        }
        let DecodedSlot {
            opcode,
            destination,
            source,
            offset,
            ..
        } = second;
        if (opcode, destination, source, offset) != (0, 0, 0, 0) {
            return Err(BpfDecodeError::Reserved {
                slot: self.slot,
                opcode: self.opcode,
                field: InstructionField::SecondSlot,
                value: i64::from(opcode),
            });
        }
        let (low, high) = (self.immediate as u32, second.immediate as u32);
        Ok(Instruction::LoadImmediate {
            destination: self.destination()?,
            value: u64::from(high) << 32 | u64::from(low),
        })
    }

    fn load(self) -> Result<Instruction, BpfDecodeError> {
        let size = op::size(self.opcode);
        let signed = match self.opcode & op::MODE_MASK {
            op::MEM => false,
            // A value of 8 bytes has no upper bits into which its sign could be extended.
            op::MEMSX if size != OperandSize::Double => true,
            _ => return Err(self.unknown()),
        };
        self.unused(InstructionField::Immediate)?;
        Ok(Instruction::Load {
            size,
            signed,
            destination: self.destination()?,
            base: self.source()?,
            offset: self.offset,
        })
    }

    fn store(self) -> Result<Instruction, BpfDecodeError> {
        let size = op::size(self.opcode);
        let from_register = self.opcode & op::CLASS_MASK == op::STX;
        match self.opcode & op::MODE_MASK {
            op::MEM => {}
            // Atomic operations have 4 or 8 bytes and a register. All others are no opcodes.
            op::ATOMIC if from_register && size >= OperandSize::Word => {
                return Err(self.unsupported(UnsupportedGroup::Atomic));
            }
            _ => return Err(self.unknown()),
        }
        let source = self.operand(from_register)?;
        Ok(Instruction::Store {
            size,
            base: self.destination()?,
            offset: self.offset,
            source,
        })
    }

    fn alu(self, width: Width) -> Result<Instruction, BpfDecodeError> {
        let code = self.opcode & op::CODE_MASK;
        let from_register = self.opcode & op::SOURCE_REGISTER != 0;
        let destination = self.destination()?;
        match code {
            // Negation has no second operand, so the bit for its kind must be zero.
            op::NEG if from_register => Err(self.unknown()),
            op::NEG => {
                self.unused(InstructionField::Source)?;
                self.unused(InstructionField::Offset)?;
                self.unused(InstructionField::Immediate)?;
                Ok(Instruction::Negate { width, destination })
            }
            op::END => self.reorder(width, destination),
            op::MOV if from_register && self.offset != 0 => {
                let from = match self.offset {
                    8 => OperandSize::Byte,
                    16 => OperandSize::Half,
                    // To 32 bits, nothing would be extended: that is a move with offset 0.
                    32 if width == Width::W64 => OperandSize::Word,
                    _ => return Err(self.reserved(InstructionField::Offset)),
                };
                self.unused(InstructionField::Immediate)?;
                Ok(Instruction::SignExtend {
                    width,
                    from,
                    destination,
                    source: self.source()?,
                })
            }
            _ => {
                // A known code with another offset is a different error: a reserved field.
                if op::alu(code, 0).is_none() {
                    return Err(self.unknown());
                }
                // Offset 1 makes a division signed.
                let Some(operation) = op::alu(code, self.offset) else {
                    return Err(self.reserved(InstructionField::Offset));
                };
                Ok(Instruction::Alu {
                    width,
                    operation,
                    destination,
                    source: self.operand(from_register)?,
                })
            }
        }
    }

    fn reorder(self, width: Width, destination: Register) -> Result<Instruction, BpfDecodeError> {
        // The bit that elsewhere means a register chooses the byte order here. The swap of the
        // class of 64 bits has one form only.
        let order = match (width, self.opcode & op::SOURCE_REGISTER) {
            (Width::W32, 0) => ByteOrder::Little,
            (Width::W32, _) => ByteOrder::Big,
            (Width::W64, 0) => ByteOrder::Swapped,
            (Width::W64, _) => return Err(self.unknown()),
        };
        self.unused(InstructionField::Source)?;
        self.unused(InstructionField::Offset)?;
        let size = match self.immediate {
            16 => OperandSize::Half,
            32 => OperandSize::Word,
            64 => OperandSize::Double,
            _ => return Err(self.reserved(InstructionField::Immediate)),
        };
        Ok(Instruction::Reorder {
            order,
            size,
            destination,
        })
    }

    fn jump(self, width: Width) -> Result<Instruction, BpfDecodeError> {
        let code = self.opcode & op::CODE_MASK;
        let from_register = self.opcode & op::SOURCE_REGISTER != 0;
        match (code, width) {
            (op::JA, _) if from_register => Err(self.unknown()),
            (op::JA, _) => {
                self.unused(InstructionField::Destination)?;
                self.unused(InstructionField::Source)?;
                // Class JMP has the distance in the offset; class JMP32 has the longer one in the
                // immediate.
                if width == Width::W64 {
                    self.unused(InstructionField::Immediate)?;
                    let distance = self.offset;
                    return Ok(Instruction::Jump { distance });
                }
                self.unused(InstructionField::Offset)?;
                let distance = self.immediate;
                Ok(Instruction::LongJump { distance })
            }
            (op::CALL | op::EXIT, Width::W32) => Err(self.unknown()),
            (op::CALL | op::EXIT, _) if from_register => Err(self.unknown()),
            (op::CALL, _) => {
                self.unused(InstructionField::Destination)?;
                self.unused(InstructionField::Offset)?;
                match self.source {
                    1 => Ok(Instruction::Call {
                        distance: self.immediate,
                    }),
                    // 0 is a helper by its number, 2 one by its type (RFC 9669, section 4.3).
                    0 | 2 => Err(self.unsupported(UnsupportedGroup::HelperCall)),
                    _ => Err(self.reserved(InstructionField::Source)),
                }
            }
            (op::EXIT, _) => {
                self.unused(InstructionField::Destination)?;
                self.unused(InstructionField::Source)?;
                self.unused(InstructionField::Offset)?;
                self.unused(InstructionField::Immediate)?;
                Ok(Instruction::Exit)
            }
            _ => {
                let condition = op::condition(code).ok_or_else(|| self.unknown())?;
                Ok(Instruction::Branch {
                    width,
                    condition,
                    left: self.destination()?,
                    right: self.operand(from_register)?,
                    distance: self.offset,
                })
            }
        }
    }

    /// Returns the second operand. The field that it does not use must be zero.
    fn operand(self, from_register: bool) -> Result<Operand, BpfDecodeError> {
        if from_register {
            self.unused(InstructionField::Immediate)?;
            self.source().map(Operand::Register)
        } else {
            self.unused(InstructionField::Source)?;
            Ok(Operand::Immediate(self.immediate))
        }
    }

    fn destination(self) -> Result<Register, BpfDecodeError> {
        self.register(InstructionField::Destination, self.destination)
    }

    fn source(self) -> Result<Register, BpfDecodeError> {
        self.register(InstructionField::Source, self.source)
    }

    fn register(self, field: InstructionField, number: u8) -> Result<Register, BpfDecodeError> {
        Register::from_number(number).ok_or(BpfDecodeError::NoSuchRegister {
            slot: self.slot,
            field,
            number,
        })
    }

    fn value(self, field: InstructionField) -> i64 {
        match field {
            InstructionField::Destination => self.destination.into(),
            InstructionField::Source => self.source.into(),
            InstructionField::Offset => self.offset.into(),
            InstructionField::Immediate => self.immediate.into(),
            // Four fields have no single value: `constant` builds that error itself.
            InstructionField::SecondSlot => 0,
        }
    }

    fn unused(self, field: InstructionField) -> Result<(), BpfDecodeError> {
        if self.value(field) == 0 {
            return Ok(());
        }
        Err(self.reserved(field))
    }

    fn reserved(self, field: InstructionField) -> BpfDecodeError {
        BpfDecodeError::Reserved {
            slot: self.slot,
            opcode: self.opcode,
            field,
            value: self.value(field),
        }
    }

    fn unknown(self) -> BpfDecodeError {
        BpfDecodeError::UnknownOpcode {
            slot: self.slot,
            opcode: self.opcode,
        }
    }

    fn unsupported(self, group: UnsupportedGroup) -> BpfDecodeError {
        let slot = self.slot;
        BpfDecodeError::Unsupported { slot, group }
    }
}
