//! Operations on one key, executed in memory.

use crate::{BatchInput, BatchOutput, EntryForm, IndexOperation};

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
    pub fn value<'v, F: EntryForm>(
        self,
        input: &BatchInput<'v, F>,
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
pub struct InitialKeyState<V> {
    /// True if the key was present.
    pub is_present: bool,
    /// The value. A placement need not read it if no operation [compares](compares) it.
    pub value: Option<V>,
}

impl<V> InitialKeyState<V> {
    /// Creates the state of a key whose value is known; `None` if it was absent.
    pub fn of(value: Option<V>) -> InitialKeyState<V> {
        InitialKeyState {
            is_present: value.is_some(),
            value,
        }
    }
}

/// An operation and the state of the key that it found.
#[derive(Clone, Copy, Debug)]
pub struct FoundKeyState {
    /// The operation.
    pub position: usize,
    /// The state of the key before the operation.
    pub now: Fate,
    /// True if the comparison of an update or a conditional remove held.
    pub applied: bool,
}

/// Returns the value that the operation at `position` sets, if it sets one.
pub fn value_set<'b, F: EntryForm>(
    input: &BatchInput<'b, F>,
    position: usize,
) -> Option<F::Value<'b>> {
    match input.operations()[position] {
        IndexOperation::Insert { value, .. } | IndexOperation::Update { value, .. } => {
            Some(input.value(value))
        }
        _ => None,
    }
}

/// Returns true if the operation at `position` compares the current value with another one.
pub fn compares<F: EntryForm>(input: &BatchInput<'_, F>, position: usize) -> bool {
    match input.operations()[position] {
        IndexOperation::Update { previous, .. } | IndexOperation::RemoveIf { previous, .. } => {
            // An update that expects an absent key compares its presence only.
            input.previous(previous).is_some()
        }
        _ => false,
    }
}

/// Executes the operations at `positions`, which are on one key, in their order. Calls `found` with
/// the state that each of them finds, and returns the final state of the key.
pub fn fold<F: EntryForm>(
    input: &BatchInput<'_, F>,
    positions: impl IntoIterator<Item = usize>,
    before: InitialKeyState<F::Value<'_>>,
    mut found: impl FnMut(FoundKeyState),
) -> Fate {
    let mut now = match before.is_present {
        true => Fate::Before,
        false => Fate::Absent,
    };
    for position in positions {
        debug_assert!(input.operations()[position].point_key().is_some());
        let mut applied = true;
        let next = match input.operations()[position] {
            IndexOperation::Insert { .. } => Fate::Set(position),
            IndexOperation::Update { previous, .. } | IndexOperation::RemoveIf { previous, .. } => {
                applied = match (now, input.previous(previous)) {
                    (Fate::Absent, None) => true,
                    (Fate::Absent, Some(_)) | (_, None) => false,
                    (Fate::Before, Some(previous)) => {
                        debug_assert!(before.value.is_some(), "a compared value was read");
                        before.value.is_some_and(|value| {
                            F::shorten_value(value) == F::shorten_value(previous)
                        })
                    }
                    // The index gets this value only after the last operation on the key.
                    (Fate::Set(at), Some(previous)) => value_set(input, at) == Some(previous),
                };
                match (applied, value_set(input, position)) {
                    (false, _) => now,
                    (true, Some(_)) => Fate::Set(position),
                    // Of the two, only a conditional remove sets no value.
                    (true, None) => Fate::Absent,
                }
            }
            IndexOperation::Remove { .. } => Fate::Absent,
            _ => now,
        };
        // The state before the operation, because outcomes hold the old value.
        found(FoundKeyState {
            position,
            now,
            applied,
        });
        now = next;
    }
    now
}

/// Writes the outcome of an operation on a key that held `before` before the first operation.
pub fn write_outcome<F: EntryForm>(
    input: &BatchInput<'_, F>,
    output: &mut BatchOutput<'_, F>,
    found: FoundKeyState,
    before: Option<F::Value<'_>>,
) {
    let operation = &input.operations()[found.position];
    let Some(key) = operation.point_key() else {
        return;
    };
    let key = input.key(key);
    let value = match found.now {
        Fate::Absent => None,
        Fate::Before => before.map(F::shorten_value),
        Fate::Set(at) => value_set(input, at).map(F::shorten_value),
    };
    match operation {
        IndexOperation::Update { .. } | IndexOperation::RemoveIf { .. } => {
            output.updated(found.position, key, found.applied, value);
        }
        _ => output.value(found.position, key, value),
    }
}
