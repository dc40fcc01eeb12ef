//! A walk down the keys of an index, which ends at one of them.

use crate::keyspace::DatabaseIndex;

/// Bytes above the last key of a subtree; keys with more bytes of 255 are found slightly too often.
const AFTER: [u8; 16] = [0xff; 16];

/// Walks down the keys. Each step takes the common prefix of all keys of a subtree, then the symbol
/// that `choose` picks between the least and the greatest that follow, or else the next greater
/// existing one. The walk ends when only one key is left.
///
/// Returns the key, and the logarithm of its probability if `choose` picks at random. A symbol is a
/// byte plus one; 0 is the end of a key. `choose` gets the position of the symbol, and the least
/// and the greatest.
pub fn walk(
    index: &DatabaseIndex,
    mut choose: impl FnMut(usize, u16, u16) -> u16,
) -> Option<(Vec<u8>, f64)> {
    let mut first = index.first().ok()??.0;
    let mut last = index.last().ok()??.0;
    let mut probability = 0.0;
    while first < last {
        let shared = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        let symbol = |key: &[u8]| key.get(shared).map_or(0, |&byte| u16::from(byte) + 1);
        let position = |symbol: u16, after: &[u8]| {
            let mut position = first.get(..shared).unwrap_or_default().to_vec();
            // Symbol 0 adds nothing, which gives the position of the key that ends here.
            position.extend(symbol.checked_sub(1).map(|byte| byte as u8));
            position.extend_from_slice(after);
            position
        };
        let (low, high) = (symbol(&first), symbol(&last));
        debug_assert!(low < high);
        let chosen = choose(shared, low, high).clamp(low, high);
        let next = index.successor(&position(chosen, b"")).ok()??.0;
        let landed = symbol(&next);
        let before = if landed <= low {
            low.checked_sub(1)
        } else {
            let after = if landed == 1 { &b""[..] } else { &AFTER };
            let before = index.predecessor(&position(landed - 1, after)).ok()??;
            Some(symbol(&before.0).clamp(low, landed - 1))
        };
        // All symbols after the previous one that exists lead here.
        let gap = before.map_or(landed + 1, |before| landed.saturating_sub(before).max(1));
        probability += (f64::from(gap) / f64::from(high - low + 1)).ln();
        last = match landed {
            0 => next.clone(),
            _ => index.predecessor(&position(landed, &AFTER)).ok()??.0,
        };
        first = next;
    }
    Some((first, probability))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Home;

    #[test]
    fn walks_end_at_keys_and_tell_how_probable_they_are() {
        let keys: [&[u8]; 7] = [b"", b"a", b"ab", b"ab\0", b"b", b"c1", b"c9"];
        let map = Home::Local.entries(0).unwrap();
        assert_eq!(walk(&map, |_, low, _| low), None);
        for key in keys {
            map.insert(key, b"").unwrap();
        }
        // Visits all possible walks.
        let mut sums = vec![0.0; keys.len()];
        fn go(map: &DatabaseIndex, keys: &[&[u8]], path: Vec<u16>, share: f64, sums: &mut [f64]) {
            let (mut step, mut branches) = (0, None);
            let (key, probability) = walk(map, |_, low, high| {
                let chosen = path.get(step).copied().unwrap_or_else(|| {
                    branches.get_or_insert((low, high));
                    low
                });
                step += 1;
                chosen
            })
            .unwrap();
            match branches {
                Some((low, high)) => {
                    for symbol in low..=high {
                        let path = [&path[..], &[symbol]].concat();
                        go(map, keys, path, share / f64::from(high - low + 1), sums);
                    }
                }
                None => {
                    let at = keys.iter().position(|other| *other == key).unwrap();
                    sums[at] += share;
                    // The probability is checked against the sum of shares below.
                    assert!(probability <= 0.0);
                }
            }
        }
        go(&map, &keys, Vec::new(), 1.0, &mut sums);
        for (key, sum) in keys.iter().zip(&sums) {
            let symbol = |at: usize| key.get(at).map_or(0, |&byte| u16::from(byte) + 1);
            let (found, probability) = walk(&map, |at, _, _| symbol(at)).unwrap();
            assert_eq!(found, *key);
            assert!(
                (probability.exp() - sum).abs() < 1e-9,
                "{key:?} {sum} {}",
                probability.exp()
            );
        }
    }
}
