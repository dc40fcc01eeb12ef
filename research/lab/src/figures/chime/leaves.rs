//! The load factor of leaves, counted over random keys.

use nearfield_pool::hopscotch;
use nearfield_pool::layout::{
    self, Geometry, LeafSlotRange, PoolIndexShape, PoolLeaf, PoolLeafLayout,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Computes the mean load factor of the tree's leaves when the first random key finds no room.
pub(super) fn leaf_load(shape: PoolIndexShape, leaves: usize, seed: u64) -> f64 {
    let layout = PoolLeafLayout::new(Geometry::new(shape).unwrap_or_default());
    let random = &mut SmallRng::seed_from_u64(seed);
    let (span, mut entries) = (layout.span(), 0);
    for _ in 0..leaves {
        let mut leaf = PoolLeaf::new(layout);
        loop {
            let key = random.random_range(1..=u64::MAX).to_be_bytes();
            let all = LeafSlotRange::new(layout::home(&key, span), span, span);
            if hopscotch::insert(&mut leaf, all, &key, &[0; 8]).is_err() {
                break;
            }
        }
        entries += leaf.occupied().count();
    }
    debug_assert!(entries <= leaves * span);
    entries as f64 / (leaves * span) as f64
}
