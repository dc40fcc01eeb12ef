//! Operations that own their keys, and their execution on a `BTreeMap`.

use crate::keys::SampleForm;
use nearfield_core::{
    Batch, BatchInput, ByteStrings, EntryForm, IndexOperation, MAX_KEY_BYTES, OperationError,
    OperationOutcome, ScanDirection,
};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The state that the requests of a model test act on.
pub(crate) type State<F> = BTreeMap<<F as EntryForm>::OwnedKey, <F as EntryForm>::OwnedValue>;

/// An [`IndexOperation`] that owns its keys and values.
#[derive(Clone, Debug)]
pub(crate) enum OwnedOperation<F: EntryForm> {
    Get(F::OwnedKey),
    Insert(F::OwnedKey, F::OwnedValue),
    Update(F::OwnedKey, Option<F::OwnedValue>, F::OwnedValue),
    Remove(F::OwnedKey),
    RemoveIf(F::OwnedKey, F::OwnedValue),
    Predecessor(F::OwnedKey),
    Successor(F::OwnedKey),
    Scan(OwnedScan<F>),
}

/// The fields of an [`IndexOperation::Scan`].
#[derive(Clone, Debug)]
pub(crate) struct OwnedScan<F: EntryForm> {
    pub(crate) low: Bound<F::OwnedKey>,
    pub(crate) high: Bound<F::OwnedKey>,
    pub(crate) limit: u32,
    pub(crate) direction: ScanDirection,
}

/// An [`OperationOutcome`] that owns its keys and values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnedOutcome<F: EntryForm> {
    Value(Option<F::OwnedValue>),
    Updated(bool, Option<F::OwnedValue>),
    Entry(Option<(F::OwnedKey, F::OwnedValue)>),
    Entries(Vec<(F::OwnedKey, F::OwnedValue)>),
    /// The length of the key that is refused.
    KeyTooLong(usize),
}

impl OwnedOperation<ByteStrings> {
    /// Shortens keys to at most `key_bytes_max` bytes, except those that every index refuses.
    pub(crate) fn shorten_keys(&mut self, key_bytes_max: usize) {
        self.change_keys(|key| {
            // Longer ones stay, so that refusals are tested, too.
            if key.len() <= MAX_KEY_BYTES {
                key.truncate(key_bytes_max);
            }
        });
    }
}

impl<F: EntryForm> OwnedOperation<F> {
    /// Changes each key of the request.
    pub(crate) fn change_keys(&mut self, mut change: impl FnMut(&mut F::OwnedKey)) {
        match self {
            OwnedOperation::Get(key)
            | OwnedOperation::Insert(key, _)
            | OwnedOperation::Update(key, ..)
            | OwnedOperation::Remove(key)
            | OwnedOperation::RemoveIf(key, _)
            | OwnedOperation::Predecessor(key)
            | OwnedOperation::Successor(key) => change(key),
            OwnedOperation::Scan(scan) => {
                for bound in [&mut scan.low, &mut scan.high] {
                    if let Bound::Included(key) | Bound::Excluded(key) = bound {
                        change(key);
                    }
                }
            }
        }
    }

    /// Copies an operation of a batch that is being executed; `None` if it was refused.
    pub(crate) fn read(operation: &IndexOperation<F>, input: &BatchInput<'_, F>) -> Option<Self> {
        let key = |stored| F::own_key(input.key(stored));
        let value = |stored| F::own_value(input.value(stored));
        Some(match *operation {
            IndexOperation::Get { key: at } => OwnedOperation::Get(key(at)),
            IndexOperation::Insert {
                key: at,
                value: new,
            } => OwnedOperation::Insert(key(at), value(new)),
            IndexOperation::Update {
                key: at,
                previous,
                value: new,
            } => {
                let previous = input.previous(previous).map(F::own_value);
                OwnedOperation::Update(key(at), previous, value(new))
            }
            IndexOperation::Remove { key: at } => OwnedOperation::Remove(key(at)),
            IndexOperation::RemoveIf { key: at, previous } => {
                let expected = input.previous(previous).map(F::own_value);
                OwnedOperation::RemoveIf(key(at), expected.expect("a batch stores a value"))
            }
            IndexOperation::Predecessor { key: at } => OwnedOperation::Predecessor(key(at)),
            IndexOperation::Successor { key: at } => OwnedOperation::Successor(key(at)),
            IndexOperation::Scan {
                range,
                limit,
                direction,
            } => {
                let (low, high) = input.range(range);
                OwnedOperation::Scan(OwnedScan {
                    low: low.map(F::own_key),
                    high: high.map(F::own_key),
                    limit,
                    direction,
                })
            }
            IndexOperation::Refused => return None,
        })
    }

