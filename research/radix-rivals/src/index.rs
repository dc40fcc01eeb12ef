//! A rival as an index, which executes batches operation by operation.

use super::design::RivalDesign;
use super::leaf::RivalForm;
use crossbeam_epoch::Guard;
use nearfield_core::{
    Batch, BatchInput, BatchOutput, IndexOperation, OperationError, OrderedIndex, ScanDirection,
};
use nearfield_radix::{Off, RadixCounters, RadixKeyChange, RadixProbe};
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

impl<F: RivalForm, D: RivalDesign<F>> Default for Rival<F, D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: RivalForm, D: RivalDesign<F>> Rival<F, D> {
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
    /// use nearfield_radix::RadixCounters;
    /// use nearfield_radix_rivals::Art;
    ///
    /// let index = Art::<Words>::new();
    /// let mut batch = Batch::new();
    /// batch.insert(1, 10);
    /// batch.get(1);
    /// let mut counters = RadixCounters::default();
    /// index.execute_counted(&mut batch, &mut counters)?;
    /// // Both decide at the root, and the get compares the leaf.
    /// assert_eq!((counters.partial_key_matches, counters.leaves), (2, 1));
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    pub fn execute_counted(
        &self,
        batch: &mut Batch<F>,
        counters: &mut RadixCounters,
    ) -> Result<(), OperationError> {
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
        probe: &mut impl RadixProbe,
    ) -> Result<(), OperationError> {
        let (input, mut output) = batch.begin()?;
        let mut guard = crossbeam_epoch::pin();
        for position in 0..input.operations().len() {
            if position % OPERATIONS_A_PIN == OPERATIONS_A_PIN - 1 {
                // A long batch would otherwise keep all memory that others retire meanwhile.
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
                true => RadixKeyChange::Set(value),
                false => RadixKeyChange::Keep,
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
            RadixKeyChange::Remove
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
        // The walk visits an entry before it can be stopped.
        if limit > 0 {
            let from = Bound::Included(from.as_ref());
            let next = |leaf: super::RivalLeaf<'_, F>| {
                visit(leaf.value());
                count += 1;
                match count < limit {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            };
            self.tree
                .scan(from, ScanDirection::Ascending, guard, &mut Off, next);
        }
        count
    }

    fn operation(
        &self,
        input: &BatchInput<'_, F>,
        output: &mut BatchOutput<'_, F>,
        position: usize,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        match input.operations()[position] {
            IndexOperation::Get { key } => {
                let key = input.key(key);
                let found = self.tree.read(key, guard, probe, |value| {
                    output.value(position, key, Some(value));
                });
                if found.is_none() {
                    output.value(position, key, None);
                }
            }
            IndexOperation::Insert { key, value } => {
                let (key, value) = (input.key(key), input.value(value));
                self.tree.modify(key, guard, probe, &mut |before| {
                    output.replaced(position, key, before);
                    RadixKeyChange::Set(value)
                });
            }
            IndexOperation::Remove { key } => {
                let key = input.key(key);
                self.tree.modify(key, guard, probe, &mut |before| {
                    output.replaced(position, key, before);
                    RadixKeyChange::Remove
                });
            }
            IndexOperation::Update {
                key,
                value,
                previous,
            } => {
                let (key, value) = (input.key(key), input.value(value));
                let previous = input.previous(previous);
                let change = RadixKeyChange::Set(value);
                self.change_if(output, position, key, previous, change, guard, probe);
            }
            IndexOperation::RemoveIf { key, previous } => {
                let (key, previous) = (input.key(key), input.previous(previous));
                let change = RadixKeyChange::Remove;
                self.change_if(output, position, key, previous, change, guard, probe);
            }
            IndexOperation::Predecessor { key } => {
                let key = F::bytes(input.key(key));
                let from = Bound::Included(key.as_ref());
                self.nearest(
                    output,
                    position,
                    from,
                    ScanDirection::Descending,
                    guard,
                    probe,
                );
            }
            IndexOperation::Successor { key } => {
                let key = F::bytes(input.key(key));
                let from = Bound::Included(key.as_ref());
                self.nearest(
                    output,
                    position,
                    from,
                    ScanDirection::Ascending,
                    guard,
                    probe,
                );
            }
            IndexOperation::Scan {
                range,
                limit,
                direction,
            } => {
                let (low, high) = input.range(range);
                let (low, high) = (low.map(F::bytes), high.map(F::bytes));
                let (from, to) = match direction {
                    ScanDirection::Ascending => (&low, &high),
                    ScanDirection::Descending => (&high, &low),
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
            IndexOperation::Refused => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one operation")]
    fn change_if(
        &self,
        output: &mut BatchOutput<'_, F>,
        position: usize,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        change: RadixKeyChange<F::Value<'_>>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        self.tree.modify(key, guard, probe, &mut |before| {
            let applied = before.map(F::shorten_value) == previous.map(F::shorten_value);
            output.updated(position, key, applied, before);
            match applied {
                true => change,
                false => RadixKeyChange::Keep,
            }
        });
    }

    /// Writes the first entry that is not before a bound.
    fn nearest(
        &self,
        output: &mut BatchOutput<'_, F>,
        position: usize,
        from: Bound<&[u8]>,
        direction: ScanDirection,
        guard: &Guard,
        probe: &mut impl RadixProbe,
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
fn is_behind(key: &[u8], to: Bound<&[u8]>, direction: ScanDirection) -> bool {
    match (to, direction) {
        (Bound::Unbounded, _) => false,
        (Bound::Included(to), ScanDirection::Ascending) => key > to,
        (Bound::Excluded(to), ScanDirection::Ascending) => key >= to,
        (Bound::Included(to), ScanDirection::Descending) => key < to,
        (Bound::Excluded(to), ScanDirection::Descending) => key <= to,
    }
}

impl<F: RivalForm, D: RivalDesign<F>> OrderedIndex<F> for Rival<F, D> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.execute_probed(batch, &mut Off)
    }

    fn len(&self) -> usize {
        self.tree.entries()
    }

    fn check_invariants(&self) {
        self.tree.check_invariants();
    }

    fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, OperationError> {
        F::check(key, None)?;
        let guard = crossbeam_epoch::pin();
        Ok(self.read_pinned(&guard, key, F::own_value))
    }
}
