//! Packed values and files made by hand, and random values.

use crate::object::stream::NEVER_ACTIVE;
use crate::object::stream::testing::made;
use crate::rdb::{
    Attributes, RdbItem, RdbReader, RdbResult, RdbUnsupportedPolicy, RdbValue, RdbWriter,
    TimedField,
};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};

/// Builds a listpack of `entries`, each of which is a form with all its bytes.
pub fn listpack(entries: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
    for entry in entries {
        bytes.extend_from_slice(entry);
        // As in Redis, the number of groups follows from its own limits.
        let length = entry.len();
        let groups = 1 + [127, 16_382, 2_097_150, 268_435_454]
            .iter()
            .filter(|&&limit| length > limit)
            .count();
        for group in (0..groups).rev() {
            let bits = (length >> (7 * group)) as u8 & 0x7f;
            bytes.push(if group + 1 == groups {
                bits
            } else {
                bits | 0x80
            });
        }
    }
    bytes.push(0xff);
    sized(bytes)
}

pub fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
    let mut length_before = 0;
    let mut last = bytes.len();
    for entry in entries {
        last = bytes.len();
        if length_before < 254 {
            bytes.push(length_before as u8);
        } else {
            bytes.push(0xfe);
            bytes.extend_from_slice(&(length_before as u32).to_le_bytes());
        }
        bytes.extend_from_slice(entry);
        length_before = bytes.len() - last;
    }
    bytes.push(0xff);
    bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
    sized(bytes)
}

fn sized(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Returns a string as in a file, in no shorter form than its length allows.
pub fn string(bytes: &[u8]) -> Vec<u8> {
    let mut string = vec![0x80];
    string.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    string.extend_from_slice(bytes);
    string
}

/// Returns a file of version 12 without a checksum, whose only content is `body`.
pub fn file(body: &[u8]) -> Vec<u8> {
    [b"REDIS0012", body, b"\xff", &[0; 8]].concat()
}

/// Reads the value of type `type_byte` that `body` holds.
pub fn value(type_byte: u8, body: &[u8]) -> RdbResult<RdbValue> {
    let file = file(&[&[type_byte, 1, b'k'], body].concat());
    let mut reader = RdbReader::new(file.as_slice(), RdbUnsupportedPolicy::Refuse)?;
    let item = reader.next().unwrap()?;
    let RdbItem::Entry { key, value, .. } = item else {
        panic!("{item:?} in place of an entry");
    };
    assert_eq!(key, b"k");
    assert_eq!(reader.next().unwrap()?, RdbItem::End);
    assert!(reader.next().is_none());
    Ok(value)
}

pub fn items(file: &[u8], unsupported: RdbUnsupportedPolicy) -> RdbResult<Vec<RdbItem>> {
    RdbReader::new(file, unsupported)?.collect()
}

/// Returns a string of one of the lengths and kinds between which forms change.
pub fn random_string(random: &mut impl Rng) -> Vec<u8> {
    match random.random_range(0..8) {
        0 => random.random_range(-200..200_i64).to_string().into_bytes(),
        1 => random.random::<i16>().to_string().into_bytes(),
        2 => i64::from(random.random::<i32>())
            .saturating_mul(2)
            .to_string()
            .into_bytes(),
        3 => vec![b'a'; random.random_range(60..70)],
        4 => vec![b'b'; random.random_range(16_380..16_390)],
        5 => {
            // Some are longer than the buffer.
            let length = random.random_range(0..100_000) >> random.random_range(0..17);
            (0..length).map(|_| random.random()).collect()
        }
        _ => (0..random.random_range(0..20))
            .map(|_| random.random())
            .collect(),
    }
}

fn random_score(random: &mut impl Rng) -> f64 {
    match random.random_range(0..5) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => random.random_range(-1000..1000).into(),
        3 => random.random::<f64>() * 1e300,
        _ => random.random(),
    }
}

