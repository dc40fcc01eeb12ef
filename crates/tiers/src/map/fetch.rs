//! Reads of many places at once.

use super::inner::TieredIndexCore;
use crate::cold::ColdPlaceGuard;
use crate::disk::PATIENCE;
use crate::files::TierReadRing;
use crate::usage::ReadError;
use std::io;
use std::sync::OnceLock;
use std::time::Instant;

/// Number of reads that are under way at once. *Assumed*: half of them keep an SSD busy.
const READS: usize = 64;
/// Maximum number of rings that are kept for later use.
const RINGS_MAX: usize = 4;

/// The kernel's permission for this process to use rings, once it is known.
static HAS_RINGS: OnceLock<bool> = OnceLock::new();

type Read = Result<Vec<u8>, ReadError>;

impl<I> TieredIndexCore<I> {
    /// Reads places that are held, in order.
    pub(super) fn read_all(&self, held: &[ColdPlaceGuard]) -> Vec<Read> {
        let mut reads: Vec<Option<Read>> = held.iter().map(|_| None).collect();
        // A ring makes reads overlap, so it gains nothing for one.
        let waiting = held.iter().filter(|held| self.cold.waits(held.place()));
        if waiting.count() > 1
            && let Some(ring) = self.ring()
        {
            self.read_by(ring, held, &mut reads);
        }
        let one_by_one = |(read, held): (Option<Read>, &ColdPlaceGuard)| {
            read.unwrap_or_else(|| {
                let mut value = Vec::new();
                self.cold.read(held.place(), &mut value).map(|()| value)
            })
        };
        reads.into_iter().zip(held).map(one_by_one).collect()
    }

    /// Returns a ring, if rings are available.
    fn ring(&self) -> Option<TierReadRing> {
        if HAS_RINGS.get() == Some(&false) {
            return None;
        }
        let kept = self.rings.lock().pop();
        let ring = kept.or_else(|| TierReadRing::new(READS).ok());
        // Asked once, because the kernel would refuse each batch in the same way.
        HAS_RINGS.get_or_init(|| ring.is_some());
        ring
    }

    /// Reads the places that wait for a disk with a ring, many at once.
    fn read_by(&self, mut ring: TierReadRing, held: &[ColdPlaceGuard], reads: &mut [Option<Read>]) {
        let began = Instant::now();
        let mut next = held.iter().enumerate();
        let mut last = Instant::now();
        let mut done = |number: usize, read: Read| {
            let place = held.get(number).map(ColdPlaceGuard::place);
            if let (Some(place), Some(kept)) = (place, reads.get_mut(number)) {
                self.cold.count_read(place, began.elapsed(), read.is_ok());
                *kept = Some(read);
            }
        };
        loop {
            while ring.room() > 0 {
                let Some((number, held)) = next.next() else {
                    break;
                };
                let pending = self
                    .cold
                    .tiers()
                    .and_then(|tiers| tiers.pending(held.place()));
                if let Some(pending) = pending
                    && let Some(read) = ring.begin(pending, number as u64)
                {
                    done(number, read);
                }
            }
            if ring.under_way() == 0 {
                break;
            }
            let mut has_come = false;
            let waited = ring.wait(PATIENCE, |number, read| {
                has_come = true;
                done(number as usize, read);
            });
            if has_come {
                // A disk that still responds is waited for, however long all reads take.
                last = Instant::now();
            }
            if waited.is_err() || last.elapsed() >= PATIENCE {
                break;
            }
        }
        if ring.under_way() == 0 {
            // Only a ring without reads is kept: another caller would get the results of old ones.
            let mut rings = self.rings.lock();
            if rings.len() < RINGS_MAX {
                rings.push(ring);
            }
            return;
        }
        // The disk does not respond to these, and would not respond to others either.
        for (read, held) in reads.iter_mut().zip(held) {
            if read.is_none() && self.cold.waits(held.place()) {
                let late = io::Error::new(io::ErrorKind::TimedOut, "the disk does not respond");
                self.cold.count_read(held.place(), began.elapsed(), false);
                *read = Some(Err(late.into()));
            }
        }
    }
}
