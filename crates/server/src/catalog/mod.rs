//! The descriptions, numbers and categories of commands. Nothing here runs a command, so that
//! access control and statistics do not depend on implementations.

pub mod category;
pub mod key_uses;
mod registry;
mod spec;

/// The version of Redis whose behaviour is offered; clients and their tests ask for it.
pub const REDIS_VERSION: &str = "7.2.0";

pub use registry::{Entry, Registry};
pub use spec::{Flags, Group, KeySpec, Spec};
