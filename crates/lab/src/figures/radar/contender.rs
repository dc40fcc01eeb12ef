//! Who takes part, under which name and with which techniques.

use nearfield_core::{Batch, Error, Operation, OrderedIndex, Outcome, Words};
use nearfield_pim::device::Model;
use nearfield_pim::jump_push::{self, JumpPush};
use nearfield_pim::pim_tree::PimTree;
use nearfield_pim::radar::{Options, Radar};
use nearfield_pim::range_partition::{Gets, RangePartition};

/// An index in modules that are modelled.
pub(super) trait Index: OrderedIndex<Words> {
    /// Looks at the device.
    fn look(&self, look: &mut dyn FnMut(&Model));

    /// What was done so far about skew.
    fn moved(&self) -> Moved {
        Moved::default()
    }

    /// What the host keeps to find things, in bytes.
    fn host_bytes(&self) -> u64 {
        0
    }
}

/// Sums over batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// Contention nodes: what many wanted, and was pulled to the host.
    pub pulled: u64,
    /// Subranges that were divided.
    pub divided: u64,
    /// Keys that were moved.
    pub keys: u64,
}

/// What the host keeps of a subrange: bounds, module, counts, flags (section IV-A), and of a key that it has.
const BYTES_OF_SUBRANGE: u64 = 64;
const BYTES_OF_KEY: u64 = 16;

impl Index for Radar<Model> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.device(look);
    }

    fn moved(&self) -> Moved {
        let moves = self.moves();
        Moved {
            pulled: moves.pulled,
            divided: moves.divided,
            keys: moves.keys,
        }
    }

    fn host_bytes(&self) -> u64 {
        self.subranges() as u64 * BYTES_OF_SUBRANGE + self.keys_of_host() as u64 * BYTES_OF_KEY
    }
}

impl Index for RangePartition<Model> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.device(look);
    }
}

impl Index for PimTree<Model> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.device(look);
    }

    fn moved(&self) -> Moved {
        Moved {
            pulled: self.pulled_nodes(),
            ..Moved::default()
        }
    }
}

/// An index whose batches of gets are batches of predecessors: it finds keys by its order, and not by what it may have
/// besides.
struct TreeGets<I>(I);

