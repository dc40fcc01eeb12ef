//! A reader and a writer in one thread, whose posts and iterations take turns by a seed.

use super::rack::{ROOT, rack, served};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use nearfield_offload::node::RackMemory;
use nearfield_offload::traversal::{
    InMemory, QueryRunner, TraversalOutcome, TraversalQuery, TraversalStatus,
};
use nearfield_pool::chime::{ChimeComputeNode, ChimeLockKind, ChimeOptions, ChimeTree};
use nearfield_pool::filtered::{PoolScanRange, ScanAggregates, ValueFilter};
use nearfield_pool::layout::PoolIndexShape;
use nearfield_pool::{PoolError, PoolIndexClient};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// An endpoint with posts that begin when they are polled a second time. `lines` is true if lines
/// are atomic, as posts are here, and as over UCX.
pub struct DelayedPostEndpoint {
    pub endpoint: ShmEndpoint,
    pub lines: bool,
}

async fn pause() {
    let mut has_paused = false;
    poll_fn(|_| match std::mem::replace(&mut has_paused, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

impl Endpoint for DelayedPostEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    fn atomic_bytes(&self) -> u64 {
        if self.lines { 64 } else { 8 }
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        pause().await;
        if self.lines {
            return self.endpoint.post(verbs).await;
        }
        for verb in verbs {
            pause().await;
            self.endpoint.post(std::slice::from_mut(verb)).await?;
        }
        Ok(())
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.endpoint.write_unsignalled(to, bytes)
    }

    async fn settle(&self) -> Result<(), FabricError> {
        self.endpoint.settle().await
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.endpoint.allocate(node, bytes).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.endpoint.free(address, bytes).await
    }

    async fn charge(&self, work: ClientProcessorWork) {
        self.endpoint.charge(work).await;
    }

    fn now(&self) -> Duration {
        self.endpoint.now()
    }

    async fn sleep(&self, _: Duration) {
        pause().await;
    }
}

type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

/// A writer that makes a step whenever it is polled, forever.
pub struct InterleavedWriter<'w>(RefCell<Task<'w>>);

impl InterleavedWriter<'_> {
    fn step(&self) {
        let mut context = Context::from_waker(Waker::noop());
        let is_over = self.0.borrow_mut().as_mut().poll(&mut context).is_ready();
        assert!(!is_over, "the writer has ended");
    }

    /// Polls a future in turn with the writer.
    fn beside<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            self.step();
        }
    }
}

/// Programs with steps of the writer between their iterations.
struct Beside<'b, 'w> {
    memory: InMemory<RackMemory<'b>>,
    writer: &'b InterleavedWriter<'w>,
    random: SmallRng,
}

impl QueryRunner for Beside<'_, '_> {
    type Error = Infallible;

    fn run(
        &mut self,
        query: &TraversalQuery,
        iterations: u64,
    ) -> Result<TraversalOutcome, Infallible> {
        let mut query = query.clone();
        let mut made = 0;
        loop {
            if self.random.random_ratio(1, 4) {
                for _ in 0..self.random.random_range(1..12) {
                    self.writer.step();
                }
            }
            let some = self.random.random_range(1..6).min(iterations - made);
            let mut outcome = QueryRunner::run(&mut self.memory, &query, some)?;
            made += outcome.iterations;
            if outcome.status != TraversalStatus::IterationLimit || made == iterations {
                outcome.iterations = made;
                return Ok(outcome);
            }
            (query.start, query.scratchpad) = (outcome.address, outcome.scratchpad);
        }
    }
}

const STABLE: u64 = 64;
const LEAST: u64 = 1 << 40;
/// The values that keys alternate between: torn values are between them.
const ENDS: [u64; 2] = [0x1111_1111_1111_1111, 0xeeee_eeee_eeee_eeee];

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Writes forever. Every other key stays. Of the keys between them most come and go, in waves, so
/// that leaves are divided and merged; some have one value or another.
async fn write(tree: &ChimeTree<DelayedPostEndpoint>, seed: u64) -> Result<(), PoolError> {
    let mut random = SmallRng::seed_from_u64(seed);
    for wave in 0.. {
        for _ in 0..60 {
            let number = 1 + 2 * random.random_range(0..4 * STABLE);
            if number % 8 == 1 {
                let value = ENDS[random.random_range(0..2)];
                tree.insert(&key(number), &value.to_le_bytes()).await?;
            } else if random.random_bool(if wave % 2 == 0 { 0.9 } else { 0.1 }) {
                let value: u64 = random.random_range(0..9);
                tree.insert(&key(number), &value.to_le_bytes()).await?;
            } else {
                tree.remove(&key(number)).await?;
            }
        }
    }
    Ok(())
}

