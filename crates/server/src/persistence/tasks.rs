//! Background tasks: snapshots, rewrites, and the maintenance of the log.

use super::{create_log, dump, switch};
use crate::client::ClientShared;
use crate::clock::now_ms;
use crate::connection::IoThreadMessage;
use crate::keyspace::{Databases, snapshot};
use crate::log::manifest::{Manifest, base_name, log_name};
use crate::script::NotKilled;
use crate::server::persistence::{FIRST_PATIENCE, LONGEST_PATIENCE};
use crate::server::{ServerCore, SnapshotTask};
use crate::tiering::fetch::READERS;
use parking_lot::RwLockWriteGuard;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The interval at which the log is maintained.
const TICK: Duration = Duration::from_millis(100);

/// The time in each tick during which memory is compacted.
const COMPACTED: Duration = Duration::from_millis(2);

/// Number of ticks after which memory that was compact is checked again.
const COMPACT_TICKS: u32 = 10;

/// Starts the background threads, which run until the server stops. `by_rings` is true if the
/// threads that serve clients read values in files themselves.
///
/// # Errors
/// The system cannot create a thread. Some may have been started.
pub fn spawn<'scope>(
    server: &'scope ServerCore,
    scope: &'scope std::thread::Scope<'scope, '_>,
    by_rings: bool,
) -> io::Result<()> {
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    thread("nearfield-log").spawn_scoped(scope, || keep(server))?;
    thread("nearfield-save").spawn_scoped(scope, || take_snapshots(server))?;
    let cold = &server.keyspace.cold;
    if let Some(tiers) = cold.tiers() {
        thread("nearfield-mover").spawn_scoped(scope, || {
            let (keyspace, access) = (&server.keyspace, &server.access);
            server.tiering.keep(keyspace, access, &server.stopping);
        })?;
        let has_files = (0..tiers.count()).any(|tier| tiers.folder(tier).is_some());
        let (readers, how) = match (has_files, by_rings) {
            (false, _) => (0, "nothing"),
            (true, true) => (0, "io_uring"),
            (true, false) => (READERS, "threads"),
        };
        if has_files {
            tracing::info!("values in files are read by {how}");
        }
        for _ in 0..readers {
            thread("nearfield-fetch").spawn_scoped(scope, move || {
                let tell = |who: &Arc<ClientShared>, held| {
                    let client = who.id;
                    server
                        .clients
                        .send(who, IoThreadMessage::Fetched { client, held });
                };
                server.fetcher.read(cold, &server.stopping, tell);
            })?;
        }
    }
    Ok(())
}

/// Maintains the log and the memory of the indexes, and requests snapshots when they are due.
fn keep(server: &ServerCore) {
    let mut compact_ticks = 0;
    while !server.stopping.load(Ordering::Acquire) {
        std::thread::sleep(TICK);
        server.log.tend();
        // Each tick continues until nothing is left to compact.
        compact_ticks = match compact_ticks {
            0 if server.keyspace.compact_for(COMPACTED) => 0,
            0 => COMPACT_TICKS,
            ticks => ticks - 1,
        };
        if let Some(task) = due(server) {
            server.persistence.request(task, true);
        }
    }
}

/// Returns the task that is due, if any.
fn due(server: &ServerCore) -> Option<SnapshotTask> {
    let persistence = &server.persistence;
    let is_wanted = switch::is_wanted(server);
    let is_outdated = !is_wanted && switch::is_outdated(server);
    let state = persistence.state.lock();
    let waits = state
        .last_attempt
        .is_some_and(|last| last.elapsed() < state.patience);
    if state.status.running.is_some() || state.status.scheduled.is_some() {
        return None;
    }
    if is_wanted && !server.log.is_on() {
        return (!waits).then_some(SnapshotTask::Rewrite);
    }
    if is_outdated {
        return (!waits).then_some(SnapshotTask::Save);
    }
    if server.log.is_on() {
        if server.log.failure().is_some_and(|(_, lost)| lost) {
            return (!waits).then_some(SnapshotTask::Rewrite);
        }
        let number = |name| u64::try_from(server.config.integer(name)).unwrap_or(0);
        let bytes = server.log.counts().file_bytes;
        let base = state.status.base_bytes.max(1);
        let percentage = number("auto-aof-rewrite-percentage");
        let grown = u128::from(bytes) * 100 >= u128::from(base) * u128::from(percentage);
        let long = bytes >= number("auto-aof-rewrite-min-size");
        if percentage > 0 && grown && long && (state.status.last_rewrite_ok || !waits) {
            return Some(SnapshotTask::Rewrite);
        }
    }
    let since = (now_ms() / 1000).saturating_sub(state.status.last_save_s);
    let changes = server.keyspace.changes.load(Ordering::Relaxed);
    let points = persistence.save_points.lock();
    let is_due = points
        .iter()
        .any(|point| since >= point.seconds && changes >= point.changes);
    (is_due && (state.status.last_save_ok || !waits)).then_some(SnapshotTask::Save)
}

