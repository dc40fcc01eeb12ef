//! Bad input and too little memory: a refused operation gets its reason and changes nothing, and
//! the index continues.

use nearfield_core::{
    Batch, ByteStrings, EntryForm, MAX_KEY_BYTES, OperationError, OperationOutcome, OrderedIndex,
    Words,
};
use nearfield_radix::{EngineOptions, RadixForm, RadixIndex};
use std::collections::BTreeMap;

const MIB: usize = 1 << 20;

/// Lets epochs pass until `done` returns true, so that retired memory can be reused. Other tests of
/// the process may be pinned for a while.
fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    // Far longer than it ever takes, so that a busy machine does not look like a leak.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::time::Instant::now() < deadline {
        crossbeam_epoch::pin().flush();
        if done() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

fn limited<F: RadixForm>() -> RadixIndex<F> {
    RadixIndex::with_memory_limit(2 * MIB).expect("an empty index fits into 2 MiB")
}

#[test]
fn a_key_of_64_kib_is_taken_and_a_longer_one_refused() {
    let index = RadixIndex::<ByteStrings>::new().expect("address space");
    let (fits, long) = (vec![b'k'; MAX_KEY_BYTES], vec![b'k'; MAX_KEY_BYTES + 1]);
    // A key that ends where the longest has its last byte creates the deepest possible node.
    let short = &fits[..MAX_KEY_BYTES - 1];
    assert_eq!(index.insert(&fits, b"1"), Ok(None));
    assert_eq!(index.insert(short, b"0"), Ok(None));
    index.check_invariants();
    assert_eq!(index.get(&fits), Ok(Some(b"1".to_vec())));
    assert_eq!(index.get(short), Ok(Some(b"0".to_vec())));

    let refused = OperationError::KeyTooLong {
        start: OperationError::shorten(&long),
        length: MAX_KEY_BYTES + 1,
        limit: MAX_KEY_BYTES,
    };
    assert_eq!(index.get(&long), Err(refused.clone()));
    assert_eq!(index.insert(&long, b"2"), Err(refused.clone()));
    assert_eq!(index.update(&long, None, b"2"), Err(refused.clone()));
    assert_eq!(index.remove(&long), Err(refused.clone()));
    assert_eq!(
        ByteStrings::lend(&index, &long).map(|_| ()),
        Err(refused.clone())
    );

    let mut batch = Batch::<ByteStrings>::new();
    let before = batch.get(&fits);
    let refusals = [
        batch.insert(&long, b"2"),
        batch.get(&long),
        batch.update(&long, None, b"2"),
        batch.remove(&long),
        batch.successor(&long),
    ];
    let inserted = batch.insert(&fits, b"3");
    let after = batch.get(&fits);
    index
        .execute(&mut batch)
        .expect("the batch as such is good");
    assert_eq!(
        batch.outcome(before),
        OperationOutcome::Value(Some(&b"1"[..]))
    );
    for position in refusals {
        assert_eq!(
            batch.outcome(position),
            OperationOutcome::Failed(refused.clone())
        );
    }
    assert_eq!(
        batch.outcome(inserted),
        OperationOutcome::Value(Some(&b"1"[..]))
    );
    assert_eq!(
        batch.outcome(after),
        OperationOutcome::Value(Some(&b"3"[..]))
    );
    assert_eq!(index.len(), 2);
    index.check_invariants();
    assert_eq!(index.remove(&fits), Ok(Some(b"3".to_vec())));
    assert_eq!(index.remove(short), Ok(Some(b"0".to_vec())));
    index.check_invariants();
}

#[test]
fn an_empty_batch_is_executed() {
    let index = RadixIndex::<ByteStrings>::new().expect("address space");
    let mut batch = Batch::new();
    assert_eq!(index.execute(&mut batch), Ok(()));
    assert!(batch.is_empty() && index.is_empty());
}

#[test]
fn a_batch_that_is_too_large_is_refused_as_a_whole() {
    const LIMIT: usize = 1 << 24;
    let index = RadixIndex::<Words>::new().expect("address space");
    let mut batch = Batch::with_capacity(LIMIT + 1);
    for _ in 0..=LIMIT {
        batch.insert(7, 7);
    }
    let error = OperationError::BatchTooLarge {
        size: LIMIT + 1,
        unit: "operations",
        limit: LIMIT,
    };
    assert_eq!(index.execute(&mut batch), Err(error));
    assert_eq!(batch.outcome(0), OperationOutcome::Pending);
    assert!(index.is_empty(), "a part of the batch was executed");
}

