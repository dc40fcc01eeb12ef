//! One of the numbered databases: an ordered index of keys, and one of the times at which keys
//! expire.

use super::home::Home;
use super::index::Index;
use super::record::Record;
use nearfield::Error;
use std::ops::Bound;
use std::sync::OnceLock;

/// The number of databases.
pub const DATABASES: usize = 16;

/// The keys of one database. Its indexes are created when first written to, unless they are shared
/// with other servers.
#[derive(Debug)]
pub struct Database {
    home: Home,
    number: u8,
    entries: OnceLock<Index>,
    /// Keys in the order of their expiry: eight bytes of time, then the key; values are empty. If
    /// it is shared it has the keys of all databases, and the database's number before each key.
    expiries: OnceLock<Index>,
}

impl Database {
    /// An empty database, or what is there if it is shared.
    pub fn new(home: &Home, number: usize) -> Database {
        let database = Database {
            home: home.clone(),
            number: number as u8,
            entries: OnceLock::new(),
            expiries: OnceLock::new(),
        };
        if home.is_shared() {
            // What is shared is there, so that nothing can fail.
            let _ = (database.entries_or_create(), database.expiries_or_create());
        }
        database
    }

    /// An empty database in place of this one, which is answered.
    pub fn replace(&mut self) -> Database {
        let empty = Database::new(&self.home, self.number.into());
        std::mem::replace(self, empty)
    }

    /// True if other servers read and change the same keys.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.home.is_shared()
    }

    /// The index of keys, if a key was ever written.
    #[inline]
    pub fn entries(&self) -> Option<&Index> {
        self.entries.get()
    }

    /// The index of keys, created if need be.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn entries_or_create(&self) -> Result<&Index, Error> {
        get_or_create(&self.entries, || self.home.entries(self.number))
    }

    /// The index of expiries, if a key ever had one.
    pub fn expiries(&self) -> Option<&Index> {
        self.expiries.get()
    }

    fn expiries_or_create(&self) -> Result<&Index, Error> {
        get_or_create(&self.expiries, || self.home.expiries())
    }

    /// The number of keys. Keys that are shared are read to count them.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn len(&self) -> Result<usize, Error> {
        self.entries().map_or(Ok(0), Index::len)
    }

    /// True if there are no keys.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn is_empty(&self) -> Result<bool, Error> {
        self.entries().map_or(Ok(true), Index::is_empty)
    }

    /// The number of keys that expire.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn expiring(&self) -> Result<usize, Error> {
        self.expiries().map_or(Ok(0), Index::len)
    }

    /// True if the time of a key is over.
    pub fn is_expiry_due(&self, now_ms: u64) -> bool {
        if self.is_shared() && self.number > 0 {
            // The first database sees to the keys of all.
            return false;
        }
        // What cannot be read is asked for again the next time.
        let first = self.expiries().and_then(|expiries| expiries.first().ok()?);
        let time = first.and_then(|(expiry, _)| Some(parse_expiry_key(&expiry)?.0));
        time.is_some_and(|time| time <= now_ms)
    }

    /// Reads what is stored for a key, whether its time is over or not.
    ///
    /// # Errors
    /// Those of the placement.
    #[inline]
    pub fn read<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(Record<'_>) -> R,
    ) -> Result<Option<R>, Error> {
        let Some(entries) = self.entries() else {
            return Ok(None);
        };
        let stored = entries.get(key)?;
        Ok(stored.map(|stored| read(Record::parse(&stored))))
    }

    /// Notes in the index of expiries that the time of `key` changes. To be called after the key of
    /// a shared index was changed, and in any order otherwise.
    ///
    /// # Errors
    /// Those of the index, and nothing is changed. None if it is shared.
    #[inline]
    pub fn note_expiry(
        &self,
        key: &[u8],
        before: Option<u64>,
        after: Option<u64>,
    ) -> Result<(), Error> {
        if before == after {
            return Ok(());
        }
        if self.is_shared() {
            // A key whose time is not noted is gone for clients when its time is over. It takes
            // memory until it is written again.
            if let Err(error) = self.note_shared_expiry(key, before, after) {
                tracing::warn!("the time of a key is not noted: {error}");
            }
            return Ok(());
        }
        if let Some(time) = after {
            self.expiries_or_create()?
                .insert(&expiry_key(time, key), b"")?;
        }
        if let (Some(time), Some(expiries)) = (before, self.expiries.get()) {
            expiries.remove(&expiry_key(time, key))?;
        }
        Ok(())
    }

    /// Notes that the time of a shared key has changed.
    ///
    /// Another server may give the key the time `before` again at this moment. It writes the key
    /// first and notes the time then. So the key is looked at once more after the note of `before`
    /// was removed: either the note came later, or the key is seen to have that time.
    #[cold]
    fn note_shared_expiry(
        &self,
        key: &[u8],
        before: Option<u64>,
        after: Option<u64>,
    ) -> Result<(), Error> {
        let expiries = self.expiries_or_create()?;
        if let Some(time) = after {
            expiries.insert(&self.expiry_key(time, key), b"")?;
        }
        if let Some(time) = before {
            let noted = self.expiry_key(time, key);
            expiries.remove(&noted)?;
            if self.read(key, |record| record.expires_at_ms)? == Some(Some(time)) {
                expiries.insert(&noted, b"")?;
            }
        }
        Ok(())
    }

    /// Removes up to `limit` keys of all databases of a shared map whose time is over, and answers
    /// how many notes of times there were, and how many keys.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn expire_shared(&self, now_ms: u64, limit: usize) -> Result<(usize, u64), Error> {
        let (mut notes, mut keys) = (0, 0);
        let expiries = self.expiries_or_create()?;
        let end = (now_ms + 1).to_be_bytes();
        let due = expiries.range((Bound::Unbounded, Bound::Excluded(&end[..])));
        for entry in due.take(limit) {
            let noted = entry?.0;
            let Some((_, [number, key @ ..])) = parse_expiry_key(&noted) else {
                continue;
            };
            let entries = self.home.entries(*number)?;
            // A key that was given another time has another note.
            if let Some(stored) = entries.get(key)?
                && Record::parse(&stored).is_expired(now_ms)
                && entries.remove_if(key, &stored)?
            {
                keys += 1;
            }
            expiries.remove(&noted)?;
            notes += 1;
        }
        Ok((notes, keys))
    }

    /// The note of a time, if the index is shared.
    fn expiry_key(&self, time_ms: u64, key: &[u8]) -> Vec<u8> {
        [&time_ms.to_be_bytes()[..], &[self.number], key].concat()
    }

    /// The bytes of this process's memory that the indexes use, without what they hold for use
    /// again.
    pub fn used_bytes(&self) -> usize {
        let bytes = |index: &Index| index.memory().total_bytes();
        self.entries().map_or(0, bytes) + self.expiries().map_or(0, bytes)
    }
}

#[inline]
fn get_or_create(
    index: &OnceLock<Index>,
    create: impl FnOnce() -> Result<Index, Error>,
) -> Result<&Index, Error> {
    if let Some(index) = index.get() {
        return Ok(index);
    }
    let created = create()?;
    Ok(index.get_or_init(|| created))
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
