//! The step that remains after a recorded change, for a client that takes the lock over.

use super::root::LEVEL_MAX;
use crate::layout::internal::address;
use crate::layout::is_empty_key;
use nearfield_fabric::GlobalAddress;

/// A further task under a lock before its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecoveryStep {
    /// The node was divided, and its parent must be updated.
    Divided(ChimeNodeDivision),
    /// The leaf was moved to the right half of a division that left it empty, and its parent must
    /// lead there.
    Moved(ChimeNodeDivision),
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
const MOVED: u8 = 5;
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
            RecoveryStep::Moved(moved) => {
                (MOVED, moved.level, vec![moved.right], &*moved.separator)
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
        debug_assert!(matches!(kind, DIVIDED | MOVED) || separator.is_empty());
        bytes.extend_from_slice(separator);
        bytes
    }

    /// Decodes a step of a tree with keys of this length; returns `None` if there is no task.
    pub fn decode(bytes: &[u8], key_bytes: usize) -> Option<RecoveryStep> {
        // A record may hold anything, so a note that is no step names none.
        let (&[kind, level], rest) = bytes.split_first_chunk()?;
        let (first, rest) = rest.split_at_checked(ADDRESS_BYTES)?;
        let first = address(first);
        // A division and a merge change the level above, and a lowered root the one below.
        let levels = match kind {
            LOWERED => 2..=LEVEL_MAX,
            // Only leaves are moved.
            MOVED => 1..=1,
            _ => 1..=LEVEL_MAX - 1,
        };
        if !levels.contains(&level) {
            return None;
        }
        let children = || {
            Some(Children {
                level,
                left: first,
                right: address(rest.get(..ADDRESS_BYTES)?),
            })
        };
        match kind {
            DIVIDED => {
                let is_key = rest.len() == key_bytes && !is_empty_key(rest);
                is_key.then(|| {
                    RecoveryStep::Divided(ChimeNodeDivision {
                        level,
                        separator: rest.into(),
                        right: first,
                    })
                })
            }
            // The first leaf of a tree begins at the key of zeros.
            MOVED => (rest.len() == key_bytes).then(|| {
                RecoveryStep::Moved(ChimeNodeDivision {
                    level,
                    separator: rest.into(),
                    right: first,
                })
            }),
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
            RecoveryStep::Moved(ChimeNodeDivision {
                level: 1,
                separator: [0_u8; 9].as_slice().into(),
                right: node(8192),
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
            assert_eq!(RecoveryStep::decode(&bytes[..9], 9), None);
            assert_eq!(RecoveryStep::decode(&bytes, 9), Some(note));
        }
        assert_eq!(RecoveryStep::decode(&[], 9), None);
        assert_eq!(RecoveryStep::decode(&[9; 20], 9), None);
    }

    /// Levels and separators that no tree has would lead to a step that no client can make.
    #[test]
    fn notes_of_impossible_steps_name_none() {
        let right = GlobalAddress::new(NodeId(7), 64);
        let divided = |level, separator: &[u8]| {
            RecoveryStep::Divided(ChimeNodeDivision {
                level,
                separator: separator.into(),
                right,
            })
        };
        let merged = |level| {
            RecoveryStep::Merged(Children {
                level,
                left: right,
                right,
            })
        };
        let moved = |level, separator: &[u8]| {
            RecoveryStep::Moved(ChimeNodeDivision {
                level,
                separator: separator.into(),
                right,
            })
        };
        let lowered = |level| RecoveryStep::Lowered {
            level,
            child: right,
        };
        for note in [
            divided(0, b"eight by"),
            divided(LEVEL_MAX, b"eight by"),
            divided(u8::MAX, b"eight by"),
            divided(1, b"seven b"),
            divided(1, b"nine byte"),
            divided(1, &[0; 8]),
            moved(0, b"eight by"),
            moved(2, b"eight by"),
            moved(1, b"seven b"),
            merged(0),
            merged(u8::MAX),
            lowered(0),
            lowered(1),
            lowered(LEVEL_MAX + 1),
        ] {
            assert_eq!(RecoveryStep::decode(&note.encode(), 8), None, "{note:?}");
        }
        let last = lowered(LEVEL_MAX);
        assert_eq!(RecoveryStep::decode(&last.encode(), 8), Some(last));
    }
}
