//! Stopping threads that work beside a test, also if the test fails.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped. Threads of a scope that work until it is set end also if the
/// test panics: otherwise the scope would wait for them for ever, and nobody would see why.
///
/// ```
/// use nearfield_testkit::stop::AtEnd;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let done = AtomicBool::new(false);
/// std::thread::scope(|scope| {
///     scope.spawn(|| while !done.load(Ordering::Relaxed) {});
///     let _stop = AtEnd(&done);
/// });
/// ```
#[derive(Debug)]
pub struct AtEnd<'f>(pub &'f AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
