//! Commands that count and find bits.

use crate::command::{Answer, CommandCall, integer, is};
use crate::commands::string::{clamped_part, part};
use crate::error::CommandError;
use crate::keyspace::KeyView;
use crate::number::parse_integer;
use std::ops::Range;

/// A range of bits or bytes of a string.
#[derive(Clone, Copy, Debug)]
struct BitRange {
    start: i64,
    /// The last position. `None` selects all to the end, as if zeros followed the string.
    end: Option<i64>,
    /// True if these are positions of bits, false if they are positions of bytes.
    in_bits: bool,
}

impl BitRange {
    /// The selection of all bits.
    const ALL: BitRange = BitRange {
        start: 0,
        end: None,
        in_bits: false,
    };

    /// Parses `start end [BYTE | BIT]`.
    fn parse(start: &[u8], end: &[u8], unit: Option<&[u8]>) -> Result<BitRange, CommandError> {
        Ok(BitRange {
            start: integer(start)?,
            end: Some(integer(end)?),
            in_bits: unit.map_or(Ok(false), is_in_bits)?,
        })
    }

    /// Returns the positions of the bits in a string of `bytes` bytes. `part` computes the range in
    /// one unit.
    fn bits(self, bytes: usize, part: fn(usize, i64, i64) -> Range<usize>) -> Range<usize> {
        let end = self.end.unwrap_or(-1);
        if self.in_bits {
            part(8 * bytes, self.start, end)
        } else {
            let bytes = part(bytes, self.start, end);
            8 * bytes.start..8 * bytes.end
        }
    }
}

/// Parses `BYTE` or `BIT`.
fn is_in_bits(unit: &[u8]) -> Result<bool, CommandError> {
    match unit {
        unit if is(unit, "byte") => Ok(false),
        unit if is(unit, "bit") => Ok(true),
        _ => Err(CommandError::Syntax),
    }
}

pub(super) fn bitcount(call: &mut CommandCall<'_>) -> Answer {
    let selection = match *call.rest(2) {
        [] => BitRange::ALL,
        // As in Valkey. In Redis a single word is an error.
        [start] => {
            let start = parse_integer(start).ok_or(CommandError::Syntax)?;
            BitRange {
                start,
                ..BitRange::ALL
            }
        }
        [start, end] => BitRange::parse(start, end, None)?,
        [start, end, unit] => BitRange::parse(start, end, Some(unit))?,
        _ => return Err(CommandError::Syntax),
    };
    let count = call.keys.read_string(call.args[1], |value| {
        let value = value.unwrap_or_default();
        count_ones(value, selection.bits(value.len(), part))
    })?;
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn bitpos(call: &mut CommandCall<'_>) -> Answer {
    let bit = match parse_integer(call.args[2]) {
        Some(0) => false,
        Some(1) => true,
        Some(_) => {
            return Err(CommandError::text("ERR The bit argument must be 1 or 0."));
        }
        None => return Err(CommandError::NotInteger),
    };
    let selection = match *call.rest(3) {
        [] => BitRange::ALL,
        [start] => BitRange {
            start: integer(start)?,
            ..BitRange::ALL
        },
        [start, end] => BitRange::parse(start, end, None)?,
        // As in Redis, the unit is read before the end.
        [start, end, unit] => {
            let (start, in_bits) = (integer(start)?, is_in_bits(unit)?);
            BitRange {
                start,
                end: Some(integer(end)?),
                in_bits,
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    let found = call.keys.read_string(call.args[1], |value| {
        let Some(value) = value else {
            // As in Redis, an absent key is an endless row of zeros.
            return if bit { -1 } else { 0 };
        };
        let bits = selection.bits(value.len(), clamped_part);
        if bits.is_empty() {
            return -1;
        }
        match find(value, bits.clone(), bit) {
            Some(position) => position as i64,
            // Without an end, zeros follow the string, and the first of them is found.
            None if !bit && selection.end.is_none() => bits.end as i64,
            None => -1,
        }
    })?;
    call.reply.integer(found);
    Ok(())
}

/// Calls `visit` for each eight bytes of `bytes` as a word, with bits outside of `bits` set to
/// `outside`, and with the position of the word's first bit. Stops when `visit` returns a result.
fn visit_words<R>(
    bytes: &[u8],
    bits: Range<usize>,
    outside: bool,
    mut visit: impl FnMut(usize, u64) -> Option<R>,
) -> Option<R> {
    if bits.is_empty() {
        return None;
    }
    debug_assert!(bits.end <= 8 * bytes.len(), "the bits are in the string");
    let first = bits.start / 8;
    let covered = bytes.get(first..bits.end.div_ceil(8))?;
    let mut position = 8 * first;
    for chunk in covered.chunks(8) {
        let mut word = [0; 8];
        for (target, &byte) in word.iter_mut().zip(chunk) {
            *target = byte;
        }
        let mut mask = u64::MAX;
        if position < bits.start {
            debug_assert!(
                bits.start - position < 8,
                "only the first word is cut there"
            );
            // The first bit of a string is the highest of its byte, so shifts go to the right.
            mask >>= bits.start - position;
        }
        if bits.end - position < 64 {
            mask &= !(u64::MAX >> (bits.end - position));
        }
        let word = u64::from_be_bytes(word);
        let word = if outside { word | !mask } else { word & mask };
        let result = visit(position, word);
        if result.is_some() {
            return result;
        }
        position += 64;
    }
    None
}

/// Returns the number of bits that are set among `bits`.
fn count_ones(bytes: &[u8], bits: Range<usize>) -> u64 {
    let mut count = 0;
    visit_words(bytes, bits, false, |_, word| -> Option<()> {
        count += u64::from(word.count_ones());
        None
    });
    count
}

/// Returns the position of the first bit among `bits` that equals `bit`.
fn find(bytes: &[u8], bits: Range<usize>, bit: bool) -> Option<usize> {
    // Bits outside of the range look like bits that are not searched for.
    visit_words(bytes, bits, !bit, |position, word| {
        let word = if bit { word } else { !word };
        (word != 0).then(|| position + word.leading_zeros() as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_and_find_what_bits_do() {
        let bytes: Vec<u8> = (0..40_u8).map(|n| n.wrapping_mul(n)).collect();
        let bit = |position: usize| bytes[position / 8] >> (7 - position % 8) & 1 == 1;
        for start in 0..100 {
            for end in start..=320 {
                let ones = (start..end).filter(|&position| bit(position)).count();
                assert_eq!(count_ones(&bytes, start..end), ones as u64);
                for wanted in [false, true] {
                    let first = (start..end).find(|&position| bit(position) == wanted);
                    assert_eq!(find(&bytes, start..end, wanted), first);
                }
            }
        }
    }
}
