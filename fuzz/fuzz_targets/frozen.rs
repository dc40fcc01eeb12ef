//! No bytes make the reader of frozen objects panic, and an object that it accepts is the same
//! after it is frozen and thawed again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_server::object::{Kind, Object};
use nearfield_tiers::Heap;

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let kind = Kind::ALL[usize::from(choice) % Kind::ALL.len()];
    let heap = Heap::new();
    if let Ok(object) = Object::thaw(kind, bytes, &heap) {
        check(&object);
        let mut frozen = Vec::new();
        object.freeze(&mut frozen);
        let again = Object::thaw(kind, &frozen, &heap).expect("an object was frozen");
        check(&again);
        let mut twice = Vec::new();
        again.freeze(&mut twice);
        assert_eq!(frozen, twice);
    }
    assert_eq!(heap.used_bytes(), 0);
});

fn check(object: &Object) {
    match object {
        Object::Text(_) => {}
        Object::List(list) => list.check_invariants(),
        Object::Hash(hash) => hash.check_invariants(),
        Object::Set(set) => set.check_invariants(),
        Object::SortedSet(set) => set.check_invariants(),
        Object::Stream(stream) => stream.check_invariants(),
    }
}
