//! The log: all commands that have changed keys, on disk before their clients get a reply.
//!
//! # From a command to the medium
//!
//! A command that has changed keys is *appended* to a buffer in memory while no other thread can
//! change its keys (see [`keyspace`](crate::keyspace)). So for each key, and for everything that
//! was executed as one unit, the log has the order of memory. Before a thread sends the replies of
//! a round it *commits*: it waits until everything that was appended before is as safe as the
//! [`LogSyncPolicy`] requires. A thread that finds no other thread writing becomes the *leader* and
//! writes the whole buffer as one [frame]; the others wait for it. So many clients share one write
//! and one sync, and a reply never reports a write that the log does not hold, be it the client's
//! own or another client's write that it has read.
//!
//! | policy | a reply waits for | lost when the process is killed | when the power fails |
//! |---|---|---|---|
//! | `always` | write and sync | nothing | nothing |
//! | `everysec` | write | nothing | about a second; two at most, then replies wait |
//! | `no` | write | nothing | what the system has not written out |
//!
//! # When the disk fails
//!
//! Memory is then ahead of the log, and cannot be rolled back. Two guarantees remain: no reply
//! claims that an unsafe write is safe, and memory does not run further ahead.
//!
//! 1. A *write* that fails (no space, an I/O error) may have left part of a frame. The leader
//!    truncates the file to the last whole frame and keeps the frame in the buffer. Until a later
//!    attempt succeeds (one is made ten times a second), commands that write are refused with
//!    `MISCONF`, so that the buffer does not grow. Clients whose commands were executed already get
//!    no reply: their connections are closed, because neither `OK` nor an error would be true.
//!    Clients that only read are served.
//! 2. After a failed *sync*, or a failed truncation, it is unknown which bytes of the file are on
//!    the medium: the system may have dropped the pages and will report success the next time. The
//!    file is *lost*: nothing more is written to it, and all of case 1 holds, until a new base (a
//!    snapshot of memory) and a new log have replaced it. Memory is then on the medium through the
//!    base, and only then is the buffer dropped.
//!
//! # Files
//!
//! See [`manifest`]. When the log is rewritten, the *switch* to a new file is put into the buffer
//! at the instant whose state the snapshot has, in the exclusive phase and without waiting for the
//! disk; the leader performs it between two frames.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod frame;
pub mod manifest;
mod primitive;

use crate::disk::{PersistenceFile, write_all};
use crate::resp::{Words, encode};
use frame::LogTag;
#[cfg(not(feature = "shuttle"))]
use primitive::LogProtocolStep;
use primitive::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, is_left_out};
#[cfg(feature = "shuttle")]
pub use primitive::{LogProtocolStep, leave_out};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The condition for sending a reply to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogSyncPolicy {
    /// The log is on the medium.
    Always,
    /// The log is written; it is on the medium a second later.
    #[default]
    EverySecond,
    /// The log is written; the system decides when it goes to the medium.
    No,
}

impl LogSyncPolicy {
    /// Returns the policy of a name in the configuration.
    pub fn from_name(name: &str) -> Option<LogSyncPolicy> {
        [
            LogSyncPolicy::Always,
            LogSyncPolicy::EverySecond,
            LogSyncPolicy::No,
        ]
        .into_iter()
        .find(|policy| policy.name() == name)
    }

    /// Returns the policy's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            LogSyncPolicy::Always => "always",
            LogSyncPolicy::EverySecond => "everysec",
            LogSyncPolicy::No => "no",
        }
    }
}

/// The treatment of damage in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// Truncation of a last frame that was not written to its end; all other damage is refused.
    #[default]
    Refuse,
    /// Truncation where the damage begins; the part that is cut off is kept. A manifest that is
    /// damaged or missing is rebuilt.
    Repair,
}

/// The duration of a sync under `everysec` after which replies wait for it.
const SYNC_PATIENCE: Duration = Duration::from_secs(2);
/// The interval of syncs under `everysec`.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// The capacity in bytes above which a buffer is not kept.
const SPARE_BYTES: usize = 1 << 20;