/// Form-specific entries: the i-th key, spread over the key space, and a value that identifies i.
trait NumberedEntryForm: RadixForm {
    fn numbered(i: u64) -> (Self::OwnedKey, Self::OwnedValue);
}

impl NumberedEntryForm for Words {
    fn numbered(i: u64) -> (u64, u64) {
        // Runs of 100 keys under one prefix, so that nodes grow up to dense ones.
        (
            ((i / 100).wrapping_mul(0x9e37_79b9_7f4a_7c15) << 8) | (i % 100),
            i,
        )
    }
}

impl NumberedEntryForm for ByteStrings {
    fn numbered(i: u64) -> (Vec<u8>, Vec<u8>) {
        let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        // Some values are stored within the leaf region, some outside.
        let length = if i.is_multiple_of(10) { 2000 } else { 20 };
        (key.to_vec(), vec![i as u8; length])
    }
}

type Model<F> = BTreeMap<<F as EntryForm>::OwnedKey, <F as EntryForm>::OwnedValue>;

fn assert_holds<F: RadixForm>(index: &RadixIndex<F>, model: &Model<F>) {
    index.check_invariants();
    assert_eq!(index.len(), model.len());
    for (key, value) in model {
        assert_eq!(index.get(F::key(key)).as_ref(), Ok(&Some(value.clone())));
    }
}

/// Removes entries until half are left, and then inserts some that were refused.
fn recovers<F: NumberedEntryForm>(index: &RadixIndex<F>, mut model: Model<F>, refused: u64) {
    let keys: Vec<_> = model.keys().cloned().collect();
    for key in keys.iter().step_by(2) {
        assert_eq!(
            index.remove(F::key(key)).expect("removes need no memory"),
            model.remove(key)
        );
    }
    assert_holds(index, &model);
    for i in refused..refused + 20 {
        let (key, value) = F::numbered(i);
        let inserted = || index.insert(F::key(&key), F::value(&value)).is_ok();
        assert!(wait_until(inserted), "no memory although half is free");
        model.insert(key, value);
    }
    assert_holds(index, &model);
    for key in model.keys() {
        index.remove(F::key(key)).expect("removes need no memory");
    }
    assert_holds(index, &Model::<F>::new());
}

fn single_inserts_meet_the_limit<F: NumberedEntryForm>() {
    let index = limited::<F>();
    let mut model = Model::<F>::new();
    let mut failed = Vec::new();
    for i in 0.. {
        let (key, value) = F::numbered(i);
        match index.insert(F::key(&key), F::value(&value)) {
            Ok(before) => {
                assert_eq!(before, None);
                model.insert(key, value);
            }
            Err(OperationError::OutOfMemory { .. }) => failed.push(key),
            Err(error) => panic!("{error}"),
        }
        if failed.len() == 50 {
            break;
        }
    }
    assert!(
        model.len() > 1000,
        "only {} entries fit into 2 MiB",
        model.len()
    );
    assert!(index.memory().taken_bytes <= 2 * MIB);
    assert_holds(&index, &model);
    for key in &failed {
        let held = model.get(key).cloned();
        assert_eq!(index.get(F::key(key)), Ok(held));
    }
    recovers(&index, model, 1 << 30);
}

#[test]
fn single_inserts_of_words_meet_the_limit() {
    single_inserts_meet_the_limit::<Words>();
}

#[test]
fn single_inserts_of_bytes_meet_the_limit() {
    single_inserts_meet_the_limit::<ByteStrings>();
}

/// One operation on a key.
#[derive(Clone, Debug)]
enum Act<V> {
    Get,
    Insert(V),
    Update(Option<V>, V),
    Remove,
}

/// Returns the operations on the i-th key: most of them depend on earlier ones.
fn acts<F: NumberedEntryForm>(i: u64) -> Vec<Act<F::OwnedValue>> {
    let (first, second) = (F::numbered(i).1, F::numbered(i + 7).1);
    let mut acts = vec![
        Act::Get,
        Act::Insert(first.clone()),
        Act::Get,
        Act::Update(Some(first.clone()), second.clone()),
        Act::Get,
    ];
    if i.is_multiple_of(3) {
        acts.extend([Act::Remove, Act::Get, Act::Insert(second)]);
    }
    acts.push(Act::Update(None, first));
    acts
}

