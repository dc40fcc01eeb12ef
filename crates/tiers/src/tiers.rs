//! All tiers of a store, in order.

use crate::compressed::{CompressedTier, is_block};
use crate::disk::{RealTierDisk, TierDisk};
use crate::error::TierOpenError;
use crate::files::{FileTier, PendingTierRead};
use crate::machine;
use crate::numa::{self, NumaNodeMemory};
use crate::place::ColdPlace;
use crate::specification::{Specification, TierKind};
use crate::usage::{ReadError, TierRefusal, TierUsage};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The tiers of a store, from fast to slow. All threads may use them at once.
///
/// ```
/// use nearfield_tiers::Tiers;
///
/// let tiers = ["memory=16mb".parse()?, "compressed=16mb".parse()?];
/// let tiers = Tiers::open(&tiers)?;
/// let value = "to be or not to be ".repeat(20);
/// let place = tiers.put(1, &[value.as_bytes()])?[0];
/// assert!(tiers.usage(1).unwrap().used_bytes < 200);
/// let mut read = Vec::new();
/// tiers.read(place, &mut read)?;
/// assert_eq!(read, value.as_bytes());
/// tiers.release(place);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Tiers {
    specifications: Vec<Specification>,
    /// Tiers below the first, which is the memory of the store itself.
    cold: Vec<ColdTier>,
    notes: Vec<String>,
}

#[derive(Debug)]
enum ColdTier {
    /// Segments in the memory of a NUMA node.
    Node(FileTier),
    Compressed(CompressedTier),
    Files(FileTier),
}

impl Tiers {
    /// Opens empty tiers.
    ///
    /// # Errors
    /// The tiers are in an order that is not allowed, they are larger than the machine, or a folder
    /// cannot be written to.
    pub fn open(specifications: &[Specification]) -> Result<Tiers, TierOpenError> {
        Tiers::open_on(
            specifications,
            &(Arc::new(RealTierDisk) as Arc<dyn TierDisk>),
        )
    }

