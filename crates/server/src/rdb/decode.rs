//! The decoder of values of each type in each form.

use super::error::{RdbError, RdbResult};
use super::format::{RdbValue, TIME_MS_MAX, TimedField, kind};
use super::packed::{Pairs, intset, listpack, ziplist, zipmap};
use super::source::RdbSource;
use super::stream;
use std::io::Read;

/// The maximum number of elements for which memory is reserved before any of them has been read.
const RESERVED_ELEMENTS: u64 = 16 << 10;

/// The forms of a list's node: a plain element, or a listpack.
const NODE_PLAIN: u64 = 1;
const NODE_PACKED: u64 = 2;

/// A function that appends the elements of a packed value.
type Unpack = fn(&[u8], u64, &mut Vec<Vec<u8>>) -> RdbResult<()>;

/// Reads a value whose type was at `offset`.
pub(super) fn read<R: Read>(
    type_byte: u8,
    offset: u64,
    source: &mut RdbSource<R>,
) -> RdbResult<RdbValue> {
    Ok(match type_byte {
        kind::STRING => RdbValue::String(source.string()?),
        kind::LIST => RdbValue::List(repeated(source, RdbSource::string)?),
        kind::LIST_ZIPLIST => RdbValue::List(unpacked(source, ziplist::read)?),
        kind::LIST_OF_ZIPLISTS => RdbValue::List(nodes(source, ziplist::read)?),
        kind::LIST_OF_LISTPACKS => RdbValue::List(nodes_with_forms(source)?),
        kind::SET => RdbValue::Set(repeated(source, RdbSource::string)?),
        kind::SET_INTSET => {
            let offset = source.offset();
            RdbValue::Set(intset::read(&source.string()?, offset)?)
        }
        kind::SET_LISTPACK => RdbValue::Set(unpacked(source, listpack::read)?),
        kind::HASH => RdbValue::Hash(repeated(source, |source| {
            Ok((source.string()?, source.string()?))
        })?),
        kind::HASH_ZIPMAP => {
            let offset = source.offset();
            RdbValue::Hash(zipmap::read(&source.string()?, offset)?)
        }
        kind::HASH_ZIPLIST => RdbValue::Hash(pairs(source, ziplist::read)?),
        kind::HASH_LISTPACK => RdbValue::Hash(pairs(source, listpack::read)?),
        kind::HASH_EXPIRING => expiring(source)?,
        kind::HASH_EXPIRING_LISTPACK => expiring_listpack(source)?,
        kind::HASH_OF_VALKEY => timed(repeated(source, |source| {
            let (field, value) = (source.string()?, source.string()?);
            let time_ms = i64::from_le_bytes(source.array()?);
            // Valkey writes -1 for no time.
            Ok((field, value, u64::try_from(time_ms).ok()))
        })?),
        kind::SORTED_SET_OF_TEXT => RdbValue::SortedSet(repeated(source, |source| {
            Ok((source.string()?, score_of_length_and_text(source)?))
        })?),
        kind::SORTED_SET => RdbValue::SortedSet(repeated(source, |source| {
            Ok((source.string()?, score(source)?))
        })?),
        kind::SORTED_SET_ZIPLIST => RdbValue::SortedSet(scored(source, ziplist::read)?),
        kind::SORTED_SET_LISTPACK => RdbValue::SortedSet(scored(source, listpack::read)?),
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => {
            RdbValue::Stream(Box::new(stream::read(type_byte, source)?))
        }
        _ => {
            return Err(RdbError::BadEncoding {
                what: "type of a value",
                found: type_byte.into(),
                offset,
            });
        }
    })
}

/// Reads a count and that many elements.
pub(super) fn repeated<R: Read, T>(
    source: &mut RdbSource<R>,
    mut element: impl FnMut(&mut RdbSource<R>) -> RdbResult<T>,
) -> RdbResult<Vec<T>> {
    let count = source.length()?;
    // The count may be wrong, so that memory for more elements is taken as they arrive.
    let mut elements = Vec::with_capacity(count.min(RESERVED_ELEMENTS) as usize);
    for _ in 0..count {
        elements.push(element(source)?);
    }
    Ok(elements)
}

/// Creates a hash of fields, some or none of which expire. Clamps times to the greatest one that
/// every form can hold.
fn timed(mut fields: Vec<TimedField>) -> RdbValue {
    let times = fields
        .iter_mut()
        .filter_map(|(.., time_ms)| time_ms.as_mut());
    times.for_each(|time_ms| *time_ms = (*time_ms).min(TIME_MS_MAX));
    // A hash without any time has the simpler form, whatever form the file has.
    match fields.iter().any(|(_, _, time_ms)| time_ms.is_some()) {
        true => RdbValue::TimedHash(fields),
        false => {
            let pairs = fields.into_iter().map(|(field, value, _)| (field, value));
            RdbValue::Hash(pairs.collect())
        }
    }
}

