//! The limit of a disk: nothing but reads at random positions of a file, with a given number in
//! flight. They use `io_uring` if the kernel permits it, else one thread for each.

use crate::harness::Durations;
use crate::workload::random;
use io_uring::{IoUring, opcode, types};
use rand::RngExt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Alignment of reads, in bytes.
pub(crate) const SECTOR_BYTES: u64 = 4096;
/// The most bytes of a read.
const READ_BYTES_MAX: usize = 16 << 10;

/// Memory for a read, with the alignment that reads which bypass the cache need.
#[repr(C, align(4096))]
struct DirectReadBuffer([u8; READ_BYTES_MAX]);

/// A read of the disk: its first sector, and the number of sectors.
pub(crate) type Extent = (u64, u32);

/// The method of reading the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// One thread with `io_uring`.
    Ring,
    /// A thread for each read in flight.
    Threads,
}

impl Method {
    /// Returns the best method that the kernel permits.
    pub(crate) fn here() -> Method {
        match IoUring::new(8) {
            Ok(_) => Method::Ring,
            Err(_) => Method::Threads,
        }
    }

    /// Returns the name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Ring => "io_uring",
            Method::Threads => "threads",
        }
    }
}

/// Reads random extents for the time `turn`, with `depth` in flight, and returns their durations.
pub(crate) fn read(
    file: &File,
    extents: &[Extent],
    method: Method,
    depth: usize,
    turn: Duration,
    seed: u64,
) -> io::Result<Durations> {
    match method {
        Method::Ring => by_ring(file, extents, depth, turn, seed),
        Method::Threads => by_threads(file, extents, depth, turn, seed),
    }
}

fn length((_, sectors): Extent) -> usize {
    (sectors as usize * SECTOR_BYTES as usize).min(READ_BYTES_MAX)
}

fn by_ring(
    file: &File,
    extents: &[Extent],
    depth: usize,
    turn: Duration,
    seed: u64,
) -> io::Result<Durations> {
    debug_assert!(depth > 0 && !extents.is_empty());
    let mut ring = IoUring::new(depth.next_power_of_two() as u32)?;
    let mut random = random(seed, 4);
    let mut durations = Durations::new();
    let buffers = (0..depth).map(|_| Box::new(DirectReadBuffer([0; READ_BYTES_MAX])));
    let mut buffers: Vec<Box<DirectReadBuffer>> = buffers.collect();
    let start = Instant::now();
    let mut since = vec![start; depth];
    let mut free: Vec<usize> = (0..depth).collect();
    let mut open = 0;
    let mut failed = None;
    loop {
        let goes_on = failed.is_none() && start.elapsed() < turn;
        while goes_on && let Some(slot) = free.pop() {
            let extent = extents[random.random_range(0..extents.len())];
            let memory = buffers[slot].0.as_mut_ptr();
            let read =
                opcode::Read::new(types::Fd(file.as_raw_fd()), memory, length(extent) as u32)
                    .offset(extent.0 * SECTOR_BYTES)
                    .build()
                    .user_data(slot as u64);
            since[slot] = Instant::now();
            // SAFETY: the file stays open and `buffers[slot]` stays at its address until the loop
            // ends, which is after the kernel has completed every read. No other read has the slot
            // in the meantime, and no other code accesses its memory.
            let pushed = unsafe { ring.submission().push(&read) };
            if pushed.is_err() {
                // The ring has one entry for each slot.
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            open += 1;
        }
        if open == 0 {
            debug_assert_eq!(free.len(), depth, "a slot is lost");
            return failed.map_or(Ok(durations), Err);
        }
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Reads in flight still write to the buffers, so these must not be freed.
            Err(error) => {
                std::mem::forget(buffers);
                return Err(error);
            }
        }
        for done in ring.completion() {
            let slot = done.user_data() as usize;
            debug_assert!(open > 0 && slot < depth);
            open -= 1;
            free.push(slot);
            if done.result() < 0 {
                failed = Some(io::Error::from_raw_os_error(-done.result()));
            }
            durations.record(since[slot].elapsed());
        }
    }
}

fn by_threads(
    file: &File,
    extents: &[Extent],
    depth: usize,
    turn: Duration,
    seed: u64,
) -> io::Result<Durations> {
    let start = Instant::now();
    let read = |number: usize| {
        let mut random = random(seed, 5 + number as u64);
        let mut durations = Durations::new();
        let mut buffer = Box::new(DirectReadBuffer([0; READ_BYTES_MAX]));
        while start.elapsed() < turn {
            let extent = extents[random.random_range(0..extents.len())];
            let since = Instant::now();
            let part = buffer.0.get_mut(..length(extent)).unwrap_or_default();
            file.read_exact_at(part, extent.0 * SECTOR_BYTES)?;
            durations.record(since.elapsed());
        }
        Ok(durations)
    };
    std::thread::scope(|scope| {
        let start = |number| scope.spawn(move || read(number));
        let threads: Vec<_> = (0..depth).map(start).collect();
        let mut all = Durations::new();
        for thread in threads {
            let durations: io::Result<Durations> = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.merge(&durations?);
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn both_methods_read_and_threads_refuse_a_file_that_is_too_short() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 64 << 10]).unwrap();
        let extents: Vec<Extent> = (0..12)
            .map(|number| (number, 1 + number as u32 % 4))
            .collect();
        let turn = Duration::from_millis(30);
        for method in [Method::here(), Method::Threads] {
            let read = read(&file, &extents, method, 8, turn, 1).unwrap();
            assert!(read.count() >= 8, "{method:?}");
        }
        assert!(read(&file, &[(1000, 1)], Method::Threads, 2, turn, 1).is_err());
    }
}
