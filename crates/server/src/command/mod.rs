//! Commands: the table of them, and their implementations, one file a family.

mod batchable;
pub mod call;
pub mod categories;
mod help;
pub mod plan;
pub mod spec;
mod table;

mod acl;
mod arguments;
mod bit;
mod client;
mod cluster;
mod config;
mod connection;
mod expiry;
mod generic;
mod hash;
mod hotkeys;
mod introspection;
mod latency;
mod list;
mod list_blocking;
mod memory;
mod ordered;
mod parts;
mod persistence;
mod pubsub;
mod scripting;
mod server;
mod set;
mod set_algebra;
mod sorted_set;
mod sorted_set_algebra;
mod sorted_set_pop;
mod sorted_set_range;
mod string;
mod tracking;
mod transaction;

pub use batchable::{Batchable, Batchables, NAME_BYTES_MAX, batchables};
pub use call::{Call, Wait, integer, is, small_integer};
pub use connection::REDIS_VERSION;
pub use plan::{Plan, Planned, Touch};
pub use spec::{Answer, Command, Flags, Group, KeySpec, Run};
pub use table::{all, find};
pub use transaction::abort;
