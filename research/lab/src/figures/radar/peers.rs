//! Calls of single operations on maps of other projects.

use super::data::is_value;
use super::work::RadarSingleOperation;
use crate::figures::job::PointError;
use nearfield_peers::{PeerMap, PeerSession};
use std::hint::black_box;

/// Number of operations after which a guard is taken again.
pub(super) const STRIDE: usize = 256;

/// Converts the keys of calls to the peer's form.
pub(super) fn calls_for<P: PeerMap<u64>>(
    calls: impl Iterator<Item = RadarSingleOperation>,
) -> Result<Vec<(P::Key, RadarSingleOperation)>, PointError> {
    let calls = calls.map(|call| Ok((P::key(call.key())?, call)));
    let calls: Result<_, &str> = calls.collect();
    calls.map_err(|reason| PointError::Missing(reason.to_owned()))
}

/// Executes calls, and returns the number of those that did not find a value that is certainly
/// there.
pub(super) fn run_part<S: PeerSession>(
    session: &mut S,
    calls: &[(S::Key, RadarSingleOperation)],
) -> u64 {
    let mut wrong = 0;
    for stride in calls.chunks(STRIDE) {
        let guard = session.pin();
        for &(key, call) in stride {
            let is_right = match call {
                RadarSingleOperation::Get(of) => {
                    let value = session.get(&guard, key);
                    value.is_some_and(|value| is_value(of, value))
                }
                RadarSingleOperation::Insert(_, value) => {
                    session.insert(&guard, key, value);
                    true
                }
                RadarSingleOperation::Update(_, value) => session.update(&guard, key, value),
                // The key may have been removed before.
                RadarSingleOperation::Remove(_) => {
                    black_box(session.remove(&guard, key));
                    true
                }
                RadarSingleOperation::Scan(_, limit) => {
                    let mut sum = 0_u64;
                    let count =
                        session.scan(&guard, key, limit, |value| sum = sum.wrapping_add(value));
                    black_box(sum);
                    count == limit
                }
            };
            wrong += u64::from(!is_right);
        }
    }
    wrong
}
