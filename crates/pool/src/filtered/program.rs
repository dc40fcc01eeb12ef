//! The programs that read leaves where they are stored.
//!
//! The content of a leaf counts if it was read in one state:
//!
//! - If nodes have counters ([`Protection::Counter`]), an iteration before the first group and one
//!   behind the last find the same even number. Values that are written without a mark are aligned
//!   words, which one load reads as a whole.
//! - If memory changes only between two iterations, by whole posts ([`Protection::Stamp`]), each
//!   group is read in one state. The iterations before and behind the groups find the same lock
//!   word, of a free lock, so that no key has left its slot meanwhile: otherwise the lock's stamp
//!   would differ.
//!
//! Otherwise the program ends, and reports at which leaf. It also ends at a leaf that was merged
//! into another.

use super::aggregates::Aggregates;
use super::code::{Code, Places};
use super::filter::Selected;
use super::range::WordRange;
use super::scratchpad::{self, CHANGED, FULL, LEAF, LEAVES, LIST, STAGE, STOP};
use crate::canary::Check;
use crate::layout::LeafLayout;
use nearfield_fabric::GlobalAddress;
use nearfield_offload::program::{Declaration, Program, SCRATCHPAD_BYTES_MAX};
use nearfield_offload::traversal::{Outcome, Query, Status};
use std::cell::OnceCell;
use std::sync::Arc;

/// The means by which a program detects that a leaf was changed while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The counter behind the leaf's lock.
    Counter,
    /// The stamp in the lock.
    Stamp,
}

impl Protection {
    /// Returns false in a test that leaves the check out.
    pub fn is_checked(self) -> bool {
        match self {
            Protection::Counter => Check::Counters.is_made(),
            Protection::Stamp => Check::Stamps.is_made(),
        }
    }
}

/// The result of a program for the entries that it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// The [`Aggregates`] of their values.
    Aggregates,
    /// A list of them.
    Entries,
}

/// The programs of a tree, which are generated when they are first needed.
#[derive(Debug)]
pub struct LeafPrograms {
    layout: LeafLayout,
    protection: Option<Protection>,
    aggregates: OnceCell<Option<LeafProgram>>,
    entries: OnceCell<Option<LeafProgram>>,
}

/// A program, with its start and its iterations per leaf.
#[derive(Debug)]
pub struct LeafProgram {
    program: Arc<Program>,
    /// Offset in a leaf at which the first iteration begins.
    start: u64,
    iterations_a_leaf: u64,
}

/// The point at which a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end of the range.
    Done,
    /// The first leaf that does not count: it was changed, or no iteration was left.
    Before(GlobalAddress),
    /// The first leaf that does not count: the list has no room for it.
    Full(GlobalAddress),
    /// A former leaf, which is no leaf any more.
    Gone,
    /// A refusal: no memory node has run all of it.
    Refused(Status),
}

impl LeafPrograms {
    /// Creates the programs for leaves of a layout, if there is a protection.
    pub fn new(layout: LeafLayout, protection: Option<Protection>) -> LeafPrograms {
        LeafPrograms {
            layout,
            protection,
            aggregates: OnceCell::new(),
            entries: OnceCell::new(),
        }
    }

    /// Returns the program for a walk; `None` if no program can read such leaves.
    pub fn get(&self, walk: Walk) -> Option<&LeafProgram> {
        let cell = match walk {
            Walk::Aggregates => &self.aggregates,
            Walk::Entries => &self.entries,
        };
        let program = cell.get_or_init(|| LeafProgram::new(&self.layout, self.protection?, walk));
        program.as_ref()
    }
}

impl LeafProgram {
    /// Creates the program for leaves of a layout; returns `None` if entries are not words, or a
    /// group does not fit one load.
    fn new(layout: &LeafLayout, protection: Protection, walk: Walk) -> Option<LeafProgram> {
        let places = Places::new(layout, protection)?;
        let scratchpad = match walk {
            Walk::Aggregates => 8 * LIST,
            Walk::Entries => SCRATCHPAD_BYTES_MAX,
        };
        let code = Code::write(places, protection, walk).ok()?;
        let program = Program::verify(code, Declaration::scratchpad(scratchpad as u16)).ok()?;
        Some(LeafProgram {
            program: Arc::new(program),
            start: places.guard_load() as u64,
            // One before the groups, and one behind them.
            iterations_a_leaf: places.groups as u64 + 2,
        })
    }

    /// Returns the number of iterations per leaf.
    pub fn iterations_a_leaf(&self) -> u64 {
        self.iterations_a_leaf
    }

    /// Returns the query that walks from a leaf on.
    pub fn query(&self, leaf: GlobalAddress, keys: WordRange, selected: Selected) -> Query {
        let words = scratchpad::initial(keys, selected);
        Query::new(&self.program, leaf.to_bits() + self.start, &words)
    }

    /// Returns the point at which a run ended.
    pub fn end(&self, outcome: &Outcome) -> End {
        let leaf = GlobalAddress::from_bits(outcome.word(LEAF));
        match outcome.status {
            Status::Done => match outcome.word(STOP) as i32 {
                0 => End::Done,
                CHANGED => End::Before(leaf),
                FULL => End::Full(leaf),
                _ => End::Gone,
            },
            Status::IterationLimit if outcome.word(STAGE) == 0 => {
                let address = outcome.address.wrapping_sub(self.start);
                End::Before(GlobalAddress::from_bits(address))
            }
            Status::IterationLimit => End::Before(leaf),
            status => End::Refused(status),
        }
    }

    /// Returns the number of leaves that were read.
    pub fn leaves(outcome: &Outcome) -> u64 {
        outcome.word(LEAVES)
    }

    /// Returns the aggregates of the selected values in them.
    pub fn aggregates(outcome: &Outcome) -> Aggregates {
        scratchpad::aggregates(outcome)
    }

    /// Returns the selected keys and values in them.
    pub fn entries(outcome: &Outcome) -> impl Iterator<Item = (u64, u64)> + '_ {
        scratchpad::entries(outcome)
    }
}
