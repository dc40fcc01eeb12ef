//! Commands on integers of any width within a string.

use super::{locate, position};
use crate::command::{Answer, CommandCall, integer, is};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};

/// The type and place of an integer.
#[derive(Clone, Copy, Debug)]
struct BitField {
    signed: bool,
    /// The width in bits, from 1 to 64, or 63 without a sign.
    width: u32,
    /// The position of the first bit.
    position: u64,
}

/// The treatment of a value that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// The change to a field.
#[derive(Clone, Copy, Debug)]
enum BitFieldChange {
    None,
    Set(i64),
    Add(i64),
}

#[derive(Clone, Copy, Debug)]
struct BitFieldOperation {
    field: BitField,
    change: BitFieldChange,
    overflow: Overflow,
}

impl BitField {
    fn parse(kind: &[u8], place: &[u8]) -> Result<BitField, CommandError> {
        let error = CommandError::text(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
             supported but i64 is.",
        );
        let (signed, digits) = match kind {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(error),
        };
        let width = crate::number::parse_integer(digits).unwrap_or(0);
        let width_max = if signed { 64 } else { 63 };
        if !(1..=width_max).contains(&width) {
            return Err(error);
        }
        let width = width as u32;
        let (place, factor) = match place {
            // `#3` is the fourth field of this width.
            [b'#', number @ ..] => (number, u64::from(width)),
            number => (number, 1),
        };
        Ok(BitField {
            signed,
            width,
            position: position(place, factor, u64::from(width))?,
        })
    }

    /// Returns the least and the greatest value.
    fn range(self) -> (i128, i128) {
        if self.signed {
            // Sums of two numbers of 64 bits are compared with the limits, and need a bit more.
            let limit = 1_i128 << (self.width - 1);
            (-limit, limit - 1)
        } else {
            (0, (1 << self.width) - 1)
        }
    }

    /// Returns the field's value in `bytes`, as if endless zeros followed them.
    fn read(self, bytes: &[u8]) -> i64 {
        let mut value = 0_u64;
        for offset in 0..u64::from(self.width) {
            let (byte, bit) = locate(self.position + offset);
            let is_set = bytes.get(byte).is_some_and(|byte| byte & bit != 0);
            value = (value << 1) | u64::from(is_set);
        }
        self.value_of(value)
    }

    fn value_of(self, bits: u64) -> i64 {
        debug_assert!((1..=64).contains(&self.width), "`parse` bounds the width");
        let unused = 64 - self.width;
        if self.signed {
            (bits << unused) as i64 >> unused
        } else {
            (bits << unused >> unused) as i64
        }
    }

    fn write(self, bytes: &mut [u8], value: i64) {
        debug_assert!(
            self.end() <= bytes.len(),
            "the string was extended to the field"
        );
        for offset in 0..u64::from(self.width) {
            let (byte, bit) = locate(self.position + offset);
            let is_set = value >> (u64::from(self.width) - 1 - offset) & 1 == 1;
            if let Some(byte) = bytes.get_mut(byte) {
                *byte = if is_set { *byte | bit } else { *byte & !bit };
            }
        }
    }

    /// Returns the number of bytes that a string needs to hold the field.
    fn end(self) -> usize {
        (self.position + u64::from(self.width)).div_ceil(8) as usize
    }

    /// Returns the value that is stored in the field for `value`, or `None` if it does not fit.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i64> {
        let (least, greatest) = self.range();
        if (least..=greatest).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.value_of(value as u64)),
            Overflow::Saturate => Some(value.clamp(least, greatest) as i64),
            Overflow::Fail => None,
        }
    }
}

