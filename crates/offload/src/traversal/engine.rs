//! Programs, ready to run.

#[cfg(feature = "native")]
use crate::executor::NativeProgram;
use crate::executor::{Fault, Interpreter, Workspace};
use crate::program::Program;
use std::sync::Arc;

/// A program with what runs it.
#[derive(Clone, Debug)]
pub enum Engine {
    /// The interpreter.
    Interpreter(Arc<Program>),
    /// The processor.
    #[cfg(feature = "native")]
    Native(Arc<NativeProgram>),
}

impl Engine {
    /// The fastest engine of a program: native code, if this crate has the feature and knows the
    /// processor, or else the interpreter.
    pub fn new(program: Arc<Program>) -> Engine {
        #[cfg(feature = "native")]
        if let Ok(native) = NativeProgram::translate(Arc::clone(&program)) {
            return Engine::Native(native.into());
        }
        Engine::Interpreter(program)
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        match self {
            Engine::Interpreter(program) => program,
            #[cfg(feature = "native")]
            Engine::Native(native) => native.program(),
        }
    }

    /// True of the same engine, not an equal one.
    pub fn is_same(&self, other: &Engine) -> bool {
        match (self, other) {
            (Engine::Interpreter(one), Engine::Interpreter(other)) => Arc::ptr_eq(one, other),
            #[cfg(feature = "native")]
            (Engine::Native(one), Engine::Native(other)) => Arc::ptr_eq(one, other),
            #[cfg(feature = "native")]
            _ => false,
        }
    }

    /// A number of the engine's own, if it runs [rounds](NativeProgram::round), or else zero.
    #[cfg(feature = "native")]
    pub(crate) fn group_in_place(&self) -> usize {
        match self {
            Engine::Native(native) if native.is_in_place() => Arc::as_ptr(native).addr(),
            _ => 0,
        }
    }

    /// There is no native code.
    #[cfg(not(feature = "native"))]
    pub(crate) fn group_in_place(&self) -> usize {
        0
    }

    /// Runs one iteration. The scratchpad has to have the declared length.
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
