//! Hashes: fields with values.

mod due;
mod nodes;
#[cfg(test)]
mod tests;
mod timed;

pub use due::{DueNote, FieldNote, FieldNotes};
pub use timed::FIELD_TIME_MS_MAX;

use super::Limits;
use super::frozen::Source;
use super::node::Unread;
use super::packed::{Packed, Pairs};
use super::table::{Ids, Table};
use crate::steps;
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use nearfield_tiers::Heap;
use rand::{Rng, RngExt};
use timed::Timed;

/// Fields with values, both byte strings, in no particular order.
///
/// A small hash is packed; the complexities given here are those of large ones. Values of a large
/// hash may be in cold tiers, each separately. Only the [lent](super::Parted::lend) ones can be
/// read then.
///
/// Fields may expire. Most methods do not see expired fields, which stay until
/// [`take_due`](Hash::take_due). The time that decides this is set by [`at`](Hash::at).
pub struct Hash<A: Allocator> {
    form: Form<A>,
}

enum Form<A: Allocator> {
    /// Fields and values alternating.
    Small(Packed<A>),
    Large(Box<Table<A>, A>),
    /// Either of the other forms, and the times at which some fields expire.
    Timed(Box<Timed<A>, A>),
}

// Hashes without times must not pay memory for those with times.
const _: () = assert!(size_of::<Form<Heap>>() == size_of::<Packed<Heap>>());

/// The tags of the forms of a frozen hash.
const SMALL: u8 = 0;
const LARGE: u8 = 1;
const TIMED: u8 = 2;

impl<A: Allocator + Clone> Hash<A> {
    /// Creates an empty hash.
    pub fn new_in(heap: A) -> Self {
        Hash {
            form: Form::Small(Packed::new_in(heap)),
        }
    }