/// The error if the log cannot be written, so that a client's change is not known to be safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log cannot be written: {0}")]
pub struct NotDurable(pub String);

/// A file that a log is written to.
#[derive(Clone, Debug)]
pub struct LogFile {
    /// The open file.
    pub file: Arc<dyn PersistenceFile>,
    /// Its path, for messages.
    pub path: PathBuf,
    /// The tag of its frames; files of older servers have none.
    pub tag: Option<LogTag>,
    /// Its length.
    pub length: u64,
    /// The length up to which it is on the medium.
    pub synced: u64,
}

/// The log. See the [module](self).
#[derive(Debug, Default)]
pub struct AppendLog {
    on: AtomicBool,
    failing: AtomicBool,
    /// The position of the end. Positions count all bytes that were ever appended, without the
    /// frames' trailers.
    appended: AtomicU64,
    /// The position up to which replies may be sent.
    durable: AtomicU64,
    state: Mutex<AppendLogState>,
    /// Signalled when a leader or a sync has ended.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct AppendLogState {
    policy: LogSyncPolicy,
    chunks: VecDeque<AppendLogChunk>,
    /// The database of the last command in the buffer, `None` at the beginning of a file.
    database: Option<usize>,
    written: u64,
    synced: u64,
    file: Option<LogFile>,
    leading: bool,
    /// True if a thread waits until there is no leader, to change the buffer. No other thread may
    /// become the leader meanwhile.
    reserved: bool,
    /// The time at which the running sync outside of the leader began.
    syncing_since: Option<Instant>,
    last_sync: Option<Instant>,
    failure: Option<AppendLogFailure>,
    spare: Vec<u8>,
    counts: AppendLogCounters,
}

/// A part of the buffer that is appended but not written.
#[derive(Debug)]
enum AppendLogChunk {
    Commands(Vec<u8>),
    /// The point from which another file is written.
    Switch(LogFile),
}

#[derive(Clone, Debug)]
struct AppendLogFailure {
    message: String,
    /// The file whose content on the medium is unknown.
    lost: Option<PathBuf>,
}

/// The counters of the log, for `INFO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendLogCounters {
    /// The length of the current file.
    pub file_bytes: u64,
    /// Number of bytes that are appended but not written.
    pub buffer_bytes: u64,
    /// Number of frames that were written.
    pub frames: u64,
    /// Number of syncs that were made.
    pub syncs: u64,
    /// The total duration of the syncs.
    pub sync_time: Duration,
    /// Number of replies that had to wait for a slow sync.
    pub delayed: u64,
}

impl AppendLog {
    /// Begins to log into `file`.
    pub fn open(&self, policy: LogSyncPolicy, file: LogFile) {
        debug_assert!(file.synced <= file.length);
        let mut state = self.state.lock();
        state.policy = policy;
        state.database = None;
        state.counts.file_bytes = file.length;
        state.file = Some(file);
        state.last_sync = Some(Instant::now());
        self.on.store(true, Ordering::Release);
    }

