//! Runs on memory that is damaged while clients use it.
//!
//! The bytes of memory nodes are those of other processes. Operations on damaged memory may fail
//! or return wrong values, but they must not panic, and they must end. [`check_damage`] draws the
//! damage from each seed: which bytes change, how, and before which post. The bytes are in the
//! memory of a node, among those that clients have accessed, or in the result of a post alone, as
//! by a node that lies. If a run fails, damages are left out as long as it still fails, and the
//! rest is printed with the seed. The damage to a post depends on the seed and the number of the
//! post only, so that it stays the same if an earlier one is left out.

use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId};
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::{PoolError, PoolIndexClient};
use nearfield_testkit::{panics, seeds};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Virtual time of a post: so long that a wait for many seconds takes few posts.
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// Number of the last accesses whose bytes may be damaged.
const ACCESSES_MAX: usize = 256;
/// The share of posts before which something is damaged; each run has one of them.
const RATES: [f64; 3] = [0.002, 0.01, 0.05];
/// Maximum number of damages of a run: an operation that waits for many posts would otherwise have
/// an unbounded number.
const DAMAGES_MAX: usize = 100;
/// Number of times in a row that an operation may wait for something other than its posts.
const POLLS_MAX: usize = 1000;
/// Number of bytes of a damage that are printed.
const SHOWN_BYTES: usize = 24;

/// The size of runs on damaged memory.
#[derive(Clone, Copy, Debug)]
pub struct DamagePlan {
    /// Number of memory nodes.
    pub nodes: usize,
    /// The memory of each node, in bytes.
    pub node_bytes: usize,
    /// The atomic unit of the endpoints; nothing is torn.
    pub delivery: Delivery,
    /// Number of posts after which an operation counts as hanging.
    pub posts_max: u64,
}

impl Default for DamagePlan {
    fn default() -> DamagePlan {
        DamagePlan {
            nodes: 2,
            node_bytes: 4 << 20,
            delivery: Delivery::Torn,
            posts_max: 500_000,
        }
    }
}

/// The memory of a run, and the damages to it.
#[derive(Debug)]
pub struct DamagedMemory {
    nodes: Vec<NodeId>,
    endpoint: DamagedEndpoint,
    random: RefCell<SmallRng>,
}

/// A client's endpoint for such memory. Its posts are done at once, and its clock shows the sum of
/// their times and of all sleeps.
#[derive(Clone)]
pub struct DamagedEndpoint {
    memory: SimEndpoint,
    run: Rc<DamageRun>,
}

/// The state that all endpoints of a run share.
struct DamageRun {
    seed: u64,
    rate: f64,
    posts_max: u64,
    /// The damages that are left out.
    skipped: BTreeSet<DamageNumber>,
    /// The descriptions of the others.
    damages: RefCell<Vec<(DamageNumber, String)>>,
    accesses: RefCell<Vec<(GlobalAddress, u64)>>,
    is_on: Cell<bool>,
    posts: Cell<u64>,
    /// The number of posts when the current operation began.
    before: Cell<u64>,
    now: Cell<Duration>,
}

/// The number of the post that a damage belongs to, and the part of the post.
type DamageNumber = (u64, DamagedPart);

/// The part of a post that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DamagedPart {
    /// The memory before it.
    Memory,
    /// The bytes that it returns.
    Result,
}

/// A damage that happens now, and a generator for its details.
struct DamageStrike {
    number: DamageNumber,
    random: SmallRng,
}

/// A run that has failed.
#[derive(Clone, Debug)]
struct DamageFailure {
    message: String,
    damages: Vec<(DamageNumber, String)>,
}

impl fmt::Display for DamageFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\nafter these damages:", self.message)?;
        let mut damages = self.damages.iter();
        damages.try_for_each(|(_, what)| writeln!(formatter, "  {what}"))
    }
}

/// Runs `test` with many seeds, as [`seeds::first_failure`] does.
///
/// # Panics
/// A run has panicked or made too many posts; the message has the command that replays it, and the
/// fewest damages that were found to be enough.
pub fn check_damage(count: u64, plan: &DamagePlan, test: impl Fn(&DamagedMemory)) {
    if let Some(failure) = first_damage_failure(count, plan, test) {
        panic!("{failure}");
    }
}

