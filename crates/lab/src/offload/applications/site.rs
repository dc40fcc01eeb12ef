//! A memory node in this process: one thread answers calls, another runs programs. All traffic goes
//! over UDP on the loopback interface.

use super::calls::serve;
use super::native::{NativeCode, TENANT};
use crate::clock::thread_cpu_time;
use nearfield_offload::net::udp::{Datagrams, serve_node};
use nearfield_offload::net::{Keys, Node, NodeSettings};
use nearfield_offload::node::LocalMemory;
use nearfield_offload::wire::{Key, Place};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The tenant's key. Nobody else is on this machine's loopback interface.
pub(super) const KEY: Key = Key([22; 32]);

/// Where a memory node is, and what it has done.
pub(super) struct Site<'s> {
    pub calls: SocketAddrV4,
    pub programs: SocketAddrV4,
    counts: [&'s Counts; 2],
}

/// What a thread of a memory node has done.
#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
}

/// What a memory node has done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Bytes of datagrams, in and out.
    pub bytes: u64,
    /// Processor time of both threads.
    pub cpu: Duration,
}

impl Site<'_> {
    pub(super) fn done(&self) -> Done {
        let sum = |of: fn(&Counts) -> &AtomicU64| -> u64 {
            let counts = self.counts.iter();
            counts
                .map(|counts| of(counts).load(Ordering::Relaxed))
                .sum()
        };
        Done {
            bytes: sum(|counts| &counts.bytes),
            cpu: Duration::from_nanos(sum(|counts| &counts.cpu_ns)),
        }
    }
}

/// A socket whose traffic is counted, and the processor time of the thread that uses it.
struct Counted<'c> {
    socket: UdpSocket,
    counts: &'c Counts,
}

impl Datagrams for Counted<'_> {
    fn send_datagram(&self, to: Place, datagram: &[u8]) -> io::Result<()> {
        let bytes = datagram.len() as u64;
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.socket.send_datagram(to, datagram)
    }

    fn receive_datagram(
        &self,
        into: &mut [u8],
        wait: Option<Duration>,
    ) -> io::Result<Option<(usize, Place)>> {
        // The thread may sleep now, so that this is the moment to say what it has done.
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

/// Runs a memory node while `body` runs.
pub(super) fn beside<R>(
    memory: &LocalMemory<'_>,
    mut native: NativeCode<'_>,
    body: impl FnOnce(&Site<'_>) -> R,
) -> io::Result<R> {
    let (calls, calls_at) = listen()?;
    let (programs, programs_at) = listen()?;
    let stop = AtomicBool::new(false);
    let (of_calls, of_programs) = (Counts::default(), Counts::default());
    std::thread::scope(|scope| {
        let stop = &stop;
        let counted = |socket, counts| Counted { socket, counts };
        let calls = counted(calls, &of_calls);
        let programs = counted(programs, &of_programs);
        let calling = scope.spawn(move || serve(&mut native, &calls, stop));
        let running = scope.spawn(move || {
            let mut keys = Keys::new();
            keys.insert(TENANT, KEY);
            let mut node = Node::new(memory, keys, NodeSettings::default());
            serve_node(&mut node, &programs, None, stop)
        });
        let site = Site {
            calls: calls_at,
            programs: programs_at,
            counts: [&of_calls, &of_programs],
        };
        // A panic of the body must not leave the threads running.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&site)));
        stop.store(true, Ordering::Relaxed);
        for thread in [calling, running] {
            match thread.join() {
                Ok(ended) => ended?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result.map_err(|panic| std::panic::resume_unwind(panic))
    })
}
