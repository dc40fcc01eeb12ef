//! One test for every method that maps have in common, written once for all placements and both
//! forms. Random calls must return what a `BTreeMap` returns.

use crate::ranges::{self, Model};
#[cfg(target_os = "linux")]
use nearfield::PoolPlacement;
use nearfield::{
    AnyPlacement, Batch, ByteStrings, Local, MapForm, MapPlacement, MapReadResult, OrderedMap, Pim,
    Tier, UpdateOutcome, Words,
};
#[cfg(target_os = "linux")]
use nearfield_fabric_testkit::ShmNodes;
use nearfield_testkit::keys::{self, Random, SampleForm};
use rand::RngExt;
use std::ops::{Bound, RangeBounds};

/// Greatest length of a key. It is small because every slot of a pool has room for the longest key.
const KEY_BYTES_MAX: usize = 64;
/// Number of calls of one run, after which everything is compared.
const CALLS: usize = 400;

/// Returns the value of a read, of any placement.
#[track_caller]
fn read<T>(result: impl MapReadResult<T>) -> T {
    result.into_result().expect("the placement replies")
}

/// A map and the model of its expected contents.
struct ModelCheckedMap<'m, F: MapForm + SampleForm, P: MapPlacement<F>> {
    map: &'m OrderedMap<F, P>,
    model: Model<F>,
    keys: Vec<F::OwnedKey>,
    random: Random,
}

impl<F: MapForm + SampleForm, P: MapPlacement<F>> ModelCheckedMap<'_, F, P> {
    fn key(&mut self) -> F::OwnedKey {
        let position = self.random.random_range(0..self.keys.len());
        self.keys[position].clone()
    }

    /// Returns bounds of a range that does not end before it begins.
    fn bounds(&mut self) -> (Bound<F::OwnedKey>, Bound<F::OwnedKey>) {
        let (a, b) = (self.key(), self.key());
        let low = Bound::Included(a.clone().min(b.clone()));
        match self.random.random_range(0..4) {
            0 => (Bound::Unbounded, Bound::Included(a.max(b))),
            1 => (low, Bound::Unbounded),
            _ => (low, Bound::Included(a.max(b))),
        }
    }

    fn call(&mut self) {
        let key = self.key();
        let value = F::any_value(&mut self.random);
        let (k, v) = (F::key(&key), F::value(&value));
        let present = self.model.get(&key).cloned();
        let owned = |entry: (&F::OwnedKey, &F::OwnedValue)| (entry.0.clone(), entry.1.clone());
        match self.random.random_range(0..18) {
            0..3 => {
                assert_eq!(self.map.insert(k, v), Ok(present));
                self.model.insert(key, value);
            }
            3 => {
                assert_eq!(self.map.remove(k), Ok(present));
                self.model.remove(&key);
            }
            4 => {
                let updated = self.map.update(k, present.as_ref().map(F::value), v);
                assert_eq!(updated, Ok(UpdateOutcome::Applied));
                self.model.insert(key, value);
            }
            5 => {
                let updated = self.map.update(k, Some(v), v).expect("updated");
                if present.as_ref() == Some(&value) {
                    assert!(updated.is_applied());
                } else {
                    assert_eq!(updated, UpdateOutcome::Differs { current: present });
                }
            }
            6 => {
                let old = self.map.modify(k, |current| {
                    assert_eq!(current.map(F::own_value), present);
                    value.clone()
                });
                assert_eq!(old, Ok(present.clone()));
                self.model.insert(key, value);
            }
            7 => {
                let stays = present.unwrap_or_else(|| value.clone());
                assert_eq!(self.map.get_or_insert(k, v), Ok(stays.clone()));
                self.model.insert(key, stays);
            }
            8 => {
                let found = read(self.map.get(k)).map(Into::into);
                assert_eq!(found, present);
                assert_eq!(read(self.map.contains_key(k)), present.is_some());
            }
            9 => {
                let below = self.model.range(..=key.clone()).next_back().map(owned);
                let above = self.model.range(key.clone()..).next().map(owned);
                assert_eq!(read(self.map.predecessor(k)), below);
                assert_eq!(read(self.map.successor(k)), above);
            }
            10 => assert_eq!(self.map.pop_first(), Ok(self.model.pop_first())),
            11 => assert_eq!(self.map.pop_last(), Ok(self.model.pop_last())),
            12 => self.many(),
            13 => {
                let bounds = self.bounds();
                let lent = (bounds.0.as_ref().map(F::key), bounds.1.as_ref().map(F::key));
                let keep = |value: &F::OwnedValue| *value < F::own_value(v);
                let before = self.model.len();
                let model = &mut self.model;
                model.retain(|key, value| !bounds.contains(key) || keep(value));
                let retained = self.map.retain(lent, |_, value| keep(&F::own_value(value)));
                assert_eq!(retained, Ok(before - self.model.len()));
            }
            14 => {
                let bounds = (Bound::Included(key.clone()), Bound::Included(key.clone()));
                let lent = (bounds.0.as_ref().map(F::key), bounds.1.as_ref().map(F::key));
                let removed = self.map.remove_range(lent);
                assert_eq!(removed, Ok(usize::from(self.model.remove(&key).is_some())));
            }
            15 => {
                let expected = present.as_ref().map_or(v, F::value);
                let removed = self.map.remove_if(k, expected).expect("removed");
                assert_eq!(removed.is_applied(), present.is_some());
                self.model.remove(&key);
            }
            16 => {
                let removed = self.map.remove_if(k, v).expect("compared");
                if present.as_ref() == Some(&value) {
                    assert!(removed.is_applied());
                    self.model.remove(&key);
                } else {
                    assert_eq!(removed, UpdateOutcome::Differs { current: present });
                }
            }
            _ => {
                let mut batch = Batch::<F>::new();
                let before = batch.insert(k, v);
                let after = batch.get(k);
                self.map.execute(&mut batch).expect("executed");
                assert_eq!(batch.value(before).map(F::own_value), present);
                assert_eq!(batch.value(after).map(F::own_value), Some(value.clone()));
                self.model.insert(key, value);
            }
        }
    }

    /// Inserts some entries at once, and reads some keys at once.
    fn many(&mut self) {
        let entries: Vec<_> = (0..20)
            .map(|_| (self.key(), F::any_value(&mut self.random)))
            .collect();
        let lent: Vec<_> = entries
            .iter()
            .map(|(key, value)| (F::key(key), F::value(value)))
            .collect();
        let before = self.model.len();
        self.model.extend(entries.iter().cloned());
        let inserted = self.map.insert_many(&lent);
        assert_eq!(inserted, Ok(self.model.len() - before));
        let lookups: Vec<_> = (0..20).map(|_| self.key()).collect();
        let lent: Vec<_> = lookups.iter().map(F::key).collect();
        let values = lookups.iter().map(|key| self.model.get(key).cloned());
        assert_eq!(self.map.get_many(&lent), Ok(values.collect()));
    }

    /// Checks that all that can be read of a map equals the model.
    fn compare(&mut self) {
        let entry = |entry: (&F::OwnedKey, &F::OwnedValue)| (entry.0.clone(), entry.1.clone());
        assert_eq!(
            read(self.map.first()),
            self.model.first_key_value().map(entry)
        );
        assert_eq!(
            read(self.map.last()),
            self.model.last_key_value().map(entry)
        );
        assert_eq!(read(self.map.len()), self.model.len());
        assert_eq!(read(self.map.is_empty()), self.model.is_empty());
        if !self.model.is_empty() {
            let map = self.map;
            ranges::agree::<F, _>(&self.model, 8, &mut self.random, |bounds| {
                map.range(bounds).map(read)
            });
        }
    }
}

