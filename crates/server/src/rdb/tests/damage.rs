//! Damaged files and payloads result in an error, never in a panic, and never in a wrong value if
//! the data have a checksum.

use super::made::{
    entry, file, items, listpack, random_attributes, random_value, string, write, ziplist,
};
use crate::rdb::{
    Attributes, Dialect, RdbError, RdbItem, RdbReader, RdbUnsupportedPolicy, RdbValue, checksum,
    dump, restore, restore_functions, restore_within,
};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::io::{self, Read};

/// Returns a stream of one entry that a consumer has pending.
fn stream() -> Vec<u8> {
    let master: [&[u8]; 5] = [b"\x01", b"\x00", b"\x01", b"\x81f", b"\x00"];
    let entry: [&[u8]; 5] = [b"\x02", b"\x00", b"\x00", b"\x81v", b"\x04"];
    let node = string(&listpack(&[master, entry].concat()));
    let (id, time) = (b"ABCDEFGHABCDEFGH", b"timetime");
    let last = b"\x81ABCDEFGH\x81ABCDEFGH";
    let counters = b"\x00\x00\x00\x00\x05\x01\x01g\x00\x00\x03\x01";
    let consumer = b"\x01\x01\x01c";
    let parts: [&[u8]; 10] = [
        b"\x01\x10",
        id,
        &node,
        b"\x01",
        last,
        counters,
        id,
        time,
        consumer,
        time,
    ];
    [&parts.concat()[..], b"\x01", id].concat()
}

/// Returns every type in every form, within a few hundred bytes.
fn samples() -> Vec<u8> {
    let packed = listpack(&[b"\x82ab", b"\x05", b"\x81c", b"\xc1\x00"]);
    let older = ziplist(&[b"\x02ab", b"\xf6", b"\x01c", b"\xc0\x00\x01"]);
    let values: Vec<(u8, Vec<u8>)> = vec![
        (0, b"\xc3\x05\x40\x64\x00a\xe0\x5a\x00".to_vec()),
        (0, b"\xc2\x00\x00\x00\x80".to_vec()),
        (1, b"\x02\x01a\xc1\x00\x01".to_vec()),
        (2, b"\x01\x01a".to_vec()),
        (3, b"\x02\x01a\x011\x01b\xfe".to_vec()),
        (4, b"\x01\x01f\x01v".to_vec()),
        (5, [b"\x01\x01a", 1.5_f64.to_le_bytes().as_slice()].concat()),
        (7, b"\x81MODULEID\x01\x02\x03fltt\x05\x02hi\x00".to_vec()),
        (9, string(b"\x01\x01f\x01\x01v?\xff")),
        (10, string(&older)),
        (11, string(b"\x02\0\0\0\x02\0\0\0\xff\xff\x00\x01")),
        (12, string(&older)),
        (13, string(&older)),
        (14, [b"\x01", string(&older).as_slice()].concat()),
        (16, string(&packed)),
        (17, string(&packed)),
        (
            18,
            [b"\x02\x01\x01p\x02", string(&packed).as_slice()].concat(),
        ),
        (19, stream()),
        (20, string(&packed)),
        (24, b"timetime\x01\x05\x01g\x01w".to_vec()),
    ];
    let mut body = b"\xfa\x01a\x01b\xf5\x04code\xfe\x00\xfb\x10\x01".to_vec();
    for (type_byte, value) in values {
        body.extend_from_slice(b"\xfc\x01\x02\x00\x00\x00\x00\x00\x00\xf8\x05\xf9\x01");
        body.extend_from_slice(&[type_byte, 1, b'k']);
        body.extend_from_slice(&value);
    }
    file(&body)
}

fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    file.truncate(file.len() - 8);
    let checksum = checksum::of(&file);
    file.extend_from_slice(&checksum.to_le_bytes());
    file
}

