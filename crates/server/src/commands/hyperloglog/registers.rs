//! The registers of a HyperLogLog, and the estimate of distinct elements from them.
//!
//! An element chooses one of 16,384 registers by 14 bits of its hash. Its *rank* is one more than
//! the number of clear bits that follow in the hash. A register keeps the highest rank of its
//! elements. The registers together give the number of distinct elements, with a standard error of
//! 0.81 % (Flajolet et al., 2007; the estimate is that of Ertl, 2017, algorithm 6).

/// The number of hash bits that choose a register.
const INDEX_BITS: u32 = 14;
/// The number of registers.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// The highest rank.
const RANK_MAX: usize = 64 - INDEX_BITS as usize + 1;

/// The estimate beyond all signed integers. As a signed integer it is the least one.
const BEYOND: u64 = 1 << 63;

/// The ranks of all registers, by index.
pub(super) type Registers = [u8; REGISTERS];

/// Returns the index of an element's register, and the element's rank.
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur64(element, 0xadc8_3b19);
    // The bit that is set behind the hash bounds the rank if all of them are clear.
    let rest = hash >> INDEX_BITS | 1 << (64 - INDEX_BITS);
    debug_assert!((rest.trailing_zeros() as usize) < RANK_MAX);
    (hash as usize % REGISTERS, rest.trailing_zeros() as u8 + 1)
}

/// Returns the estimated number of distinct elements.
pub(super) fn estimate(registers: &Registers) -> u64 {
    let mut of_rank = [0_u32; 64];
    for &rank in registers {
        // A value that a client has composed may have ranks above the highest one.
        of_rank[usize::from(rank & 63)] += 1;
    }
    const ALPHA: f64 = 0.5 / std::f64::consts::LN_2;
    let count = REGISTERS as f64;
    // From the highest rank down: each step halves what the ranks above have contributed.
    let mut sum = count * tau((count - f64::from(of_rank[RANK_MAX])) / count);
    for &registers in of_rank[1..RANK_MAX].iter().rev() {
        sum = 0.5 * (sum + f64::from(registers));
    }
    sum += count * sigma(f64::from(of_rank[0]) / count);
    let estimate = (ALPHA * count * count / sum).round();
    // Registers that no elements can fill give any estimate, also an infinite one. Redis returns
    // the least integer for those beyond all integers, as the conversion of x86-64 does.
    if estimate < BEYOND as f64 {
        estimate as u64
    } else {
        BEYOND
    }
}

/// Returns the contribution of registers with the highest rank.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        let before = sum;
        x = x.sqrt();
        factor *= 0.5;
        sum -= (1.0 - x).powi(2) * factor;
        // The terms shrink until the sum stays the same, after some dozens of steps.
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// Returns the contribution of empty registers.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, x);
    loop {
        let before = sum;
        x *= x;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// Returns the MurmurHash2 of 64 bits (Appleby), by which Redis chooses registers.
fn murmur64(bytes: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for &word in words {
        let mut word = u64::from_le_bytes(word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_elements_is_estimated_within_the_error() {
        let mut registers = [0; REGISTERS];
        assert_eq!(estimate(&registers), 0);
        for number in 1..=1_000_000_u64 {
            let (index, rank) = place(number.to_string().as_bytes());
            assert!((1..=RANK_MAX as u8).contains(&rank));
            registers[index] = registers[index].max(rank);
            if [1, 10, 100, 1000, 10_000, 100_000, 1_000_000].contains(&number) {
                let error = estimate(&registers) as f64 / number as f64 - 1.0;
                assert!(error.abs() < 3.0 * 0.0081, "{number}: {error}");
            }
        }
    }

    /// The expected numbers are those of Redis 7.0.15.
    #[test]
    fn estimates_of_registers_that_a_client_composes_are_those_of_redis() {
        for rank in [50, 51, 52, 63] {
            assert_eq!(estimate(&[rank; REGISTERS]), BEYOND, "{rank}");
        }
        assert_eq!(estimate(&[49; REGISTERS]), 6_653_256_548_922_161_152);
        let mut registers = [63; REGISTERS];
        for (rank, expected) in [
            (0, 193_623_433),
            (1, 387_270_501),
            (20, 203_041_276_517_400),
        ] {
            registers[0] = rank;
            assert_eq!(estimate(&registers), expected, "{rank}");
        }
    }
}
