//! The payloads of `DUMP` and `RESTORE`: a value as in a snapshot, its version as two bytes, and
//! the checksum of all that.

use super::error::Error;
use super::format::{READ_VERSIONS, Value, WRITE_VERSIONS, check_version, kind};
use super::reader::unsupported;
use super::sink::Sink;
use super::source::Source;
use super::{checksum, decode, encode};

/// Puts a value into a payload that every Redis 7 restores.
///
/// ```
/// use nearfield_server::rdb::{Value, dump, restore};
///
/// let value = Value::List(vec![b"a".to_vec(), b"b".to_vec()]);
/// assert_eq!(restore(&dump(&value))?, value);
/// # Ok::<(), nearfield_server::rdb::Error>(())
/// ```
///
/// # Panics
/// If a score is not a number.
pub fn dump(value: &Value) -> Vec<u8> {
    payload(value).unwrap_or_else(|error| panic!("memory takes what is a value: {error}"))
}

fn payload(value: &Value) -> Result<Vec<u8>, Error> {
    let mut sink = Sink::new(Vec::new());
    sink.u8(encode::type_byte(value))?;
    encode::write(value, &mut sink)?;
    let [low, high, ..] = WRITE_VERSIONS.start().to_le_bytes();
    sink.bytes(&[low, high])?;
    sink.finish()
}

/// Takes a value out of a payload that [`dump`] or a Redis up to 7.4 has made.
///
/// A checksum of 0 is not accepted for want of one, unlike at the end of a snapshot; Redis makes
/// the same difference.
///
/// # Errors
/// `UnknownVersion` of a newer Redis; `ChecksumMismatch`; `Truncated`, `BadLength`, `BadEncoding`,
/// `BadCompression`, `BadScore` and `EmptyContainer` if it is intact and yet no value;
/// `Unsupported` for values of modules and hashes whose fields expire.
pub fn restore(payload: &[u8]) -> Result<Value, Error> {
    let truncated = Error::Truncated {
        offset: payload.len() as u64,
    };
    let Some((summed, stored)) = payload.split_last_chunk() else {
        return Err(truncated);
    };
    let Some((body, version)) = summed.split_last_chunk() else {
        return Err(truncated);
    };
    let version = u32::from(u16::from_le_bytes(*version));
    check_version(version, READ_VERSIONS, body.len() as u64)?;
    let (stored, computed) = (u64::from_le_bytes(*stored), checksum::of(summed));
    if stored != computed {
        return Err(Error::ChecksumMismatch {
            stored,
            computed,
            offset: summed.len() as u64,
        });
    }
    let mut source = Source::of_bytes(body, body.len());
    let type_byte = source.u8()?;
    if let Some(kind) = kind::unsupported(type_byte) {
        return Err(unsupported(b"", kind, type_byte, 0));
    }
    let value = decode::read(type_byte, 0, &mut source)?;
    let offset = source.offset();
    if offset != body.len() as u64 {
        return Err(Error::BadLength {
            what: "bytes behind the value",
            length: body.len() as u64 - offset,
            offset,
        });
    }
    if value.is_empty_container() {
        return Err(Error::EmptyContainer { offset: 0 });
    }
    Ok(value)
}
