//! Words that name blocks, which participants replace, retire and reuse at once, while others read
//! them by cached addresses.

use super::table::{ENTRY_BYTES, read_word};
use super::*;
use crate::address::{LINE_BYTES, NodeId};
use crate::count::{CountingEndpoint, VerbCost};
use crate::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

const NODE: NodeId = NodeId(0);
const LEASE: Duration = Duration::from_micros(800);
const KEYS: u64 = 3;
const BLOCK_BYTES: u64 = 128;
const RING_ENTRIES: usize = 64;
const PARTICIPANTS: u32 = 4;
const OPERATIONS: u64 = 40;
const TOGETHER: usize = 3;
/// Largest loss of a dead participant: the blocks that its tasks hold, those that one task frees
/// with the spare ones, those that another was about to reuse, and those that are not named yet.
const LOST_BLOCKS_MAX: u64 = 3 * blocks::BATCH as u64 + 3 + TOGETHER as u64;

/// A variant of a participant, right or wrong.
#[derive(Clone, Copy)]
struct EpochParticipantVariant {
    grace: u64,
    /// True if it drops addresses of older epochs.
    drops: bool,
    /// True if it trusts only the bytes that it has read while it was safe.
    confirms: bool,
    /// True if its guards last as long as its operations.
    guards: bool,
    /// True if it unlinks memory before it retires it.
    unlinks_first: bool,
}

const RIGHT: EpochParticipantVariant = EpochParticipantVariant {
    grace: GRACE,
    drops: true,
    confirms: true,
    guards: true,
    unlinks_first: true,
};

fn word_of(key: u64) -> GlobalAddress {
    GlobalAddress::new(NODE, 128 + 8 * key)
}

fn contents(key: u64, id: u64) -> Vec<u8> {
    let words = [key, id].map(u64::to_le_bytes).concat();
    words.repeat(BLOCK_BYTES as usize / 16)
}

/// The shared state of all participants of a run.
#[derive(Default)]
struct EpochRunState {
    wrong: RefCell<Option<String>>,
    ids: Cell<u64>,
    retired: Cell<u64>,
    reused: Cell<u64>,
    void: Cell<u64>,
    stale: Cell<u64>,
}

impl EpochRunState {
    fn blame(&self, what: String) {
        self.wrong.borrow_mut().get_or_insert(what);
    }
}

fn count(counter: &Cell<u64>) -> u64 {
    counter.set(counter.get() + 1);
    counter.get()
}

/// A participant, shared by its tasks.
struct Participant {
    endpoint: SimEndpoint,
    epochs: Epochs,
    way: EpochParticipantVariant,
    run: Rc<EpochRunState>,
    /// The cached addresses, with their content and its epoch.
    cache: RefCell<HashMap<u64, (GlobalAddress, u64, Epoch)>>,
    /// The time until which all its tasks stand still.
    still_until: Cell<Duration>,
    random: RefCell<SmallRng>,
}

impl Participant {
    fn chance(&self, probability: f64) -> bool {
        self.random.borrow_mut().random_bool(probability)
    }

    /// Returns a random time up to `time`.
    fn some(&self, time: Duration) -> Duration {
        time.mul_f64(self.random.borrow_mut().random_range(0.0..1.0))
    }

    async fn stand_still(&self) {
        let now = self.endpoint.now();
        if self.chance(0.01) {
            self.still_until.set(now + self.some(4 * LEASE));
        }
        self.endpoint
            .sleep(self.still_until.get().saturating_sub(now))
            .await;
    }

    async fn is_safe(&self, guard: &RemoteEpochGuard<'_>) -> Result<bool, EpochError> {
        if !self.way.confirms {
            return Ok(true);
        }
        let safe = guard.confirm(&self.endpoint).await?;
        if !safe {
            count(&self.run.void);
        }
        Ok(safe)
    }

