//! Hashes: fields with values.

mod due;
mod nodes;
#[cfg(test)]
mod tests;
mod timed;

pub use due::{DueNote, FieldNote, FieldNotes};
pub use timed::FIELD_TIME_MS_MAX;

use super::ObjectLimits;
use super::frozen::FrozenReader;
use super::node::ColdNodeError;
use super::packed::{PackedStrings, Pairs};
use super::table::{ByteStringTable, Ids};
use crate::steps;
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use nearfield_tiers::AccountedHeap;
use rand::{Rng, RngExt};
use timed::TimedHash;

/// Fields with values, both byte strings, in no particular order.
///
/// A small hash is packed; the complexities given here are those of large ones. Values of a large
/// hash may be in cold tiers, each separately. Only the [lent](super::TieredObject::lend) ones can
/// be read then.
///
/// Fields may expire. Most methods do not see expired fields, which stay until
/// [`take_due`](Hash::take_due). The time that decides this is set by [`at`](Hash::at).
pub struct Hash<A: Allocator = AccountedHeap> {
    form: HashForm<A>,
}

enum HashForm<A: Allocator> {
    /// Fields and values alternating.
    Small(PackedStrings<A>),
    Large(Box<ByteStringTable<A>, A>),
    /// Either of the other forms, and the times at which some fields expire.
    Timed(Box<TimedHash<A>, A>),
}

// Hashes without times must not pay memory for those with times.
const _: () =
    assert!(size_of::<HashForm<AccountedHeap>>() == size_of::<PackedStrings<AccountedHeap>>());

/// The tags of the forms of a frozen hash.
const SMALL: u8 = 0;
const LARGE: u8 = 1;
const TIMED: u8 = 2;

impl<A: Allocator + Clone> Hash<A> {
    /// Creates an empty hash.
    pub fn new_in(heap: A) -> Self {
        Hash {
            form: HashForm::Small(PackedStrings::new_in(heap)),
        }
    }

    /// Returns the number of fields, including those that are not seen.
    pub fn len(&self) -> usize {
        match &self.form {
            HashForm::Small(packed) => packed.len() / 2,
            HashForm::Large(table) => table.len(),
            HashForm::Timed(timed) => timed.fields.len(),
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
            HashForm::Small(_) => "listpack",
            HashForm::Large(_) => "hashtable",
            HashForm::Timed(timed) => match &timed.fields.form {
                HashForm::Small(_) => "listpackex",
                _ => "hashtable",
            },
        }
    }

