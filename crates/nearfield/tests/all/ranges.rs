//! Shared parts of the range suites: bounds, and iteration from both ends alongside a `BTreeMap`.

use nearfield::EntryForm;
use nearfield_testkit::keys::{Random, SampleForm};
use rand::RngExt;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

pub type Model<F> = BTreeMap<<F as EntryForm>::OwnedKey, <F as EntryForm>::OwnedValue>;

/// Returns a bound at, near or far from a key of the model, which must not be empty.
fn bound<F: SampleForm>(model: &Model<F>, random: &mut Random) -> Bound<F::OwnedKey> {
    let position = random.random_range(0..model.len());
    let Some(key) = model.keys().nth(position).cloned() else {
        return Bound::Unbounded;
    };
    let key = match random.random_bool(0.5) {
        true => F::near(F::key(&key), random),
        false => key,
    };
    match random.random_range(0..5) {
        0 => Bound::Unbounded,
        1..3 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// Iterates ranges of a map from both ends in turn and checks that they equal those of the model,
/// which must not be empty. The first range is the whole map.
///
/// `range` is called with the bounds of each range.
#[track_caller]
pub fn agree<F: SampleForm, R>(
    model: &Model<F>,
    rounds: usize,
    random: &mut Random,
    range: impl for<'k> Fn((Bound<F::Key<'k>>, Bound<F::Key<'k>>)) -> R,
) -> Vec<R>
where
    R: DoubleEndedIterator<Item = (F::OwnedKey, F::OwnedValue)>,
{
    let mut ended = Vec::new();
    for round in 0..rounds {
        let (low, high) = match round {
            0 => (Bound::Unbounded, Bound::Unbounded),
            _ => (bound::<F>(model, random), bound::<F>(model, random)),
        };
        let bounds = (low.as_ref().map(F::key), high.as_ref().map(F::key));
        // `BTreeMap::range` panics where a range ends before it begins.
        let within = |key: &F::OwnedKey| (low.clone(), high.clone()).contains(key);
        let mut expected = model.iter().filter(|(key, _)| within(key));
        let mut range = range(bounds);
        let backwards = [0.0, 0.5, 1.0, 0.1][round % 4];
        loop {
            let (found, expected) = match random.random_bool(backwards) {
                true => (range.next_back(), expected.next_back()),
                false => (range.next(), expected.next()),
            };
            let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
            assert_eq!(found, expected, "{} keys, {bounds:?}", model.len());
            if found.is_none() {
                break;
            }
        }
        assert_eq!((range.next(), range.next_back()), (None, None));
        ended.push(range);
    }
    ended
}
