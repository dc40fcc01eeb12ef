//! Results of a campaign, for display and as JSON.

use crate::streams::StreamKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Faults that no input may cause.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ServerFault {
    /// The process has ended.
    #[error("the server has ended: {0}")]
    Ended(String),
    /// The server's log has a report of a panic or of a sanitizer.
    #[error("the server's log has: {0}")]
    Reported(String),
    /// The process takes more memory than allowed.
    #[error("the server has {mib} MiB of resident memory; {limit_mib} MiB are allowed")]
    Memory {
        /// Memory that it takes.
        mib: u64,
        /// Memory that it may take.
        limit_mib: u64,
    },
    /// A PING got no reply.
    #[error("no reply to PING for {0} s")]
    Unanswered(u64),
    /// SCRIPT KILL did not end a script.
    #[error("a script continued for {0} s while SCRIPT KILL and FUNCTION KILL were sent")]
    Unkillable(u64),
    /// A server that started with damaged files neither served nor refused them.
    #[error("start {number}: {what}")]
    Start {
        /// Number of the start.
        number: u64,
        /// Description of the fault.
        what: String,
    },
    /// The data of the server could not be saved and loaded again.
    #[error("DEBUG RELOAD at the end: {0}")]
    Reload(String),
    /// The server did not shut down as requested.
    #[error("SHUTDOWN at the end: {0}")]
    Shutdown(String),
}

/// Result of a campaign.
#[derive(Clone, Debug, Serialize)]
pub struct CampaignOutcome {
    /// The seed of all streams.
    pub seed: u64,
    /// The first stream's number.
    pub first: u64,
    /// Number of streams that were sent.
    pub streams: u64,
    /// Number of streams of each kind that were begun.
    pub kinds: BTreeMap<StreamKind, u64>,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of bytes that were sent.
    pub sent_bytes: u64,
    /// Number of bytes that were received.
    pub received_bytes: u64,
    /// Number of connections that the server did not accept.
    pub refused: u64,
    /// Number of damaged snapshots that the server read or refused while it served.
    pub reloads: u64,
    /// Number of servers that were started with damaged files.
    pub starts: u64,
    /// The eviction policy.
    pub policy: &'static str,
    /// Number of threads of the server.
    pub threads: usize,
    /// The server's `maxmemory`.
    pub memory_mib: u64,
    /// The greatest resident memory that was seen.
    pub resident_mib: u64,
    /// The greatest resident memory that is allowed.
    pub resident_limit_mib: u64,
    /// The server's processor time.
    pub processor_seconds: f64,
    /// Number of PINGs of a client besides the attackers.
    pub pings: u64,
    /// Median latency of a PING, in milliseconds.
    pub ping_median_ms: f64,
    /// Latency of a PING at the 99.9th percentile, in milliseconds.
    pub ping_999_ms: f64,
    /// Longest latency of a PING, in milliseconds.
    pub ping_worst_ms: f64,
    /// Number of PINGs with the reply BUSY, because of scripts that were then killed.
    pub busy: u64,
    /// Number of times that attackers closed that client's connection.
    pub reopened: u64,
    /// Idle share of the machine's cores. Without idle cores, latencies mean little.
    pub idle: f64,
    /// The fault, if there was one.
    pub fault: Option<ServerFault>,
    /// The command that sends the last streams again.
    pub replay: String,
}

impl fmt::Display for CampaignOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: String| writeln!(out, "{name:<28}{value}");
        row(
            "seed, first stream",
            format!("{}, {}", self.seed, self.first),
        )?;
        let rate = self.streams as f64 / self.seconds.max(0.001);
        let streams = format!(
            "{} in {:.0} s, {rate:.0} a second",
            self.streams, self.seconds
        );
        row("streams", streams)?;
        for (kind, count) in &self.kinds {
            row(&format!("  {kind}"), count.to_string())?;
        }
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        row(
            "sent, received",
            format!("{}, {}", mib(self.sent_bytes), mib(self.received_bytes)),
        )?;
        row("refused connections", self.refused.to_string())?;
        row("damaged snapshots", self.reloads.to_string())?;
        row("starts with damaged files", self.starts.to_string())?;
        let server = format!("{}, threads: {}", self.policy, self.threads);
        row("server", server)?;
        let memory = format!(
            "{} of {} MiB, maxmemory {} MiB",
            self.resident_mib, self.resident_limit_mib, self.memory_mib
        );
        row("resident memory", memory)?;
        row("processor time", format!("{:.1} s", self.processor_seconds))?;
        let ping = format!(
            "median {:.2} ms, 99.9 % {:.1} ms, worst {:.1} ms of {}",
            self.ping_median_ms, self.ping_999_ms, self.ping_worst_ms, self.pings
        );
        row("PING of another client", ping)?;
        row("busy with scripts", format!("{} PINGs", self.busy))?;
        row(
            "idle share of the cores",
            format!("{:.0} %", 100.0 * self.idle),
        )?;
        let fault = match &self.fault {
            Some(fault) => format!("FAILED: {fault}"),
            None => "none".to_owned(),
        };
        row("fault", fault)?;
        if self.fault.is_some() {
            row("to replay", self.replay.clone())?;
        }
        Ok(())
    }
}
