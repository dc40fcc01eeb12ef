//! The contenders: their names and techniques.

use crate::figures::job::PointError;
use nearfield_core::{
    Batch, IndexOperation, OperationError, OperationOutcome, OrderedIndex, Words,
};
use nearfield_pim::device::Model;
use nearfield_pim::radar::heights::{HeightReport, Heights, LearningWindow, Predictor};
use nearfield_pim::radar::{Radar, RadarOptions};
use nearfield_pim_rivals::jump_push::{self, JumpPush};
use nearfield_pim_rivals::pim_tree::PimTree;
use nearfield_pim_rivals::range_partition::{RangePartition, RangePartitionLookup};

/// An index in modelled modules.
pub(super) trait ModelledIndex: OrderedIndex<Words> {
    /// Calls `look` with the device.
    fn look(&self, look: &mut dyn FnMut(&Model));

    /// Returns the effects of skew so far.
    fn moved(&self) -> SkewCounters {
        SkewCounters::default()
    }

    /// Returns the bytes of the host's structures for finding keys.
    fn host_bytes(&self) -> u64 {
        0
    }

    /// Returns the report of heights by hotness, if the index has them.
    fn heights(&self) -> Option<HeightReport> {
        None
    }
}

/// The effects of skew, summed over batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SkewCounters {
    /// Number of contention nodes, which many operations wanted and the host pulled.
    pub pulled: u64,
    /// Number of subranges that were divided.
    pub divided: u64,
    /// Number of keys that were moved.
    pub keys: u64,
    /// Number of tasks of operations; the next field has those of the fullest module of each batch.
    /// 0 for an index that sends as many words for every task, because its words give the load.
    pub tasks: u64,
    pub fullest: u64,
}

/// Bytes that the host stores for a subrange: bounds, module, counts, flags (section IV-A). The
/// next constant has those for a key that the host stores.
const BYTES_OF_SUBRANGE: u64 = 64;
const BYTES_OF_KEY: u64 = 16;

impl ModelledIndex for Radar<Model> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.device(look);
    }

    fn moved(&self) -> SkewCounters {
        let (moves, balances) = (self.moves(), self.balances());
        SkewCounters {
            pulled: moves.pulled,
            divided: moves.divided,
            keys: moves.keys,
            tasks: balances.all,
            fullest: balances.fullest,
        }
    }

    fn host_bytes(&self) -> u64 {
        self.subranges() as u64 * BYTES_OF_SUBRANGE + self.keys_of_host() as u64 * BYTES_OF_KEY
    }

    fn heights(&self) -> Option<HeightReport> {
        Radar::heights(self)
    }
}

impl ModelledIndex for RangePartition<Model> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.device(look);
    }
}

impl ModelledIndex for PimTree<Model> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.device(look);
    }

    fn moved(&self) -> SkewCounters {
        SkewCounters {
            pulled: self.pulled_nodes(),
            ..SkewCounters::default()
        }
    }
}

/// An index that executes batches of gets as batches of predecessors: it finds keys by its tree,
/// and not by tables that it may have besides.
struct TreeGets<I>(I);

impl<I: OrderedIndex<Words>> OrderedIndex<Words> for TreeGets<I> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), OperationError> {
        let mut keys = Vec::with_capacity(batch.len());
        for operation in batch.input()?.operations() {
            match *operation {
                IndexOperation::Get { key } => keys.push(key),
                _ => return self.0.execute(batch),
            }
        }
        debug_assert_eq!(keys.len(), batch.len(), "each operation is a get");
        let mut floors = Batch::with_capacity(keys.len());
        for &key in &keys {
            floors.predecessor(key);
        }
        self.0.execute(&mut floors)?;
        let (_, mut output) = batch.begin()?;
        for (position, key) in keys.into_iter().enumerate() {
            match floors.outcome(position) {
                OperationOutcome::Failed(error) => output.fail(position, error.clone()),
                OperationOutcome::Entry(Some((found, value))) if found == key => {
                    output.value(position, key, Some(value));
                }
                _ => output.value(position, key, None),
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn check_invariants(&self) {
        self.0.check_invariants();
    }
}

impl<I: ModelledIndex> ModelledIndex for TreeGets<I> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.0.look(look);
    }

