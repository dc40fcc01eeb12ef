//! The tiers of a server's values.
//!
//! [`nearfield_tiers::keep`] moves the values, and this module gives it access: `values.rs` is its
//! view of the keyspace. A separate thread keeps the tiers. Before a command that takes memory,
//! while the memory tier is full, the thread of its client [carries](ServerTiering::relieve) as
//! many values away as needed. If no cold tier takes any, keys are evicted according to
//! `maxmemory-policy`, or the command is refused. If a disk does not respond, commands that take
//! memory wait for it, and other commands do not (`wait.rs`).
//!
//! The memory in use consists of indexes, with the keys, and objects. Buffers of connections and
//! tables of the server are not values.

pub mod fetch;
mod hand;
mod hold;
pub mod pins;
mod values;
mod wait;

use crate::access_trace::AccessTrace;
use crate::eviction::KeyUseStatistics;
use crate::keyspace::{Databases, Keyspace};
use crate::singly::{SequentialReason, Singly};
use hand::KeyspaceWalk;
use hold::MoverKeyspaceAccess;
use nearfield_tiers::keep::{self, RoomOutcome, TierKeeper};
use nearfield_tiers::policy::PolicyChoice;
use pins::Pins;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use values::{KeyspaceValues, ValueNodeCount};
use wait::{RoomWait, RoomWaitLook};

/// Number of slices that are walked each time that keys were evicted. *Assumed*: short enough for
/// the waiting client.
const SLICES_AFTER_EVICTION: usize = 8;

/// The mover of a server's values between tiers. See the [module](self).
#[derive(Debug)]
pub struct ServerTiering {
    keeper: TierKeeper<KeyspaceWalk>,
    /// Keys with values that stay in memory.
    pub pins: Pins,
    nodes: ValueNodeCount,
    wait: RoomWait,
    trace: Option<Arc<AccessTrace>>,
}

/// A pause of the mover. See [`ServerTiering::pause`].
#[derive(Debug)]
pub struct TieringPause<'t>(keep::KeeperPause<'t, KeyspaceWalk>);

impl ServerTiering {
    /// Creates the mover of a keyspace, which moves values by a policy and adds its moves to a
    /// trace, if there is one.
    pub fn new(
        keyspace: &Keyspace,
        choice: PolicyChoice,
        trace: Option<Arc<AccessTrace>>,
    ) -> ServerTiering {
        ServerTiering {
            keeper: TierKeeper::with_policy(keyspace.cold.tiers(), choice),
            pins: Pins::default(),
            nodes: ValueNodeCount::default(),
            wait: RoomWait::default(),
            trace,
        }
    }

    fn values<'s>(
        &'s self,
        keyspace: &'s Keyspace,
        access: &'s KeyUseStatistics,
        databases: Option<&'s Databases>,
    ) -> KeyspaceValues<'s> {
        KeyspaceValues {
            keyspace,
            access,
            pins: &self.pins,
            nodes: &self.nodes,
            trace: self.trace.as_deref(),
            hold: databases.map_or(MoverKeyspaceAccess::Each, MoverKeyspaceAccess::Whole),
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
    pub fn pause(&self) -> TieringPause<'_> {
        TieringPause(self.keeper.pause())
    }

    /// Pauses the mover like [`pause`](ServerTiering::pause), for a thread that serves clients.
    /// Returns `None` if the mover makes no step for [`keep::BRIEF_PATIENCE`].
    pub fn try_pause(&self) -> Option<TieringPause<'_>> {
        self.keeper.try_pause().map(TieringPause)
    }

    /// Carries values out of the memory until it is within its capacity. Returns true if it is.
    /// Call it outside of a phase, or with `databases` if the caller holds the keyspace
    /// exclusively.
    pub fn relieve(
        &self,
        keyspace: &Keyspace,
        access: &KeyUseStatistics,
        databases: Option<&Databases>,
    ) -> bool {
        let values = self.values(keyspace, access, databases);
        self.keeper.relieve(&values)
    }

    /// Carries values out like [`relieve`](ServerTiering::relieve), outside of a phase, on a thread
    /// that serves clients. Returns false if no tier accepts anything. If a disk or another thread
    /// must make the room, other clients do not wait for that: the result is true, and further
    /// commands that take memory are held back until the wait [ends](ServerTiering::end_wait).
    pub fn relieve_for_client(
        &self,
        keyspace: &Keyspace,
        access: &KeyUseStatistics,
        singly: &Singly,
    ) -> bool {
        if singly.has(SequentialReason::Room) {
            // The command was read before the wait began.
            return true;
        }
        let values = self.values(keyspace, access, None);
        match self.keeper.relieve_briefly(&values) {
            RoomOutcome::Room => true,
            RoomOutcome::Full => false,
            RoomOutcome::Later => self.begin_wait(singly),
        }
    }

    /// Holds commands that take memory back until a disk, or the thread that moves values, has made
    /// room. Returns false if one of them hangs.
    pub fn begin_wait(&self, singly: &Singly) -> bool {
        if self.keeper.hangs() {
            return false;
        }
        let carried_bytes = self.keeper.carried_bytes();
        self.wait.begin(singly, carried_bytes, Instant::now());
        true
    }

    /// Ends the wait for a disk if there is room, or if the disk does not respond. Call it outside
    /// of a phase, while commands are held back for room.
    pub fn end_wait(&self, keyspace: &Keyspace, access: &KeyUseStatistics, singly: &Singly) {
        let values = self.values(keyspace, access, None);
        let look = || RoomWaitLook {
            awaits_room: self.keeper.awaits_room(&values),
            carried_bytes: self.keeper.carried_bytes(),
        };
        if self.wait.end(singly, Instant::now(), look) {
            self.keeper.give_up();
        }
    }

    /// Carries values into space that became free in cold tiers, for some slices. For callers that
    /// hold the keyspace exclusively, and had paused the mover before.
    pub fn carry_on(
        &self,
        still: &mut TieringPause<'_>,
        keyspace: &Keyspace,
        access: &KeyUseStatistics,
        databases: &Databases,
    ) {
        let values = self.values(keyspace, access, Some(databases));
        let slices = SLICES_AFTER_EVICTION;
        self.keeper.carry_on(&mut still.0, &values, slices);
    }

    /// Keeps the tiers until the server stops.
    pub fn keep(&self, keyspace: &Keyspace, access: &KeyUseStatistics, stopping: &AtomicBool) {
        let values = self.values(keyspace, access, None);
        self.keeper.keep(&values, stopping);
    }
}
