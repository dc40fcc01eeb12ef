//! The code that skips known but unsupported data, whose structure must be followed to its end.

use super::error::{RdbError, RdbResult};
use super::format::kind;
use super::source::RdbSource;
use std::io::Read;

/// Skips a value; returns `false`, with nothing read, if that is impossible.
pub(super) fn value<R: Read>(type_byte: u8, source: &mut RdbSource<R>) -> RdbResult<bool> {
    match type_byte {
        kind::MODULE => module(source)?,
        kind::HASH_EXPIRING_LISTPACK_OF_CANDIDATE => source.skip_string()?,
        kind::HASH_EXPIRING_OF_CANDIDATE => expiring_fields(source)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn expiring_fields<R: Read>(source: &mut RdbSource<R>) -> RdbResult<()> {
    for _ in 0..source.length()? {
        source.length()?;
        source.skip_string()?;
        source.skip_string()?;
    }
    Ok(())
}

/// Skips the value of a module, or the data that it stores besides its values: the module, and
/// parts that each begin with their type.
pub(super) fn module<R: Read>(source: &mut RdbSource<R>) -> RdbResult<()> {
    source.length()?;
    loop {
        let offset = source.offset();
        match source.length()? {
            0 => return Ok(()),
            // The types are signed and unsigned integers, floats of 4 and 8 bytes, and strings.
            1 | 2 => {
                source.length()?;
            }
            3 => source.skip(4)?,
            4 => source.skip(8)?,
            5 => source.skip_string()?,
            found => {
                return Err(RdbError::BadEncoding {
                    what: "part of a module's value",
                    found,
                    offset,
                });
            }
        }
    }
}
