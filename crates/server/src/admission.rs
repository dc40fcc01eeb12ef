//! The refusal of commands that the configuration forbids, and of requests of another protocol.

use crate::client::ClientSession;
use crate::config::ConfigParameters;
use crate::error::CommandError;
use crate::logging::SparseLine;
use crate::resp::request::is;
use crate::server::ServerCore;
use std::net::SocketAddr;

/// Commands that are forbidden unless the configuration allows them, each with its parameter.
const OPENED_BY: &[(&str, &str)] = &[
    ("debug", "enable-debug-command"),
    ("module", "enable-module-command"),
];

/// Words at the beginning of a line that a browser sends, and that no client of this protocol
/// sends.
const OF_HTTP: &[&str] = &["post", "host:"];

/// Refuses a command that needs the configuration's permission, unless it is allowed to this
/// client.
///
/// # Errors
/// The command is not allowed.
#[cold]
pub fn protected(
    server: &ServerCore,
    client: &ClientSession,
    args: &[&[u8]],
) -> Result<(), CommandError> {
    let name = args.first().copied().unwrap_or_default();
    let opened = OPENED_BY.iter().find(|(command, _)| is(name, command));
    let Some((command, parameter)) = opened else {
        return Ok(());
    };
    if is_open(&server.config, parameter, client) {
        return Ok(());
    }
    let command = command.to_ascii_uppercase();
    Err(CommandError::owned(format!(
        "ERR {command} command not allowed. If the {parameter} option is set to \"local\", you can \
         run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server."
    )))
}

/// Returns true if a parameter with the values `no`, `local` and `yes` allows something to a
/// client.
pub fn is_open(config: &ConfigParameters, parameter: &str, client: &ClientSession) -> bool {
    match &*config.text(parameter) {
        "yes" => true,
        "local" => is_local(&config.text("unixsocket"), &client.shared.peer),
        _ => false,
    }
}

/// Returns true if a client is on the same machine. Clients of a socket in the file system have its
/// path as their address.
fn is_local(socket: &str, peer: &str) -> bool {
    match peer.parse::<SocketAddr>() {
        // A socket for both protocols shows clients of IPv4 as `::ffff:127.0.0.1`, which is a
        // loopback address only in its canonical form.
        Ok(address) => address.ip().to_canonical().is_loopback(),
        Err(_) => !socket.is_empty() && peer.strip_prefix(socket) == Some(":0"),
    }
}

/// Handles an unknown command, and closes the connection of a browser. Returns the error for the
/// client.
#[cold]
pub fn of_unknown(
    server: &ServerCore,
    client: &mut ClientSession,
    args: &[&[u8]],
    error: CommandError,
) -> CommandError {
    let name = args.first().copied().unwrap_or_default();
    // Redis has one command DEBUG, so a client without the permission learns nothing about its
    // subcommands.
    if is(name, "debug")
        && let Err(refusal) = protected(server, client, args)
    {
        return refusal;
    }
    static LINE: SparseLine = SparseLine::new();
    if let Some(word) = OF_HTTP.iter().find(|word| is(name, word)) {
        // A web page can make a browser send lines that are commands behind the lines of HTTP.
        client.closing = true;
        if let Some(more) = LINE.next() {
            let peer = &client.shared.peer;
            tracing::warn!(
                peer,
                more,
                "a client has sent the word '{word}' of HTTP as a command; its connection is \
                 closed, because a web page may have made a browser send it"
            );
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_the_same_machine_are_told_by_their_addresses() {
        for peer in [
            "127.0.0.1:5",
            "127.1.2.3:5",
            "[::1]:5",
            "[::ffff:127.0.0.1]:5",
            "/run/socket:0",
        ] {
            assert!(is_local("/run/socket", peer), "{peer}");
        }
        for peer in ["192.0.2.1:5", "[2001:db8::1]:5", "?:0", "", ":0"] {
            assert!(!is_local("/run/socket", peer), "{peer}");
            assert!(!is_local("", peer), "{peer}");
        }
    }
}
