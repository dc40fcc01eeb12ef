//! Memory of translated code.

use super::TranslateError;
use cranelift_codegen::Context;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError, default_libcall_names};

/// A module for this process's processor, in which `symbols` are known.
pub fn module(symbols: &[(&str, *const u8)]) -> Result<JITModule, TranslateError> {
    let processor = |reason: String| TranslateError::Processor { reason };
    let mut flags = settings::builder();
    for (name, value) in [
        ("use_colocated_libcalls", "false"),
        ("is_pic", "false"),
        ("opt_level", "speed"),
    ] {
        flags
            .set(name, value)
            .map_err(|error| processor(error.to_string()))?;
    }
    let isa = cranelift_native::builder()
        .map_err(|reason| processor(reason.to_owned()))?
        .finish(settings::Flags::new(flags))
        .map_err(|error| processor(error.to_string()))?;
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    for &(name, address) in symbols {
        builder.symbol(name, address);
    }
    Ok(JITModule::new(builder))
}

/// Finishes the function of a context, and returns its address, which is valid as long as the
/// module.
pub fn finish(module: &mut JITModule, mut context: Context) -> Result<*const u8, TranslateError> {
    let boxed = |error: ModuleError| Box::new(error);
    let entry = module
        .declare_function("entry", Linkage::Export, &context.func.signature)
        .map_err(boxed)?;
    module.define_function(entry, &mut context).map_err(boxed)?;
    module.finalize_definitions().map_err(boxed)?;
    Ok(module.get_finalized_function(entry))
}
