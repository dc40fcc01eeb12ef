//! The descriptions, numbers and categories of commands. This module runs no command, so that
//! access control and statistics do not depend on implementations.

pub mod category;
pub mod key_uses;
mod registry;
mod spec;

/// The version of Redis that the server imitates. Clients and their tests check it.
pub const REDIS_VERSION: &str = "7.2.0";

pub use registry::{CommandRegistry, CommandRegistryEntry};
pub use spec::{CommandGroup, CommandKeySpec, Flags, Spec};
