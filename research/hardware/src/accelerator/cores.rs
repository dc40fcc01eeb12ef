//! General-purpose cores at a memory node that execute traversals: the rival that pulse calls RPC.
//!
//! A core takes a request, and executes it to its end: it waits for each node, then computes. The
//! cores share the bandwidth of the memory. The model omits caches, which are too small for data
//! that is many times larger, and bytes that are prefetched.

use super::{
    Departure, DepartureReason, HardwareTraversal, Iteration, MemorySpan, RackNode,
    TranslationTable, Verdict,
};
use crate::VirtualTime;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The parameters of cores and the memory that they share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoresParameters {
    /// The name under which results show them.
    pub name: &'static str,
    /// Number of cores.
    pub cores: usize,
    /// Time that a core takes to receive a request.
    pub receive: VirtualTime,
    /// Time that a core takes to send a reply.
    pub send: VirtualTime,
    /// Time between the wire and the software, in each direction.
    pub interface: VirtualTime,
    /// Time from a load to the first bytes of a node.
    pub access: VirtualTime,
    /// BPF instructions that a core executes per second.
    pub instructions_per_second: f64,
    /// Bytes that the memory carries per second.
    pub memory_bytes_per_second: f64,
    /// Time that a core takes per copied byte of a long value.
    pub copied_byte: VirtualTime,
}

/// The maximum size of a fetched node in bytes; longer fetches are values that are copied.
const NODE_BYTES: u32 = 256;

/// Bytes of a cache line, which memory carries as a whole.
const LINE: u64 = 64;

/// Returns the bytes of the lines that a span touches.
fn carried_bytes(span: MemorySpan) -> u32 {
    let first = span.address / LINE;
    let last = span.address.saturating_add(span.bytes.max(1).into()) - 1;
    ((last / LINE - first + 1) * LINE) as u32
}

impl CoresParameters {
    /// A Xeon Gold 6240 behind a ConnectX-5, with eRPC, and memory that is limited to that of the
    /// accelerator (section 6). A clock of 2.6 GHz: Intel's data sheet. *Assumed*: 75 ns per
    /// access, 0.4 µs in the interface, two instructions per cycle. *Calibrated*: 125 ns to receive
    /// and to send. The artifact's logs of the time series leave 4.2 µs for a request besides its
    /// nodes, and the rest of the route already takes 4.6 µs here. eRPC's own paper has 10 million
    /// small requests a second on a core.
    pub const XEON: CoresParameters = CoresParameters {
        name: "Xeon Gold 6240",
        cores: 16,
        receive: VirtualTime::from_nanoseconds(125),
        send: VirtualTime::from_nanoseconds(125),
        interface: VirtualTime::from_nanoseconds(400),
        access: VirtualTime::from_nanoseconds(75),
        instructions_per_second: 2.0 * 2.6e9,
        memory_bytes_per_second: 16e9,
        copied_byte: VirtualTime::from_picoseconds(80),
    };

    /// A BlueField-2: eight Cortex-A72 at 2.5 GHz (NVIDIA's data sheet). *Assumed*: twice the time
    /// of an access and three times that of software, one instruction a cycle.
    pub const ARM: CoresParameters = CoresParameters {
        name: "BlueField-2, Cortex-A72",
        cores: 8,
        receive: VirtualTime::from_nanoseconds(375),
        send: VirtualTime::from_nanoseconds(375),
        interface: VirtualTime::from_nanoseconds(400),
        access: VirtualTime::from_nanoseconds(150),
        instructions_per_second: 2.5e9,
        memory_bytes_per_second: 16e9,
        copied_byte: VirtualTime::from_picoseconds(240),
    };

    fn carried(&self, bytes: u32) -> VirtualTime {
        // The time of the whole access is rounded, not that of a byte, so errors do not add up.
        let seconds = f64::from(bytes) / self.memory_bytes_per_second;
        VirtualTime::from_picoseconds((seconds * 1e12).round() as u64)
    }

    fn logic(&self, instructions: u32) -> VirtualTime {
        let seconds = f64::from(instructions) / self.instructions_per_second;
        VirtualTime::from_picoseconds((seconds * 1e12).round() as u64)
    }
}

