//! Programs from C, by `clang -target bpf`.
//!
//! The source includes [`HEADER`] as `nearfield_offload.h`, which documents how to write it. clang
//! is looked up when a program is compiled: nothing else here needs it.

mod clang;
mod object;

pub use clang::{CompileError, compile, compile_file};
pub use object::{ObjectError, from_object};

/// The header for C sources.
pub const HEADER: &str = include_str!("../../c/nearfield_offload.h");
