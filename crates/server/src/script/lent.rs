//! The host of the script that runs. Functions that live as long as the Lua state find it here.
//! Creating these functions again for each call, as `mlua::Lua::scope` does, takes longer than most
//! calls.

use super::host::LuaHost;
use std::cell::Cell;
use std::ptr::NonNull;

thread_local! {
    /// The host that this thread has lent, unless it is in use.
    static LENT: Cell<Option<NonNull<dyn LuaHost>>> = const { Cell::new(None) };
    /// True if the script that it was lent to has asked for RESP3.
    static TYPED: Cell<bool> = const { Cell::new(false) };
}

/// Guard that puts the previous host back, also while a panic unwinds.
struct HostRestoreGuard(Option<NonNull<dyn LuaHost>>);

impl Drop for HostRestoreGuard {
    fn drop(&mut self) {
        LENT.set(self.0);
    }
}

/// Returns true if the script that runs, or that ran last on this thread, has asked for RESP3.
#[inline]
pub fn is_typed() -> bool {
    TYPED.get()
}

/// Sets whether the script that runs has asked for RESP3. It is false when a script begins.
#[inline]
pub fn set_typed(typed: bool) {
    TYPED.set(typed);
}

/// Runs `work`, in which [`with`] finds `host`.
pub fn lend<R>(host: &mut dyn LuaHost, work: impl FnOnce() -> R) -> R {
    let host = NonNull::from(host);
    // SAFETY: only a lifetime changes, and so the type keeps its layout. The pointer is not used
    // after the host's lifetime: it is stored only in `LENT` of this thread and in the frames of
    // `with`. `HostRestoreGuard` takes it out of the former before this function returns or
    // unwinds, and the latter frames are above this one and have ended by then.
    let host =
        unsafe { std::mem::transmute::<NonNull<dyn LuaHost + '_>, NonNull<dyn LuaHost>>(host) };
    let _restore = HostRestoreGuard(LENT.replace(Some(host)));
    set_typed(false);
    work()
}

/// Runs `work` on the host that this thread has lent. Returns `None` if there is none, or if the
/// caller already works on it.
pub fn with<R>(work: impl FnOnce(&mut dyn LuaHost) -> R) -> Option<R> {
    let mut host = LENT.take()?;
    let _restore = HostRestoreGuard(Some(host));
    // SAFETY: the pointer was made of a reference by a `lend` with a frame below this one on the
    // same thread, so it is valid. That frame holds the only reference and does not use it. `LENT`
    // is empty until `HostRestoreGuard` ends, so that no second reference is made of the pointer.
    // `work` cannot keep one, because it works for any lifetime.
    Some(work(unsafe { host.as_mut() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::RespReply;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A host that counts its commands in a variable that it borrows.
    struct CountingHost<'c> {
        count: &'c mut usize,
        reply: RespReply,
    }

    impl LuaHost for CountingHost<'_> {
        fn run(&mut self, _: &[&[u8]], _: &mut RespReply) -> Result<(), String> {
            *self.count += 1;
            Ok(())
        }

        fn may_run(&self, _: &[&[u8]]) -> Option<bool> {
            None
        }

        fn reply(&mut self) -> &mut RespReply {
            &mut self.reply
        }
    }

    fn counts(count: &mut usize) -> CountingHost<'_> {
        let reply = RespReply::default();
        CountingHost { count, reply }
    }

    fn run() -> Option<()> {
        with(|host| host.run(&[], &mut RespReply::default()).unwrap_or_default())
    }

    #[test]
    fn a_host_is_found_while_it_is_lent() {
        let (mut outer, mut inner) = (0, 0);
        assert_eq!(run(), None);
        lend(&mut counts(&mut outer), || {
            assert_eq!(run(), Some(()));
            lend(&mut counts(&mut inner), || assert_eq!(run(), Some(())));
            assert_eq!(run(), Some(()));
            let other = std::thread::spawn(run);
            assert!(matches!(other.join(), Ok(None)), "threads have their own");
        });
        assert_eq!(run(), None);
        assert_eq!((outer, inner), (2, 1));
    }

    #[test]
    fn a_host_is_not_used_by_two_at_once() {
        let mut count = 0;
        lend(&mut counts(&mut count), || {
            assert_eq!(with(|_| run()), Some(None));
            assert_eq!(run(), Some(()));
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn a_panic_ends_the_loan() {
        let mut count = 0;
        lend(&mut counts(&mut count), || {
            let caught = catch_unwind(|| with(|_| panic!("of the thread that uses it")));
            assert!(caught.is_err());
            assert_eq!(run(), Some(()), "it is put back");
        });
        let host = &mut counts(&mut count);
        let lending = AssertUnwindSafe(|| lend(host, || panic!("of the thread that has lent it")));
        assert!(catch_unwind(lending).is_err());
        assert_eq!(run(), None);
        assert_eq!(count, 1);
    }
}
