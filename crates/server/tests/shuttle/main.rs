//! The log's protocol of appending and committing, over files of a model, in thousands of thread
//! schedules: half are random, half are chosen so that few context switches are needed to reach a
//! fault.
//!
//! The invariants: a commit that succeeds reports nothing that is less durable than the policy
//! demands; commits end; appended commands are in the files once and in their order. All scenarios
//! except those of two files have a canary, which is the same with a step of the protocol left out,
//! and must be caught.
//!
//! ```console
//! $ cargo test -p nearfield-server --features shuttle --test shuttle
//! ```

mod medium;

use medium::Medium;
use nearfield_server::log::{AppendLog, LogProtocolStep, LogSyncPolicy, leave_out};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Arc, RwLock};
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of schedules of each kind in which a scenario is run.
const ORDERS: usize = 1500;
/// Number of steps after which a scenario counts as endless.
const STEPS_MAX: usize = 20_000;
const PREEMPTIONS: usize = 3;

/// Runs a scenario in many schedules.
fn check(scenario: impl Fn() + Send + Sync + 'static) {
    let scenario = std::sync::Arc::new(scenario);
    let config = || {
        let mut config = Config::new();
        config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
        config.silence_warnings = true;
        config
    };
    let run = std::sync::Arc::clone(&scenario);
    Runner::new(RandomScheduler::new(ORDERS), config()).run(move || run());
    let scheduler = PctScheduler::new(PREEMPTIONS, ORDERS);
    Runner::new(scheduler, config()).run(move || scenario());
}

/// Runs a scenario without a step of the protocol, which must be noticed.
fn check_without(step: LogProtocolStep, scenario: impl Fn() + Send + Sync + 'static) {
    leave_out(Some(step));
    let found = catch_unwind(AssertUnwindSafe(|| check(scenario)));
    leave_out(None);
    assert!(found.is_err(), "{step:?} was left out, and no check failed");
}

/// Creates a log with a first file.
fn log(policy: LogSyncPolicy, medium: &Medium) -> Arc<AppendLog> {
    let log = AppendLog::default();
    log.open(policy, medium.file("first"));
    Arc::new(log)
}

fn join<const N: usize>(threads: [JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().expect("a thread of the scenario");
    }
}

/// Returns the bytes that a client appends as its `number`th command.
fn command(client: usize, number: usize) -> Vec<u8> {
    format!("<{client}.{number}>").into_bytes()
}

fn append(log: &AppendLog, client: usize, number: usize) -> u64 {
    log.append_encoded(0, &command(client, number))
}

/// Runs clients that append twice and commit each time: each commit returns only when its command
/// is on the medium.
fn clients_commit() {
    let medium = Medium::default();
    let log = log(LogSyncPolicy::Always, &medium);
    let client = |client: usize| {
        let (log, medium) = (Arc::clone(&log), medium.clone());
        thread::spawn(move || {
            for number in 0..2 {
                let own = append(&log, client, number);
                log.commit(own).expect("a file that does not fail");
                assert!(medium.holds(&command(client, number), true));
            }
        })
    };
    let clients = [1, 2].map(client);
    join(clients);
    for client in [1, 2] {
        let commands: Vec<_> = (0..2).map(|number| command(client, number)).collect();
        assert!(medium.places(&commands).is_sorted());
    }
}

#[test]
fn nothing_is_told_of_that_is_not_synced() {
    check(clients_commit);
}

#[test]
fn canary_of_a_reply_before_the_sync() {
    check_without(LogProtocolStep::WaitForSync, clients_commit);
}

/// Writes by one client under `everysec` while another requests `always`, and a third syncs.
fn policy_is_raised() {
    let medium = Medium::default();
    let log = log(LogSyncPolicy::EverySecond, &medium);
    let writer = {
        let (log, medium) = (Arc::clone(&log), medium.clone());
        thread::spawn(move || {
            let own = append(&log, 1, 0);
            log.commit(own).expect("a file that does not fail");
            assert!(medium.holds(&command(1, 0), false));
        })
    };
    let keeper = {
        let log = Arc::clone(&log);
        thread::spawn(move || log.tend())
    };
    let own = append(&log, 2, 0);
    log.set_policy(LogSyncPolicy::Always);
    log.commit(own).expect("a file that does not fail");
    assert!(medium.holds(&command(2, 0), true));
    join([writer, keeper]);
    // Nothing is appended any more, and all writes must be synced now.
    log.commit(log.position())
        .expect("a file that does not fail");
    assert!(medium.holds(&command(1, 0), true));
}

#[test]
fn a_policy_that_is_raised_is_met() {
    check(policy_is_raised);
}

#[test]
fn canary_of_older_writes_that_are_not_synced() {
    check_without(LogProtocolStep::SyncOlder, policy_is_raised);
}

