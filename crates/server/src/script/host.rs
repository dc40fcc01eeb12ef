//! The server, as a script sees it.

use crate::resp::RespReply;

/// The server, as a script sees it.
pub trait LuaHost {
    /// Runs a command, and writes its reply into `reply`.
    ///
    /// # Errors
    /// The script may not run the command; the text is the reason.
    fn run(&mut self, args: &[&[u8]], reply: &mut RespReply) -> std::result::Result<(), String>;

    /// Returns whether the script's user may run a command; `None` if there is no such command.
    fn may_run(&self, args: &[&[u8]]) -> Option<bool>;

    /// Returns the reply into which the script's result is written.
    fn reply(&mut self) -> &mut RespReply;
}
