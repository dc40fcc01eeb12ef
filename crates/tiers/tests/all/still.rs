//! A test that a check of a map waits for the value that is being moved, which would be counted in
//! its new tier and not in the index.

use nearfield_core::{Batch, ByteStrings, OperationError, OrderedIndex};
use nearfield_testkit::model::Reference;
use nearfield_tiers::Tiers;
use nearfield_tiers::map::TieredIndex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The gate at which the mover waits before it puts a new record into the index.
#[derive(Debug, Default)]
struct MoverGate {
    state: Mutex<MoverGateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct MoverGateState {
    is_shut: bool,
    waits: bool,
}

impl MoverGate {
    fn change(&self, change: impl FnOnce(&mut MoverGateState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn wait_while(&self, waits: impl Fn(&MoverGateState) -> bool) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(state, |state| waits(state));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// An index that delays updates at a gate. The map makes no updates except those of moves.
#[derive(Debug)]
struct MoverGatedIndex {
    entries: Reference<ByteStrings>,
    gate: &'static MoverGate,
}

impl OrderedIndex<ByteStrings> for MoverGatedIndex {
    fn execute(&self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        self.entries.execute(batch)
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn update(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>), OperationError> {
        self.gate.change(|state| state.waits = true);
        self.gate.wait_while(|state| state.is_shut);
        self.entries.update(key, expected, value)
    }
}

/// The memory that the index reports.
static USED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_check_waits_for_the_value_that_is_on_its_way() {
    const VALUES: u32 = 100;
    let gate: &MoverGate = Box::leak(Box::default());
    let tiers = ["memory=1mb", "compressed=8mb"].map(|tier| tier.parse().expect("a tier"));
    let entries = MoverGatedIndex {
        entries: Reference::new(),
        gate,
    };
    let tiers = Tiers::open(&tiers).expect("tiers");
    let map = TieredIndex::new(tiers, entries, |_| USED.load(Ordering::Relaxed)).expect("a thread");
    for number in 0..VALUES {
        let value = number.to_le_bytes().repeat(1000);
        map.insert(&number.to_be_bytes(), &value).expect("inserted");
    }
    map.check_invariants();
    gate.change(|state| state.is_shut = true);
    // The memory tier exceeds its capacity, so values move.
    USED.store(2 << 20, Ordering::Relaxed);
    gate.wait_while(|state| !state.waits);
    let lies_there = |number: &u32| map.tier_of(&number.to_be_bytes()) == Ok(Some(1));
    let in_index = (0..VALUES).filter(lies_there).count() as u64;
    let in_tier = map.tiers()[1].values;
    assert!(
        in_tier > in_index,
        "{in_tier} values are in the tier, {in_index} in the index"
    );
    std::thread::scope(|scope| {
        let check = scope.spawn(|| map.check_invariants());
        // Gives a check that does not wait the time to fail.
        std::thread::sleep(Duration::from_millis(100));
        let waits = !check.is_finished();
        USED.store(0, Ordering::Relaxed);
        gate.change(|state| state.is_shut = false);
        check.join().expect("the check finds no value");
        assert!(waits, "the check has not waited");
    });
}
