//! Writes of values that do not return the old ones.

use super::client::PoolStoreClient;
use super::form::{SlotKey, StoreSlotValue};
use super::long_change::LongKeyDecision;
use super::{PoolEntryForm, PoolStore};
use crate::chime::KeyChangeDecision;
use crate::error::PoolError;
use crate::executor::block_on;
use crate::index::PoolIndexClient;
use nearfield_core::OperationError;
use nearfield_fabric::{Endpoint, FabricError};

/// The time at which an operation failed.
enum StorePutError {
    /// The time before anything was changed.
    Before(PoolError),
    /// A time at which it may have been done.
    Meanwhile(PoolError),
}

impl<F: PoolEntryForm, E: Endpoint + 'static> PoolStore<F, E> {
    /// Sets the value of a key, whether it exists or not, and does not return the old one: a long
    /// one is not read, nor is a word that this process has put recently. The block of a long key
    /// is read, because other keys may share it.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`, `Unreachable` if nothing was changed,
    /// `Unknown`.
    pub fn put(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), OperationError> {
        F::check(key, Some(value))?;
        let (key, value) = (F::key_bytes(key), F::value_bytes(value));
        let (key, value) = (key.as_ref(), value.as_ref());
        let limit = self.codec.key_bytes_max;
        if key.len() > limit {
            return Err(OperationError::KeyTooLong {
                start: OperationError::shorten(key),
                length: key.len(),
                limit,
            });
        }
        let client = self.client()?;
        let slot = self.codec.encode_key(key);
        let done = match (F::IS_WORDS, self.codec.rest(key)) {
            (true, _) => block_on(client.put_word(&slot, value)),
            (false, None) => block_on(client.put(&slot, value)),
            (false, Some(rest)) => block_on(client.put_long(&slot, rest, value)),
        };
        done.map_err(|failed| match failed {
            StorePutError::Before(PoolError::Fabric(error @ FabricError::OutOfMemory { .. }))
            | StorePutError::Meanwhile(PoolError::Fabric(
                error @ FabricError::OutOfMemory { .. },
            )) => {
                let what = format!("entry of key {:?}: {error}", OperationError::shorten(key));
                OperationError::OutOfMemory { what }
            }
            StorePutError::Before(error) => {
                client.note_failure(&error);
                let what = error.to_string();
                OperationError::Unreachable { what }
            }
            StorePutError::Meanwhile(error) => {
                client.note_failure(&error);
                let what = error.to_string();
                OperationError::Unknown { what }
            }
        })
    }
}

impl<E: Endpoint> PoolStoreClient<E> {
    /// Puts a word, which is stored in its slot.
    async fn put_word(&self, key: &SlotKey, value: &[u8]) -> Result<(), StorePutError> {
        let slot = self.codec.encode_inline(value);
        let put = PoolIndexClient::put(&self.tree, key, &slot);
        put.await.map_err(StorePutError::Meanwhile)
    }

    /// Puts the value of a long key, whose rest its slot does not hold.
    async fn put_long(
        &self,
        slot: &SlotKey,
        rest: &[u8],
        value: &[u8],
    ) -> Result<(), StorePutError> {
        let decide = |_: Option<&[u8]>| LongKeyDecision::Put(value.to_vec());
        let put = self.alter_long(slot, rest, decide).await;
        put.map(drop).map_err(StorePutError::Meanwhile)
    }

    /// Puts a byte string, and retires the block of the old one.
    async fn put(&self, key: &SlotKey, value: &[u8]) -> Result<(), StorePutError> {
        let endpoint = self.tree.endpoint();
        let (slot, block) = self.place(value).await.map_err(StorePutError::Before)?;
        // Taken after the value is placed, which may wait for memory: no guard may be held during
        // such a wait.
        let reading = self
            .blocks
            .enter(endpoint)
            .await
            .map_err(StorePutError::Before)?;
        let decide = async |_: Option<&[u8]>| Ok(KeyChangeDecision::Put(slot.clone()));
        let retired = match self.alter(key, decide).await {
            Ok(before) => match before.as_deref().map(|slot| self.codec.decode_value(slot)) {
                Some(StoreSlotValue::Outside(block)) => {
                    self.blocks.retire(endpoint, &reading, block).await
                }
                _ => Ok(()),
            },
            Err(error) => {
                if let (Some(block), PoolError::Fabric(_)) = (block, &error) {
                    // Nothing was changed, so no slot refers to it.
                    let taken = self.blocks.take_back(endpoint, &reading, block).await;
                    taken.map_err(StorePutError::Meanwhile)?;
                }
                Err(error)
            }
        };
        retired.map_err(StorePutError::Meanwhile)
    }
}
