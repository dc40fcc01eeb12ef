//! Sets of byte strings.

mod integers;
#[cfg(test)]
mod tests;

use super::ObjectLimits;
use super::frozen::FrozenReader;
use super::packed::{Elements, PackedStrings};
use super::table::{ByteStringTable, Ids};
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use integers::Integers;
use nearfield_tiers::AccountedHeap;
use rand::{Rng, RngExt};
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Byte strings, in no particular order.
///
/// A small set is packed, or sorted integers if all its members are integers; the complexities
/// given here are those of large ones.
pub struct Set<A: Allocator = AccountedHeap> {
    form: SetForm<A>,
}

enum SetForm<A: Allocator> {
    Integers(Integers<A>),
    Small(PackedStrings<A>),
    /// The table of the members; all values are empty.
    Large(Box<ByteStringTable<A>, A>),
}

/// A member of a [`Set`]: bytes in the set, or the text of an integer.
#[derive(Clone, Copy)]
pub enum SetMember<'a> {
    /// Bytes in the set.
    Bytes(&'a [u8]),
    /// The text of an integer.
    Integer(Decimal),
}

/// The text of an integer.
#[derive(Clone, Copy)]
pub struct Decimal {
    text: [u8; 20],
    len: u8,
}

impl From<i64> for Decimal {
    fn from(integer: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(integer).as_bytes();
        let mut text = [0; 20];
        text[..digits.len()].copy_from_slice(digits);
        let len = digits.len() as u8;
        Decimal { text, len }
    }
}

impl Deref for SetMember<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            SetMember::Bytes(bytes) => bytes,
            SetMember::Integer(decimal) => &decimal.text[..usize::from(decimal.len)],
        }
    }
}

impl PartialEq for SetMember<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SetMember<'_> {}

impl Hash for SetMember<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (**self).hash(hasher);
    }
}

fn integer<'a>(integer: i64) -> SetMember<'a> {
    SetMember::Integer(integer.into())
}

/// The tags of the forms of a frozen set.
const INTEGERS: u8 = 0;
const SMALL: u8 = 1;
const LARGE: u8 = 2;

impl<A: Allocator + Clone> Set<A> {
    /// Creates an empty set.
    pub fn new_in(heap: A) -> Self {
        Set {
            form: SetForm::Integers(Integers::new_in(heap)),
        }
    }

    fn heap(&self) -> &A {
        match &self.form {
            SetForm::Integers(integers) => integers.heap(),
            SetForm::Small(packed) => packed.heap(),
            SetForm::Large(table) => table.heap(),
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match &self.form {
            SetForm::Integers(integers) => integers.len(),
            SetForm::Small(packed) => packed.len(),
            SetForm::Large(table) => table.len(),
        }
    }

    /// Returns true if there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of the form: `intset`, `listpack` or `hashtable`.
    pub fn encoding(&self) -> &'static str {
        match &self.form {
            SetForm::Integers(_) => "intset",
            SetForm::Small(_) => "listpack",
            SetForm::Large(_) => "hashtable",
        }
    }

