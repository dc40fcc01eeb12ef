//! Three levels of cache between a processor and its memory.
//!
//! Sizes and ways are those of Table 2 of ADM (Zhao et al., Micromachines 2022, 13(1), 52).
//! *Assumed*: each level displaces the line that was used least recently. A written line reaches
//! the next level when it is displaced. A line that is missed comes into all levels, also for a
//! write. The latencies of the caches are left out: only what reaches memory is modelled.

use crate::dram::DramAccess;

/// Bytes of a line.
const LINE_BYTES: usize = 64;
/// Bytes and ways of each level, from the processor to memory.
const LEVELS: [(usize, usize); 3] = [(32 << 10, 8), (1 << 20, 4), (10 << 20, 20)];

/// The levels of cache.
///
/// ```
/// use nearfield_hardware::cache::CacheHierarchy;
/// use nearfield_hardware::dram::DramAccess;
///
/// let mut caches = CacheHierarchy::new();
/// let mut memory = Vec::new();
/// caches.access(7, DramAccess::Write, &mut memory);
/// caches.access(7, DramAccess::Read, &mut memory);
/// // The line comes in once, and its new bytes stay in the caches.
/// assert_eq!(memory, [(7, DramAccess::Read)]);
/// assert_eq!((caches.accesses(), caches.hits()), (2, [1, 0, 0]));
/// ```
#[derive(Clone, Debug)]
pub struct CacheHierarchy {
    levels: Vec<CacheLevel>,
    accesses: u64,
    hits: [u64; LEVELS.len()],
}

#[derive(Clone, Debug)]
struct CacheLevel {
    ways: usize,
    /// The lines of each set, the most recently used first.
    sets: Vec<Vec<CachedLine>>,
}

#[derive(Clone, Copy, Debug)]
struct CachedLine {
    line: u64,
    /// True if it has bytes that the next level lacks.
    is_dirty: bool,
}

impl CacheLevel {
    fn new((bytes, ways): (usize, usize), part: f64) -> CacheLevel {
        let sets = (bytes / LINE_BYTES / ways) as f64 * part;
        CacheLevel {
            ways,
            sets: vec![Vec::new(); sets.round().max(1.0) as usize],
        }
    }

    fn set(&mut self, line: u64) -> &mut Vec<CachedLine> {
        let number = line % self.sets.len() as u64;
        &mut self.sets[number as usize]
    }

    /// Uses a line. Returns false if it is not here.
    fn touch(&mut self, line: u64, is_write: bool) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|cached| cached.line == line) else {
            return false;
        };
        let mut cached = set.remove(at);
        cached.is_dirty |= is_write;
        set.insert(0, cached);
        true
    }

    /// Puts a line that is not here. Returns the line that it displaces if that is dirty.
    fn fill(&mut self, line: u64, is_dirty: bool) -> Option<u64> {
        let ways = self.ways;
        let set = self.set(line);
        debug_assert!(set.len() <= ways);
        let displaced = if set.len() == ways { set.pop() } else { None };
        set.insert(0, CachedLine { line, is_dirty });
        let dirty = displaced.filter(|displaced| displaced.is_dirty);
        dirty.map(|displaced| displaced.line)
    }
}

impl Default for CacheHierarchy {
    fn default() -> CacheHierarchy {
        CacheHierarchy::new()
    }
}

impl CacheHierarchy {
    /// Creates empty caches.
    pub fn new() -> CacheHierarchy {
        CacheHierarchy::scaled(1.0)
    }

    /// Creates empty caches of a part of these sizes, for data that are a part of what the caches
    /// would serve. Levels keep their ways, and have at least one set each.
    pub fn scaled(part: f64) -> CacheHierarchy {
        CacheHierarchy {
            levels: LEVELS.map(|level| CacheLevel::new(level, part)).into(),
            accesses: 0,
            hits: [0; LEVELS.len()],
        }
    }

    /// Accesses a line by its number, and adds the accesses of memory that follow to `memory`.
    pub fn access(&mut self, line: u64, access: DramAccess, memory: &mut Vec<(u64, DramAccess)>) {
        self.accesses += 1;
        let is_write = access == DramAccess::Write;
        let mut levels = self.levels.iter_mut().enumerate();
        // Only the first level has the new bytes of a write.
        let hit = levels.find_map(|(number, level)| {
            let touched = level.touch(line, is_write && number == 0);
            touched.then_some(number)
        });
        match hit {
            Some(level) => self.hits[level] += 1,
            None => memory.push((line, DramAccess::Read)),
        }
        // From memory to the processor, so that a line that is displaced finds its next level as it
        // will be.
        for level in (0..hit.unwrap_or(LEVELS.len())).rev() {
            let displaced = self.levels[level].fill(line, is_write && level == 0);
            if let Some(displaced) = displaced {
                self.write_back(displaced, level + 1, memory);
            }
        }
    }

