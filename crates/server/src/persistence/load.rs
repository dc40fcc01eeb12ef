//! The loader of snapshots and logs into the keyspace.

use crate::client::ClientSession;
use crate::keyspace::snapshot::value;
use crate::keyspace::{DatabaseAccess, DatabaseKeys, Databases, Effects, KeyView};
use crate::log::Damage;
use crate::log::frame::{
    AppendLogItem, Behind, Frames, LogTag, OPENING_BYTES, ends_in_zeros, find_later_frames, opening,
};
use crate::log::manifest::{Manifest, ManifestError};
use crate::rdb;
use crate::resp::request::{self, RequestLimits, RequestProgress};
use crate::resp::{Parser, RespReply};
use crate::server::ServerCore;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The error for a file that was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A snapshot is damaged, or holds unsupported data.
    #[error(
        "{path}: {source}. The file was not changed: restore it from a backup, or move it away to \
         start without it"
    )]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rdb::RdbError,
    },
    /// A log has damage that is more than a write that was cut short.
    #[error(
        "{path}: damaged at offset {offset}: {reason}. The rest of the file was not changed: \
         restore the file, or start once with --repair-log, which truncates the log there and \
         keeps the rest in another file"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset at which the damage begins.
        offset: u64,
        /// A description of the damage.
        reason: String,
    },
    /// A command of a log is unknown, or fails.
    #[error(
        "{path}: the command at offset {offset} cannot be replayed: {reason}. Start the version of \
         the server that wrote it, with the same settings"
    )]
    Command {
        /// The file.
        path: PathBuf,
        /// The offset at which the command begins.
        offset: u64,
        /// The command's name and the error that it returned.
        reason: String,
    },
    /// The manifest cannot be used.
    #[error("{path}: {source}")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The cause.
        source: ManifestError,
    },
    /// A file cannot be applied to the keyspace.
    #[error("{path}: {reason}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}

/// The loader of files into the keyspace, one after the other.
pub struct KeyspaceLoader<'l> {
    server: &'l ServerCore,
    databases: &'l mut Databases,
    effects: Effects,
    client: ClientSession,
    reply: RespReply,
    progress: KeyspaceLoadProgress,
    repeat: Repeat,
    /// Number of keys and commands since the memory tier was last relieved.
    since_room: u64,
    /// True if snapshots are only checked: nothing is stored, and none of their keys may exist.
    only_checks: bool,
}

/// Number of keys or commands after which the memory tier is relieved.
const ROOM_EVERY: u64 = 64;

/// A function that executes a command of a log at [`BEFORE_ALL_TIMES`] and writes its reply. The
/// text of an error is the reason why the command cannot be repeated.
pub type Repeat = fn(
    &ServerCore,
    &mut Databases,
    &mut ClientSession,
    &[&[u8]],
    &mut Effects,
    &mut RespReply,
) -> Result<(), String>;

/// The time at which commands of a log are executed. No key has expired then, because the log
/// itself has the deletions.
pub const BEFORE_ALL_TIMES: u64 = 0;

