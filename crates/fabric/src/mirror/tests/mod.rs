//! Registers, and a word that no lock guards, on pairs of nodes that die, as their writers do.

use super::state::ViewKind;
use super::*;
use crate::count::CountingEndpoint;
use crate::recovery::lease::{Locker, PriorLockState};
use crate::recovery::redo::{Redo, RedoError, RedoLockOutcome, RedoOptions};
use crate::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use crate::verb::FabricVerb;
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

mod joins;

const LEASE: Duration = Duration::from_millis(2);
/// The numbers of pairs are none of their nodes', so that a mix-up shows.
const PAIRS: [NodePair; 2] = [
    NodePair {
        number: NodeId(7),
        primary: NodeId(0),
        backup: NodeId(1),
    },
    NodePair {
        number: NodeId(9),
        primary: NodeId(3),
        backup: NodeId(2),
    },
];
const REGISTERS: u64 = 3;
const REGISTER_BYTES: u64 = 1024;
const CLIENTS: u16 = 5;
const OPERATIONS: u64 = 8;
const OPTIONS: RedoOptions = RedoOptions {
    owners: 16,
    slots: 4,
    slot_bytes: 512,
};
/// The word that no lock guards: its place among the observed ones.
const ROOT: usize = 2 * REGISTERS as usize;

type Mirror = MirroredEndpoint<SimEndpoint>;

fn at(pair: usize, offset: u64) -> GlobalAddress {
    GlobalAddress::new(PAIRS[pair].number, offset)
}

fn root() -> GlobalAddress {
    at(0, 704)
}

fn directories() -> [GlobalAddress; 2] {
    [at(0, 512), at(1, 512)]
}

fn lock_of(register: u64) -> GlobalAddress {
    at(0, 1024 + register * REGISTER_BYTES)
}

/// Returns the address of one of the two cells of a register. The first register has cells of a
/// word, and the last one has its cells on another pair than its lock.
fn cell_of(register: u64, cell: u64) -> GlobalAddress {
    let pair = usize::from(register + 1 == REGISTERS);
    at(pair, lock_of(register).offset() + 72 + cell * 256)
}

fn cell_words(register: u64) -> usize {
    if register == 0 { 1 } else { 25 }
}

