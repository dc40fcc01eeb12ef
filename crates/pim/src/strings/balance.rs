//! The choice of partitions to divide, and of modules for their pieces.
//!
//! The rule is RADAR's (section IV-B: a module is busy if its load exceeds that of others by a
//! factor, and a move must gain more than it costs). Pieces begin at keys of the batch, because
//! there are no aligned subranges. The size of partitions is also bounded, because there is
//! initially only one.

use std::cmp::Reverse;

/// Greatest number of pieces into which a partition is divided at once.
const PIECES_MAX: usize = 64;
/// The greatest number of partitions of a busy module that are tried.
const TRIES: usize = 8;
/// The cost of an additional round, in operations that a module does meanwhile.
const ROUND_OPERATIONS: f64 = 64.0;
/// Number of stored bytes of a module that gets no partitions because it has failed. It exceeds all
/// banks, and no sum of sizes overflows with it.
pub(super) const NO_ROOM: u64 = u64::MAX / 2;
/// Part of a bank above which a module gets no more partitions.
const FILLED: f64 = 0.9;

/// The demand of a batch on a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionDemand<'k> {
    pub number: u64,
    pub module: usize,
    pub keys: u64,
    pub bytes: u64,
    /// Keys of the operations that the module must execute. A key that is only read is listed once.
    pub operations: Vec<&'k [u8]>,
    /// Keys that may be inserted, and the bank memory of each.
    pub inserts: Vec<(&'k [u8], u64)>,
}

/// The limits on which decisions depend.
#[derive(Clone, Copy, Debug)]
pub(super) struct BalanceLimits {
    /// The greatest number of keys of a partition.
    pub partition_keys: u64,
    /// The greatest size of a partition in bytes, unless it has a single key.
    pub partition_bytes: u64,
    /// Size of a bank in bytes.
    pub bank_bytes: u64,
    /// Multiple of the average load above which a module is busy.
    pub tolerance: f64,
    /// Logarithm to base 2 of the number of keys of a module.
    pub height: f64,
}

/// The cuts that divide a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartitionCuts {
    /// Cuts before these keys.
    Before(Vec<Vec<u8>>),
    /// Cuts that give pieces equal numbers of keys, including those of this batch.
    Evenly,
}

/// A move: adjacent partitions are merged, and the result is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartitionMove {
    pub partitions: Vec<u64>,
    pub cuts: PartitionCuts,
    /// The module of each piece.
    pub targets: Vec<usize>,
}

/// The loads and the stored bytes of modules after the decisions so far.
#[derive(Clone, Debug)]
pub(super) struct Modules {
    /// Number of operations of this batch, by module.
    pub loads: Vec<u64>,
    /// Bytes in store, by module.
    pub stored: Vec<u64>,
}

impl Modules {
    /// Returns the least loaded module with room for `bytes` bytes; of equally loaded ones, the one
    /// with fewer bytes in store.
    pub fn least(&self, bytes: u64, sizes: &BalanceLimits) -> Option<usize> {
        debug_assert_eq!(self.loads.len(), self.stored.len());
        let limit = (sizes.bank_bytes as f64 * FILLED) as u64;
        let pairs = self.loads.iter().zip(&self.stored).enumerate();
        pairs
            .filter(|(_, (_, stored))| *stored + bytes <= limit)
            .min_by_key(|(module, (load, stored))| (**load, **stored, *module))
            .map(|(module, _)| module)
    }

    /// Assigns pieces, given by their numbers of operations, to the least loaded modules. The piece
    /// with most operations comes first.
    fn place(
        &mut self,
        pieces: &[u64],
        bytes: u64,
        own: usize,
        sizes: &BalanceLimits,
    ) -> Vec<usize> {
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_by_key(|&piece| Reverse(pieces[piece]));
        let mut targets = vec![own; pieces.len()];
        for piece in order {
            // Without a module that has room, the piece stays where it is.
            let target = self.least(bytes, sizes).unwrap_or(own);
            targets[piece] = target;
            if let (Some(load), Some(stored)) =
                (self.loads.get_mut(target), self.stored.get_mut(target))
            {
                *load += pieces[piece];
                *stored += bytes;
            }
        }
        targets
    }

    fn take(&mut self, module: usize, operations: u64, bytes: u64) {
        // The host is no module here, and its load limits nothing.
        if let (Some(load), Some(stored)) =
            (self.loads.get_mut(module), self.stored.get_mut(module))
        {
            *load = load.saturating_sub(operations);
            *stored = stored.saturating_sub(bytes);
        }
    }
}

impl BalanceLimits {
    /// Returns the cost of moving keys to another module, in operations (RADAR, formulas 2 to 5,
    /// for point operations, with words of a bank that are read in 14 ns, and transfers at 25 GB/s
    /// each way).
    fn of_moving(&self, keys: u64, bytes: u64) -> f64 {
        let transfer = 2.0 * bytes as f64 / 25.0 / 14.0;
        let cost = self.height + keys as f64 + transfer;
        ROUND_OPERATIONS + 1.0 + cost / (1.5 * self.height)
    }

