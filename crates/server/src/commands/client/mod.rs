//! Commands that name, list, pause and close clients.

mod filter;
mod tracking;

use crate::blocking::Wait;
use crate::carried;
use crate::client::{ClientShared, ReplyMode, describe};
use crate::clock::steady_ms;
use crate::command::help::help;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandFunction, CommandGroup, Flags, integer, is,
};
use crate::commands::TABLE;
use crate::connection::IoThreadMessage;
use crate::error::{CommandError, shown};
use crate::number::parse_integer;
use crate::pause::PauseMode;
use crate::resp::RespReply;
use filter::ClientFilter;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const GROUP: CommandGroup = CommandGroup::Connection;
const FREE: Flags = Flags(Flags::NO_PHASE.0 | Flags::NOSCRIPT.0 | Flags::LOADING.0);
const ADMIN: Flags = Flags(FREE.0 | Flags::ADMIN.0);

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::container("client", SUBCOMMANDS)
    .about(GROUP, "2.4.0", "Depends on the subcommand")
    .summary("Describes, pauses and closes clients.")];

const fn row(
    name: &'static str,
    arity: i32,
    run: CommandFunction,
    since: &'static str,
    summary: &'static str,
) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .flag(FREE)
        .about(GROUP, since, "O(1)")
        .summary(summary)
}

/// Creates a subcommand that visits all clients.
const fn admin(
    name: &'static str,
    arity: i32,
    run: CommandFunction,
    since: &'static str,
    summary: &'static str,
) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .flag(ADMIN)
        .about(GROUP, since, "O(N) for N clients")
        .summary(summary)
}

const SUBCOMMANDS: &[CommandDefinition] = &[
    row("id", 2, id, "5.0.0", "Returns the connection's number."),
    row("info", 2, info, "6.2.0", "Describes the connection."),
    admin("list", -2, list, "2.4.0", "Lists connections.").differs(
        "fd is the client's number; qbuf-free, argv-mem, multi-mem, oll and omem are 0, because \
         buffers work differently",
    ),
    row(
        "setname",
        3,
        set_name_command,
        "2.6.9",
        "Names the connection.",
    ),
    row(
        "getname",
        2,
        get_name,
        "2.6.9",
        "Returns the connection's name.",
    ),
    row(
        "setinfo",
        4,
        set_info,
        "7.2.0",
        "Sets the name and version of the client's library.",
    ),
    admin("kill", -3, kill, "2.4.0", "Closes connections."),
    row(
        "reply",
        3,
        set_replies,
        "3.2.0",
        "Turns replies to the connection on or off.",
    )
    .flag(Flags::CONFIRMS),
    admin(
        "no-evict",
        3,
        no_evict,
        "7.0.0",
        "Exempts the connection from `maxmemory-clients`, or not.",
    ),
    row(
        "no-touch",
        3,
        no_touch,
        "7.2.0",
        "Sets if reads of the connection count as uses of keys.",
    )
    .differs("writes of the connection count as uses all the same"),
    admin(
        "pause",
        -3,
        pause,
        "3.0.0",
        "Delays the commands of clients.",
    )
    .flag(Flags::EXCLUSIVE),
    admin(
        "unpause",
        2,
        unpause,
        "6.2.0",
        "Resumes the commands of paused clients.",
    ),
    admin(
        "unblock",
        -3,
        unblock,
        "5.0.0",
        "Unblocks a blocked client.",
    ),
    row(
        "getredir",
        2,
        tracking::get_redirection,
        "6.0.0",
        "Returns the client that invalidations are sent to.",
    ),
    CommandDefinition::new("tracking", -3, tracking::switch)
        .unshared()
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::LOADING)
        .about(GROUP, "6.0.0", "O(1)")
        .summary("Turns invalidation messages for keys that the client has read on or off."),
    row(
        "trackinginfo",
        2,
        tracking::information,
        "6.2.0",
        "Returns the tracking settings of the connection.",
    ),
    row(
        "caching",
        3,
        tracking::caching,
        "6.0.0",
        "Sets if the keys that the next command reads are tracked.",
    ),
    CommandDefinition::help(GROUP, "5.0.0", show_help),
];

