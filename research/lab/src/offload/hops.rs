//! Scans of an ordered table on two memory nodes. Their traversals go from node to node through the
//! switch. In the variant that is compared, a node returns them to the caller, which sends them to
//! the next node (`pulse-acc` in the paper). Caller, switch and nodes are machines; each is a
//! network namespace.

use super::structures::{key, value};
use super::{OffloadError, claim, median};
use crate::figures::PaperClaim;
use crate::harness::{Completion, Interrupt, in_turns};
use crate::report::{NumberOrigin, ReportRow};
use nearfield_offload::net::udp::{Datagrams, OffloadClient, place, serve_node, serve_switch};
use nearfield_offload::net::{
    CallerSettings, NodeSettings, OffloadNode, Switch, SwitchRangeTable, TenantKeys,
};
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, RackMemory, Tenant};
use nearfield_offload::structures::{BPlusTree, NodeArena, scanned};
use nearfield_offload::traversal::{QueryRunner, TraversalStatus};
use nearfield_offload::wire::{AuthenticationKey, ProcessAddress};
use nearfield_testkit::machines::Machines;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct HopsPlan {
    /// Number of keys of the table.
    pub keys: u64,
    /// Delays of each datagram at its sender, which simulate a longer link.
    pub delays: Vec<Duration>,
    /// Number of turns of each contestant.
    pub rounds: usize,
    /// Length of a turn.
    pub turn: Duration,
}

/// Latency of scans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopsLatency {
    /// The network between the machines.
    pub network: String,
    /// Delay of each datagram before it is sent, in microseconds.
    pub delay_us: f64,
    /// Number of keys of the table.
    pub keys: u64,
    /// Mean number of a scan's hops from one node to the other.
    pub crossings: f64,
    /// Microseconds of a scan through the switch: the median.
    pub through_switch_us: f64,
    /// Microseconds of a scan if nodes return traversals to the caller: the median.
    pub returning_us: f64,
    /// The factor by which the latency through the switch is lower: the median of the rounds.
    pub gain: f64,
}

/// Returns the claim, for hops without a delay between machines.
pub fn hops_claim(rows: &[ReportRow<HopsLatency>]) -> PaperClaim {
    let raw = rows
        .iter()
        .map(|row| &row.detail)
        .find(|hops| hops.delay_us == 0.0);
    let between_machines = raw.filter(|hops| hops.network == NAMESPACES);
    claim(
        "ours.switch-latency",
        "Scans of an ordered table on two memory nodes have a latency through the switch that is \
         lower than through the caller by this factor, between network namespaces; the goal is 1.4",
        between_machines.map(|hops| hops.gain),
    )
}

const NAMESPACES: &str = "network namespaces";
const KEY: AuthenticationKey = AuthenticationKey([24; 32]);
const TENANT: Tenant = Tenant(1);
const NODES: usize = 2;
/// Index of the switch's machine; nodes follow.
const SWITCH: usize = 0;
/// Index of the caller's machine.
const CALLER: usize = 1 + NODES;
/// The port of each machine.
const PORT: u16 = 7000;
/// Bytes of a table's nodes for each key in the worst case, with some reserve.
const BYTES_PER_KEY: u64 = 72;
/// Limit of iterations, more than a scan makes.
const ITERATIONS: u64 = 1 << 16;
/// The most keys of a scan, as in YCSB's mix E.
const SCANNED: usize = 100;

/// A socket that delays datagrams before they are sent.
struct DelayedSocket {
    socket: UdpSocket,
    delay: Duration,
}

impl Datagrams for DelayedSocket {
    fn send_datagram(&self, to: ProcessAddress, datagram: &[u8]) -> io::Result<()> {
        let start = Instant::now();
        // A sleep would take longer than the delay.
        while start.elapsed() < self.delay {
            std::hint::spin_loop();
        }
        self.socket.send_datagram(to, datagram)
    }

    fn receive_datagram(
        &self,
        into: &mut [u8],
        wait: Option<Duration>,
    ) -> io::Result<Option<(usize, ProcessAddress)>> {
        self.socket.receive_datagram(into, wait)
    }
}

/// Returns the first address of a node.
fn start(node: usize) -> u64 {
    (node as u64 + 1) << 32
}

