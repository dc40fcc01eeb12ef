//! The cold tiers of a store: reading the values there, giving up their places, and counting what
//! they serve.
//!
//! A record whose value lies in a cold tier has the value's [`Place`] instead of it. Those who read
//! it may have met the record before it was replaced. So a place that is given up is not released
//! while anybody may be at it: it is [retired](Cold::retire) until no read is under way, and stays
//! as long as anybody [holds](Held) it.

mod traffic;

pub use traffic::{LATENCIES, Traffic};

use crate::claim::{Holds, Retired};
use crate::disk::PATIENCE;
use crate::place::Place;
use crate::specification::TierKind;
use crate::tiers::Tiers;
use crate::usage::{ReadError, Refused};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The cold tiers of a store, if it has any. See the [module](self).
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
    /// The part of the store that has the key, such as the number of a database.
    pub part: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The number of the node that was used; 0 is the value as a whole.
    pub node: u64,
    /// Where its value lay.
    pub place: Place,
}

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
    fn late() -> Unread {
        Unread::Disk("the disk does not answer".to_owned())
    }

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
    pub fn note_use(&self, part: usize, key: &[u8], place: Place) {
        self.note_use_of_node(part, key, 0, place);
    }

    /// As [`note_use`](Cold::note_use), of a node of a value.
    pub fn note_use_of_node(&self, part: usize, key: &[u8], node: u64, place: Place) {
        if let Some(traffic) = self.traffic(place.tier()) {
            traffic.served.fetch_add(1, Ordering::Relaxed);
        }
        let mut uses = self.uses.lock();
        if uses.len() < USES_MAX {
            let key = key.to_vec();
            uses.push(ColdUse {
                part,
                key,
                node,
                place,
            });
        }
    }

    /// The uses since the last call.
    pub fn take_uses(&self) -> Vec<ColdUse> {
        std::mem::take(&mut *self.uses.lock())
    }

    /// Counts that a value has moved.
    pub fn count_move(&self, from: usize, to: usize, bytes: usize) {
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
        match &read {
            Ok(()) => traffic.set_late(false),
            Err(why) => {
                traffic.unreadable.fetch_add(1, Ordering::Relaxed);
                traffic.set_late(why.is_late());
            }
        }
        read
    }

    /// As [`read`](Cold::read), for a move, which nobody needs: it waits for no disk that has not
    /// answered the last read in time.
    ///
    /// # Errors
    /// As of `read`.
    pub fn read_to_move(&self, place: Place, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let traffic = self.traffic(place.tier());
        if traffic.is_some_and(Traffic::is_late) {
            return Err(Unread::late().error());
        }
        self.read(place, out)
    }

    /// Has moves wait for disks again that have not answered in time.
    pub(crate) fn forget_late(&self) {
        self.traffic.iter().for_each(|it| it.set_late(false));
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

    /// Takes the places that were retired, to be [released](Cold::release). To be called in an
    /// exclusive phase, when no read is under way.
    pub fn take_retired(&self) -> Vec<Place> {
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

    /// Counts a read of a place, and whether it has answered the value.
    pub fn count_read(&self, place: Place, took: Duration, is_read: bool) {
        if let Some(traffic) = self.traffic(place.tier()) {
            traffic.count_read(took);
            if is_read {
                traffic.set_late(false);
            } else {
                traffic.unreadable.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lays what was read beside its place, for commands that come while it is held. Who has asked
    /// for it has waited for so long.
    pub fn deliver(&self, place: Place, read: Result<Vec<u8>, ReadError>, took: Duration) {
        self.count_read(place, took, read.is_ok());
        let fetched = || Arc::new(read.map_err(Unread::from));
        self.holds.lay(place, fetched);
    }

    /// Has commands that read a place which is held be told that the disk does not answer, if it
    /// has not.
    pub fn give_up_waiting(&self, place: Place) {
        if let Some(traffic) = self.traffic(place.tier()) {
            traffic.set_late(true);
        }
        self.holds.lay(place, || Arc::new(Err(Unread::late())));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specification::Specification;

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
        assert!(cold.read_to_move(place, &mut Vec::new()).is_ok());
        cold.give_up_waiting(place);
        // No move waits for it.
        let moved = cold.read_to_move(place, &mut Vec::new());
        assert!(moved.unwrap_err().to_string().contains("does not answer"));
        let error = read().unwrap_err().to_string();
        assert!(error.contains("does not answer"), "{error}");
        // Who came too late finds that others were told so.
        cold.deliver(place, Ok(b"late".to_vec()), Duration::ZERO);
        assert!(read().is_err());
        drop(one);
        assert!(read().is_err());
        drop(other);
        assert_eq!(read().unwrap(), [b'x'; 500]);
        assert!(cold.read_to_move(place, &mut Vec::new()).is_ok());
        let held = Held::new(&cold, place);
        cold.deliver(place, Ok(b"fetched".to_vec()), Duration::ZERO);
        assert_eq!(read().unwrap(), b"fetched");
        cold.release(place);
        assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 1);
        drop(held);
        assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 0);
    }
}