#[test]
fn every_prefix_is_cut_off() {
    let whole = sealed(samples());
    assert!(items(&whole, RdbUnsupportedPolicy::Skip).is_ok());
    for length in 0..whole.len() {
        let error = items(&whole[..length], RdbUnsupportedPolicy::Skip).unwrap_err();
        assert!(
            matches!(error, RdbError::Truncated { offset } if offset == length as u64),
            "{length} bytes: {error}"
        );
    }
}

#[test]
fn every_flipped_byte_is_found() {
    let whole = sealed(samples());
    let right = items(&whole, RdbUnsupportedPolicy::Skip).unwrap();
    for position in 0..whole.len() {
        for flip in [0x01, 0x10, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[position] ^= flip;
            let Ok(read) = items(&damaged, RdbUnsupportedPolicy::Skip) else {
                continue;
            };
            // The flip turned version 12 into 2, whose files have no checksum.
            assert_eq!(position, 7, "{flip:#x} is not found");
            assert!(read == right);
        }
    }
    let mut damaged = whole.clone();
    // The flip hits the code of the library, which only the checksum protects.
    damaged[17] ^= 1;
    let error = items(&damaged, RdbUnsupportedPolicy::Skip).unwrap_err();
    let trailer = whole.len() as u64 - 8;
    assert!(
        matches!(error, RdbError::ChecksumMismatch { offset, .. } if offset == trailer),
        "{error}"
    );
}

#[test]
fn damage_without_a_checksum_is_survived() {
    let whole = samples();
    assert!(items(&whole, RdbUnsupportedPolicy::Skip).is_ok());
    // A seed has a third of the bytes at each position, and three in a row have all.
    seeds::each(1, |seed| {
        for position in 0..whole.len() - 8 {
            for byte in (0..=255).skip((position + seed as usize) % 3).step_by(3) {
                let mut damaged = whole.clone();
                damaged[position] = byte;
                // A value and an error are both right, because the reader cannot tell.
                let _ = items(&damaged, RdbUnsupportedPolicy::Skip);
            }
        }
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..1000 {
            let mut damaged = whole.clone();
            for _ in 0..random.random_range(2..6) {
                let position = random.random_range(9..damaged.len());
                damaged[position] = random.random();
            }
            let _ = items(&damaged, RdbUnsupportedPolicy::Skip);
        }
    });
}

#[test]
fn damaged_files_of_our_own_are_refused() {
    let mut random = SmallRng::seed_from_u64(1);
    let random = &mut random;
    let mut written: Vec<_> = (0..3)
        .map(|_| {
            entry(
                b"key".to_vec(),
                random_value(random),
                random_attributes(random),
            )
        })
        .collect();
    written.push(RdbItem::End);
    let whole = write(&written).unwrap();
    for _ in 0..500 {
        let position = random.random_range(0..whole.len());
        let mut damaged = whole.clone();
        damaged[position] ^= random.random_range(1..=255);
        assert!(
            items(&damaged, RdbUnsupportedPolicy::Refuse).is_err(),
            "byte {position}"
        );
        assert!(
            items(&whole[..position], RdbUnsupportedPolicy::Refuse).is_err(),
            "{position} bytes"
        );
    }
}

