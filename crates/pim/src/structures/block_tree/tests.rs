//! Comparison of trees with maps, and tests of their memory and time.

use super::*;
use crate::device::{Model, ModuleDevice, ModuleProgram};
use nearfield_hardware::modules::ModulePreset;

impl crate::testing::lists::LiftableKeyList for PimBlockTree {}

#[test]
fn a_tree_does_what_a_map_does() {
    crate::testing::lists::check_against_map::<PimBlockTree>();
}

/// A program that fills a bank until it has no room, and then reads all entries whose insertion
/// succeeded.
struct Fill;

impl ModuleProgram for Fill {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        _: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tree = PimBlockTree::new(module)?;
        let mut stored = 0;
        while tree.insert(module, key(stored), stored).is_ok() {
            stored += 1;
        }
        assert!(tree.insert(module, key(stored), stored).is_err());
        for number in 0..stored {
            assert_eq!(tree.get(module, key(number)), Some(number));
        }
        let mut count = 0;
        tree.walk(module, 0, |_, _| {
            count += 1;
            true
        });
        assert_eq!(count, stored);
        output.extend([stored, module.used_bytes()]);
        tree.free(module);
        output.push(module.used_bytes());
        Ok(())
    }
}

#[test]
fn a_full_bank_refuses_and_loses_nothing() {
    let parameters = nearfield_hardware::modules::ModuleParameters {
        bank_bytes: 1 << 20,
        ..ModulePreset::UpmemMeasured.parameters()
    };
    let mut model = Model::new(1, parameters);
    let answered = model.round(Fill, vec![vec![]]).expect("a round");
    let words = answered[0].as_ref().expect("done");
    let (stored, used) = (words[0], words[1]);
    assert!(used > (1 << 20) - 2048, "{used} bytes of a MiB");
    // An entry takes 16 bytes in leaves that are half to completely full, and its share of inner
    // blocks.
    let each = used as f64 / stored as f64;
    assert!((17.0..34.0).contains(&each), "{each} bytes a key");
    assert_eq!(
        words[2], 8,
        "all words are free again, except the null word"
    );
}

/// A program that builds a tree of this many keys, then reads each.
struct BlockReadsProgram(u64);

impl ModuleProgram for BlockReadsProgram {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        _: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        let tree = PimBlockTree::of_root(module)?;
        if input.is_empty() {
            tree.build(module, (0..self.0).map(|number| (number * 3, number)))?;
        }
        for number in input {
            assert_eq!(tree.get(module, number * 3), Some(*number));
            assert_eq!(
                tree.floor(module, number * 3 + 2),
                Some((number * 3, *number))
            );
        }
        Ok(())
    }
}

#[test]
fn a_get_takes_two_copies_a_level() {
    for (keys, levels) in [(30, 1), (700, 2), (15_000, 3)] {
        let mut model = Model::new(1, ModulePreset::UpmemMeasured.parameters());
        model
            .round(BlockReadsProgram(keys), vec![vec![]])
            .expect("built");
        let built = model.counters().work;
        let numbers: Vec<u64> = (0..keys).collect();
        model
            .round(BlockReadsProgram(keys), vec![numbers])
            .expect("read");
        let work = model.counters().work;
        assert_eq!(work.hops - built.hops, 2 * keys * levels, "{keys}");
        assert_eq!(work.reads - built.reads, 4 * keys * levels, "{keys}");
    }
}
