//! The replies of `HELP` subcommands.

use super::{Answer, CommandCall};

/// Replies with a text about the subcommands of a command, in Redis's form: a title, `lines`, and
/// two lines about `HELP` itself.
pub fn help(call: &mut CommandCall<'_>, lines: &[&str]) -> Answer {
    let name = call.args.first().copied().unwrap_or_default();
    debug_assert_eq!(call.args.len(), 2, "HELP has no arguments");
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    call.reply.array(lines.len() + 3);
    call.reply.simple(&format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for line in lines {
        call.reply.simple(line);
    }
    call.reply.simple("HELP");
    call.reply.simple("    Prints this help.");
    Ok(())
}
