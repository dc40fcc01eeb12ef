//! `DEBUG DIGEST`: a hash of all keys and values, the same as that of Redis for the same data.
//!
//! Ordered data are *mixed* into a digest: their SHA-1 is combined with the digest by XOR, and the
//! digest is replaced by the SHA-1 of the result. Unordered data are only combined.

use crate::command::{Answer, CommandCall};
use crate::error::CommandError;
use crate::hexadecimal::hex;
use crate::keyspace::{DATABASES, DatabaseKeys, KeyMetadata, KeyView};
use crate::object::{RedisType, StoredObject, StreamId};
use sha1::{Digest as _, Sha1};
use std::ops::Bound;

const BYTES: usize = 20;

#[derive(Clone, Copy, Default)]
struct DebugDigest([u8; BYTES]);

impl DebugDigest {
    /// Adds unordered data.
    fn combine(&mut self, bytes: &[u8]) {
        let hash: [u8; BYTES] = Sha1::digest(bytes).into();
        self.0.iter_mut().zip(hash).for_each(|(own, it)| *own ^= it);
    }

    /// Adds ordered data.
    fn mix(&mut self, bytes: &[u8]) {
        self.combine(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn of_pair(first: &[u8], second: &[u8]) -> DebugDigest {
        let mut digest = DebugDigest::default();
        digest.mix(first);
        digest.mix(second);
        digest
    }
}

pub(super) fn all(call: &mut CommandCall<'_>) -> Answer {
    let mut digest = DebugDigest::default();
    let before = call.keys.database_number();
    for number in 0..DATABASES {
        call.keys.select(number);
        let bounds = (Bound::Unbounded, Bound::Unbounded);
        // The names are collected first, because the range borrows the keys.
        let names = call.keys.range(bounds)?.map(|entry| Ok(entry?.0.to_vec()));
        let names: Vec<_> = names.collect::<Result<_, nearfield::OperationError>>()?;
        if !names.is_empty() {
            // As in Redis, in network byte order, and only for databases with keys.
            digest.mix(&(number as u32).to_be_bytes());
        }
        for name in names {
            if let Some(found) = call.keys.peek(&name)? {
                let mut of_key = DebugDigest::default();
                of_key.mix(&name);
                add_value(&mut call.keys, &name, &found, &mut of_key)?;
                digest.combine(&of_key.0);
            }
        }
    }
    call.keys.select(before);
    call.reply.simple(&hex(&digest.0));
    Ok(())
}

pub(super) fn values(call: &mut CommandCall<'_>) -> Answer {
    call.reply.array(call.rest(2).len());
    for &key in call.rest(2) {
        let mut digest = DebugDigest::default();
        if let Some(found) = call.keys.peek(key)? {
            add_value(&mut call.keys, key, &found, &mut digest)?;
        }
        call.reply.simple(&hex(&digest.0));
    }
    Ok(())
}

/// Returns the number of a type in Redis.
fn type_number(kind: RedisType) -> u32 {
    match kind {
        RedisType::String => 0,
        RedisType::List => 1,
        RedisType::Set => 2,
        RedisType::SortedSet => 3,
        RedisType::Hash => 4,
        // Number 5 is that of values of modules.
        RedisType::Stream => 6,
    }
}

fn add_value(
    keys: &mut DatabaseKeys<'_>,
    key: &[u8],
    found: &KeyMetadata,
    digest: &mut DebugDigest,
) -> Result<(), CommandError> {
    digest.mix(&type_number(found.kind).to_be_bytes());
    if found.kind == RedisType::String {
        let value = keys.string(key)?.unwrap_or_default();
        digest.mix(&value);
    } else {
        keys.read_object(key, found, |object| add_object(object, digest))?;
    }
    if found.expires_at_ms.is_some() {
        digest.combine(b"!!expire!!");
    }
    Ok(())
}

fn add_object(object: &StoredObject, digest: &mut DebugDigest) {
    match object {
        StoredObject::Text(text) => digest.mix(text.bytes()),
        StoredObject::List(list) => list.iter().for_each(|element| digest.mix(element)),
        StoredObject::Set(set) => set.iter().for_each(|member| digest.combine(&member)),
        StoredObject::Hash(hash) => hash.iter().for_each(|(field, value)| {
            digest.combine(&DebugDigest::of_pair(field, value).0);
        }),
        StoredObject::SortedSet(sorted_set) => {
            for (member, score) in sorted_set.range(0..sorted_set.len(), false) {
                let score = seventeen_digits(score);
                digest.combine(&DebugDigest::of_pair(member, score.as_bytes()).0);
            }
        }
        StoredObject::Stream(stream) => {
            for entry in stream.range(StreamId::MIN, StreamId::MAX, false) {
                let StreamId { ms, seq } = entry.id;
                digest.mix(format!("{ms}.{seq}").as_bytes());
                entry.for_each(|field, value| {
                    digest.mix(field);
                    digest.mix(value);
                });
            }
        }
    }
}

/// Formats a number as C's `%.17g` does.
fn seventeen_digits(value: f64) -> String {
    const DIGITS: i32 = 17;
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // One digit before the point and 16 after it. C chooses the form by the exponent after
    // rounding.
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mantissa = without_zeros(mantissa);
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::seventeen_digits;

    #[test]
    fn numbers_have_seventeen_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (7.25, "7.25"),
            (0.1, "0.10000000000000001"),
            (-1234.5, "-1234.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1.5e300, "1.5000000000000001e+300"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(seventeen_digits(value), text);
        }
    }
}
