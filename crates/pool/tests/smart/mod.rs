//! What the suites of SMART share: trees for the testkit, and ways to the nodes that are wrong.

use nearfield_fabric::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, NodeId, Verb};
use nearfield_fabric_testkit::{RemoteIndex, System};
use nearfield_pool::smart::{ComputeNode, LeafLayout, Options, Smart};
use nearfield_pool::{PoolError, PoolIndex};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);

/// What is wrong with the way to the nodes, so that the tree has to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Checksums of leaves are right whatever the leaves hold.
    NoChecksums,
    /// Leaves say for good what slot led to them at first.
    NoReverse,
    /// Slots are written whatever they were.
    NoSwaps,
    /// Locks are taken whoever holds them.
    NoLocks,
    /// Slots that are read again are as they were.
    StaleSlots,
    /// Writes of leaves go nowhere now and then.
    Forgets,
}

pub struct Faulty {
    pub endpoint: SimEndpoint,
    pub fault: Fault,
    pub leaf: LeafLayout,
    words: RefCell<HashMap<GlobalAddress, [u8; 8]>>,
    writes: std::cell::Cell<u32>,
}

impl Faulty {
    pub fn new(endpoint: SimEndpoint, fault: Fault, options: &Options) -> Faulty {
        Faulty {
            endpoint,
            fault,
            leaf: LeafLayout::new(options.key_bytes, options.value_bytes),
            words: RefCell::default(),
            writes: std::cell::Cell::new(0),
        }
    }

    /// Has what is read from now on be what stays.
    pub fn forget_words(&self) {
        self.words.borrow_mut().clear();
    }

    fn is_slot(verb: &Verb<'_>) -> bool {
        matches!(verb, Verb::Swap { swap, .. } if swap.compare_mask == u64::MAX)
    }

    /// Puts something wrong into what was read.
    fn falsify(&self, verb: &mut Verb<'_>) {
        let Verb::Read { from, into } = verb else {
            return;
        };
        let is_leaf = into.len() == self.leaf.bytes();
        let mut words = self.words.borrow_mut();
        let mut keep_first = |into: &mut [u8]| {
            let word = into[..8].try_into().expect("a word");
            let first = words.entry(*from).or_insert(word);
            into[..8].copy_from_slice(first);
        };
        match self.fault {
            Fault::NoChecksums if is_leaf => {
                let version = into[self.leaf.lock_offset()] & !3;
                let seed = u64::from(version) << 8 | u64::from(into[8]);
                let sum = xxh3_64_with_seed(&into[17..self.leaf.lock_offset()], seed);
                into[9..17].copy_from_slice(&sum.to_le_bytes());
            }
            Fault::NoReverse if is_leaf => keep_first(into),
            // The root's slot is 0 at first.
            Fault::StaleSlots if into.len() == 8 && into[..] != [0; 8] => keep_first(into),
            _ => {}
        }
    }
}

impl Endpoint for Faulty {
    fn atomic_bytes(&self) -> u64 {
        self.endpoint.atomic_bytes()
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    async fn post(&self, verbs: &mut [Verb<'_>]) -> Result<(), FabricError> {
        if self.fault == Fault::NoSwaps
            && let [verb] = &mut verbs[..]
            && Faulty::is_slot(verb)
            && let Verb::Swap { at, swap, found } = verb
        {
            *found = swap.expected;
            return self.endpoint.write(*at, &swap.desired.to_le_bytes()).await;
        }
        if self.fault == Fault::NoLocks
            && let [Verb::Swap { swap, found, .. }] = verbs
            && swap.compare_mask != u64::MAX
        {
            *found = swap.expected;
            return Ok(());
        }
        if self.fault == Fault::Forgets
            && let [Verb::Write { .. }, ..] = verbs
        {
            let count = self.writes.replace(self.writes.get() + 1);
            if count % 8 == 7 {
                return Ok(());
            }
        }
        self.endpoint.post(verbs).await?;
        for verb in verbs {
            self.falsify(verb);
        }
        Ok(())
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.endpoint.write_unsignalled(to, bytes)
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.endpoint.allocate(node, bytes).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.endpoint.free(address, bytes).await
    }

    fn now(&self) -> Duration {
        self.endpoint.now()
    }

    async fn sleep(&self, time: Duration) {
        self.endpoint.sleep(time).await;
    }
}

/// Keys from numbers.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// They part at the last two bytes, ten ways at each: nodes grow.
    Wide,
    /// Each byte is one of two: nodes are put above nodes, at all depths.
    Deep,
    /// As `Deep`, with more bytes between than a prefix has.
    Long,
}

impl Keys {
    pub fn bytes(self) -> usize {
        match self {
            Keys::Wide | Keys::Deep => 8,
            Keys::Long => 300,
        }
    }