    /// Writes a line that was displaced to a level, or to memory behind the last.
    fn write_back(&mut self, line: u64, level: usize, memory: &mut Vec<(u64, DramAccess)>) {
        let Some(there) = self.levels.get_mut(level) else {
            memory.push((line, DramAccess::Write));
            return;
        };
        if there.touch(line, true) {
            return;
        }
        if let Some(displaced) = there.fill(line, true) {
            self.write_back(displaced, level + 1, memory);
        }
    }

    /// Returns the number of accesses.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Returns the number of accesses that each level served.
    pub fn hits(&self) -> [u64; LEVELS.len()] {
        self.hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn lines_of(bytes: usize) -> u64 {
        (bytes / LINE_BYTES) as u64
    }

    /// Accesses a number of lines in order, twice, and returns the share of the second pass that
    /// each level served.
    fn second_pass(lines: u64) -> [f64; 3] {
        let (mut caches, mut memory) = (CacheHierarchy::new(), Vec::new());
        let mut before = [0; 3];
        for pass in 0..2 {
            for line in 0..lines {
                caches.access(line, DramAccess::Read, &mut memory);
            }
            if pass == 0 {
                before = caches.hits();
            }
        }
        let hits = caches.hits();
        [0, 1, 2].map(|level| (hits[level] - before[level]) as f64 / lines as f64)
    }

    #[test]
    fn what_fits_a_level_is_served_by_it() {
        let [first, second, third] = LEVELS.map(|(bytes, _)| lines_of(bytes));
        assert_eq!(second_pass(first), [1.0, 0.0, 0.0]);
        assert_eq!(second_pass(second), [0.0, 1.0, 0.0]);
        assert_eq!(second_pass(third), [0.0, 0.0, 1.0]);
        // One line more in each set of the last level: in order, each is displaced before its turn.
        assert_eq!(second_pass(third * 21 / 20), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn smaller_caches_hold_a_part() {
        let (mut caches, mut memory) = (CacheHierarchy::scaled(0.01), Vec::new());
        let served = |caches: &CacheHierarchy| caches.hits().iter().sum::<u64>();
        let lines = lines_of(LEVELS[2].0);
        // A hundredth of the last level is 82 sets of 20 lines.
        let part = 82 * 20;
        for _ in 0..2 {
            (0..part).for_each(|line| caches.access(line, DramAccess::Read, &mut memory));
        }
        assert_eq!((memory.len() as u64, served(&caches)), (part, part));
        for _ in 0..2 {
            (0..lines).for_each(|line| caches.access(line, DramAccess::Read, &mut memory));
        }
        // The former content is served once more, and nothing else.
        assert!(served(&caches) <= 2 * part, "{}", served(&caches));
    }

    #[test]
    fn no_write_is_lost_and_none_is_made_up() {
        let (mut caches, mut memory) = (CacheHierarchy::new(), Vec::new());
        let lines = 2 * lines_of(LEVELS[2].0);
        let (mut reads, mut state) = (0, 1_u64);
        // Lines with a write that has not reached memory.
        let mut pending = HashSet::new();
        for _ in 0..2_000_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let line = (state >> 32) % lines;
            let access = match state >> 63 {
                0 => DramAccess::Read,
                _ => DramAccess::Write,
            };
            caches.access(line, access, &mut memory);
            if access == DramAccess::Write {
                pending.insert(line);
            }
            for (line, access) in memory.drain(..) {
                match access {
                    DramAccess::Read => reads += 1,
                    DramAccess::Write => _ = pending.remove(&line),
                }
            }
        }
        let hits: u64 = caches.hits().iter().sum();
        assert_eq!(reads, caches.accesses() - hits);
        let capacity: u64 = LEVELS.iter().map(|(bytes, _)| lines_of(*bytes)).sum();
        assert!(pending.len() as u64 <= capacity, "{}", pending.len());
        // Many more lines were written than the caches hold.
        assert!(lines > capacity * 3 / 2);
    }

    #[test]
    fn only_written_lines_are_written_to_memory() {
        let (mut caches, mut memory) = (CacheHierarchy::new(), Vec::new());
        let lines = 2 * lines_of(LEVELS[2].0);
        for line in 0..lines {
            let access = match line % 3 {
                0 => DramAccess::Write,
                _ => DramAccess::Read,
            };
            caches.access(line, access, &mut memory);
        }
        let is_write = |(_, access): &&(u64, DramAccess)| *access == DramAccess::Write;
        let writes: Vec<u64> = memory
            .iter()
            .filter(is_write)
            .map(|(line, _)| *line)
            .collect();
        assert!(writes.len() as u64 > lines / 12, "{}", writes.len());
        assert!(writes.iter().all(|line| line % 3 == 0));
        // A pass in order writes each line once.
        let once: HashSet<u64> = writes.iter().copied().collect();
        assert_eq!(once.len(), writes.len());
    }
}
