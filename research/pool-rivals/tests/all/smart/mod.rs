//! The shared part of SMART's suites: trees for the testkit, and faulty endpoints.

use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId};
use nearfield_fabric_testkit::{
    FaultySimEndpoint, INDEX_ROOT, Interference, NumberKeyIndex, RemoteIndexFactory, fabric_error,
};
use nearfield_pool_rivals::smart::{Smart, SmartComputeNode, SmartLeafLayout, SmartOptions};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A fault of the endpoint with which the tree must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmartEndpointFault {
    None,
    /// Checksums of leaves match any content.
    NoChecksums,
    /// Leaves keep their first reverse pointer forever.
    NoReverse,
    /// Slots are written whatever their old word is.
    NoSwaps,
    /// Locks are taken even if they are held.
    NoLocks,
    /// Slots that are read again are unchanged.
    StaleSlots,
    /// Leaves that are copied seem to have no successors.
    NoSuccessors,
    /// Writes of leaves are lost now and then.
    Forgets,
}

pub struct SmartInterference {
    fault: SmartEndpointFault,
    leaf: SmartLeafLayout,
    words: RefCell<HashMap<GlobalAddress, [u8; 8]>>,
    writes: Cell<u32>,
}

impl SmartInterference {
    pub fn new(fault: SmartEndpointFault, options: &SmartOptions) -> SmartInterference {
        SmartInterference {
            fault,
            leaf: options.leaf_layout(),
            words: RefCell::default(),
            writes: Cell::new(0),
        }
    }

    /// Forgets the fixed content of reads.
    pub fn forget_words(&self) {
        self.words.borrow_mut().clear();
    }

    fn is_slot(verb: &FabricVerb<'_>) -> bool {
        matches!(verb, FabricVerb::Swap { swap, .. } if swap.compare_mask == u64::MAX)
    }

    /// Falsifies the bytes read.
    fn falsify(&self, verb: &mut FabricVerb<'_>) {
        let FabricVerb::Read { from, into } = verb else {
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
            SmartEndpointFault::NoChecksums if is_leaf => {
                let version = into[self.leaf.lock_offset()] & !3;
                let seed = u64::from(version) << 8 | u64::from(into[8]);
                let sum = xxh3_64_with_seed(&into[17..self.leaf.lock_offset()], seed);
                into[9..17].copy_from_slice(&sum.to_le_bytes());
            }
            SmartEndpointFault::NoReverse if is_leaf => keep_first(into),
            SmartEndpointFault::NoSuccessors if is_leaf => {
                into[self.leaf.successor_offset()..].fill(0);
            }
            // The root's slot is 0 initially.
            SmartEndpointFault::StaleSlots if into.len() == 8 && into[..] != [0; 8] => {
                keep_first(into)
            }
            _ => {}
        }
    }
}

impl Interference for SmartInterference {
    async fn post(
        &self,
        endpoint: &SimEndpoint,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<(), FabricError> {
        if self.fault == SmartEndpointFault::NoSwaps
            && let [verb] = &mut verbs[..]
            && SmartInterference::is_slot(verb)
            && let FabricVerb::Swap { at, swap, found } = verb
        {
            *found = swap.expected;
            return endpoint.write(*at, &swap.desired.to_le_bytes()).await;
        }
        if self.fault == SmartEndpointFault::NoLocks
            && let [FabricVerb::Swap { swap, found, .. }] = verbs
            && swap.compare_mask != u64::MAX
        {
            *found = swap.expected;
            return Ok(());
        }
        if self.fault == SmartEndpointFault::Forgets
            && let [FabricVerb::Write { .. }, ..] = verbs
        {
            let count = self.writes.replace(self.writes.get() + 1);
            if count % 8 == 7 {
                return Ok(());
            }
        }
        endpoint.post(verbs).await?;
        for verb in verbs {
            self.falsify(verb);
        }
        Ok(())
    }
}

/// The keys that numbers stand for.
#[derive(Clone, Copy, Debug)]
pub enum SmartTestKeys {
    /// Keys that differ in the last two bytes, with ten values of each: nodes grow.
    Wide,
    /// Keys of which each byte is one of two: nodes are put above nodes, at all depths.
    Deep,
    /// Keys like `Deep`, with more bytes between than a prefix has.
    Long,
}

impl SmartTestKeys {
    pub fn bytes(self) -> usize {
        match self {
            SmartTestKeys::Wide | SmartTestKeys::Deep => 8,
            SmartTestKeys::Long => 300,
        }
    }

    pub fn key(self, number: u64) -> Vec<u8> {
        let mut key = vec![1; self.bytes()];
        let last = key.len() - 1;
        match self {
            SmartTestKeys::Wide => {
                key[last] = (number % 10) as u8;
                key[last - 1] = (number / 10) as u8;
            }
            SmartTestKeys::Deep | SmartTestKeys::Long => {
                let apart = key.len() / 8;
                // The least bit decides first, so that neighbours differ early.
                for bit in 0..8 {
                    key[bit * apart] += (number >> bit & 1) as u8;
                }
            }
        }
        key
    }
}

pub struct SmartIndexFactory {
    pub options: SmartOptions,
    pub keys: SmartTestKeys,
    pub fault: SmartEndpointFault,
    /// True if all clients are on one compute node; otherwise each has its own.
    pub is_shared: bool,
    shared: RefCell<Option<Arc<SmartComputeNode>>>,
}

impl SmartIndexFactory {
    pub fn new(keys: SmartTestKeys) -> SmartIndexFactory {
        SmartIndexFactory {
            options: SmartOptions {
                key_bytes: keys.bytes(),
                value_bytes: 8,
                cache_bytes: 1 << 20,
                chunk_bytes: 1 << 14,
                ..SmartOptions::default()
            },
            keys,
            fault: SmartEndpointFault::None,
            is_shared: false,
            shared: RefCell::default(),
        }
    }
}

impl RemoteIndexFactory for SmartIndexFactory {
    type Index = NumberKeyIndex<Smart<FaultySimEndpoint<SmartInterference>>>;

    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let node = SmartComputeNode::new(self.options.clone()).map(Arc::new);
        let node = node.expect("options");
        self.shared.replace(Some(Arc::clone(&node)));
        async move {
            let made = Smart::create(endpoint, &nodes, INDEX_ROOT, node).await;
            made.map(drop).map_err(fabric_error)
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static {
        let nodes = endpoint.nodes();
        let own = || SmartComputeNode::new(self.options.clone()).map(Arc::new);
        let shared = self.shared.borrow().clone().filter(|_| self.is_shared);
        let node = shared.unwrap_or_else(|| own().expect("options"));
        let endpoint =
            FaultySimEndpoint::new(endpoint, SmartInterference::new(self.fault, &self.options));
        let (keys, value_bytes) = (self.keys, self.options.value_bytes);
        async move {
            let tree = Smart::open(endpoint, &nodes, INDEX_ROOT, node).map_err(fabric_error)?;
            let key = move |number| keys.key(number);
            Ok(NumberKeyIndex::new(tree, value_bytes, key, fabric_error))
        }
    }
}
