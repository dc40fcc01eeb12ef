//! The version lock, and the protocol that the tree builds on it, in every interleaving that the
//! memory model allows, as far as three preemptions reach.
//!
//! The first half checks the lock itself. The second half models the tree: a parent whose slot
//! names a child, readers that walk from one to the other, a writer that replaces the child, and
//! memory that is reused once no reader can hold it. Each model has a canary, the same model
//! without one step, that must be caught. [`block`] has the latch of blocks of words, [`strings`]
//! that of blocks of byte strings, [`span`] the memory of byte strings.
//!
//! ```console
//! $ RUSTFLAGS="--cfg loom" cargo test -p nearfield-radix --release --test loom
//! ```
#![cfg(loom)]

mod block;
mod span;
mod strings;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::thread;
use nearfield_radix::lock::{Obsolete, TryLock, VersionLock, VersionLockGuard};

/// Runs a scenario in all interleavings with up to three preemptions, or as many as
/// `LOOM_MAX_PREEMPTIONS` sets. At most one thread of a scenario may wait at a time: two would let
/// each other go first forever, which is an interleaving, too.
fn check(scenario: impl Fn() + Sync + Send + 'static) {
    check_within(3, scenario);
}

/// Runs a scenario like [`check`], with another number of preemptions because the scenario is
/// large.
fn check_within(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(scenario);
}

/// Runs `body` on shared data in another thread.
fn spawn_on<T: 'static, R: 'static>(
    data: &Arc<T>,
    body: impl FnOnce(&T) -> R + 'static,
) -> thread::JoinHandle<R> {
    let data = Arc::clone(data);
    thread::spawn(move || body(&data))
}

/// A word that each thread of a scenario accesses first.
///
/// Of the accesses to a word, loom remembers only the last. A thread that loads a word before it
/// stores there hides from loom that another has loaded it before, so loom does not try the other
/// order. Here every two threads meet in both orders. The word orders nothing else: all steps are
/// relaxed.
struct ScenarioStart(Arc<AtomicUsize>);

impl ScenarioStart {
    fn new() -> Self {
        ScenarioStart(Arc::new(AtomicUsize::new(0)))
    }

    fn pass(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn spawn<R: 'static>(&self, body: impl FnOnce() -> R + 'static) -> thread::JoinHandle<R> {
        let start = ScenarioStart(Arc::clone(&self.0));
        thread::spawn(move || {
            start.pass();
            body()
        })
    }

    fn spawn_on<T: 'static, R: 'static>(
        &self,
        data: &Arc<T>,
        body: impl FnOnce(&T) -> R + 'static,
    ) -> thread::JoinHandle<R> {
        let data = Arc::clone(data);
        self.spawn(move || body(&data))
    }
}

/// The data that a lock guards: two fields that a writer always sets to the same number.
struct LockedFieldPair {
    lock: VersionLock,
    left: AtomicU32,
    right: AtomicU32,
}

impl LockedFieldPair {
    fn new(number: u32) -> Self {
        LockedFieldPair {
            lock: VersionLock::new(),
            left: AtomicU32::new(number),
            right: AtomicU32::new(number),
        }
    }

    fn set(&self, number: u32) {
        self.left.store(number, Ordering::Relaxed);
        self.right.store(number, Ordering::Relaxed);
    }

    fn load(&self) -> (u32, u32) {
        let left = self.left.load(Ordering::Relaxed);
        (left, self.right.load(Ordering::Relaxed))
    }

    /// Attempts once to read both fields; returns `None` if a writer intervened.
    fn try_read(&self) -> Option<(u32, u32)> {
        let version = self.lock.read();
        let fields = self.load();
        self.lock.validate(version).then_some(fields)
    }

    fn read(&self) -> u32 {
        loop {
            if let Some((left, right)) = self.try_read() {
                assert_eq!(left, right, "a torn pair was validated");
                return left;
            }
            thread::yield_now();
        }
    }
}

// The lock.

#[test]
fn readers_never_validate_a_torn_pair() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let writer = spawn_on(&node, move |node| {
            for number in 1..=2 {
                let held = VersionLockGuard::lock(&node.lock)
                    .expect("no thread unlinks the node")
                    .0;
                node.set(number);
                drop(held);
            }
        });
        for _ in 0..2 {
            if let Some((left, right)) = node.try_read() {
                assert_eq!(left, right, "a torn pair was validated");
            }
        }
        writer.join().expect("writer");
        assert_eq!(
            node.read(),
            2,
            "a reader after the writer sees its last write"
        );
    });
}

#[test]
fn a_later_read_is_never_older() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let writer = spawn_on(&node, move |node| {
            let _held = VersionLockGuard::lock(&node.lock).expect("no thread unlinks the node");
            node.set(1);
        });
        let first = node.read();
        assert!(first <= node.read());
        writer.join().expect("writer");
    });
}

