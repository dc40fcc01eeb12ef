//! The closed list of peers, and the one place that chooses among them.

use crate::blart::Blart;
use crate::brie_tree::BrieTree;
use crate::btreemap::StdBTreeMap;
use crate::congee::Congee;
use crate::dashmap::Dashmap;
use crate::ferntree::Ferntree;
use crate::indexset::Indexset;
use crate::masstree::Masstree;
use crate::papaya::Papaya;
use crate::rival::RivalMap;
use crate::scc::Scc;
use crate::skiplist::Skiplist;
use crate::{PeerKey, PeerMap, PeerTextKey};
use nearfield_core::{ByteStrings, Words};
use nearfield_radix_rivals as rivals;

/// A peer by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "named after the crates, each described in its module"
)]
pub enum PeerKind {
    BTreeMap,
    BrieTree,
    Congee,
    Blart,
    Ferntree,
    Indexset,
    Masstree,
    Scc,
    Skiplist,
    Papaya,
    Dashmap,
    ArtOlc,
    ArtRowex,
    Smart,
    Heart,
}

const _: () = assert!(
    PeerKind::ALL.len() == PeerKind::Heart as usize + 1,
    "all peers are listed"
);

/// An action on a map that is chosen at run time, compiled for each map.
pub trait Visitor<S: PeerKey> {
    /// The result of the action.
    type Output;

    /// Runs the action; the map is a type parameter.
    fn visit<P: PeerMap<S> + 'static>(self) -> Self::Output;
}

impl PeerKind {
    /// All peers: ordered maps of others, hash maps of others, and others' designs as we build
    /// them.
    pub const ALL: [PeerKind; 15] = [
        PeerKind::BTreeMap,
        PeerKind::BrieTree,
        PeerKind::Congee,
        PeerKind::Blart,
        PeerKind::Ferntree,
        PeerKind::Indexset,
        PeerKind::Masstree,
        PeerKind::Scc,
        PeerKind::Skiplist,
        PeerKind::Papaya,
        PeerKind::Dashmap,
        PeerKind::ArtOlc,
        PeerKind::ArtRowex,
        PeerKind::Smart,
        PeerKind::Heart,
    ];

    /// Returns the name that command lines and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            PeerKind::BTreeMap => "btreemap",
            PeerKind::BrieTree => "brie-tree",
            PeerKind::Congee => "congee",
            PeerKind::Blart => "blart",
            PeerKind::Ferntree => "ferntree",
            PeerKind::Indexset => "indexset",
            PeerKind::Masstree => "masstree",
            PeerKind::Scc => "scc",
            PeerKind::Skiplist => "crossbeam-skiplist",
            PeerKind::Papaya => "papaya",
            PeerKind::Dashmap => "dashmap",
            PeerKind::ArtOlc => "art-olc",
            PeerKind::ArtRowex => "art-rowex",
            PeerKind::Smart => "smart",
            PeerKind::Heart => "heart",
        }
    }

    /// Finds the peer of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Returns true if threads may share the map.
    pub fn is_shared(self) -> bool {
        !matches!(
            self,
            PeerKind::BTreeMap | PeerKind::BrieTree | PeerKind::Blart | PeerKind::Indexset
        )
    }

    /// Returns true if the map keeps its keys in order, and so has scans.
    pub fn is_ordered(self) -> bool {
        !matches!(self, PeerKind::Papaya | PeerKind::Dashmap)
    }

    /// Returns true if the map takes strings as keys.
    pub fn takes_text(self) -> bool {
        !matches!(self, PeerKind::BrieTree | PeerKind::Congee)
    }

    /// Calls `visitor` with the map for keys of 8 bytes.
    pub fn visit_words<V: Visitor<u64>>(self, visitor: V) -> V::Output {
        // The choice is made outside of the measured loop: each arm compiles the visitor for one
        // map.
        match self {
            PeerKind::BTreeMap => visitor.visit::<StdBTreeMap<u64>>(),
            PeerKind::BrieTree => visitor.visit::<BrieTree>(),
            PeerKind::Congee => visitor.visit::<Congee>(),
            PeerKind::Blart => visitor.visit::<Blart<[u8; 8]>>(),
            PeerKind::Ferntree => visitor.visit::<Ferntree<u64>>(),
            PeerKind::Indexset => visitor.visit::<Indexset<u64>>(),
            PeerKind::Masstree => visitor.visit::<Masstree>(),
            PeerKind::Scc => visitor.visit::<Scc<u64>>(),
            PeerKind::Skiplist => visitor.visit::<Skiplist<u64>>(),
            PeerKind::Papaya => visitor.visit::<Papaya<u64>>(),
            PeerKind::Dashmap => visitor.visit::<Dashmap<u64>>(),
            PeerKind::ArtOlc => visitor.visit::<RivalMap<Words, rivals::OlcTree<Words>>>(),
            PeerKind::ArtRowex => visitor.visit::<RivalMap<Words, rivals::RowexTree<Words>>>(),
            PeerKind::Smart => visitor.visit::<RivalMap<Words, rivals::SmartTree<Words>>>(),
            PeerKind::Heart => visitor.visit::<RivalMap<Words, rivals::HeartTree<Words>>>(),
        }
    }

    /// Calls `visitor` with the map for strings; returns `None` if the peer has none.
    pub fn visit_text<V: Visitor<PeerTextKey>>(self, visitor: V) -> Option<V::Output> {
        Some(match self {
            PeerKind::BTreeMap => visitor.visit::<StdBTreeMap<PeerTextKey>>(),
            PeerKind::BrieTree | PeerKind::Congee => {
                debug_assert!(!self.takes_text());
                return None;
            }
            PeerKind::Blart => visitor.visit::<Blart<&'static [u8]>>(),
            PeerKind::Ferntree => visitor.visit::<Ferntree<&'static str>>(),
            PeerKind::Indexset => visitor.visit::<Indexset<PeerTextKey>>(),
            PeerKind::Masstree => visitor.visit::<Masstree>(),
            PeerKind::Scc => visitor.visit::<Scc<PeerTextKey>>(),
            PeerKind::Skiplist => visitor.visit::<Skiplist<PeerTextKey>>(),
            PeerKind::Papaya => visitor.visit::<Papaya<PeerTextKey>>(),
            PeerKind::Dashmap => visitor.visit::<Dashmap<PeerTextKey>>(),
            PeerKind::ArtOlc => {
                visitor.visit::<RivalMap<ByteStrings, rivals::OlcTree<ByteStrings>>>()
            }
            PeerKind::ArtRowex => {
                visitor.visit::<RivalMap<ByteStrings, rivals::RowexTree<ByteStrings>>>()
            }
            PeerKind::Smart => {
                visitor.visit::<RivalMap<ByteStrings, rivals::SmartTree<ByteStrings>>>()
            }
            PeerKind::Heart => {
                visitor.visit::<RivalMap<ByteStrings, rivals::HeartTree<ByteStrings>>>()
            }
        })
    }
}