/// Returns a value that is not an empty container.
pub fn random_value(random: &mut SmallRng) -> RdbValue {
    let count = 1 + (random.random_range(0..300) >> random.random_range(0..9));
    match random.random_range(0..7) {
        6 => {
            let mut fields: Vec<TimedField> = (0..count)
                .map(|_| {
                    let time_ms = random
                        .random_bool(0.5)
                        .then(|| random.random_range(1..1 << 46));
                    (random_string(random), random_string(random), time_ms)
                })
                .collect();
            // A hash in which no field expires would be a plain one.
            fields[0].2 = Some(1);
            RdbValue::TimedHash(fields)
        }
        4 => {
            let stream = made(random, &nearfield_tiers::AccountedHeap::new());
            let mut parts = stream.parts().into_owned();
            for consumer in parts.groups.iter_mut().flat_map(|it| &mut it.consumers) {
                // Only the time of the last request is written.
                consumer.active_ms = Some(consumer.seen_ms).filter(|&time| time != NEVER_ACTIVE);
            }
            RdbValue::Stream(Box::new(parts))
        }
        0 => RdbValue::String(random_string(random)),
        1 => RdbValue::List((0..count).map(|_| random_string(random)).collect()),
        2 => RdbValue::Set((0..count).map(|_| random_string(random)).collect()),
        3 => {
            let fields = (0..count).map(|_| (random_string(random), random_string(random)));
            RdbValue::Hash(fields.collect())
        }
        _ => {
            let members = (0..count).map(|_| (random_string(random), random_score(random)));
            RdbValue::SortedSet(members.collect())
        }
    }
}

pub fn random_attributes(random: &mut SmallRng) -> Attributes {
    Attributes {
        expires_at_ms: random.random_bool(0.3).then(|| random.random::<u64>() >> 1),
        idle_s: random
            .random_bool(0.2)
            .then(|| random.random::<u64>() >> random.random_range(0..64)),
        frequency: random.random_bool(0.2).then(|| random.random()),
    }
}

pub fn entry(key: Vec<u8>, value: RdbValue, attributes: Attributes) -> RdbItem {
    RdbItem::Entry {
        key,
        value,
        expires_at_ms: attributes.expires_at_ms,
        idle_s: attributes.idle_s,
        frequency: attributes.frequency,
    }
}

/// Writes `items` through the calls that take one element each.
pub fn write(items: &[RdbItem]) -> RdbResult<Vec<u8>> {
    write_with(items, write_by_element)
}

/// Writes `items`, and the entries among them by a function.
pub fn write_with(
    items: &[RdbItem],
    entry: impl Fn(&mut RdbWriter<Vec<u8>>, &[u8], &RdbValue, Attributes) -> RdbResult<()>,
) -> RdbResult<Vec<u8>> {
    let mut writer = RdbWriter::new(Vec::new())?;
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
                entry(&mut writer, key, value, attributes)?;
            }
            RdbItem::End => {}
        }
    }
    writer.finish()
}

fn write_by_element(
    writer: &mut RdbWriter<Vec<u8>>,
    key: &[u8],
    value: &RdbValue,
    attributes: Attributes,
) -> RdbResult<()> {
    match value {
        RdbValue::String(bytes) => writer.string(key, bytes, attributes)?,
        RdbValue::List(elements) => {
            writer.begin_list(key, elements.len() as u64, attributes)?;
            elements
                .iter()
                .try_for_each(|element| writer.element(element))?;
        }
        RdbValue::Set(members) => {
            writer.begin_set(key, members.len() as u64, attributes)?;
            members
                .iter()
                .try_for_each(|member| writer.element(member))?;
        }
        RdbValue::Hash(fields) => {
            writer.begin_hash(key, fields.len() as u64, attributes)?;
            for (field, value) in fields {
                writer.element(field)?;
                writer.element(value)?;
            }
        }
        RdbValue::TimedHash(fields) => {
            let soonest = fields.iter().filter_map(|(_, _, time_ms)| *time_ms).min();
            let count = fields.len() as u64;
            writer.begin_timed_hash(key, count, soonest.unwrap_or(0), attributes)?;
            for (field, value, time_ms) in fields {
                writer.timed_field(field, value, *time_ms)?;
            }
        }
        RdbValue::Stream(parts) => writer.stream(key, parts, attributes)?,
        RdbValue::SortedSet(members) => {
            writer.begin_sorted_set(key, members.len() as u64, attributes)?;
            for (member, score) in members {
                writer.element(member)?;
                writer.score(*score)?;
            }
        }
    }
    Ok(())
}
