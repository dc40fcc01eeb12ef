//! Tests of coordination: clients of two compute nodes share registers in remote memory, and
//! coordinate on their compute node. Their outcomes are linearizable, also when clients die and
//! operations are dropped.

use nearfield_fabric::recovery::lease::{LeasedLock, Locker};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId};
use nearfield_fabric_testkit::{
    RemoteIndex, RemoteIndexFactory, RemoteRunFailure, RemoteRunPlan, check, run,
};
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::PoolError;
use nearfield_pool::coordination::{
    CombinedWrite, HAND_OVERS, Leader, LocalLocks, ReadDelegation, WriteCombining,
};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// The address of the word with the address of the registers.
const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);
const KEYS: u64 = 4;
/// A register: a word that selects one of two buffers for the value, a lock, and, in two other
/// lines, the buffers. In any state that dead clients leave, the word selects the committed value.
const REGISTER_BYTES: u64 = 192;
const LOCK: u64 = 8;
const LEASE: Duration = Duration::from_millis(2);

/// A fault in the coordination of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CoordinationFault {
    None,
    /// A read that others share begins before they arrived.
    EarlyRead,
    /// Combined writes are acknowledged before the last value is written.
    EarlyAnswer,
    /// A write that was combined with a dropped leader is written once more.
    WritesAgain,
}

/// The state that the clients of a compute node share.
struct CoordinationComputeNode {
    reads: ReadDelegation,
    writes: WriteCombining,
    locks: LocalLocks<LeasedLock>,
}

struct Registers {
    fault: CoordinationFault,
    hand_overs: u32,
    /// True if clients give operations up now and then.
    gives_up: bool,
    /// True if a client pauses after a read: then there is time for others to write and to arrive.
    slow: bool,
    /// Number of compute nodes that the clients are on, by turns.
    count: u32,
    compute_nodes: RefCell<Vec<Arc<CoordinationComputeNode>>>,
}

impl Registers {
    fn new(fault: CoordinationFault) -> Registers {
        Registers {
            fault,
            hand_overs: HAND_OVERS,
            gives_up: false,
            slow: true,
            count: 2,
            compute_nodes: RefCell::default(),
        }
    }
}

struct CoordinationClient {
    endpoint: SimEndpoint,
    registers: GlobalAddress,
    locker: Locker,
    node: Arc<CoordinationComputeNode>,
    fault: CoordinationFault,
    gives_up: bool,
    slow: bool,
    operations: Cell<u32>,
}

fn some(word: u64) -> Option<Vec<u8>> {
    (word != 0).then(|| word.to_le_bytes().to_vec())
}

fn word(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| {
        u64::from_le_bytes(value.try_into().expect("eight bytes"))
    })
}

impl CoordinationClient {
    async fn word(&self, from: GlobalAddress) -> Result<u64, FabricError> {
        let mut word = [0; 8];
        self.endpoint.read(from, &mut word).await?;
        Ok(u64::from_le_bytes(word))
    }

    fn register(&self, key: u64) -> GlobalAddress {
        self.registers.plus(key * REGISTER_BYTES)
    }

    /// Reads the commit word, and the committed value.
    async fn committed(&self, register: GlobalAddress) -> Result<(u64, u64), FabricError> {
        loop {
            let commit = self.word(register).await?;
            let value = self.word(register.plus(64 + 64 * (commit & 1))).await?;
            if self.word(register).await? == commit {
                return Ok((commit, value));
            }
        }
    }

