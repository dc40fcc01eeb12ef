//! Commands that are held back and that continue later: by `CLIENT PAUSE`, or until a disk makes
//! room for what they write.

use super::thread::IoThread;
use crate::client::ClientSession;
use crate::command::{CommandDefinition, Flags};
use crate::commands::TABLE;
use crate::pause::PauseMode;
use crate::script::Script;
use crate::script::library::FunctionFlags;
use crate::server::ServerCore;
use crate::singly::SequentialReason;

/// Returns true if a command of a client must wait.
#[inline]
pub(super) fn is_held(
    server: &ServerCore,
    client: &ClientSession,
    args: &[&[u8]],
    steady_ms: u64,
) -> bool {
    let lacks_room = server.singly.has(SequentialReason::Room);
    // While a script runs for long, the command is refused, and waits for nothing.
    if !(lacks_room || server.singly.has(SequentialReason::Pause))
        || server.scripts.watchdog.is_slow()
    {
        return false;
    }
    if lacks_room && may_do(server, client, args, takes_memory) {
        return true;
    }
    match server.pause.current(&server.singly, steady_ms) {
        None => false,
        Some((PauseMode::All, _)) => true,
        Some((PauseMode::Write, _)) => may_do(server, client, args, changes),
    }
}

/// Returns true if a command may change keys, or would be sent to a replica.
fn changes(command: &CommandDefinition) -> bool {
    command.flags.has(Flags::WRITE) || command.flags.has(Flags::MAY_CHANGE)
}

/// Returns true if a command is refused when there is no memory.
fn takes_memory(command: &CommandDefinition) -> bool {
    command.flags.has(Flags::DENYOOM)
}

/// Makes a client wait.
pub(super) fn hold(server: &ServerCore, held: &mut Vec<u64>, client: &ClientSession) {
    held.push(client.shared.id);
    server.pause.note_held(1);
}

/// Returns true if a command `does` something, or contains commands that may.
fn may_do(
    server: &ServerCore,
    client: &ClientSession,
    args: &[&[u8]],
    does: fn(&CommandDefinition) -> bool,
) -> bool {
    let Ok(command) = TABLE.lookup(args) else {
        return false;
    };
    let queued = |words: &Vec<Vec<u8>>| {
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        may_do(server, client, &args, does)
    };
    // EXEC does what its queued commands do.
    if command.flags.has(Flags::RUNS_QUEUED)
        && let Some(transaction) = &client.transaction
    {
        return transaction.commands.iter().any(queued);
    }
    match command.name {
        "eval" | "evalsha" => {
            let text = args.get(1).copied().unwrap_or_default();
            // A text that does not parse is refused, which changes nothing.
            match command.name {
                // The engine is not asked, because another thread's script may hold it for long.
                "eval" => Script::parse(text, String::new()).is_ok_and(|it| it.may_write()),
                _ => server.scripts.find(text).is_some_and(|it| it.may_write()),
            }
        }
        "fcall" => {
            let function = server
                .functions
                .find(args.get(1).copied().unwrap_or_default());
            function.is_some_and(|it| !it.flags.has(FunctionFlags::NO_WRITES))
        }
        _ => does(command),
    }
}

impl IoThread<'_> {
    /// Executes the commands that were held back, once the pause has ended. Those for which there
    /// is no room yet are then held back again.
    pub(super) fn execute_held(&mut self) {
        let server = self.server;
        // Also without held commands here: those of other threads, and batches, wait for the end.
        if server.singly.has(SequentialReason::Room) && server.share_unless_busy().is_some() {
            let tiering = &server.tiering;
            tiering.end_wait(&server.keyspace, &server.access, &server.singly);
        }
        if self.paused.held.is_empty() && self.paused.released.is_empty() {
            return;
        }
        let current = server.pause.current(&server.singly, self.steady_ms);
        if current.is_some() {
            return;
        }
        server.pause.note_held(-(self.paused.held.len() as isize));
        let held = std::mem::take(&mut self.paused.held);
        self.paused.released.extend(held);
        while let Some(id) = self.paused.released.pop_front() {
            if let Some(&index) = self.by_client.get(&id) {
                self.connections[index].waiting = false;
                self.process_input(index);
            }
        }
    }
}
