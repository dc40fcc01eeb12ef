//! Values in cold tiers: reading them, and giving up their places.
//!
//! A record whose value lies in a cold tier has the value's [`Place`] instead of it. The type of
//! the key and the time at which it expires stay in the record, so that commands which ask for
//! these read no tier.
//!
//! Reads of strings hold no stripe. So that they find at a place what they have read of in the
//! index, a place that is given up is not released at once: it is *retired*, like a
//! [slot](super::slots), and released in the next exclusive phase, when no read is under way.

use super::slots::Slot;
use super::traffic::Traffic;
use super::{Databases, Keyspace, Payload, Record};
use crate::error::{CommandError, shown};
use crate::object::{Kind, Object};
use nearfield_tiers::claim::{self, Holds, Retired};
use nearfield_tiers::{Heap, Place, ReadError, Refused, TierKind, Tiers};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The cold tiers of a keyspace, if it has any.
#[derive(Debug, Default)]
pub struct Cold {
    tiers: Option<Arc<Tiers>>,
    retired: Retired<Place>,
    /// Places that are read outside of a phase, and what was read from there, for commands to come.
    holds: Holds<Place, Arc<Fetched>>,
    /// What each tier has served, the memory first.
    traffic: Box<[Traffic]>,
    uses: Mutex<Vec<ColdUse>>,
}

/// A use of a value that lay in a cold tier.
#[derive(Debug)]
pub struct ColdUse {
    /// The number of the database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// Where its value lay.
    pub place: Place,
}

/// How long is waited for a disk. Then there is an error. *Assumed*: a disk that works answers in a
/// hundredth of it.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Uses that are kept for the mover; more are forgotten.
const USES_MAX: usize = 1 << 12;

/// What was read from a place.
type Fetched = Result<Vec<u8>, Unread>;

/// Why it was not read, to be told several times.
#[derive(Debug)]
enum Unread {
    Damaged,
    Absent,
    Disk(String),
}

impl Unread {
    fn error(&self) -> ReadError {
        match self {
            Unread::Damaged => ReadError::Damaged,
            Unread::Absent => ReadError::Absent,
            Unread::Disk(why) => ReadError::Disk(std::io::Error::other(why.clone())),
        }
    }
}

impl From<ReadError> for Unread {
    fn from(error: ReadError) -> Unread {
        match error {
            ReadError::Damaged => Unread::Damaged,
            ReadError::Absent => Unread::Absent,
            ReadError::Disk(why) => Unread::Disk(why.to_string()),
        }
    }
}

/// A place that is held until this is dropped.
#[derive(Debug)]
pub struct Held {
    cold: Arc<Cold>,
    place: Place,
}

impl Held {
    /// Holds a place. To be called in the phase in which it was read from the index.
    pub fn new(cold: &Arc<Cold>, place: Place) -> Held {
        cold.hold(place);
        Held {
            cold: Arc::clone(cold),
            place,
        }
    }

    /// The place.
    pub fn place(&self) -> Place {
        self.place
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.cold.let_go(self.place);
    }
}

impl Cold {
    /// The cold tiers among `tiers`.
    pub fn new(tiers: Option<Arc<Tiers>>) -> Cold {
        let count = tiers.as_ref().map_or(0, |tiers| tiers.count());
        Cold {
            tiers,
            traffic: (0..count).map(|_| Traffic::default()).collect(),
            ..Cold::default()
        }
    }

    /// What a tier has served, and what has moved.
    pub fn traffic(&self, tier: usize) -> Option<&Traffic> {
        self.traffic.get(tier)
    }

    /// Notes that a client has used a value in a cold tier. Who looks only, or copies values, uses
    /// none.
    pub fn note_use(&self, database: usize, key: &[u8], place: Place) {
        if let Some(traffic) = self.traffic(place.tier()) {
            traffic.served.fetch_add(1, Ordering::Relaxed);
        }
        let mut uses = self.uses.lock();
        if uses.len() < USES_MAX {
            let key = key.to_vec();
            uses.push(ColdUse {
                database,
                key,
                place,
            });
        }
    }

