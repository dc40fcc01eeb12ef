//! Small correct indexes, and planted faults that the runs must find.

use nearfield_fabric::recovery::lease::Locker;
use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId};
use nearfield_fabric_testkit::{
    DamagePlan, DamagedEndpoint, RemoteIndex, RemoteIndexFactory, RemoteRunFailure, RemoteRunPlan,
    check, first_damage_failure, operate, run,
};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};
use std::time::Duration;

/// The address of the word that holds the slots' address.
const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);
const KEYS: u64 = 4;
const SLOT_BYTES: u64 = 192;

async fn create(endpoint: SimEndpoint) -> Result<(), FabricError> {
    let bytes = KEYS * SLOT_BYTES;
    let slots = endpoint.allocate(NodeId(0), bytes).await?;
    endpoint.write(slots, &vec![0; bytes as usize]).await?;
    endpoint.write(ROOT, &slots.to_bits().to_le_bytes()).await
}

async fn root(endpoint: &SimEndpoint) -> Result<GlobalAddress, FabricError> {
    let mut word = [0; 8];
    endpoint.read(ROOT, &mut word).await?;
    Ok(GlobalAddress::from_bits(u64::from_le_bytes(word)))
}

fn some(value: u64) -> Option<u64> {
    (value != 0).then_some(value)
}

/// Returns the value after an update of an old one.
fn updated(before: u64, value: u64) -> u64 {
    if before == 0 { 0 } else { value }
}

/// An index whose clients differ only by their endpoint. The closure creates one from the endpoint
/// and from the address of the slots.
struct EndpointIndexFactory<F>(F);

impl<I, F> RemoteIndexFactory for EndpointIndexFactory<F>
where
    I: RemoteIndex,
    F: Fn(SimEndpoint, GlobalAddress) -> I + Copy + 'static,
{
    type Index = I;

    fn create(
        &self,
        endpoint: SimEndpoint,
        _nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        create(endpoint)
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<I, FabricError>> + 'static {
        let open = self.0;
        async move {
            let slots = root(&endpoint).await?;
            Ok(open(endpoint, slots))
        }
    }
}

fn words(swaps: bool) -> impl RemoteIndexFactory {
    EndpointIndexFactory(move |endpoint, slots| WordsIndex {
        endpoint,
        slots,
        swaps,
        puts_absent: false,
    })
}

/// Creates an index in which an update inserts keys that are absent.
fn putting() -> impl RemoteIndexFactory {
    EndpointIndexFactory(move |endpoint, slots| WordsIndex {
        endpoint,
        slots,
        swaps: true,
        puts_absent: true,
    })
}

fn lines(fault: LinesIndexFault) -> impl RemoteIndexFactory {
    EndpointIndexFactory(move |endpoint, slots| LinesIndex {
        endpoint,
        slots,
        fault,
    })
}

/// Creates an index with leases. With `asks`, a holder checks that it still holds the lock.
fn leased(lease: Duration, asks: bool) -> impl RemoteIndexFactory {
    EndpointIndexFactory(move |endpoint: SimEndpoint, slots| LeasedIndex {
        locker: Locker::new(endpoint.client() as u16, lease),
        endpoint,
        slots,
        asks,
    })
}

/// An index with a word for each key, which is swapped. A dead client leaves no unfinished change.
struct WordsIndex {
    endpoint: SimEndpoint,
    slots: GlobalAddress,
    swaps: bool,
    puts_absent: bool,
}

impl WordsIndex {
    async fn set(&self, key: u64, after: impl Fn(u64) -> u64) -> Result<Option<u64>, FabricError> {
        let slot = self.slots.plus(key * SLOT_BYTES);
        let mut word = [0; 8];
        self.endpoint.read(slot, &mut word).await?;
        let mut expected = u64::from_le_bytes(word);
        if !self.swaps {
            self.endpoint
                .write(slot, &after(expected).to_le_bytes())
                .await?;
            return Ok(some(expected));
        }
        loop {
            let found = self
                .endpoint
                .compare_swap(slot, expected, after(expected))
                .await?;
            if found == expected {
                return Ok(some(found));
            }
            expected = found;
        }
    }
}

impl RemoteIndex for WordsIndex {
    async fn get(&self, key: u64) -> Result<Option<u64>, FabricError> {
        let mut word = [0; 8];
        let slot = self.slots.plus(key * SLOT_BYTES);
        self.endpoint.read(slot, &mut word).await?;
        Ok(some(u64::from_le_bytes(word)))
    }

