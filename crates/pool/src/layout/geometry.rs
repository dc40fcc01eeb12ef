//! The sizes that all nodes of an index share.

/// Maximum number of entries of a leaf, and of an internal node.
const SPAN_MAX: usize = 4096;
/// Maximum number of slots of a neighborhood: the hop bitmap has 16 bits.
const NEIGHBORHOOD_MAX: usize = 16;
const KEY_BYTES_MAX: usize = 4096;
const VALUE_BYTES_MAX: usize = 65_536;

/// The position of a leaf's metadata: whether it is valid, its sibling and, with
/// [`Validation::Fences`], its fence keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafMetadataPosition {
    /// One replica before every group of as many entries as a neighborhood has, so that a read of a
    /// neighborhood includes a replica. Source: CHIME, access-aggregated metadata management.
    Replicated,
    /// One copy, in front of the first entry.
    Single,
}

/// The slots of a leaf in which a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// The neighborhood of the slot that it hashes to, so that a reader needs no more. Source:
    /// CHIME, hopscotch leaf nodes.
    Hopscotch,
    /// The same as `Hopscotch`, without the hop bitmaps: node versions show moved keys. An insert
    /// writes only its entry, and entries have 2 bytes less. Not in the paper.
    Neighborhood,
    /// Any slot: a reader needs the whole leaf. Source: Sherman, as CHIME's authors have built it
    /// for their figures, with the versions of lines. There is one copy of the metadata, with fence
    /// keys.
    Unordered,
}

/// The means by which a client detects that the leaf to which a cached parent led it no longer
/// holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// The leaf's sibling, which must be the one that the parent expects. Source: CHIME,
    /// sibling-based validation.
    Sibling,
    /// The leaf's fence keys, which must enclose the key.
    Fences,
}

/// The configurable sizes. The default is CHIME's: keys and values of 8 bytes, 64 entries in a
/// node, 8 in a neighborhood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolIndexShape {
    /// The length of every key, in bytes: 1 to 4,096.
    pub key_bytes: usize,
    /// The length of every value, in bytes: 0 to 65,536.
    pub value_bytes: usize,
    /// Number of entries of a leaf: 2 to 4,096.
    pub leaf_span: usize,
    /// Number of entries of an internal node: 3 to 4,096. It has one child more.
    pub internal_span: usize,
    /// The slots of a leaf in which a key may be.
    pub arrangement: Arrangement,
    /// Number of slots, from the one that it hashes to, in which a key may be: 1 to 16, and no more
    /// than a leaf has. Ignored if leaves are not hash tables.
    pub neighborhood: usize,
    /// The position of a leaf's metadata.
    pub metadata: LeafMetadataPosition,
    /// The means by which a stale route to a leaf is detected.
    pub validation: Validation,
}

impl Default for PoolIndexShape {
    fn default() -> PoolIndexShape {
        PoolIndexShape {
            key_bytes: 8,
            value_bytes: 8,
            leaf_span: 64,
            internal_span: 64,
            arrangement: Arrangement::Hopscotch,
            neighborhood: 8,
            metadata: LeafMetadataPosition::Replicated,
            validation: Validation::Sibling,
        }
    }
}

/// An error in a [`PoolIndexShape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// Keys are too short or too long.
    #[error("invalid key length of {found} bytes: 1 to {KEY_BYTES_MAX} are allowed")]
    KeyBytes {
        /// The given value.
        found: usize,
    },
    /// Values are too long.
    #[error("invalid value length of {found} bytes: up to {VALUE_BYTES_MAX} are allowed")]
    ValueBytes {
        /// The given value.
        found: usize,
    },
    /// Leaves have too few entries, or too many.
    #[error("invalid leaf span of {found} entries: 2 to {SPAN_MAX} are allowed")]
    LeafSpan {
        /// The given value.
        found: usize,
    },
    /// Internal nodes have too few entries, or too many.
    #[error("invalid span of internal nodes, {found} entries: 3 to {SPAN_MAX} are allowed")]
    InternalSpan {
        /// The given value.
        found: usize,
    },
    /// Neighborhoods have too few slots, or too many.
    #[error(
        "invalid neighborhood of {found} slots: 1 to {NEIGHBORHOOD_MAX} are allowed, and at most \
         the {leaf_span} of a leaf"
    )]
    Neighborhood {
        /// The given value.
        found: usize,
        /// Number of slots of a leaf.
        leaf_span: usize,
    },
}