fn id(call: &mut CommandCall<'_>) -> Answer {
    call.reply.integer(call.client.shared.id as i64);
    Ok(())
}

fn info(call: &mut CommandCall<'_>) -> Answer {
    show_own(call);
    let text = describe(&call.client.shared, TABLE.registry(), steady_ms()) + "\n";
    call.reply.verbatim(b"txt", &carried::bytes(&text));
    Ok(())
}

/// Publishes values that only the client's own thread has, before the client is listed.
fn show_own(call: &mut CommandCall<'_>) {
    let client = &call.client;
    let listed = &client.shared.listed;
    listed
        .watched
        .store(client.watched.len(), Ordering::Relaxed);
}

/// Returns all clients, ordered by number.
pub fn all(call: &CommandCall<'_>) -> Vec<Arc<ClientShared>> {
    call.server.clients.lock().values().cloned().collect()
}

fn list(call: &mut CommandCall<'_>) -> Answer {
    let (own, now_ms) = (call.client.shared.id, steady_ms());
    let clients = &call.server.clients;
    let found: Vec<Arc<ClientShared>> = match ids(call.rest(2))? {
        // In the order of the request.
        Some(ids) => {
            let clients = clients.lock();
            let by_id = |id: &i64| clients.get(&u64::try_from(*id).ok()?).cloned();
            ids.iter().filter_map(by_id).collect()
        }
        None => {
            let filter = ClientFilter::parse(call.server, call.rest(2))?;
            let takes = |client: &Arc<ClientShared>| filter.takes(client, own, false, now_ms);
            let mut found = filter.candidates(clients);
            found.retain(takes);
            found
        }
    };
    show_own(call);
    let mut text = String::new();
    for client in found {
        text += &describe(&client, TABLE.registry(), now_ms);
        text.push('\n');
    }
    call.reply.verbatim(b"txt", &carried::bytes(&text));
    Ok(())
}

/// Parses the numbers of `LIST ID`. Returns `None` if there are other filters.
fn ids(options: &[&[u8]]) -> Result<Option<Vec<i64>>, CommandError> {
    match options {
        [word, first, rest @ ..] if is(word, "id") => {
            let first = parse_integer(first).ok_or(CommandError::text("ERR Invalid client ID"))?;
            // A word that is no number begins another option, which the filter parses.
            let rest: Option<Vec<i64>> = rest.iter().map(|id| parse_integer(id)).collect();
            Ok(rest.map(|rest| [vec![first], rest].concat()))
        }
        _ => Ok(None),
    }
}

/// Checks that a text can be a value in a list of clients. `what` is its name in the error.
pub fn check_name(text: &[u8], what: &str) -> Answer {
    // A blank or a line end would break the lines of CLIENT LIST.
    if text.iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    Err(CommandError::owned(format!(
        "ERR {what} cannot contain spaces, newlines or special characters."
    )))
}

/// Sets the client's name.
pub fn set_name(call: &mut CommandCall<'_>, name: &[u8]) {
    *call.client.shared.name.lock() = String::from_utf8_lossy(name).into_owned();
    count_names(call);
}

/// Counts the client's names as part of the memory that it holds.
fn count_names(call: &mut CommandCall<'_>) {
    let shared = &call.client.shared;
    let library = shared.listed.library.lock();
    call.client.named_bytes = shared.name.lock().len() + library.0.len() + library.1.len();
}

fn set_name_command(call: &mut CommandCall<'_>) -> Answer {
    check_name(call.args[2], "Client names")?;
    set_name(call, call.args[2]);
    call.reply.ok();
    Ok(())
}

fn get_name(call: &mut CommandCall<'_>) -> Answer {
    let name = call.client.shared.name.lock().clone();
    // As in Redis, a client without a name gets null.
    let name = Some(name.as_bytes()).filter(|name| !name.is_empty());
    call.reply.bulk_or_null(name);
    Ok(())
}

