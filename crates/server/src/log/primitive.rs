//! The locks and atomics of the [log](super). The feature `shuttle` replaces them by those of the
//! library of that name, so that `tests/shuttle` can choose which thread runs next.

#[cfg(not(feature = "shuttle"))]
pub(super) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(feature = "shuttle")]
pub(super) use model::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Locks with those methods of `parking_lot` that the log uses.
#[cfg(feature = "shuttle")]
mod model {
    use shuttle::sync;
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;

    #[derive(Debug, Default)]
    pub(in crate::log) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in crate::log) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard {
                mutex: self,
                guard: Some(self.guard()),
            }
        }

        /// Returns the guard. Like the lock that this one replaces, it is never poisoned.
        fn guard(&self) -> sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// A guard that holds the library's guard except within its own methods.
    #[derive(Debug)]
    pub(in crate::log) struct MutexGuard<'l, T> {
        mutex: &'l Mutex<T>,
        guard: Option<sync::MutexGuard<'l, T>>,
    }

    const HELD: &str = "the lock is held outside its methods";

    impl<T> MutexGuard<'_, T> {
        pub(in crate::log) fn unlocked<R>(held: &mut Self, work: impl FnOnce() -> R) -> R {
            held.guard = None;
            let result = work();
            held.guard = Some(held.mutex.guard());
            result
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.guard.as_ref().expect(HELD)
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.guard.as_mut().expect(HELD)
        }
    }

    #[derive(Debug, Default)]
    pub(in crate::log) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(in crate::log) fn wait<T>(&self, held: &mut MutexGuard<'_, T>) {
            let guard = held.guard.take().expect(HELD);
            let guard = self.0.wait(guard);
            held.guard = Some(guard.unwrap_or_else(PoisonError::into_inner));
        }

        pub(in crate::log) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// A step of the protocol that a test leaves out, to show that it is necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogProtocolStep {
    /// The sync of bytes written under another policy, if the new policy requires it.
    SyncOlder,
    /// The wait for the sync before replies are sent, if the policy requires it.
    WaitForSync,
    /// The order of commands that could not be written before those that were appended since.
    PutBackFirst,
    /// The wait for the leader before logging ends.
    WaitForLeader,
}

#[cfg(feature = "shuttle")]
thread_local! {
    /// The step that is left out. All threads of a scenario are one thread of the system.
    static LEFT_OUT: std::cell::Cell<Option<LogProtocolStep>> =
        const { std::cell::Cell::new(None) };
}

/// Leaves a step out from now on, in all logs of this thread.
#[cfg(feature = "shuttle")]
pub fn leave_out(step: Option<LogProtocolStep>) {
    LEFT_OUT.set(step);
}

/// Returns true if a step is left out.
#[inline]
pub(super) fn is_left_out(step: LogProtocolStep) -> bool {
    #[cfg(feature = "shuttle")]
    return LEFT_OUT.get() == Some(step);
    #[cfg(not(feature = "shuttle"))]
    return {
        let _ = step;
        false
    };
}
