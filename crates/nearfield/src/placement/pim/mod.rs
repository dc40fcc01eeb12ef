//! The placement in modules, each with a processor of its own.

mod builder;

pub use builder::{Pim, PimBuilder};

use super::by_batch::scan_by_batch;
use super::{Bounds, Placement, fallible_reads, sealed};
use crate::MapForm;
use nearfield_core::{Direction, Error, OrderedIndex};
use nearfield_pim::call_batcher::CallBatcher;
use nearfield_radix::Entry;

impl sealed::Sealed for Pim {}

impl<F: MapForm> Placement<F> for Pim {
    fallible_reads!();
    type Value<'m> = F::OwnedValue;
    type Index = CallBatcher<F, F::OnWorkers>;

    fn get(index: &Self::Index, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        OrderedIndex::get(index, key)
    }

    fn len(index: &Self::Index) -> Result<usize, Error> {
        Ok(OrderedIndex::len(index))
    }

    fn scan(
        index: &Self::Index,
        bounds: Bounds<'_, F>,
        direction: Direction,
        limit: usize,
        found: impl FnMut(Entry<F>),
    ) -> Result<bool, Error> {
        scan_by_batch(index, bounds, direction, limit, found)
    }
}