    /// Opens empty tiers like [`open`](Tiers::open), with the files on another disk.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_on(
        specifications: &[Specification],
        disk: &Arc<dyn TierDisk>,
    ) -> Result<Tiers, TierOpenError> {
        Specification::check_order(specifications)?;
        // Files do not count: each folder checks its own room when its tier opens.
        let in_memory = specifications.iter().filter(|tier| tier.folder().is_none());
        let bytes = in_memory.fold(0, |sum: u64, tier| sum.saturating_add(tier.capacity_bytes));
        if let Some(memory_bytes) = machine::memory_bytes()
            && bytes > memory_bytes
        {
            return Err(TierOpenError::MemoryTooSmall {
                bytes,
                memory_bytes,
            });
        }
        let mut notes = Vec::new();
        if let Some(first) = specifications.first() {
            // First, because the policy of the process affects only pages that are allocated later.
            notes.extend(numa::settle(first)?);
        }
        let cold = specifications.iter().enumerate().skip(1);
        let cold = cold.map(|(number, tier)| match &tier.kind {
            TierKind::Node(node) => {
                let (memory, note) = NumaNodeMemory::of(tier, *node)?;
                notes.extend(note);
                FileTier::open(number, Path::new(""), tier.capacity_bytes, Arc::new(memory))
                    .map(ColdTier::Node)
                    .map_err(|error| error.of_memory(tier))
            }
            TierKind::File(folder) => {
                FileTier::open(number, folder, tier.capacity_bytes, Arc::clone(disk))
                    .map(ColdTier::Files)
                    .map_err(|error| error.of(tier))
            }
            // `check_order` allows plain memory only as the first tier.
            TierKind::Compressed | TierKind::Memory => Ok(ColdTier::Compressed(
                CompressedTier::new(number, tier.capacity_bytes),
            )),
        });
        Ok(Tiers {
            specifications: specifications.to_vec(),
            cold: cold.collect::<Result<_, _>>()?,
            notes,
        })
    }

    /// Returns what a user should know: the tiers that differ from how they were specified.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the tiers as they were specified.
    pub fn specifications(&self) -> &[Specification] {
        &self.specifications
    }

    fn cold(&self, tier: usize) -> Option<&ColdTier> {
        self.cold.get(tier.checked_sub(1)?)
    }

    /// Returns the folder of a file tier.
    pub fn folder(&self, tier: usize) -> Option<&Path> {
        self.specifications.get(tier)?.folder()
    }

    /// Returns the usage of a cold tier. Returns `None` for the first tier, which the store
    /// accounts for, and for a tier that does not exist.
    pub fn usage(&self, tier: usize) -> Option<TierUsage> {
        self.cold(tier).map(|cold| match cold {
            ColdTier::Compressed(tier) => tier.usage(),
            ColdTier::Node(tier) | ColdTier::Files(tier) => tier.usage(),
        })
    }

    /// Returns the number of values in a cold tier; 0 if there is no such tier. Takes nanoseconds.
    #[inline]
    pub fn values(&self, tier: usize) -> u64 {
        self.cold(tier).map_or(0, |cold| match cold {
            ColdTier::Compressed(tier) => tier.values(),
            ColdTier::Node(tier) | ColdTier::Files(tier) => tier.values(),
        })
    }

    /// Returns true if values of `bytes` bytes in total, the last of which has `last_bytes`, are
    /// best put now, without adding another.
    pub fn is_batch(&self, tier: usize, bytes: usize, last_bytes: usize) -> bool {
        match self.cold(tier) {
            Some(ColdTier::Compressed(_)) | None => is_block(bytes, last_bytes),
            // A segment has a buffer of its own, so a batch of several values gains nothing.
            Some(ColdTier::Node(_) | ColdTier::Files(_)) => true,
        }
    }

    /// Puts values into a cold tier together and returns their places, in the same order.
    ///
    /// # Errors
    /// The tier refuses them; none of them is put then.
    pub fn put(&self, tier: usize, values: &[&[u8]]) -> Result<Vec<ColdPlace>, TierRefusal> {
        self.put_at_pace(tier, values, false)
    }

    /// Puts values like [`put`](Tiers::put), in as little time as possible: a compressed tier uses
    /// more memory for them until they are [put again](Tiers::wants_rewrite).
    ///
    /// # Errors
    /// As for `put`.
    pub fn put_in_haste(
        &self,
        tier: usize,
        values: &[&[u8]],
    ) -> Result<Vec<ColdPlace>, TierRefusal> {
        self.put_at_pace(tier, values, true)
    }

    fn put_at_pace(
        &self,
        tier: usize,
        values: &[&[u8]],
        is_hasty: bool,
    ) -> Result<Vec<ColdPlace>, TierRefusal> {
        let put = match self.cold(tier) {
            Some(ColdTier::Compressed(tier)) if is_hasty => tier.put_in_haste(values),
            Some(ColdTier::Compressed(tier)) => tier.put(values),
            Some(ColdTier::Node(tier) | ColdTier::Files(tier)) => tier.put(values),
            None => Err(TierRefusal::Full),
        };
        debug_assert!(
            put.as_ref().ok().is_none_or(|places| {
                places.len() == values.len() && places.iter().all(|place| place.tier() == tier)
            }),
            "a value has one place, in the tier that took it"
        );
        put
    }

    /// Does work that takes long and can wait: trains dictionaries. Call it from time to time, on a
    /// thread that no client waits for.
    pub fn tend(&self) {
        for cold in &self.cold {
            if let ColdTier::Compressed(tier) = cold {
                tier.tend();
            }
        }
    }

    /// Appends the value at a place to `out`. May wait for a disk.
    ///
    /// # Errors
    /// The value cannot be read, or is not what was written.
    pub fn read(&self, place: ColdPlace, out: &mut Vec<u8>) -> Result<(), ReadError> {
        match self.cold(place.tier()) {
            Some(ColdTier::Compressed(tier)) => tier.read(place, out),
            Some(ColdTier::Node(tier) | ColdTier::Files(tier)) => tier.read(place, out),
            None => Err(ReadError::Absent),
        }
    }

    /// Reads like [`read`](Tiers::read), but waits at most `limit` for a disk.
    ///
    /// # Errors
    /// As for `read`, and if the disk does not respond in time.
    pub fn read_within(
        &self,
        limit: Duration,
        place: ColdPlace,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        match self.cold(place.tier()) {
            Some(ColdTier::Files(tier)) => {
                let pending = tier.pending(place).ok_or(ReadError::Absent)?;
                pending.run_within(limit, out)
            }
            // Reads of memory wait for no disk, so the limit does not apply.
            _ => self.read(place, out),
        }
    }

    /// Returns the read of a value that waits for a disk, for another thread to run; `None` if the
    /// value is in memory. The value may be released meanwhile.
    pub fn pending(&self, place: ColdPlace) -> Option<PendingTierRead> {
        match self.cold(place.tier()) {
            Some(ColdTier::Files(tier)) => tier.pending(place),
            _ => None,
        }
    }

    /// Releases the value at a place. Call it once for each place, when no thread reads it any
    /// more.
    pub fn release(&self, place: ColdPlace) {
        match self.cold(place.tier()) {
            Some(ColdTier::Compressed(tier)) => tier.release(place),
            Some(ColdTier::Node(tier) | ColdTier::Files(tier)) => tier.release(place),
            None => {}
        }
    }

    /// Returns true if the tier would use fewer bytes once the value at a place is put again.
    pub fn wants_rewrite(&self, place: ColdPlace) -> bool {
        match self.cold(place.tier()) {
            Some(ColdTier::Compressed(tier)) => tier.wants_rewrite(place),
            Some(ColdTier::Node(tier) | ColdTier::Files(tier)) => tier.wants_rewrite(place),
            None => false,
        }
    }

    /// Returns true if most of the values stored around that at a place were released, so that
    /// putting it again frees room.
    pub fn is_sparse(&self, place: ColdPlace) -> bool {
        match self.cold(place.tier()) {
            Some(ColdTier::Compressed(tier)) => tier.is_sparse(place),
            Some(ColdTier::Node(tier) | ColdTier::Files(tier)) => tier.wants_rewrite(place),
            None => false,
        }
    }

    /// Returns the number of tiers, including the first.
    pub fn count(&self) -> usize {
        self.specifications.len()
    }
}
