//! Carrying values to another tier: as many at once as the tier takes together.

use super::{MovableValues, MovingValue};
use crate::place::ColdPlace;
use crate::policy::PolicyObject;
use crate::tiers::Tiers;
use crate::usage::TierRefusal;

/// Values that are being moved to one tier. `done` is called for each value that the tier has
/// taken, in any order, with true if it moved. Those that the tier refuses are
/// [kept](Carry::into_refused).
pub(super) struct Carry<'k, V: MovableValues> {
    values: &'k V,
    tiers: &'k Tiers,
    to: usize,
    /// Set if the tier must take as little time as possible.
    is_hasty: bool,
    load: Vec<LoadedValue<V::Moving>>,
    bytes: usize,
    refused: Vec<TierRefusedValue<V::Moving>>,
}

/// A value of a load, which is being moved.
pub(super) struct LoadedValue<M> {
    /// The value.
    pub(super) moving: M,
    /// The policy's description of it.
    pub(super) object: PolicyObject,
}

impl<M: MovingValue> LoadedValue<M> {
    /// Returns the policy's description of the value, with the bytes that were carried.
    fn as_carried(&self) -> PolicyObject {
        PolicyObject {
            bytes: self.moving.value().len() as u64,
            tier: self.moving.from(),
            ..self.object
        }
    }
}

/// A value that a tier refused.
pub(super) struct TierRefusedValue<M> {
    /// The value, described with the bytes that were carried.
    pub(super) value: LoadedValue<M>,
    /// Set if the tier will refuse it later, too, because of the value itself.
    pub(super) for_long: bool,
}

impl<'k, V: MovableValues> Carry<'k, V> {
    /// Creates an empty load for tier `to`.
    pub(super) fn new(values: &'k V, tiers: &'k Tiers, to: usize, is_hasty: bool) -> Carry<'k, V> {
        Carry {
            values,
            tiers,
            to,
            is_hasty,
            load: Vec::new(),
            bytes: 0,
            refused: Vec::new(),
        }
    }

    /// Adds a value, and carries all once they are as many as go together best.
    pub(super) fn add(
        &mut self,
        value: LoadedValue<V::Moving>,
        done: &mut impl FnMut(PolicyObject, bool),
    ) {
        let bytes = value.moving.value().len();
        self.bytes += bytes;
        self.load.push(value);
        if self.tiers.is_batch(self.to, self.bytes, bytes) || self.load.len() >= LOAD_MAX {
            self.deliver(done);
        }
    }

    /// Carries the values that were added.
    pub(super) fn deliver(&mut self, done: &mut impl FnMut(PolicyObject, bool)) {
        self.bytes = 0;
        let load = std::mem::take(&mut self.load);
        if self.to == 0 {
            // Memory has no places: `publish` allocates it for each value alone.
            for value in load {
                self.finish(value, None, done);
            }
            return;
        }
        let values: Vec<&[u8]> = load.iter().map(|value| value.moving.value()).collect();
        if values.is_empty() {
            return;
        }
        match self.put(&values) {
            Ok(places) => {
                debug_assert_eq!(places.len(), load.len());
                for (value, place) in load.into_iter().zip(places) {
                    self.finish(value, Some(place), done);
                }
            }
            Err(TierRefusal::Incompressible) if load.len() > 1 => {
                // Some of them may be compressible alone.
                for value in load {
                    let put = self.put(&[value.moving.value()]);
                    match put.map(|places| places.first().copied()) {
                        Ok(place) => self.finish(value, place, done),
                        Err(error) => self.refuse(value, &error),
                    }
                }
            }
            Err(error) => {
                for value in load {
                    self.refuse(value, &error);
                }
            }
        }
    }

    fn put(&self, values: &[&[u8]]) -> Result<Vec<ColdPlace>, TierRefusal> {
        let cold = self.values.cold();
        cold.put_at_pace(self.to, values, self.is_hasty)
    }

    fn finish(
        &self,
        value: LoadedValue<V::Moving>,
        place: Option<ColdPlace>,
        done: &mut impl FnMut(PolicyObject, bool),
    ) {
        let object = value.as_carried();
        done(object, self.values.publish(value.moving, place));
    }

    fn refuse(&mut self, value: LoadedValue<V::Moving>, why: &TierRefusal) {
        self.values.cold().count_abandoned(self.to);
        self.refused.push(TierRefusedValue {
            value: LoadedValue {
                object: value.as_carried(),
                moving: value.moving,
            },
            for_long: matches!(
                why,
                TierRefusal::Incompressible | TierRefusal::TooLarge { .. }
            ),
        });
    }

    /// Returns the values that the tier refused.
    pub(super) fn into_refused(self) -> Vec<TierRefusedValue<V::Moving>> {
        debug_assert!(self.load.is_empty(), "the values were delivered before");
        self.refused
    }
}

/// Maximum number of values that are carried at once.
const LOAD_MAX: usize = 128;
