//! The command that returns a random key.

use crate::command::{Answer, CommandCall};
use crate::glob::end_of_prefix;
use crate::keyspace::record::ValueRecord;
use crate::keyspace::{DatabaseIndex, DatabaseKeys, KeyView};
use nearfield::OperationError;
use rand::RngExt;
use std::ops::Bound;

/// The number of attempts to find a key that has not expired.
const ATTEMPTS: usize = 100;

pub(super) fn randomkey(call: &mut CommandCall<'_>) -> Answer {
    let mut chosen = alive(&call.keys)?;
    if chosen.is_none() {
        // If nearly all keys have expired, the first that has not is returned.
        let mut all = call.keys.range((Bound::Unbounded, Bound::Unbounded))?;
        chosen = all.next().transpose()?.map(|(key, _)| key);
    }
    call.reply.bulk_or_null(chosen.as_deref());
    Ok(())
}

/// Returns a random key that has not expired, if one is found within some attempts.
fn alive(keys: &DatabaseKeys<'_>) -> Result<Option<Vec<u8>>, OperationError> {
    let Some(entries) = keys.database().entries() else {
        return Ok(None);
    };
    for _ in 0..ATTEMPTS {
        let Some(key) = choose(entries)? else {
            return Ok(None);
        };
        let stored = entries.get(&key)?;
        if stored.is_some_and(|stored| !keys.has_expired(ValueRecord::parse(&stored).expires_at_ms))
        {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Chooses a key: at each position where the keys with the same prefix differ, the next byte is
/// chosen at random.
fn choose(entries: &DatabaseIndex) -> Result<Option<Vec<u8>>, OperationError> {
    let mut random = rand::rng();
    let mut prefix = Vec::new();
    loop {
        let end = end_of_prefix(&prefix);
        let high = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut range = entries.range((Bound::Included(&prefix[..]), high));
        let Some((first, _)) = range.next().transpose()? else {
            return Ok(None);
        };
        let Some((last, _)) = range.next_back().transpose()? else {
            return Ok(Some(first));
        };
        debug_assert!(first < last, "a range is in order");
        let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        // If the first key ends where the others continue, its end is one more choice.
        let ends = first.len() == common;
        let byte_of = |key: &[u8]| key.get(common).map_or(0, |&byte| i32::from(byte));
        let low = byte_of(&first) - i32::from(ends);
        let Ok(byte) = u8::try_from(random.random_range(low..=byte_of(&last))) else {
            return Ok(Some(first));
        };
        prefix.clear();
        prefix.extend(first.iter().take(common));
        prefix.push(byte);
        // There may be no key with that byte. A key with a greater byte exists.
        let from = Bound::Included(&prefix[..]);
        let next = entries.range((from, Bound::Unbounded)).next();
        let Some((next, _)) = next.transpose()? else {
            return Ok(None);
        };
        prefix.clear();
        prefix.extend(next.iter().take(common + 1));
    }
}
