//! A map of numbers, stored as words.

use crate::map::{MapRange, OrderedMap, UpdateOutcome, WordMap};
use crate::placement::{Local, MapPlacement};
use nearfield_core::codec::WordCodec;
use nearfield_core::{OperationError, Words};
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A [`WordMap`] whose keys and values are of types with a [`WordCodec`]: integers up to 64 bits
/// and floats, in numeric order. The conversion costs at most one bit operation.
///
/// Batches take words: see [`words`](TypedMap::words).
///
/// # Panics
/// Methods panic when they read a word that is no value of its type. Only a write through
/// [`words`](TypedMap::words), or the conversion of a map, can store such a word.
///
/// ```
/// use nearfield::TypedMap;
///
/// let readings = TypedMap::<i64, f64>::new()?;
/// readings.insert(-5, 1.5)?;
/// readings.insert(3, -0.5)?;
/// assert_eq!(readings.get(-5), Some(1.5));
/// assert_eq!(readings.predecessor(2), Some((-5, 1.5)));
/// assert_eq!(readings.range(..=3).next_back(), Some((3, -0.5)));
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Debug)]
pub struct TypedMap<K, V, P: MapPlacement<Words> = Local> {
    words: WordMap<P>,
    // A function type, so that any types may be shared by threads.
    types: PhantomData<fn(K) -> V>,
}

impl<K: WordCodec, V: WordCodec> TypedMap<K, V, Local> {
    /// Creates an empty map without a limit of memory.
    ///
    /// # Errors
    /// `OutOfMemory` if the system grants no address space.
    ///
    /// ```
    /// let map = nearfield::TypedMap::<u16, i64>::new()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn new() -> Result<Self, OperationError> {
        WordMap::new().map(Self::from)
    }

    /// Creates a map from entries in strictly ascending order of keys; see
    /// [`OrderedMap::from_sorted`](crate::OrderedMap::from_sorted).
    ///
    /// # Errors
    /// `NotSorted`, whose key is shown as its word; `OutOfMemory`.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (0, 2)])?;
    /// assert_eq!(map.first(), Some((-1, 1)));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn from_sorted(entries: impl IntoIterator<Item = (K, V)>) -> Result<Self, OperationError> {
        let words = |(key, value): (K, V)| (key.to_word(), value.to_word());
        WordMap::from_sorted(entries.into_iter().map(words)).map(Self::from)
    }
}

