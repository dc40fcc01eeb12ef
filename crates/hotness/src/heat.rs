//! Heat: a long average of the use of each key, in a few bytes per key.

use std::array;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

/// Number of cells of one cache line; a key has its cells in one line.
const CELLS_PER_LINE: usize = 32;
/// Number of cells of a key. Its heat is the least of them. Each row has half of a line; the last
/// row has one cell fewer, because that is the line's random state.
const ROWS: usize = 2;
const ROW_CELLS: [u64; ROWS] = [16, 15];
const CHANCE_CELL: usize = CELLS_PER_LINE - 1;
/// Number of levels by which a number doubles, far from 0.
const LEVELS_PER_DOUBLING: f64 = 128.0;
/// Number of levels that a cell can have, and of the bits that they use of its 16. The others are
/// the period.
const LEVELS: usize = 1 << LEVEL_BITS;
const LEVEL_BITS: u32 = 11;
const PERIOD_MASK: u64 = (1 << (16 - LEVEL_BITS)) - 1;
/// Number of periods in which each cell is updated once, so that the bits of its period never mean
/// a later one.
const SWEEP_PERIODS: usize = 16;
/// Number of periods without use after which any cell is 0: each halves it, and the highest level
/// is less than 2^24 uses.
const PERIODS_MAX: usize = 24;

const _: () = assert!(
    ROW_CELLS[0] + ROW_CELLS[1] == CHANCE_CELL as u64,
    "the rows leave one cell for the random state"
);
const _: () = assert!(
    SWEEP_PERIODS as u64 <= PERIOD_MASK && PERIODS_MAX as u64 <= PERIOD_MASK,
    "the bits of a period tell apart all that matter"
);

/// The long average of the use of each key, by the key's hash.
///
/// A key's *heat* is the number of its uses, in which those of each earlier period count half as
/// much as those of the period after it. It is given as a *level* from 0 to 2,047: up to about a
/// hundred uses a level is one use, and far above that 128 levels are a doubling.
///
/// Four cells of 2 bytes for each key are a good start. With half as many, more of the cold keys
/// share cells with hot ones and look as warm. Cells age by themselves when they are used: each has
/// the number of the period of its last use. Any number of threads may use the table at once; if
/// two use the same cell, one use can be lost.
///
/// ```
/// use nearfield_hotness::HotnessTable;
///
/// let heat = HotnessTable::with_bytes(1 << 16);
/// let hash = 0x9e37_79b9_7f4a_7c15;
/// for _ in 0..5 {
///     heat.record(hash);
/// }
/// assert!(heat.level(hash) >= 4);
/// heat.age();
/// assert!(heat.level(hash) < 4);
/// ```
#[derive(Debug)]
pub struct HotnessTable {
    lines: Box<[HotnessLine]>,
    /// The number of the current period.
    period: AtomicU64,
    /// The next line that [`age`](HotnessTable::age) updates.
    swept: AtomicU64,
}

/// One cache line. A cell has the period of its last use in its highest bits, and its level at that
/// time in the others.
#[derive(Debug)]
#[repr(align(64))]
struct HotnessLine([AtomicU16; CELLS_PER_LINE]);

const _: () = assert!(size_of::<HotnessLine>() == 64);

/// The meaning of levels.
struct HotnessLevelScale {
    /// Number of uses that separates the two ranges: far below it levels are uses, far above they
    /// are logarithms.
    unit: f32,
    /// The number of uses of each level.
    uses: [f32; LEVELS],
    /// The probability, of 2^16, that one more use raises the level.
    chance: [u32; LEVELS],
    /// The level that is left of each after a number of periods.
    aged: [[u16; LEVELS]; PERIODS_MAX + 1],
}

static SCALE: LazyLock<HotnessLevelScale> = LazyLock::new(HotnessLevelScale::new);

impl HotnessLevelScale {
    fn new() -> HotnessLevelScale {
        // The first level is one use.
        let unit = 1.0 / (2_f64.powf(1.0 / LEVELS_PER_DOUBLING) - 1.0);
        let uses = |level: usize| unit * (2_f64.powf(level as f64 / LEVELS_PER_DOUBLING) - 1.0);
        let half = |level: u16| {
            let doublings = (uses(usize::from(level)) / 2.0 / unit + 1.0).log2();
            (doublings * LEVELS_PER_DOUBLING) as u16
        };
        let chance = |level: usize| {
            let more = uses(level + 1) - uses(level);
            (65_536.0 / more.max(1.0)) as u32
        };
        let mut aged = [array::from_fn(|level| level as u16); PERIODS_MAX + 1];
        for periods in 1..=PERIODS_MAX {
            aged[periods] = aged[periods - 1].map(half);
        }
        HotnessLevelScale {
            unit: unit as f32,
            uses: array::from_fn(|level| uses(level) as f32),
            chance: array::from_fn(chance),
            aged,
        }
    }
}