    /// Creates a block for a key, with contents that no other has.
    async fn make(&self, key: u64) -> Result<GlobalAddress, EpochError> {
        let reused = self.epochs.reuse(&self.endpoint, BLOCK_BYTES).await?;
        let block = match reused {
            Some(block) => {
                count(&self.run.reused);
                block
            }
            None => self.endpoint.allocate(NODE, BLOCK_BYTES).await?,
        };
        let contents = contents(key, count(&self.run.ids));
        self.endpoint.write(block, &contents).await?;
        Ok(block)
    }

    /// Replaces the block of a key.
    async fn replace(&self, key: u64) -> Result<(), EpochError> {
        let (endpoint, epochs) = (&self.endpoint, &self.epochs);
        epochs.tend(endpoint).await?;
        let guard = epochs.enter();
        let old = read_word(endpoint, word_of(key)).await?;
        // Only a participant that certainly unlinks can retire before.
        if !self.way.unlinks_first && key + 1 != u64::from(endpoint.client()) {
            return Ok(());
        }
        let block = self.make(key).await?;
        self.stand_still().await;
        let retire = || epochs.retire(endpoint, &guard, GlobalAddress::from_bits(old), BLOCK_BYTES);
        if !self.way.unlinks_first {
            retire().await?;
        }
        if self.is_safe(&guard).await? {
            let new = block.to_bits();
            if endpoint.compare_swap(word_of(key), old, new).await? == old {
                if self.way.unlinks_first {
                    retire().await?;
                }
                count(&self.run.retired);
                return Ok(());
            }
        }
        endpoint.free(block, BLOCK_BYTES).await?;
        Ok(())
    }

    /// Reads the block of a key, by its word or by a cached address.
    async fn read(&self, key: u64) -> Result<(), EpochError> {
        let (endpoint, epochs) = (&self.endpoint, &self.epochs);
        epochs.tend(endpoint).await?;
        let mut guard = Some(epochs.enter());
        let Some(epoch) = guard.as_ref().map(RemoteEpochGuard::epoch) else {
            return Ok(());
        };
        let kept = self.cache.borrow().get(&key).copied();
        let may_follow =
            |read_in| !self.way.drops || guard.iter().all(|guard| guard.may_follow(read_in));
        let kept = kept.filter(|(_, _, read_in)| may_follow(*read_in));
        let (block, id) = match kept {
            Some((block, id, _)) => (block, Some(id)),
            None => {
                let word = read_word(endpoint, word_of(key)).await?;
                (GlobalAddress::from_bits(word), None)
            }
        };
        if !self.way.guards {
            guard = None;
        }
        if self.chance(0.2) {
            endpoint.sleep(self.some(LEASE)).await;
        }
        self.stand_still().await;
        let mut bytes = vec![0; BLOCK_BYTES as usize];
        endpoint.read(block, &mut bytes).await?;
        self.stand_still().await;
        let safe = match &guard {
            Some(guard) => self.is_safe(guard).await?,
            None => true,
        };
        if !safe {
            return Ok(());
        }
        let words = bytes.as_chunks::<8>().0;
        let found = u64::from_le_bytes(words[1]);
        if bytes != contents(key, found) || id.is_some_and(|id| id != found) {
            let what = format!("{key} at {block:?} should be {id:?}: {:?}", words);
            self.run.blame(what);
        }
        self.cache.borrow_mut().insert(key, (block, found, epoch));
        let now = read_word(endpoint, word_of(key)).await?;
        if now != block.to_bits() {
            count(&self.run.stale);
        }
        Ok(())
    }

    async fn work(&self, replaces: bool) -> Result<(), EpochError> {
        for _ in 0..OPERATIONS {
            let key = self.random.borrow_mut().random_range(0..KEYS);
            if replaces {
                self.replace(key).await?;
            } else {
                self.read(key).await?;
            }
            if self.chance(0.3) {
                self.endpoint.sleep(self.some(LEASE / 4)).await;
            }
        }
        Ok(())
    }
}

/// The counts of runs.
#[derive(Clone, Copy, Debug, Default)]
struct EpochRunCounts {
    retired: u64,
    reused: u64,
    void: u64,
    stale: u64,
    deaths: u64,
    lost: u64,
}