/// A memory node with cores.
#[derive(Debug)]
pub struct Cores<T> {
    parameters: CoresParameters,
    table: TranslationTable,
    events: BinaryHeap<Reverse<(VirtualTime, u64, CoresEvent)>>,
    caused: u64,
    arriving: VecDeque<T>,
    waiting: VecDeque<T>,
    leaving: VecDeque<(T, DepartureReason)>,
    cores: Vec<Option<T>>,
    memory_free: VirtualTime,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CoresEvent {
    Arrived,
    /// A core is about to fetch.
    Fetch(usize),
    /// A core has the fetched bytes.
    Fetched(usize),
    /// A core has sent its reply.
    Sent(usize, CoreSendReason),
    Left,
}

/// The reason why a core sends, with an order, because events have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CoreSendReason {
    Returned,
    Limit,
    Refused(super::TranslationRefusal),
}

impl<T: HardwareTraversal> Cores<T> {
    /// Creates idle cores.
    pub fn new(parameters: CoresParameters, table: TranslationTable) -> Cores<T> {
        Cores {
            parameters,
            table,
            events: BinaryHeap::new(),
            caused: 0,
            arriving: VecDeque::new(),
            waiting: VecDeque::new(),
            leaving: VecDeque::new(),
            cores: (0..parameters.cores).map(|_| None).collect(),
            memory_free: VirtualTime::ZERO,
            bytes: 0,
        }
    }

    /// Returns the bytes that the memory has carried.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn cause(&mut self, at: VirtualTime, event: CoresEvent) {
        // The number keeps simultaneous events in the order in which they were caused, so that runs
        // can be repeated.
        self.caused += 1;
        self.events.push(Reverse((at, self.caused, event)));
    }

    fn happen(&mut self, now: VirtualTime, event: CoresEvent, departures: &mut Vec<Departure<T>>) {
        let parameters = self.parameters;
        match event {
            CoresEvent::Arrived => self.waiting.extend(self.arriving.pop_front()),
            CoresEvent::Fetch(core) => self.fetch(now, core),
            CoresEvent::Fetched(core) => self.execute(now, core),
            CoresEvent::Sent(core, outcome) => {
                // The core is free once its software has sent the reply. The interface carries it
                // on alone.
                if let Some(traversal) = self.cores.get_mut(core).and_then(Option::take) {
                    let end = match outcome {
                        CoreSendReason::Returned => DepartureReason::Returned,
                        CoreSendReason::Limit => DepartureReason::Limit,
                        CoreSendReason::Refused(refusal) => DepartureReason::Refused(refusal),
                    };
                    self.leaving.push_back((traversal, end));
                    self.cause(now + parameters.interface, CoresEvent::Left);
                }
            }
            CoresEvent::Left => {
                let at = now;
                let left = self.leaving.pop_front();
                departures.extend(left.map(|(traversal, end)| Departure { at, traversal, end }));
            }
        }
    }

    fn fetch(&mut self, now: VirtualTime, core: usize) {
        let Some(span) = self.cores.get(core).and_then(Option::as_ref).map(T::fetch) else {
            return;
        };
        if let Err(refusal) = self.table.check(span, false) {
            // A refused fetch costs no memory time. The core only sends.
            self.send(now, core, CoreSendReason::Refused(refusal));
            return;
        }
        let parameters = self.parameters;
        // The cores share one memory, so a fetch waits until the bytes of earlier ones are carried.
        let begins = now.max(self.memory_free);
        let bytes = carried_bytes(span);
        let carried = parameters.carried(bytes);
        self.memory_free = begins + carried;
        self.bytes += u64::from(bytes);
        // A long value is copied while it arrives, so the slower of both counts.
        let copied = span.bytes.saturating_sub(NODE_BYTES);
        let copied = parameters.copied_byte.as_picoseconds() * u64::from(copied);
        let copied = VirtualTime::from_picoseconds(copied);
        let done = begins + parameters.access + carried.max(copied);
        self.cause(done, CoresEvent::Fetched(core));
    }

    fn execute(&mut self, now: VirtualTime, core: usize) {
        let table = &self.table;
        let Some(Some(traversal)) = self.cores.get_mut(core) else {
            return;
        };
        traversal.load();
        let Iteration {
            instructions,
            stores,
            verdict,
        } = traversal.execute();
        // Stores are checked before any is made: a refused one leaves the node as it was.
        let refusal = stores
            .iter()
            .find_map(|&store| table.check(store, true).err());
        let then = now + self.parameters.logic(instructions);
        if let Some(refusal) = refusal {
            self.send(then, core, CoreSendReason::Refused(refusal));
            return;
        }
        if !stores.is_empty() {
            traversal.store();
            let stored = stores.iter().map(|&store| carried_bytes(store)).sum();
            self.bytes += u64::from(stored);
            // The core does not wait for its stores, but they take bandwidth from others.
            self.memory_free = self.memory_free.max(now) + self.parameters.carried(stored);
        }
        match verdict {
            Verdict::Next => self.cause(then, CoresEvent::Fetch(core)),
            Verdict::Return => self.send(then, core, CoreSendReason::Returned),
            Verdict::Limit => self.send(then, core, CoreSendReason::Limit),
        }
    }

    fn send(&mut self, now: VirtualTime, core: usize, outcome: CoreSendReason) {
        debug_assert!(self.cores.get(core).is_some_and(Option::is_some));
        self.cause(now + self.parameters.send, CoresEvent::Sent(core, outcome));
    }
}

