//! The queue of a bank: reads and writes that wait for their row and column.

use super::device::{DramCommand, DramDevice};
use super::parameters::DramPagePolicy;

/// A read or write of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct BankRequest {
    pub(super) address: u64,
    pub(super) bank: u32,
    pub(super) row: u32,
    pub(super) column: u32,
    pub(super) write: bool,
}

/// The maximum number of reads or writes of an open row while another row of the bank waits.
const COLUMNS_MAX: u32 = 4;

/// The next command for a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextBankCommand {
    /// The command that opens the row of the oldest entry.
    Activate(u32),
    /// The command that closes the open row for the oldest entry.
    Precharge,
    /// The command for this entry, which is in the open row.
    Column(usize),
    /// No command before this clock.
    Later(u64),
}

/// The entries of a bank, the oldest first, and the commands that are possible while neither they
/// nor the bank's row change.
#[derive(Clone, Debug)]
pub(super) struct BankQueue {
    entries: Vec<BankRequest>,
    /// The oldest entry of the open row that is a read, and the oldest that is a write.
    read: Option<usize>,
    write: Option<usize>,
    /// True if the open row may be closed.
    close: bool,
}

impl BankQueue {
    pub(super) fn new(capacity: usize) -> BankQueue {
        BankQueue {
            entries: Vec::with_capacity(capacity),
            read: None,
            write: None,
            close: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn push(&mut self, entry: BankRequest, device: &DramDevice) {
        self.entries.push(entry);
        self.settle(entry.bank as usize, device);
    }

    pub(super) fn remove(&mut self, index: usize, device: &DramDevice) -> BankRequest {
        let entry = self.entries.remove(index);
        self.settle(entry.bank as usize, device);
        entry
    }

    /// Updates the queue. Call it when the bank's row, or the number of its columns, has changed.
    pub(super) fn settle(&mut self, bank: usize, device: &DramDevice) {
        (self.read, self.write, self.close) = (None, None, false);
        let Some(row) = device.open_row(bank) else {
            return;
        };
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.row != row {
                continue;
            }
            if !entry.write {
                self.read.get_or_insert(index);
            // A write that overtook the read of its line would change what the read returns.
            } else if self.write.is_none() && !self.follows_read(index) {
                self.write = Some(index);
            }
        }
        let hits = self.entries.iter().any(|entry| entry.row == row);
        let waits = self.entries.first().is_some_and(|entry| entry.row != row);
        // Hits are served first because they need no row. The limit keeps them from starving the
        // oldest entry.
        self.close = waits && (!hits || device.columns_since_open(bank) >= COLUMNS_MAX);
    }

    /// Returns true if an older entry reads the line that the entry at `index` writes.
    fn follows_read(&self, index: usize) -> bool {
        let place = |entry: &BankRequest| (entry.row, entry.column);
        let mut older = self.entries.iter().take(index);
        let written = self.entries.get(index).map(place);
        older.any(|entry| !entry.write && Some(place(entry)) == written)
    }

    /// Returns the first command, in the order of the entries, that the bank accepts at `clock`.
    #[inline]
    pub(super) fn pick(&self, bank: usize, device: &DramDevice, clock: u64) -> NextBankCommand {
        let Some(oldest) = self.entries.first() else {
            return NextBankCommand::Later(u64::MAX);
        };
        if device.open_row(bank).is_none() {
            let earliest = device.earliest_activate(bank);
            return match earliest <= clock {
                true => NextBankCommand::Activate(oldest.row),
                false => NextBankCommand::Later(earliest),
            };
        }
        let mut later = u64::MAX;
        // The oldest entry waits for another row, so closing the row comes before further hits.
        if self.close {
            let earliest = device.earliest_precharge(bank);
            if earliest <= clock {
                return NextBankCommand::Precharge;
            }
            later = earliest;
        }
        let mut found = None;
        if let Some(index) = self.read {
            let earliest = device.earliest_read(bank);
            match earliest <= clock {
                true => found = Some(index),
                false => later = later.min(earliest),
            }
        }
        if let Some(index) = self.write {
            let earliest = device.earliest_write(bank);
            match earliest <= clock {
                true => found = Some(found.map_or(index, |other: usize| other.min(index))),
                false => later = later.min(earliest),
            }
        }
        // The clock is the earliest of all commands that are possible, so that the bank is not
        // looked at before.
        found.map_or(NextBankCommand::Later(later), NextBankCommand::Column)
    }

    /// Returns the command for an entry that was picked.
    pub(super) fn command(&self, index: usize, page: DramPagePolicy) -> DramCommand {
        let write = self.entries.get(index).is_some_and(|entry| entry.write);
        match (write, page) {
            (false, DramPagePolicy::Open) => DramCommand::Read,
            (true, DramPagePolicy::Open) => DramCommand::Write,
            (false, DramPagePolicy::Closed) => DramCommand::ReadAndPrecharge,
            (true, DramPagePolicy::Closed) => DramCommand::WriteAndPrecharge,
        }
    }
}
