//! The metadata of leaves: their bytes besides keys and values.

use super::scale::{ChimeScale, Figure};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use nearfield_pool::layout::{Arrangement, Geometry, PoolIndexShape, PoolLeafLayout, Validation};
use nearfield_pool_rivals::{rolex, smart};

const KEYS: [usize; 6] = [8, 16, 32, 64, 128, 256];

/// The leaves of an index.
#[derive(Clone, Copy)]
enum IndexLeafKind {
    Tree(Arrangement, Validation),
    Rolex,
    Smart,
}

impl IndexLeafKind {
    /// Returns the bytes of a leaf that are neither key nor value, for each slot. Padding between
    /// leaves, which makes them begin at a line, does not count.
    fn metadata(self, key_bytes: usize) -> f64 {
        let mut shape = PoolIndexShape {
            key_bytes,
            ..PoolIndexShape::default()
        };
        let (bytes, slots) = match self {
            IndexLeafKind::Tree(arrangement, validation) => {
                shape.arrangement = arrangement;
                shape.validation = validation;
                let layout = PoolLeafLayout::new(Geometry::new(shape).unwrap_or_default());
                (layout.allocation_bytes(), layout.span())
            }
            IndexLeafKind::Rolex => {
                shape.leaf_span = 16;
                let layout = rolex::RolexLeafLayout::new(Geometry::new(shape).unwrap_or_default());
                (layout.lock_offset() + 8, layout.span())
            }
            IndexLeafKind::Smart => (
                smart::SmartLeafLayout::new(key_bytes, shape.value_bytes).bytes(),
                1,
            ),
        };
        debug_assert!(bytes >= slots * (key_bytes + shape.value_bytes));
        (bytes - slots * (key_bytes + shape.value_bytes)) as f64 / slots as f64
    }
}

/// Creates the job of figure 16, from the layouts themselves.
pub(super) fn metadata(figure: &Figure, _: &ChimeScale) -> Vec<FigureJob> {
    let name = figure.name;
    let hopscotch = |validation| IndexLeafKind::Tree(Arrangement::Hopscotch, validation);
    let peers = [
        ("chime", hopscotch(Validation::Sibling)),
        ("chime, fence keys", hopscotch(Validation::Fences)),
        (
            "sherman",
            IndexLeafKind::Tree(Arrangement::Unordered, Validation::Fences),
        ),
        ("rolex", IndexLeafKind::Rolex),
        ("smart", IndexLeafKind::Smart),
    ];
    let job = |(peer, leaves): (&'static str, IndexLeafKind)| {
        FigureJob::count(name, peer, move || {
            let row = |key_bytes: usize| {
                let x = Quantity::new("length of a key", "bytes", key_bytes as f64);
                let bytes = leaves.metadata(key_bytes);
                let y = Quantity::new("metadata of an entry", "bytes", bytes);
                Row::counted(name, peer, x, y)
            };
            KEYS.map(row).to_vec()
        })
    };
    peers.map(job).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_as_published() {
        for (key_bytes, published) in [(8, [4.8, 6.8]), (64, [5.7, 22.0]), (256, [8.75, 73.8])] {
            let validations = [Validation::Sibling, Validation::Fences];
            for (validation, published) in validations.into_iter().zip(published) {
                let leaves = IndexLeafKind::Tree(Arrangement::Hopscotch, validation);
                let found = leaves.metadata(key_bytes);
                assert!((found - published).abs() < 0.06, "{key_bytes}: {found}");
            }
            assert_eq!(IndexLeafKind::Smart.metadata(key_bytes), 18.0);
        }
    }
}
