//! Moving values between tiers all the time, beside whatever else is done.

use nearfield_server::keyspace::{Keyspace, Moving, Unmoved};
use nearfield_tiers::{Specification, TierKind, Tiers};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Small tiers: memory, compressed memory, and files in a folder, which is created.
pub fn small_tiers(folder: &Path) -> Arc<Tiers> {
    std::fs::create_dir_all(folder).expect("a folder");
    let kinds = [
        TierKind::Memory,
        TierKind::Compressed,
        TierKind::File(folder.to_owned()),
    ];
    let tiers = kinds.map(|kind| Specification {
        kind,
        capacity_bytes: 4 << 20,
    });
    Arc::new(Tiers::open(&tiers).expect("tiers"))
}

/// Moves values to tiers that are drawn by chance, until it is to stop, and counts those that have
/// moved. Values of all sizes move.
pub fn stir(keyspace: &Keyspace, stop: &AtomicBool, moved: &AtomicU64) {
    let tiers = keyspace.cold.tiers().expect("tiers");
    let mut random = SmallRng::seed_from_u64(1);
    while !stop.load(Ordering::Relaxed) {
        std::thread::yield_now();
        let mut begun = Vec::new();
        {
            let databases = keyspace.share();
            for (number, database) in databases.iter().enumerate() {
                let all = (Bound::Unbounded, Bound::Unbounded);
                let entries = database.entries().into_iter();
                for entry in entries.flat_map(|entries| entries.range(all)) {
                    let (key, _) = entry.expect("the placement answers");
                    match Moving::begin(keyspace, &databases, (number, &key), 0) {
                        Ok(moving) => begun.push(moving),
                        Err(Unmoved::Absent | Unmoved::Changed) => {}
                        Err(error) => panic!("{}: {error}", key.escape_ascii()),
                    }
                }
            }
        }
        for moving in begun {
            let place = match random.random_range(0..tiers.count()) {
                0 => None,
                to => match tiers.put(to, &[&moving.value]) {
                    Ok(places) => places.first().copied(),
                    Err(_) => continue,
                },
            };
            let databases = keyspace.share();
            let stripe = keyspace.stripes.lock(keyspace.stripes.of(&moving.key));
            match moving.publish(&databases, place) {
                Ok(()) => _ = moved.fetch_add(1, Ordering::Relaxed),
                Err(Unmoved::Changed) => {}
                Err(error) => panic!("{error}"),
            }
            drop(stripe);
        }
    }
}
