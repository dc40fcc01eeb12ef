//! The atomics of the [local locks](crate::smart::lock) of SMART, which loom replaces with its own
//! to explore every interleaving
//! (`RUSTFLAGS="--cfg loom" cargo test -p nearfield-radix-rivals --release --test loom`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
