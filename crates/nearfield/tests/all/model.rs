//! The model test and the concurrent test of the facade, whose single operations and options have
//! code paths of their own.

use nearfield::{Bytes, EngineOptions, Map, MapForm, Words};
use nearfield_testkit::concurrent::{self, Config};
use nearfield_testkit::keys::Sample;
use nearfield_testkit::model;

fn new<F: MapForm>(seed: u64) -> Map<F> {
    let options = match seed % 3 {
        0 => EngineOptions::default(),
        1 => EngineOptions::data_centric(0),
        _ => EngineOptions::operation_centric(),
    };
    let map = Map::builder().engine_options(options).build();
    map.expect("address space")
}

fn agrees_with_a_btree_map<F: MapForm + Sample>() {
    model::check::<F, _>(60, new);
}

#[test]
fn words_agree_with_a_btree_map() {
    agrees_with_a_btree_map::<Words>();
}

#[test]
fn bytes_agree_with_a_btree_map() {
    agrees_with_a_btree_map::<Bytes>();
}

#[test]
fn bytes_are_linearizable() {
    concurrent::check::<Bytes, _>(5, &Config::default(), new);
}
