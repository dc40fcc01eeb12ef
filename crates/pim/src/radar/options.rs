//! The options of RADAR.

use super::heights::Heights;
use super::{Price, SubrangeStructure};

/// The cost of moving a key to the host and then to another module, in words of a bank that can be
/// read meanwhile: 16 bytes at 25 GB/s each way, and 14 ns a word (formula 4, by the paper's
/// figures).
const PUBLISHED_PER_KEY: f64 = 2.0 * 16.0 / 25.0 / 14.0;

/// The same cost in operations, by the transfer rates of one module of a full rank: 16 bytes at 74
/// MB/s and at 104 MB/s take 370 ns, and an operation 1.3 µs.
const TRANSFERRED_PER_KEY: f64 = 0.3;

/// Initial number of keys of our subranges: half of a block, so that most need no second block.
const KEYS: usize = 16;

/// The options of RADAR: its techniques, each of which can be turned off, and its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RadarOptions {
    /// Initial number of subranges of each module, before any is divided; a power of two. It is 1
    /// in the paper.
    pub subranges_per_module: usize,
    /// Number of pieces into which a subrange is divided; a power of two. In the paper it is the
    /// number of modules.
    pub fanout: usize,
    /// Number of times that an initial subrange can be divided.
    pub levels: u32,
    /// True if subranges are divided, or pulled to the host, where modules are busy (section IV-B).
    pub redistributes: bool,
    /// Multiple of the average load above which a module is busy. It is 1 in the paper.
    pub tolerance: f64,
    /// Slack above that in standard deviations, so that random imbalance moves nothing. It is 0 in
    /// the paper, whose subranges have hundreds of times as many keys as fit in a smaller memory,
    /// so that random imbalance never pays for moving one.
    pub chance: f64,
    /// The cost of moves.
    pub price: Price,
    /// True if a part that is too hot for any module is divided again at once, down to single keys
    /// that are pulled to the host or copied. Not in the paper, where a hot key in a large subrange
    /// stays in it, because its part would be as hot anywhere.
    pub isolates: bool,
    /// The greatest number of modules with a copy of a part that is only read and cannot be
    /// divided. It is 1 in the paper.
    pub copies_max: usize,
    /// True if the load of a scan in each subrange grows with the number of entries that it may
    /// read there. In the paper it counts as one operation in each.
    pub weighs_scans: bool,
    /// True if the host stores the address of each subrange's list in its module and sends it with
    /// each operation, so that the module need not search for the subrange (L2). Not in the paper.
    pub sends_lists: bool,
    /// True if tasks of one kind for one list share a header, and results have none. In the paper
    /// each contains the operation's type and identity.
    pub packs: bool,
    /// Number of batches without a request after which divided subranges are merged again and those
    /// of the host return to a module. `None` stands for never, as in the paper.
    pub cools: Option<u64>,
    /// True if operations of a batch share tasks: reads of the same key or range with no write of
    /// it between them, and updates of a key that follow each other. The paper does not specify
    /// this.
    pub combines_reads: bool,
    /// The rule that chooses modules for subranges.
    pub placement: SubrangePlacement,
    /// The structure for the keys of a subrange.
    pub keys: SubrangeStructure,
    /// The rule for the heights of subranges' towers in the list of their module (section V). It
    /// has no effect if the host sends the addresses of lists.
    pub heights: Heights,
}

/// The module for a subrange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubrangePlacement {
    /// The module to which its first key hashes, as in the paper.
    Hash,
    /// The one with fewest keys among this many modules to which its first key hashes. Not in the
    /// paper.
    Emptiest(usize),
}

impl RadarOptions {
    /// Creates the options of RADAR by the letter of its paper, for `modules` modules: one initial
    /// subrange for each, placed by a hash. A hash gives some modules five times as many subranges
    /// as the average. Heights follow hotness only if there is a predictor
    /// ([`Radar::with_predictor`](super::Radar::with_predictor)).
    pub fn by_the_letter(modules: usize) -> RadarOptions {
        RadarOptions {
            subranges_per_module: 1,
            fanout: modules.next_power_of_two().max(2),
            levels: 1,
            redistributes: true,
            tolerance: 1.0,
            chance: 0.0,
            price: Price::Formulas {
                per_key: PUBLISHED_PER_KEY,
            },
            isolates: false,
            copies_max: 1,
            weighs_scans: false,
            sends_lists: false,
            packs: false,
            cools: None,
            combines_reads: false,
            placement: SubrangePlacement::Hash,
            keys: SubrangeStructure::SkipList,
            heights: Heights::None,
        }
    }

    /// Creates the options of RADAR as the paper's figures imply it, for `modules` modules: 16
    /// initial subranges for each, placed in the emptier of two modules, with parts as fine as by
    /// the letter, and no moves for random imbalance at fewer keys. The rest is by the letter.
    pub fn radar(modules: usize) -> RadarOptions {
        RadarOptions {
            subranges_per_module: 16,
            fanout: (modules.next_power_of_two() / 16).max(16),
            placement: SubrangePlacement::Emptiest(2),
            tolerance: 1.2,
            chance: 4.0,
            ..RadarOptions::by_the_letter(modules)
        }
    }

    /// Creates the options of RADAR (basic), where subranges are not divided.
    pub fn basic(modules: usize) -> RadarOptions {
        RadarOptions {
            redistributes: false,
            ..RadarOptions::radar(modules)
        }
    }

    /// Returns the number of bits in which keys of an initial subrange differ, for `modules`
    /// modules.
    pub(super) fn coarsest(&self, modules: usize) -> u32 {
        let count = modules.next_power_of_two() * self.subranges_per_module;
        64_u32.saturating_sub(count.trailing_zeros())
    }

    /// Returns the number of bits in which keys differ of a subrange that cannot be divided.
    pub(super) fn finest(&self, modules: usize) -> u32 {
        let divided = self.fanout.trailing_zeros() * self.levels;
        self.coarsest(modules).saturating_sub(divided)
    }

    /// Creates the options of our variant.
    pub fn nearfield() -> RadarOptions {
        RadarOptions {
            subranges_per_module: 16,
            fanout: 32,
            levels: 3,
            redistributes: true,
            // With 250 operations per module, as if many read the same keys, the fullest module has
            // 1.29 times the mean. With 1000, where random variation is smaller, random imbalance
            // moves nothing.
            tolerance: 1.15,
            chance: 2.2,
            price: Price::Transfer {
                per_key: TRANSFERRED_PER_KEY,
            },
            isolates: true,
            copies_max: 16,
            weighs_scans: true,
            sends_lists: true,
            packs: true,
            cools: Some(16),
            combines_reads: true,
            placement: SubrangePlacement::Emptiest(4),
            keys: SubrangeStructure::Blocks,
            heights: Heights::None,
        }
    }

    /// Creates the options of our variant for `modules` modules and about `keys` keys: one subrange
    /// for each 16 keys. A module then searches one block for a key, and hot keys are in many
    /// modules before anything is moved. The host takes 4 bytes for each key.
    pub fn nearfield_for(modules: usize, keys: usize) -> RadarOptions {
        let ours = RadarOptions::nearfield();
        let each = (keys / KEYS / modules.max(1)).next_power_of_two();
        RadarOptions {
            subranges_per_module: each.max(ours.subranges_per_module),
            ..ours
        }
    }

    /// Creates the options of our variant for modules that are threads. No words are transferred,
    /// so packing tasks into runs saves nothing.
    pub fn on_workers() -> RadarOptions {
        RadarOptions {
            packs: false,
            ..RadarOptions::nearfield()
        }
    }
}
