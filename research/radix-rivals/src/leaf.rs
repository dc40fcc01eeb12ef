//! Leaves: one for each entry, with the whole key.
//!
//! ```text
//!   words           value: 8 │ key: 8, big-endian
//!   byte strings    key length: 4 │ value length: 4 │ key │ value
//! ```
//!
//! The key of a leaf never changes. The value of a word is written in place. A byte string never
//! changes once its leaf can be found, and a new value takes a new leaf.

use crossbeam_epoch::Guard;
use nearfield_core::{ByteStrings, EntryForm, Words};
use nearfield_radix::{RadixNodeVisit, RadixProbe, VisitedNodeKind};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A form of entries that rivals can hold. The set is closed.
pub trait RivalForm: EntryForm {
    /// The key as bytes, whose order is the order of the keys.
    type KeyBytes<'k>: AsRef<[u8]>;
    /// The part of a leaf before its key bytes.
    #[doc(hidden)]
    type Head;

    /// Returns the bytes of a key.
    fn bytes(key: Self::Key<'_>) -> Self::KeyBytes<'_>;
    /// Returns the key with these bytes.
    fn key_of(bytes: &[u8]) -> Self::Key<'_>;
    /// Returns the layout of a leaf.
    #[doc(hidden)]
    fn leaf_layout(key_bytes: usize, value: Self::Value<'_>) -> Layout;
    /// Writes a new leaf.
    ///
    /// # Safety
    /// `leaf` has the [layout](RivalForm::leaf_layout) of key and value, and only the caller can
    /// reach it.
    #[doc(hidden)]
    unsafe fn leaf_write(leaf: NonNull<Self::Head>, key: &[u8], value: Self::Value<'_>);
    /// Returns the key of a leaf.
    ///
    /// # Safety
    /// `leaf` was written and is not freed during 'l. The same applies to the following functions.
    #[doc(hidden)]
    unsafe fn leaf_key<'l>(leaf: NonNull<Self::Head>) -> &'l [u8];
    /// Returns the value of a leaf.
    ///
    /// # Safety
    /// See [`leaf_key`](RivalForm::leaf_key).
    #[doc(hidden)]
    unsafe fn leaf_value<'l>(leaf: NonNull<Self::Head>) -> Self::Value<'l>;
    /// Writes the value in place; returns false if the form does not allow it.
    ///
    /// # Safety
    /// See [`leaf_key`](RivalForm::leaf_key).
    #[doc(hidden)]
    unsafe fn leaf_set(leaf: NonNull<Self::Head>, value: Self::Value<'_>) -> bool;
    /// Returns the size of a leaf in bytes.
    ///
    /// # Safety
    /// See [`leaf_key`](RivalForm::leaf_key).
    #[doc(hidden)]
    unsafe fn leaf_bytes(leaf: NonNull<Self::Head>) -> usize;
    /// Returns the size of a value in bytes.
    fn value_bytes(value: Self::Value<'_>) -> usize;
}

/// The head of a leaf of words; see the [module](self). It is aligned so that it is within one
/// cache line.
#[doc(hidden)]
#[repr(C, align(16))]
#[derive(Debug)]
pub struct WordHead {
    value: AtomicU64,
    key: [u8; 8],
}

/// The head of a leaf of byte strings; see the [module](self).
#[doc(hidden)]
#[repr(C, align(8))]
#[derive(Debug)]
pub struct BytesHead {
    key_length: u32,
    value_length: u32,
}

/// The offset of the key of a leaf, in both forms.
const KEY_OFFSET: usize = 8;

const _: () = assert!(size_of::<WordHead>() == 16 && size_of::<BytesHead>() == KEY_OFFSET);
const _: () = assert!(std::mem::offset_of!(WordHead, key) == KEY_OFFSET);

impl RivalForm for Words {
    type KeyBytes<'k> = [u8; 8];
    type Head = WordHead;

    #[inline]
    fn bytes(key: Self::Key<'_>) -> Self::KeyBytes<'_> {
        key.to_be_bytes()
    }
    #[inline]
    fn key_of(bytes: &[u8]) -> u64 {
        bytes
            .iter()
            .fold(0, |key, &byte| key << 8 | u64::from(byte))
    }
    #[inline]
    fn leaf_layout(_key_bytes: usize, _value: u64) -> Layout {
        Layout::new::<WordHead>()
    }
    #[inline]
    unsafe fn leaf_write(leaf: NonNull<WordHead>, key: &[u8], value: u64) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(key);
        let head = WordHead {
            value: AtomicU64::new(value),
            key: bytes,
        };
        // SAFETY: promised by the caller.
        unsafe { leaf.write(head) }
    }
    #[inline]
    unsafe fn leaf_key<'l>(leaf: NonNull<WordHead>) -> &'l [u8] {
        // SAFETY: promised by the caller; the key is never written again.
        unsafe { &(*leaf.as_ptr()).key }
    }
    #[inline]
    unsafe fn leaf_value<'l>(leaf: NonNull<WordHead>) -> Self::Value<'l> {
        // SAFETY: promised by the caller; the value is only accessed as an atomic.
        unsafe { (*leaf.as_ptr()).value.load(Ordering::Acquire) }
    }
    #[inline]
    unsafe fn leaf_set(leaf: NonNull<WordHead>, value: u64) -> bool {
        // SAFETY: as in `value`.
        unsafe { (*leaf.as_ptr()).value.store(value, Ordering::Release) };
        true
    }
    #[inline]
    unsafe fn leaf_bytes(_leaf: NonNull<WordHead>) -> usize {
        size_of::<WordHead>()
    }
    #[inline]
    fn value_bytes(_value: u64) -> usize {
        8
    }
}

impl RivalForm for ByteStrings {
    type KeyBytes<'k> = &'k [u8];
    type Head = BytesHead;

    #[inline]
    fn bytes(key: Self::Key<'_>) -> Self::KeyBytes<'_> {
        key
    }
    #[inline]
    fn key_of(bytes: &[u8]) -> &[u8] {
        bytes
    }
    #[inline]
    fn leaf_layout(key_bytes: usize, value: &[u8]) -> Layout {
        let bytes = size_of::<BytesHead>() + key_bytes + value.len();
        match Layout::from_size_align(bytes, align_of::<BytesHead>()) {
            Ok(layout) => layout,
            Err(_) => unreachable!("keys and values are far shorter than memory"),
        }
    }
    #[inline]
    unsafe fn leaf_write(leaf: NonNull<BytesHead>, key: &[u8], value: &[u8]) {
        let head = BytesHead {
            key_length: key.len() as u32,
            value_length: value.len() as u32,
        };
        // SAFETY: the caller promises room for all three parts, which no other thread accesses.
        unsafe {
            leaf.write(head);
            let bytes = leaf.add(1).cast::<u8>();
            bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            let bytes = bytes.add(key.len());
            bytes.copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
    }
    #[inline]
    unsafe fn leaf_key<'l>(leaf: NonNull<BytesHead>) -> &'l [u8] {
        // SAFETY: the caller promises a leaf that was written completely; it never changes.
        unsafe {
            let length = (*leaf.as_ptr()).key_length as usize;
            NonNull::slice_from_raw_parts(leaf.add(1).cast(), length).as_ref()
        }
    }
    #[inline]
    unsafe fn leaf_value<'l>(leaf: NonNull<BytesHead>) -> &'l [u8] {
        // SAFETY: as in `key`.
        unsafe {
            let BytesHead {
                key_length,
                value_length,
            } = *leaf.as_ptr();
            let first = leaf.add(1).cast::<u8>().add(key_length as usize);
            NonNull::slice_from_raw_parts(first, value_length as usize).as_ref()
        }
    }
    #[inline]
    unsafe fn leaf_set(_leaf: NonNull<BytesHead>, _value: &[u8]) -> bool {
        false
    }
    #[inline]
    unsafe fn leaf_bytes(leaf: NonNull<BytesHead>) -> usize {
        // SAFETY: promised by the caller; the lengths never change.
        let head = unsafe { leaf.as_ref() };
        size_of::<BytesHead>() + head.key_length as usize + head.value_length as usize
    }
    #[inline]
    fn value_bytes(value: &[u8]) -> usize {
        value.len()
    }
}

/// A leaf that is not freed during 'g.
pub struct RivalLeaf<'g, F: RivalForm> {
    head: NonNull<F::Head>,
    lives: PhantomData<&'g F>,
}

// A derived implementation would require the same of the form.
impl<F: RivalForm> Clone for RivalLeaf<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: RivalForm> Copy for RivalLeaf<'_, F> {}

impl<F: RivalForm> std::fmt::Debug for RivalLeaf<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Leaf").field(&self.key()).finish()
    }
}

impl<'g, F: RivalForm> RivalLeaf<'g, F> {
    /// Creates a leaf from its address.
    ///
    /// # Safety
    /// It was made by [`NewRivalLeaf`] for this form, and is not freed during 'g.
    #[inline]
    pub(super) unsafe fn from_address(address: NonNull<u8>) -> Self {
        RivalLeaf {
            head: address.cast(),
            lives: PhantomData,
        }
    }

    /// Returns its address.
    #[inline]
    pub(super) fn address(self) -> NonNull<u8> {
        self.head.cast()
    }

    /// Returns the key.
    #[inline]
    pub fn key(self) -> &'g [u8] {
        // SAFETY: the leaf is not freed during 'g.
        unsafe { F::leaf_key(self.head) }
    }

    /// Returns the value.
    #[inline]
    pub fn value(self) -> F::Value<'g> {
        // SAFETY: as in `key`.
        unsafe { F::leaf_value(self.head) }
    }

    /// Writes the value in place; returns false if the form does not allow it.
    #[inline]
    pub(super) fn set(self, value: F::Value<'_>) -> bool {
        // SAFETY: as in `key`.
        unsafe { F::leaf_set(self.head, value) }
    }

    /// Returns its size in bytes.
    #[inline]
    pub(super) fn bytes(self) -> u32 {
        // SAFETY: as in `key`.
        unsafe { F::leaf_bytes(self.head) as u32 }
    }

    /// Creates the event that its key was read.
    #[inline]
    pub(super) fn visit(self) -> RadixNodeVisit {
        RadixNodeVisit {
            address: self.head.as_ptr().addr(),
            kind: VisitedNodeKind::Leaf,
            bytes: self.bytes(),
            head_bytes: (KEY_OFFSET + self.key().len()) as u32,
            prefix_bytes: 0,
            index: 0,
            slot: 0,
        }
    }

    /// Frees it at once.
    ///
    /// # Safety
    /// No thread uses the leaf or can still find it.
    pub(super) unsafe fn free(self) {
        let layout = F::leaf_layout(self.key().len(), self.value());
        // SAFETY: it was allocated with this layout, and the caller is its only user.
        unsafe { dealloc(self.head.as_ptr().cast(), layout) }
    }

    /// Frees it when no thread can use it any more.
    ///
    /// # Safety
    /// The caller has unlinked the leaf, and retires it once.
    pub(super) unsafe fn retire(self, guard: &Guard) {
        let address = self.head.as_ptr().expose_provenance();
        let free = move || {
            let head = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
            if let Some(head) = head {
                let lives = PhantomData;
                // SAFETY: all guards under which the leaf could be found have been dropped.
                unsafe { RivalLeaf::<F> { head, lives }.free() }
            }
        };
        // SAFETY: the closure owns all that it uses; a leaf may be freed by any thread.
        unsafe { guard.defer_unchecked(free) }
    }
}

/// A leaf that is not part of a tree yet, and is freed if it does not become one.
pub struct NewRivalLeaf<F: RivalForm>(RivalLeaf<'static, F>);

impl<F: RivalForm> NewRivalLeaf<F> {
    /// Creates a leaf.
    pub fn new(key: &[u8], value: F::Value<'_>) -> Self {
        let layout = F::leaf_layout(key.len(), value);
        // SAFETY: the layout of a leaf is never empty, because it has a head.
        let address = unsafe { alloc(layout) };
        let Some(address) = NonNull::new(address) else {
            handle_alloc_error(layout)
        };
        let head = address.cast();
        // SAFETY: it was just allocated with the layout of key and value.
        unsafe { F::leaf_write(head, key, value) };
        NewRivalLeaf(RivalLeaf {
            head,
            lives: PhantomData,
        })
    }

    /// Returns the leaf, which the caller must not use after it is freed.
    #[inline]
    pub fn leaf(&self) -> RivalLeaf<'_, F> {
        self.0
    }

    /// Reports all of its bytes as written.
    #[inline]
    pub fn written(&self, probe: &mut impl RadixProbe) {
        probe.write(self.0.address().as_ptr().addr(), self.0.bytes());
    }

    /// Hands the leaf over to a tree.
    #[inline]
    pub fn into_address(self) -> NonNull<u8> {
        let address = self.0.address();
        std::mem::forget(self);
        address
    }
}

impl<F: RivalForm> Drop for NewRivalLeaf<F> {
    fn drop(&mut self) {
        // SAFETY: it never became part of a tree.
        unsafe { self.0.free() }
    }
}
