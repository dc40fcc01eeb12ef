//! Other projects' maps behind one trait, so that the lab can measure them and Nearfield together.
//!
//! Every map is used through the calls its documentation recommends for speed, and calls in a hot
//! loop are dispatched statically: [`PeerKind`] chooses a map once, and calls a [`Visitor`] that is
//! compiled for that map. `docs/benchmarks.md` lists each peer with its configuration and its
//! missing features.
//!
//! Keys are either `u64` or [`PeerTextKey`]; values are `u64`.

#![forbid(unsafe_code)]

mod blart;
mod brie_tree;
mod btreemap;
mod congee;
mod dashmap;
mod ferntree;
mod indexset;
mod kind;
mod masstree;
mod papaya;
mod peer;
mod rival;
mod scc;
mod skiplist;
mod source;

pub use kind::{PeerKind, Visitor};
pub use peer::{PeerMap, PeerSession};
pub use source::{PeerKey, PeerTextKey};
