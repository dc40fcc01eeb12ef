//! The server's program under attack, for a short time: `.ci/run attack` and `xtask soak` take
//! longer. Programs that fail in each way show that attacks find it.

use nearfield_attack::campaign::{CampaignOrders, run};
use nearfield_attack::limits::{self, LimitOrders};
use nearfield_attack::outcome::{CampaignOutcome, ServerFault};
use nearfield_server_testkit::folder::TestkitFolder;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const NEARFIELD: &str = env!("CARGO_BIN_EXE_nearfield");

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

fn attack(orders: &CampaignOrders) -> CampaignOutcome {
    run(orders, &AtomicBool::new(false), &|_| ()).expect("the server starts")
}

#[test]
fn streams_neither_end_nor_stop_the_server() {
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("attack");
    let outcome = attack(&CampaignOrders {
        program: NEARFIELD.into(),
        kept,
        seed: variable("NEARFIELD_SEED").unwrap_or(0),
        streams: variable("NEARFIELD_STREAMS").unwrap_or(1000),
        ..CampaignOrders::default()
    });
    println!("{outcome}");
    assert_eq!(outcome.fault, None, "{outcome}");
    assert!(outcome.pings > 0 && outcome.received_bytes > 0, "{outcome}");
}

/// Returns a program that runs a server and also a line of shell. The server is `$server`.
fn with_fault(folder: &Path, line: &str) -> PathBuf {
    let path = folder.join("server");
    // The server is not a child of the process that kills this program, so it ends by itself.
    let text = format!(
        "#!/bin/sh\n\"{NEARFIELD}\" \"$@\" &\nserver=$!\n\
         (while kill -0 $$; do sleep 0.5; done; kill -KILL $server) 2>/dev/null &\n\
         {line}\nwait $server\n"
    );
    fs::write(&path, text).expect("a script");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&path, executable).expect("it may be executed");
    path
}

/// Returns the fault of a program that is sound only while a server makes samples.
fn fault_of(line: &str) -> Option<ServerFault> {
    let folder = TestkitFolder::new();
    // The first server, which makes samples, has no attackers.
    let line = format!(
        "grep -q 'appendonly no' \"$3\" && \
         (while ! grep -q ready \"$(dirname \"$3\")/server.log\"; do sleep 0.1; done; \
         sleep 0.5; {line}) &"
    );
    let outcome = attack(&CampaignOrders {
        program: with_fault(&folder.0, &line),
        kept: folder.join("kept"),
        patience: Duration::from_secs(3),
        time: Duration::from_secs(60),
        streams: u64::MAX,
        bounds_memory: false,
        has_starts: false,
        ..CampaignOrders::default()
    });
    if outcome.fault.is_some() {
        assert!(outcome.replay.contains("--seed 0 --first "), "{outcome}");
        let kept = fs::read_dir(folder.join("kept/seed-0")).expect("a folder");
        let names = kept.map(|entry| entry.expect("an entry").file_name());
        let streams = names.filter(|name| name.to_string_lossy().ends_with(".bytes"));
        assert!(streams.count() > 0, "the last streams are kept");
    }
    outcome.fault
}

#[test]
fn a_server_that_crashes_is_found() {
    let fault = fault_of("kill -ABRT $server");
    assert!(matches!(fault, Some(ServerFault::Ended(_))), "{fault:?}");
}

#[test]
fn a_server_that_hangs_is_found() {
    // The server stays stopped: nothing that is sent to it meets a reply.
    let fault = fault_of("kill -STOP $server");
    assert!(
        matches!(fault, Some(ServerFault::Unanswered(_))),
        "{fault:?}"
    );
}

#[test]
fn a_report_in_the_log_is_found() {
    let fault = fault_of("echo '==1==ERROR: AddressSanitizer: heap-use-after-free' >&2");
    assert!(matches!(fault, Some(ServerFault::Reported(_))), "{fault:?}");
}

#[test]
fn too_much_memory_is_found() {
    let folder = TestkitFolder::new();
    let outcome = attack(&CampaignOrders {
        program: NEARFIELD.into(),
        kept: folder.join("kept"),
        memory_bytes: 1 << 20,
        // Less than the program itself has.
        resident_slack_bytes: 0,
        has_starts: false,
        ..CampaignOrders::default()
    });
    let fault = outcome.fault;
    assert!(
        matches!(fault, Some(ServerFault::Memory { .. })),
        "{fault:?}"
    );
}

#[test]
fn each_case_at_a_limit_has_its_row() {
    let orders = LimitOrders {
        programs: vec![NEARFIELD.into()],
        divisor: 100,
        only: None,
    };
    let table = limits::measure(&orders, &AtomicBool::new(false), &|_| ()).expect("it measures");
    assert_eq!(table.0.len(), 6);
    for row in &table.0 {
        let is_sound = row.peak_mib >= row.before_mib && row.before_mib > 1.0;
        assert!(is_sound && row.ping_worst_ms > 0.0, "{row:?}");
    }
    assert!(table.0[1].note.starts_with("100 stay"), "{table}");
}
