//! The latch and the version of blocks of byte strings: threads that change a block in place under
//! the latch alone, threads that replace it under the lock of the node above, and readers.
//!
//! The header is the engine's own. Entries, offsets and values are modelled, because the engine
//! keeps them as packed bytes, and loom's atomics are larger than bytes: a value is two halves that
//! are not written at once, and an offset is the number of an entry. Keys are plain memory, so that
//! loom notices a reader that reaches an entry before it is written. As in `block`, the rule that
//! decides if latches are needed is omitted.

use crate::{ScenarioStart, check, check_within};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use nearfield_radix::leaf::strings::header::StringBlockHeader;
use nearfield_radix::leaf::strings::state::StringBlockState;
use nearfield_radix::lock::{Version, VersionLock, VersionLockGuard};

/// Number of offsets of a block, and of the entries that it has had, including removed ones.
const SLOTS: usize = 3;

/// The missing step of a change.
#[derive(Clone, Copy, PartialEq)]
enum StringBlockFault {
    None,
    /// Changes without the latch.
    NoLatch,
    /// Makes a change without a new version.
    NoVersion,
    /// Links an entry before it has been written.
    LinkedEarly,
    /// Never marks the block as replaced.
    NotRetired,
    /// Marks it as replaced only after the copy was linked.
    RetiredLate,
}

/// The missing step of a reader.
#[derive(Clone, Copy, PartialEq)]
enum LoomStringRead {
    Validated,
    Torn,
}

#[derive(Default)]
struct LoomStringEntry {
    key: UnsafeCell<usize>,
    value: [AtomicUsize; 2],
}

struct LoomStringBlock {
    header: StringBlockHeader,
    slots: [AtomicUsize; SLOTS],
    entries: [LoomStringEntry; SLOTS],
}

/// The knowledge of a reader about a key from before: its position, at which version.
#[derive(Clone, Copy)]
struct Candidate {
    position: Option<usize>,
    version: Version,
}

impl LoomStringBlock {
    fn new(entries: &[(usize, usize)]) -> LoomStringBlock {
        let block = LoomStringBlock {
            header: StringBlockHeader::new(StringBlockState::inside(1, SLOTS, 0, 0)),
            slots: Default::default(),
            entries: Default::default(),
        };
        block.fill(entries);
        block
    }

    /// Gives entries to a block that no other thread can reach.
    fn fill(&self, entries: &[(usize, usize)]) {
        for (i, &(key, value)) in entries.iter().enumerate() {
            self.write(i, key, value);
            self.slots[i].store(i, Ordering::Relaxed);
        }
        self.header.set(entries.len(), entries.len());
    }

    fn write(&self, at: usize, key: usize, value: usize) {
        // SAFETY: loom checks that no other thread accesses the cell meanwhile.
        self.entries[at].key.with_mut(|cell| unsafe { *cell = key });
        self.set_halves(at, value);
    }

    fn set_halves(&self, at: usize, value: usize) {
        for half in &self.entries[at].value {
            half.store(value, Ordering::Relaxed);
        }
    }

    fn halves(&self, at: usize) -> [usize; 2] {
        let [low, high] = &self.entries[at].value;
        [low.load(Ordering::Relaxed), high.load(Ordering::Relaxed)]
    }

    /// Returns the key at a position, and its offset.
    fn at(&self, position: usize) -> (usize, usize) {
        let offset = self.slots[position].load(Ordering::Acquire);
        // SAFETY: loom checks that no thread writes the cell meanwhile.
        let key = self.entries[offset].key.with(|cell| unsafe { *cell });
        (key, offset)
    }

    fn find(&self, key: usize) -> Option<usize> {
        (0..self.header.state().count()).find(|&position| self.at(position).0 == key)
    }

    /// Returns the entries, under the latch.
    fn entries(&self) -> Vec<(usize, usize)> {
        let entry = |position| {
            let (key, offset) = self.at(position);
            let [low, high] = self.halves(offset);
            assert_eq!(low, high, "a mixture of values remains");
            (key, low)
        };
        (0..self.header.state().count()).map(entry).collect()
    }

