//! The memory of translated code.

use super::TranslateError;
use cranelift_codegen::Context;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Module, ModuleError, default_libcall_names};

/// Creates a module for this process's processor. `symbols` can be named in it.
pub fn module(symbols: &[(&str, *const u8)]) -> Result<JITModule, TranslateError> {
    let processor = |reason: String| TranslateError::Processor { reason };
    let mut flags = settings::builder();
    for (name, value) in [
        // The process's functions may be too far away for the short calls that these flags would
        // choose.
        ("use_colocated_libcalls", "false"),
        ("is_pic", "false"),
        // A program is translated once and executed for millions of nodes.
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

/// Finishes the functions of contexts. Returns their addresses, which are valid as long as the
/// module.
pub fn finish(
    module: &mut JITModule,
    contexts: Vec<Context>,
) -> Result<Vec<*const u8>, TranslateError> {
    let boxed = |error: ModuleError| Box::new(error);
    let mut functions = Vec::with_capacity(contexts.len());
    for mut context in contexts {
        let function = module
            .declare_anonymous_function(&context.func.signature)
            .map_err(boxed)?;
        module
            .define_function(function, &mut context)
            .map_err(boxed)?;
        functions.push(function);
    }
    // The memory becomes executable and read-only only after all functions are in it.
    module.finalize_definitions().map_err(boxed)?;
    let address = |function| module.get_finalized_function(function);
    Ok(functions.into_iter().map(address).collect())
}
