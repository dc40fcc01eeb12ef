//! Commands that visit all keys.

use crate::command::parts::{SCANNED_MAX, cursor};
use crate::command::{Answer, CommandCall, integer, is};
use crate::error::CommandError;
use crate::glob;
use crate::keyspace::{KeyBounds, ValueRecord};
use std::ops::Bound;

/// Returns the range of keys that begin with `prefix`; `end` is the end of that range.
fn with_prefix<'k>(prefix: &'k [u8], end: Option<&'k [u8]>) -> KeyBounds<'k> {
    let end = end.map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(prefix), end)
}

pub(super) fn keys(call: &mut CommandCall<'_>) -> Answer {
    let pattern = call.args[1];
    let prefix = glob::prefix(pattern);
    let end = glob::end_of_prefix(&prefix);
    // The number of keys is known only at the end.
    let mark = call.reply.begin();
    let mut count = 0;
    for entry in call.keys.range(with_prefix(&prefix, end.as_deref()))? {
        let (key, _) = entry?;
        if glob::matches_bounded(pattern, &key) {
            call.reply.bulk(&key);
            count += 1;
        }
    }
    call.reply.end_array(mark, count);
    Ok(())
}

/// The default number of keys that a call visits.
const COUNT: usize = 10;

pub(super) fn scan(call: &mut CommandCall<'_>) -> Answer {
    let cursor = cursor(call.args[1])?;
    let mut pattern: &[u8] = b"*";
    let mut wanted: Option<&[u8]> = None;
    let mut limit = COUNT;
    let mut words = call.rest(2).iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next() else {
            return Err(CommandError::Syntax);
        };
        if is(word, "match") {
            pattern = value;
        } else if is(word, "count") {
            let count = usize::try_from(integer(value)?).unwrap_or(0);
            if count == 0 {
                return Err(CommandError::Syntax);
            }
            limit = count.min(SCANNED_MAX);
        } else if is(word, "type") {
            wanted = Some(value);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    debug_assert!(limit > 0, "without progress a scan would never end");
    let last = match cursor {
        0 => None,
        number => match call.server.cursors.key(number) {
            Some(key) => Some(key),
            None => {
                return Err(CommandError::text(
                    "ERR unknown cursor: it is not from this server, or too old",
                ));
            }
        },
    };
    let prefix = glob::prefix(pattern);
    let end = glob::end_of_prefix(&prefix);
    let mut bounds = with_prefix(&prefix, end.as_deref());
    // A cursor that was begun with another pattern may be before the prefix.
    if let Some(last) = last.as_deref().filter(|&last| last >= &prefix[..]) {
        bounds.0 = Bound::Excluded(last);
    }
    let (mut found, mut visited, mut last) = (Vec::new(), 0, None);
    for entry in call.keys.range(bounds)?.take(limit) {
        let (key, stored) = entry?;
        let kind = ValueRecord::parse(&stored).kind.name();
        let is_wanted = wanted.is_none_or(|wanted| is(wanted, kind));
        if is_wanted && glob::matches_bounded(pattern, &key) {
            found.push(key.clone());
        }
        visited += 1;
        last = Some(key);
    }
    let mut more = None;
    if let Some(last) = last.filter(|_| visited == limit) {
        let rest = (Bound::Excluded(&last[..]), bounds.1);
        // Otherwise the client would have to call once more, only to learn that the scan has ended.
        if call.keys.range(rest)?.next().transpose()?.is_some() {
            more = Some(last);
        }
    }
    let cursor = more.map_or(0, |key| call.server.cursors.begin(key));
    call.reply.array(2);
    call.reply.bulk(cursor.to_string().as_bytes());
    call.reply.array(found.len());
    for key in &found {
        call.reply.bulk(key);
    }
    Ok(())
}
