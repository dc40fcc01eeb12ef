//! Tests that written data are read back.

use super::made::{
    entry, items, random_attributes, random_string, random_value, write, write_with,
};
use crate::rdb::{
    Attributes, Dialect, RdbError, RdbItem, RdbReader, RdbUnsupportedPolicy, RdbValue, RdbWriter,
    dump, restore,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::io::{self, Read, Write};

fn random_items(seed: u64) -> Vec<RdbItem> {
    let mut random = SmallRng::seed_from_u64(seed);
    let random = &mut random;
    let mut items = vec![
        RdbItem::Aux(b"redis-ver".to_vec(), random_string(random)),
        RdbItem::Function(random_string(random)),
    ];
    for database in 0..random.random_range(0..3) {
        items.push(RdbItem::Select(database));
        let keys = random.random_range(0..20);
        items.push(RdbItem::ResizeDb {
            keys,
            expires: random.random(),
        });
        for _ in 0..keys {
            let value = random_value(random);
            items.push(entry(
                random_string(random),
                value,
                random_attributes(random),
            ));
        }
    }
    items.push(RdbItem::End);
    items
}

#[test]
fn random_files_come_back() {
    for seed in 0..60 {
        let written = random_items(seed);
        let file = write(&written).unwrap();
        assert!(
            items(&file, RdbUnsupportedPolicy::Refuse).unwrap() == written,
            "seed {seed}"
        );
        // Writing value by value makes the same file as element by element.
        let by_value = write_with(&written, |writer, key, value, attributes| {
            writer.entry(key, value, attributes)
        });
        assert!(by_value.unwrap() == file, "seed {seed}");
    }
}

#[test]
fn random_payloads_come_back() {
    for seed in 0..300 {
        let value = random_value(&mut SmallRng::seed_from_u64(seed));
        for dialect in [Dialect::Redis, Dialect::Valkey] {
            let payload = dump(&value, dialect);
            assert!(restore(&payload).unwrap() == value, "seed {seed}");
        }
    }
}

/// An input that returns a few bytes at a time, and is interrupted now and then.
struct Drops<'a>(&'a [u8], SmallRng);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.random_bool(0.1) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = self.1.random_range(1..5).min(buffer.len());
        self.0.read(&mut buffer[..count])
    }
}

#[test]
fn a_slow_source_changes_nothing() {
    for seed in 0..5 {
        let written = random_items(seed);
        let file = write(&written).unwrap();
        let drops = Drops(&file, SmallRng::seed_from_u64(seed));
        let read: Result<Vec<_>, _> = RdbReader::new(drops, RdbUnsupportedPolicy::Refuse)
            .unwrap()
            .collect();
        assert!(read.unwrap() == written, "seed {seed}");
    }
}

#[test]
fn the_version_is_chosen() {
    for version in 10..=12 {
        let file = RdbWriter::with_version(Vec::new(), version)
            .unwrap()
            .finish()
            .unwrap();
        assert!(file.starts_with(format!("REDIS00{version}").as_bytes()));
        let reader = RdbReader::new(file.as_slice(), RdbUnsupportedPolicy::Refuse).unwrap();
        assert_eq!(reader.version(), version);
    }
    for version in [0, 9, 13] {
        let error = RdbWriter::with_version(Vec::new(), version).err().unwrap();
        assert!(matches!(
            error,
            RdbError::UnknownVersion {
                oldest: 10,
                newest: 12,
                ..
            }
        ));
    }
}

#[test]
fn the_number_of_elements_is_kept() {
    let attributes = Attributes::default();
    let mut writer = RdbWriter::new(Vec::new()).unwrap();
    assert!(matches!(
        writer.element(b"a"),
        Err(RdbError::OutOfPlace {
            call: "element",
            remaining: 0,
            offset: 9
        })
    ));
    assert!(matches!(
        writer.score(1.0),
        Err(RdbError::OutOfPlace { call: "score", .. })
    ));
    writer.begin_hash(b"h", 1, attributes).unwrap();
    assert!(matches!(
        writer.score(1.0),
        Err(RdbError::OutOfPlace { remaining: 2, .. })
    ));
    writer.element(b"f").unwrap();
    // The number of elements left is odd, but a hash needs no score.
    assert!(matches!(
        writer.score(1.0),
        Err(RdbError::OutOfPlace { remaining: 1, .. })
    ));
    for result in [
        writer.select(1),
        writer.aux(b"a", b"b"),
        writer.function(b"f"),
        writer.resize(1, 1),
        writer.string(b"s", b"s", attributes),
        writer.begin_list(b"l", 1, attributes),
    ] {
        assert!(matches!(
            result,
            Err(RdbError::OutOfPlace { remaining: 1, .. })
        ));
    }
    writer.element(b"v").unwrap();
    assert!(matches!(
        writer.element(b"a"),
        Err(RdbError::OutOfPlace { .. })
    ));
    writer.begin_sorted_set(b"z", 1, attributes).unwrap();
    assert!(matches!(
        writer.score(1.0),
        Err(RdbError::OutOfPlace { remaining: 2, .. })
    ));
    writer.element(b"m").unwrap();
    assert!(matches!(
        writer.element(b"m"),
        Err(RdbError::OutOfPlace { remaining: 1, .. })
    ));
    writer.score(1.0).unwrap();
    writer.begin_set(b"s", 1, attributes).unwrap();
    assert!(matches!(
        writer.finish(),
        Err(RdbError::OutOfPlace {
            call: "finish",
            remaining: 1,
            ..
        })
    ));
}

#[test]
fn what_is_not_a_number_is_no_score() {
    let attributes = Attributes::default();
    let mut writer = RdbWriter::new(Vec::new()).unwrap();
    let value = RdbValue::SortedSet(vec![(b"m".to_vec(), f64::NAN)]);
    let error = writer.entry(b"z", &value, attributes).unwrap_err();
    assert!(
        matches!(error, RdbError::BadScore { offset: 15, .. }),
        "{error}"
    );
}

/// An output that takes this many bytes and then fails.
struct FullRdbOutput(usize);

impl Write for FullRdbOutput {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count = buffer.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told() {
    let attributes = Attributes::default();
    let mut writer = RdbWriter::new(FullRdbOutput(100)).unwrap();
    let error = writer
        .string(b"k", &[b'v'; 100_000], attributes)
        .unwrap_err();
    assert!(
        matches!(&error, RdbError::Io { source, .. }
        if source.kind() == io::ErrorKind::StorageFull),
        "{error}"
    );
    let mut writer = RdbWriter::new(FullRdbOutput(30)).unwrap();
    writer.string(b"k", &[b'v'; 100], attributes).unwrap();
    assert!(matches!(writer.finish(), Err(RdbError::Io { .. })));
}