impl<'l> KeyspaceLoader<'l> {
    /// Creates a loader into `databases`, which belong to `server`. `repeat` executes the commands
    /// of logs.
    pub fn new(
        server: &'l ServerCore,
        databases: &'l mut Databases,
        repeat: Repeat,
    ) -> KeyspaceLoader<'l> {
        KeyspaceLoader {
            server,
            databases,
            effects: Effects::default(),
            client: ClientSession::internal(),
            reply: RespReply::default(),
            progress: KeyspaceLoadProgress::default(),
            repeat,
            since_room: 0,
            only_checks: false,
        }
    }

    /// Moves values to cold tiers, so that more fits than the memory tier takes.
    fn make_room(&mut self, count: u64) {
        self.since_room += count;
        if self.since_room < ROOM_EVERY || self.server.tiering.memory_bytes_max() == 0 {
            return;
        }
        self.since_room = 0;
        let (keyspace, access) = (&self.server.keyspace, &self.server.access);
        // If all tiers are full, the first command that takes memory gets the error.
        let tiering = &self.server.tiering;
        tiering.relieve(keyspace, access, Some(self.databases));
        drop(keyspace.reclaim(self.databases));
    }

    // ---- Snapshots -------------------------------------------------------------------------

    /// Reads a snapshot. Keys that have expired at `now_ms` are left out; `None` keeps all, because
    /// a log follows.
    ///
    /// # Errors
    /// `Io`, `Snapshot`, `TierRefusal`.
    pub fn snapshot(&mut self, path: &Path, now_ms: Option<u64>) -> Result<(), LoadError> {
        let file = open(path)?;
        self.progress.begin(path, &file);
        self.snapshot_of(path, file, now_ms)?;
        Ok(())
    }

    /// Reads a snapshot and changes nothing.
    ///
    /// # Errors
    /// Those of [`snapshot`](KeyspaceLoader::snapshot); `TierRefusal` also if one of its keys
    /// exists.
    pub fn check_absent(&mut self, path: &Path) -> Result<(), LoadError> {
        self.only_checks = true;
        let checked = self.snapshot(path, None);
        self.only_checks = false;
        checked
    }

    /// Reads a snapshot and returns its length, because other data may follow it.
    fn snapshot_of(
        &mut self,
        path: &Path,
        input: impl Read,
        now_ms: Option<u64>,
    ) -> Result<u64, LoadError> {
        let refused = |reason: String, offset: u64| LoadError::Refused {
            path: path.to_owned(),
            reason: format!(
                "before offset {offset}: {reason}. The file was not changed: restore it from a \
                 backup, or move it away to start without it"
            ),
        };
        let snapshot = |source| LoadError::Snapshot {
            path: path.to_owned(),
            source,
        };
        let unsupported = rdb::RdbUnsupportedPolicy::Refuse;
        let mut reader = rdb::RdbReader::new(input, unsupported).map_err(snapshot)?;
        let mut database = 0;
        let (mut kept, mut expired) = (0, 0);
        while let Some(item) = reader.next() {
            match item.map_err(snapshot)? {
                rdb::RdbItem::Select(number) => {
                    let number = usize::try_from(number).ok();
                    let databases = self.server.config.hot.databases();
                    let number = number.filter(|&number| number < databases);
                    database = number.ok_or_else(|| {
                        let reason = format!("it has more than {databases} databases");
                        refused(reason, reader.offset())
                    })?;
                }
                rdb::RdbItem::Entry {
                    key,
                    value,
                    expires_at_ms,
                    ..
                } => {
                    let is_over = |time| now_ms.is_some_and(|now| time <= now);
                    if self.only_checks {
                        if self.keys(database).exists(&key).unwrap_or(true) {
                            let key = key.escape_ascii();
                            return Err(LoadError::Refused {
                                path: path.to_owned(),
                                reason: format!("key \"{key}\" exists already"),
                            });
                        }
                    } else if expires_at_ms.is_some_and(is_over) {
                        expired += 1;
                    } else {
                        kept += 1;
                        let mut keys = self.keys(database);
                        value::put(&mut keys, &key, value, expires_at_ms).map_err(|error| {
                            let reason = format!("key \"{}\": {error}", key.escape_ascii());
                            refused(reason, reader.offset())
                        })?;
                    }
                    self.progress.count(1, reader.offset());
                    self.make_room(1);
                }
                rdb::RdbItem::Function(code) => {
                    if self.only_checks {
                        continue;
                    }
                    let loaded = self.server.functions.load(&code, true, None);
                    loaded.map_err(|error| {
                        refused(format!("a library of functions: {error}"), reader.offset())
                    })?;
                }
                _ => {}
            }
        }
        self.progress.end();
        if !self.only_checks {
            let loaded = &self.server.persistence.loaded;
            loaded.kept.store(kept, Ordering::Relaxed);
            loaded.expired.store(expired, Ordering::Relaxed);
        }
        Ok(reader.offset())
    }

    fn keys(&mut self, database: usize) -> DatabaseKeys<'_> {
        self.effects.clear();
        let access = DatabaseAccess::Exclusive(self.databases);
        let keyspace = &self.server.keyspace;
        let effects = &mut self.effects;
        DatabaseKeys::new(keyspace, access, database, BEFORE_ALL_TIMES, effects).without_expiry()
    }

    // ---- Logs ------------------------------------------------------------------------------

    /// Reads a log, and truncates the damaged part as far as `allowed` permits. Returns true if it
    /// did. The damaged part is kept in a file next to the log.
    ///
    /// # Errors
    /// `Io`, `FrozenObjectError`, `Command`.
    fn log(&mut self, path: &Path, allowed: AllowedCut) -> Result<bool, LoadError> {
        let io = |source| LoadError::Io {
            path: path.to_owned(),
            source,
        };
        let file = open(path)?;
        self.progress.begin(path, &file);
        let mut frames = Frames::new(&file);
        // At the beginning of a file the log selects its database again.
        self.client.database = 0;
        let (offset, reason, rest) = loop {
            match frames.read().map_err(io)? {
                AppendLogItem::Frame { end, .. } => {
                    let mut count = 0;
                    for (offset, bytes) in frames.commands() {
                        self.repeat(path, offset, bytes)?;
                        count += 1;
                    }
                    self.progress.count(count, end);
                    self.make_room(count);
                }
                AppendLogItem::End => {
                    self.progress.end();
                    return Ok(false);
                }
                AppendLogItem::Bad { from, reason, rest } => break (from, reason, rest),
            }
        };
        self.progress.end();
        // Whole arguments of a frame that was cut short may look like trailers.
        let start = rest.unwrap_or(offset);
        debug_assert!(offset <= start);
        let behind = find_later_frames(&mut &file, start, offset).map_err(io)?;
        // Only a last frame that was not written to its end is truncated without being asked. No
        // reply depended on it, because the trailer is written before replies are sent. If a
        // trailer follows the damage, acknowledged writes are missing.
        let is_tail = behind == Behind::Nothing
            && (rest.is_some() || ends_in_zeros(&mut &file, offset).map_err(io)?);
        let may_cut = match allowed {
            AllowedCut::Nothing => false,
            AllowedCut::TornTail { least } => is_tail && offset >= least,
            AllowedCut::Anything => true,
        };
        if !may_cut {
            let what = match behind {
                Behind::Nothing => "",
                Behind::Unsynced => "; later frames follow, as a power failure may leave them",
                Behind::Synced => "; later frames follow, and it was on the medium before these",
            };
            return Err(LoadError::Damaged {
                path: path.to_owned(),
                offset,
                reason: reason + what,
            });
        }
        tracing::error!("{}: truncated at offset {offset}: {reason}", path.display());
        cut(path, &file, offset).map_err(io)?;
        Ok(true)
    }

    /// Reads the logs of a manifest, the oldest first. `damage` is the treatment of damage; with
    /// `None` the logs are still being written to, and stay as they are.
    ///
    /// # Errors
    /// `Io`, `FrozenObjectError`, `Command`.
    pub fn logs(
        &mut self,
        directory: &Path,
        manifest: &Manifest,
        damage: Option<Damage>,
    ) -> Result<(), LoadError> {
        let paths = manifest.logs.iter().map(|log| directory.join(log));
        let paths: Vec<PathBuf> = paths.collect();
        // If logs begin with an opening frame, it was on the medium before the manifest named them.
        // So a torn frame begins after it.
        let least = u64::from(manifest.has_openings());
        let length = |path: &PathBuf| std::fs::metadata(path).map(|data| data.len());
        let mut was_cut = false;
        for (number, path) in paths.iter().enumerate() {
            let io = |source| LoadError::Io {
                path: path.clone(),
                source,
            };
            let is_unused = |path: &PathBuf| length(path).is_ok_and(|it| it <= OPENING_BYTES);
            let allowed = match damage {
                Some(Damage::Repair) => AllowedCut::Anything,
                // A file is written to only when the one before is complete.
                Some(Damage::Refuse) if paths.iter().skip(number + 1).all(is_unused) => {
                    AllowedCut::TornTail { least }
                }
                _ => AllowedCut::Nothing,
            };
            let is_short = length(path).map_err(io)? < least;
            if was_cut || (is_short && allowed == AllowedCut::Anything) {
                // Commands after a gap would create a state that never existed.
                cut(path, &open(path)?, 0).map_err(io)?;
                was_cut = true;
            } else if is_short {
                return Err(LoadError::Damaged {
                    path: path.clone(),
                    offset: 0,
                    reason: "it lacks the first frame, which every log has".to_owned(),
                });
            } else {
                was_cut = self.log(path, allowed)? && allowed == AllowedCut::Anything;
            }
        }
        Ok(())
    }

    /// Reads a log of Redis, which may begin with a snapshot and has no frames. The end of the last
    /// log may be missing, together with the beginning of a transaction before it. The file stays
    /// as it is. It is read in parts, of which those of one command or transaction are in memory.
    ///
    /// # Errors
    /// `Io`, `Snapshot`, `TierRefusal`, `FrozenObjectError`, `Command`.
    pub fn foreign_log(&mut self, path: &Path, is_last: bool) -> Result<(), LoadError> {
        let io = |source| LoadError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = open(path)?;
        self.progress.begin(path, &file);
        let mut begin = Vec::new();
        let longest = SNAPSHOT_MAGIC.len() as u64;
        let read = (&file).take(longest).read_to_end(&mut begin);
        read.map_err(io)?;
        file.rewind().map_err(io)?;
        // Redis begins a rewritten log with a snapshot (`aof-use-rdb-preamble`).
        let mut position = match begin == SNAPSHOT_MAGIC {
            true => self.snapshot_of(path, &file, None)?,
            false => 0,
        };
        file.seek(SeekFrom::Start(position)).map_err(io)?;
        let mut window = ForeignLogWindow::new(file, position);
        self.client.database = 0;
        let limits = RequestLimits::default();
        let mut parser = Parser::new();
        // The commands of a transaction that has not ended yet.
        let mut whole: Option<Vec<Range<u64>>> = None;
        loop {
            let rest = window.rest_at(position);
            match parser.next(rest, &limits) {
                Ok(RequestProgress::Complete(length)) => {
                    let place = position..position + length as u64;
                    let is = |name| request::is(parser.argument(rest, 0), name);
                    // Annotations are lines that begin with a hash sign.
                    if rest.first() == Some(&b'#') || parser.argument_count() == 0 {
                    } else if is("multi") {
                        whole = Some(Vec::new());
                    } else if is("exec") {
                        for place in whole.take().unwrap_or_default() {
                            self.repeat(path, place.start, window.within(&place))?;
                        }
                    } else if let Some(whole) = &mut whole {
                        whole.push(place.clone());
                    } else {
                        self.repeat(path, position, window.within(&place))?;
                    }
                    position = place.end;
                    self.progress.count(1, position);
                    self.make_room(1);
                }
                Ok(RequestProgress::Incomplete) => {
                    // The commands of a transaction are executed at its end.
                    let first = whole.as_ref().and_then(|whole| whole.first());
                    let kept = first.map_or(position, |place| place.start);
                    if window.read(kept).map_err(io)? {
                        continue;
                    }
                    self.progress.end();
                    if window.rest_at(position).is_empty() && whole.is_none() {
                        return Ok(());
                    }
                    let reason = "it is cut off".to_owned();
                    if !is_last {
                        return Err(LoadError::Damaged {
                            path: path.to_owned(),
                            offset: position,
                            reason,
                        });
                    }
                    let path = path.display();
                    tracing::error!("{path}: {reason} at offset {position}");
                    return Ok(());
                }
                Err(error) => {
                    return Err(LoadError::Damaged {
                        path: path.to_owned(),
                        offset: position,
                        reason: error.to_string(),
                    });
                }
            }
        }
    }

    /// Executes a command of a log.
    fn repeat(&mut self, path: &Path, offset: u64, bytes: &[u8]) -> Result<(), LoadError> {
        let failed = |reason: String| LoadError::Command {
            path: path.to_owned(),
            offset,
            reason,
        };
        let mut parser = Parser::new();
        if !matches!(
            parser.next(bytes, &RequestLimits::default()),
            Ok(RequestProgress::Complete(_))
        ) {
            return Err(failed("it is incomplete".to_owned()));
        }
        let args: Vec<&[u8]> = parser.arguments(bytes).collect();
        let is = |name: &str| args.first().is_some_and(|word| request::is(word, name));
        if args.is_empty() || is("multi") || is("exec") {
            // No other client is served meanwhile.
            return Ok(());
        }
        if is("select") {
            let number = args.get(1).and_then(|word| std::str::from_utf8(word).ok());
            let number = number.and_then(|word| word.parse().ok());
            let databases = self.server.config.hot.databases();
            let number = number.filter(|&number: &usize| number < databases);
            self.client.database =
                number.ok_or_else(|| failed(format!("there are {databases} databases")))?;
            return Ok(());
        }
        let (databases, client) = (&mut *self.databases, &mut self.client);
        let (effects, reply) = (&mut self.effects, &mut self.reply);
        effects.clear();
        reply.truncate(0);
        (self.repeat)(self.server, databases, client, &args, effects, reply).map_err(failed)?;
        effects.clear();
        reply.shrink(REPLY_BYTES);
        Ok(())
    }
}

