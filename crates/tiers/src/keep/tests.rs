//! Tests of threads that wait for room while another thread has the mover.

use super::*;
use crate::cold::ColdTiers;
use crate::place::ColdPlace;
use crate::policy::{AdmSettings, LfuSettings};
use crate::specification::Specification;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A store that uses more memory than its capacity or not, as a given list says turn by turn. The
/// last turn stays.
#[derive(Debug)]
struct ScriptedUsageStore {
    cold: ColdTiers,
    warmth: Warmth,
    is_over: &'static [bool],
    turn: AtomicUsize,
    /// The function called each time that the memory is counted.
    counted: fn(&TierKeeper<()>),
    keeper: TierKeeper<()>,
}

/// Patience for a step in some tests.
const SOON: Duration = Duration::from_millis(30);

#[derive(Debug)]
struct Never;

impl MovingValue for Never {
    fn value(&self) -> &[u8] {
        unreachable!("no value moves")
    }

    fn from(&self) -> usize {
        unreachable!("no value moves")
    }
}

const MEMORY_BYTES: u64 = 1 << 20;

impl MovableValues for ScriptedUsageStore {
    type Hand = ();
    type Moving = Never;

    fn cold(&self) -> &ColdTiers {
        &self.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.warmth
    }

    fn hash(&self, _: &ValueName) -> u64 {
        0
    }

    fn size(&self) -> StoreMemorySize {
        (self.counted)(&self.keeper);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let is_over = self.is_over[turn.min(self.is_over.len() - 1)];
        StoreMemorySize {
            bytes: MEMORY_BYTES + u64::from(is_over),
            keys: 0,
        }
    }

    fn frees(&self) -> bool {
        false
    }

    fn uses(&self) -> u64 {
        0
    }

    fn walk(&self, _: &mut (), _: usize, _: &mut Vec<VisitedKey>) -> bool {
        true
    }

    fn is_pinned(&self, _: &ValueName) -> bool {
        false
    }

    fn begin(&self, keys: &[&ValueName]) -> Vec<Option<Never>> {
        keys.iter().map(|_| None).collect()
    }

    fn publish(&self, _: Never, _: Option<ColdPlace>) -> bool {
        false
    }
}

/// Returns the result of `relieve` while another thread has the mover; calls `counted` each time
/// that the memory is counted.
fn relieve_while_held(
    is_over: &'static [bool],
    patience: Duration,
    counted: fn(&TierKeeper<()>),
) -> bool {
    let tiers = ["memory=1mb", "compressed=1mb"].map(|tier| tier.parse::<Specification>());
    let tiers = Arc::new(Tiers::open(&tiers.map(Result::unwrap)).unwrap());
    let mut keeper = TierKeeper::<()>::new(Some(&tiers));
    keeper.patience = patience;
    let values = ScriptedUsageStore {
        cold: ColdTiers::new(Some(tiers)),
        warmth: Warmth::default(),
        is_over,
        turn: AtomicUsize::new(0),
        counted,
        keeper,
    };
    let _still = values.keeper.pause();
    values.keeper.relieve(&values)
}

#[test]
fn who_waits_goes_on_as_soon_as_there_is_room() {
    let relieve = |is_over| relieve_while_held(is_over, PATIENCE, |_| {});
    assert!(relieve(&[false]));
    assert!(relieve(&[true, false]));
    // Another thread takes the room first.
    assert!(relieve(&[true, false, true, false]));
    assert!(relieve(&[true, true, true, false, true, true, false]));
}

#[test]
fn who_waits_for_a_mover_that_does_not_come_back_is_refused() {
    assert!(!relieve_while_held(&[true], SOON, |_| {}));
}

/// The mover of a busy machine makes no room for much longer than the patience of those that wait.
#[test]
fn a_mover_that_is_slow_but_goes_on_is_waited_for() {
    let slow = |keeper: &TierKeeper<()>| {
        std::thread::sleep(SOON / 2);
        keeper.step();
    };
    const LOOKS: usize = 20;
    const IS_OVER: &[bool] = &{
        let mut is_over = [true; LOOKS];
        is_over[LOOKS - 1] = false;
        is_over
    };
    assert!(relieve_while_held(IS_OVER, SOON, slow));
}

const VALUE_BYTES: usize = 1000;

