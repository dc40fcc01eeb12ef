//! A campaign: attacks on one server for some time.

use crate::attacker::{AttackCounts, ServerDoors, StreamOrders, attack};
use crate::outcome::{CampaignOutcome, ServerFault};
use crate::process::{CoreTimes, processor_time, resident_bytes};
use crate::pulse::{self, PulseReport};
use crate::record::StreamRecord;
use crate::reload::reload;
use crate::samples::AttackSamples;
use crate::starts::DamagedStarts;
use crate::streams::{StreamAuthor, StreamKind};
use crate::target::{self, AttackedServer, TargetLimits, ask};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between two checks of the server.
const TICK: Duration = Duration::from_millis(50);

const POLICIES: &[&str] = &[
    "allkeys-lru",
    "noeviction",
    "volatile-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

const _: () = assert!(
    POLICIES.len() == 8,
    "other settings follow from the seed's eighth"
);

/// Settings of a campaign.
#[derive(Clone, Debug)]
pub struct CampaignOrders {
    /// The program of the server, which takes `serve --config FILE`.
    pub program: PathBuf,
    /// The folder for the files of a failure.
    pub kept: PathBuf,
    /// The seed. It determines everything except the order in which the server receives concurrent
    /// streams.
    pub seed: u64,
    /// The number of the first stream.
    pub first: u64,
    /// Number of streams to send.
    pub streams: u64,
    /// The number of the single start with damaged files to execute, without any streams.
    pub only_start: Option<u64>,
    /// True if servers are also started with damaged files.
    pub has_starts: bool,
    /// The longest time for which streams are sent.
    pub time: Duration,
    /// The server's `maxmemory`.
    pub memory_bytes: u64,
    /// True if resident memory above 1.2 times `maxmemory` plus the slack is a fault.
    pub bounds_memory: bool,
    /// The slack, in bytes: the memory of the program itself.
    pub resident_slack_bytes: u64,
    /// Number of threads that send streams.
    pub attackers: usize,
    /// Longest time for a PING, a start or an end.
    pub patience: Duration,
}

impl Default for CampaignOrders {
    fn default() -> CampaignOrders {
        CampaignOrders {
            program: PathBuf::from("nearfield"),
            kept: PathBuf::from("target/attack"),
            seed: 0,
            first: 0,
            streams: 1_000_000,
            only_start: None,
            has_starts: true,
            time: Duration::MAX,
            memory_bytes: 128 << 20,
            bounds_memory: true,
            resident_slack_bytes: 64 << 20,
            attackers: 2,
            patience: Duration::from_secs(30),
        }
    }
}

impl CampaignOrders {
    fn resident_limit(&self) -> u64 {
        self.memory_bytes + self.memory_bytes / 5 + self.resident_slack_bytes
    }

    fn limits(&self) -> TargetLimits {
        TargetLimits {
            memory_bytes: self.memory_bytes,
            policy: POLICIES[(self.seed % POLICIES.len() as u64) as usize],
            // The remainder of eight is used up by the policies.
            threads: [1, 3][(self.seed / 8 % 2) as usize],
            logs: false,
        }
    }

    /// Returns the folder of this seed.
    fn folder(&self) -> PathBuf {
        self.kept.join(format!("seed-{}", self.seed))
    }
}

/// Progress of a campaign.
#[derive(Clone, Copy, Debug, Default)]
pub struct CampaignProgress {
    /// Number of streams so far.
    pub streams: u64,
    /// The time so far.
    pub elapsed: Duration,
    /// The server's resident memory.
    pub resident_mib: u64,
    /// Longest time of a PING since the last report.
    pub worst_ms: f64,
}

/// Runs a campaign until all streams are sent, its time has passed, something fails or `stop` is
/// set. Calls `show` often.
///
/// # Errors
/// The server does not start, or a file of the test cannot be written.
pub fn run(
    orders: &CampaignOrders,
    stop: &AtomicBool,
    show: &dyn Fn(CampaignProgress),
) -> io::Result<CampaignOutcome> {
    let samples = AttackSamples::make(&orders.program, orders.seed)?;
    let folder = orders.folder();
    fs::create_dir_all(&folder)?;
    let limits = orders.limits();
    let mut target = AttackedServer::start(&orders.program, &limits)?;
    let begin = CampaignBegin {
        time: Instant::now(),
        cores: CoreTimes::read(),
    };
    let campaign = RunningCampaign {
        orders,
        samples: &samples,
        counts: AttackCounts::default(),
        worst_us: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    let mut seen = campaign.send(&mut target, stop, show);
    if seen.fault.is_none() && orders.only_start.is_none() {
        seen.fault = campaign.end(&mut target);
    }
    // Last, because the shutdown may report something, too.
    if seen.fault.is_none() {
        seen.fault = target.report().map(ServerFault::Reported);
    }
    if seen.fault.is_some() {
        for record in &seen.records {
            record.save(&folder)?;
        }
        fs::copy(target.log(), folder.join("server.log"))?;
    }
    let replay = replay(orders, &seen);
    let counts = &campaign.counts;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(CampaignOutcome {
        seed: orders.seed,
        first: orders.first,
        streams: count(&counts.streams),
        kinds: seen.kinds,
        seconds: begin.time.elapsed().as_secs_f64(),
        sent_bytes: count(&counts.sent_bytes),
        received_bytes: count(&counts.received_bytes),
        refused: count(&counts.refused),
        reloads: seen.reloads,
        starts: seen.starts,
        policy: limits.policy,
        threads: limits.threads,
        memory_mib: orders.memory_bytes >> 20,
        resident_mib: seen.resident_bytes >> 20,
        resident_limit_mib: orders.resident_limit() >> 20,
        processor_seconds: seen.processor_time.as_secs_f64(),
        pings: seen.pulse.latencies_us.len() as u64,
        ping_median_ms: seen.pulse.latency_ms(500.0),
        ping_999_ms: seen.pulse.latency_ms(999.0),
        ping_worst_ms: seen.pulse.latency_ms(1000.0),
        busy: seen.pulse.busy,
        reopened: seen.pulse.reopened,
        idle: CoreTimes::read().idle_since(begin.cores),
        fault: seen.fault,
        replay,
    })
}

/// The state at the beginning.
struct CampaignBegin {
    time: Instant,
    cores: CoreTimes,
}

struct RunningCampaign<'c> {
    orders: &'c CampaignOrders,
    samples: &'c AttackSamples,
    counts: AttackCounts,
    /// Longest time of a PING since the last report.
    worst_us: AtomicU64,
    /// True if threads must end.
    over: AtomicBool,
}

/// Observations while streams are sent.
#[derive(Default)]
struct CampaignSight {
    records: Vec<StreamRecord>,
    kinds: BTreeMap<StreamKind, u64>,
    pulse: PulseReport,
    reloads: u64,
    starts: u64,
    resident_bytes: u64,
    processor_time: Duration,
    fault: Option<ServerFault>,
}

impl RunningCampaign<'_> {
    /// Sends the streams while the server is watched.
    fn send(
        &self,
        target: &mut AttackedServer,
        stop: &AtomicBool,
        show: &dyn Fn(CampaignProgress),
    ) -> CampaignSight {
        let orders = self.orders;
        let stream_orders = StreamOrders::new(orders.first, orders.streams);
        let doors = ServerDoors {
            tcp: target.address,
            tls: target.tls,
            socket: target.socket.clone(),
        };
        let address = target.address;
        let data = target.folder.join("data");
        let mut seen = CampaignSight::default();
        thread::scope(|scope| {
            let attackers: Vec<_> = (0..orders.attackers)
                .filter(|_| orders.only_start.is_none())
                .map(|_| {
                    let author = StreamAuthor::new(orders.seed, self.samples);
                    let (doors, stream_orders) = (&doors, &stream_orders);
                    scope.spawn(move || {
                        attack(author, doors, stream_orders, &self.counts, &self.over)
                    })
                })
                .collect();
            let pulse = scope.spawn(|| {
                let open = || target::control(address, orders.patience);
                pulse::feel(&open, orders.patience, &self.over, &self.worst_us)
            });
            let reloads = orders.only_start.is_none().then(|| {
                scope.spawn(|| {
                    let (seed, patience) = (orders.seed, orders.patience);
                    reload(address, &data, self.samples, seed, patience, &self.over)
                })
            });
            let starts = orders.has_starts.then(|| {
                scope.spawn(|| {
                    let starts = DamagedStarts {
                        program: &orders.program,
                        samples: self.samples,
                        seed: orders.seed,
                        first: orders.only_start.unwrap_or(0),
                        single: orders.only_start.is_some(),
                        patience: orders.patience,
                        kept: &orders.folder(),
                    };
                    starts.run(&self.over)
                })
            });
            let is_over = || match (&starts, orders.only_start) {
                (Some(starts), Some(_)) => starts.is_finished(),
                // These go on until the end, unless one of them fails.
                (Some(starts), None) if starts.is_finished() => true,
                _ => attackers.iter().all(|it| it.is_finished()) || pulse.is_finished(),
            };
            self.watch(target, stop, show, &is_over, &mut seen);
            self.over.store(true, Ordering::Relaxed);
            for attacker in attackers {
                // A panic of one of this program's threads is propagated.
                let (records, kinds) = attacker.join().unwrap_or_else(resume);
                seen.records.extend(records);
                for (kind, count) in kinds {
                    *seen.kinds.entry(kind).or_default() += count;
                }
            }
            seen.pulse = pulse.join().unwrap_or_else(resume);
            if let Some(reloads) = reloads {
                seen.reloads = reloads.join().unwrap_or_else(resume);
            }
            let started = starts.map(|starts| starts.join().unwrap_or_else(resume));
            match started {
                Some(Ok(count)) => seen.starts = count,
                Some(Err(fault)) => seen.fault = seen.fault.take().or(Some(fault)),
                None => {}
            }
        });
        if let Some(fault) = seen.pulse.fault.take() {
            seen.fault = seen.fault.take().or(Some(fault));
        }
        seen
    }

    /// Watches the server until `is_over`, or it is stopped, or the server fails.
    fn watch(
        &self,
        target: &mut AttackedServer,
        stop: &AtomicBool,
        show: &dyn Fn(CampaignProgress),
        is_over: &dyn Fn() -> bool,
        seen: &mut CampaignSight,
    ) {
        let begin = Instant::now();
        let limit = self.orders.resident_limit();
        while !is_over() && !stop.load(Ordering::Relaxed) && begin.elapsed() < self.orders.time {
            thread::sleep(TICK);
            let resident = resident_bytes(target.id()).unwrap_or(0);
            seen.resident_bytes = seen.resident_bytes.max(resident);
            if let Some(time) = processor_time(target.id()) {
                seen.processor_time = time;
            }
            // The status comes first, because a server that has ended has no memory.
            seen.fault = match target.ended() {
                Some(status) => {
                    let report = target.report().map(|report| format!(": {report}"));
                    let report = report.unwrap_or_default();
                    Some(ServerFault::Ended(format!("{status}{report}")))
                }
                None if self.orders.bounds_memory && resident > limit => {
                    Some(ServerFault::Memory {
                        mib: resident >> 20,
                        limit_mib: limit >> 20,
                    })
                }
                None => target.report().map(ServerFault::Reported),
            };
            if let Some(ServerFault::Memory { .. }) = seen.fault {
                self.keep_memory(target);
            }
            if seen.fault.is_some() {
                return;
            }
            show(CampaignProgress {
                streams: self.counts.streams.load(Ordering::Relaxed),
                elapsed: begin.elapsed(),
                resident_mib: resident >> 20,
                worst_ms: self.worst_us.swap(0, Ordering::Relaxed) as f64 / 1000.0,
            });
        }
    }

    /// Keeps the server's account of its memory, as far as it still gives it.
    fn keep_memory(&self, target: &AttackedServer) {
        let Ok(mut control) = target.control() else {
            return;
        };
        let parts = [
            ["INFO", "everything"],
            ["MEMORY", "STATS"],
            ["CLIENT", "LIST"],
        ];
        let parts = parts
            .iter()
            .filter_map(|words| ask(&mut control, words).ok());
        let text: Vec<String> = parts.map(|part| format!("{part}\n")).collect();
        // The fault itself is reported in any case.
        let _ = std::fs::write(self.orders.folder().join("memory.txt"), text.concat());
    }

    /// Makes the server save and reload its data, once no script runs.
    fn reload(&self, target: &AttackedServer) -> io::Result<()> {
        let mut control = target.control()?;
        let begin = Instant::now();
        loop {
            let answer = ask(&mut control, &["DEBUG", "RELOAD"]);
            let error = match answer {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if !error.to_string().starts_with("BUSY") || begin.elapsed() > self.orders.patience {
                return Err(error);
            }
            for words in [["SCRIPT", "KILL"], ["FUNCTION", "KILL"]] {
                // Only one of the two can succeed.
                let _ = ask(&mut control, &words);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes the server save and reload its data, and shuts it down.
    fn end(&self, target: &mut AttackedServer) -> Option<ServerFault> {
        if let Err(error) = self.reload(target) {
            // The reply may be missing because the server has ended.
            return Some(match target.ended() {
                Some(status) => ServerFault::Ended(status.to_string()),
                None => ServerFault::Reload(error.to_string()),
            });
        }
        match target.shut_down(self.orders.patience) {
            Ok(status) if status.success() => None,
            Ok(status) => Some(ServerFault::Shutdown(status.to_string())),
            Err(error) => Some(ServerFault::Shutdown(error.to_string())),
        }
    }
}

fn resume<T>(panic: Box<dyn std::any::Any + Send>) -> T {
    std::panic::resume_unwind(panic)
}

/// Returns the command that sends the last streams again.
fn replay(orders: &CampaignOrders, seen: &CampaignSight) -> String {
    let program = orders.program.display();
    let begin = format!(
        "nearfield-attack streams --server {program} --seed {}",
        orders.seed
    );
    if let Some(ServerFault::Start { number, .. }) = seen.fault {
        return format!("{begin} --only-start {number}");
    }
    let numbers = || seen.records.iter().flat_map(StreamRecord::numbers);
    let first = numbers().min().unwrap_or(orders.first);
    let end = numbers().max().map_or(first, |last| last + 1);
    debug_assert!(first <= end);
    format!("{begin} --first {first} --streams {}", end - first)
}
