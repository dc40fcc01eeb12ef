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

use super::aggregates::ScanAggregates;
use super::code::{LeafFieldOffsets, LeafProgramBuilder};
use super::filter::WrappingNumberRange;
use super::range::WordRange;
use super::scratchpad::{self, CHANGED, FULL, LEAF, LEAVES, LIST, LIST_MAX, STAGE, STOP};
use crate::canary::Check;
use crate::layout::PoolLeafLayout;
use nearfield_fabric::GlobalAddress;
use nearfield_offload::program::{Declaration, SCRATCHPAD_BYTES_MAX, TraversalProgram};
use nearfield_offload::traversal::{TraversalOutcome, TraversalQuery, TraversalStatus};
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
pub enum ScanResultKind {
    /// The [`ScanAggregates`] of their values.
    Aggregates,
    /// A list of them.
    Entries,
}

/// The programs of a tree, which are generated when they are first needed.
#[derive(Debug)]
pub struct LeafPrograms {
    layout: PoolLeafLayout,
    protection: Option<Protection>,
    aggregates: OnceCell<Option<LeafProgram>>,
    entries: OnceCell<Option<LeafProgram>>,
}

/// A program, with its start and its iterations per leaf.
#[derive(Debug)]
pub struct LeafProgram {
    program: Arc<TraversalProgram>,
    /// Offset in a leaf at which the first iteration begins.
    start: u64,
    iterations_a_leaf: u64,
}

/// The point at which a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafProgramEnd {
    /// The end of the range.
    Done,
    /// The first leaf that does not count: it was changed, or no iteration was left.
    Before(GlobalAddress),
    /// The first leaf that does not count: the list has no room for it.
    Full(GlobalAddress),
    /// A former leaf, which is no leaf any more.
    Gone,
    /// A refusal: no memory node has run all of it.
    Refused(TraversalStatus),
}

impl LeafPrograms {
    /// Creates the programs for leaves of a layout, if there is a protection.
    pub fn new(layout: PoolLeafLayout, protection: Option<Protection>) -> LeafPrograms {
        LeafPrograms {
            layout,
            protection,
            aggregates: OnceCell::new(),
            entries: OnceCell::new(),
        }
    }

    /// Returns the program for a walk; `None` if no program can read such leaves.
    pub fn get(&self, walk: ScanResultKind) -> Option<&LeafProgram> {
        let cell = match walk {
            ScanResultKind::Aggregates => &self.aggregates,
            ScanResultKind::Entries => &self.entries,
        };
        let program = cell.get_or_init(|| LeafProgram::new(&self.layout, self.protection?, walk));
        program.as_ref()
    }
}

impl LeafProgram {
    /// Creates the program for leaves of a layout; returns `None` if entries are not words, a group
    /// does not fit one load, or the entries of a leaf do not fit a list.
    fn new(
        layout: &PoolLeafLayout,
        protection: Protection,
        walk: ScanResultKind,
    ) -> Option<LeafProgram> {
        if walk == ScanResultKind::Entries && layout.span() > LIST_MAX {
            return None;
        }
        let places = LeafFieldOffsets::new(layout, protection)?;
        let scratchpad = match walk {
            ScanResultKind::Aggregates => 8 * LIST,
            ScanResultKind::Entries => SCRATCHPAD_BYTES_MAX,
        };
        let code = LeafProgramBuilder::write(places, protection, walk).ok()?;
        let program =
            TraversalProgram::verify(code, Declaration::scratchpad(scratchpad as u16)).ok()?;
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
    pub fn query(
        &self,
        leaf: GlobalAddress,
        keys: WordRange,
        selected: WrappingNumberRange,
    ) -> TraversalQuery {
        let words = scratchpad::initial(keys, selected);
        TraversalQuery::new(&self.program, leaf.plus(self.start).to_bits(), &words)
    }

    /// Returns the point at which a run ended.
    pub fn end(&self, outcome: &TraversalOutcome) -> LeafProgramEnd {
        let leaf = GlobalAddress::from_bits(outcome.word(LEAF));
        match outcome.status {
            TraversalStatus::Done => match outcome.word(STOP) as i32 {
                0 => LeafProgramEnd::Done,
                CHANGED => LeafProgramEnd::Before(leaf),
                FULL => LeafProgramEnd::Full(leaf),
                _ => LeafProgramEnd::Gone,
            },
            TraversalStatus::IterationLimit if outcome.word(STAGE) == 0 => {
                let address = outcome.address.wrapping_sub(self.start);
                // The next leaf was not begun, so the address is the one at which it would begin.
                LeafProgramEnd::Before(GlobalAddress::from_bits(address))
            }
            TraversalStatus::IterationLimit => LeafProgramEnd::Before(leaf),
            status => LeafProgramEnd::Refused(status),
        }
    }

    /// Returns the number of leaves that were read.
    pub fn leaves(outcome: &TraversalOutcome) -> u64 {
        outcome.word(LEAVES)
    }

    /// Returns the aggregates of the selected values in them.
    pub fn aggregates(outcome: &TraversalOutcome) -> ScanAggregates {
        scratchpad::aggregates(outcome)
    }

    /// Returns the selected keys and values in them.
    pub fn entries(outcome: &TraversalOutcome) -> impl Iterator<Item = (u64, u64)> + '_ {
        scratchpad::entries(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Geometry, PoolIndexShape};

    /// A list that has no room for the entries of a leaf would lose some of them.
    #[test]
    fn leaves_that_do_not_fit_a_list_have_no_program_for_one() {
        for (leaf_span, fits) in [(240, true), (248, false), (512, false)] {
            let shape = PoolIndexShape {
                leaf_span,
                ..PoolIndexShape::default()
            };
            let layout = PoolLeafLayout::new(Geometry::new(shape).expect("the shape is possible"));
            let programs = LeafPrograms::new(layout, Some(Protection::Counter));
            let list = programs.get(ScanResultKind::Entries);
            assert_eq!(list.is_some(), fits, "{leaf_span} slots");
            assert!(programs.get(ScanResultKind::Aggregates).is_some());
        }
    }
}