/// A store of values that leave the memory in order. Their memory counts as used until no reader
/// can use it.
#[derive(Debug)]
struct DelayedFreeStore {
    cold: ColdTiers,
    warmth: Warmth,
    values: u64,
    gone: AtomicU64,
    used_bytes: Arc<AtomicU64>,
    rounds: AtomicU64,
    /// Number of keys that began to move.
    begun: AtomicUsize,
    keeper: TierKeeper<()>,
    /// Set if another thread begins to wait while moves begin.
    is_awaited: bool,
}

#[derive(Debug)]
struct DepartingValue([u8; VALUE_BYTES]);

impl MovingValue for DepartingValue {
    fn value(&self) -> &[u8] {
        &self.0
    }

    fn from(&self) -> usize {
        0
    }
}

impl DelayedFreeStore {
    fn new(values: u64) -> DelayedFreeStore {
        let tiers = ["memory=1mb", "compressed=1mb"].map(|tier| tier.parse::<Specification>());
        let tiers = Arc::new(Tiers::open(&tiers.map(Result::unwrap)).unwrap());
        DelayedFreeStore {
            keeper: TierKeeper::new(Some(&tiers)),
            cold: ColdTiers::new(Some(tiers)),
            warmth: Warmth::default(),
            values,
            gone: AtomicU64::new(0),
            used_bytes: Arc::new(AtomicU64::new(values * VALUE_BYTES as u64)),
            rounds: AtomicU64::new(0),
            begun: AtomicUsize::new(0),
            is_awaited: false,
        }
    }
}

impl MovableValues for DelayedFreeStore {
    type Hand = ();
    type Moving = DepartingValue;

    fn cold(&self) -> &ColdTiers {
        &self.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.warmth
    }

    fn hash(&self, named: &ValueName) -> u64 {
        (named.node + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn size(&self) -> StoreMemorySize {
        StoreMemorySize {
            bytes: self.used_bytes.load(Ordering::Relaxed),
            keys: self.values as usize,
        }
    }

    fn frees(&self) -> bool {
        false
    }

    fn uses(&self) -> u64 {
        0
    }

    fn walk(&self, _: &mut (), count: usize, met: &mut Vec<VisitedKey>) -> bool {
        let gone = self.gone.load(Ordering::Relaxed);
        met.extend((gone..self.values).take(count).map(|node| VisitedKey {
            key: ValueName {
                node,
                ..ValueName::default()
            },
            at: ValuePosition::Memory(VALUE_BYTES as u64),
        }));
        self.rounds.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn is_pinned(&self, _: &ValueName) -> bool {
        self.is_awaited
    }

    fn begin(&self, keys: &[&ValueName]) -> Vec<Option<DepartingValue>> {
        self.begun.fetch_add(keys.len(), Ordering::Relaxed);
        if self.is_awaited {
            self.keeper.waiting.store(1, Ordering::Relaxed);
            return keys.iter().map(|_| None).collect();
        }
        keys.iter()
            .map(|_| Some(DepartingValue([7; VALUE_BYTES])))
            .collect()
    }

    fn publish(&self, _: DepartingValue, _: Option<ColdPlace>) -> bool {
        self.gone.fetch_add(1, Ordering::Relaxed);
        let used_bytes = Arc::clone(&self.used_bytes);
        let guard = crossbeam_epoch::pin();
        guard.defer(move || used_bytes.fetch_sub(VALUE_BYTES as u64, Ordering::Relaxed));
        guard.flush();
        true
    }
}

#[test]
fn memory_that_a_reader_holds_up_is_waited_for() {
    let values = DelayedFreeStore::new(1200);
    let is_over = AtomicBool::new(false);
    let (pinned, is_pinned) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let reader = crossbeam_epoch::pin();
            pinned.send(()).unwrap();
            // All have left, and nothing was freed for many rounds.
            let mut until = u64::MAX;
            while values.rounds.load(Ordering::Relaxed) < until && !is_over.load(Ordering::Relaxed)
            {
                if until == u64::MAX && values.gone.load(Ordering::Relaxed) == values.values {
                    until = values.rounds.load(Ordering::Relaxed) + 10;
                }
                std::thread::yield_now();
            }
            drop(reader);
        });
        is_pinned.recv().unwrap();
        let has_room = values.keeper.relieve(&values);
        is_over.store(true, Ordering::Relaxed);
        assert!(has_room, "{values:?}");
    });
}

