//! Commands on the connection: its protocol, its database, its end.

use crate::catalog::REDIS_VERSION;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, Flags, is, small_integer,
};
use crate::error::{CommandError, shown};
use crate::resp::Protocol;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

const GROUP: CommandGroup = CommandGroup::Connection;
/// The flags of commands that are allowed while data are loaded and need no phase of the keyspace.
const ALWAYS: Flags = Flags(Flags::NO_PHASE.0 | Flags::LOADING.0);

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("ping", -1, ping)
        .fast()
        .flag(Flags::NO_PHASE)
        .flag(Flags::SUBSCRIBER)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Replies with PONG, or with the given message."),
    CommandDefinition::new("echo", 2, echo)
        .fast()
        .flag(ALWAYS)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Returns the given string."),
    CommandDefinition::new("select", 2, select)
        .fast()
        .flag(ALWAYS)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Changes the selected database."),
    CommandDefinition::new("quit", -1, quit)
        .fast()
        .flag(ALWAYS)
        .flag(Flags::NO_AUTH)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::SUBSCRIBER)
        .flag(Flags::IN_MULTI)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Closes the connection."),
    CommandDefinition::new("hello", -1, hello)
        .fast()
        .flag(ALWAYS)
        .flag(Flags::NO_AUTH)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::SECRET)
        .hides(secrets_of_hello)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "6.0.0", "O(1)")
        .summary("Handshakes with the server and chooses the version of the protocol."),
    CommandDefinition::new("reset", 1, reset)
        .fast()
        .flag(ALWAYS)
        .flag(Flags::NO_AUTH)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::SUBSCRIBER)
        .flag(Flags::IN_MULTI)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "6.2.0", "O(1)")
        .summary("Resets the connection to its initial state."),
    CommandDefinition::new("time", 1, time)
        .fast()
        .flag(ALWAYS)
        .about(CommandGroup::Server, "2.6.0", "O(1)")
        .summary("Returns the server's time."),
    CommandDefinition::new("lolwut", -1, lolwut)
        .reads()
        .fast()
        .flag(Flags::NO_PHASE)
        .about(CommandGroup::Server, "5.0.0", "O(1)")
        .summary("Shows a picture and the version.")
        .differs("the picture is Nearfield's own, and takes no parameters into account"),
];

fn ping(call: &mut CommandCall<'_>) -> Answer {
    let message = match call.rest(1) {
        [] => None,
        [message] => Some(*message),
        _ => return Err(CommandError::WrongArity("ping".into())),
    };
    if call.reply.protocol() == Protocol::Resp2 && call.client.subscriptions.any() {
        // As in Redis, a subscriber that speaks RESP2 gets the reply in the form of a message.
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(message.unwrap_or_default());
        return Ok(());
    }
    match message {
        None => call.reply.simple("PONG"),
        Some(message) => call.reply.bulk(message),
    }
    Ok(())
}

fn echo(call: &mut CommandCall<'_>) -> Answer {
    call.reply.bulk(call.args[1]);
    Ok(())
}

fn select(call: &mut CommandCall<'_>) -> Answer {
    let number = small_integer(call.args[1])?;
    match usize::try_from(number) {
        // The parameter may allow fewer databases than there are.
        Ok(number) if number < call.server.config.hot.databases() => {
            choose_database(call, number);
            call.reply.ok();
            Ok(())
        }
        _ => Err(CommandError::text("ERR DB index is out of range")),
    }
}

fn choose_database(call: &mut CommandCall<'_>, number: usize) {
    debug_assert!(
        number < crate::keyspace::DATABASES,
        "the number was checked"
    );
    call.client.database = number;
    call.client.shared.database.store(number, Ordering::Relaxed);
}

fn quit(call: &mut CommandCall<'_>) -> Answer {
    // The connection is closed once the reply is sent.
    call.client.closing = true;
    call.reply.ok();
    Ok(())
}

/// Returns the positions of the user's name and password.
fn secrets_of_hello(args: &[&[u8]]) -> Vec<usize> {
    let auth = args.iter().position(|word| is(word, "auth"));
    auth.map_or_else(Vec::new, |at| vec![at + 1, at + 2])
}

