//! Hashes some of whose fields expire. The times lie beside the fields, so that other hashes take
//! no more memory, and a field without a time no more than in one of these.

use super::due::{FieldNote, FieldNotes};
use super::{Form, Hash, Limits};
use crate::object::frozen::Source;
use crate::object::packed::Packed;
use crate::object::sorted_set::SortedSet;
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use std::ops::Bound;
use std::sync::Arc;

/// The last time at which a field may expire, in milliseconds since 1970, as in Redis.
/// Floating-point numbers hold all times up to it.
pub const FIELD_TIME_MS_MAX: u64 = (1 << 46) - 1;

/// Fields and values, and when some of the fields expire.
pub(super) struct Timed<A: Allocator> {
    /// All fields, also those whose time is over. Not timed itself.
    pub(super) fields: Hash<A>,
    /// The fields that expire, at least one, and when.
    times: SortedSet<A>,
    /// Fields are not seen whose time is not after this one.
    now_ms: u64,
    note: Option<FieldNote>,
}

impl<A: Allocator + Clone> Timed<A> {
    /// The bytes taken from the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Timed<A>>() + self.fields.memory_bytes() + self.times.memory_bytes()
    }

    /// A copy, which has no note.
    pub(super) fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Timed<B> {
        Timed {
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

    pub(super) fn thaw(source: &mut Source<'_>, heap: A) -> Option<Self> {
        let fields = Hash::thaw(source, heap.clone())?;
        let times = SortedSet::thaw(source, heap)?;
        let is_time = |time: f64| time.fract() == 0.0 && (0.0..=MAX).contains(&time);
        let fits = |(field, time): (&[u8], f64)| is_time(time) && fields.contains(field);
        let is_good =
            !matches!(fields.form, Form::Timed(_)) && !times.is_empty() && times.iter().all(fits);
        is_good.then_some(Timed {
            fields,
            times,
            now_ms: 0,
            note: None,
        })
    }

    /// When the first field expires.
    fn soonest_ms(&self) -> Option<u64> {
        self.times.by_rank(0).map(|(_, time)| time as u64)
    }

    /// How many fields are not seen.
    pub(super) fn over(&self) -> usize {
        if self
            .soonest_ms()
            .is_none_or(|soonest| soonest > self.now_ms)
        {
            return 0;
        }
        let until = Bound::Included(self.now_ms as f64);
        self.times.score_ranks(Bound::Unbounded, until).len()
    }

    /// False of a field whose time is over.
    pub(super) fn sees(&self, field: &[u8]) -> bool {
        self.expires_at_ms(field)
            .is_none_or(|time| time > self.now_ms)
    }

    fn expires_at_ms(&self, field: &[u8]) -> Option<u64> {
        self.times.score(field).map(|time| time as u64)
    }

    /// Panics unless the parts agree.
    pub(super) fn check_invariants(&self) {
        assert!(!matches!(self.fields.form, Form::Timed(_)));
        self.fields.check_invariants();
        self.times.check_invariants();
        assert!(!self.times.is_empty());
        for (field, time) in self.times.iter() {
            assert!(self.fields.contains(field) && time.fract() == 0.0);
        }
    }
}

const MAX: f64 = FIELD_TIME_MS_MAX as f64;

/// Of a hash whose fields expire.
impl<A: Allocator + Clone> Hash<A> {
    /// True if there are fields that expire.
    pub fn has_times(&self) -> bool {
        matches!(self.form, Form::Timed(_))
    }

    /// From now on fields are not seen whose time is not after `now_ms`, but by
    /// [`len`](Hash::len), [`is_empty`](Hash::is_empty) and [`visit`](Hash::visit).
    #[inline]
    pub fn at(&mut self, now_ms: u64) {
        if let Form::Timed(timed) = &mut self.form {
            timed.now_ms = now_ms;
        }
    }

    /// The number of fields that are seen. Logarithmic.
    pub fn seen_len(&self) -> usize {
        match &self.form {
            Form::Timed(timed) => self.len() - timed.over(),
            _ => self.len(),
        }
    }

    /// When `field` expires, in milliseconds since 1970.
    pub fn expires_at_ms(&self, field: &[u8]) -> Option<u64> {
        match &self.form {
            Form::Timed(timed) => timed.expires_at_ms(field),
            _ => None,
        }
    }

    /// When the first field expires, in milliseconds since 1970.
    pub fn soonest_ms(&self) -> Option<u64> {
        match &self.form {
            Form::Timed(timed) => timed.soonest_ms(),
            _ => None,
        }
    }

    /// Changes when `field`, which has to be there, expires, at most at [`FIELD_TIME_MS_MAX`].
    pub fn set_time(&mut self, limits: &Limits, field: &[u8], time_ms: Option<u64>) {
        debug_assert!(self.contains(field));
        match time_ms {
            Some(time_ms) => {
                let time = time_ms.min(FIELD_TIME_MS_MAX) as f64;
                self.timed().times.insert(limits, field, time);
            }
            None => self.forget_time(field),
        }
    }

    /// Removes fields whose time is not after `now_ms`, at most `limit` of them, those first that
    /// expire first; answers which.
    pub fn take_due(&mut self, now_ms: u64, limit: usize) -> Vec<Vec<u8>> {
        let Form::Timed(timed) = &mut self.form else {
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

    /// Sees to it that the hash of `key` has a note among `notes`, if any of its fields expires.
    pub fn note_in(&mut self, notes: &Arc<FieldNotes>, key: &[u8]) {
        if let Form::Timed(timed) = &mut self.form
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
        if let Form::Timed(timed) = &mut self.form {
            timed.note = None;
        }
    }

    /// Has `field` never expire.
    pub(super) fn forget_time(&mut self, field: &[u8]) {
        if let Form::Timed(timed) = &mut self.form {
            timed.times.remove(field);
            self.leave_times();
        }
    }

    /// The form with times, which is taken on if need be.
    fn timed(&mut self) -> &mut Timed<A> {
        if !self.has_times() {
            let heap = self.heap().clone();
            let empty = Form::Small(Packed::new_in(heap.clone()));
            let timed = Timed {
                fields: Hash {
                    form: std::mem::replace(&mut self.form, empty),
                },
                times: SortedSet::new_in(heap.clone()),
                now_ms: 0,
                note: None,
            };
            self.form = Form::Timed(Box::new_in(timed, heap));
        }
        match &mut self.form {
            Form::Timed(timed) => timed,
            _ => unreachable!("the form has just been made one with times"),
        }
    }

    /// Leaves the form with times if no field expires any more.
    fn leave_times(&mut self) {
        if !matches!(&self.form, Form::Timed(timed) if timed.times.is_empty()) {
            return;
        }
        let empty = Form::Small(Packed::new_in(self.heap().clone()));
        if let Form::Timed(timed) = std::mem::replace(&mut self.form, empty) {
            self.form = Box::into_inner(timed).fields.form;
        }
    }

    fn heap(&self) -> &A {
        match &self.form {
            Form::Small(packed) => packed.heap(),
            Form::Large(table) => Box::allocator(table),
            Form::Timed(timed) => Box::allocator(timed),
        }
    }
}
