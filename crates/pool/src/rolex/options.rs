//! What one chooses, and what the clients of a compute node share.

use super::synonyms::Synonyms;
use super::table::Table;
use crate::layout::{Geometry, Shape};
use std::sync::{Arc, OnceLock};

/// What one may choose. The default is what CHIME (SOSP 2024) compares itself with: leaves of 16
/// entries, an error of 16, and 100 MB for what a compute node keeps.
#[derive(Clone, Debug)]
pub struct Options {
    /// The sizes of keys, values and leaves. The others have no meaning here.
    pub geometry: Geometry,
    /// By how many positions a prediction may be wrong. More make fewer lines and longer reads:
    /// leaves with twice as many entries and 3 are read.
    pub error: u32,
    /// How many bytes may be kept on a compute node. Models are kept in any case; what they leave
    /// is for addresses of synonym leaves.
    pub cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        let shape = Shape {
            leaf_span: 16,
            ..Shape::default()
        };
        Options {
            geometry: Geometry::new(shape).unwrap_or_default(),
            error: 16,
            cache_bytes: 100_000_000,
        }
    }
}

/// What the clients of one compute node share: the models, which the first of them reads from
/// remote memory, and the addresses of the synonym leaves that they have met.
#[derive(Debug)]
pub struct ComputeNode {
    pub(super) options: Options,
    pub(super) table: OnceLock<Arc<Table>>,
    pub(super) synonyms: Synonyms,
}

impl ComputeNode {
    /// Knows nothing yet.
    pub fn new(options: Options) -> ComputeNode {
        ComputeNode {
            options,
            table: OnceLock::new(),
            synonyms: Synonyms::default(),
        }
    }

    /// The bytes of all that is kept.
    pub fn cache_bytes(&self) -> usize {
        let table = self.table.get().map_or(0, |table| table.kept_bytes());
        size_of::<ComputeNode>() + table + self.synonyms.bytes()
    }

    /// What is kept of models and of the addresses of leaves, in bytes, without synonym leaves.
    pub fn model_bytes(&self) -> usize {
        self.table.get().map_or(0, |table| table.kept_bytes())
    }
}
