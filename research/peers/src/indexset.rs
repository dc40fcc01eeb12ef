//! indexset's `BTreeMap`: a two-level B-tree of large sorted vectors, one thread.

use crate::btreemap::btreemap_peer;
use indexset::BTreeMap;

btreemap_peer!(
    /// The peer of this module. Node size is the crate's default, 1024.
    Indexset,
    BTreeMap
);
