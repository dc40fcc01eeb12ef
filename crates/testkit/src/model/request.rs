//! Operations that own their keys, and their execution on a `BTreeMap`.

use crate::keys::Sample;
use nearfield_core::{
    Batch, Bytes, Direction, Error, Form, Input, MAX_KEY_BYTES, Operation, Outcome,
};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The state that the requests of a model test act on.
pub(crate) type State<F> = BTreeMap<<F as Form>::OwnedKey, <F as Form>::OwnedValue>;

/// An [`Operation`] that owns its keys and values.
#[derive(Clone, Debug)]
pub(crate) enum Request<F: Form> {
    Get(F::OwnedKey),
    Insert(F::OwnedKey, F::OwnedValue),
    Update(F::OwnedKey, Option<F::OwnedValue>, F::OwnedValue),
    Remove(F::OwnedKey),
    RemoveIf(F::OwnedKey, F::OwnedValue),
    Predecessor(F::OwnedKey),
    Successor(F::OwnedKey),
    Scan(Scan<F>),
}

/// The fields of an [`Operation::Scan`].
#[derive(Clone, Debug)]
pub(crate) struct Scan<F: Form> {
    pub(crate) low: Bound<F::OwnedKey>,
    pub(crate) high: Bound<F::OwnedKey>,
    pub(crate) limit: u32,
    pub(crate) direction: Direction,
}

/// An [`Outcome`] that owns its keys and values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer<F: Form> {
    Value(Option<F::OwnedValue>),
    Updated(bool, Option<F::OwnedValue>),
    Entry(Option<(F::OwnedKey, F::OwnedValue)>),
    Entries(Vec<(F::OwnedKey, F::OwnedValue)>),
    /// The length of the key that is refused.
    KeyTooLong(usize),
}

impl Request<Bytes> {
    /// Shortens keys to at most `key_bytes_max` bytes, except those that every index refuses.
    pub(crate) fn shorten_keys(&mut self, key_bytes_max: usize) {
        let shorten = |key: &mut Vec<u8>| {
            if key.len() <= MAX_KEY_BYTES {
                key.truncate(key_bytes_max);
            }
        };
        match self {
            Request::Get(key)
            | Request::Insert(key, _)
            | Request::Update(key, ..)
            | Request::Remove(key)
            | Request::RemoveIf(key, _)
            | Request::Predecessor(key)
            | Request::Successor(key) => shorten(key),
            Request::Scan(scan) => {
                for bound in [&mut scan.low, &mut scan.high] {
                    if let Bound::Included(key) | Bound::Excluded(key) = bound {
                        shorten(key);
                    }
                }
            }
        }
    }
}

impl<F: Form> Request<F> {
    /// Copies an operation of a batch that is being executed; `None` if it was refused.
    pub(crate) fn read(operation: &Operation<F>, input: &Input<'_, F>) -> Option<Self> {
        let key = |stored| F::own_key(input.key(stored));
        let value = |stored| F::own_value(input.value(stored));
        Some(match *operation {
            Operation::Get { key: at } => Request::Get(key(at)),
            Operation::Insert {
                key: at,
                value: new,
            } => Request::Insert(key(at), value(new)),
            Operation::Update {
                key: at,
                previous,
                value: new,
            } => {
                let previous = input.previous(previous).map(F::own_value);
                Request::Update(key(at), previous, value(new))
            }
            Operation::Remove { key: at } => Request::Remove(key(at)),
            Operation::RemoveIf { key: at, previous } => {
                let expected = input.previous(previous).map(F::own_value);
                Request::RemoveIf(key(at), expected.expect("a batch stores a value"))
            }
            Operation::Predecessor { key: at } => Request::Predecessor(key(at)),
            Operation::Successor { key: at } => Request::Successor(key(at)),
            Operation::Scan {
                range,
                limit,
                direction,
            } => {
                let (low, high) = input.range(range);
                Request::Scan(Scan {
                    low: low.map(F::own_key),
                    high: high.map(F::own_key),
                    limit,
                    direction,
                })
            }
            Operation::Refused => return None,
        })
    }

    /// Adds the request to a batch and returns its position.
    pub(crate) fn add_to(&self, batch: &mut Batch<F>) -> usize {
        match self {
            Request::Get(key) => batch.get(F::key(key)),
            Request::Insert(key, value) => batch.insert(F::key(key), F::value(value)),
            Request::Update(key, previous, value) => batch.update(
                F::key(key),
                previous.as_ref().map(F::value),
                F::value(value),
            ),
            Request::Remove(key) => batch.remove(F::key(key)),
            Request::RemoveIf(key, expected) => batch.remove_if(F::key(key), F::value(expected)),
            Request::Predecessor(key) => batch.predecessor(F::key(key)),
            Request::Successor(key) => batch.successor(F::key(key)),
            Request::Scan(scan) => batch.scan(
                scan.low.as_ref().map(F::key),
                scan.high.as_ref().map(F::key),
                scan.limit,
                scan.direction,
            ),
        }
    }

