//! Tests of a value that moves while it is read, changed in its slot, overwritten or deleted, in
//! every interleaving that the memory model allows with at most three preemptions.
//!
//! The protocol is that of [`nearfield_tiers::claim`]. Here it runs over a small model of a store:
//! one key, two places in tiers, one slot, a phase and a lock for the key. Each scenario has a
//! canary, the same with a step left out, which must be caught.
//!
//! ```console
//! $ RUSTFLAGS="--cfg loom" cargo test -p nearfield-tiers --release --test loom
//! ```
#![cfg(loom)]

mod store;

use loom::sync::Arc;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::{Flaw, LoomClaimRecord, LoomClaimStore};

const FIRST: usize = 7;
const SECOND: usize = 8;

/// Runs a scenario in all interleavings with up to three preemptions, or up to
/// `LOOM_MAX_PREEMPTIONS`.
fn check(scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(scenario);
}

/// Runs a scenario that must fail.
fn check_fails(scenario: impl Fn() + Sync + Send + 'static) {
    let found = catch_unwind(AssertUnwindSafe(|| check(scenario)));
    assert!(found.is_err(), "the flaw was not noticed");
}

fn spawn(
    store: &Arc<LoomClaimStore>,
    body: impl FnOnce(&LoomClaimStore) + 'static,
) -> thread::JoinHandle<()> {
    let store = Arc::clone(store);
    thread::spawn(move || body(&store))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a thread of the scenario"));
}

/// Reads the value while it moves and retired memory is freed and reused. The reader must see it
/// whole, wherever it is.
fn read_while_it_moves(from: LoomClaimRecord, flaw: Flaw) {
    let store = Arc::new(LoomClaimStore::new(from, FIRST, flaw));
    let mover = spawn(&store, LoomClaimStore::move_value);
    let freer = spawn(&store, LoomClaimStore::free);
    assert_eq!(store.read(), Some(FIRST));
    join([mover, freer]);
    store.free();
    assert_eq!(store.read(), Some(FIRST));
    store.check_accounts();
}

#[test]
fn a_reader_meets_the_value_whole_while_it_moves() {
    for from in [LoomClaimRecord::PLACE, LoomClaimRecord::SLOT] {
        check(move || read_while_it_moves(from, Flaw::None));
    }
}

#[test]
fn a_value_that_is_published_before_it_is_whole_is_noticed() {
    check_fails(|| read_while_it_moves(LoomClaimRecord::PLACE, Flaw::PublishedEarly));
}

#[test]
fn a_place_that_is_freed_while_readers_may_be_at_it_is_noticed() {
    check_fails(|| read_while_it_moves(LoomClaimRecord::PLACE, Flaw::FreedAtOnce));
}

/// Overwrites the key while its value moves. The place of the old value may be reused for a new
/// value of the key.
fn overwritten_while_it_moves(flaw: Flaw) {
    let store = Arc::new(LoomClaimStore::new(LoomClaimRecord::PLACE, FIRST, flaw));
    let mover = spawn(&store, LoomClaimStore::move_value);
    store.overwrite(SECOND);
    join([mover]);
    store.free();
    assert_eq!(store.read(), Some(SECOND));
    store.check_accounts();
}

#[test]
fn a_move_does_not_undo_an_overwrite() {
    check(|| overwritten_while_it_moves(Flaw::None));
}

#[test]
fn a_record_that_is_not_compared_is_noticed() {
    check_fails(|| overwritten_while_it_moves(Flaw::NotCompared));
}

#[test]
fn a_place_that_is_not_held_is_noticed() {
    check_fails(|| overwritten_while_it_moves(Flaw::NotHeld));
}

/// Changes the object in its slot while it moves. The record stays the same.
fn changed_while_it_moves(flaw: Flaw) {
    let store = Arc::new(LoomClaimStore::new(LoomClaimRecord::SLOT, FIRST, flaw));
    let mover = spawn(&store, LoomClaimStore::move_value);
    store.change(SECOND);
    join([mover]);
    store.free();
    assert_eq!(store.read(), Some(SECOND));
    store.check_accounts();
}

#[test]
fn a_move_does_not_undo_a_change_of_an_object() {
    check(|| changed_while_it_moves(Flaw::None));
}

#[test]
fn a_slot_that_is_not_watched_is_noticed() {
    check_fails(|| changed_while_it_moves(Flaw::NotWatched));
}

/// Two movers carry the value at once, and the object is changed between.
#[test]
fn a_watch_does_not_stand_for_an_earlier_one() {
    check(|| {
        let store = Arc::new(LoomClaimStore::new(
            LoomClaimRecord::SLOT,
            FIRST,
            Flaw::None,
        ));
        let mover = spawn(&store, LoomClaimStore::move_value);
        let other = spawn(&store, |store| drop(store.claim()));
        store.change(SECOND);
        join([mover, other]);
        store.free();
        assert_eq!(store.read(), Some(SECOND));
        store.check_accounts();
    });
}

/// Deletes the key while its value moves.
fn deleted_while_it_moves(from: LoomClaimRecord, flaw: Flaw) {
    let store = Arc::new(LoomClaimStore::new(from, FIRST, flaw));
    let mover = spawn(&store, LoomClaimStore::move_value);
    let reader = spawn(&store, |store| {
        assert!(matches!(store.read(), None | Some(FIRST)));
    });
    store.delete();
    join([mover, reader]);
    store.free();
    assert_eq!(store.read(), None);
    store.check_accounts();
}

#[test]
fn a_move_does_not_undo_a_deletion_and_no_place_is_lost() {
    for from in [LoomClaimRecord::PLACE, LoomClaimRecord::SLOT] {
        check(move || deleted_while_it_moves(from, Flaw::None));
    }
}

#[test]
fn a_place_that_is_lost_when_a_move_is_abandoned_is_noticed() {
    check_fails(|| deleted_while_it_moves(LoomClaimRecord::PLACE, Flaw::Lost));
}
