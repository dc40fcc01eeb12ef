//! Commands on access control.

use crate::acl::{AclError, DEFAULT, DeniedCommand, Selector, User};
use crate::carried;
use crate::catalog::category;
use crate::client::Topic;
use crate::clock::now_ms;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandFunction, CommandGroup, Flags, integer, is,
};
use crate::commands::TABLE;
use crate::commands::client;
use crate::error::{CommandError, shown};
use crate::hexadecimal::hex;
use crate::resp::RespReply;
use rand::Rng;

const SERVER: CommandGroup = CommandGroup::Server;
const USER_CHANGES: &str = "Keys, channels and commands of a user are checked as in Redis 7.2; \
                            commands on key ranges, which Redis lacks, need permission for all \
                            keys.";

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("auth", -2, auth)
        .fast()
        .flag(Flags::NO_PHASE)
        .flag(Flags::ALLOW_BUSY)
        .flag(Flags::NO_AUTH)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::LOADING)
        .flag(Flags::SECRET)
        .hides(|args| (1..args.len()).collect())
        .about(
            CommandGroup::Connection,
            "1.0.0",
            "O(N) for N passwords of the user",
        )
        .summary("Logs the client in."),
    CommandDefinition::container("acl", SUBCOMMANDS)
        .about(SERVER, "6.0.0", "Depends on the subcommand")
        .summary("Describes and changes users and their permissions."),
];

const SUBCOMMANDS: &[CommandDefinition] = &[
    row("cat", -2, cat)
        .about(SERVER, "6.0.0", "O(N) for N commands")
        .summary("Lists the categories, or the commands of one."),
    admin("deluser", -3, delete_users)
        .about(SERVER, "6.0.0", "O(N) for N clients")
        .summary("Deletes users and closes their connections."),
    admin("dryrun", -4, dry_run)
        .about(SERVER, "7.0.0", "O(1)")
        .summary("Checks if a user may run a command."),
    row("genpass", -2, generate_password)
        .about(SERVER, "6.0.0", "O(1)")
        .summary("Generates a password."),
    admin("getuser", 3, get_user)
        .about(SERVER, "6.0.0", "O(N) for N rules")
        .summary("Returns the rules of a user."),
    admin("list", 2, list)
        .about(SERVER, "6.0.0", "O(N) for N users")
        .summary("Lists all users with their rules."),
    admin("load", 2, load)
        .about(SERVER, "6.0.0", "O(N) for N users")
        .summary("Loads the users from the file."),
    admin("log", -2, log)
        .about(SERVER, "6.0.0", "O(N) for N entries")
        .summary("Returns the denied commands."),
    admin("save", 2, save)
        .about(SERVER, "6.0.0", "O(N) for N users")
        .summary("Writes the users to the file."),
    admin("setuser", -3, set_user)
        // Users take memory that no eviction can free.
        .flag(Flags::STORES_ASIDE)
        .flag(Flags::SECRET)
        .about(SERVER, "6.0.0", "O(N) for N rules")
        .summary("Creates a user or changes its rules.")
        .differs(USER_CHANGES),
    admin("users", 2, users)
        .about(SERVER, "6.0.0", "O(N) for N users")
        .summary("Lists the names of all users."),
    row("whoami", 2, who_am_i)
        .about(SERVER, "6.0.0", "O(1)")
        .summary("Returns the name of the client's user."),
    CommandDefinition::help(SERVER, "6.0.0", help).summary("Lists the subcommands."),
];

const fn row(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::LOADING)
        // Any argument may be a password, also one that the command does not expect.
        .hides(|args| (2..args.len()).collect())
}

const fn admin(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    row(name, arity, run).flag(Flags::ADMIN)
}

impl From<AclError> for CommandError {
    fn from(error: AclError) -> CommandError {
        CommandError::owned(format!("ERR {error}"))
    }
}

fn auth(call: &mut CommandCall<'_>) -> Answer {
    let (name, password) = match *call.args {
        [_, password] => {
            // The form without a name is that of `requirepass`, from before there were users.
            let user = call.server.acl.user(DEFAULT);
            if user.is_some_and(|user| user.no_password) {
                return Err(CommandError::text(
                    "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?",
                ));
            }
            (DEFAULT, password)
        }
        [_, name, password] => (name, password),
        _ => return Err(CommandError::Syntax),
    };
    let logged_in = call.client.log_in(&call.server.acl, name, password);
    logged_in.map_err(|error| CommandError::owned(error.to_string()))?;
    call.reply.ok();
    Ok(())
}