    /// Writes the value that `close` makes of the old one, and returns the old one.
    async fn change(
        &self,
        register: GlobalAddress,
        mut close: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let lock = register.plus(LOCK);
        let (mut local, mut received) = self.node.locks.lock(lock).await;
        loop {
            let safe = received.take().filter(|held| held.is_safe(&self.endpoint));
            let held = match safe {
                Some(held) => held,
                None => {
                    local.taken_again();
                    self.locker.lock(&self.endpoint, lock).await?
                }
            };
            let (commit, before) = self.committed(register).await?;
            if !held.is_safe(&self.endpoint) {
                continue;
            }
            let before = some(before);
            let value = word(close(before.as_deref()).as_deref()).to_le_bytes();
            let commit = commit + 1;
            let committed = commit.to_le_bytes();
            let wanted = local.is_wanted();
            let unlock = FabricVerb::Write {
                to: lock,
                bytes: &[0; 8],
            };
            let writes = [
                FabricVerb::Write {
                    to: register.plus(64 + 64 * (commit & 1)),
                    bytes: &value,
                },
                FabricVerb::Write {
                    to: register,
                    bytes: &committed,
                },
            ];
            let unlocks = (!wanted).then_some(unlock);
            let mut verbs: Vec<FabricVerb<'_>> = writes.into_iter().chain(unlocks).collect();
            self.endpoint.post(&mut verbs).await?;
            if wanted
                && let Err((_local, held)) = local.hand_over(held)
                && held.is_safe(&self.endpoint)
            {
                self.endpoint.write_unsignalled(lock, &[0; 8])?;
            }
            return Ok(before);
        }
    }

    async fn get_shared(&self, key: u64) -> Result<Option<Vec<u8>>, PoolError> {
        let register = self.register(key);
        let early = match self.fault {
            CoordinationFault::EarlyRead => Some(self.committed(register).await?),
            _ => None,
        };
        let read = async || {
            let value = match early {
                Some((_, value)) => value,
                None => self.committed(register).await?.1,
            };
            if self.slow {
                self.endpoint.sleep(self.some_time()).await;
            }
            Ok(some(value))
        };
        self.node.reads.share(&key.to_be_bytes(), read).await
    }

    async fn write_combined(
        &self,
        key: u64,
        write: CombinedWrite,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let register = self.register(key);
        let name = key.to_be_bytes();
        loop {
            let write = write.clone();
            let late = Cell::new(None);
            let lead = async |leader: &mut Leader<'_>| {
                if self.fault == CoordinationFault::EarlyAnswer {
                    let (_, found) = self.committed(register).await?;
                    let found = some(found);
                    late.set(Some(leader.close(found.as_deref())));
                    return Ok(found);
                }
                self.change(register, |found| leader.close(found)).await
            };
            let before = self.node.writes.combine(&name, write, lead).await;
            if let Some(value) = late.take() {
                return self.change(register, |_| value.clone()).await;
            }
            if self.fault == CoordinationFault::WritesAgain && before == Err(PoolError::Interrupted)
            {
                continue;
            }
            return before;
        }
    }

    /// Returns a time from almost nothing to a few round trips, another for each operation.
    fn some_time(&self) -> Duration {
        let number = self.endpoint.client() * 31 + self.operations.get() * 17;
        Duration::from_micros(u64::from(number % 40))
    }

    /// Returns the result, unless the operation is dropped.
    async fn answer(
        &self,
        operation: impl Future<Output = Result<Option<Vec<u8>>, PoolError>>,
    ) -> Result<Option<u64>, FabricError> {
        self.operations.set(self.operations.get() + 1);
        let gives_up = self.gives_up && self.operations.get().is_multiple_of(3);
        let patience = self.some_time();
        let unknown = Err(FabricError::NodeLost { node: NodeId(0) });
        let mut operation = pin!(operation);
        let mut alarm = pin!(self.endpoint.sleep(patience));
        let answer = poll_fn(|context| {
            if gives_up && alarm.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            operation.as_mut().poll(context).map(Some)
        });
        match answer.await {
            Some(Ok(value)) => Ok(value.map(|value| word(Some(&value)))),
            Some(Err(PoolError::Fabric(error))) => Err(error),
            None | Some(Err(PoolError::Interrupted)) => unknown,
            Some(Err(other)) => panic!("{other}"),
        }
    }
}

impl RemoteIndex for CoordinationClient {
    async fn get(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.get_shared(key)).await
    }

    async fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        let write = CombinedWrite::Insert(value.to_le_bytes().to_vec());
        self.answer(self.write_combined(key, write)).await
    }

    async fn update(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        let write = CombinedWrite::Update(value.to_le_bytes().to_vec());
        self.answer(self.write_combined(key, write)).await
    }

    async fn remove(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.change(self.register(key), |_| None)).await
    }
}