    /// The uses since the last call.
    pub fn take_uses(&self) -> Vec<ColdUse> {
        std::mem::take(&mut *self.uses.lock())
    }

    pub(super) fn count_move(&self, from: usize, to: usize, bytes: usize) {
        if from == to {
            return;
        }
        let (from, to) = (self.traffic(from), self.traffic(to));
        for (count, sum) in [
            from.map(|from| (&from.moved_out, &from.moved_out_bytes)),
            to.map(|to| (&to.moved_in, &to.moved_in_bytes)),
        ]
        .into_iter()
        .flatten()
        {
            count.fetch_add(1, Ordering::Relaxed);
            sum.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Counts that a value could not move into a tier.
    pub fn count_abandoned(&self, to: usize) {
        if let Some(traffic) = self.traffic(to) {
            traffic.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The tiers, if there are any.
    #[inline]
    pub fn tiers(&self) -> Option<&Tiers> {
        self.tiers.as_deref()
    }

    /// The name of a tier's kind.
    pub fn name(&self, number: usize) -> &'static str {
        let tiers = self.tiers.as_ref();
        let tier = tiers.and_then(|tiers| tiers.specifications().get(number));
        match tier.map(|tier| &tier.kind) {
            Some(TierKind::Memory) | None => "memory",
            // The first tier is the memory, wherever that is.
            Some(TierKind::Node(_)) if number == 0 => "memory",
            Some(TierKind::Node(_)) => "numa",
            Some(TierKind::Compressed) => "compressed",
            Some(TierKind::File(_)) => "file",
        }
    }

    /// The memory of this process that values in cold tiers take.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let Some(tiers) = &self.tiers else { return 0 };
        let in_memory = (1..tiers.count()).filter(|&tier| tiers.folder(tier).is_none());
        let usages = in_memory.filter_map(|tier| tiers.usage(tier));
        usages.map(|usage| usage.used_bytes).sum()
    }

    /// Puts values into a cold tier together and answers their places, in their order. That a disk
    /// takes nothing any more, or does again, is logged.
    ///
    /// # Errors
    /// Nothing is put then.
    pub fn put(&self, to: usize, values: &[&[u8]]) -> Result<Vec<Place>, Refused> {
        let Some(tiers) = &self.tiers else {
            return Err(Refused::Full);
        };
        let put = tiers.put(to, values);
        if let (Some(traffic), Some(folder)) = (self.traffic(to), tiers.folder(to)) {
            let folder = folder.display();
            match &put {
                Ok(_) if traffic.note_written() => {
                    tracing::warn!("the tier file:{folder} takes values again");
                }
                Err(error @ Refused::Disk { .. }) if traffic.count_unwritable(error) => {
                    tracing::error!("the tier file:{folder} takes no values now: {error}");
                }
                _ => {}
            }
        }
        put
    }

    /// Appends the value at a place to `out`. May wait for a disk, but no longer than
    /// [`PATIENCE`].
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, place: Place, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let (Some(tiers), Some(traffic)) = (&self.tiers, self.traffic(place.tier())) else {
            return Err(ReadError::Absent);
        };
        if let Some(fetched) = self.holds.fetched(place) {
            return match &*fetched {
                Ok(value) => {
                    out.extend_from_slice(value);
                    Ok(())
                }
                Err(unread) => Err(unread.error()),
            };
        }
        let began = Instant::now();
        let read = tiers.read_within(PATIENCE, place, out);
        traffic.count_read(began.elapsed());
        if read.is_err() {
            traffic.unreadable.fetch_add(1, Ordering::Relaxed);
        }
        read
    }

    /// Gives up a place that readers may still be at.
    pub fn retire(&self, place: Place) {
        self.retired.add(place);
    }

    /// How many places wait to be released.
    #[inline]
    pub fn retired(&self) -> usize {
        self.retired.count()
    }

    /// Takes the places that were given up, to be [released](Cold::release) when the exclusive
    /// phase is over: `_exclusive` shows that it is not.
    pub fn reclaim(&self, _exclusive: &mut Databases) -> Vec<Place> {
        self.retired.take()
    }

    /// Gives up a place that nobody reads any more, but for those who hold it.
    pub fn release(&self, place: Place) {
        if let (true, Some(tiers)) = (self.holds.give_up(place), &self.tiers) {
            tiers.release(place);
        }
    }

    /// The last tier that holds values, if one of the cold ones does.
    pub fn last_with_values(&self) -> Option<usize> {
        let tiers = self.tiers.as_ref()?;
        (1..tiers.count())
            .rev()
            .find(|&tier| tiers.values(tier) > 0)
    }

    /// True if reads of a tier wait for a disk, and it has values.
    #[inline]
    pub fn has_files(&self) -> bool {
        let Some(tiers) = &self.tiers else {
            return false;
        };
        let last = tiers.count() - 1;
        tiers.folder(last).is_some() && tiers.values(last) > 0
    }

    /// True if reading a place waits for a disk.
    pub fn waits(&self, place: Place) -> bool {
        let tiers = self.tiers.as_ref();
        tiers.is_some_and(|tiers| tiers.folder(place.tier()).is_some())
    }

    /// True if what lies at a place that is held was read before.
    pub fn has_fetched(&self, place: Place) -> bool {
        self.holds.fetched(place).is_some()
    }

    /// Lays what was read beside its place, for commands that come while it is held. Who has asked
    /// for it has waited for so long.
    pub fn deliver(&self, place: Place, read: Result<Vec<u8>, ReadError>, took: Duration) {
        if let Some(traffic) = self.traffic(place.tier()) {
            traffic.count_read(took);
            if read.is_err() {
                traffic.unreadable.fetch_add(1, Ordering::Relaxed);
            }
        }
        let fetched = || Arc::new(read.map_err(Unread::from));
        self.holds.lay(place, fetched);
    }

    /// Has commands that read a place which is held be told that the disk does not answer, if it
    /// has not.
    pub fn give_up_waiting(&self, place: Place) {
        let late = || Unread::Disk("the disk does not answer".to_owned());
        self.holds.lay(place, || Arc::new(Err(late())));
    }

    /// Keeps a place from being released, so that it does not become another value's. To be called
    /// in the phase in which it was read from the index.
    pub fn hold(&self, place: Place) {
        self.holds.hold(place);
    }

    /// Ends a [hold](Cold::hold).
    pub fn let_go(&self, place: Place) {
        if let (true, Some(tiers)) = (self.holds.let_go(place), &self.tiers) {
            tiers.release(place);
        }
    }
}

/// What a record refers to that lies outside of the index: an object or a long string in a slot, or
/// a value in a cold tier.
pub type Outside = claim::Outside<Slot, Place>;

impl Record<'_> {
    /// What it refers to outside of the index.
    #[inline]
    pub fn outside(&self) -> Option<Outside> {
        match self.payload {
            Payload::Inline(_) => None,
            Payload::InSlot(slot) => Some(Outside::Slot(slot)),
            Payload::InTier(place) => Some(Outside::Place(place)),
        }
    }
}

