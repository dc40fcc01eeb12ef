//! Keeping the tiers of a server's values.
//!
//! [`nearfield_tiers::keep`] moves the values, and this says how: `values.rs` is the keyspace, as
//! it meets them. A thread of its own keeps the tiers. Before a command that takes memory, while
//! the memory tier is full, the thread of its client [carries](Tiering::relieve) as much as is
//! needed. If no cold tier takes anything, keys are evicted, as `maxmemory-policy` says, or the
//! command is refused.
//!
//! What counts as the memory that is in use: indexes, with the keys, and objects. Buffers of
//! connections and tables of the server are no values.

pub mod fetch;
mod hand;
mod hold;
pub mod pins;
mod values;

use crate::eviction::Access;
use crate::keyspace::{Databases, Keyspace};
use hand::Hand;
use hold::Hold;
use nearfield_tiers::keep::{self, Keeper};
use pins::Pins;
use std::sync::atomic::AtomicBool;
use values::{Held, Nodes};

/// Slices that are walked each time that keys were evicted. *Assumed*: little enough for who waits.
const SLICES_AFTER_EVICTION: usize = 8;

/// What keeps the tiers of a server. See the [module](self).
#[derive(Debug)]
pub struct Tiering {
    keeper: Keeper<Hand>,
    /// Keys whose values stay in memory.
    pub pins: Pins,
    nodes: Nodes,
}

/// The mover rests. See [`Tiering::still`].
#[derive(Debug)]
pub struct Still<'t>(keep::Still<'t, Hand>);

impl Tiering {
    /// What keeps the tiers of a keyspace.
    pub fn new(keyspace: &Keyspace) -> Tiering {
        Tiering {
            keeper: Keeper::new(keyspace.cold.tiers()),
            pins: Pins::default(),
            nodes: Nodes::default(),
        }
    }

    fn values<'s>(
        &'s self,
        keyspace: &'s Keyspace,
        access: &'s Access,
        databases: Option<&'s Databases>,
    ) -> Held<'s> {
        Held {
            keyspace,
            access,
            pins: &self.pins,
            nodes: &self.nodes,
            hold: databases.map_or(Hold::Each, Hold::Whole),
        }
    }

    /// The capacity of the memory tier; 0 if there are no tiers.
    #[inline]
    pub fn memory_bytes_max(&self) -> u64 {
        self.keeper.memory_bytes_max()
    }

    /// True if the cold tiers have taken nothing, though the memory is full.
    pub fn is_stuck(&self) -> bool {
        self.keeper.is_stuck()
    }

    /// How many values came back that had just gone, and how many moves were put off because so
    /// many bytes had moved.
    pub fn ping_pong_and_put_off(&self) -> (u64, u64) {
        self.keeper.ping_pong_and_put_off()
    }

    /// Has the mover rest until the result is dropped, so that no value is on its way. For who
    /// then enters the exclusive phase and counts.
    pub fn still(&self) -> Still<'_> {
        Still(self.keeper.still())
    }

    /// As [`still`](Tiering::still), for a thread that serves clients: `None` if whoever moves
    /// values waits for a disk that does not answer.
    pub fn still_unless_held_up(&self) -> Option<Still<'_>> {
        self.keeper.still_unless_held_up().map(Still)
    }

    /// Carries values out of the memory until it is within its capacity, and says whether it is.
    /// To be called without a phase, or with the keyspace for oneself, as `databases` says.
    pub fn relieve(
        &self,
        keyspace: &Keyspace,
        access: &Access,
        databases: Option<&Databases>,
    ) -> bool {
        let values = self.values(keyspace, access, databases);
        self.keeper.relieve(&values)
    }

    /// Carries values into room that was made in cold tiers, as far as some slices go. For who has
    /// the keyspace to itself, and had the mover rest before.
    pub fn carry_on(
        &self,
        still: &mut Still<'_>,
        keyspace: &Keyspace,
        access: &Access,
        databases: &Databases,
    ) {
        let values = self.values(keyspace, access, Some(databases));
        let slices = SLICES_AFTER_EVICTION;
        self.keeper.carry_on(&mut still.0, &values, slices);
    }

    /// Looks after the tiers until it is to stop.
    pub fn keep(&self, keyspace: &Keyspace, access: &Access, stopping: &AtomicBool) {
        let values = self.values(keyspace, access, None);
        self.keeper.keep(&values, stopping);
    }
}
