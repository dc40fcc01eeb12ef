//! The banks of a channel: the commands that they accept, and the earliest clocks.
//!
//! The device has no clock: it is an argument. Each constraint is a maximum over the effects of
//! earlier commands, stored where it applies: at a bank, at a group of banks, at a rank.

use super::DramParameters;
use super::gaps::Gaps;

/// A command to a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DramCommand {
    /// Opens a row.
    Activate,
    /// Closes the open row.
    Precharge,
    /// Reads a line of the open row.
    Read,
    /// Writes a line of the open row.
    Write,
    /// Reads a line and closes the row.
    ReadAndPrecharge,
    /// Writes a line and closes the row.
    WriteAndPrecharge,
}

impl DramCommand {
    /// Returns true if it is for a column of an open row.
    pub fn is_column(self) -> bool {
        !matches!(self, DramCommand::Activate | DramCommand::Precharge)
    }
}

/// The banks of a channel.
#[derive(Clone, Debug)]
pub struct DramDevice {
    gaps: Gaps,
    banks: Vec<DramBank>,
    groups: Vec<Columns>,
    ranks: Vec<Rank>,
    banks_per_group: usize,
    banks_per_rank: usize,
}

/// The value for no row: rows are counted up to 2^24.
const CLOSED: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct DramBank {
    row: u32,
    /// Number of reads and writes of the row since it was opened.
    columns: u32,
    // The earliest clock of each command, as far as it depends on this bank.
    activate: u64,
    precharge: u64,
    read: u64,
    write: u64,
    refresh: u64,
}

/// The additional constraints of a group, or of a rank.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    activate: u64,
    read: u64,
    write: u64,
}

#[derive(Clone, Debug, Default)]
struct Rank {
    columns: Columns,
    /// The clocks at which each of the last four activations leaves the window, the oldest at
    /// `oldest`.
    window: [u64; 4],
    oldest: usize,
    open: u32,
    /// The number of clocks in which a row was open, and the clock since which one is.
    active: u64,
    since: u64,
}

fn raise(clock: &mut u64, to: u64) {
    *clock = (*clock).max(to);
}

impl DramDevice {
    /// Creates a device whose rows are closed, and which accepts every command from clock 0.
    pub fn new(parameters: &DramParameters) -> DramDevice {
        let banks_per_group = parameters.banks_per_group as usize;
        let banks = parameters.banks() as usize;
        let bank = DramBank {
            row: CLOSED,
            columns: 0,
            activate: 0,
            precharge: 0,
            read: 0,
            write: 0,
            refresh: 0,
        };
        DramDevice {
            gaps: Gaps::new(parameters),
            banks: vec![bank; banks],
            groups: vec![Columns::default(); banks / banks_per_group],
            ranks: vec![Rank::default(); parameters.ranks as usize],
            banks_per_group,
            banks_per_rank: banks / parameters.ranks as usize,
        }
    }

    /// Returns the open row of a bank.
    pub fn open_row(&self, bank: usize) -> Option<u32> {
        Some(self.banks[bank].row).filter(|row| *row != CLOSED)
    }

    /// Returns the number of reads and writes of the open row since it was opened.
    pub fn columns_since_open(&self, bank: usize) -> u32 {
        self.banks[bank].columns
    }

    pub(super) fn banks_of(&self, rank: usize) -> std::ops::Range<usize> {
        rank * self.banks_per_rank..(rank + 1) * self.banks_per_rank
    }

    pub(super) fn rank_of(&self, bank: usize) -> usize {
        bank / self.banks_per_rank
    }

    pub(super) fn read_data(&self) -> u64 {
        self.gaps.read_data
    }

    pub(super) fn earliest_activate(&self, bank: usize) -> u64 {
        let rank = &self.ranks[self.rank_of(bank)];
        self.banks[bank]
            .activate
            .max(self.groups[bank / self.banks_per_group].activate)
            .max(rank.columns.activate)
            .max(rank.window[rank.oldest])
    }