    /// Adds the request to a batch and returns its position.
    pub(crate) fn add_to(&self, batch: &mut Batch<F>) -> usize {
        match self {
            OwnedOperation::Get(key) => batch.get(F::key(key)),
            OwnedOperation::Insert(key, value) => batch.insert(F::key(key), F::value(value)),
            OwnedOperation::Update(key, previous, value) => batch.update(
                F::key(key),
                previous.as_ref().map(F::value),
                F::value(value),
            ),
            OwnedOperation::Remove(key) => batch.remove(F::key(key)),
            OwnedOperation::RemoveIf(key, expected) => {
                batch.remove_if(F::key(key), F::value(expected))
            }
            OwnedOperation::Predecessor(key) => batch.predecessor(F::key(key)),
            OwnedOperation::Successor(key) => batch.successor(F::key(key)),
            OwnedOperation::Scan(scan) => batch.scan(
                scan.low.as_ref().map(F::key),
                scan.high.as_ref().map(F::key),
                scan.limit,
                scan.direction,
            ),
        }
    }

    /// Executes the request. Its keys must be of lengths that an index accepts.
    pub(crate) fn apply(&self, state: &mut State<F>) -> OwnedOutcome<F> {
        match self {
            OwnedOperation::Get(key) => OwnedOutcome::Value(state.get(key).cloned()),
            OwnedOperation::Insert(key, value) => {
                OwnedOutcome::Value(state.insert(key.clone(), value.clone()))
            }
            OwnedOperation::Update(key, previous, value) => {
                let before = state.get(key).cloned();
                let applies = before == *previous;
                if applies {
                    state.insert(key.clone(), value.clone());
                }
                OwnedOutcome::Updated(applies, before)
            }
            OwnedOperation::Remove(key) => OwnedOutcome::Value(state.remove(key)),
            OwnedOperation::RemoveIf(key, expected) => {
                let before = state.get(key).cloned();
                let applies = before.as_ref() == Some(expected);
                if applies {
                    state.remove(key);
                }
                OwnedOutcome::Updated(applies, before)
            }
            OwnedOperation::Predecessor(key) => {
                OwnedOutcome::Entry(state.range(..=key).next_back().map(owned::<F>))
            }
            OwnedOperation::Successor(key) => {
                OwnedOutcome::Entry(state.range(key..).next().map(owned::<F>))
            }
            OwnedOperation::Scan(scan) => OwnedOutcome::Entries(scan.apply(state)),
        }
    }

    /// Returns all keys and bounds.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &F::OwnedKey> {
        let (first, second) = match self {
            OwnedOperation::Get(key)
            | OwnedOperation::Insert(key, _)
            | OwnedOperation::Update(key, ..)
            | OwnedOperation::Remove(key)
            | OwnedOperation::RemoveIf(key, _)
            | OwnedOperation::Predecessor(key)
            | OwnedOperation::Successor(key) => (Some(key), None),
            OwnedOperation::Scan(scan) => (bound_key(&scan.low), bound_key(&scan.high)),
        };
        first.into_iter().chain(second)
    }

    /// Returns all values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &F::OwnedValue> {
        let (first, second) = match self {
            OwnedOperation::Insert(_, value) | OwnedOperation::RemoveIf(_, value) => {
                (Some(value), None)
            }
            OwnedOperation::Update(_, previous, value) => (Some(value), previous.as_ref()),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }
}

