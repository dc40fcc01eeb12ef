//! Hashes with fields that expire. The times are stored apart from the fields, so that other hashes
//! take no more memory, and a field without a time takes no more in one of these.

use super::due::{FieldNote, FieldNotes};
use super::{Hash, HashForm, ObjectLimits};
use crate::object::frozen::FrozenReader;
use crate::object::packed::PackedStrings;
use crate::object::sorted_set::SortedSet;
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use std::ops::Bound;
use std::sync::Arc;

/// The last time at which a field may expire, in milliseconds since 1970, as in Redis.
/// Floating-point numbers represent all times up to it exactly.
pub const FIELD_TIME_MS_MAX: u64 = (1 << 46) - 1;

/// Fields and values, and the times at which some of the fields expire.
pub(super) struct TimedHash<A: Allocator> {
    /// All fields, including expired ones. This hash itself has no times.
    pub(super) fields: Hash<A>,
    /// The fields that expire, at least one, with their times.
    times: SortedSet<A>,
    /// The current time: fields whose time is not after it are not seen.
    now_ms: u64,
    note: Option<FieldNote>,
}

impl<A: Allocator + Clone> TimedHash<A> {
    /// Returns the bytes taken from the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<TimedHash<A>>() + self.fields.memory_bytes() + self.times.memory_bytes()
    }

    /// Creates a copy, which has no note.
    pub(super) fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> TimedHash<B> {
        TimedHash {
            fields: self.fields.rebuild_in(heap.clone()),
            times: self.times.rebuild_in(heap),
            now_ms: self.now_ms,
            note: None,
        }
    }

    pub(super) fn freeze(&self, out: &mut Vec<u8>) {
        self.fields.freeze(out);
        self.times.freeze(out);
    }

    pub(super) fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        // A form with times is refused before it is read: bytes of a hostile file would nest such
        // forms until the stack ends.
        let form = source.byte()?;
        let fields = Hash::thaw_untimed(form, source, heap.clone())?;
        let times = SortedSet::thaw(source, heap)?;
        let is_time = |time: f64| time.fract() == 0.0 && (0.0..=MAX).contains(&time);
        let fits = |(field, time): (&[u8], f64)| is_time(time) && fields.contains(field);
        let is_good = !times.is_empty() && times.iter().all(fits);
        is_good.then_some(TimedHash {
            fields,
            times,
            // Each command sets its time before it reads.
            now_ms: 0,
            note: None,
        })
    }

    /// Returns the time at which the first field expires.
    fn soonest_ms(&self) -> Option<u64> {
        self.times.by_rank(0).map(|(_, time)| time as u64)
    }

    /// Returns the number of fields that are not seen.
    pub(super) fn over(&self) -> usize {
        // Usually no field has expired, and the first time decides.
        if self
            .soonest_ms()
            .is_none_or(|soonest| soonest > self.now_ms)
        {
            return 0;
        }
        let until = Bound::Included(self.now_ms as f64);
        self.times.score_ranks(Bound::Unbounded, until).len()
    }

    /// Returns false for an expired field.
    pub(super) fn sees(&self, field: &[u8]) -> bool {
        self.expires_at_ms(field)
            .is_none_or(|time| time > self.now_ms)
    }

    fn expires_at_ms(&self, field: &[u8]) -> Option<u64> {
        self.times.score(field).map(|time| time as u64)
    }

    /// Panics unless the parts agree.
    pub(super) fn check_invariants(&self) {
        assert!(!matches!(self.fields.form, HashForm::Timed(_)));
        self.fields.check_invariants();
        self.times.check_invariants();
        assert!(!self.times.is_empty());
        for (field, time) in self.times.iter() {
            assert!(self.fields.contains(field) && time.fract() == 0.0);
        }
    }
}

const MAX: f64 = FIELD_TIME_MS_MAX as f64;

/// The methods of a hash with fields that expire.
impl<A: Allocator + Clone> Hash<A> {
    /// Returns true if there are fields that expire.
    pub fn has_times(&self) -> bool {
        matches!(self.form, HashForm::Timed(_))
    }

    /// Sets the current time. Fields whose time is not after `now_ms` are then seen only by
    /// [`len`](Hash::len), [`is_empty`](Hash::is_empty) and [`visit`](Hash::visit).
    #[inline]
    pub fn at(&mut self, now_ms: u64) {
        if let HashForm::Timed(timed) = &mut self.form {
            timed.now_ms = now_ms;
        }
    }

