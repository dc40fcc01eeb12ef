//! Frozen objects: their form as bytes in a cold tier.
//!
//! Freezing and thawing an object changes nothing but its memory: it has the same elements in the
//! same order and the same form, and cursors of scans stay valid. So clients cannot see whether a
//! value has been in a cold tier. Payloads of `DUMP`, in contrast, have the elements only.
//!
//! Numbers are written as variable-length integers, low bits first. The module of each type defines
//! what follows (`freeze` and `thaw`). Thawing trusts nothing: bytes that are not an object result
//! in [`FrozenObjectError`].

use super::{Hash, HeapBytes, ListObject, RedisType, Set, SortedSet, StoredObject, StreamObject};
use nearfield_tiers::AccountedHeap;

/// The error for bytes that are not those of a frozen object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not a frozen {}", .0.name())]
pub struct FrozenObjectError(pub RedisType);

/// Appends a number.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a string after its length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Bytes that are read from their beginning. Reads return `None` if the bytes are not as expected.
#[derive(Clone, Debug)]
pub(super) struct FrozenReader<'a>(&'a [u8]);

impl<'a> FrozenReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> FrozenReader<'a> {
        FrozenReader(bytes)
    }

    /// Returns the number of bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<usize> {
        let mut number: usize = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = self.byte()?;
            let part = usize::from(byte & 0x7f);
            // Bits that would be lost by the shift are invalid.
            number |= part
                .checked_shl(shift)
                .filter(|shifted| shifted >> shift == part)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.take(count)
    }

    /// Reads a count of items that take at least a byte each.
    pub(super) fn count(&mut self) -> Option<usize> {
        // A damaged count must not reserve memory.
        self.number().filter(|&count| count <= self.left())
    }
}

impl StoredObject {
    /// Appends the object as bytes that [`thaw`](StoredObject::thaw) takes. Linear.
    pub fn freeze(&self, out: &mut Vec<u8>) {
        match self {
            StoredObject::Text(text) => out.extend_from_slice(text.bytes()),
            StoredObject::List(list) => list.freeze(out),
            StoredObject::Hash(hash) => hash.freeze(out),
            StoredObject::Set(set) => set.freeze(out),
            StoredObject::SortedSet(sorted_set) => sorted_set.freeze(out),
            StoredObject::Stream(stream) => stream.freeze(out),
        }
    }

