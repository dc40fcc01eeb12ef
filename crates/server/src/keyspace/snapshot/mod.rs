//! Snapshots: the state of all keys at one instant, written while clients are served.
//!
//! There is no second process and no second copy of the keyspace. A *cursor* visits the keys in
//! their order, a *slice* at a time, and writes them. A key that is changed while it is still ahead
//! of the cursor is written first, with the value that it has before the change, and the cursor
//! skips it later. So each key is written once, as it was when the snapshot began:
//!
//! ```text
//!   a  b  c  d  e  f  g  h  i         SET h 2:  h is ahead of the cursor, so its old value is
//!   ──written──▶│        ▲            written now, and the cursor will pass over it
//!             cursor     saved        SET b 2:  b is behind it; nothing to do
//! ```
//!
//! The hook is in [`DatabaseKeys`](crate::keyspace::DatabaseKeys), in every function that changes a
//! key, so that no command can bypass it: whatever its flags, within transactions and scripts, and
//! when a key expires. While a snapshot is taken, commands that write are executed in the exclusive
//! phase (it is a [`WriteObserver`]); a slice runs in the shared phase, in parallel with reads.
//! The two exclude each other by the lock around `RunningSnapshot`, which is also held where a read
//! finds an expired key and deletes it in the shared phase. The order of locks is phase first, then
//! this lock.
//!
//! A command that changes databases as a whole (`FLUSHALL`, `SWAPDB`) first has all keys ahead of
//! the cursor written, however long that takes.
//!
//! The old value of a key may be unreadable, in a cold tier. The change then goes on, and the
//! snapshot fails, because it would lack the key.
//!
//! Memory: the bytes that wait for the disk are bounded (see `output`). The names of keys that were
//! saved ahead of the cursor come on top.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod output;
pub mod value;

use crate::disk::{PersistenceDisk, PersistenceFile};
use crate::keyspace::{
    DATABASES, Database, Databases, Keyspace, RecordPayload, ValueRecord, WriteObserver,
};
use crate::object::RedisType;
use crate::rdb::{Attributes, Dialect, RdbError, RdbWriter};
use hashbrown::HashSet;
use nearfield_tiers::AccountedHeap;
use output::SnapshotBuffer;
use parking_lot::Mutex;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The maximum duration of a slice; writes wait for it.
const SLICE_TIME: Duration = Duration::from_micros(500);
/// The maximum number of keys of a slice.
const SLICE_KEYS: usize = 256;

/// The slot of a keyspace for the snapshot that is being taken.
#[derive(Debug, Default)]
pub struct Snapshot {
    running: Mutex<Option<RunningSnapshot>>,
    /// True if files and payloads are for Valkey.
    for_valkey: AtomicBool,
    /// Number of keys that the snapshot has written.
    written_keys: AtomicU64,
}

/// A snapshot that is being taken.
struct RunningSnapshot {
    writer: RdbWriter<SnapshotBuffer>,
    output: SnapshotBuffer,
    /// The database of the entry that was written last.
    selected: Option<usize>,
    /// The database of the cursor. All keys of lesser databases are written, and of this one those
    /// up to `after`.
    database: usize,
    after: Option<Vec<u8>>,
    /// Keys of this database and of greater ones that the cursor must skip.
    saved: Vec<HashSet<Box<[u8]>>>,
    /// The error of a thread that was to change keys and could not write their old values.
    failed: Option<RdbError>,
    keys: u64,
}

impl std::fmt::Debug for RunningSnapshot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Running")
            .field("database", &self.database)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// The result of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Number of keys in the file.
    pub keys: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Number of changes since the previous snapshot.
    pub changes: u64,
}

impl Snapshot {
    /// Returns the dialect of files and payloads.
    pub fn dialect(&self) -> Dialect {
        match self.for_valkey.load(Ordering::Relaxed) {
            true => Dialect::Valkey,
            false => Dialect::Redis,
        }
    }

