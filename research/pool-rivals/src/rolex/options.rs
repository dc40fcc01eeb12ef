//! The options, and the state that the clients of a compute node share.

use super::synonyms::Synonyms;
use super::table::RolexModelTable;
use crate::rolex::leaf::RolexLeafLayout;
use nearfield_fabric::LINE_BYTES;
use nearfield_hotness::Hotspots;
use nearfield_pool::coordination::ClientCoordination;
use nearfield_pool::layout::{
    Geometry, LockWordLayout, PoolIndexShape, PoolLeafLayout as HopscotchLayout, Validation,
};
use std::sync::{Arc, OnceLock};

/// The arrangement of entries in leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolexLeafKind {
    /// Arrays in no order; a leaf is read and written as a whole. Source: ROLEX.
    Arrays,
    /// Hopscotch hash tables, which clients read by neighborhoods and write by entries, and which
    /// are loaded up to three quarters. The geometry places the metadata. Source: CHIME, applied to
    /// ROLEX in its figure 15b.
    Hopscotch {
        /// True if inserts read only up to the first empty slot, which the lock word shows;
        /// otherwise they read the leaf.
        vacancy_piggyback: bool,
    },
}

/// The options. The default is CHIME's comparison (SOSP 2024): leaves of 16 entries, an error of
/// 16, and a budget of 100 MB for a compute node.
#[derive(Clone, Debug)]
pub struct RolexOptions {
    /// The sizes of keys, values and leaves, and for hopscotch leaves of neighborhoods. The others
    /// are ignored.
    pub geometry: Geometry,
    /// The arrangement of entries in leaves.
    pub leaves: RolexLeafKind,
    /// Number of positions by which a prediction may be wrong. A larger error gives fewer lines and
    /// longer reads: leaves with twice as many entries and 3 are read.
    pub error: u32,
    /// The budget of a compute node in bytes. Models and hotspots are always kept; the rest is for
    /// addresses of synonym leaves.
    pub cache_bytes: usize,
    /// Bytes of the budget for the last known slots of keys, by which clients read one entry
    /// (speculative reads: CHIME); 0 for none. Arrays have none.
    pub hotspot_bytes: usize,
    /// True if one client of a compute node reads a key for all clients that want it (read
    /// delegation: SMART). Not in ROLEX.
    pub delegates_reads: bool,
    /// True if one client of a compute node writes a key for all concurrent writers, except for
    /// removals (write combining: SMART). Not in ROLEX.
    pub combines_writes: bool,
}

impl Default for RolexOptions {
    fn default() -> RolexOptions {
        let shape = PoolIndexShape {
            leaf_span: 16,
            ..PoolIndexShape::default()
        };
        RolexOptions {
            geometry: Geometry::new(shape).unwrap_or_default(),
            leaves: RolexLeafKind::Arrays,
            error: 16,
            cache_bytes: 100_000_000,
            hotspot_bytes: 0,
            delegates_reads: false,
            combines_writes: false,
        }
    }
}

/// The layout of leaves that are hash tables: with fence keys, the lower of which is the leaf's
/// bound, and with the address of their synonym as the sibling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hopscotch {
    pub layout: HopscotchLayout,
    pub words: LockWordLayout,
    pub vacancy_piggyback: bool,
}

impl RolexOptions {
    pub(super) fn hopscotch(&self) -> Option<Hopscotch> {
        let RolexLeafKind::Hopscotch { vacancy_piggyback } = self.leaves else {
            return None;
        };
        let shape = PoolIndexShape {
            validation: Validation::Fences,
            ..*self.geometry.shape()
        };
        let geometry = Geometry::new(shape);
        debug_assert!(
            geometry.is_ok(),
            "validation has no effect on the validity of a shape"
        );
        let geometry = geometry.unwrap_or(self.geometry);
        Some(Hopscotch {
            layout: HopscotchLayout::new(geometry),
            words: LockWordLayout::new(shape.leaf_span),
            vacancy_piggyback,
        })
    }

    /// Returns the number of loaded keys that belong to a leaf.
    pub(super) fn keys_per_leaf(&self) -> usize {
        let span = self.geometry.shape().leaf_span;
        match self.leaves {
            RolexLeafKind::Arrays => span,
            // Fuller leaves have no room for some of the keys.
            RolexLeafKind::Hopscotch { .. } => (span * 3 / 4).max(1),
        }
    }

    /// Returns the distance from the start of a leaf to that of the next one, in bytes: whole
    /// lines.
    pub(super) fn stride_bytes(&self) -> usize {
        match self.hopscotch() {
            None => RolexLeafLayout::new(self.geometry).stride_bytes(),
            Some(hopscotch) => {
                let bytes = hopscotch.layout.allocation_bytes();
                bytes.next_multiple_of(LINE_BYTES as usize)
            }
        }
    }
}

/// The state that the clients of one compute node share: the models, which the first of them reads
/// from remote memory, the addresses of known synonym leaves, the last known slots of keys, and
/// their coordination.
#[derive(Debug)]
pub struct RolexComputeNode {
    pub(super) options: RolexOptions,
    pub(super) table: OnceLock<Arc<RolexModelTable>>,
    pub(super) synonyms: Synonyms,
    pub(super) hotspots: Hotspots,
    pub(super) delegation: ClientCoordination,
}

impl RolexComputeNode {
    /// Creates a compute node that knows nothing yet.
    pub fn new(options: RolexOptions) -> RolexComputeNode {
        let hotspot_bytes = match options.leaves {
            RolexLeafKind::Arrays => 0,
            RolexLeafKind::Hopscotch { .. } => options.hotspot_bytes,
        };
        RolexComputeNode {
            hotspots: Hotspots::with_bytes(hotspot_bytes),
            delegation: ClientCoordination::new(options.delegates_reads, options.combines_writes),
            options,
            table: OnceLock::new(),
            synonyms: Synonyms::default(),
        }
    }

    /// Copies the models, synonyms and hotspots of another compute node of the same index and
    /// options. It keeps its own models if it has some.
    pub fn learn_from(&self, other: &RolexComputeNode) {
        if let Some(table) = other.table.get() {
            self.table.get_or_init(|| Arc::clone(table));
        }
        self.synonyms.learn_from(&other.synonyms);
        self.hotspots.learn_from(&other.hotspots);
    }

    /// Returns the bytes of all that is cached.
    pub fn cache_bytes(&self) -> usize {
        let table = self.table.get().map_or(0, |table| table.kept_bytes());
        size_of::<RolexComputeNode>() + table + self.synonyms.bytes() + self.hotspots.bytes()
    }

    /// Returns the number of speculative reads of its clients so far that were right, and of those
    /// that were wrong.
    pub fn guesses(&self) -> [u64; 2] {
        self.hotspots.guesses()
    }

    /// Returns the bytes of models and of the addresses of leaves, without synonym leaves.
    pub fn model_bytes(&self) -> usize {
        self.table.get().map_or(0, |table| table.kept_bytes())
    }
}
