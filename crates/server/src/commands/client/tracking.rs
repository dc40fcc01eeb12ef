//! `CLIENT TRACKING` and related commands, by which the server invalidates the caches of clients.

use crate::client::TrackingOptions;
use crate::command::{Answer, CommandCall, integer, is};
use crate::error::{CommandError, shown};
use crate::push::prefixes::PrefixTable;
use std::sync::atomic::Ordering;

/// Executes `CLIENT TRACKING`.
pub fn switch(call: &mut CommandCall<'_>) -> Answer {
    let on = if is(call.args[2], "on") {
        true
    } else if is(call.args[2], "off") {
        false
    } else {
        return Err(CommandError::Syntax);
    };
    // As in Redis, the options are parsed even if tracking is turned off.
    let choice = parse(call, call.rest(3))?;
    if on {
        let choice = check(call, choice)?;
        let tracking = &call.server.tracking;
        tracking.join(&call.server.keyspace, call.client, choice);
    } else {
        let tracking = &call.server.tracking;
        tracking.leave(&call.server.keyspace, call.client);
    }
    call.reply.ok();
    Ok(())
}

fn parse(call: &CommandCall<'_>, mut words: &[&[u8]]) -> Result<TrackingOptions, CommandError> {
    let mut choice = TrackingOptions::default();
    while let [word, rest @ ..] = words {
        words = rest;
        if is(word, "redirect") && !rest.is_empty() {
            if choice.redirection != 0 {
                return Err(CommandError::text(
                    "ERR A client can only redirect to a single other client",
                ));
            }
            let id = integer(rest.first().copied().unwrap_or_default())?;
            choice.redirection = u64::try_from(id)
                .ok()
                .filter(|id| call.server.clients.lock().contains_key(id))
                .ok_or(CommandError::text(
                    "ERR The client ID you want redirect to does not exist",
                ))?;
            words = rest.get(1..).unwrap_or_default();
        } else if is(word, "prefix") && !rest.is_empty() {
            let prefix = rest.first().copied().unwrap_or_default();
            choice.prefixes.push(prefix.to_vec());
            words = rest.get(1..).unwrap_or_default();
        } else if is(word, "bcast") {
            choice.broadcast = true;
        } else if is(word, "optin") {
            choice.opt_in = true;
        } else if is(word, "optout") {
            choice.opt_out = true;
        } else if is(word, "noloop") {
            choice.no_loop = true;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(choice)
}

/// Checks that the options fit together, and that they fit those chosen before.
fn check(
    call: &CommandCall<'_>,
    mut choice: TrackingOptions,
) -> Result<TrackingOptions, CommandError> {
    if !choice.broadcast && !choice.prefixes.is_empty() {
        return Err(CommandError::text(
            "ERR PREFIX option requires BCAST mode to be enabled",
        ));
    }
    if let Some(old) = &call.client.tracking
        && old.broadcast != choice.broadcast
    {
        return Err(CommandError::text(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, \
             and then re-enabling it with a different mode.",
        ));
    }
    if choice.broadcast && (choice.opt_in || choice.opt_out) {
        return Err(CommandError::text(
            "ERR OPTIN and OPTOUT are not compatible with BCAST",
        ));
    }
    if choice.opt_in && choice.opt_out {
        return Err(CommandError::text(
            "ERR You can't specify both OPTIN mode and OPTOUT mode",
        ));
    }
    if let Some(old) = &call.client.tracking
        && ((choice.opt_in && old.opt_out) || (choice.opt_out && old.opt_in))
    {
        return Err(CommandError::text(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, \
             and then re-enabling it with a different mode.",
        ));
    }
    if choice.broadcast
        && let Some(old) = &call.client.tracking
    {
        // No prefix means all keys. As the empty prefix it is compared with the old ones below.
        let is_all = choice.prefixes.is_empty() && !old.prefixes.is_empty();
        choice.prefixes.extend(is_all.then(Vec::new));
        choice.prefixes = check_prefixes(&choice.prefixes, old.tracked_prefixes())?;
    } else if choice.broadcast {
        choice.prefixes = check_prefixes(&choice.prefixes, std::iter::empty())?;
    }
    Ok(choice)
}

/// Returns all prefixes of a client that has chosen new ones in addition to the old. They must not
/// overlap, or the client would be notified twice.
fn check_prefixes<'o>(
    new: &[Vec<u8>],
    old: impl Iterator<Item = &'o [u8]>,
) -> Result<Vec<Vec<u8>>, CommandError> {
    let refuse = |prefix: &[u8], kind: &str, other: &[u8]| {
        Err(CommandError::owned(format!(
            "ERR Prefix '{}' overlaps with {kind} prefix '{}'. Prefixes for a single client must \
             not overlap.",
            shown(prefix),
            shown(other)
        )))
    };
    let (mut existing, mut provided) = (PrefixTable::<()>::default(), PrefixTable::default());
    for prefix in old {
        existing.get_or_default(prefix);
    }
    for prefix in new {
        match existing.overlapping(prefix) {
            // The client has this prefix already.
            Some(other) if other == prefix => continue,
            Some(other) => return refuse(prefix, "an existing", other),
            None => {}
        }
        if let Some(other) = provided.overlapping(prefix) {
            return refuse(other, "another provided", prefix);
        }
        let () = provided.get_or_default(prefix);
    }
    let all = provided.iter().chain(existing.iter());
    Ok(all.map(|(prefix, ())| prefix.to_vec()).collect())
}

/// Executes `CLIENT CACHING`.
pub fn caching(call: &mut CommandCall<'_>) -> Answer {
    let Some(choice) = call
        .client
        .tracking
        .as_mut()
        .filter(|it| it.opt_in || it.opt_out)
    else {
        return Err(CommandError::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
             OPTIN or OPTOUT mode enabled",
        ));
    };
    let yes = if is(call.args[2], "yes") {
        true
    } else if is(call.args[2], "no") {
        false
    } else {
        return Err(CommandError::Syntax);
    };
    if yes && !choice.opt_in {
        return Err(CommandError::text(
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        ));
    }
    if !yes && !choice.opt_out {
        return Err(CommandError::text(
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ));
    }
    choice.caching = Some(yes);
    // The choice is for the next command, and must outlive this one.
    choice.caching_is_new = true;
    call.reply.ok();
    Ok(())
}

