//! The command that removes the oldest entries.

use super::GROUP;
use super::id::any;
use crate::command::{Answer, CommandCall, CommandDefinition, integer, is};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::object::StreamObject;
use crate::object::stream::{Trim, TrimBound};

pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::new("xtrim", -4, xtrim)
    .writes()
    .key(1)
    .about(GROUP, "5.0.0", "O(N) for N entries that are removed")
    .summary("Removes the oldest entries of a stream.")];

const BOTH: CommandError = CommandError::text(
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
);
const NO_STRATEGY: CommandError = CommandError::text(
    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
);
const TRIM_WITHOUT_STRATEGY: CommandError =
    CommandError::text("ERR syntax error, XTRIM must be called with a trimming strategy");
const EXACT_LIMIT: CommandError =
    CommandError::text("ERR syntax error, LIMIT cannot be used without the special ~ option");
/// The largest number of nodes that an approximate bound without a limit removes.
const NODES_MAX: u64 = 100;

/// The options of `XADD` and `XTRIM`.
pub(super) struct TrimArguments {
    pub trim: Option<Trim>,
    /// True if a missing key is not created.
    pub only_present: bool,
}

impl TrimArguments {
    /// Parses the options after the key, and returns the position after them: that of the
    /// identifier of `XADD`.
    pub fn parse(
        call: &CommandCall<'_>,
        is_add: bool,
    ) -> Result<(TrimArguments, usize), CommandError> {
        let args = call.args;
        let (mut bound, mut is_approximate, mut limit) = (None, false, None);
        let mut only_present = false;
        let mut at = 2;
        while let Some(&word) = args.get(at) {
            let has_more = at + 1 < args.len();
            let is_len = is(word, "maxlen");
            if is_add && word == b"*" {
                break;
            } else if (is_len || is(word, "minid")) && has_more {
                if bound.is_some() {
                    return Err(BOTH);
                }
                is_approximate = false;
                let has_sign = at + 2 < args.len();
                match args[at + 1] {
                    // Without another word the sign itself is the value, which does not parse.
                    b"~" if has_sign => (is_approximate, at) = (true, at + 1),
                    b"=" if has_sign => at += 1,
                    _ => {}
                }
                at += 1;
                bound = Some(match is_len {
                    true => TrimBound::Len(not_negative(
                        args[at],
                        "ERR The MAXLEN argument must be >= 0.",
                    )?),
                    false => TrimBound::Id(any(args[at], 0)?),
                });
            } else if is(word, "limit") && has_more {
                at += 1;
                limit = Some(not_negative(
                    args[at],
                    "ERR The LIMIT argument must be >= 0.",
                )?);
            } else if is_add && is(word, "nomkstream") {
                only_present = true;
            } else if is_add {
                // An invalid identifier is reported before missing arguments.
                super::id::new_id(word)?;
                break;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        debug_assert!(at <= args.len(), "the options end before the arguments do");
        let Some(bound) = bound else {
            return match limit {
                Some(1..) => Err(NO_STRATEGY),
                _ if !is_add => Err(TRIM_WITHOUT_STRATEGY),
                Some(_) => Err(EXACT_LIMIT),
                None => Ok((
                    TrimArguments {
                        trim: None,
                        only_present,
                    },
                    at,
                )),
            };
        };
        if limit.is_some() && !is_approximate {
            return Err(EXACT_LIMIT);
        }
        let usual = || {
            let entries = call.keys.limits().stream_node_entries_max as u64;
            // As in Redis, so that one command does not remove too many entries at once.
            match entries.saturating_mul(NODES_MAX) {
                0 => 10_000,
                limit => limit.min(1_000_000),
            }
        };
        let limit = match is_approximate {
            true => limit.unwrap_or_else(usual),
            false => 0,
        };
        let trim = Trim {
            bound,
            is_approximate,
            limit,
        };
        Ok((
            TrimArguments {
                trim: Some(trim),
                only_present,
            },
            at,
        ))
    }
}

fn not_negative(argument: &[u8], refused: &'static str) -> Result<u64, CommandError> {
    u64::try_from(integer(argument)?).map_err(|_| CommandError::text(refused))
}

fn xtrim(call: &mut CommandCall<'_>) -> Answer {
    let (arguments, _) = TrimArguments::parse(call, false)?;
    let key = call.args[1];
    let Some(trim) = arguments.trim else {
        return Err(TRIM_WITHOUT_STRATEGY);
    };
    let trimmed = call.keys.edit_present::<StreamObject, _>(key, |stream| {
        let trimmed = stream.trim(&trim);
        (trimmed, stream.len())
    })?;
    let (trimmed, len) = trimmed.unwrap_or((0, 0));
    if trimmed > 0 {
        call.keys.changed(key, Class::Stream, "xtrim");
        let len = len.to_string();
        // The log has the exact length, because the effect of an approximate bound depends on the
        // nodes.
        let words = [&b"XTRIM"[..], key, b"MAXLEN", b"=", len.as_bytes()];
        call.keys.effects().log_instead(&words);
    }
    call.reply.count(trimmed as usize);
    Ok(())
}