/// Aggregates while a writer works. Returns the number of leaves that programs have read, or the
/// error that it found.
pub fn run(seed: u64, options: ChimeOptions, lines: bool) -> Result<u64, String> {
    let (nodes, endpoint) = served(1 + (seed % 2) as u16 * 3);
    let rack = rack(&nodes);
    let ids = endpoint.nodes();
    let options = ChimeOptions {
        shape: PoolIndexShape {
            leaf_span: 16,
            internal_span: 8,
            neighborhood: 8,
            ..options.shape
        },
        hotspot_bytes: 1 << 12,
        cache_bytes: 1 << 20,
        retired_bytes: 1,
        locks: ChimeLockKind::Leased(Duration::from_secs(5)),
        ..options
    };
    let turns = || DelayedPostEndpoint {
        endpoint: endpoint.clone(),
        lines,
    };
    let compute_node = || Arc::new(ChimeComputeNode::new(options).expect("options"));
    let done = |future: Task<'_>| {
        let mut future = future;
        let mut context = Context::from_waker(Waker::noop());
        while future.as_mut().poll(&mut context).is_pending() {}
    };
    let (made, opened) = (RefCell::new(None), RefCell::new(None));
    done(Box::pin(async {
        let tree = ChimeTree::create(turns(), &ids, ROOT, compute_node()).await;
        made.replace(Some(tree.expect("a tree")));
        let tree = ChimeTree::open(turns(), &ids, ROOT, compute_node()).await;
        opened.replace(Some(tree.expect("the tree")));
    }));
    let (writing, reading) = (made.take().expect("made"), opened.take().expect("opened"));
    done(Box::pin(async {
        for number in 0..STABLE {
            let value = (LEAST + number).to_le_bytes();
            let at = 8 * (number + 1);
            writing.insert(&key(at), &value).await.expect("room");
        }
    }));
    let stable: ScanAggregates = (0..STABLE).map(|number| LEAST + number).collect();
    let writer = InterleavedWriter(RefCell::new(Box::pin(async {
        write(&writing, seed).await.expect("the nodes are served");
    })));
    let mut programs = Beside {
        memory: InMemory::interpreting(rack),
        writer: &writer,
        random: SmallRng::seed_from_u64(seed ^ 0xabcd),
    };
    let range = PoolScanRange::new(&key(0), &key(u64::MAX));
    let stays = ValueFilter::between(LEAST..2 * LEAST);
    let torn = ValueFilter::between(ENDS[0] + 1..ENDS[1]);
    let mut expected = Vec::new();
    for number in 0..STABLE {
        let value = (LEAST + number).to_le_bytes().to_vec();
        expected.push((key(8 * (number + 1)).to_vec(), value));
    }
    for round in 0..12 {
        let found = writer.beside(reading.aggregate(&range, &stays, Some(&mut programs)));
        let found = found.map_err(|error| error.to_string())?;
        if found != stable {
            return Err(format!("round {round}: {found:?} in place of {stable:?}"));
        }
        let found = writer.beside(reading.aggregate(&range, &torn, Some(&mut programs)));
        let found = found.map_err(|error| error.to_string())?;
        if found.count > 0 {
            return Err(format!(
                "round {round}: values that no thread wrote: {found:?}"
            ));
        }
        let (mut entries, mut rest) = (Vec::new(), Some(range.clone()));
        while let Some(range) = rest {
            let found = writer.beside(reading.select(&range, &stays, Some(&mut programs)));
            let (some, behind) = found.map_err(|error| error.to_string())?;
            entries.extend(some);
            rest = behind;
        }
        if entries != expected {
            return Err(format!(
                "round {round}: the entries differ from the stable ones"
            ));
        }
        // An alternating key never counts twice.
        let ends = ValueFilter::between(ENDS[0]..=ENDS[1]);
        let found = writer.beside(reading.aggregate(&range, &ends, Some(&mut programs)));
        if found.map_err(|error| error.to_string())?.count > STABLE {
            return Err(format!("round {round}: keys appear twice"));
        }
    }
    let reads = reading.leaf_reads();
    if reads.refused > 0 {
        return Err(format!("programs were refused: {reads:?}"));
    }
    Ok(reads.at_nodes)
}