thread_local! {
    /// Where values of cold tiers are read to.
    static READ: RefCell<Vec<u8>> = RefCell::default();
}

/// A buffer that is larger than this after a read is given back.
const KEPT_BYTES: usize = 64 << 10;

impl Keyspace {
    /// Gives up what the record of a key has referred to.
    #[inline]
    pub fn retire(&self, outside: Option<Outside>) {
        match outside {
            None => {}
            Some(Outside::Slot(slot)) => self.slots.retire(slot),
            Some(Outside::Place(place)) => self.cold.retire(place),
        }
    }

    /// How much was given up and waits to be freed.
    #[inline]
    pub fn retired(&self) -> usize {
        self.slots.retired() + self.cold.retired()
    }

    /// Frees what was given up. What takes long is done when the result is dropped, which is best
    /// after the exclusive phase.
    pub fn reclaim(&self, exclusive: &mut Databases) -> Reclaimed<'_> {
        Reclaimed {
            _objects: self.slots.reclaim(exclusive),
            places: self.cold.reclaim(exclusive),
            cold: &self.cold,
        }
    }

    /// Gives the value of `key`, which lies at a place of a cold tier, to `read`.
    ///
    /// # Errors
    /// It cannot be read. The error names the key.
    pub fn read_place<R>(
        &self,
        key: &[u8],
        place: Place,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, CommandError> {
        let mut value = READ.take();
        value.clear();
        let result = match self.cold.read(place, &mut value) {
            Ok(()) => Ok(read(&value)),
            Err(error) => Err(self.unreadable(key, place, &error)),
        };
        if value.capacity() <= KEPT_BYTES {
            READ.replace(value);
        }
        result
    }

    /// The object of `key`, which lies at a place of a cold tier, in `heap`. The place is left as
    /// it is.
    ///
    /// # Errors
    /// It cannot be read. The error names the key.
    pub fn thaw(
        &self,
        key: &[u8],
        kind: Kind,
        place: Place,
        heap: &Heap,
    ) -> Result<Object, CommandError> {
        let thawed = self.read_place(key, place, |value| Object::thaw(kind, value, heap))?;
        thawed.map_err(|_| self.unreadable(key, place, &ReadError::Damaged))
    }

    #[cold]
    fn unreadable(&self, key: &[u8], place: Place, error: &ReadError) -> CommandError {
        let tiers = self.cold.tiers();
        let tier = tiers.and_then(|tiers| tiers.specifications().get(place.tier()));
        let tier = tier.map_or(String::new(), |tier| format!(" {}", tier.kind));
        let key = shown(key);
        let text = format!("the value of '{key}' in the tier{tier} cannot be read: {error}");
        tracing::error!("{text}");
        CommandError::owned(format!("ERR {text}; a restart reads it from the log"))
    }
}

