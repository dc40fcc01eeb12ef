//! The context of a running command, which its implementation receives.

use super::{
    Answer, CommandAccount, CommandDefinition, CommandInvocation, PlannedCommand, invoke, note_uses,
};
use crate::blocking::{AwaitedKey, Wait, WaitLine};
use crate::client::ClientSession;
use crate::clock::steady_ms;
use crate::error::CommandError;
use crate::eviction::hot_keys::USES_PER_SAMPLE;
use crate::keyspace::DatabaseKeys;
use crate::keyspace::draft::{ATTEMPTS_MAX, DraftCommitOutcome};
use crate::number::{parse_double, parse_integer};
use crate::object::StreamId;
use crate::resp::RespReply;
use crate::server::ServerCore;
use std::cell::Cell;
use std::time::Instant;

thread_local! {
    /// The number of nested commands that this thread executes before the next sample of uses.
    static BEFORE_SAMPLE: Cell<u32> = const { Cell::new(0) };
}

/// A running command.
#[derive(Debug)]
pub struct CommandCall<'c> {
    /// The words that were sent: the name, and the arguments.
    pub args: &'c [&'c [u8]],
    /// The keys of the client's database.
    pub keys: DatabaseKeys<'c>,
    /// The client.
    pub client: &'c mut ClientSession,
    /// The reply, to which the command writes.
    pub reply: &'c mut RespReply,
    /// The rest of the server.
    pub server: &'c ServerCore,
    /// The wait, set by a command that blocks until one of its keys exists.
    pub wait: Option<Wait>,
    /// True if the command runs within a transaction or a script, where no command blocks.
    pub nested: bool,
    /// The time at which it began.
    pub began: Instant,
}

