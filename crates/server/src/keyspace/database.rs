//! One of the numbered databases: an ordered index of keys, and one of the times at which keys
//! expire.

use super::record::Record;
use nearfield::{Bytes, Error, Map};
use std::sync::OnceLock;

/// The number of databases.
pub const DATABASES: usize = 16;

/// The keys of one database. Its indexes are created when first written to.
#[derive(Debug, Default)]
pub struct Database {
    entries: OnceLock<Map<Bytes>>,
    /// Keys in the order of their expiry: eight bytes of time, then the key; values are empty.
    expiries: OnceLock<Map<Bytes>>,
}

impl Database {
    /// The index of keys, if a key was ever written.
    #[inline]
    pub fn entries(&self) -> Option<&Map<Bytes>> {
        self.entries.get()
    }

    /// The index of keys, created if need be.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn entries_or_create(&self) -> Result<&Map<Bytes>, Error> {
        get_or_create(&self.entries)
    }

    /// The index of expiries, if a key ever had one.
    pub fn expiries(&self) -> Option<&Map<Bytes>> {
        self.expiries.get()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.entries().map_or(0, Map::len)
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of keys that expire.
    pub fn expiring(&self) -> usize {
        self.expiries().map_or(0, Map::len)
    }

    /// True if the time of a key is over.
    pub fn is_expiry_due(&self, now_ms: u64) -> bool {
        let first = self.expiries().and_then(Map::first);
        let time = first.and_then(|(expiry, _)| Some(parse_expiry_key(&expiry)?.0));
        time.is_some_and(|time| time <= now_ms)
    }

    /// Reads what is stored for a key, whether its time is over or not.
    #[inline]
    pub fn read<R>(&self, key: &[u8], read: impl FnOnce(Record<'_>) -> R) -> Option<R> {
        // A key that is too long to be stored is not there.
        let stored = self.entries()?.get(key).ok()??;
        Some(read(Record::parse(&stored)))
    }

    /// Notes in the index of expiries that the time of `key` changes.
    ///
    /// # Errors
    /// Those of the index, and nothing is changed.
    pub fn note_expiry(
        &self,
        key: &[u8],
        before: Option<u64>,
        after: Option<u64>,
    ) -> Result<(), Error> {
        if before == after {
            return Ok(());
        }
        if let Some(time) = after {
            get_or_create(&self.expiries)?.insert(&expiry_key(time, key), b"")?;
        }
        if let (Some(time), Some(expiries)) = (before, self.expiries.get()) {
            expiries.remove(&expiry_key(time, key))?;
        }
        Ok(())
    }

    /// The bytes of memory that the indexes use, without what they hold for use again.
    pub fn used_bytes(&self) -> usize {
        let bytes = |map: &Map<Bytes>| map.memory().total_bytes();
        self.entries().map_or(0, bytes) + self.expiries().map_or(0, bytes)
    }
}

fn get_or_create(map: &OnceLock<Map<Bytes>>) -> Result<&Map<Bytes>, Error> {
    if let Some(map) = map.get() {
        return Ok(map);
    }
    let created = Map::new()?;
    Ok(map.get_or_init(|| created))
}

/// The key of an expiry.
pub fn expiry_key(time_ms: u64, key: &[u8]) -> Vec<u8> {
    [&time_ms.to_be_bytes()[..], key].concat()
}

/// Takes the key of an expiry apart.
pub fn parse_expiry_key(expiry: &[u8]) -> Option<(u64, &[u8])> {
    let (time, key) = expiry.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*time), key))
}
