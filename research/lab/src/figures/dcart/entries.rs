//! Entries of a load in the form of an index.

use nearfield_core::{ByteStrings, Words};
use nearfield_radix::RadixForm;
use nearfield_radix_rivals::RivalForm;

/// A form that the entries of a load can have.
pub(super) trait DcartEntryForm: RivalForm + RadixForm {
    fn key_of_load(bytes: &[u8]) -> Self::Key<'_>;
    fn value_of_load(value: &[u8; 8]) -> Self::Value<'_>;
}

impl DcartEntryForm for ByteStrings {
    fn key_of_load(bytes: &[u8]) -> &[u8] {
        bytes
    }
    fn value_of_load(value: &[u8; 8]) -> &[u8] {
        value
    }
}

impl DcartEntryForm for Words {
    fn key_of_load(bytes: &[u8]) -> u64 {
        bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    }
    fn value_of_load(value: &[u8; 8]) -> u64 {
        u64::from_le_bytes(*value)
    }
}
