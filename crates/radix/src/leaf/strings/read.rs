//! Reads of single values of a block.

use super::{FingerprintCandidates, SHORT_MAX, StringBlock, StringEntryParts, header, racing};
use crate::memory::RadixMemory;
use crate::node::Ref;
use crossbeam_epoch::Guard;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A value that was read from a block: a copy, because the value may have changed since, or a value
/// that is stored outside, borrowed, which stays as long as the reader is pinned.
// Adjacent numbers, which stay in registers. As an enum, it was written in parts and read as a
// whole, and gets took a fifth more time.
#[derive(Debug)]
pub struct StringBlockValue<'g> {
    copy: [u64; SHORT_MAX / 8],
    start: NonNull<u8>,
    length: usize,
    /// The copy of a value that is not short.
    long: Option<Box<[u8]>>,
    guard: PhantomData<&'g Guard>,
}

impl StringBlockValue<'_> {
    /// Returns the value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if let Some(long) = &self.long {
            return long;
        }
        let start = match self.length <= SHORT_MAX {
            true => self.copy.as_ptr().cast(),
            false => self.start.as_ptr().cast_const(),
        };
        // SAFETY: a short value has been copied to the first bytes of `copy`. A value outside has
        // this many bytes, which do not change and are not freed before the guard is gone.
        unsafe { std::slice::from_raw_parts(start, self.length) }
    }

    /// Returns the same value, for a caller that keeps the guard.
    ///
    /// # Safety
    /// The result is not used after the guard under which the value was found.
    pub unsafe fn kept(self) -> StringBlockValue<'static> {
        StringBlockValue {
            guard: PhantomData,
            ..self
        }
    }
}

impl<'g> StringEntryParts<'g> {
    /// Returns a copy of the value, or a value outside itself. Must be validated.
    #[inline]
    pub(super) fn found(self, is_outside: bool) -> StringBlockValue<'g> {
        let copy = match self.value_length <= SHORT_MAX {
            // SAFETY: the value has this many bytes, which change only by `racing::store`.
            true => unsafe { racing::load_short(self.value.as_ptr(), self.value_length) },
            false => [0; 2],
        };
        let is_copied = self.value_length > SHORT_MAX && !is_outside;
        StringBlockValue {
            copy,
            start: self.value,
            length: self.value_length,
            long: is_copied.then(|| self.boxed()),
            guard: PhantomData,
        }
    }

    /// Returns a copy of the value, which is not short. Must be validated.
    #[cold]
    #[inline]
    fn boxed(self) -> Box<[u8]> {
        let mut copy = Vec::with_capacity(self.value_length);
        self.append_to(&mut copy, false);
        copy.into_boxed_slice()
    }

    /// Appends a copy of the value to `bytes`. Must be validated.
    #[inline]
    pub(super) fn append_to(self, bytes: &mut Vec<u8>, is_outside: bool) {
        if is_outside {
            return bytes.extend_from_slice(self.value());
        }
        let (before, count) = (bytes.len(), self.value_length);
        bytes.reserve(count.max(SHORT_MAX));
        // SAFETY: the value has this many bytes, which change only by `racing::store`. There is
        // room for them after the others, even for all bytes of a short copy, and they are written
        // before the length includes them.
        unsafe {
            let to = bytes.as_mut_ptr().add(before);
            match count <= SHORT_MAX {
                true => {
                    let copy = racing::load_short(self.value.as_ptr(), count);
                    to.cast::<[u64; SHORT_MAX / 8]>().write_unaligned(copy);
                }
                false => racing::load(self.value.as_ptr(), to, count),
            }
            bytes.set_len(before + count);
        }
    }
}

/// Calls `take` with the parts of a key's entry, and true if it is stored outside, until everything
/// that `take` has read is valid. Returns its last result, and true if the block was dead.
#[inline(always)]
fn take<'g, R>(
    memory: &'g RadixMemory,
    leaf: Ref,
    key: &[u8],
    prepared: FingerprintCandidates,
    _guard: &'g Guard,
    mut take: impl FnMut(StringEntryParts<'g>, bool) -> R,
) -> (Option<R>, bool) {
    let header = header(memory, leaf);
    // At the version for which the candidates are valid: if the block still has it, nothing has
    // changed since they were found.
    let mut block = StringBlock::with(memory, leaf, header, prepared.version);
    let mut candidates = prepared;
    loop {
        let found = block.find(key, candidates);
        let taken = found.map(|(_, parts)| take(parts, block.state.is_outside()));
        if block.is_unchanged() {
            return (taken, block.is_dead());
        }
        block = StringBlock::with(memory, leaf, header, header.lock.read());
        candidates = block.candidates(key);
    }
}

/// Reads the value of a key. Also returns true if the block was dead.
#[inline(always)]
pub fn read<'g>(
    memory: &'g RadixMemory,
    leaf: Ref,
    key: &[u8],
    prepared: FingerprintCandidates,
    guard: &'g Guard,
) -> (Option<StringBlockValue<'g>>, bool) {
    take(memory, leaf, key, prepared, guard, StringEntryParts::found)
}

/// Appends a copy of a key's value to `bytes`, if the key is there. Returns true if it is, and true
/// if the block was dead.
#[inline(always)]
pub fn copy_to(
    memory: &RadixMemory,
    leaf: Ref,
    key: &[u8],
    prepared: FingerprintCandidates,
    guard: &Guard,
    bytes: &mut Vec<u8>,
) -> (bool, bool) {
    let before = bytes.len();
    let (found, is_dead) = take(memory, leaf, key, prepared, guard, |parts, is_outside| {
        // The copy of an earlier attempt is not valid.
        bytes.truncate(before);
        parts.append_to(bytes, is_outside);
    });
    // An earlier attempt may have found the key, and another thread has removed it since.
    if found.is_none() {
        bytes.truncate(before);
    }
    (found.is_some(), is_dead)
}

/// Returns some key of a block; `None` if it is dead or empty.
pub fn any_key<'g>(memory: &'g RadixMemory, leaf: Ref, guard: &'g Guard) -> Option<&'g [u8]> {
    loop {
        let block = StringBlock::at(memory, leaf, guard);
        let first = (block.count() > 0).then(|| block.key(0));
        if block.is_unchanged() {
            return first.filter(|_| !block.is_dead());
        }
    }
}