/// A [`PoolIndexShape`] that has been checked.
///
/// ```
/// use nearfield_pool::layout::{Geometry, GeometryError, PoolIndexShape};
/// let shape = PoolIndexShape { neighborhood: 17, ..PoolIndexShape::default() };
/// let error = GeometryError::Neighborhood { found: 17, leaf_span: 64 };
/// assert_eq!(Geometry::new(shape), Err(error));
/// assert_eq!(Geometry::default().shape().leaf_span, 64);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    shape: PoolIndexShape,
}

impl Geometry {
    /// Checks a shape. If its leaves are not hash tables, the metadata become single and the
    /// validation uses fence keys.
    ///
    /// # Errors
    /// The [`GeometryError`] of the first field outside its limits, in the order of the fields.
    pub fn new(shape: PoolIndexShape) -> Result<Geometry, GeometryError> {
        let found = shape.key_bytes;
        if !(1..=KEY_BYTES_MAX).contains(&found) {
            return Err(GeometryError::KeyBytes { found });
        }
        let found = shape.value_bytes;
        if found > VALUE_BYTES_MAX {
            return Err(GeometryError::ValueBytes { found });
        }
        let found = shape.leaf_span;
        if !(2..=SPAN_MAX).contains(&found) {
            return Err(GeometryError::LeafSpan { found });
        }
        let found = shape.internal_span;
        if !(3..=SPAN_MAX).contains(&found) {
            return Err(GeometryError::InternalSpan { found });
        }
        let (found, leaf_span) = (shape.neighborhood, shape.leaf_span);
        if !(1..=NEIGHBORHOOD_MAX.min(leaf_span)).contains(&found) {
            return Err(GeometryError::Neighborhood { found, leaf_span });
        }
        let shape = match shape.arrangement {
            Arrangement::Hopscotch | Arrangement::Neighborhood => shape,
            // A reader of such a leaf reads all of it, so replicas would save nothing.
            Arrangement::Unordered => PoolIndexShape {
                metadata: LeafMetadataPosition::Single,
                validation: Validation::Fences,
                ..shape
            },
        };
        Ok(Geometry { shape })
    }

    /// Returns the sizes.
    pub fn shape(&self) -> &PoolIndexShape {
        &self.shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_checked_at_both_ends() {
        let error = |change: fn(&mut PoolIndexShape)| {
            let mut shape = PoolIndexShape::default();
            change(&mut shape);
            Geometry::new(shape).err().map(|error| error.to_string())
        };
        let text = |found: &str| Some(found.to_owned());
        assert_eq!(error(|shape| shape.key_bytes = 4096), None);
        assert_eq!(
            error(|shape| shape.key_bytes = 0),
            text("invalid key length of 0 bytes: 1 to 4096 are allowed")
        );
        assert!(error(|shape| shape.key_bytes = 4097).is_some());
        assert_eq!(error(|shape| shape.value_bytes = 0), None);
        assert_eq!(
            error(|shape| shape.value_bytes = 65_537),
            text("invalid value length of 65537 bytes: up to 65536 are allowed")
        );
        assert_eq!(
            error(|shape| shape.leaf_span = 4097),
            text("invalid leaf span of 4097 entries: 2 to 4096 are allowed")
        );
        assert_eq!(
            error(|shape| shape.internal_span = 2),
            text("invalid span of internal nodes, 2 entries: 3 to 4096 are allowed")
        );
        assert_eq!(error(|shape| shape.neighborhood = 1), None);
        assert!(error(|shape| shape.neighborhood = 0).is_some());
        assert_eq!(
            error(|shape| shape.leaf_span = 4),
            text(
                "invalid neighborhood of 8 slots: 1 to 16 are allowed, and at most the 4 of a leaf"
            )
        );
    }
}
