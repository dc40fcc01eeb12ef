//! The cold tiers of a store: reads of the values there, release of their places, and counts of
//! what they serve.
//!
//! A record whose value is in a cold tier contains the value's [`ColdPlace`] instead of it. A
//! reader may have found the record before it was replaced. So a place that is given up is not
//! released while a thread may still use it: it is [retired](ColdTiers::retire) until no read is
//! under way, and stays as long as a thread [holds](ColdPlaceGuard) it.

mod traffic;

pub use traffic::{LATENCIES, Traffic};

use crate::claim::{Holds, RetiredList};
use crate::disk::patience;
use crate::place::ColdPlace;
use crate::specification::TierKind;
use crate::tiers::Tiers;
use crate::usage::{ReadError, TierRefusal};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The cold tiers of a store, if it has any. See the [module](self).
#[derive(Debug, Default)]
pub struct ColdTiers {
    tiers: Option<Arc<Tiers>>,
    retired: RetiredList<ColdPlace>,
    /// Places that are read outside of a phase, and what was read from there, for later commands.
    holds: Holds<ColdPlace, Arc<Fetched>>,
    /// Traffic of each tier, beginning with the memory.
    traffic: Box<[Traffic]>,
    uses: Mutex<Vec<ColdUse>>,
}

/// A use of a value in a cold tier.
#[derive(Debug)]
pub struct ColdUse {
    /// The part of the store that has the key, such as the number of a database.
    pub part: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The number of the node that was used; 0 is the value as a whole.
    pub node: u64,
    /// The place of its value.
    pub place: ColdPlace,
}

/// Maximum number of uses that are kept for the mover.
const USES_MAX: usize = 1 << 12;

/// Result of reading a place.
type Fetched = Result<Vec<u8>, ColdReadFailure>;

/// Reason for which a place was not read. Unlike [`ReadError`], it can be returned several times.
#[derive(Debug)]
enum ColdReadFailure {
    Damaged,
    Absent,
    Disk(String),
}

impl ColdReadFailure {
    fn late() -> ColdReadFailure {
        ColdReadFailure::Disk("the disk does not respond".to_owned())
    }

    fn error(&self) -> ReadError {
        match self {
            ColdReadFailure::Damaged => ReadError::Damaged,
            ColdReadFailure::Absent => ReadError::Absent,
            ColdReadFailure::Disk(why) => ReadError::Disk(std::io::Error::other(why.clone())),
        }
    }
}

impl From<ReadError> for ColdReadFailure {
    fn from(error: ReadError) -> ColdReadFailure {
        match error {
            ReadError::Damaged => ColdReadFailure::Damaged,
            ReadError::Absent => ColdReadFailure::Absent,
            ReadError::Disk(why) => ColdReadFailure::Disk(why.to_string()),
        }
    }
}

/// A place that is held until this is dropped.
#[derive(Debug)]
pub struct ColdPlaceGuard {
    cold: Arc<ColdTiers>,
    place: ColdPlace,
}

impl ColdPlaceGuard {
    /// Holds a place. Call it in the phase in which the place was read from the index.
    pub fn new(cold: &Arc<ColdTiers>, place: ColdPlace) -> ColdPlaceGuard {
        cold.hold(place);
        ColdPlaceGuard {
            cold: Arc::clone(cold),
            place,
        }
    }

    /// Returns the place.
    pub fn place(&self) -> ColdPlace {
        self.place
    }
}

impl Drop for ColdPlaceGuard {
    fn drop(&mut self) {
        self.cold.release_hold(self.place);
    }
}

impl ColdTiers {
    /// Creates the cold tiers of `tiers`.
    pub fn new(tiers: Option<Arc<Tiers>>) -> ColdTiers {
        let count = tiers.as_ref().map_or(0, |tiers| tiers.count());
        ColdTiers {
            tiers,
            traffic: (0..count).map(|_| Traffic::default()).collect(),
            ..ColdTiers::default()
        }
    }

    /// Returns the traffic of a tier: what it served and what moved.
    pub fn traffic(&self, tier: usize) -> Option<&Traffic> {
        self.traffic.get(tier)
    }

    /// Notes that a client used a value in a cold tier. A command that only inspects or copies
    /// values uses none.
    pub fn note_use(&self, part: usize, key: &[u8], place: ColdPlace) {
        self.note_use_of_node(part, key, 0, place);
    }

