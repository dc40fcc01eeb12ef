//! The latch of blocks of words: threads that alter a block under the latch alone, threads that
//! replace it under the lock of the node above, and readers.
//!
//! The blocks are the engine's own. The node above them is not: a word stands for its slot. The
//! rule that decides if latches are needed is omitted. It is right only because a thread is pinned
//! as long as it follows the rule, and loom cannot see into crossbeam-epoch; the tests of
//! `latching.rs` check that a change waits for pinned threads.

use crate::{ScenarioStart, check, check_within};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use nearfield_radix::leaf::block::{BLOCK_MAX, WordBlock};
use nearfield_radix::{LeafChangeResult, RadixKeyChange};

/// Adds to a key's payload, or inserts the key with it; returns the result.
fn add(block: &WordBlock, key: u64, number: u64) -> LeafChangeResult {
    block.alter(key, true, &mut |payload| {
        RadixKeyChange::Set(payload.unwrap_or(0) + number)
    })
}

/// Returns the number that an attempt to add has added.
fn added(altered: LeafChangeResult, number: u64) -> u64 {
    match altered {
        LeafChangeResult::Not => 0,
        LeafChangeResult::InPlace | LeafChangeResult::Inserted => number,
    }
}

/// Runs one attempt to add in a separate thread.
fn spawn_add(
    start: &ScenarioStart,
    block: &Arc<WordBlock>,
    key: u64,
    number: u64,
) -> thread::JoinHandle<LeafChangeResult> {
    let block = Arc::clone(block);
    start.spawn(move || add(&block, key, number))
}

/// Tests two threads that add to two keys of a block. Their results match the block's final
/// content, and at least one of them succeeds.
fn two_add(entries: &'static [(u64, u64)], keys: [u64; 2]) {
    check(move || {
        let block = Arc::new(WordBlock::new(entries));
        let start = ScenarioStart::new();
        let other = spawn_add(&start, &block, keys[0], 1);
        start.pass();
        let mine = add(&block, keys[1], 2);
        let other = other.join().expect("writer");

        let mut expected = entries.to_vec();
        for (key, altered, number) in [(keys[0], other, 1), (keys[1], mine, 2)] {
            let place = expected.iter().position(|entry| entry.0 == key);
            match (altered, place) {
                (LeafChangeResult::Not, _) => {}
                (_, Some(place)) => expected[place].1 += number,
                (_, None) => expected.push((key, number)),
            }
        }
        expected.sort_unstable();
        assert_eq!(block.load().as_slice(), expected, "an update was lost");
        assert!(
            [mine, other] != [LeafChangeResult::Not; 2],
            "both were refused"
        );

        let inserted =
            [mine, other].map(|altered| usize::from(altered == LeafChangeResult::Inserted));
        assert_eq!(
            block.count(),
            entries.len() + inserted[0] + inserted[1],
            "an insert was not reported, or reported twice"
        );
        assert_eq!(
            add(&block, expected[0].0, 0),
            LeafChangeResult::InPlace,
            "latched"
        );
    });
}

#[test]
fn two_that_set_one_key_lose_nothing() {
    two_add(&[(10, 100), (20, 200)], [20, 20]);
}

#[test]
fn two_that_set_different_keys_lose_nothing() {
    two_add(&[(10, 100), (20, 200)], [10, 20]);
}

#[test]
fn two_that_insert_different_keys_lose_nothing() {
    two_add(&[(20, 200)], [10, 30]);
}

#[test]
fn two_that_insert_one_key_make_one_entry() {
    two_add(&[(20, 200)], [10, 10]);
}

#[test]
fn an_entry_that_moves_while_its_payload_is_set_keeps_it() {
    two_add(&[(20, 200), (30, 300)], [30, 10]);
}

#[test]
fn two_that_insert_where_one_entry_fits_do_not_overflow_the_block() {
    const ENTRIES: [(u64, u64); BLOCK_MAX - 1] = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)];
    two_add(&ENTRIES, [7, 8]);
}

/// Two threads wait for the latch, as they do under the locks of two nodes. One of them gets it at
/// a time.
#[test]
fn a_latch_that_is_waited_for_is_held_by_one() {
    check(|| {
        let block = Arc::new(WordBlock::new(&[(10, 100)]));
        let start = ScenarioStart::new();
        let other = spawn_add(&start, &block, 10, 1);
        start.pass();
        let latch = block.latch(true);
        let payload = latch.payload(0);
        latch.set_payload(0, payload + 2);
        drop(latch);
        let other = added(other.join().expect("writer"), 1);
        assert_eq!(block.find(10).0, Some(102 + other), "an update was lost");
    });
}

