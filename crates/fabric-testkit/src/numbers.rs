//! An index of byte strings as one of numbers.

use crate::index::RemoteIndex;
use nearfield_fabric::{FabricError, GlobalAddress, NodeId};
use nearfield_pool::{PoolError, PoolIndexClient};

/// The address of the root of an index.
pub const INDEX_ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);

/// Returns the fabric's error.
///
/// # Panics
/// If the error is another one.
pub fn fabric_error(error: PoolError) -> FabricError {
    match error {
        PoolError::Fabric(error) | PoolError::Undetermined(error) => error,
        other => panic!("{other}"),
    }
}

/// An index with keys that stand for numbers, and with values that are a repeated number.
pub struct NumberKeyIndex<I> {
    index: I,
    value_bytes: usize,
    key: Box<dyn Fn(u64) -> Vec<u8>>,
    convert: fn(PoolError) -> FabricError,
}

impl<I: PoolIndexClient> NumberKeyIndex<I> {
    /// Creates an index with the keys that `key` returns and values of `value_bytes`. `convert`
    /// converts errors: it is [`fabric_error`], or a function that accepts more.
    pub fn new(
        index: I,
        value_bytes: usize,
        key: impl Fn(u64) -> Vec<u8> + 'static,
        convert: fn(PoolError) -> FabricError,
    ) -> NumberKeyIndex<I> {
        debug_assert!(value_bytes >= size_of::<u64>(), "a value holds its number");
        NumberKeyIndex {
            index,
            value_bytes,
            key: Box::new(key),
            convert,
        }
    }

    fn value(&self, number: u64) -> Vec<u8> {
        let bytes = number.to_le_bytes();
        // Repeated, so that each word of the value shows the number.
        bytes.into_iter().cycle().take(self.value_bytes).collect()
    }

    /// Returns the number of a value.
    fn number(&self, value: Option<Vec<u8>>) -> Option<u64> {
        let value = value?;
        let number = u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
        // A value torn from two becomes a number that was never written, so that no order explains
        // it.
        let is_whole = value == self.value(number);
        Some(if is_whole { number } else { u64::MAX })
    }

    fn answer(
        &self,
        answer: Result<Option<Vec<u8>>, PoolError>,
    ) -> Result<Option<u64>, FabricError> {
        answer.map(|value| self.number(value)).map_err(self.convert)
    }
}

impl<I: PoolIndexClient> RemoteIndex for NumberKeyIndex<I> {
    async fn get(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.index.get(&(self.key)(key)).await)
    }

    async fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        let (key, value) = ((self.key)(key), self.value(value));
        self.answer(self.index.insert(&key, &value).await)
    }

    async fn update(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        let (key, value) = ((self.key)(key), self.value(value));
        self.answer(self.index.update(&key, &value).await)
    }

    async fn overwrite(&self, key: u64, value: u64) -> Result<bool, FabricError> {
        let (key, value) = ((self.key)(key), self.value(value));
        let was_there = self.index.overwrite(&key, &value).await;
        was_there.map_err(self.convert)
    }

    async fn put(&self, key: u64, value: u64) -> Result<(), FabricError> {
        let (key, value) = ((self.key)(key), self.value(value));
        self.index.put(&key, &value).await.map_err(self.convert)
    }

    async fn remove(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.index.remove(&(self.key)(key)).await)
    }
}
