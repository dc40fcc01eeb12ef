//! Continuous moves of values between tiers, at the same time as other work.

use nearfield_server::keyspace::nodes::MovingNode;
use nearfield_server::keyspace::{Keyspace, ValueMove, ValueMoveError};
use nearfield_tiers::keep::ValueName;
use nearfield_tiers::{Specification, TierKind, Tiers};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Creates small tiers: memory, compressed memory, and files in a folder, which is created.
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

/// The numbers of moves.
#[derive(Debug, Default)]
pub struct TierMoveCounts {
    /// Number of values that moved as a whole.
    pub values: AtomicU64,
    /// Number of nodes of large values that moved.
    pub nodes: AtomicU64,
}

/// Moves values and nodes to random tiers until `stop` is set, and counts those that have moved.
/// Values of all sizes move.
pub fn stir(keyspace: &Keyspace, stop: &AtomicBool, moved: &TierMoveCounts) {
    let tiers = keyspace.cold.tiers().expect("tiers");
    let mut random = SmallRng::seed_from_u64(1);
    while !stop.load(Ordering::Relaxed) {
        std::thread::yield_now();
        let (mut begun, mut nodes) = (Vec::new(), Vec::new());
        {
            let databases = keyspace.share();
            for (number, database) in databases.iter().enumerate() {
                let all = (Bound::Unbounded, Bound::Unbounded);
                let entries = database.entries().into_iter();
                for entry in entries.flat_map(|entries| entries.range(all)) {
                    let (key, _) = entry.expect("the placement replies");
                    for (node, _) in keyspace.nodes_of(&databases, (number, &key)) {
                        let named = ValueName {
                            part: number,
                            key: key.clone(),
                            node,
                        };
                        match MovingNode::begin(keyspace, &databases, &named, &mut 0) {
                            Ok(moving) => nodes.push(moving),
                            // Others change keys at the same time.
                            Err(ValueMoveError::Absent | ValueMoveError::Changed) => {}
                            Err(error) => panic!("{}: {error}", key.escape_ascii()),
                        }
                    }
                    match ValueMove::begin(keyspace, &databases, (number, &key), 0) {
                        Ok(moving) => begun.push(moving),
                        Err(
                            ValueMoveError::Absent
                            | ValueMoveError::Changed
                            | ValueMoveError::Parted,
                        ) => {}
                        Err(error) => panic!("{}: {error}", key.escape_ascii()),
                    }
                }
            }
        }
        let mut put = |value: &[u8]| match random.random_range(0..tiers.count()) {
            0 => Some(None),
            to => {
                let places = tiers.put(to, &[value]).ok()?;
                Some(places.first().copied())
            }
        };
        for moving in nodes {
            let Some(place) = put(&moving.value) else {
                continue;
            };
            match moving.publish(&keyspace.share(), place) {
                Ok(()) => _ = moved.nodes.fetch_add(1, Ordering::Relaxed),
                Err(ValueMoveError::Changed) => {}
                Err(error) => panic!("{error}"),
            }
        }
        for moving in begun {
            let Some(place) = put(&moving.value) else {
                continue;
            };
            let databases = keyspace.share();
            let stripe = keyspace.stripes.lock(keyspace.stripes.of(&moving.key));
            match moving.publish(&databases, place) {
                Ok(()) => _ = moved.values.fetch_add(1, Ordering::Relaxed),
                Err(ValueMoveError::Changed) => {}
                Err(error) => panic!("{error}"),
            }
            drop(stripe);
        }
    }
}
