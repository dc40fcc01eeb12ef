//! The arguments of commands that read new entries.

use crate::command::arguments::Words;
use crate::command::{CommandCall, integer, is};
use crate::error::CommandError;

/// Returns the positions of the keys: the first half of the arguments after `STREAMS`.
pub(super) fn keys(args: &[&[u8]]) -> Vec<usize> {
    let mut at = 1;
    while let Some(word) = args.get(at) {
        if is(word, "block") || is(word, "count") {
            at += 2;
        } else if is(word, "group") {
            // The group and the consumer may be any words, so they are not compared with options.
            at += 3;
        } else if is(word, "noack") {
            at += 1;
        } else if is(word, "streams") {
            // If the identifiers do not match the keys, the command fails and uses no key.
            let behind = args.len() - at - 1;
            if behind == 0 || behind % 2 == 1 {
                break;
            }
            return (at + 1..at + 1 + behind / 2).collect();
        } else {
            break;
        }
    }
    Vec::new()
}

/// The arguments of `XREAD` and `XREADGROUP`.
pub(super) struct XreadArguments<'a> {
    pub group: Option<(&'a [u8], &'a [u8])>,
    pub count: Option<usize>,
    pub block_ms: Option<u64>,
    pub no_ack: bool,
    pub keys: Words<'a>,
    pub from: Words<'a>,
}

/// Parses the arguments.
///
/// # Errors
/// The arguments are not those of the command.
pub(super) fn parse<'a>(
    call: &CommandCall<'a>,
    for_group: bool,
) -> Result<XreadArguments<'a>, CommandError> {
    let args = call.args;
    let mut parsed = XreadArguments {
        group: None,
        count: None,
        block_ms: None,
        no_ack: false,
        keys: &[],
        from: &[],
    };
    let mut at = 1;
    while let Some(&word) = args.get(at) {
        let more = args.len() - at - 1;
        if is(word, "block") && more > 0 {
            at += 1;
            parsed.block_ms = Some(block_ms(args[at])?);
        } else if is(word, "count") && more > 0 {
            at += 1;
            let count = integer(args[at])?;
            // As in Redis, a count that is not positive means all entries.
            parsed.count = usize::try_from(count).ok().filter(|&count| count > 0);
        } else if is(word, "streams") && more > 0 {
            let words = call.rest(at + 1);
            if words.len() % 2 == 1 {
                let (name, ids) = match for_group {
                    true => ("xreadgroup", "an ID or '>'"),
                    false => ("xread", "an ID, '+', or '$'"),
                };
                return Err(CommandError::owned(format!(
                    "ERR Unbalanced '{name}' list of streams: for each stream key {ids} must be \
                     specified."
                )));
            }
            (parsed.keys, parsed.from) = words.split_at(words.len() / 2);
            break;
        } else if is(word, "group") && more >= 2 {
            if !for_group {
                return Err(CommandError::text(
                    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD \
                     instead.",
                ));
            }
            parsed.group = Some((args[at + 1], args[at + 2]));
            at += 2;
        } else if is(word, "noack") {
            if !for_group {
                return Err(CommandError::text(
                    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD \
                     instead.",
                ));
            }
            parsed.no_ack = true;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    if parsed.keys.is_empty() {
        return Err(CommandError::Syntax);
    }
    if for_group && parsed.group.is_none() {
        return Err(CommandError::text(
            "ERR Missing GROUP option for XREADGROUP",
        ));
    }
    debug_assert_eq!(
        parsed.keys.len(),
        parsed.from.len(),
        "each key has an identifier"
    );
    Ok(parsed)
}

/// Parses a timeout in milliseconds.
fn block_ms(argument: &[u8]) -> Result<u64, CommandError> {
    let no_integer = CommandError::text("ERR timeout is not an integer or out of range");
    let ms = crate::number::parse_integer(argument).ok_or(no_integer)?;
    u64::try_from(ms).map_err(|_| CommandError::text("ERR timeout is negative"))
}