    fn prepare(&self, key: usize) -> Candidate {
        let version = self.header.lock.now();
        let position = self.find(key);
        match !version.is_locked() && self.header.lock.validate(version) {
            true => Candidate { position, version },
            false => Candidate {
                position: None,
                version: Version::NEVER,
            },
        }
    }

    /// Reads the two halves of a key's value. Also returns true if the block was dead.
    fn read(
        &self,
        key: usize,
        prepared: Candidate,
        reading: LoomStringRead,
    ) -> (Option<[usize; 2]>, bool) {
        let mut known = prepared;
        loop {
            let found = known.position.map(|position| self.at(position));
            let found = found.filter(|found| found.0 == key);
            let value = found.map(|(_, offset)| self.halves(offset));
            let unchanged = self.header.lock.validate(known.version);
            if unchanged || reading == LoomStringRead::Torn && known.version != Version::NEVER {
                return (value, known.version.is_obsolete());
            }
            known.version = self.header.lock.read();
            known.position = self.find(key);
        }
    }

    /// Reads like `read`, without prior knowledge.
    fn get(&self, key: usize, reading: LoomStringRead) -> (Option<usize>, bool) {
        let nothing = Candidate {
            position: None,
            version: Version::NEVER,
        };
        let (value, dead) = self.read(key, nothing, reading);
        (value.map(whole), dead)
    }

    /// Makes a change, if the block is live and no other thread has the latch. Returns true if it
    /// did.
    fn alter(&self, fault: StringBlockFault, change: impl FnOnce()) -> bool {
        let latch = self.header.try_latch();
        if latch.is_none() && fault != StringBlockFault::NoLatch || self.header.lock.is_obsolete() {
            return false;
        }
        match fault {
            StringBlockFault::NoVersion => change(),
            _ => self.header.change(change),
        }
        true
    }

    /// Adds to a key, or inserts it with the number, in the order of the keys.
    fn add(&self, key: usize, number: usize, fault: StringBlockFault) -> bool {
        self.alter(fault, || match self.find(key) {
            Some(position) => {
                let offset = self.at(position).1;
                self.set_halves(offset, self.halves(offset)[0] + number);
            }
            None => self.insert(key, number, fault),
        })
    }

    fn insert(&self, key: usize, value: usize, fault: StringBlockFault) {
        let (count, end) = (self.header.state().count(), self.header.state().end());
        let rank = (0..count).take_while(|&i| self.at(i).0 < key).count();
        if fault != StringBlockFault::LinkedEarly {
            self.write(end, key, value);
        }
        for position in (rank..count).rev() {
            let offset = self.slots[position].load(Ordering::Relaxed);
            self.slots[position + 1].store(offset, Ordering::Release);
        }
        self.slots[rank].store(end, Ordering::Release);
        self.header.set(count + 1, end + 1);
        if fault == StringBlockFault::LinkedEarly {
            self.write(end, key, value);
        }
    }

    fn remove(&self, position: usize) {
        let state = self.header.state();
        for next in position + 1..state.count() {
            let offset = self.slots[next].load(Ordering::Relaxed);
            self.slots[next - 1].store(offset, Ordering::Release);
        }
        self.header.set(state.count() - 1, state.end());
    }
}

/// Returns a value whose halves were written together.
fn whole([low, high]: [usize; 2]) -> usize {
    assert_eq!(low, high, "a mixture was read");
    low
}

fn spawn_add(
    start: &ScenarioStart,
    block: &Arc<LoomStringBlock>,
    key: usize,
    number: usize,
    fault: StringBlockFault,
) -> thread::JoinHandle<bool> {
    let block = Arc::clone(block);
    start.spawn(move || block.add(key, number, fault))
}

// Two writers.