#[test]
fn writers_exclude_each_other() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let add = |node: &LockedFieldPair| {
            let (left, right) = node.load();
            assert_eq!(left, right, "another writer is at work");
            node.set(left + 1);
        };
        let waiting = spawn_on(&node, move |node| {
            let _held = VersionLockGuard::lock(&node.lock).expect("no thread unlinks the node");
            add(node);
        });
        let trying = spawn_on(&node, move |node| {
            let held = VersionLockGuard::try_lock(&node.lock);
            held.map(|_held| add(node)).is_some()
        });
        let held = VersionLockGuard::try_lock(&node.lock);
        let added = held.map(|_held| add(&node)).is_some();
        waiting.join().expect("writer");
        let also_added = trying.join().expect("writer");
        let expected = 1 + u32::from(added) + u32::from(also_added);
        assert_eq!(node.load(), (expected, expected), "a write was lost");
    });
}

/// A writer that has read a node locks it at the version that it has read.
#[test]
fn a_lock_at_a_version_finds_what_was_read() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let add = |node: &LockedFieldPair| {
            let version = node.lock.read();
            let (left, right) = node.load();
            let locked = node.lock.upgrade(version);
            if locked {
                assert_eq!(left, right, "a torn pair was locked");
                assert_eq!(node.load(), (left, right), "locked after a change");
                node.set(left + 1);
                node.lock.unlock_changed();
            }
            u32::from(locked)
        };
        let other = spawn_on(&node, add);
        let added = add(&node) + add(&node);
        let expected = added + other.join().expect("writer");
        assert_eq!(node.load(), (expected, expected), "a write was lost");
    });
}

#[test]
fn an_obsolete_node_is_locked_at_no_version() {
    check(|| {
        let node = LockedFieldPair::new(0);
        let before = node.lock.read();
        node.lock.retire_alone();
        assert!(!node.lock.upgrade(before));
        assert!(!node.lock.upgrade(node.lock.now()));
        node.lock.revive();
        let version = node.lock.read();
        assert!(node.lock.upgrade(version));
        assert!(!node.lock.upgrade(node.lock.now()), "locked twice");
    });
}

#[test]
#[should_panic(expected = "a write was lost")]
fn canary_a_lock_at_any_version_is_caught() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let add = |node: &LockedFieldPair| {
            let (left, _) = node.load();
            if let Some(_held) = VersionLockGuard::try_lock(&node.lock) {
                node.set(left + 1);
                return 1;
            }
            0
        };
        let other = spawn_on(&node, add);
        let expected = add(&node) + other.join().expect("writer");
        assert_eq!(node.load(), (expected, expected), "a write was lost");
    });
}

#[test]
fn an_obsolete_node_refuses_writers() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&node, move |node| {
            match VersionLockGuard::lock(&node.lock) {
                Ok(_held) => {
                    assert_eq!(node.load(), (0, 0), "locked after it was unlinked");
                    node.set(1);
                }
                Err(Obsolete) => assert_eq!(node.read(), 7),
            }
        });
        start.pass();
        let held = VersionLockGuard::lock(&node.lock)
            .expect("only this thread unlinks")
            .0;
        node.set(7);
        held.unlock_obsolete();
        writer.join().expect("writer");
        assert_eq!(node.lock.try_lock(), TryLock::Obsolete);
        assert_eq!(node.read(), 7, "a writer was let in");
        node.lock.revive();
        assert_eq!(node.lock.try_lock(), TryLock::Locked);
    });
}

#[test]
fn an_obsolete_node_shows_its_last_state() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let start = ScenarioStart::new();
        let unlinker = start.spawn_on(&node, move |node| {
            let held = VersionLockGuard::lock(&node.lock)
                .expect("only this thread unlinks")
                .0;
            node.set(7);
            held.unlock_obsolete();
        });
        start.pass();
        let first = node.read();
        assert!(first == 0 || first == 7);
        unlinker.join().expect("unlinker");
        assert_eq!(node.try_read(), Some((7, 7)), "a reader need not restart");
    });
}

/// An attempt to lock that failed once created a `VersionLockGuard` nevertheless, and dropping it
/// unlocked the lock of another thread.
#[test]
fn an_attempt_that_fails_leaves_the_lock_alone() {
    check(|| {
        let lock = VersionLock::new();
        let held = VersionLockGuard::try_lock(&lock).expect("free");
        assert!(VersionLockGuard::try_lock(&lock).is_none());
        assert_eq!(
            lock.try_lock(),
            TryLock::Busy,
            "unlocked by a thread that failed to lock it"
        );
        held.unlock_obsolete();
        assert!(VersionLockGuard::try_lock(&lock).is_none());
        assert_eq!(lock.try_lock(), TryLock::Obsolete);
    });
}

