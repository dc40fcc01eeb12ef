//! Copies between bytes and memory that other threads and processes change at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Copies bytes from memory. Words of 8 bytes are read as a whole.
///
/// # Panics
/// The bytes exceed the memory.
pub fn load(memory: &[AtomicU64], offset: usize, into: &mut [u8]) {
    let mut word = offset / 8;
    let mut within = offset % 8;
    let mut rest = into;
    while !rest.is_empty() {
        let bytes = memory[word].load(Ordering::Relaxed).to_le_bytes();
        let count = rest.len().min(8 - within);
        let (part, behind) = rest.split_at_mut(count);
        part.copy_from_slice(&bytes[within..within + count]);
        (rest, word, within) = (behind, word + 1, 0);
    }
    // Loads after this copy return nothing older than these words.
    std::sync::atomic::fence(Ordering::Acquire);
}

/// Writes bytes. A whole word is written as one; in a word that is written in part, the other bytes
/// keep their value of that moment.
///
/// # Panics
/// The bytes exceed the memory.
pub fn store(memory: &[AtomicU64], offset: usize, bytes: &[u8]) {
    // Nothing is stored of bytes that exceed the memory.
    debug_assert!(offset + bytes.len() <= size_of_val(memory));
    // A reader that sees one of these words sees all stores that were made before.
    std::sync::atomic::fence(Ordering::Release);
    let mut word = offset / 8;
    let mut within = offset % 8;
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = rest.len().min(8 - within);
        let (part, behind) = rest.split_at(count);
        let (mut value, mut mask) = ([0; 8], [0; 8]);
        value[within..within + count].copy_from_slice(part);
        mask[within..within + count].fill(0xff);
        let (value, mask) = (u64::from_le_bytes(value), u64::from_le_bytes(mask));
        // Whole words are published at once. Parts of a word need a loop, which keeps changes that
        // others make to the other bytes.
        if mask == u64::MAX {
            memory[word].store(value, Ordering::Relaxed);
        } else {
            memory[word]
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                    Some(old & !mask | value)
                })
                .unwrap_or_default();
        }
        (rest, word, within) = (behind, word + 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_neighbours_stay() {
        for offset in 0..16 {
            for length in 0..24 {
                let memory: Vec<AtomicU64> = (0..6).map(|_| AtomicU64::new(u64::MAX)).collect();
                let bytes: Vec<u8> = (1..=length).collect();
                store(&memory, offset, &bytes);
                let mut all = [0; 48];
                load(&memory, 0, &mut all);
                let mut expected = [0xff; 48];
                expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
                assert_eq!(all, expected);
                let mut back = vec![0; bytes.len()];
                load(&memory, offset, &mut back);
                assert_eq!(back, bytes);
            }
        }
    }
}
