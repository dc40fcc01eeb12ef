//! The prefixes of keys from which walks jump.

/// Number of bytes of a prefix at the beginning of keys, by table.
pub const FIRST: [usize; 2] = [3, 5];

/// Number of bytes of a prefix after a [stem](super::stem), by table.
pub const BEHIND: [usize; 2] = [3, 4];

/// Number of tables: those for prefixes at the beginning, then those for prefixes after stems.
pub const TABLES: usize = FIRST.len() + BEHIND.len();

/// Number of bytes of the numbers in each table. After a stem, one byte is the stem's number.
const BYTES: [usize; TABLES] = [FIRST[0], FIRST[1], 1 + BEHIND[0], 1 + BEHIND[1]];

/// An odd factor, so that multiplying distinct prefixes gives distinct numbers of as many bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The factor that reverses a multiplication by [`FACTOR`].
const INVERSE: u64 = {
    // Each round doubles the number of correct bits, which is initially three.
    let (mut inverse, mut round) = (FACTOR, 0);
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
};

/// A prefix of a key for one of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JumpPrefix {
    /// The number of the table.
    pub table: usize,
    /// The bytes, big-endian, after the number of the stem.
    pub number: u64,
    /// The depth at the end of the prefix.
    pub end: usize,
}

impl JumpPrefix {
    /// Returns true if keys may differ in bytes before the prefix.
    #[inline]
    pub fn is_behind_stem(self) -> bool {
        self.table >= FIRST.len()
    }

    #[inline]
    pub(super) fn hash(self) -> u64 {
        hash(self.table, self.number)
    }

    /// Returns the part of the hash that a slot holds. The bucket gives the rest.
    #[inline]
    pub(super) fn tag(self) -> u32 {
        self.hash() as u32
    }
}

/// Returns the number of bits of the numbers in a table.
#[inline]
pub(super) fn bits(table: usize) -> u32 {
    8 * BYTES[table] as u32
}

#[inline]
fn hash(table: usize, number: u64) -> u64 {
    number.wrapping_mul(FACTOR) & ((1 << bits(table)) - 1)
}

/// Returns the number with a hash.
pub(super) fn unhash(table: usize, hash: u64) -> u64 {
    hash.wrapping_mul(INVERSE) & ((1 << bits(table)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_tells_its_number() {
        for table in 0..TABLES {
            for number in [0, 1, 0x61_6263, (1 << bits(table)) - 1] {
                assert_eq!(unhash(table, hash(table, number)), number);
            }
        }
    }
}
