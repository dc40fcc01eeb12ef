//! Hashes: fields with values.

mod nodes;
#[cfg(test)]
mod tests;

use super::Limits;
use super::frozen::Source;
use super::node::Unread;
use super::packed::{Packed, Pairs};
use super::table::{Ids, Table};
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use rand::{Rng, RngExt};

/// Fields with values, both byte strings, in no order that means something.
///
/// A small hash is packed, and what is said of complexity is said of large ones. Values of a large
/// one may lie in cold tiers, each for itself; then only those can be read which are
/// [lent](super::Parted::lend).
pub struct Hash<A: Allocator> {
    form: Form<A>,
}

enum Form<A: Allocator> {
    /// Fields and values in turn.
    Small(Packed<A>),
    Large(Box<Table<A>, A>),
}

/// The forms of a hash that is frozen.
const SMALL: u8 = 0;
const LARGE: u8 = 1;

impl<A: Allocator + Clone> Hash<A> {
    /// An empty hash.
    pub fn new_in(heap: A) -> Self {
        Hash {
            form: Form::Small(Packed::new_in(heap)),
        }
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Small(packed) => packed.len() / 2,
            Form::Large(table) => table.len(),
        }
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the form: `listpack` or `hashtable`.
    pub fn encoding(&self) -> &'static str {
        match &self.form {
            Form::Small(_) => "listpack",
            Form::Large(_) => "hashtable",
        }
    }

    /// The bytes taken from the heap, in constant time.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Small(packed) => packed.memory_bytes(),
            Form::Large(table) => size_of::<Table<A>>() + table.memory_bytes(),
        }
    }

    /// A copy that takes its memory from `heap`. A cursor of a scan stays good.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Hash<B> {
        Hash {
            form: match &self.form {
                Form::Small(packed) => Form::Small(packed.rebuild_in(heap)),
                Form::Large(table) => {
                    Form::Large(Box::new_in(table.rebuild_in(heap.clone()), heap))
                }
            },
        }
    }

    /// Appends the hash as [`thaw`](Hash::thaw) takes it: a byte for its form, and what it has.
    pub(super) fn freeze(&self, out: &mut Vec<u8>) {
        match &self.form {
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

    /// A hash that was frozen.
    pub(super) fn thaw(source: &mut Source<'_>, heap: A) -> Option<Self> {
        let form = match source.byte()? {
            SMALL => {
                let packed = Packed::thaw(source, heap)?;
                Form::Small(Some(packed).filter(|it| it.len().is_multiple_of(2))?)
            }
            LARGE => Form::Large(Box::new_in(Table::thaw(source, heap.clone())?, heap)),
            _ => return None,
        };
        Some(Hash { form })
    }

    /// The value of `field`. Expected constant time, as all operations of one field.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.form {
            Form::Small(packed) => packed.find_pair(field).map(|(_, value)| value),
            Form::Large(table) => table.get(field),
        }
    }

    /// The length of `field`'s value in bytes.
    pub fn value_len(&self, field: &[u8]) -> Option<usize> {
        match &self.form {
            Form::Small(packed) => packed.find_pair(field).map(|(_, value)| value.len()),
            Form::Large(table) => table.find(field).map(|id| table.value_len(id)),
        }
    }

    /// Whether there is a value of `field`.
    pub fn contains(&self, field: &[u8]) -> bool {
        match &self.form {
            Form::Small(packed) => packed.find_pair(field).is_some(),
            Form::Large(table) => table.find(field).is_some(),
        }
    }

    /// Sets the value of `field`; whether it had none before.
    pub fn set(&mut self, limits: &Limits, field: &[u8], value: &[u8]) -> bool {
        let is_small = field.len().max(value.len()) <= limits.hash_bytes_max;
        if let Form::Small(packed) = &mut self.form
            && is_small
        {
            if let Some((position, _)) = packed.find_pair(field) {
                packed.replace(packed.next(position), value);
                return false;
            }
            if packed.len() / 2 < limits.hash_entries_max {
                packed.push_back(field);
                packed.push_back(value);
                return true;
            }
        }
        !self.table().insert(field, value).1
    }

    /// The table of the large form, which is taken on if need be.
    fn table(&mut self) -> &mut Table<A> {
        if let Form::Small(packed) = &self.form {
            let mut table = Table::new_in(packed.heap().clone());
            for (_, field, value) in packed.pairs() {
                table.insert(field, value);
            }
            let heap = packed.heap().clone();
            self.form = Form::Large(Box::new_in(table, heap));
        }
        match &mut self.form {
            Form::Large(table) => table,
            Form::Small(_) => unreachable!("the form has just been made large"),
        }
    }

    /// Removes `field`; whether it had a value.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.form {
            Form::Large(table) => table.remove(field),
            Form::Small(packed) => match packed.find_pair(field) {
                None => false,
                Some((position, _)) => {
                    packed.remove(position, 2);
                    true
                }
            },
        }
    }

    /// All fields and values.
    pub fn iter(&self) -> Fields<'_, A> {
        Fields(match &self.form {
            Form::Small(packed) => Walk::Small(packed.pairs()),
            Form::Large(table) => Walk::Large(table, table.iter()),
        })
    }

    /// All fields, in the order of [`iter`](Hash::iter).
    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let (packed, table) = match &self.form {
            Form::Small(packed) => (Some(packed), None),
            Form::Large(table) => (None, Some(table)),
        };
        let packed = packed.into_iter().flat_map(Packed::pairs);
        let table = table.into_iter().flat_map(|table| {
            let key = |id| table.key(id);
            table.iter().map(key)
        });
        packed.map(|(_, field, _)| field).chain(table)
    }

    /// One of the fields, all of which are equally likely.
    pub fn random_field(&self, random: &mut impl Rng) -> Option<&[u8]> {
        match &self.form {
            Form::Small(_) => self.random(random).map(|(field, _)| field),
            Form::Large(table) => table.random(random).map(|id| table.key(id)),
        }
    }

    /// Gives all fields and values to `visit`. Of the values in cold tiers one at a time is in
    /// memory.
    ///
    /// # Errors
    /// That of `visit`, or a value cannot be read.
    pub fn visit<E>(
        &self,
        unread: impl Fn(Unread) -> E,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.form {
            Form::Small(packed) => packed
                .pairs()
                .try_for_each(|(_, field, value)| visit(field, value)),
            Form::Large(table) => table.iter().try_for_each(|id| {
                table.visit_value(id, &unread, |value| visit(table.key(id), value))
            }),
        }
    }

    /// One of the fields, all of which are equally likely, and its value.
    pub fn random(&self, random: &mut impl Rng) -> Option<(&[u8], &[u8])> {
        match &self.form {
            Form::Small(packed) if packed.is_empty() => None,
            Form::Small(packed) => {
                let index = random.random_range(0..packed.len() / 2);
                let mut pairs = packed.pairs_between(index, index + 1);
                pairs.next().map(|(_, field, value)| (field, value))
            }
            Form::Large(table) => table.random(random).map(|id| table.pair(id)),
        }
    }

    /// Visits about `count` fields and answers the cursor to go on with; 0 begins and ends an
    /// iteration. A field that is there during all of it is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8], &[u8])) -> u64 {
        match &self.form {
            Form::Small(packed) => {
                for (_, field, value) in packed.pairs() {
                    visit(field, value);
                }
                0
            }
            Form::Large(table) => table.scan(cursor, count, |id| {
                let (field, value) = table.pair(id);
                visit(field, value);
            }),
        }
    }

    /// As [`scan`](Hash::scan), of the fields alone.
    pub fn scan_fields(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8])) -> u64 {
        match &self.form {
            Form::Small(_) => self.scan(cursor, count, |field, _| visit(field)),
            Form::Large(table) => table.scan(cursor, count, |id| visit(table.key(id))),
        }
    }

    fn large(&self) -> Option<&Table<A>> {
        match &self.form {
            Form::Small(_) => None,
            Form::Large(table) => Some(table),
        }
    }

    fn large_mut(&mut self) -> Option<&mut Table<A>> {
        match &mut self.form {
            Form::Small(_) => None,
            Form::Large(table) => Some(table),
        }
    }

    /// True if it is large, so that its values may lie in several tiers.
    #[inline]
    pub fn has_nodes(&self) -> bool {
        self.large().is_some()
    }

    /// Panics unless the parts agree. For tests.
    pub fn check_invariants(&self) {
        match &self.form {
            Form::Small(packed) => packed.check_invariants(),
            Form::Large(table) => table.check_invariants(),
        }
    }
}

/// Fields and values of a [`Hash`](struct@Hash).
pub struct Fields<'a, A: Allocator>(Walk<'a, A>);

enum Walk<'a, A: Allocator> {
    Small(Pairs<'a>),
    Large(&'a Table<A>, Ids<'a>),
}

impl<'a, A: Allocator + Clone> Iterator for Fields<'a, A> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Walk::Small(pairs) => pairs.next().map(|(_, field, value)| (field, value)),
            Walk::Large(table, ids) => ids.next().map(|id| table.pair(id)),
        }
    }
}