fn version(word: u64) -> u64 {
    word >> 32
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

/// The versions that clients have seen or written.
#[derive(Default)]
struct MirrorObservations {
    /// The greatest version of each cell, and of the root.
    floors: [u64; ROOT + 1],
    /// The word of each version of each register, and of the root.
    words: HashMap<(u64, u64), u64>,
    acknowledged: u64,
    wrong: Option<String>,
}

impl MirrorObservations {
    fn blame(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Notes the word of a cell that was read after `floor` had been its greatest version.
    fn observe(&mut self, place: usize, floor: u64, word: u64) {
        if version(word) < floor {
            self.blame(format!("place {place}: {word:#x} after version {floor}"));
        }
        let register = place as u64 / 2;
        let first = *self.words.entry((register, version(word))).or_insert(word);
        if version(word) > 0 && first != word {
            self.blame(format!("place {place}: both {first:#x} and {word:#x}"));
        }
        self.floors[place] = self.floors[place].max(version(word));
    }

    fn acknowledge(&mut self, place: usize, word: u64) {
        self.acknowledged += 1;
        self.observe(place, 0, word);
    }
}

/// One operation of a client.
#[derive(Clone, Copy)]
struct MirrorOperation {
    place: usize,
    id: u64,
    kind: u32,
    /// The time for which a holder keeps the lock before it writes.
    pause: Duration,
}

impl MirrorOperation {
    fn draw(random: &mut SmallRng, id: u64) -> MirrorOperation {
        let micros = match random.random_bool(0.3) {
            true => random.random_range(0..700),
            false => 0,
        };
        MirrorOperation {
            place: random.random_range(0..=ROOT),
            id,
            kind: random.random_range(0..8),
            pause: Duration::from_micros(micros),
        }
    }
}

/// Writes a cell of a register under its lock, or finds that it need not. Returns false if the lock
/// was lost before.
async fn write(
    endpoint: &Mirror,
    redo: &Redo,
    operation: MirrorOperation,
    seen: &RefCell<MirrorObservations>,
) -> Result<bool, RedoError> {
    let (register, cell) = (operation.place as u64 / 2, operation.place as u64 % 2);
    let (lock, length) = (lock_of(register), 8 * cell_words(register));
    let mut locked = match redo.lock(endpoint, lock, &mut []).await? {
        RedoLockOutcome::Locked(locked) => locked,
        RedoLockOutcome::Forwarded(node) => panic!("{lock} is guarded by {node}"),
        RedoLockOutcome::Expired => panic!("{lock} was not taken over"),
    };
    let cells = [0, 1].map(|cell| cell_of(register, cell));
    if let PriorLockState::Abandoned(_) = locked.held.before {
        let ranges = cells.map(|cell| (cell, length as u64));
        let aligned = endpoint.align_replicas(locked.until(), lock, &ranges);
        if !aligned.await? {
            return Ok(false);
        }
    }
    let places = [0, 1].map(|cell| 2 * register as usize + cell);
    let floors = places.map(|place| seen.borrow().floors[place]);
    let mut found = [vec![0; length], vec![0; length]];
    let mut reads: Vec<FabricVerb<'_>> = cells
        .iter()
        .zip(&mut found)
        .map(|(&from, into)| FabricVerb::Read { from, into })
        .collect();
    endpoint.post(&mut reads).await?;
    drop(reads);
    if !locked.held.is_safe(endpoint) {
        return Ok(false);
    }
    let words = [0, 1].map(|cell| word_of(&found[cell]));
    for (number, bytes) in found.iter().enumerate() {
        if bytes.chunks(8).any(|word| word_of(word) != words[number]) {
            let what = format!("register {register} is torn: {bytes:?}");
            seen.borrow_mut().blame(what);
        }
        let (place, floor) = (places[number], floors[number]);
        seen.borrow_mut().observe(place, floor, words[number]);
    }
    let newest = version(words[0]).max(version(words[1]));
    if let PriorLockState::Free(bits) = locked.held.before
        && bits != newest
    {
        let what = format!("register {register}: version {newest}, but free with {bits}");
        seen.borrow_mut().blame(what);
    }
    endpoint.sleep(operation.pause).await;
    if operation.kind == 0 && locked.redone.is_none() {
        let free = newest.to_le_bytes();
        endpoint.write_unsignalled_by(locked.until(), lock, &free)?;
        return Ok(true);
    }
    let word = (newest + 1) << 32 | operation.id;
    let bytes = word.to_le_bytes().repeat(cell_words(register));
    let to = cell_of(register, cell);
    let free = (newest + 1).to_le_bytes();
    let unlock = FabricVerb::Write {
        to: lock,
        bytes: &free,
    };
    let change = FabricVerb::Write { to, bytes: &bytes };
    // A word needs no record.
    let is_done = if register == 0 {
        let mut verbs = [change, unlock];
        endpoint.post_by(locked.until(), &mut verbs).await?
    } else {
        let writes = [(to, &bytes[..])];
        let (slot, record) = locked.record(endpoint, &writes, &[]).await?;
        let record = FabricVerb::Write {
            to: slot,
            bytes: &record,
        };
        let until = locked.until();
        if to.node() == lock.node() {
            let mut verbs = [record, change, unlock];
            endpoint.post_by(until, &mut verbs).await?
        } else {
            if !endpoint.post_by(until, &mut [record]).await? {
                return Ok(false);
            }
            let is_done = endpoint.post_by(until, &mut [change]).await?
                && endpoint.post_by(until, &mut [unlock]).await?;
            if !is_done {
                // The client that takes the lock over completes the change.
                let node = lock.node();
                return Err(FabricError::NodeLost { node }.into());
            }
            true
        }
    };
    if is_done {
        locked.finish();
        seen.borrow_mut().acknowledge(operation.place, word);
    }
    Ok(is_done)
}

/// Swaps the root for its next version.
async fn swap(
    endpoint: &Mirror,
    operation: MirrorOperation,
    seen: &RefCell<MirrorObservations>,
) -> Result<bool, RedoError> {
    let floor = seen.borrow().floors[ROOT];
    let mut bytes = [0; 8];
    endpoint.read(root(), &mut bytes).await?;
    let before = u64::from_le_bytes(bytes);
    seen.borrow_mut().observe(ROOT, floor, before);
    endpoint.sleep(operation.pause / 8).await;
    let floor = seen.borrow().floors[ROOT];
    let after = (version(before) + 1) << 32 | operation.id;
    let found = endpoint.compare_swap(root(), before, after).await?;
    if found == before {
        seen.borrow_mut().acknowledge(ROOT, after);
    } else {
        seen.borrow_mut().observe(ROOT, floor, found);
    }
    Ok(found == before)
}

/// Reads a cell without its lock: the first word of it, which is atomic.
async fn look(
    endpoint: &Mirror,
    place: usize,
    seen: &RefCell<MirrorObservations>,
) -> Result<bool, RedoError> {
    let floor = seen.borrow().floors[place];
    let from = cell_of(place as u64 / 2, place as u64 % 2);
    let mut bytes = [0; 8];
    endpoint.read(from, &mut bytes).await?;
    let word = u64::from_le_bytes(bytes);
    seen.borrow_mut().observe(place, floor, word);
    Ok(true)
}

/// Makes operations one after the other. An operation that meets the loss of a node has an unknown
/// outcome, and the next one follows.
async fn work(
    endpoint: &Mirror,
    owner: u16,
    operations: Vec<MirrorOperation>,
    seen: &RefCell<MirrorObservations>,
) -> Result<(), RedoError> {
    let redo = loop {
        match Redo::open(endpoint, &directories(), owner, LEASE, &OPTIONS).await {
            Err(RedoError::Fabric(FabricError::NodeLost { node }))
                if endpoint.is_reachable(node) => {}
            other => break other?,
        }
    };
    for operation in operations {
        loop {
            let outcome = match (operation.place, operation.kind) {
                (ROOT, _) => swap(endpoint, operation, seen).await,
                (place, 1..=3) => look(endpoint, place, seen).await,
                _ => write(endpoint, &redo, operation, seen).await,
            };
            match outcome {
                Ok(true) | Err(RedoError::Fabric(FabricError::NodeLost { .. })) => break,
                Ok(false) => {}
                // Other clients finish the changes that this one has left.
                Err(RedoError::NoSlot { .. }) => endpoint.sleep(LEASE).await,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Runs clients that work and die, on pairs that lose at most one node each. Then others check the
/// data that are left. Returns the number of acknowledged writes.
fn run(seed: u64, delivery: Delivery, rules: MirrorRules) -> Result<u64, String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut simulation, nodes) =
        FabricSimulation::with_nodes(random.random(), delivery, [1 << 17; 4]);
    let mut losses = Vec::new();
    for pair in nodes.chunks(2) {
        if random.random_bool(0.8) {
            let life = random.random_range(0..3_u16);
            losses.push((life, pair[random.random_range(0..2_usize)]));
        }
    }
    let seen = Rc::new(RefCell::new(MirrorObservations::default()));
    for life in 0..3_u16 {
        for &(_, node) in losses.iter().filter(|(of, _)| *of == life) {
            let from = Duration::from_micros(random.random_range(0..8000));
            simulation.lose_node(node, simulation.now() + from);
        }
        for owner in 0..CLIENTS {
            let client = u32::from(life * CLIENTS + owner);
            if life < 2 && random.random_bool(0.6) {
                simulation.kill_at_verb(client, random.random_range(0..120));
            }
            let id = |number: u64| u64::from(client) << 8 | (number + 1);
            let operations: Vec<MirrorOperation> = match life {
                // All cells and the root are written once more.
                2 => (0..=ROOT as u64)
                    .map(|place| MirrorOperation {
                        place: place as usize,
                        id: id(place),
                        kind: 4,
                        pause: Duration::ZERO,
                    })
                    .collect(),
                _ => (0..OPERATIONS)
                    .map(|number| MirrorOperation::draw(&mut random, id(number)))
                    .collect(),
            };
            let endpoint = MirroredEndpoint {
                rules,
                ..MirroredEndpoint::new(simulation.endpoint(client), &PAIRS, LEASE)
            };
            let seen = Rc::clone(&seen);
            simulation.spawn(client, async move {
                if let Err(error) = work(&endpoint, owner, operations, &seen).await {
                    seen.borrow_mut().blame(error.to_string());
                }
            });
        }
        let end = simulation.now() + 200 * LEASE;
        let waiting = simulation.run_until(|now| now > end);
        if let Some(wrong) = seen.borrow_mut().wrong.take() {
            return Err(wrong);
        }
        if waiting > 0 {
            return Err(format!("{waiting} hang"));
        }
    }
    let acknowledged = seen.borrow().acknowledged;
    Ok(acknowledged)
}

#[test]
fn nothing_acknowledged_is_lost_with_a_node() {
    for delivery in [Delivery::Torn, Delivery::TornWords] {
        let (mut runs, mut acknowledged) = (0, 0);
        let failure = seeds::first_failure(1000, |seed| {
            acknowledged += run(seed, delivery, ALL_RULES)?;
            runs += 1;
            Ok::<(), String>(())
        });
        assert_eq!(failure, None, "{delivery:?}");
        // The five clients of the last life alone make seven writes each.
        assert!(acknowledged >= 30 * runs, "{acknowledged} in {runs} runs");
    }
}

fn is_found(rules: MirrorRules) -> bool {
    (0..4000).any(|seed| run(seed, Delivery::Torn, rules).is_err())
}

#[test]
fn writes_without_a_mirror_are_found() {
    assert!(is_found(MirrorRules {
        mirrors: false,
        ..ALL_RULES
    }));
}

#[test]
fn writes_that_the_primary_has_first_are_found() {
    assert!(is_found(MirrorRules {
        backup_first: false,
        ..ALL_RULES
    }));
}

#[test]
fn swaps_that_the_backup_does_not_decide_are_found() {
    assert!(is_found(MirrorRules {
        repeats_swaps: false,
        ..ALL_RULES
    }));
}

#[test]
fn locks_that_the_backup_does_not_see_are_found() {
    assert!(is_found(MirrorRules {
        sends_locks: false,
        ..ALL_RULES
    }));
}

#[test]
fn backups_that_take_over_at_once_are_found() {
    assert!(is_found(MirrorRules {
        waits: false,
        ..ALL_RULES
    }));
}

#[test]
fn replicas_that_stay_unequal_are_found() {
    assert!(is_found(MirrorRules {
        aligns: false,
        ..ALL_RULES
    }));
}

/// Lets a client die at a verb, and its owner's next life make another change. Then the primary is
/// lost, and a third client changes the first register. Returns the observation that is wrong.
fn run_next_life(rules: MirrorRules, seed: u64, verb: u64) -> Option<String> {
    let (mut simulation, _) = FabricSimulation::with_nodes(seed, Delivery::TornWords, [1 << 17; 4]);
    let seen = Rc::new(RefCell::new(MirrorObservations::default()));
    simulation.kill_at_verb(0, verb);
    for (client, owner, place) in [(0, 0, 2), (1, 0, 4), (2, 1, 2)] {
        if client == 2 {
            simulation.lose_node(PAIRS[0].primary, simulation.now());
        }
        let endpoint = MirroredEndpoint {
            rules,
            ..MirroredEndpoint::new(simulation.endpoint(client), &PAIRS, LEASE)
        };
        let operations = vec![MirrorOperation {
            place,
            id: u64::from(client) << 8 | 1,
            kind: 4,
            pause: Duration::ZERO,
        }];
        let observations = Rc::clone(&seen);
        simulation.spawn(client, async move {
            if let Err(error) = work(&endpoint, owner, operations, &observations).await {
                observations.borrow_mut().blame(error.to_string());
            }
        });
        assert_eq!(simulation.run(), 0);
    }
    seen.borrow_mut().wrong.take()
}

#[test]
fn records_that_only_the_backup_has_are_needed() {
    let blind = MirrorRules {
        searches: false,
        ..ALL_RULES
    };
    let mut is_torn = false;
    for (seed, verb) in (0..20).flat_map(|seed| (0..80).map(move |verb| (seed, verb))) {
        let wrong = run_next_life(ALL_RULES, seed, verb);
        assert_eq!(wrong, None, "seed {seed}, verb {verb}");
        is_torn |= run_next_life(blind, seed, verb).is_some();
    }
    assert!(is_torn);
}

/// Runs one client on all nodes.
fn alone<F: Future<Output = ()> + 'static>(
    prepare: impl FnOnce(&mut FabricSimulation),
    act: impl FnOnce(MirroredEndpoint<CountingEndpoint<SimEndpoint>>) -> F,
) -> FabricSimulation {
    let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 17; 4]);
    prepare(&mut simulation);
    let endpoint = CountingEndpoint::new(simulation.endpoint(0));
    let endpoint = MirroredEndpoint::new(endpoint, &PAIRS, LEASE);
    simulation.spawn(0, act(endpoint));
    assert_eq!(simulation.run(), 0);
    simulation
}

fn single(node: u16, offset: u64) -> GlobalAddress {
    GlobalAddress::new(NodeId(node), offset)
}

#[test]
fn a_change_costs_one_round_trip_more_and_a_read_none() {
    alone(
        |_| {},
        |endpoint| async move {
            let mut bytes = [0; 64];
            // The first post reads the view words, too.
            endpoint.read(at(0, 8192), &mut bytes).await.unwrap();
            endpoint.endpoint().take();
            endpoint.read(at(0, 8192), &mut bytes).await.unwrap();
            let read = endpoint.endpoint().take();
            assert_eq!((read.round_trips, read.messages), (1, 1));
            let locker = Locker::new(3, LEASE);
            let held = locker.lock(&endpoint, at(0, 8192)).await.unwrap();
            let mut verbs = [
                FabricVerb::Write {
                    to: at(0, 8256),
                    bytes: &[1; 64],
                },
                FabricVerb::Write {
                    to: at(0, 8192),
                    bytes: &[0; 8],
                },
            ];
            assert_eq!(endpoint.post_by(held.until(), &mut verbs).await, Ok(true));
            let change = endpoint.endpoint().take();
            // The lock; its word and the writes at the backup; the writes at the primary.
            assert_eq!((change.round_trips, change.messages), (3, 1 + 3 + 2));
            let held = locker.lock(&endpoint, at(0, 8192)).await.unwrap();
            let is_released = endpoint.write_unsignalled_by(held.until(), at(0, 8192), &[0; 8]);
            assert_eq!(is_released, Ok(true));
            // The backup has not seen this lock, so it need not see the release.
            let unchanged = endpoint.endpoint().take();
            assert_eq!((unchanged.round_trips, unchanged.messages), (1, 2));
        },
    );
}

#[test]
fn both_nodes_have_what_was_written_without_waiting() {
    let simulation = alone(
        |_| {},
        |endpoint| async move {
            endpoint.write_unsignalled(at(1, 8192), &[5; 8]).unwrap();
            let mut bytes = [0; 8];
            endpoint.read(at(1, 8192), &mut bytes).await.unwrap();
            assert_eq!(bytes, [5; 8]);
            assert_eq!(endpoint.add(at(0, 8192), 3).await, Ok(0));
            assert_eq!(endpoint.add(at(0, 8192), 4).await, Ok(3));
            let nowhere = endpoint.read(single(0, 8192), &mut bytes).await;
            assert_eq!(nowhere, Err(FabricError::NoSuchNode { node: NodeId(0) }));
            let beyond = endpoint.read(at(0, 1 << 17), &mut bytes).await;
            let (address, bytes, size) = (at(0, 1 << 17), 8, 1 << 17);
            let error = FabricError::OutOfRange {
                address,
                bytes,
                size,
            };
            assert_eq!(beyond, Err(error));
        },
    );
    for (node, word) in [(3, 0x0505_0505_0505_0505), (2, 0x0505_0505_0505_0505)] {
        assert_eq!(simulation.word(single(node, 8192)), word);
    }
    assert_eq!(simulation.word(single(0, 8192)), 7);
    assert_eq!(simulation.word(single(1, 8192)), 7);
}

#[test]
fn a_flush_makes_the_writes_that_were_put_off() {
    for flushes in [false, true] {
        let simulation = alone(
            |_| {},
            move |endpoint| async move {
                endpoint.write_unsignalled(at(0, 8192), &[5; 8]).unwrap();
                if flushes {
                    endpoint.flush().await.unwrap();
                }
            },
        );
        let word = if flushes { 0x0505_0505_0505_0505 } else { 0 };
        assert_eq!(simulation.word(single(0, 8192)), word);
        assert_eq!(simulation.word(single(1, 8192)), word);
    }
}

/// An endpoint whose posts take most of the time until which later ones may begin, as if the system
/// interrupted the client. Counts the sleeps of its user.
struct SlowEndpoint {
    endpoint: SimEndpoint,
    sleeps: Cell<u32>,
}

impl Endpoint for SlowEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    fn atomic_bytes(&self) -> u64 {
        self.endpoint.atomic_bytes()
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        self.endpoint.post(verbs).await?;
        self.endpoint.sleep(LEASE * 3 / 8).await;
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
        self.sleeps.set(self.sleeps.get() + 1);
        self.endpoint.sleep(time).await;
    }
}