    fn moved(&self) -> SkewCounters {
        self.0.moved()
    }
}

impl ModelledIndex for JumpPush<Model> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.device(look);
    }

    fn moved(&self) -> SkewCounters {
        SkewCounters {
            pulled: self.pulled(),
            ..SkewCounters::default()
        }
    }
}

/// The size that an index is created for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelledIndexSize {
    pub modules: usize,
    /// Number of keys that it is loaded with.
    pub keys: usize,
}

/// An index with the name that figures show.
#[derive(Clone, Copy)]
pub(super) struct RadarContender {
    pub name: &'static str,
    kind: RadarContenderKind,
}

#[derive(Clone, Copy)]
enum RadarContenderKind {
    Index(fn(Model, ModelledIndexSize) -> Box<dyn ModelledIndex>),
    /// [`RADAR`] with heights of subranges by a predictor, which learns from such windows.
    Heights(HotnessPredictorKind, LearningWindow),
}

/// The predictor of the hotness of subranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HotnessPredictorKind {
    Gru,
    LastWindow,
    Share,
}

/// The seed of a GRU's initial weights.
#[cfg(feature = "learned")]
const SEED_OF_GRU: u64 = 7;
const NO_LEARNING_LIBRARY: &str = "this build has no learning library: \
    cargo run --release -p nearfield-bench --features learned -- figures radar";

impl RadarContender {
    const fn new(
        name: &'static str,
        make: fn(Model, ModelledIndexSize) -> Box<dyn ModelledIndex>,
    ) -> RadarContender {
        let kind = RadarContenderKind::Index(make);
        RadarContender { name, kind }
    }

    const fn with_heights(name: &'static str, by: HotnessPredictorKind) -> RadarContender {
        let kind = RadarContenderKind::Heights(by, WINDOW);
        RadarContender { name, kind }
    }

    /// Replaces the window, if the contender has one.
    pub(super) fn with_window(self, window: LearningWindow) -> RadarContender {
        let kind = match self.kind {
            RadarContenderKind::Heights(by, _) => RadarContenderKind::Heights(by, window),
            kind @ RadarContenderKind::Index(_) => kind,
        };
        RadarContender { kind, ..self }
    }

    /// Returns true if it has a model to train.
    pub(super) fn learns(&self) -> bool {
        matches!(
            self.kind,
            RadarContenderKind::Heights(HotnessPredictorKind::Gru, _)
        )
    }

    /// Returns the reason why this build cannot run it, if it cannot.
    pub(super) fn missing(&self) -> Option<String> {
        let is_here = cfg!(feature = "learned") || !self.learns();
        (!is_here).then(|| NO_LEARNING_LIBRARY.to_owned())
    }

    /// Creates an empty index in the modules of a device.
    ///
    /// # Errors
    /// `Missing` if there is no memory for a predictor, or this build has no learning library.
    pub(super) fn make(
        &self,
        device: Model,
        size: ModelledIndexSize,
    ) -> Result<Box<dyn ModelledIndex>, PointError> {
        let options = radar(size.modules, 16);
        let heights = match self.kind {
            RadarContenderKind::Index(make) => return Ok(make(device, size)),
            RadarContenderKind::Heights(HotnessPredictorKind::Gru, window) => {
                let index = Radar::with_predictor(device, options, window, gru()?);
                return Ok(Box::new(index));
            }
            RadarContenderKind::Heights(HotnessPredictorKind::LastWindow, window) => {
                Heights::LastWindow(window)
            }
            RadarContenderKind::Heights(HotnessPredictorKind::Share, window) => {
                Heights::Share(window)
            }
        };
        let options = RadarOptions { heights, ..options };
        Ok(Box::new(Radar::new(device, options)))
    }
}