// Readers.

/// The missing step of a reader.
#[derive(Clone, Copy, PartialEq)]
enum LoomWordRead {
    Validated,
    Torn,
}

fn find(block: &WordBlock, key: u64, reading: LoomWordRead) -> Option<u64> {
    match reading {
        LoomWordRead::Validated => block.find(key).0,
        LoomWordRead::Torn => block.position(key).map(|place| block.payload(place)),
    }
}

/// Tests a read while an insert moves all entries.
fn a_reader_beside_an_insert(reading: LoomWordRead) {
    check(move || {
        let block = Arc::new(WordBlock::new(&[(20, 200), (30, 300)]));
        let start = ScenarioStart::new();
        let writer = spawn_add(&start, &block, 10, 100);
        start.pass();
        assert_eq!(find(&block, 30, reading), Some(300), "a mixture was read");
        assert_eq!(writer.join().expect("writer"), LeafChangeResult::Inserted);
        assert_eq!(find(&block, 10, reading), Some(100));
    });
}

#[test]
fn a_reader_finds_an_entry_while_it_moves() {
    a_reader_beside_an_insert(LoomWordRead::Validated);
}

#[test]
#[should_panic(expected = "a mixture was read")]
fn canary_a_reader_of_a_block_that_does_not_validate_is_caught() {
    a_reader_beside_an_insert(LoomWordRead::Torn);
}

#[test]
fn an_entry_that_was_found_once_is_found_again() {
    check(|| {
        let block = Arc::new(WordBlock::new(&[(20, 200)]));
        let start = ScenarioStart::new();
        let writer = spawn_add(&start, &block, 10, 100);
        start.pass();
        let first = block.find(10).0;
        let second = block.find(10).0;
        assert!(
            matches!(
                (first, second),
                (None, None) | (None, Some(100)) | (Some(100), Some(100))
            ),
            "{first:?}, then {second:?}"
        );
        writer.join().expect("writer");
    });
}

#[test]
fn a_block_is_loaded_before_or_after_an_insert() {
    check(|| {
        let before = [(20, 200), (30, 300)];
        let after = [(10, 100), (20, 200), (30, 300)];
        let block = Arc::new(WordBlock::new(&before));
        let start = ScenarioStart::new();
        let writer = spawn_add(&start, &block, 10, 100);
        start.pass();
        let entries = block.load();
        let entries = entries.as_slice();
        assert!(entries == before || entries == after, "{entries:?}");
        writer.join().expect("writer");
        assert_eq!(block.load().as_slice(), after);
    });
}

#[test]
fn a_block_is_loaded_before_or_after_a_removal() {
    check(|| {
        let before = [(10, 100), (20, 200), (30, 300)];
        let after = [(20, 200), (30, 300)];
        let block = Arc::new(WordBlock::new(&before));
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&block, move |block| block.latch(true).remove(0));
        start.pass();
        let found = block.find(20).0;
        assert_eq!(found, Some(200), "a mixture was read");
        let entries = block.load();
        let entries = entries.as_slice();
        assert!(entries == before || entries == after, "{entries:?}");
        writer.join().expect("writer");
        assert_eq!(block.load().as_slice(), after);
    });
}

#[test]
fn a_reader_finds_a_payload_that_is_set_while_its_entry_moves() {
    check_within(2, || {
        let block = Arc::new(WordBlock::new(&[(20, 200)]));
        let start = ScenarioStart::new();
        let inserting = spawn_add(&start, &block, 10, 100);
        let setting = spawn_add(&start, &block, 20, 1);
        start.pass();
        let found = block.find(20).0;
        assert!(
            matches!(found, Some(200 | 201)),
            "{found:?} was never there"
        );
        inserting.join().expect("writer");
        let set = added(setting.join().expect("writer"), 1);
        assert_eq!(block.find(20).0, Some(200 + set), "an update was lost");
    });
}

#[test]
fn who_finds_a_payload_finds_what_was_set_before() {
    check(|| {
        let block = Arc::new(WordBlock::new(&[(10, 100), (20, 200)]));
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&block, move |block| {
            add(block, 10, 1);
            add(block, 20, 1);
        });
        start.pass();
        if block.find(20).0 == Some(201) {
            assert_eq!(block.find(10).0, Some(101), "an older payload was found");
        }
        writer.join().expect("writer");
    });
}