fn hello(call: &mut CommandCall<'_>) -> Answer {
    let mut protocol = call.reply.protocol();
    let mut options = call.rest(1);
    if let [version, rest @ ..] = options {
        options = rest;
        let version = crate::number::parse_integer(version).ok_or(CommandError::text(
            "ERR Protocol version is not an integer or out of range",
        ))?;
        protocol = match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => {
                return Err(CommandError::text("NOPROTO unsupported protocol version"));
            }
        };
    }
    let (mut name, mut credentials) = (None, None);
    loop {
        match options {
            [] => break,
            [word, user, password, rest @ ..] if is(word, "auth") => {
                credentials = Some((*user, *password));
                options = rest;
            }
            [word, value, rest @ ..] if is(word, "setname") => {
                crate::commands::client::check_name(value, "Client names")?;
                name = Some(*value);
                options = rest;
            }
            [word, ..] => {
                let word = shown(word);
                return Err(CommandError::owned(format!(
                    "ERR Syntax error in HELLO option '{word}'"
                )));
            }
        }
    }
    // Nothing is changed before all options are parsed and the client has logged in.
    if let Some((user, password)) = credentials {
        let logged_in = call.client.log_in(&call.server.acl, user, password);
        logged_in.map_err(|error| CommandError::owned(error.to_string()))?;
    }
    if !call.client.authenticated {
        return Err(CommandError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        crate::commands::client::set_name(call, name);
    }
    choose_protocol(call, protocol);
    introduce(call);
    Ok(())
}

fn choose_protocol(call: &mut CommandCall<'_>, protocol: Protocol) {
    if protocol != call.reply.protocol() {
        // Messages that are under way are written in the former version.
        crate::commands::pubsub::deliver_pending(call);
    }
    call.reply.set_protocol(protocol);
    let listed = &call.client.shared.listed;
    listed
        .resp3
        .store(protocol == Protocol::Resp3, Ordering::Relaxed);
}

/// Writes the properties of the server and the connection (`HELLO`).
fn introduce(call: &mut CommandCall<'_>) {
    let id = call.client.shared.id as i64;
    let reply = &mut *call.reply;
    reply.map(7);
    reply.bulk(b"server");
    // Clients choose their features by this name and version.
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(match reply.protocol() {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    });
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

fn reset(call: &mut CommandCall<'_>) -> Answer {
    call.client.transaction = None;
    crate::commands::transaction::leave_watches(call.server, call.client);
    crate::commands::pubsub::unsubscribe_silently(call);
    let server = call.server;
    server.tracking.leave(&server.keyspace, call.client);
    server.monitors.leave(&server.singly, call.client);
    choose_database(call, 0);
    choose_protocol(call, Protocol::Resp2);
    call.client.shared.name.lock().clear();
    call.client.replies = Default::default();
    call.client.shared.listed.set_no_touch(false);
    call.client.shared.listed.set_no_evict(false);
    // As in Redis, the client is the default user again.
    call.client.welcome(&call.server.acl);
    call.reply.simple("RESET");
    Ok(())
}

fn time(call: &mut CommandCall<'_>) -> Answer {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH);
    let script = &mut call.client.script;
    let since = match script.time {
        // As in Redis, time stands still while a script runs.
        Some(time) if script.runs => time,
        _ => now().unwrap_or_default(),
    };
    if script.runs {
        script.time = Some(since);
    }
    call.reply.array(2);
    call.reply.bulk_integer(since.as_secs() as i64);
    call.reply.bulk_integer(i64::from(since.subsec_micros()));
    Ok(())
}

fn lolwut(call: &mut CommandCall<'_>) -> Answer {
    let text = format!(
        "   .  .   .    .     .\n  (((  nearfield  )))\n   .  .   .    .     .\n\n\
         Redis ver. {REDIS_VERSION}\nNearfield ver. {}\n",
        env!("CARGO_PKG_VERSION")
    );
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}