    /// Returns the number of pieces for this many keys and bytes; one if they fit in one.
    pub fn pieces(&self, keys: u64, bytes: u64) -> usize {
        if keys <= 1 || (keys <= self.partition_keys && bytes <= self.partition_bytes) {
            return 1;
        }
        // Pieces are half full, so that the next keys do not divide them again.
        let by_keys = (2 * keys).div_ceil(self.partition_keys.max(1));
        let by_bytes = (2 * bytes).div_ceil(self.partition_bytes.max(1));
        let pieces = by_keys.max(by_bytes).min(keys);
        usize::try_from(pieces).map_or(PIECES_MAX, |pieces| pieces.clamp(2, PIECES_MAX))
    }
}

/// Decides which of the requested partitions to divide.
pub(super) fn divide(
    modules: &mut Modules,
    mut asked: Vec<PartitionDemand<'_>>,
    sizes: &BalanceLimits,
) -> Vec<PartitionMove> {
    // The requests come from a hash map. Sorting makes the decisions repeatable.
    asked.sort_by_key(|asked| asked.number);
    let mut moves = Vec::new();
    let mut others = Vec::new();
    for asked in asked {
        let (keys, bytes) = after(&asked, sizes);
        let pieces = sizes.pieces(keys, bytes);
        if pieces == 1 {
            others.push(asked);
            continue;
        }
        let operations = asked.operations.len() as u64;
        // The partition leaves its module before its pieces are placed, so that some may stay
        // there.
        modules.take(asked.module, operations, asked.bytes);
        let each = vec![operations.div_ceil(pieces as u64); pieces];
        let bytes = bytes.div_ceil(pieces as u64);
        moves.push(PartitionMove {
            partitions: vec![asked.number],
            cuts: PartitionCuts::Evenly,
            targets: modules.place(&each, bytes, asked.module, sizes),
        });
    }
    relieve(modules, others, sizes, &mut moves);
    moves
}

/// Returns the greatest possible numbers of keys and bytes of a partition after the batch.
fn after(asked: &PartitionDemand<'_>, sizes: &BalanceLimits) -> (u64, u64) {
    let sum = |inserts: &[(&[u8], u64)]| -> (u64, u64) {
        let bytes: u64 = inserts.iter().map(|(_, bytes)| bytes).sum();
        (asked.keys + inserts.len() as u64, asked.bytes + bytes)
    };
    let (keys, bytes) = sum(&asked.inserts);
    // Most batches do not fill a partition even if all inserts are new, and need no sorting.
    if sizes.pieces(keys, bytes) == 1 {
        return (keys, bytes);
    }
    // Several inserts may have the same key.
    let mut inserts = asked.inserts.clone();
    inserts.sort_unstable();
    inserts.dedup_by_key(|(key, _)| *key);
    sum(&inserts)
}

/// Divides the partitions that make modules busy if that gains more than it costs, beginning with
/// the busiest module.
fn relieve(
    modules: &mut Modules,
    asked: Vec<PartitionDemand<'_>>,
    sizes: &BalanceLimits,
    moves: &mut Vec<PartitionMove>,
) {
    let total: u64 = modules.loads.iter().sum();
    let fair = total.div_ceil(modules.loads.len().max(1) as u64);
    let much = (fair as f64 * sizes.tolerance) as u64;
    let mut of_module: Vec<Vec<PartitionDemand<'_>>> = vec![Vec::new(); modules.loads.len()];
    for asked in asked {
        if let Some(own) = of_module.get_mut(asked.module) {
            own.push(asked);
        }
    }
    let mut busy: Vec<usize> = (0..of_module.len())
        .filter(|&module| modules.loads[module] > much)
        .collect();
    busy.sort_by_key(|&module| Reverse(modules.loads[module]));
    for module in busy {
        let mut own = std::mem::take(&mut of_module[module]);
        own.sort_by_key(|asked| Reverse(asked.operations.len()));
        for mut asked in own.into_iter().take(TRIES) {
            let before = modules.loads[module];
            let operations = asked.operations.len() as u64;
            let cost = sizes.of_moving(asked.keys, asked.bytes);
            // Later partitions have fewer operations, and would gain even less.
            if before <= much || operations as f64 <= cost {
                break;
            }
            let mut then = modules.clone();
            then.take(module, operations, asked.bytes);
            let (cuts, pieces) = cut(&mut asked.operations, 2 * modules.loads.len());
            let bytes = asked.bytes.div_ceil(pieces.len() as u64);
            let targets = then.place(&pieces, bytes, module, sizes);
            let most = targets.iter().filter_map(|&target| then.loads.get(target));
            let most = most.copied().max().unwrap_or(0).max(then.loads[module]);
            if before.saturating_sub(most) as f64 > cost {
                *modules = then;
                moves.push(PartitionMove {
                    partitions: vec![asked.number],
                    cuts: PartitionCuts::Before(cuts),
                    targets,
                });
            }
        }
    }
}

