//! Programs, ready to run.

#[cfg(feature = "native")]
use crate::executor::NativeProgram;
use crate::executor::{ExecutionFault, Interpreter, TraversalWorkspace};
use crate::program::TraversalProgram;
use std::sync::Arc;

/// A program with the engine that runs it.
#[derive(Clone, Debug)]
pub enum ProgramEngine {
    /// The interpreter.
    Interpreter(Arc<TraversalProgram>),
    /// Native code.
    #[cfg(feature = "native")]
    Native(Arc<NativeProgram>),
}

impl ProgramEngine {
    /// True if this crate was built with the feature `native`, so that programs run as native code
    /// on processors that Cranelift supports.
    pub const HAS_NATIVE_CODE: bool = cfg!(feature = "native");

    /// Creates the fastest engine of a program: native code if this crate has the feature and
    /// Cranelift supports the processor, otherwise the interpreter.
    pub fn new(program: Arc<TraversalProgram>) -> ProgramEngine {
        #[cfg(feature = "native")]
        // A processor that Cranelift does not know is no error: the interpreter has the same
        // results.
        if let Ok(native) = NativeProgram::translate(Arc::clone(&program)) {
            return ProgramEngine::Native(native.into());
        }
        ProgramEngine::Interpreter(program)
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<TraversalProgram> {
        match self {
            ProgramEngine::Interpreter(program) => program,
            #[cfg(feature = "native")]
            ProgramEngine::Native(native) => native.program(),
        }
    }

    /// Returns true if both are the same engine (not only equal ones).
    pub fn is_same(&self, other: &ProgramEngine) -> bool {
        match (self, other) {
            (ProgramEngine::Interpreter(one), ProgramEngine::Interpreter(other)) => {
                Arc::ptr_eq(one, other)
            }
            #[cfg(feature = "native")]
            (ProgramEngine::Native(one), ProgramEngine::Native(other)) => Arc::ptr_eq(one, other),
            #[cfg(feature = "native")]
            _ => false,
        }
    }

    /// Returns a number unique to the engine if it runs [rounds](NativeProgram::round), otherwise
    /// zero.
    #[cfg(feature = "native")]
    pub(crate) fn group_in_place(&self) -> usize {
        match self {
            ProgramEngine::Native(native) if native.is_in_place() => Arc::as_ptr(native).addr(),
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
    pub fn iterate(&self, workspace: &mut TraversalWorkspace) -> Result<u64, ExecutionFault> {
        debug_assert_eq!(
            workspace.scratchpad.len(),
            self.program().scratchpad_bytes()
        );
        match self {
            ProgramEngine::Interpreter(program) => Interpreter.iterate(program, workspace),
            #[cfg(feature = "native")]
            ProgramEngine::Native(native) => Ok(native.iterate(workspace)),
        }
    }
}
