//! The work of a compute process: YCSB's mixes, by several tasks at once, and checks of all reads.

use crate::journal::{Journal, Possible, ProcessHistory, ProcessJournalEntry, Written};
use crate::keys::{
    NUMBERS, TASKS, comes_and_goes, is_shared, key, nearest, scanned, value, version, version_of,
    writer,
};
use crate::turns::block_on_all;
use nearfield_fabric::{Endpoint, FabricError};
use nearfield_pool::chime::ChimeTree;
use nearfield_pool::{PoolError, PoolIndexClient};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Percentages of each mix: reads, updates, insertions, scans, removals.
const MIXES: [[u32; 5]; 6] = [
    [50, 50, 0, 0, 0],
    [95, 5, 0, 0, 0],
    [100, 0, 0, 0, 0],
    // D reads the last inserted keys.
    [95, 0, 5, 0, 0],
    [0, 0, 5, 95, 0],
    // This one is not YCSB's: nodes are merged, too.
    [10, 0, 45, 0, 45],
];
const LATEST: usize = 3;
/// Number of operations before a task takes the next mix, and before it checks if it must stop.
const TURN: u32 = 40;
/// Skew of YCSB.
const THETA: f64 = 0.99;
const SCAN_MAX: usize = 100;

pub struct PoolWorkerProcess<E> {
    pub number: u64,
    pub incarnation: u64,
    pub tree: ChimeTree<E>,
    /// The file that exists once the process must end.
    stop: PathBuf,
    journal: Journal,
    sequence: Cell<u64>,
    /// The possible values of the keys that this process writes.
    history: RefCell<ProcessHistory>,
    /// The latest version that was read of each key of others.
    seen: RefCell<HashMap<u64, u64>>,
    latest: Cell<u64>,
    longest: Cell<Duration>,
    operations: Cell<u64>,
    /// True if an operation that meets the loss of a node may fail, with an unknown outcome.
    outlives_nodes: bool,
}

impl<E: Endpoint> PoolWorkerProcess<E> {
    pub fn new(
        number: u64,
        incarnation: u64,
        tree: ChimeTree<E>,
        stop: PathBuf,
        journal: Journal,
        history: ProcessHistory,
        outlives_nodes: bool,
    ) -> PoolWorkerProcess<E> {
        PoolWorkerProcess {
            number,
            incarnation,
            tree,
            stop,
            journal,
            sequence: Cell::new(1),
            history: RefCell::new(history),
            seen: RefCell::default(),
            latest: Cell::new(1),
            longest: Cell::default(),
            operations: Cell::default(),
            outlives_nodes,
        }
    }

    /// Runs all tasks until they must stop.
    pub fn run(&self) {
        block_on_all((0..TASKS).map(|task| self.task(task)));
    }

    async fn task(&self, task: u64) {
        let seed = self.incarnation * 100 + self.number * 10 + task;
        let random = &mut SmallRng::seed_from_u64(seed);
        let mut mix = (self.incarnation + self.number) as usize;
        loop {
            if self.stop.exists() {
                return;
            }
            for _ in 0..TURN {
                let began = Instant::now();
                let done = self.operation(task, mix % MIXES.len(), random).await;
                match done {
                    Err(
                        PoolError::Fabric(FabricError::NodeLost { .. })
                        | PoolError::Undetermined(FabricError::NodeLost { .. }),
                    ) if self.outlives_nodes => {}
                    done => done.expect("the node lives"),
                }
                let took = began.elapsed();
                self.operations.set(self.operations.get() + 1);
                if took > self.longest.get() {
                    self.longest.set(took);
                }
            }
            self.journal.note(ProcessJournalEntry::Longest {
                nanoseconds: self.longest.get().as_nanos() as u64,
                operations: self.operations.get(),
            });
            mix += 1;
        }
    }

