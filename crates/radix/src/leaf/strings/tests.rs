use super::*;
use crate::change::{LeafChangeResult, RadixKeyChange};
use crate::leaf::{LeafWalkContext, RadixScanRange};
use crate::node::NodeRefKind;
use nearfield_core::{Batch, ByteStrings, ScanDirection};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::AtomicBool;

fn memory() -> RadixMemory {
    RadixMemory::new(usize::MAX, GRANULE_BYTES, GRANULES_MAX).expect("address space")
}

type Owned = (Vec<u8>, Vec<u8>);

fn borrowed(entries: &[Owned]) -> Vec<Entry<'_>> {
    entries
        .iter()
        .map(|(key, value)| (&key[..], &value[..]))
        .collect()
}

/// Checks all entries of a block, read one by one, by a scan and by their keys.
fn assert_has(memory: &RadixMemory, leaf: Ref, expected: &[Owned]) {
    let guard = crossbeam_epoch::pin();
    for direction in [ScanDirection::Ascending, ScanDirection::Descending] {
        let mut read: Vec<Owned> = Vec::new();
        let _ = entries(memory, leaf, direction, &guard, |key, value| {
            read.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        if direction == ScanDirection::Descending {
            read.reverse();
        }
        assert_eq!(read, expected);
    }
    for first in 0..=expected.len() {
        let from = match expected.get(first) {
            Some(entry) => Bound::Included(&entry.0[..]),
            None => Bound::Unbounded,
        };
        for limit in [1, 3, 100] {
            let written = written(memory, leaf, from, limit);
            let first = first % expected.len().max(1);
            let behind = expected.len().min(first + limit);
            assert_eq!(written, expected[first.min(behind)..behind]);
        }
    }
    let block = StringBlock::latched(memory, leaf, &guard);
    assert_eq!(block.count(), expected.len());
    for (i, (key, value)) in expected.iter().enumerate() {
        assert_eq!(block.position(key), Some(i));
        assert_eq!(
            (block.rank(key), block.entry(i)),
            (i, (&key[..], &value[..]))
        );
        let (first, last) = (&expected[0].0, &expected[expected.len() - 1].0);
        let agree = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        for shared in [0, agree / 2, agree] {
            assert_eq!(block.rank_behind(key, shared), i);
            let behind = [&key[..], b"0"].concat();
            assert_eq!(block.rank_behind(&behind, shared), block.rank(&behind));
        }
        let (found, dead) = read(memory, leaf, key, FingerprintCandidates::default(), &guard);
        assert!(!dead && found.expect("a value").value() == value);
    }
}

/// Returns the entries that an ascending scan writes.
fn written(memory: &RadixMemory, leaf: Ref, from: Bound<&[u8]>, limit: usize) -> Vec<Owned> {
    let guard = crossbeam_epoch::pin();
    let mut batch = Batch::<ByteStrings>::new();
    batch.scan(
        Bound::Unbounded,
        Bound::Unbounded,
        limit as u32,
        ScanDirection::Ascending,
    );
    let (_, mut output) = batch.begin().expect("a batch");
    let mut writer = output.begin_entries(0);
    let scan = RadixScanRange {
        from,
        to: Bound::Unbounded,
        direction: ScanDirection::Ascending,
        limit,
    };
    let _ = write_entries(memory, leaf, &scan, &mut None, &guard, &mut writer);
    writer.finish();
    let owned = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    batch.entries(0).map(owned).collect()
}

/// Returns the knowledge of a walk that has come from a node in use.
fn known_of(
    memory: &RadixMemory,
    skipped: bool,
    depth: usize,
    prepared: FingerprintCandidates,
) -> LeafWalkContext<FingerprintCandidates> {
    let parent = memory
        .allocate_inner(NodeRefKind::Node4, depth)
        .expect("memory");
    memory.lock(parent).revive();
    LeafWalkContext {
        skipped,
        parent,
        depth,
        prepared,
    }
}

fn number(i: usize) -> Vec<u8> {
    format!("key {i:03}").into_bytes()
}

#[test]
fn every_entry_is_found_and_no_other() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    for count in 1..=STRINGS_MAX {
        let all: Vec<Owned> = (0..count)
            .map(|i| (number(i), number(i)[4..].to_vec()))
            .collect();
        let leaf = create(&memory, &borrowed(&all)).expect("memory");
        assert_has(&memory, leaf, &all);
        for key in [&b""[..], b"key 00 ", &number(count)] {
            assert!(
                read(&memory, leaf, key, FingerprintCandidates::default(), &guard)
                    .0
                    .is_none()
            );
        }
        // SAFETY: no other thread can reach the block.
        unsafe { free(&memory, leaf) };
    }
    assert_eq!(memory.bytes().leaf_bytes, 0);
}

/// A block equals a sorted list after the same random changes, made by the functions that the tree
/// uses.
#[test]
fn a_block_is_what_its_changes_have_made_of_it() {
    let memory = memory();
    let mut state = 7_u64;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let (mut in_place, mut copied) = (0, 0);
    for _ in 0..200 {
        let guard = crossbeam_epoch::pin();
        let mut model: Vec<Owned> = vec![(number(500), b"12345678".to_vec())];
        let mut leaf = create_with_room(&memory, &borrowed(&model)).expect("memory");
        for _ in 0..150 {
            let key = number(random(40) + 480);
            let lengths = [8, 8, 8, 0, 16, 17, 300];
            let value = vec![random(256) as u8; lengths[random(lengths.len())]];
            let block = StringBlock::latched(&memory, leaf, &guard);
            let found = model.binary_search_by(|entry| entry.0.cmp(&key));
            assert_eq!(block.position(&key), found.ok());
            let (at, behind) = match found {
                Ok(at) if random(3) == 0 => {
                    if model.len() > 1 {
                        remove(&memory, leaf, at, &guard);
                        model.remove(at);
                    }
                    continue;
                }
                Ok(at) if set(&memory, leaf, at, &value, &guard) => {
                    model[at].1 = value;
                    in_place += 1;
                    continue;
                }
                Ok(at) => (at, at + 1),
                Err(at) if block.has_room_for_key(&key, &value) => {
                    insert(&memory, leaf, (&key, &value), 0, &guard);
                    model.insert(at, (key, value));
                    in_place += 1;
                    continue;
                }
                Err(at) => (at, at),
            };
            let mut edited = model.clone();
            edited.splice(at..behind, [(key.clone(), value.clone())]);
            let copy = create_edited(&memory, block, at, behind, (&key, &value));
            assert_eq!(copy.is_some(), fits(&borrowed(&edited)), "{edited:?}");
            if let Some(copy) = copy {
                mark_dead(&memory, leaf);
                assert!(
                    read(
                        &memory,
                        leaf,
                        &key,
                        FingerprintCandidates::default(),
                        &guard
                    )
                    .1
                );
                leaf = copy.expect("memory");
                model = edited;
                copied += 1;
            }
            assert_has(&memory, leaf, &model);
        }
        assert_has(&memory, leaf, &model);
        let block = StringBlock::latched(&memory, leaf, &guard);
        for (key, _) in &model {
            assert!(block.all_keys().any(|other| other == key));
        }
    }
    assert!(in_place > 1000 && copied > 1000, "{in_place} {copied}");
}

#[test]
fn what_was_prepared_serves_one_version() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let all: Vec<Owned> = (0..8)
        .map(|i| (number(2 * i), b"12345678".to_vec()))
        .collect();
    let leaf = create_with_room(&memory, &borrowed(&all)).expect("memory");
    let key = number(8);
    let (_, prepared) = prepare(&memory, leaf, &key, &guard);
    assert_ne!(prepared.version, Version::NEVER);
    let set = &mut |_: Option<&[u8]>| RadixKeyChange::Set(&b"new"[..]);
    let known = known_of(&memory, false, 0, FingerprintCandidates::default());
    assert_eq!(
        alter(&memory, leaf, &number(1), known, &guard, set),
        LeafChangeResult::Inserted
    );
    // The key is at another position now.
    let (found, _) = read(&memory, leaf, &key, prepared, &guard);
    assert_eq!(found.expect("a value").value(), b"12345678");
    let set = &mut |value: Option<&[u8]>| {
        assert_eq!(value, Some(&b"12345678"[..]));
        RadixKeyChange::Set(&b"87654321"[..])
    };
    let again = known_of(&memory, false, 0, prepared);
    let altered = alter(&memory, leaf, &key, again, &guard, set);
    assert_eq!(altered, LeafChangeResult::InPlace);
    let (found, _) = read(&memory, leaf, &key, prepared, &guard);
    assert_eq!(found.expect("a value").value(), b"87654321");
}