#[test]
fn who_brings_values_in_gives_way_and_goes_on_later() {
    const USES: usize = 1000;
    let mut values = DelayedFreeStore::new(0);
    values.is_awaited = true;
    for number in 0..USES as u64 {
        values.cold.note_use(0, b"key", ColdPlace::new(1, number));
    }
    let tiers = values.cold.tiers().unwrap();
    let mut still = values.keeper.pause();
    let mover = still.mover.as_mut().unwrap();
    let mut turns = 0;
    while values.begun.load(Ordering::Relaxed) < USES {
        let before = values.begun.load(Ordering::Relaxed);
        mover.bring_in(&values, tiers, &values.keeper);
        let begun = values.begun.load(Ordering::Relaxed) - before;
        assert!((1..=256).contains(&begun), "{begun} at once");
        turns += 1;
    }
    assert_eq!((turns, values.begun.load(Ordering::Relaxed)), (4, USES));
}

/// A store with every third value in memory at first, and the others in compressed memory.
#[derive(Debug)]
struct PartlyColdStore {
    cold: ColdTiers,
    warmth: Warmth,
    /// The place of each value that is not in memory.
    places: Mutex<Vec<Option<ColdPlace>>>,
    /// Number of values that the walk has visited.
    visits: AtomicU64,
    /// Set while no move can begin.
    is_busy: AtomicBool,
    keeper: TierKeeper<usize>,
}

#[derive(Debug)]
struct NumberedValue {
    number: usize,
    from: usize,
    bytes: [u8; VALUE_BYTES],
}

impl MovingValue for NumberedValue {
    fn value(&self) -> &[u8] {
        &self.bytes
    }

    fn from(&self) -> usize {
        self.from
    }
}

impl PartlyColdStore {
    fn new(values: usize, choice: PolicyChoice) -> PartlyColdStore {
        let tiers = ["memory=1mb", "compressed=16mb"].map(|tier| tier.parse::<Specification>());
        let tiers = Arc::new(Tiers::open(&tiers.map(Result::unwrap)).unwrap());
        let keeper = TierKeeper::with_policy(Some(&tiers), choice);
        let cold = ColdTiers::new(Some(tiers));
        let mut places = Vec::new();
        while places.len() < values {
            // Put in haste, so that the walk puts them again when there is time.
            let block = cold.put_at_pace(1, &[&[7; VALUE_BYTES][..]; 4], true);
            let block = block.unwrap();
            for place in block {
                if places.len() % 3 == 0 {
                    places.push(None);
                }
                places.push(Some(place));
            }
        }
        PartlyColdStore {
            cold,
            warmth: Warmth::default(),
            places: Mutex::new(places),
            visits: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
            keeper,
        }
    }

    fn in_memory(&self) -> usize {
        let places = self.places.lock();
        places.iter().filter(|place| place.is_none()).count()
    }

    fn compressed_bytes(&self) -> u64 {
        let usage = self.cold.tiers().and_then(|tiers| tiers.usage(1));
        usage.unwrap().used_bytes
    }
}

impl MovableValues for PartlyColdStore {
    type Hand = usize;
    type Moving = NumberedValue;

    fn cold(&self) -> &ColdTiers {
        &self.cold
    }

    fn warmth(&self) -> &Warmth {
        &self.warmth
    }

