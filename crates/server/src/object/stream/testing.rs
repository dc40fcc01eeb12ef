//! Random streams for tests.

use super::{PendingStreamEntry, StreamId, StreamObject, Trim, trim::TrimBound};
use crate::object::ObjectLimits;
use crate::object::testing::bytes;
use nearfield_tiers::AccountedHeap;
use rand::RngExt;
use rand::rngs::SmallRng;

/// Returns random fields and values.
pub fn words(random: &mut SmallRng) -> Vec<Vec<u8>> {
    let count = random.random_range(1..4);
    let word = |random: &mut SmallRng| match random.random_range(0..4) {
        0 => random.random::<i32>().to_string().into_bytes(),
        1 => b"field".to_vec(),
        2 => vec![b'x'; random.random_range(0..6000) >> random.random_range(0..13)],
        _ => bytes(random, 70),
    };
    (0..2 * count).map(|_| word(random)).collect()
}

/// Creates a stream of random entries, some of which are deleted, and groups.
pub fn made(random: &mut SmallRng, heap: &AccountedHeap) -> StreamObject {
    let limits = ObjectLimits {
        stream_node_bytes_max: 1 << random.random_range(6..13),
        stream_node_entries_max: random.random_range(0..10),
        ..ObjectLimits::default()
    };
    let mut stream = StreamObject::new_in(heap.clone());
    let mut ids = Vec::new();
    for _ in 0..random.random_range(0..40) {
        let last = stream.last_id();
        let id = StreamId {
            ms: last.ms + random.random_range(0..3),
            seq: last.seq + random.random_range(1..300),
        };
        let words = words(random);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        stream.append(&limits, id, &words);
        ids.push(id);
        if random.random_bool(0.2) {
            stream.delete(ids[random.random_range(0..ids.len())]);
        }
    }
    if random.random_bool(0.2) {
        stream.trim(&Trim {
            bound: TrimBound::Len(random.random_range(0..40)),
            is_approximate: false,
            limit: 0,
        });
    }
    for name in [&b"g"[..], b"group", b"a"] {
        if random.random_bool(0.6) {
            continue;
        }
        let read = random.random_bool(0.5).then(|| random.random_range(0..100));
        stream.create_group(name, stream.last_id(), read);
        let Some(group) = stream.group_mut(name) else {
            continue;
        };
        for &id in &ids {
            let name = [random.random_range(b'a'..b'd')];
            let (consumer, _) = group.find_or_create(&name, random.random::<i64>() >> 1);
            if random.random_bool(0.5) {
                group.see_active(consumer, random.random::<i64>() >> 1);
            }
            group.set_pending(PendingStreamEntry {
                id,
                consumer,
                delivered_ms: random.random::<i64>() >> 1,
                deliveries: random.random_range(0..1000),
            });
            if random.random_bool(0.2) {
                group.remove_consumer(&name);
            }
        }
    }
    stream
}
