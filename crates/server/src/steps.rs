//! A count of the steps of loops with a length that clients choose. Tests use it to assert how work
//! grows; release builds count nothing.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts steps of this thread.
#[inline]
pub fn count(steps: usize) {
    if cfg!(debug_assertions) {
        STEPS.set(STEPS.get() + steps as u64);
    }
}

/// Returns the number of steps that this thread takes in `run`; `None` if they are not counted.
pub fn taken_by(run: impl FnOnce()) -> Option<u64> {
    let before = STEPS.get();
    run();
    cfg!(debug_assertions).then(|| STEPS.get() - before)
}
