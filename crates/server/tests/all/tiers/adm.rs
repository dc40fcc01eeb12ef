//! ADM's policy in a server: its thresholds decide what moves.

use super::accounts::check;
use super::{figure, moving, name, read_hot, record};
use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use nearfield_tiers::policy::{AdmSettings, LfuSettings, PolicyChoice};
use std::time::Duration;

const KEYS: u64 = 12_000;
/// The share of reads from which the hot values are taken to be in memory.
const ENOUGH: f64 = 0.6;

/// Reads values of a server whose memory has room for about a sixth of them, until most reads are
/// served by memory or `rounds` are over. Returns the share of the first and the last round, and
/// the number of values that moved into memory.
fn play(threshold_in: u8, rounds: usize) -> (f64, f64, f64) {
    let folder = TestkitFolder::new();
    // Each use raises the counter, so that a test of seconds is long enough.
    let settings = AdmSettings {
        lfu: LfuSettings {
            log_factor: 0,
            decay_minutes: 0,
        },
        ..AdmSettings::with_thresholds(threshold_in, 2)
    };
    let options = ServerOptions {
        tier_policy: PolicyChoice::Adm {
            settings,
            interval: Duration::from_millis(500),
        },
        ..saving_into(&folder, 2)
    };
    let server = moving(&folder, [2, 8, 0], options);
    let mut connection = server.connect();
    for number in 0..KEYS {
        let words: [&[u8]; 3] = [b"SET", &name(number), &record(number)];
        let reply = connection.command(&words).unwrap();
        assert_eq!(reply, RespReplyValue::simple("OK"));
    }
    let first = read_hot(&server, &mut connection, KEYS, 20_000);
    let mut share = first;
    for _ in 0..rounds {
        share = read_hot(&server, &mut connection, KEYS, 15_000);
        if share > ENOUGH {
            break;
        }
    }
    let words: [&[u8]; 3] = [b"CONFIG", b"GET", b"adm-threshold-in"];
    let shown = connection.command(&words).unwrap().to_string();
    assert!(shown.contains(&threshold_in.to_string()), "{shown}");
    let info = connection.command(&[b"INFO", b"tiers"]).unwrap();
    let info = info.to_string();
    assert!(info.contains("tiers_policy:adm"), "{info}");
    println!("{first:.3} initially, {share:.3} later\n{info}");
    check(&server).unwrap();
    // The first tier in the section is memory.
    (first, share, figure(&info, "moved_in="))
}

#[test]
fn values_above_the_threshold_come_into_memory_and_stay() {
    let (first, share, moved_in) = play(15, 100);
    assert!(
        share > first && share > ENOUGH,
        "{first} initially, {share} later"
    );
    assert!(moved_in > 0.0);
}

/// No counter exceeds this threshold, so nothing that the other test finds may come from elsewhere.
#[test]
fn a_threshold_that_no_counter_exceeds_lets_nothing_in() {
    let (first, share, moved_in) = play(u8::MAX, 8);
    assert!(share < ENOUGH, "{first} initially, {share} later");
    assert_eq!(moved_in, 0.0);
}
