//! A HyperLogLog as a string, in the format of Redis.
//!
//! A header has 16 bytes: `HYLL`, the form (0 dense, 1 sparse), three bytes of 0, and the number of
//! elements at the last count. The highest bit of the number is set if it is outdated. Dense
//! registers have six bits each, the lowest first.

use super::Corrupt;
use super::registers::{REGISTERS, Registers, estimate, place};
use super::sparse::{self, HyperLogLogUpdate};
use crate::error::CommandError;

const MAGIC: &[u8] = b"HYLL";
const HEADER_BYTES: usize = 16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The place of the number of elements.
const COUNT: std::ops::Range<usize> = HEADER_BYTES - 8..HEADER_BYTES;
/// The last byte of the number, with the bit for outdated.
const STALE_AT: usize = HEADER_BYTES - 1;
const REGISTER_BITS: usize = 6;
pub(super) const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * REGISTER_BITS / 8;

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HyperLogLogForm {
    Dense,
    Sparse,
}

/// Returns the form of a string.
///
/// # Errors
/// The string is not a HyperLogLog.
pub(super) fn form(value: &[u8]) -> Result<HyperLogLogForm, CommandError> {
    let is_whole = value.len() >= HEADER_BYTES && value.starts_with(MAGIC);
    match value.get(MAGIC.len()) {
        Some(&SPARSE) if is_whole => Ok(HyperLogLogForm::Sparse),
        Some(&DENSE) if is_whole && value.len() == DENSE_BYTES => Ok(HyperLogLogForm::Dense),
        _ => Err(CommandError::text(
            "WRONGTYPE Key is not a valid HyperLogLog string value.",
        )),
    }
}

/// Returns the bytes after the header.
pub(super) fn body(value: &[u8]) -> &[u8] {
    value.get(HEADER_BYTES..).unwrap_or_default()
}

/// Returns a value without elements.
pub(super) fn empty() -> Vec<u8> {
    let mut value = MAGIC.to_vec();
    value.push(SPARSE);
    value.resize(HEADER_BYTES, 0);
    value.extend(sparse::empty());
    debug_assert!(form(&value).is_ok());
    value
}

/// Marks the number in the header as outdated.
pub(super) fn set_stale(value: &mut [u8]) {
    debug_assert!(value.len() > STALE_AT, "`form` checks the header");
    if let Some(byte) = value.get_mut(STALE_AT) {
        *byte |= 0x80;
    }
}

/// Returns the position of a register, as a byte and the bits before it in that byte.
fn locate(index: usize) -> (usize, usize) {
    debug_assert!(index < REGISTERS);
    let bits = index * REGISTER_BITS;
    (HEADER_BYTES + bits / 8, bits % 8)
}

/// Returns a register of a dense value.
fn dense_register(value: &[u8], index: usize) -> u8 {
    let (byte, bit) = locate(index);
    // The last register ends with the value, so that no byte follows it.
    let of = |at| u16::from(value.get(at).copied().unwrap_or(0));
    ((of(byte) | of(byte + 1) << 8) >> bit & 63) as u8
}

/// Raises a register of a dense value to a rank. Returns true if it was lower.
pub(super) fn raise_dense(value: &mut [u8], index: usize, rank: u8) -> bool {
    debug_assert!(index < REGISTERS && rank < 1 << REGISTER_BITS);
    if dense_register(value, index) >= rank {
        return false;
    }
    let (at, bit) = locate(index);
    let (mask, rank) = (63_u16 << bit, u16::from(rank) << bit);
    // A register of six bits may reach into the next byte. Behind the last one there is none.
    for (at, mask, rank) in [(at, mask, rank), (at + 1, mask >> 8, rank >> 8)] {
        if let Some(byte) = value.get_mut(at) {
            *byte = *byte & !(mask as u8) | rank as u8;
        }
    }
    true
}