    pub(super) fn earliest_precharge(&self, bank: usize) -> u64 {
        self.banks[bank].precharge
    }

    pub(super) fn earliest_read(&self, bank: usize) -> u64 {
        self.banks[bank]
            .read
            .max(self.groups[bank / self.banks_per_group].read)
            .max(self.ranks[self.rank_of(bank)].columns.read)
    }

    pub(super) fn earliest_write(&self, bank: usize) -> u64 {
        self.banks[bank]
            .write
            .max(self.groups[bank / self.banks_per_group].write)
            .max(self.ranks[self.rank_of(bank)].columns.write)
    }

    /// Returns the earliest clock at which the bank accepts the command; `None` if its row must be
    /// opened or closed first.
    pub fn earliest(&self, command: DramCommand, bank: usize) -> Option<u64> {
        let open = self.open_row(bank).is_some();
        if open == (command == DramCommand::Activate) {
            return None;
        }
        Some(match command {
            DramCommand::Activate => self.earliest_activate(bank),
            DramCommand::Precharge => self.earliest_precharge(bank),
            DramCommand::Read | DramCommand::ReadAndPrecharge => self.earliest_read(bank),
            DramCommand::Write | DramCommand::WriteAndPrecharge => self.earliest_write(bank),
        })
    }

    /// Returns true if the bank accepts the command at `clock`.
    pub fn accepts(&self, command: DramCommand, bank: usize, clock: u64) -> bool {
        self.earliest(command, bank)
            .is_some_and(|earliest| earliest <= clock)
    }

    /// Executes a command that the bank accepts. `row` is the row to open.
    pub fn issue(&mut self, command: DramCommand, bank: usize, row: u32, clock: u64) {
        debug_assert!(self.accepts(command, bank, clock));
        match command {
            DramCommand::Activate => self.activate(bank, row, clock),
            DramCommand::Precharge => {
                let gap = self.gaps.precharge;
                let state = &mut self.banks[bank];
                raise(&mut state.activate, clock + gap);
                raise(&mut state.refresh, clock + gap);
                self.close(bank, clock);
            }
            DramCommand::Read => {
                self.read(bank, clock);
                let precharge = clock + self.gaps.read_to_precharge;
                raise(&mut self.banks[bank].precharge, precharge);
                self.banks[bank].columns += 1;
            }
            DramCommand::Write => {
                self.write(bank, clock);
                let precharge = clock + self.gaps.write_to_precharge;
                raise(&mut self.banks[bank].precharge, precharge);
                self.banks[bank].columns += 1;
            }
            DramCommand::ReadAndPrecharge => {
                self.read(bank, clock);
                let state = &mut self.banks[bank];
                raise(
                    &mut state.activate,
                    clock + self.gaps.closing_read_to_activate,
                );
                let refresh = self.gaps.read_to_precharge + self.gaps.precharge;
                raise(&mut state.refresh, clock + refresh);
                self.close(bank, clock);
            }
            DramCommand::WriteAndPrecharge => {
                self.write(bank, clock);
                let state = &mut self.banks[bank];
                let activate = clock + self.gaps.write_to_precharge + self.gaps.precharge;
                raise(&mut state.activate, activate);
                raise(&mut state.refresh, activate);
                self.close(bank, clock);
            }
        }
    }

    /// Returns the earliest clock at which a rank can be refreshed, if all of its rows are closed.
    pub fn earliest_refresh(&self, rank: usize) -> Option<u64> {
        let banks = &self.banks[self.banks_of(rank)];
        let closed = banks.iter().all(|bank| bank.row == CLOSED);
        closed.then(|| banks.iter().map(|bank| bank.refresh).max().unwrap_or(0))
    }

