//! Memory nodes in this process: each has one thread that serves calls, and another that runs
//! programs. Several nodes are behind a switch. All traffic goes over UDP on the loopback
//! interface.

use super::calls::{Server, serve};
use super::native::{NativeCode, TENANT};
use crate::clock::thread_cpu_time;
use nearfield_offload::net::udp::{Datagrams, serve_node, serve_switch};
use nearfield_offload::net::{Keys, Map, Node, NodeSettings, Switch};
use nearfield_offload::node::{LocalMemory, Rack};
use nearfield_offload::wire::{Key, Place};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The tenant's key. It is no secret: only this machine's processes use its loopback interface.
pub(super) const KEY: Key = Key([22; 32]);

/// The addresses of memory nodes, and counters of their work.
pub(super) struct Site<'s> {
    pub servers: Vec<Server>,
    /// The destination of programs: the switch, or the only memory node.
    pub programs: SocketAddrV4,
    nodes: &'s [Sockets],
}

/// The sockets of a memory node.
struct Sockets {
    calls: Counted,
    programs: Counted,
    programs_at: SocketAddrV4,
    server: Server,
}

/// Counters of a thread of a memory node.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
}

/// The work of memory nodes so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Number of datagrams that they have sent.
    pub sent: u64,
    /// Bytes of datagrams, in and out.
    pub bytes: u64,
    /// Processor time of all their threads.
    pub cpu: Duration,
}

impl Site<'_> {
    pub(super) fn done(&self) -> Done {
        let sum = |of: fn(&Counts) -> &AtomicU64| -> u64 {
            let sockets = self.nodes.iter();
            sockets
                .flat_map(|node| [&node.calls, &node.programs])
                .map(|socket| of(&socket.counts).load(Ordering::Relaxed))
                .sum()
        };
        Done {
            sent: sum(|counts| &counts.sent),
            bytes: sum(|counts| &counts.bytes),
            cpu: Duration::from_nanos(sum(|counts| &counts.cpu_ns)),
        }
    }
}

/// A socket that counts its traffic, and the processor time of its thread.
struct Counted {
    socket: UdpSocket,
    counts: Counts,
}

impl Datagrams for Counted {
    fn send_datagram(&self, to: Place, datagram: &[u8]) -> io::Result<()> {
        let bytes = datagram.len() as u64;
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.socket.send_datagram(to, datagram)
    }

    fn receive_datagram(
        &self,
        into: &mut [u8],
        wait: Option<Duration>,
    ) -> io::Result<Option<(usize, Place)>> {
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
}

fn listen() -> io::Result<(UdpSocket, SocketAddrV4)> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    match socket.local_addr()? {
        SocketAddr::V4(address) => Ok((socket, address)),
        SocketAddr::V6(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

impl Sockets {
    fn new(memory: &LocalMemory<'_>) -> io::Result<Sockets> {
        let ((calls, at), (programs, programs_at)) = (listen()?, listen()?);
        let counted = |socket| Counted {
            socket,
            counts: Counts::default(),
        };
        // A memory node has one range.
        let range = memory.ranges().iter().next();
        let addresses = range.map_or(0..0, |range| range.start..range.start + range.bytes);
        Ok(Sockets {
            calls: counted(calls),
            programs: counted(programs),
            programs_at,
            server: Server { addresses, at },
        })
    }
}

/// Runs the memory nodes of a rack, each with its native code, while `body` runs.
pub(super) fn beside<R>(
    rack: &Rack<'_>,
    natives: Vec<NativeCode<'_>>,
    body: impl FnOnce(&Site<'_>) -> R,
) -> io::Result<R> {
    let nodes = rack.nodes().iter().map(Sockets::new);
    let nodes: Vec<Sockets> = nodes.collect::<io::Result<_>>()?;
    let (mut map, mut programs) = (Map::default(), None);
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
    let site = Site {
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
                let mut keys = Keys::new();
                keys.insert(TENANT, KEY);
                let mut programs = Node::new(memory, keys, NodeSettings::default());
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