#[test]
fn only_what_a_block_has_room_for_is_altered_in_it() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let all: Vec<Owned> = vec![(number(1), b"1".to_vec()), (number(3), b"3".to_vec())];
    let leaf = create(&memory, &borrowed(&all)).expect("memory");
    let alter = |key: &[u8], belongs: bool, change: RadixKeyChange<&'static [u8]>| {
        let known = known_of(&memory, !belongs, 7, FingerprintCandidates::default());
        alter(&memory, leaf, key, known, &guard, &mut |_| change)
    };
    let set = RadixKeyChange::Set(&b"x"[..]);
    let longer = RadixKeyChange::Set(&[1; 30][..]);
    assert_eq!(alter(&number(2), true, longer), LeafChangeResult::Not);
    assert_eq!(alter(&number(2), false, set), LeafChangeResult::Not);
    assert_eq!(
        alter(&number(1), true, RadixKeyChange::Remove),
        LeafChangeResult::Not
    );
    assert_eq!(
        alter(&number(1), true, RadixKeyChange::Set(&[1; 900])),
        LeafChangeResult::Not
    );
    assert_eq!(alter(&number(1), false, set), LeafChangeResult::InPlace);
    let held = latch(&memory, leaf, true);
    assert_eq!(alter(&number(1), true, set), LeafChangeResult::Not);
    drop(held);
    assert_has(&memory, leaf, &[(number(1), b"x".to_vec()), all[1].clone()]);
    mark_dead(&memory, leaf);
    assert_eq!(alter(&number(1), true, set), LeafChangeResult::Not);
}