/// Measures a row for each delay. `show_step` receives the present step.
///
/// # Errors
/// See [`OffloadError`]; `Unavailable` without a network.
pub fn measure_hops(
    plan: &HopsPlan,
    interrupt: &Interrupt,
    show_step: &mut (dyn FnMut(&str) + Send),
) -> Result<Vec<ReportRow<HopsLatency>>, OffloadError> {
    let machines = Machines::new(CALLER as u8 + 1);
    let network = match &machines {
        Ok(_) => NAMESPACES.to_owned(),
        Err(reason) => format!("the loopback interface, because there are {reason}"),
    };
    let machines = machines.ok();
    show_step(&format!(
        "filling an ordered table of {} keys on two nodes",
        plan.keys
    ));
    let bytes = (plan.keys * BYTES_PER_KEY + (1 << 20)).next_multiple_of(4096);
    let words: Vec<Vec<AtomicU64>> = (0..NODES)
        .map(|_| (0..bytes / 8).map(|_| AtomicU64::new(0)).collect())
        .collect();
    let nodes = words.iter().enumerate().map(|(node, words)| {
        LocalMemory::new(
            words,
            NodeRanges::new(vec![NodeRange::whole(start(node), bytes, TENANT)])?,
        )
    });
    let rack = RackMemory::new(nodes.collect::<Result<_, _>>()?, TENANT);
    let parts = (0..NODES).map(|node| start(node)..start(node) + bytes);
    let mut arena = NodeArena::new(rack.clone(), parts.collect());
    let mut tree = BPlusTree::new(&mut arena).map_err(unavailable)?;
    for number in 0..plan.keys {
        let (key, value) = (key(number), value(key(number)));
        tree.insert(&mut arena, key, value).map_err(unavailable)?;
    }
    let mut rows = Vec::new();
    for &delay in &plan.delays {
        show_step(&format!("scanning the table, {delay:?} per hop"));
        let site = HopsSite {
            rack: &rack,
            machines: machines.as_ref(),
            delay,
        };
        let scans = |clients: &mut [OffloadClient<DelayedSocket>; 2]| {
            let times = compare(plan, &tree, clients, interrupt)?;
            Ok(HopsLatency {
                network: network.clone(),
                delay_us: delay.as_secs_f64() * 1e6,
                keys: plan.keys,
                ..times
            })
        };
        let (peer, detail) = ("ordered table on two nodes", site.run(scans)?);
        rows.push(ReportRow::new(peer, NumberOrigin::Measured, detail));
    }
    Ok(rows)
}

fn unavailable(error: impl std::fmt::Display) -> OffloadError {
    OffloadError::Unavailable(error.to_string())
}

/// The site of the processes: memory nodes, machines and delay.
struct HopsSite<'s, 'w> {
    rack: &'s RackMemory<'w>,
    machines: Option<&'s Machines>,
    delay: Duration,
}