    /// Returns the bytes taken from the heap, in constant time.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            SetForm::Integers(integers) => integers.memory_bytes(),
            SetForm::Small(packed) => packed.memory_bytes(),
            SetForm::Large(table) => size_of::<ByteStringTable<A>>() + table.memory_bytes(),
        }
    }

    /// Creates a copy that takes its memory from `heap`. A cursor of a scan stays valid.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Set<B> {
        Set {
            form: match &self.form {
                SetForm::Integers(integers) => SetForm::Integers(integers.rebuild_in(heap)),
                SetForm::Small(packed) => SetForm::Small(packed.rebuild_in(heap)),
                SetForm::Large(table) => {
                    SetForm::Large(Box::new_in(table.rebuild_in(heap.clone()), heap))
                }
            },
        }
    }

    /// Appends the set as [`thaw`](Set::thaw) reads it: a byte for its form, and its content.
    pub(super) fn freeze(&self, out: &mut Vec<u8>) {
        match &self.form {
            SetForm::Integers(integers) => {
                out.push(INTEGERS);
                integers.freeze(out);
            }
            SetForm::Small(packed) => {
                out.push(SMALL);
                packed.freeze(out);
            }
            SetForm::Large(table) => {
                out.push(LARGE);
                table.freeze(out);
            }
        }
    }

    /// Reads a frozen set.
    pub(super) fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let form = match source.byte()? {
            INTEGERS => SetForm::Integers(Integers::thaw(source, heap)?),
            SMALL => SetForm::Small(PackedStrings::thaw(source, heap)?),
            LARGE => SetForm::Large(Box::new_in(
                ByteStringTable::thaw(source, heap.clone())?,
                heap,
            )),
            _ => return None,
        };
        Some(Set { form })
    }

    /// Returns true if `member` is in the set. Expected constant time, like all operations on one
    /// member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.form {
            SetForm::Integers(integers) => {
                integers::parse(member).is_some_and(|integer| integers.find(integer).is_ok())
            }
            SetForm::Small(packed) => packed.iter().any(|other| other == member),
            SetForm::Large(table) => table.find(member).is_some(),
        }
    }

    /// Adds `member`. Returns true if it was absent.
    pub fn add(&mut self, limits: &ObjectLimits, member: &[u8]) -> bool {
        if let SetForm::Integers(integers) = &mut self.form {
            match integers::parse(member) {
                Some(integer) => {
                    let Err(index) = integers.find(integer) else {
                        return false;
                    };
                    if integers.len() < limits.set_integers_max {
                        integers.insert(index, integer);
                        return true;
                    }
                    // Redis skips the packed form here, too.
                    self.make_large();
                }
                None => self.pack(limits),
            }
        }
        if let SetForm::Small(packed) = &mut self.form {
            if packed.iter().any(|other| other == member) {
                return false;
            }
            let has_room = packed.len() < limits.set_entries_max;
            if has_room && member.len() <= limits.set_bytes_max {
                packed.push_back(member);
                return true;
            }
            self.make_large();
        }
        match &mut self.form {
            SetForm::Large(table) => !table.insert(member, b"").1,
            _ => unreachable!("the smaller forms have been dealt with"),
        }
    }

    /// Converts the set to the packed form, or to the large one if the members are too many or too
    /// long.
    fn pack(&mut self, limits: &ObjectLimits) {
        debug_assert!(matches!(self.form, SetForm::Integers(_)));
        let fits = |member: SetMember<'_>| member.len() <= limits.set_bytes_max;
        // The new member is not counted yet.
        if self.len() >= limits.set_entries_max || !self.iter().all(fits) {
            self.make_large();
            return;
        }
        let mut packed = PackedStrings::new_in(self.heap().clone());
        for member in self.iter() {
            packed.push_back(&member);
        }
        self.form = SetForm::Small(packed);
    }

    fn make_large(&mut self) {
        debug_assert!(!matches!(self.form, SetForm::Large(_)));
        let heap = self.heap().clone();
        let mut table = ByteStringTable::new_in(heap.clone());
        for member in self.iter() {
            table.insert(&member, b"");
        }
        self.form = SetForm::Large(Box::new_in(table, heap));
    }

    /// Removes `member`. Returns true if it was present.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            SetForm::Integers(integers) => {
                let found = integers::parse(member).map(|integer| integers.find(integer));
                let Some(Ok(index)) = found else {
                    return false;
                };
                integers.remove(index);
                true
            }
            SetForm::Small(packed) => {
                let mut elements = packed.iter();
                loop {
                    let position = elements.position();
                    match elements.next() {
                        None => return false,
                        Some(other) if other == member => {
                            packed.remove(position, 1);
                            return true;
                        }
                        Some(_) => {}
                    }
                }
            }
            SetForm::Large(table) => table.remove(member),
        }
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        *self = Set::new_in(self.heap().clone());
    }

    /// Returns all members.
    pub fn iter(&self) -> Members<'_, A> {
        Members(match &self.form {
            SetForm::Integers(integers) => SetWalk::Integers(integers, 0),
            SetForm::Small(packed) => SetWalk::Small(packed.iter()),
            SetForm::Large(table) => SetWalk::Large(table, table.iter()),
        })
    }

    /// Returns a random member, all with equal probability.
    pub fn random(&self, random: &mut impl Rng) -> Option<SetMember<'_>> {
        if self.is_empty() {
            return None;
        }
        match &self.form {
            SetForm::Integers(integers) => {
                let index = random.random_range(0..integers.len());
                Some(integer(integers.get(index)))
            }
            SetForm::Small(packed) => {
                let index = random.random_range(0..packed.len());
                packed.get(index).map(SetMember::Bytes)
            }
            SetForm::Large(table) => {
                let id = table.random(random)?;
                Some(SetMember::Bytes(table.key(id)))
            }
        }
    }

    /// Removes a random member, all with equal probability, and returns it.
    pub fn pop_random(&mut self, random: &mut impl Rng) -> Option<Vec<u8>> {
        // A copy, because the removal frees the member's bytes.
        let member = self.random(random)?.to_vec();
        self.remove(&member);
        Some(member)
    }

    /// Visits about `count` members and returns the next cursor; 0 begins and ends an iteration. A
    /// member that is present during the whole iteration is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8])) -> u64 {
        if let SetForm::Large(table) = &self.form {
            return table.scan(cursor, count, |id| visit(table.key(id)));
        }
        for member in self.iter() {
            visit(&member);
        }
        0
    }

    /// Panics unless the parts agree. For tests.
    pub fn check_invariants(&self) {
        match &self.form {
            SetForm::Integers(integers) => integers.check_invariants(),
            SetForm::Small(packed) => packed.check_invariants(),
            SetForm::Large(table) => table.check_invariants(),
        }
    }
}

/// Members of a [`Set`].
pub struct Members<'a, A: Allocator>(SetWalk<'a, A>);

enum SetWalk<'a, A: Allocator> {
    Integers(&'a Integers<A>, usize),
    Small(Elements<'a>),
    Large(&'a ByteStringTable<A>, Ids<'a>),
}

impl<'a, A: Allocator + Clone> Iterator for Members<'a, A> {
    type Item = SetMember<'a>;

    fn next(&mut self) -> Option<SetMember<'a>> {
        match &mut self.0 {
            SetWalk::Integers(integers, index) if *index < integers.len() => {
                *index += 1;
                Some(integer(integers.get(*index - 1)))
            }
            SetWalk::Integers(..) => None,
            SetWalk::Small(elements) => elements.next().map(SetMember::Bytes),
            SetWalk::Large(table, ids) => ids.next().map(|id| SetMember::Bytes(table.key(id))),
        }
    }
}
