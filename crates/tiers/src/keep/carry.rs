//! Carrying values to another tier: as many at once as the tier takes together.

use super::{Moving, Values};
use crate::place::Place;
use crate::policy::Object;
use crate::tiers::Tiers;
use crate::usage::Refused;

/// Values that are being moved to one tier. `done` is called for each value that the tier has
/// taken, in any order, with true if it moved. Those that the tier refuses are
/// [kept](Carry::into_refused).
pub(super) struct Carry<'k, V: Values> {
    values: &'k V,
    tiers: &'k Tiers,
    to: usize,
    load: Vec<(V::Moving, Object)>,
    bytes: usize,
    refused: Vec<Returned<V::Moving>>,
}

/// A value that a tier refused.
pub(super) struct Returned<M> {
    /// The value.
    pub(super) moving: M,
    /// The policy's description of it, with the bytes that were carried.
    pub(super) object: Object,
    /// Set if the tier will refuse it later, too, because of the value itself.
    pub(super) for_long: bool,
}

impl<'k, V: Values> Carry<'k, V> {
    /// Creates an empty load for tier `to`.
    pub(super) fn new(values: &'k V, tiers: &'k Tiers, to: usize) -> Carry<'k, V> {
        Carry {
            values,
            tiers,
            to,
            load: Vec::new(),
            bytes: 0,
            refused: Vec::new(),
        }
    }

    /// Adds a value, and carries all once they are as many as go together best.
    pub(super) fn add(
        &mut self,
        moving: V::Moving,
        object: Object,
        done: &mut impl FnMut(Object, bool),
    ) {
        let bytes = moving.value().len();
        self.bytes += bytes;
        self.load.push((moving, object));
        if self.tiers.is_batch(self.to, self.bytes, bytes) || self.load.len() >= LOAD_MAX {
            self.deliver(done);
        }
    }

    /// Carries the values that were added.
    pub(super) fn deliver(&mut self, done: &mut impl FnMut(Object, bool)) {
        self.bytes = 0;
        let load = std::mem::take(&mut self.load);
        if self.to == 0 {
            for moving in load {
                self.finish(moving, None, done);
            }
            return;
        }
        let values: Vec<&[u8]> = load.iter().map(|(moving, _)| moving.value()).collect();
        if values.is_empty() {
            return;
        }
        match self.values.cold().put(self.to, &values) {
            Ok(places) => {
                for (moving, place) in load.into_iter().zip(places) {
                    self.finish(moving, Some(place), done);
                }
            }
            Err(Refused::Incompressible) if load.len() > 1 => {
                // Some of them may be compressible alone.
                for moving in load {
                    let put = self.values.cold().put(self.to, &[moving.0.value()]);
                    match put.map(|places| places.first().copied()) {
                        Ok(place) => self.finish(moving, place, done),
                        Err(error) => self.refuse(moving, &error),
                    }
                }
            }
            Err(error) => {
                for moving in load {
                    self.refuse(moving, &error);
                }
            }
        }
    }

    fn finish(
        &self,
        moving: (V::Moving, Object),
        place: Option<Place>,
        done: &mut impl FnMut(Object, bool),
    ) {
        let object = as_carried(&moving);
        done(object, self.values.publish(moving.0, place));
    }

    fn refuse(&mut self, moving: (V::Moving, Object), why: &Refused) {
        self.values.cold().count_abandoned(self.to);
        self.refused.push(Returned {
            object: as_carried(&moving),
            moving: moving.0,
            for_long: matches!(why, Refused::Incompressible | Refused::TooLarge { .. }),
        });
    }

    /// Returns the values that the tier refused.
    pub(super) fn into_refused(self) -> Vec<Returned<V::Moving>> {
        self.refused
    }
}

/// Maximum number of values that are carried at once.
const LOAD_MAX: usize = 128;

/// Returns the object with the bytes that were carried.
fn as_carried((moving, object): &(impl Moving, Object)) -> Object {
    Object {
        bytes: moving.value().len() as u64,
        tier: moving.from(),
        ..*object
    }
}
