use super::*;
use crate::node::NodeRefKind;
use std::collections::HashMap;

/// Creates jumps with a stem, and returns the stem, too.
fn with_stem(guard: &Guard) -> (Jumps, Stem) {
    let jumps = Jumps::default();
    let stem = add(&jumps, b"key", 9, Ref::new(NodeRefKind::Node4, 1 << 20));
    assert!(jumps.entries(guard).is_empty());
    (jumps, stem)
}

fn add(jumps: &Jumps, first: &[u8; 3], depth: usize, node: Ref) -> Stem {
    let shortest = first_prefix(0, |from, count| number(&first[from..count]));
    let stem = jumps.add_stem(shortest.expect("three bytes"), node, depth);
    stem.expect("room for a stem")
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(
        bytes
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)),
    )
}

/// Returns one of many prefixes.
fn prefix(table: usize, stem: Stem, number: u64) -> JumpPrefix {
    let bits = prefix::bits(table);
    let number = number.wrapping_mul(0x2545_f491_4f6c_dd1d) & ((1 << bits) - 1);
    let prefix = JumpPrefix {
        table,
        number,
        end: 0,
    };
    match prefix.is_behind_stem() {
        true => JumpPrefix {
            number: u64::from(stem.number) << (bits - 8) | number & ((1 << (bits - 8)) - 1),
            ..prefix
        },
        false => prefix,
    }
}

#[test]
fn a_table_grows_and_keeps_what_buckets_have_room_for() {
    for table in 0..TABLES {
        let guard = crossbeam_epoch::pin();
        let (jumps, stem) = with_stem(&guard);
        let mut model = HashMap::new();
        for number in 0..5000_u32 {
            let prefix = prefix(table, stem, u64::from(number));
            let node = Ref::new(NodeRefKind::Node4, number);
            jumps.set(prefix, node, &guard);
            let found = jumps.find(prefix, &guard);
            assert!(found == node || found.is_null());
            model.insert(prefix.number, node);
            if number % 3 == 0 {
                jumps.clear(prefix, &guard);
                assert!(jumps.find(prefix, &guard).is_null());
                model.remove(&prefix.number);
            }
        }
        let mut kept = 0;
        for (&number, &node) in &model {
            let prefix = JumpPrefix {
                table,
                number,
                end: 0,
            };
            let found = jumps.find(prefix, &guard);
            assert!(found == node || found.is_null());
            kept += usize::from(found == node);
        }
        assert!(kept * 10 > model.len() * 9, "{kept} of {}", model.len());
        assert!(jumps.bytes() < 32 * 5000);
        let entries = jumps.entries(&guard);
        assert_eq!(
            (entries.len(), lock(&jumps.changes).used[table]),
            (kept, kept)
        );
        for ((other, number), node) in entries {
            assert_eq!((other, model[&number]), (table, node));
        }
    }
}

/// Prefixes that differ in one bit only each have their own slot.
#[test]
fn no_prefix_is_taken_for_another() {
    for table in 0..TABLES {
        let guard = crossbeam_epoch::pin();
        let (jumps, stem) = with_stem(&guard);
        let node = Ref::new(NodeRefKind::Node16, 1);
        for number in 0..200 {
            let own = prefix(table, stem, number);
            jumps.set(own, node, &guard);
            for bit in 0..prefix::bits(table) {
                let other = JumpPrefix {
                    number: own.number ^ 1 << bit,
                    ..own
                };
                assert!(jumps.find(other, &guard).is_null());
            }
            assert_eq!(jumps.find(own, &guard), node);
            jumps.clear(own, &guard);
        }
    }
}

#[test]
fn a_prefix_has_one_slot() {
    let guard = crossbeam_epoch::pin();
    let (jumps, stem) = with_stem(&guard);
    let own = prefix(1, stem, 1);
    for index in 0..20 {
        jumps.set(own, Ref::new(NodeRefKind::Node16, index), &guard);
    }
    let last = ((1, own.number), Ref::new(NodeRefKind::Node16, 19));
    assert_eq!(jumps.entries(&guard), [last]);
    assert!(jumps.find(prefix(1, stem, 2), &guard).is_null());
    assert!(jumps.find(prefix(0, stem, 1), &guard).is_null());
}

#[test]
fn a_node_is_forgotten_without_its_prefix() {
    let guard = crossbeam_epoch::pin();
    let (jumps, stem) = with_stem(&guard);
    for number in 0..100 {
        let node = Ref::new(NodeRefKind::Node256, number);
        jumps.set(prefix(1, stem, u64::from(number)), node, &guard);
    }
    let entries = jumps.entries(&guard);
    let (_, gone) = entries[50];
    let node = Ref::new(NodeRefKind::Skipping256, gone.index());
    jumps.clear_node(0, node, &guard);
    assert_eq!(jumps.entries(&guard), entries);
    jumps.clear_node(1, node, &guard);
    assert_eq!(jumps.entries(&guard).len(), entries.len() - 1);
    assert!(jumps.entries(&guard).iter().all(|(_, node)| *node != gone));
}