// A block that is replaced.

/// The missing step of a replacement.
#[derive(Clone, Copy, PartialEq)]
enum BlockReplacementFault {
    None,
    /// Replaces without latching the old block, though other threads rely on latches alone.
    NoLatch,
    /// Latches the old block, but never marks it as replaced.
    NotRetired,
    /// Marks it as replaced only after the copy was linked.
    RetiredLate,
}

/// The slot of a node and the blocks that it may lead to. Only one thread replaces, because the
/// lock of the node has only one holder.
struct LoomWordSlot {
    linked: AtomicUsize,
    blocks: [WordBlock; 2],
}

impl LoomWordSlot {
    fn new(entries: &[(u64, u64)]) -> Arc<LoomWordSlot> {
        Arc::new(LoomWordSlot {
            linked: AtomicUsize::new(0),
            blocks: [WordBlock::new(entries), WordBlock::new(&[])],
        })
    }

    /// Returns the block that a walk reaches.
    fn walk(&self) -> &WordBlock {
        &self.blocks[self.linked.load(Ordering::Acquire)]
    }

    /// Replaces the block with a copy.
    fn replace(&self, fault: BlockReplacementFault) {
        let [old, new] = &self.blocks;
        let latch = old.latch(fault != BlockReplacementFault::NoLatch);
        new.fill(old.load().as_slice());
        let retire = || old.latch(false).retire();
        if matches!(
            fault,
            BlockReplacementFault::None | BlockReplacementFault::NoLatch
        ) {
            retire();
        }
        self.linked.store(1, Ordering::Release);
        if fault == BlockReplacementFault::RetiredLate {
            retire();
        }
        drop(latch);
    }
}

/// Tests an addition to a key, which exists or not, while its block is replaced. The result matches
/// the copy's content.
fn alter_beside_a_replacement(key: u64, fault: BlockReplacementFault) {
    check(move || {
        let entries = [(20, 200), (30, 300)];
        let slot = LoomWordSlot::new(&entries);
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&slot, move |slot| add(slot.walk(), key, 1));
        start.pass();
        slot.replace(fault);
        let altered = writer.join().expect("writer");
        let before = entries.iter().find(|entry| entry.0 == key);
        let before = before.map(|entry| entry.1);
        let expected = match altered {
            LeafChangeResult::Not => before,
            _ => Some(before.unwrap_or(0) + 1),
        };
        assert_eq!(slot.walk().find(key).0, expected, "an update was lost");
        assert_eq!(
            altered == LeafChangeResult::Inserted,
            slot.walk().count() == 3
        );
    });
}

#[test]
fn a_payload_that_was_set_is_in_the_copy() {
    alter_beside_a_replacement(30, BlockReplacementFault::None);
}

#[test]
fn an_entry_that_was_inserted_is_in_the_copy() {
    alter_beside_a_replacement(10, BlockReplacementFault::None);
}

#[test]
#[should_panic(expected = "an update was lost")]
fn canary_a_replacement_without_the_latch_is_caught() {
    alter_beside_a_replacement(30, BlockReplacementFault::NoLatch);
}

#[test]
#[should_panic(expected = "an update was lost")]
fn canary_a_replacement_that_does_not_retire_the_block_is_caught() {
    alter_beside_a_replacement(30, BlockReplacementFault::NotRetired);
}

/// Tests an addition to a key in the copy, and then a lookup in the old block, to which an earlier
/// shortcut still leads. Only a block that is not obsolete may be trusted.
fn a_shortcut_beside_a_replacement(fault: BlockReplacementFault) {
    check(move || {
        let slot = LoomWordSlot::new(&[(20, 200)]);
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&slot, move |slot| {
            let added = added(add(slot.walk(), 20, 1), 1);
            let (found, version) = slot.blocks[0].find(20);
            assert!(
                version.is_obsolete() || found == Some(200 + added),
                "a replaced block was believed"
            );
        });
        start.pass();
        slot.replace(fault);
        writer.join().expect("writer");
    });
}

#[test]
fn a_shortcut_does_not_hide_what_was_set_in_the_copy() {
    a_shortcut_beside_a_replacement(BlockReplacementFault::None);
}

#[test]
#[should_panic(expected = "a replaced block was believed")]
fn canary_a_block_that_is_retired_after_the_copy_is_linked_is_caught() {
    a_shortcut_beside_a_replacement(BlockReplacementFault::RetiredLate);
}
