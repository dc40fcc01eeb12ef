//! The options of a tree, and the state that the clients of a compute node share.

use super::cached_node::CachedNode;
use super::filtered_scan::{LeafCounters, LeafReads};
use super::neighborhood::Neighborhood;
use super::overwrite_hints::OverwriteHints;
use crate::cache::IndexCache;
use crate::coordination::{ClientCoordination, HAND_OVERS, LocalLocks};
use crate::error::PoolError;
use crate::layout::{Arrangement, Geometry, InternalLayout, PoolIndexShape, PoolLeafLayout};
use nearfield_fabric::count::CounterLedger;
use nearfield_fabric::recovery::epochs::Epochs;
use nearfield_hotness::{Hotspots, LinkGate, SpeculationGate};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Number of bytes of a cached node besides its own, at most: its place among others, and those of
/// one run.
const KEPT_BYTES: usize = 450;
/// Divisor of the hotspots' bytes that gives the part for the slots of overwritten keys.
const PLACES_PART: usize = 4;
/// Share of the slots of leaves in use after random inserts, in percent.
const OCCUPANCY_PERCENT: usize = 59;
/// Number of retired bytes after which memory is reclaimed: some hundreds of nodes.
const RETIRED_BYTES: u64 = 1 << 20;
/// The lease of locks: thousands of round trips, so that a living client finishes within.
const LEASE: Duration = Duration::from_millis(10);

/// The sizes of a tree and the techniques of its clients. All clients of a tree have the same
/// sizes; techniques are each client's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChimeOptions {
    /// The sizes.
    pub shape: PoolIndexShape,
    /// The budget of a compute node for internal nodes and hotspots, in bytes. 0: nothing.
    pub cache_bytes: usize,
    /// The part of that for hotspots. 0: clients do not speculate. Source: CHIME, hotness-aware
    /// speculative read.
    pub hotspot_bytes: usize,
    /// The policy of speculation, if clients have hotspots.
    pub speculation: Speculation,
    /// True if an insert reads no more of a leaf than the lock word's vacancy bitmap requires.
    /// Source: CHIME, vacancy bitmap piggybacking.
    pub vacancy_bitmap: bool,
    /// True if a client takes a lock and reads the guarded data in one round trip: before it knows
    /// the word of the lock, so it may have to read more afterwards. Not in the paper.
    pub lock_and_read: bool,
    /// True if changes that move entries of a leaf are counted, so that scans detect entries that
    /// were moved to a slot they had passed. It has no effect in leaves without hop bitmaps, where
    /// node versions show moves. All clients of a tree must use the same value. Not in the paper,
    /// whose scans check only hop bitmaps and may miss a key that is moved while another takes its
    /// slot.
    pub counts_moves: bool,
    /// True if a client uses a divided leaf that a cached parent does not know yet, if the bytes
    /// read prove that the key belongs there. Not in the paper, whose clients read the parent
    /// again.
    pub uses_divided: bool,
    /// True if the last leaf, once it is full, keeps its keys when a greater one comes, so that
    /// keys that are inserted in ascending order fill leaves. Otherwise each division halves a
    /// leaf, as in the paper.
    pub fills_last: bool,
    /// The kind of locks. All clients of a tree must use the same.
    pub locks: ChimeLockKind,
    /// True if a client that finds one of the paper's locks held waits longer after each try, as it
    /// does for locks with leases, and not for a fixed 2 µs. Not in the paper.
    pub backs_off: bool,
    /// Number of bytes freed by merges after which a compute node makes others drop their old
    /// cached nodes, so that the memory can be reused. For locks with leases.
    pub retired_bytes: u64,
    /// True if one client of a compute node reads a key for all clients that want it. A read that
    /// arrives during another takes up to two round trips, so this pays if the memory node's port
    /// is the bottleneck. Source: SMART, read delegation.
    pub delegates_reads: bool,
    /// True if one client of a compute node writes a key for all concurrent writers, except for
    /// removals. Source: SMART, write combining.
    pub combines_writes: bool,
    /// Number of times that the holder of one of the paper's locks may pass it on without releasing
    /// it; `None`: clients do not queue. Clients of a compute node that want the lock of one leaf
    /// then queue locally, so that one at a time competes for it. Locks with leases are not passed
    /// on. Source: Sherman.
    pub hand_overs: Option<u32>,
    /// The expected share of the slots of leaves in use, in percent, by which a scan estimates how
    /// many leaves it needs: 59 after random inserts, and more after a sorted
    /// [`load`](super::ChimeTree::load). A wrong one costs reads, and no entry is left out.
    pub occupancy_percent: usize,
}