fn cat(call: &mut CommandCall<'_>) -> Answer {
    match *call.args {
        [_, _] => {
            call.reply.array(category::NAMES.len());
            for name in category::NAMES {
                call.reply.bulk(name.as_bytes());
            }
        }
        [_, _, name] => {
            let Some(bit) = category::bit(name) else {
                let name = shown(name);
                return Err(CommandError::owned(format!(
                    "ERR Unknown category '{name}'"
                )));
            };
            let is_in = |entry: &&crate::catalog::CommandRegistryEntry| entry.categories & bit != 0;
            let entries: Vec<_> = TABLE.registry().entries().iter().filter(is_in).collect();
            call.reply.array(entries.len());
            for entry in entries {
                // As in Redis, subcommands are listed by their full names.
                call.reply.bulk(entry.name.as_bytes());
            }
        }
        _ => return Err(wrong_arguments("CAT")),
    }
    Ok(())
}

fn wrong_arguments(subcommand: &str) -> CommandError {
    CommandError::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try ACL HELP."
    ))
}

fn delete_users(call: &mut CommandCall<'_>) -> Answer {
    let names = call.rest(2);
    // As in Redis, this is checked first, so that an error means that no user was deleted.
    if names.contains(&DEFAULT) {
        return Err(CommandError::text(
            "ERR The 'default' user cannot be removed",
        ));
    }
    let mut deleted = 0;
    for name in names {
        if call.server.acl.delete_user(name) {
            deleted += 1;
            close_clients_of(call, name);
        }
    }
    call.reply.count(deleted);
    Ok(())
}

/// Closes the connections of all clients of a user.
fn close_clients_of(call: &mut CommandCall<'_>, name: &[u8]) {
    let mut clients = client::all(call);
    clients.retain(|client| *client.user.lock() == name);
    for client in clients {
        client::close(call, &client);
    }
}

/// Closes the connections of a user's clients that listen to channels which the user may no longer
/// listen to.
fn close_listeners_of(call: &mut CommandCall<'_>, name: &[u8]) {
    // Another thread may have deleted the user since, and closes its clients.
    let Some(user) = call.server.acl.user(name) else {
        return;
    };
    let may = |topic, channel: &[u8]| user.may_listen(channel, topic == Topic::Pattern);
    for client in call.server.pubsub.listeners_denied(name, may) {
        client::close(call, &client);
    }
}

fn dry_run(call: &mut CommandCall<'_>) -> Answer {
    let name = call.arg(2)?;
    let Some(user) = call.server.acl.user(name) else {
        let name = shown(name);
        return Err(CommandError::owned(format!("ERR User '{name}' not found")));
    };
    let args = call.rest(3);
    let command = TABLE.lookup(args).map_err(|error| match error {
        CommandError::WrongArity(_) => error,
        _ => {
            let name = shown(args.first().copied().unwrap_or_default());
            CommandError::owned(format!("ERR Command '{name}' not found"))
        }
    })?;
    // The user is checked directly, because a dry run is no denial to be logged.
    match user.check(TABLE.registry(), command, args) {
        Ok(()) => call.reply.ok(),
        Err(denial) => {
            let denied = DeniedCommand::of(&user, TABLE.registry().name(command), args, denial);
            call.reply.bulk(&carried::bytes(&denied.detail()));
        }
    }
    Ok(())
}

fn generate_password(call: &mut CommandCall<'_>) -> Answer {
    const BITS_MAX: i64 = 4096;
    let bits = match *call.args {
        [_, _] => 256,
        [_, _, bits] => integer(bits)?,
        _ => return Err(wrong_arguments("GENPASS")),
    };
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(CommandError::text(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a \
             positive number up to 4096",
        ));
    }
    // A hexadecimal digit has four bits.
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    rand::rng().fill_bytes(&mut bytes);
    let text = hex(&bytes);
    let text = text.as_bytes().get(..digits).unwrap_or_default();
    debug_assert_eq!(text.len(), digits);
    call.reply.bulk(text);
    Ok(())
}

