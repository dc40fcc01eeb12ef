//! Many reads of files under way at once, by one thread, through the kernel's io_uring.
//!
//! Whether the kernel has it and lets this process use it is found out when a ring is made; many
//! containers refuse. Those without a ring have threads that [run](Pending::run) their reads.

use super::buffer::AlignedBuffer;
use super::read::{KEPT_BYTES, Pending};
use super::segment::Part;
use crate::usage::ReadError;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Reads that are under way at once, each with a number of the caller's.
pub struct Ring {
    ring: IoUring,
    slots: Vec<Slot>,
    free: Vec<usize>,
    under_way: usize,
    /// Reads that have begun, and that the kernel was not told of yet.
    untold: usize,
}

#[derive(Debug, Default)]
struct Slot {
    /// Where the kernel writes to while a read is under way.
    buffer: AlignedBuffer,
    read: Option<Read>,
}

#[derive(Debug)]
struct Read {
    pending: Pending,
    part: Part,
    number: u64,
}

impl fmt::Debug for Ring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a ring with {} reads under way", self.under_way)
    }
}

/// A ring of the kernel, which ends reads when their thread enters it or sleeps there. Otherwise it
/// interrupts the thread for each read. Linux has that since 5.19; before, the ring is a plain one.
///
/// It is not left to the thread to ask for what ends reads (`IORING_SETUP_DEFER_TASKRUN`): then the
/// kernel wakes nobody who polls the ring.
fn kernel_ring(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_coop_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))
}

impl Ring {
    /// A ring for so many reads at once.
    ///
    /// # Errors
    /// The kernel has none, or does not let this process use it.
    pub fn new(depth: usize) -> io::Result<Ring> {
        let ring = kernel_ring(depth.next_power_of_two() as u32)?;
        // Waiting for a time only came with Linux 5.11.
        if !ring.params().is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring {
            ring,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            free: (0..depth).collect(),
            under_way: 0,
            untold: 0,
        })
    }

    /// How many more reads can begin.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// How many reads are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Begins a read, which [`wait`](Ring::wait) answers by its number. Answers at once what needs
    /// no wait: the value lies in memory, or its file cannot be read by a ring; then the read is
    /// run here. To be called while there is [room](Ring::room).
    pub fn begin(&mut self, pending: Pending, number: u64) -> Option<Result<Vec<u8>, ReadError>> {
        let run = |pending: Pending| {
            let mut value = Vec::new();
            Some(pending.run(&mut value).map(|()| value))
        };
        let Some(at) = self.free.pop() else {
            return run(pending);
        };
        let Some(slot) = self.slots.get_mut(at) else {
            return run(pending);
        };
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
        // has. The slot is not free, so that nobody else looks at its buffer or changes it until
        // the kernel has said that the read is over: `wait` alone frees it then, and `drop` leaves
        // it behind otherwise. The segment in `pending` keeps the file open as long.
        let pushed = unsafe { self.ring.submission().push(&read) };
        if pushed.is_err() {
            // There are as many entries as slots.
            self.free.push(at);
            return run(pending);
        }
        slot.read = Some(Read {
            pending,
            part,
            number,
        });
        self.under_way += 1;
        self.untold += 1;
        None
    }

    /// Tells the kernel of all reads that have begun, at once. [`wait`](Ring::wait) does so, too.
    ///
    /// # Errors
    /// The kernel takes them later.
    pub fn submit(&mut self) -> io::Result<()> {
        if self.untold > 0 {
            self.ring.submit()?;
            self.untold = 0;
        }
        Ok(())
    }

    /// Waits until a read is over, but no longer than `limit`, and gives all that are over to
    /// `done`.
    ///
    /// # Errors
    /// The kernel refuses to wait. Reads stay under way.
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
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        self.reap(done);
        Ok(())
    }

    /// Gives the reads that are over to `done`, without a wait.
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
                // Not all of it; another read says why.
                Ok(_) => read.pending.run(&mut value),
                Err(_) => Err(io::Error::from_raw_os_error(-entry.result()).into()),
            };
            if read.part.disk_bytes > KEPT_BYTES {
                slot.buffer.shorten(KEPT_BYTES);
            }
            self.free.push(at);
            self.under_way -= 1;
            done(read.number, answer.map(|()| value));
        }
    }
}

/// The ring can be polled: it is readable when a read is over.
impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl Drop for Ring {
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