/// Returns cuts that divide operations evenly into at most `pieces` pieces, and the number of
/// operations in each. A key with many operations makes fewer pieces.
fn cut(operations: &mut [&[u8]], pieces: usize) -> (Vec<Vec<u8>>, Vec<u64>) {
    operations.sort_unstable();
    debug_assert!(!operations.is_empty(), "a busy partition has operations");
    let pieces = pieces.clamp(1, PIECES_MAX / 2);
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let mut counts = Vec::new();
    let mut start = 0;
    for piece in 1..pieces {
        let at = operations[piece * operations.len() / pieces];
        // A cut lies before the first operation on its key, so that all operations on a key go to
        // one piece.
        let end = operations.partition_point(|key| *key < at);
        if end > start {
            cuts.push(at.to_vec());
            counts.push((end - start) as u64);
            start = end;
        }
    }
    counts.push((operations.len() - start) as u64);
    debug_assert!(cuts.len() + 1 == counts.len() && cuts.is_sorted());
    (cuts, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: BalanceLimits = BalanceLimits {
        partition_keys: 1000,
        partition_bytes: 1 << 20,
        bank_bytes: 1 << 26,
        tolerance: 1.3,
        height: 12.0,
    };

    fn modules(loads: &[u64]) -> Modules {
        Modules {
            loads: loads.to_vec(),
            stored: vec![0; loads.len()],
        }
    }

    fn keys(count: usize) -> Vec<Vec<u8>> {
        (0..count)
            .map(|key| format!("{key:06}").into_bytes())
            .collect()
    }

    fn asked<'k>(
        number: u64,
        module: usize,
        keys: u64,
        operations: &[&'k [u8]],
    ) -> PartitionDemand<'k> {
        PartitionDemand {
            number,
            module,
            keys,
            operations: operations.to_vec(),
            ..PartitionDemand::default()
        }
    }

    #[test]
    fn what_is_even_stays_as_it_is() {
        let keys = keys(400);
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let asked = (0..4).map(|module| asked(module as u64, module, 900, &keys));
        assert_eq!(divide(&mut modules(&[400; 4]), asked.collect(), &SIZES), []);
    }

    #[test]
    fn what_is_busy_is_divided_if_that_is_worth_its_keys() {
        let keys = keys(4000);
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let few: Vec<&[u8]> = keys[..100].to_vec();
        for (size, operations, is_divided) in [(900, &keys, true), (900, &few, false)] {
            let mut modules = modules(&[operations.len() as u64, 0, 0, 0]);
            let moves = divide(&mut modules, vec![asked(7, 0, size, operations)], &SIZES);
            assert_eq!(!moves.is_empty(), is_divided);
            if let [only] = &moves[..] {
                let PartitionCuts::Before(cuts) = &only.cuts else {
                    panic!("{only:?}")
                };
                assert!(cuts.is_sorted() && cuts.len() + 1 == only.targets.len());
                assert_eq!(modules.loads, [1000; 4]);
            }
        }
    }

    #[test]
    fn what_is_too_large_is_divided_whatever_is_asked_of_it() {
        let keys = keys(3000);
        let inserts: Vec<(&[u8], u64)> = keys.iter().map(|key| (&key[..], 50)).collect();
        let mut large = asked(3, 4, 10, &[]);
        large.inserts = [&inserts[..], &inserts[..]].concat();
        // The host, which is not a module, initially has the whole partition.
        let moves = divide(&mut modules(&[0; 4]), vec![large.clone()], &SIZES);
        let [only] = &moves[..] else {
            panic!("{moves:?}")
        };
        assert_eq!(
            (&only.cuts, only.targets.len()),
            (&PartitionCuts::Evenly, 7)
        );
        assert!((0..4).all(|module| only.targets.contains(&module)));
        // The same key many times counts once.
        large.inserts = vec![inserts[0]; 5000];
        assert_eq!(divide(&mut modules(&[0; 4]), vec![large], &SIZES), []);
    }

    #[test]
    fn a_module_that_is_filled_gets_nothing_more() {
        let mut modules = modules(&[0; 3]);
        modules.stored = vec![SIZES.bank_bytes, 0, SIZES.bank_bytes / 2];
        assert_eq!(modules.place(&[5, 5, 5], 1 << 20, 0, &SIZES), [1, 2, 1]);
        modules.stored.fill(SIZES.bank_bytes);
        assert_eq!(modules.place(&[5, 5], 1 << 20, 0, &SIZES), [0, 0]);
    }
}