/// Reads fields with times relative to the first one, which is stored before them.
fn expiring<R: Read>(source: &mut RdbSource<R>) -> RdbResult<RdbValue> {
    let soonest_ms = u64::from_le_bytes(source.array()?);
    let fields = repeated(source, |source| {
        // 0 means no time, 1 the first time.
        let time_ms = source.length()?.checked_sub(1);
        let time_ms = time_ms.map(|after| soonest_ms.saturating_add(after));
        Ok((source.string()?, source.string()?, time_ms))
    })?;
    Ok(timed(fields))
}

/// Reads fields, values and times alternating; 0 means no time.
fn expiring_listpack<R: Read>(source: &mut RdbSource<R>) -> RdbResult<RdbValue> {
    // Unlike in the other form, times are not relative to it.
    let _soonest_ms: [u8; 8] = source.array()?;
    let offset = source.offset();
    let elements = unpacked(source, listpack::read)?;
    if !elements.len().is_multiple_of(3) {
        return Err(RdbError::BadLength {
            what: "elements that are fields, values and times",
            length: elements.len() as u64,
            offset,
        });
    }
    let mut fields = Vec::with_capacity(elements.len() / 3);
    let mut elements = elements.into_iter();
    while let (Some(field), Some(value), Some(time)) =
        (elements.next(), elements.next(), elements.next())
    {
        let text = std::str::from_utf8(&time).ok();
        let time_ms = text.and_then(|text| text.parse::<u64>().ok());
        let time_ms = time_ms.ok_or_else(|| RdbError::BadScore {
            score: nearfield_core::OperationError::shorten(&time),
            offset,
        })?;
        fields.push((field, value, Some(time_ms).filter(|time_ms| *time_ms > 0)));
    }
    Ok(timed(fields))
}

fn unpacked<R: Read>(source: &mut RdbSource<R>, unpack: Unpack) -> RdbResult<Vec<Vec<u8>>> {
    let offset = source.offset();
    let mut elements = Vec::new();
    unpack(&source.string()?, offset, &mut elements)?;
    Ok(elements)
}

fn pairs<R: Read>(source: &mut RdbSource<R>, unpack: Unpack) -> RdbResult<Pairs> {
    let offset = source.offset();
    let elements = unpacked(source, unpack)?;
    if !elements.len().is_multiple_of(2) {
        return Err(RdbError::BadLength {
            what: "elements that are pairs",
            length: elements.len() as u64,
            offset,
        });
    }
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    let mut elements = elements.into_iter();
    while let (Some(first), Some(second)) = (elements.next(), elements.next()) {
        pairs.push((first, second));
    }
    Ok(pairs)
}

fn scored<R: Read>(source: &mut RdbSource<R>, unpack: Unpack) -> RdbResult<Vec<(Vec<u8>, f64)>> {
    let offset = source.offset();
    let pairs = pairs(source, unpack)?;
    let scored = pairs
        .into_iter()
        .map(|(member, text)| Ok((member, score_of_text(&text, offset)?)));
    scored.collect()
}

fn nodes<R: Read>(source: &mut RdbSource<R>, unpack: Unpack) -> RdbResult<Vec<Vec<u8>>> {
    let mut elements = Vec::new();
    for _ in 0..source.length()? {
        let offset = source.offset();
        unpack(&source.string()?, offset, &mut elements)?;
    }
    Ok(elements)
}

fn nodes_with_forms<R: Read>(source: &mut RdbSource<R>) -> RdbResult<Vec<Vec<u8>>> {
    let mut elements = Vec::new();
    for _ in 0..source.length()? {
        let offset = source.offset();
        match source.length()? {
            NODE_PLAIN => elements.push(source.string()?),
            NODE_PACKED => {
                let offset = source.offset();
                listpack::read(&source.string()?, offset, &mut elements)?;
            }
            found => {
                return Err(RdbError::BadEncoding {
                    what: "form of a node",
                    found,
                    offset,
                });
            }
        }
    }
    Ok(elements)
}

fn score<R: Read>(source: &mut RdbSource<R>) -> RdbResult<f64> {
    let offset = source.offset();
    let score = f64::from_le_bytes(source.array()?);
    // It would have no place in the order of a sorted set.
    if score.is_nan() {
        return Err(bad_score(b"nan", offset));
    }
    Ok(score)
}

/// Reads a score of the first versions: its text, or a length that stands for a value without text.
fn score_of_length_and_text<R: Read>(source: &mut RdbSource<R>) -> RdbResult<f64> {
    let offset = source.offset();
    match source.u8()? {
        253 => Err(bad_score(b"nan", offset)),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        length => score_of_text(&source.bytes(length.into())?, offset),
    }
}

fn score_of_text(text: &[u8], offset: u64) -> RdbResult<f64> {
    std::str::from_utf8(text)
        .ok()
        // `parse` accepts `inf` and `nan`, too.
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|score| !score.is_nan())
        .ok_or_else(|| bad_score(text, offset))
}

fn bad_score(text: &[u8], offset: u64) -> RdbError {
    RdbError::BadScore {
        score: nearfield_core::OperationError::shorten(text),
        offset,
    }
}