/// Runs `test` like [`check_damage`]; returns the message of the first failure.
pub fn first_damage_failure(
    count: u64,
    plan: &DamagePlan,
    test: impl Fn(&DamagedMemory),
) -> Option<String> {
    seeds::first_failure(count, |seed| {
        let run = |skipped| run(seed, plan, skipped, &test);
        run(BTreeSet::new()).map_err(|failure| shrink(failure, run))
    })
}

/// Makes a run without some of its damages.
fn run(
    seed: u64,
    plan: &DamagePlan,
    skipped: BTreeSet<DamageNumber>,
    test: &impl Fn(&DamagedMemory),
) -> Result<(), DamageFailure> {
    let memory = DamagedMemory::new(seed, plan, skipped);
    panics::catch(|| test(&memory)).map_err(|message| DamageFailure {
        message,
        damages: memory.endpoint.run.damages.take(),
    })
}

/// Leaves out damages as long as the run fails, the last ones first.
fn shrink(
    mut failure: DamageFailure,
    run: impl Fn(BTreeSet<DamageNumber>) -> Result<(), DamageFailure>,
) -> DamageFailure {
    let mut skipped = BTreeSet::new();
    let numbers: Vec<_> = failure.damages.iter().map(|(number, _)| *number).collect();
    for number in numbers.into_iter().rev() {
        skipped.insert(number);
        match run(skipped.clone()) {
            Err(other) => failure = other,
            Ok(()) => drop(skipped.remove(&number)),
        }
    }
    failure
}

impl DamagedMemory {
    fn new(seed: u64, plan: &DamagePlan, skipped: BTreeSet<DamageNumber>) -> DamagedMemory {
        let mut random = SmallRng::seed_from_u64(seed);
        let network = NetworkPreset::ConnectX6.parameters();
        let mut simulation = FabricSimulation::new(random.random(), network, plan.delivery);
        let nodes = (0..plan.nodes).map(|_| simulation.add_node(plan.node_bytes));
        DamagedMemory {
            nodes: nodes.collect(),
            endpoint: DamagedEndpoint {
                memory: simulation.instant_endpoint(0),
                run: Rc::new(DamageRun {
                    rate: RATES[random.random_range(0..RATES.len())],
                    seed: random.random(),
                    posts_max: plan.posts_max,
                    skipped,
                    damages: RefCell::default(),
                    accesses: RefCell::default(),
                    is_on: Cell::new(false),
                    posts: Cell::new(0),
                    before: Cell::new(0),
                    now: Cell::new(Duration::ZERO),
                }),
            },
            random: RefCell::new(SmallRng::seed_from_u64(random.random())),
        }
    }

    /// Returns the memory nodes.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns an endpoint of another client.
    pub fn endpoint(&self) -> DamagedEndpoint {
        self.endpoint.clone()
    }

    /// Returns a generator for the choices of the test.
    pub fn random(&self) -> SmallRng {
        SmallRng::seed_from_u64(self.random.borrow_mut().random())
    }

    /// Begins to damage memory and results.
    pub fn begin(&self) {
        self.endpoint.run.is_on.set(true);
    }

    /// Begins another operation, which may make as many posts as the one before.
    pub fn begin_operation(&self) {
        self.endpoint.run.before.set(self.endpoint.run.posts.get());
    }

    /// Runs an operation to its end.
    ///
    /// # Panics
    /// It waits for something that does not come.
    pub fn finish<T>(&self, operation: impl Future<Output = T>) -> T {
        self.begin_operation();
        let mut operation = pin!(operation);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..POLLS_MAX {
            if let Poll::Ready(result) = operation.as_mut().poll(&mut context) {
                return result;
            }
        }
        panic!("an operation waits forever");
    }
}

