//! Which rank is to be refreshed, and when. The ranks of a channel take turns.

use super::Parameters;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(super) struct Refresh {
    ranks: usize,
    /// Between the refreshes of two ranks.
    interval: u64,
    /// When the next rank is due, and which one it is.
    next: u64,
    next_rank: usize,
    /// The ranks that are due.
    due: VecDeque<usize>,
    /// The first rank that is due gets no commands but those of its refresh.
    begun: bool,
}

impl Refresh {
    pub(super) fn new(parameters: &Parameters) -> Refresh {
        let interval = match parameters.t_refi {
            0 => u64::MAX,
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

    /// When the next rank is due.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// To be called at each clock at which something happens.
    pub(super) fn tick(&mut self, clock: u64) {
        if clock == self.next {
            self.due.push_back(self.next_rank);
            self.next_rank = (self.next_rank + 1) % self.ranks;
            self.next += self.interval;
        }
    }

    /// The rank whose refresh has begun, or begins now.
    pub(super) fn begin(&mut self) -> Option<usize> {
        let rank = self.due.front().copied();
        self.begun = rank.is_some();
        rank
    }

    /// The rank whose refresh has begun.
    pub(super) fn begun(&self) -> Option<usize> {
        self.due.front().copied().filter(|_| self.begun)
    }

    /// The rank whose refresh has begun is refreshed.
    pub(super) fn done(&mut self) {
        self.due.pop_front();
        self.begun = false;
    }

    /// Passes over as many whole rounds of refreshes as end well before `until`, of a channel that
    /// has nothing else to do, and answers how many refreshes these are.
    pub(super) fn skip(&mut self, until: u64) -> u64 {
        if self.interval == u64::MAX || !self.due.is_empty() {
            return 0;
        }
        let ranks = self.ranks as u64;
        let round = self.interval * ranks;
        // The last two rounds are executed, so that the banks end as they would.
        let rounds = (until.saturating_sub(self.next) / round).saturating_sub(2);
        self.next += rounds * round;
        rounds * ranks
    }
}