#[test]
fn a_long_entry_is_kept_outside() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let all: Vec<Owned> = vec![(b"long".to_vec(), vec![7; 100_000])];
    let leaf = create(&memory, &borrowed(&all)).expect("memory");
    assert!(memory.has_outside());
    assert!(!fits(&[(b"long", &all[0].1), (b"other", b"")]));
    assert_has(&memory, leaf, &all);
    assert!(!set(&memory, leaf, 0, b"short", &guard));
    remove(&memory, leaf, 0, &guard);
    assert_has(&memory, leaf, &[]);
    // SAFETY: no other thread can reach the block.
    unsafe { free(&memory, leaf) };
    assert!(!memory.has_outside());
    assert_eq!(memory.bytes().leaf_bytes, 0);
}

/// Reads a long value by `read`, at most `times` times, while another thread sets it in place.
/// Returns true if a mixture of two values was read.
fn reads_a_mixture(times: usize, read: impl Fn(&RadixMemory, Ref, &Guard) -> Vec<u8>) -> bool {
    const KEY: &[u8] = b"key";
    const LENGTH: usize = 600;
    let memory = memory();
    let leaf = create(&memory, &[(KEY, &[0; LENGTH])]).expect("memory");
    let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let guard = crossbeam_epoch::pin();
            let mut byte = 0_u8;
            let known = known_of(&memory, false, 0, FingerprintCandidates::default());
            while !ended.load(Ordering::Relaxed) {
                byte = byte.wrapping_add(1);
                let value = [byte; LENGTH];
                let decide = &mut |_: Option<&[u8]>| RadixKeyChange::Set(&value[..]);
                let altered = alter(&memory, leaf, KEY, known, &guard, decide);
                assert_eq!(altered, LeafChangeResult::InPlace);
                begun.store(true, Ordering::Relaxed);
            }
        });
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let guard = crossbeam_epoch::pin();
        let is_mixed = (0..times).any(|_| {
            let value = read(&memory, leaf, &guard);
            value.len() != LENGTH || value.iter().any(|&byte| byte != value[0])
        });
        ended.store(true, Ordering::Relaxed);
        is_mixed
    })
}

#[test]
fn a_long_value_is_read_whole_while_it_is_set() {
    const READS: usize = 50_000;
    assert!(!reads_a_mixture(READS, |memory, leaf, guard| {
        let (found, _) = read(
            memory,
            leaf,
            b"key",
            FingerprintCandidates::default(),
            guard,
        );
        found.expect("a value").value().to_vec()
    }));
    assert!(!reads_a_mixture(READS, |memory, leaf, guard| {
        let mut bytes = b"before".to_vec();
        let none = FingerprintCandidates::default();
        assert!(copy_to(memory, leaf, b"key", none, guard, &mut bytes).0);
        bytes.split_off(6)
    }));
    assert!(!reads_a_mixture(READS, |memory, leaf, guard| {
        let mut bytes = Vec::new();
        let _ = entries(
            memory,
            leaf,
            ScanDirection::Descending,
            guard,
            |_, value| {
                bytes.extend_from_slice(value);
                ControlFlow::Continue(())
            },
        );
        bytes
    }));
}

/// The test above would notice a reader that does not validate its copy. This test ends when that
/// has happened.
#[test]
fn canary_a_long_value_that_is_not_validated_is_caught() {
    assert!(reads_a_mixture(usize::MAX, |memory, leaf, guard| {
        let block = StringBlock::latched(memory, leaf, guard);
        let mut bytes = Vec::new();
        block.parts(0).append_to(&mut bytes, false);
        bytes
    }));
}

/// A removed node above a block has a depth that gave bytes in which today's keys may differ.
#[test]
fn a_key_is_put_in_order_below_a_node_that_has_been_removed() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let entry = |key: &str| (key.as_bytes().to_vec(), b"value".to_vec());
    let mut all = vec![entry("a same"), entry("c same")];
    let leaf = create_with_room(&memory, &borrowed(&all)).expect("memory");
    let known = known_of(&memory, false, 2, FingerprintCandidates::default());
    memory.lock(known.parent).retire_alone();
    let set = &mut |_: Option<&[u8]>| RadixKeyChange::Set(&b"value"[..]);
    let altered = alter(&memory, leaf, b"b same", known, &guard, set);
    assert_eq!(altered, LeafChangeResult::Inserted);
    all.insert(1, entry("b same"));
    assert_has(&memory, leaf, &all);
}
