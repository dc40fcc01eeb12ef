//! Intsets, small sets of integers: the size of each integer, their number, and the integers.

use super::slice::RdbPackedReader;
use crate::rdb::error::RdbResult;
use crate::rdb::source::decimal;

/// Returns the members of the intset `bytes`, which is at `offset`.
pub(in crate::rdb) fn read(bytes: &[u8], offset: u64) -> RdbResult<Vec<Vec<u8>>> {
    let mut slice = RdbPackedReader::new("intset", bytes, offset);
    let integer_bytes = slice.size()?;
    let count = slice.size()?;
    let read: fn(&mut RdbPackedReader<'_>) -> RdbResult<i64> = match integer_bytes {
        2 => |slice| slice.i16().map(i64::from),
        4 => |slice| slice.i32().map(i64::from),
        8 => |slice| slice.i64(),
        _ => return Err(slice.bad_length(integer_bytes as u64)),
    };
    // Before memory is reserved, because the count may be wrong.
    if count.checked_mul(integer_bytes) != Some(slice.remaining()) {
        return Err(slice.bad_length(count as u64));
    }
    (0..count).map(|_| Ok(decimal(read(&mut slice)?))).collect()
}