/// Tests two threads that add to two keys of a block: their results match its final content, and at
/// least one of them succeeds.
fn two_add(keys: [usize; 2], fault: StringBlockFault) {
    check(move || {
        let block = Arc::new(LoomStringBlock::new(&[(20, 200)]));
        let start = ScenarioStart::new();
        let other = spawn_add(&start, &block, keys[0], 1, fault);
        start.pass();
        let mine = block.add(keys[1], 2, fault);
        let other = other.join().expect("writer");
        let mut expected = vec![(20, 200)];
        for (key, done, number) in [(keys[0], other, 1), (keys[1], mine, 2)] {
            match expected.iter().position(|entry| entry.0 == key) {
                _ if !done => {}
                Some(place) => expected[place].1 += number,
                None => expected.push((key, number)),
            }
        }
        expected.sort_unstable();
        assert_eq!(block.entries(), expected, "an update was lost");
        assert!(mine || other, "both were refused");
        assert!(block.add(20, 0, StringBlockFault::None), "latched");
    });
}

#[test]
fn two_that_set_one_key_lose_nothing() {
    two_add([20, 20], StringBlockFault::None);
}

#[test]
fn two_that_insert_lose_nothing() {
    two_add([10, 30], StringBlockFault::None);
}

#[test]
fn two_that_insert_and_set_lose_nothing() {
    two_add([10, 20], StringBlockFault::None);
}

#[test]
#[should_panic(expected = "an update was lost")]
fn canary_two_without_the_latch_are_caught() {
    two_add([20, 20], StringBlockFault::NoLatch);
}

// Readers.

/// Tests a read of a key while another thread sets its value.
fn a_reader_beside_a_set(reading: LoomStringRead, fault: StringBlockFault) {
    check(move || {
        let block = Arc::new(LoomStringBlock::new(&[(20, 200)]));
        let start = ScenarioStart::new();
        let writer = spawn_add(&start, &block, 20, 1, fault);
        start.pass();
        let first = block.get(20, reading).0;
        let second = block.get(20, reading).0;
        assert!(
            matches!(
                (first, second),
                (Some(200), Some(200 | 201)) | (Some(201), Some(201))
            ),
            "{first:?}, then {second:?}"
        );
        assert!(writer.join().expect("writer"));
        assert_eq!(block.get(20, reading).0, Some(201));
    });
}

#[test]
fn a_reader_finds_a_whole_value_while_it_is_set() {
    a_reader_beside_a_set(LoomStringRead::Validated, StringBlockFault::None);
}

#[test]
#[should_panic(expected = "a mixture was read")]
fn canary_a_value_that_is_not_validated_is_caught() {
    a_reader_beside_a_set(LoomStringRead::Torn, StringBlockFault::None);
}

#[test]
#[should_panic(expected = "a mixture was read")]
fn canary_a_set_without_a_version_is_caught() {
    a_reader_beside_a_set(LoomStringRead::Validated, StringBlockFault::NoVersion);
}

/// Tests a read of a key while another thread inserts one before it, which moves it. The reader's
/// knowledge of the key is from before, from after or from in between.
fn a_reader_beside_an_insert(reading: LoomStringRead, fault: StringBlockFault) {
    check(move || {
        let block = Arc::new(LoomStringBlock::new(&[(20, 200), (30, 300)]));
        let start = ScenarioStart::new();
        let writer = spawn_add(&start, &block, 10, 100, fault);
        start.pass();
        let prepared = block.prepare(30);
        let found = block.read(30, prepared, reading).0.map(whole);
        assert_eq!(found, Some(300), "a key was missed");
        assert!(writer.join().expect("writer"));
        assert_eq!(block.get(10, reading).0, Some(100));
    });
}

#[test]
fn a_reader_finds_an_entry_while_it_moves() {
    a_reader_beside_an_insert(LoomStringRead::Validated, StringBlockFault::None);
}

