//! Concurrent reads of files by one thread, through the kernel's io_uring.
//!
//! Creating a ring fails if the kernel lacks io_uring or does not let this process use it; many
//! containers refuse it. A store without a ring has threads that [run](PendingTierRead::run) its
//! reads.

use super::buffer::AlignedBuffer;
use super::read::{KEPT_BYTES, PendingTierRead};
use super::segment::DiskRecordPart;
use crate::usage::ReadError;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Reads that are under way at once, each with a number that the caller chooses.
pub struct TierReadRing {
    ring: IoUring,
    slots: Vec<TierReadSlot>,
    free: Vec<usize>,
    under_way: usize,
    /// Number of reads that have begun but were not yet submitted to the kernel.
    untold: usize,
}

#[derive(Debug, Default)]
struct TierReadSlot {
    /// The buffer that the kernel writes to while a read is under way.
    buffer: AlignedBuffer,
    read: Option<TierReadRequest>,
}

#[derive(Debug)]
struct TierReadRequest {
    pending: PendingTierRead,
    part: DiskRecordPart,
    number: u64,
}

impl fmt::Debug for TierReadRing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a ring with {} reads in flight", self.under_way)
    }
}

/// Creates a ring of the kernel that completes reads when their thread enters it or sleeps there. A
/// plain ring interrupts the thread for each read. Linux supports this since 5.19; before, the ring
/// is a plain one.
fn kernel_ring(entries: u32) -> io::Result<IoUring> {
    // `IORING_SETUP_DEFER_TASKRUN` is not set: with it the thread would have to ask for
    // completions, and the kernel would not wake a thread that polls the ring.
    IoUring::builder()
        .setup_coop_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))
}

impl TierReadRing {
    /// Creates a ring for `depth` reads at once.
    ///
    /// # Errors
    /// The kernel has no io_uring, or does not let this process use it.
    pub fn new(depth: usize) -> io::Result<TierReadRing> {
        let ring = kernel_ring(depth.next_power_of_two() as u32)?;
        // Waiting with a timeout needs Linux 5.11.
        if !ring.params().is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(TierReadRing {
            ring,
            slots: (0..depth).map(|_| TierReadSlot::default()).collect(),
            free: (0..depth).collect(),
            under_way: 0,
            untold: 0,
        })
    }

    /// Returns the number of reads that can still begin.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Returns the number of reads under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Begins a read; [`wait`](TierReadRing::wait) passes on its result with its number. Returns
    /// the result at once if no wait is needed: if the value is in memory, or if its file cannot be
    /// read by a ring, in which case the read runs here. Call it while there is
    /// [room](TierReadRing::room).
    pub fn begin(
        &mut self,
        pending: PendingTierRead,
        number: u64,
    ) -> Option<Result<Vec<u8>, ReadError>> {
        let run = |pending: PendingTierRead| {
            let mut value = Vec::new();
            Some(pending.run(&mut value).map(|()| value))
        };
        let Some(at) = self.free.pop() else {
            // The caller has ignored that there is no room; it waits for this read.
            return run(pending);
        };
        let Some(slot) = self.slots.get_mut(at) else {
            return run(pending);
        };
        debug_assert!(slot.read.is_none(), "a free slot has no read");
        let file = pending.segment.file_descriptor();
        let part = pending
            .segment
            .prepare(pending.start, pending.value_bytes, &mut slot.buffer);
        let (Some(file), Some(part)) = (file, part) else {
            self.free.push(at);
            return run(pending);
        };
        let Some(target) = slot.buffer.bytes_mut().get_mut(..part.disk_bytes) else {
            self.free.push(at);
            return run(pending);
        };
        if target.is_empty() {
            // All of the record was in memory.
            self.free.push(at);
            let mut value = Vec::new();
            let answer = pending.finish(&part, &slot.buffer, &mut value);
            return Some(answer.map(|()| value));
        }
        let read = opcode::Read::new(
            Fd(file.as_raw_fd()),
            target.as_mut_ptr(),
            target.len() as u32,
        )
        .offset(part.first)
        .build()
        .user_data(at as u64);
        // SAFETY: the kernel writes to the buffer of this slot, at most as many bytes as `target`
        // has. The slot is not free, so no other code reads or changes its buffer until the kernel
        // reports that the read has ended: only `wait` frees it then, and otherwise `drop` leaks
        // it. The segment in `pending` keeps the file open as long.
        let pushed = unsafe { self.ring.submission().push(&read) };
        debug_assert!(pushed.is_ok(), "the ring has as many entries as slots");
        if pushed.is_err() {
            self.free.push(at);
            return run(pending);
        }
        slot.read = Some(TierReadRequest {
            pending,
            part,
            number,
        });
        self.under_way += 1;
        self.untold += 1;
        debug_assert_eq!(self.free.len() + self.under_way, self.slots.len());
        None
    }

    /// Submits all reads that have begun to the kernel at once. [`wait`](TierReadRing::wait) does
    /// so, too.
    ///
    /// # Errors
    /// The kernel accepts none now; a later call submits them.
    pub fn submit(&mut self) -> io::Result<()> {
        if self.untold > 0 {
            self.ring.submit()?;
            self.untold = 0;
        }
        Ok(())
    }

    /// Waits until a read has ended, for `limit` at most, and passes all reads that have ended to
    /// `done`.
    ///
    /// # Errors
    /// The kernel refuses to wait. The reads stay under way.
    pub fn wait(
        &mut self,
        limit: Duration,
        done: impl FnMut(u64, Result<Vec<u8>, ReadError>),
    ) -> io::Result<()> {
        if self.under_way == 0 {
            return Ok(());
        }
        let limit = Timespec::new()
            .sec(limit.as_secs())
            .nsec(limit.subsec_nanos());
        let arguments = SubmitArgs::new().timespec(&limit);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => self.untold = 0,
            // The limit has passed, or a signal came: reads may have ended nevertheless.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        self.reap(done);
        Ok(())
    }

    /// Passes the reads that have ended to `done`, without waiting.
    pub fn reap(&mut self, mut done: impl FnMut(u64, Result<Vec<u8>, ReadError>)) {
        for entry in self.ring.completion() {
            let at = entry.user_data() as usize;
            let Some(slot) = self.slots.get_mut(at) else {
                continue;
            };
            let Some(read) = slot.read.take() else {
                continue;
            };
            let mut value = Vec::new();
            let answer = match usize::try_from(entry.result()) {
                Ok(bytes) if bytes == read.part.disk_bytes => {
                    read.pending.finish(&read.part, &slot.buffer, &mut value)
                }
                // The read was short; reading again returns the reason.
                Ok(_) => read.pending.run(&mut value),
                Err(_) => Err(io::Error::from_raw_os_error(-entry.result()).into()),
            };
            if read.part.disk_bytes > KEPT_BYTES {
                // Otherwise each slot would keep the memory of the largest value it has read.
                slot.buffer.shorten(KEPT_BYTES);
            }
            self.free.push(at);
            self.under_way -= 1;
            done(read.number, answer.map(|()| value));
        }
    }
}

/// The file descriptor of the ring, to poll: it is readable when a read has ended.
impl AsRawFd for TierReadRing {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl Drop for TierReadRing {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            // The kernel may still write to the buffer, and read the file.
            if let Some(read) = slot.read.take() {
                std::mem::forget(std::mem::take(&mut slot.buffer));
                std::mem::forget(read);
            }
        }
    }
}
