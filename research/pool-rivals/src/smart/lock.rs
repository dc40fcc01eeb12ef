//! Writes of a leaf in place, under its lock.

use super::layout::{DEAD, LOCKED, SmartLeaf};
use super::locate::{BACK_OFF, BACK_OFF_MAX};
use super::{Smart, SmartUpdate};
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress, MaskedSwap};
use nearfield_pool::PoolError;
use nearfield_pool::coordination::Leader;
use std::time::Duration;

/// Maximum age of a read whose version proves that it is current. Versions recur after 64 writes;
/// each of these takes a round trip and more under the lock, so that they take longer than this
/// over any network.
const TRUST: Duration = Duration::from_micros(100);

impl<E: Endpoint> Smart<E> {
    /// Writes an existing key; returns the old value.
    pub(super) async fn replace(
        &self,
        key: &[u8],
        leader: &mut Leader<'_>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let began = self.endpoint.now();
        let Some(found) = self.find(key).await? else {
            return Ok(None);
        };
        // A client that removed the key meanwhile did so during this operation.
        match self.node.options.update {
            SmartUpdate::InPlace => {
                self.replace_in(found.address, &found.leaf, leader, began)
                    .await
            }
            SmartUpdate::Copy => self.replace_by_copy(key, found, leader).await,
        }
    }

    /// Writes a leaf that was read since `began`; returns the old value, or `None` if the key was
    /// removed.
    pub(super) async fn replace_in(
        &self,
        address: GlobalAddress,
        read: &SmartLeaf,
        leader: &mut Leader<'_>,
        began: Duration,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let locked = self.lock(address, read, began).await?;
        let Some(mut leaf) = locked else {
            return Ok(None);
        };
        leaf.lock = leaf.lock_after();
        // An existing key is written in any case.
        let value = leader.close(Some(&leaf.value)).unwrap_or_default();
        let before = std::mem::replace(&mut leaf.value, value);
        let bytes = self.leaves.encode(&leaf);
        let mut writes = self.leaf_writes(address, &bytes);
        self.endpoint.post(&mut writes).await?;
        Ok(Some(before))
    }

    /// Takes the lock of a leaf that was read since `began`, and returns the current leaf; `None`
    /// if it was removed.
    ///
    /// Initially the lock is taken with the version that was read, so that the leaf need not be
    /// read again; if others write, it is taken with any version, and the leaf is read with it.
    pub(super) async fn lock(
        &self,
        address: GlobalAddress,
        read: &SmartLeaf,
        began: Duration,
    ) -> Result<Option<SmartLeaf>, PoolError> {
        // The version changes with the release of a held lock, so a try with it would fail.
        if read.lock & LOCKED == 0 {
            let swap = self.leaves.lock_swap(read.lock, !0);
            let mut verbs = [self.lock_verb(address, swap)];
            self.endpoint.post(&mut verbs).await?;
            let found = verbs[0].found().unwrap_or_default();
            if swap.succeeds(found) {
                // Versions recur, so after a long time a match proves nothing.
                if self.endpoint.now() - began <= TRUST {
                    return Ok(Some(read.clone()));
                }
                return Ok(Some(self.read_leaf(address).await?));
            }
            if self.leaves.lock_of(found) & DEAD != 0 {
                return Ok(None);
            }
        }
        // Other clients write this leaf, so its version cannot be guessed.
        let swap = self.leaves.lock_swap(0, LOCKED | DEAD);
        let mut bytes = vec![0; self.leaves.bytes()];
        let mut sleep = BACK_OFF;
        let mut limit = WaitLimit::default();
        loop {
            let mut verbs = [
                self.lock_verb(address, swap),
                FabricVerb::Read {
                    from: address,
                    into: &mut bytes,
                },
            ];
            self.endpoint.post(&mut verbs).await?;
            let found = verbs[0].found().unwrap_or_default();
            if swap.succeeds(found) {
                let leaf = self.leaves.decode(&bytes);
                return match leaf {
                    Some(leaf) => Ok(Some(leaf)),
                    None => Ok(Some(self.read_leaf(address).await?)),
                };
            }
            if self.leaves.lock_of(found) & DEAD != 0 {
                return Ok(None);
            }
            limit.check(&self.endpoint, address)?;
            self.endpoint.sleep(sleep).await;
            sleep = (sleep * 2).min(BACK_OFF_MAX);
        }
    }

    fn lock_verb(&self, leaf: GlobalAddress, swap: MaskedSwap) -> FabricVerb<'static> {
        FabricVerb::Swap {
            at: leaf.plus(self.leaves.lock_word_offset()),
            swap,
            found: 0,
        }
    }

    /// Returns the writes of a leaf, the lock last.
    pub(super) fn leaf_writes<'b>(
        &self,
        to: GlobalAddress,
        bytes: &'b [u8],
    ) -> Vec<FabricVerb<'b>> {
        debug_assert_eq!(bytes.len(), self.leaves.bytes());
        let parts = self.leaves.write(self.endpoint.atomic_bytes());
        [parts.first, parts.last]
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(|part| FabricVerb::Write {
                to: to.plus(part.start as u64),
                bytes: bytes.get(part).unwrap_or_default(),
            })
            .collect()
    }
}