/// Returns the level of a cell in a period.
#[inline]
fn level_at(scale: &HotnessLevelScale, cell: u16, period: u64) -> u16 {
    let periods = period.wrapping_sub(u64::from(cell >> LEVEL_BITS)) & PERIOD_MASK;
    scale.aged[(periods as usize).min(PERIODS_MAX)][usize::from(cell) % LEVELS]
}

#[inline]
fn pack(period: u64, level: u16) -> u16 {
    debug_assert!(
        usize::from(level) < LEVELS,
        "the level leaves the bits of the period"
    );
    ((period & PERIOD_MASK) as u16) << LEVEL_BITS | level
}

impl HotnessLine {
    fn cold() -> HotnessLine {
        HotnessLine(array::from_fn(|_| AtomicU16::new(0)))
    }

    fn copy(&self) -> HotnessLine {
        HotnessLine(array::from_fn(|cell| {
            AtomicU16::new(self.0[cell].load(Relaxed))
        }))
    }

    /// Returns a pseudo-random number of 16 bits, for one key of the line.
    #[inline]
    fn draw(&self, hash: u64) -> u32 {
        let state = self.0[CHANCE_CELL]
            .load(Relaxed)
            .wrapping_mul(25_173)
            .wrapping_add(13_849);
        self.0[CHANCE_CELL].store(state, Relaxed);
        let mixed = (u64::from(state) ^ hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 48) as u32
    }
}

impl HotnessTable {
    /// Creates a cold table of at most `budget` bytes, but at least one cache line.
    pub fn with_bytes(budget: usize) -> HotnessTable {
        let count = (budget / size_of::<HotnessLine>()).max(1);
        HotnessTable {
            lines: (0..count).map(|_| HotnessLine::cold()).collect(),
            period: AtomicU64::new(0),
            swept: AtomicU64::new(0),
        }
    }

    /// Creates a table of twice the size with the same heats. For a store that has grown.
    pub fn doubled(&self) -> HotnessTable {
        // The high bits of a hash select the line, so its two halves are neighbours.
        let lines = self.lines.iter().flat_map(|line| [line, line]);
        HotnessTable {
            lines: lines.map(HotnessLine::copy).collect(),
            period: AtomicU64::new(self.period.load(Relaxed)),
            swept: AtomicU64::new(0),
        }
    }

    /// Returns the bytes of the table.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Counts a use and returns the level with it. Accesses one cache line.
    #[inline]
    pub fn record(&self, hash: u64) -> u16 {
        self.record_as(hash, 1)
    }

    /// Counts a use as `uses` uses, for a store that reports one use in that many, drawn at random.
    #[inline]
    pub fn record_as(&self, hash: u64, uses: u16) -> u16 {
        let (scale, period) = (&*SCALE, self.period.load(Relaxed));
        let (line, cells) = self.cells(hash);
        let levels = cells.map(|cell| level_at(scale, line.0[cell].load(Relaxed), period));
        let mut raised = levels[0].min(levels[1]);
        // One by one, because each raise makes the next one less likely.
        for _ in 0..uses {
            let raises = line.draw(hash) < scale.chance[usize::from(raised)];
            raised = (raised + u16::from(raises)).min(LEVELS as u16 - 1);
        }
        for (cell, level) in cells.into_iter().zip(levels) {
            // A higher cell is too high already, because other keys share it.
            line.0[cell].store(pack(period, level.max(raised)), Relaxed);
        }
        raised
    }

    /// Returns the level of a key, without counting a use.
    #[inline]
    pub fn level(&self, hash: u64) -> u16 {
        let period = self.period.load(Relaxed);
        let (line, cells) = self.cells(hash);
        let [a, b] = cells.map(|cell| level_at(&SCALE, line.0[cell].load(Relaxed), period));
        a.min(b)
    }

    /// Begins a new period: all heats are halved.
    pub fn age(&self) {
        let period = self.period.fetch_add(1, Relaxed) + 1;
        // A part of the lines in each period, because to update all at once would take long.
        let count = self.lines.len().div_ceil(SWEEP_PERIODS);
        let start = self.swept.fetch_add(count as u64, Relaxed) as usize;
        for at in start..start + count {
            let cells = &self.lines[at % self.lines.len()].0;
            // The last cell is the random state, which has no period.
            for cell in cells.iter().take(CHANCE_CELL) {
                let level = level_at(&SCALE, cell.load(Relaxed), period);
                cell.store(pack(period, level), Relaxed);
            }
        }
    }

