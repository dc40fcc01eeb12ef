//! Policies, which decide which objects belong in which tier.
//!
//! A policy decides and moves nothing. The store reports its objects to the policy, asks it, and
//! makes the moves. So a policy can be tested on plain values, and a store with any policy. Tiers
//! are numbered from 0, the fastest. A store does the following:
//!
//! - A client uses an object: the store counts the use in its [`HotnessTable`], and asks
//!   [`used`](TieringPolicy::used).
//! - The walk visits an object: the store asks [`visit`](TieringPolicy::visit).
//! - Either returns a [`TierMove`]: the store tries it, then calls [`moved`](TieringPolicy::moved)
//!   or [`abandoned`](TieringPolicy::abandoned).
//! - An object appears, changes its size, or disappears: the store calls
//!   [`inserted`](TieringPolicy::inserted), [`resized`](TieringPolicy::resized) or
//!   [`removed`](TieringPolicy::removed).
//! - Time passes: the store calls [`passed`](TieringPolicy::passed), before the other calls of that
//!   time, and from time to time [`served`](TieringPolicy::served).
//! - There were [`period_uses`](TieringPolicy::period_uses) since the last time: the store ages the
//!   heat, and calls [`aged`](TieringPolicy::aged).
//!
//! The *walk* visits all objects, round after round, a slice at a time. ADM's walk visits the
//! objects of tier 0 once per interval. [`Adaptive`] must visit each object about once in each
//! period of the heat, and the objects of a tier sooner while it has a
//! [`deficit`](TieringPolicy::deficit) of room.
//!
//! SCAN, snapshots, replication and the walk itself are no uses. The store does not report them.
//!
//! The policies are [`Adm`], which is ADM's as published, and [`Adaptive`], which is our own. The
//! store keeps the heat of its objects by their hashes, in a few bytes each, or in the objects; a
//! policy only gets the level. `Adm` needs no heat, because it counts itself.
//!
//! A store that does not report each object sets the [bytes](TieringPolicy::set_bytes),
//! [capacity](TieringPolicy::set_capacity) and [number of objects](TieringPolicy::set_objects)
//! instead, and tells when the walk [ends a round](TieringPolicy::walked). While threads wait for
//! room, it sets [haste](TieringPolicy::set_haste), in which the walk may skip objects.
//!
//! [`HotnessTable`]: https://docs.rs/nearfield-hotness

mod adaptive;
mod adm;
mod budget;
mod costs;
mod cuts;
mod fast_room;
mod histogram;
mod lfu;
mod pace;
mod recent;
mod simulation;

pub use adaptive::{Adaptive, PolicyMoveCounts};
pub use adm::{Adm, AdmSettings};
pub use budget::Budget;
pub use costs::{ObjectTimeCost, PairCosts};
pub use lfu::{LFU_INITIAL, Lfu, LfuSettings, XorshiftGenerator};
pub use simulation::{PolicySimulation, SimulatedUseOutcome};

use std::fmt::Debug;
use std::time::Duration;

/// The policy that a store moves its values by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PolicyChoice {
    /// [`Adaptive`].
    #[default]
    Adaptive,
    /// [`Adm`], for two tiers.
    Adm {
        /// The parameters.
        settings: AdmSettings,
        /// The time between two walks over the fast tier.
        interval: Duration,
    },
}

impl PolicyChoice {
    /// Returns the name of the policy.
    pub fn name(&self) -> &'static str {
        match self {
            PolicyChoice::Adaptive => "adaptive",
            PolicyChoice::Adm { .. } => "adm",
        }
    }
}

/// The current state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyObject {
    /// The hash of its key; all bits are well mixed.
    pub hash: u64,
    /// Number of bytes where it is used: of its value before any compression.
    pub bytes: u64,
    /// The tier that it is in.
    pub tier: usize,
    /// The level of its heat, from 0 to 2,047. Up to about a hundred it counts recent uses; far
    /// above, 128 levels are a doubling. It includes the use that is reported.
    pub heat: u16,
}

/// The kind of use of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectUse {
    /// A read of all or a part of it.
    Read,
    /// A change of all or a part of it.
    Write,
}

/// A decision that an object should move to another tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierMove {
    /// The tier that it should be in.
    pub target: usize,
}

impl TierMove {
    pub(crate) fn to(target: usize) -> TierMove {
        TierMove { target }
    }
}