fn options(retired_bytes: u64) -> EpochOptions {
    EpochOptions {
        lease: LEASE,
        retired_bytes,
        ring_entries: RING_ENTRIES,
        ..EpochOptions::default()
    }
}

/// Returns the options of a participant whose memory is soon safe, and that names blocks together.
fn eager(retired_bytes: u64) -> EpochOptions {
    EpochOptions {
        together: TOGETHER,
        is_eager: true,
        ..options(retired_bytes)
    }
}

/// Runs the first or the last participant: the first creates the table and the blocks, the last
/// waits until all possible blocks were freed.
async fn alone(endpoint: SimEndpoint, table: Option<GlobalAddress>) -> Result<(), EpochError> {
    let Some(table) = table else {
        let table = endpoint.allocate(NODE, TABLE_BYTES).await?;
        endpoint
            .write(table, &vec![0; TABLE_BYTES as usize])
            .await?;
        let word = table.to_bits().to_le_bytes();
        endpoint.write(word_of(KEYS), &word).await?;
        for key in 0..KEYS {
            let block = endpoint.allocate(NODE, BLOCK_BYTES).await?;
            endpoint.write(block, &contents(key, 0)).await?;
            let word = block.to_bits().to_le_bytes();
            endpoint.write(word_of(key), &word).await?;
        }
        return Ok(());
    };
    let epochs = Epochs::register(&endpoint, table, options(0)).await?;
    for _ in 0..200 {
        epochs.tend(&endpoint).await?;
        endpoint.sleep(LEASE / 16).await;
    }
    epochs.leave(&endpoint).await
}

fn participate(
    simulation: &mut FabricSimulation,
    client: u32,
    table: GlobalAddress,
    way: EpochParticipantVariant,
    seed: u64,
    run: &Rc<EpochRunState>,
) {
    let endpoint = simulation.endpoint(client);
    let run = Rc::clone(run);
    let both = async move {
        let done = async {
            let options = match seed.is_multiple_of(2) {
                true => options(BLOCK_BYTES * 2),
                false => eager(BLOCK_BYTES * 2),
            };
            let epochs = Epochs::register(&endpoint, table, options).await?;
            let participant = Participant {
                epochs: Epochs {
                    grace: way.grace,
                    ..epochs
                },
                endpoint,
                way,
                run: Rc::clone(&run),
                cache: RefCell::default(),
                still_until: Cell::default(),
                random: RefCell::new(SmallRng::seed_from_u64(seed)),
            };
            let mut tasks = [true, false].map(|replaces| Box::pin(participant.work(replaces)));
            let mut ended = [false; 2];
            std::future::poll_fn(|context| {
                for (task, ended) in tasks.iter_mut().zip(&mut ended) {
                    if !*ended && let std::task::Poll::Ready(done) = task.as_mut().poll(context) {
                        *ended = true;
                        done?;
                    }
                }
                match ended {
                    [true, true] => std::task::Poll::Ready(Ok::<(), EpochError>(())),
                    _ => std::task::Poll::Pending,
                }
            })
            .await?;
            drop(tasks);
            participant.epochs.leave(&participant.endpoint).await
        };
        if let Err(error) = done.await {
            run.blame(error.to_string());
        }
    };
    simulation.spawn(client, both);
}