    /// Returns the number of fields that are seen. Logarithmic.
    pub fn visible_count(&self) -> usize {
        match &self.form {
            HashForm::Timed(timed) => self.len() - timed.over(),
            _ => self.len(),
        }
    }

    /// Returns the time at which `field` expires, in milliseconds since 1970.
    pub fn expires_at_ms(&self, field: &[u8]) -> Option<u64> {
        match &self.form {
            HashForm::Timed(timed) => timed.expires_at_ms(field),
            _ => None,
        }
    }

    /// Returns the time at which the first field expires, in milliseconds since 1970.
    pub fn soonest_ms(&self) -> Option<u64> {
        match &self.form {
            HashForm::Timed(timed) => timed.soonest_ms(),
            _ => None,
        }
    }

    /// Changes the time at which `field` expires, at most to [`FIELD_TIME_MS_MAX`]. The field must
    /// exist.
    pub fn set_time(&mut self, limits: &ObjectLimits, field: &[u8], time_ms: Option<u64>) {
        debug_assert!(self.contains(field));
        match time_ms {
            Some(time_ms) => {
                // A file may have a later time than commands accept.
                let time = time_ms.min(FIELD_TIME_MS_MAX) as f64;
                self.timed().times.insert(limits, field, time);
            }
            None => self.forget_time(field),
        }
    }

    /// Removes fields whose time is not after `now_ms`, at most `limit` of them, in the order of
    /// their times. Returns them.
    pub fn take_due(&mut self, now_ms: u64, limit: usize) -> Vec<Vec<u8>> {
        let HashForm::Timed(timed) = &mut self.form else {
            return Vec::new();
        };
        let until = Bound::Included(now_ms as f64);
        let ranks = timed.times.score_ranks(Bound::Unbounded, until);
        let ranks = ranks.start..ranks.end.min(ranks.start.saturating_add(limit));
        let due = timed.times.range(ranks, false);
        let due: Vec<Vec<u8>> = due.map(|(field, _)| field.to_vec()).collect();
        for field in &due {
            timed.times.remove(field);
            timed.fields.remove(field);
        }
        self.leave_times();
        due
    }

    /// Ensures that the hash of `key` has a note among `notes`, if any of its fields expires.
    pub fn note_in(&mut self, notes: &Arc<FieldNotes>, key: &[u8]) {
        // A note that is early enough stays: a hash whose times are prolonged pays only for them.
        if let HashForm::Timed(timed) = &mut self.form
            && let Some(soonest) = timed.soonest_ms()
            && !timed
                .note
                .as_ref()
                .is_some_and(|it| it.serves(notes, soonest))
        {
            timed.note = Some(notes.add(soonest, key));
        }
    }

    /// Removes the note of the hash.
    pub fn forget_note(&mut self) {
        if let HashForm::Timed(timed) = &mut self.form {
            timed.note = None;
        }
    }

    /// Makes `field` never expire.
    pub(super) fn forget_time(&mut self, field: &[u8]) {
        if let HashForm::Timed(timed) = &mut self.form {
            timed.times.remove(field);
            self.leave_times();
        }
    }

    /// Returns the form with times, to which the hash is converted if necessary.
    fn timed(&mut self) -> &mut TimedHash<A> {
        if !self.has_times() {
            let heap = self.heap().clone();
            let empty = HashForm::Small(PackedStrings::new_in(heap.clone()));
            let timed = TimedHash {
                fields: Hash {
                    form: std::mem::replace(&mut self.form, empty),
                },
                times: SortedSet::new_in(heap.clone()),
                now_ms: 0,
                note: None,
            };
            self.form = HashForm::Timed(Box::new_in(timed, heap));
        }
        match &mut self.form {
            HashForm::Timed(timed) => timed,
            _ => unreachable!("the form has just been converted to one with times"),
        }
    }

    /// Returns to the form without times if no field expires any more.
    fn leave_times(&mut self) {
        if !matches!(&self.form, HashForm::Timed(timed) if timed.times.is_empty()) {
            return;
        }
        // A placeholder, which takes no memory, while the form is taken out of its box.
        let empty = HashForm::Small(PackedStrings::new_in(self.heap().clone()));
        if let HashForm::Timed(timed) = std::mem::replace(&mut self.form, empty) {
            self.form = Box::into_inner(timed).fields.form;
        }
    }

    fn heap(&self) -> &A {
        match &self.form {
            HashForm::Small(packed) => packed.heap(),
            HashForm::Large(table) => Box::allocator(table),
            HashForm::Timed(timed) => Box::allocator(timed),
        }
    }
}