/// A regression: a client whose posts took more than a quarter of a lease read the view words again
/// and again. Its other tasks slept meanwhile, which made the posts that slow in shared memory.
#[test]
fn a_slow_client_makes_deferred_writes_while_its_other_tasks_wait() {
    let (mut simulation, _) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 17; 4]);
    let slow = SlowEndpoint {
        endpoint: simulation.endpoint(0),
        sleeps: Cell::default(),
    };
    let endpoint = Rc::new(MirroredEndpoint::new(slow, &PAIRS, LEASE));
    for _ in 0..4 {
        let endpoint = Rc::clone(&endpoint);
        simulation.spawn(0, async move {
            endpoint.write_unsignalled(at(0, 8192), &[5; 8]).unwrap();
            endpoint.flush().await.unwrap();
        });
    }
    let end = simulation.now() + 50 * LEASE;
    assert_eq!(simulation.run_until(|now| now > end), 0);
    for node in 0..2 {
        assert_eq!(simulation.word(single(node, 8192)), 0x0505_0505_0505_0505);
    }
    assert_eq!(endpoint.endpoint().sleeps.get(), 0);
}

#[test]
fn a_change_whose_deadline_passes_between_its_posts_is_made() {
    let simulation = alone(
        |_| {},
        |endpoint| async move {
            let mut bytes = [0; 8];
            // Later posts need not read the view words, so they begin at once.
            endpoint.read(at(0, 8192), &mut bytes).await.unwrap();
            let mut verbs = [FabricVerb::Write {
                to: at(0, 8192),
                bytes: &[5; 8],
            }];
            let deadline = endpoint.now() + Duration::from_nanos(10);
            assert_eq!(endpoint.post_by(deadline, &mut verbs).await, Ok(true));
            assert!(endpoint.now() > deadline);
            assert_eq!(endpoint.post_by(deadline, &mut verbs).await, Ok(false));
        },
    );
    for node in 0..2 {
        assert_eq!(simulation.word(single(node, 8192)), 0x0505_0505_0505_0505);
    }
}

