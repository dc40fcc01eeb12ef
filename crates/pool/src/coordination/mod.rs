//! Coordination of the clients of one compute node before they use the network.
//!
//! - [`ReadDelegation`]: one client reads a key, and the clients that wait take its result.
//! - [`WriteCombining`]: one client writes a key, also for the clients that want to write it
//!   meanwhile.
//! - [`LocalLocks`]: a client that holds a lock in remote memory passes it on to a client that
//!   waits for it on the same compute node (*lock hand-over*).
//!
//! [`ClientCoordination`] is the first two as an index uses them; each can be switched off. They
//! come from SMART (OSDI 2023), and CHIME's code uses them. The third comes from Sherman (SIGMOD
//! 2022). A key or a lock is in a table only while a client works on it, and a client waits only
//! for clients that work on the same key or lock. Threads share the tables, and so do tasks of a
//! simulation.
//!
//! If the leader is dropped before it has ended, the next waiter leads. A task that is neither
//! polled nor dropped keeps the lead.
//!
//! # Linearizability
//!
//! Other compute nodes write, too, without notice. So a reader never takes the result of a read
//! that began before the reader arrived: a write of another compute node may have been done in
//! between. It waits for the next read, and shares that with all readers that arrived meanwhile.
//! (SMART lets readers take a read in flight, as long as no reader has left with its result.)

mod delegation;
mod locks;
mod primitive;
mod read_delegation;
mod wait_queue;
mod write_combining;

pub use delegation::ClientCoordination;
pub use locks::{HAND_OVERS, LocalLock, LocalLocks};
pub use read_delegation::ReadDelegation;
pub use write_combining::{CombinedWrite, Leader, WriteCombining};