impl RemoteIndexFactory for Registers {
    type Index = CoordinationClient;

    fn create(
        &self,
        endpoint: SimEndpoint,
        _nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let compute_node = |_| {
            Arc::new(CoordinationComputeNode {
                reads: ReadDelegation::default(),
                writes: WriteCombining::default(),
                locks: LocalLocks::new(self.hand_overs),
            })
        };
        let compute_nodes = (0..self.count).map(compute_node).collect();
        for former in self.compute_nodes.replace(compute_nodes) {
            let left = (former.reads.len(), former.writes.len(), former.locks.len());
            assert_eq!(left, (0, 0, 0), "keys without a working thread are known");
        }
        async move {
            let bytes = KEYS * REGISTER_BYTES;
            let registers = endpoint.allocate(NodeId(0), bytes).await?;
            endpoint.write(registers, &vec![0; bytes as usize]).await?;
            let word = registers.to_bits().to_le_bytes();
            endpoint.write(ROOT, &word).await
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<CoordinationClient, FabricError>> + 'static {
        let number = endpoint.client();
        let node = Arc::clone(&self.compute_nodes.borrow()[(number % self.count) as usize]);
        let (fault, gives_up, slow) = (self.fault, self.gives_up, self.slow);
        async move {
            let mut word = [0; 8];
            endpoint.read(ROOT, &mut word).await?;
            Ok(CoordinationClient {
                endpoint,
                registers: GlobalAddress::from_bits(u64::from_le_bytes(word)),
                locker: Locker::new(number as u16, LEASE),
                node,
                fault,
                gives_up,
                slow,
                operations: Cell::new(0),
            })
        }
    }
}

/// Returns a plan of many clients on few keys.
fn plan(dying: f64) -> RemoteRunPlan {
    RemoteRunPlan {
        clients: 8,
        keys: 2,
        dying,
        updating: 0.3,
        ..RemoteRunPlan::default()
    }
}

#[test]
fn what_is_shared_is_linearizable() {
    let system = Registers::new(CoordinationFault::None);
    check(100, &plan(0.0), &system);
    let spread = RemoteRunPlan {
        keys: KEYS,
        ..plan(0.0)
    };
    check(40, &spread, &system);
    for hand_overs in [0, 1] {
        let system = Registers {
            hand_overs,
            ..Registers::new(CoordinationFault::None)
        };
        check(40, &plan(0.0), &system);
    }
}

#[test]
fn what_is_shared_is_linearizable_whoever_dies() {
    check(100, &plan(0.5), &Registers::new(CoordinationFault::None));
}

#[test]
fn what_is_shared_is_linearizable_whatever_is_given_up() {
    let system = Registers {
        gives_up: true,
        ..Registers::new(CoordinationFault::None)
    };
    check(70, &plan(0.0), &system);
    check(35, &plan(0.3), &system);
}

#[test]
fn faults_are_found() {
    for fault in [
        CoordinationFault::EarlyRead,
        CoordinationFault::EarlyAnswer,
        CoordinationFault::WritesAgain,
    ] {
        let system = Registers {
            gives_up: fault == CoordinationFault::WritesAgain,
            ..Registers::new(fault)
        };
        let failure =
            (0..1000).find_map(|seed| Some((seed, run(seed, &plan(0.0), &system).err()?)));
        eprintln!("{fault:?}: seed {:?}", failure.as_ref().map(|it| it.0));
        let unordered = matches!(failure, Some((_, RemoteRunFailure::NotLinearizable { .. })));
        assert!(unordered, "{fault:?}: {failure:?}");
    }
}

/// Runs sixteen clients that do `operations` each on one key; returns the verbs and the virtual
/// time of each operation.
fn cost(count: u32, writes: bool) -> (f64, Duration) {
    const CLIENTS: u32 = 16;
    const OPERATIONS: u32 = 100;
    let system = Registers {
        count,
        slow: false,
        ..Registers::new(CoordinationFault::None)
    };
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
    let nodes = vec![simulation.add_node(1 << 20)];
    let created = system.create(simulation.endpoint(0), nodes);
    simulation.spawn(0, async { created.await.expect("made") });
    assert_eq!(simulation.run(), 0);
    let begin = simulation.now();
    for client in 1..=CLIENTS {
        let opened = system.open(simulation.endpoint(client));
        simulation.spawn(client, async move {
            let client = opened.await.expect("opened");
            for number in 1..=OPERATIONS {
                if writes {
                    let value = u64::from(number);
                    client.insert(0, value).await.expect("written");
                } else {
                    client.get(0).await.expect("read");
                }
            }
        });
    }
    assert_eq!(simulation.run(), 0);
    let verbs: u64 = (1..=CLIENTS)
        .map(|client| simulation.verbs_of(client))
        .sum();
    let verbs = verbs as f64 / f64::from(CLIENTS * OPERATIONS);
    (verbs, (simulation.now() - begin) / OPERATIONS)
}

#[test]
fn clients_that_share_post_a_fraction_of_the_verbs() {
    for writes in [false, true] {
        let (apart, apart_takes) = cost(16, writes);
        let (shared, shared_takes) = cost(1, writes);
        eprintln!(
            "writes: {writes}: {apart:.2} verbs and {apart_takes:?} an operation apart, \
             {shared:.2} and {shared_takes:?} together"
        );
        // Of sixteen clients, about one in a round does it.
        assert!(shared < apart / 8.0, "{shared} of {apart}");
    }
    // A client that waits for the read in flight waits for one more.
    let (_, apart) = cost(16, false);
    let (_, shared) = cost(1, false);
    assert!(shared < apart * 21 / 10, "{shared:?} instead of {apart:?}");
    let (_, apart) = cost(16, true);
    let (_, shared) = cost(1, true);
    assert!(shared < apart / 4, "{shared:?} instead of {apart:?}");
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Registers in local memory are written by threads: each value is found once.
#[test]
fn threads_share_what_tasks_share() {
    const THREADS: u64 = 4;
    const WRITES: u64 = 3000;
    let (writes, locks) = (
        &WriteCombining::default(),
        &LocalLocks::<u8>::new(HAND_OVERS),
    );
    let registers: &[Mutex<Option<Vec<u8>>>] = &[const { Mutex::new(None) }; 3];
    let met = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let writes = (0..WRITES).map(move |number| {
                let value = thread * WRITES + number + 1;
                let key = (value % 3) as usize;
                let lead = async |leader: &mut Leader<'_>| {
                    let lock = GlobalAddress::new(NodeId(0), 64 * key as u64);
                    let (local, received) = locks.lock(lock).await;
                    assert!(received.is_none_or(|received| received == key as u8));
                    let mut register = registers[key].try_lock().expect("no other has the lock");
                    let found = register.take();
                    *register = leader.close(found.as_deref());
                    drop(register);
                    drop(local.hand_over(key as u8));
                    Ok(found)
                };
                let write = CombinedWrite::Insert(value.to_le_bytes().to_vec());
                let answer = block_on(writes.combine(&[key as u8], write, lead));
                word(answer.expect("written").as_deref())
            });
            writes.collect::<Vec<u64>>()
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let met = threads.into_iter().map(|thread| thread.join());
        met.flat_map(|met| met.expect("a thread"))
            .collect::<Vec<_>>()
    });
    let last = registers.iter().map(|register| {
        let held = register.try_lock().expect("no waiter is left");
        word(held.as_deref())
    });
    let mut all: Vec<u64> = met.into_iter().chain(last).collect();
    all.sort_unstable();
    // Each register was empty once.
    let expected: Vec<u64> = [0, 0].into_iter().chain(0..=THREADS * WRITES).collect();
    assert_eq!(all, expected);
    assert!(writes.is_empty() && locks.is_empty());
}
