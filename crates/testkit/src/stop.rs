//! A guard that stops threads running during a test, also if the test fails.

use std::sync::atomic::{AtomicBool, Ordering};

/// A guard that sets a flag when it is dropped, also by a panic of the test. Otherwise the scope
/// would wait forever for threads that run until the flag is set, and the panic would not be
/// reported.
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
