//! The model test and the concurrent test of the facade, whose single operations and options have
//! code paths of their own.

use nearfield::{ByteStrings, EngineOptions, MapForm, OrderedMap, Words};
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
use nearfield_testkit::keys::SampleForm;
use nearfield_testkit::model;

fn new<F: MapForm>(seed: u64) -> OrderedMap<F> {
    let options = match seed % 3 {
        0 => EngineOptions::default(),
        1 => EngineOptions::data_centric(0),
        _ => EngineOptions::operation_centric(),
    };
    let map = OrderedMap::builder().engine_options(options).build();
    map.expect("address space")
}

fn agrees_with_a_btree_map<F: MapForm + SampleForm>() {
    model::check::<F, _>(60, new);
}

#[test]
fn words_agree_with_a_btree_map() {
    agrees_with_a_btree_map::<Words>();
}

#[test]
fn bytes_agree_with_a_btree_map() {
    agrees_with_a_btree_map::<ByteStrings>();
}

#[test]
fn bytes_are_linearizable() {
    concurrent::check::<ByteStrings, _>(5, &ConcurrentTestConfig::default(), new);
}