/// The decision of which objects move. See the [module](self) for the order of the calls.
pub trait TieringPolicy: Debug {
    /// Notes a use of an object. Returns a move if it should be promoted now.
    fn used(&mut self, object: &PolicyObject, by: ObjectUse) -> Option<TierMove>;

    /// Returns true if a use of an object of a slower tier might promote it. A store that must read
    /// an object to know its bytes asks this first, with bytes that are an estimate, and calls
    /// [`used`](TieringPolicy::used) only if it is true.
    fn might_promote(&mut self, _object: &PolicyObject) -> bool {
        true
    }

    /// Returns true if the policy counts the uses of objects in the fastest tier by itself.
    fn counts_each_use(&self) -> bool {
        false
    }

    /// Notes uses of an object in the fastest tier, in a store that knows only its hash.
    fn used_in_fastest(&mut self, _hash: u64, _uses: u32) {}

    /// Notes that the walk visits an object. Returns a move if it should be demoted now.
    fn visit(&mut self, object: &PolicyObject) -> Option<TierMove>;

    /// Notes that a new object is in its tier.
    fn inserted(&mut self, object: &PolicyObject);

    /// Notes that an object has a new size, and had `_bytes_before` before.
    fn resized(&mut self, _object: &PolicyObject, _bytes_before: u64) {}

    /// Notes that an object was removed.
    fn removed(&mut self, object: &PolicyObject);

    /// Notes that an object moved from its tier to `target`.
    fn moved(&mut self, object: &PolicyObject, target: usize);

    /// Notes that an object cannot move as decided: there is no room, or the tier refuses it. It
    /// stays.
    fn abandoned(&mut self, _object: &PolicyObject, _target: usize) {}

    /// Returns the number of uses after which the heat should begin a new period; the maximum if
    /// the policy needs no heat.
    fn period_uses(&self) -> u64 {
        u64::MAX
    }

    /// Returns the bytes that a tier should demote soon. While it is not 0, the walk should search
    /// this tier for them.
    fn deficit(&self, _tier: usize) -> u64 {
        0
    }

    /// Returns true if a write is a use: the store then counts it in the heat.
    fn writes_count(&self) -> bool {
        true
    }

    /// Notes the number of uses since the last call, and how many of them the fastest tier served.
    fn served(&mut self, _served: u64, _uses: u64) {}

    /// Notes that the heat began a new period: all heats are halved.
    fn aged(&mut self) {}

    /// Notes the time since the store began.
    fn passed(&mut self, now: Duration);

    /// Returns the time in which the walk should visit all objects; `None` if it follows the
    /// [uses](TieringPolicy::period_uses).
    fn walk_interval(&self) -> Option<Duration> {
        None
    }

    /// Notes that the walk has visited all objects of all tiers once more.
    fn walked(&mut self) {}

    /// Sets the capacity of a tier in bytes, which changes with the compression ratio of its
    /// values.
    fn set_capacity(&mut self, _tier: usize, _bytes: u64) {}

    /// Sets the bytes of a tier, for a store that does not report each object.
    fn set_bytes(&mut self, _tier: usize, _bytes: u64) {}

    /// Sets the number of objects, for a store that does not report each object that appears or
    /// disappears.
    fn set_objects(&mut self, _objects: u64) {}

    /// Sets if threads wait for room, so that a short search for objects to demote matters more
    /// than the best choice.
    fn set_haste(&mut self, _is_in_haste: bool) {}

    /// Returns true if the walk must visit each object in each round, also in haste.
    fn needs_each_visit(&self) -> bool {
        true
    }

    /// Notes that the walk skips an object in haste: nothing must leave its tier, and its heat is
    /// not known. A policy that [needs each visit](TieringPolicy::needs_each_visit) gets no call.
    fn skipped(&mut self) {}

    /// Returns true while the heats of objects are not known well. A store that reports only some
    /// uses should report all of them meanwhile.
    fn is_learning(&self) -> bool {
        false
    }

    /// Sets the number of uses that each use in the heat stands for, whenever the store begins to
    /// sample more or less.
    fn set_uses_counted(&mut self, _uses: u16) {}

    /// Returns the moves so far, of a policy that counts them.
    fn moves(&self) -> PolicyMoveCounts {
        PolicyMoveCounts::default()
    }
}
