//! Executing one command: what is checked before, which phase it runs in, and what becomes of
//! its effects.

use crate::client::{Client, Replies};
use crate::command::{self, Call, Command, Flags, Run, Wait};
use crate::error::{CommandError, shown};
use crate::keyspace::{Access, Effects, Keys, Keyspace};
use crate::resp::Reply;
use crate::server::Server;

/// What executes the commands of one thread.
#[derive(Debug)]
pub struct Executor<'s> {
    server: &'s Server,
    effects: Effects,
}

impl<'s> Executor<'s> {
    /// An executor of `server`.
    pub fn new(server: &'s Server) -> Executor<'s> {
        Executor {
            server,
            effects: Effects::default(),
        }
    }

    /// The keys of the server.
    pub fn keyspace(&self) -> &'s Keyspace {
        &self.server.keyspace
    }

    /// Frees what commands have given up, if nobody else works on the keyspace.
    pub fn reclaim(&mut self) {
        let keyspace = &self.server.keyspace;
        if keyspace.slots.retired() > 0
            && let Some(mut databases) = keyspace.try_exclude()
        {
            let objects = keyspace.slots.reclaim(&mut databases);
            drop(databases);
            drop(objects);
        }
    }

    /// Executes a command of a client and writes the answer, unless the client has to wait for
    /// it, which is answered here.
    pub fn run(
        &mut self,
        client: &mut Client,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut Reply,
    ) -> Option<Wait> {
        let start = reply.len();
        let skip = client.replies;
        let wait = match self.admit(client, args) {
            Ok(command) if must_queue(client, command) => {
                let words = args.iter().map(|word| word.to_vec()).collect();
                if let Some(transaction) = &mut client.transaction {
                    transaction.commands.push(words);
                }
                reply.simple("QUEUED");
                None
            }
            Ok(command) => self.execute(client, command, args, now_ms, reply),
            Err(error) => {
                if let Some(transaction) = &mut client.transaction {
                    transaction.refused = true;
                }
                reply.error(&error.to_string());
                None
            }
        };
        if skip == Replies::SkipNext {
            client.replies = Replies::On;
        }
        if skip != Replies::On || client.replies != Replies::On {
            reply.truncate(start);
        }
        wait
    }

    /// Finds the command and checks that the client may run it.
    fn admit(&self, client: &Client, args: &[&[u8]]) -> Result<&'static Command, CommandError> {
        let command = lookup(args)?;
        if !client.authenticated && !command.flags.has(Flags::NO_AUTH) {
            return Err(CommandError::text("NOAUTH Authentication required."));
        }
        if client.transaction.is_some() && command.flags.has(Flags::NO_MULTI) {
            return Err(CommandError::text(
                "ERR Command not allowed inside a transaction",
            ));
        }
        Ok(command)
    }

    /// Runs a command in its phase.
    fn execute(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut Reply,
    ) -> Option<Wait> {
        let keyspace = &self.server.keyspace;
        self.effects.clear();
        self.effects.observed = false;
        if command.flags.has(Flags::NO_PHASE) {
            return self.call(client, command, args, now_ms, reply, Access::None);
        }
        let writes = command.flags.has(Flags::WRITE);
        let keys = command.keys.positions(args);
        if keys.len() <= 1 && !command.flags.has(Flags::EXCLUSIVE) {
            let databases = keyspace.share();
            // Who begins to observe does so in the exclusive phase, so it is known from here on.
            if !(writes && keyspace.is_observed()) {
                let key = keys.first().and_then(|&position| args.get(position));
                let stripe = key.map(|key| keyspace.stripes.lock(keyspace.stripes.of(key)));
                let access = Access::Shared(&databases);
                let wait = self.call(client, command, args, now_ms, reply, access);
                drop(stripe);
                return wait;
            }
        }
        let mut databases = keyspace.exclude();
        self.effects.observed = keyspace.is_observed();
        let access = Access::Exclusive(&mut databases);
        self.call(client, command, args, now_ms, reply, access)
    }

    fn call(
        &mut self,
        client: &mut Client,
        command: &'static Command,
        args: &[&[u8]],
        now_ms: u64,
        reply: &mut Reply,
        access: Access<'_>,
    ) -> Option<Wait> {
        let keyspace = &self.server.keyspace;
        let keys = Keys::new(keyspace, access, client.database, now_ms, &mut self.effects);
        invoke(self.server, keys, client, command, args, reply)
    }
}

/// Finds a command or subcommand by its words, and checks their number.
///
/// # Errors
/// There is none of that name, or it has another number of arguments.
pub fn lookup(args: &[&[u8]]) -> Result<&'static Command, CommandError> {
    let name = args.first().copied().unwrap_or_default();
    let Some(command) = command::find(name) else {
        return Err(unknown_command(args));
    };
    let found = match command.run {
        Run::Command(_) => command,
        Run::Container(_) => {
            let Some(word) = args.get(1) else {
                return Err(CommandError::WrongArity(command.name.into()));
            };
            let Some(subcommand) = command.subcommand(word) else {
                let (word, name) = (shown(word), command.name.to_ascii_uppercase());
                return Err(CommandError::owned(format!(
                    "ERR unknown subcommand '{word}'. Try {name} HELP."
                )));
            };
            if !subcommand.accepts(args.len()) {
                let name = format!("{}|{}", command.name, subcommand.name);
                return Err(CommandError::WrongArity(name.into()));
            }
            return Ok(subcommand);
        }
    };
    if !found.accepts(args.len()) {
        return Err(CommandError::WrongArity(found.name.into()));
    }
    Ok(found)
}

fn unknown_command(args: &[&[u8]]) -> CommandError {
    let name = shown(args.first().copied().unwrap_or_default());
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    for argument in args.iter().skip(1) {
        if text.len() > 128 {
            break;
        }
        text += &format!("'{}' ", shown(argument));
    }
    CommandError::owned(text)
}

fn must_queue(client: &Client, command: &Command) -> bool {
    client.transaction.is_some() && !command.flags.has(Flags::IN_MULTI)
}

/// Runs a command's implementation, and replaces what it has written by its error, if it has one.
/// Then its effects are its own: what it changed is in the log's queue.
pub fn invoke(
    server: &Server,
    keys: Keys<'_>,
    client: &mut Client,
    command: &'static Command,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Option<Wait> {
    let Run::Command(run) = command.run else {
        unreachable!("`lookup` finds subcommands")
    };
    let start = reply.len();
    let mut call = Call {
        args,
        keys,
        client,
        reply,
        server,
        wait: None,
    };
    let answer = run(&mut call);
    let wait = call.wait.take();
    if let Err(error) = answer {
        reply.truncate(start);
        reply.error(&error.to_string());
    }
    wait
}
