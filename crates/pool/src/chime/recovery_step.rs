//! The step that remains after a recorded change, for a client that takes the lock over.

use crate::layout::internal::address;
use nearfield_fabric::GlobalAddress;

/// A further task under a lock before its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecoveryStep {
    /// The node was divided, and its parent must be updated.
    Divided(ChimeNodeDivision),
    /// The locks of two children of the node may be held on behalf of it, and must be released.
    Children(Children),
    /// Two children were merged: as before, and the memory of the right one is free.
    Merged(Children),
    /// The node was the root and has one child, which becomes the root.
    Lowered {
        /// The level of the node.
        level: u8,
        child: GlobalAddress,
    },
}

/// The division of a node, which has kept the keys below `separator`; `right` has the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChimeNodeDivision {
    /// The level of the node.
    pub level: u8,
    pub separator: Box<[u8]>,
    pub right: GlobalAddress,
}

/// Two adjacent children of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Children {
    /// Their level.
    pub level: u8,
    pub left: GlobalAddress,
    pub right: GlobalAddress,
}

const DIVIDED: u8 = 1;
const CHILDREN: u8 = 2;
const MERGED: u8 = 3;
const LOWERED: u8 = 4;
const ADDRESS_BYTES: usize = 8;

impl RecoveryStep {
    pub fn encode(&self) -> Vec<u8> {
        let (kind, level, addresses, separator) = match self {
            RecoveryStep::Divided(division) => {
                let ChimeNodeDivision {
                    level,
                    separator,
                    right,
                } = division;
                (DIVIDED, *level, vec![*right], &**separator)
            }
            RecoveryStep::Children(pair) => {
                (CHILDREN, pair.level, vec![pair.left, pair.right], &[][..])
            }
            RecoveryStep::Merged(pair) => {
                (MERGED, pair.level, vec![pair.left, pair.right], &[][..])
            }
            RecoveryStep::Lowered { level, child } => (LOWERED, *level, vec![*child], &[][..]),
        };
        // The separator comes last, so that its length need not be stored.
        let mut bytes = vec![kind, level];
        for address in addresses {
            bytes.extend_from_slice(&address.to_bits().to_le_bytes());
        }
        debug_assert!(kind == DIVIDED || separator.is_empty());
        bytes.extend_from_slice(separator);
        bytes
    }

    /// Decodes a step; returns `None` if there is no task.
    pub fn decode(bytes: &[u8]) -> Option<RecoveryStep> {
        // A record may hold anything, so a note that is no step names none.
        let (&[kind, level], rest) = bytes.split_first_chunk()?;
        let (first, rest) = rest.split_at_checked(ADDRESS_BYTES)?;
        let first = address(first);
        let children = || {
            Some(Children {
                level,
                left: first,
                right: address(rest.get(..ADDRESS_BYTES)?),
            })
        };
        match kind {
            DIVIDED => Some(RecoveryStep::Divided(ChimeNodeDivision {
                level,
                separator: rest.into(),
                right: first,
            })),
            CHILDREN => Some(RecoveryStep::Children(children()?)),
            MERGED => Some(RecoveryStep::Merged(children()?)),
            LOWERED => Some(RecoveryStep::Lowered {
                level,
                child: first,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let node = |offset| GlobalAddress::new(NodeId(7), offset);
        let children = Children {
            level: 1,
            left: node(64),
            right: node(128),
        };
        let notes = [
            RecoveryStep::Divided(ChimeNodeDivision {
                level: 3,
                separator: b"separator".as_slice().into(),
                right: node(4096),
            }),
            RecoveryStep::Children(children),
            RecoveryStep::Merged(children),
            RecoveryStep::Lowered {
                level: 2,
                child: node(192),
            },
        ];
        for note in notes {
            let bytes = note.encode();
            assert_eq!(RecoveryStep::decode(&bytes[..9]), None);
            assert_eq!(RecoveryStep::decode(&bytes), Some(note));
        }
        assert_eq!(RecoveryStep::decode(&[]), None);
        assert_eq!(RecoveryStep::decode(&[9; 20]), None);
    }
}
