//! The file system that file tiers are stored on. Tests replace it to inject faults.

use std::cell::Cell;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Timeout of a disk, after which there is an error. *Assumed*: a working disk responds within a
/// hundredth of it.
pub const PATIENCE: Duration = Duration::from_secs(5);

thread_local! {
    /// Time that this thread waits for a disk, and true if a disk did not respond in it.
    static PATIENT: Cell<(Duration, bool)> = const { Cell::new((PATIENCE, false)) };
}

/// Returns the time that this thread waits for a disk.
pub(crate) fn patience() -> Duration {
    PATIENT.get().0
}

/// Returns the error of a disk that did not respond in the time that this thread waits. It is of
/// kind [`WouldBlock`](io::ErrorKind::WouldBlock) if that is less than [`PATIENCE`]: the disk may
/// only be busy.
pub(crate) fn late() -> io::Error {
    let patience = patience();
    PATIENT.set((patience, true));
    match patience < PATIENCE {
        true => io::Error::new(io::ErrorKind::WouldBlock, "the disk does not respond yet"),
        false => io::Error::new(io::ErrorKind::TimedOut, "the disk does not respond"),
    }
}

/// Calls `work`, during which this thread waits for a disk for `limit` at most. Also returns true
/// if a disk did not respond in that time.
pub(crate) fn with_patience<R>(limit: Duration, work: impl FnOnce() -> R) -> (R, bool) {
    /// Ends the limit, also after a panic.
    struct LimitEnd((Duration, bool));

    impl Drop for LimitEnd {
        fn drop(&mut self) {
            PATIENT.set(self.0);
        }
    }

    let _end = LimitEnd(PATIENT.replace((limit, false)));
    let result = work();
    (result, PATIENT.get().1)
}

/// A disk that creates the files of tiers.
pub trait TierDisk: fmt::Debug + Send + Sync {
    /// Creates a file of `bytes` bytes, which the disk reserves. It has no name, so that nothing is
    /// left of it when the process ends.
    ///
    /// # Errors
    /// The file cannot be created, or there is no room.
    fn create(&self, folder: &Path, bytes: u64) -> io::Result<Box<dyn TierFile>>;

    /// Returns the bytes that are free for this user in a folder's file system; `None` if it does
    /// not report them.
    ///
    /// # Errors
    /// The folder does not exist.
    fn free_bytes(&self, folder: &Path) -> io::Result<Option<u64>>;
}

/// A file of a tier. Offsets, lengths and addresses are multiples of a sector.
pub trait TierFile: fmt::Debug + Send + Sync {
    /// Fills a buffer from the file.
    ///
    /// # Errors
    /// The disk fails.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of a buffer to the file.
    ///
    /// # Errors
    /// The disk fails. A part may be written.
    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()>;

    /// Returns the file's descriptor, for the kernel to read it directly; `None` if only `read_at`
    /// may read it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The disk of this machine. Files bypass the system's cache where the file system supports it,
/// because a tier is meant to save memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealTierDisk;

/// Counter of files, which makes their names unique.
static FILES: AtomicU64 = AtomicU64::new(0);

impl TierDisk for RealTierDisk {
    fn create(&self, folder: &Path, bytes: u64) -> io::Result<Box<dyn TierFile>> {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearfield-tier-{}-{number}", std::process::id());
        let path = folder.join(name);
        let open = |flags| {
            let mut options = OpenOptions::new();
            // `create_new` refuses a file or link that someone else has put under this name.
            options.read(true).write(true).create_new(true);
            // The values of a store are for no other user.
            options.custom_flags(flags).mode(0o600).open(&path)
        };
        let file = match open(libc::O_DIRECT) {
            // This file system cannot bypass the cache.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(0)?,
            opened => opened?,
        };
        // Without a name nothing is left of the file, however the process ends.
        std::fs::remove_file(&path)?;
        reserve(&file, bytes)?;
        Ok(Box::new(file))
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<Option<u64>> {
        free_bytes(folder)
    }
}

impl TierFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(buffer, offset)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

/// Makes the disk reserve a file's bytes, so that a later write does not find it full.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    // SAFETY: the call takes an open file and two numbers.
    let reserved = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) };
    if reserved == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // This file system does not support reserving.
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => file.set_len(bytes),
        _ => Err(error),
    }
}

/// Returns the bytes that are free for this user in a folder's file system.
fn free_bytes(folder: &Path) -> io::Result<Option<u64>> {
    let path = std::ffi::CString::new(folder.as_os_str().as_encoded_bytes())?;
    let mut status = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends with a zero and `status` has room for the result; both outlive the call.
    if unsafe { libc::statvfs(path.as_ptr(), status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has filled `status`.
    let status = unsafe { status.assume_init() };
    // Not `f_bfree`, which includes the blocks reserved for the superuser.
    Ok(status.f_bavail.checked_mul(status.f_frsize))
}
