//! Concurrent callers: the outcomes of an index are linearizable, with and without batching of
//! single operations.

use nearfield_core::{Bytes, Form, OrderedIndex, Words};
use nearfield_hardware::modules::Preset;
use nearfield_pim::call_batcher::CallBatcher;
use nearfield_pim::device::{Model, Workers};
use nearfield_pim::radar::{Options, Radar};
use nearfield_pim::rivals::range_partition::RangePartition;
use nearfield_pim::strings::{self, Strings};
use nearfield_testkit::concurrent::{self, Config};
use nearfield_testkit::keys::Sample;

const CONFIG: Config = Config {
    threads: 4,
    operations: 2_000,
    keys_max: 200,
    batch_size_max: 64,
};

fn workers(seed: u64) -> Workers {
    Workers::new([1, 2, 8][seed as usize % 3], 1 << 22, 2)
}

fn check<F: Sample, I: OrderedIndex<F>>(build: impl Fn(u64) -> I) {
    concurrent::check::<F, I>(4, &CONFIG, build);
}

fn gathered<F: Form, I: OrderedIndex<F>>(index: I) -> CallBatcher<F, I> {
    CallBatcher::new(index)
}

fn few_keys() -> strings::Options {
    strings::Options {
        partition_keys: 8,
        cools: 2,
        ..strings::Options::default()
    }
}

#[test]
fn range_partition_is_linearizable() {
    check::<Words, _>(|seed| RangePartition::new(workers(seed)));
    check::<Words, _>(|seed| gathered(RangePartition::new(workers(seed))));
}

#[test]
fn radar_is_linearizable() {
    check::<Words, _>(|seed| Radar::new(workers(seed), Options::nearfield()));
    check::<Words, _>(|seed| gathered(Radar::new(workers(seed), Options::on_workers())));
}

#[test]
fn strings_are_linearizable() {
    check::<Bytes, _>(|seed| Strings::new(workers(seed), few_keys()));
    check::<Bytes, _>(|seed| gathered(Strings::new(workers(seed), few_keys())));
}

#[test]
fn modelled_modules_are_linearizable_as_well() {
    let model = || Model::new(3, Preset::UpmemMeasured.parameters());
    check::<Words, _>(|_| gathered(Radar::new(model(), Options::nearfield())));
    check::<Bytes, _>(|_| gathered(Strings::new(model(), few_keys())));
}
