//! Zipmaps, in which Redis stored small hashes before 2.6.
//!
//! ```text
//! fields: u8   length field length unused: u8 value, unused bytes   ...   0xff
//! ```

use super::Pairs;
use super::slice::RdbPackedReader;
use crate::rdb::error::RdbResult;

const END: u8 = 0xff;
/// The marker of a large number. For a length: it follows in four bytes. For the number of fields:
/// there are at least this many.
const LONG: u8 = 0xfe;

/// Returns the fields and values of the zipmap `bytes`, which is at `offset`.
pub(in crate::rdb) fn read(bytes: &[u8], offset: u64) -> RdbResult<Pairs> {
    let mut slice = RdbPackedReader::new("zipmap", bytes, offset);
    let announced = slice.u8()?;
    let mut fields = Vec::new();
    while let Some(length) = length(&mut slice)? {
        let field = slice.take(length)?.to_vec();
        let Some(length) = self::length(&mut slice)? else {
            return Err(slice.bad_encoding(END));
        };
        let unused = slice.u8()?;
        let value = slice.take(length)?.to_vec();
        // The room that a longer value has left.
        slice.take(unused.into())?;
        fields.push((field, value));
    }
    // From this number on, the real one is unknown.
    let announced = match announced {
        LONG.. => u16::MAX,
        count => count.into(),
    };
    slice.finish(announced, fields.len())?;
    Ok(fields)
}

/// Reads the length of the next string, or `None` at the end.
fn length(slice: &mut RdbPackedReader<'_>) -> RdbResult<Option<usize>> {
    Ok(match slice.u8()? {
        END => None,
        LONG => Some(slice.size()?),
        length => Some(length.into()),
    })
}
