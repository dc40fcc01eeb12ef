//! The keys, their writers, and their possible values.

use nearfield_pool::Entry;

/// Number of compute processes, and of tasks of each, which are all in flight at once.
pub const PROCESSES: u64 = 3;
pub const TASKS: u64 = 6;
const WRITERS: u64 = PROCESSES * TASKS;
/// Number of keys. Initial keys have even numbers; odd ones are inserted later.
pub const NUMBERS: u64 = 16_000;
/// Number of first even keys that all processes write.
const SHARED: u64 = 32;

pub fn is_shared(number: u64) -> bool {
    number < 2 * SHARED && number.is_multiple_of(2)
}

/// Returns the process and the task that write it, if only one does.
pub fn writer(number: u64) -> (u64, u64) {
    let writer = number / 2 % WRITERS;
    (writer / TASKS, writer % TASKS)
}

/// Returns the number nearest to one that a task writes, of the same parity.
pub fn nearest(number: u64, process: u64, task: u64) -> u64 {
    let writer = process * TASKS + task;
    let (half, parity) = (number / 2, number % 2);
    let round = half / WRITERS;
    let last = NUMBERS / 2 / WRITERS - 1;
    2 * (round.clamp(SHARED / WRITERS + 1, last) * WRITERS + writer) + parity
}

/// Returns true if it may be removed, or did not exist initially.
pub fn comes_and_goes(number: u64) -> bool {
    !number.is_multiple_of(2) || number / 2 / WRITERS % 4 == 3 && !is_shared(number)
}

/// Returns the initial value.
pub fn initial(number: u64) -> Option<u64> {
    number.is_multiple_of(2).then_some(0)
}

/// Returns a version. Versions of one key grow: later incarnations of its writer have greater ones.
/// Those of shared keys name the process.
pub fn version(process: u64, incarnation: u64, sequence: u64) -> u64 {
    incarnation << 40 | process << 36 | sequence
}

pub fn key(number: u64) -> [u8; 8] {
    // A key of zeros is invalid.
    (number + 1).to_be_bytes()
}

pub fn value(number: u64, version: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..].copy_from_slice(&version.to_le_bytes());
    value
}

/// Returns the version of a value, which must be of this key.
pub fn version_of(number: u64, value: &[u8]) -> u64 {
    let words = value.as_chunks().0;
    let [found, version] = [0, 1].map(|at: usize| u64::from_le_bytes(words[at]));
    assert_eq!(found, number, "the value of another key");
    version
}

/// Returns the numbers and versions of a scan's entries. Checks that they are in order, and that no
/// permanent key is missing.
pub fn scanned(entries: &[Entry], from: u64, count: usize) -> Vec<(u64, u64)> {
    assert!(entries.len() <= count, "more than the limit");
    let number = |key: &Vec<u8>| u64::from_be_bytes(key[..].try_into().expect("a key")) - 1;
    let found: Vec<(u64, u64)> = entries
        .iter()
        .map(|(key, value)| (number(key), version_of(number(key), value)))
        .collect();
    let in_order = found.windows(2).all(|pair| pair[0].0 < pair[1].0);
    assert!(in_order, "not in order from {from}: {found:?}");
    assert!(found.first().is_none_or(|(first, _)| *first >= from));
    let end = match found.last() {
        Some((last, _)) if found.len() == count => *last + 1,
        _ => NUMBERS,
    };
    let mut rest = found.iter().map(|(number, _)| *number);
    for stays in (from..end).filter(|number| !comes_and_goes(*number)) {
        assert!(
            rest.any(|number| number == stays),
            "{stays} is missing from {from} to {end}: {found:?}"
        );
    }
    found
}
