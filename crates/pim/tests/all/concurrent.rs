//! Concurrent callers: the outcomes of an index are linearizable, with and without batching of
//! single operations.

use nearfield_core::{ByteStrings, EntryForm, OrderedIndex, Words};
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::call_batcher::CallBatcher;
use nearfield_pim::device::{Model, Workers};
use nearfield_pim::radar::{Radar, RadarOptions};
use nearfield_pim::strings::{self, PimStrings};
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
use nearfield_testkit::keys::SampleForm;

const CONFIG: ConcurrentTestConfig = ConcurrentTestConfig {
    threads: 4,
    operations: 700,
    keys_max: 200,
    batch_size_max: 64,
};

fn workers(seed: u64) -> Workers {
    Workers::new([1, 2, 8][seed as usize % 3], 1 << 22, 2)
}

fn check<F: SampleForm, I: OrderedIndex<F>>(build: impl Fn(u64) -> I) {
    // One seed for each number of modules.
    concurrent::check::<F, I>(3, &CONFIG, build);
}

fn gathered<F: EntryForm, I: OrderedIndex<F>>(index: I) -> CallBatcher<F, I> {
    CallBatcher::new(index)
}

fn few_keys() -> strings::PimStringsOptions {
    strings::PimStringsOptions {
        partition_keys: 8,
        cools: 2,
        ..strings::PimStringsOptions::default()
    }
}

#[test]
fn radar_is_linearizable() {
    check::<Words, _>(|seed| Radar::new(workers(seed), RadarOptions::nearfield()));
    check::<Words, _>(|seed| gathered(Radar::new(workers(seed), RadarOptions::on_workers())));
}

#[test]
fn strings_are_linearizable() {
    check::<ByteStrings, _>(|seed| PimStrings::new(workers(seed), few_keys()));
    check::<ByteStrings, _>(|seed| gathered(PimStrings::new(workers(seed), few_keys())));
}

#[test]
fn modelled_modules_are_linearizable_as_well() {
    let model = || Model::new(3, ModulePreset::UpmemMeasured.parameters());
    check::<Words, _>(|_| gathered(Radar::new(model(), RadarOptions::nearfield())));
    check::<ByteStrings, _>(|_| gathered(PimStrings::new(model(), few_keys())));
}