#[test]
fn lengths_are_not_believed() {
    let lengths: [&[u8]; 3] = [
        b"\x80\xff\xff\xff\xff",
        b"\x81\x00\x00\xff\xff\xff\xff\xff\xff",
        b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    for length in lengths {
        for type_byte in [
            0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 24,
        ] {
            let body = [&[type_byte, 1, b'k'], length, b"\x01a\x01b"].concat();
            for unsupported in [RdbUnsupportedPolicy::Refuse, RdbUnsupportedPolicy::Skip] {
                assert!(
                    items(&file(&body), unsupported).is_err(),
                    "type {type_byte}"
                );
            }
        }
        // The length of the decompressed form of 3 bytes.
        let body = [b"\x00\x01k\xc3\x03", length, b"\x01ab"].concat();
        let error = items(&file(&body), RdbUnsupportedPolicy::Refuse).unwrap_err();
        assert!(
            matches!(error, RdbError::BadCompression { offset: 12, .. }),
            "{error}"
        );
    }
}

#[test]
fn payloads_are_checked() {
    let value = RdbValue::Hash(vec![(b"f".to_vec(), b"v".to_vec())]);
    let whole = dump(&value, Dialect::Redis);
    for length in 0..whole.len() {
        assert!(restore(&whole[..length]).is_err(), "{length} bytes");
    }
    for position in 0..whole.len() {
        for flip in 1..=255 {
            let mut damaged = whole.clone();
            damaged[position] ^= flip;
            assert!(restore(&damaged).is_err(), "{flip:#x} at {position}");
        }
    }
    let sealed = |body: &[u8]| [body, &checksum::of(body).to_le_bytes()].concat();
    assert_eq!(
        restore(&sealed(b"\x04\x01\x01f\x01v\x0c\x00")).unwrap(),
        value
    );
    type Check = fn(&RdbError) -> bool;
    let wrong: [(&[u8], Check); 6] = [
        (b"\x04\x01\x01f\x01v\x0d\x00", |error| {
            matches!(
                error,
                RdbError::UnknownVersion {
                    version: 13,
                    offset: 6,
                    ..
                }
            )
        }),
        (b"\x04\x01\x01f\x01v?\x0a\x00", |error| {
            matches!(
                error,
                RdbError::BadLength {
                    length: 1,
                    offset: 6,
                    ..
                }
            )
        }),
        (b"\x04\x00\x0a\x00", |error| {
            matches!(error, RdbError::EmptyContainer { .. })
        }),
        (b"\x04\x01\x01f\x0a\x00", |error| {
            matches!(error, RdbError::Truncated { offset: 4 })
        }),
        (b"\x07\x00\x0a\x00", |error| {
            matches!(error, RdbError::Unsupported { type_byte: 7, .. })
        }),
        (b"\x0a\x00", |error| {
            matches!(error, RdbError::Truncated { offset: 0 })
        }),
    ];
    for (body, expected) in wrong {
        let error = restore(&sealed(body)).unwrap_err();
        assert!(expected(&error), "{body:?}: {error}");
    }
    // Five bytes say that they expand to 265.
    let expands = sealed(b"\x00\xc3\x05\x41\x09\x00a\xe0\xff\x00\x0a\x00");
    let restored = restore_within(&expands, 265).unwrap();
    assert_eq!(restored, RdbValue::String(vec![b'a'; 265]));
    let refused = restore_within(&expands, 264);
    assert!(matches!(refused, Err(RdbError::NoRoom { length: 265, .. })));
    let expands = sealed(b"\xf5\xc3\x05\x80\x05\x00\x00\x00\x00a\xe0\xff\x00\x0a\x00");
    let refused = restore_functions(&expands);
    assert!(
        matches!(refused, Err(RdbError::NoRoom { .. })),
        "{refused:?}"
    );
    // A missing checksum is a wrong one.
    let unsummed = [b"\x04\x01\x01f\x01v\x0a\x00".as_slice(), &[0; 8]].concat();
    assert!(matches!(
        restore(&unsummed),
        Err(RdbError::ChecksumMismatch { stored: 0, .. })
    ));
}

/// An input that fails at the second read.
struct BrokenRdbInput<'a>(Option<&'a [u8]>);

impl Read for BrokenRdbInput<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.take().ok_or(io::ErrorKind::ConnectionReset)?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

#[test]
fn a_failing_source_is_told_from_a_short_one() {
    let whole = write(&[entry(
        b"k".to_vec(),
        RdbValue::String(b"v".to_vec()),
        Attributes::default(),
    )]);
    let whole = whole.unwrap();
    let part = &whole[..whole.len() - 10];
    let reader = RdbReader::new(BrokenRdbInput(Some(part)), RdbUnsupportedPolicy::Refuse).unwrap();
    let error = reader.collect::<Result<Vec<_>, _>>().unwrap_err();
    assert!(
        matches!(&error, RdbError::Io { source, offset }
            if source.kind() == io::ErrorKind::ConnectionReset && *offset == part.len() as u64),
        "{error}"
    );
}
