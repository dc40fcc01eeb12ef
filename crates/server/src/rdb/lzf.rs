//! Decompression of LZF, in which Redis writes long strings.
//!
//! A control byte below 32 is followed by one more than that number of literal bytes. Any other
//! begins a reference to bytes already restored: its upper 3 bits are the number of bytes less 2
//! (7: one more byte adds to it), its lower 5 bits and the byte that comes last are the distance
//! less 1. A reference may overlap the bytes that it restores, which repeats a pattern.

/// The maximum number of bytes that one byte of input can become: 3 bytes refer to at most 264.
const EXPANSION_MAX: usize = 88;

// The longest reference has 7 in its upper bits and 255 in the byte that adds to it.
const _: () = assert!(3 * EXPANSION_MAX == 7 + 255 + 2);

/// The maximum of bytes reserved before anything has been restored: a length may be wrong even if
/// the input is long enough for it.
const RESERVED_BYTES: usize = 1 << 20;

/// Restores `length` bytes; `None` if `input` does not hold exactly these.
pub(super) fn decompress(input: &[u8], length: usize) -> Option<Vec<u8>> {
    // A wrong length must be noticed before it costs memory.
    if length > input.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let mut output = Vec::with_capacity(length.min(RESERVED_BYTES));
    let mut rest = input;
    while let Some((&control, after)) = rest.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literal, after) = after.split_at_checked(control + 1)?;
            rest = after;
            output.extend_from_slice(literal);
        } else {
            let (more, after) = match control >> 5 {
                7 => after.split_first().map(|(&more, after)| (more, after))?,
                _ => (0, after),
            };
            let (&low, after) = after.split_first()?;
            rest = after;
            let distance = ((control & 31) << 8 | usize::from(low)) + 1;
            repeat(
                &mut output,
                distance,
                (control >> 5) + usize::from(more) + 2,
            )?;
        }
        // Checked at each step, because the input may restore 88 times its own length.
        if output.len() > length {
            return None;
        }
    }
    (output.len() == length).then_some(output)
}

/// Appends `count` bytes from `distance` bytes before the end on, which may overlap the appended
/// bytes.
fn repeat(output: &mut Vec<u8>, distance: usize, count: usize) -> Option<()> {
    debug_assert!(distance > 0, "nothing to repeat");
    let start = output.len().checked_sub(distance)?;
    let mut remaining = count;
    // The bytes from `start` on are periodic, so that each iteration can copy all of them.
    while remaining > 0 {
        let copied = remaining.min(output.len() - start);
        output.extend_from_within(start..start + copied);
        remaining -= copied;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_references_are_restored() {
        assert_eq!(decompress(b"", 0).unwrap(), b"");
        assert_eq!(decompress(b"\x02abc", 3).unwrap(), b"abc");
        // Two bytes, then three from two bytes back, then one from three bytes back and on.
        assert_eq!(decompress(b"\x01ab\x20\x01", 5).unwrap(), b"ababa");
        assert_eq!(decompress(b"\x02abc\x40\x02", 7).unwrap(), b"abcabca");
        // The longest reference repeats one byte 7 + 255 + 2 times.
        assert_eq!(decompress(b"\x00z\xe0\xff\x00", 265).unwrap(), [b'z'; 265]);
    }

    #[test]
    fn a_reference_reaches_far() {
        let mut input = Vec::new();
        let original: Vec<u8> = (0..8192_u32).map(|i| (i * 7 % 251) as u8).collect();
        for literal in original.chunks(32) {
            input.push(literal.len() as u8 - 1);
            input.extend_from_slice(literal);
        }
        input.extend_from_slice(&[0x20 | 31, 255]);
        let mut expected = original.clone();
        expected.extend_from_slice(&original[..3]);
        assert_eq!(decompress(&input, 8195).unwrap(), expected);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (input, length) in [
            (&b"\x02abc"[..], 2),
            (b"\x02abc", 4),
            (b"\x02ab", 2),
            (b"\x20\x00", 3),
            (b"\x00a\x20\x01", 4),
            (b"\x00a\x20", 4),
            (b"\x00a\xe0\x00", 10),
            (b"", 1),
            (b"\x00a\xe0\xff\x00", usize::MAX),
        ] {
            assert_eq!(decompress(input, length), None, "{input:?} as {length}");
        }
    }
}