    async fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        self.set(key, |_| value).await
    }

    async fn update(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        let after = |before| match self.puts_absent {
            true => value,
            false => updated(before, value),
        };
        self.set(key, after).await
    }

    async fn remove(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.set(key, |_| 0).await
    }
}

/// The fault of a [`LinesIndex`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinesIndexFault {
    None,
    /// Readers combine halves of different versions.
    NoVersions,
    /// Writers do not exclude each other.
    NoLock,
    /// The lock is released before the guarded data are written.
    EarlyUnlock,
}

/// An index with two lines for each key, each with a version and half of the value, and a lock in a
/// third.
struct LinesIndex {
    endpoint: SimEndpoint,
    slots: GlobalAddress,
    fault: LinesIndexFault,
}

/// Returns the versions of both lines, and the value.
fn decode(bytes: &[u8; 128]) -> ([u64; 2], u64) {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    ([word(0), word(64)], word(8) << 32 | word(72))
}

fn encode(version: u64, value: u64) -> [u8; 128] {
    let mut bytes = [0; 128];
    let words = [
        (0, version),
        (64, version),
        (8, value >> 32),
        (72, value & 0xffff_ffff),
    ];
    for (at, word) in words {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl LinesIndex {
    async fn set(&self, key: u64, after: impl Fn(u64) -> u64) -> Result<Option<u64>, FabricError> {
        let slot = self.slots.plus(key * SLOT_BYTES);
        let lock = slot.plus(128);
        while self.fault != LinesIndexFault::NoLock
            && self.endpoint.compare_swap(lock, 0, 1).await? != 0
        {
            self.endpoint.sleep(Duration::from_micros(2)).await;
        }
        let mut bytes = [0; 128];
        self.endpoint.read(slot, &mut bytes).await?;
        let ([version, _], before) = decode(&bytes);
        let bytes = encode(version + 1, after(before));
        let data = FabricVerb::Write {
            to: slot,
            bytes: &bytes,
        };
        let unlock = FabricVerb::Write {
            to: lock,
            bytes: &[0; 8],
        };
        let mut verbs = match self.fault {
            LinesIndexFault::EarlyUnlock => [unlock, data],
            _ => [data, unlock],
        };
        self.endpoint.post(&mut verbs).await?;
        Ok(some(before))
    }
}

impl RemoteIndex for LinesIndex {
    async fn get(&self, key: u64) -> Result<Option<u64>, FabricError> {
        loop {
            let mut bytes = [0; 128];
            let slot = self.slots.plus(key * SLOT_BYTES);
            self.endpoint.read(slot, &mut bytes).await?;
            let ([one, other], value) = decode(&bytes);
            if one == other || self.fault == LinesIndexFault::NoVersions {
                return Ok(some(value));
            }
        }
    }

    async fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        self.set(key, |_| value).await
    }

    async fn update(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        self.set(key, |before| updated(before, value)).await
    }

    async fn remove(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.set(key, |_| 0).await
    }
}

/// An index with a word for each key that selects one of two buffers for the value, and a lock that
/// is taken over from dead clients. In any state that they leave, the word selects the committed
/// value.
struct LeasedIndex {
    endpoint: SimEndpoint,
    slots: GlobalAddress,
    locker: Locker,
    asks: bool,
}

/// Offset of the lock in a slot. The commit word is before it, and the two buffers are in the two
/// other lines. The lowest bit of the commit word selects the buffer.
const LOCK: u64 = 8;

impl LeasedIndex {
    fn slot(&self, key: u64) -> GlobalAddress {
        self.slots.plus(key * SLOT_BYTES)
    }

    async fn word(&self, at: GlobalAddress) -> Result<u64, FabricError> {
        let mut word = [0; 8];
        self.endpoint.read(at, &mut word).await?;
        Ok(u64::from_le_bytes(word))
    }

    /// Returns the commit word, and the value that it selects.
    async fn committed(&self, slot: GlobalAddress) -> Result<(u64, u64), FabricError> {
        loop {
            let commit = self.word(slot).await?;
            let value = self.word(slot.plus(64 + 64 * (commit & 1))).await?;
            if self.word(slot).await? == commit {
                return Ok((commit, value));
            }
        }
    }

    async fn set(&self, key: u64, after: impl Fn(u64) -> u64) -> Result<Option<u64>, FabricError> {
        let (slot, endpoint) = (self.slot(key), &self.endpoint);
        loop {
            let held = self.locker.lock(endpoint, slot.plus(LOCK)).await?;
            let (commit, before) = self.committed(slot).await?;
            let commit = commit + 1;
            let buffer = slot.plus(64 + 64 * (commit & 1));
            if self.asks && !held.is_safe(endpoint) {
                continue;
            }
            let mut verbs = [
                FabricVerb::Write {
                    to: buffer,
                    bytes: &after(before).to_le_bytes(),
                },
                FabricVerb::Write {
                    to: slot,
                    bytes: &commit.to_le_bytes(),
                },
                FabricVerb::Write {
                    to: slot.plus(LOCK),
                    bytes: &[0; 8],
                },
            ];
            endpoint.post(&mut verbs).await?;
            return Ok(some(before));
        }
    }
}

impl RemoteIndex for LeasedIndex {
    async fn get(&self, key: u64) -> Result<Option<u64>, FabricError> {
        Ok(some(self.committed(self.slot(key)).await?.1))
    }

    async fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        self.set(key, |_| value).await
    }

    async fn update(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        self.set(key, |before| updated(before, value)).await
    }

    async fn remove(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.set(key, |_| 0).await
    }
}