#[test]
#[should_panic(expected = "a key was missed")]
fn canary_a_position_that_is_not_validated_is_caught() {
    a_reader_beside_an_insert(LoomStringRead::Torn, StringBlockFault::None);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn canary_an_entry_that_is_linked_before_it_is_written_is_caught() {
    a_reader_beside_an_insert(LoomStringRead::Validated, StringBlockFault::LinkedEarly);
}

#[test]
fn a_reader_finds_an_entry_while_one_before_it_is_removed() {
    check(|| {
        let block = Arc::new(LoomStringBlock::new(&[(10, 100), (20, 200)]));
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&block, move |block| {
            block.alter(StringBlockFault::None, || block.remove(0))
        });
        start.pass();
        let prepared = block.prepare(20);
        let found = block
            .read(20, prepared, LoomStringRead::Validated)
            .0
            .map(whole);
        assert_eq!(found, Some(200), "a key was missed");
        assert!(matches!(
            block.get(10, LoomStringRead::Validated).0,
            None | Some(100)
        ));
        assert!(writer.join().expect("writer"));
        assert_eq!(block.get(10, LoomStringRead::Validated).0, None);
    });
}

#[test]
fn a_reader_finds_a_value_that_is_set_while_its_entry_moves() {
    check_within(2, || {
        let block = Arc::new(LoomStringBlock::new(&[(20, 200)]));
        let start = ScenarioStart::new();
        let inserting = spawn_add(&start, &block, 10, 100, StringBlockFault::None);
        let setting = spawn_add(&start, &block, 20, 1, StringBlockFault::None);
        start.pass();
        let found = block.get(20, LoomStringRead::Validated).0;
        assert!(
            matches!(found, Some(200 | 201)),
            "{found:?} was never there"
        );
        inserting.join().expect("writer");
        let set = usize::from(setting.join().expect("writer"));
        assert_eq!(block.get(20, LoomStringRead::Validated).0, Some(200 + set));
    });
}

// A block that is replaced.

/// The slot of a node and the blocks that it may lead to. Only one thread replaces, because the
/// lock of the node has only one holder.
struct LoomStringSlot {
    linked: AtomicUsize,
    blocks: [LoomStringBlock; 2],
}

impl LoomStringSlot {
    fn new(entries: &[(usize, usize)]) -> Arc<LoomStringSlot> {
        Arc::new(LoomStringSlot {
            linked: AtomicUsize::new(0),
            blocks: [LoomStringBlock::new(entries), LoomStringBlock::new(&[])],
        })
    }

    /// Returns the block that a walk reaches.
    fn walk(&self) -> &LoomStringBlock {
        &self.blocks[self.linked.load(Ordering::Acquire)]
    }

    /// Replaces the block with a copy.
    fn replace(&self, fault: StringBlockFault) {
        let [old, new] = &self.blocks;
        let latch = old.header.latch(fault != StringBlockFault::NoLatch);
        new.fill(&old.entries());
        if !matches!(
            fault,
            StringBlockFault::NotRetired | StringBlockFault::RetiredLate
        ) {
            old.header.retire();
        }
        self.linked.store(1, Ordering::Release);
        if fault == StringBlockFault::RetiredLate {
            old.header.retire();
        }
        drop(latch);
    }
}

/// Tests an addition to a key, which exists or not, while its block is replaced.
fn add_beside_a_replacement(key: usize, fault: StringBlockFault) {
    check(move || {
        let node = LoomStringSlot::new(&[(20, 200)]);
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&node, move |node| {
            node.walk().add(key, 1, StringBlockFault::None)
        });
        start.pass();
        node.replace(fault);
        let added = usize::from(writer.join().expect("writer"));
        let expected = match key {
            20 => Some(200 + added),
            _ => Some(1).filter(|_| added > 0),
        };
        let found = node.walk().get(key, LoomStringRead::Validated).0;
        assert_eq!(found, expected, "an update was lost");
    });
}

#[test]
fn a_value_that_was_set_is_in_the_copy() {
    add_beside_a_replacement(20, StringBlockFault::None);
}

#[test]
fn an_entry_that_was_inserted_is_in_the_copy() {
    add_beside_a_replacement(10, StringBlockFault::None);
}

#[test]
#[should_panic(expected = "an update was lost")]
fn canary_a_replacement_without_the_latch_is_caught() {
    add_beside_a_replacement(20, StringBlockFault::NoLatch);
}

#[test]
#[should_panic(expected = "an update was lost")]
fn canary_a_replacement_that_does_not_retire_the_block_is_caught() {
    add_beside_a_replacement(20, StringBlockFault::NotRetired);
}