fn add<F: NumberedEntryForm>(batch: &mut Batch<F>, key: &F::OwnedKey, act: &Act<F::OwnedValue>) {
    let key = F::key(key);
    match act {
        Act::Get => batch.get(key),
        Act::Insert(value) => batch.insert(key, F::value(value)),
        Act::Update(previous, value) => {
            batch.update(key, previous.as_ref().map(F::value), F::value(value))
        }
        Act::Remove => batch.remove(key),
    };
}

/// Applies an operation that has not failed to the model; returns its outcome.
fn apply<F: NumberedEntryForm>(
    model: &mut Model<F>,
    key: F::OwnedKey,
    act: Act<F::OwnedValue>,
) -> (Option<bool>, Option<F::OwnedValue>) {
    let before = model.get(&key).cloned();
    let mut applied = None;
    match act {
        Act::Get => {}
        Act::Insert(value) => drop(model.insert(key, value)),
        Act::Remove => drop(model.remove(&key)),
        Act::Update(previous, value) => {
            applied = Some(before == previous);
            if before == previous {
                model.insert(key, value);
            }
        }
    }
    (applied, before)
}

/// Executes batches until memory is exhausted for many operations. The others must have the
/// outcomes, and leave the entries, that they would without the failed ones.
fn batches_meet_the_limit<F: NumberedEntryForm>(options: EngineOptions) {
    let index = limited::<F>();
    index.set_options(options);
    let mut model = Model::<F>::new();
    let mut batch = Batch::new();
    let mut failed = 0;
    let mut keys = 0..;
    let mut batches = 0_u32;
    while failed < 2000 {
        batches += 1;
        batch.clear();
        let mut added = Vec::new();
        for i in keys.by_ref().take(40) {
            let key = F::numbered(i).0;
            for act in acts::<F>(i) {
                add(&mut batch, &key, &act);
                added.push((key.clone(), act));
            }
        }
        index
            .execute(&mut batch)
            .expect("the batch as such is good");
        for (position, (key, act)) in added.into_iter().enumerate() {
            let shown = format!("{key:?} {act:?}");
            let outcome = match batch.outcome(position) {
                OperationOutcome::Failed(OperationError::OutOfMemory { .. }) => {
                    failed += 1;
                    continue;
                }
                OperationOutcome::Updated { applied, before } => {
                    (Some(applied), before.map(F::own_value))
                }
                OperationOutcome::Value(before) => (None, before.map(F::own_value)),
                outcome => panic!("{shown}: {outcome:?}"),
            };
            assert_eq!(outcome, apply::<F>(&mut model, key, act), "{shown}");
        }
        // A check walks the whole tree, and most batches come before the first that lacks memory.
        if failed > 0 || batches.is_multiple_of(16) {
            index.check_invariants();
        }
    }
    assert!(
        model.len() > 500,
        "only {} entries fit into 2 MiB",
        model.len()
    );
    assert_holds(&index, &model);
    recovers(&index, model, 1 << 30);
}

#[test]
fn batches_of_words_meet_the_limit() {
    batches_meet_the_limit::<Words>(EngineOptions::default());
    batches_meet_the_limit::<Words>(EngineOptions::operation_centric());
    batches_meet_the_limit::<Words>(EngineOptions::data_centric(0));
}

#[test]
fn batches_of_bytes_meet_the_limit() {
    batches_meet_the_limit::<ByteStrings>(EngineOptions::default());
    batches_meet_the_limit::<ByteStrings>(EngineOptions::operation_centric());
    batches_meet_the_limit::<ByteStrings>(EngineOptions::data_centric(0));
}