/// Makes the first write fail. Commands appended before and after are written later, in their
/// order.
fn disk_is_full_for_a_while() {
    let medium = Medium::failing(1, 0);
    let log = log(LogSyncPolicy::Always, &medium);
    let client = |client: usize| {
        let (log, medium) = (Arc::clone(&log), medium.clone());
        thread::spawn(move || {
            append(&log, client, 0);
            let own = append(&log, client, 1);
            if log.commit(own).is_ok() {
                assert!(medium.holds(&command(client, 0), true));
                assert!(medium.holds(&command(client, 1), true));
            }
        })
    };
    let clients = [1, 2].map(client);
    join(clients);
    log.tend();
    log.flush().expect("the disk has room again");
    assert!(!log.is_failing());
    for client in [1, 2] {
        let commands: Vec<_> = (0..2).map(|number| command(client, number)).collect();
        assert!(medium.places(&commands).is_sorted());
    }
}

#[test]
fn what_could_not_be_written_is_written_later_in_order() {
    check(disk_is_full_for_a_while);
}

#[test]
fn canary_of_commands_put_back_behind_later_ones() {
    check_without(LogProtocolStep::PutBackFirst, disk_is_full_for_a_while);
}

/// Makes the first sync fail, so that the file is lost, until a base and a second file are there.
/// As in the server, nothing is appended at the instant at which a base is taken.
fn file_is_lost() {
    let (first, second) = (Medium::failing(0, 1), Medium::default());
    let log = log(LogSyncPolicy::Always, &first);
    let (phase, base) = (Arc::new(RwLock::new(())), Arc::new(AtomicU64::new(0)));
    let client = {
        let (log, first, second) = (Arc::clone(&log), first.clone(), second.clone());
        let (phase, base) = (Arc::clone(&phase), Arc::clone(&base));
        thread::spawn(move || {
            for number in 0..3 {
                let entered = phase.read().expect("no thread panics with it");
                let own = append(&log, 1, number);
                drop(entered);
                if log.commit(own).is_ok() {
                    let command = command(1, number);
                    let is_logged = first.holds(&command, true) || second.holds(&command, true);
                    assert!(is_logged || own <= base.load(Ordering::SeqCst));
                }
            }
        })
    };
    let entered = phase.write().expect("no thread panics with it");
    log.switch_to(second.file("second"));
    base.store(log.position(), Ordering::SeqCst);
    drop(entered);
    // The base is written meanwhile.
    thread::yield_now();
    log.leave_older_files();
    join([client]);
    assert!(!log.is_failing());
    let own = append(&log, 2, 0);
    log.commit(own).expect("the second file does not fail");
    assert!(second.holds(&command(2, 0), true));
}

#[test]
fn a_file_that_is_lost_is_replaced() {
    check(file_is_lost);
}

/// Continues the log in a second file while clients write.
fn file_is_changed() {
    let (first, second) = (Medium::default(), Medium::default());
    let log = log(LogSyncPolicy::Always, &first);
    let client = |client: usize| {
        let (log, first, second) = (Arc::clone(&log), first.clone(), second.clone());
        thread::spawn(move || {
            for number in 0..2 {
                let own = append(&log, client, number);
                log.commit(own).expect("files that do not fail");
                let command = command(client, number);
                assert!(first.holds(&command, true) || second.holds(&command, true));
            }
        })
    };
    let clients = [1, 2].map(client);
    log.switch_to(second.file("second"));
    let own = append(&log, 3, 0);
    log.commit(own).expect("files that do not fail");
    assert!(second.holds(&command(3, 0), true));
    join(clients);
    log.leave_older_files();
}

#[test]
fn nothing_is_lost_between_two_files() {
    check(file_is_changed);
}

/// Ends logging while a client commits, and begins it again in another file.
fn logging_ends() {
    let (first, second) = (Medium::default(), Medium::default());
    let log = log(LogSyncPolicy::Always, &first);
    let own = append(&log, 1, 0);
    let client = {
        let log = Arc::clone(&log);
        thread::spawn(move || log.commit(own).expect("a file that does not fail"))
    };
    log.close();
    assert!(!log.is_on());
    assert!(first.holds(&command(1, 0), true));
    log.open(LogSyncPolicy::Always, second.file("second"));
    let own = append(&log, 2, 0);
    log.commit(own).expect("a file that does not fail");
    assert!(second.holds(&command(2, 0), true));
    join([client]);
}

#[test]
fn logging_ends_when_all_is_written() {
    check(logging_ends);
}

#[test]
fn canary_of_an_end_beside_the_leader() {
    check_without(LogProtocolStep::WaitForLeader, logging_ends);
}
