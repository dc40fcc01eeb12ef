//! The resources of the card that a design takes, to first order.
//!
//! Buffers take block memories by their bytes. All else is *assumed*: the paper states no use of
//! resources. The numbers serve to compare two designs, which have the same parts in different
//! numbers.

use super::{DcartParameters, Pipeline};

/// The parts of an Alveo U280 that a design takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DcartArea {
    /// Number of lookup tables.
    pub luts: f64,
    /// Number of block memories of 36 Kb.
    pub block_memories: f64,
}

/// The parts of the card (its data sheet, DS963).
pub const U280: DcartArea = DcartArea {
    luts: 1_304_000.0,
    block_memories: 2016.0,
};

/// The lookup tables of each part. All *assumed*.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DcartLookupTables {
    /// The combining unit and the dispatcher.
    pub combining: f64,
    /// An operating unit: hash, comparators of 16 keys, stages, and its port to memory.
    pub unit: f64,
    /// The state of an operation in flight: key, addresses and step, in distributed memory.
    pub operation: f64,
    /// The logic that finds a line in a buffer, for each KiB of it.
    pub tags_per_kib: f64,
}

impl DcartLookupTables {
    /// The assumed numbers: 8,000 for combining; 12,000 per unit, of which a port to HBM takes a
    /// quarter; 400 per operation: 512 bits of distributed memory, twice, and multiplexers; 20 for
    /// the tags of a KiB.
    pub const ASSUMED: DcartLookupTables = DcartLookupTables {
        combining: 8000.0,
        unit: 12_000.0,
        operation: 400.0,
        tags_per_kib: 20.0,
    };
}

impl DcartArea {
    /// Returns the area of a design.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::dcart::DcartParameters;
    /// use nearfield_hardware::accelerator::dcart::area::{DcartArea, DcartLookupTables, U280};
    /// let area = DcartArea::of(&DcartParameters::published(), &DcartLookupTables::ASSUMED);
    /// assert!(area.fits(&U280));
    /// ```
    pub fn of(parameters: &DcartParameters, logic: &DcartLookupTables) -> DcartArea {
        let units = parameters.units as f64;
        // Four operations in stages are registers of the unit.
        let operations = match parameters.pipeline {
            Pipeline::InOrder => 0,
            Pipeline::Interleaved { operations } => operations,
        };
        let kib = parameters.buffers() as f64 / 1024.0;
        DcartArea {
            luts: logic.combining
                + units * (logic.unit + operations as f64 * logic.operation)
                + kib * logic.tags_per_kib,
            // A buffer takes whole block memories.
            block_memories: (parameters.buffers() as f64 / (36.0 * 1024.0 / 8.0)).ceil(),
        }
    }

    /// Returns true if it takes at most this much of each.
    pub fn fits(&self, budget: &DcartArea) -> bool {
        self.luts <= budget.luts && self.block_memories <= budget.block_memories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_buffers_take_the_block_memories_that_the_paper_has() {
        let area = DcartArea::of(&DcartParameters::published(), &DcartLookupTables::ASSUMED);
        // 6.63 MB in blocks of 4.5 KiB, of 2,016.
        assert_eq!(area.block_memories, 1508.0);
        assert!(area.fits(&U280));
    }

    #[test]
    fn operations_under_way_are_paid_for_by_buffers() {
        let published = DcartParameters::published();
        let budget = DcartArea::of(&published, &DcartLookupTables::ASSUMED);
        let interleaved = |tree_buffer| DcartParameters {
            pipeline: Pipeline::Interleaved { operations: 8 },
            tree_buffer,
            ..published.clone()
        };
        let fits = |tree_buffer| {
            DcartArea::of(&interleaved(tree_buffer), &DcartLookupTables::ASSUMED).fits(&budget)
        };
        assert!(!fits(4 << 20) && fits(1 << 20));
    }
}
