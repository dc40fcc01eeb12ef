//! Who takes part.

use crate::error::{LabError, shortened};
use nearfield_peers::PeerKind;
use std::fmt;
use std::str::FromStr;

/// A map that is measured: Nearfield or a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contestant {
    /// Nearfield's radix tree, in batches or one operation at a time.
    Nearfield,
    /// The same tree with one operation after the other inside a batch, each from the root.
    OperationCentric,
    /// Somebody else's map, one operation at a time.
    Peer(PeerKind),
}

/// What `Contestant` reads.
const ALLOWED: &str = "nearfield, nearfield-operation-centric, btreemap, congee, blart, ferntree, indexset, masstree, scc, \
                       crossbeam-skiplist, papaya, dashmap";

impl Contestant {
    /// The name in command lines and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Contestant::Nearfield => "nearfield",
            Contestant::OperationCentric => "nearfield-operation-centric",
            Contestant::Peer(kind) => kind.name(),
        }
    }

    /// All contestants.
    pub fn all() -> impl Iterator<Item = Contestant> {
        let ours = [Contestant::Nearfield, Contestant::OperationCentric];
        ours.into_iter().chain(PeerKind::ALL.map(Contestant::Peer))
    }

    /// Whether the map is Nearfield's, in whatever mode, and so counts what it does.
    #[must_use]
    pub fn is_ours(self) -> bool {
        !matches!(self, Contestant::Peer(_))
    }

    /// Whether threads may share the map.
    pub(super) fn is_shared(self) -> bool {
        match self {
            Contestant::Nearfield | Contestant::OperationCentric => true,
            Contestant::Peer(kind) => kind.is_shared(),
        }
    }

    /// Whether the map has scans.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        match self {
            Contestant::Nearfield | Contestant::OperationCentric => true,
            Contestant::Peer(kind) => kind.is_ordered(),
        }
    }

    /// Whether the map takes strings as keys.
    pub(super) fn takes_text(self) -> bool {
        match self {
            Contestant::Nearfield | Contestant::OperationCentric => true,
            Contestant::Peer(kind) => kind.takes_text(),
        }
    }
}

impl FromStr for Contestant {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Contestant::all()
            .find(|contestant| contestant.name() == text)
            .ok_or_else(|| LabError::UnknownName {
                what: "peer",
                given: shortened(text),
                allowed: ALLOWED,
            })
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_back_and_listed() {
        for contestant in Contestant::all() {
            assert_eq!(
                contestant.to_string().parse::<Contestant>().unwrap(),
                contestant
            );
            assert!(ALLOWED.contains(contestant.name()));
        }
        let error = "redis".parse::<Contestant>().unwrap_err().to_string();
        assert!(
            error.contains("redis") && error.contains(ALLOWED),
            "{error}"
        );
    }
}
