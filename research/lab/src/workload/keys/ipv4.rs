//! Starts of IPv4 address ranges: the set IPGEO without its data.
//!
//! The public list (ip-location-db asn-country, CC0) has 139,614 ranges which tile the address
//! space of each registry: 95 % begin at the end of another, 89 % are powers of two in size, nearly
//! all from /24 to /14, and a few first bytes that the registries filled last hold half of them
//! (0xb9 and 0x67 about 12 % each). Here each first byte gets its share of the keys, and its /8 is
//! halved again and again, the keys divided unevenly between the halves, until each key has an
//! aligned block. A tenth more blocks are made than needed, and as many starts left out, which
//! joins neighbours as in the list.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::Beta;

use super::super::{Random, random};
use super::Progress;
use super::integers::REPORT_INTERVAL;

/// The most keys: above this, the hottest first bytes would be half full of single addresses.
pub(super) const COUNT_MAX: u64 = 50_000_000;

/// Shares of all range starts in thousandths, with the first bytes that have this share each. These
/// are the most common first bytes.
const HOT_FIRST_BYTES: &[(u32, &[u8])] = &[
    (122, &[0xb9]),
    (119, &[0x67]),
    (51, &[0xc1]),
    (50, &[0x5b]),
    (45, &[0x2d]),
    (37, &[0xc2]),
    (31, &[0xc3]),
    (30, &[0xc0]),
    (26, &[0xcb]),
    (20, &[0xca]),
    (19, &[0x17]),
    (14, &[0x59]),
    (12, &[0x66]),
    (11, &[0xd4]),
    (10, &[0x2e, 0xd9, 0xd5, 0x05]),
    (9, &[0xbc, 0x5e, 0xc8]),
    (8, &[0xc7, 0x25, 0xb0]),
    (7, &[0x5d, 0x6d, 0xc6, 0x1f, 0xb2, 0x55]),
];
/// Share of all other first bytes together, in thousandths.
const COLD_SHARE: u32 = 280;
/// Number of different first bytes.
const FIRST_BYTES: usize = 203;
/// Number of blocks made for each 100 keys.
const BLOCKS_PERCENT: usize = 110;
/// Both parameters of the Beta distribution that divides a block's keys between its halves, for
/// blocks larger than /16. The next constant is for smaller ones: some /16 are crowded and many
/// empty, but within one the blocks are of similar size. Both, and the limit that a /16 takes at
/// most half of all its /24, are chosen so that the tree over the keys has the node kinds of the
/// list's (see the test).
const SPREAD: f64 = 0.6;
const SPREAD_WITHIN_16: f64 = 3.0;

/// Generates `count` range starts in random order.
pub(super) fn generate(count: usize, seed: u64, progress: Progress<'_>) -> Vec<u64> {
    let mut random = random(seed, 0x6970_7634);
    let blocks = (count as u64 * BLOCKS_PERCENT as u64 / 100 + 1).min(1 << 31) as usize;
    let mut starts = Vec::with_capacity(blocks);
    for (first_byte, share) in shares(blocks, &mut random) {
        let root = Ipv4Block {
            start: u64::from(first_byte) << 24,
            bits: 24,
            keys: share,
        };
        halve(root, smallest_bits(share), &mut random, &mut starts);
        if starts.len() % REPORT_INTERVAL < share {
            progress((starts.len() * count / blocks) as u64, count as u64);
        }
    }
    debug_assert_eq!(starts.len(), blocks, "each key of each block has a start");
    starts.shuffle(&mut random);
    // A block without its start joins the one before it, as neighbours do in the list.
    starts.truncate(count);
    progress(starts.len() as u64, count as u64);
    starts
}

/// Divides exactly `blocks` blocks among the first bytes.
fn shares(blocks: usize, random: &mut Random) -> Vec<(u8, usize)> {
    let hot = HOT_FIRST_BYTES.iter();
    let hot = hot.flat_map(|&(weight, bytes)| bytes.iter().map(move |&byte| (byte, weight)));
    let mut weights: Vec<(u8, f64)> = hot.map(|(byte, weight)| (byte, weight.into())).collect();
    // 0, 10, 127 and all from 224 on are local, private, multicast or reserved addresses, which no
    // registry assigns.
    let mut cold: Vec<u8> = (1..224)
        .filter(|byte| ![10, 127].contains(byte) && weights.iter().all(|(hot, _)| hot != byte))
        .collect();
    cold.shuffle(random);
    cold.truncate(FIRST_BYTES - weights.len());
    // The tail falls off about linearly in the list.
    let scale = f64::from(COLD_SHARE) * 2.0 / (cold.len() * (cold.len() + 1)) as f64;
    weights.extend(
        cold.iter()
            .enumerate()
            .map(|(i, &byte)| (byte, scale * (i + 1) as f64)),
    );
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();

    let mut sum = 0.0;
    let mut dealt = 0;
    let mut shares: Vec<(u8, usize)> = Vec::with_capacity(weights.len());
    for (byte, weight) in weights {
        sum += weight;
        // Sums are rounded instead of parts, so that the parts add up to all blocks.
        let upto = (sum / total * blocks as f64).round() as usize;
        shares.push((byte, upto - dealt));
        dealt = upto;
    }
    debug_assert_eq!(dealt, blocks);
    shares.retain(|&(_, share)| share > 0);
    shares
}

