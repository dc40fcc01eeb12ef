//! Holding commands back for a while (`CLIENT PAUSE`).

use crate::client::Client;
use crate::command::Flags;
use crate::execute::lookup;
use crate::server::Server;
use crate::singly::Reason;
use parking_lot::Mutex;

/// Which commands are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    /// Those that may write.
    Write,
    /// All.
    All,
}

/// What is held back, and until when in milliseconds since 1970.
#[derive(Debug, Default)]
pub struct Pause {
    state: Mutex<Option<(PauseMode, u64)>>,
}

impl Pause {
    /// Holds commands back. A pause that is longer or stricter already stays so. To be called in
    /// the exclusive phase.
    pub fn begin(&self, server: &Server, mode: PauseMode, until_ms: u64, now_ms: u64) {
        let mut state = self.state.lock();
        let old = state.filter(|(_, until)| *until > now_ms);
        *state = Some(match old {
            None => (mode, until_ms),
            Some((old_mode, old_until)) => (old_mode.max(mode), old_until.max(until_ms)),
        });
        server.singly.set(Reason::Pause, true);
    }

    /// Lets commands go on.
    pub fn end(&self, server: &Server) {
        *self.state.lock() = None;
        server.singly.set(Reason::Pause, false);
        for mailbox in server.mailboxes.get().into_iter().flatten() {
            mailbox.wake();
        }
    }

    /// What is held back now, and until when. Ends a pause whose time is over.
    pub fn current(&self, server: &Server, now_ms: u64) -> Option<(PauseMode, u64)> {
        let mut state = self.state.lock();
        let current = state.filter(|(_, until)| *until > now_ms);
        if state.is_some() && current.is_none() {
            *state = None;
            server.singly.set(Reason::Pause, false);
        }
        current
    }

    /// True if a command of a client has to wait.
    pub fn holds(&self, server: &Server, client: &Client, args: &[&[u8]], now_ms: u64) -> bool {
        match self.current(server, now_ms) {
            None => false,
            Some((PauseMode::All, _)) => true,
            Some((PauseMode::Write, _)) => may_write(client, args),
        }
    }
}

/// True if a command may change keys, or would be sent to a replica.
fn may_write(client: &Client, args: &[&[u8]]) -> bool {
    let Ok(command) = lookup(args) else {
        return false;
    };
    let queued = |words: &Vec<Vec<u8>>| {
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        may_write(client, &args)
    };
    match (command.name, &client.transaction) {
        ("exec", Some(transaction)) => {
            // Without the transaction, as EXEC is not queued.
            transaction.commands.iter().any(queued)
        }
        ("publish" | "spublish" | "eval" | "evalsha" | "fcall" | "pfcount", _) => true,
        _ => command.flags.has(Flags::WRITE),
    }
}