#[test]
fn a_held_lock_that_is_dropped_counts_as_a_change() {
    check(|| {
        let lock = VersionLock::new();
        let before = lock.read();
        drop(VersionLockGuard::try_lock(&lock).expect("free"));
        assert!(!lock.validate(before));

        let before = lock.read();
        let held = VersionLockGuard::try_lock(&lock).expect("free");
        assert!(!lock.validate(before), "a reader sees the lock");
        assert!(VersionLockGuard::try_lock(&lock).is_none());
        held.unlock_unchanged();
        assert!(
            lock.validate(before),
            "the entries that readers combine are unchanged"
        );

        lock.revive();
        assert!(
            !lock.validate(before),
            "a node used again has another version"
        );
    });
}

#[test]
#[should_panic(expected = "a torn pair was validated")]
fn canary_a_write_after_the_unlock_is_caught() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let writer = spawn_on(&node, move |node| {
            drop(VersionLockGuard::lock(&node.lock));
            node.set(1);
        });
        node.read();
        writer.join().expect("writer");
    });
}

#[test]
#[should_panic(expected = "a torn pair was read")]
fn canary_a_reader_that_does_not_validate_is_caught() {
    check(|| {
        let node = Arc::new(LockedFieldPair::new(0));
        let writer = spawn_on(&node, move |node| {
            let _held = VersionLockGuard::lock(&node.lock);
            node.set(1);
        });
        let _ = node.lock.read();
        let (left, right) = node.load();
        assert_eq!(left, right, "a torn pair was read");
        writer.join().expect("writer");
    });
}

// Data that another lock protects from other writers: a block below a node.

/// Sets both fields of a block like a writer that holds the lock of the node above.
fn set_below(above: &VersionLock, block: &LockedFieldPair) {
    let held = VersionLockGuard::lock(above)
        .expect("no thread unlinks the parent")
        .0;
    let (left, right) = block.load();
    assert_eq!(left, right, "another writer is at work");
    block.lock.lock_alone();
    block.set(left + 1);
    block.lock.unlock_changed();
    held.unlock_unchanged();
}

#[test]
fn readers_of_a_block_never_validate_a_torn_pair() {
    check(|| {
        let above = Arc::new(VersionLock::new());
        let block = Arc::new(LockedFieldPair::new(0));
        let start = ScenarioStart::new();
        let writer = {
            let (above, block) = (Arc::clone(&above), Arc::clone(&block));
            start.spawn(move || set_below(&above, &block))
        };
        start.pass();
        if let Some((left, right)) = block.try_read() {
            assert_eq!(left, right, "a torn pair was validated");
        }
        set_below(&above, &block);
        writer.join().expect("writer");
        assert_eq!(block.read(), 2, "a write was lost");
    });
}

#[test]
fn who_validates_a_live_version_has_read_before_the_block_was_replaced() {
    check(|| {
        let block = Arc::new(LockedFieldPair::new(0));
        let replaced = Arc::new(AtomicUsize::new(0));
        let start = ScenarioStart::new();
        let writer = {
            let (block, replaced) = (Arc::clone(&block), Arc::clone(&replaced));
            start.spawn(move || {
                block.lock.retire_alone();
                replaced.store(1, Ordering::Release);
            })
        };
        start.pass();
        let late = replaced.load(Ordering::Acquire) == 1;
        let version = block.lock.read();
        let (left, right) = block.load();
        if block.lock.validate(version) {
            assert_eq!(left, right, "a torn pair was validated");
            assert!(
                !late || version.is_obsolete(),
                "a replaced block seems live"
            );
        }
        writer.join().expect("writer");
    });
}

#[test]
#[should_panic(expected = "a torn pair was validated")]
fn canary_a_block_that_is_changed_without_a_word_to_readers_is_caught() {
    check(|| {
        let block = Arc::new(LockedFieldPair::new(0));
        let writer = spawn_on(&block, move |block| block.set(1));
        block.read();
        writer.join().expect("writer");
    });
}

// The tree: a parent with one slot, and places for two children.

struct LoomSlotTree {
    lock: VersionLock,
    slot: AtomicUsize,
    nodes: [LockedFieldPair; 2],
    /// Number of pinned readers.
    pins: AtomicUsize,
}

/// The missing step of a faulty tree.
#[derive(Clone, Copy, PartialEq)]
enum SlotTreeFault {
    None,
    /// The writer of a child does not check if the child was unlinked.
    IgnoresObsolete,
    /// Memory is reused while readers may hold it.
    ReusesAtOnce,
}

impl LoomSlotTree {
    fn new() -> Self {
        LoomSlotTree {
            lock: VersionLock::new(),
            slot: AtomicUsize::new(0),
            nodes: [LockedFieldPair::new(1), LockedFieldPair::new(0)],
            pins: AtomicUsize::new(0),
        }
    }

