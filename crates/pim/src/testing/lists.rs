//! The test of ordered lists in a module.

use crate::device::{Model, Module, ModuleDevice, ModuleProgram, ProgramFault, WorkMeter};
use crate::structures::list::OrderedKeyList;
use nearfield_hardware::modules::ModulePreset;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The additional operations of lists with heights.
pub trait LiftableKeyList: OrderedKeyList {
    /// Sets the height of a key. Returns true if the key is present, and `None` if lists have
    /// no heights.
    fn lift<M: WorkMeter>(self, _: &mut Module<'_, M>, _: u64, _: usize) -> Option<bool> {
        None
    }
}

/// Runs a test in one module.
fn within<L: LiftableKeyList + 'static>(
    work: impl Fn(&mut dyn FnMut(&str, u64, u64) -> Vec<u64>) + Send + Sync + 'static,
) {
    struct ListTestProgram<L, W>(W, PhantomData<fn() -> L>);
    impl<L: LiftableKeyList + 'static, W> ModuleProgram for ListTestProgram<L, W>
    where
        W: Fn(&mut dyn FnMut(&str, u64, u64) -> Vec<u64>) + Send + Sync + 'static,
    {
        fn run<M: WorkMeter>(
            &self,
            module: &mut Module<'_, M>,
            _: &[u64],
            _: &mut Vec<u64>,
        ) -> Result<(), ProgramFault> {
            let list = L::new(module)?;
            let empty = module.used_bytes();
            (self.0)(&mut |what, key, value| match what {
                "get" => list.get(module, key).into_iter().collect(),
                "insert" => {
                    let before = list.insert(module, key, value).expect("room");
                    before.into_iter().collect()
                }
                "lift" => {
                    let is_there = list.lift(module, key, value as usize);
                    is_there.map(u64::from).into_iter().collect()
                }
                "remove" => list.remove(module, key).into_iter().collect(),
                "remove_if" => {
                    let before = list.update(module, key, Some(value), None);
                    before.expect("room").into_iter().collect()
                }
                "floor" => {
                    let found = list.floor(module, key);
                    found.map_or(Vec::new(), |(key, value)| vec![key, value])
                }
                "walk" => {
                    let mut all = Vec::new();
                    list.walk(module, key, |key, _| {
                        all.push(key);
                        all.len() < value as usize
                    });
                    all
                }
                "used" => vec![module.used_bytes() - empty],
                _ => unreachable!(),
            });
            Ok(())
        }
    }
    let mut model = Model::new(1, ModulePreset::UpmemMeasured.parameters());
    model
        .round(ListTestProgram::<L, _>(work, PhantomData), vec![vec![]])
        .expect("done");
}

/// Checks random operations on lists, small and large, against a map.
pub fn check_against_map<L: LiftableKeyList + 'static>() {
    within::<L>(|list| {
        for seed in 0..40 {
            let random = &mut SmallRng::seed_from_u64(seed);
            let keys = [3, 40, 1000, 10_000][seed as usize % 4];
            let mut map = BTreeMap::new();
            let some = |value: Option<u64>| value.into_iter().collect::<Vec<_>>();
            for step in 0..[500, 500, 2000, 20_000][seed as usize % 4] {
                // Keys include both ends of the key space.
                let key = match random.random_range(0..keys) {
                    0 => u64::MAX,
                    1 => 0,
                    key => key * 7919,
                };
                match random.random_range(0..9) {
                    0 | 1 => assert_eq!(list("insert", key, step), some(map.insert(key, step))),
                    6 | 7 => {
                        let height = random.random_range(1..=20);
                        let is_there = u64::from(map.contains_key(&key));
                        for found in list("lift", key, height) {
                            assert_eq!(found, is_there);
                        }
                    }
                    2 => assert_eq!(list("remove", key, 0), some(map.remove(&key))),
                    8 => {
                        let before = map.get(&key).copied();
                        let expected = before.filter(|_| random.random_bool(0.8));
                        let found = list("remove_if", key, expected.unwrap_or(step));
                        assert_eq!(found, some(before));
                        if expected.is_some() {
                            map.remove(&key);
                        }
                    }
                    3 => assert_eq!(list("get", key, 0), some(map.get(&key).copied())),
                    4 => {
                        let floor = map.range(..=key).next_back();
                        let floor = floor.map_or(Vec::new(), |(key, value)| vec![*key, *value]);
                        assert_eq!(list("floor", key, 0), floor);
                    }
                    _ => {
                        let from = map.range(key..).take(9).map(|(key, _)| *key);
                        assert_eq!(list("walk", key, 9), from.collect::<Vec<_>>());
                    }
                }
            }
            for key in map.keys() {
                assert!(!list("remove", *key, 0).is_empty());
            }
            assert_eq!(list("used", 0, 0), [0], "all memory is free again");
        }
    });
}
