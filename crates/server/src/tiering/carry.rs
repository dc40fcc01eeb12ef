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

/// Values on their way to one tier. `done` is told of each what became of it, in any order.
#[derive(Debug)]
pub struct Carry<'k> {
    keyspace: &'k Keyspace,
    tiers: &'k Tiers,
    to: usize,
    load: Vec<(Moving<'k>, Object)>,
    bytes: usize,
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
        }
    }

    /// Adds a value, and carries all if they are as many as go together best.
    pub fn add(
        &mut self,
        moving: Moving<'k>,
        object: Object,
        hold: Hold<'_>,
        done: &mut impl FnMut(&Delivery, Result<(), &Unmoved>),
    ) {
        self.bytes += moving.value.len();
        self.load.push((moving, object));
        if self.bytes >= self.tiers.batch_bytes(self.to) || self.load.len() >= LOAD_MAX {
            self.deliver(hold, done);
        }
    }

    /// Carries what was added.
    pub fn deliver(
        &mut self,
        hold: Hold<'_>,
        done: &mut impl FnMut(&Delivery, Result<(), &Unmoved>),
    ) {
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
        match self.tiers.put(self.to, &values) {
            Ok(places) => {
                for (moving, place) in load.into_iter().zip(places) {
                    self.finish(moving, Some(place), hold, done);
                }
            }
            Err(Refused::Incompressible) if load.len() > 1 => {
                // Some of them may be compressed alone.
                for moving in load {
                    let put = self.tiers.put(self.to, &[&moving.0.value]);
                    match put.map(|places| places.first().copied()) {
                        Ok(place) => self.finish(moving, place, hold, done),
                        Err(error) => done(&Delivery::of(&moving), Err(&error.into())),
                    }
                }
            }
            Err(error) => {
                let error = Unmoved::from(error);
                for moving in &load {
                    done(&Delivery::of(moving), Err(&error));
                }
            }
        }
    }

    fn finish(
        &self,
        moving: (Moving<'k>, Object),
        place: Option<Place>,
        hold: Hold<'_>,
        done: &mut impl FnMut(&Delivery, Result<(), &Unmoved>),
    ) {
        let delivery = Delivery::of(&moving);
        let published = hold.publish(self.keyspace, moving.0, place);
        done(&delivery, published.as_ref().copied());
    }
}

/// The most values that are carried at once.
const LOAD_MAX: usize = 128;

/// What was to be carried.
#[derive(Debug)]
pub struct Delivery {
    /// The value, as it was before; its bytes are those that were carried.
    pub object: Object,
}

impl Delivery {
    fn of((moving, object): &(Moving<'_>, Object)) -> Delivery {
        Delivery {
            object: Object {
                bytes: moving.value.len() as u64,
                tier: moving.from(),
                ..*object
            },
        }
    }
}