impl<K: WordCodec, V: WordCodec, P: MapPlacement<Words>> TypedMap<K, V, P> {
    /// Returns the underlying map of words, for batches and for statistics of memory.
    ///
    /// ```
    /// use nearfield::codec::WordCodec;
    /// use nearfield::{Batch, TypedMap};
    ///
    /// let map = TypedMap::<i32, u64>::new()?;
    /// let mut batch = Batch::new();
    /// batch.insert((-7).to_word(), 49);
    /// map.words().execute(&mut batch)?;
    /// assert_eq!(map.get(-7), Some(49));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn words(&self) -> &WordMap<P> {
        &self.words
    }

    /// Reads the value of a key, `None` if it is absent.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!((map.get(5), map.get(6)), (Some(2), None));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn get(&self, key: K) -> P::Lookup<Option<V>> {
        let found = self.words.get(key.to_word());
        P::map_lookup(found, |word| word.map(|word| decode(word.into())))
    }

    /// Returns true if the key is present.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert!(map.contains_key(-1) && !map.contains_key(1));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn contains_key(&self, key: K) -> P::Lookup<bool> {
        self.words.contains_key(key.to_word())
    }

    /// Sets the value of a key and returns the previous one, `None` if the key was absent.
    ///
    /// # Errors
    /// `OutOfMemory`. Nothing changes.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!((map.insert(5, 3)?, map.insert(6, 4)?), (Some(2), None));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, OperationError> {
        let before = self.words.insert(key.to_word(), value.to_word())?;
        Ok(before.map(decode))
    }

    /// Sets the value of a key if its value is `previous`, where `None` stands for an absent key.
    /// Values are compared as words: a NaN equals itself, and −0.0 differs from +0.0.
    ///
    /// # Errors
    /// `OutOfMemory`. Nothing changes.
    ///
    /// ```
    /// use nearfield::{TypedMap, UpdateOutcome};
    ///
    /// let map = TypedMap::<u32, f32>::new()?;
    /// assert!(map.update(1, None, 0.5)?.is_applied());
    /// assert_eq!(map.update(1, None, 0.7)?, UpdateOutcome::Differs { current: Some(0.5) });
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn update(
        &self,
        key: K,
        previous: Option<V>,
        value: V,
    ) -> Result<UpdateOutcome<V>, OperationError> {
        let previous = previous.map(V::to_word);
        let updated = self
            .words
            .update(key.to_word(), previous, value.to_word())?;
        Ok(updated.map(decode))
    }

    /// Removes a key and returns its value, `None` if it was absent.
    ///
    /// # Errors
    /// Those of the placement; see [`OrderedMap::remove`](crate::OrderedMap::remove). A local map
    /// has none.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!((map.remove(5)?, map.remove(5)?), (Some(2), None));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn remove(&self, key: K) -> Result<Option<V>, OperationError> {
        Ok(self.words.remove(key.to_word())?.map(decode))
    }

    /// Removes a key if its value is `expected`; see
    /// [`OrderedMap::remove_if`](crate::OrderedMap::remove_if). Values are compared as words: a NaN
    /// equals itself, and −0.0 differs from +0.0.
    ///
    /// # Errors
    /// As [`insert`](TypedMap::insert).
    ///
    /// ```
    /// use nearfield::UpdateOutcome;
    ///
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!(map.remove_if(5, 1)?, UpdateOutcome::Differs { current: Some(2) });
    /// assert_eq!(map.remove_if(5, 2)?, UpdateOutcome::Applied);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn remove_if(&self, key: K, expected: V) -> Result<UpdateOutcome<V>, OperationError> {
        let removed = self.words.remove_if(key.to_word(), expected.to_word())?;
        Ok(removed.map(decode))
    }

    /// Returns the entry with the least key.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!(map.first(), Some((-1, 1)));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn first(&self) -> P::Read<Option<(K, V)>> {
        P::map(self.words.first(), |entry| entry.map(decode_entry))
    }

    /// Returns the entry with the greatest key.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!(map.last(), Some((5, 2)));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn last(&self) -> P::Read<Option<(K, V)>> {
        P::map(self.words.last(), |entry| entry.map(decode_entry))
    }

    /// Returns the entry with the greatest key at or below the given one.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!(map.predecessor(4), Some((-1, 1)));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn predecessor(&self, key: K) -> P::Lookup<Option<(K, V)>> {
        let found = self.words.predecessor(key.to_word());
        P::map_lookup(found, |entry| entry.map(decode_entry))
    }

    /// Returns the entry with the least key at or above the given one.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!(map.successor(-1), Some((-1, 1)));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn successor(&self, key: K) -> P::Lookup<Option<(K, V)>> {
        let found = self.words.successor(key.to_word());
        P::map_lookup(found, |entry| entry.map(decode_entry))
    }

    /// Sets the value of a key to the result of `change` on the present value; see
    /// [`OrderedMap::modify`](crate::OrderedMap::modify).
    ///
    /// # Errors
    /// As [`insert`](TypedMap::insert).
    ///
    /// ```
    /// let sums = nearfield::TypedMap::<i32, f64>::new()?;
    /// sums.modify(-7, |sum| sum.unwrap_or(0.0) + 0.5)?;
    /// assert_eq!(sums.get(-7), Some(0.5));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn modify(
        &self,
        key: K,
        mut change: impl FnMut(Option<V>) -> V,
    ) -> Result<Option<V>, OperationError> {
        let change = |word: Option<u64>| change(word.map(decode)).to_word();
        Ok(self.words.modify(key.to_word(), change)?.map(decode))
    }

    /// Inserts the value if the key is absent, and returns the value that the key then has.
    ///
    /// # Errors
    /// As [`insert`](TypedMap::insert).
    ///
    /// ```
    /// let map = nearfield::TypedMap::<i8, u8>::new()?;
    /// assert_eq!((map.get_or_insert(-1, 1)?, map.get_or_insert(-1, 2)?), (1, 1));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn get_or_insert(&self, key: K, value: V) -> Result<V, OperationError> {
        let word = self.words.get_or_insert(key.to_word(), value.to_word())?;
        Ok(decode(word))
    }

    /// Removes the entry with the least key and returns it.
    ///
    /// # Errors
    /// Those of the placement.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!((map.pop_first()?, map.pop_last()?), (Some((-1, 1)), Some((5, 2))));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<(K, V)>, OperationError> {
        Ok(self.words.pop_first()?.map(decode_entry))
    }

    /// Removes the entry with the greatest key and returns it.
    ///
    /// # Errors
    /// Those of the placement.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!((map.pop_last()?, map.len()), (Some((5, 2)), 1));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn pop_last(&self) -> Result<Option<(K, V)>, OperationError> {
        Ok(self.words.pop_last()?.map(decode_entry))
    }

    /// Returns the values of many keys, in the order of `keys`: `None` for each key that is absent.
    /// Reads in batches; see [`OrderedMap::get_many`](crate::OrderedMap::get_many).
    ///
    /// Takes time proportional to the number of keys, and copies them as words.
    ///
    /// # Errors
    /// Those of the placement; a local map has none.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!(map.get_many(&[5, 0, -1])?, [Some(2), None, Some(1)]);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>, OperationError> {
        let keys: Vec<u64> = keys.iter().map(|&key| key.to_word()).collect();
        let words = self.words.get_many(&keys)?;
        Ok(words.into_iter().map(|word| word.map(decode)).collect())
    }

    /// Inserts many entries, in their order, in batches, and returns the number of keys that were
    /// absent before. Of entries with equal keys, the last one's value stays.
    ///
    /// Takes time proportional to the number of entries.
    ///
    /// # Errors
    /// As [`OrderedMap::insert_many`](crate::OrderedMap::insert_many).
    ///
    /// ```
    /// let map = nearfield::TypedMap::<i8, f32>::new()?;
    /// assert_eq!(map.insert_many(&[(5, 2.0), (-1, 1.0), (5, 2.5)])?, 2);
    /// assert_eq!(map.get(5), Some(2.5));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn insert_many(&self, entries: &[(K, V)]) -> Result<usize, OperationError> {
        self.extend(entries.iter().copied())
    }

    /// Inserts all entries of an iterator, in batches; returns the number of keys that were absent.
    ///
    /// # Errors
    /// As [`OrderedMap::insert_many`](crate::OrderedMap::insert_many).
    ///
    /// ```
    /// let map = nearfield::TypedMap::<i8, u8>::new()?;
    /// assert_eq!(map.extend([(-1, 1), (5, 2), (-1, 3)])?, 2);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn extend(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<usize, OperationError> {
        let entries = entries.into_iter();
        let words = entries.map(|(key, value)| (key.to_word(), value.to_word()));
        self.words.extend(words)
    }

    /// Removes all entries whose keys lie within a range and for which `keep` returns false, and
    /// returns the number of entries removed; see [`OrderedMap::retain`](crate::OrderedMap::retain)
    /// for entries that another thread sets meanwhile.
    ///
    /// Takes time proportional to the number of entries in the range.
    ///
    /// # Errors
    /// Those of the placement. Some entries may have been removed.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-2_i8, 0.5_f32), (-1, 1.5), (5, 0.5)])?;
    /// assert_eq!(map.retain(..0, |_, value| value > 1.0)?, 1);
    /// assert!(map.range(..).eq([(-1, 1.5), (5, 0.5)]));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn retain(
        &self,
        bounds: impl RangeBounds<K>,
        mut keep: impl FnMut(K, V) -> bool,
    ) -> Result<usize, OperationError> {
        let keep = |key: u64, value: u64| keep(decode(key), decode(value));
        self.words.retain(words_of(&bounds), keep)
    }

    /// Removes all entries whose keys lie within a range, and returns their number.
    ///
    /// # Errors
    /// Those of the placement. Some entries may have been removed.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert_eq!((map.remove_range(..0)?, map.len()), (1, 1));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn remove_range(&self, bounds: impl RangeBounds<K>) -> Result<usize, OperationError> {
        self.words.remove_range(words_of(&bounds))
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// Those of the placement. Some entries may have been removed.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// map.clear()?;
    /// assert_eq!(map.first(), None);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn clear(&self) -> Result<(), OperationError> {
        self.words.clear()
    }

    /// Returns the entries whose keys lie within a range; see
    /// [`OrderedMap::range`](crate::OrderedMap::range).
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert!(map.range(0..).eq([(5, 2)]));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn range(&self, bounds: impl RangeBounds<K>) -> TypedRange<'_, K, V, P> {
        TypedRange {
            words: self.words.range(words_of(&bounds)),
            types: PhantomData,
        }
    }

    /// Returns the number of entries; exact while no thread writes.
    ///
    /// ```
    /// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
    /// assert!(map.len() == 2 && !map.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn len(&self) -> P::Read<usize> {
        self.words.len()
    }

    /// Returns true if there is no entry; exact while no thread writes.
    ///
    /// ```
    /// let map = nearfield::TypedMap::<i8, u8>::new()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn is_empty(&self) -> P::Read<bool> {
        self.words.is_empty()
    }
}

