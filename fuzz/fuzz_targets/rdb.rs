//! No snapshot and no payload makes the reader panic, and accepted content is the same after it is
//! written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_server::object::stream::NEVER_ACTIVE;
use nearfield_server::rdb::{
    Attributes, Dialect, RdbError, RdbItem, RdbReader, RdbUnsupportedPolicy, RdbValue, RdbWriter,
    dump, restore,
};

const DIALECTS: [Dialect; 2] = [Dialect::Redis, Dialect::Valkey];

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    match choice % 4 {
        0 => check(bytes, RdbUnsupportedPolicy::Refuse),
        1 => check_payload(bytes),
        2 => check(&file(bytes), RdbUnsupportedPolicy::Skip),
        _ => {
            let entry = [&[choice >> 2, 1, b'k'], bytes].concat();
            check(&file(&entry), RdbUnsupportedPolicy::Skip);
        }
    }
});

/// Adds the header and a checksum of 0, which is not checked, so that the input need not guess
/// them.
fn file(body: &[u8]) -> Vec<u8> {
    [b"REDIS0012", body, b"\xff", &[0; 8]].concat()
}

/// Reads a file to its end or its first error, and writes the content again.
fn check(file: &[u8], unsupported: RdbUnsupportedPolicy) {
    let Ok(reader) = RdbReader::new(file, unsupported) else {
        return;
    };
    let mut items: Vec<_> = reader.map_while(Result::ok).map(as_written).collect();
    if items.last() != Some(&RdbItem::End) {
        items.push(RdbItem::End);
    }
    for dialect in DIALECTS {
        let written = write(&items, dialect).expect("what was read can be written");
        let reader =
            RdbReader::new(written.as_slice(), RdbUnsupportedPolicy::Refuse).expect("a header");
        let again: Result<Vec<_>, _> = reader.collect();
        assert_eq!(again.expect("a file of our own"), items);
    }
}

fn check_payload(payload: &[u8]) {
    if let Ok(mut value) = restore(payload) {
        forget_active_times(&mut value);
        check_value(&value);
    }
}

fn as_written(mut item: RdbItem) -> RdbItem {
    if let RdbItem::Entry { value, .. } = &mut item {
        forget_active_times(value);
    }
    item
}

/// Clears the times at which consumers were active, which the written form of streams does not
/// contain.
fn forget_active_times(value: &mut RdbValue) {
    if let RdbValue::Stream(parts) = value {
        let groups = parts.groups.iter_mut();
        for consumer in groups.flat_map(|group| &mut group.consumers) {
            consumer.active_ms = (consumer.seen_ms != NEVER_ACTIVE).then_some(consumer.seen_ms);
        }
    }
}

fn check_value(value: &RdbValue) {
    for dialect in DIALECTS {
        let again = restore(&dump(value, dialect));
        assert_eq!(&again.expect("a payload of our own"), value);
    }
}

fn write(items: &[RdbItem], dialect: Dialect) -> Result<Vec<u8>, RdbError> {
    let mut writer = RdbWriter::with_dialect(Vec::new(), dialect)?;
    for item in items {
        match item {
            RdbItem::Aux(key, value) => writer.aux(key, value)?,
            RdbItem::Function(code) => writer.function(code)?,
            RdbItem::Select(database) => writer.select(*database)?,
            RdbItem::ResizeDb { keys, expires } => writer.resize(*keys, *expires)?,
            RdbItem::Entry {
                key,
                value,
                expires_at_ms,
                idle_s,
                frequency,
            } => {
                let attributes = Attributes {
                    expires_at_ms: *expires_at_ms,
                    idle_s: *idle_s,
                    frequency: *frequency,
                };
                writer.entry(key, value, attributes)?;
                check_value(value);
            }
            _ => {}
        }
    }
    writer.finish()
}