    fn child(&self) -> usize {
        loop {
            let version = self.lock.read();
            let child = self.slot.load(Ordering::Acquire);
            if self.lock.validate(version) {
                return child;
            }
            thread::yield_now();
        }
    }

    /// Walks to the child and reads it, as lookups do, without returning to the parent.
    fn read(&self) -> u32 {
        self.nodes[self.child()].read()
    }

    /// Adds to the child in place, as inserts into a node do.
    fn add(&self, number: u32, fault: SlotTreeFault) {
        loop {
            let child = &self.nodes[self.child()];
            match VersionLockGuard::lock(&child.lock) {
                Ok(_held) => return child.set(child.load().0 + number),
                Err(Obsolete) if fault == SlotTreeFault::IgnoresObsolete => {
                    return child.set(child.load().0 + number);
                }
                Err(Obsolete) => thread::yield_now(),
            }
        }
    }

    /// Replaces the child with a copy in the other place, as growing does: the child's lock is
    /// taken first, so the parent's is only tried. Returns the place of the old child.
    fn replace(&self) -> usize {
        loop {
            let place = self.child();
            let old = &self.nodes[place];
            let held = VersionLockGuard::lock(&old.lock)
                .expect("only this thread replaces")
                .0;
            let Some(held_above) = VersionLockGuard::try_lock(&self.lock) else {
                held.unlock_unchanged();
                thread::yield_now();
                continue;
            };
            let new = 1 - place;
            self.nodes[new].lock.revive();
            self.nodes[new].set(old.load().0);
            self.slot.store(new, Ordering::Release);
            drop(held_above);
            held.unlock_obsolete();
            return place;
        }
    }

    /// Waits until no reader can hold nodes that were unlinked before the call. This is
    /// crossbeam-epoch's promise: a guard that was pinned before the call keeps it from returning,
    /// and one that is pinned after it sees all writes before it.
    fn wait_for_readers(&self) {
        while self.pins.fetch_add(0, Ordering::AcqRel) > 0 {
            thread::yield_now();
        }
    }

    fn pinned<R>(&self, body: impl FnOnce(&Self) -> R) -> R {
        self.pins.fetch_add(1, Ordering::AcqRel);
        let result = body(self);
        self.pins.fetch_sub(1, Ordering::Release);
        result
    }
}

#[test]
fn a_walk_sees_the_child_before_or_after_it_is_replaced() {
    check(|| {
        let tree = Arc::new(LoomSlotTree::new());
        let start = ScenarioStart::new();
        let writer = start.spawn_on(&tree, move |tree| {
            tree.replace();
            tree.add(1, SlotTreeFault::None);
        });
        start.pass();
        let first = tree.read();
        let second = tree.read();
        assert!(first == 1 || first == 2, "{first} was never there");
        assert!(first <= second && second <= 2, "{second} after {first}");
        writer.join().expect("writer");
        assert_eq!(tree.read(), 2);
    });
}

fn writes_survive_a_replacement(fault: SlotTreeFault) {
    check(move || {
        let tree = Arc::new(LoomSlotTree::new());
        let writer = spawn_on(&tree, move |tree| tree.add(10, fault));
        tree.replace();
        writer.join().expect("writer");
        assert_eq!(tree.read(), 11, "a write was lost");
    });
}

#[test]
fn no_write_is_lost_to_a_replacement() {
    writes_survive_a_replacement(SlotTreeFault::None);
}

#[test]
#[should_panic(expected = "a write was lost")]
fn canary_a_write_to_an_obsolete_node_is_caught() {
    writes_survive_a_replacement(SlotTreeFault::IgnoresObsolete);
}

/// Tests that the place of the old child holds another node afterwards, with other fields. A reader
/// that came there by the old slot must be gone by then: the new version would not reveal the
/// change.
fn memory_is_used_again(fault: SlotTreeFault) {
    check(move || {
        let tree = Arc::new(LoomSlotTree::new());
        let reader = spawn_on(&tree, move |tree| {
            let number = tree.pinned(LoomSlotTree::read);
            assert_eq!(number, 1, "a node was read that is not in the tree");
        });
        let retired = tree.replace();
        if fault != SlotTreeFault::ReusesAtOnce {
            tree.wait_for_readers();
        }
        let elsewhere = &tree.nodes[retired];
        elsewhere.lock.revive();
        elsewhere.set(99);
        reader.join().expect("reader");
    });
}

#[test]
fn memory_is_used_again_when_no_reader_is_left() {
    memory_is_used_again(SlotTreeFault::None);
}

#[test]
#[should_panic(expected = "a node was read that is not in the tree")]
fn canary_memory_that_is_used_again_at_once_is_caught() {
    memory_is_used_again(SlotTreeFault::ReusesAtOnce);
}