fn run(
    seed: u64,
    delivery: Delivery,
    way: EpochParticipantVariant,
) -> Result<EpochRunCounts, String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut simulation, _) = FabricSimulation::with_nodes(random.random(), delivery, [1 << 17]);
    let run = Rc::new(EpochRunState::default());
    let finish = |simulation: &mut FabricSimulation| {
        let end = simulation.now() + 1000 * LEASE;
        let waiting = simulation.run_until(|now| now > end);
        match run.wrong.borrow_mut().take() {
            Some(wrong) => Err(wrong),
            None if waiting > 0 => Err(format!("{waiting} hang")),
            None => Ok(()),
        }
    };
    let by_itself = |simulation: &mut FabricSimulation, client, table| {
        let (endpoint, run) = (simulation.endpoint(client), Rc::clone(&run));
        simulation.spawn(client, async move {
            if let Err(error) = alone(endpoint, table).await {
                run.blame(error.to_string());
            }
        });
    };
    by_itself(&mut simulation, 0, None);
    finish(&mut simulation)?;
    let table = GlobalAddress::from_bits(simulation.word(word_of(KEYS)));
    let mortal = random.random_bool(0.8);
    for client in 1..=PARTICIPANTS {
        if mortal && random.random_bool(0.5) {
            let verb = random.random_range(0..OPERATIONS * 12);
            simulation.kill_at_verb(client, verb);
        }
        participate(&mut simulation, client, table, way, random.random(), &run);
    }
    finish(&mut simulation)?;
    by_itself(&mut simulation, PARTICIPANTS + 1, Some(table));
    finish(&mut simulation)?;

    let rings = (0..SLOTS).filter(|slot| simulation.word(EpochTable(table).ring(*slot)) != 0);
    let ring_bytes = LINE_BYTES + RING_ENTRIES as u64 * ENTRY_BYTES;
    let used = TABLE_BYTES + rings.count() as u64 * ring_bytes + KEYS * BLOCK_BYTES;
    let deaths = (1..=PARTICIPANTS).filter(|client| simulation.is_dead(*client));
    let deaths = deaths.count() as u64;
    let left = simulation.allocated_bytes(NODE).checked_sub(used);
    // A dead participant may have allocated a ring that no other knows.
    let lost_max = deaths * (LOST_BLOCKS_MAX * BLOCK_BYTES + ring_bytes);
    match left {
        Some(lost) if lost <= lost_max => Ok(EpochRunCounts {
            retired: run.retired.get(),
            reused: run.reused.get(),
            void: run.void.get(),
            stale: run.stale.get(),
            deaths,
            lost: lost / BLOCK_BYTES,
        }),
        _ => Err(format!("{left:?} bytes are lost by {deaths} deaths")),
    }
}

#[test]
fn nobody_reads_what_was_given_back_and_all_of_it_is() {
    for delivery in [Delivery::Torn, Delivery::TornWords] {
        let (mut runs, mut sum) = (0, EpochRunCounts::default());
        let failure = seeds::first_failure(50, |seed| {
            let report = run(seed, delivery, RIGHT)?;
            runs += 1;
            sum.retired += report.retired;
            sum.reused += report.reused;
            sum.void += report.void;
            sum.stale += report.stale;
            sum.deaths += report.deaths;
            sum.lost += report.lost;
            Ok::<(), String>(())
        });
        assert_eq!(failure, None, "{delivery:?}");
        eprintln!("{runs} runs, {delivery:?}: {sum:?}");
        // Check that all kinds of events have happened.
        assert!(
            sum.stale > runs && sum.void > 0 && sum.reused > 0,
            "{sum:?}"
        );
        assert!(sum.lost < 4 * sum.deaths.max(1), "{sum:?}");
    }
}

/// A ring that is full of blocks of a length that is no longer requested makes room for others.
#[test]
fn a_full_ring_holds_nothing_up() {
    const ENTRIES: usize = 8;
    const SMALL: u64 = 64;
    let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 17]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let done = async {
            let table = endpoint.allocate(NODE, TABLE_BYTES).await?;
            endpoint
                .write(table, &vec![0; TABLE_BYTES as usize])
                .await?;
            let options = EpochOptions {
                ring_entries: ENTRIES,
                ..eager(ENTRIES as u64 * SMALL)
            };
            let epochs = Epochs::register(&endpoint, table, options).await?;
            for bytes in [SMALL; ENTRIES].into_iter().chain([2 * SMALL; 40]) {
                epochs.tend(&endpoint).await?;
                let guard = epochs.enter();
                let block = endpoint.allocate(NODE, bytes).await?;
                epochs.retire(&endpoint, &guard, block, bytes).await?;
                drop(guard);
                endpoint.sleep(LEASE / 16).await;
            }
            for _ in 0..200 {
                epochs.tend(&endpoint).await?;
                endpoint.sleep(LEASE / 16).await;
            }
            let kept = ENTRIES as u64 * SMALL;
            assert!(epochs.retired_bytes() <= kept, "{}", epochs.retired_bytes());
            Ok::<(), EpochError>(())
        };
        done.await.expect("the node replies");
    });
    assert_eq!(simulation.run(), 0);
}