    /// Creates the object of a type from the bytes that [`freeze`](StoredObject::freeze) has
    /// written, in `heap`.
    ///
    /// ```
    /// use nearfield_server::object::{Container, RedisType, ObjectLimits, StoredObject, Set};
    /// use nearfield_tiers::AccountedHeap;
    ///
    /// let heap = AccountedHeap::new();
    /// let mut set = Set::create(&heap);
    /// set.add(&ObjectLimits::default(), b"17");
    /// let mut frozen = Vec::new();
    /// set.wrap().freeze(&mut frozen);
    /// let thawed = StoredObject::thaw(RedisType::Set, &frozen, &heap)?;
    /// assert_eq!(thawed.encoding(&ObjectLimits::default()), "intset");
    /// # Ok::<(), nearfield_server::object::FrozenObjectError>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are not an object of that type.
    pub fn thaw(
        kind: RedisType,
        bytes: &[u8],
        heap: &AccountedHeap,
    ) -> Result<StoredObject, FrozenObjectError> {
        let mut source = FrozenReader::new(bytes);
        let heap = heap.clone();
        let object = match kind {
            RedisType::String => {
                return Ok(StoredObject::Text(Box::new(HeapBytes::new_in(bytes, heap))));
            }
            RedisType::List => {
                ListObject::thaw(&mut source, heap).map(|it| StoredObject::List(Box::new(it)))
            }
            RedisType::Hash => {
                Hash::thaw(&mut source, heap).map(|it| StoredObject::Hash(Box::new(it)))
            }
            RedisType::Set => {
                Set::thaw(&mut source, heap).map(|it| StoredObject::Set(Box::new(it)))
            }
            RedisType::SortedSet => {
                let set = SortedSet::thaw(&mut source, heap);
                set.map(|it| StoredObject::SortedSet(Box::new(it)))
            }
            RedisType::Stream => {
                StreamObject::thaw(&mut source, &heap).map(|it| StoredObject::Stream(Box::new(it)))
            }
        };
        // Bytes behind the object are damage, and no key has an empty container.
        object
            .filter(|object| {
                source.left() == 0 && (kind == RedisType::Stream || !object.is_empty())
            })
            .ok_or(FrozenObjectError(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::testing::{bytes, for_each_seed};
    use crate::object::{ChunkLimit, Container, ObjectLimits, stream};
    use rand::RngExt;
    use rand::rngs::SmallRng;

    /// Creates an object of random elements, of either form, some of whose elements are removed.
    fn made(random: &mut SmallRng, kind: RedisType, heap: &AccountedHeap) -> StoredObject {
        let limits = ObjectLimits {
            hash_entries_max: 20,
            set_integers_max: 20,
            set_entries_max: 20,
            sorted_set_entries_max: 20,
            list_chunk: ChunkLimit {
                bytes_max: 100,
                entries_max: usize::MAX,
            },
            ..ObjectLimits::default()
        };
        let count = random.random_range(1..60);
        let (digits, times) = (random.random_bool(0.3), random.random_bool(0.5));
        let name = |random: &mut SmallRng| match digits {
            true => random
                .random_range(-99_999_i64..99_999)
                .to_string()
                .into_bytes(),
            false => bytes(random, 70),
        };
        let mut object = match kind {
            RedisType::String => HeapBytes::create(heap).wrap(),
            RedisType::List => ListObject::create(heap).wrap(),
            RedisType::Hash => Hash::create(heap).wrap(),
            RedisType::Set => Set::create(heap).wrap(),
            RedisType::SortedSet => SortedSet::create(heap).wrap(),
            RedisType::Stream => stream::testing::made(random, heap).wrap(),
        };
        for _ in 0..count {
            let removes = random.random_bool(0.3);
            let element = name(random);
            match &mut object {
                StoredObject::Text(text) => text.append(&element),
                StoredObject::List(list) if removes && list.len() > 1 => {
                    list.pop_front();
                }
                StoredObject::List(list) => {
                    let at = random.random_range(0..=list.len());
                    list.insert(&limits, at, &element);
                }
                StoredObject::Hash(hash) => {
                    hash.set(&limits, &element, &bytes(random, 70));
                    let other = hash
                        .iter()
                        .nth(hash.len() / 2)
                        .map(|(field, _)| field.to_vec());
                    if let Some(other) = other.filter(|_| removes && hash.len() > 1) {
                        hash.remove(&other);
                    }
                    if times && hash.contains(&element) {
                        hash.set_time(&limits, &element, Some(random.random_range(1..99)));
                    }
                }
                StoredObject::Set(set) => {
                    set.add(&limits, &element);
                    let other = set.iter().nth(set.len() / 2).map(|member| member.to_vec());
                    if let Some(other) = other.filter(|_| removes && set.len() > 1) {
                        set.remove(&other);
                    }
                }
                StoredObject::Stream(_) => {}
                StoredObject::SortedSet(set) => {
                    let score = [-0.0, 0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY];
                    let score = score[random.random_range(0..score.len())];
                    set.insert(&limits, &element, score);
                    if removes && set.len() > 1 {
                        set.remove_ranks(0..1, |_, _| ());
                    }
                }
            }
        }
        object
    }

    /// The parts of an object that a client can see: its encoding, its elements, and those that
    /// scans visit with the cursors between them.
    type Seen = (String, Vec<(Vec<u8>, Vec<u8>)>, Vec<Vec<u8>>);

    fn seen(object: &StoredObject) -> Seen {
        let mut pairs = Vec::new();
        let mut scanned = Vec::new();
        let mut pair = |one: &[u8], two: &[u8]| pairs.push((one.to_vec(), two.to_vec()));
        let scan = |visit: &mut dyn FnMut(u64) -> u64| {
            let mut cursor = visit(0);
            while cursor != 0 {
                cursor = visit(cursor);
            }
        };
        match object {
            StoredObject::Text(text) => pair(text.bytes(), b""),
            StoredObject::List(list) => list.iter().for_each(|element| pair(element, b"")),
            StoredObject::Hash(hash) => {
                hash.iter().for_each(|(field, value)| {
                    pair(field, value);
                    pair(format!("{:?}", hash.expires_at_ms(field)).as_bytes(), b"");
                });
                scan(&mut |cursor| {
                    let cursor = hash.scan(cursor, 7, |field, _| scanned.push(field.to_vec()));
                    scanned.push(cursor.to_string().into_bytes());
                    cursor
                });
            }
            StoredObject::Set(set) => {
                set.iter().for_each(|member| pair(&member, b""));
                scan(&mut |cursor| {
                    let cursor = set.scan(cursor, 7, |member| scanned.push(member.to_vec()));
                    scanned.push(cursor.to_string().into_bytes());
                    cursor
                });
            }
            StoredObject::Stream(stream) => pair(format!("{:?}", stream.parts()).as_bytes(), b""),
            StoredObject::SortedSet(set) => {
                for (member, score) in set.iter() {
                    pair(member, &score.to_le_bytes());
                    assert!(set.score(member).is_some());
                }
                scan(&mut |cursor| {
                    let cursor = set.scan(cursor, 7, |member, _| scanned.push(member.to_vec()));
                    scanned.push(cursor.to_string().into_bytes());
                    cursor
                });
            }
        }
        (
            object.encoding(&ObjectLimits::default()).to_owned(),
            pairs,
            scanned,
        )
    }

    fn check(object: &StoredObject) {
        match object {
            StoredObject::Text(_) => {}
            StoredObject::List(list) => list.check_invariants(),
            StoredObject::Hash(hash) => hash.check_invariants(),
            StoredObject::Set(set) => set.check_invariants(),
            StoredObject::SortedSet(set) => set.check_invariants(),
            StoredObject::Stream(stream) => stream.check_invariants(),
        }
    }

    #[test]
    fn thawed_objects_are_what_was_frozen() {
        for_each_seed(300, |random| {
            for kind in RedisType::ALL {
                let (heap, other) = (AccountedHeap::new(), AccountedHeap::new());
                let object = made(random, kind, &heap);
                let mut frozen = Vec::new();
                object.freeze(&mut frozen);
                let thawed = match StoredObject::thaw(kind, &frozen, &other) {
                    Ok(thawed) => thawed,
                    Err(error) => panic!("{error}: {:?}", seen(&object)),
                };
                check(&thawed);
                assert_eq!(seen(&thawed), seen(&object));
                // Both behave in the same way from here.
                let mut again = Vec::new();
                thawed.freeze(&mut again);
                assert_eq!(again, frozen);
                drop((object, thawed));
                assert_eq!((heap.used_bytes(), other.used_bytes()), (0, 0));
            }
        });
    }

    #[test]
    fn other_bytes_are_refused_or_are_another_object() {
        for_each_seed(300, |random| {
            for kind in RedisType::ALL.into_iter().skip(1) {
                let heap = AccountedHeap::new();
                let mut frozen = Vec::new();
                made(random, kind, &heap).freeze(&mut frozen);
                for length in 0..frozen.len().min(40) {
                    let cut = StoredObject::thaw(kind, &frozen[..length], &heap);
                    assert_eq!(cut.map(|_| ()), Err(FrozenObjectError(kind)));
                }
                let at = random.random_range(0..frozen.len());
                frozen[at] ^= 1 << random.random_range(0..8);
                if let Ok(object) = StoredObject::thaw(kind, &frozen, &heap) {
                    check(&object);
                }
                assert_eq!(heap.used_bytes(), 0);
            }
        });
    }

    #[test]
    fn forms_that_contain_each_other_are_refused_without_taking_the_stack() {
        let (heap, limits) = (AccountedHeap::new(), ObjectLimits::default());
        let mut hash = Hash::create(&heap);
        hash.set(&limits, b"field", b"value");
        hash.set_time(&limits, b"field", Some(1));
        let mut frozen = Vec::new();
        hash.wrap().freeze(&mut frozen);
        let nested = [&vec![frozen[0]; 1 << 22][..], &frozen].concat();
        let thawed = StoredObject::thaw(RedisType::Hash, &nested, &heap);
        assert_eq!(thawed.map(|_| ()), Err(FrozenObjectError(RedisType::Hash)));
    }
}