/// The first bytes of a snapshot, at which a log may begin.
const SNAPSHOT_MAGIC: &[u8] = b"REDIS";

/// Number of bytes of a log of Redis that are read at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// The part of a log of Redis that was read and is still needed. It grows with the longest command
/// or transaction, and not with the log.
#[derive(Debug)]
struct ForeignLogWindow {
    file: File,
    /// The offset of the first byte of `bytes` in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl ForeignLogWindow {
    /// Creates an empty window of a file that is read from `start` on.
    fn new(file: File, start: u64) -> ForeignLogWindow {
        ForeignLogWindow {
            file,
            start,
            bytes: Vec::new(),
        }
    }

    /// Returns the bytes from an offset of the file on.
    fn rest_at(&self, offset: u64) -> &[u8] {
        debug_assert!(offset >= self.start, "forgotten bytes are not needed");
        let skipped = offset.saturating_sub(self.start) as usize;
        self.bytes.get(skipped..).unwrap_or_default()
    }

    /// Returns the bytes at a place in the file.
    fn within(&self, place: &Range<u64>) -> &[u8] {
        let length = (place.end - place.start) as usize;
        self.rest_at(place.start).get(..length).unwrap_or_default()
    }

    /// Reads further bytes and forgets those before `kept`. Returns false at the end of the file.
    fn read(&mut self, kept: u64) -> io::Result<bool> {
        let forgotten = kept.saturating_sub(self.start) as usize;
        self.bytes.drain(..forgotten.min(self.bytes.len()));
        self.start = kept;
        let mut part = (&self.file).take(WINDOW_BYTES);
        Ok(part.read_to_end(&mut self.bytes)? > 0)
    }
}

