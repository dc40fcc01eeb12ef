//! A client besides the attackers. The server must reply to its PINGs.

use crate::outcome::ServerFault;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::reply::RespReplyValue;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two PINGs.
const PAUSE: Duration = Duration::from_millis(2);

/// Observations of the pulse.
#[derive(Debug, Default)]
pub(crate) struct PulseReport {
    /// Time of each reply, in microseconds.
    pub(crate) latencies_us: Vec<u32>,
    /// Number of times that the server was busy with a script, which was then killed.
    pub(crate) busy: u64,
    /// Number of reconnections, since attackers may close connections.
    pub(crate) reopened: u64,
    /// The fault, if there was one.
    pub(crate) fault: Option<ServerFault>,
}

impl PulseReport {
    /// Returns the latency in milliseconds that `per_mille` of a thousand PINGs do not exceed.
    pub(crate) fn latency_ms(&self, per_mille: f64) -> f64 {
        debug_assert!((0.0..=1000.0).contains(&per_mille));
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * per_mille / 1000.0) as usize;
        let micros = sorted.get(at.min(sorted.len().saturating_sub(1)));
        f64::from(micros.copied().unwrap_or(0)) / 1000.0
    }
}

/// Sends PINGs on a connection that `open` makes, until `stop` is set or one gets no reply within
/// `patience`. `worst_us` is set to the longest time of a reply, for other threads.
pub(crate) fn feel(
    open: &dyn Fn() -> io::Result<TestkitConnection>,
    patience: Duration,
    stop: &AtomicBool,
    worst_us: &AtomicU64,
) -> PulseReport {
    let mut report = PulseReport::default();
    let mut connection: Option<TestkitConnection> = None;
    // The time since which there is no reply.
    let mut since = Instant::now();
    // The time since which scripts are being killed.
    let mut busy_since = None;
    while !stop.load(Ordering::Relaxed) {
        if since.elapsed() > patience {
            report.fault = Some(ServerFault::Unanswered(since.elapsed().as_secs()));
            break;
        }
        let Some(known) = &mut connection else {
            connection = open().ok();
            report.reopened += 1;
            thread::sleep(PAUSE);
            continue;
        };
        let begin = Instant::now();
        match ping(known, patience) {
            Ok(answer) => {
                let took_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
                worst_us.fetch_max(took_us, Ordering::Relaxed);
                let took_us = u32::try_from(took_us).unwrap_or(u32::MAX);
                report.latencies_us.push(took_us);
                since = Instant::now();
                if matches!(&answer, RespReplyValue::Error(text) if text.starts_with(b"BUSY")) {
                    report.busy += 1;
                    let told: &mut Instant = busy_since.get_or_insert(begin);
                    if told.elapsed() > patience {
                        report.fault = Some(ServerFault::Unkillable(told.elapsed().as_secs()));
                        break;
                    }
                    let words: [&[&[u8]]; 2] = [&[b"SCRIPT", b"KILL"], &[b"FUNCTION", b"KILL"]];
                    for words in words {
                        // One of the commands is refused; only the next PING matters.
                        let _ = known.command(words);
                    }
                } else {
                    busy_since = None;
                }
                thread::sleep(PAUSE);
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                report.fault = Some(ServerFault::Unanswered(begin.elapsed().as_secs()));
                break;
            }
            Err(_) => connection = None,
        }
    }
    // The first connection was no reconnection.
    report.reopened = report.reopened.saturating_sub(1);
    report
}

fn ping(connection: &mut TestkitConnection, patience: Duration) -> io::Result<RespReplyValue> {
    connection.send(b"*1\r\n$4\r\nPING\r\n")?;
    connection.receive_within(patience)
}