/// Takes the requested snapshots.
fn take_snapshots(server: &ServerCore) {
    let persistence = &server.persistence;
    while !server.stopping.load(Ordering::Acquire) {
        if server.log.is_on() && !switch::is_wanted(server) {
            switch::close(server);
        }
        let task = {
            let mut state = persistence.state.lock();
            if state.status.scheduled.is_none() {
                persistence.wanted.wait_for(&mut state, TICK);
            }
            // A `SAVE` may be running.
            if state.status.running.is_some() {
                continue;
            }
            let Some(task) = state.status.scheduled.take() else {
                continue;
            };
            // If no log is wanted, the next start reads a dump, even if it then begins a log.
            let has_log = server.log.is_on() || switch::is_wanted(server);
            let task = if has_log { task } else { SnapshotTask::Save };
            state.status.running = Some(task);
            state.began = Some(Instant::now());
            task
        };
        let result = match task {
            SnapshotTask::Save => save(server),
            SnapshotTask::Rewrite => rewrite(server),
        };
        if let Err(error) = &result
            && !server.stopping.load(Ordering::Acquire)
        {
            let what = match task {
                SnapshotTask::Save => "the snapshot was not saved",
                SnapshotTask::Rewrite => "the log was not rewritten",
            };
            tracing::error!("{what}: {error}");
        }
        server.note_end(task, result.is_ok());
    }
}

fn is_stopping(server: &ServerCore) -> bool {
    server.stopping.load(Ordering::Acquire)
}

/// Saves a dump while clients are served.
fn save(server: &ServerCore) -> io::Result<()> {
    let options = &server.options.persistence;
    let (disk, directory) = (&*options.disk, options.directory());
    let temporary = directory.join("dump-background.rdb.tmp");
    let taken = snapshot::take(
        &server.keyspace,
        disk,
        &temporary,
        || server.functions.codes(),
        || is_stopping(server),
    )?;
    disk.rename(&temporary, &dump(server))?;
    disk.sync_directory(directory)?;
    let changes = &server.keyspace.changes;
    changes.fetch_sub(taken.changes, Ordering::Relaxed);
    switch::retire_outdated(server)
}

/// Saves a dump. The caller has the keyspace to itself.
///
/// # Errors
/// `AlreadyExists` if one is being saved, or those of the disk.
pub fn save_now(server: &ServerCore, databases: &Databases) -> io::Result<()> {
    {
        let mut state = server.persistence.state.lock();
        if state.status.running == Some(SnapshotTask::Save) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // A save that is only scheduled would hold no more than this one.
        state.status.scheduled = state
            .status
            .scheduled
            .filter(|&task| task != SnapshotTask::Save);
    }
    let options = &server.options.persistence;
    let (disk, directory) = (&*options.disk, options.directory());
    let temporary = directory.join("dump.rdb.tmp");
    let began = Instant::now();
    let saved = || {
        std::fs::create_dir_all(directory)?;
        let codes = server.functions.codes();
        let taken =
            snapshot::take_exclusively(&server.keyspace, databases, &codes, disk, &temporary)?;
        disk.rename(&temporary, &dump(server))?;
        disk.sync_directory(directory)?;
        let changes = &server.keyspace.changes;
        changes.fetch_sub(taken.changes, Ordering::Relaxed);
        switch::retire_outdated(server)
    };
    let result: io::Result<()> = saved();
    if let Err(error) = &result {
        tracing::error!("the snapshot was not saved: {error}");
    }
    server.note_save(result.is_ok(), began.elapsed());
    result
}