    /// Executes the request. Its keys must be of lengths that an index accepts.
    pub(crate) fn apply(&self, state: &mut State<F>) -> Answer<F> {
        match self {
            Request::Get(key) => Answer::Value(state.get(key).cloned()),
            Request::Insert(key, value) => Answer::Value(state.insert(key.clone(), value.clone())),
            Request::Update(key, previous, value) => {
                let before = state.get(key).cloned();
                let applies = before == *previous;
                if applies {
                    state.insert(key.clone(), value.clone());
                }
                Answer::Updated(applies, before)
            }
            Request::Remove(key) => Answer::Value(state.remove(key)),
            Request::RemoveIf(key, expected) => {
                let before = state.get(key).cloned();
                let applies = before.as_ref() == Some(expected);
                if applies {
                    state.remove(key);
                }
                Answer::Updated(applies, before)
            }
            Request::Predecessor(key) => {
                Answer::Entry(state.range(..=key).next_back().map(owned::<F>))
            }
            Request::Successor(key) => Answer::Entry(state.range(key..).next().map(owned::<F>)),
            Request::Scan(scan) => Answer::Entries(scan.apply(state)),
        }
    }

    /// Returns all keys and bounds.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &F::OwnedKey> {
        let (first, second) = match self {
            Request::Get(key)
            | Request::Insert(key, _)
            | Request::Update(key, ..)
            | Request::Remove(key)
            | Request::RemoveIf(key, _)
            | Request::Predecessor(key)
            | Request::Successor(key) => (Some(key), None),
            Request::Scan(scan) => (bound_key(&scan.low), bound_key(&scan.high)),
        };
        first.into_iter().chain(second)
    }

    /// Returns all values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &F::OwnedValue> {
        let (first, second) = match self {
            Request::Insert(_, value) | Request::RemoveIf(_, value) => (Some(value), None),
            Request::Update(_, previous, value) => (Some(value), previous.as_ref()),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }
}

impl<F: Sample> Request<F> {
    /// Executes the request and returns the expected result, which may be a refusal.
    pub(crate) fn expected(&self, state: &mut State<F>) -> Answer<F> {
        let lengths = self.keys().map(|key| F::key_bytes(F::key(key)));
        match lengths.into_iter().find(|&length| length > MAX_KEY_BYTES) {
            Some(length) => Answer::KeyTooLong(length),
            None => self.apply(state),
        }
    }
}

impl<F: Form> Scan<F> {
    fn apply(&self, state: &State<F>) -> Vec<(F::OwnedKey, F::OwnedValue)> {
        if self.is_inverted() {
            return Vec::new();
        }
        let range = state.range((self.low.as_ref(), self.high.as_ref()));
        let limit = self.limit as usize;
        match self.direction {
            Direction::Ascending => range.take(limit).map(owned::<F>).collect(),
            Direction::Descending => range.rev().take(limit).map(owned::<F>).collect(),
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

impl<F: Form> Answer<F> {
    /// Copies an index's outcome; `None` for an operation that failed or is pending.
    pub(crate) fn read(outcome: &Outcome<'_, F>) -> Option<Self> {
        let entry = |&(key, value): &(_, _)| (F::own_key(key), F::own_value(value));
        Some(match outcome {
            Outcome::Value(value) => Answer::Value(value.map(F::own_value)),
            Outcome::Updated { applied, before } => {
                Answer::Updated(*applied, before.map(F::own_value))
            }
            Outcome::Entry(found) => Answer::Entry(found.as_ref().map(entry)),
            Outcome::Entries(found) => Answer::Entries(found.iter().map(entry).collect()),
            Outcome::Pending | Outcome::Failed(_) => return None,
        })
    }

    /// Returns true if an index's outcome equals this result.
    pub(crate) fn agrees<'a>(&'a self, outcome: &Outcome<'a, F>) -> bool {
        match (self, outcome) {
            (Answer::Value(ours), Outcome::Value(theirs)) => ours.as_ref().map(F::value) == *theirs,
            (Answer::Updated(ours, value), Outcome::Updated { applied, before }) => {
                ours == applied && value.as_ref().map(F::value) == *before
            }
            (Answer::Entry(ours), Outcome::Entry(theirs)) => {
                ours.as_ref().map(borrowed::<F>) == *theirs
            }
            (Answer::Entries(ours), Outcome::Entries(theirs)) => {
                ours.iter().map(borrowed::<F>).eq(theirs.iter().copied())
            }
            (Answer::KeyTooLong(ours), Outcome::Failed(error)) => is_key_too_long(error, *ours),
            _ => false,
        }
    }
}

/// Returns true if `error` refuses a key of `bytes` bytes.
pub(crate) fn is_key_too_long(error: &Error, bytes: usize) -> bool {
    matches!(error, Error::KeyTooLong { length, limit, .. }
        if *length == bytes && *limit == MAX_KEY_BYTES)
}

/// Returns the key of a bound.
pub(crate) fn bound_key<K>(bound: &Bound<K>) -> Option<&K> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn owned<F: Form>((key, value): (&F::OwnedKey, &F::OwnedValue)) -> (F::OwnedKey, F::OwnedValue) {
    (key.clone(), value.clone())
}

fn borrowed<F: Form>((key, value): &(F::OwnedKey, F::OwnedValue)) -> (F::Key<'_>, F::Value<'_>) {
    (F::key(key), F::value(value))
}
