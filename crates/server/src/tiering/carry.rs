//! Carrying values to another tier: several at once, as far as a tier takes them together.

use crate::keyspace::{Databases, Keyspace, Moving, Unmoved};
use nearfield_tiers::policy::Object;
use nearfield_tiers::{Place, Refused, Tiers};

/// How the keyspace is held meanwhile.
#[derive(Clone, Copy, Debug)]
pub enum Hold<'d> {
    /// Phases and stripes are taken for each step.
    Each,
    /// The caller has the keyspace to itself.
    Whole(&'d Databases),
}

impl Hold<'_> {
    /// Calls `run` in a phase.
    pub fn enter<R>(&self, keyspace: &Keyspace, run: impl FnOnce(&Databases) -> R) -> R {
        match self {
            Hold::Whole(databases) => run(databases),
            Hold::Each => run(&keyspace.share()),
        }
    }

    fn publish(
        &self,
        keyspace: &Keyspace,
        moving: Moving<'_>,
        place: Option<Place>,
    ) -> Result<(), Unmoved> {
        match self {
            Hold::Whole(databases) => moving.publish(databases, place),
            Hold::Each => {
                let databases = keyspace.share();
                let stripe = keyspace.stripes.of(&moving.key);
                let held = keyspace.stripes.lock(stripe);
                let published = moving.publish(&databases, place);
                drop(held);
                published
            }
        }
    }
}

/// Values on their way to one tier. `done` is told of each that the tier has taken what became of
/// it, in any order. Those that the tier does not take are [kept](Carry::into_refused).
#[derive(Debug)]
pub struct Carry<'k> {
    keyspace: &'k Keyspace,
    tiers: &'k Tiers,
    to: usize,
    load: Vec<(Moving<'k>, Object)>,
    bytes: usize,
    refused: Vec<Returned<'k>>,
}

/// A value that a tier does not take.
#[derive(Debug)]
pub struct Returned<'k> {
    /// The value.
    pub moving: Moving<'k>,
    /// What the policy knows of it, with the bytes that were carried.
    pub object: Object,
    /// The tier will not take it later either, as the value is what it is.
    pub for_long: bool,
}

impl<'k> Carry<'k> {
    /// No values yet, on the way to the tier of number `to`.
    pub fn new(keyspace: &'k Keyspace, tiers: &'k Tiers, to: usize) -> Carry<'k> {
        Carry {
            keyspace,
            tiers,
            to,
            load: Vec::new(),
            bytes: 0,
            refused: Vec::new(),
        }
    }

    /// Adds a value, and carries all if they are as many as go together best.
    pub fn add(
        &mut self,
        moving: Moving<'k>,
        object: Object,
        hold: Hold<'_>,
        done: &mut impl FnMut(Object, Result<(), &Unmoved>),
    ) {
        self.bytes += moving.value.len();
        self.load.push((moving, object));
        if self.bytes >= self.tiers.batch_bytes(self.to) || self.load.len() >= LOAD_MAX {
            self.deliver(hold, done);
        }
    }

    /// Carries what was added.
    pub fn deliver(&mut self, hold: Hold<'_>, done: &mut impl FnMut(Object, Result<(), &Unmoved>)) {
        self.bytes = 0;
        let load = std::mem::take(&mut self.load);
        if self.to == 0 {
            for moving in load {
                self.finish(moving, None, hold, done);
            }
            return;
        }
        let values: Vec<&[u8]> = load.iter().map(|(moving, _)| &*moving.value).collect();
        if values.is_empty() {
            return;
        }
        match self.keyspace.cold.put(self.to, &values) {
            Ok(places) => {
                for (moving, place) in load.into_iter().zip(places) {
                    self.finish(moving, Some(place), hold, done);
                }
            }
            Err(Refused::Incompressible) if load.len() > 1 => {
                // Some of them may be compressed alone.
                for moving in load {
                    let put = self.keyspace.cold.put(self.to, &[&moving.0.value]);
                    match put.map(|places| places.first().copied()) {
                        Ok(place) => self.finish(moving, place, hold, done),
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
        moving: (Moving<'k>, Object),
        place: Option<Place>,
        hold: Hold<'_>,
        done: &mut impl FnMut(Object, Result<(), &Unmoved>),
    ) {
        let object = as_carried(&moving);
        let published = hold.publish(self.keyspace, moving.0, place);
        done(object, published.as_ref().copied());
    }

    fn refuse(&mut self, moving: (Moving<'k>, Object), why: &Refused) {
        self.keyspace.cold.count_abandoned(self.to);
        self.refused.push(Returned {
            object: as_carried(&moving),
            moving: moving.0,
            for_long: matches!(why, Refused::Incompressible | Refused::TooLarge { .. }),
        });
    }

    /// The values that the tier does not take.
    pub fn into_refused(self) -> Vec<Returned<'k>> {
        self.refused
    }
}

/// The most values that are carried at once.
const LOAD_MAX: usize = 128;

/// What was to be carried, with the bytes that were.
fn as_carried((moving, object): &(Moving<'_>, Object)) -> Object {
    Object {
        bytes: moving.value.len() as u64,
        tier: moving.from(),
        ..*object
    }
}