/// What was given up and nobody reads any more.
#[derive(Debug)]
pub struct Reclaimed<'k> {
    _objects: Vec<Object>,
    places: Vec<Place>,
    cold: &'k Cold,
}

impl Drop for Reclaimed<'_> {
    fn drop(&mut self) {
        self.places
            .iter()
            .for_each(|&place| self.cold.release(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_tiers::Specification;

    #[test]
    fn what_is_fetched_is_read_while_it_is_held_and_a_late_disk_is_an_error() {
        let tiers = ["memory=1M", "compressed=1M"].map(|tier| tier.parse::<Specification>());
        let tiers = Tiers::open(&tiers.map(Result::unwrap)).unwrap();
        let place = tiers.put(1, &[&[b'x'; 500]]).unwrap()[0];
        let cold = Arc::new(Cold::new(Some(Arc::new(tiers))));
        let read = || {
            let mut value = Vec::new();
            cold.read(place, &mut value).map(|()| value)
        };
        let (one, other) = (Held::new(&cold, place), Held::new(&cold, place));
        cold.give_up_waiting(place);
        let error = read().unwrap_err().to_string();
        assert!(error.contains("does not answer"), "{error}");
        // Who came too late finds that others were told so.
        cold.deliver(place, Ok(b"late".to_vec()), Duration::ZERO);
        assert!(read().is_err());
        drop(one);
        assert!(read().is_err());
        drop(other);
        assert_eq!(read().unwrap(), [b'x'; 500]);
        let held = Held::new(&cold, place);
        cold.deliver(place, Ok(b"fetched".to_vec()), Duration::ZERO);
        assert_eq!(read().unwrap(), b"fetched");
        cold.release(place);
        assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 1);
        drop(held);
        assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 0);
    }
}