    /// Returns the number of keys written by the current or last snapshot.
    pub fn written_keys(&self) -> u64 {
        self.written_keys.load(Ordering::Relaxed)
    }

    /// Sets the dialect of files and payloads that are begun later.
    pub fn set_dialect(&self, dialect: Dialect) {
        let for_valkey = dialect == Dialect::Valkey;
        self.for_valkey.store(for_valkey, Ordering::Relaxed);
    }

    /// Saves `key` of a database if a snapshot needs it. Must be called before the key is changed.
    #[inline]
    pub fn before_change(
        &self,
        keyspace: &Keyspace,
        number: usize,
        database: &Database,
        key: &[u8],
    ) {
        if keyspace.is_observed_by(WriteObserver::Snapshot) {
            self.save(keyspace, number, database, key);
        }
    }

    #[cold]
    fn save(&self, keyspace: &Keyspace, number: usize, database: &Database, key: &[u8]) {
        let mut running = self.running.lock();
        let Some(running) = running.as_mut() else {
            return;
        };
        if running.failed.is_some() {
            return;
        }
        match running.save(keyspace, number, database, key) {
            Ok(()) => running.output.wait_for_room_of_change(),
            Err(error) => running.failed = Some(error),
        }
    }

    /// Writes all keys ahead of the cursor. Must be called before databases are changed as a whole.
    pub fn before_all_change(&self, keyspace: &Keyspace, databases: &Databases) {
        if !keyspace.is_observed_by(WriteObserver::Snapshot) {
            return;
        }
        let mut running = self.running.lock();
        let Some(running) = running.as_mut() else {
            return;
        };
        loop {
            match running.slice(keyspace, databases) {
                Ok(false) => running.output.wait_for_room_of_change(),
                Ok(true) => return,
                Err(error) => {
                    running.failed = Some(error);
                    return;
                }
            }
        }
    }

    fn slice(&self, keyspace: &Keyspace) -> Result<bool, RdbError> {
        let databases = keyspace.share();
        match self.running.lock().as_mut() {
            Some(running) => running.slice(keyspace, &databases),
            None => Ok(true),
        }
    }
}

impl RunningSnapshot {
    fn new(output: SnapshotBuffer, dialect: Dialect) -> Result<RunningSnapshot, RdbError> {
        let mut writer = RdbWriter::with_dialect(output.clone(), dialect)?;
        let ctime = crate::clock::now_ms() / 1000;
        writer.aux(b"redis-ver", b"7.0.15")?;
        writer.aux(b"redis-bits", b"64")?;
        writer.aux(b"ctime", ctime.to_string().as_bytes())?;
        Ok(RunningSnapshot {
            writer,
            output,
            selected: None,
            database: 0,
            after: None,
            saved: Vec::new(),
            failed: None,
            keys: 0,
        })
    }

    /// Writes the codes of libraries of functions, which come before all keys.
    fn functions(&mut self, codes: &[Arc<[u8]>]) -> Result<(), RdbError> {
        codes.iter().try_for_each(|code| self.writer.function(code))
    }

    fn save(
        &mut self,
        keyspace: &Keyspace,
        number: usize,
        database: &Database,
        key: &[u8],
    ) -> Result<(), RdbError> {
        debug_assert!(number < DATABASES);
        let passed = self.after.as_deref().is_some_and(|after| key <= after);
        if number < self.database || (number == self.database && passed) {
            return Ok(());
        }
        if self.saved.len() <= number {
            self.saved.resize_with(number + 1, HashSet::new);
        }
        // A key that does not exist yet has no old value, and its new one must not be in the
        // snapshot either.
        let is_new = self
            .saved
            .get_mut(number)
            .is_some_and(|saved| saved.insert(key.into()));
        if !is_new {
            return Ok(());
        }
        let written = database.read(key, |record| self.write(keyspace, number, key, record))?;
        written.unwrap_or(Ok(()))
    }