/// The capacity up to which the buffer for replies is kept.
const REPLY_BYTES: usize = 1 << 20;

/// The permission to truncate a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedCut {
    /// No truncation: the file is being written to.
    Nothing,
    /// Truncation of a last frame that was not written to its end.
    TornTail {
        /// The least offset at which it may begin. Everything before it is on the medium before the
        /// manifest names the log.
        least: u64,
    },
    /// Truncation of everything from the first damage on.
    Anything,
}

/// Truncates a log, and keeps the part that is cut off.
fn cut(path: &Path, file: &File, offset: u64) -> io::Result<()> {
    let mut input = file;
    input.seek(SeekFrom::Start(offset))?;
    let (kept, mut copy) = create_beside(path, offset)?;
    io::copy(&mut input, &mut copy)?;
    // Before the log is truncated, so that the bytes are always in one of the two files.
    copy.sync_all()?;
    let mut log = File::options().write(true).open(path)?;
    log.set_len(offset)?;
    // No log is empty, not even one without commands.
    if offset == 0 {
        log.write_all(&opening(LogTag::random()))?;
    }
    log.sync_all()?;
    tracing::error!("the cut-off part is kept in {}", kept.display());
    Ok(())
}

/// Creates a file for the part that is cut off at an offset.
fn create_beside(path: &Path, offset: u64) -> io::Result<(PathBuf, File)> {
    let mut number = 0;
    loop {
        let kept = path.with_extension(format!("aof.cut-at-{offset}-{number}"));
        match File::options().write(true).create_new(true).open(&kept) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            created => return created.map(|file| (kept, file)),
        }
    }
}

