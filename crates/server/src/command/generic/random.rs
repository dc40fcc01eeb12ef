//! A key by chance.

use crate::command::{Answer, Call};
use crate::glob::end_of_prefix;
use crate::keyspace::record::Record;
use nearfield::{Bytes, Map};
use rand::RngExt;
use std::ops::Bound;

/// How often another key is chosen because the time of the first was over.
const ATTEMPTS: usize = 100;

pub(super) fn randomkey(call: &mut Call<'_>) -> Answer {
    let chosen = call.keys.database().entries().and_then(|entries| {
        let alive = |key: Vec<u8>| {
            let stored = entries.get(&key).ok()??;
            let record = Record::parse(&stored);
            (!call.keys.is_over(record.expires_at_ms)).then_some(key)
        };
        (0..ATTEMPTS).find_map(|_| alive(choose(entries)?))
    });
    // Where nearly all are over, the first that is not.
    let unbounded = (Bound::Unbounded, Bound::Unbounded);
    let chosen = chosen.or_else(|| Some(call.keys.range(unbounded).next()?.0));
    call.reply.bulk_or_null(chosen.as_deref());
    Ok(())
}

/// Chooses a key: at each position where keys with the bytes before differ, chance decides on the
/// next byte.
fn choose(entries: &Map<Bytes>) -> Option<Vec<u8>> {
    let mut random = rand::rng();
    let mut prefix = Vec::new();
    loop {
        let end = end_of_prefix(&prefix);
        let high = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut range = entries.range((Bound::Included(&prefix[..]), high));
        let (first, _) = range.next()?;
        let Some((last, _)) = range.next_back() else {
            return Some(first);
        };
        let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        // The first key may end where the others go on; then it is one more choice.
        let ends = first.len() == common;
        let (low, high) = (first.get(common), last.get(common)?);
        let low = i32::from(low.map_or(0, |&byte| byte)) - i32::from(ends);
        let Ok(byte) = u8::try_from(random.random_range(low..=i32::from(*high))) else {
            return Some(first);
        };
        prefix.clear();
        prefix.extend(first.iter().take(common));
        prefix.push(byte);
        // No key may go on with that byte, but one goes on with a greater one.
        let from = Bound::Included(&prefix[..]);
        let (next, _) = entries.range((from, Bound::Unbounded)).next()?;
        prefix.clear();
        prefix.extend(next.iter().take(common + 1));
    }
}