impl<F: SampleForm> OwnedOperation<F> {
    /// Executes the request and returns the expected result, which may be a refusal.
    pub(crate) fn expected(&self, state: &mut State<F>) -> OwnedOutcome<F> {
        let lengths = self.keys().map(|key| F::key_bytes(F::key(key)));
        // A refused operation changes nothing, so the state stays as it is.
        match lengths.into_iter().find(|&length| length > MAX_KEY_BYTES) {
            Some(length) => OwnedOutcome::KeyTooLong(length),
            None => self.apply(state),
        }
    }
}

impl<F: EntryForm> OwnedScan<F> {
    fn apply(&self, state: &State<F>) -> Vec<(F::OwnedKey, F::OwnedValue)> {
        // `BTreeMap::range` panics for such bounds, while an index finds no entries.
        if self.is_inverted() {
            return Vec::new();
        }
        let range = state.range((self.low.as_ref(), self.high.as_ref()));
        let limit = self.limit as usize;
        match self.direction {
            ScanDirection::Ascending => range.take(limit).map(owned::<F>).collect(),
            ScanDirection::Descending => range.rev().take(limit).map(owned::<F>).collect(),
        }
    }

    /// Returns true for the ranges that `BTreeMap` rejects because they end before they begin.
    fn is_inverted(&self) -> bool {
        match (bound_key(&self.low), bound_key(&self.high)) {
            (Some(low), Some(high)) if low == high => {
                matches!(self.low, Bound::Excluded(_)) || matches!(self.high, Bound::Excluded(_))
            }
            (Some(low), Some(high)) => low > high,
            _ => false,
        }
    }
}

impl<F: EntryForm> OwnedOutcome<F> {
    /// Copies an index's outcome; `None` for an operation that failed or is pending.
    pub(crate) fn read(outcome: &OperationOutcome<'_, F>) -> Option<Self> {
        let entry = |&(key, value): &(_, _)| (F::own_key(key), F::own_value(value));
        Some(match outcome {
            OperationOutcome::Value(value) => OwnedOutcome::Value(value.map(F::own_value)),
            OperationOutcome::Updated { applied, before } => {
                OwnedOutcome::Updated(*applied, before.map(F::own_value))
            }
            OperationOutcome::Entry(found) => OwnedOutcome::Entry(found.as_ref().map(entry)),
            OperationOutcome::Entries(found) => {
                OwnedOutcome::Entries(found.iter().map(entry).collect())
            }
            OperationOutcome::Pending | OperationOutcome::Failed(_) => return None,
        })
    }

    /// Returns true if an index's outcome equals this result.
    pub(crate) fn agrees<'a>(&'a self, outcome: &OperationOutcome<'a, F>) -> bool {
        match (self, outcome) {
            (OwnedOutcome::Value(ours), OperationOutcome::Value(theirs)) => {
                ours.as_ref().map(F::value) == *theirs
            }
            (OwnedOutcome::Updated(ours, value), OperationOutcome::Updated { applied, before }) => {
                ours == applied && value.as_ref().map(F::value) == *before
            }
            (OwnedOutcome::Entry(ours), OperationOutcome::Entry(theirs)) => {
                ours.as_ref().map(borrowed::<F>) == *theirs
            }
            (OwnedOutcome::Entries(ours), OperationOutcome::Entries(theirs)) => {
                ours.iter().map(borrowed::<F>).eq(theirs.iter().copied())
            }
            (OwnedOutcome::KeyTooLong(ours), OperationOutcome::Failed(error)) => {
                is_key_too_long(error, *ours)
            }
            _ => false,
        }
    }
}

/// Returns true if `error` refuses a key of `bytes` bytes.
pub(crate) fn is_key_too_long(error: &OperationError, bytes: usize) -> bool {
    matches!(error, OperationError::KeyTooLong { length, limit, .. }
        if *length == bytes && *limit == MAX_KEY_BYTES)
}

/// Returns the key of a bound.
pub(crate) fn bound_key<K>(bound: &Bound<K>) -> Option<&K> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn owned<F: EntryForm>(
    (key, value): (&F::OwnedKey, &F::OwnedValue),
) -> (F::OwnedKey, F::OwnedValue) {
    (key.clone(), value.clone())
}

fn borrowed<F: EntryForm>(
    (key, value): &(F::OwnedKey, F::OwnedValue),
) -> (F::Key<'_>, F::Value<'_>) {
    (F::key(key), F::value(value))
}