/// The policy of speculation: of looking up the former slot of a key, and reading that one entry
/// and not the key's neighborhood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speculation {
    /// Speculation whenever a slot is known, as in CHIME's paper.
    Always,
    /// Speculation as long as it makes searches faster, which is tried now and then
    /// ([`SpeculationGate`]). Not in the paper.
    Adaptive,
    /// Speculation the more often, the longer reads wait for the link ([`LinkGate`]). Not in the
    /// paper.
    ByLoad,
}

/// The kind of locks, and the treatment of dead holders' locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChimeLockKind {
    /// Locks of one bit without a lease, as in CHIME's paper. The lock of a dead client stays held,
    /// and its data stay as they are: operations that wait for them end with `Damaged` after 16 s.
    Spinning,
    /// Locks with this lease. When it has expired, other clients take the lock over, and finish its
    /// change ([`redo`](nearfield_fabric::recovery::redo)).
    Leased(Duration),
}

impl ChimeOptions {
    /// Returns CHIME as in its paper: 100 MB for each compute node, 30 of them for hotspots.
    pub fn chime() -> ChimeOptions {
        ChimeOptions {
            shape: PoolIndexShape::default(),
            cache_bytes: 100 << 20,
            hotspot_bytes: 30 << 20,
            // Section 4.3 of the paper: a client speculates whenever it knows a slot.
            speculation: Speculation::Always,
            vacancy_bitmap: true,
            lock_and_read: false,
            counts_moves: false,
            uses_divided: false,
            fills_last: false,
            locks: ChimeLockKind::Spinning,
            backs_off: false,
            retired_bytes: RETIRED_BYTES,
            delegates_reads: true,
            combines_writes: true,
            hand_overs: Some(HAND_OVERS),
            occupancy_percent: OCCUPANCY_PERCENT,
        }
    }

    /// Returns our variant: CHIME with leased locks, which are taken and read under in one round
    /// trip, and with speculation if it pays.
    pub fn nearfield() -> ChimeOptions {
        ChimeOptions {
            shape: PoolIndexShape {
                arrangement: Arrangement::Neighborhood,
                ..PoolIndexShape::default()
            },
            speculation: Speculation::Adaptive,
            lock_and_read: true,
            uses_divided: true,
            locks: ChimeLockKind::Leased(LEASE),
            ..ChimeOptions::chime()
        }
    }

    /// Returns our variant for memory attached without a network adapter, as by CXL: there the cost
    /// of a read depends on its lines, and a message costs hardly anything.
    pub fn attached() -> ChimeOptions {
        let ours = ChimeOptions::nearfield();
        ChimeOptions {
            shape: PoolIndexShape {
                // Half as large as elsewhere, so that scans read less beyond their range, for twice
                // as many inner nodes.
                leaf_span: 32,
                ..ours.shape
            },
            // While the link is not full, a processor needs longer to look up a slot than to read
            // the lines that this saves.
            speculation: Speculation::ByLoad,
            ..ours
        }
    }

    /// Returns Sherman as it is in CHIME's figures.
    pub fn sherman() -> ChimeOptions {
        ChimeOptions {
            shape: PoolIndexShape {
                arrangement: Arrangement::Unordered,
                ..PoolIndexShape::default()
            },
            // Hotspots and the vacancy bitmap are CHIME's, and Sherman is older.
            hotspot_bytes: 0,
            vacancy_bitmap: false,
            ..ChimeOptions::chime()
        }
    }
}

impl Default for ChimeOptions {
    fn default() -> ChimeOptions {
        ChimeOptions::nearfield()
    }
}