fn is_found(way: EpochParticipantVariant) -> bool {
    (0..500).any(|seed| run(seed, Delivery::Torn, way).is_err())
}

#[test]
fn memory_that_is_given_back_an_epoch_too_early_is_found() {
    assert!(is_found(EpochParticipantVariant { grace: 1, ..RIGHT }));
}

#[test]
fn addresses_that_are_kept_too_long_are_found() {
    assert!(is_found(EpochParticipantVariant {
        drops: false,
        ..RIGHT
    }));
}

#[test]
fn those_who_are_expelled_and_go_on_are_found() {
    assert!(is_found(EpochParticipantVariant {
        confirms: false,
        ..RIGHT
    }));
}

#[test]
fn operations_without_guards_are_found() {
    assert!(is_found(EpochParticipantVariant {
        guards: false,
        ..RIGHT
    }));
}

#[test]
fn memory_that_is_retired_before_it_is_unlinked_is_found() {
    assert!(is_found(EpochParticipantVariant {
        unlinks_first: false,
        ..RIGHT
    }));
}

#[test]
fn what_is_no_ring_or_epoch_is_told_or_cut_off() {
    let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 17]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let table = endpoint.allocate(NODE, TABLE_BYTES).await.unwrap();
        endpoint
            .write(table, &vec![0xff; TABLE_BYTES as usize])
            .await
            .unwrap();
        for entries in [u64::MAX, u64::MAX / ENTRY_BYTES, 1 << 40] {
            endpoint.write(table, &entries.to_le_bytes()).await.unwrap();
            let error = ring::RetirementRing::read(&endpoint, table)
                .await
                .unwrap_err();
            assert!(matches!(error, FabricError::OutOfRange { .. }), "{error}");
        }
        let last = GlobalAddress::from_bits(u64::MAX - 7);
        assert!(ring::RetirementRing::read(&endpoint, last).await.is_err());
        endpoint.write(table, &[0xff; 8]).await.unwrap();
        let scan = table::EpochTableSnapshot::read(&endpoint, table::EpochTable(table)).await;
        assert!(scan.unwrap().epoch < u64::MAX / 2);
    });
    assert_eq!(simulation.run(), 0);
}

