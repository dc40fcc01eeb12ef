//! Hashes of keys.

/// Mixes the bits of a key by the finalizer of SplitMix64, a bijection in which each bit of the key
/// affects half of the others.
pub const fn mix(key: u64) -> u64 {
    let mixed = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
