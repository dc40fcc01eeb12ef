//! Addresses of nodes: a module, and an address in its bank.

use nearfield_pim::structures::hash::mix;

/// Number of levels of chunks, from 0 on. The levels above are in all modules.
pub(super) const LEVELS: usize = 3;
/// Bits of the promotion of keys: a key of a level is also in the next one with a probability of
/// one in 2 to this power.
const PROMOTION_BITS: u32 = 4;

/// The address of a word of a module's bank; 0 stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ModuleAddress(pub u64);

impl ModuleAddress {
    pub const NONE: ModuleAddress = ModuleAddress(0);

    pub const fn new(module: usize, local: u32) -> ModuleAddress {
        ModuleAddress((module as u64) << 32 | local as u64)
    }

    pub const fn module(self) -> usize {
        (self.0 >> 32) as usize
    }

    pub const fn local(self) -> u32 {
        self.0 as u32
    }
}

/// Returns the module of the data node of a key (level 0), or of a chunk of a level that begins
/// with the key.
pub(super) fn place(key: u64, level: usize, modules: usize) -> usize {
    // The level is hashed, too, so that the chunks of one first key lie in different modules.
    let mixed = mix(mix(key).wrapping_add(level as u64 + 1));
    ((u128::from(mixed) * modules as u128) >> 64) as usize
}

/// Returns the number of a key's levels above level 0, up to [`LEVELS`]. The key begins a chunk at
/// each level below.
pub(super) fn height(key: u64) -> u8 {
    // Chunks that begin with the least key exist from the beginning.
    if key == 0 {
        return 0;
    }
    // The constant makes the height independent of the module, which follows from a hash of the
    // same key.
    let zeros = mix(key ^ 0x9e37_79b9_7f4a_7c15).trailing_zeros();
    (zeros / PROMOTION_BITS).min(LEVELS as u32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_in_sixteen_goes_up_a_level_and_places_are_even() {
        let mut heights = [0_u32; LEVELS + 1];
        let mut loads = [0_u32; 16];
        for key in 1..=1_u64 << 18 {
            heights[usize::from(height(key))] += 1;
            loads[place(key, 0, 16)] += 1;
        }
        for level in 1..=LEVELS {
            let there = heights[level..].iter().sum::<u32>();
            let expected = (1 << 18) >> (4 * level);
            assert!(there.abs_diff(expected) < expected / 2, "{heights:?}");
        }
        assert!(loads.iter().all(|load| load.abs_diff(1 << 14) < 1000));
        assert!((1..1 << 20).any(|key| place(key, 0, 64) != place(key, 1, 64)));
    }
}
