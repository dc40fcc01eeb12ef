//! Writes of values that do not return the old ones.

use super::client::Client;
use super::form::{Held, SlotKey};
use super::{Store, StoreForm};
use crate::chime::Decision;
use crate::error::PoolError;
use crate::executor::block_on;
use crate::index::PoolIndex;
use nearfield_core::Error;
use nearfield_fabric::{Endpoint, FabricError};

/// The time at which an operation failed.
enum Failed {
    /// The time before anything was changed.
    Before(PoolError),
    /// A time at which it may have been done.
    Meanwhile(PoolError),
}

impl<F: StoreForm, E: Endpoint + 'static> Store<F, E> {
    /// Sets the value of a key, whether it exists or not, and does not return the old one: a long
    /// one is not read, nor is a word that this process has put recently.
    ///
    /// # Errors
    /// `KeyTooLong`, `OutOfMemory`, `Unreachable` if nothing was changed, `Unknown`.
    pub fn put(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), Error> {
        let (key, value) = (F::key_bytes(key), F::value_bytes(value));
        let (key, value) = (key.as_ref(), value.as_ref());
        let limit = self.codec.key_bytes_max;
        if key.len() > limit {
            return Err(Error::KeyTooLong {
                start: Error::shorten(key),
                length: key.len(),
                limit,
            });
        }
        let client = self.client()?;
        let slot = self.codec.encode_key(key);
        let done = match F::IS_WORDS {
            true => block_on(client.put_word(&slot, value)),
            false => block_on(client.put(&slot, value)),
        };
        done.map_err(|failed| match failed {
            Failed::Before(PoolError::Fabric(error @ FabricError::OutOfMemory { .. }))
            | Failed::Meanwhile(PoolError::Fabric(error @ FabricError::OutOfMemory { .. })) => {
                let what = format!("entry of key {:?}: {error}", Error::shorten(key));
                Error::OutOfMemory { what }
            }
            Failed::Before(error) => {
                client.is_lost.set(true);
                let what = error.to_string();
                Error::Unreachable { what }
            }
            Failed::Meanwhile(error) => {
                client.is_lost.set(true);
                let what = error.to_string();
                Error::Unknown { what }
            }
        })
    }
}

impl<E: Endpoint> Client<E> {
    /// Puts a word, which is stored in its slot.
    async fn put_word(&self, key: &SlotKey, value: &[u8]) -> Result<(), Failed> {
        let slot = self.codec.encode_inline(value);
        let put = PoolIndex::put(&self.tree, key, &slot);
        put.await.map_err(Failed::Meanwhile)
    }

    /// Puts a byte string, and retires the block of the old one.
    async fn put(&self, key: &SlotKey, value: &[u8]) -> Result<(), Failed> {
        let endpoint = self.tree.endpoint();
        let (slot, block) = self.place(value).await.map_err(Failed::Before)?;
        let reading = self.blocks.enter(endpoint).await.map_err(Failed::Before)?;
        let decide = async |_: Option<&[u8]>| Ok(Decision::Put(slot.clone()));
        let retired = match self.alter(key, decide).await {
            Ok(before) => match before.as_deref().map(|slot| self.codec.decode_value(slot)) {
                Some(Held::Outside(block)) => self.blocks.retire(endpoint, &reading, block).await,
                _ => Ok(()),
            },
            Err(error) => {
                if let (Some(block), PoolError::Fabric(FabricError::OutOfMemory { .. })) =
                    (block, &error)
                {
                    // The tree could not grow, so no slot refers to it.
                    let taken = self.blocks.take_back(endpoint, &reading, block).await;
                    taken.map_err(Failed::Meanwhile)?;
                }
                Err(error)
            }
        };
        retired.map_err(Failed::Meanwhile)
    }
}
