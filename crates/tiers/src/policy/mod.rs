//! Policies: which objects belong in which tier.
//!
//! A policy decides and moves nothing. The store tells it about its objects, asks, and makes the
//! moves; so a policy is tested on plain values, and a store with any policy. Tiers are numbered
//! from 0, the fastest. A store goes on like this:
//!
//! - A client uses an object: the store counts the use in its [`Heat`], and asks
//!   [`used`](Policy::used).
//! - The walk meets an object: it asks [`met`](Policy::met).
//! - Either answers a [`Move`]: it tries it, then tells [`moved`](Policy::moved) or
//!   [`abandoned`](Policy::abandoned).
//! - An object appears, changes its size, or goes: it tells [`inserted`](Policy::inserted),
//!   [`resized`](Policy::resized) or [`removed`](Policy::removed).
//! - Time passes: it tells [`passed`](Policy::passed), before the calls of that time, and from time
//!   to time [`served`](Policy::served).
//! - There were [`period_uses`](Policy::period_uses) since the last time: it ages the heat, and
//!   tells [`aged`](Policy::aged).
//!
//! The *walk* goes over all objects, round and round, a slice at a time. ADM's walk goes once in
//! its interval over the objects of tier 0. [`Adaptive`] wants to meet each object about once in
//! each period of the heat, and the objects of a tier sooner while it has a
//! [`deficit`](Policy::deficit) of room.
//!
//! What is no use: SCAN, snapshots, replication, the walk itself. They tell nothing.
//!
//! The policies are [`Adm`], which is ADM's as published, and [`Adaptive`], which is ours. The
//! store keeps the heat of its objects by their hashes, in a few bytes each, or in the objects; a
//! policy is only told its level. `Adm` needs no heat, as it counts itself.
//!
//! [`Heat`]: https://docs.rs/nearfield-hotness

mod adaptive;
mod adm;
mod budget;
mod costs;
mod cuts;
mod histogram;
mod lfu;
mod pace;
mod recent;
mod simulation;

pub use adaptive::{Adaptive, Moves};
pub use adm::{Adm, AdmSettings};
pub use budget::Budget;
pub use costs::{Cost, PairCosts};
pub use cuts::Cuts;
pub use lfu::{Chance, LFU_INITIAL, Lfu, LfuSettings};
pub use simulation::{Played, Simulation};

use std::time::Duration;

/// An object as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The hash of its key; all bits are well mixed.
    pub hash: u64,
    /// The bytes that it has where it is used: its value before any compression.
    pub bytes: u64,
    /// The tier that it is in.
    pub tier: usize,
    /// The level of its heat, from 0 to 2,047: up to about a hundred, recent uses; far above, 128
    /// levels are a doubling. It includes the use that is told.
    pub heat: u16,
}

/// How a client uses an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It reads all or a part of it.
    Read,
    /// It changes all or a part of it.
    Write,
}

/// An object should move to another tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The tier that it should be in.
    pub target: usize,
}

impl Move {
    pub(crate) fn to(target: usize) -> Move {
        Move { target }
    }
}

/// Decides which objects move. See the [module](self) for the order of the calls.
pub trait Policy {
    /// An object is used. Should it come into a faster tier now?
    fn used(&mut self, object: &Object, by: Use) -> Option<Move>;

    /// The walk meets an object. Should it go out to a slower tier now?
    fn met(&mut self, object: &Object) -> Option<Move>;

    /// A new object is in the tier that it names.
    fn inserted(&mut self, object: &Object);

    /// An object has now the bytes that it names, and had others before.
    fn resized(&mut self, _object: &Object, _bytes_before: u64) {}

    /// An object is no more.
    fn removed(&mut self, object: &Object);

    /// An object has moved from the tier that it names to another.
    fn moved(&mut self, object: &Object, target: usize);

    /// An object that should move cannot: there is no room, or the tier refuses it. It stays.
    fn abandoned(&mut self, _object: &Object, _target: usize) {}

    /// The uses after which the heat should begin a new period; the most if it keeps no heat.
    fn period_uses(&self) -> u64 {
        u64::MAX
    }

    /// The bytes that should go out of a tier soon. While it is not 0, the walk should look for
    /// them in this tier.
    fn deficit(&self, _tier: usize) -> u64 {
        0
    }

    /// True if a write is a use: the store then counts it in the heat.
    fn writes_count(&self) -> bool {
        true
    }

    /// So many uses there were since this was told last, of which the fastest tier has served so
    /// many.
    fn served(&mut self, _served: u64, _uses: u64) {}

    /// The heat has begun a new period: all heats are half of what they were.
    fn aged(&mut self) {}

    /// The time since the store began is now this.
    fn passed(&mut self, now: Duration);
}
