//! Reading snapshots and logs into the keyspace.

use crate::client::Client;
use crate::keyspace::snapshot::value;
use crate::keyspace::{Access, Databases, Effects, Keys};
use crate::log::Damage;
use crate::log::frame::{Behind, Frames, Next, look_behind};
use crate::rdb;
use crate::resp::request::{self, RequestLimits, Step};
use crate::resp::{Parser, Reply};
use crate::server::Server;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Why a file was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A snapshot is damaged, or holds what is not supported.
    #[error("{path}: {source}")]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rdb::Error,
    },
    /// A log has damage that is not merely a write that was cut short.
    #[error(
        "{path}: damaged at offset {offset}: {reason}. What follows is not lost yet: restore the \
         file, or start once with --repair-log, which keeps a copy and cuts the log off there"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A command of a log is not known, or fails.
    #[error("{path}: the command at offset {offset} cannot be repeated: {reason}")]
    Command {
        /// The file.
        path: PathBuf,
        /// Where the command begins.
        offset: u64,
        /// The command's name and what it was answered.
        reason: String,
    },
    /// A file cannot be applied to the keyspace.
    #[error("{path}: {reason}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Reads files into the keyspace, one after the other.
pub struct Loader<'l> {
    server: &'l Server,
    databases: &'l mut Databases,
    effects: Effects,
    client: Client,
    reply: Reply,
    progress: Progress,
    repeat: Repeat,
    /// Keys and commands since the memory tier was looked after.
    since_room: u64,
    /// Nothing of a snapshot is kept, and nothing of it may be there.
    only_checks: bool,
}

/// The memory tier is looked after each time so many keys or commands were read.
const ROOM_EVERY: u64 = 64;

/// Executes a command of a log at [`BEFORE_ALL_TIMES`] and writes its answer. The text of an error
/// is the reason why the command cannot be repeated.
pub type Repeat = fn(
    &Server,
    &mut Databases,
    &mut Client,
    &[&[u8]],
    &mut Effects,
    &mut Reply,
) -> Result<(), String>;

/// The time at which commands of a log are executed: no key's time is over then, as the log says
/// itself which were deleted.
pub const BEFORE_ALL_TIMES: u64 = 0;

