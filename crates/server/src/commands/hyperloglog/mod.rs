//! HyperLogLogs: strings that estimate the number of distinct elements added to them.

mod debug;
mod registers;
mod sparse;
mod value;

use crate::command::parts::different;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, Flags, PlannedCommand, Touch, is,
};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::object::HeapBytes;
use crate::steps;
use registers::{REGISTERS, estimate, place};
use value::HyperLogLogForm;

const GROUP: CommandGroup = CommandGroup::HyperLogLog;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::planned("pfadd", -2, Touch::Change, pfadd)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "2.8.9", "O(1) for each element")
        .summary("Adds elements to a HyperLogLog. Creates the key if it does not exist."),
    CommandDefinition::new("pfcount", -2, pfcount)
        .reads()
        .flag(Flags::MAY_CHANGE)
        .keys_at(1, -1, 1)
        .about(GROUP, "2.8.9", "O(N) for N keys")
        .summary("Returns the approximate number of distinct elements in HyperLogLogs.")
        .differs(
            "While the log or the snapshot cannot be written, and for keys in a pool, the number \
             is not cached in the value but counted each time.",
        ),
    CommandDefinition::new("pfmerge", -2, pfmerge)
        .grows()
        .keys_at(1, -1, 1)
        .about(GROUP, "2.8.9", "O(N) for N keys")
        .summary("Merges HyperLogLogs into one."),
    CommandDefinition::new("pfdebug", 3, debug::pfdebug)
        .grows()
        .flag(Flags::ADMIN)
        .key(2)
        .about(GROUP, "2.8.9", "O(1)")
        .summary("Shows the form of a HyperLogLog, for tests."),
    CommandDefinition::new("pfselftest", 1, pfselftest)
        .flag(Flags::ADMIN)
        .about(GROUP, "2.8.9", "O(1)")
        .summary("Checks the estimate with a known number of elements."),
];

/// Error for a sparse form with runs that do not cover all registers exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Corrupt;

impl From<Corrupt> for CommandError {
    fn from(_: Corrupt) -> CommandError {
        CommandError::text("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// A value to which elements will be added.
enum PfaddTarget {
    /// A dense value, which is changed in place if the elements change it.
    Dense { changes: bool },
    /// A copy of a sparse value.
    Sparse(Vec<u8>),
}

fn pfadd(planned: &mut PlannedCommand<'_>) -> Answer {
    let elements = planned.rest(2);
    let (found, expires_at_ms) = planned.read_string(0, |_, value, expiry| {
        let found = value.map(|value| match value::form(value)? {
            HyperLogLogForm::Dense => Ok::<_, CommandError>(PfaddTarget::Dense {
                // Most elements of a value that already has many change nothing.
                changes: value::changes_dense(value, elements),
            }),
            HyperLogLogForm::Sparse => Ok(PfaddTarget::Sparse(value.to_vec())),
        });
        (found, expiry)
    })?;
    let is_changed = match found.transpose()? {
        Some(PfaddTarget::Dense { changes: false }) => false,
        Some(PfaddTarget::Dense { changes: true }) => planned.edit_string(0, |text| {
            // A dense value has this length already, so nothing is extended.
            let value = text.extend_to(value::DENSE_BYTES);
            let is_changed = value::add_dense(value, elements) > 0;
            value::set_stale(value);
            is_changed
        })?,
        found => {
            let sparse_max = planned.limits().hyperloglog_sparse_bytes_max;
            let (mut is_changed, mut value) = match found {
                Some(PfaddTarget::Sparse(value)) => (false, value),
                _ => (true, value::empty()),
            };
            for element in elements {
                is_changed |= value::raise(&mut value, place(element), sparse_max)?;
            }
            if is_changed {
                value::set_stale(&mut value);
                planned.set_string(0, &value, expires_at_ms)?;
            }
            is_changed
        }
    };
    if is_changed {
        planned.changed(0, Class::String, "pfadd");
    }
    planned.reply.integer(i64::from(is_changed));
    Ok(())
}

fn pfcount(call: &mut CommandCall<'_>) -> Answer {
    let count = match *call.rest(1) {
        [key] => {
            let (count, is_kept) = call.keys.read_string(key, |value| match value {
                Some(value) => value::counted(value, value::form(value)?),
                None => Ok((0, true)),
            })??;
            if !is_kept {
                keep_count(call, key, count)?;
            }
            count
        }
        ref keys => {
            let mut registers = [0; REGISTERS];
            for key in different(keys) {
                merge(call, key, &mut registers)?;
            }
            estimate(&registers)
        }
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// Writes the number of elements into a value, as Redis does. This change is logged.
fn keep_count(call: &mut CommandCall<'_>, key: &[u8], count: u64) -> Answer {
    // The count is only a cache. PFCOUNT is no write, and must not fail like one.
    if call.keys.is_shared() || call.server.refuses_writes() {
        return Ok(());
    }
    let keep = |text: &mut HeapBytes| value::keep_count(text.extend_to(0), count);
    call.keys.edit_string(key, keep)?;
    call.keys.changed(key, Class::Unnamed, "");
    Ok(())
}

/// Raises registers to those of a key, if it exists. Returns the form of that value.
fn merge(
    call: &mut CommandCall<'_>,
    key: &[u8],
    into: &mut registers::Registers,
) -> Result<Option<HyperLogLogForm>, CommandError> {
    steps::count(1);
    call.keys.read_string(key, |value| {
        let Some(value) = value else { return Ok(None) };
        let form = value::form(value)?;
        value::merge(value, form, into)?;
        Ok(Some(form))
    })?
}

fn pfmerge(call: &mut CommandCall<'_>) -> Answer {
    let (target, mut registers, mut is_dense) = (call.args[1], [0; REGISTERS], false);
    for key in different(call.rest(1)) {
        // As in Redis, one dense source makes the result dense.
        is_dense |= merge(call, key, &mut registers)? == Some(HyperLogLogForm::Dense);
    }
    let sparse_max = call.keys.limits().hyperloglog_sparse_bytes_max;
    let (value, expires_at_ms) = call
        .keys
        .read_string_and_expiry(target, |value, expiry| (value.map(<[u8]>::to_vec), expiry))?;
    let mut value = value.unwrap_or_else(value::empty);
    if is_dense {
        value::make_dense(&mut value)?;
    }
    for (index, &rank) in registers.iter().enumerate().filter(|(_, rank)| **rank > 0) {
        value::raise(&mut value, (index, rank), sparse_max)?;
    }
    value::set_stale(&mut value);
    call.keys.set_string(target, &value, expires_at_ms)?;
    // As in Redis, PFMERGE has no event of its own.
    call.keys.changed(target, Class::String, "pfadd");
    call.reply.ok();
    Ok(())
}

fn pfselftest(call: &mut CommandCall<'_>) -> Answer {
    /// The largest relative error: five times the standard error.
    const ERROR_MAX: f64 = 5.0 * 0.0081;
    // The default of `hll-sparse-max-bytes`, so that both forms are tested.
    const SPARSE_MAX: usize = 3000;
    let mut value = value::empty();
    for number in 1..=100_000_u32 {
        value::raise(&mut value, place(&number.to_le_bytes()), SPARSE_MAX)?;
        if number.is_power_of_two() {
            value::set_stale(&mut value);
            let (count, _) = value::counted(&value, value::form(&value)?)?;
            let error = count as f64 / f64::from(number) - 1.0;
            if error.abs() > ERROR_MAX {
                return Err(CommandError::owned(format!(
                    "ERR TESTFAILED {number} different elements are counted as {count}"
                )));
            }
        }
    }
    call.reply.ok();
    Ok(())
}
