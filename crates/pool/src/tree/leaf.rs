//! Leaves: reading a neighborhood, and changing a leaf under its lock.

use super::Tree;
use crate::error::PoolError;
use crate::hopscotch::{self, Lookup};
use crate::layout::{Leaf, Segments, Slots};
use nearfield_fabric::{Endpoint, GlobalAddress, Verb};

/// On which side of a leaf a key belongs.
enum Side {
    Here,
    /// In a leaf to the right.
    Right(GlobalAddress),
}

impl<E: Endpoint> Tree<E> {
    /// Reads a key at a leaf, or one to the right of it.
    pub(super) async fn get_at(
        &self,
        mut address: GlobalAddress,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let home = hopscotch::home(key, self.leaves.span());
        let neighborhood = self.leaves.neighborhood(home);
        // The home's versions, when the key was last not found.
        let mut absent_at = None;
        loop {
            let leaf = self.read_leaf(address, &neighborhood).await?;
            if let Side::Right(sibling) = self.side(&leaf, &neighborhood, key) {
                self.forget_way(key, 1, address);
                address = sibling;
                absent_at = None;
                continue;
            }
            match hopscotch::lookup(&leaf, key) {
                Lookup::Found(slot) => return Ok(Some(leaf.value(slot).to_vec())),
                // It may have been moved while the neighborhood was read. Each move changes the
                // home, so if that is the same after another reading, the first one was of a time
                // without moves.
                Lookup::Absent => {
                    let now = leaf.entry_versions(home);
                    if absent_at.replace(now) == Some(now) {
                        return Ok(None);
                    }
                }
                Lookup::Moved => absent_at = None,
            }
        }
    }

    /// Sets the value of a key in a leaf, or one to the right of it.
    pub(super) async fn insert_at(
        &self,
        address: GlobalAddress,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let (address, mut leaf) = self.lock_leaf(address, key).await?;
        let before = match hopscotch::lookup(&leaf, key) {
            Lookup::Found(slot) => Some(leaf.value(slot).to_vec()),
            _ => None,
        };
        let span = self.leaves.span();
        let all = Slots::new(hopscotch::home(key, span), span, span);
        match hopscotch::insert(&mut leaf, all, key, value) {
            Ok(inserted) => {
                let changed = self.leaves.entries(inserted.written);
                self.write_leaf(address, &leaf, &changed).await?;
            }
            Err(hopscotch::NoRoom) => self.divide(address, leaf, key, value).await?,
        }
        Ok(before)
    }

    /// Removes a key from a leaf, or one to the right of it.
    pub(super) async fn remove_at(
        &self,
        address: GlobalAddress,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let (address, mut leaf) = self.lock_leaf(address, key).await?;
        let Lookup::Found(slot) = hopscotch::lookup(&leaf, key) else {
            let word = self.lock_words.of_leaf(&leaf).to_bits();
            self.unlock(self.lock_of_leaf(address), word)?;
            return Ok(None);
        };
        let value = leaf.value(slot).to_vec();
        if let Some((_, changed)) = hopscotch::remove(&mut leaf, key) {
            let changed = self.leaves.entries(changed);
            self.write_leaf(address, &leaf, &changed).await?;
        }
        Ok(Some(value))
    }

    /// Divides a full leaf, whose lock is held, and puts a key into the half where it belongs.
    async fn divide(
        &self,
        address: GlobalAddress,
        mut leaf: Leaf,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), PoolError> {
        let right = self.allocate(self.leaves.allocation_bytes()).await?;
        let separator = hopscotch::split_key(&leaf, key);
        let mut other = hopscotch::split(&mut leaf, &separator, right);
        let half = if key < &*separator {
            &mut leaf
        } else {
            &mut other
        };
        let span = self.leaves.span();
        let all = Slots::new(hopscotch::home(key, span), span, span);
        let inserted = hopscotch::insert(half, all, key, value);
        debug_assert!(inserted.is_ok(), "the separator makes room");
        // Whoever sees the left half finds the right one.
        self.write_leaf(right, &other, &self.leaves.whole()).await?;
        self.write_leaf(address, &leaf, &self.leaves.whole())
            .await?;
        self.add_child(2, address, &separator, right).await
    }

    /// Takes the lock of the leaf to which a key belongs, `address` or one to the right of it, and
    /// reads it.
    async fn lock_leaf(
        &self,
        mut address: GlobalAddress,
        key: &[u8],
    ) -> Result<(GlobalAddress, Leaf), PoolError> {
        let whole = self.leaves.whole();
        loop {
            let lock = self.lock_of_leaf(address);
            self.lock(lock).await?;
            let leaf = self.read_leaf(address, &whole).await?;
            let Side::Right(sibling) = self.side(&leaf, &whole, key) else {
                return Ok((address, leaf));
            };
            self.unlock(lock, self.lock_words.of_leaf(&leaf).to_bits())?;
            self.forget_way(key, 1, address);
            address = sibling;
        }
    }

    /// Whether a key belongs to a leaf whose `segments` are known, a replica among them.
    fn side(&self, leaf: &Leaf, segments: &Segments, key: &[u8]) -> Side {
        let group = self.leaves.replica_within(segments).unwrap_or(0);
        let sibling = leaf.sibling(group);
        match leaf.fences(group) {
            Some((_, high)) if !sibling.is_null() && key >= high => Side::Right(sibling),
            _ => Side::Here,
        }
    }

    /// Reads segments of a leaf, again and again until nobody has written meanwhile.
    async fn read_leaf(
        &self,
        address: GlobalAddress,
        segments: &Segments,
    ) -> Result<Leaf, PoolError> {
        let mut leaf = Leaf::new(self.leaves);
        let mut buffers: Vec<Vec<u8>> = segments
            .iter()
            .map(|segment| vec![0; segment.wire().len()])
            .collect();
        loop {
            let reads = segments.iter().zip(&mut buffers);
            let mut verbs: Vec<Verb<'_>> = reads
                .map(|(segment, into)| Verb::Read {
                    from: address.plus(segment.wire().start as u64),
                    into,
                })
                .collect();
            self.endpoint.post(&mut verbs).await?;
            drop(verbs);
            let wire: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
            if leaf.decode(segments, &wire).is_ok() {
                return Ok(leaf);
            }
        }
    }

    /// Writes segments of a leaf that is known as a whole, and gives its lock back, or
    /// makes it if nobody knows of the leaf yet.
    pub(super) async fn write_leaf(
        &self,
        address: GlobalAddress,
        leaf: &Leaf,
        segments: &Segments,
    ) -> Result<(), PoolError> {
        let wire = leaf.encode(segments);
        let word = self.lock_words.of_leaf(leaf).to_bits().to_le_bytes();
        let writes = segments
            .iter()
            .zip(&wire)
            .map(|(segment, bytes)| Verb::Write {
                to: address.plus(segment.wire().start as u64),
                bytes,
            });
        let unlock = Verb::Write {
            to: self.lock_of_leaf(address),
            bytes: &word,
        };
        let mut verbs: Vec<Verb<'_>> = writes.chain([unlock]).collect();
        Ok(self.endpoint.post(&mut verbs).await?)
    }

    fn lock_of_leaf(&self, address: GlobalAddress) -> GlobalAddress {
        address.plus(self.leaves.lock_offset() as u64)
    }
}
