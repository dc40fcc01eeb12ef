//! UCX's library, loaded when it is first needed.

use super::error::UcxError;
use super::sys::{self, Api};
use libloading::Library;
use std::sync::OnceLock;

const NAME: &str = "libucp.so.0";

/// Returns the library's functions, and loads it before, if necessary.
///
/// # Errors
/// `Library`, `Old`.
pub fn api() -> Result<&'static Api, UcxError> {
    static API: OnceLock<Api> = OnceLock::new();
    if let Some(api) = API.get() {
        return Ok(api);
    }
    let found = load(NAME)?;
    Ok(API.get_or_init(|| found))
}

fn load(name: &str) -> Result<Api, UcxError> {
    let absent = |error: libloading::Error| UcxError::Library {
        reason: error.to_string(),
    };
    // SAFETY: a library of this name is UCX, whose initialization may run at any time.
    let library = unsafe { Library::new(name) }.map_err(absent)?;
    let (major, minor) = sys::version(&library).map_err(absent)?;
    if major != sys::MAJOR || minor < sys::MINOR {
        return Err(UcxError::Old { major, minor });
    }
    Api::find(library).map_err(absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_named_with_its_package() {
        let error = load("libno-such-ucp.so.0").map(drop).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("libucp.so.0") && text.contains("apt install libucx0"),
            "{text}"
        );
        // Other libraries are not UCX.
        let error = load("libc.so.6").map(drop).unwrap_err();
        assert!(matches!(error, UcxError::Library { .. }), "{error}");
    }
}