    /// Writes some keys. Returns true if there are no more.
    ///
    /// # Errors
    /// A key cannot be read, now or when another thread was to change it; those of the file.
    fn slice(&mut self, keyspace: &Keyspace, databases: &Databases) -> Result<bool, RdbError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let began = Instant::now();
        let mut count = 0;
        while let Some(database) = databases.get(self.database) {
            if let Some(entries) = database.entries() {
                let after = self.after.take();
                let start = match &after {
                    Some(after) => Bound::Excluded(after.as_slice()),
                    None => Bound::Unbounded,
                };
                let mut last = None;
                let mut full = false;
                for entry in entries.range((start, Bound::Unbounded)) {
                    let (key, stored) = entry?;
                    debug_assert!(last.as_ref().is_none_or(|last: &Vec<u8>| *last < key));
                    let number = self.database;
                    let saved = self.saved.get_mut(number);
                    if !saved.is_some_and(|saved| saved.remove(&*key)) {
                        self.write(keyspace, number, &key, ValueRecord::parse(&stored))?;
                    }
                    last = Some(key.to_vec());
                    count += 1;
                    // Reading the clock takes as long as writing a short string.
                    if count >= SLICE_KEYS || (count % 8 == 0 && began.elapsed() > SLICE_TIME) {
                        full = true;
                        break;
                    }
                }
                if full {
                    self.after = last;
                    return Ok(false);
                }
            }
            self.after = None;
            // Replaced, not cleared, which would keep the memory of the table.
            if let Some(saved) = self.saved.get_mut(self.database) {
                *saved = HashSet::new();
            }
            self.database += 1;
        }
        Ok(true)
    }

    fn write(
        &mut self,
        keyspace: &Keyspace,
        number: usize,
        key: &[u8],
        record: ValueRecord<'_>,
    ) -> Result<(), RdbError> {
        if self.selected != Some(number) {
            self.writer.select(number as u64)?;
            self.selected = Some(number);
        }
        let attributes = Attributes {
            expires_at_ms: record.expires_at_ms,
            ..Attributes::default()
        };
        self.keys += 1;
        let written = &keyspace.snapshot.written_keys;
        written.store(self.keys, Ordering::Relaxed);
        let writer = &mut self.writer;
        let unread = |unread| RdbError::unreadable(keyspace.unread(key, &unread));
        match record.payload {
            RecordPayload::Inline(value) => writer.string(key, value, attributes),
            RecordPayload::InSlot(slot) => match &*keyspace.slots.open(slot) {
                Some(object) => value::write(writer, key, object, attributes, unread),
                None => unreachable!("the slot of a key holds its object"),
            },
            // A value that cannot be read fails the snapshot: the log or the previous snapshot
            // still has it.
            RecordPayload::InTier(place) if record.kind == RedisType::String => keyspace
                .read_place(key, place, |value| writer.string(key, value, attributes))
                .map_err(RdbError::unreadable)?,
            RecordPayload::InTier(place) => {
                let object = keyspace.thaw(key, record.kind, place, &AccountedHeap::new());
                let object = object.map_err(RdbError::unreadable)?;
                value::write(writer, key, &object, attributes, unread)
            }
        }
    }
}

