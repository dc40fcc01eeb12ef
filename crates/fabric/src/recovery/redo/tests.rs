//! Registers of several lines under locks, whose writers die.

use super::*;
use crate::recovery::lease::PriorLockState;
use crate::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::rc::Rc;

const LEASE: Duration = Duration::from_millis(1);
const REGISTERS: u64 = 3;
const REGISTER_BYTES: u64 = 512;
/// Length of a value: more than three lines, from the middle of a word on.
const VALUE_BYTES: usize = 200;
const OPTIONS: RedoOptions = RedoOptions {
    owners: 16,
    slots: 1,
    slot_bytes: 512,
};
const CLIENTS: u16 = 5;
const OPERATIONS: usize = 6;

fn directory(node: u16) -> GlobalAddress {
    GlobalAddress::new(NodeId(node), 512)
}

fn lock_of(register: u64) -> GlobalAddress {
    GlobalAddress::new(NodeId(0), 1024 + register * REGISTER_BYTES)
}

/// Returns the addresses of a register's value. The last register has its value on two nodes.
fn values_of(register: u64) -> Vec<GlobalAddress> {
    let offset = lock_of(register).offset() + 68;
    let nodes = 0..if register + 1 == REGISTERS { 2 } else { 1 };
    nodes
        .map(|node| GlobalAddress::new(NodeId(node), offset))
        .collect()
}

/// A variant of a writer, right or wrong.
#[derive(Clone, Copy)]
struct RedoWriterVariant {
    recorded: Recorded,
    /// True if the record is written before the change.
    first: bool,
    /// True if a client that takes over copies the record.
    again: bool,
}

const RIGHT: RedoWriterVariant = RedoWriterVariant {
    recorded: record::of_acquisition,
    first: true,
    again: true,
};

/// The content of a register: the number of its writes, and the last write.
type Value = (u64, u64);

fn bytes_of(value: Value) -> Vec<u8> {
    let words = [value.0, value.1].map(u64::to_le_bytes).concat();
    words.iter().copied().cycle().take(VALUE_BYTES).collect()
}

/// The acknowledged values of each register, and the faults.
#[derive(Default)]
struct RedoObservations {
    acknowledged: [Vec<Value>; REGISTERS as usize],
    wrong: Option<String>,
    redone: u64,
}

impl RedoObservations {
    fn blame(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Checks the data that a holder of the lock finds.
    fn check(&mut self, register: u64, found: &[Vec<u8>], locked: &RedoLockGuard<'_>) -> Value {
        let words = found[0].as_chunks::<8>().0;
        let value = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        if found.iter().any(|bytes| *bytes != bytes_of(value)) {
            self.blame(format!("register {register} is torn: {found:?}"));
        }
        if let PriorLockState::Free(bits) = locked.held.before
            && bits != value.0
        {
            self.blame(format!(
                "register {register}: {value:?}, but free with {bits}"
            ));
        }
        if let Some(record) = &locked.redone {
            self.redone += 1;
            if record.note != value.1.to_le_bytes() {
                self.blame(format!("register {register}: {value:?} after {record:?}"));
            }
        }
        let lost =
            |&&(version, id): &&Value| version > value.0 || version == value.0 && id != value.1;
        let acknowledged = &self.acknowledged[register as usize];
        if let Some(lost) = acknowledged.iter().find(lost) {
            self.blame(format!("register {register}: {value:?} after {lost:?}"));
        }
        value
    }
}

/// Makes one write of a register, of `id`. Returns false if the lock was lost meanwhile.
async fn write(
    endpoint: &SimEndpoint,
    redo: &Redo,
    way: RedoWriterVariant,
    register: u64,
    id: u64,
    seen: &RefCell<RedoObservations>,
) -> Result<bool, RedoError> {
    let (lock, values) = (lock_of(register), values_of(register));
    let mut locked = if way.again {
        match redo.lock(endpoint, lock, &mut []).await? {
            RedoLockOutcome::Locked(locked) => locked,
            RedoLockOutcome::Forwarded(node) => panic!("{lock} is guarded by {node}"),
            RedoLockOutcome::Expired => panic!("{lock} was not taken over"),
        }
    } else {
        lock_forgetfully(endpoint, redo, lock).await?
    };
    let mut found = vec![vec![0; VALUE_BYTES]; values.len()];
    let reads = values.iter().zip(&mut found);
    let mut reads: Vec<_> = reads
        .map(|(&from, into)| FabricVerb::Read { from, into })
        .collect();
    endpoint.post(&mut reads).await?;
    if !locked.held.is_safe(endpoint) {
        return Ok(false);
    }
    let (version, _) = seen.borrow_mut().check(register, &found, &locked);
    let value = (version + 1, id);
    let bytes = bytes_of(value);
    let writes: Vec<_> = values.iter().map(|to| (*to, &bytes[..])).collect();
    let (to, record) = locked.record(endpoint, &writes, &id.to_le_bytes()).await?;
    let mut record = vec![FabricVerb::Write { to, bytes: &record }];
    let mut change: Vec<_> = writes
        .iter()
        .map(|&(to, bytes)| FabricVerb::Write { to, bytes })
        .collect();
    let free = value.0.to_le_bytes();
    let unlock = FabricVerb::Write {
        to: lock,
        bytes: &free,
    };
    if !way.first {
        std::mem::swap(&mut record, &mut change);
    }
    if values.len() == 1 {
        record.append(&mut change);
        record.push(unlock);
        endpoint.post(&mut record).await?;
    } else {
        endpoint.post(&mut record).await?;
        endpoint.post(&mut change).await?;
        endpoint.post(&mut [unlock]).await?;
    }
    locked.finish();
    seen.borrow_mut().acknowledged[register as usize].push(value);
    Ok(true)
}

/// Takes a lock, or takes it over, without copying the record to redo.
async fn lock_forgetfully<'r>(
    endpoint: &SimEndpoint,
    redo: &'r Redo,
    lock: GlobalAddress,
) -> Result<RedoLockGuard<'r>, RedoError> {
    let held = redo.locker.lock(endpoint, lock).await?;
    let mut locked = redo.locked(lock, held);
    if let PriorLockState::Abandoned(word) = held.before {
        locked.redone = redo.find(endpoint, lock.node(), word).await?;
        for (to, bytes) in locked.redone.iter().flat_map(|record| &record.writes) {
            endpoint.write(*to, bytes).await?;
        }
    }
    Ok(locked)
}

