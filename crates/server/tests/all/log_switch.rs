//! A log that is turned on and off while the server runs.

use super::durability::{
    check_pairs, copy, failing, has_log, load, ok, options, run, while_pairs_are_written,
};
use nearfield_server::config::ServerOptions;
use nearfield_server::log::{Damage, LogSyncPolicy};
use nearfield_server::persistence;
use nearfield_server_testkit::faulty::EIO;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::state::State;
use nearfield_server_testkit::steps::eventually;

/// Turns the log on or off, and waits until that is done.
fn switch_log(server: &Nearfield, on: bool) {
    let value = if on { "yes" } else { "no" };
    let set = format!("CONFIG SET appendonly {value}");
    assert_eq!(run(&mut server.connect(), &set), ok());
    let is_idle = || {
        let status = server.server.persistence.status();
        status.running.is_none() && status.scheduled.is_none()
    };
    let folder = server.server.options.persistence.directory();
    eventually("the log is switched", || {
        server.server.log.is_on() == on && is_idle() && has_log(folder) == on
    });
}

/// Returns the number of keys that do not belong to pairs.
fn single(state: &State) -> usize {
    let keys = state.keys();
    keys.filter(|(_, key)| !key.contains(&b':')).count()
}

#[test]
fn a_log_that_is_turned_on_and_off_while_clients_write_loses_nothing() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(options(&folder.0, false, LogSyncPolicy::Always));
    run(&mut server.connect(), "SET before 1");
    while_pairs_are_written(&server, || {
        for round in 0..2 {
            let mut connection = server.connect();
            switch_log(&server, true);
            let set = format!("SET logged{round} 1");
            assert_eq!(run(&mut connection, &set), ok());
            let killed = load(&copy(&folder).0, true, Damage::Refuse).unwrap();
            check_pairs(&killed);
            // All writes that were acknowledged while there was a log, and those before.
            assert_eq!(single(&killed), 2 * round + 2);
            switch_log(&server, false);
            let set = format!("SET saved{round} 1");
            assert_eq!(run(&mut connection, &set), ok());
            assert_eq!(run(&mut connection, "SAVE"), ok());
            let killed = load(&copy(&folder).0, false, Damage::Refuse).unwrap();
            check_pairs(&killed);
            assert_eq!(single(&killed), 2 * round + 3);
        }
    });
}

#[test]
fn a_log_cannot_be_turned_on_where_another_is() {
    let folder = TestkitFolder::new();
    let other = Nearfield::start(options(&folder.0, true, LogSyncPolicy::No));
    let mut options = options(&folder.0, false, LogSyncPolicy::No);
    let refusal = |options: ServerOptions| {
        // It has read nothing, as if it had been started without a directory.
        let server = UnservedServer::new(options);
        persistence::prepare_log(&server).unwrap_err()
    };
    assert!(refusal(options.clone()).contains("another server uses"));
    drop(other);
    options.persistence.log = None;
    assert!(refusal(options).contains("was not read"));
}

#[test]
fn a_log_that_cannot_begin_is_begun_later_and_refuses_no_writes() {
    let (folder, disk, server) = failing(false, LogSyncPolicy::Always);
    let mut connection = server.connect();
    assert_eq!(run(&mut connection, "SET a 1"), ok());
    disk.faults.lock().syncs = Some(EIO);
    assert_eq!(run(&mut connection, "CONFIG SET appendonly yes"), ok());
    let status = || server.server.persistence.status();
    eventually("the attempt", || {
        !status().last_rewrite_ok && status().running.is_none()
    });
    assert!(!server.server.log.is_on());
    assert_eq!(run(&mut connection, "SET b 1"), ok());
    // The manifest is in place then, and must not name files that are deleted.
    {
        let mut faults = disk.faults.lock();
        (faults.syncs, faults.directories) = (None, Some(EIO));
    }
    let failed = || disk.faults.lock().failed;
    let before = failed();
    eventually("a second attempt", || {
        failed() > before && status().running.is_none() && !server.server.log.is_on()
    });
    load(&copy(&folder).0, false, Damage::Refuse).unwrap();
    disk.faults.lock().directories = None;
    eventually("another attempt", || status().last_rewrite_ok);
    assert_eq!(run(&mut connection, "SET c 1"), ok());
    let killed = load(&copy(&folder).0, true, Damage::Refuse).unwrap();
    assert_eq!(killed.len(), 3);
}