    /// Refreshes a rank.
    pub fn refresh(&mut self, rank: usize, clock: u64) {
        debug_assert!(self.earliest_refresh(rank).is_some_and(|it| it <= clock));
        let until = clock + self.gaps.refresh;
        let banks = self.banks_of(rank);
        for bank in &mut self.banks[banks] {
            raise(&mut bank.activate, until);
            raise(&mut bank.refresh, until);
        }
    }

    /// Returns true if no row is open.
    pub(super) fn is_closed(&self) -> bool {
        self.ranks.iter().all(|rank| rank.open == 0)
    }

    /// Returns the number of clocks before `clock` in which a row of a rank was open, over all
    /// ranks.
    pub(super) fn active(&self, clock: u64) -> u64 {
        let open = |rank: &Rank| match rank.open {
            0 => 0,
            _ => clock.saturating_sub(rank.since),
        };
        self.ranks.iter().map(|rank| rank.active + open(rank)).sum()
    }

    fn activate(&mut self, bank: usize, row: u32, clock: u64) {
        debug_assert_ne!(row, CLOSED);
        let gaps = &self.gaps;
        let state = &mut self.banks[bank];
        state.row = row;
        state.columns = 0;
        raise(&mut state.activate, clock + gaps.activate_to_activate);
        raise(&mut state.read, clock + gaps.activate_to_read);
        raise(&mut state.write, clock + gaps.activate_to_write);
        raise(&mut state.precharge, clock + gaps.activate_to_precharge);
        let group = &mut self.groups[bank / self.banks_per_group];
        raise(&mut group.activate, clock + gaps.activate_same_group);
        let rank = &mut self.ranks[bank / self.banks_per_rank];
        raise(
            &mut rank.columns.activate,
            clock + gaps.activate_other_group,
        );
        // The fifth activation waits for the oldest of four to leave the window, so four clocks are
        // enough.
        rank.window[rank.oldest] = clock + gaps.window;
        rank.oldest = (rank.oldest + 1) % rank.window.len();
        if rank.open == 0 {
            rank.since = clock;
        }
        rank.open += 1;
    }

    fn close(&mut self, bank: usize, clock: u64) {
        self.banks[bank].row = CLOSED;
        self.banks[bank].columns = 0;
        let rank = &mut self.ranks[bank / self.banks_per_rank];
        rank.open -= 1;
        if rank.open == 0 {
            // Time with several open rows counts once, because the rank draws the same current.
            rank.active += clock - rank.since;
        }
    }

    fn read(&mut self, bank: usize, clock: u64) {
        let gaps = &self.gaps;
        let group = &mut self.groups[bank / self.banks_per_group];
        raise(&mut group.read, clock + gaps.read_to_read.same_group);
        let own = bank / self.banks_per_rank;
        // All ranks share the bus, so a column of one delays those of the others.
        for (index, rank) in self.ranks.iter_mut().enumerate() {
            let (read, write) = match index == own {
                true => (gaps.read_to_read.other_group, gaps.read_to_write),
                false => (gaps.read_to_read.other_rank, gaps.read_to_write_other_rank),
            };
            raise(&mut rank.columns.read, clock + read);
            raise(&mut rank.columns.write, clock + write);
        }
    }

    fn write(&mut self, bank: usize, clock: u64) {
        let gaps = &self.gaps;
        let group = &mut self.groups[bank / self.banks_per_group];
        raise(&mut group.write, clock + gaps.write_to_write.same_group);
        raise(&mut group.read, clock + gaps.write_to_read.same_group);
        let own = bank / self.banks_per_rank;
        for (index, rank) in self.ranks.iter_mut().enumerate() {
            let (read, write) = match index == own {
                true => (
                    gaps.write_to_read.other_group,
                    gaps.write_to_write.other_group,
                ),
                false => (
                    gaps.write_to_read.other_rank,
                    gaps.write_to_write.other_rank,
                ),
            };
            raise(&mut rank.columns.read, clock + read);
            raise(&mut rank.columns.write, clock + write);
        }
    }
}
