//! The programs that read leaves where they lie.
//!
//! What a leaf holds counts if it is of one state:
//!
//! - Where nodes have counters ([`Protection::Counter`]), an iteration before the first group and
//!   one behind the last find the same even number. Values that are written without a mark are
//!   aligned words, which one load reads as a whole.
//! - Where memory changes by whole posts only between two iterations ([`Protection::Stamp`]), each
//!   group is of one state. These iterations find the same lock word, of a free lock, so that no
//!   key has left its slot meanwhile: then the lock's stamp would be another one.
//!
//! Otherwise the program ends, and says at which leaf. It also ends where a merged leaf was.

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

/// By what a program notices that a leaf was changed while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// By the counter behind the leaf's lock.
    Counter,
    /// By the stamp in the lock.
    Stamp,
}

impl Protection {
    /// False in a test that leaves the check out.
    pub fn is_checked(self) -> bool {
        match self {
            Protection::Counter => Check::Counters.is_made(),
            Protection::Stamp => Check::Stamps.is_made(),
        }
    }
}

/// What a program does with the entries that it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Their [`Aggregates`].
    Aggregates,
    /// A list of them.
    Entries,
}

/// The programs of a tree, which are made when they are first needed.
#[derive(Debug)]
pub struct LeafPrograms {
    layout: LeafLayout,
    protection: Option<Protection>,
    aggregates: OnceCell<Option<LeafProgram>>,
    entries: OnceCell<Option<LeafProgram>>,
}

/// A program, and how far it goes.
#[derive(Debug)]
pub struct LeafProgram {
    program: Arc<Program>,
    /// How far behind the start of a leaf the first iteration begins.
    start: u64,
    iterations_a_leaf: u64,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the end of the range.
    Done,
    /// At this leaf, which was changed, or before it.
    Before(GlobalAddress),
    /// At this leaf, for which the list has no room.
    Full(GlobalAddress),
    /// At what is no leaf any more.
    Gone,
    /// Otherwise: no memory node has run all of it.
    Refused(Status),
}

impl LeafPrograms {
    /// The programs for leaves of a layout, if there is a protection.
    pub fn new(layout: LeafLayout, protection: Option<Protection>) -> LeafPrograms {
        LeafPrograms {
            layout,
            protection,
            aggregates: OnceCell::new(),
            entries: OnceCell::new(),
        }
    }

    /// The program for a walk; `None` if no program can read such leaves.
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
    /// The program for leaves of a layout; `None` if entries are not of words, or a group does not
    /// fit one load.
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

    /// How many iterations a leaf takes.
    pub fn iterations_a_leaf(&self) -> u64 {
        self.iterations_a_leaf
    }

    /// The walk from a leaf on.
    pub fn query(&self, leaf: GlobalAddress, keys: WordRange, selected: Selected) -> Query {
        let words = scratchpad::initial(keys, selected);
        Query::new(&self.program, leaf.to_bits() + self.start, &words)
    }

    /// How a run has ended.
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

    /// How many leaves were read.
    pub fn leaves(outcome: &Outcome) -> u64 {
        outcome.word(LEAVES)
    }

    /// The aggregates of what was selected in them.
    pub fn aggregates(outcome: &Outcome) -> Aggregates {
        scratchpad::aggregates(outcome)
    }

    /// Keys and values of what was selected in them.
    pub fn entries(outcome: &Outcome) -> impl Iterator<Item = (u64, u64)> + '_ {
        scratchpad::entries(outcome)
    }
}