    /// Returns true if commands are logged.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Returns true if the log cannot be written, so that nothing may be changed.
    #[inline]
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Acquire)
    }

    /// Returns the reason why the log cannot be written, and true if a new base is needed to
    /// continue.
    pub fn failure(&self) -> Option<(String, bool)> {
        let state = self.state.lock();
        let failure = state.failure.as_ref()?;
        Some((failure.message.clone(), failure.lost.is_some()))
    }

    /// Returns the counters of the log.
    pub fn counts(&self) -> AppendLogCounters {
        let state = self.state.lock();
        AppendLogCounters {
            buffer_bytes: self.position() - state.written,
            ..state.counts
        }
    }

    /// Returns the policy.
    pub fn policy(&self) -> LogSyncPolicy {
        self.state.lock().policy
    }

    /// Changes the policy.
    pub fn set_policy(&self, policy: LogSyncPolicy) {
        let mut state = self.state.lock();
        state.policy = policy;
        // Replies that were safe enough under the old policy may have to wait again.
        self.durable.store(state.durable(), Ordering::Release);
    }

    /// Returns the position up to which the log has been appended to.
    #[inline]
    pub fn position(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// Returns the position up to which replies may be sent.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    // ---- Appending -------------------------------------------------------------------------

    /// Appends commands, each with its database, that were executed as one unit. Returns the
    /// position after them. Must be called while other threads cannot change what the commands have
    /// changed.
    pub fn append(&self, commands: &[(usize, Words)]) -> u64 {
        let mut appender = self.appender();
        let whole = commands.len() > 1;
        // A frame makes the commands one unit for this server, and `MULTI` for a Redis that reads
        // the log.
        if whole {
            encode::array(appender.out(), 1);
            encode::word(appender.out(), b"MULTI");
        }
        for (database, words) in commands {
            appender.select(*database);
            encode::command(appender.out(), words);
        }
        if whole {
            encode::array(appender.out(), 1);
            encode::word(appender.out(), b"EXEC");
        }
        appender.finish()
    }

    /// Appends commands of one database that were executed one by one and are encoded already. The
    /// conditions are those of [`append`](AppendLog::append).
    pub fn append_encoded(&self, database: usize, commands: &[u8]) -> u64 {
        let mut appender = self.appender();
        appender.select(database);
        appender.out().extend_from_slice(commands);
        appender.finish()
    }

    /// Begins to append several commands.
    fn appender(&self) -> Appender<'_> {
        let mut state = self.state.lock();
        if !matches!(state.chunks.back(), Some(AppendLogChunk::Commands(_))) {
            let spare = std::mem::take(&mut state.spare);
            state.chunks.push_back(AppendLogChunk::Commands(spare));
        }
        let start = state.out().len();
        Appender {
            log: self,
            state,
            start,
        }
    }

    // ---- Committing ------------------------------------------------------------------------

    /// Waits until everything that was appended before is as safe as the policy requires. `own` is
    /// the position after the changes of the caller's own clients.
    ///
    /// # Errors
    /// The log cannot be written, and the part before `own` is not safe.
    pub fn commit(&self, own: u64) -> Result<(), NotDurable> {
        // Most rounds only read, and need no lock for that.
        if !self.is_on() || self.durable() >= self.position() {
            return Ok(());
        }
        let mut state = self.state.lock();
        // Includes what other clients have written: the replies may report it.
        let target = self.position();
        loop {
            if state.durable() >= target {
                return Ok(());
            }
            if let Some(failure) = &state.failure {
                return if own > state.durable() {
                    Err(NotDurable(failure.message.clone()))
                } else {
                    Ok(())
                };
            }
            let slow = |since: Instant| since.elapsed() > SYNC_PATIENCE;
            if state.leading || state.reserved {
                self.progress.wait(&mut state);
            } else if state.syncing_since.is_some_and(slow) {
                state.counts.delayed += 1;
                self.progress.wait(&mut state);
            } else {
                state = self.lead(state);
            }
        }
    }

    /// Does the periodic work: writes the buffer, which retries failed writes, and syncs. Must be
    /// called about ten times a second.
    pub fn tend(&self) {
        if !self.is_on() {
            return;
        }
        let mut state = self.state.lock();
        if state.is_lost() {
            return;
        }
        let slow = |since: Instant| since.elapsed() > SYNC_PATIENCE;
        let busy = state.leading || state.reserved || state.syncing_since.is_some_and(slow);
        if !state.chunks.is_empty() && !busy {
            state = self.lead(state);
        }
        let due = state
            .last_sync
            .is_none_or(|last| last.elapsed() >= SYNC_EVERY);
        if state.policy == LogSyncPolicy::EverySecond && due && state.failure.is_none() {
            self.sync_beside(state);
        }
    }

    /// Writes and syncs everything that was appended, whatever the policy.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn flush(&self) -> Result<(), NotDurable> {
        self.commit(self.position())?;
        if self.is_on() {
            self.sync_beside(self.state.lock());
        }
        match self.failure() {
            Some((message, _)) => Err(NotDurable(message)),
            None => Ok(()),
        }
    }

    /// Syncs the written part while other threads continue to write.
    fn sync_beside(&self, mut state: MutexGuard<'_, AppendLogState>) {
        while state.syncing_since.is_some() {
            self.progress.wait(&mut state);
        }
        state.last_sync = Some(Instant::now());
        state.syncing_since = Some(Instant::now());
        self.sync_written(&mut state);
        state.syncing_since = None;
        self.durable.store(state.durable(), Ordering::Release);
        self.progress.notify_all();
    }

    /// Syncs the written part, if necessary. Bytes that are written meanwhile do not count as
    /// synced.
    fn sync_written(&self, state: &mut MutexGuard<'_, AppendLogState>) {
        let Some(current) = state.file.clone() else {
            return;
        };
        if state.failure.is_some() {
            return;
        }
        // Bytes that are written during the sync may not be on the medium after it.
        let written = state.written;
        if current.synced < current.length {
            let began = Instant::now();
            let result = MutexGuard::unlocked(state, || current.file.sync());
            state.counts.sync_time += began.elapsed();
            state.counts.syncs += 1;
            if let Err(error) = result {
                self.fail(state, &current, &error, true);
                return;
            }
        }
        // The leader may have continued with another file meanwhile.
        if let Some(file) = &mut state.file
            && file.path == current.path
        {
            file.synced = file.synced.max(current.length);
            debug_assert!(
                file.synced <= file.length || is_left_out(LogProtocolStep::WaitForLeader)
            );
        }
        state.synced = state.synced.max(written);
    }

    /// Writes the whole buffer, and syncs it if the policy requires that.
    fn lead<'l>(
        &'l self,
        mut state: MutexGuard<'l, AppendLogState>,
    ) -> MutexGuard<'l, AppendLogState> {
        debug_assert!(!state.leading || is_left_out(LogProtocolStep::WaitForLeader));
        state.leading = true;
        while let Some(chunk) = state.chunks.pop_front() {
            let Some(current) = state.file.clone() else {
                state.chunks.push_front(chunk);
                break;
            };
            let done = match chunk {
                AppendLogChunk::Commands(commands) => self.write(&mut state, current, commands),
                AppendLogChunk::Switch(next) => self.change_file(&mut state, &current, next),
            };
            if !done {
                break;
            }
        }
        // A frame that was written under another policy may not be synced yet.
        let is_due =
            state.policy == LogSyncPolicy::Always && !is_left_out(LogProtocolStep::SyncOlder);
        if is_due && state.synced < state.written {
            self.sync_written(&mut state);
        }
        state.leading = false;
        self.durable.store(state.durable(), Ordering::Release);
        self.progress.notify_all();
        state
    }

    /// Writes a frame. On failure the commands return to the buffer.
    fn write(
        &self,
        state: &mut MutexGuard<'_, AppendLogState>,
        mut current: LogFile,
        mut commands: Vec<u8>,
    ) -> bool {
        // Under `no` the system chooses when to write out which bytes, so that damage before whole
        // frames need not come from a recent power failure; it must not be truncated without being
        // asked.
        let synced = match state.policy {
            LogSyncPolicy::No => current.length,
            LogSyncPolicy::Always | LogSyncPolicy::EverySecond => current.synced,
        };
        debug_assert!(synced <= current.length || is_left_out(LogProtocolStep::WaitForLeader));
        let length = commands.len();
        let always =
            state.policy == LogSyncPolicy::Always && !is_left_out(LogProtocolStep::WaitForSync);
        let (written, synced) = MutexGuard::unlocked(state, || {
            frame::seal(&mut commands, current.tag, current.length, synced);
            let written = write_all(&*current.file, &commands);
            let is_synced = written.is_ok() && always;
            let began = Instant::now();
            let synced = is_synced.then(|| (current.file.sync(), began.elapsed()));
            (written, synced)
        });
        let synced = synced.map(|(synced, took)| {
            state.counts.sync_time += took;
            synced
        });
        let mut done = true;
        match (written, synced) {
            (Err(error), _) => {
                // A part of the frame may be in the file. The next attempt begins where it began.
                let cut = MutexGuard::unlocked(state, || current.file.truncate(current.length));
                self.fail(state, &current, &error, cut.is_err());
                done = false;
            }
            (Ok(()), Some(Err(error))) => {
                // The system may have dropped the pages, and would report success the next time.
                self.fail(state, &current, &error, true);
                done = false;
            }
            (Ok(()), synced) => {
                current.length += commands.len() as u64;
                state.counts.frames += 1;
                state.counts.file_bytes = current.length;
                state.written += length as u64;
                if synced.is_some() {
                    state.counts.syncs += 1;
                    state.synced = state.written;
                    current.synced = current.length;
                }
                if let Some(file) = &mut state.file {
                    file.length = current.length;
                    file.synced = file.synced.max(current.synced);
                }
                self.recover(state);
            }
        }
        if done {
            commands.clear();
            // One large command must not take memory for ever.
            commands.shrink_to(SPARE_BYTES);
            state.spare = commands;
        } else {
            // The trailer goes: the next attempt may have more commands in its frame.
            commands.truncate(length);
            state.put_back(commands);
        }
        done
    }

    /// Ends a file and continues with another. On failure the switch returns to the buffer.
    fn change_file(
        &self,
        state: &mut MutexGuard<'_, AppendLogState>,
        current: &LogFile,
        next: LogFile,
    ) -> bool {
        // A whole file is on the medium before the next is written to, so that only the last file
        // may be torn.
        if let Err(error) = MutexGuard::unlocked(state, || current.file.sync()) {
            self.fail(state, current, &error, true);
            state.chunks.push_front(AppendLogChunk::Switch(next));
            return false;
        }
        debug_assert!(next.synced <= next.length);
        state.synced = state.written;
        state.counts.file_bytes = next.length;
        state.file = Some(next);
        true
    }

    fn fail(&self, state: &mut AppendLogState, file: &LogFile, error: &io::Error, lost: bool) {
        let message = message(error);
        tracing::error!(
            "{}: {error}; commands that write are refused",
            file.path.display()
        );
        // A lost file stays lost, whatever else happens.
        if !state.is_lost() {
            let lost = lost.then(|| file.path.clone());
            state.failure = Some(AppendLogFailure { message, lost });
        }
        self.failing.store(true, Ordering::Release);
    }

    fn recover(&self, state: &mut AppendLogState) {
        if state.failure.is_some() && !state.is_lost() {
            state.failure = None;
            self.failing.store(false, Ordering::Release);
            tracing::info!("the log is written again");
        }
    }

    /// Ends logging. If the log can be written, everything appended is written and synced before;
    /// afterwards no thread waits for it. Must be called while no thread can append.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.reserved = true;
        let waits = !is_left_out(LogProtocolStep::WaitForLeader);
        while waits && (state.leading || state.syncing_since.is_some()) {
            self.progress.wait(&mut state);
        }
        if !state.is_lost() {
            state = self.lead(state);
            self.sync_written(&mut state);
        }
        state.reserved = false;
        // Commands that could not be written are given up, so that no thread waits for them.
        state.chunks.clear();
        state.written = self.position();
        state.synced = state.written;
        state.file = None;
        state.failure = None;
        self.failing.store(false, Ordering::Release);
        self.on.store(false, Ordering::Release);
        self.durable.store(state.durable(), Ordering::Release);
        self.progress.notify_all();
    }

    // ---- Rewriting -------------------------------------------------------------------------

    /// Directs everything that is appended later to `next`. Must be called in the exclusive phase,
    /// at the instant whose state the next base has.
    pub fn switch_to(&self, next: LogFile) {
        let mut state = self.state.lock();
        state.chunks.push_back(AppendLogChunk::Switch(next));
        // Each file must be readable without the one before it.
        state.database = None;
    }

    /// Makes sure that appended commands go to the last file that was switched to, now that a base
    /// holds everything before. Commands before the switch need not be written any more.
    pub fn leave_older_files(&self) {
        let mut state = self.state.lock();
        state.reserved = true;
        while state.leading {
            self.progress.wait(&mut state);
        }
        state.reserved = false;
        let is_switch = |chunk: &AppendLogChunk| matches!(chunk, AppendLogChunk::Switch(_));
        if let Some(last) = state.chunks.iter().rposition(is_switch) {
            let older: Vec<AppendLogChunk> = state.chunks.drain(..=last).collect();
            for chunk in older {
                match chunk {
                    // The base has their effects.
                    AppendLogChunk::Commands(commands) => state.written += commands.len() as u64,
                    AppendLogChunk::Switch(next) => {
                        state.counts.file_bytes = next.length;
                        state.file = Some(next);
                    }
                }
            }
            state.synced = state.written;
            debug_assert!(
                state.written <= self.position() || is_left_out(LogProtocolStep::WaitForLeader)
            );
        }
        // A failure of the file that stays in use remains: its content is still unknown.
        let current = state.file.as_ref().map(|file| file.path.clone());
        let still = |failure: &AppendLogFailure| failure.lost.is_some() && failure.lost == current;
        if state.failure.is_some() && !state.failure.as_ref().is_some_and(still) {
            state.failure = None;
            self.failing.store(false, Ordering::Release);
            tracing::info!("the log continues in a new file");
        }
        self.durable.store(state.durable(), Ordering::Release);
        self.progress.notify_all();
    }
}

