//! Tests that the seed inputs of fuzzing hold what their names say.

use crate::rdb::{RdbItem, RdbReader, RdbUnsupportedPolicy, RdbValue};
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/rdb");
/// The forms of streams.
const STREAMS: [(&str, u8); 3] = [
    ("stream-listpacks", 15),
    ("stream-listpacks-2", 19),
    ("stream-listpacks-3", 21),
];

/// Reads the seed as the fuzz target `rdb` does: the type and a choice in one byte, then the value.
#[test]
fn there_is_a_stream_of_each_form() {
    for (name, type_byte) in STREAMS {
        let seed = std::fs::read(Path::new(FOLDER).join(name)).unwrap();
        let (choice, body) = seed.split_first().unwrap();
        assert_eq!((choice >> 2, choice % 4), (type_byte, 3), "{name}");
        let head = [&b"REDIS0012"[..], &[type_byte, 1, b'k']].concat();
        let file = [&head, body, b"\xff", &[0; 8]].concat();
        let reader = RdbReader::new(file.as_slice(), RdbUnsupportedPolicy::Refuse).unwrap();
        let items: Result<Vec<_>, _> = reader.collect();
        let items = items.unwrap_or_else(|error| panic!("{name}: {error}"));
        let Some(RdbItem::Entry {
            value: RdbValue::Stream(parts),
            ..
        }) = items.first()
        else {
            panic!("no stream in {name}: {items:?}");
        };
        assert_eq!(parts.len, 7, "{name}");
        let consumers = parts.groups.iter().flat_map(|group| &group.consumers);
        let idlers = consumers.clone().filter(|it| it.active_ms.is_none());
        assert_eq!(idlers.count(), usize::from(type_byte == 21), "{name}");
        let pending: usize = consumers.map(|consumer| consumer.pending.len()).sum();
        assert_eq!((parts.groups.len(), pending), (2, 3), "{name}");
    }
}
