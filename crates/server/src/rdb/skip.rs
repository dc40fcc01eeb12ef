//! Passing over what is known and not supported, whose structure has to be followed to its end.

use super::error::Error;
use super::format::kind;
use super::source::Source;
use std::io::Read;

/// Passes over a value; `false`, with nothing taken, if that cannot be done.
pub(super) fn value<R: Read>(type_byte: u8, source: &mut Source<R>) -> Result<bool, Error> {
    match type_byte {
        kind::MODULE => module(source)?,
        kind::HASH_EXPIRING_LISTPACK_OF_CANDIDATE => source.skip_string()?,
        kind::HASH_EXPIRING_OF_CANDIDATE => expiring_fields(source)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn expiring_fields<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    for _ in 0..source.length()? {
        source.length()?;
        source.skip_string()?;
        source.skip_string()?;
    }
    Ok(())
}

/// Passes over the value of a module, or over what it keeps beside its values: the module, and
/// parts that say what they are.
pub(super) fn module<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    source.length()?;
    loop {
        let offset = source.offset();
        match source.length()? {
            0 => return Ok(()),
            // Signed and unsigned integers, floats of 4 and 8 bytes, strings.
            1 | 2 => {
                source.length()?;
            }
            3 => source.skip(4)?,
            4 => source.skip(8)?,
            5 => source.skip_string()?,
            found => {
                return Err(Error::BadEncoding {
                    what: "part of a module's value",
                    found,
                    offset,
                });
            }
        }
    }
}
