//! Commands: the table of them, and their implementations, one file a family.

pub mod call;
pub mod spec;
mod table;

mod connection;
mod generic;
mod string;

pub use call::{Call, Wait, integer, is};
pub use spec::{Answer, Command, Flags, Group, KeySpec, Run};
pub use table::{all, find};