impl<I: OrderedIndex<Words>> OrderedIndex<Words> for TreeGets<I> {
    fn execute(&self, batch: &mut Batch<Words>) -> Result<(), Error> {
        let mut keys = Vec::with_capacity(batch.len());
        for operation in batch.input()?.operations() {
            match *operation {
                Operation::Get { key } => keys.push(key),
                _ => return self.0.execute(batch),
            }
        }
        let mut floors = Batch::with_capacity(keys.len());
        for &key in &keys {
            floors.predecessor(key);
        }
        self.0.execute(&mut floors)?;
        let (_, mut output) = batch.begin()?;
        for (position, key) in keys.into_iter().enumerate() {
            match floors.outcome(position) {
                Outcome::Failed(error) => output.fail(position, error.clone()),
                Outcome::Entry(Some((found, value))) if found == key => {
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

impl<I: Index> Index for TreeGets<I> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.0.look(look);
    }

    fn moved(&self) -> Moved {
        self.0.moved()
    }
}

impl Index for JumpPush<Model> {
    fn look(&self, look: &mut dyn FnMut(&Model)) {
        self.device(look);
    }

    fn moved(&self) -> Moved {
        Moved {
            pulled: self.pulled(),
            ..Moved::default()
        }
    }
}

/// An index under the name that figures show.
#[derive(Clone, Copy)]
pub(super) struct Contender {
    pub name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Index(fn(Model, usize) -> Box<dyn Index>),
    /// Not there, and why.
    Missing(&'static str),
}

impl Contender {
    const fn new(name: &'static str, make: fn(Model, usize) -> Box<dyn Index>) -> Contender {
        let kind = Kind::Index(make);
        Contender { name, kind }
    }

    const fn missing(name: &'static str, why: &'static str) -> Contender {
        let kind = Kind::Missing(why);
        Contender { name, kind }
    }

    /// Why it cannot take part, if it cannot.
    pub(super) fn is_missing(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Index(_) => None,
            Kind::Missing(why) => Some(why),
        }
    }

    /// An empty index in the modules of a device; `None` of one that is missing.
    pub(super) fn make(&self, device: Model, modules: usize) -> Option<Box<dyn Index>> {
        match self.kind {
            Kind::Index(make) => Some(make(device, modules)),
            Kind::Missing(_) => None,
        }
    }
}

/// RADAR with so many subranges for each module.
fn radar(modules: usize, subranges_per_module: usize) -> Options {
    Options {
        subranges_per_module,
        ..Options::radar(modules)
    }
}

/// By its lists, as all others find keys.
pub(super) const RANGE_PARTITION: Contender = Contender::new("range-partition", |device, _| {
    Box::new(RangePartition::with_gets(device, Gets::Tree))
});

/// As published.
pub(super) const RANGE_PARTITION_TABLE: Contender =
    Contender::new("range-partition, table", |device, _| {
        Box::new(RangePartition::with_gets(device, Gets::Table))
    });

pub(super) const JUMP_PUSH: Contender = Contender::new("jump-push", |device, _| {
    Box::new(JumpPush::new(device, jump_push::Options::default()))
});

/// Whose gets search its tree.
pub(super) const PIM_TREE: Contender = Contender::new("pim-tree", |device, _| {
    Box::new(TreeGets(PimTree::new(device)))
});

/// As published: gets, too, ask the table of a module.
pub(super) const PIM_TREE_TABLE: Contender = Contender::new("pim-tree, table", |device, _| {
    Box::new(PimTree::new(device))
});

pub(super) const RADAR: Contender = Contender::new("radar", |device, modules| {
    Box::new(Radar::new(device, radar(modules, 16)))
});

pub(super) const RADAR_BASIC: Contender = Contender::new("radar basic", |device, modules| {
    Box::new(Radar::new(device, Options::basic(modules)))
});

pub(super) const RADAR_NO_GRU: Contender = Contender::missing(
    "radar no-gru",
    "RADAR has no heights by hotness yet: radar is without them",
);

pub(super) const RADAR_ONE: Contender = Contender::new("radar, c = 1", |device, modules| {
    Box::new(Radar::new(device, Options::by_the_letter(modules)))
});

pub(super) const RADAR_ONE_BASIC: Contender =
    Contender::new("radar basic, c = 1", |device, modules| {
        let options = Options {
            redistributes: false,
            ..Options::by_the_letter(modules)
        };
        Box::new(Radar::new(device, options))
    });

pub(super) const RADAR_64: Contender = Contender::new("radar, c = 64", |device, modules| {
    Box::new(Radar::new(device, radar(modules, 64)))
});

pub(super) const RADAR_64_BASIC: Contender =
    Contender::new("radar basic, c = 64", |device, modules| {
        let options = Options {
            redistributes: false,
            ..radar(modules, 64)
        };
        Box::new(Radar::new(device, options))
    });

pub(super) const NEARFIELD: Contender = Contender::new("nearfield", |device, _| {
    Box::new(Radar::new(device, Options::nearfield()))
});

/// Whole designs, without those that have parts of one.
pub(super) const DESIGNS: [Contender; 5] = [RANGE_PARTITION, JUMP_PUSH, PIM_TREE, RADAR, NEARFIELD];

/// Those of figure 10: the paper's, and ours.
pub(super) const ALL: [Contender; 10] = [
    RANGE_PARTITION,
    RANGE_PARTITION_TABLE,
    JUMP_PUSH,
    PIM_TREE,
    PIM_TREE_TABLE,
    RADAR_BASIC,
    RADAR_ONE,
    RADAR_NO_GRU,
    RADAR,
    NEARFIELD,
];