/// Executes a random operation of an index on one of `keys` keys.
///
/// # Errors
/// Those of the operation.
pub async fn operate(
    index: &impl PoolIndexClient,
    random: &mut SmallRng,
    keys: u64,
    key: impl Fn(u64) -> Vec<u8>,
    value_bytes: usize,
) -> Result<(), PoolError> {
    let key = key(random.random_range(0..keys));
    let value = vec![random.random(); value_bytes];
    match random.random_range(0..10) {
        0..2 => index.get(&key).await.map(drop),
        2..4 => index.insert(&key, &value).await.map(drop),
        4 => index.update(&key, &value).await.map(drop),
        5 => index.overwrite(&key, &value).await.map(drop),
        6 => index.put(&key, &value).await,
        7..9 => index.remove(&key).await.map(drop),
        _ => {
            let count = [1, 10, 1000][random.random_range(0..3)];
            index.scan(&key, count).await.map(drop)
        }
    }
}

impl DamageRun {
    /// Counts a post.
    fn note_post(&self) {
        self.posts.set(self.posts.get() + 1);
        let posts = self.posts.get() - self.before.get();
        assert!(
            posts <= self.posts_max,
            "an operation hangs: there were {posts} posts"
        );
        self.now.set(self.now.get() + ROUND_TRIP);
    }

    /// Returns the damage to this part of the current post, if there is one.
    fn strike(&self, part: DamagedPart) -> Option<DamageStrike> {
        let number = (self.posts.get(), part);
        if !self.is_on.get()
            || self.skipped.contains(&number)
            || self.damages.borrow().len() + self.skipped.len() >= DAMAGES_MAX
        {
            return None;
        }
        let of_part = number.0 << 1 | u64::from(part == DamagedPart::Result);
        let mut random = SmallRng::seed_from_u64(self.seed ^ of_part);
        random
            .random_bool(self.rate)
            .then_some(DamageStrike { number, random })
    }

    /// Notes a damage.
    fn note(&self, strike: &DamageStrike, place: impl fmt::Display, from: &[u8], to: &[u8]) {
        let shown = |bytes: &[u8]| {
            let rest = if bytes.len() > SHOWN_BYTES {
                ", …"
            } else {
                ""
            };
            format!("{:02x?}{rest}", &bytes[..bytes.len().min(SHOWN_BYTES)])
        };
        let bytes = from.len();
        let what = format!("{place}, {bytes}: {} became {}", shown(from), shown(to));
        self.damages.borrow_mut().push((strike.number, what));
    }

