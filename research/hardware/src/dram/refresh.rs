//! The choice of the rank to refresh, and of the time. The ranks of a channel take turns.

use super::DramParameters;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(super) struct Refresh {
    ranks: usize,
    /// Time between the refreshes of two ranks.
    interval: u64,
    /// The clock at which the next rank is due, and that rank.
    next: u64,
    next_rank: usize,
    /// The ranks that are due.
    due: VecDeque<usize>,
    /// True if the first rank that is due gets only the commands of its refresh.
    begun: bool,
}

impl Refresh {
    pub(super) fn new(parameters: &DramParameters) -> Refresh {
        let interval = match parameters.t_refi {
            0 => u64::MAX,
            // The ranks are refreshed one after another, so that the others can work meanwhile.
            interval => interval / u64::from(parameters.ranks),
        };
        Refresh {
            ranks: parameters.ranks as usize,
            interval,
            next: interval,
            next_rank: 0,
            due: VecDeque::new(),
            begun: false,
        }
    }

    /// Returns the clock at which the next rank is due.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Updates the ranks that are due. Call it at each clock at which something happens.
    pub(super) fn tick(&mut self, clock: u64) {
        debug_assert!(clock <= self.next, "no refresh is passed over");
        if clock == self.next {
            self.due.push_back(self.next_rank);
            self.next_rank = (self.next_rank + 1) % self.ranks;
            self.next += self.interval;
        }
    }

    /// Returns the rank whose refresh has begun, or begins now.
    pub(super) fn begin(&mut self) -> Option<usize> {
        let rank = self.due.front().copied();
        self.begun = rank.is_some();
        rank
    }

    /// Returns the rank whose refresh has begun.
    pub(super) fn begun(&self) -> Option<usize> {
        self.due.front().copied().filter(|_| self.begun)
    }

    /// Records that the rank whose refresh has begun has been refreshed.
    pub(super) fn done(&mut self) {
        debug_assert!(self.begun);
        self.due.pop_front();
        self.begun = false;
    }

    /// Skips all whole rounds of refreshes that end well before `until`, for a channel that has
    /// nothing else to do. Returns the number of these refreshes.
    pub(super) fn skip(&mut self, until: u64) -> u64 {
        if self.interval == u64::MAX || !self.due.is_empty() {
            return 0;
        }
        let ranks = self.ranks as u64;
        // Whole rounds keep the turn of the ranks.
        let round = self.interval * ranks;
        // The last two rounds are executed, so that the banks have the same state as without
        // skipping.
        let rounds = (until.saturating_sub(self.next) / round).saturating_sub(2);
        self.next += rounds * round;
        rounds * ranks
    }
}