    /// Returns the number of the current period, from 0.
    pub fn period(&self) -> u64 {
        self.period.load(Relaxed)
    }

    /// Returns the number of uses that a level stands for.
    pub fn uses(level: u16) -> f32 {
        SCALE.uses[usize::from(level)]
    }

    /// Returns the standard deviation, in levels, between keys that are used equally often. Both
    /// their uses and the raising of a level by a use are random.
    pub fn chance(level: u16) -> f32 {
        let uses = HotnessTable::uses(level).max(1.0);
        let unit = SCALE.unit;
        let deviation = (uses + uses * uses / (2.0 * unit)).sqrt();
        let levels_per_use = LEVELS_PER_DOUBLING as f32 / std::f32::consts::LN_2 / (uses + unit);
        deviation * levels_per_use
    }

    /// Returns the level of half as many uses.
    pub fn half(level: u16) -> u16 {
        SCALE.aged[1][usize::from(level)]
    }

    #[inline]
    fn cells(&self, hash: u64) -> (&HotnessLine, [usize; ROWS]) {
        let line = (u128::from(hash) * self.lines.len() as u128) >> 64;
        // The low bits select the cells, the high ones the line.
        let first = ((hash & 0xffff) * ROW_CELLS[0]) >> 16;
        let second = (((hash >> 16) & 0xffff) * ROW_CELLS[1]) >> 16;
        let cells = [first as usize, CELLS_PER_LINE / ROWS + second as usize];
        debug_assert!(cells[0] < cells[1] && cells[1] < CHANCE_CELL);
        (&self.lines[line as usize], cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn levels_tell_uses() {
        let heat = HotnessTable::with_bytes(1 << 20);
        let random = &mut SmallRng::seed_from_u64(1);
        for uses in [1_u32, 3, 10, 100, 3000] {
            let told = (0..200).map(|_| {
                let hash = random.random();
                (1..uses).for_each(|_| _ = heat.record(hash));
                HotnessTable::uses(heat.record(hash))
            });
            let mean = told.sum::<f32>() / 200.0;
            let ratio = mean / uses as f32;
            assert!(
                (0.9..1.1).contains(&ratio),
                "{uses} uses are reported as {mean}"
            );
        }
    }

    #[test]
    fn one_use_in_four_that_counts_as_four_tells_as_many() {
        let heat = HotnessTable::with_bytes(1 << 20);
        let random = &mut SmallRng::seed_from_u64(3);
        let told = (0..200).map(|_| {
            let hash = random.random();
            for _ in 0..400 {
                if random.random_ratio(1, 4) {
                    heat.record_as(hash, 4);
                }
            }
            HotnessTable::uses(heat.level(hash))
        });
        let mean = told.sum::<f32>() / 200.0;
        assert!(
            (380.0..420.0).contains(&mean),
            "400 uses are reported as {mean}"
        );
    }

    #[test]
    fn a_period_halves_and_an_old_cell_never_looks_new() {
        let heat = HotnessTable::with_bytes(1 << 12);
        (0..1000).for_each(|_| _ = heat.record(7));
        let before = heat.level(7);
        heat.age();
        let after = heat.level(7);
        assert_eq!(after, HotnessTable::half(before));
        let ratio = HotnessTable::uses(after) / HotnessTable::uses(before);
        assert!((0.45..0.51).contains(&ratio), "{ratio}");
        for _ in 0..1000 {
            heat.age();
            assert!(heat.level(7) < before);
        }
        assert_eq!(heat.level(7), 0);
    }

    #[test]
    fn cold_keys_stay_cold_beside_hot_ones_at_two_cells_a_key() {
        let heat = HotnessTable::with_bytes(10_000 * 4);
        let random = &mut SmallRng::seed_from_u64(2);
        let keys: Vec<u64> = (0..10_000).map(|_| random.random()).collect();
        for _ in 0..100 {
            keys[..1000].iter().for_each(|&key| _ = heat.record(key));
        }
        let warm = keys[1000..]
            .iter()
            .filter(|&&key| heat.level(key) > 10)
            .count();
        assert!(warm < 150, "{warm} of 9000 cold keys are reported as warm");
        let doubled = heat.doubled();
        assert_eq!(doubled.bytes(), 2 * heat.bytes());
        assert!(
            keys.iter()
                .all(|&key| doubled.level(key) == heat.level(key))
        );
    }
}