#[test]
fn a_swap_that_fails_lets_the_primary_follow() {
    let simulation = alone(
        |_| {},
        |endpoint| async move {
            let nodes = endpoint.endpoint();
            // A client has swapped 0 for 5 at the backup, and has died.
            nodes
                .write(single(1, 8192), &5_u64.to_le_bytes())
                .await
                .unwrap();
            assert_eq!(endpoint.compare_swap(at(0, 8192), 0, 6).await, Ok(5));
            assert_eq!(endpoint.compare_swap(at(0, 8192), 5, 7).await, Ok(5));
            assert_eq!(endpoint.compare_swap(at(0, 8192), 5, 8).await, Ok(7));
        },
    );
    assert_eq!(simulation.word(single(0, 8192)), 7);
    assert_eq!(simulation.word(single(1, 8192)), 7);
}

#[test]
fn memory_that_was_allocated_stays_so_after_the_loss_of_either_node() {
    for lost in 0..2 {
        let mut simulation = alone(
            |simulation| simulation.lose_node(NodeId(lost), Duration::from_millis(2)),
            move |endpoint| async move {
                let pair = PAIRS[0].number;
                let mut held = Vec::new();
                for round in 0..20 {
                    if round == 10 {
                        endpoint.free(held.remove(3), 5000).await.unwrap();
                        endpoint.sleep(Duration::from_millis(3)).await;
                        assert!(endpoint.is_reachable(pair));
                    }
                    held.push(endpoint.allocate(pair, 5000).await.unwrap());
                }
                held.sort();
                let apart = |pair: &[GlobalAddress]| pair[0].plus(5000) <= pair[1];
                assert!(held.windows(2).all(apart));
                for piece in held {
                    endpoint.free(piece, 5000).await.unwrap();
                }
                let view = [PairView::Backup, PairView::Primary][usize::from(lost)];
                assert_eq!(endpoint.view(pair), Ok(view));
            },
        );
        assert_eq!(simulation.run(), 0);
        assert_eq!(simulation.allocated_bytes(NodeId(1 - lost)), 0);
    }
}