/// Without memory, an underfull node stays. A node below it that becomes empty must still be
/// removed.
#[test]
fn an_empty_node_goes_though_one_above_cannot_shrink() {
    let index = limited::<Words>();
    let mut batch = Batch::<Words>::new();
    let mut insert = |keys: &mut dyn Iterator<Item = u64>| {
        batch.clear();
        for key in keys {
            batch.insert(key, key);
        }
        index.execute(&mut batch).expect("execute");
        (0..batch.len()).any(|at| matches!(batch.outcome(at), OperationOutcome::Failed(_)))
    };
    // A node of eight leaves and a node of six leaves, under the first byte 1. They are built at
    // once, so that no smaller node was ever created whose memory could be reused.
    let leaf = |prefix: u64| (0..7).map(move |last| 1 << 56 | prefix | last);
    let upper = |byte: u64| leaf(byte << 48);
    let lower = |byte: u64| leaf(9 << 48 | byte << 40);
    let mut leaves = (0..8).flat_map(upper).chain((0..6).flat_map(lower));
    assert!(!insert(&mut leaves));
    let _pinned = crossbeam_epoch::pin();
    let mut fills = (2..255u64).map(|byte| insert(&mut (0..256 * 20).map(|i| byte << 56 | i)));
    assert!(fills.any(|failed| failed), "memory is full");
    let remove = |key| assert!(index.remove(key).expect("remove").is_some());
    (0..8).flat_map(upper).skip(1).for_each(remove);
    (0..6).flat_map(lower).for_each(remove);
    index.check_invariants();
    assert_eq!(index.get(1 << 56), Ok(Some(1 << 56)));
}

/// Overwriting takes a new record before the old one is free: a failure must leave the old one.
#[test]
fn a_value_that_cannot_be_replaced_stays() {
    let index = limited::<ByteStrings>();
    index.insert(b"key", b"old").expect("insert");
    let huge = vec![0; 4 * MIB];
    for _ in 0..3 {
        assert!(matches!(
            index.insert(b"key", &huge),
            Err(OperationError::OutOfMemory { .. })
        ));
        let update = index.update(b"key", Some(b"old"), &huge);
        assert!(matches!(update, Err(OperationError::OutOfMemory { .. })));
    }
    assert_eq!(index.get(b"key"), Ok(Some(b"old".to_vec())));
    assert_eq!(
        index.update(b"key", Some(b"old"), b"new"),
        Ok((true, Some(b"old".to_vec())))
    );
    index.check_invariants();
}

#[test]
fn an_index_that_has_no_room_for_its_root_is_refused() {
    assert!(matches!(
        RadixIndex::<Words>::with_memory_limit(0),
        Err(OperationError::OutOfMemory { .. })
    ));
}

/// Values near the greatest length within a record, and values of several MiB.
#[test]
fn values_of_every_length_are_freed() {
    let index = RadixIndex::<ByteStrings>::new().expect("address space");
    index.insert(b"neighbour", b"stays").expect("insert");
    // A block that a long neighbour divides is created with room for more entries.
    index.insert(b"key", &[0; 1000]).expect("insert");
    index.remove(b"key").expect("remove");
    assert!(wait_until(|| index.memory().leaf_bytes < 200));
    let former = index.memory().total_bytes();
    let freed = || wait_until(|| index.memory().total_bytes() == former);
    // A record is 8 bytes, 3 of the key and the value; 1 KiB of it is stored inside.
    let lengths = (1000..1030).chain([0, 1, 4096, 3 * MIB, 5 * MIB + 1]);
    for length in lengths {
        let value = |byte: u8| vec![byte; length];
        assert_eq!(index.insert(b"key", &value(1)), Ok(None));
        assert_eq!(index.insert(b"key", &value(2)), Ok(Some(value(1))));
        assert_eq!(index.get(b"key"), Ok(Some(value(2))));
        index.check_invariants();
        let held = index.memory().total_bytes() - former;
        // A short one fits into its neighbour's block.
        assert!(
            length < 16 || held >= length,
            "{held} bytes for a value of {length}"
        );
        assert_eq!(index.remove(b"key"), Ok(Some(value(2))));
        assert!(
            freed(),
            "a value of {length} bytes leaves {:?}",
            index.memory()
        );
    }
    let taken = index.memory().taken_bytes;
    assert!(
        taken < MIB,
        "{taken} bytes remain after all large values are removed"
    );
    index.check_invariants();
}

/// Memory outside the regions counts towards the limit, and removing a value makes room.
#[test]
fn large_values_make_room_for_others() {
    let index = limited::<ByteStrings>();
    for round in 0..20u8 {
        let value = vec![round; MIB + MIB / 2];
        let inserted = || index.insert(b"key", &value) == Ok(None);
        assert!(wait_until(inserted), "no room in round {round}");
        assert!(matches!(
            index.insert(b"other", &value),
            Err(OperationError::OutOfMemory { .. })
        ));
        assert_eq!(index.remove(b"key"), Ok(Some(value)));
    }
    assert!(index.is_empty());
    index.check_invariants();
}
