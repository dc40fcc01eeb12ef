//! A load on a real tree, for the model of the accelerator.

use super::entries::DcartEntryForm;
use super::walker::{OperationEffect, PaperTree, Walker};
use super::workload::DcartWorkload;
use crate::figures::job::PointError;
use crate::harness::Interrupt;
use nearfield_core::{Batch, ByteStrings};
use nearfield_hardware::accelerator::dcart::{DcartAction, DcartTree, DcartWalk};

/// Number of operations that the tree executes at once; the model gets them one by one.
const CHUNK: usize = 4096;

/// A tree that is loaded with the keys of a load, and executes its operations.
pub(super) struct RecordedTree<'l, W> {
    load: &'l DcartWorkload,
    walker: W,
    /// The first operation of the batch that was executed last.
    begin: usize,
    /// Effects of the operations of that batch.
    changed: Vec<Option<OperationEffect>>,
    /// The last value that was written to each key; `None` if the key is absent.
    values: Vec<Option<u64>>,
    wrong: u64,
    first_wrong: String,
    failed: Option<nearfield_core::OperationError>,
}

impl<'l, W: Walker> RecordedTree<'l, W> {
    /// Loads the keys, and gives each node its place on the card, in the order of the keys.
    pub(super) fn new(
        load: &'l DcartWorkload,
        interrupt: &Interrupt,
    ) -> Result<RecordedTree<'l, W>, PointError> {
        let mut walker = W::default();
        let mut batch = Batch::<W::Form>::new();
        let numbers: Vec<u32> = (0..load.loaded()).collect();
        // A second pass gives nodes their places, when the tree has its final form.
        for reads in [false, true] {
            for chunk in numbers.chunks(CHUNK) {
                if interrupt.is_raised() {
                    return Err(PointError::Interrupted);
                }
                batch.clear();
                for number in chunk {
                    let key = W::Form::key_of_load(load.key(*number));
                    let value = u64::from(*number).to_le_bytes();
                    match reads {
                        true => batch.get(key),
                        false => batch.insert(key, W::Form::value_of_load(&value)),
                    };
                }
                walker.execute(&mut batch)?;
                if reads {
                    let mut walk = DcartWalk::default();
                    for operation in 0..walker.recorded() {
                        walk.clear();
                        walker.walk(operation, Some(OperationEffect::Read), &mut walk);
                    }
                }
            }
        }
        Ok(RecordedTree {
            load,
            walker,
            begin: load.operations.len(),
            changed: Vec::new(),
            values: (0..u64::from(load.keys()))
                .map(|number| (number < u64::from(load.loaded())).then_some(number))
                .collect(),
            wrong: 0,
            first_wrong: String::new(),
            failed: None,
        })
    }

    /// Executes a chunk of operations from `begin` on, and records them.
    fn execute_chunk(&mut self, begin: usize) -> Result<(), nearfield_core::OperationError> {
        let end = self.load.operations.len().min(begin + CHUNK);
        let operations = &self.load.operations[begin..end];
        let mut batch = Batch::<W::Form>::new();
        for (position, (number, action)) in operations.iter().enumerate() {
            let key = W::Form::key_of_load(self.load.key(*number));
            let value = ((begin + position) as u64).to_le_bytes();
            match action {
                DcartAction::Insert | DcartAction::Update => {
                    batch.insert(key, W::Form::value_of_load(&value))
                }
                DcartAction::Remove => batch.remove(key),
                DcartAction::Get => batch.get(key),
            };
        }
        // Before the tree runs: its recording is replaced even if the batch fails.
        self.begin = begin;
        self.walker.execute(&mut batch)?;
        self.changed.clear();
        for (position, (number, action)) in operations.iter().enumerate() {
            let value = &mut self.values[*number as usize];
            let expected = value.map(u64::to_le_bytes);
            if batch.value(position) != expected.as_ref().map(W::Form::value_of_load) {
                if self.wrong == 0 {
                    self.first_wrong = format!("operation {} on key {number}", begin + position);
                }
                self.wrong += 1;
            }
            self.changed.push(match (action, value.is_some()) {
                (DcartAction::Get, true) => Some(OperationEffect::Read),
                (DcartAction::Get | DcartAction::Remove, false) => None,
                (DcartAction::Insert | DcartAction::Update, true) => Some(OperationEffect::Value),
                (DcartAction::Insert | DcartAction::Update, false) => Some(OperationEffect::Nodes),
                (DcartAction::Remove, true) => Some(OperationEffect::Removed),
            });
            match action {
                DcartAction::Get => {}
                DcartAction::Insert | DcartAction::Update => {
                    *value = Some((begin + position) as u64)
                }
                DcartAction::Remove => *value = None,
            }
        }
        Ok(())
    }

    /// Checks that all outcomes were right.
    pub(super) fn check(self) -> Result<(), PointError> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        match self.wrong {
            0 => Ok(()),
            wrong => Err(PointError::Wrong {
                wrong,
                operations: self.load.operations.len() as u64,
                first: self.first_wrong,
            }),
        }
    }
}

impl RecordedTree<'_, PaperTree> {
    /// Returns the inner nodes above a key.
    pub(super) fn nodes_of(&mut self, number: u32) -> Vec<u64> {
        let mut batch = Batch::<ByteStrings>::new();
        batch.get(self.load.key(number));
        // The walker records this read, so the recording of the last chunk is lost.
        self.begin = self.load.operations.len();
        if let Err(error) = self.walker.execute(&mut batch) {
            self.failed.get_or_insert(error);
        }
        self.walker.inner_nodes()
    }
}

impl<W: Walker> DcartTree for RecordedTree<'_, W> {
    fn execute(&mut self, operation: usize, walk: &mut DcartWalk) {
        let recorded = self.begin..self.begin + self.walker.recorded();
        if !recorded.contains(&operation)
            && let Err(error) = self.execute_chunk(operation)
        {
            self.failed.get_or_insert(error);
            return;
        }
        let position = operation - self.begin;
        let changed = self.changed.get(position).copied().flatten();
        self.walker.walk(position, changed, walk);
    }
}
