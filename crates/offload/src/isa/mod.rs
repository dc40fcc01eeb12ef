//! The instruction set: RFC 9669, conformance groups base32, base64, divmul32 and divmul64.

pub mod arithmetic;
mod builder;
mod code;
mod decode;
mod encode;
mod instruction;
mod opcode;
pub mod text;

pub use builder::{BpfBuildError, BpfBuilder, Label};
pub use code::{BpfCode, CodeError};
pub use decode::{BpfDecodeError, InstructionField, UnsupportedGroup};
pub use instruction::{
    AluOperation, BranchCondition, ByteOrder, Instruction, Operand, OperandSize, Register,
    STACK_BYTES, Width,
};
pub use text::{AssembleError, assemble, disassemble};