    /// Returns the bytes taken from the heap, in constant time.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            HashForm::Small(packed) => packed.memory_bytes(),
            HashForm::Large(table) => size_of::<ByteStringTable<A>>() + table.memory_bytes(),
            HashForm::Timed(timed) => timed.memory_bytes(),
        }
    }

    /// Creates a copy that takes its memory from `heap`. A cursor of a scan stays valid.
    pub fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Hash<B> {
        Hash {
            form: match &self.form {
                HashForm::Small(packed) => HashForm::Small(packed.rebuild_in(heap)),
                HashForm::Large(table) => {
                    HashForm::Large(Box::new_in(table.rebuild_in(heap.clone()), heap))
                }
                HashForm::Timed(timed) => {
                    HashForm::Timed(Box::new_in(timed.rebuild_in(heap.clone()), heap))
                }
            },
        }
    }

    /// Appends the hash as [`thaw`](Hash::thaw) reads it: a byte for its form, and its content.
    pub(super) fn freeze(&self, out: &mut Vec<u8>) {
        match &self.form {
            HashForm::Small(packed) => {
                out.push(SMALL);
                packed.freeze(out);
            }
            HashForm::Large(table) => {
                out.push(LARGE);
                table.freeze(out);
            }
            HashForm::Timed(timed) => {
                out.push(TIMED);
                timed.freeze(out);
            }
        }
    }

    /// Reads a frozen hash.
    pub(super) fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let form = match source.byte()? {
            TIMED => HashForm::Timed(Box::new_in(TimedHash::thaw(source, heap.clone())?, heap)),
            form => return Hash::thaw_untimed(form, source, heap),
        };
        Some(Hash { form })
    }

    /// Reads a frozen hash of a form without times.
    fn thaw_untimed(form: u8, source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let form = match form {
            SMALL => {
                let packed = PackedStrings::thaw(source, heap)?;
                // Each field needs its value.
                HashForm::Small(Some(packed).filter(|it| it.len().is_multiple_of(2))?)
            }
            LARGE => HashForm::Large(Box::new_in(
                ByteStringTable::thaw(source, heap.clone())?,
                heap,
            )),
            _ => return None,
        };
        Some(Hash { form })
    }

    /// Returns the value of `field`. Expected constant time, like all operations on one field.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.form {
            HashForm::Small(packed) => packed.find_pair(field).map(|(_, value)| value),
            HashForm::Large(table) => table.get(field),
            HashForm::Timed(timed) if timed.sees(field) => timed.fields.get(field),
            HashForm::Timed(_) => None,
        }
    }

    /// Returns the length of `field`'s value in bytes.
    pub fn value_len(&self, field: &[u8]) -> Option<usize> {
        match &self.form {
            HashForm::Small(packed) => packed.find_pair(field).map(|(_, value)| value.len()),
            HashForm::Large(table) => table.find(field).map(|id| table.value_len(id)),
            HashForm::Timed(timed) if timed.sees(field) => timed.fields.value_len(field),
            HashForm::Timed(_) => None,
        }
    }

    /// Returns true if `field` has a value.
    pub fn contains(&self, field: &[u8]) -> bool {
        match &self.form {
            HashForm::Small(packed) => packed.find_pair(field).is_some(),
            HashForm::Large(table) => table.find(field).is_some(),
            HashForm::Timed(timed) => timed.sees(field) && timed.fields.contains(field),
        }
    }

    /// Sets the value of `field`, which then never expires. Returns true if it had no value before.
    pub fn set(&mut self, limits: &ObjectLimits, field: &[u8], value: &[u8]) -> bool {
        let is_new = self.set_value(limits, field, value);
        self.forget_time(field);
        is_new
    }

    /// Sets the value of `field` like [`set`](Hash::set), but keeps the time at which the field
    /// expires.
    pub fn set_value(&mut self, limits: &ObjectLimits, field: &[u8], value: &[u8]) -> bool {
        // The inner hash has no times, which ends the recursion.
        if let HashForm::Timed(timed) = &mut self.form {
            return timed.fields.set_value(limits, field, value);
        }
        // A long value makes the hash large even if it replaces another one, as in Redis.
        let is_small = field.len().max(value.len()) <= limits.hash_bytes_max;
        if let HashForm::Small(packed) = &mut self.form
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
    fn table(&mut self) -> &mut ByteStringTable<A> {
        if let HashForm::Small(packed) = &self.form {
            let mut table = ByteStringTable::new_in(packed.heap().clone());
            for (_, field, value) in packed.pairs() {
                table.insert(field, value);
            }
            let heap = packed.heap().clone();
            self.form = HashForm::Large(Box::new_in(table, heap));
        }
        match &mut self.form {
            HashForm::Large(table) => table,
            HashForm::Timed(timed) => timed.fields.table(),
            HashForm::Small(_) => unreachable!("the form has just been made large"),
        }
    }

    /// Removes `field`. Returns true if it had a value.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        // First, because it may change the form.
        self.forget_time(field);
        match &mut self.form {
            HashForm::Timed(timed) => timed.fields.remove(field),
            HashForm::Large(table) => table.remove(field),
            HashForm::Small(packed) => match packed.find_pair(field) {
                None => false,
                Some((position, _)) => {
                    packed.remove(position, 2);
                    true
                }
            },
        }
    }

    /// Returns all fields and values.
    pub fn iter(&self) -> HashFields<'_, A> {
        let (form, timed) = self.parts();
        let walk = match form {
            HashForm::Large(table) => HashWalk::Large(table, table.iter()),
            HashForm::Small(packed) => HashWalk::Small(packed.pairs()),
            HashForm::Timed(_) => {
                unreachable!("the fields of a timed hash have no times themselves")
            }
        };
        HashFields { walk, timed }
    }

    /// Returns the form that has the fields, and the times if some fields are not seen.
    fn parts(&self) -> (&HashForm<A>, Option<&TimedHash<A>>) {
        match &self.form {
            HashForm::Timed(timed) => {
                // If all fields are seen, no time needs to be looked up.
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
            HashForm::Small(packed) => (Some(packed), None),
            HashForm::Large(table) => (None, Some(table)),
            HashForm::Timed(_) => (None, None),
        };
        let packed = packed.into_iter().flat_map(PackedStrings::pairs);
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
            HashForm::Small(_) => self.random(random).map(|(field, _)| field),
            HashForm::Large(table) => table.random(random).map(|id| table.key(id)),
            HashForm::Timed(timed) if timed.over() == 0 => timed.fields.random_field(random),
            // Only a walk finds the field of an index among those that are seen.
            HashForm::Timed(_) => self.fields().nth(self.seen_index(random)?),
        }
    }

    /// Returns a random index among the fields that are seen; `None` if there are none.
    fn seen_index(&self, random: &mut impl Rng) -> Option<usize> {
        let count = self.visible_count();
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
        unread: impl Fn(ColdNodeError) -> E,
        mut visit: impl FnMut(&[u8], &[u8], Option<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let form = match &self.form {
            HashForm::Timed(timed) => &timed.fields.form,
            form => form,
        };
        let mut visit = |field: &[u8], value: &[u8]| visit(field, value, self.expires_at_ms(field));
        match form {
            HashForm::Small(packed) => packed
                .pairs()
                .try_for_each(|(_, field, value)| visit(field, value)),
            HashForm::Large(table) => table.iter().try_for_each(|id| {
                table.visit_value(id, &unread, |value| visit(table.key(id), value))
            }),
            HashForm::Timed(_) => Ok(()),
        }
    }

    /// Returns a random field, all with equal probability, and its value.
    pub fn random(&self, random: &mut impl Rng) -> Option<(&[u8], &[u8])> {
        match &self.form {
            HashForm::Small(packed) if packed.is_empty() => None,
            HashForm::Small(packed) => {
                let index = random.random_range(0..packed.len() / 2);
                let mut pairs = packed.pairs_between(index, index + 1);
                pairs.next().map(|(_, field, value)| (field, value))
            }
            HashForm::Large(table) => table.random(random).map(|id| table.pair(id)),
            HashForm::Timed(timed) if timed.over() == 0 => timed.fields.random(random),
            HashForm::Timed(_) => self.iter().nth(self.seen_index(random)?),
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
            HashForm::Small(packed) => {
                // As in Redis, a packed object is visited in one step.
                for (_, field, value) in packed.pairs() {
                    visit(field, value);
                }
                0
            }
            HashForm::Large(table) => table.scan(cursor, count, |id| {
                let (field, value) = table.pair(id);
                visit(field, value);
            }),
            HashForm::Timed(_) => 0,
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
            HashForm::Small(_) => self.scan(cursor, count, |field, _| visit(field)),
            HashForm::Large(table) => table.scan(cursor, count, |id| visit(table.key(id))),
            HashForm::Timed(_) => 0,
        }
    }

    fn large(&self) -> Option<&ByteStringTable<A>> {
        match &self.form {
            HashForm::Small(_) => None,
            HashForm::Large(table) => Some(table),
            HashForm::Timed(timed) => timed.fields.large(),
        }
    }

    fn large_mut(&mut self) -> Option<&mut ByteStringTable<A>> {
        match &mut self.form {
            HashForm::Small(_) => None,
            HashForm::Large(table) => Some(table),
            HashForm::Timed(timed) => timed.fields.large_mut(),
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
            HashForm::Small(packed) => packed.check_invariants(),
            HashForm::Large(table) => table.check_invariants(),
            HashForm::Timed(timed) => timed.check_invariants(),
        }
    }
}

/// Fields and values of a [`Hash`](struct@Hash).
pub struct HashFields<'a, A: Allocator> {
    walk: HashWalk<'a, A>,
    /// The times that decide which fields are seen, if not all are.
    timed: Option<&'a TimedHash<A>>,
}

enum HashWalk<'a, A: Allocator> {
    Small(Pairs<'a>),
    Large(&'a ByteStringTable<A>, Ids<'a>),
}

impl<'a, A: Allocator + Clone> Iterator for HashFields<'a, A> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (field, value) = match &mut self.walk {
                HashWalk::Small(pairs) => pairs.next().map(|(_, field, value)| (field, value)),
                HashWalk::Large(table, ids) => ids.next().map(|id| table.pair(id)),
            }?;
            if self.timed.is_none_or(|timed| timed.sees(field)) {
                return Some((field, value));
            }
        }
    }
}
