//! The tiers of a server's values.
//!
//! [`nearfield_tiers::keep`] moves the values, and this module gives it access: `values.rs` is its
//! view of the keyspace. A separate thread keeps the tiers. Before a command that takes memory,
//! while the memory tier is full, the thread of its client [carries](Tiering::relieve) as many
//! values away as needed. If no cold tier takes any, keys are evicted according to
//! `maxmemory-policy`, or the command is refused.
//!
//! The memory in use consists of indexes, with the keys, and objects. Buffers of connections and
//! tables of the server are not values.

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

/// Number of slices that are walked each time that keys were evicted. *Assumed*: short enough for
/// the waiting client.
const SLICES_AFTER_EVICTION: usize = 8;

/// The mover of a server's values between tiers. See the [module](self).
#[derive(Debug)]
pub struct Tiering {
    keeper: Keeper<Hand>,
    /// Keys with values that stay in memory.
    pub pins: Pins,
    nodes: Nodes,
}

/// A pause of the mover. See [`Tiering::still`].
#[derive(Debug)]
pub struct Still<'t>(keep::Still<'t, Hand>);

impl Tiering {
    /// Creates the mover of a keyspace.
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

    /// Returns the capacity of the memory tier; 0 if there are no tiers.
    #[inline]
    pub fn memory_bytes_max(&self) -> u64 {
        self.keeper.memory_bytes_max()
    }

    /// Returns true if the cold tiers have taken nothing, though the memory is full.
    pub fn is_stuck(&self) -> bool {
        self.keeper.is_stuck()
    }

    /// Returns the number of values that came back right after they had moved away, and the number
    /// of moves that were postponed because too many bytes had moved.
    pub fn ping_pong_and_put_off(&self) -> (u64, u64) {
        self.keeper.ping_pong_and_put_off()
    }

    /// Pauses the mover until the result is dropped, so that no value is being moved. For callers
    /// that then enter the exclusive phase and count.
    pub fn still(&self) -> Still<'_> {
        Still(self.keeper.still())
    }

    /// Pauses the mover like [`still`](Tiering::still), for a thread that serves clients. Returns
    /// `None` if the mover waits for a disk that does not respond.
    pub fn still_unless_held_up(&self) -> Option<Still<'_>> {
        self.keeper.still_unless_held_up().map(Still)
    }

    /// Carries values out of the memory until it is within its capacity. Returns true if it is.
    /// Call it outside of a phase, or with `databases` if the caller holds the keyspace
    /// exclusively.
    pub fn relieve(
        &self,
        keyspace: &Keyspace,
        access: &Access,
        databases: Option<&Databases>,
    ) -> bool {
        let values = self.values(keyspace, access, databases);
        self.keeper.relieve(&values)
    }

    /// Carries values into space that became free in cold tiers, for some slices. For callers that
    /// hold the keyspace exclusively, and had paused the mover before.
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

    /// Keeps the tiers until the server stops.
    pub fn keep(&self, keyspace: &Keyspace, access: &Access, stopping: &AtomicBool) {
        let values = self.values(keyspace, access, None);
        self.keeper.keep(&values, stopping);
    }
}
