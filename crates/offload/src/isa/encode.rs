//! The encoder from instructions to bytes.

use super::instruction::{ByteOrder, Instruction, Operand, OperandSize, Register, Width};
use super::opcode as op;

/// Appends the bytes of an instruction: one slot of 8 bytes, or two.
pub fn encode(instruction: &Instruction, bytes: &mut Vec<u8>) {
    let mut slot = EncodedSlot::default();
    match *instruction {
        Instruction::Alu {
            width,
            operation,
            destination,
            source,
        } => {
            let (code, offset) = op::alu_code(operation);
            // The decoder finds the operation by code and offset: signed divisions have the code of
            // the unsigned ones, and offset 1.
            debug_assert_eq!(op::alu(code, offset), Some(operation));
            slot.opcode = alu_class(width) | code;
            slot.offset = offset;
            slot.destination(destination).operand(source);
        }
        Instruction::Negate { width, destination } => {
            slot.opcode = alu_class(width) | op::NEG;
            slot.destination(destination);
        }
        Instruction::SignExtend {
            width,
            from,
            destination,
            source,
        } => {
            // A sign extension is a move with an offset, so offset 0 is left for the plain move.
            slot.opcode = alu_class(width) | op::MOV;
            slot.offset = from.bits() as i16;
            slot.destination(destination).operand(source.into());
        }
        Instruction::Reorder {
            order,
            size,
            destination,
        } => {
            slot.opcode = op::END
                | match order {
                    ByteOrder::Little => op::ALU,
                    ByteOrder::Big => op::ALU | op::SOURCE_REGISTER,
                    ByteOrder::Swapped => op::ALU64,
                };
            slot.immediate = size.bits() as i32;
            slot.destination(destination);
        }
        Instruction::LoadImmediate { destination, value } => {
            slot.opcode = op::LDDW;
            slot.immediate = value as i32;
            slot.destination(destination);
            // The upper half has a slot of its own, whose other fields must be zero: no jump may go
            // there, and no opcode is 0.
            slot.append(bytes);
            slot = EncodedSlot {
                immediate: (value >> 32) as i32,
                ..EncodedSlot::default()
            };
        }
        Instruction::Load {
            size,
            signed,
            destination,
            base,
            offset,
        } => {
            let mode = if signed { op::MEMSX } else { op::MEM };
            slot.opcode = op::LDX | mode | op::size_bits(size);
            slot.offset = offset;
            slot.source = base.number();
            slot.destination(destination);
        }
        Instruction::Store {
            size,
            base,
            offset,
            source,
        } => slot.store(size, base, offset, source),
        Instruction::Jump { distance } => {
            slot.opcode = op::JMP | op::JA;
            slot.offset = distance;
        }
        Instruction::LongJump { distance } => {
            slot.opcode = op::JMP32 | op::JA;
            slot.immediate = distance;
        }
        Instruction::Branch {
            width,
            condition,
            left,
            right,
            distance,
        } => {
            let class = match width {
                Width::W32 => op::JMP32,
                Width::W64 => op::JMP,
            };
            let code = op::condition_code(condition);
            debug_assert_eq!(op::condition(code), Some(condition));
            slot.opcode = class | code;
            slot.offset = distance;
            slot.destination(left).operand(right);
        }
        Instruction::Call { distance } => {
            slot.opcode = op::JMP | op::CALL;
            // 1 marks a call within the program. 0 and 2 are helpers of the platform, which
            // programs must not call.
            slot.source = 1;
            slot.immediate = distance;
        }
        Instruction::Exit => slot.opcode = op::JMP | op::EXIT,
    }
    slot.append(bytes);
}

fn alu_class(width: Width) -> u8 {
    match width {
        Width::W32 => op::ALU,
        Width::W64 => op::ALU64,
    }
}

#[derive(Default)]
struct EncodedSlot {
    opcode: u8,
    destination: u8,
    source: u8,
    offset: i16,
    immediate: i32,
}

impl EncodedSlot {
    fn destination(&mut self, register: Register) -> &mut EncodedSlot {
        self.destination = register.number();
        self
    }

    /// Sets the second operand of arithmetic and branches. Their opcode has a bit for its kind.
    fn operand(&mut self, operand: Operand) {
        match operand {
            Operand::Register(register) => {
                self.opcode |= op::SOURCE_REGISTER;
                self.source = register.number();
            }
            Operand::Immediate(immediate) => self.immediate = immediate,
        }
    }

    fn store(&mut self, size: OperandSize, base: Register, offset: i16, source: Operand) {
        let class = match source {
            Operand::Register(register) => {
                self.source = register.number();
                op::STX
            }
            Operand::Immediate(immediate) => {
                self.immediate = immediate;
                op::ST
            }
        };
        self.opcode = class | op::MEM | op::size_bits(size);
        debug_assert_eq!(op::size(self.opcode), size);
        self.offset = offset;
        self.destination(base);
    }

    fn append(&self, bytes: &mut Vec<u8>) {
        debug_assert!(
            self.source < 16 && self.destination < 16,
            "fields of 4 bits"
        );
        bytes.extend([self.opcode, self.source << 4 | self.destination]);
        bytes.extend(self.offset.to_le_bytes());
        bytes.extend(self.immediate.to_le_bytes());
    }
}
