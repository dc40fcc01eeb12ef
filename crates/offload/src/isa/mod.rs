//! The instruction set: RFC 9669, conformance groups base32, base64, divmul32 and divmul64.

pub mod arithmetic;
mod builder;
mod code;
mod decode;
mod encode;
mod instruction;
mod opcode;
pub mod text;

pub use builder::{BuildError, Builder, Label};
pub use code::{Code, CodeError};
pub use decode::{DecodeError, Field, Group};
pub use instruction::{
    AluOperation, ByteOrder, Condition, Instruction, Operand, Register, STACK_BYTES, Size, Width,
};
pub use text::{AssembleError, assemble, disassemble};