/// Runs many clients that write all registers and die; twice, the second time with the numbers of
/// the first. Returns the number of redone changes.
fn run(seed: u64, delivery: Delivery, way: RedoWriterVariant) -> Result<u64, String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut simulation, _) = FabricSimulation::with_nodes(random.random(), delivery, [1 << 17; 2]);
    let seen = Rc::new(RefCell::new(RedoObservations::default()));
    for life in 0..3_u16 {
        for owner in 0..CLIENTS {
            let client = u32::from(life * CLIENTS + owner);
            if life < 2 && random.random_bool(0.7) {
                simulation.kill_at_verb(client, random.random_range(0..60));
            }
            let registers = (0..OPERATIONS).map(|_| random.random_range(0..REGISTERS));
            // The clients of the last life check the data that the others have left.
            let registers: Vec<u64> = match life {
                2 => (0..REGISTERS).collect(),
                _ => registers.collect(),
            };
            let (endpoint, seen) = (simulation.endpoint(client), Rc::clone(&seen));
            simulation.spawn(client, async move {
                let done = async {
                    let directories = [directory(0), directory(1)];
                    let redo = Redo::open(&endpoint, &directories, owner, LEASE, &OPTIONS);
                    let redo = Redo {
                        recorded: way.recorded,
                        ..redo.await?
                    };
                    let unfinished = redo.unfinished().into_iter();
                    let unfinished = unfinished
                        .map(|lock| (lock.offset() - lock_of(0).offset()) / REGISTER_BYTES);
                    for (number, register) in unfinished.chain(registers).enumerate() {
                        let id = u64::from(client) << 32 | (number as u64 + 1);
                        while !write(&endpoint, &redo, way, register, id, &seen).await? {}
                    }
                    Ok::<(), RedoError>(())
                };
                if let Err(error) = done.await {
                    seen.borrow_mut().blame(error.to_string());
                }
            });
        }
        let end = simulation.now() + 100 * LEASE;
        let waiting = simulation.run_until(|now| now > end);
        if waiting > 0 {
            return Err(format!("{waiting} hang"));
        }
    }
    let mut seen = seen.borrow_mut();
    match seen.wrong.take() {
        Some(wrong) => Err(wrong),
        None => Ok(seen.redone),
    }
}

#[test]
fn words_of_a_directory_that_name_no_region_are_none() {
    let word =
        |slots: u64, lines: u64, line: u64| slots << SLOTS_SHIFT | lines << LINES_SHIFT | line;
    let last = (1 << LINES_SHIFT) - 1;
    for wrong in [
        0,
        u64::MAX,
        word(0, 1, 1),
        word(1, 0, 1),
        word(1, 1, last),
        word(63, (1 << 16) - 1, last),
        word(1, SLOT_LINES_MAX + 1, 1),
    ] {
        assert!(RedoRegion::of(wrong, NodeId(1)).is_none(), "{wrong:#x}");
    }
    let right = word(1, 1, last - 1);
    assert_eq!(RedoRegion::of(right, NodeId(1)).unwrap().word(), right);
}

#[test]
fn registers_are_whole_whoever_dies_when() {
    for delivery in [Delivery::Torn, Delivery::TornWords] {
        let (mut runs, mut redone) = (0, 0);
        let failure = seeds::first_failure(100, |seed| {
            redone += run(seed, delivery, RIGHT)?;
            runs += 1;
            Ok::<(), String>(())
        });
        assert_eq!(failure, None, "{delivery:?}");
        assert!(redone > runs / 4, "{redone} in {runs} runs");
    }
}

fn is_found(way: RedoWriterVariant) -> bool {
    (0..500).any(|seed| run(seed, Delivery::Torn, way).is_err())
}

#[test]
fn records_that_come_after_the_change_are_found() {
    assert!(is_found(RedoWriterVariant {
        first: false,
        ..RIGHT
    }));
}

#[test]
fn records_whose_checksums_nobody_checks_are_found() {
    fn recorded(slot: &[u8], node: NodeId, word: u64) -> Option<RedoRecord> {
        let place = u64::from_le_bytes(*slot.get(16..)?.first_chunk()?);
        let length = place as usize & record::RECORD_BYTES_MAX;
        let record = record::parse(slot.get(..length)?, node);
        record.filter(|record| record.word == word)
    }
    assert!(is_found(RedoWriterVariant { recorded, ..RIGHT }));
}

#[test]
fn records_of_older_acquisitions_are_found() {
    let recorded = |slot: &[u8], node, _| RedoRecord::decode(slot, node);
    assert!(is_found(RedoWriterVariant { recorded, ..RIGHT }));
}

#[test]
fn records_that_nobody_writes_down_again_are_found() {
    assert!(is_found(RedoWriterVariant {
        again: false,
        ..RIGHT
    }));
}