impl BitFieldOperation {
    /// Returns the value to be written and the value of the reply, or `None` if it does not fit.
    fn apply(self, old: i64) -> Option<(i64, i64)> {
        let field = self.field;
        match self.change {
            BitFieldChange::None => Some((old, old)),
            BitFieldChange::Set(value) => {
                // An unsigned field takes a negative number as a large one, as in Redis.
                let value = if field.signed {
                    let (_, greatest) = field.range();
                    if self.overflow == Overflow::Saturate
                        && field.width < 64
                        && (greatest as i64).checked_sub(value).is_none()
                    {
                        // The distance to the greatest number overflows in Redis, too, which then
                        // treats the value as too large.
                        return Some((greatest as i64, old));
                    }
                    i128::from(value)
                } else {
                    i128::from(value as u64)
                };
                Some((field.fit(value, self.overflow)?, old))
            }
            BitFieldChange::Add(summand) => {
                let sum = i128::from(old) + i128::from(summand);
                let new = field.fit(sum, self.overflow)?;
                Some((new, new))
            }
        }
    }
}

fn parse(words: &[&[u8]]) -> Result<Vec<BitFieldOperation>, CommandError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut rest = words;
    loop {
        let (field, change, after) = match *rest {
            [] => return Ok(operations),
            [name, kind, place, ref after @ ..] if is(name, "get") => {
                (BitField::parse(kind, place)?, BitFieldChange::None, after)
            }
            [name, kind, place, value, ref after @ ..] if is(name, "set") => {
                let field = BitField::parse(kind, place)?;
                (field, BitFieldChange::Set(integer(value)?), after)
            }
            [name, kind, place, value, ref after @ ..] if is(name, "incrby") => {
                let field = BitField::parse(kind, place)?;
                (field, BitFieldChange::Add(integer(value)?), after)
            }
            [name, how, ref after @ ..] if is(name, "overflow") => {
                overflow = match how {
                    _ if is(how, "wrap") => Overflow::Wrap,
                    _ if is(how, "sat") => Overflow::Saturate,
                    _ if is(how, "fail") => Overflow::Fail,
                    _ => {
                        return Err(CommandError::text("ERR Invalid OVERFLOW type specified"));
                    }
                };
                rest = after;
                continue;
            }
            _ => return Err(CommandError::Syntax),
        };
        operations.push(BitFieldOperation {
            field,
            change,
            overflow,
        });
        rest = after;
    }
}

pub(super) fn bitfield_ro(call: &mut CommandCall<'_>) -> Answer {
    let operations = parse(call.rest(2))?;
    let reads = |operation: &BitFieldOperation| matches!(operation.change, BitFieldChange::None);
    if !operations.iter().all(reads) {
        return Err(CommandError::text(
            "ERR BITFIELD_RO only supports the GET subcommand",
        ));
    }
    read(call, &operations)
}

fn read(call: &mut CommandCall<'_>, operations: &[BitFieldOperation]) -> Answer {
    let reply = &mut *call.reply;
    call.keys.read_string(call.args[1], |value| {
        let value = value.unwrap_or_default();
        reply.array(operations.len());
        for operation in operations {
            reply.integer(operation.field.read(value));
        }
    })
}

pub(super) fn bitfield(call: &mut CommandCall<'_>) -> Answer {
    let key = call.args[1];
    let operations = parse(call.rest(2))?;
    let writes = |operation: &&BitFieldOperation| !matches!(operation.change, BitFieldChange::None);
    // Only fields that are written extend the string.
    let Some(end) = operations
        .iter()
        .filter(writes)
        .map(|operation| operation.field.end())
        .max()
    else {
        return read(call, &operations);
    };
    super::check_growth(call, key, end)?;
    let mut answers = Vec::with_capacity(operations.len());
    let changed = call.keys.edit_string(key, |text| {
        // Redis extends the string for all fields at once, even if their values do not fit.
        let mut changed = text.bytes().len() < end;
        let bytes = text.extend_to(end);
        debug_assert!(end <= bytes.len());
        for operation in &operations {
            let old = operation.field.read(bytes);
            let applied = operation.apply(old);
            if let Some((new, _)) = applied
                && new != old
            {
                operation.field.write(bytes, new);
                changed = true;
            }
            answers.push(applied.map(|(_, answer)| answer));
        }
        changed
    })?;
    if changed {
        call.keys.changed(key, Class::String, "setbit");
    }
    call.reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(value) => call.reply.integer(value),
            None => call.reply.null(),
        }
    }
    Ok(())
}
