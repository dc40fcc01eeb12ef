//! The lookup by name of commands that have a plan, as fast as a comparison.

use super::plan::CommandPlan;
use super::spec::{CommandDefinition, CommandImplementation};
use crate::catalog::CommandRegistry;

/// A command that may be part of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Batchable {
    name: u64,
    /// The row of the table.
    pub command: &'static CommandDefinition,
    /// The function that turns it into index operations.
    pub plan: CommandPlan,
    /// The command's number in statistics.
    pub number: usize,
}

/// The commands that have a plan and a name of eight letters at most, by a hash of the name.
#[derive(Debug)]
pub struct Batchables {
    places: [Option<Batchable>; PLACES],
}

const PLACES: usize = 256;

/// The longest name of a command that may be part of a batch.
pub const NAME_BYTES_MAX: usize = 8;

/// Returns a name as one number, in the same case. It is computed from parts that are read as
/// numbers: bytes that are copied into an array and then read as a whole would go through memory.
#[inline]
pub fn packed(name: &[u8]) -> Option<u64> {
    let number = match *name {
        [a, b, c] => u64::from(u32::from_le_bytes([a, b, c, 0])),
        [_, _, _, _, ..] if name.len() <= NAME_BYTES_MAX => {
            let (first, last) = (name.first_chunk::<4>()?, name.last_chunk::<4>()?);
            // If the parts overlap, their common bytes are at the same place in both.
            let shift = 8 * (name.len() - 4);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift
        }
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a] => u64::from(a),
        _ => return None,
    };
    Some(number)
}

/// Returns a name of `length` bytes in lower case. In letters the bit that is set means lower case
/// and nothing else. It turns other bytes into bytes that no command's name has, so a name with
/// them is never found.
#[inline]
fn lower(name: u64, length: usize) -> Option<u64> {
    let lower = 0x2020_2020_2020_2020;
    // The padding stays zero, or a short name would equal a longer one with blanks at its end.
    let used = u64::MAX.checked_shr(64 - 8 * length as u32)?;
    Some(name | (lower & used))
}

#[inline]
fn place(name: u64) -> usize {
    // The multiplier is the golden ratio.
    (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

impl Batchables {
    /// Finds the commands that may be part of a batch among all.
    pub fn new(commands: &[&'static CommandDefinition], registry: &CommandRegistry) -> Batchables {
        let mut places = [None; PLACES];
        for &command in commands {
            let name = command.name.as_bytes();
            let name = packed(name).and_then(|packed| lower(packed, name.len()));
            let (CommandImplementation::Planned(plan), Some(name)) = (command.run, name) else {
                continue;
            };
            // The table of commands does not change, so open addressing needs no removal.
            let free = (place(name)..place(name) + PLACES)
                .map(|place| place % PLACES)
                .find(|&place| places.get(place).is_some_and(Option::is_none));
            debug_assert!(
                free.is_some(),
                "the places are more than the commands with plans"
            );
            if let Some(free) = free.and_then(|free| places.get_mut(free)) {
                *free = Some(Batchable {
                    name,
                    command,
                    plan,
                    number: registry.number(command).unwrap_or(0),
                });
            }
        }
        debug_assert!(
            places.iter().any(Option::is_none),
            "a search for an unknown name ends at an empty place"
        );
        Batchables { places }
    }

    /// Returns the command with this name in any case, if it has a plan, and the name padded with
    /// zeros.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<(&Batchable, [u8; NAME_BYTES_MAX])> {
        let packed = packed(name)?;
        let name = lower(packed, name.len())?;
        let mut place = place(name);
        loop {
            // The first empty place ends the search.
            let batchable = self.places.get(place)?.as_ref()?;
            if batchable.name == name {
                return Some((batchable, packed.to_le_bytes()));
            }
            place = (place + 1) % PLACES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::TABLE;

    #[test]
    fn commands_with_plans_are_found_in_any_case_and_no_others() {
        let batchables = TABLE.batchables();
        let mut count = 0;
        for command in TABLE.all() {
            let upper = command.name.to_ascii_uppercase();
            let found = batchables.find(upper.as_bytes());
            let planned =
                matches!(command.run, CommandImplementation::Planned(_)) && command.name.len() <= 8;
            assert_eq!(found.is_some(), planned, "{}", command.name);
            if let Some((found, _)) = found {
                assert!(std::ptr::eq(found.command, command));
                assert!(command.name.bytes().all(|byte| byte.is_ascii_lowercase()));
                assert!(command.turning.is_none(), "{}", command.name);
                count += 1;
            }
        }
        assert!((20..PLACES / 2).contains(&count));
        for name in [
            &b""[..],
            b"ge",
            b"gett",
            b"GE\x14",
            b"get\0",
            b"incrbyfloat",
        ] {
            assert!(batchables.find(name).is_none(), "{name:?}");
        }
    }
}