/// A read while the block is replaced, and its key is then changed in the copy. A walk that began
/// before may read the old block, consistently.
#[test]
fn a_reader_of_a_block_that_is_replaced_sees_the_state_before() {
    check(|| {
        let node = LoomStringSlot::new(&[(20, 200)]);
        let start = ScenarioStart::new();
        let reader = start.spawn_on(&node, move |node| {
            let block = node.walk();
            let prepared = block.prepare(20);
            let (found, _) = block.read(20, prepared, LoomStringRead::Validated);
            found.map(whole)
        });
        start.pass();
        node.replace(StringBlockFault::None);
        assert!(node.walk().add(20, 1, StringBlockFault::None));
        let found = reader.join().expect("reader");
        assert!(
            matches!(found, Some(200 | 201)),
            "{found:?} was never there"
        );
    });
}

/// Tests an addition to a key in the copy, and then a lookup in the old block, to which an earlier
/// shortcut still leads. Only a block that is not dead may be trusted.
fn a_shortcut_beside_a_replacement(fault: StringBlockFault) {
    check(move || {
        let node = LoomStringSlot::new(&[(20, 200)]);
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&node, move |node| {
            let added = usize::from(node.walk().add(20, 1, StringBlockFault::None));
            let (found, dead) = node.blocks[0].get(20, LoomStringRead::Validated);
            assert!(
                dead || found == Some(200 + added),
                "a replaced block was believed"
            );
        });
        start.pass();
        node.replace(fault);
        writer.join().expect("writer");
    });
}

#[test]
fn a_shortcut_does_not_hide_what_was_set_in_the_copy() {
    a_shortcut_beside_a_replacement(StringBlockFault::None);
}

#[test]
#[should_panic(expected = "a replaced block was believed")]
fn canary_a_block_that_is_retired_after_the_copy_is_linked_is_caught() {
    a_shortcut_beside_a_replacement(StringBlockFault::RetiredLate);
}

// A node above that is replaced by the block, its only child.

/// A node and the block below it. Keys below the node agree in their tens.
struct Above {
    lock: VersionLock,
    /// True when the block has replaced the node: other keys then belong to it, too.
    is_linked: AtomicUsize,
    block: LoomStringBlock,
}

/// Adds a key below a node through which a walk has come, while the node is replaced by the block
/// and another thread adds a key of other tens. The keys may be taken for alike only if they are.
fn add_below_a_node_that_gives_way(tells: fn(&VersionLock) -> bool) {
    check_within(2, move || {
        let above = Arc::new(Above {
            lock: VersionLock::new(),
            is_linked: AtomicUsize::new(0),
            block: LoomStringBlock::new(&[(20, 200)]),
        });
        let start = ScenarioStart::new();
        let stale = start.spawn_on(&above, move |above| {
            let block = &above.block;
            let Some(_latch) = block.header.try_latch() else {
                return;
            };
            if tells(&above.lock) {
                let alike = block.entries().iter().all(|entry| entry.0 / 10 == 2);
                assert!(alike, "different keys were taken for equal");
            }
            block
                .header
                .change(|| block.insert(21, 210, StringBlockFault::None));
        });
        let other = start.spawn_on(&above, move |above| {
            if above.is_linked.load(Ordering::Acquire) == 1 {
                above.block.add(30, 300, StringBlockFault::None);
            }
        });
        start.pass();
        let (held, _) = VersionLockGuard::lock(&above.lock).expect("in use");
        above.is_linked.store(1, Ordering::Release);
        held.unlock_obsolete();
        stale.join().expect("writer");
        other.join().expect("writer");
    });
}

#[test]
fn a_node_that_gives_way_does_not_tell_how_keys_agree() {
    add_below_a_node_that_gives_way(|lock| !lock.is_locked_or_obsolete());
}

#[test]
#[should_panic(expected = "different keys were taken for equal")]
fn canary_a_node_that_is_about_to_give_way_is_caught() {
    add_below_a_node_that_gives_way(|lock| !lock.is_obsolete());
}
