//! Copies from and to words that others access at the same time. Each word is loaded or stored
//! atomically, even if only some of its bytes are copied.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// Copies bytes from an offset. The order in which the words are loaded is unspecified.
///
/// # Panics
/// The bytes exceed the words.
pub fn load(words: &[AtomicU64], offset: usize, into: &mut [u8]) {
    let within = offset % WORD;
    let mut words = words[offset / WORD..].iter();
    let (head, body) = into.split_at_mut(head_length(within, into.len()));
    if !head.is_empty() {
        load_part(next(&mut words), within, head);
    }
    let (chunks, tail) = body.as_chunks_mut::<WORD>();
    for (chunk, word) in chunks.iter_mut().zip(&mut words) {
        // Relaxed, as in all copies: the fences of the endpoint order whole verbs.
        *chunk = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if !tail.is_empty() {
        load_part(next(&mut words), 0, tail);
    }
}

/// Copies bytes to an offset. The order in which the words are stored is unspecified.
///
/// # Panics
/// The bytes exceed the words.
pub fn store(words: &[AtomicU64], offset: usize, bytes: &[u8]) {
    let within = offset % WORD;
    let mut words = words[offset / WORD..].iter();
    let (head, body) = bytes.split_at(head_length(within, bytes.len()));
    if !head.is_empty() {
        store_part(next(&mut words), within, head);
    }
    let (chunks, tail) = body.as_chunks::<WORD>();
    for chunk in chunks {
        next(&mut words).store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
    }
    if !tail.is_empty() {
        store_part(next(&mut words), 0, tail);
    }
}

/// Returns the number of bytes before the first whole word.
fn head_length(within: usize, length: usize) -> usize {
    if within == 0 {
        0
    } else {
        length.min(WORD - within)
    }
}

fn next<'w>(words: &mut impl Iterator<Item = &'w AtomicU64>) -> &'w AtomicU64 {
    words.next().expect("the verb was checked")
}

/// Loads less than a word, in pieces of constant lengths, which need one instruction each.
fn load_part(word: &AtomicU64, within: usize, into: &mut [u8]) {
    debug_assert!(within + into.len() <= WORD);
    let mut rest = word.load(Ordering::Relaxed) >> (8 * within);
    let (fours, into) = into.as_chunks_mut::<4>();
    for four in fours {
        *four = (rest as u32).to_le_bytes();
        rest >>= 32;
    }
    for byte in into {
        *byte = rest as u8;
        rest >>= 8;
    }
}

/// Changes some bytes of a word. The others keep their value of that moment.
fn store_part(word: &AtomicU64, within: usize, bytes: &[u8]) {
    debug_assert!(within + bytes.len() <= WORD);
    let with = |word: u64| {
        let mut all = word.to_le_bytes();
        all[within..within + bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(all)
    };
    // A plain store of the word would undo a change of its other bytes that another client makes
    // meanwhile.
    let mut found = word.load(Ordering::Relaxed);
    while let Err(other) =
        word.compare_exchange_weak(found, with(found), Ordering::Relaxed, Ordering::Relaxed)
    {
        found = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All offsets and lengths in five words behave as in a plain array.
    #[test]
    fn bytes_go_where_they_should_and_nowhere_else() {
        const BYTES: usize = 40;
        for offset in 0..=BYTES {
            for length in 0..=BYTES - offset {
                let words: [AtomicU64; 5] = std::array::from_fn(|_| AtomicU64::new(u64::MAX));
                let mut model = [255_u8; BYTES];
                let bytes: Vec<u8> = (0..length as u8).collect();
                model[offset..offset + length].copy_from_slice(&bytes);
                // An offset at the end has no bytes.
                store(&words, offset, &bytes);
                let mut all = [0; BYTES];
                load(&words, 0, &mut all);
                assert_eq!(all, model, "{length} bytes at {offset}");
                let mut back = vec![0; length];
                load(&words, offset, &mut back);
                assert_eq!(back, bytes, "{length} bytes at {offset}");
            }
        }
    }

    /// Two threads that change different bytes of one word lose no change.
    #[test]
    fn neighbouring_bytes_of_a_word_are_kept() {
        let words = [AtomicU64::new(0)];
        std::thread::scope(|scope| {
            for part in 0..2 {
                let words = &words;
                scope.spawn(move || {
                    for round in 0..50_000_u32 {
                        let bytes = round.to_le_bytes();
                        store(words, part * 4, &bytes[..3]);
                        let mut back = [0; 3];
                        load(words, part * 4, &mut back);
                        assert_eq!(back, bytes[..3]);
                    }
                });
            }
        });
    }
}
