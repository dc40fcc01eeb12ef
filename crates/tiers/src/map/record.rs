//! The records that the index of a map stores: a value, or its place in a cold tier. The last byte
//! tells them apart, so that cutting it off leaves the value.

use crate::place::ColdPlace;

const HERE: u8 = 0;
const THERE: u8 = 1;

/// A stored record, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TieredRecord<'r> {
    /// The value itself.
    Here(&'r [u8]),
    /// A value in a cold tier.
    There(ColdPlace),
}

impl<'r> TieredRecord<'r> {
    /// Parses a record that the functions below created.
    #[inline]
    pub(super) fn parse(stored: &'r [u8]) -> TieredRecord<'r> {
        match stored.split_last() {
            Some((&THERE, place)) => {
                debug_assert_eq!(place.len(), size_of::<u64>(), "`there` has made the record");
                let bits = place
                    .first_chunk()
                    .map_or(0, |bits| u64::from_le_bytes(*bits));
                TieredRecord::There(ColdPlace::from_bits(bits))
            }
            Some((&tag, value)) => {
                debug_assert_eq!(tag, HERE, "a record ends with its kind");
                TieredRecord::Here(value)
            }
            None => TieredRecord::Here(stored),
        }
    }
}

/// The byte after a value that is stored itself.
pub(super) const END: &[u8] = &[HERE];

/// Creates the record of a value that is stored itself.
pub(super) fn here(value: &[u8]) -> Vec<u8> {
    [value, END].concat()
}

/// Creates the record of a value in a cold tier.
pub(super) fn there(place: ColdPlace) -> Vec<u8> {
    let mut stored = place.to_bits().to_le_bytes().to_vec();
    stored.push(THERE);
    stored
}

/// Returns the value of a record, or its place.
#[inline]
pub(super) fn take(mut stored: Vec<u8>) -> Result<Vec<u8>, ColdPlace> {
    match TieredRecord::parse(&stored) {
        TieredRecord::There(place) => Err(place),
        TieredRecord::Here(_) => {
            stored.pop();
            Ok(stored)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written() {
        for value in [&b""[..], b"v", b"nine byte", &[THERE; 9], &[0; 100]] {
            assert_eq!(TieredRecord::parse(&here(value)), TieredRecord::Here(value));
            assert_eq!(take(here(value)), Ok(value.to_vec()));
        }
        let place = ColdPlace::from_bits(0x0123_4567_89ab_cdef);
        assert_eq!(
            TieredRecord::parse(&there(place)),
            TieredRecord::There(place)
        );
        assert_eq!(take(there(place)), Err(place));
    }
}
