//! Listpacks, in which Redis 7 stores small containers and the nodes of lists.
//!
//! ```text
//! bytes: u32   elements: u16   entry ...   0xff
//! entry:  form, integer or bytes   its length, for walking backward
//! ```

use super::slice::RdbPackedReader;
use crate::rdb::error::RdbResult;
use crate::rdb::source::decimal;

const END: u8 = 0xff;

/// Appends the elements of the listpack `bytes`, which is at `offset`.
pub(in crate::rdb) fn read(
    bytes: &[u8],
    offset: u64,
    elements: &mut Vec<Vec<u8>>,
) -> RdbResult<()> {
    let mut slice = RdbPackedReader::new("listpack", bytes, offset);
    slice.total()?;
    let announced = u16::from_le_bytes(slice.array()?);
    let before = elements.len();
    // An entry has two bytes at least, so that a wrong number reserves little.
    elements.reserve(usize::from(announced).min(slice.remaining() / 2));
    loop {
        let remaining = slice.remaining();
        let form = slice.u8()?;
        if form == END {
            break;
        }
        elements.push(entry(form, &mut slice)?);
        check_length(remaining - slice.remaining(), &mut slice)?;
    }
    slice.finish(announced, elements.len() - before)
}

fn entry(form: u8, slice: &mut RdbPackedReader<'_>) -> RdbResult<Vec<u8>> {
    let bytes = match form {
        0..0x80 => return Ok(decimal(form)),
        0x80..0xc0 => usize::from(form & 0x3f),
        0xc0..0xe0 => {
            // The 13 bits are moved up so that their sign is the integer's.
            let bits = u16::from_be_bytes([form & 0x1f, slice.u8()?]);
            return Ok(decimal((bits << 3).cast_signed() >> 3));
        }
        0xe0..0xf0 => usize::from(form & 0x0f) << 8 | usize::from(slice.u8()?),
        0xf0 => slice.size()?,
        0xf1 => return Ok(decimal(slice.i16()?)),
        0xf2 => return Ok(decimal(slice.i24()?)),
        0xf3 => return Ok(decimal(slice.i32()?)),
        0xf4 => return Ok(decimal(slice.i64()?)),
        _ => return Err(slice.bad_encoding(form)),
    };
    Ok(slice.take(bytes)?.to_vec())
}

/// Reads the length after an entry, and checks it to detect damage that moved a boundary. It is
/// written in groups of 7 bits, the highest first, and all except the first have the top bit set.
fn check_length(length: usize, slice: &mut RdbPackedReader<'_>) -> RdbResult<()> {
    // These are Redis's own limits, which leave the greatest number of each size to the next one.
    let groups = match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    let mut stored = 0_u64;
    for (position, &byte) in slice.take(groups)?.iter().enumerate() {
        if (byte & 0x80 != 0) != (position > 0) {
            return Err(slice.bad_encoding(byte));
        }
        stored = stored << 7 | u64::from(byte & 0x7f);
    }
    if stored == length as u64 {
        Ok(())
    } else {
        Err(slice.bad_length(stored))
    }
}
