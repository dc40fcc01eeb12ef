//! Damaged snapshots that the attacked server reads while it serves.

use crate::samples::AttackSamples;
use crate::streams::damaged_file;
use crate::target;
use nearfield_server_testkit::connection::TestkitConnection;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two snapshots.
const PAUSE: Duration = Duration::from_secs(1);

/// Puts a damaged snapshot into the server's folder from time to time, and makes the server read
/// it. Any reply within `patience` is allowed. Returns the number of snapshots that it read or
/// refused.
pub(crate) fn reload(
    address: SocketAddr,
    data: &Path,
    samples: &AttackSamples,
    seed: u64,
    patience: Duration,
    stop: &AtomicBool,
) -> u64 {
    let mut answered = 0;
    let mut connection = None;
    for number in 0.. {
        let next = Instant::now() + PAUSE;
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) {
                return answered;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let snapshot = damaged_file(&samples.snapshot, seed, number);
        match read(&mut connection, address, data, &snapshot, number, patience) {
            Ok(()) => answered += 1,
            // An attacker may have closed the connection.
            Err(_) => connection = None,
        }
    }
    answered
}

fn read(
    connection: &mut Option<TestkitConnection>,
    address: SocketAddr,
    data: &Path,
    snapshot: &[u8],
    number: u64,
    patience: Duration,
) -> io::Result<()> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => target::control(address, patience)?,
    };
    // Under another name first, so that the server never reads a part of it.
    fs::write(data.join("new.rdb"), snapshot)?;
    fs::rename(data.join("new.rdb"), data.join("dump.rdb"))?;
    let words: [&[u8]; 4] = [b"DEBUG", b"RELOAD", b"NOSAVE", b"NOFLUSH"];
    // Without NOFLUSH all keys are removed first.
    let count = if number.is_multiple_of(4) { 3 } else { 4 };
    open.send_words(&words[..count])?;
    open.receive_within(patience)?;
    *connection = Some(open);
    Ok(())
}
