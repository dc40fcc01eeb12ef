//! The server, as a script sees it.

use crate::resp::Reply;

/// The server, as a script sees it.
pub trait Host {
    /// Runs a command, and writes its answer into `reply`.
    ///
    /// # Errors
    /// The script may not run it, and why.
    fn run(&mut self, args: &[&[u8]], reply: &mut Reply) -> std::result::Result<(), String>;

    /// Whether the script's user may run a command; `None` if there is no such command.
    fn may_run(&self, args: &[&[u8]]) -> Option<bool>;

    /// Where the answer of the script is written.
    fn reply(&mut self) -> &mut Reply;
}
