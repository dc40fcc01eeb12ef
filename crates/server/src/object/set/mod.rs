//! Sets of byte strings.

mod integers;
#[cfg(test)]
mod tests;

use super::Limits;
use super::frozen::Source;
use super::packed::{Elements, Packed};
use super::table::{Ids, Table};
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use integers::Integers;
use rand::{Rng, RngExt};
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Byte strings, in no particular order.
///
/// A small set is packed, or sorted integers if all its members are integers; the complexities
/// given here are those of large ones.
pub struct Set<A: Allocator> {
    form: Form<A>,
}

enum Form<A: Allocator> {
    Integers(Integers<A>),
    Small(Packed<A>),
    /// The table of the members; all values are empty.
    Large(Box<Table<A>, A>),
}

/// A member of a [`Set`]: bytes in the set, or the text of an integer.
#[derive(Clone, Copy)]
pub enum Member<'a> {
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

impl Deref for Member<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Member::Bytes(bytes) => bytes,
            Member::Integer(decimal) => &decimal.text[..usize::from(decimal.len)],
        }
    }
}

impl PartialEq for Member<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Member<'_> {}

impl Hash for Member<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (**self).hash(hasher);
    }
}

fn integer<'a>(integer: i64) -> Member<'a> {
    Member::Integer(integer.into())
}

/// The tags of the forms of a frozen set.
const INTEGERS: u8 = 0;
const SMALL: u8 = 1;
const LARGE: u8 = 2;

impl<A: Allocator + Clone> Set<A> {
    /// Creates an empty set.
    pub fn new_in(heap: A) -> Self {
        Set {
            form: Form::Integers(Integers::new_in(heap)),
        }
    }

    fn heap(&self) -> &A {
        match &self.form {
            Form::Integers(integers) => integers.heap(),
            Form::Small(packed) => packed.heap(),
            Form::Large(table) => table.heap(),
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Integers(integers) => integers.len(),
            Form::Small(packed) => packed.len(),
            Form::Large(table) => table.len(),
        }
    }