    async fn operation(
        &self,
        task: u64,
        mix: usize,
        random: &mut SmallRng,
    ) -> Result<(), PoolError> {
        let zipf = Zipf::new((NUMBERS / 2) as f64, THETA).expect("a distribution");
        let rank = (random.sample(zipf) as u64 - 1).min(NUMBERS / 2 - 1);
        let hot = match mix {
            LATEST => (self.latest.get() + NUMBERS - 2 * rank) % NUMBERS,
            // Hot keys are not neighbours.
            _ => 2 * (rank * 4_099 % (NUMBERS / 2)),
        };
        let mut dice = random.random_range(0..100);
        let mut kind = 0;
        while dice >= MIXES[mix][kind] {
            dice -= MIXES[mix][kind];
            kind += 1;
        }
        let anywhere = random.random_range(0..NUMBERS);
        match kind {
            0 => self.get(hot).await,
            1 if is_shared(hot) => self.put(hot).await,
            1 => self.put(nearest(hot, self.number, task)).await,
            2 => self.put(nearest(anywhere | 1, self.number, task)).await,
            3 => self.scan(hot, random.random_range(1..=SCAN_MAX)).await,
            _ => {
                let number = nearest(anywhere, self.number, task);
                if comes_and_goes(number) {
                    self.remove(number).await
                } else {
                    self.put(number).await
                }
            }
        }
    }

    fn next_version(&self) -> u64 {
        self.sequence.set(self.sequence.get() + 1);
        version(self.number, self.incarnation, self.sequence.get())
    }

    async fn put(&self, number: u64) -> Result<(), PoolError> {
        let version = self.next_version();
        self.journal
            .note(ProcessJournalEntry::Put { number, version });
        self.begin(number, version, Some(version));
        let (key, value) = (key(number), value(number, version));
        let before = self.tree.insert(&key, &value).await?;
        self.end(number, version, before);
        self.latest.set(number);
        Ok(())
    }

    async fn remove(&self, number: u64) -> Result<(), PoolError> {
        let version = self.next_version();
        self.journal
            .note(ProcessJournalEntry::Remove { number, version });
        self.begin(number, version, None);
        let before = self.tree.remove(&key(number)).await?;
        self.end(number, version, before);
        Ok(())
    }

    fn begin(&self, number: u64, version: u64, written: Written) {
        self.history.borrow_mut().begin(number, version, written);
    }

    /// Records an acknowledged write of this process, with the old value.
    fn end(&self, number: u64, version: u64, before: Option<Vec<u8>>) {
        self.journal
            .note(ProcessJournalEntry::Done { number, version });
        let before = before.map(|value| version_of(number, &value));
        if is_shared(number) {
            assert!(before.is_some(), "shared keys stay");
            return;
        }
        let mut history = self.history.borrow_mut();
        let mut earlier = history.of(number).clone();
        earlier.begun.retain(|(begun, _)| *begun != version);
        assert!(
            earlier.allows(before),
            "{number} was {before:x?} before {version:x}, and not of {earlier:x?}"
        );
        history.end(number, version);
    }

    async fn get(&self, number: u64) -> Result<(), PoolError> {
        let least = self.least(number);
        let mine = self.mine(number);
        let found = self.tree.get(&key(number)).await?;
        let found = found.map(|value| version_of(number, &value));
        assert!(
            found.is_some() || comes_and_goes(number),
            "{number} is missing"
        );
        // If its task has written meanwhile, its versions show it.
        if let Some(earlier) = mine
            && *self.history.borrow_mut().of(number) == earlier
        {
            assert!(
                earlier.allows(found),
                "{number} is {found:x?}, and not of {earlier:x?}"
            );
        }
        self.see(number, found, least);
        Ok(())
    }

    async fn scan(&self, from: u64, count: usize) -> Result<(), PoolError> {
        let least: Vec<u64> = (from..NUMBERS.min(from + 2 * count as u64))
            .map(|number| self.least(number))
            .collect();
        let entries = self.tree.scan(&key(from), count).await?;
        for (number, version) in scanned(&entries, from, count) {
            let least = least.get((number - from) as usize).copied();
            self.see(number, Some(version), least.unwrap_or_default());
        }
        Ok(())
    }

    /// Returns the possible values of a key that only this process writes.
    fn mine(&self, number: u64) -> Option<Possible> {
        let is_mine = !is_shared(number) && writer(number).0 == self.number;
        is_mine.then(|| self.history.borrow_mut().of(number).clone())
    }

    /// Returns the minimum version that a key of others had before now.
    fn least(&self, number: u64) -> u64 {
        self.seen.borrow().get(&number).copied().unwrap_or_default()
    }

    fn see(&self, number: u64, found: Written, least: u64) {
        // Versions of shared keys are in no order.
        let Some(version) = found.filter(|_| !is_shared(number)) else {
            return;
        };
        assert!(
            version >= least,
            "{number} was {least:x} and is {version:x}"
        );
        let mut seen = self.seen.borrow_mut();
        let latest = seen.entry(number).or_default();
        *latest = version.max(*latest);
    }
}
