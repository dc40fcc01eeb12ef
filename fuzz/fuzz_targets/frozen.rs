//! No bytes make the reader of frozen objects panic, and an object that it accepts is the same
//! after it is frozen and thawed again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_server::object::{RedisType, StoredObject};
use nearfield_tiers::AccountedHeap;

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let kind = RedisType::ALL[usize::from(choice) % RedisType::ALL.len()];
    let heap = AccountedHeap::new();
    if let Ok(object) = StoredObject::thaw(kind, bytes, &heap) {
        check(&object);
        let mut frozen = Vec::new();
        object.freeze(&mut frozen);
        let again = StoredObject::thaw(kind, &frozen, &heap).expect("an object was frozen");
        check(&again);
        let mut twice = Vec::new();
        again.freeze(&mut twice);
        assert_eq!(frozen, twice);
    }
    assert_eq!(heap.used_bytes(), 0);
});

fn check(object: &StoredObject) {
    match object {
        StoredObject::Text(_) => {}
        StoredObject::List(list) => list.check_invariants(),
        StoredObject::Hash(hash) => hash.check_invariants(),
        StoredObject::Set(set) => set.check_invariants(),
        StoredObject::SortedSet(set) => set.check_invariants(),
        StoredObject::Stream(stream) => stream.check_invariants(),
    }
}