    /// Returns true if there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of the form: `intset`, `listpack` or `hashtable`.
    pub fn encoding(&self) -> &'static str {
        match &self.form {
            Form::Integers(_) => "intset",
            Form::Small(_) => "listpack",
            Form::Large(_) => "hashtable",
        }
    }

    /// Returns the bytes taken from the heap, in constant time.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Integers(integers) => integers.memory_bytes(),
            Form::Small(packed) => packed.memory_bytes(),
            Form::Large(table) => size_of::<Table<A>>() + table.memory_bytes(),
        }
    }

    /// Creates a copy that takes its memory from `heap`. A cursor of a scan stays valid.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Set<B> {
        Set {
            form: match &self.form {
                Form::Integers(integers) => Form::Integers(integers.rebuild_in(heap)),
                Form::Small(packed) => Form::Small(packed.rebuild_in(heap)),
                Form::Large(table) => {
                    Form::Large(Box::new_in(table.rebuild_in(heap.clone()), heap))
                }
            },
        }
    }

    /// Appends the set as [`thaw`](Set::thaw) reads it: a byte for its form, and its content.
    pub(super) fn freeze(&self, out: &mut Vec<u8>) {
        match &self.form {
            Form::Integers(integers) => {
                out.push(INTEGERS);
                integers.freeze(out);
            }
            Form::Small(packed) => {
                out.push(SMALL);
                packed.freeze(out);
            }
            Form::Large(table) => {
                out.push(LARGE);
                table.freeze(out);
            }
        }
    }

    /// Reads a frozen set.
    pub(super) fn thaw(source: &mut Source<'_>, heap: A) -> Option<Self> {
        let form = match source.byte()? {
            INTEGERS => Form::Integers(Integers::thaw(source, heap)?),
            SMALL => Form::Small(Packed::thaw(source, heap)?),
            LARGE => Form::Large(Box::new_in(Table::thaw(source, heap.clone())?, heap)),
            _ => return None,
        };
        Some(Set { form })
    }

    /// Returns true if `member` is in the set. Expected constant time, like all operations on one
    /// member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.form {
            Form::Integers(integers) => {
                integers::parse(member).is_some_and(|integer| integers.find(integer).is_ok())
            }
            Form::Small(packed) => packed.iter().any(|other| other == member),
            Form::Large(table) => table.find(member).is_some(),
        }
    }

    /// Adds `member`. Returns true if it was absent.
    pub fn add(&mut self, limits: &Limits, member: &[u8]) -> bool {
        if let Form::Integers(integers) = &mut self.form {
            match integers::parse(member) {
                Some(integer) => {
                    let Err(index) = integers.find(integer) else {
                        return false;
                    };
                    if integers.len() < limits.set_integers_max {
                        integers.insert(index, integer);
                        return true;
                    }
                    self.make_large();
                }
                None => self.pack(limits),
            }
        }
        if let Form::Small(packed) = &mut self.form {
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
            Form::Large(table) => !table.insert(member, b"").1,
            _ => unreachable!("the smaller forms have been dealt with"),
        }
    }

    /// Converts the set to the packed form, or to the large one if the members are too many or too
    /// long.
    fn pack(&mut self, limits: &Limits) {
        let fits = |member: Member<'_>| member.len() <= limits.set_bytes_max;
        if self.len() >= limits.set_entries_max || !self.iter().all(fits) {
            self.make_large();
            return;
        }
        let mut packed = Packed::new_in(self.heap().clone());
        for member in self.iter() {
            packed.push_back(&member);
        }
        self.form = Form::Small(packed);
    }

    fn make_large(&mut self) {
        let heap = self.heap().clone();
        let mut table = Table::new_in(heap.clone());
        for member in self.iter() {
            table.insert(&member, b"");
        }
        self.form = Form::Large(Box::new_in(table, heap));
    }

    /// Removes `member`. Returns true if it was present.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Integers(integers) => {
                let found = integers::parse(member).map(|integer| integers.find(integer));
                let Some(Ok(index)) = found else {
                    return false;
                };
                integers.remove(index);
                true
            }
            Form::Small(packed) => {
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
            Form::Large(table) => table.remove(member),
        }
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        *self = Set::new_in(self.heap().clone());
    }

    /// Returns all members.
    pub fn iter(&self) -> Members<'_, A> {
        Members(match &self.form {
            Form::Integers(integers) => Walk::Integers(integers, 0),
            Form::Small(packed) => Walk::Small(packed.iter()),
            Form::Large(table) => Walk::Large(table, table.iter()),
        })
    }

    /// Returns a random member, all with equal probability.
    pub fn random(&self, random: &mut impl Rng) -> Option<Member<'_>> {
        if self.is_empty() {
            return None;
        }
        match &self.form {
            Form::Integers(integers) => {
                let index = random.random_range(0..integers.len());
                Some(integer(integers.get(index)))
            }
            Form::Small(packed) => {
                let index = random.random_range(0..packed.len());
                packed.get(index).map(Member::Bytes)
            }
            Form::Large(table) => {
                let id = table.random(random)?;
                Some(Member::Bytes(table.key(id)))
            }
        }
    }

    /// Removes a random member, all with equal probability, and returns it.
    pub fn pop_random(&mut self, random: &mut impl Rng) -> Option<Vec<u8>> {
        let member = self.random(random)?.to_vec();
        self.remove(&member);
        Some(member)
    }

    /// Visits about `count` members and returns the next cursor; 0 begins and ends an iteration. A
    /// member that is present during the whole iteration is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8])) -> u64 {
        if let Form::Large(table) = &self.form {
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
            Form::Integers(integers) => integers.check_invariants(),
            Form::Small(packed) => packed.check_invariants(),
            Form::Large(table) => table.check_invariants(),
        }
    }
}

/// Members of a [`Set`].
pub struct Members<'a, A: Allocator>(Walk<'a, A>);

enum Walk<'a, A: Allocator> {
    Integers(&'a Integers<A>, usize),
    Small(Elements<'a>),
    Large(&'a Table<A>, Ids<'a>),
}

impl<'a, A: Allocator + Clone> Iterator for Members<'a, A> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        match &mut self.0 {
            Walk::Integers(integers, index) if *index < integers.len() => {
                *index += 1;
                Some(integer(integers.get(*index - 1)))
            }
            Walk::Integers(..) => None,
            Walk::Small(elements) => elements.next().map(Member::Bytes),
            Walk::Large(table, ids) => ids.next().map(|id| Member::Bytes(table.key(id))),
        }
    }
}
