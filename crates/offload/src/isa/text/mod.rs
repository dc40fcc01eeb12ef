//! Code as text.
//!
//! One instruction a line; `#` begins a comment, `name:` is a label. Names end with `32` if they
//! work on 32 bits:
//!
//! ```text
//! add sub mul div sdiv or and lsh rsh mod smod xor mov arsh    add r1, r2    add32 r1, -5
//! neg                                                          neg r1
//! movsx864 movsx1664 movsx3264 movsx832 movsx1632              movsx864 r1, r2
//! le16 le32 le64 be16 be32 be64 bswap16 bswap32 bswap64        be16 r1
//! lddw                                                         lddw r1, 0x123456789abcdef
//! ldxb ldxh ldxw ldxdw ldxsb ldxsh ldxsw                       ldxw r1, [r2+4]
//! stb sth stw stdw                                             stw [r2-4], 7
//! stxb stxh stxw stxdw                                         stxw [r2], r1
//! jeq jne jgt jge jlt jle jsgt jsge jslt jsle jset             jeq r1, 7, +2   jeq r1, r2, done
//! ja (16 bits) ja32 (32 bits) call                             ja -3           ja again
//! exit                                                         exit
//! ```

mod assemble;
mod disassemble;
mod names;

pub use assemble::{AssembleError, assemble};
pub use disassemble::disassemble;
