//! Creation of maps in modules.

use crate::form::MapForm;
use crate::map::OrderedMap;
use crate::placement::Pim;
use nearfield_core::OperationError;
use std::marker::PhantomData;

/// Builder of an [`OrderedMap`] in modules; from [`MapBuilder::pim`](crate::MapBuilder::pim).
///
/// ```
/// use nearfield::{Pim, WordMap};
///
/// let builder = WordMap::builder().pim(Pim::workers().threads(1));
/// let map = builder.memory_limit(64 << 20).build()?;
/// assert!(map.is_empty()?);
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder has no effect until it builds"]
pub struct PimBuilder<F: MapForm> {
    pim: Pim,
    memory_limit: usize,
    form: PhantomData<F>,
}

impl<F: MapForm> PimBuilder<F> {
    pub(crate) fn new(pim: Pim, memory_limit: usize) -> PimBuilder<F> {
        PimBuilder {
            pim,
            memory_limit,
            form: PhantomData,
        }
    }

    /// Sets the greatest number of bytes that keys, values and index nodes may take in all modules;
    /// half of the machine's memory by default. Writes to a full module fail with `OutOfMemory`.
    ///
    /// ```
    /// use nearfield::{Pim, WordMap};
    ///
    /// // Each of the four modules of the thread has 16 MiB.
    /// let builder = WordMap::builder().pim(Pim::workers().threads(1)).memory_limit(64 << 20);
    /// assert_eq!(builder.build()?.insert(1, 10)?, None);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// Creates an empty map and starts its threads.
    ///
    /// # Errors
    /// `OutOfMemory` if a thread cannot be started.
    ///
    /// ```
    /// use nearfield::{Pim, WordMap};
    ///
    /// let map = WordMap::builder().pim(Pim::workers().threads(2)).build()?;
    /// assert_eq!(map.insert(1, 10)?, None);
    /// assert_eq!(map.get(1)?, Some(10));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn build(self) -> Result<OrderedMap<F, Pim>, OperationError> {
        Ok(OrderedMap::of(self.pim.start(self.memory_limit)?))
    }
}