impl AppendLogState {
    fn durable(&self) -> u64 {
        debug_assert!(self.synced <= self.written || is_left_out(LogProtocolStep::WaitForLeader));
        match self.policy {
            LogSyncPolicy::Always if !is_left_out(LogProtocolStep::WaitForSync) => self.synced,
            LogSyncPolicy::Always | LogSyncPolicy::EverySecond | LogSyncPolicy::No => self.written,
        }
    }

    /// Returns true if it is unknown which bytes of the file are on the medium.
    fn is_lost(&self) -> bool {
        let lost = |failure: &AppendLogFailure| failure.lost.is_some();
        self.failure.as_ref().is_some_and(lost)
    }

    /// Returns the buffer that is appended to.
    fn out(&mut self) -> &mut Vec<u8> {
        match self.chunks.back_mut() {
            Some(AppendLogChunk::Commands(commands)) => commands,
            _ => unreachable!("an appender first puts a buffer there"),
        }
    }

    /// Puts commands that could not be written before those that were appended since.
    fn put_back(&mut self, mut commands: Vec<u8>) {
        if let Some(AppendLogChunk::Commands(later)) = self.chunks.front_mut() {
            if is_left_out(LogProtocolStep::PutBackFirst) {
                std::mem::swap(&mut commands, later);
            }
            commands.append(later);
            *later = commands;
        } else {
            self.chunks.push_front(AppendLogChunk::Commands(commands));
        }
    }
}

/// The appending of commands to the log, in their order.
#[derive(Debug)]
struct Appender<'l> {
    log: &'l AppendLog,
    state: MutexGuard<'l, AppendLogState>,
    start: usize,
}

impl Appender<'_> {
    /// Ends the commands, and returns the position after them.
    fn finish(mut self) -> u64 {
        let length = self.state.out().len() - self.start;
        self.log.appended.fetch_add(length as u64, Ordering::AcqRel) + length as u64
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.state.out()
    }

    fn select(&mut self, database: usize) {
        if self.state.database != Some(database) {
            self.state.database = Some(database);
            encode::select(self.state.out(), database);
        }
    }
}

/// Returns the text of an error for clients: the system's text, without its number.
fn message(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}