impl<T: HardwareTraversal> RackNode for Cores<T> {
    type Work = T;

    fn submit(&mut self, arrival: VirtualTime, work: T) {
        self.arriving.push_back(work);
        self.cause(arrival + self.parameters.interface, CoresEvent::Arrived);
    }

    fn next_event(&self) -> Option<VirtualTime> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    fn step(&mut self, departures: &mut Vec<Departure<T>>) {
        let Some(Reverse((now, _, event))) = self.events.pop() else {
            return;
        };
        self.happen(now, event, departures);
        // Any event may have freed a core, so waiting requests are looked at after each.
        while !self.waiting.is_empty()
            && let Some(core) = self.cores.iter().position(Option::is_none)
        {
            self.cores[core] = self.waiting.pop_front();
            self.cause(now + self.parameters.receive, CoresEvent::Fetch(core));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Loop;
    use super::super::{TranslationPermission, TranslationRange, TranslationRefusal};
    use super::*;

    fn table() -> TranslationTable {
        let permission = TranslationPermission::ReadWrite;
        let (start, end) = (0, 1 << 30);
        TranslationTable::new(vec![TranslationRange {
            start,
            end,
            permission,
        }])
        .unwrap()
    }

    fn run(cores: &mut Cores<Loop>) -> Vec<Departure<Loop>> {
        let mut departures = Vec::new();
        while cores.next_event().is_some() {
            cores.step(&mut departures);
        }
        departures
    }

    #[test]
    fn a_request_alone_takes_the_sum_of_its_parts() {
        let mut cores = Cores::new(CoresParameters::XEON, table());
        cores.submit(VirtualTime::ZERO, Loop::new(0, 10));
        let departures = run(&mut cores);
        // 75 ns, 256 bytes at 16 GB/s and 8 instructions at 5.2 per nanosecond.
        let each = 75.0 + 16.0 + 8.0 / 5.2;
        let expected = 2.0 * (400.0 + 125.0) + 10.0 * each;
        let got = departures[0].at.as_nanoseconds();
        assert!((got - expected).abs() < 0.1, "{got} {expected}");
        assert_eq!(departures[0].end, DepartureReason::Returned);
    }

    #[test]
    fn cores_together_do_not_exceed_the_memory_nor_the_cores() {
        let mut cores = Cores::new(CoresParameters::XEON, table());
        const REQUESTS: u64 = 2000;
        for _ in 0..REQUESTS {
            cores.submit(VirtualTime::ZERO, Loop::new(0, 100));
        }
        let departures = run(&mut cores);
        let seconds = departures.last().unwrap().at.as_seconds();
        let rate = cores.bytes() as f64 / seconds;
        let by_cores = 16.0 * 256.0 / (75.0 + 16.0 + 1.54) * 1e9;
        assert!(rate < 16e9 && rate < by_cores);
        assert!(rate > 0.9 * 16e9, "{rate}");
    }

    #[test]
    fn memory_carries_whole_lines() {
        let carried = |address, bytes| carried_bytes(MemorySpan { address, bytes });
        assert_eq!(
            [carried(0, 24), carried(60, 8), carried(64, 64)],
            [64, 128, 64]
        );
        assert_eq!(carried(8192, 8192), 8192);
        assert_eq!(carried(0, 0), 64);
    }

    /// The processors of the paper's comparison may use the memory that the accelerator can.
    #[test]
    fn processors_have_the_memory_of_the_accelerator() {
        let parameters = super::super::pulse::PulseParameters::PAPER;
        for processor in [CoresParameters::XEON, CoresParameters::ARM] {
            let rate = processor.memory_bytes_per_second;
            assert_eq!(rate, parameters.memory_bytes_per_second());
        }
    }

    #[test]
    fn bytes_of_another_node_are_refused() {
        let mut cores = Cores::new(CoresParameters::ARM, table());
        cores.submit(VirtualTime::ZERO, Loop::new(1 << 30, 10));
        let departures = run(&mut cores);
        assert_eq!(
            departures[0].end,
            DepartureReason::Refused(TranslationRefusal::Miss)
        );
        assert_eq!(departures[0].traversal.left, 10);
    }
}
