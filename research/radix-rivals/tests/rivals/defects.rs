//! Regression tests of defects that other implementations of these trees had.

use nearfield_core::{Batch, ByteStrings, OrderedIndex, ScanDirection, Words};
use nearfield_radix_rivals::{Rival, RivalDesign};
use nearfield_testkit::stop::AtEnd;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Checks a defect: a scan retried a node again and again that had become obsolete meanwhile. Here
/// nodes are replaced all the time: they grow and shrink between 3 and 49 children.
fn scans_end_while_nodes_are_replaced<D: RivalDesign<Words>>(index: &Rival<Words, D>) {
    const SCANS: usize = 3_000;
    let done = AtomicBool::new(false);
    for key in 0..3 {
        index.insert(key, key).expect("insert");
    }
    thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (index, done) = (&index, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let keys = || (3 + thread..60).step_by(2);
                    keys().for_each(|key| drop(index.insert(key, key)));
                    keys().for_each(|key| drop(index.remove(key)));
                }
            });
        }
        let _stop = AtEnd(&done);
        let mut batch = Batch::<Words>::new();
        for direction in [ScanDirection::Ascending, ScanDirection::Descending] {
            for _ in 0..SCANS / 2 {
                batch.clear();
                let all = batch.scan(Bound::Unbounded, Bound::Unbounded, u32::MAX, direction);
                let nearest = batch.predecessor(1);
                index.execute(&mut batch).expect("a batch");
                let stay = batch.entries(all).filter(|(key, _)| *key < 3).count();
                assert_eq!(stay, 3, "a stable entry was missed");
                assert!(batch.entries(all).len() <= 60);
                assert!(matches!(
                    batch.outcome(nearest),
                    nearfield_core::OperationOutcome::Entry(Some((1, 1)))
                ));
            }
        }
    });
    index.check_invariants();
}

/// Checks a defect: the insertion of a key that was present did not test for it, and ran past the
/// key's end.
fn an_insertion_of_a_present_key_replaces_its_value<D: RivalDesign<ByteStrings>>(
    index: &Rival<ByteStrings, D>,
) {
    for key in [&b"k"[..], b"", b"key", &[0; 300], &[0; 299]] {
        assert_eq!(index.insert(key, b"1").expect("insert"), None);
        assert_eq!(
            index.insert(key, b"two").expect("insert"),
            Some(b"1".to_vec())
        );
        assert_eq!(index.get(key).expect("get"), Some(b"two".to_vec()));
    }
    assert_eq!(index.len(), 5);
    index.check_invariants();
}

/// Checks a defect: keys could not be prefixes of others.
fn keys_are_prefixes_of_others<D: RivalDesign<ByteStrings>>(index: &Rival<ByteStrings, D>) {
    let long = [b"abc".repeat(40), vec![0; 40]].concat();
    for length in (0..=long.len()).rev() {
        index
            .insert(&long[..length], &[length as u8])
            .expect("insert");
        index.check_invariants();
    }
    let mut batch = Batch::<ByteStrings>::new();
    let all = batch.scan(
        Bound::Unbounded,
        Bound::Unbounded,
        1000,
        ScanDirection::Ascending,
    );
    let below = batch.predecessor(&[&long[..10], &[0]].concat());
    index.execute(&mut batch).expect("a batch");
    let lengths = batch.entries(all).map(|(key, _)| key.len());
    assert!(lengths.eq(0..=long.len()));
    let found = (&long[..10], &[10][..]);
    assert_eq!(
        batch.outcome(below),
        nearfield_core::OperationOutcome::Entry(Some(found))
    );
    for length in (0..=long.len()).step_by(2) {
        let removed = index.remove(&long[..length]).expect("remove");
        assert_eq!(removed, Some(vec![length as u8]));
        index.check_invariants();
    }
    for length in 0..=long.len() {
        let found = index.get(&long[..length]).expect("get");
        assert_eq!(found, (length % 2 == 1).then(|| vec![length as u8]));
    }
}

/// Checks a defect: nodes without entries stayed, and nodes never became smaller. An emptied tree
/// reads no more than its root.
fn an_emptied_tree_is_small<D: RivalDesign<Words>>(index: &Rival<Words, D>, walk_max: u64) {
    let keys = || (0..20_000_u64).map(|key| key * key);
    for key in keys() {
        index.insert(key, key).expect("insert");
    }
    for key in keys() {
        assert_eq!(index.remove(key).expect("remove"), Some(key));
    }
    assert_eq!(index.len(), 0);
    index.check_invariants();
    let mut batch = Batch::new();
    for key in keys().take(100) {
        batch.get(key);
    }
    let mut counters = nearfield_radix::RadixCounters::default();
    index
        .execute_counted(&mut batch, &mut counters)
        .expect("gets");
    assert!(
        counters.partial_key_matches <= 100 * walk_max,
        "{counters:?}"
    );
}

/// Checks a defect: the result for a whole range relied on the prefix byte of one bound only.
fn bounds_within_prefixes_are_kept<D: RivalDesign<ByteStrings>>(index: &Rival<ByteStrings, D>) {
    let keys = [&b"aaaaaaaaaax1"[..], b"aaaaaaaaaax2", b"aaaaaaaaaay1", b"b"];
    for key in keys {
        index.insert(key, key).expect("insert");
    }
    for low in [
        &b"aaaaaaaaaa"[..],
        b"aaaaaaaaaax1",
        b"aaaaaaaaaaxx",
        b"aaaaaaaaab",
    ] {
        for high in [
            &b"aaaaaaaaaa"[..],
            b"aaaaaaaaaax2",
            b"aaaaaaaaaax9",
            b"aaaaaaaab",
        ] {
            let mut batch = Batch::<ByteStrings>::new();
            let bounds = (Bound::Excluded(low), Bound::Included(high));
            let up = batch.scan(bounds.0, bounds.1, 10, ScanDirection::Ascending);
            let down = batch.scan(bounds.0, bounds.1, 10, ScanDirection::Descending);
            index.execute(&mut batch).expect("scans");
            let expected = || keys.into_iter().filter(|&key| key > low && key <= high);
            assert!(batch.entries(up).map(|(key, _)| key).eq(expected()));
            let down = batch.entries(down).map(|(key, _)| key);
            assert!(down.eq(expected().collect::<Vec<_>>().into_iter().rev()));
        }
    }
}

/// The tests of a design, whose walk for an absent key in an empty tree reads up to `walk_max`
/// nodes.
macro_rules! tests {
    ($name:ident, $index:ident, $walk_max:expr) => {
        mod $name {
            use super::*;
            use nearfield_radix_rivals::$index;

            #[test]
            fn scans_end() {
                scans_end_while_nodes_are_replaced(&$index::new());
            }

            #[test]
            fn present_keys() {
                an_insertion_of_a_present_key_replaces_its_value(&$index::new());
            }

            #[test]
            fn prefixes() {
                keys_are_prefixes_of_others(&$index::new());
            }

            #[test]
            fn emptied() {
                an_emptied_tree_is_small(&$index::new(), $walk_max);
            }

            #[test]
            fn bounds() {
                bounds_within_prefixes_are_kept(&$index::new());
            }
        }
    };
}

tests!(art, Art, 1);
tests!(art_rowex, ArtRowex, 1);
// Nodes that have lost their entries stay.
tests!(smart, Smart, 8);
tests!(heart, Heart, 8);