fn set_info(call: &mut CommandCall<'_>) -> Answer {
    let (option, value) = (call.args[2], call.args[3]);
    let text = String::from_utf8_lossy(value).into_owned();
    if is(option, "lib-name") {
        check_name(value, "lib-name")?;
        call.client.shared.listed.library.lock().0 = text;
    } else if is(option, "lib-ver") {
        check_name(value, "lib-ver")?;
        call.client.shared.listed.library.lock().1 = text;
    } else {
        let option = shown(option);
        return Err(CommandError::owned(format!(
            "ERR Unrecognized option '{option}'"
        )));
    }
    count_names(call);
    call.reply.ok();
    Ok(())
}

fn kill(call: &mut CommandCall<'_>) -> Answer {
    let old_form = call.args.len() == 3;
    let filter = match old_form {
        true => ClientFilter::of_address(call.args[2]),
        false => ClientFilter::parse(call.server, call.rest(2))?,
    };
    let (own, now_ms) = (call.client.shared.id, steady_ms());
    let mut killed = 0;
    for client in filter.candidates(&call.server.clients) {
        // As in Redis, only the form with options leaves out the own connection by default.
        if filter.takes(&client, own, !old_form, now_ms) {
            killed += 1;
            close(call, &client);
        }
    }
    match (old_form, killed) {
        // As in Redis, only the old form fails if no client matches.
        (true, 0) => return Err(CommandError::text("ERR No such client")),
        (true, _) => call.reply.ok(),
        (false, killed) => call.reply.integer(killed),
    }
    Ok(())
}

/// Closes a client's connection. The caller's own connection is closed after the reply.
pub fn close(call: &mut CommandCall<'_>, client: &ClientShared) {
    if client.id == call.client.shared.id {
        call.client.closing = true;
        return;
    }
    client.killed.store(true, Ordering::Release);
    // It is not listed from now on. It is no longer blocked, because an element that it received
    // would be lost. Its thread closes it in its next iteration.
    call.server.clients.lock().remove(&client.id);
    call.server.blocked.remove(client.id);
    let close = IoThreadMessage::Close { client: client.id };
    call.server.clients.send(client, close);
}