/// The ring of the slot names blocks that no node has, of lengths that overflow a sum.
#[test]
fn damaged_entries_of_a_ring_are_dropped() {
    let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 17]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let table = endpoint.allocate(NODE, TABLE_BYTES).await.unwrap();
        let empty = vec![0; TABLE_BYTES as usize];
        endpoint.write(table, &empty).await.unwrap();
        let block = endpoint.allocate(NODE, BLOCK_BYTES).await.unwrap();
        let ring = ring::RetirementRing::allocate(&endpoint, NODE, RING_ENTRIES)
            .await
            .unwrap();
        let first = ring.address().plus(LINE_BYTES);
        let half = 1 << 47;
        let lengths = [u64::MAX, BLOCK_BYTES, half, u64::MAX, half, half, 1 << 63];
        for (number, bytes) in lengths.into_iter().enumerate() {
            let entry = [block.to_bits(), bytes].map(u64::to_le_bytes).concat();
            let at = first.plus(number as u64 * ENTRY_BYTES);
            endpoint.write(at, &entry).await.unwrap();
        }
        let word = ring.address().to_bits().to_le_bytes();
        endpoint
            .write(EpochTable(table).ring(0), &word)
            .await
            .unwrap();
        let epochs = Epochs::register(&endpoint, table, options(1 << 20)).await;
        // One length of `half` leaves no room for another.
        assert_eq!(epochs.unwrap().retired_bytes(), BLOCK_BYTES + half);
        // The entries without a block are empty, and can be written again.
        let (_, left) = ring::RetirementRing::read(&endpoint, ring.address())
            .await
            .unwrap();
        let numbers: Vec<_> = left.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [1, 2]);
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn operations_cost_nothing_and_renewing_one_round_trip() {
    let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 17]);
    let endpoint = CountingEndpoint::new(simulation.endpoint(0));
    simulation.spawn(0, async move {
        let table = endpoint.allocate(NODE, TABLE_BYTES).await.unwrap();
        let empty = vec![0; TABLE_BYTES as usize];
        endpoint.write(table, &empty).await.unwrap();
        let epochs = Epochs::register(&endpoint, table, options(1 << 20)).await;
        let epochs = epochs.unwrap();
        endpoint.take();
        for _ in 0..100 {
            epochs.tend(&endpoint).await.unwrap();
            assert!(epochs.enter().confirm(&endpoint).await.unwrap());
        }
        assert_eq!(endpoint.take(), VerbCost::default());
        endpoint.sleep(LEASE / RENEWALS_PER_LEASE).await;
        epochs.tend(&endpoint).await.unwrap();
        let cost = endpoint.take();
        assert_eq!((cost.round_trips, cost.atomics), (1, 1));
        assert_eq!((cost.read_bytes, cost.written_bytes), (2096, 0));
        let block = endpoint.allocate(NODE, BLOCK_BYTES).await.unwrap();
        endpoint.take();
        let guard = epochs.enter();
        let retired = epochs.retire(&endpoint, &guard, block, BLOCK_BYTES).await;
        retired.unwrap();
        let cost = endpoint.take();
        assert_eq!((cost.round_trips, cost.written_bytes), (1, 16));
    });
    assert_eq!(simulation.run(), 0);
}

/// A node that is lost is unknown to endpoints that are connected later, which still free the
/// memory of others.
#[test]
fn memory_of_unknown_nodes_is_forgotten() {
    let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 17]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let table = endpoint.allocate(NODE, TABLE_BYTES).await.unwrap();
        let empty = vec![0; TABLE_BYTES as usize];
        endpoint.write(table, &empty).await.unwrap();
        let epochs = Epochs::register(&endpoint, table, options(0)).await;
        let epochs = epochs.unwrap();
        let known = endpoint.allocate(NODE, BLOCK_BYTES).await.unwrap();
        let unknown = GlobalAddress::new(NodeId(5), 4096);
        for block in [unknown, known] {
            let guard = epochs.enter();
            let retired = epochs.retire(&endpoint, &guard, block, BLOCK_BYTES).await;
            retired.unwrap();
        }
        for _ in 0..100 {
            endpoint.sleep(LEASE / RENEWALS_PER_LEASE).await;
            epochs.tend(&endpoint).await.unwrap();
        }
        assert_eq!(epochs.retired_bytes(), 0);
        let again = endpoint.free(known, BLOCK_BYTES).await;
        assert!(matches!(again, Err(FabricError::NotAllocated { .. })));
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn those_who_come_when_all_slots_are_taken_are_told() {
    let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Whole, [1 << 17]);
    let table = GlobalAddress::new(NODE, 8192);
    let others = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let mut word = 0;
        for _ in 0..100 {
            word = table::ParticipantSlotState::Live(0).after(word);
            let words = word.to_le_bytes().repeat(SLOTS);
            others
                .write(EpochTable(table).slot(0), &words)
                .await
                .unwrap();
            others.sleep(LEASE / 16).await;
        }
    });
    let endpoint = simulation.endpoint(1);
    simulation.spawn(1, async move {
        endpoint.sleep(LEASE / 16).await;
        let late = Epochs::register(&endpoint, table, options(0)).await;
        assert_eq!(
            late.unwrap_err().to_string(),
            "all 256 slots of participants in 0:0x2000 are in use"
        );
    });
    assert_eq!(simulation.run(), 0);
}
