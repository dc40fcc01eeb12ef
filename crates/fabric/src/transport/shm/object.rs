//! Objects in `/dev/shm` and the processes that serve them.
//!
//! A process serves a node as long as it holds the lock (`flock`) of the node's object. The system
//! releases the lock when the process ends in any way. A process that gets the lock therefore knows
//! that no process serves the node, even if the number of the former one is in use again.

use super::error::ShmError;
use super::mapping::{HEADER_BYTES, ShmMapping};
use crate::address::{NodeId, WORD_BYTES};
use crate::membership::is_name;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::shm;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The first word of every node: "nearfld" and a zero.
const MAGIC: u64 = u64::from_le_bytes(*b"nearfld\0");
/// The version of the header's format.
const VERSION: u64 = 3;

/// States of the summary.
const STARTING: u32 = 0;
pub const READY: u32 = 1;
pub const ENDED: u32 = 2;

/// The meaning of each word of the summary.
mod word {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    /// The size of the node's memory in bytes, without the header.
    pub const BYTES: usize = 2;
    pub const NUMBER: usize = 3;
    /// The process that serves the node.
    pub const PROCESS: usize = 4;
    /// The number of allocated bytes, which the process keeps up to date for clients to show.
    pub const ALLOCATED: usize = 5;
}

/// Number of tries to lock an object. More than one, because a process that checks if a node is
/// served holds its lock for a moment.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// An object of a node, and the content of its header.
#[derive(Debug)]
pub struct ShmObject {
    pub name: String,
    pub number: NodeId,
    /// Size of the node's memory, without the header.
    pub bytes: u64,
    pub mapping: ShmMapping,
    file: File,
}

impl ShmObject {
    /// Creates an object, reserves its memory, and holds its lock.
    pub fn create(name: &str, number: NodeId, bytes: u64) -> Result<ShmObject, ShmError> {
        check_name(name)?;
        let file = claim(name)?;
        // The name exists, so a failure must remove it: clients would wait for the node to become
        // ready.
        let created = ShmObject::fill(name, file, number, bytes);
        if created.is_err() {
            // The lock excludes other processes, and the failure below is more useful.
            let _ = shm::unlink(path(name));
        }
        created
    }

    fn fill(name: &str, file: File, number: NodeId, bytes: u64) -> Result<ShmObject, ShmError> {
        let refused = |action| move |source| system(name, action, source);
        let all = bytes + HEADER_BYTES;
        reserve(&file, all).map_err(refused("reserve the memory of"))?;
        let mapping = ShmMapping::new(&file, all).map_err(refused("map"))?;
        let summary = &mapping.header().summary;
        let set = |word: usize, value| summary.words[word].store(value, Ordering::Relaxed);
        set(word::MAGIC, MAGIC);
        set(word::VERSION, VERSION);
        set(word::BYTES, bytes);
        set(word::NUMBER, u64::from(number.0));
        set(word::PROCESS, u64::from(std::process::id()));
        // Last: a client that sees this state sees the words of the summary, too.
        summary.state.store(READY, Ordering::Release);
        Ok(ShmObject {
            name: name.to_owned(),
            number,
            bytes,
            mapping,
            file,
        })
    }

    /// Opens the object of a node that is being served.
    pub fn open(name: &str) -> Result<ShmObject, ShmError> {
        check_name(name)?;
        let owned = || name.to_owned();
        let Some(file) = open(name)? else {
            return Err(ShmError::Absent { name: owned() });
        };
        let metadata = file.metadata();
        let metadata = metadata.map_err(|source| system(name, "measure", source))?;
        let found = metadata.len();
        if found == 0 {
            return Err(ShmError::NotReady { name: owned() });
        }
        if found <= HEADER_BYTES {
            return Err(ShmError::Foreign { name: owned() });
        }
        let mapping =
            ShmMapping::new(&file, found).map_err(|source| system(name, "map", source))?;
        let summary = &mapping.header().summary;
        let state = summary.state.load(Ordering::Acquire);
        let [magic, version, bytes, number, ..] =
            [0, 1, 2, 3].map(|word: usize| summary.words[word].load(Ordering::Relaxed));
        // Checked before the magic: the process of a node that starts has not written it yet.
        if state == STARTING && (magic == 0 || magic == MAGIC) {
            return Err(ShmError::NotReady { name: owned() });
        }
        if magic != MAGIC {
            return Err(ShmError::Foreign { name: owned() });
        }
        if version != VERSION {
            return Err(ShmError::Version {
                name: owned(),
                found: version,
                known: VERSION,
            });
        }
        let stated = bytes.saturating_add(HEADER_BYTES);
        let number = u16::try_from(number).ok();
        // The object has whole words only.
        let is_whole = stated == found && stated.is_multiple_of(WORD_BYTES);
        let Some(number) = number.filter(|_| is_whole) else {
            return Err(ShmError::OtherSize {
                name: owned(),
                stated,
                found,
            });
        };
        let object = ShmObject {
            name: owned(),
            number: NodeId(number),
            bytes,
            mapping,
            file,
        };
        // The process may have died without a change of the state, which leaves the lock free.
        if object.is_ended() || object.is_forsaken() {
            return Err(ShmError::Lost { name: owned() });
        }
        Ok(object)
    }

