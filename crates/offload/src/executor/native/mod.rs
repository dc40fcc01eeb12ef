//! The executor that translates code to the processor's own instructions.

#[expect(unsafe_code, reason = "runs translated code, and lends it memory")]
mod call;
mod module;
#[expect(unsafe_code, reason = "runs translated programs")]
mod program;
mod translate;

pub use call::Native;
pub use program::NativeProgram;

/// The reason why code could not be translated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// Cranelift does not know this processor.
    #[error("no native code on this processor: {reason}")]
    Processor {
        /// The error message of Cranelift.
        reason: String,
    },
    /// Cranelift refuses the code.
    #[error("no native code of this program: {0}")]
    Refused(#[from] Box<cranelift_module::ModuleError>),
}
