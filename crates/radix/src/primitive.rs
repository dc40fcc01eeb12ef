//! The atomics of the [lock](crate::lock), of [blocks](crate::leaf::block) and of
//! [spans](crate::memory::span), which loom replaces with its own to explore every interleaving
//! (`RUSTFLAGS="--cfg loom" cargo test -p nearfield-radix --test loom`).

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};