impl HopsSite<'_, '_> {
    /// Creates the socket of a machine, and moves the calling thread to that machine.
    fn socket(&self, machine: usize) -> io::Result<DelayedSocket> {
        let at = match self.machines {
            Some(machines) => {
                machines.enter(machine);
                (machines.address(machine), PORT)
            }
            None => (IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        };
        let delay = self.delay;
        UdpSocket::bind(at).map(|socket| DelayedSocket { socket, delay })
    }

    /// Runs switch, nodes and a caller, each in a thread on its own machine. The caller has two
    /// clients: one through the switch, and one that traversals return to.
    fn run<R: Send>(
        &self,
        body: impl FnOnce(&mut [OffloadClient<DelayedSocket>; 2]) -> Result<R, OffloadError> + Send,
    ) -> Result<R, OffloadError> {
        let stop = AtomicBool::new(false);
        let (node_sender, node_addresses) = mpsc::channel();
        // No thread starts its work before the switch knows all addresses.
        let all_known = Barrier::new(CALLER + 1);
        std::thread::scope(|scope| {
            let (stop, all_known) = (&stop, &all_known);
            let of_node = |node: usize| {
                let node_sender = node_sender.clone();
                scope.spawn(move || {
                    let socket = self.socket(1 + node);
                    let at = socket.as_ref().map(|socket| place(&socket.socket));
                    // The switch outlives this thread.
                    let _ = node_sender.send((node, at.ok().and_then(Result::ok)));
                    drop(node_sender);
                    all_known.wait();
                    let Some(memory) = self.rack.nodes().get(node) else {
                        return Ok(());
                    };
                    let mut keys = TenantKeys::new();
                    keys.insert(TENANT, KEY);
                    let mut programs = OffloadNode::new(memory, keys, NodeSettings::default());
                    serve_node(&mut programs, &socket?, None, stop)
                })
            };
            let mut serving: Vec<_> = (0..NODES).map(of_node).collect();
            let (switch_sender, switch_address) = mpsc::channel();
            serving.push(scope.spawn(move || {
                let socket = self.socket(SWITCH);
                let at = socket.as_ref().map(|socket| place(&socket.socket));
                let _ = switch_sender.send(at.ok().and_then(Result::ok));
                let mut map = SwitchRangeTable::default();
                for (node, at) in node_addresses.iter().take(NODES) {
                    let bytes = self
                        .rack
                        .nodes()
                        .get(node)
                        .map_or(0, |node| node.words().len() * 8);
                    if let Some(at) = at {
                        // Ranges of different nodes do not overlap.
                        let _ = map.give(start(node), bytes as u64, at);
                    }
                }
                all_known.wait();
                serve_switch(&mut Switch::new(map, None), &socket?, stop, |_| ())
            }));
            let caller = scope.spawn(move || {
                let switch = switch_address.recv().ok().flatten();
                all_known.wait();
                let switch = switch.ok_or_else(|| unavailable("the switch has no socket"))?;
                let socket = self.socket(CALLER).map_err(unavailable)?;
                let at = place(&socket.socket).map_err(unavailable)?;
                let settings = CallerSettings::new(at, switch, TENANT, KEY);
                let second = socket.socket.local_addr().map_err(unavailable)?.ip();
                let second = UdpSocket::bind((second, 0)).map_err(unavailable)?;
                let returning = CallerSettings {
                    place: place(&second).map_err(unavailable)?,
                    returns_to_caller: true,
                    ..settings
                };
                let second = DelayedSocket {
                    socket: second,
                    delay: self.delay,
                };
                let mut clients = [
                    OffloadClient::with_socket(socket, settings),
                    OffloadClient::with_socket(second, returning),
                ];
                body(&mut clients)
            });
            let measured = caller.join();
            stop.store(true, Ordering::Relaxed);
            for thread in serving {
                match thread.join() {
                    Ok(served) => served.map_err(unavailable)?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Measures the times of both clients; the result lacks network, delay and keys.
fn compare(
    plan: &HopsPlan,
    tree: &BPlusTree,
    clients: &mut [OffloadClient<DelayedSocket>; 2],
    interrupt: &Interrupt,
) -> Result<HopsLatency, OffloadError> {
    let [through_switch, returning] = clients;
    let mut contestants = [(through_switch, Vec::new()), (returning, Vec::new())];
    let completion = in_turns(plan.rounds, &mut contestants, interrupt, |round, turn| {
        let (client, times) = turn;
        // Both clients of a round scan the same keys.
        let mut random = SmallRng::seed_from_u64(round as u64);
        let (began, mut latencies) = (Instant::now(), Vec::new());
        while began.elapsed() < plan.turn || latencies.len() < 2 {
            let first = key(random.random_range(0..plan.keys));
            let count = random.random_range(1..=SCANNED);
            let query = tree.scan(first, count);
            let start = Instant::now();
            let outcome = client.run(&query, ITERATIONS).map_err(unavailable)?;
            latencies.push(start.elapsed().as_secs_f64() * 1e6);
            let is_first = |entry: nearfield_offload::structures::StructureEntry| {
                (entry.key, entry.value) == (first, value(first))
            };
            let is_right = scanned(&outcome).next().is_some_and(is_first);
            if outcome.status != TraversalStatus::Done || !is_right {
                let (contestant, structure) = ("a traversal over the network", "ordered table");
                return Err(OffloadError::Wrong {
                    contestant,
                    structure,
                });
            }
        }
        times.push(median(latencies.into_iter()));
        Ok(())
    })?;
    if completion == Completion::Interrupted {
        return Err(OffloadError::Interrupted);
    }
    let [(_, through_switch), (returning_client, returning)] = contestants;
    // Only this client sees each hop: the switch forwards the traversals of the other.
    let counters = returning_client.counters();
    let ratios = returning
        .iter()
        .zip(&through_switch)
        .map(|(over, under)| over / under);
    Ok(HopsLatency {
        network: String::new(),
        delay_us: 0.0,
        keys: 0,
        crossings: counters.sent_on as f64 / counters.asked.max(1) as f64,
        gain: median(ratios),
        through_switch_us: median(through_switch.into_iter()),
        returning_us: median(returning.into_iter()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans on both routes cross nodes and have right results. The test uses network namespaces if
    /// they are permitted, else the loopback interface.
    #[test]
    fn both_kinds_cross_and_have_right_results() {
        let plan = HopsPlan {
            keys: 2_000,
            delays: vec![Duration::ZERO, Duration::from_micros(100)],
            rounds: 1,
            turn: Duration::from_millis(20),
        };
        let rows = measure_hops(&plan, &Interrupt::default(), &mut |_| ());
        let rows = rows.expect("both are measured");
        let [raw, delayed] = &rows[..] else {
            panic!("{rows:?}");
        };
        let (raw, delayed) = (&raw.detail, &delayed.detail);
        assert!(raw.crossings > 1.0 && raw.gain > 0.0, "{raw:?}");
        // A hop takes at least its delay: four hops for a crossing by the caller.
        assert!(
            delayed.returning_us > 400.0 && delayed.through_switch_us > 400.0,
            "{delayed:?}"
        );
        let is_between_machines = raw.network == NAMESPACES;
        assert_eq!(
            hops_claim(&rows).ours,
            is_between_machines.then_some(raw.gain)
        );
    }
}
