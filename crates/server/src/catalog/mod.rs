//! What is known of commands without running them: their descriptions, numbers and categories.

pub mod category;
mod registry;
mod spec;

pub use registry::{Entry, Registry};
pub use spec::{Flags, Group, KeySpec, Spec};