/// Opens a file to be read. A file that is not a regular file could be endless, or wait for a
/// writer.
pub(super) fn open(path: &Path) -> Result<File, LoadError> {
    let io = |source| LoadError::Io {
        path: path.to_owned(),
        source,
    };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(LoadError::Refused {
            path: path.to_owned(),
            reason: "it is not a regular file".to_owned(),
        });
    }
    File::open(path).map_err(io)
}

/// The progress of loading, which is logged once a second.
#[derive(Debug, Default)]
struct KeyspaceLoadProgress {
    path: PathBuf,
    length: u64,
    count: u64,
    told: Option<Instant>,
    shown: bool,
}

impl KeyspaceLoadProgress {
    fn begin(&mut self, path: &Path, file: &File) {
        *self = KeyspaceLoadProgress {
            path: path.to_owned(),
            length: file.metadata().map_or(0, |data| data.len()),
            told: Some(Instant::now()),
            ..KeyspaceLoadProgress::default()
        };
    }

    fn count(&mut self, count: u64, offset: u64) {
        let before = self.count;
        self.count += count;
        // The clock is read only now and then.
        let due = self.count / 1024 != before / 1024
            && self
                .told
                .is_some_and(|told| told.elapsed() >= Duration::from_secs(1));
        if due {
            self.told = Some(Instant::now());
            self.shown = true;
            self.tell(100 * offset / self.length.max(1));
        }
    }

    fn end(&mut self) {
        if self.shown {
            self.tell(100);
        }
    }

    fn tell(&self, percent: u64) {
        let (path, count) = (self.path.display(), self.count);
        tracing::info!("loading {path}: {percent} %, {count} keys or commands");
    }
}
