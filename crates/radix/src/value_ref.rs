//! Values of byte strings, read in place.

use crate::counters::Off;
use crate::leaf::strings::StringBlockValue;
use crate::radix::{RadixForm, RadixIndex};
use crossbeam_epoch::Guard;
use nearfield_core::{ByteStrings, EntryForm, OperationError};
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;
use std::ops::Deref;

/// The value of a key at the time of the lookup: a copy, or borrowed from the index if it is longer
/// than a block of entries (about 1,000 bytes).
///
/// It does not change if the key is overwritten or removed meanwhile. While a thread holds one,
/// memory that any thread has retired since is not reused, so hold it only briefly. It cannot be
/// sent to another thread.
pub struct ValueRef<'m> {
    value: StringBlockValue<'static>,
    // Keeps a value outside the blocks from being freed.
    _guard: Guard,
    // Keeps the index, and with it the memory, from being dropped.
    _index: PhantomData<&'m RadixIndex<ByteStrings>>,
}

impl RadixForm for ByteStrings {
    type Lent<'m> = ValueRef<'m>;
    type KeyFailure = OperationError;

    #[inline]
    fn lend<'m>(
        radix: &'m RadixIndex<ByteStrings>,
        key: &[u8],
    ) -> Result<Option<ValueRef<'m>>, OperationError> {
        ByteStrings::check(key, None)?;
        let guard = crossbeam_epoch::pin();
        let found = radix.tree.find_value(key, &guard, &mut Off);
        // SAFETY: the guard is kept with the value. Entries outside are never written after they
        // are linked. They are freed by a function deferred after they were unlinked. It does not
        // run while the guard lives, which was pinned before; or when the index is dropped, which
        // `_index` excludes.
        let value = found.map(|found| unsafe { found.kept() });
        Ok(value.map(|value| ValueRef {
            value,
            _guard: guard,
            _index: PhantomData,
        }))
    }
}

impl Deref for ValueRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.value.value()
    }
}

impl AsRef<[u8]> for ValueRef<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl From<ValueRef<'_>> for Vec<u8> {
    fn from(value: ValueRef<'_>) -> Vec<u8> {
        value.to_vec()
    }
}
