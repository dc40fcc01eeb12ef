//! The controller of a channel, which decides the command that is sent at each clock.
//!
//! A request is accepted into the queue of reads or the buffer of writes. A read is answered at
//! once if a write of its line waits, and merged if a read of its line does. At each clock, in this
//! order:
//!
//! 1. A rank that is due for refresh gets no other commands: its rows are closed, then it is
//!    refreshed.
//! 2. Otherwise the queues of the banks are checked in turn, beginning after the one that sent
//!    last, and the first command that its bank accepts is sent. With two command buses, a second
//!    one may follow if exactly one of the two is for a column.
//! 3. One request moves into the queue of its bank: the oldest one whose bank has room. Reads move,
//!    until the buffer of writes is full, or holds more than eight while nothing else waits. Then
//!    the writes move that it holds at that clock. A write of a line that waits to be read lets the
//!    reads go first.
//!
//! Between the clocks at which one of these can happen, nothing changes.

use super::bank::{BankQueue, BankRequest, NextBankCommand};
use super::device::{DramCommand, DramDevice};
use super::latencies::Latencies;
use super::map::DramLocation;
use super::pending::PendingLines;
use super::refresh::Refresh;
use super::report::{DramCommandCounts, DramRequestCounts};
use super::trace::DramAccess;
use super::{DramPagePolicy, DramParameters};

/// Number of writes that a channel holds back, even if it is otherwise idle.
const WRITES_HELD: usize = 8;

/// A command as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DramCommandRecord {
    /// A command to a bank, for this row.
    Bank(DramCommand, usize, u32),
    /// A refresh of all banks of a rank.
    Refresh(usize),
}

/// Observer of each command.
pub(super) trait DramCommandObserver {
    fn issued(&mut self, clock: u64, issued: DramCommandRecord);
}

impl DramCommandObserver for () {
    fn issued(&mut self, _: u64, _: DramCommandRecord) {}
}

/// A channel.
#[derive(Clone, Debug)]
pub(super) struct Channel<O = ()> {
    device: DramDevice,
    page: DramPagePolicy,
    dual_command: bool,
    transactions: usize,
    commands_per_bank: usize,

    reads: Vec<BankRequest>,
    writes: Vec<BankRequest>,
    /// Number of writes that move before reads do.
    draining: usize,
    /// True if a write waits for a read of its line that has not moved: the next request to move is
    /// a read.
    read_first: bool,
    pending: PendingLines,
    queues: Vec<BankQueue>,
    /// Number of entries in all queues.
    queued: usize,
    /// The clock before which each bank's queue has nothing to send.
    ready: Vec<u64>,
    /// The queue that sent last.
    turn: usize,
    refresh: Refresh,
    /// The clock at which a request may move.
    move_at: u64,

    /// The current clock: those before it have been executed.
    clock: u64,
    /// The clock before which nothing happens.
    next: u64,
    last_completion: u64,
    commands: DramCommandCounts,
    row_hits: u64,
    requests: DramRequestCounts,
    latencies: Latencies,
    /// The lines that were read, and the clocks of their data, if the caller wants them.
    answers: Option<Vec<DramReadCompletion>>,
    observer: O,
}

/// A line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramReadCompletion {
    /// The address of the line's first byte.
    pub line: u64,
    /// The clock at which all of its data has arrived.
    pub clock: u64,
}

impl<O: DramCommandObserver> Channel<O> {
    pub(super) fn new(parameters: &DramParameters, observer: O) -> Channel<O> {
        let banks = parameters.banks() as usize;
        let commands_per_bank = parameters.command_queue as usize;
        let refresh = Refresh::new(parameters);
        Channel {
            device: DramDevice::new(parameters),
            page: parameters.page,
            dual_command: parameters.dual_command,
            transactions: parameters.transaction_queue as usize,
            commands_per_bank,
            reads: Vec::new(),
            writes: Vec::new(),
            draining: 0,
            read_first: false,
            pending: PendingLines::default(),
            queues: vec![BankQueue::new(commands_per_bank); banks],
            queued: 0,
            ready: vec![u64::MAX; banks],
            turn: 0,
            next: refresh.next(),
            refresh,
            move_at: u64::MAX,
            clock: 0,
            last_completion: 0,
            commands: DramCommandCounts::default(),
            row_hits: 0,
            requests: DramRequestCounts::default(),
            latencies: Latencies::default(),
            answers: None,
            observer,
        }
    }