    fn hash(&self, named: &ValueName) -> u64 {
        (named.node + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn size(&self) -> StoreMemorySize {
        StoreMemorySize {
            bytes: (self.in_memory() * VALUE_BYTES) as u64,
            keys: self.places.lock().len(),
        }
    }

    fn frees(&self) -> bool {
        false
    }

    fn uses(&self) -> u64 {
        0
    }

    fn walk(&self, hand: &mut usize, count: usize, met: &mut Vec<VisitedKey>) -> bool {
        let places = self.places.lock();
        let end = places.len().min(*hand + count);
        let visit = |number: usize| VisitedKey {
            key: ValueName {
                node: number as u64,
                ..ValueName::default()
            },
            at: match places[number] {
                Some(place) => ValuePosition::Place(place),
                None => ValuePosition::Memory(VALUE_BYTES as u64),
            },
        };
        met.extend((*hand..end).map(visit));
        let visited = (end - *hand) as u64;
        self.visits.fetch_add(visited, Ordering::Relaxed);
        let is_end = end == places.len();
        *hand = if is_end { 0 } else { end };
        is_end
    }

    fn is_pinned(&self, _: &ValueName) -> bool {
        false
    }

    fn begin(&self, keys: &[&ValueName]) -> Vec<Option<NumberedValue>> {
        let places = self.places.lock();
        let begin = |named: &&ValueName| {
            if self.is_busy.load(Ordering::Relaxed) {
                return None;
            }
            let number = named.node as usize;
            Some(NumberedValue {
                number,
                from: places[number].map_or(0, ColdPlace::tier),
                bytes: [7; VALUE_BYTES],
            })
        };
        keys.iter().map(begin).collect()
    }

    fn publish(&self, moving: NumberedValue, place: Option<ColdPlace>) -> bool {
        self.places.lock()[moving.number] = place;
        true
    }
}

/// The memory exceeds its capacity by about two values. A search for the coldest hundredth would
/// visit about 70 keys for each value.
#[test]
fn room_is_made_after_few_visits_and_in_whole_blocks() {
    let values = PartlyColdStore::new(3150, PolicyChoice::Adaptive);
    let (before, bytes_before) = (values.in_memory(), values.compressed_bytes());
    assert!(before * VALUE_BYTES > MEMORY_BYTES as usize, "{before}");
    assert!(values.keeper.relieve(&values));
    let moved = (before - values.in_memory()) as u64;
    let visits = values.visits.load(Ordering::Relaxed);
    assert!(moved >= 4 && visits <= 30 * moved, "{visits} for {moved}");
    // A value alone in its block takes more than twice as much.
    let bytes = values.compressed_bytes() - bytes_before;
    assert!(bytes <= 30 * moved, "{bytes} bytes for {moved} values");
    // The memory has room for a few more values, so the next one waits for nothing.
    let spare = MEMORY_BYTES / SPARE_PART;
    let used = (values.in_memory() * VALUE_BYTES) as u64;
    assert!(used + spare <= MEMORY_BYTES, "{used}");
    values.visits.store(0, Ordering::Relaxed);
    assert!(values.keeper.relieve(&values));
    assert_eq!(values.visits.load(Ordering::Relaxed), 0);
}

/// Lets clients use nine cold values of a store with ADM's policy, and lets the walk make ten
/// rounds before the last use, for which they should come into memory. ADM's policy forgets a value
/// that the walk misses twice, and its counter would begin again.
fn use_cold_values_around_rounds(values: usize, is_urgent: bool) {
    let settings = AdmSettings {
        lfu: LfuSettings {
            log_factor: 0,
            decay_minutes: 0,
        },
        ..AdmSettings::default()
    };
    let interval = Duration::from_secs(1000);
    let rounds = 10 * values as u64;
    let used: Vec<usize> = (1..values).step_by(values / 27 * 3).take(9).collect();
    let values = PartlyColdStore::new(values, PolicyChoice::Adm { settings, interval });
    let tiers = values.cold.tiers().unwrap();
    let use_each = |mover: &mut Mover<usize>| {
        for &number in &used {
            let place = values.places.lock()[number].unwrap();
            let cold = &values.cold;
            cold.note_use_of_node(0, b"", number as u64, place);
        }
        mover.bring_in(&values, tiers, &values.keeper);
    };
    let mut still = values.keeper.pause();
    let mover = still.mover.as_mut().unwrap();
    // The counter begins at 5, and each use raises it. A value moves once it is above 9.
    for _ in 0..4 {
        use_each(mover);
    }
    // Without haste, only moves that put values again are wanted. They never begin.
    values.is_busy.store(!is_urgent, Ordering::Relaxed);
    while values.visits.load(Ordering::Relaxed) < rounds {
        mover.slice(&values, tiers, &values.keeper, is_urgent);
    }
    values.is_busy.store(false, Ordering::Relaxed);
    let before = values.in_memory();
    use_each(mover);
    assert_eq!(values.in_memory(), before + used.len());
}

#[test]
fn in_haste_the_walk_visits_each_value_for_a_policy_that_counts_by_itself() {
    use_cold_values_around_rounds(3150, true);
}

#[test]
fn values_to_put_again_are_visited_for_a_policy_that_counts_by_itself() {
    use_cold_values_around_rounds(3000, false);
}
