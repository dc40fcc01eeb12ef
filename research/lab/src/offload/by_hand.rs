//! Interleaved lookups that are written for one structure each: the step is known at compile time,
//! the state is four words, and only the bounds of memory are checked.

use super::structures::value;
use nearfield_fabric::prefetch;
use std::sync::atomic::AtomicU64;

/// A lookup in progress.
#[derive(Clone, Copy, Default)]
pub struct LookupWalk {
    pub key: u64,
    pub node: u64,
    pub found: u64,
}

/// Looks keys up, `slots` at a time; returns false if a value is wrong. A step returns the next
/// node, or zero at the end.
#[inline]
pub fn interleaved(
    words: &[AtomicU64],
    keys: &[u64],
    slots: usize,
    start: impl Fn(u64) -> u64,
    bytes: usize,
    step: impl Fn(&mut LookupWalk) -> u64,
) -> bool {
    debug_assert!(slots > 0, "no key would be looked up");
    let mut keys = keys.iter().copied();
    let mut walks = Vec::with_capacity(slots);
    let begin = |key: u64| {
        let node = start(key);
        fetch(words, node, bytes);
        let found = 0;
        LookupWalk { key, node, found }
    };
    walks.extend(keys.by_ref().take(slots).map(begin));
    let mut right = true;
    while !walks.is_empty() {
        let mut index = 0;
        while let Some(walk) = walks.get_mut(index) {
            let next = step(walk);
            if next != 0 {
                walk.node = next;
                fetch(words, next, bytes);
                index += 1;
                continue;
            }
            right &= walk.found == value(walk.key);
            match keys.next() {
                Some(key) => *walk = begin(key),
                None => {
                    // The last lookup takes its place, and has its step next.
                    walks.swap_remove(index);
                    continue;
                }
            }
            index += 1;
        }
    }
    right
}

#[inline]
fn fetch(words: &[AtomicU64], node: u64, bytes: usize) {
    let first = node as usize / 8;
    if let Some(words) = words.get(first..first + bytes / 8) {
        prefetch(words);
    }
}
