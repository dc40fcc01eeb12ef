//! The rivals of DCART's paper, as [`nearfield_radix_rivals`] builds them: others' designs, though
//! not others' programs.

use crate::{PeerKey, PeerMap, PeerSession, PeerTextKey};
use crossbeam_epoch::Guard;
use nearfield_core::{ByteStrings, Words};
use nearfield_radix_rivals::{Rival, RivalDesign, RivalForm};

/// A rival of this module. `D` is the design, `F` the form of its entries.
pub struct RivalMap<F, D>(Rival<F, D>);

/// A form of entries with values that stand for numbers. Keys live as long as the program.
pub trait NumberForm: RivalForm {
    /// Calls `lend` with the form's value of a number.
    fn lend<R>(number: u64, lend: impl FnOnce(Self::Value<'_>) -> R) -> R;
    /// Returns the number of a value.
    fn number(value: Self::Value<'_>) -> u64;
}

impl NumberForm for Words {
    #[inline]
    fn lend<R>(number: u64, lend: impl FnOnce(u64) -> R) -> R {
        lend(number)
    }
    #[inline]
    fn number(value: u64) -> u64 {
        value
    }
}

impl NumberForm for ByteStrings {
    #[inline]
    fn lend<R>(number: u64, lend: impl FnOnce(&[u8]) -> R) -> R {
        // Values of all peers are numbers, so byte strings have the 8 bytes of one.
        lend(&number.to_le_bytes())
    }
    #[inline]
    fn number(value: &[u8]) -> u64 {
        debug_assert_eq!(value.len(), 8, "values are numbers");
        value
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// The form that holds the keys of the lab.
pub trait RivalSource: PeerKey {
    /// The form.
    type Form: NumberForm;
    /// Returns the key in the form.
    fn form_key(self) -> <Self::Form as nearfield_core::EntryForm>::Key<'static>;
}

impl RivalSource for u64 {
    type Form = Words;
    fn form_key(self) -> u64 {
        self
    }
}

impl RivalSource for PeerTextKey {
    type Form = ByteStrings;
    fn form_key(self) -> &'static [u8] {
        self.bytes()
    }
}

impl<S: RivalSource, D: RivalDesign<S::Form>> PeerMap<S> for RivalMap<S::Form, D> {
    type Key = <S::Form as nearfield_core::EntryForm>::Key<'static>;
    type Session<'p>
        = &'p Rival<S::Form, D>
    where
        D: 'p;

    fn new() -> Self {
        RivalMap(Rival::new())
    }

    fn key(source: S) -> Result<Self::Key, &'static str> {
        Ok(source.form_key())
    }

    fn sessions(&mut self, count: usize) -> Vec<&Rival<S::Form, D>> {
        // Rivals are shared between threads and keep no state for each.
        vec![&self.0; count]
    }
}

impl<F: NumberForm, D: RivalDesign<F>> PeerSession for &Rival<F, D> {
    type Key = F::Key<'static>;
    type Guard = Guard;

    fn pin(&self) -> Guard {
        // The rivals take the guard as an argument, so a pin serves many operations.
        crossbeam_epoch::pin()
    }

    #[inline]
    fn get(&mut self, guard: &Guard, key: Self::Key) -> Option<u64> {
        self.read_pinned(guard, key, F::number)
    }

    #[inline]
    fn insert(&mut self, guard: &Guard, key: Self::Key, value: u64) {
        F::lend(value, |value| self.set_pinned(guard, key, value, false));
    }

    #[inline]
    fn update(&mut self, guard: &Guard, key: Self::Key, value: u64) -> bool {
        F::lend(value, |value| self.set_pinned(guard, key, value, true))
    }

    #[inline]
    fn remove(&mut self, guard: &Guard, key: Self::Key) -> bool {
        self.remove_pinned(guard, key)
    }

    #[inline]
    fn scan(
        &mut self,
        guard: &Guard,
        start: Self::Key,
        limit: usize,
        mut visit: impl FnMut(u64),
    ) -> usize {
        self.scan_pinned(guard, start, limit, |value| visit(F::number(value)))
    }
}