    /// Returns the number of fields, including those that are not seen.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Small(packed) => packed.len() / 2,
            Form::Large(table) => table.len(),
            Form::Timed(timed) => timed.fields.len(),
        }
    }

    /// Returns true if there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of the form: `listpack` or `hashtable`, and `listpackex` for a packed hash
    /// with fields that expire, as in Redis.
    pub fn encoding(&self) -> &'static str {
        match &self.form {
            Form::Small(_) => "listpack",
            Form::Large(_) => "hashtable",
            Form::Timed(timed) => match &timed.fields.form {
                Form::Small(_) => "listpackex",
                _ => "hashtable",
            },
        }
    }

    /// Returns the bytes taken from the heap, in constant time.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Small(packed) => packed.memory_bytes(),
            Form::Large(table) => size_of::<Table<A>>() + table.memory_bytes(),
            Form::Timed(timed) => timed.memory_bytes(),
        }
    }

    /// Creates a copy that takes its memory from `heap`. A cursor of a scan stays valid.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Hash<B> {
        Hash {
            form: match &self.form {
                Form::Small(packed) => Form::Small(packed.rebuild_in(heap)),
                Form::Large(table) => {
                    Form::Large(Box::new_in(table.rebuild_in(heap.clone()), heap))
                }
                Form::Timed(timed) => {
                    Form::Timed(Box::new_in(timed.rebuild_in(heap.clone()), heap))
                }
            },
        }
    }

    /// Appends the hash as [`thaw`](Hash::thaw) reads it: a byte for its form, and its content.
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
            Form::Timed(timed) => {
                out.push(TIMED);
                timed.freeze(out);
            }
        }
    }

    /// Reads a frozen hash.
    pub(super) fn thaw(source: &mut Source<'_>, heap: A) -> Option<Self> {
        let form = match source.byte()? {
            SMALL => {
                let packed = Packed::thaw(source, heap)?;
                Form::Small(Some(packed).filter(|it| it.len().is_multiple_of(2))?)
            }
            LARGE => Form::Large(Box::new_in(Table::thaw(source, heap.clone())?, heap)),
            TIMED => Form::Timed(Box::new_in(Timed::thaw(source, heap.clone())?, heap)),
            _ => return None,
        };
        Some(Hash { form })
    }

    /// Returns the value of `field`. Expected constant time, like all operations on one field.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.form {
            Form::Small(packed) => packed.find_pair(field).map(|(_, value)| value),
            Form::Large(table) => table.get(field),
            Form::Timed(timed) if timed.sees(field) => timed.fields.get(field),
            Form::Timed(_) => None,
        }
    }

    /// Returns the length of `field`'s value in bytes.
    pub fn value_len(&self, field: &[u8]) -> Option<usize> {
        match &self.form {
            Form::Small(packed) => packed.find_pair(field).map(|(_, value)| value.len()),
            Form::Large(table) => table.find(field).map(|id| table.value_len(id)),
            Form::Timed(timed) if timed.sees(field) => timed.fields.value_len(field),
            Form::Timed(_) => None,
        }
    }

    /// Returns true if `field` has a value.
    pub fn contains(&self, field: &[u8]) -> bool {
        match &self.form {
            Form::Small(packed) => packed.find_pair(field).is_some(),
            Form::Large(table) => table.find(field).is_some(),
            Form::Timed(timed) => timed.sees(field) && timed.fields.contains(field),
        }
    }

    /// Sets the value of `field`, which then never expires. Returns true if it had no value before.
    pub fn set(&mut self, limits: &Limits, field: &[u8], value: &[u8]) -> bool {
        let is_new = self.set_value(limits, field, value);
        self.forget_time(field);
        is_new
    }

    /// Sets the value of `field` like [`set`](Hash::set), but keeps the time at which the field
    /// expires.
    pub fn set_value(&mut self, limits: &Limits, field: &[u8], value: &[u8]) -> bool {
        if let Form::Timed(timed) = &mut self.form {
            return timed.fields.set_value(limits, field, value);
        }
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

    /// Returns the table of the large form, to which the hash is converted if necessary.
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
            Form::Timed(timed) => timed.fields.table(),
            Form::Small(_) => unreachable!("the form has just been made large"),
        }
    }

    /// Removes `field`. Returns true if it had a value.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.forget_time(field);
        match &mut self.form {
            Form::Timed(timed) => timed.fields.remove(field),
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

    /// Returns all fields and values.
    pub fn iter(&self) -> Fields<'_, A> {
        let (form, timed) = self.parts();
        let walk = match form {
            Form::Large(table) => Walk::Large(table, table.iter()),
            Form::Small(packed) => Walk::Small(packed.pairs()),
            Form::Timed(_) => unreachable!("what is beside times has none"),
        };
        Fields { walk, timed }
    }

    /// Returns the form that has the fields, and the times if some fields are not seen.
    fn parts(&self) -> (&Form<A>, Option<&Timed<A>>) {
        match &self.form {
            Form::Timed(timed) => {
                let says = Some(&**timed).filter(|timed| timed.over() > 0);
                (&timed.fields.form, says)
            }
            form => (form, None),
        }
    }

    /// Returns all fields, in the order of [`iter`](Hash::iter).
    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let (form, timed) = self.parts();
        let (packed, table) = match form {
            Form::Small(packed) => (Some(packed), None),
            Form::Large(table) => (None, Some(table)),
            Form::Timed(_) => (None, None),
        };
        let packed = packed.into_iter().flat_map(Packed::pairs);
        let table = table.into_iter().flat_map(|table| {
            let key = |id| table.key(id);
            table.iter().map(key)
        });
        let is_seen = move |field: &&[u8]| timed.is_none_or(|timed| timed.sees(field));
        packed
            .map(|(_, field, _)| field)
            .chain(table)
            .filter(is_seen)
    }

    /// Returns a random field, all with equal probability. Linear while there are some that are not
    /// seen.
    pub fn random_field(&self, random: &mut impl Rng) -> Option<&[u8]> {
        match &self.form {
            Form::Small(_) => self.random(random).map(|(field, _)| field),
            Form::Large(table) => table.random(random).map(|id| table.key(id)),
            Form::Timed(timed) if timed.over() == 0 => timed.fields.random_field(random),
            Form::Timed(_) => self.fields().nth(self.seen_index(random)?),
        }
    }

    /// Returns a random index among the fields that are seen; `None` if there are none.
    fn seen_index(&self, random: &mut impl Rng) -> Option<usize> {
        let count = self.seen_len();
        let index = (count > 0).then(|| random.random_range(0..count))?;
        steps::count(index);
        Some(index)
    }

    /// Passes all fields, values and the times at which fields expire to `visit`, including those
    /// that are not seen. One value in a cold tier is in memory at a time.
    ///
    /// # Errors
    /// The error of `visit`, or a value cannot be read.
    pub fn visit<E>(
        &self,
        unread: impl Fn(Unread) -> E,
        mut visit: impl FnMut(&[u8], &[u8], Option<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let form = match &self.form {
            Form::Timed(timed) => &timed.fields.form,
            form => form,
        };
        let mut visit = |field: &[u8], value: &[u8]| visit(field, value, self.expires_at_ms(field));
        match form {
            Form::Small(packed) => packed
                .pairs()
                .try_for_each(|(_, field, value)| visit(field, value)),
            Form::Large(table) => table.iter().try_for_each(|id| {
                table.visit_value(id, &unread, |value| visit(table.key(id), value))
            }),
            Form::Timed(_) => Ok(()),
        }
    }

    /// Returns a random field, all with equal probability, and its value.
    pub fn random(&self, random: &mut impl Rng) -> Option<(&[u8], &[u8])> {
        match &self.form {
            Form::Small(packed) if packed.is_empty() => None,
            Form::Small(packed) => {
                let index = random.random_range(0..packed.len() / 2);
                let mut pairs = packed.pairs_between(index, index + 1);
                pairs.next().map(|(_, field, value)| (field, value))
            }
            Form::Large(table) => table.random(random).map(|id| table.pair(id)),
            Form::Timed(timed) if timed.over() == 0 => timed.fields.random(random),
            Form::Timed(_) => self.iter().nth(self.seen_index(random)?),
        }
    }

    /// Visits about `count` fields and returns the next cursor; 0 begins and ends an iteration. A
    /// field that is present during the whole iteration is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8], &[u8])) -> u64 {
        let (form, timed) = self.parts();
        let mut visit = |field: &[u8], value: &[u8]| {
            if timed.is_none_or(|timed| timed.sees(field)) {
                visit(field, value);
            }
        };
        match form {
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
            Form::Timed(_) => 0,
        }
    }

    /// Visits fields like [`scan`](Hash::scan), without their values.
    pub fn scan_fields(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8])) -> u64 {
        let (form, timed) = self.parts();
        let mut visit = |field: &[u8]| {
            if timed.is_none_or(|timed| timed.sees(field)) {
                visit(field);
            }
        };
        match form {
            Form::Small(_) => self.scan(cursor, count, |field, _| visit(field)),
            Form::Large(table) => table.scan(cursor, count, |id| visit(table.key(id))),
            Form::Timed(_) => 0,
        }
    }

    fn large(&self) -> Option<&Table<A>> {
        match &self.form {
            Form::Small(_) => None,
            Form::Large(table) => Some(table),
            Form::Timed(timed) => timed.fields.large(),
        }
    }

    fn large_mut(&mut self) -> Option<&mut Table<A>> {
        match &mut self.form {
            Form::Small(_) => None,
            Form::Large(table) => Some(table),
            Form::Timed(timed) => timed.fields.large_mut(),
        }
    }

    /// Returns true if it is large, so that its values may be in several tiers.
    #[inline]
    pub fn has_nodes(&self) -> bool {
        self.large().is_some()
    }

    /// Panics unless the parts agree. For tests.
    pub fn check_invariants(&self) {
        match &self.form {
            Form::Small(packed) => packed.check_invariants(),
            Form::Large(table) => table.check_invariants(),
            Form::Timed(timed) => timed.check_invariants(),
        }
    }
}

/// Fields and values of a [`Hash`](struct@Hash).
pub struct Fields<'a, A: Allocator> {
    walk: Walk<'a, A>,
    /// The times that decide which fields are seen, if not all are.
    timed: Option<&'a Timed<A>>,
}

enum Walk<'a, A: Allocator> {
    Small(Pairs<'a>),
    Large(&'a Table<A>, Ids<'a>),
}

impl<'a, A: Allocator + Clone> Iterator for Fields<'a, A> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (field, value) = match &mut self.walk {
                Walk::Small(pairs) => pairs.next().map(|(_, field, value)| (field, value)),
                Walk::Large(table, ids) => ids.next().map(|id| table.pair(id)),
            }?;
            if self.timed.is_none_or(|timed| timed.sees(field)) {
                return Some((field, value));
            }
        }
    }
}
