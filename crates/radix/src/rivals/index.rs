//! A rival as an index, which executes batches operation by operation.

use super::design::Design;
use super::leaf::RivalForm;
use crate::change::Change;
use crate::counters::{Counters, Off, Probe};
use crossbeam_epoch::Guard;
use nearfield_core::{Batch, Direction, Error, Input, Operation, OrderedIndex, Output};
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

/// Number of operations after which the thread releases its epoch for a moment.
const OPERATIONS_A_PIN: usize = 256;

/// A design of a rival, as an index that threads share.
#[derive(Debug)]
pub struct Rival<F, D> {
    tree: D,
    form: PhantomData<fn() -> F>,
}

impl<F: RivalForm, D: Design<F>> Default for Rival<F, D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: RivalForm, D: Design<F>> Rival<F, D> {
    /// Creates an empty index.
    pub fn new() -> Self {
        Rival {
            tree: D::default(),
            form: PhantomData,
        }
    }

    /// Executes a batch as [`execute`](OrderedIndex::execute) does, and counts its accesses.
    ///
    /// # Errors
    /// Those of [`execute`](OrderedIndex::execute).
    ///
    /// ```
    /// use nearfield_core::{Batch, Words};
    /// use nearfield_radix::Counters;
    /// use nearfield_radix::rivals::Art;
    ///
    /// let index = Art::<Words>::new();
    /// let mut batch = Batch::new();
    /// batch.insert(1, 10);
    /// batch.get(1);
    /// let mut counters = Counters::default();
    /// index.execute_counted(&mut batch, &mut counters)?;
    /// // Both decide at the root, and the get compares the leaf.
    /// assert_eq!((counters.partial_key_matches, counters.leaves), (2, 1));
    /// # Ok::<(), nearfield_core::Error>(())
    /// ```
    pub fn execute_counted(
        &self,
        batch: &mut Batch<F>,
        counters: &mut Counters,
    ) -> Result<(), Error> {
        self.execute_probed(batch, counters)
    }

    /// Executes a batch as [`execute`](OrderedIndex::execute) does, and reports its events to a
    /// probe.
    ///
    /// # Errors
    /// Those of [`execute`](OrderedIndex::execute).
    pub fn execute_probed(
        &self,
        batch: &mut Batch<F>,
        probe: &mut impl Probe,
    ) -> Result<(), Error> {
        let (input, mut output) = batch.begin()?;
        let mut guard = crossbeam_epoch::pin();
        for position in 0..input.operations().len() {
            if position % OPERATIONS_A_PIN == OPERATIONS_A_PIN - 1 {
                guard.repin();
            }
            probe.operation(position);
            self.operation(&input, &mut output, position, &guard, probe);
        }
        Ok(())
    }

    /// Passes the value of a key to `read` and returns the result; `None` if the key is absent. The
    /// thread is already pinned.
    #[inline]
    pub fn read_pinned<R>(
        &self,
        guard: &Guard,
        key: F::Key<'_>,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        self.tree.read(key, guard, &mut Off, read)
    }

    /// Sets the value of a key; if `only_present` is true, only if it has one. Returns true if it
    /// had one. The thread is already pinned.
    #[inline]
    pub fn set_pinned(
        &self,
        guard: &Guard,
        key: F::Key<'_>,
        value: F::Value<'_>,
        only_present: bool,
    ) -> bool {
        let mut present = false;
        self.tree.modify(key, guard, &mut Off, &mut |before| {
            present = before.is_some();
            match present || !only_present {
                true => Change::Set(value),
                false => Change::Keep,
            }
        });
        present
    }

    /// Removes a key; returns true if it was present. The thread is already pinned.
    #[inline]
    pub fn remove_pinned(&self, guard: &Guard, key: F::Key<'_>) -> bool {
        let mut present = false;
        self.tree.modify(key, guard, &mut Off, &mut |before| {
            present = before.is_some();
            Change::Remove
        });
        present
    }

