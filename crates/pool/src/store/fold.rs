//! What operations on one key come to, done one after the other in memory.

use super::form::StoreForm;
use nearfield_core::{Input, Operation, Output};

/// What a key holds between two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    Absent,
    /// What it held before the first of them.
    Before,
    /// What the operation at this position has set.
    Set(usize),
}

/// What a key held before. The value is not known if it was not read; then nobody compares with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before<'v> {
    pub is_present: bool,
    pub value: Option<&'v [u8]>,
}

/// An operation and what it has met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Met {
    pub position: usize,
    pub now: Now,
    /// Of an update: whether it has set its value.
    pub applied: bool,
}

/// The value that a write sets.
pub(super) fn value_set<'b, F: StoreForm>(
    input: &Input<'b, F>,
    position: usize,
) -> Option<F::Value<'b>> {
    match input.operations()[position] {
        Operation::Insert { value, .. } | Operation::Update { value, .. } => {
            Some(input.value(value))
        }
        _ => None,
    }
}

/// True if an operation compares with a value.
pub(super) fn compares<F: StoreForm>(input: &Input<'_, F>, position: usize) -> bool {
    match input.operations()[position] {
        Operation::Update { previous, .. } => input.previous(previous).is_some(),
        _ => false,
    }
}

/// Does operations on one key in order, tells `meet` what each of them meets, and answers what the
/// key holds in the end.
pub(super) fn fold<F: StoreForm>(
    input: &Input<'_, F>,
    positions: impl Iterator<Item = usize>,
    before: Before<'_>,
    mut meet: impl FnMut(Met),
) -> Now {
    let mut now = if before.is_present {
        Now::Before
    } else {
        Now::Absent
    };
    for position in positions {
        let mut applied = true;
        let next = match input.operations()[position] {
            Operation::Insert { .. } => Now::Set(position),
            Operation::Update { previous, .. } => {
                applied = match (now, input.previous(previous)) {
                    (Now::Absent, None) => true,
                    (Now::Absent, Some(_)) | (_, None) => false,
                    (Now::Before, Some(previous)) => before
                        .value
                        .is_some_and(|value| value == F::value_bytes(previous).as_ref()),
                    (Now::Set(at), Some(previous)) => value_set(input, at) == Some(previous),
                };
                if applied { Now::Set(position) } else { now }
            }
            Operation::Remove { .. } => Now::Absent,
            _ => now,
        };
        meet(Met {
            position,
            now,
            applied,
        });
        now = next;
    }
    now
}

/// Writes the outcome of an operation; `before` is the value from before the first one.
pub(super) fn write_outcome<F: StoreForm>(
    input: &Input<'_, F>,
    output: &mut Output<'_, F>,
    met: Met,
    before: Option<&[u8]>,
) {
    let operation = &input.operations()[met.position];
    let Some(key) = operation.point_key() else {
        return;
    };
    let key = input.key(key);
    let value = match met.now {
        Now::Absent => None,
        Now::Before => before.map(F::value_of),
        Now::Set(at) => value_set(input, at).map(F::shorten_value),
    };
    match operation {
        Operation::Update { .. } => output.updated(met.position, key, met.applied, value),
        _ => output.value(met.position, key, value),
    }
}