    /// Notes the bytes that verbs access.
    fn note_accesses(&self, verbs: &[FabricVerb<'_>]) {
        let mut accesses = self.accesses.borrow_mut();
        for verb in verbs.iter().filter(|verb| verb.bytes() > 0) {
            if accesses.len() == ACCESSES_MAX {
                accesses.remove(0);
            }
            accesses.push((verb.address(), verb.bytes()));
        }
    }

    /// Draws some of the bytes that were accessed.
    fn draw_bytes(&self, random: &mut SmallRng) -> Option<(GlobalAddress, usize)> {
        let accesses = self.accesses.borrow();
        let (at, bytes) = *accesses.get(random.random_range(0..accesses.len().max(1)))?;
        let (start, length) = draw_part(random, bytes as usize);
        Some((at.plus(start as u64), length))
    }

    /// Damages the result of one verb of a post.
    fn damage_result(&self, mut strike: DamageStrike, verbs: &mut [FabricVerb<'_>]) {
        let random = &mut strike.random;
        let chosen = random.random_range(0..verbs.len());
        let at = verbs[chosen].address();
        match &mut verbs[chosen] {
            FabricVerb::Read { into, .. } if !into.is_empty() => {
                let (start, length) = draw_part(random, into.len());
                let other = random.random_range(0..=into.len() - length);
                let other = into[other..other + length].to_vec();
                let before = into[start..start + length].to_vec();
                let bytes = &mut into[start..start + length];
                change(random, bytes, &other);
                self.note(
                    &strike,
                    format!("read of {at}, from {start}"),
                    &before,
                    bytes,
                );
            }
            FabricVerb::Swap { found, .. } | FabricVerb::Add { found, .. } => {
                let (before, mut bytes) = (found.to_le_bytes(), found.to_le_bytes());
                change(random, &mut bytes, &at.to_bits().to_le_bytes());
                *found = u64::from_le_bytes(bytes);
                self.note(&strike, format!("word found at {at}"), &before, &bytes);
            }
            _ => {}
        }
    }
}

/// Changes bytes; `other` has as many from elsewhere.
fn change(random: &mut SmallRng, bytes: &mut [u8], other: &[u8]) {
    match random.random_range(0..7) {
        0 => bytes.iter_mut().for_each(|byte| *byte = random.random()),
        1 => bytes.fill(0xff),
        2 => bytes.fill(0),
        3 => {
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
        }
        4 => {
            bytes.fill(0);
            bytes[0] = random.random();
        }
        5 => {
            let at = random.random_range(0..bytes.len());
            bytes[at] = bytes[at].wrapping_add(1);
        }
        // A pointer to another place, or a copy of another node.
        _ => bytes.copy_from_slice(other),
    }
}

/// Draws a part of some bytes, at least one: a byte, a word, or several.
fn draw_part(random: &mut SmallRng, bytes: usize) -> (usize, usize) {
    let length = [1, 8, 8, 8, 24, 200][random.random_range(0..6)].min(bytes);
    let start = random.random_range(0..=bytes - length);
    // Words are mostly aligned, as far as the bytes begin at one.
    let aligned = start / 8 * 8;
    match random.random_bool(0.5) {
        true => (aligned, length),
        false => (start, length),
    }
}

impl DamagedEndpoint {
    /// Damages some bytes in the memory of a node.
    async fn damage_memory(&self, mut strike: DamageStrike) {
        let (run, random) = (&self.run, &mut strike.random);
        let drawn = [run.draw_bytes(random), run.draw_bytes(random)];
        let [Some((at, length)), Some((from, _))] = drawn else {
            return;
        };
        let (mut before, mut other) = (vec![0; length], vec![0; length]);
        // Bytes that do not exist cannot be damaged.
        if self.memory.read(at, &mut before).await.is_err()
            || self.memory.read(from, &mut other).await.is_err()
        {
            return;
        }
        let mut after = before.clone();
        change(random, &mut after, &other);
        run.note(&strike, at, &before, &after);
        let written = self.memory.write(at, &after).await;
        debug_assert!(written.is_ok(), "the bytes were read");
    }
}

impl fmt::Debug for DamagedEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DamagedEndpoint")
            .field("posts", &self.run.posts)
            .finish_non_exhaustive()
    }
}

impl Endpoint for DamagedEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        self.memory.nodes()
    }

    fn atomic_bytes(&self) -> u64 {
        self.memory.atomic_bytes()
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        self.run.note_post();
        if let Some(strike) = self.run.strike(DamagedPart::Memory) {
            self.damage_memory(strike).await;
        }
        self.memory.post(verbs).await?;
        self.run.note_accesses(verbs);
        if !verbs.is_empty()
            && let Some(strike) = self.run.strike(DamagedPart::Result)
        {
            self.run.damage_result(strike, verbs);
        }
        Ok(())
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.run.note_post();
        self.memory.write_unsignalled(to, bytes)
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.run.note_post();
        let allocated = self.memory.allocate(node, bytes).await?;
        let Some(mut strike) = self.run.strike(DamagedPart::Result) else {
            return Ok(allocated);
        };
        // An endpoint refuses the address of another node, or one with more than 48 bits.
        let shift = strike.random.random_range(16..64);
        let offset = strike.random.random::<u64>() >> shift;
        let [from, to] = [allocated.offset(), offset].map(u64::to_le_bytes);
        self.run.note(&strike, "allocation", &from, &to);
        Ok(GlobalAddress::new(node, offset))
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.run.note_post();
        self.memory.free(address, bytes).await
    }

    fn now(&self) -> Duration {
        self.run.now.get()
    }

    async fn sleep(&self, time: Duration) {
        // Counted, because an operation may hang without a post.
        self.run.note_post();
        self.run.now.set(self.run.now.get() + time);
    }
}
