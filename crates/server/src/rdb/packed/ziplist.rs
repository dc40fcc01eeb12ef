//! Ziplists, in which Redis stored small containers and the nodes of lists before 7.
//!
//! ```text
//! bytes: u32   offset of the last entry: u32   elements: u16   entry ...   0xff
//! entry:  length of the entry before it   form, integer or bytes
//! ```

use super::slice::RdbPackedReader;
use crate::rdb::error::RdbResult;
use crate::rdb::source::decimal;

const END: u8 = 0xff;
/// The marker of a previous entry's length that did not fit into a byte and follows in four.
const LONG: u8 = 0xfe;

/// Appends the elements of the ziplist `bytes`, which is at `offset`.
pub(in crate::rdb) fn read(
    bytes: &[u8],
    offset: u64,
    elements: &mut Vec<Vec<u8>>,
) -> RdbResult<()> {
    let mut slice = RdbPackedReader::new("ziplist", bytes, offset);
    slice.total()?;
    // The offset of the last entry serves walks backward only.
    slice.u32()?;
    let announced = u16::from_le_bytes(slice.array()?);
    let before = elements.len();
    // An entry has two bytes at least, so that a wrong number reserves little.
    elements.reserve(usize::from(announced).min(slice.remaining() / 2));
    let mut length_before = 0;
    loop {
        let remaining = slice.remaining();
        let stored = match slice.u8()? {
            END => break,
            LONG => slice.size()?,
            length => length.into(),
        };
        // A walk forward does not need it, but it reveals damage that moved a boundary.
        if stored != length_before {
            return Err(slice.bad_length(stored as u64));
        }
        elements.push(entry(&mut slice)?);
        length_before = remaining - slice.remaining();
    }
    slice.finish(announced, elements.len() - before)
}

fn entry(slice: &mut RdbPackedReader<'_>) -> RdbResult<Vec<u8>> {
    let form = slice.u8()?;
    let bytes = match form {
        0..0x40 => form.into(),
        0x40..0x80 => usize::from(form & 0x3f) << 8 | usize::from(slice.u8()?),
        0x80 => {
            // The only length of the format in network byte order.
            let length = u32::from_be_bytes(slice.array()?);
            usize::try_from(length).map_err(|_| slice.bad_length(length.into()))?
        }
        0xc0 => return Ok(decimal(slice.i16()?)),
        0xd0 => return Ok(decimal(slice.i32()?)),
        0xe0 => return Ok(decimal(slice.i64()?)),
        0xf0 => return Ok(decimal(slice.i24()?)),
        // 0 is 0xf1, because 0xf0 is another form.
        0xf1..=0xfd => return Ok(decimal((form & 0x0f) - 1)),
        0xfe => return Ok(decimal(slice.u8()?.cast_signed())),
        _ => return Err(slice.bad_encoding(form)),
    };
    Ok(slice.take(bytes)?.to_vec())
}
