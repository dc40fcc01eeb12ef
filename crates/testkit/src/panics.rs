//! Conversion of panics into values.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `body` and returns its result, or the message and place of its panic, which is not printed.
/// Panics of other threads are still printed.
///
/// # Errors
/// The message of the panic.
pub fn catch<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    // The hook is one for all threads, so it is set once, and each thread has a flag of its own.
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if IS_QUIET.get() {
                CAUGHT.set(Some(panic.to_string()));
            } else {
                previous(panic);
            }
        }));
    });
    // The flag is restored instead of cleared, because calls may be nested.
    let was_quiet = IS_QUIET.replace(true);
    // Callers do not use again what a panic may have left half changed.
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    IS_QUIET.set(was_quiet);
    result.map_err(|_| {
        CAUGHT
            .take()
            .unwrap_or_else(|| "panicked without a message".into())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_is_caught_with_its_message_and_place() {
        let message = super::catch(|| panic!("lost {}", 1)).unwrap_err();
        assert!(
            message.contains("lost 1") && message.contains("panics.rs"),
            "{message}"
        );
        assert_eq!(super::catch(|| 2), Ok(2));
    }
}
