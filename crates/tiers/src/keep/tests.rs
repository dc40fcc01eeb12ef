//! Waiting for room while another thread has the mover.

use super::*;
use crate::cold::Cold;
use crate::place::Place;
use crate::specification::Specification;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A store that takes more memory than there is, or not, in turns that are given. The last one
/// stays.
#[derive(Debug)]
struct Turns {
    cold: Cold,
    warmth: Warmth,
    is_over: &'static [bool],
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Never;

impl Moving for Never {
    fn value(&self) -> &[u8] {
        unreachable!("nothing moves")
    }

    fn from(&self) -> usize {
        unreachable!("nothing moves")
    }
}

const MEMORY_BYTES: u64 = 1 << 20;

impl Values for Turns {
    type Hand = ();
    type Moving = Never;

    fn cold(&self) -> &Cold {
        &self.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.warmth
    }

    fn hash(&self, _: &Named) -> u64 {
        0
    }

    fn size(&self) -> Size {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let is_over = self.is_over[turn.min(self.is_over.len() - 1)];
        Size {
            bytes: MEMORY_BYTES + u64::from(is_over),
            keys: 0,
        }
    }

    fn uses(&self) -> u64 {
        0
    }

    fn walk(&self, _: &mut (), _: usize, _: &mut Vec<Met>) -> bool {
        true
    }

    fn is_pinned(&self, _: &Named) -> bool {
        false
    }

    fn begin(&self, keys: &[&Named]) -> Vec<Option<Never>> {
        keys.iter().map(|_| None).collect()
    }

    fn publish(&self, _: Never, _: Option<Place>) -> bool {
        false
    }
}

/// What `relieve` answers while another thread has the mover.
fn relieve_while_held(is_over: &'static [bool]) -> bool {
    let tiers = ["memory=1M", "compressed=1M"].map(|tier| tier.parse::<Specification>());
    let tiers = Arc::new(Tiers::open(&tiers.map(Result::unwrap)).unwrap());
    let keeper = Keeper::<()>::new(Some(&tiers));
    let values = Turns {
        cold: Cold::new(Some(tiers)),
        warmth: Warmth::default(),
        is_over,
        turn: AtomicUsize::new(0),
    };
    let _still = keeper.still();
    keeper.relieve(&values)
}

#[test]
fn who_waits_goes_on_as_soon_as_there_is_room() {
    assert!(relieve_while_held(&[false]));
    assert!(relieve_while_held(&[true, false]));
    // Another thread takes the room first.
    assert!(relieve_while_held(&[true, false, true, false]));
    assert!(relieve_while_held(&[
        true, true, true, false, true, true, false
    ]));
}

#[test]
fn who_waits_for_a_mover_that_does_not_come_back_is_refused() {
    assert!(!relieve_while_held(&[true]));
}
