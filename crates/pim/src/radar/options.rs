//! The options of RADAR.

use super::heights::Heights;
use super::{Keys, Price};

/// The cost of bringing a key to the host and from there to another module, in words of a bank that
/// can be read meanwhile: 16 bytes at 25 GB/s each way, and 14 ns a word (formula 4, by the paper's
/// figures).
const PUBLISHED_PER_KEY: f64 = 2.0 * 16.0 / 25.0 / 14.0;

/// The same in operations, by the transfer rates of one module of a full rank: 16 bytes at 74 MB/s
/// and at 104 MB/s take 370 ns, and an operation 1.3 µs.
const TRANSFERRED_PER_KEY: f64 = 0.3;

/// The keys of a subrange that ours has at first: half of a block, so that most need no second one.
const KEYS: usize = 16;

/// Its techniques, each of which can be left out, and its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How many subranges there are for each module at first, before any is divided; a power of
    /// two. The paper has 1.
    pub subranges_per_module: usize,
    /// Into how many a subrange is divided; a power of two. The paper divides into as many as
    /// modules.
    pub fanout: usize,
    /// How many times a subrange of those at first can be divided.
    pub levels: u32,
    /// Whether subranges are divided, or pulled to the host, where modules are busy (section IV-B).
    pub redistributes: bool,
    /// A module is busy above this many times the average load. 1 in the paper.
    pub tolerance: f64,
    /// The slack above that in standard deviations, so that random imbalance moves nothing. 0 in
    /// the paper: its subranges have hundreds of times as many keys as fit in a smaller memory, so
    /// random imbalance never pays for moving one.
    pub chance: f64,
    /// The cost of moves.
    pub price: Price,
    /// Whether a part that would be too hot for any module is divided again at once, down to keys
    /// that are pulled to the host or copied. Not in the paper, where a hot key in a large subrange
    /// stays in it, because its part would be as hot anywhere.
    pub isolates: bool,
    /// The greatest number of modules with a copy of a part that is only read and cannot be
    /// divided. 1 in the paper.
    pub copies_max: usize,
    /// Whether a scan counts by the entries that it may read of each subrange of its range. In the
    /// paper it is an operation like others, in each.
    pub weighs_scans: bool,
    /// Whether the host remembers where in its module the list of a subrange begins, and says so
    /// with each operation, so that the module need not look for the subrange (L2). Not in the
    /// paper.
    pub sends_lists: bool,
    /// Whether tasks of one kind for one list share a header, and answers have none. The paper has
    /// an operation's type and identity in each.
    pub packs: bool,
    /// After this many batches without a request, divided subranges are merged again and those of
    /// the host go back to a module. `None`: never, as in the paper.
    pub cools: Option<u64>,
    /// Whether the host has a key, and a range, read once for all operations of a batch that read
    /// it and have no write of it between them, and updates of a key that follow each other done by
    /// one task. The paper does not say.
    pub combines_reads: bool,
    /// Where subranges go.
    pub placement: Placement,
    /// The structure for the keys of a subrange.
    pub keys: Keys,
    /// How high the towers of subranges are in the list of their module (section V). It makes no
    /// difference where the host sends where lists begin.
    pub heights: Heights,
}

/// To which module a subrange goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// That to which its first key hashes. As in the paper.
    Hash,
    /// The one with fewest keys, of this many modules to which its first key hashes. Not in the
    /// paper.
    Emptiest(usize),
}

impl Options {
    /// RADAR by the letter of its paper, for `modules` modules: a subrange for each at first,
    /// placed by a hash. If a hash places ranges, some modules get five times as many as the
    /// average. Heights are by hotness only where there is a predictor
    /// ([`Radar::with_predictor`](super::Radar::with_predictor)).
    pub fn by_the_letter(modules: usize) -> Options {
        Options {
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
            placement: Placement::Hash,
            keys: Keys::SkipList,
            heights: Heights::None,
        }
    }

    /// RADAR as the paper's figures imply it, for `modules` modules: 16 subranges for each at
    /// first, in the emptier of two, whose parts are as fine as by the letter, and no moves for
    /// random imbalance at fewer keys. Otherwise by the letter.
    pub fn radar(modules: usize) -> Options {
        Options {
            subranges_per_module: 16,
            fanout: (modules.next_power_of_two() / 16).max(16),
            placement: Placement::Emptiest(2),
            tolerance: 1.2,
            chance: 4.0,
            ..Options::by_the_letter(modules)
        }
    }

    /// RADAR (basic): subranges are not divided.
    pub fn basic(modules: usize) -> Options {
        Options {
            redistributes: false,
            ..Options::radar(modules)
        }
    }

    /// The number of bits in which keys of one subrange differ at first, for `modules` modules.
    pub(super) fn coarsest(&self, modules: usize) -> u32 {
        let count = modules.next_power_of_two() * self.subranges_per_module;
        64_u32.saturating_sub(count.trailing_zeros())
    }

    /// The bits that keys of one subrange differ in that cannot be divided.
    pub(super) fn finest(&self, modules: usize) -> u32 {
        let divided = self.fanout.trailing_zeros() * self.levels;
        self.coarsest(modules).saturating_sub(divided)
    }

    /// Ours.
    pub fn nearfield() -> Options {
        Options {
            subranges_per_module: 16,
            fanout: 32,
            levels: 3,
            redistributes: true,
            // With 250 operations for each module, as where many read the same keys, the fullest
            // has 1.29 times the mean; with 1000, where the random variation is less, random
            // imbalance moves nothing.
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
            placement: Placement::Emptiest(4),
            keys: Keys::Blocks,
            heights: Heights::None,
        }
    }

    /// Ours for so many modules and about so many keys: a subrange for each 16 of these, so
    /// that a module searches one block for a key, and what is hot lies in many modules before
    /// anything is moved. The host takes 4 bytes for each key then.
    pub fn nearfield_for(modules: usize, keys: usize) -> Options {
        let ours = Options::nearfield();
        let each = (keys / KEYS / modules.max(1)).next_power_of_two();
        Options {
            subranges_per_module: each.max(ours.subranges_per_module),
            ..ours
        }
    }

    /// Ours for modules that are threads. Words go to them as they are, so sorting tasks into runs
    /// saves nothing.
    pub fn on_workers() -> Options {
        Options {
            packs: false,
            ..Options::nearfield()
        }
    }
}
