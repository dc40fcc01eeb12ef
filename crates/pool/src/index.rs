//! The operations that every index in the pool has.

use crate::error::PoolError;
use crate::layout::is_empty_key;
use std::future::Future;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// One client's view of an index in remote memory. Keys have one length and are never all zeros,
/// values have one length. The client's tasks share it, and may have many operations in flight.
///
/// Each operation on a key is linearizable. A scan is not atomic: each entry that it returns
/// existed at some time during the scan, and it returns all entries that existed during the whole
/// scan.
///
/// All operations refuse invalid keys and values with `Key` and `Value`, and return the
/// nodes' errors.
pub trait PoolIndexClient {
    /// Reads the value of a key.
    fn get(&self, key: &[u8]) -> impl Future<Output = Result<Option<Vec<u8>>, PoolError>>;

    /// Sets the value of a key, whether it exists or not, and returns the old one.
    fn insert(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> impl Future<Output = Result<Option<Vec<u8>>, PoolError>>;

    /// Sets the value of a key if it exists, and returns the old one.
    fn update(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> impl Future<Output = Result<Option<Vec<u8>>, PoolError>>;

    /// Sets the value of a key if it exists, and returns whether it did. Cheaper than
    /// [`update`](PoolIndexClient::update) if the old value need not be read.
    fn overwrite(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<bool, PoolError>> {
        async { Ok(self.update(key, value).await?.is_some()) }
    }

    /// Sets the value of a key, whether it exists or not. Cheaper than
    /// [`insert`](PoolIndexClient::insert) if the old value need not be read.
    fn put(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<(), PoolError>> {
        async { self.insert(key, value).await.map(drop) }
    }

    /// Removes a key and returns its value.
    fn remove(&self, key: &[u8]) -> impl Future<Output = Result<Option<Vec<u8>>, PoolError>>;

    /// Returns the first `count` entries with keys from `from` on, in ascending order. `from` has
    /// the length of keys, and may be all zeros.
    fn scan(
        &self,
        from: &[u8],
        count: usize,
    ) -> impl Future<Output = Result<Vec<Entry>, PoolError>>;
}

/// Refuses an invalid key of an index with keys of `expected` bytes.
///
/// # Errors
/// `Key`, if the key has another length or is all zeros.
pub fn check_key(key: &[u8], expected: usize) -> Result<(), PoolError> {
    let length = key.len();
    if length != expected || is_empty_key(key) {
        return Err(PoolError::Key { length, expected });
    }
    Ok(())
}

/// Refuses an invalid start of a scan: like [`check_key`], but it may be all zeros.
///
/// # Errors
/// `Key`, if the start has another length.
pub fn check_bound(from: &[u8], expected: usize) -> Result<(), PoolError> {
    let length = from.len();
    if length != expected {
        return Err(PoolError::Key { length, expected });
    }
    Ok(())
}

/// Refuses an invalid value of an index with values of `expected` bytes.
///
/// # Errors
/// `Value`, if the value has another length.
pub fn check_value(value: &[u8], expected: usize) -> Result<(), PoolError> {
    let length = value.len();
    if length != expected {
        return Err(PoolError::Value { length, expected });
    }
    Ok(())
}
