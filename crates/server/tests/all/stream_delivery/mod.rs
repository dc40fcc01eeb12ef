//! Groups of streams get each acknowledged entry, and none twice without a claim, though the server
//! is killed with SIGKILL at any instant.
//!
//! Producers add entries. Consumers of two groups take entries (some wait for them), acknowledge,
//! and claim entries that others hold, under `always`, while snapshots and rewrites run, until the
//! server is killed. It is started again on the same folder, and its state must then fit the
//! `ledger` of requests and replies. `NEARFIELD_KILLS` sets the number of kills (6),
//! `NEARFIELD_SEED` the seed.

mod client;
mod ledger;
mod stored;

use super::killable::{KillableServer, is_server};
use client::DeliveryClient;
use ledger::DeliveryLedger;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;
use stored::StoredStreams;

const STREAMS: usize = 2;
const GROUPS: usize = 2;
const PRODUCERS: u64 = 2;
const CONSUMERS_OF_GROUP: u64 = 2;
/// Number of kills after which the stored data is deleted.
const KILLS_OF_ONE_STORE: u64 = 100;

/// The milliseconds, and the number within them.
type Id = (u64, u64);

fn create_groups(address: SocketAddr) {
    let mut connection = TestkitConnection::open(address).expect("the server listens");
    for stream in 0..STREAMS {
        for group in 0..GROUPS {
            let line = format!("XGROUP CREATE s{stream} g{group} 0 MKSTREAM");
            client::send(&mut connection, &line).expect("a new group");
        }
    }
}

/// Lets clients work until the server is killed.
fn work_until_killed(
    process: &mut KillableServer,
    ledger: &mut DeliveryLedger,
    kill: u64,
    seed: u64,
) {
    let mut random = SmallRng::seed_from_u64(seed);
    let time = Duration::from_micros(random.random_range(5_000..150_000));
    let address = process.address;
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..PRODUCERS {
            let client = DeliveryClient::new(format!("p{kill}-{number}"), random.random());
            clients.push(scope.spawn(move || client.produce(address)));
        }
        for group in 0..GROUPS {
            for number in 0..CONSUMERS_OF_GROUP {
                let client = DeliveryClient::new(format!("c{kill}-{number}"), random.random());
                clients.push(scope.spawn(move || client.consume(address, group)));
            }
        }
        thread::sleep(time);
        process.kill();
        for client in clients {
            ledger.append(client.join().expect("a client"));
        }
    });
}

#[test]
fn groups_get_each_entry_once_though_the_server_is_killed() {
    if is_server() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let kills = number("NEARFIELD_KILLS").unwrap_or(6);
    let seed = number("NEARFIELD_SEED").unwrap_or_else(rand::random);
    let mut random = SmallRng::seed_from_u64(seed);
    let (folder, mut ledger) = (TestkitFolder::new(), DeliveryLedger::default());
    let mut totals = [0; 4];
    for kill in 0..=kills {
        let mut process = KillableServer::start(&folder.0, None, false);
        if kill == 0 {
            create_groups(process.address);
        }
        let context = || {
            let folder = folder.0.display();
            format!("NEARFIELD_SEED={seed}, kill {kill}, in {folder}")
        };
        let mut stored = StoredStreams::read(process.address);
        if let Err(fault) = ledger.check(&stored) {
            panic!("{}: {fault}", context());
        }
        if kill % KILLS_OF_ONE_STORE == KILLS_OF_ONE_STORE - 1 {
            // A small store, so that a check stays fast.
            client::flush(process.address);
            create_groups(process.address);
            count(&mut totals, &ledger);
            ledger = DeliveryLedger::default();
            stored = StoredStreams::read(process.address);
        }
        ledger.remember(&stored);
        if kill < kills {
            work_until_killed(&mut process, &mut ledger, kill, random.random());
            continue;
        }
        count(&mut totals, &ledger);
        ledger
            .append(DeliveryClient::new("last".to_owned(), random.random()).drain(process.address));
        let stored = StoredStreams::read(process.address);
        let checked = ledger
            .check(&stored)
            .and_then(|()| ledger.check_drained(&stored));
        if let Err(fault) = checked {
            panic!("at last, {}: {fault}", context());
        }
    }
    let [added, delivered, claimed, acknowledged] = totals;
    println!(
        "{kills} kills, {added} entries acknowledged, {delivered} delivered, {claimed} claimed, \
         {acknowledged} acknowledged in groups"
    );
}

fn count(totals: &mut [usize; 4], ledger: &DeliveryLedger) {
    for (total, more) in totals.iter_mut().zip(ledger.totals()) {
        *total += more;
    }
}

/// Makes a running server do things that a server must not do by itself, which must be noticed.
#[test]
fn servers_that_forget_or_repeat_are_noticed() {
    if is_server() {
        return;
    }
    let folder = TestkitFolder::new();
    let flaws = [
        ("XGROUP SETID s0 g0 0", "went back"),
        (
            "XGROUP SETID s0 g0 $",
            "is neither pending nor acknowledged",
        ),
        (
            "XGROUP DELCONSUMER s0 g0 holder",
            "is neither pending nor acknowledged",
        ),
        ("XACK s0 g0 2-0", "is neither pending nor acknowledged"),
        ("XCLAIM s0 g0 thief 0 2-0", "is held by thief"),
        (
            "XCLAIM s0 g0 holder 0 1-0 FORCE",
            "is pending though it was acknowledged",
        ),
        (
            "XCLAIM s0 g0 holder 0 2-0 RETRYCOUNT 0",
            "was delivered 0 times",
        ),
        ("XDEL s0 3-0", "is lost"),
        ("XADD s0 9-0 v p:99", "which no client has sent"),
        ("XADD s0 9-0 v p:3", "twice"),
    ];
    for (flaw, expected) in flaws {
        let process = KillableServer::start(&folder.0, None, false);
        client::flush(process.address);
        create_groups(process.address);
        let mut connection = TestkitConnection::open(process.address).expect("the server listens");
        let mut ledger = DeliveryLedger::default();
        let mut holder = DeliveryClient::new("holder".to_owned(), 0);
        for number in 1..=3 {
            holder.note_sent(&format!("p:{number}"));
            let id = (number, 0);
            client::send(&mut connection, &format!("XADD s0 {number}-0 v p:{number}"))
                .expect("an id");
            holder.note_added(0, &format!("p:{number}"), id);
        }
        let read = "XREADGROUP GROUP g0 holder COUNT 2 STREAMS s0 >";
        client::send(&mut connection, read).expect("entries");
        for id in [(1, 0), (2, 0)] {
            holder.note_delivered(0, 0, id);
        }
        client::send(&mut connection, "XACK s0 g0 1-0").expect("a count");
        holder.note_acknowledged(0, 0, (1, 0));
        ledger.append(holder.into_told());
        let stored = StoredStreams::read(process.address);
        assert_eq!(ledger.check(&stored), Ok(()), "before {flaw}");
        ledger.remember(&stored);
        client::send(&mut connection, flaw).expect("a reply");
        let fault = ledger
            .check(&StoredStreams::read(process.address))
            .expect_err(flaw);
        assert!(fault.contains(expected), "{flaw}: {fault}");
    }
}