fn updating() -> RemoteRunPlan {
    RemoteRunPlan {
        updating: 0.5,
        ..RemoteRunPlan::default()
    }
}

fn mortal() -> RemoteRunPlan {
    RemoteRunPlan {
        dying: 0.5,
        ..RemoteRunPlan::default()
    }
}

/// Returns the first failure among some seeds.
fn found(plan: &RemoteRunPlan, system: &impl RemoteIndexFactory) -> Option<RemoteRunFailure> {
    (0..500).find_map(|seed| run(seed, plan, system).err())
}

#[test]
fn words_that_are_swapped_are_right_whoever_dies() {
    check(500, &RemoteRunPlan::default(), &words(true));
    check(500, &mortal(), &words(true));
    check(500, &updating(), &words(true));
}

#[test]
fn lines_with_versions_and_a_lock_are_right() {
    check(
        500,
        &RemoteRunPlan::default(),
        &lines(LinesIndexFault::None),
    );
    check(500, &updating(), &lines(LinesIndexFault::None));
}

#[test]
fn locks_with_leases_are_right_whoever_dies() {
    let leased = leased(Duration::from_millis(2), true);
    check(500, &RemoteRunPlan::default(), &leased);
    check(500, &mortal(), &leased);
}

#[test]
fn equal_seeds_do_the_same() {
    for seed in 0..20 {
        let one = run(seed, &mortal(), &words(true));
        let other = run(seed, &mortal(), &words(true));
        assert_eq!(one.expect("it is right"), other.expect("it is right"));
    }
}

#[test]
fn clients_die_in_the_middle_of_writes() {
    let reports = (0..200).map(|seed| run(seed, &mortal(), &words(true)));
    let unanswered: usize = reports
        .map(|report| report.expect("it is right").unanswered)
        .sum();
    assert!(unanswered > 100, "{unanswered}");
}

#[test]
fn faults_are_found() {
    let unordered = |failure: Option<RemoteRunFailure>| {
        matches!(failure, Some(RemoteRunFailure::NotLinearizable { .. }))
    };
    assert!(unordered(found(&RemoteRunPlan::default(), &words(false))));
    assert!(unordered(found(&updating(), &putting())));
    for fault in [
        LinesIndexFault::NoVersions,
        LinesIndexFault::NoLock,
        LinesIndexFault::EarlyUnlock,
    ] {
        assert!(unordered(found(&RemoteRunPlan::default(), &lines(fault))));
    }
    // Others take the lock over while its holder works.
    let hasty = leased(Duration::from_micros(5), false);
    assert!(unordered(found(&RemoteRunPlan::default(), &hasty)));
}

#[test]
fn those_who_wait_for_the_dead_are_found() {
    let failure = found(&mortal(), &lines(LinesIndexFault::None));
    assert!(
        matches!(failure, Some(RemoteRunFailure::Hangs(_))),
        "{failure:?}"
    );
}

#[test]
#[should_panic(expected = "NEARFIELD_SEED=")]
fn failures_say_how_to_replay_them() {
    check(
        500,
        &RemoteRunPlan::default(),
        &lines(LinesIndexFault::NoVersions),
    );
}

/// The trust of a client in the memory that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderTrust {
    Nothing,
    /// A node has no more entries than it has room for.
    Lengths,
    /// Nodes form no circle.
    Chains,
    /// Words are addresses.
    Addresses,
}

/// A chain of nodes: `| count | next node | key, value | key, value | ... |`.
struct NodeChainIndex {
    endpoint: DamagedEndpoint,
    trust: ReaderTrust,
}

const CHAINED: usize = 3;
const ENTRIES: usize = 8;
const CHAIN_WORDS: usize = 2 + 2 * ENTRIES;

