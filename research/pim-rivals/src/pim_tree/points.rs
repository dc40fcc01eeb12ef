//! Operations on single keys.

use super::PimTreeHost;
use super::address::place;
use super::prepare::Wish;
use super::round::Outbox;
use super::task::ChunkTaskKind;
use nearfield_core::plan::{InitialKeyState, fold, write_outcome};
use nearfield_core::{BatchInput, BatchOutput, IndexOperation, OperationError, Words};
use nearfield_pim::device::ModuleDevice;
use nearfield_pim::dispatch::plan::unknown;
use std::ops::Range;

/// The operations on a key, in order.
struct KeyOperationGroup {
    key: u64,
    /// The range of the operations among all, which are sorted by key.
    range: Range<usize>,
    /// The request to the module of the key.
    kind: ChunkTaskKind,
}

impl<D: ModuleDevice> PimTreeHost<D> {
    /// Executes gets, inserts, updates and removes. One round reads the keys, and sets values that
    /// need no new nodes; further rounds change nodes.
    ///
    /// # Errors
    /// The first round was refused, and nothing was done.
    pub(super) fn points(
        &mut self,
        input: BatchInput<'_, Words>,
        output: &mut BatchOutput<'_, Words>,
        range: Range<usize>,
    ) -> Result<(), OperationError> {
        let operations = input.operations();
        let keys = range.filter_map(|number| Some((operations[number].point_key()?, number)));
        let mut sorted: Vec<(u64, usize)> = keys.collect();
        sorted.sort_unstable();
        self.sorted(sorted.len());
        let groups = groups(input, &sorted);
        if groups.is_empty() {
            return Ok(());
        }
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        let kinds = [
            ChunkTaskKind::Probe,
            ChunkTaskKind::Set,
            ChunkTaskKind::Swap,
        ];
        // Tasks of one kind share a header, so they are sent kind by kind. The results come in the
        // same order.
        for kind in kinds {
            for group in groups.iter().filter(|group| group.kind == kind) {
                let (key, module) = (group.key, place(group.key, 0, modules));
                match (kind, operations[sorted[group.range.start].1]) {
                    (ChunkTaskKind::Set, IndexOperation::Insert { value, .. }) => {
                        outbox.item(module, kind, &[key, value]);
                    }
                    (
                        ChunkTaskKind::Swap,
                        IndexOperation::Update {
                            value, previous, ..
                        },
                    ) => {
                        let previous = input.previous(previous).unwrap_or(0);
                        outbox.item(module, kind, &[key, previous, value]);
                    }
                    _ => outbox.item(module, kind, &[key]),
                }
            }
        }
        let mut inbox = self.round(outbox)?;
        let (mut wishes, mut wanting) = (Vec::new(), Vec::new());
        for kind in kinds {
            for group in groups.iter().filter(|group| group.kind == kind) {
                let module = place(group.key, 0, modules);
                let before = match inbox.take(module, 2) {
                    Ok(words) => (words[0] == 1).then_some(words[1]),
                    Err(error) => {
                        let error = unknown(&error);
                        fail(output, &sorted[group.range.clone()], &error);
                        continue;
                    }
                };
                let numbers = &sorted[group.range.clone()];
                let after = fold(
                    &input,
                    positions(numbers),
                    InitialKeyState::of(before),
                    |_| {},
                );
                let after = after.value(&input, before);
                let is_done = match kind {
                    ChunkTaskKind::Probe => after == before,
                    // The round has set the value if the key was present. An absent one needs a
                    // node.
                    ChunkTaskKind::Set => before.is_some(),
                    // A swap expects a value, so it never needs a node.
                    _ => true,
                };
                if is_done {
                    answer(&input, output, numbers, before);
                } else {
                    wishes.push(Wish {
                        key: group.key,
                        before,
                        after,
                    });
                    wanting.push(group.range.clone());
                }
            }
        }
        if wishes.is_empty() {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..wishes.len()).collect();
        // Chunks are planned in the order of keys, but the results came kind by kind.
        order.sort_unstable_by_key(|&number| wishes[number].key);
        let wishes: Vec<Wish> = order.iter().map(|&number| wishes[number]).collect();
        for ((number, wish), error) in order.iter().zip(&wishes).zip(self.grant(&wishes)) {
            let numbers = &sorted[wanting[*number].clone()];
            match error {
                Some(error) => fail(output, numbers, &error),
                None => answer(&input, output, numbers, wish.before),
            }
        }
        Ok(())
    }
}

/// Combines the operations on each key, and chooses the requests to their modules.
fn groups(input: BatchInput<'_, Words>, sorted: &[(u64, usize)]) -> Vec<KeyOperationGroup> {
    let operations = input.operations();
    let mut groups = Vec::with_capacity(sorted.len());
    let mut start = 0;
    for same in sorted.chunk_by(|one, other| one.0 == other.0) {
        // A single operation can be executed by its module at once. Several are replayed on the
        // host, which needs only the first value.
        let kind = match (same, operations[same[0].1]) {
            (&[_], IndexOperation::Insert { .. }) => ChunkTaskKind::Set,
            (&[_], IndexOperation::Update { previous, .. })
                if input.previous(previous).is_some() =>
            {
                ChunkTaskKind::Swap
            }
            _ => ChunkTaskKind::Probe,
        };
        groups.push(KeyOperationGroup {
            key: same[0].0,
            range: start..start + same.len(),
            kind,
        });
        start += same.len();
    }
    groups
}

fn positions(numbers: &[(u64, usize)]) -> impl Iterator<Item = usize> + '_ {
    numbers.iter().map(|&(_, position)| position)
}

/// Writes the outcomes of the operations on a key that had the value `before`.
fn answer(
    input: &BatchInput<'_, Words>,
    output: &mut BatchOutput<'_, Words>,
    numbers: &[(u64, usize)],
    before: Option<u64>,
) {
    fold(
        input,
        positions(numbers),
        InitialKeyState::of(before),
        |met| {
            write_outcome(input, output, met, before);
        },
    );
}

fn fail(output: &mut BatchOutput<'_, Words>, numbers: &[(u64, usize)], error: &OperationError) {
    for &(_, number) in numbers {
        output.fail(number, error.clone());
    }
}
