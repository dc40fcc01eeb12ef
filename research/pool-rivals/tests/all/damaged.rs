//! Tests of the rivals on damaged memory: operations fail or return wrong values, but they neither
//! panic nor hang.

use crate::marlin_simulated;
use crate::rolex_simulated::{small, speculating, tables};
use crate::smart::SmartTestKeys;
use nearfield_fabric_testkit::{DamagePlan, DamagedMemory, INDEX_ROOT, check_damage, operate};
use nearfield_pool::chime::ChimeLockKind;
use nearfield_pool::layout::LeafMetadataPosition;
use nearfield_pool::{PoolError, PoolIndexClient};
use nearfield_pool_rivals::marlin::{Marlin, MarlinComputeNode, MarlinOptions};
use nearfield_pool_rivals::rolex::{Rolex, RolexComputeNode, RolexOptions};
use nearfield_pool_rivals::smart::{
    Smart, SmartComputeNode, SmartOptions, SmartScanGuarantee, SmartUpdate,
};
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;

const KEYS: u64 = 100;
const OPERATIONS: usize = 60;

/// Executes operations of two clients, of which the second opens the index when memory is damaged.
fn use_index<I: PoolIndexClient>(
    memory: &DamagedMemory,
    first: &I,
    open: impl Fn() -> Result<I, PoolError>,
    key: impl Fn(u64) -> Vec<u8>,
    value_bytes: usize,
) {
    let random = &mut memory.random();
    for number in (0..KEYS).step_by(3) {
        let (key, value) = (key(number), vec![number as u8; value_bytes]);
        let inserted = first.insert(&key, &value);
        memory.finish(inserted).expect("memory is not damaged yet");
    }
    memory.begin();
    let second = open();
    for _ in 0..OPERATIONS {
        let index = match &second {
            Ok(second) if random.random_bool(0.5) => second,
            _ => first,
        };
        // Errors are what a client should meet.
        let _ = memory.finish(operate(index, random, KEYS, &key, value_bytes));
    }
}

fn use_rolex(memory: &DamagedMemory, options: &RolexOptions) {
    let key = |number: u64| (100 * number + 1).to_be_bytes().to_vec();
    let node = || Arc::new(RolexComputeNode::new(options.clone()));
    let value_bytes = options.geometry.shape().value_bytes;
    let entries = (0..KEYS)
        .step_by(2)
        .map(|number| (key(number), vec![7; value_bytes]));
    let load = Rolex::load(
        memory.endpoint(),
        memory.nodes(),
        INDEX_ROOT,
        node(),
        entries,
    );
    let first = memory.finish(load).expect("memory is not damaged yet");
    let open = || Rolex::open(memory.endpoint(), memory.nodes(), INDEX_ROOT, node());
    use_index(memory, &first, open, key, value_bytes);
}

fn use_smart(memory: &DamagedMemory, options: &SmartOptions, keys: SmartTestKeys) {
    let node = || Arc::new(SmartComputeNode::new(options.clone()).expect("sizes"));
    let create = Smart::create(memory.endpoint(), memory.nodes(), INDEX_ROOT, node());
    let first = memory.finish(create).expect("memory is not damaged yet");
    let open = || Smart::open(memory.endpoint(), memory.nodes(), INDEX_ROOT, node());
    let key = |number| keys.key(number);
    use_index(memory, &first, open, key, options.value_bytes);
}

fn use_marlin(memory: &DamagedMemory, options: &MarlinOptions) {
    let node = || Arc::new(MarlinComputeNode::new(options.clone()).expect("sizes"));
    let create = Marlin::create(memory.endpoint(), memory.nodes(), INDEX_ROOT, node());
    let first = memory.finish(create).expect("memory is not damaged yet");
    let open = || {
        let opened = Marlin::open(memory.endpoint(), memory.nodes(), INDEX_ROOT, node());
        memory.finish(opened)
    };
    let key = |number: u64| (number + 1).to_be_bytes().to_vec();
    use_index(memory, &first, open, key, options.value_bytes);
}

#[test]
fn marlin_neither_panics_nor_hangs() {
    for mut options in [marlin_simulated::small(8), marlin_simulated::small(200)] {
        // Each post takes a millisecond of the clock of damaged memory.
        options.inner.locks = ChimeLockKind::Leased(Duration::from_millis(100));
        check_damage(18, &DamagePlan::default(), |memory| {
            use_marlin(memory, &options);
        });
    }
}

#[test]
fn rolex_neither_panics_nor_hangs() {
    let (single, replicated) = (
        LeafMetadataPosition::Single,
        LeafMetadataPosition::Replicated,
    );
    for options in [
        small(8),
        small(200),
        tables(8, true, replicated),
        tables(8, false, single),
        speculating(8),
    ] {
        check_damage(12, &DamagePlan::default(), |memory| {
            use_rolex(memory, &options);
        });
    }
}

#[test]
fn smart_neither_panics_nor_hangs() {
    for keys in [
        SmartTestKeys::Wide,
        SmartTestKeys::Deep,
        SmartTestKeys::Long,
    ] {
        for (scan, update) in [
            (SmartScanGuarantee::Complete, SmartUpdate::InPlace),
            (SmartScanGuarantee::Cached, SmartUpdate::InPlace),
            (SmartScanGuarantee::Complete, SmartUpdate::Copy),
            (SmartScanGuarantee::Cached, SmartUpdate::Copy),
        ] {
            let options = SmartOptions {
                key_bytes: keys.bytes(),
                // Some nodes are evicted.
                cache_bytes: 4000,
                chunk_bytes: 1 << 14,
                scan,
                update,
                ..SmartOptions::default()
            };
            check_damage(8, &DamagePlan::default(), |memory| {
                use_smart(memory, &options, keys);
            });
        }
    }
}