#[test]
fn a_pair_without_nodes_is_lost() {
    alone(
        |simulation| {
            simulation.lose_node(NodeId(0), Duration::ZERO);
            simulation.lose_node(NodeId(1), Duration::ZERO);
        },
        |endpoint| async move {
            let node = PAIRS[0].number;
            let lost = Err(FabricError::NodeLost { node });
            for _ in 0..2 {
                assert_eq!(endpoint.write(at(0, 8192), &[1; 8]).await, lost);
            }
            assert!(!endpoint.is_reachable(node));
            // The other pair is not concerned.
            endpoint.write(at(1, 8192), &[1; 8]).await.unwrap();
        },
    );
}

/// Returns the outcome of a change under a lock of a primary that other clients have given up.
fn is_made(rules: MirrorRules) -> bool {
    let outcome = Rc::new(Cell::new(None));
    let noted = Rc::clone(&outcome);
    let simulation = alone(
        |_| {},
        move |endpoint| async move {
            let endpoint = MirroredEndpoint { rules, ..endpoint };
            let locker = Locker::new(3, LEASE);
            let held = locker.lock(&endpoint, at(0, 8192)).await.unwrap();
            // Another client has given the primary up, and has waited for a lease.
            let word = view_word(PAIRS[0].backup);
            let nodes = endpoint.endpoint();
            let alone = ViewWord::NEW.with(ViewKind::Alone).0;
            assert_eq!(nodes.compare_swap(word, 0, alone).await, Ok(0));
            endpoint.sleep(LEASE / 4).await;
            let mut verbs = [FabricVerb::Write {
                to: at(0, 8256),
                bytes: &[1; 8],
            }];
            let done = endpoint.post_by(held.until(), &mut verbs).await.unwrap();
            noted.set(Some(done));
            assert_eq!(is_alone(&*nodes, PAIRS[0].primary).await, Ok(false));
            assert_eq!(is_alone(&*nodes, PAIRS[0].backup).await, Ok(true));
            assert_eq!(endpoint.view(PAIRS[0].number), Ok(PairView::Backup));
            // A lock that is taken at the backup may be used.
            let held = locker.lock(&endpoint, at(0, 8192)).await.unwrap();
            let done = endpoint.post_by(held.until(), &mut verbs).await;
            assert_eq!(done, Ok(true));
        },
    );
    assert_eq!(simulation.word(single(0, 8256)), 0);
    outcome.get().expect("an outcome")
}

#[test]
fn changes_under_locks_that_the_backup_has_never_seen_are_refused() {
    assert!(!is_made(ALL_RULES));
    assert!(is_made(MirrorRules {
        refuses: false,
        ..ALL_RULES
    }));
}