#[test]
fn a_stem_goes_with_its_prefixes_and_its_number_comes_back_late() {
    let guard = crossbeam_epoch::pin();
    let (jumps, gone) = with_stem(&guard);
    let node = Ref::new(NodeRefKind::Node4, 7);
    let kept = add(&jumps, b"ses", 8, node);
    for table in FIRST.len()..TABLES {
        for number in 1..50 {
            jumps.set(prefix(table, gone, number), node, &guard);
            jumps.set(prefix(table, kept, number), node, &guard);
        }
    }
    let of_kept = |((table, number), _): &((usize, u64), Ref)| {
        number >> (prefix::bits(*table) - 8) == u64::from(kept.number)
    };
    let entries = jumps.entries(&guard);
    let left: Vec<_> = entries.iter().copied().filter(of_kept).collect();
    assert!(left.len() > 80 && entries.len() > left.len() + 80);
    jumps.drop_stems(&guard, |stem, _| stem == gone);
    assert_eq!(jumps.stems(), [(kept, node)]);
    assert_eq!(jumps.entries(&guard), left);
    assert_eq!(lock(&jumps.changes).used.iter().sum::<usize>(), left.len());
    // A change that was in progress.
    jumps.set(prefix(2, gone, 1), node, &guard);
    assert!(jumps.find(prefix(2, gone, 1), &guard).is_null());
    // This thread may have read the number.
    let mut numbers = lock(&jumps.free_numbers).clone();
    assert!(!numbers.contains(&gone.number));
    drop(guard);
    // Threads of other tests of this process may be pinned for some time.
    let begun = std::time::Instant::now();
    while !numbers.contains(&gone.number) {
        assert!(begun.elapsed().as_secs() < 60, "it is not reused");
        crossbeam_epoch::pin().flush();
        numbers = lock(&jumps.free_numbers).clone();
    }
}

#[test]
fn stems_have_bounds() {
    let jumps = Jumps::default();
    let node = Ref::new(NodeRefKind::Node4, 7);
    let key = |bytes: [u8; 3]| first_prefix(0, |from, count| number(&bytes[from..count]));
    let shortest = key(*b"key").expect("three bytes");
    assert_eq!(jumps.add_stem(shortest, node, DEPTH_MIN - 1), None);
    assert_eq!(jumps.add_stem(shortest, node, DEPTH_MAX + 1), None);
    assert_eq!(jumps.reach(), 5);
    let most = jumps.add_stem(shortest, node, DEPTH_MAX);
    assert_eq!(most.map(|stem| stem.depth), Some(DEPTH_MAX));
    assert_eq!(jumps.reach(), DEPTH_MAX + 4);
    assert_eq!(jumps.add_stem(shortest, node, 9), None, "it has one");
    for number in 0..10_000_u32 {
        let [_, bytes @ ..] = number.to_be_bytes();
        jumps.add_stem(key(bytes).expect("three bytes"), node, 9);
    }
    let stems = jumps.stems();
    assert!((200..=255).contains(&stems.len()), "{}", stems.len());
    for (stem, _) in stems {
        assert_eq!(jumps.stems.find(stem.first), Some(stem));
    }
}

/// A prefix moves between the slots of a bucket, whose first slot another prefix takes meanwhile.
/// A search finds one of its nodes or none, never a mixture.
#[test]
fn a_search_beside_changes_finds_a_whole_reference() {
    let table = table::JumpPrefixTable::new(0, 0);
    let of = |number| JumpPrefix {
        table: 0,
        number,
        end: 0,
    };
    let (moving, other) = (of(1), of(2));
    let nodes = [
        Ref::new(NodeRefKind::Node4, 0x0f0f),
        Ref::new(NodeRefKind::Node4, 0xf0f0),
    ];
    let set = |prefix, node| {
        let slot = table.slot(prefix).expect("room");
        slot.store(table::entry(prefix, node), Ordering::Release);
    };
    let clear = |prefix| {
        let slot = table.slot(prefix).expect("its slot");
        slot.store(0, Ordering::Release);
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5_000_000 {
                set(moving, nodes[0]);
                clear(moving);
                set(other, nodes[0]);
                set(moving, nodes[1]);
                clear(moving);
                clear(other);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            let found = table.find(moving);
            assert!(found.is_null() || nodes.contains(&found), "{found:?}");
        }
    });
}
