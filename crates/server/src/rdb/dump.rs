//! The payloads of `DUMP` and `RESTORE`: a value as in a snapshot, its version in two bytes, and
//! the checksum of both.

use super::error::{RdbError, RdbResult};
use super::format::{
    Dialect, READ_VALKEY_VERSIONS, READ_VERSIONS, RdbValue, TIMED_VERSION, VALKEY_VERSION,
    WRITE_VERSIONS, check_version, kind, opcode,
};
use super::reader::{OF_CANDIDATE, unsupported};
use super::sink::RdbSink;
use super::source::RdbSource;
use super::{checksum, decode, encode};

/// Encodes a value as a payload that every Redis 7 and Valkey restores. A hash with fields that
/// expire is restored by Redis from 7.4 on or by Valkey from 9 on.
///
/// ```
/// use nearfield_server::rdb::{Dialect, RdbValue, dump, restore};
///
/// let value = RdbValue::List(vec![b"a".to_vec(), b"b".to_vec()]);
/// assert_eq!(restore(&dump(&value, Dialect::Redis))?, value);
/// # Ok::<(), nearfield_server::rdb::RdbError>(())
/// ```
///
/// # Panics
/// If a score is not a number.
pub fn dump(value: &RdbValue, dialect: Dialect) -> Vec<u8> {
    payload(value, dialect)
        .unwrap_or_else(|error| panic!("memory accepts the bytes of a value: {error}"))
}

fn payload(value: &RdbValue, dialect: Dialect) -> RdbResult<Vec<u8>> {
    let mut sink = RdbSink::new(Vec::new());
    sink.u8(encode::type_byte(value, dialect))?;
    encode::write(value, dialect, &mut sink)?;
    end(
        sink,
        // The oldest version that has the value's form, so that older servers restore the others.
        match (value, dialect) {
            (RdbValue::TimedHash(_), Dialect::Redis) => TIMED_VERSION,
            (RdbValue::TimedHash(_), Dialect::Valkey) => VALKEY_VERSION,
            _ => *WRITE_VERSIONS.start(),
        },
    )
}

/// Ends a payload with its version and checksum.
fn end(mut sink: RdbSink<Vec<u8>>, version: u32) -> RdbResult<Vec<u8>> {
    debug_assert!(u16::try_from(version).is_ok());
    let [low, high, ..] = version.to_le_bytes();
    sink.bytes(&[low, high])?;
    sink.finish()
}

/// Returns the part before the version and checksum of a payload, if these are right; and the
/// version.
fn checked(payload: &[u8]) -> RdbResult<(&[u8], u32)> {
    let truncated = RdbError::Truncated {
        offset: payload.len() as u64,
    };
    let Some((summed, stored)) = payload.split_last_chunk() else {
        return Err(truncated);
    };
    let Some((body, version)) = summed.split_last_chunk() else {
        return Err(truncated);
    };
    let version = u32::from(u16::from_le_bytes(*version));
    // The versions of Valkey are far above those of Redis.
    let accepted = match version {
        VALKEY_VERSION.. => READ_VALKEY_VERSIONS,
        _ => READ_VERSIONS,
    };
    // Before the checksum: a payload of a newer server is refused for its version.
    check_version(version, accepted, body.len() as u64)?;
    let (stored, computed) = (u64::from_le_bytes(*stored), checksum::of(summed));
    if stored != computed {
        return Err(RdbError::ChecksumMismatch {
            stored,
            computed,
            offset: summed.len() as u64,
        });
    }
    Ok((body, version))
}

/// Encodes the codes of libraries of functions as a payload that every Redis 7 restores.
pub fn dump_functions<'c>(codes: impl IntoIterator<Item = &'c [u8]>) -> Vec<u8> {
    let payload = || {
        let mut sink = RdbSink::new(Vec::new());
        for code in codes {
            sink.u8(opcode::FUNCTION)?;
            sink.string(code)?;
        }
        end(sink, *WRITE_VERSIONS.start())
    };
    payload().unwrap_or_else(|error: RdbError| panic!("memory accepts the bytes of code: {error}"))
}

/// Bytes that the compressed texts of all libraries of a payload may expand to.
const CODES_BYTES_MAX: u64 = 64 << 20;

/// Decodes the codes of libraries from a payload that [`dump_functions`] or a Redis has made.
///
/// # Errors
/// Those of [`restore`]: `BadEncoding` for data that are not a library, `RdbUnsupportedPolicy` for
/// a library in the form of a release candidate.
pub fn restore_functions(payload: &[u8]) -> RdbResult<Vec<Vec<u8>>> {
    let (body, _) = checked(payload)?;
    let mut source = RdbSource::of_bytes(body, body.len());
    source.limit_expanded(CODES_BYTES_MAX);
    let mut codes = Vec::new();
    while source.offset() < body.len() as u64 {
        let offset = source.offset();
        match source.u8()? {
            opcode::FUNCTION => codes.push(source.string()?),
            opcode @ opcode::FUNCTION_OF_CANDIDATE => {
                return Err(unsupported(b"", OF_CANDIDATE, opcode, offset));
            }
            other => {
                return Err(RdbError::BadEncoding {
                    what: "type",
                    found: u64::from(other),
                    offset,
                });
            }
        }
    }
    Ok(codes)
}

/// Decodes a value from a payload that [`dump`], a Redis up to 8 or a Valkey up to 9 has made.
///
/// A checksum of 0 does not mean "no checksum" here, unlike at the end of a snapshot; Redis makes
/// the same difference.
///
/// # Errors
/// `UnknownVersion` of a newer Redis; `ChecksumMismatch`; `Truncated`, `BadLength`, `BadEncoding`,
/// `BadCompression`, `BadScore` and `EmptyContainer` if the payload is intact but holds no valid
/// value; `RdbUnsupportedPolicy` for values of modules and hashes in the forms of release
/// candidates.
pub fn restore(payload: &[u8]) -> RdbResult<RdbValue> {
    restore_within(payload, u64::MAX)
}

/// Decodes a value as [`restore`] does, whose compressed strings expand to at most `room` bytes.
///
/// # Errors
/// Those of [`restore`], and `NoRoom`.
pub fn restore_within(payload: &[u8], room: u64) -> RdbResult<RdbValue> {
    let (body, version) = checked(payload)?;
    let mut source = RdbSource::of_bytes(body, body.len());
    source.limit_expanded(room);
    let type_byte = source.u8()?;
    if let Some(kind) = kind::unsupported(type_byte, version) {
        return Err(unsupported(b"", kind, type_byte, 0));
    }
    let value = decode::read(type_byte, 0, &mut source)?;
    let offset = source.offset();
    debug_assert!(offset <= body.len() as u64);
    if offset != body.len() as u64 {
        return Err(RdbError::BadLength {
            what: "bytes after the value",
            length: body.len() as u64 - offset,
            offset,
        });
    }
    // No key may have it. In a snapshot, such a value is skipped instead.
    if value.is_empty_container() {
        return Err(RdbError::EmptyContainer { offset: 0 });
    }
    Ok(value)
}
