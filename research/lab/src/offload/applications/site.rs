//! Memory nodes in this process: each has one thread that serves calls, and another that runs
//! programs. Several nodes are behind a switch. All traffic goes over UDP on the loopback
//! interface.

use super::calls::{NodeCallService, serve};
use super::native::{NativeCode, TENANT};
use crate::clock::thread_cpu_time;
use nearfield_offload::net::udp::{DatagramBatch, Datagrams, serve_node, serve_switch};
use nearfield_offload::net::{NodeSettings, OffloadNode, Switch, SwitchRangeTable, TenantKeys};
use nearfield_offload::node::{LocalMemory, RackMemory};
use nearfield_offload::wire::{AuthenticationKey, DATAGRAM_BYTES_MAX, ProcessAddress};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The tenant's key. It is no secret: only this machine's processes use its loopback interface.
pub(super) const KEY: AuthenticationKey = AuthenticationKey([22; 32]);

/// The addresses of memory nodes, and counters of their work.
pub(super) struct ApplicationSite<'s> {
    pub servers: Vec<NodeCallService>,
    /// The destination of programs: the switch, or the only memory node.
    pub programs: SocketAddrV4,
    nodes: &'s [SiteNodeSockets],
}

/// The sockets of a memory node.
struct SiteNodeSockets {
    calls: CountingSocket,
    programs: CountingSocket,
    programs_at: SocketAddrV4,
    server: NodeCallService,
}

/// Counters of a thread of a memory node.
#[derive(Debug, Default)]
struct SiteThreadCounters {
    sent: AtomicU64,
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
}

/// The work of memory nodes so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct SiteNodeWork {
    /// Number of datagrams that they have sent.
    pub sent: u64,
    /// Bytes of datagrams, in and out.
    pub bytes: u64,
    /// Processor time of all their threads.
    pub cpu: Duration,
}

impl ApplicationSite<'_> {
    pub(super) fn done(&self) -> SiteNodeWork {
        let sum = |of: fn(&SiteThreadCounters) -> &AtomicU64| -> u64 {
            let sockets = self.nodes.iter();
            sockets
                .flat_map(|node| [&node.calls, &node.programs])
                .map(|socket| of(&socket.counts).load(Ordering::Relaxed))
                .sum()
        };
        SiteNodeWork {
            sent: sum(|counts| &counts.sent),
            bytes: sum(|counts| &counts.bytes),
            cpu: Duration::from_nanos(sum(|counts| &counts.cpu_ns)),
        }
    }
}

/// A socket that counts its traffic, and the processor time of its thread.
struct CountingSocket {
    socket: UdpSocket,
    counts: SiteThreadCounters,
}

impl Datagrams for CountingSocket {
    fn send_datagram(&self, to: ProcessAddress, datagram: &[u8]) -> io::Result<()> {
        let bytes = datagram.len() as u64;
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.socket.send_datagram(to, datagram)
    }

    fn receive_datagram(
        &self,
        into: &mut [u8],
        wait: Option<Duration>,
    ) -> io::Result<Option<(usize, ProcessAddress)>> {
        // The thread may sleep now, so this is the moment to publish its processor time.
        if wait.is_some() {
            let spent = thread_cpu_time().as_nanos() as u64;
            self.counts.cpu_ns.store(spent, Ordering::Relaxed);
        }
        let received = self.socket.receive_datagram(into, wait)?;
        if let Some((bytes, _)) = received {
            self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        Ok(received)
    }

    fn send_datagrams(&self, datagrams: &[(ProcessAddress, &[u8])]) -> io::Result<()> {
        let bytes: usize = datagrams.iter().map(|(_, datagram)| datagram.len()).sum();
        let sent = datagrams.len() as u64;
        self.counts.sent.fetch_add(sent, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.socket.send_datagrams(datagrams)
    }

    fn receive_datagrams(
        &self,
        batch: &mut DatagramBatch,
        wait: Option<Duration>,
    ) -> io::Result<()> {
        if wait.is_some() {
            let spent = thread_cpu_time().as_nanos() as u64;
            self.counts.cpu_ns.store(spent, Ordering::Relaxed);
        }
        self.socket.receive_datagrams(batch, wait)?;
        let bytes: usize = batch.iter().map(|(datagram, _)| datagram.len()).sum();
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn listen() -> io::Result<(UdpSocket, SocketAddrV4)> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    match socket.local_addr()? {
        SocketAddr::V4(address) => Ok((socket, address)),
        SocketAddr::V6(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

impl SiteNodeSockets {
    fn new(memory: &LocalMemory<'_>) -> io::Result<SiteNodeSockets> {
        let ((calls, at), (programs, programs_at)) = (listen()?, listen()?);
        let counted = |socket| CountingSocket {
            socket,
            counts: SiteThreadCounters::default(),
        };
        // A memory node has one range.
        let range = memory.ranges().iter().next();
        let addresses = range.map_or(0..0, |range| range.start..range.start + range.bytes);
        Ok(SiteNodeSockets {
            calls: counted(calls),
            programs: counted(programs),
            programs_at,
            server: NodeCallService { addresses, at },
        })
    }
}

/// Runs the memory nodes of a rack, each with its native code, while `body` runs.
pub(super) fn with_nodes<R>(
    rack: &RackMemory<'_>,
    natives: Vec<NativeCode<'_>>,
    body: impl FnOnce(&ApplicationSite<'_>) -> R,
) -> io::Result<R> {
    let nodes = rack.nodes().iter().map(SiteNodeSockets::new);
    let nodes: Vec<SiteNodeSockets> = nodes.collect::<io::Result<_>>()?;
    let (mut map, mut programs) = (SwitchRangeTable::default(), None);
    for node in &nodes {
        let Range { start, end } = node.server.addresses;
        // No two memory nodes hold the same address.
        let _ = map.give(start, end - start, node.programs_at.into());
        programs = Some(node.programs_at);
    }
    let switch = (nodes.len() > 1).then(listen).transpose()?;
    if let Some((_, at)) = &switch {
        programs = Some(*at);
    }
    let site = ApplicationSite {
        servers: nodes.iter().map(|node| node.server.clone()).collect(),
        programs: programs.ok_or(io::ErrorKind::AddrNotAvailable)?,
        nodes: &nodes,
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let mut threads = Vec::new();
        for ((node, mut native), memory) in nodes.iter().zip(natives).zip(rack.nodes()) {
            threads.push(scope.spawn(move || serve(&mut native, &node.calls, stop)));
            threads.push(scope.spawn(move || {
                let mut keys = TenantKeys::new();
                keys.insert(TENANT, KEY);
                let settings = NodeSettings {
                    // The loopback interface carries long datagrams, and so do the rivals' calls.
                    datagram_bytes: DATAGRAM_BYTES_MAX,
                    ..NodeSettings::default()
                };
                let mut programs = OffloadNode::new(memory, keys, settings);
                serve_node(&mut programs, &node.programs, None, stop)
            }));
        }
        if let Some((socket, _)) = switch {
            let mut switch = Switch::new(map, None);
            threads.push(scope.spawn(move || serve_switch(&mut switch, &socket, stop, |_| ())));
        }
        // A panic of the body must not leave the threads running.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&site)));
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.join() {
                Ok(ended) => ended?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result.map_err(|panic| std::panic::resume_unwind(panic))
    })
}