impl<'c> CommandCall<'c> {
    /// Returns the argument at `position`; the command's name is at 0.
    ///
    /// # Errors
    /// `Syntax` if there are fewer arguments.
    #[inline]
    pub fn arg(&self, position: usize) -> Result<&'c [u8], CommandError> {
        self.args.get(position).copied().ok_or(CommandError::Syntax)
    }

    /// Checks that there is room for `bytes` bytes that a value will take beyond the arguments.
    /// Called before the command changes anything.
    ///
    /// # Errors
    /// `LacksRoom`.
    pub fn check_room(&self, bytes: usize) -> Answer {
        // A small value is not worth the time of counting.
        const SMALL_BYTES: usize = 1 << 16;
        if bytes <= SMALL_BYTES || bytes as u64 <= self.room() {
            return Ok(());
        }
        Err(CommandError::LacksRoom(bytes))
    }

    /// Checks that there is room for a value of these elements.
    ///
    /// # Errors
    /// `LacksRoom`.
    pub fn check_room_of<'e>(&self, elements: impl Iterator<Item = &'e [u8]>) -> Answer {
        // Each element of a large object has about as many bytes of links and lengths.
        const ELEMENT_BYTES: usize = 32;
        self.check_room(elements.map(|element| element.len() + ELEMENT_BYTES).sum())
    }

    /// Returns the number of bytes that values may take beyond the arguments.
    pub fn room(&self) -> u64 {
        if self.client.is_replaying {
            return u64::MAX;
        }
        let ServerCore {
            eviction,
            keyspace,
            access,
            ..
        } = self.server;
        eviction.room(keyspace, access)
    }

    /// Blocks the client on `keys` for at most `timeout_ms` (0: without timeout). If the timeout
    /// expires, the client receives the reply that `answer` writes. Where commands may not block,
    /// it receives that reply at once.
    pub fn wait_for(
        &mut self,
        keys: &[&[u8]],
        line: WaitLine,
        timeout_ms: u64,
        answer: impl FnOnce(&mut RespReply),
    ) {
        let awaited = |key: &[u8]| AwaitedKey {
            key: key.to_vec(),
            behind: StreamId::MIN,
        };
        // The reply is written at this point, while the client's protocol is at hand.
        let mut in_vain = RespReply::new(self.reply.protocol());
        answer(&mut in_vain);
        if self.nested {
            // As in Redis, a blocking command in a transaction or script acts as if its timeout had
            // passed.
            self.reply.raw(in_vain.bytes());
            return;
        }
        debug_assert!(self.wait.is_none(), "a command waits once");
        self.wait = Some(Wait {
            keys: keys.iter().map(|key| awaited(key)).collect(),
            line,
            until_ms: (timeout_ms > 0).then(|| steady_ms().saturating_add(timeout_ms)),
            in_vain: in_vain.take(),
            words: None,
        });
    }

    /// Runs `run`, and commits its changes to keys that other servers share. If another server has
    /// changed the key meanwhile, the changes are dropped and `run` runs again.
    ///
    /// # Errors
    /// The error of `run`, or of the commit.
    pub fn until_committed(&mut self, mut run: impl FnMut(&mut Self) -> Answer) -> Answer {
        let start = self.reply.len();
        for _ in 0..ATTEMPTS_MAX {
            let answer = run(self);
            match self.keys.commit()? {
                DraftCommitOutcome::Done => return answer,
                DraftCommitOutcome::Conflict => {
                    self.reply.truncate(start);
                    let effects = self.keys.effects();
                    // The property of the command applies to the next attempt as well.
                    let key_by_key = effects.key_by_key;
                    effects.clear();
                    effects.key_by_key = key_by_key;
                }
            }
        }
        Err(CommandError::text(
            "TRYAGAIN other servers keep changing the key; nothing was changed",
        ))
    }

    /// Executes another command within this one, which must have the keyspace to itself. Its reply
    /// is appended to the same reply.
    pub fn run_nested(&mut self, command: &'static CommandDefinition, args: &[&[u8]]) {
        let number = self.server.acl.registry.number(command).unwrap_or(0);
        self.run_numbered(command, number, args);
    }

    /// Does the same as [`run_nested`](CommandCall::run_nested) for a command with a known number.
    pub fn run_numbered(
        &mut self,
        command: &'static CommandDefinition,
        number: usize,
        args: &[&[u8]],
    ) {
        let positions = command.keys.positions(args);
        let sampled = is_next_sampled();
        note_uses(self.server, self.client, command, args, &positions, sampled);
        // Commands before it in the transaction or script may have selected another database.
        let mut keys = self.keys.nested();
        keys.select(self.client.database);
        let invocation = CommandInvocation {
            server: self.server,
            keys,
            client: self.client,
            args,
            reply: self.reply,
            nested: true,
        };
        invoke(
            invocation,
            &mut CommandAccount::after(command, number, None),
        );
    }

    /// Returns the command as one with a plan, with its first argument as the only key.
    pub fn planned(&mut self) -> PlannedCommand<'_> {
        PlannedCommand::alone(self.args, 1, self.keys.nested(), self.reply)
    }

    /// Returns the arguments from `position` on.
    pub fn rest(&self, position: usize) -> &'c [&'c [u8]] {
        self.args.get(position..).unwrap_or_default()
    }

    /// Parses an argument as an integer.
    ///
    /// # Errors
    /// `NotInteger`, `Syntax`.
    pub fn integer(&self, position: usize) -> Result<i64, CommandError> {
        integer(self.arg(position)?)
    }

    /// Parses an argument as a number.
    ///
    /// # Errors
    /// `NotFloat`, `Syntax`.
    pub fn double(&self, position: usize) -> Result<f64, CommandError> {
        parse_double(self.arg(position)?).ok_or(CommandError::NotFloat)
    }
}

/// Returns true if the uses of keys by the next nested command are sampled, as are those of one
/// command in [`USES_PER_SAMPLE`] on average. A random number for each command would take longer.
fn is_next_sampled() -> bool {
    let left = BEFORE_SAMPLE.get();
    let next = match left {
        // The average of these is one less than `USES_PER_SAMPLE`.
        0 => rand::random_range(0..2 * USES_PER_SAMPLE - 1),
        left => left - 1,
    };
    BEFORE_SAMPLE.set(next);
    left == 0
}

/// Parses an argument as an integer.
///
/// # Errors
/// `NotInteger`.
pub fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    parse_integer(argument).ok_or(CommandError::NotInteger)
}

/// Parses an argument as a number of 32 bits.
///
/// # Errors
/// `NotInteger`, or an error for a number with more bits.
pub fn small_integer(argument: &[u8]) -> Result<i32, CommandError> {
    i32::try_from(integer(argument)?).map_err(|_| {
        CommandError::text(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        )
    })
}