    /// Returns the current clock: those before it have been executed.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    pub(super) fn has_room(&self, access: DramAccess) -> bool {
        let waiting = match access {
            DramAccess::Read => self.reads.len(),
            DramAccess::Write => self.writes.len(),
        };
        waiting < self.transactions
    }

    /// Returns true if reads wait for their data.
    pub(super) fn has_reads(&self) -> bool {
        self.pending.has_reads()
    }

    /// Returns the clock at which the last request completes, of those whose data is on its way.
    pub(super) fn last_completion(&self) -> u64 {
        self.last_completion
    }

    /// Accepts a request at the current clock of the channel, which must have room.
    pub(super) fn submit(&mut self, address: u64, place: DramLocation, access: DramAccess) {
        debug_assert!(self.has_room(access));
        let clock = self.clock;
        let entry = BankRequest {
            address,
            bank: place.bank,
            row: place.row,
            column: place.column,
            write: access == DramAccess::Write,
        };
        match access {
            DramAccess::Write => {
                self.requests.writes += 1;
                // A write is complete for its sender once the controller has it.
                self.last_completion = self.last_completion.max(clock + 1);
                if !self.pending.add_write(address) {
                    self.requests.writes_merged += 1;
                    return;
                }
                self.writes.push(entry);
            }
            DramAccess::Read => {
                self.requests.reads += 1;
                if self.pending.is_written(address) {
                    self.requests.reads_merged += 1;
                    self.latencies.add(1);
                    // The data is in the buffer of writes, so the bank is not asked.
                    self.answer(address, clock + 1);
                    return;
                }
                if !self.pending.add_read(address, clock) {
                    self.requests.reads_merged += 1;
                    return;
                }
                self.reads.push(entry);
            }
        }
        // The request may move at this clock, although the channel had found nothing to do.
        self.move_at = clock;
        self.next = clock;
    }

    fn answer(&mut self, line: u64, clock: u64) {
        self.last_completion = self.last_completion.max(clock);
        if let Some(answers) = &mut self.answers {
            answers.push(DramReadCompletion { line, clock });
        }
    }

    /// Keeps results from now on for [`Channel::take_completions`].
    pub(super) fn keep_completions(&mut self) {
        self.answers.get_or_insert_default();
    }

    pub(super) fn take_completions(&mut self) -> impl Iterator<Item = DramReadCompletion> + '_ {
        self.answers
            .iter_mut()
            .flat_map(|answers| answers.drain(..))
    }

    /// Returns the clock at which something happens next, if a read waits or a result is kept.
    pub(super) fn next_of_reads(&self) -> Option<u64> {
        let is_kept = self.answers.as_ref().is_some_and(|kept| !kept.is_empty());
        match is_kept {
            true => Some(self.clock),
            false => self.has_reads().then_some(self.next),
        }
    }

    /// Executes the clocks before `until`.
    pub(super) fn advance(&mut self, until: u64) {
        while self.next < until {
            if self.is_idle() {
                // An idle channel would execute nothing but refreshes for as long as it waits.
                self.commands.refresh += self.refresh.skip(until);
                self.next = self.refresh.next();
                if self.next >= until {
                    break;
                }
            }
            let clock = self.next;
            self.tick(clock);
        }
        self.clock = self.clock.max(until);
    }

    /// Executes the clocks up to the next one at which something happens.
    pub(super) fn step(&mut self) {
        self.advance(self.next.saturating_add(1));
    }

    /// Returns true if nothing but refreshes happens, and all rows are closed.
    fn is_idle(&self) -> bool {
        self.queued == 0
            && self.move_at == u64::MAX
            && self.refresh.begun().is_none()
            && self.device.is_closed()
    }

    fn tick(&mut self, clock: u64) {
        debug_assert!(clock >= self.clock, "executed clocks do not come back");
        self.refresh.tick(clock);
        let sent = self
            .send_for_refresh(clock)
            .or_else(|| self.send(clock, None));
        // One bus is for rows, the other for columns.
        if let Some(is_column) = sent
            && self.dual_command
        {
            self.send(clock, Some(!is_column));
        }
        self.move_request(clock);
        self.next = self.next_after(clock);
        self.clock = clock + 1;
    }

    /// Sends a command of the refresh that has begun, if its rank accepts one. Then returns false,
    /// because it is never for a column.
    fn send_for_refresh(&mut self, clock: u64) -> Option<bool> {
        let rank = self.refresh.begin()?;
        // All rows of a rank must be closed before it is refreshed.
        let open = self.device.banks_of(rank).find(|bank| {
            self.device.open_row(*bank).is_some() && self.device.earliest_precharge(*bank) <= clock
        });
        if let Some(bank) = open {
            self.issue(DramCommand::Precharge, bank, 0, clock);
            return Some(false);
        }
        let earliest = self.device.earliest_refresh(rank)?;
        if earliest > clock {
            return None;
        }
        self.device.refresh(rank, clock);
        self.refresh.done();
        self.commands.refresh += 1;
        self.observer
            .issued(clock, DramCommandRecord::Refresh(rank));
        Some(false)
    }

    /// Sends the first command that a bank accepts, if `kind` is `None` or equals its kind, which
    /// is true for a column. Returns the kind, or `None` if nothing was sent. The turn always
    /// passes on.
    fn send(&mut self, clock: u64, kind: Option<bool>) -> Option<bool> {
        let blocked = self.refresh.begun();
        let banks = self.queues.len();
        let (mut bank, begin) = (self.turn, self.turn);
        loop {
            bank += 1;
            if bank == banks {
                bank = 0;
            }
            // A bank that can do nothing before a known clock is skipped without a look at its
            // queue.
            if self.ready[bank] <= clock && blocked != Some(self.device.rank_of(bank)) {
                match self.queues[bank].pick(bank, &self.device, clock) {
                    NextBankCommand::Later(earliest) => self.ready[bank] = earliest,
                    pick => {
                        self.turn = bank;
                        return self.execute(pick, bank, clock, kind);
                    }
                }
            }
            if bank == begin {
                return None;
            }
        }
    }

    fn execute(
        &mut self,
        pick: NextBankCommand,
        bank: usize,
        clock: u64,
        kind: Option<bool>,
    ) -> Option<bool> {
        let is_column = matches!(pick, NextBankCommand::Column(_));
        if kind.is_some_and(|kind| kind != is_column) {
            return None;
        }
        match pick {
            NextBankCommand::Activate(row) => self.issue(DramCommand::Activate, bank, row, clock),
            NextBankCommand::Precharge => self.issue(DramCommand::Precharge, bank, 0, clock),
            NextBankCommand::Column(index) => self.issue_column(index, bank, clock),
            NextBankCommand::Later(_) => return None,
        }
        Some(is_column)
    }

    fn issue_column(&mut self, index: usize, bank: usize, clock: u64) {
        let command = self.queues[bank].command(index, self.page);
        // The first column of a row is no hit: the row was opened for it.
        self.row_hits += u64::from(self.device.columns_since_open(bank) != 0);
        let entry = self.queues[bank].remove(index, &self.device);
        self.queued -= 1;
        if entry.write {
            self.commands.write += 1;
            self.pending.written(entry.address);
        } else {
            self.commands.read += 1;
            let data = clock + self.device.read_data();
            self.answer(entry.address, data);
            if let Some(readers) = self.pending.read(entry.address) {
                self.latencies.add(data - readers.first);
                // Reads that were merged get the same data, but were accepted later.
                for accepted in readers.more {
                    self.latencies.add(data - accepted);
                }
            }
        }
        self.issue(command, bank, entry.row, clock);
    }

    fn issue(&mut self, command: DramCommand, bank: usize, row: u32, clock: u64) {
        match command {
            DramCommand::Activate => self.commands.activate += 1,
            DramCommand::Precharge => self.commands.precharge += 1,
            _ => {}
        }
        self.device.issue(command, bank, row, clock);
        self.observer
            .issued(clock, DramCommandRecord::Bank(command, bank, row));
        self.queues[bank].settle(bank, &self.device);
        // The bank may accept other commands after this one, so it is looked at again.
        self.ready[bank] = 0;
    }

    fn move_request(&mut self, clock: u64) {
        let full = self.writes.len() >= self.transactions;
        let idle = self.queued == 0 && self.writes.len() > WRITES_HELD;
        // Writes move in groups, because each change of direction leaves the bus idle.
        if self.draining == 0 && (full || idle) && !self.read_first {
            self.draining = self.writes.len();
        }
        let waiting = match self.draining {
            0 => &mut self.reads,
            _ => &mut self.writes,
        };
        let room =
            |entry: &BankRequest| self.queues[entry.bank as usize].len() < self.commands_per_bank;
        // Requests move when a bank gets room, which is at a clock at which a command is sent to
        // it.
        self.move_at = u64::MAX;
        // A full bank does not hold up requests for others.
        let Some(index) = waiting.iter().position(room) else {
            return;
        };
        self.move_at = clock + 1;
        if self.draining > 0 {
            let address = waiting[index].address;
            if self.pending.is_read(address) {
                // If the read is in the queue of its bank, the writes wait until it has been sent.
                self.read_first = self.reads.iter().any(|read| read.address == address);
                self.draining = 0;
                return;
            }
            self.draining -= 1;
        }
        self.read_first = false;
        let entry = waiting.remove(index);
        let bank = entry.bank as usize;
        self.queues[bank].push(entry, &self.device);
        debug_assert!(self.queues[bank].len() <= self.commands_per_bank);
        self.queued += 1;
        self.ready[bank] = 0;
    }

    /// Returns the first clock after `clock` at which something can happen.
    fn next_after(&mut self, clock: u64) -> u64 {
        let mut next = self.refresh.next().min(self.move_at);
        let begun = self.refresh.begun();
        if let Some(rank) = begun {
            next = next.min(self.next_for_refresh(rank));
        }
        for bank in 0..self.queues.len() {
            // Only banks whose state has changed are asked again.
            if self.ready[bank] == 0 {
                let pick = self.queues[bank].pick(bank, &self.device, clock);
                self.ready[bank] = match pick {
                    NextBankCommand::Later(earliest) => earliest,
                    _ => clock,
                };
            }
            if begun.is_none() || begun != Some(self.device.rank_of(bank)) {
                next = next.min(self.ready[bank]);
            }
        }
        next.max(clock + 1)
    }

    fn next_for_refresh(&self, rank: usize) -> u64 {
        let open = self
            .device
            .banks_of(rank)
            .filter(|bank| self.device.open_row(*bank).is_some());
        // A rank with open rows waits for the first that can be closed. Then this is asked again.
        let closing = open.map(|bank| self.device.earliest_precharge(bank)).min();
        closing
            .or(self.device.earliest_refresh(rank))
            .unwrap_or(u64::MAX)
    }

    #[cfg(test)]
    pub(super) fn observer(&self) -> &O {
        &self.observer
    }

    pub(super) fn commands(&self) -> DramCommandCounts {
        self.commands
    }

    pub(super) fn row_hits(&self) -> u64 {
        self.row_hits
    }

    pub(super) fn requests(&self) -> DramRequestCounts {
        DramRequestCounts {
            writes_waiting: self.pending.writes() as u64,
            ..self.requests
        }
    }

    pub(super) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Returns the number of clocks so far in which a row of a rank was open, over all ranks.
    pub(super) fn active(&self) -> u64 {
        self.device.active(self.clock)
    }
}