/// Takes a snapshot of `keyspace` into a new file, while other threads work on it. `at_instant` is
/// called in the exclusive phase, at the instant whose state the snapshot has, and returns the
/// codes of the libraries of functions. When this returns, the file is on the medium, but its name
/// is not yet.
///
/// # Errors
/// Those of the disk; that of a value which cannot be read, which names its key; `Interrupted`
/// because `interrupted` returned true.
pub fn take(
    keyspace: &Keyspace,
    disk: &dyn PersistenceDisk,
    path: &Path,
    at_instant: impl FnOnce() -> Vec<Arc<[u8]>>,
    interrupted: impl Fn() -> bool,
) -> io::Result<SnapshotSummary> {
    let file = disk.create(path)?;
    let output = SnapshotBuffer::default();
    let mut changes = 0;
    let begin = || {
        // Declared first, so that it is dropped after the phase.
        let mut running =
            RunningSnapshot::new(output.clone(), keyspace.snapshot.dialect()).map_err(into_io)?;
        let databases = keyspace.exclude();
        running.functions(&at_instant()).map_err(into_io)?;
        let before = keyspace.snapshot.running.lock().replace(running);
        debug_assert!(before.is_none(), "two snapshots are taken at once");
        keyspace.set_observed(WriteObserver::Snapshot, true);
        // Read in the phase: later changes are not in the file.
        changes = keyspace.changes.load(Ordering::Relaxed);
        drop(databases);
        io::Result::Ok(())
    };
    let write = || {
        loop {
            if interrupted() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            // In no phase, so that a slow disk does not hold up commands.
            output.wait_for_room();
            if keyspace.snapshot.slice(keyspace).map_err(into_io)? {
                return Ok(());
            }
            std::thread::yield_now();
        }
    };
    let end = |failed: bool| {
        let databases = keyspace.exclude();
        keyspace.set_observed(WriteObserver::Snapshot, false);
        let running = keyspace.snapshot.running.lock().take();
        // All keys are written. The end of the file needs none.
        drop(databases);
        match running {
            Some(running) if !failed => running.finish().map_err(into_io),
            _ => Ok(0),
        }
    };
    let (keys, bytes) = drained(&output, &*file, || {
        begin()?;
        let written: io::Result<()> = write();
        let keys = end(written.is_err())?;
        written.map(|()| keys)
    })?;
    Ok(SnapshotSummary {
        keys,
        bytes,
        changes,
    })
}

/// Writes libraries of functions and all keys to a new file at once. The caller has the keyspace to
/// itself.
///
/// # Errors
/// Those of the disk; that of a value which cannot be read, which names its key.
pub fn take_exclusively(
    keyspace: &Keyspace,
    databases: &Databases,
    functions: &[Arc<[u8]>],
    disk: &dyn PersistenceDisk,
    path: &Path,
) -> io::Result<SnapshotSummary> {
    let file = disk.create(path)?;
    let output = SnapshotBuffer::default();
    let (keys, bytes) = drained(&output, &*file, || {
        let mut running =
            RunningSnapshot::new(output.clone(), keyspace.snapshot.dialect()).map_err(into_io)?;
        running.functions(functions).map_err(into_io)?;
        while !running.slice(keyspace, databases).map_err(into_io)? {
            output.wait_for_room();
        }
        running.finish().map_err(into_io)
    })?;
    Ok(SnapshotSummary {
        keys,
        bytes,
        changes: keyspace.changes.load(Ordering::Relaxed),
    })
}

impl RunningSnapshot {
    fn finish(self) -> Result<u64, RdbError> {
        debug_assert_eq!(self.database, DATABASES, "keys ahead of the cursor");
        debug_assert!(self.saved.iter().all(HashSet::is_empty) && self.failed.is_none());
        self.writer.finish()?;
        Ok(self.keys)
    }
}

/// Runs `produce` while another thread writes the output to `file`, and syncs the file.
fn drained(
    output: &SnapshotBuffer,
    file: &dyn PersistenceFile,
    produce: impl FnOnce() -> io::Result<u64>,
) -> io::Result<(u64, u64)> {
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| output.drain_to(file));
        let produced = produce();
        match &produced {
            Ok(_) => output.end(),
            Err(error) => output.fail(output::again(error)),
        }
        let drained = drain
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that writes has panicked")));
        // If both failed, the drain's error is the cause.
        let bytes = match (drained, produced.as_ref()) {
            (Ok(bytes), _) => bytes,
            (Err(error), _) => return Err(error),
        };
        let keys = produced?;
        file.sync()?;
        Ok((keys, bytes))
    })
}

fn into_io(error: RdbError) -> io::Error {
    match error {
        RdbError::Io { source, .. } => source,
        error => io::Error::other(error),
    }
}
