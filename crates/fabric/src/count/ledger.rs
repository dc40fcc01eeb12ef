//! Counters of the clients of a process, which any thread may sum.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of counters in a line.
pub(super) const LINE_COUNTERS: usize = 8;

/// Counters in a line of the processor's cache, which no other client changes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct CounterLine([AtomicU64; LINE_COUNTERS]);

/// The counters of all clients of a process, by number.
///
/// Each client adds to counters of its own. So it takes no lock, executes no locked instruction,
/// and writes no line that another thread writes.
///
/// ```
/// use nearfield_fabric::count::CounterLedger;
/// use std::sync::Arc;
///
/// let ledger = Arc::new(CounterLedger::default());
/// let (one, other) = (ledger.client(3), ledger.client(3));
/// one.add(2, 5);
/// other.add(2, 1);
/// drop(other);
/// assert_eq!(ledger.sum(2), 6);
/// ```
#[derive(Debug, Default)]
pub struct CounterLedger(Mutex<LedgerEntries>);

#[derive(Debug, Default)]
struct LedgerEntries {
    clients: Vec<Arc<[CounterLine]>>,
    /// The sums of the clients that have ended.
    ended: Vec<u64>,
}

impl CounterLedger {
    fn entries(&self) -> MutexGuard<'_, LedgerEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters of a new client, with the numbers below `counters`.
    pub fn client(self: &Arc<CounterLedger>, counters: usize) -> ClientCounters {
        let lines = 0..counters.div_ceil(LINE_COUNTERS);
        let lines: Arc<[CounterLine]> = lines.map(|_| CounterLine::default()).collect();
        self.entries().clients.push(Arc::clone(&lines));
        ClientCounters {
            lines,
            ledger: Arc::clone(self),
            single: PhantomData,
        }
    }

    /// Returns the sum of a counter over all clients, those that have ended included.
    pub fn sum(&self, counter: usize) -> u64 {
        self.sums().get(counter).copied().unwrap_or(0)
    }

    /// Returns the sums of all counters. Those behind the last one are 0.
    pub fn sums(&self) -> Vec<u64> {
        let entries = self.entries();
        let mut sums = entries.ended.clone();
        for lines in &entries.clients {
            add_lines(&mut sums, lines);
        }
        sums
    }
}

/// Adds the counters of a client to sums.
fn add_lines(sums: &mut Vec<u64>, lines: &[CounterLine]) {
    let count = sums.len().max(lines.len() * LINE_COUNTERS);
    sums.resize(count, 0);
    let counters = lines.iter().flat_map(|line| &line.0);
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum = sum.wrapping_add(counter.load(Relaxed));
    }
}

/// The counters of one client in a [`CounterLedger`].
#[derive(Debug)]
pub struct ClientCounters {
    lines: Arc<[CounterLine]>,
    ledger: Arc<CounterLedger>,
    /// Threads must not share it: each would lose additions of the others.
    single: PhantomData<Cell<()>>,
}

impl ClientCounters {
    /// Adds to a counter. Does nothing if the client has no such counter.
    pub fn add(&self, counter: usize, count: u64) {
        let line = self.lines.get(counter / LINE_COUNTERS);
        if let Some(CounterLine(counters)) = line {
            let counter = &counters[counter % LINE_COUNTERS];
            // No other thread adds between the load and the store.
            counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
        }
    }
}

impl Drop for ClientCounters {
    fn drop(&mut self) {
        let mut entries = self.ledger.entries();
        let LedgerEntries { clients, ended } = &mut *entries;
        let own = |lines: &Arc<[CounterLine]>| Arc::ptr_eq(lines, &self.lines);
        if let Some(number) = clients.iter().position(own) {
            clients.swap_remove(number);
        }
        add_lines(ended, &self.lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn each_addition_of_each_client_is_in_the_sum() {
        const CLIENTS: u64 = 8;
        const ADDITIONS: u64 = 10_000;
        let ledger = Arc::new(CounterLedger::default());
        let stays = ledger.client(20);
        stays.add(19, 1);
        // A client does not have the counters behind its last line.
        let few = ledger.client(3);
        few.add(19, 1);
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let ledger = &ledger;
                scope.spawn(move || {
                    let client = ledger.client(20);
                    for _ in 0..ADDITIONS {
                        client.add(3, 1);
                        client.add(19, number);
                    }
                });
            }
            let mut last = 0;
            for _ in 0..100 {
                // A client that ends is neither left out nor counted twice.
                let sum = ledger.sum(3);
                assert!(last <= sum && sum <= CLIENTS * ADDITIONS, "{last} {sum}");
                last = sum;
            }
        });
        let sums = ledger.sums();
        assert_eq!(sums[3], CLIENTS * ADDITIONS);
        let numbers: u64 = (0..CLIENTS).sum();
        assert_eq!(sums[19], 1 + numbers * ADDITIONS);
        assert_eq!(sums.iter().filter(|&&sum| sum > 0).count(), 2);
        assert_eq!(ledger.sum(1000), 0);
        drop((stays, few));
        assert_eq!(ledger.sums(), sums);
        assert!(
            ledger.entries().clients.is_empty(),
            "ended clients are kept"
        );
    }
}
