//! Ranges of maps in a pool with a filter, and aggregates.

use super::{MapRange, OrderedMap};
use crate::form::MapForm;
use crate::placement::PoolPlacement;
use nearfield_core::OperationError;
use nearfield_pool::filtered::{ScanAggregates, ValueFilter};
use nearfield_pool::store::FilteredStoreRange;
use nearfield_radix::Entry;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::iter::FusedIterator;

/// The entries of a range of a map in a pool that a [`ValueFilter`] selects; see
/// [`MapRange::filter`].
///
/// It can be iterated in ascending order, or reduced to [`ScanAggregates`].
pub struct FilteredRange<'m, F: MapForm> {
    map: &'m OrderedMap<F, PoolPlacement>,
    /// The selected range; `None` if it is empty.
    selection: Option<FilteredStoreRange>,
}

/// The entries that a [`ValueFilter`] selects, in ascending order; from [`FilteredRange`]. After an
/// error it yields nothing more.
pub struct FilteredEntries<'m, F: MapForm> {
    map: &'m OrderedMap<F, PoolPlacement>,
    selection: Option<FilteredStoreRange>,
    read: VecDeque<Entry<F>>,
}

impl<'m, F: MapForm> MapRange<'m, F, PoolPlacement> {
    /// Returns the entries whose values a filter selects. Values count as unsigned numbers: words
    /// as they are, byte strings by their first eight bytes, little-endian, padded with zeros if
    /// shorter.
    ///
    /// The filter runs at the memory nodes, if entries are words and the map was built with
    /// [`programs`](crate::PoolBuilder::programs); else in this process, with the same result. An
    /// iterator's own `filter`, with a closure, is `Iterator::filter(range, |entry| …)`.
    ///
    /// ```no_run
    /// use nearfield::{ValueFilter, PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left"])).build()?;
    /// let sum = map.range(100..200).filter(ValueFilter::at_least(10)).sum()?;
    /// for entry in map.range(100..200).filter(ValueFilter::other_than(0)) {
    ///     let (key, value) = entry?;
    ///     println!("{key}: {value} of {sum}");
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn filter(self, filter: ValueFilter) -> FilteredRange<'m, F> {
        let (map, rest) = self.into_rest();
        let selection = rest.map(|(low, high)| {
            let bounds = (low.as_ref().map(F::key), high.as_ref().map(F::key));
            map.index.selection(bounds, filter)
        });
        FilteredRange { map, selection }
    }

    /// Returns the count, sum, minimum and maximum of the values, as [`filter`](MapRange::filter)
    /// with a filter that selects all does.
    ///
    /// # Errors
    /// `Unreachable`.
    ///
    /// ```no_run
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left"])).build()?;
    /// println!("the mean is {:?}", map.range(..).aggregate()?.mean());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn aggregate(self) -> Result<ScanAggregates, OperationError> {
        self.filter(ValueFilter::ALL).aggregate()
    }
}

impl<'m, F: MapForm> FilteredRange<'m, F> {
    /// Returns the count, sum, minimum and maximum of the selected values. Each entry is read as it
    /// was at some time during the call.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn aggregate(&self) -> Result<ScanAggregates, OperationError> {
        match &self.selection {
            Some(selection) => self.map.index.aggregate(selection),
            None => Ok(ScanAggregates::default()),
        }
    }

    /// Returns the number of selected values.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn count(&self) -> Result<u64, OperationError> {
        Ok(self.aggregate()?.count)
    }

    /// Returns the sum of the selected values.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn sum(&self) -> Result<u128, OperationError> {
        Ok(self.aggregate()?.sum)
    }

    /// Returns the least selected value, if there is one.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn min(&self) -> Result<Option<u64>, OperationError> {
        Ok(self.aggregate()?.min)
    }

    /// Returns the greatest selected value, if there is one.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn max(&self) -> Result<Option<u64>, OperationError> {
        Ok(self.aggregate()?.max)
    }
}

impl<'m, F: MapForm> IntoIterator for FilteredRange<'m, F> {
    type Item = Result<Entry<F>, OperationError>;
    type IntoIter = FilteredEntries<'m, F>;

    fn into_iter(self) -> FilteredEntries<'m, F> {
        FilteredEntries {
            map: self.map,
            selection: self.selection,
            read: VecDeque::new(),
        }
    }
}

impl<F: MapForm> Iterator for FilteredEntries<'_, F> {
    type Item = Result<Entry<F>, OperationError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A chunk may have no entry that passes the filter.
        while self.read.is_empty() {
            match self.map.index.select(self.selection.as_mut()?) {
                Ok(Some(entries)) => self.read.extend(entries),
                Ok(None) => self.selection = None,
                Err(error) => {
                    // Entries behind the gap would look like the next ones.
                    self.selection = None;
                    return Some(Err(error));
                }
            }
        }
        self.read.pop_front().map(Ok)
    }
}

impl<F: MapForm> FusedIterator for FilteredEntries<'_, F> {}

impl<F: MapForm> Debug for FilteredRange<'_, F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered")
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

impl<F: MapForm> Debug for FilteredEntries<'_, F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteredEntries")
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}