/// Conversion of a map of words, for example one with a memory limit. All of its words must be
/// values of the types.
///
/// ```
/// use nearfield::{TypedMap, WordMap};
///
/// let map: TypedMap<i16, i16> = WordMap::builder().memory_limit(1 << 20).build()?.into();
/// map.insert(-1, 1)?;
/// # Ok::<(), nearfield::OperationError>(())
/// ```
impl<K: WordCodec, V: WordCodec, P: MapPlacement<Words>> From<OrderedMap<Words, P>>
    for TypedMap<K, V, P>
{
    fn from(words: OrderedMap<Words, P>) -> Self {
        TypedMap {
            words,
            types: PhantomData,
        }
    }
}

/// The entries of a [`TypedMap`] within a range, from both ends; see [`MapRange`].
///
/// ```
/// let map = nearfield::TypedMap::from_sorted([(-1_i8, 1_u8), (5, 2)])?;
/// assert_eq!(map.range(..).rev().next(), Some((5, 2)));
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Debug)]
pub struct TypedRange<'m, K, V, P: MapPlacement<Words> = Local> {
    words: MapRange<'m, Words, P>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: WordCodec, V: WordCodec, P: MapPlacement<Words>> Iterator for TypedRange<'_, K, V, P> {
    type Item = P::Read<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.words.next()?;
        Some(P::map(entry, decode_entry))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.words.size_hint()
    }
}

impl<K: WordCodec, V: WordCodec, P: MapPlacement<Words>> DoubleEndedIterator
    for TypedRange<'_, K, V, P>
{
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.words.next_back()?;
        Some(P::map(entry, decode_entry))
    }
}

impl<K, V, P> FusedIterator for TypedRange<'_, K, V, P>
where
    K: WordCodec,
    V: WordCodec,
    P: MapPlacement<Words>,
{
}

fn words_of<K: WordCodec>(bounds: &impl RangeBounds<K>) -> (Bound<u64>, Bound<u64>) {
    let word = |bound: Bound<&K>| bound.map(|&key| key.to_word());
    (word(bounds.start_bound()), word(bounds.end_bound()))
}

fn decode_entry<K: WordCodec, V: WordCodec>((key, value): (u64, u64)) -> (K, V) {
    (decode(key), decode(value))
}

#[inline]
fn decode<T: WordCodec>(word: u64) -> T {
    match T::from_word(word) {
        Ok(value) => value,
        // All methods of this type encode, so the word was written by the map of words below it.
        Err(error) => panic!("a typed map holds a foreign word: {error}"),
    }
}
