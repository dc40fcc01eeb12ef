//! Towers of the lower part: their modules, their heights, and their layout in a bank.
//!
//! ```text
//! key 8 | value 8 | for each level from 0 on: key of the right neighbour 8, its address 8
//! ```
//!
//! The height and the module of a tower follow from its key. A tower has the levels of the lower
//! part only; a higher one is in the upper part, too.

/// Greatest height of the list (as published).
pub const HEIGHT_MAX: usize = 26;
/// Greatest number of levels of the lower part, which it has with 2048 modules (as published).
pub const LOWER_MAX: usize = 12;

/// Number of words of key and value.
pub const ENTRY_WORDS: usize = 2;
/// Number of words of the link at one level.
pub const LINK_WORDS: usize = 2;

/// The address of a tower of the lower part: its module, and its address in the bank. Null stands
/// for the end of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer(u64);

impl Pointer {
    pub const NULL: Pointer = Pointer(0);

    /// Creates the pointer to the tower at `at` in a module. There are fewer than 2^24 modules.
    pub fn new(module: usize, at: u32) -> Pointer {
        debug_assert!(module >> 24 == 0);
        Pointer((module as u64) << 32 | u64::from(at))
    }

    /// Creates a pointer from a word of a message.
    pub fn from_word(word: u64) -> Pointer {
        Pointer(word)
    }

    /// Returns the word for a message.
    pub fn word(self) -> u64 {
        self.0
    }

    pub fn is_null(self) -> bool {
        self == Pointer::NULL
    }

    /// Returns the module of the tower.
    pub fn module(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Returns the address of the tower in the bank.
    pub fn at(self) -> u32 {
        self.0 as u32
    }
}

/// The right neighbour of a tower at one level; null if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TowerLink {
    /// The key of the neighbour; without meaning if there is none.
    pub key: u64,
    /// The address of the neighbour.
    pub tower: Pointer,
}

impl TowerLink {
    /// Creates a link from the two words of a message or a bank.
    pub fn from_words(key: u64, tower: u64) -> TowerLink {
        TowerLink {
            key,
            tower: Pointer::from_word(tower),
        }
    }

    /// Returns true if there is a neighbour with a key at or below `key` or, if `strict`, below
    /// `key`.
    pub fn precedes(self, key: u64, strict: bool) -> bool {
        !self.tower.is_null() && (self.key < key || self.key == key && !strict)
    }
}

/// Returns the number of words of a tower with this many levels.
pub const fn words(levels: usize) -> usize {
    ENTRY_WORDS + levels * LINK_WORDS
}

/// Returns the number of levels of the lower part: one more than the logarithm of the number of
/// modules. The copies of the upper part, one in each module, then have together at most as many
/// towers as the lower part.
pub fn lower_levels(modules: usize) -> usize {
    let logarithm = modules.max(1).next_power_of_two().trailing_zeros() as usize;
    (logarithm + 1).min(LOWER_MAX)
}

/// Returns the height of the tower of a key, counting all levels. Each level has half as many
/// towers as the one below.
pub fn height(key: u64) -> usize {
    // The finalizer of MurmurHash3, which differs from the hash that gives towers of the upper part
    // their heights.
    let mixed = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let zeros = (mixed ^ mixed >> 33).trailing_zeros() as usize;
    (zeros + 1).min(HEIGHT_MAX)
}

/// Returns the module of the tower of a key, by a hash of the key.
pub fn home(key: u64, modules: usize) -> usize {
    debug_assert!(modules > 0);
    let mixed = key
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(1 << 31);
    // The upper half of the bits is the well mixed one.
    (((mixed >> 32) * modules as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_half_of_the_towers_and_each_module_its_share() {
        let mut levels = [0_u64; HEIGHT_MAX];
        let mut modules = [0_u64; 8];
        for number in 0..1_u64 << 16 {
            let key = number << 48 | number;
            levels[height(key) - 1] += 1;
            modules[home(key, 8)] += 1;
        }
        for (level, &count) in levels.iter().enumerate().take(8) {
            let expected = (1 << 15) >> level;
            let off = count.abs_diff(expected) as f64 / expected as f64;
            assert!(off < 0.2, "level {level}: {count}");
        }
        for count in modules {
            assert!((7000..9400).contains(&count), "{modules:?}");
        }
    }

    #[test]
    fn the_lower_part_has_as_many_levels_as_published() {
        let levels = [1, 2, 3, 8, 64, 2048, 4096].map(lower_levels);
        assert_eq!(levels, [1, 2, 3, 4, 7, 12, 12]);
    }
}
