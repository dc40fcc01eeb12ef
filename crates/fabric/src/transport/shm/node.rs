//! The process of a memory node.

use super::call::{ShmNodeCalls, wait};
use super::error::ShmError;
use super::mapping::HEADER_BYTES;
use super::object::ShmObject;
use super::pages::ShmLargePages;
use crate::address::{NodeId, RESERVED_BYTES};
use crate::chunks::Chunks;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Size of a page: the memory of a node is a whole number of pages.
const PAGE_BYTES: u64 = 4096;
/// Longest sleep of the node without calls.
const TURN: Duration = Duration::from_millis(50);
/// Interval of searches for slots of ended processes.
const SWEEP: Duration = Duration::from_millis(100);

/// A memory node in shared memory, which this process serves. See the [module](super).
///
/// It ends when it is dropped, and its memory is freed when the last client has detached.
#[derive(Debug)]
pub struct ShmNode {
    object: ShmObject,
    calls: Mutex<ShmNodeCalls>,
    pages: Mutex<ShmLargePages>,
}

impl ShmNode {
    /// Creates the node `name` with memory of `bytes`, rounded up to whole pages of 4096, all zero.
    /// A node of this name whose process has ended is replaced. The system reserves the memory at
    /// once, which takes about a second for a few gigabytes. Other users of this machine have no
    /// access to it.
    ///
    /// # Errors
    /// `Name`, `Size`, `InUse`; `System`, also when `/dev/shm` has too little room.
    pub fn create(name: &str, number: NodeId, bytes: u64) -> Result<ShmNode, ShmError> {
        let whole = bytes.checked_next_multiple_of(PAGE_BYTES);
        let most = (1 << 48) - HEADER_BYTES;
        let fits = whole.filter(|whole| (RESERVED_BYTES + 1..=most).contains(whole));
        let Some(bytes) = fits else {
            let name = name.to_owned();
            return Err(ShmError::Size { name, bytes });
        };
        let object = ShmObject::create(name, number, bytes)?;
        let calls = Mutex::new(ShmNodeCalls::new(Chunks::new(bytes, RESERVED_BYTES)));
        let pages = Mutex::new(ShmLargePages::new(&object.mapping, bytes));
        Ok(ShmNode {
            object,
            calls,
            pages,
        })
    }

    /// Serves the calls of clients until `stop` is true; then it returns within 50 ms. Sleeps while
    /// there are no calls.
    pub fn serve(&self, stop: &AtomicBool) {
        let header = self.object.mapping.header();
        let bell = &header.summary.bell;
        let mut swept = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let rung = bell.load(Ordering::Acquire);
            let mut calls = self.calls();
            calls.answer(header);
            if swept.elapsed() >= SWEEP {
                calls.sweep(header);
                swept = Instant::now();
            }
            self.object.tell_allocated(calls.chunks.allocated_bytes());
            let allocated = calls.chunks.end();
            drop(calls);
            if self.pages().advance(&self.object.mapping, allocated) {
                continue;
            }
            wait(bell, rung, TURN);
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.object.name
    }

    /// Returns its number.
    pub fn number(&self) -> NodeId {
        self.object.number
    }

    /// Returns the size of its memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.object.bytes
    }

    /// Returns the words of its memory, which clients change at any time.
    pub fn words(&self) -> &[AtomicU64] {
        self.object.mapping.words()
    }

    /// Returns the number of allocated bytes, in whole lines.
    pub fn allocated_bytes(&self) -> u64 {
        self.calls().chunks.allocated_bytes()
    }

    /// Returns the number of bytes of its memory in pages of 2 MiB: the allocated ones and some
    /// more, or none if the system has no such pages. The number grows while the node is served.
    pub fn large_page_bytes(&self) -> u64 {
        self.pages().bytes()
    }

    fn pages(&self) -> MutexGuard<'_, ShmLargePages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, ShmNodeCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ShmNode {
    fn drop(&mut self) {
        self.object.end();
        self.object.remove();
    }
}