/// Creates the paper's gated recurrent unit.
#[cfg(feature = "learned")]
fn gru() -> Result<Box<dyn Predictor>, PointError> {
    match nearfield_learned::Gru::new(SEED_OF_GRU) {
        Ok(gru) => Ok(Box::new(gru)),
        Err(error) => Err(PointError::Missing(error.to_string())),
    }
}

#[cfg(not(feature = "learned"))]
fn gru() -> Result<Box<dyn Predictor>, PointError> {
    Err(PointError::Missing(NO_LEARNING_LIBRARY.to_owned()))
}

/// Returns RADAR's options with this number of subranges for each module.
fn radar(modules: usize, subranges_per_module: usize) -> RadarOptions {
    RadarOptions {
        subranges_per_module,
        // With few modules as fine as the paper's, so that parts have as many keys.
        fanout: (modules.next_power_of_two() / 16).max(4),
        ..RadarOptions::radar(modules)
    }
}

fn nearfield(ModelledIndexSize { modules, keys }: ModelledIndexSize) -> RadarOptions {
    RadarOptions::nearfield_for(modules, keys)
}

/// Range-partition with gets that search its lists, as those of all others do.
pub(super) const RANGE_PARTITION: RadarContender =
    RadarContender::new("range-partition", |device, _| {
        Box::new(RangePartition::with_gets(
            device,
            RangePartitionLookup::Tree,
        ))
    });

/// Range-partition as published.
pub(super) const RANGE_PARTITION_TABLE: RadarContender =
    RadarContender::new("range-partition, table", |device, _| {
        Box::new(RangePartition::with_gets(
            device,
            RangePartitionLookup::Table,
        ))
    });

pub(super) const JUMP_PUSH: RadarContender = RadarContender::new("jump-push", |device, _| {
    Box::new(JumpPush::new(device, jump_push::JumpPushOptions::default()))
});

/// PIM-tree with gets that search its tree.
pub(super) const PIM_TREE: RadarContender = RadarContender::new("pim-tree", |device, _| {
    Box::new(TreeGets(PimTree::new(device)))
});

/// PIM-tree as published: gets, too, use the table of a module.
pub(super) const PIM_TREE_TABLE: RadarContender =
    RadarContender::new("pim-tree, table", |device, _| {
        Box::new(PimTree::new(device))
    });

/// The samples and the interval of predictions in the paper, without fallback to simple predictors,
/// which the paper does not have.
pub(super) const WINDOW: LearningWindow = LearningWindow {
    samples: 8000,
    batches: 4,
    falls_back: false,
};

/// The paper's design without section V, which its figures name "no GRU". Other contenders are
/// compared with this one: heights by hotness need dozens of batches to have an effect, and points
/// have a few. [`RADAR_GRU`] is compared with it in points with more batches.
pub(super) const RADAR: RadarContender =
    RadarContender::new("radar", |device, ModelledIndexSize { modules, .. }| {
        Box::new(Radar::new(device, radar(modules, 16)))
    });

pub(super) const RADAR_BASIC: RadarContender = RadarContender::new(
    "radar basic",
    |device, ModelledIndexSize { modules, .. }| {
        Box::new(Radar::new(device, RadarOptions::basic(modules)))
    },
);

/// The paper's whole design: with heights by its gated recurrent unit.
pub(super) const RADAR_GRU: RadarContender =
    RadarContender::with_heights("radar gru", HotnessPredictorKind::Gru);

/// RADAR with heights by simple predictors.
pub(super) const RADAR_LAST_WINDOW: RadarContender =
    RadarContender::with_heights("radar last-window", HotnessPredictorKind::LastWindow);
pub(super) const RADAR_SHARE: RadarContender =
    RadarContender::with_heights("radar share", HotnessPredictorKind::Share);

