//! The contestants of a benchmark.

use crate::error::LabError;
use crate::text::shortened;
use nearfield_peers::PeerKind;
use nearfield_radix::{Combine, EngineOptions};
use std::fmt;
use std::str::FromStr;

/// A map that is measured: Nearfield or a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BenchContestant {
    /// Nearfield's radix tree, in batches or one operation at a time.
    Nearfield,
    /// Nearfield's radix tree with explicitly chosen techniques of the engine.
    Chosen(Techniques),
    /// A map of another project, one operation at a time.
    Peer(PeerKind),
}

/// A set of the engine's techniques. Each includes those before it, except the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Techniques {
    /// No technique: one operation after the other inside a batch, each from the root. The
    /// baseline.
    OperationCentric,
    /// Interleaved walks, in the batch's order.
    Interleaved,
    /// Sorted operations, of which those of one key are combined.
    Combined,
    /// Sorted operations that walk shared paths together.
    Shared,
    /// Operations of one node that are triggered under one lock.
    Triggered,
    /// All techniques of the DCART paper, with 4 MiB of shortcuts.
    DataCentric,
}

/// Bytes of the data-centric mode's shortcuts.
const SHORTCUT_BYTES: usize = 4 << 20;

impl Techniques {
    const ALL: [Techniques; 6] = [
        Techniques::OperationCentric,
        Techniques::Interleaved,
        Techniques::Combined,
        Techniques::Shared,
        Techniques::Triggered,
        Techniques::DataCentric,
    ];

    fn name(self) -> &'static str {
        match self {
            Techniques::OperationCentric => "nearfield-operation-centric",
            Techniques::Interleaved => "nearfield-interleaved",
            Techniques::Combined => "nearfield-combined",
            Techniques::Shared => "nearfield-shared",
            Techniques::Triggered => "nearfield-triggered",
            Techniques::DataCentric => "nearfield-data-centric",
        }
    }

    /// Returns the engine's options.
    pub(super) fn options(self) -> EngineOptions {
        let none = EngineOptions::operation_centric();
        let interleaved = EngineOptions {
            interleave: true,
            ..none
        };
        let combined = EngineOptions {
            combine: Combine::Always,
            ..interleaved
        };
        let shared = EngineOptions {
            share_paths: true,
            ..combined
        };
        match self {
            Techniques::OperationCentric => none,
            Techniques::Interleaved => interleaved,
            Techniques::Combined => combined,
            Techniques::Shared => shared,
            Techniques::Triggered => EngineOptions {
                trigger_together: true,
                ..shared
            },
            Techniques::DataCentric => EngineOptions::data_centric(SHORTCUT_BYTES),
        }
    }
}

/// The names that `BenchContestant` parses.
const ALLOWED: &str = "nearfield, nearfield-interleaved, nearfield-combined, nearfield-shared, \
                       nearfield-triggered, nearfield-data-centric, \
                       nearfield-operation-centric, btreemap, brie-tree, congee, blart, ferntree, \
                       indexset, masstree, scc, crossbeam-skiplist, papaya, dashmap, art-olc, \
                       art-rowex, smart, heart";

impl BenchContestant {
    /// Returns the name in command lines and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BenchContestant::Nearfield => "nearfield",
            BenchContestant::Chosen(techniques) => techniques.name(),
            BenchContestant::Peer(kind) => kind.name(),
        }
    }

    /// Lists all contestants.
    pub fn all() -> impl Iterator<Item = BenchContestant> {
        let chosen = Techniques::ALL.map(BenchContestant::Chosen);
        let peers = PeerKind::ALL.map(BenchContestant::Peer);
        [BenchContestant::Nearfield]
            .into_iter()
            .chain(chosen)
            .chain(peers)
    }

    /// Returns true if the map is Nearfield's, in any mode, and so counts its work.
    #[must_use]
    pub fn is_ours(self) -> bool {
        !matches!(self, BenchContestant::Peer(_))
    }

    /// Returns true if threads may share the map.
    pub(super) fn is_shared(self) -> bool {
        match self {
            BenchContestant::Nearfield | BenchContestant::Chosen(_) => true,
            BenchContestant::Peer(kind) => kind.is_shared(),
        }
    }

    /// Returns true if the map has scans.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        match self {
            BenchContestant::Nearfield | BenchContestant::Chosen(_) => true,
            BenchContestant::Peer(kind) => kind.is_ordered(),
        }
    }

    /// Returns true if the map takes strings as keys.
    pub(super) fn takes_text(self) -> bool {
        match self {
            BenchContestant::Nearfield | BenchContestant::Chosen(_) => true,
            BenchContestant::Peer(kind) => kind.takes_text(),
        }
    }
}

impl FromStr for BenchContestant {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        BenchContestant::all()
            .find(|contestant| contestant.name() == text)
            .ok_or_else(|| LabError::UnknownName {
                subject: "peer",
                given: shortened(text),
                allowed: ALLOWED,
            })
    }
}

impl fmt::Display for BenchContestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_back_and_listed() {
        for contestant in BenchContestant::all() {
            assert_eq!(
                contestant.to_string().parse::<BenchContestant>().unwrap(),
                contestant
            );
            assert!(ALLOWED.contains(contestant.name()));
        }
        let error = "redis".parse::<BenchContestant>().unwrap_err().to_string();
        assert!(
            error.contains("redis") && error.contains(ALLOWED),
            "{error}"
        );
    }
}
