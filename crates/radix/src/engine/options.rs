//! The options of the engine.

/// The condition under which the engine sorts the operations of a batch by key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// Sorts if enough operations of the batch have the same keys. Sorting other batches costs more
    /// than it saves.
    #[default]
    Adaptive,
    /// Always sorts.
    Always,
    /// Never sorts: point operations are executed one after another, and other threads see the
    /// writes of a batch in its order. With [`EngineOptions::interleave`], their walks are still
    /// interleaved.
    Never,
}

/// The techniques of the engine. Each can be switched off at any time between two batches, without
/// an effect on results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// *Combine*: sorts operations by key, so that operations on one key become one visit.
    pub combine: Combine,
    /// *Traverse*: keeps many walks in flight, each prefetching its next node.
    pub interleave: bool,
    /// Paths that sorted operations share are walked only once.
    pub share_paths: bool,
    /// *Trigger*: executes all operations of a batch on one node under one lock.
    pub trigger_together: bool,
    /// Memory for shortcuts from keys to leaves, in bytes; 0 for none. Only maps whose hot keys are
    /// deep in the tree gain from them, see `docs/local.md`.
    pub shortcut_bytes: usize,
    /// Value-aware prefetching: lines that no other operation of the batch shares are fetched
    /// without displacing the lines of shared ones.
    pub keep_hot_close: bool,
}

impl Default for EngineOptions {
    /// Creates the options that are fastest in most cases. The engine chooses per batch where a
    /// technique depends on the batch.
    fn default() -> Self {
        EngineOptions {
            combine: Combine::Adaptive,
            interleave: true,
            share_paths: true,
            trigger_together: true,
            shortcut_bytes: 0,
            keep_hot_close: false,
        }
    }
}

impl EngineOptions {
    /// Creates the operation-centric mode, the baseline: one operation at a time, each of which
    /// walks from the root and takes its own lock.
    pub fn operation_centric() -> Self {
        EngineOptions {
            combine: Combine::Never,
            interleave: false,
            share_paths: false,
            trigger_together: false,
            shortcut_bytes: 0,
            keep_hot_close: false,
        }
    }

    /// Creates the options with all techniques of the DCART paper, even those that do not pay on a
    /// CPU.
    pub fn data_centric(shortcut_bytes: usize) -> Self {
        EngineOptions {
            combine: Combine::Always,
            interleave: true,
            share_paths: true,
            trigger_together: true,
            shortcut_bytes,
            keep_hot_close: true,
        }
    }
}