/// Executes `CLIENT GETREDIR`.
pub fn get_redirection(call: &mut CommandCall<'_>) -> Answer {
    let redirection = call.client.tracking.as_ref();
    let redirection = redirection.map_or(-1, |choice| choice.redirection as i64);
    call.reply.integer(redirection);
    Ok(())
}

/// Executes `CLIENT TRACKINGINFO`.
pub fn information(call: &mut CommandCall<'_>) -> Answer {
    let listed = &call.client.shared.listed;
    let broken = listed.redirection_broken.load(Ordering::Relaxed);
    let none = TrackingOptions::default();
    let (choice, on) = match &call.client.tracking {
        Some(choice) => (&**choice, true),
        None => (&none, false),
    };
    let flags: Vec<_> = [
        (if on { "on" } else { "off" }, true),
        ("bcast", choice.broadcast),
        ("optin", choice.opt_in),
        ("caching-yes", choice.caching == Some(true)),
        ("optout", choice.opt_out),
        ("caching-no", choice.caching == Some(false)),
        ("noloop", choice.no_loop),
        ("broken_redirect", broken),
    ]
    .into_iter()
    .filter(|(_, is)| *is)
    .collect();
    let reply = &mut *call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    for (flag, _) in flags {
        reply.bulk(flag.as_bytes());
    }
    reply.bulk(b"redirect");
    // As in Redis, -1 means that tracking is off, and 0 that nothing is redirected.
    reply.integer(if on { choice.redirection as i64 } else { -1 });
    reply.bulk(b"prefixes");
    if choice.broadcast && choice.prefixes.is_empty() {
        // As in Redis, all keys are shown as one empty prefix.
        reply.array(1);
        reply.bulk(b"");
    } else {
        let mut prefixes: Vec<_> = choice.prefixes.iter().collect();
        prefixes.sort_unstable();
        reply.array(prefixes.len());
        for prefix in prefixes {
            reply.bulk(prefix);
        }
    }
    Ok(())
}