impl NodeChainIndex {
    async fn create(endpoint: DamagedEndpoint, trust: ReaderTrust) -> NodeChainIndex {
        let mut next = GlobalAddress::NULL;
        for number in (0..CHAINED).rev() {
            let first = number * ENTRIES + 1;
            let entries = (first..first + ENTRIES).flat_map(|key| [key as u64, 7]);
            let words = [ENTRIES as u64, next.to_bits()].into_iter().chain(entries);
            let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            let node = endpoint.allocate(NodeId(0), bytes.len() as u64).await;
            next = node.expect("memory");
            endpoint.write(next, &bytes).await.expect("memory");
        }
        let word = next.to_bits().to_le_bytes();
        endpoint.write(ROOT, &word).await.expect("memory");
        NodeChainIndex { endpoint, trust }
    }

    fn address(&self, word: u64) -> GlobalAddress {
        match self.trust {
            ReaderTrust::Addresses => GlobalAddress::new(NodeId(0), word),
            _ => GlobalAddress::from_bits(word),
        }
    }

    /// Finds the value of a key, and its address.
    async fn find(&self, key: &[u8]) -> Result<Option<(GlobalAddress, Vec<u8>)>, PoolError> {
        let mut word = [0; 8];
        self.endpoint.read(ROOT, &mut word).await?;
        let mut node = self.address(u64::from_le_bytes(word));
        let mut passed = 0;
        while !node.is_null() {
            let mut bytes = [0; 8 * CHAIN_WORDS];
            self.endpoint.read(node, &mut bytes).await?;
            let (words, _) = bytes.as_chunks::<8>();
            let count = u64::from_le_bytes(words[0]) as usize;
            let is_damaged = count > ENTRIES && self.trust != ReaderTrust::Lengths
                || passed > CHAINED && self.trust != ReaderTrust::Chains;
            if is_damaged {
                return Err(PoolError::Damaged { at: node });
            }
            let entries = &words[2..2 + 2 * count];
            let found = entries.chunks(2).position(|entry| entry[0] == *key);
            if let Some(found) = found {
                let at = node.plus(8 * (3 + 2 * found as u64));
                return Ok(Some((at, entries[2 * found + 1].to_vec())));
            }
            node = self.address(u64::from_le_bytes(words[1]));
            passed += 1;
        }
        Ok(None)
    }
}

impl PoolIndexClient for NodeChainIndex {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        Ok(self.find(key).await?.map(|(_, value)| value))
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        let Some((at, before)) = self.find(key).await? else {
            return Ok(None);
        };
        self.endpoint.write(at, value).await?;
        Ok(Some(before))
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.insert(key, value).await
    }

    async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.insert(key, &[0; 8]).await
    }

    async fn scan(&self, from: &[u8], _: usize) -> Result<Vec<Entry>, PoolError> {
        let value = self.get(from).await?;
        Ok(value
            .map(|value| (from.to_vec(), value))
            .into_iter()
            .collect())
    }
}

/// Returns the first failure on damaged memory.
fn first_failure_on_damage(trust: ReaderTrust) -> Option<String> {
    let plan = DamagePlan {
        // Few, because further damage ends a walk round a circle in time.
        posts_max: 500,
        ..DamagePlan::default()
    };
    first_damage_failure(1000, &plan, |memory| {
        let index = memory.finish(NodeChainIndex::create(memory.endpoint(), trust));
        let mut random = memory.random();
        memory.begin();
        for _ in 0..100 {
            let keys = (CHAINED * ENTRIES) as u64;
            let key = |number: u64| (number + 1).to_le_bytes().to_vec();
            // Errors are what a client should meet.
            let _ = memory.finish(operate(&index, &mut random, keys, key, 8));
        }
    })
}

#[test]
fn those_who_trust_damaged_memory_are_found() {
    for (trust, message) in [
        (
            ReaderTrust::Lengths,
            "panicked at crates/fabric-testkit/tests/canaries.rs",
        ),
        (ReaderTrust::Chains, "an operation hangs"),
        (ReaderTrust::Addresses, "offsets have 48 bits"),
    ] {
        let failure =
            first_failure_on_damage(trust).unwrap_or_else(|| panic!("{trust:?} is not found"));
        assert!(failure.contains(message), "{trust:?}: {failure}");
        // Sometimes one damage leads to the place that another has changed.
        let damages = failure.lines().filter(|line| line.contains("became"));
        assert!((1..=2).contains(&damages.count()), "{trust:?}: {failure}");
    }
    assert_eq!(first_failure_on_damage(ReaderTrust::Nothing), None);
}
