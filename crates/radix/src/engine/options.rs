//! The options of the engine.

/// When the engine sorts the operations of a batch by key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// When enough operations of the batch are of the same keys. Sorting others costs more than
    /// it saves.
    #[default]
    Adaptive,
    /// Always.
    Always,
    /// Never: point operations are executed one after the other, and other threads see the writes
    /// of a batch in its order. With [`EngineOptions::interleave`], their walks are still
    /// interleaved.
    Never,
}

/// The techniques of the engine. Each can be switched off at any time, between any two batches,
/// without an effect on answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// *Combine*: sort operations by key, so that operations on one key become one visit.
    pub combine: Combine,
    /// *Traverse*: keep many walks in flight, each prefetching its next node.
    pub interleave: bool,
    /// Walk paths that sorted operations share only once.
    pub share_paths: bool,
    /// *Trigger*: execute all operations of a batch on one node under one lock.
    pub trigger_together: bool,
    /// Memory for shortcuts from keys to leaves, in bytes; 0 for none. Only maps whose hot keys lie
    /// deep gain from them, see `docs/local.md`.
    pub shortcut_bytes: usize,
    /// Value-aware prefetching: lines of walks that no other operation of the batch shares are
    /// fetched without displacing the lines of shared ones.
    pub keep_hot_close: bool,
}

impl Default for EngineOptions {
    /// The fastest options in most cases. The engine chooses per batch where that differs.
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
    /// The operation-centric mode, the baseline: one operation after the other, each walking
    /// from the root and taking its own lock.
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

    /// Everything that the DCART paper describes, whether or not it pays on a CPU.
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