/// Returns true if one of the elements raises a register of a dense value.
pub(super) fn changes_dense(value: &[u8], elements: &[&[u8]]) -> bool {
    let mut places = elements.iter().map(|element| place(element));
    places.any(|(index, rank)| dense_register(value, index) < rank)
}

/// Adds elements to a dense value. Returns the number of elements that changed it.
pub(super) fn add_dense(value: &mut [u8], elements: &[&[u8]]) -> usize {
    let places = elements.iter().map(|element| place(element));
    places
        .filter(|&(index, rank)| raise_dense(value, index, rank))
        .count()
}

/// Raises a register of a value of any form. A sparse one that becomes longer than `sparse_max`
/// bytes becomes dense.
///
/// # Errors
/// The sparse form is invalid.
pub(super) fn raise(
    value: &mut Vec<u8>,
    (index, rank): (usize, u8),
    sparse_max: usize,
) -> Result<bool, Corrupt> {
    if value.get(MAGIC.len()) == Some(&SPARSE) {
        match sparse::raise(value, HEADER_BYTES, (index, rank), sparse_max)? {
            HyperLogLogUpdate::None => return Ok(false),
            HyperLogLogUpdate::Done => return Ok(true),
            HyperLogLogUpdate::TooLarge => make_dense(value)?,
        }
    }
    Ok(raise_dense(value, index, rank))
}

/// Converts a value to the dense form.
///
/// # Errors
/// The sparse form is invalid.
pub(super) fn make_dense(value: &mut Vec<u8>) -> Result<(), Corrupt> {
    if value.get(MAGIC.len()) == Some(&DENSE) {
        return Ok(());
    }
    let runs = sparse::runs(body(value))?;
    debug_assert!(value.len() >= HEADER_BYTES, "`form` checks the header");
    let mut dense = value.get(..HEADER_BYTES).unwrap_or_default().to_vec();
    dense[MAGIC.len()] = DENSE;
    dense.resize(DENSE_BYTES, 0);
    for (first, run) in runs.into_iter().filter(|(_, run)| run.rank > 0) {
        for index in first..first + run.length {
            raise_dense(&mut dense, index, run.rank);
        }
    }
    *value = dense;
    Ok(())
}

/// Raises registers to those of a value.
///
/// # Errors
/// The sparse form is invalid.
pub(super) fn merge(
    value: &[u8],
    form: HyperLogLogForm,
    into: &mut Registers,
) -> Result<(), Corrupt> {
    let mut raise = |index: usize, rank: u8| {
        if let Some(register) = into.get_mut(index) {
            *register = rank.max(*register);
        }
    };
    match form {
        HyperLogLogForm::Dense => {
            for index in 0..REGISTERS {
                raise(index, dense_register(value, index));
            }
        }
        HyperLogLogForm::Sparse => {
            for (first, run) in sparse::runs(body(value))? {
                (first..first + run.length).for_each(|index| raise(index, run.rank));
            }
        }
    }
    Ok(())
}

/// Returns the estimated number of distinct elements, and true if it is from the header.
///
/// # Errors
/// The sparse form is invalid.
pub(super) fn counted(value: &[u8], form: HyperLogLogForm) -> Result<(u64, bool), CommandError> {
    let kept = value.get(COUNT).and_then(|bytes| bytes.try_into().ok());
    // A value without the number counts as outdated.
    let kept = kept.map_or(u64::MAX, u64::from_le_bytes);
    // As in Redis, a count in the header is trusted until an element changes the value.
    if kept >> 63 == 0 {
        return Ok((kept, true));
    }
    let mut registers = [0; REGISTERS];
    merge(value, form, &mut registers)?;
    Ok((estimate(&registers), false))
}

/// Writes the number of elements into the header.
pub(super) fn keep_count(value: &mut [u8], count: u64) {
    if let Some(kept) = value.get_mut(COUNT) {
        kept.copy_from_slice(&count.to_le_bytes());
    }
}
