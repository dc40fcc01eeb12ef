//! The part of mimalloc that has no safe interface.

#![allow(unsafe_code)]

/// Makes mimalloc return to the system the free memory that it keeps for this thread.
pub fn give_back() {
    // SAFETY: it may be called at any time and by any thread, and moves nothing that is in use.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