    /// Returns true if the node has ended properly, or a process has found it abandoned.
    pub fn is_ended(&self) -> bool {
        self.mapping.header().summary.state.load(Ordering::Relaxed) != READY
    }

    /// Returns true if no process serves the node any more, and marks it as ended for all others.
    pub fn is_forsaken(&self) -> bool {
        if self.file.try_lock_shared().is_err() {
            return false;
        }
        // No process serves this object again: the next one of the name creates its own.
        self.end();
        // The lock is released with the file at the latest.
        let _ = self.file.unlock();
        true
    }

    /// Marks the node as no longer served.
    pub fn end(&self) {
        let state = &self.mapping.header().summary.state;
        state.store(ENDED, Ordering::Release);
    }

    /// Tells clients the number of allocated bytes.
    pub fn tell_allocated(&self, bytes: u64) {
        let words = &self.mapping.header().summary.words;
        words[word::ALLOCATED].store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of allocated bytes that the node's process has told last.
    pub fn allocated_bytes(&self) -> u64 {
        let words = &self.mapping.header().summary.words;
        words[word::ALLOCATED].load(Ordering::Relaxed)
    }

    /// Removes the object's name. Only the holder of the lock may call this.
    pub fn remove(&self) {
        if matches!(is_at(&self.name, &self.file), Ok(true)) {
            // Another process may have removed it before.
            let _ = shm::unlink(path(&self.name));
        }
    }
}

/// Creates an empty object of this name, and holds its lock.
fn claim(name: &str) -> Result<File, ShmError> {
    let flags = shm::OFlags::CREATE | shm::OFlags::EXCL | shm::OFlags::RDWR;
    let mut process = 0;
    for _ in 0..LOCK_ATTEMPTS {
        match shm::open(path(name), flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                let file = File::from(file);
                // Another process may take it for an abandoned one at this moment; then that
                // process has it.
                if lock(name, &file)? && is_at(name, &file)? {
                    return Ok(file);
                }
                continue;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(system(name, "create", error.into())),
        }
        let Some(file) = open(name)? else {
            continue;
        };
        if !lock(name, &file)? {
            process = served_by(&file);
            std::thread::sleep(LOCK_PAUSE);
        } else if is_at(name, &file)? {
            match shm::unlink(path(name)) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(system(name, "replace", error.into())),
            }
        }
    }
    let name = name.to_owned();
    Err(ShmError::InUse { name, process })
}

/// Returns the process that an object's header names, 0 if none.
fn served_by(file: &File) -> u32 {
    let mut bytes = [0; 8];
    let offset = 8 * (1 + word::PROCESS as u64);
    let read = file.read_exact_at(&mut bytes, offset);
    read.map_or(0, |()| u64::from_le_bytes(bytes) as u32)
}

/// Reserves memory of the system for an object, so that no access fails.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let none = rustix::fs::FallocateFlags::empty();
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, none, 0, bytes))?;
    Ok(())
}

fn lock(name: &str, file: &File) -> Result<bool, ShmError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => Err(system(name, "lock", source)),
    }
}

/// Opens the object that has this name now.
fn open(name: &str) -> Result<Option<File>, ShmError> {
    match shm::open(path(name), shm::OFlags::RDWR, Mode::empty()) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(system(name, "open", error.into())),
    }
}

/// Returns true if this is the object that has the name.
fn is_at(name: &str, file: &File) -> Result<bool, ShmError> {
    let Some(there) = open(name)? else {
        return Ok(false);
    };
    let same = || Ok::<_, io::Error>(there.metadata()?.ino() == file.metadata()?.ino());
    same().map_err(|source| system(name, "inspect", source))
}

fn path(name: &str) -> String {
    format!("/nearfield-{name}")
}

fn check_name(name: &str) -> Result<(), ShmError> {
    if is_name(name) {
        return Ok(());
    }
    let name = name.to_owned();
    Err(ShmError::Name { name })
}

fn system(name: &str, action: &'static str, source: io::Error) -> ShmError {
    let name = name.to_owned();
    ShmError::System {
        name,
        action,
        source,
    }
}
