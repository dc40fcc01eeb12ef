//! What the clients of one compute node do together before they go to the network.
//!
//! - [`ReadDelegation`]: one reads a key, and those who wait take its result (*read delegation*).
//! - [`WriteCombining`]: one writes a key, for those as well who want to write it meanwhile (*write
//!   combining*).
//! - [`LocalLocks`]: who has taken a lock in remote memory passes it on to who waits for it here
//!   (*lock hand-over*).
//!
//! [`Delegation`] is the first two as an index uses them, which each can be switched off. These are of SMART (OSDI 2023) and used by CHIME's code, the third is of Sherman (SIGMOD 2022).
//! All of them know a key or a lock only while somebody works on it, and nobody waits for others
//! than those who work on the same key or lock. Threads share them, and the tasks of a simulation.
//!
//! Who leads and is gone before he is done, as his task was dropped, leaves the lead to the next one.
//! A task that is neither polled nor dropped keeps it.
//!
//! # Against which operations these are linearizable
//!
//! Against those of other compute nodes too, whose writes nobody here is told of. So a reader takes
//! the result of no read that began before he came: there may have been a write in between that
//! was done before he came. He waits for the next one, and those who came meanwhile share that.
//! (SMART lets readers take a read that is under way, if none who waited for it has left yet.)

mod delegation;
mod locks;
mod primitive;
mod read_delegation;
mod wait_queue;
mod write_combining;

pub use delegation::Delegation;
pub use locks::{HAND_OVERS, LocalLock, LocalLocks};
pub use read_delegation::ReadDelegation;
pub use write_combining::{Leader, Write, WriteCombining};