pub(super) const RADAR_ONE: RadarContender = RadarContender::new(
    "radar, c = 1",
    |device, ModelledIndexSize { modules, .. }| {
        Box::new(Radar::new(device, RadarOptions::by_the_letter(modules)))
    },
);

pub(super) const RADAR_ONE_BASIC: RadarContender = RadarContender::new(
    "radar basic, c = 1",
    |device, ModelledIndexSize { modules, .. }| {
        let options = RadarOptions {
            redistributes: false,
            ..RadarOptions::by_the_letter(modules)
        };
        Box::new(Radar::new(device, options))
    },
);

pub(super) const RADAR_64: RadarContender = RadarContender::new(
    "radar, c = 64",
    |device, ModelledIndexSize { modules, .. }| Box::new(Radar::new(device, radar(modules, 64))),
);

/// RADAR with as many initial subranges as ours.
pub(super) const RADAR_FINE: RadarContender = RadarContender::new("radar, fine", |device, size| {
    let ours = nearfield(size).subranges_per_module;
    Box::new(Radar::new(device, radar(size.modules, ours)))
});

pub(super) const RADAR_64_BASIC: RadarContender = RadarContender::new(
    "radar basic, c = 64",
    |device, ModelledIndexSize { modules, .. }| {
        let options = RadarOptions {
            redistributes: false,
            ..radar(modules, 64)
        };
        Box::new(Radar::new(device, options))
    },
);

pub(super) const NEARFIELD: RadarContender = RadarContender::new("nearfield", |device, size| {
    Box::new(Radar::new(device, nearfield(size)))
});

/// Ours without sharing one read among equal reads.
pub(super) const NEARFIELD_APART: RadarContender =
    RadarContender::new("nearfield, reads apart", |device, size| {
        let options = RadarOptions {
            combines_reads: false,
            ..nearfield(size)
        };
        Box::new(Radar::new(device, options))
    });

/// Whole designs, those of others as published, without variants that have parts of a design.
pub(super) const DESIGNS: [RadarContender; 5] = [
    RANGE_PARTITION_TABLE,
    JUMP_PUSH,
    PIM_TREE_TABLE,
    RADAR,
    NEARFIELD,
];

/// The contenders of figure 10: the paper's, and ours. [`RADAR_GRU`] has points of its own there.
pub(super) const ALL: [RadarContender; 11] = [
    RANGE_PARTITION,
    RANGE_PARTITION_TABLE,
    JUMP_PUSH,
    PIM_TREE,
    PIM_TREE_TABLE,
    RADAR_BASIC,
    RADAR_ONE,
    RADAR,
    RADAR_FINE,
    NEARFIELD,
    NEARFIELD_APART,
];

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_hardware::modules::ModulePreset;
    use nearfield_pim::device::ModuleDevice;

    #[test]
    fn gets_that_search_find_exactly_the_present_keys() {
        let index = TreeGets(PimTree::new(Model::new(
            8,
            ModulePreset::UpmemMeasured.parameters(),
        )));
        let mut batch = Batch::<Words>::new();
        for key in 0..100 {
            batch.insert(10 * key, key);
        }
        index.execute(&mut batch).unwrap();
        let mut rounds = Vec::new();
        for others in [false, true] {
            let mut before = 0;
            index.look(&mut |device| before = device.counters().rounds);
            let mut batch = Batch::<Words>::new();
            for key in 0..1000 {
                batch.get(key);
            }
            // A batch with other operations goes to the published tree unchanged.
            if others {
                batch.remove(5);
            }
            index.execute(&mut batch).unwrap();
            for key in 0..1000 {
                let value = (key % 10 == 0).then_some(key / 10);
                assert_eq!(batch.value(key as usize), value, "{key}");
            }
            index.look(&mut |device| rounds.push(device.counters().rounds - before));
        }
        assert!(rounds[0] > rounds[1], "{rounds:?}");
    }
}