/// An aligned block of 2^`bits` addresses that must hold `keys` range starts.
struct Ipv4Block {
    start: u64,
    bits: u32,
    keys: usize,
}

/// Returns the size of the smallest blocks in a /8 of this number of keys: /24, or less if more
/// than half of all /24 would be needed.
fn smallest_bits(keys: usize) -> u32 {
    (0..=8)
        .rev()
        .find(|bits| keys * 2 <= 1 << (24 - bits))
        .unwrap_or(0)
}

/// Halves `block` until each of its keys has a block of its own and appends their starts.
fn halve(block: Ipv4Block, smallest: u32, random: &mut Random, starts: &mut Vec<u64>) {
    debug_assert!(block.keys > 0 && block.start.is_multiple_of(1 << block.bits));
    let Ipv4Block { start, bits, keys } = block;
    if keys == 1 {
        starts.push(start);
        return;
    }
    let room = match bits {
        17.. => 1 << (bits - 2 - smallest),
        _ => 1 << (bits - 1 - smallest),
    };
    // Below /16 a half may be full; above, it has at most half of its smallest blocks.
    debug_assert!(keys <= 2 * room, "{keys} keys in two halves of {room}");
    let share = random.sample(halves(bits));
    let lower = ((share * keys as f64).round() as usize)
        .clamp(keys.saturating_sub(room).max(1), room.min(keys - 1));
    let bits = bits - 1;
    halve(
        Ipv4Block {
            start,
            bits,
            keys: lower,
        },
        smallest,
        random,
        starts,
    );
    let upper = Ipv4Block {
        start: start + (1 << bits),
        bits,
        keys: keys - lower,
    };
    halve(upper, smallest, random, starts);
}

/// Returns the distribution of the share of the lower half of a block of 2^`bits` addresses.
fn halves(bits: u32) -> Beta<f64> {
    let parameter = if bits > 16 { SPREAD } else { SPREAD_WITHIN_16 };
    Beta::new(parameter, parameter).expect("both parameters are positive")
}

#[cfg(test)]
mod tests {
    use super::super::shape::shape;
    use super::*;

    fn list_sized() -> Vec<u64> {
        let mut keys = generate(139_614, 1, &mut |_, _| {});
        keys.sort_unstable();
        keys
    }

    #[test]
    fn first_bytes_have_their_shares() {
        let keys = list_sized();
        let share =
            |byte| keys.iter().filter(|&&key| key >> 24 == byte).count() as f64 / keys.len() as f64;
        assert!((0.115..0.13).contains(&share(0xb9)));
        assert!((0.112..0.126).contains(&share(0x67)));
        assert!([0, 10, 127].map(share).iter().sum::<f64>() == 0.0);
        assert!(keys.iter().all(|&key| key < 224 << 24));
    }

    #[test]
    fn starts_are_aligned_to_24_and_more() {
        let keys = list_sized();
        let share = |bits: u32| {
            let aligned = keys
                .iter()
                .filter(|key| key.trailing_zeros() >= bits)
                .count();
            aligned as f64 / keys.len() as f64
        };
        // In the list: 0.999, 0.51 and 0.09.
        assert_eq!(share(8), 1.0);
        assert!((0.4..0.6).contains(&share(11)), "{}", share(11));
        assert!((0.05..0.15).contains(&share(16)), "{}", share(16));
    }

    #[test]
    fn the_tree_resembles_that_of_the_list() {
        let keys: Vec<Vec<u8>> = list_sized()
            .iter()
            .map(|&key| (key as u32).to_be_bytes().to_vec())
            .collect();
        let shape = shape(&keys);
        // In the list: 2,099 / 2,335 / 1,252 / 1,096 and 2.94.
        assert!((1800..2600).contains(&shape.node4), "{shape:?}");
        assert!((1700..2600).contains(&shape.node16), "{shape:?}");
        assert!((700..1400).contains(&shape.node48), "{shape:?}");
        assert!((900..1200).contains(&shape.node256), "{shape:?}");
        assert!((2.9..2.98).contains(&shape.depth_mean), "{shape:?}");
    }

    #[test]
    fn large_sets_use_smaller_blocks() {
        let keys = generate(2_000_000, 1, &mut |_, _| {});
        let mut unique = keys.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), keys.len());
        assert!(keys.iter().any(|key| key.trailing_zeros() < 8));
        assert_eq!(
            smallest_bits((COUNT_MAX * 11 / 10) as usize * 122 / 1000),
            0
        );
    }
}