    /// Notes a use like [`note_use`](ColdTiers::note_use), of a node of a value.
    pub fn note_use_of_node(&self, part: usize, key: &[u8], node: u64, place: ColdPlace) {
        debug_assert!(place.tier() > 0, "the memory tier has no places");
        if let Some(traffic) = self.traffic(place.tier()) {
            traffic.served.fetch_add(1, Ordering::Relaxed);
        }
        let mut uses = self.uses.lock();
        // Uses are hints for the mover. If it is slow, the next ones are dropped, so that no client
        // waits and the list stays short.
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

    /// Returns the uses since the last call.
    pub fn take_uses(&self) -> Vec<ColdUse> {
        std::mem::take(&mut *self.uses.lock())
    }

    /// Counts that a value moved.
    pub fn count_move(&self, from: usize, to: usize, bytes: usize) {
        if from == to {
            // A value that is put again, into another block or segment, stays in its tier.
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

    /// Returns the tiers, if there are any.
    #[inline]
    pub fn tiers(&self) -> Option<&Tiers> {
        self.tiers.as_deref()
    }

    /// Returns the name of a tier's kind.
    pub fn name(&self, number: usize) -> &'static str {
        let tiers = self.tiers.as_ref();
        let tier = tiers.and_then(|tiers| tiers.specifications().get(number));
        match tier.map(|tier| &tier.kind) {
            Some(TierKind::Memory) | None => "memory",
            // The first tier is called memory, also on a NUMA node.
            Some(TierKind::Node(_)) if number == 0 => "memory",
            Some(TierKind::Node(_)) => "numa",
            Some(TierKind::Compressed) => "compressed",
            Some(TierKind::File(_)) => "file",
        }
    }

    /// Returns the bytes of this process's memory that values in cold tiers use.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let Some(tiers) = &self.tiers else { return 0 };
        // Compressed memory and memory of other NUMA nodes belong to this process; files do not.
        let in_memory = (1..tiers.count()).filter(|&tier| tiers.folder(tier).is_none());
        let usages = in_memory.filter_map(|tier| tiers.usage(tier));
        usages.map(|usage| usage.used_bytes).sum()
    }

    /// Puts values into a cold tier together and returns their places, in the same order. Logs when
    /// a disk stops accepting writes and when it accepts them again.
    ///
    /// # Errors
    /// The tier refuses them; none of them is put then.
    pub fn put(&self, to: usize, values: &[&[u8]]) -> Result<Vec<ColdPlace>, TierRefusal> {
        self.put_at_pace(to, values, false)
    }

    /// Puts values like [`put`](ColdTiers::put). With `is_hasty` it takes as little time as it can
    /// ([`Tiers::put_in_haste`]).
    ///
    /// # Errors
    /// As for `put`.
    pub fn put_at_pace(
        &self,
        to: usize,
        values: &[&[u8]],
        is_hasty: bool,
    ) -> Result<Vec<ColdPlace>, TierRefusal> {
        let Some(tiers) = &self.tiers else {
            return Err(TierRefusal::Full);
        };
        let put = match is_hasty {
            true => tiers.put_in_haste(to, values),
            false => tiers.put(to, values),
        };
        if let (Some(traffic), Some(folder)) = (self.traffic(to), tiers.folder(to)) {
            let folder = folder.display();
            // One line for each change of state: a full disk refuses thousands of values.
            match &put {
                Ok(_) if traffic.note_written() => {
                    tracing::warn!("the tier file:{folder} accepts values again");
                }
                Err(error @ TierRefusal::Disk { .. })
                    if !error.is_busy() && traffic.count_unwritable(error) =>
                {
                    tracing::error!("the tier file:{folder} accepts no values: {error}");
                }
                _ => {}
            }
        }
        put
    }

    /// Appends the value at a place to `out`. Waits for a disk for
    /// [`PATIENCE`](crate::disk::PATIENCE) at most.
    ///
    /// # Errors
    /// The value cannot be read.
    pub fn read(&self, place: ColdPlace, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let (Some(tiers), Some(traffic)) = (&self.tiers, self.traffic(place.tier())) else {
            return Err(ReadError::Absent);
        };
        // All commands that hold the place get one result, even if the disk has recovered since.
        if let Some(fetched) = self.holds.fetched(place) {
            return match &*fetched {
                Ok(value) => {
                    out.extend_from_slice(value);
                    Ok(())
                }
                Err(unread) => Err(unread.error()),
            };
        }
        // Without a limit, one disk that hangs would hold up the thread and all its clients.
        let began = Instant::now();
        let read = tiers.read_within(patience(), place, out);
        traffic.count_read(began.elapsed());
        match &read {
            Ok(()) => traffic.set_late(false),
            Err(why) => {
                // A move reads a value later that its disk is too busy for.
                let unreadable = u64::from(!why.is_busy());
                traffic.unreadable.fetch_add(unreadable, Ordering::Relaxed);
                traffic.set_late(why.is_late());
            }
        }
        read
    }

    /// Reads like [`read`](ColdTiers::read), for a move, which no client needs: does not wait for a
    /// disk that did not respond to the last read in time.
    ///
    /// # Errors
    /// As for `read`.
    pub fn read_to_move(&self, place: ColdPlace, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let traffic = self.traffic(place.tier());
        if traffic.is_some_and(Traffic::is_late) {
            // A move can be made later, so one wait in each round of the walk is enough.
            return Err(ColdReadFailure::late().error());
        }
        self.read(place, out)
    }

    /// Makes moves wait again for disks that did not respond in time.
    pub(crate) fn forget_late(&self) {
        self.traffic.iter().for_each(|it| it.set_late(false));
    }

    /// Gives up a place that readers may still use.
    pub fn retire(&self, place: ColdPlace) {
        self.retired.add(place);
    }

    /// Returns the number of places that wait to be released.
    #[inline]
    pub fn retired(&self) -> usize {
        self.retired.count()
    }

    /// Takes the retired places, to be [released](ColdTiers::release). Call it in an exclusive
    /// phase, when no read is under way.
    pub fn take_retired(&self) -> Vec<ColdPlace> {
        self.retired.take()
    }

    /// Releases a place that only its holders may still read, or leaves that to the last of them.
    pub fn release(&self, place: ColdPlace) {
        if let (true, Some(tiers)) = (self.holds.give_up(place), &self.tiers) {
            tiers.release(place);
        }
    }

    /// Returns the last tier that holds values, if a cold one does.
    pub fn last_with_values(&self) -> Option<usize> {
        let tiers = self.tiers.as_ref()?;
        (1..tiers.count())
            .rev()
            .find(|&tier| tiers.values(tier) > 0)
    }

    /// Returns true if the files of a tier hold values, so that reads wait for a disk.
    #[inline]
    pub fn has_files(&self) -> bool {
        let Some(tiers) = &self.tiers else {
            return false;
        };
        // Files are the slowest kind, so only the last tier can have them.
        let last = tiers.count() - 1;
        tiers.folder(last).is_some() && tiers.values(last) > 0
    }

    /// Returns true if reading a place waits for a disk.
    pub fn waits(&self, place: ColdPlace) -> bool {
        let tiers = self.tiers.as_ref();
        tiers.is_some_and(|tiers| tiers.folder(place.tier()).is_some())
    }

    /// Returns true if the value at a held place was read before.
    pub fn has_fetched(&self, place: ColdPlace) -> bool {
        self.holds.fetched(place).is_some()
    }

    /// Counts a read of a place. `is_read` is false if it failed.
    pub fn count_read(&self, place: ColdPlace, took: Duration, is_read: bool) {
        if let Some(traffic) = self.traffic(place.tier()) {
            traffic.count_read(took);
            if is_read {
                traffic.set_late(false);
            } else {
                traffic.unreadable.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Attaches what was read to its place, for commands that read the place while it is held. The
    /// read took `took`.
    pub fn deliver(&self, place: ColdPlace, read: Result<Vec<u8>, ReadError>, took: Duration) {
        self.count_read(place, took, read.is_ok());
        let fetched = || Arc::new(read.map_err(ColdReadFailure::from));
        self.holds.lay(place, fetched);
    }

    /// Makes commands that read a held place fail because the disk does not respond, if nothing was
    /// read from it yet.
    pub fn give_up_waiting(&self, place: ColdPlace) {
        // Moves do not wait for this disk either, until the next round of the walk.
        if let Some(traffic) = self.traffic(place.tier()) {
            traffic.set_late(true);
        }
        self.holds
            .lay(place, || Arc::new(Err(ColdReadFailure::late())));
    }

    /// Keeps a place from being released, so that it is not reused for another value. Call it in
    /// the phase in which the place was read from the index.
    pub fn hold(&self, place: ColdPlace) {
        self.holds.hold(place);
    }

    /// Ends a [hold](ColdTiers::hold).
    pub fn release_hold(&self, place: ColdPlace) {
        if let (true, Some(tiers)) = (self.holds.release_hold(place), &self.tiers) {
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
        let tiers = ["memory=1mb", "compressed=1mb"].map(|tier| tier.parse::<Specification>());
        let tiers = Tiers::open(&tiers.map(Result::unwrap)).unwrap();
        let place = tiers.put(1, &[&[b'x'; 500]]).unwrap()[0];
        let cold = Arc::new(ColdTiers::new(Some(Arc::new(tiers))));
        let read = || {
            let mut value = Vec::new();
            cold.read(place, &mut value).map(|()| value)
        };
        let (one, other) = (
            ColdPlaceGuard::new(&cold, place),
            ColdPlaceGuard::new(&cold, place),
        );
        assert!(cold.read_to_move(place, &mut Vec::new()).is_ok());
        cold.give_up_waiting(place);
        // A move does not wait for it.
        let moved = cold.read_to_move(place, &mut Vec::new());
        assert!(moved.unwrap_err().to_string().contains("does not respond"));
        let error = read().unwrap_err().to_string();
        assert!(error.contains("does not respond"), "{error}");
        // A result that comes too late is not used, because other reads of the place failed
        // already.
        cold.deliver(place, Ok(b"late".to_vec()), Duration::ZERO);
        assert!(read().is_err());
        drop(one);
        assert!(read().is_err());
        drop(other);
        assert_eq!(read().unwrap(), [b'x'; 500]);
        assert!(cold.read_to_move(place, &mut Vec::new()).is_ok());
        let held = ColdPlaceGuard::new(&cold, place);
        cold.deliver(place, Ok(b"fetched".to_vec()), Duration::ZERO);
        assert_eq!(read().unwrap(), b"fetched");
        cold.release(place);
        assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 1);
        drop(held);
        assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 0);
    }
}
