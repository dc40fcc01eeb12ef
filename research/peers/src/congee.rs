//! congee: a concurrent adaptive radix tree for keys of 8 bytes, with optimistic lock coupling.

use crate::{PeerMap, PeerSession};
use congee::Congee as Map;
use crossbeam_epoch::Guard;

/// The peer of this module.
pub struct Congee(Map<usize, usize>);

/// One thread's access, with the buffer that congee writes scans into.
pub struct CongeeSession<'p> {
    map: &'p Map<usize, usize>,
    entries: Vec<(usize, usize)>,
}

impl PeerMap<u64> for Congee {
    type Key = usize;
    type Session<'p> = CongeeSession<'p>;

    fn new() -> Self {
        Congee(Map::default())
    }

    fn key(source: u64) -> Result<usize, &'static str> {
        usize::try_from(source).map_err(|_| "congee's keys have the width of a pointer")
    }

    fn sessions(&mut self, count: usize) -> Vec<CongeeSession<'_>> {
        // Each thread has a buffer of its own, because scans write into it.
        let session = || CongeeSession {
            map: &self.0,
            entries: Vec::new(),
        };
        (0..count).map(|_| session()).collect()
    }
}

impl PeerSession for CongeeSession<'_> {
    type Key = usize;
    type Guard = Guard;

    fn pin(&self) -> Guard {
        self.map.pin()
    }

    #[inline]
    fn get(&mut self, guard: &Guard, key: usize) -> Option<u64> {
        self.map.get(&key, guard).map(|value| value as u64)
    }

    #[inline]
    fn insert(&mut self, guard: &Guard, key: usize, value: u64) {
        if self.map.insert(key, value as usize, guard).is_err() {
            panic!("congee is out of memory");
        }
    }

    #[inline]
    fn update(&mut self, guard: &Guard, key: usize, value: u64) -> bool {
        self.map
            .compute_if_present(&key, |_| Some(value as usize), guard)
            .is_some()
    }

    #[inline]
    fn remove(&mut self, guard: &Guard, key: usize) -> bool {
        self.map.remove(&key, guard).is_some()
    }

    #[inline]
    fn scan(
        &mut self,
        guard: &Guard,
        start: usize,
        limit: usize,
        mut visit: impl FnMut(u64),
    ) -> usize {
        // The buffer is kept between scans, so that a scan allocates nothing in the measured loop.
        if self.entries.len() < limit {
            self.entries.resize(limit, (0, 0));
        }
        let entries = &mut self.entries[..limit];
        // The upper bound of congee's ranges is exclusive, so no scan visits the greatest key,
        // `usize::MAX`.
        let count = self.map.range(&start, &usize::MAX, entries, guard);
        debug_assert!(count <= limit);
        entries[..count]
            .iter()
            .for_each(|&(_, value)| visit(value as u64));
        count
    }
}