fn set_replies(call: &mut CommandCall<'_>) -> Answer {
    let word = call.args[2];
    if is(word, "on") {
        call.client.replies = ReplyMode::On;
        call.reply.ok();
    } else if is(word, "off") {
        call.client.replies = ReplyMode::Off;
    } else if is(word, "skip") {
        // As in Redis, SKIP does not turn replies on again.
        if call.client.replies != ReplyMode::Off {
            call.client.replies = ReplyMode::SkipNext;
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Ok(())
}

fn on_or_off(call: &CommandCall<'_>) -> Result<bool, CommandError> {
    let word = call.arg(2)?;
    match (is(word, "on"), is(word, "off")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

fn no_evict(call: &mut CommandCall<'_>) -> Answer {
    let on = on_or_off(call)?;
    call.client.shared.listed.set_no_evict(on);
    call.reply.ok();
    Ok(())
}

fn no_touch(call: &mut CommandCall<'_>) -> Answer {
    let on = on_or_off(call)?;
    call.client.shared.listed.set_no_touch(on);
    call.reply.ok();
    Ok(())
}

fn pause(call: &mut CommandCall<'_>) -> Answer {
    let mode = match call.rest(3) {
        [] => PauseMode::All,
        [mode] if is(mode, "all") => PauseMode::All,
        [mode] if is(mode, "write") => PauseMode::Write,
        [_] => {
            return Err(CommandError::text(
                "ERR CLIENT PAUSE mode must be WRITE or ALL",
            ));
        }
        _ => return Err(CommandError::Syntax),
    };
    let timeout_ms = parse_integer(call.args[2]).ok_or(CommandError::text(
        "ERR timeout is not an integer or out of range",
    ))?;
    let timeout_ms =
        u64::try_from(timeout_ms).map_err(|_| CommandError::text("ERR timeout is negative"))?;
    let now_ms = steady_ms();
    let until_ms = now_ms
        .checked_add(timeout_ms)
        // As in Redis, the end of the pause must fit in a signed number.
        .filter(|until| *until <= i64::MAX as u64)
        .ok_or(CommandError::text("ERR timeout is out of range"))?;
    call.server
        .pause
        .begin(&call.server.singly, mode, until_ms, now_ms);
    call.reply.ok();
    Ok(())
}

fn unpause(call: &mut CommandCall<'_>) -> Answer {
    call.server
        .pause
        .end(&call.server.singly, &call.server.clients);
    call.reply.ok();
    Ok(())
}

fn unblock(call: &mut CommandCall<'_>) -> Answer {
    let with_error = match call.rest(3) {
        [] => false,
        [word] if is(word, "timeout") => false,
        [word] if is(word, "error") => true,
        [_] => {
            return Err(CommandError::text(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
        _ => return Err(CommandError::Syntax),
    };
    let id = integer(call.args[2])?;
    let waiter = u64::try_from(id)
        .ok()
        // A client that waits for no key waits for an operation that is under way.
        .and_then(|id| {
            let is_for_keys = |wait: &Wait| !wait.keys.is_empty();
            call.server.blocked.remove_if(id, is_for_keys)
        });
    let Some(waiter) = waiter else {
        call.reply.integer(0);
        return Ok(());
    };
    call.server.count_wait_in_vain(&waiter);
    let answer = if with_error {
        let mut reply = RespReply::new(waiter.protocol);
        reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
        reply.take()
    } else {
        // As in Redis, the client sees the same as after its timeout.
        waiter.wait.in_vain
    };
    let client = waiter.client.id;
    let resume = IoThreadMessage::Resume {
        client,
        answer,
        // The client has changed nothing, so its reply waits for no write of the log.
        logged_up_to: 0,
    };
    call.server.clients.send(&waiter.client, resume);
    call.reply.integer(1);
    Ok(())
}

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "CACHING (YES|NO)",
            "    Set if the keys that the next command reads are tracked.",
            "GETNAME",
            "    The connection's name.",
            "GETREDIR",
            "    The client that invalidations are sent to.",
            "ID",
            "    The connection's number.",
            "INFO",
            "    The connection as LIST shows it.",
            "KILL <address:port>",
            "    Close the connection from an address.",
            "KILL <option> <value> [<option> <value> ...]",
            "    Close connections; options are ID <id> ..., TYPE, USER, ADDR, LADDR, IP, NAME,",
            "    LIB-NAME, LIB-VER, FLAGS, CAPA, DB, each also with NOT- before it, and MAXAGE,",
            "    IDLE and SKIPME.",
            "LIST [<option> <value> ...]",
            "    All or some connections, by the options of KILL.",
            "NO-EVICT (ON|OFF)",
            "    Exempt the connection from `maxmemory-clients`, or not.",
            "NO-TOUCH (ON|OFF)",
            "    Set if reads of the connection do not count as uses of keys.",
            "PAUSE <milliseconds> [WRITE|ALL]",
            "    Delay the commands of clients.",
            "REPLY (ON|OFF|SKIP)",
            "    Turn replies to the connection on or off.",
            "SETINFO (LIB-NAME|LIB-VER) <value>",
            "    Set the name or version of the client's library.",
            "SETNAME <name>",
            "    Name the connection.",
            "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] \
             [NOLOOP]",
            "    Turn invalidation messages for keys that the client has read on or off.",
            "TRACKINGINFO",
            "    Return the tracking settings of the connection.",
            "UNBLOCK <id> [TIMEOUT|ERROR]",
            "    Unblock a blocked client.",
            "UNPAUSE",
            "    Resume the commands of paused clients.",
        ],
    )
}
