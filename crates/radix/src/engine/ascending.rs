//! Insertions in ascending order at the beginning of a batch: see [runs](crate::write::run).

use super::RadixBatchExecution;
use crate::build::Entry;
use crate::change::RadixKeyChange;
use crate::counters::RadixProbe;
use crate::leaf::LeafForm;
use crate::write::run::RUN_MIN;
use nearfield_core::IndexOperation;

/// The maximum share (1 in this number) of entries that are not part of a run. If it is exceeded,
/// the keys are far apart, and the rest of the batch walks as usual.
const PART_OF_RUN: usize = 8;

impl<'e, 'b: 'e, F: LeafForm, P: RadixProbe> RadixBatchExecution<'e, 'b, '_, F, P> {
    /// Executes the insertions at the beginning of a batch as long as they are in strictly
    /// ascending order and make runs. Returns their number.
    pub(super) fn insert_ascending(&mut self) -> usize {
        let entries = self.ascending();
        if entries.len() < RUN_MIN {
            return 0;
        }
        let (mut done, mut alone) = (0, 0);
        while done < entries.len() {
            let (output, rest) = (&mut *self.output, &entries[done..]);
            let mut before = |number: usize, value: Option<F::Value<'_>>| {
                output.value(done + number, F::shorten_key(rest[number].0), value);
            };
            let count = self
                .tree
                .insert_run(rest, self.guard, self.probe, &mut before);
            done += count;
            if count > 0 {
                continue;
            }
            self.insert_alone(done, entries[done]);
            done += 1;
            alone += 1;
            // The second term allows for one at the beginning.
            if alone * PART_OF_RUN > done + PART_OF_RUN {
                break;
            }
        }
        done
    }

    /// Returns the insertions at the beginning of the batch as long as they ascend.
    fn ascending(&self) -> Vec<Entry<'b, F>> {
        let mut entries: Vec<Entry<'b, F>> = Vec::new();
        for operation in self.input.operations() {
            let &IndexOperation::Insert { key, value } = operation else {
                break;
            };
            let key = self.input.key(key);
            // An equal key ends the run, too: it must find the value that the first one has set.
            if entries.last().is_some_and(|last| last.0 >= key) {
                break;
            }
            entries.push((key, self.input.value(value)));
        }
        entries
    }

    fn insert_alone(&mut self, position: usize, (key, value): Entry<'b, F>) {
        let output = &mut *self.output;
        let mut decide = |before: Option<F::Value<'_>>| {
            output.value(position, F::shorten_key(key), before);
            RadixKeyChange::Set(F::shorten_value(value))
        };
        let done = self
            .tree
            .modify(F::shorten_key(key), self.guard, self.probe, &mut decide);
        if let Err(error) = done {
            self.output.fail(position, error);
        }
    }
}
