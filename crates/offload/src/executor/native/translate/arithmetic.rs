//! The translation of computations and comparisons.

use super::{Accesses, Translation, integer};
use crate::isa::{
    AluOperation, BranchCondition, ByteOrder, Instruction, Operand, OperandSize, Register, Width,
};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

impl<A: Accesses> Translation<'_, A> {
    pub fn compute(&mut self, instruction: &Instruction) {
        match *instruction {
            Instruction::Alu {
                width,
                operation,
                destination,
                source,
            } => {
                let (a, b) = (self.get(destination), self.operand(source));
                let result = match width {
                    Width::W64 => self.alu(types::I64, operation, a, b),
                    Width::W32 => {
                        let (a, b) = (
                            self.low(OperandSize::Word, a),
                            self.low(OperandSize::Word, b),
                        );
                        let result = self.alu(types::I32, operation, a, b);
                        self.builder.ins().uextend(types::I64, result)
                    }
                };
                self.set(destination, result);
            }
            Instruction::Negate { width, destination } => {
                let value = self.get(destination);
                // The lower half of a negated number depends on the lower half only.
                let result = self.builder.ins().ineg(value);
                let result = self.narrowed(width, result);
                self.set(destination, result);
            }
            Instruction::SignExtend {
                width,
                from,
                destination,
                source,
            } => {
                let value = self.get(source);
                let value = self.low(from, value);
                let result = self.builder.ins().sextend(types::I64, value);
                let result = self.narrowed(width, result);
                self.set(destination, result);
            }
            Instruction::Reorder {
                order,
                size,
                destination,
            } => {
                let value = self.get(destination);
                let mut value = self.low(size, value);
                if order != ByteOrder::Little {
                    value = self.builder.ins().bswap(value);
                }
                // Cranelift refuses to extend a value to its own type.
                if size != OperandSize::Double {
                    value = self.builder.ins().uextend(types::I64, value);
                }
                self.set(destination, value);
            }
            Instruction::LoadImmediate { destination, value } => {
                let value = self.constant(value as i64);
                self.set(destination, value);
            }
            _ => {}
        }
    }

    fn alu(&mut self, kind: Type, operation: AluOperation, a: Value, b: Value) -> Value {
        match operation {
            AluOperation::Divide
            | AluOperation::SignedDivide
            | AluOperation::Modulo
            | AluOperation::SignedModulo => return self.divide(kind, operation, a, b),
            _ => {}
        }
        let ins = self.builder.ins();
        match operation {
            AluOperation::Add => ins.iadd(a, b),
            AluOperation::Subtract => ins.isub(a, b),
            AluOperation::Multiply => ins.imul(a, b),
            AluOperation::Or => ins.bor(a, b),
            AluOperation::And => ins.band(a, b),
            // Cranelift's shifts use the lower bits of the distance, too.
            AluOperation::ShiftLeft => ins.ishl(a, b),
            AluOperation::ShiftRight => ins.ushr(a, b),
            AluOperation::ShiftRightSigned => ins.sshr(a, b),
            AluOperation::Xor => ins.bxor(a, b),
            _ => b,
        }
    }

    /// Divides. Division traps in Cranelift in cases where it must not here, so those divisors are
    /// replaced by 1, and the results are replaced afterwards.
    fn divide(&mut self, kind: Type, operation: AluOperation, a: Value, b: Value) -> Value {
        let is_zero = self.builder.ins().icmp_imm(IntCC::Equal, b, 0);
        let one = self.builder.ins().iconst(kind, 1);
        let divisor = self.builder.ins().select(is_zero, one, b);
        let zero = self.builder.ins().iconst(kind, 0);
        match operation {
            AluOperation::Divide => {
                let quotient = self.builder.ins().udiv(a, divisor);
                self.builder.ins().select(is_zero, zero, quotient)
            }
            AluOperation::Modulo => {
                let rest = self.builder.ins().urem(a, divisor);
                self.builder.ins().select(is_zero, a, rest)
            }
            _ => {
                let is_minus_one = self.builder.ins().icmp_imm(IntCC::Equal, b, -1);
                let divisor = self.builder.ins().select(is_minus_one, one, divisor);
                if operation == AluOperation::SignedModulo {
                    // The remainder of a division by 1 is the same as that of one by -1: zero.
                    let rest = self.builder.ins().srem(a, divisor);
                    return self.builder.ins().select(is_zero, a, rest);
                }
                let quotient = self.builder.ins().sdiv(a, divisor);
                let negative = self.builder.ins().ineg(a);
                let quotient = self.builder.ins().select(is_minus_one, negative, quotient);
                self.builder.ins().select(is_zero, zero, quotient)
            }
        }
    }

    pub fn compare(
        &mut self,
        width: Width,
        condition: BranchCondition,
        left: Register,
        right: Operand,
    ) -> Value {
        let (mut a, mut b) = (self.get(left), self.operand(right));
        if width == Width::W32 {
            (a, b) = (
                self.low(OperandSize::Word, a),
                self.low(OperandSize::Word, b),
            );
        }
        let code = match condition {
            BranchCondition::Equal => IntCC::Equal,
            BranchCondition::NotEqual => IntCC::NotEqual,
            BranchCondition::Greater => IntCC::UnsignedGreaterThan,
            BranchCondition::GreaterOrEqual => IntCC::UnsignedGreaterThanOrEqual,
            BranchCondition::Less => IntCC::UnsignedLessThan,
            BranchCondition::LessOrEqual => IntCC::UnsignedLessThanOrEqual,
            BranchCondition::SignedGreater => IntCC::SignedGreaterThan,
            BranchCondition::SignedGreaterOrEqual => IntCC::SignedGreaterThanOrEqual,
            BranchCondition::SignedLess => IntCC::SignedLessThan,
            BranchCondition::SignedLessOrEqual => IntCC::SignedLessThanOrEqual,
            // A branch takes any value but zero as true.
            BranchCondition::SharesBits => return self.builder.ins().band(a, b),
        };
        self.builder.ins().icmp(code, a, b)
    }

    /// Returns the lower bytes of a value.
    pub fn low(&mut self, size: OperandSize, value: Value) -> Value {
        match size {
            OperandSize::Double => value,
            _ => self.builder.ins().ireduce(integer(size), value),
        }
    }

    /// Returns a value of 64 bits, or its lower 32 bits.
    fn narrowed(&mut self, width: Width, value: Value) -> Value {
        if width == Width::W64 {
            return value;
        }
        let low = self.low(OperandSize::Word, value);
        self.builder.ins().uextend(types::I64, low)
    }
}