/// Calls every method of a map, which is empty before and afterwards.
fn check<F: MapForm + SampleForm, P: MapPlacement<F>>(map: &OrderedMap<F, P>, seed: u64) {
    for (&kind, seed) in F::KINDS.iter().zip(seed..) {
        let mut random = keys::random(seed);
        let keys = F::keys(kind, 60, &mut random);
        let keys: Vec<_> = keys
            .into_iter()
            .filter(|key| <F as SampleForm>::key_bytes(F::key(key)) <= KEY_BYTES_MAX)
            .collect();
        if keys.is_empty() {
            continue;
        }
        let model = Model::<F>::new();
        let mut pair = ModelCheckedMap {
            map,
            model,
            keys,
            random,
        };
        for call in 0..CALLS {
            pair.call();
            if call % 100 == 99 {
                pair.compare();
            }
        }
        map.clear().expect("cleared");
        pair.model.clear();
        pair.compare();
    }
    assert!(format!("{map:?}").starts_with("Map"));
}

fn local<F: MapForm>() -> OrderedMap<F, Local> {
    OrderedMap::new().expect("address space")
}

fn pim<F: MapForm>() -> OrderedMap<F, Pim> {
    let builder = OrderedMap::<F>::builder().memory_limit(64 << 20);
    builder
        .pim(Pim::workers().threads(2))
        .build()
        .expect("threads")
}

#[cfg(target_os = "linux")]
fn in_pool<F: MapForm>(check: impl FnOnce(OrderedMap<F, PoolPlacement>)) {
    let nodes = ShmNodes::serve(2, 256 << 20).expect("nodes");
    let pool = PoolPlacement::shm(nodes.names());
    let builder = OrderedMap::<F>::builder().pool(pool);
    let map = builder.key_bytes_max(KEY_BYTES_MAX).build();
    check(map.expect("a map"));
}

#[test]
fn local_maps_do() {
    check(&local::<Words>(), 1);
    check(&local::<ByteStrings>(), 2);
}

#[test]
fn maps_in_modules_do() {
    check(&pim::<Words>(), 3);
    check(&pim::<ByteStrings>(), 4);
}

#[test]
#[cfg(target_os = "linux")]
fn maps_in_a_pool_do() {
    in_pool::<Words>(|map| check(&map, 5));
    in_pool::<ByteStrings>(|map| check(&map, 6));
}

#[test]
fn maps_in_tiers_do() {
    let tiers = [Tier::memory(64 << 20), Tier::compressed(4 << 20)];
    let map = OrderedMap::<ByteStrings>::builder().tiers(tiers).build();
    check(&map.expect("a map"), 11);
}

#[test]
fn maps_placed_at_run_time_do() {
    check::<Words, AnyPlacement>(&local::<Words>().into(), 7);
    check::<ByteStrings, AnyPlacement>(&local::<ByteStrings>().into(), 8);
    check::<ByteStrings, AnyPlacement>(&pim::<ByteStrings>().into(), 9);
    #[cfg(target_os = "linux")]
    in_pool::<ByteStrings>(|map| check::<ByteStrings, AnyPlacement>(&map.into(), 10));
}

/// A map that other threads write to differs from the model, so the tests above can fail.
#[test]
#[should_panic(expected = "assertion")]
fn an_entry_that_nobody_expects_is_noticed() {
    let map = local::<Words>();
    map.insert(u64::MAX / 3, 1).expect("inserted");
    check(&map, 1);
}