impl<'l> Loader<'l> {
    /// A loader into `databases`, which are those of `server`. `repeat` executes the commands of
    /// logs.
    pub fn new(server: &'l Server, databases: &'l mut Databases, repeat: Repeat) -> Loader<'l> {
        Loader {
            server,
            databases,
            effects: Effects::default(),
            client: Client::internal(),
            reply: Reply::default(),
            progress: Progress::default(),
            repeat,
            since_room: 0,
            only_checks: false,
        }
    }

    /// Has values move to cold tiers, so that more fits than the memory tier takes.
    fn make_room(&mut self, count: u64) {
        self.since_room += count;
        if self.since_room < ROOM_EVERY || self.server.tiering.memory_bytes_max() == 0 {
            return;
        }
        self.since_room = 0;
        let (keyspace, access) = (&self.server.keyspace, &self.server.access);
        // If all tiers are full, the first command that takes memory is told so.
        let tiering = &self.server.tiering;
        tiering.relieve(keyspace, access, Some(self.databases));
        drop(keyspace.reclaim(self.databases));
    }

    // ---- Snapshots -------------------------------------------------------------------------

    /// Reads a snapshot. Keys whose time was over at `now_ms` are left out; `None`: none are, as
    /// a log follows.
    ///
    /// # Errors
    /// `Io`, `Snapshot`, `Refused`.
    pub fn snapshot(&mut self, path: &Path, now_ms: Option<u64>) -> Result<(), LoadError> {
        let file = open(path)?;
        self.progress.begin(path, &file);
        self.snapshot_of(path, file, now_ms)?;
        Ok(())
    }

    /// Reads a snapshot and changes nothing.
    ///
    /// # Errors
    /// Those of [`snapshot`](Loader::snapshot); `Refused` also if one of its keys is there.
    pub fn check_absent(&mut self, path: &Path) -> Result<(), LoadError> {
        self.only_checks = true;
        let checked = self.snapshot(path, None);
        self.only_checks = false;
        checked
    }

    /// Answers how long the snapshot is, which something else may follow.
    fn snapshot_of(
        &mut self,
        path: &Path,
        input: impl Read,
        now_ms: Option<u64>,
    ) -> Result<u64, LoadError> {
        let refused = |reason: String| LoadError::Refused {
            path: path.to_owned(),
            reason,
        };
        let snapshot = |source| LoadError::Snapshot {
            path: path.to_owned(),
            source,
        };
        let unsupported = rdb::Unsupported::Refuse;
        let mut reader = rdb::Reader::new(input, unsupported).map_err(snapshot)?;
        let mut database = 0;
        while let Some(item) = reader.next() {
            match item.map_err(snapshot)? {
                rdb::Item::Select(number) => {
                    let number = usize::try_from(number).ok();
                    let databases = self.server.config.hot.databases();
                    let number = number.filter(|&number| number < databases);
                    database = number.ok_or_else(|| {
                        refused(format!("it has more than {databases} databases"))
                    })?;
                }
                rdb::Item::Entry {
                    key,
                    value,
                    expires_at_ms,
                    ..
                } => {
                    let is_over = |time| now_ms.is_some_and(|now| time <= now);
                    if self.only_checks {
                        if self.keys(database).exists(&key).unwrap_or(true) {
                            let key = key.escape_ascii();
                            return Err(refused(format!("key \"{key}\" is there already")));
                        }
                    } else if !expires_at_ms.is_some_and(is_over) {
                        let mut keys = self.keys(database);
                        value::put(&mut keys, &key, value, expires_at_ms).map_err(|error| {
                            refused(format!("key \"{}\": {error}", key.escape_ascii()))
                        })?;
                    }
                    self.progress.count(1, reader.offset());
                    self.make_room(1);
                }
                rdb::Item::Function(code) => {
                    if self.only_checks {
                        continue;
                    }
                    let loaded = self.server.functions.load(&code, true, None);
                    loaded.map_err(|error| refused(format!("a library of functions: {error}")))?;
                }
                _ => {}
            }
        }
        self.progress.end();
        Ok(reader.offset())
    }

    fn keys(&mut self, database: usize) -> Keys<'_> {
        self.effects.clear();
        let access = Access::Exclusive(self.databases);
        let keyspace = &self.server.keyspace;
        let effects = &mut self.effects;
        Keys::new(keyspace, access, database, BEFORE_ALL_TIMES, effects).without_expiry()
    }

    // ---- Logs ------------------------------------------------------------------------------

    /// Reads a log, and cuts off what is damaged as far as it is allowed. `last`: a write may
    /// have been cut short at its end. Answers how long the log is then.
    ///
    /// # Errors
    /// `Io`, `Damaged`, `Command`.
    pub fn log(&mut self, path: &Path, last: bool, damage: Damage) -> Result<u64, LoadError> {
        let io = |source| LoadError::Io {
            path: path.to_owned(),
            source,
        };
        let file = open(path)?;
        self.progress.begin(path, &file);
        let mut frames = Frames::new(&file);
        // At the beginning of a file the log selects its database anew.
        self.client.database = 0;
        let (offset, reason) = loop {
            match frames.read().map_err(io)? {
                Next::Frame { end, .. } => {
                    let mut count = 0;
                    for (offset, bytes) in frames.commands() {
                        self.repeat(path, offset, bytes)?;
                        count += 1;
                    }
                    self.progress.count(count, end);
                    self.make_room(count);
                }
                Next::End => {
                    self.progress.end();
                    return file.metadata().map(|data| data.len()).map_err(io);
                }
                Next::Bad { from, reason } => break (from, reason),
            }
        };
        self.progress.end();
        let behind = look_behind(&mut &file, offset).map_err(io)?;
        let torn = last && behind != Behind::Synced;
        if !torn && damage == Damage::Refuse {
            return Err(LoadError::Damaged {
                path: path.to_owned(),
                offset,
                reason,
            });
        }
        let length = file.metadata().map_err(io)?.len();
        let kept = if behind == Behind::Nothing && last {
            String::new()
        } else {
            let copy = path.with_extension(format!("aof.damaged-{}", crate::clock::now_ms()));
            std::fs::copy(path, &copy).map_err(io)?;
            format!("; {} is a copy of what it was", copy.display())
        };
        tracing::error!(
            "{}: cut off at offset {offset}, {} bytes from the end: {reason}{kept}",
            path.display(),
            length - offset
        );
        let writable = File::options().write(true).open(path).map_err(io)?;
        writable.set_len(offset).map_err(io)?;
        writable.sync_all().map_err(io)?;
        Ok(offset)
    }

    /// Reads a log of Redis, which may begin with a snapshot and has no frames. Its end may be
    /// missing.
    ///
    /// # Errors
    /// `Io`, `Snapshot`, `Refused`, `Damaged`, `Command`.
    pub fn foreign_log(&mut self, path: &Path) -> Result<(), LoadError> {
        let io = |source| LoadError::Io {
            path: path.to_owned(),
            source,
        };
        let bytes = std::fs::read(path).map_err(io)?;
        let mut position = 0;
        self.progress.begin(path, &open(path)?);
        if bytes.starts_with(b"REDIS") {
            position = self.snapshot_of(path, bytes.as_slice(), None)? as usize;
        }
        self.client.database = 0;
        let limits = RequestLimits::default();
        loop {
            let rest = bytes.get(position..).unwrap_or_default();
            match Parser::new().next(rest, &limits) {
                Ok(Step::Complete(length)) => {
                    // Annotations are lines that begin with a hash sign.
                    if rest.first() != Some(&b'#') {
                        let command = rest.get(..length).unwrap_or_default();
                        self.repeat(path, position as u64, command)?;
                    }
                    position += length;
                    self.progress.count(1, position as u64);
                    self.make_room(1);
                }
                Ok(Step::Incomplete) => {
                    self.progress.end();
                    if !rest.is_empty() {
                        let (path, offset) = (path.display(), position);
                        tracing::error!("{path}: it breaks off at offset {offset}");
                    }
                    return Ok(());
                }
                Err(error) => {
                    return Err(LoadError::Damaged {
                        path: path.to_owned(),
                        offset: position as u64,
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
            Ok(Step::Complete(_))
        ) {
            return Err(failed("it is incomplete".to_owned()));
        }
        let args: Vec<&[u8]> = parser.arguments(bytes).collect();
        let is = |name: &str| args.first().is_some_and(|word| request::is(word, name));
        if args.is_empty() || is("multi") || is("exec") {
            // Nobody else is served meanwhile.
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

/// What is kept of the buffer for replies.
const REPLY_BYTES: usize = 1 << 20;

fn open(path: &Path) -> Result<File, LoadError> {
    File::open(path).map_err(|source| LoadError::Io {
        path: path.to_owned(),
        source,
    })
}

/// Tells people how far loading has come, once a second.
#[derive(Debug, Default)]
struct Progress {
    path: PathBuf,
    length: u64,
    count: u64,
    told: Option<Instant>,
    shown: bool,
}

impl Progress {
    fn begin(&mut self, path: &Path, file: &File) {
        *self = Progress {
            path: path.to_owned(),
            length: file.metadata().map_or(0, |data| data.len()),
            told: Some(Instant::now()),
            ..Progress::default()
        };
    }

    fn count(&mut self, count: u64, offset: u64) {
        let before = self.count;
        self.count += count;
        // The clock is asked now and then only.
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
