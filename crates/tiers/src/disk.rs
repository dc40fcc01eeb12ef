//! The disk that file tiers lie on. Tests have one that fails.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long is waited for a disk. Then there is an error. *Assumed*: a disk that works answers in a
/// hundredth of it.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the files of tiers.
pub trait Disk: fmt::Debug + Send + Sync {
    /// A new file of so many bytes, which the disk reserves. It has no name, so that nothing is
    /// left of it when the process ends.
    ///
    /// # Errors
    /// It cannot be made, or there is no room.
    fn create(&self, folder: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// The bytes that are free in a folder's file system for this user; `None` if it does not say.
    ///
    /// # Errors
    /// There is no such folder.
    fn free_bytes(&self, folder: &Path) -> io::Result<Option<u64>>;
}

/// A file of a tier. Offsets, lengths and addresses are multiples of a sector.
pub trait DiskFile: fmt::Debug + Send + Sync {
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

    /// The file for the kernel to read it by itself; `None` if it is to be read by `read_at` alone.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The disk of this machine. Files bypass the system's cache where the file system can, as memory
/// is what a tier is to save.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// A number for each file, so that their names differ.
static FILES: AtomicU64 = AtomicU64::new(0);

impl Disk for RealDisk {
    fn create(&self, folder: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearfield-tier-{}-{number}", std::process::id());
        let path = folder.join(name);
        let open = |flags| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true);
            options.custom_flags(flags).mode(0o600).open(&path)
        };
        let file = match open(libc::O_DIRECT) {
            // This file system cannot bypass the cache.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(0)?,
            opened => opened?,
        };
        std::fs::remove_file(&path)?;
        reserve(&file, bytes)?;
        Ok(Box::new(file))
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<Option<u64>> {
        free_bytes(folder)
    }
}

impl DiskFile for File {
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

/// Has the disk reserve a file's bytes, so that a write does not find it full later.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    // SAFETY: the call takes an open file and two numbers.
    let reserved = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) };
    if reserved == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // This file system cannot reserve.
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => file.set_len(bytes),
        _ => Err(error),
    }
}

/// The bytes that are free in a folder's file system for this user.
fn free_bytes(folder: &Path) -> io::Result<Option<u64>> {
    let path = std::ffi::CString::new(folder.as_os_str().as_encoded_bytes())?;
    let mut status = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends with a zero and `status` has room for the answer; both outlive the call.
    if unsafe { libc::statvfs(path.as_ptr(), status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so that it has filled `status`.
    let status = unsafe { status.assume_init() };
    Ok(status.f_bavail.checked_mul(status.f_frsize))
}
