//! Programs, ready to run.

#[cfg(feature = "native")]
use crate::executor::NativeProgram;
use crate::executor::{Fault, Interpreter, Workspace};
use crate::program::Program;
use std::sync::Arc;

/// A program with the engine that runs it.
#[derive(Clone, Debug)]
pub enum Engine {
    /// The interpreter.
    Interpreter(Arc<Program>),
    /// Native code.
    #[cfg(feature = "native")]
    Native(Arc<NativeProgram>),
}

impl Engine {
    /// Creates the fastest engine of a program: native code if this crate has the feature and
    /// Cranelift supports the processor, otherwise the interpreter.
    pub fn new(program: Arc<Program>) -> Engine {
        #[cfg(feature = "native")]
        if let Ok(native) = NativeProgram::translate(Arc::clone(&program)) {
            return Engine::Native(native.into());
        }
        Engine::Interpreter(program)
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<Program> {
        match self {
            Engine::Interpreter(program) => program,
            #[cfg(feature = "native")]
            Engine::Native(native) => native.program(),
        }
    }

    /// Returns true if both are the same engine (not only equal ones).
    pub fn is_same(&self, other: &Engine) -> bool {
        match (self, other) {
            (Engine::Interpreter(one), Engine::Interpreter(other)) => Arc::ptr_eq(one, other),
            #[cfg(feature = "native")]
            (Engine::Native(one), Engine::Native(other)) => Arc::ptr_eq(one, other),
            #[cfg(feature = "native")]
            _ => false,
        }
    }

    /// Returns a number unique to the engine if it runs [rounds](NativeProgram::round), otherwise
    /// zero.
    #[cfg(feature = "native")]
    pub(crate) fn group_in_place(&self) -> usize {
        match self {
            Engine::Native(native) if native.is_in_place() => Arc::as_ptr(native).addr(),
            _ => 0,
        }
    }

    /// Returns zero, because there is no native code.
    #[cfg(not(feature = "native"))]
    pub(crate) fn group_in_place(&self) -> usize {
        0
    }

    /// Runs one iteration. The scratchpad must have the declared length.
    ///
    /// # Errors
    /// See [`Interpreter::iterate`].
    pub fn iterate(&self, workspace: &mut Workspace) -> Result<u64, Fault> {
        match self {
            Engine::Interpreter(program) => Interpreter.iterate(program, workspace),
            #[cfg(feature = "native")]
            Engine::Native(native) => Ok(native.iterate(workspace)),
        }
    }
}
