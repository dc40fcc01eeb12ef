//! Passing over what is known and not supported, whose structure has to be followed to its end.

use super::error::Error;
use super::format::kind;
use super::source::Source;
use std::io::Read;

/// Identifiers of a stream's entries where they are not in the form of lengths.
const STREAM_ID_BYTES: u64 = 16;
const TIME_BYTES: u64 = 8;

/// Passes over a value; `false`, with nothing taken, if that cannot be done.
pub(super) fn value<R: Read>(type_byte: u8, source: &mut Source<R>) -> Result<bool, Error> {
    match type_byte {
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => stream(type_byte, source)?,
        kind::MODULE => module(source)?,
        kind::HASH_EXPIRING_LISTPACK_OF_CANDIDATE => source.skip_string()?,
        kind::HASH_EXPIRING_LISTPACK => {
            source.skip(TIME_BYTES)?;
            source.skip_string()?;
        }
        kind::HASH_EXPIRING_OF_CANDIDATE => expiring_fields(source)?,
        kind::HASH_EXPIRING => {
            source.skip(TIME_BYTES)?;
            expiring_fields(source)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn lengths<R: Read>(count: usize, source: &mut Source<R>) -> Result<(), Error> {
    for _ in 0..count {
        source.length()?;
    }
    Ok(())
}

fn expiring_fields<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    for _ in 0..source.length()? {
        source.length()?;
        source.skip_string()?;
        source.skip_string()?;
    }
    Ok(())
}

fn stream<R: Read>(type_byte: u8, source: &mut Source<R>) -> Result<(), Error> {
    let has_counters = type_byte != kind::STREAM;
    let has_active_times = type_byte == kind::STREAM_3;
    // Each node: the identifier of its first entry, and a listpack.
    for _ in 0..source.length()? {
        source.skip_string()?;
        source.skip_string()?;
    }
    // The number of entries and the last identifier, of two numbers.
    lengths(3, source)?;
    if has_counters {
        // The first identifier, the greatest deleted one, and the number of entries added.
        lengths(5, source)?;
    }
    for _ in 0..source.length()? {
        // A group: its name, its last identifier, and the number of entries read.
        source.skip_string()?;
        lengths(if has_counters { 3 } else { 2 }, source)?;
        // What it has pending: identifier, time and number of deliveries.
        for _ in 0..source.length()? {
            source.skip(STREAM_ID_BYTES + TIME_BYTES)?;
            source.length()?;
        }
        // Its consumers: name, times, and the identifiers of what each has pending.
        for _ in 0..source.length()? {
            source.skip_string()?;
            source.skip(TIME_BYTES)?;
            if has_active_times {
                source.skip(TIME_BYTES)?;
            }
            for _ in 0..source.length()? {
                source.skip(STREAM_ID_BYTES)?;
            }
        }
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
