//! Steps that hashes, sets and sorted sets share: scans of their elements, and random elements.

use super::{integer, is};
use crate::error::CommandError;
use crate::glob;
use hashbrown::HashSet;
use rand::seq::index;
use std::hash::Hash;

/// The largest number of keys or elements that one step of a scan visits, even if `COUNT` is
/// larger: some 20 ms. The next step continues there, as with any other count.
pub const SCANNED_MAX: usize = 100_000;

/// The text about this limit in the documentation of commands.
pub const SCANNED_MAX_DEVIATION: &str = "One call visits at most 100,000, even if COUNT is larger.";

/// The options of a step of `HSCAN`, `SSCAN` or `ZSCAN`.
#[derive(Clone, Copy, Debug)]
pub struct CollectionScanOptions<'a> {
    /// The approximate number of elements that it visits.
    pub count: usize,
    pattern: Option<&'a [u8]>,
    /// True if the values of fields, or the scores of members, are part of the reply.
    pub values: bool,
}

impl<'a> CollectionScanOptions<'a> {
    /// Parses the options. The option `without` leaves values out of the reply; it is `None` for
    /// objects without values.
    ///
    /// # Errors
    /// `Syntax`, `NotInteger`.
    pub fn parse(
        mut options: &'a [&'a [u8]],
        without: Option<&str>,
    ) -> Result<CollectionScanOptions<'a>, CommandError> {
        let mut step = CollectionScanOptions {
            count: 10,
            pattern: None,
            values: without.is_some(),
        };
        loop {
            options = match *options {
                [] => return Ok(step),
                [name, ref rest @ ..] if without.is_some_and(|without| is(name, without)) => {
                    step.values = false;
                    rest
                }
                [name, value, ref rest @ ..] if is(name, "count") => {
                    let count = integer(value)?;
                    if count < 1 {
                        return Err(CommandError::Syntax);
                    }
                    // The count is a hint in Redis, too, so a smaller one is no error.
                    step.count = usize::try_from(count).unwrap_or(SCANNED_MAX);
                    step.count = step.count.min(SCANNED_MAX);
                    rest
                }
                [name, value, ref rest @ ..] if is(name, "match") => {
                    // The pattern that matches everything is not compared at all.
                    step.pattern = Some(value).filter(|&pattern| pattern != b"*");
                    rest
                }
                _ => return Err(CommandError::Syntax),
            };
        }
    }

    /// Returns true if an element of this name is part of the reply.
    pub fn accepts(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches_bounded(pattern, name))
    }
}

/// Parses the cursor of a scan. As in Redis, an empty argument counts as 0.
///
/// # Errors
/// The argument is not a cursor.
pub fn cursor(argument: &[u8]) -> Result<u64, CommandError> {
    let digit = |cursor: u64, &byte: &u8| {
        let digit = u64::from(byte.checked_sub(b'0').filter(|&digit| digit < 10)?);
        cursor.checked_mul(10)?.checked_add(digit)
    };
    let cursor = argument.iter().try_fold(0, digit);
    cursor.ok_or(CommandError::text("ERR invalid cursor"))
}

/// Returns each of the keys once, in their order. A command for which a repeated key changes
/// nothing uses this to read each key once: it may be long and be repeated a million times.
pub fn different<'k>(keys: &[&'k [u8]]) -> Vec<&'k [u8]> {
    let mut seen = HashSet::with_capacity(keys.len());
    let keys = keys.iter().copied();
    keys.filter(|key| seen.insert(*key)).collect()
}

/// The number of random elements to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomDraw {
    /// This number of distinct elements, or all if there are fewer.
    Distinct(usize),
    /// This number of elements, each drawn from all.
    Repeated(usize),
}

/// The largest number of elements drawn with repetition. The limit keeps one command from taking
/// all memory.
const REPEATED_MAX: usize = 1 << 24;

/// The text about this limit in the documentation of commands.
pub const REPEATED_MAX_DEVIATION: &str = "A negative count below -16777216 is refused, so that one \
                                          command cannot use all memory.";

impl RandomDraw {
    /// Parses a count, which allows repetition if it is negative.
    ///
    /// # Errors
    /// `NotInteger`, or an error for a count that is out of range.
    pub fn parse(argument: &[u8]) -> Result<RandomDraw, CommandError> {
        let count = integer(argument)?;
        if count == i64::MIN {
            return Err(CommandError::text(
                "ERR value is out of range, value must between -9223372036854775807 and \
                 9223372036854775807",
            ));
        }
        let magnitude = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        match count {
            0.. => Ok(RandomDraw::Distinct(magnitude)),
            _ if magnitude <= REPEATED_MAX => Ok(RandomDraw::Repeated(magnitude)),
            _ => Err(CommandError::text("ERR value is out of range")),
        }
    }

    /// Returns the number of elements drawn out of `len`.
    pub fn count(self, len: usize) -> usize {
        match self {
            RandomDraw::Distinct(count) => count.min(len),
            RandomDraw::Repeated(_) if len == 0 => 0,
            RandomDraw::Repeated(count) => count,
        }
    }

    /// Calls `visit` with elements drawn out of `len`, until it returns false. `all` are the
    /// elements, and `random` returns a random one with its name. Names of different elements must
    /// differ, or this never ends.
    pub fn draw<N: Eq + Hash, T>(
        self,
        len: usize,
        mut all: impl Iterator<Item = T>,
        mut random: impl FnMut() -> Option<(N, T)>,
        mut visit: impl FnMut(T) -> bool,
    ) {
        /// The largest number of elements that are quickly iterated over.
        const FEW: usize = 512;
        let count = self.count(len);
        match self {
            RandomDraw::Repeated(_) => {
                let draws = std::iter::repeat_with(random).take(count);
                draws.flatten().all(|(_, element)| visit(element));
            }
            RandomDraw::Distinct(_) if count == len => {
                all.all(visit);
            }
            RandomDraw::Distinct(_) if len <= FEW || count > len / 3 => {
                // The more elements are chosen, the more random draws would repeat one of them.
                let mut chosen = index::sample(&mut rand::rng(), len, count).into_vec();
                chosen.sort_unstable();
                let mut chosen = chosen.into_iter().peekable();
                for (position, element) in all.enumerate() {
                    if chosen.next_if_eq(&position).is_some() && !visit(element) {
                        break;
                    }
                }
            }
            RandomDraw::Distinct(_) => {
                // Here fewer than a third are chosen, so a draw is new with a probability above two
                // thirds.
                let mut drawn = HashSet::new();
                while drawn.len() < count
                    && let Some((name, element)) = random()
                {
                    if drawn.insert(name) && !visit(element) {
                        break;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn distinct_elements_are_drawn_once() {
        for (len, count) in [(10, 3), (10, 10), (10, 30), (2000, 5), (2000, 900), (0, 4)] {
            let names: Vec<Vec<u8>> = (0..len).map(|n: usize| n.to_string().into()).collect();
            let random = || {
                let index = rand::rng().random_range(0..len);
                Some((&names[index][..], index))
            };
            let mut drawn = HashSet::new();
            RandomDraw::Distinct(count).draw(len, 0..len, random, |index| {
                assert!(drawn.insert(index));
                true
            });
            assert_eq!(drawn.len(), count.min(len));
        }
    }
}
