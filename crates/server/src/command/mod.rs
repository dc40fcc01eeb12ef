//! The machinery of commands: what a command is, how it is found by its words, executed and
//! recorded, and the steps that several families share. The commands themselves are in
//! [`commands`](crate::commands).

mod account;
pub mod arguments;
mod batchable;
pub mod call;
pub mod categories;
pub mod help;
mod invoke;
mod latest;
mod lookup;
pub mod parts;
pub mod plan;
pub mod spec;
mod table;
mod traced;

pub use crate::catalog::{CommandGroup, CommandKeySpec, Flags};
pub use crate::resp::request::is;
pub use account::CommandAccount;
pub use batchable::{Batchable, Batchables, NAME_BYTES_MAX, packed};
pub use call::{CommandCall, integer, small_integer};
pub use invoke::{CommandInvocation, invoke, note_uses};
pub use latest::Latest;
pub use plan::{CommandPlan, PlannedCommand, Touch, Usual};
pub use spec::{Answer, CommandDefinition, CommandFunction, CommandImplementation};
pub use table::CommandTable;