    /// Calls `visit` with the values of the first `limit` keys at or above `from`; returns their
    /// number. The thread is already pinned.
    pub fn scan_pinned(
        &self,
        guard: &Guard,
        from: F::Key<'_>,
        limit: usize,
        mut visit: impl FnMut(F::Value<'_>),
    ) -> usize {
        let from = F::bytes(from);
        let mut count = 0;
        if limit > 0 {
            let from = Bound::Included(from.as_ref());
            let next = |leaf: super::Leaf<'_, F>| {
                visit(leaf.value());
                count += 1;
                match count < limit {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            };
            self.tree
                .scan(from, Direction::Ascending, guard, &mut Off, next);
        }
        count
    }

    fn operation(
        &self,
        input: &Input<'_, F>,
        output: &mut Output<'_, F>,
        position: usize,
        guard: &Guard,
        probe: &mut impl Probe,
    ) {
        match input.operations()[position] {
            Operation::Get { key } => {
                let key = input.key(key);
                let found = self.tree.read(key, guard, probe, |value| {
                    output.value(position, key, Some(value));
                });
                if found.is_none() {
                    output.value(position, key, None);
                }
            }
            Operation::Insert { key, value } => {
                let (key, value) = (input.key(key), input.value(value));
                self.tree.modify(key, guard, probe, &mut |before| {
                    output.replaced(position, key, before);
                    Change::Set(value)
                });
            }
            Operation::Remove { key } => {
                let key = input.key(key);
                self.tree.modify(key, guard, probe, &mut |before| {
                    output.replaced(position, key, before);
                    Change::Remove
                });
            }
            Operation::Update {
                key,
                value,
                previous,
            } => {
                let (key, value) = (input.key(key), input.value(value));
                let previous = input.previous(previous);
                let change = Change::Set(value);
                self.change_if(output, position, key, previous, change, guard, probe);
            }
            Operation::RemoveIf { key, previous } => {
                let (key, previous) = (input.key(key), input.previous(previous));
                let change = Change::Remove;
                self.change_if(output, position, key, previous, change, guard, probe);
            }
            Operation::Predecessor { key } => {
                let key = F::bytes(input.key(key));
                let from = Bound::Included(key.as_ref());
                self.nearest(output, position, from, Direction::Descending, guard, probe);
            }
            Operation::Successor { key } => {
                let key = F::bytes(input.key(key));
                let from = Bound::Included(key.as_ref());
                self.nearest(output, position, from, Direction::Ascending, guard, probe);
            }
            Operation::Scan {
                range,
                limit,
                direction,
            } => {
                let (low, high) = input.range(range);
                let (low, high) = (low.map(F::bytes), high.map(F::bytes));
                let (from, to) = match direction {
                    Direction::Ascending => (&low, &high),
                    Direction::Descending => (&high, &low),
                };
                let from = from.as_ref().map(AsRef::as_ref);
                let to = to.as_ref().map(AsRef::as_ref);
                let mut writer = output.begin_entries(position);
                if limit > 0 {
                    self.tree.scan(from, direction, guard, probe, |leaf| {
                        if is_behind(leaf.key(), to, direction) {
                            return ControlFlow::Break(());
                        }
                        writer.push(F::key_of(leaf.key()), leaf.value())?;
                        match writer.count() < limit as usize {
                            true => ControlFlow::Continue(()),
                            false => ControlFlow::Break(()),
                        }
                    });
                }
                writer.finish();
            }
            Operation::Refused => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one operation")]
    fn change_if(
        &self,
        output: &mut Output<'_, F>,
        position: usize,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        change: Change<F::Value<'_>>,
        guard: &Guard,
        probe: &mut impl Probe,
    ) {
        self.tree.modify(key, guard, probe, &mut |before| {
            let applied = before.map(F::shorten_value) == previous.map(F::shorten_value);
            output.updated(position, key, applied, before);
            match applied {
                true => change,
                false => Change::Keep,
            }
        });
    }

    /// Writes the first entry that is not before a bound.
    fn nearest(
        &self,
        output: &mut Output<'_, F>,
        position: usize,
        from: Bound<&[u8]>,
        direction: Direction,
        guard: &Guard,
        probe: &mut impl Probe,
    ) {
        let mut found = false;
        self.tree.scan(from, direction, guard, probe, |leaf| {
            output.entry(position, Some((F::key_of(leaf.key()), leaf.value())));
            found = true;
            ControlFlow::Break(())
        });
        if !found {
            output.entry(position, None);
        }
    }
}

/// Returns true if a key is beyond the bound at which a scan ends.
fn is_behind(key: &[u8], to: Bound<&[u8]>, direction: Direction) -> bool {
    match (to, direction) {
        (Bound::Unbounded, _) => false,
        (Bound::Included(to), Direction::Ascending) => key > to,
        (Bound::Excluded(to), Direction::Ascending) => key >= to,
        (Bound::Included(to), Direction::Descending) => key < to,
        (Bound::Excluded(to), Direction::Descending) => key <= to,
    }
}

impl<F: RivalForm, D: Design<F>> OrderedIndex<F> for Rival<F, D> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        self.execute_probed(batch, &mut Off)
    }

    fn len(&self) -> usize {
        self.tree.entries()
    }

    fn check_invariants(&self) {
        self.tree.check_invariants();
    }

    fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        F::check(key, None)?;
        let guard = crossbeam_epoch::pin();
        Ok(self.read_pinned(&guard, key, F::own_value))
    }
}