/// The state that the clients of one compute node share.
#[derive(Debug)]
pub struct ChimeComputeNode {
    pub(super) options: ChimeOptions,
    pub(super) geometry: Geometry,
    /// Neighborhoods by home.
    pub(super) neighborhoods: Box<[Neighborhood]>,
    pub(super) cache: IndexCache<CachedNode>,
    pub(super) hotspots: Hotspots,
    pub(super) overwrite_hints: OverwriteHints,
    /// The participation in epochs, from the time when its first client has opened a tree.
    pub(super) epochs: OnceLock<Epochs>,
    /// The gate that decides if a client that knows the slot of an entry reads it alone. `None`: it
    /// always does.
    pub(super) gate: Option<SpeculationGate>,
    /// The gate that chooses how many operations use hotspots at all. `None`: all do.
    pub(super) link_gate: Option<LinkGate>,
    pub(super) delegation: ClientCoordination,
    pub(super) leaf_locks: Option<LocalLocks<u64>>,
    pub(super) leaf_counters: LeafCounters,
    /// The counters of its clients.
    pub(super) counters: Arc<CounterLedger>,
}

impl ChimeComputeNode {
    /// Returns the number of notices to clients that its clients have learned of. No round trip.
    pub fn notices(&self) -> u64 {
        self.epochs.get().map_or(0, Epochs::notices)
    }

    /// Creates a compute node that caches nothing yet.
    ///
    /// # Errors
    /// `Geometry` if the sizes are invalid, `Cache` if there is a budget that has no room for
    /// one internal node.
    pub fn new(options: ChimeOptions) -> Result<ChimeComputeNode, PoolError> {
        let geometry = Geometry::new(options.shape)?;
        let bytes = options.cache_bytes.saturating_sub(options.hotspot_bytes);
        let needed = InternalLayout::new(geometry).wire_bytes() + KEPT_BYTES;
        if options.cache_bytes > 0 && bytes < needed {
            return Err(PoolError::Cache { bytes, needed });
        }
        // Hints are proved by stamps, so that without stamps they would only cost memory.
        let is_stamped = options.shape.arrangement == Arrangement::Neighborhood
            && matches!(options.locks, ChimeLockKind::Leased(_));
        let overwrite_hints = if is_stamped {
            options.hotspot_bytes / PLACES_PART
        } else {
            0
        };
        let overwrite_hints = OverwriteHints::with_bytes(overwrite_hints);
        debug_assert!(overwrite_hints.bytes() <= options.hotspot_bytes);
        Ok(ChimeComputeNode {
            options,
            geometry,
            neighborhoods: Neighborhood::all(PoolLeafLayout::new(geometry)),
            cache: IndexCache::new(bytes),
            // The table of hints rounds its bytes down, and the hotspots get the rest.
            hotspots: Hotspots::with_bytes(options.hotspot_bytes - overwrite_hints.bytes()),
            overwrite_hints,
            epochs: OnceLock::new(),
            gate: match options.speculation {
                Speculation::Adaptive => Some(SpeculationGate::default()),
                Speculation::Always | Speculation::ByLoad => None,
            },
            link_gate: match options.speculation {
                Speculation::ByLoad => Some(LinkGate::default()),
                Speculation::Always | Speculation::Adaptive => None,
            },
            leaf_locks: options.hand_overs.map(LocalLocks::new),
            delegation: ClientCoordination::new(options.delegates_reads, options.combines_writes),
            leaf_counters: LeafCounters::default(),
            counters: Arc::default(),
        })
    }

    /// Returns its options.
    pub fn options(&self) -> &ChimeOptions {
        &self.options
    }

    /// Returns the bytes of the internal nodes that it caches.
    pub fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Returns the number of speculative reads of its clients so far that were right, and of those
    /// that were wrong.
    pub fn guesses(&self) -> [u64; 2] {
        self.hotspots.guesses()
    }

    /// Copies the cached nodes and the hot keys of another compute node of the same tree and
    /// options. Cached nodes have the epochs in which they were read, which all compute nodes of a
    /// tree share.
    pub fn learn_from(&self, other: &ChimeComputeNode) {
        self.cache.learn_from(&other.cache);
        self.hotspots.learn_from(&other.hotspots);
    }

    /// Returns the number of leaves that scans of its clients have read, by place.
    pub fn leaf_reads(&self) -> LeafReads {
        self.leaf_counters.get()
    }

    /// Returns the bytes that it has reserved for hotspots.
    pub fn hotspot_bytes(&self) -> usize {
        self.hotspots.bytes() + self.overwrite_hints.bytes()
    }
}