    pub fn key(self, number: u64) -> Vec<u8> {
        let mut key = vec![1; self.bytes()];
        let last = key.len() - 1;
        match self {
            Keys::Wide => {
                key[last] = (number % 10) as u8;
                key[last - 1] = (number / 10) as u8;
            }
            Keys::Deep | Keys::Long => {
                let apart = key.len() / 8;
                // The least bit decides first, so that neighbours part early.
                for bit in 0..8 {
                    key[bit * apart] += (number >> bit & 1) as u8;
                }
            }
        }
        key
    }
}

pub struct Trees {
    pub options: Options,
    pub keys: Keys,
    pub fault: Fault,
    /// Whether all clients are on one compute node; otherwise each is one by itself.
    pub is_shared: bool,
    shared: RefCell<Option<Arc<ComputeNode>>>,
}

impl Trees {
    pub fn new(keys: Keys) -> Trees {
        Trees {
            options: Options {
                key_bytes: keys.bytes(),
                value_bytes: 8,
                cache_bytes: 1 << 20,
                chunk_bytes: 1 << 14,
                ..Options::default()
            },
            keys,
            fault: Fault::None,
            is_shared: false,
            shared: RefCell::default(),
        }
    }
}

pub struct Client {
    pub tree: Smart<Faulty>,
    keys: Keys,
    value_bytes: usize,
}

pub fn fabric(error: PoolError) -> FabricError {
    match error {
        PoolError::Fabric(error) => error,
        other => panic!("{other}"),
    }
}

impl Client {
    /// The number over and over.
    fn value(&self, number: u64) -> Vec<u8> {
        let bytes = number.to_le_bytes();
        bytes.into_iter().cycle().take(self.value_bytes).collect()
    }

    fn number(&self, value: Option<Vec<u8>>) -> Option<u64> {
        let value = value?;
        let number = u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
        // What is of two values is none.
        Some(if value == self.value(number) {
            number
        } else {
            u64::MAX
        })
    }
}

impl RemoteIndex for Client {
    async fn get(&self, key: u64) -> Result<Option<u64>, FabricError> {
        let value = self.tree.get(&self.keys.key(key)).await;
        value.map(|value| self.number(value)).map_err(fabric)
    }

    async fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        let (key, bytes) = (self.keys.key(key), self.value(value));
        let before = self.tree.insert(&key, &bytes).await;
        before.map(|before| self.number(before)).map_err(fabric)
    }

    async fn update(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        let (key, bytes) = (self.keys.key(key), self.value(value));
        let before = self.tree.update(&key, &bytes).await;
        before.map(|before| self.number(before)).map_err(fabric)
    }

    async fn remove(&self, key: u64) -> Result<Option<u64>, FabricError> {
        let value = self.tree.remove(&self.keys.key(key)).await;
        value.map(|value| self.number(value)).map_err(fabric)
    }
}

impl System for Trees {
    type Index = Client;

    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let node = ComputeNode::new(self.options.clone()).map(Arc::new);
        let node = node.expect("options");
        self.shared.replace(Some(Arc::clone(&node)));
        async move {
            let made = Smart::create(endpoint, &nodes, ROOT, node).await;
            made.map(drop).map_err(fabric)
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Client, FabricError>> + 'static {
        let nodes = endpoint.nodes();
        let own = || ComputeNode::new(self.options.clone()).map(Arc::new);
        let shared = self.shared.borrow().clone().filter(|_| self.is_shared);
        let node = shared.unwrap_or_else(|| own().expect("options"));
        let endpoint = Faulty::new(endpoint, self.fault, &self.options);
        let (keys, value_bytes) = (self.keys, self.options.value_bytes);
        async move {
            let tree = Smart::open(endpoint, &nodes, ROOT, node).map_err(fabric)?;
            Ok(Client {
                tree,
                keys,
                value_bytes,
            })
        }
    }
}
