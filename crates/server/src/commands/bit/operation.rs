//! Bitwise operations on strings.

use crate::command::parts::different;
use crate::command::{Answer, CommandCall, is};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::steps;

pub(super) fn bitop(call: &mut CommandCall<'_>) -> Answer {
    let (name, target, sources) = (call.args[1], call.args[2], call.rest(3));
    // A key that is named twice changes nothing, except for XOR.
    let once: Vec<(&[u8], bool)> = different(sources)
        .into_iter()
        .map(|source| (source, true))
        .collect();
    let result = match name {
        _ if is(name, "and") => combined(call, &once, |one, two| one & two)?,
        _ if is(name, "or") => combined(call, &once, |one, two| one | two)?,
        _ if is(name, "xor") => combined(call, &odd(sources), |one, two| one ^ two)?,
        _ if is(name, "not") => {
            if sources.len() != 1 {
                return Err(CommandError::text(
                    "ERR BITOP NOT must be called with a single source key.",
                ));
            }
            debug_assert_eq!(once.len(), 1);
            let mut result = combined(call, &once, |one, _| one)?;
            result.iter_mut().for_each(|byte| *byte = !*byte);
            result
        }
        _ => return Err(CommandError::Syntax),
    };
    let length = result.len();
    if length > 0 {
        call.keys.set_string(target, &result, None)?;
        call.keys.changed(target, Class::String, "set");
    } else if call.keys.exists(target)? {
        // As in Redis, an empty result deletes the target.
        call.keys.remove(target)?;
        call.keys.changed(target, Class::Generic, "del");
    }
    call.reply.count(length);
    Ok(())
}

/// Returns each source once, and true if it is named an odd number of times. Other sources count as
/// zeros.
fn odd<'k>(sources: &[&'k [u8]]) -> Vec<(&'k [u8], bool)> {
    let mut times = hashbrown::HashMap::new();
    for source in sources {
        *times.entry(*source).or_insert(0_usize) += 1;
    }
    let is_odd = |source: &[u8]| times.get(source).is_some_and(|times| times % 2 == 1);
    different(sources)
        .into_iter()
        .map(|source| (source, is_odd(source)))
        .collect()
}

/// Combines the strings of sources, one at a time. Sources that are `false` count as zeros of the
/// same length.
fn combined(
    call: &mut CommandCall<'_>,
    sources: &[(&[u8], bool)],
    combine: impl Fn(u8, u8) -> u8,
) -> Result<Vec<u8>, CommandError> {
    let mut longest = 0;
    for (source, _) in sources {
        let length = call
            .keys
            .read_string(source, |value| value.map_or(0, <[u8]>::len))?;
        longest = longest.max(length);
    }
    // The lengths are read first, because the result is as long as the longest source.
    call.check_room(longest)?;
    let mut result: Option<Vec<u8>> = None;
    for &(source, counts) in sources {
        call.keys.read_string(source, |string| {
            let string = string.unwrap_or_default();
            steps::count(string.len().div_ceil(64));
            let Some(result) = &mut result else {
                result = Some(match counts {
                    true => string.to_vec(),
                    false => vec![0; string.len()],
                });
                return;
            };
            if result.len() < string.len() {
                result.resize(string.len(), 0);
            }
            if !counts {
                return;
            }
            // The compiler vectorizes a loop over two slices of the same length. The missing bytes
            // of a shorter string count as zeros.
            let (common, beyond) = result.split_at_mut(string.len());
            for (byte, &other) in common.iter_mut().zip(string) {
                *byte = combine(*byte, other);
            }
            for byte in beyond {
                *byte = combine(*byte, 0);
            }
        })?;
    }
    Ok(result.unwrap_or_default())
}
