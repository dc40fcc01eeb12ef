//! Operations on one key, executed in memory.

use crate::{Form, Input, Operation, Output};

/// The state of a key between two operations on it, and after the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The key is absent.
    Absent,
    /// The key holds the value that it had before the first operation.
    Before,
    /// The key holds the value that the operation at this position set.
    Set(usize),
}

impl Fate {
    /// Returns the value of the key, given its value `before` the first operation.
    pub fn value<'v, F: Form>(
        self,
        input: &Input<'v, F>,
        before: Option<F::Value<'v>>,
    ) -> Option<F::Value<'v>> {
        match self {
            Fate::Absent => None,
            Fate::Before => before,
            Fate::Set(position) => value_set(input, position),
        }
    }
}

/// The state of a key before the first operation on it.
#[derive(Clone, Copy, Debug)]
pub struct Before<V> {
    /// True if the key was present.
    pub is_present: bool,
    /// The value. A placement need not read it if no operation [compares](compares) it.
    pub value: Option<V>,
}

impl<V> Before<V> {
    /// Creates the state of a key whose value is known; `None` if it was absent.
    pub fn of(value: Option<V>) -> Before<V> {
        Before {
            is_present: value.is_some(),
            value,
        }
    }
}

/// An operation and the state of the key that it found.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// The operation.
    pub position: usize,
    /// The state of the key before the operation.
    pub now: Fate,
    /// True if the comparison of an update or a conditional remove held.
    pub applied: bool,
}

/// Returns the value that the operation at `position` sets, if it sets one.
pub fn value_set<'b, F: Form>(input: &Input<'b, F>, position: usize) -> Option<F::Value<'b>> {
    match input.operations()[position] {
        Operation::Insert { value, .. } | Operation::Update { value, .. } => {
            Some(input.value(value))
        }
        _ => None,
    }
}

/// Returns true if the operation at `position` compares the current value with another one.
pub fn compares<F: Form>(input: &Input<'_, F>, position: usize) -> bool {
    match input.operations()[position] {
        Operation::Update { previous, .. } | Operation::RemoveIf { previous, .. } => {
            input.previous(previous).is_some()
        }
        _ => false,
    }
}

/// Executes the operations at `positions`, which are on one key, in their order. Calls `meet` with
/// the state that each of them finds, and returns the final state of the key.
pub fn fold<F: Form>(
    input: &Input<'_, F>,
    positions: impl IntoIterator<Item = usize>,
    before: Before<F::Value<'_>>,
    mut meet: impl FnMut(Met),
) -> Fate {
    let mut now = match before.is_present {
        true => Fate::Before,
        false => Fate::Absent,
    };
    for position in positions {
        let mut applied = true;
        let next = match input.operations()[position] {
            Operation::Insert { .. } => Fate::Set(position),
            Operation::Update { previous, .. } | Operation::RemoveIf { previous, .. } => {
                applied = match (now, input.previous(previous)) {
                    (Fate::Absent, None) => true,
                    (Fate::Absent, Some(_)) | (_, None) => false,
                    (Fate::Before, Some(previous)) => before
                        .value
                        .is_some_and(|value| F::shorten_value(value) == F::shorten_value(previous)),
                    (Fate::Set(at), Some(previous)) => value_set(input, at) == Some(previous),
                };
                match (applied, value_set(input, position)) {
                    (false, _) => now,
                    (true, Some(_)) => Fate::Set(position),
                    (true, None) => Fate::Absent,
                }
            }
            Operation::Remove { .. } => Fate::Absent,
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

/// Writes the outcome of an operation on a key that held `before` before the first operation.
pub fn write_outcome<F: Form>(
    input: &Input<'_, F>,
    output: &mut Output<'_, F>,
    met: Met,
    before: Option<F::Value<'_>>,
) {
    let operation = &input.operations()[met.position];
    let Some(key) = operation.point_key() else {
        return;
    };
    let key = input.key(key);
    let value = match met.now {
        Fate::Absent => None,
        Fate::Before => before.map(F::shorten_value),
        Fate::Set(at) => value_set(input, at).map(F::shorten_value),
    };
    match operation {
        Operation::Update { .. } | Operation::RemoveIf { .. } => {
            output.updated(met.position, key, met.applied, value);
        }
        _ => output.value(met.position, key, value),
    }
}
