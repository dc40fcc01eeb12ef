//! Runs clang.

use super::HEADER;
use super::object::{ObjectError, from_object};
use crate::program::TraversalProgram;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// The environment variable that names another clang.
const CLANG: &str = "NEARFIELD_CLANG";

/// The reason why C source does not become a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// clang was not found.
    #[error("{name} is not installed (Debian: clang); {CLANG} may name another one")]
    NoClang {
        /// The name by which it was searched.
        name: String,
    },
    /// clang cannot run, or files cannot be read or written.
    #[error("cannot compile: {0}")]
    System(#[from] io::Error),
    /// clang rejects the source.
    #[error("clang refuses the source:\n{message}")]
    Refused {
        /// The error message of clang.
        message: String,
    },
    /// The object file has no program.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// Compiles a source text.
///
/// # Errors
/// See [`CompileError`].
pub fn compile(source: &str) -> Result<TraversalProgram, CompileError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("traversal.c");
    std::fs::write(&path, source)?;
    compile_file(&path)
}

/// Compiles a source file.
///
/// # Errors
/// See [`CompileError`].
pub fn compile_file(source: &Path) -> Result<TraversalProgram, CompileError> {
    Ok(from_object(&compile_object(source)?)?)
}

/// Compiles a source file to an object file with the lines of the source, and returns its bytes.
///
/// # Errors
/// See [`CompileError`]. The program is not verified.
pub fn compile_object(source: &Path) -> Result<Vec<u8>, CompileError> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("nearfield_offload.h"), HEADER)?;
    let object = folder.path().join("traversal.o");
    let name = std::env::var(CLANG).unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&name);
    command
        .args([
            "-target",
            "bpf",
            "-mcpu=v3",
            // Without optimization, clang neither inlines nor unrolls, and the verifier refuses
            // calls and loops.
            "-O2",
            // The lines of the source, which change no instruction.
            "-g",
            "-Wall",
            "-Wno-unused-parameter",
        ])
        .arg("-I")
        .arg(folder.path())
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object)
        .stdin(Stdio::null());
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CompileError::NoClang { name });
        }
        output => output?,
    };
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(CompileError::Refused { message });
    }
    Ok(std::fs::read(&object)?)
}