/// Creates a new base and continues with a new log; the old files are then deleted. If there is no
/// log but one is wanted, this creates the first one.
///
/// Each step leaves a manifest from which everything acknowledged can be read:
///
/// 1. The new log is created and named in the manifest after the old ones.
/// 2. In one exclusive phase the snapshot begins and the log switches to the new file.
/// 3. The base is written and synced.
/// 4. The manifest names the base and the new log alone. The old files are deleted.
fn rewrite(server: &ServerCore) -> io::Result<()> {
    if !server.log.is_on() {
        return match switch::is_wanted(server) {
            true => switch::turn_on(server),
            false => Ok(()),
        };
    }
    let options = &server.options.persistence;
    let (disk, directory) = (&*options.disk, options.directory());
    let (number, mut manifest) = {
        let mut state = server.persistence.state.lock();
        state.next_number += 1;
        (state.next_number - 1, state.manifest.clone())
    };
    debug_assert!(!manifest.holds(&log_name(number)));
    let log = create_log(disk, directory.join(log_name(number)))?;
    // The manifest must not reach the medium before the name of the log.
    disk.sync_directory(directory)?;
    manifest.push(log_name(number));
    manifest.replace(disk, directory)?;
    server.persistence.state.lock().manifest = manifest.clone();
    let path = directory.join(base_name(number));
    let taken = snapshot::take(
        &server.keyspace,
        disk,
        &path,
        || {
            server.log.switch_to(log);
            server.functions.codes()
        },
        || is_stopping(server),
    );
    let taken = match taken {
        Ok(taken) => taken,
        Err(error) => {
            // A file that stays only wastes space.
            let _ = disk.remove(&path);
            return Err(error);
        }
    };
    let rewritten = Manifest::of(Some(base_name(number)), vec![log_name(number)]);
    rewritten.replace(disk, directory)?;
    server.log.leave_older_files();
    {
        let mut state = server.persistence.state.lock();
        state.manifest = rewritten.clone();
        state.status.base_bytes = taken.bytes;
    }
    for name in manifest.logs.iter().chain(&manifest.base) {
        if !rewritten.holds(name)
            && let Err(error) = disk.remove(&directory.join(name))
        {
            // The next start deletes files that the manifest does not name.
            tracing::error!("obsolete file {name} could not be deleted: {error}");
        }
    }
    Ok(())
}

/// Enters the exclusive phase. A script that runs for long is stopped, unless it has changed
/// something: the keyspace is then in no state to be saved, and the script keeps it.
fn exclude_script(server: &ServerCore) -> Option<RwLockWriteGuard<'_, Databases>> {
    let watchdog = &server.scripts.watchdog;
    loop {
        if let Some(databases) = server.exclude_unless_busy() {
            return Some(databases);
        }
        match watchdog.kill(watchdog.running()) {
            Err(NotKilled::HasWritten) => return None,
            // The script ends soon.
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Saves a dump if save points are set, or as `save` demands, makes the log safe, and stops the
/// server. If it cannot save, it continues and returns false, unless `force` is set. The caller
/// holds no phase.
///
/// A script that runs for long is stopped. Its changes are lost, and a dump that would hold half of
/// them is not saved.
pub fn shut_down(server: &ServerCore, save: Option<bool>, force: bool) -> bool {
    let relied_on = || !server.persistence.save_points.lock().is_empty();
    let mut safe = true;
    if save.unwrap_or_else(relied_on) {
        // A running one does not hold the last changes.
        while server.persistence.status().running == Some(SnapshotTask::Save) {
            std::thread::sleep(Duration::from_millis(10));
        }
        match exclude_script(server) {
            Some(databases) => safe = save_now(server, &databases).is_ok(),
            None => tracing::error!(
                "no snapshot was saved, because a script that runs for long has changed keys"
            ),
        }
    }
    safe &= server.log.flush().is_ok();
    if safe || force {
        server.stop();
    }
    safe || force
}

impl ServerCore {
    fn note_end(&self, task: SnapshotTask, ok: bool) {
        let time = {
            let mut state = self.persistence.state.lock();
            debug_assert_eq!(state.status.running, Some(task));
            state.last_attempt = Some(Instant::now());
            // An attempt writes all data, so that failed ones are repeated more and more rarely.
            state.patience = match ok {
                true => FIRST_PATIENCE,
                false => (2 * state.patience).min(LONGEST_PATIENCE),
            };
            let time = state.began.take().map(|began| began.elapsed());
            state.status.running = None;
            if task == SnapshotTask::Rewrite {
                state.status.last_rewrite_ok = ok;
                state.status.last_rewrite_time = time;
                state.status.rewrites += u64::from(ok);
            }
            time
        };
        if task == SnapshotTask::Save {
            self.note_save(ok, time.unwrap_or_default());
        }
    }

    fn note_save(&self, ok: bool, time: Duration) {
        let mut state = self.persistence.state.lock();
        state.status.last_save_ok = ok;
        state.status.last_save_time = Some(time);
        if ok {
            state.status.saves += 1;
            state.status.last_save_s = now_ms() / 1000;
        }
        drop(state);
        let relied_on = !self.persistence.save_points.lock().is_empty()
            && self.config.is_on("stop-writes-on-bgsave-error");
        let failing = &self.persistence.save_failing;
        failing.store(!ok && relied_on, Ordering::Relaxed);
    }
}
