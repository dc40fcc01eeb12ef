use super::testing::{made, words};
use super::*;
use crate::object::testing::for_each_seed;
use rand::RngExt;
use std::collections::BTreeMap;

type Model = BTreeMap<StreamId, std::vec::Vec<std::vec::Vec<u8>>>;

fn seen(entry: &StreamEntry<'_>) -> (StreamId, std::vec::Vec<std::vec::Vec<u8>>) {
    let mut words = std::vec::Vec::new();
    entry.for_each(|field, value| words.extend([field.to_vec(), value.to_vec()]));
    (entry.id, words)
}

fn check(stream: &StreamObject, model: &Model) {
    stream.check_invariants();
    assert_eq!(stream.len(), model.len());
    let all = |reverse| stream.range(StreamId::MIN, StreamId::MAX, reverse);
    let model = model.iter().map(|(id, words)| (*id, words.clone()));
    assert!(all(false).map(|it| seen(&it)).eq(model.clone()));
    assert!(all(true).map(|it| seen(&it)).eq(model.rev()));
}

#[test]
fn random_changes_leave_what_they_leave_in_a_tree() {
    for_each_seed(200, |random| {
        let heap = AccountedHeap::new();
        let limits = ObjectLimits {
            stream_node_bytes_max: 1 << random.random_range(6..13),
            stream_node_entries_max: random.random_range(0..10),
            ..ObjectLimits::default()
        };
        let (mut stream, mut model) = (StreamObject::new_in(heap.clone()), Model::new());
        for _ in 0..150 {
            let last = stream.last_id();
            let near = StreamId {
                ms: random.random_range(0..=last.ms + 1),
                seq: random.random_range(0..=last.seq + 1),
            };
            let any = model
                .keys()
                .nth(random.random_range(0..=model.len()))
                .copied();
            let id = any.unwrap_or(near);
            match random.random_range(0..10) {
                0..6 => {
                    let id = StreamId {
                        ms: last.ms + random.random_range(0..2) * random.random_range(1..1 << 20),
                        seq: last.seq + random.random_range(1..3),
                    };
                    let words = words(random);
                    let slices: std::vec::Vec<&[u8]> = words.iter().map(|it| &it[..]).collect();
                    stream.append(&limits, id, &slices);
                    model.insert(id, words);
                }
                6..8 => assert_eq!(stream.delete(id), model.remove(&id).is_some()),
                8 => {
                    let (start, end) = (id.min(near), id.max(near));
                    let expected = model.range(start..=end).map(|(id, _)| *id);
                    let expected: std::vec::Vec<_> = expected.collect();
                    let ids = |reverse| stream.range(start, end, reverse).map(|it| it.id);
                    assert!(ids(false).eq(expected.iter().copied()));
                    assert!(ids(true).eq(expected.iter().rev().copied()));
                }
                _ => {
                    let bound = match random.random_bool(0.5) {
                        true => TrimBound::Len(random.random_range(0..=model.len() as u64 + 1)),
                        false => TrimBound::Id(id),
                    };
                    let is_approximate = random.random_bool(0.3);
                    let trim = Trim {
                        bound,
                        is_approximate,
                        limit: u64::from(is_approximate) * random.random_range(0..20),
                    };
                    let trimmed = stream.trim(&trim) as usize;
                    let goes = match bound {
                        TrimBound::Len(len) => model.len().saturating_sub(len as usize),
                        TrimBound::Id(id) => model.range(..id).count(),
                    };
                    assert!(trimmed == goes || is_approximate && trimmed < goes);
                    (0..trimmed).for_each(|_| drop(model.pop_first()));
                }
            }
        }
        check(&stream, &model);
        let copy = stream.rebuild_in(AccountedHeap::new());
        check(&copy, &model);
        assert_eq!(stream.memory_bytes(), heap.used_bytes());
        drop(stream);
        assert_eq!(heap.used_bytes(), 0);
    });
}

#[test]
fn parts_make_the_same_stream_and_changed_parts_none_or_another() {
    for_each_seed(200, |random| {
        let heap = AccountedHeap::new();
        let stream = made(random, &heap);
        assert_eq!(stream.memory_bytes(), heap.used_bytes());
        let mut parts = stream.parts().into_owned();
        let again = StreamObject::of_parts(&parts, &heap);
        assert_eq!(again.map(|it| it.parts().into_owned()), Some(parts.clone()));
        for (_, bytes) in &mut parts.nodes {
            let bytes = bytes.to_mut();
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
        }
        if let Some(stream) = StreamObject::of_parts(&parts, &heap) {
            stream.check_invariants();
        }
    });
}

#[test]
fn what_is_pending_is_found_by_group_and_by_consumer() {
    for_each_seed(100, |random| {
        let heap = AccountedHeap::new();
        let mut group = ConsumerGroup::new(b"g", StreamId::MIN, None, &heap);
        let mut model = BTreeMap::new();
        for _ in 0..1500 {
            let id = StreamId {
                ms: random.random_range(0..1000),
                seq: 0,
            };
            let name = [random.random_range(b'a'..b'e')];
            match random.random_range(0..100) {
                0 => {
                    let count = model.values().filter(|owner| **owner == name).count();
                    let removed = group.remove_consumer(&name).unwrap_or(0);
                    assert_eq!(removed, count);
                    model.retain(|_, owner| *owner != name);
                }
                1..60 => {
                    let (consumer, _) = group.find_or_create(&name, 0);
                    group.set_pending(PendingStreamEntry {
                        id,
                        consumer,
                        delivered_ms: 0,
                        deliveries: 1,
                    });
                    model.insert(id, name);
                }
                _ => assert_eq!(group.acknowledge(id), model.remove(&id).is_some()),
            }
        }
        assert_eq!(group.pending_count(), model.len());
        let from = StreamId { ms: 300, seq: 0 };
        let ids = group.pending_from(from).map(|it| it.id);
        assert!(ids.eq(model.range(from..).map(|(id, _)| *id)));
        for (number, consumer) in group.consumers() {
            let ids = group.pending_of(number, from).map(|it| it.id);
            let own = model
                .range(from..)
                .filter(|(_, owner)| **owner == consumer.name());
            assert!(ids.eq(own.map(|(id, _)| *id)));
        }
    });
}
