//! Programs from C, by `clang -target bpf`.
//!
//! The source includes [`HEADER`] as `nearfield_offload.h`, which documents how to write it. clang
//! is looked up when a program is compiled: nothing else here needs it.

mod clang;
mod object;
mod source_lines;

pub use clang::{CompileError, compile, compile_file, compile_object};
pub use object::{ObjectError, from_object};
pub use source_lines::{SourceLines, SourcePlace};

/// The header for C sources.
pub const HEADER: &str = include_str!("../../c/nearfield_offload.h");
