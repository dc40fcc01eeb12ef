//! Filters and aggregates over ranges of a store.

use super::client::{PoolStoreClient, SlotRange};
use super::{PoolEntryForm, PoolStore};
use crate::chime::LeafReads;
use crate::error::PoolError;
use crate::executor::block_on;
use crate::filtered::{PoolProgramExecutor, PoolScanRange, ScanAggregates, ValueFilter, number};
use crate::index::Entry;
use nearfield_core::{EntryForm, OperationError, ScanDirection};
use nearfield_fabric::Endpoint;
use std::ops::Bound;

/// Number of byte-string entries that are read at once.
const READ: usize = 1024;

/// The keys and values of a form.
pub type Entries<F> = Vec<(<F as EntryForm>::OwnedKey, <F as EntryForm>::OwnedValue)>;

/// A range of a store with a filter of its entries, as far as it was not read yet.
#[derive(Clone, Debug)]
pub struct FilteredStoreRange {
    rest: Option<SlotRange>,
    filter: ValueFilter,
}

impl<F: PoolEntryForm, E: Endpoint + 'static> PoolStore<F, E> {
    /// Runs programs at the memory nodes for ranges with a filter. `connect` connects to the nodes,
    /// once for each thread that needs it: usually with a
    /// [`OffloadClient`](nearfield_offload::net::udp::OffloadClient).
    pub fn with_programs(
        self,
        connect: impl Fn() -> Result<Box<dyn PoolProgramExecutor>, String> + Send + Sync + 'static,
    ) -> PoolStore<F, E> {
        // A store that has a `connect` keeps it.
        let _ = self.programs.set(Box::new(connect));
        self
    }

    /// Returns the selection of entries between two bounds that a filter selects. Words are
    /// compared directly, byte strings as [`number`] defines. Nothing is read yet.
    pub fn selection(
        &self,
        (low, high): (Bound<F::Key<'_>>, Bound<F::Key<'_>>),
        filter: ValueFilter,
    ) -> FilteredStoreRange {
        let (low, high) = (low.map(F::key_bytes), high.map(F::key_bytes));
        let (low, high) = (
            low.as_ref().map(AsRef::as_ref),
            high.as_ref().map(AsRef::as_ref),
        );
        let rest = SlotRange::new(&self.codec, low, high);
        FilteredStoreRange { rest, filter }
    }

    /// Returns the aggregates of the values that are selected. Each entry has its state at some
    /// time of the call.
    ///
    /// If entries are words and [programs](PoolStore::with_programs) can be reached, memory nodes
    /// read their leaves themselves. Otherwise, or if they refuse, this process reads the leaves,
    /// with the same result: [`leaf_reads`](PoolStore::leaf_reads) reports both.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn aggregate(
        &self,
        selection: &FilteredStoreRange,
    ) -> Result<ScanAggregates, OperationError> {
        let client = self.client()?;
        let aggregates = block_on(client.aggregate(selection.clone()));
        aggregates.map_err(|error| client.unreachable(&error))
    }

    /// Returns the next entries that are selected, in ascending order; `None` behind the last. The
    /// list may be empty. Otherwise like [`aggregate`](PoolStore::aggregate).
    ///
    /// # Errors
    /// `Unreachable`. The selection stays where it was.
    pub fn select(
        &self,
        selection: &mut FilteredStoreRange,
    ) -> Result<Option<Entries<F>>, OperationError> {
        let Some(range) = &selection.rest else {
            return Ok(None);
        };
        let client = self.client()?;
        let selected = block_on(client.select(range, &selection.filter));
        let (entries, rest) = selected.map_err(|error| client.unreachable(&error))?;
        selection.rest = rest;
        let entries = entries.iter().map(|(key, value)| {
            let (key, value) = (F::key_of(key), F::value_of(value));
            (F::own_key(key), F::own_value(value))
        });
        Ok(Some(entries.collect()))
    }

    /// Returns the number of leaves that scans of this process have read, by place.
    pub fn leaf_reads(&self) -> LeafReads {
        self.node.leaf_reads()
    }
}

impl<E: Endpoint> PoolStoreClient<E> {
    async fn aggregate(&self, selection: FilteredStoreRange) -> Result<ScanAggregates, PoolError> {
        let FilteredStoreRange { mut rest, filter } = selection;
        let mut aggregates = ScanAggregates::default();
        let Some(suffix) = self.codec.word_suffix() else {
            while let Some(range) = rest {
                let (entries, behind) = self.select(&range, &filter).await?;
                aggregates.extend(entries.iter().map(|(_, value)| number(value)));
                rest = behind;
            }
            return Ok(aggregates);
        };
        if let Some(range) = rest {
            let range = scan_range(&range, suffix);
            let mut way = self.way.take();
            let programs = way
                .is_there()
                .then_some(&mut way as &mut dyn PoolProgramExecutor);
            let result = self.tree.aggregate(&range, &filter, programs).await;
            self.way.replace(way);
            aggregates = result?;
        }
        Ok(aggregates)
    }

    /// Returns entries at the beginning of a range, with keys and values as they were given, and
    /// the rest of the range.
    async fn select(
        &self,
        range: &SlotRange,
        filter: &ValueFilter,
    ) -> Result<(Vec<Entry>, Option<SlotRange>), PoolError> {
        if let Some(suffix) = self.codec.word_suffix() {
            let range = scan_range(range, suffix);
            let mut way = self.way.take();
            let programs = way
                .is_there()
                .then_some(&mut way as &mut dyn PoolProgramExecutor);
            let result = self.tree.select(&range, filter, programs).await;
            self.way.replace(way);
            let (mut entries, rest) = result?;
            for (key, _) in &mut entries {
                let length = self.codec.decode_key(key).len();
                key.truncate(length);
            }
            let rest = rest.map(|rest| SlotRange::of_slots(&rest.low, &rest.high));
            return Ok((entries, rest));
        }
        let (mut entries, rest) = self.scan(range, READ, ScanDirection::Ascending).await?;
        entries.retain(|(_, value)| filter.matches(number(value)));
        Ok((entries, rest))
    }

    fn unreachable(&self, error: &PoolError) -> OperationError {
        self.note_failure(error);
        let what = error.to_string();
        OperationError::Unreachable { what }
    }
}

fn scan_range(range: &SlotRange, suffix: u8) -> PoolScanRange {
    let (low, high) = range.slots();
    PoolScanRange::new(low, high).with_suffix(suffix)
}