fn get_user(call: &mut CommandCall<'_>) -> Answer {
    let Some(user) = call.server.acl.user(call.arg(2)?) else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut *call.reply;
    // As in Redis, the rules outside parentheses are fields of the user itself.
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    for flag in flags {
        reply.bulk(flag.as_bytes());
    }
    reply.bulk(b"passwords");
    let hashes: Vec<String> = user.password_hashes().collect();
    reply.array(hashes.len());
    for hash in hashes {
        reply.bulk(hash.as_bytes());
    }
    let mut selectors = user.selectors();
    if let Some(root) = selectors.next() {
        write_selector(reply, root);
    }
    reply.bulk(b"selectors");
    let selectors: Vec<&Selector> = selectors.collect();
    reply.array(selectors.len());
    for selector in selectors {
        reply.map(3);
        write_selector(reply, selector);
    }
    Ok(())
}

fn write_selector(reply: &mut RespReply, selector: &Selector) {
    reply.bulk(b"commands");
    reply.bulk(selector.describe_commands().as_bytes());
    reply.bulk(b"keys");
    reply.bulk(&selector.describe_keys());
    reply.bulk(b"channels");
    reply.bulk(&selector.describe_channels());
}

fn list(call: &mut CommandCall<'_>) -> Answer {
    write_users(call, User::describe);
    Ok(())
}

fn users(call: &mut CommandCall<'_>) -> Answer {
    write_users(call, |user| user.name.clone());
    Ok(())
}

fn write_users(call: &mut CommandCall<'_>, text: impl Fn(&User) -> Vec<u8>) {
    let users = call.server.acl.users();
    call.reply.array(users.len());
    for user in users {
        call.reply.bulk(&text(&user));
    }
}

fn load(call: &mut CommandCall<'_>) -> Answer {
    // Their clients must log in again, with the passwords and rights of the file.
    for name in call.server.acl.load()? {
        close_clients_of(call, &name);
    }
    call.reply.ok();
    Ok(())
}

fn save(call: &mut CommandCall<'_>) -> Answer {
    call.server.acl.save()?;
    call.reply.ok();
    Ok(())
}

fn log(call: &mut CommandCall<'_>) -> Answer {
    const COUNT: i64 = 10;
    let count = match *call.args {
        [_, _] => COUNT,
        [_, _, word] if is(word, "RESET") => {
            call.server.acl.forget_denials();
            call.reply.ok();
            return Ok(());
        }
        [_, _, count] => integer(count)?,
        _ => return Err(wrong_arguments("LOG")),
    };
    // As in Redis, a negative count is 0.
    let entries = call.server.acl.denials(count.max(0) as usize);
    let now_ms = now_ms();
    let reply = &mut *call.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.map(10);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        reply.bulk(b"reason");
        reply.bulk(entry.reason.name().as_bytes());
        reply.bulk(b"context");
        reply.bulk(entry.context.name().as_bytes());
        reply.bulk(b"object");
        reply.bulk(&entry.object);
        reply.bulk(b"username");
        reply.bulk(&entry.user);
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(&carried::bytes(&entry.client));
        reply.bulk(b"entry-id");
        reply.integer(entry.id as i64);
        reply.bulk(b"timestamp-created");
        reply.integer(entry.created_ms as i64);
        reply.bulk(b"timestamp-last-updated");
        reply.integer(entry.updated_ms as i64);
    }
    Ok(())
}

fn set_user(call: &mut CommandCall<'_>) -> Answer {
    let name = call.arg(2)?;
    call.server.acl.set_user(name, call.rest(3))?;
    // As in Redis, a listener may not go on receiving from a channel that it has lost.
    close_listeners_of(call, name);
    call.reply.ok();
    Ok(())
}

fn who_am_i(call: &mut CommandCall<'_>) -> Answer {
    let name = call.client.shared.user.lock().clone();
    call.reply.bulk(&name);
    Ok(())
}

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Prints this help.",
];

fn help(call: &mut CommandCall<'_>) -> Answer {
    call.reply.array(HELP.len());
    for line in HELP {
        call.reply.simple(line);
    }
    Ok(())
}
