//! What is left to be done when a recorded change was made.

use crate::layout::internal::address;
use nearfield_fabric::GlobalAddress;

/// What else has to be done under a lock before it is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// The node was divided, and its parent has to be told.
    Divided(Division),
}

/// How a node was divided: it has kept the keys below `separator`, `right` has the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// The level of the node.
    pub level: u8,
    pub separator: Box<[u8]>,
    pub right: GlobalAddress,
}

const DIVIDED: u8 = 1;
const ADDRESS_BYTES: usize = 8;

impl Note {
    pub fn encode(&self) -> Vec<u8> {
        let Note::Divided(Division {
            level,
            separator,
            right,
        }) = self;
        let mut bytes = vec![DIVIDED, *level];
        bytes.extend_from_slice(&right.to_bits().to_le_bytes());
        bytes.extend_from_slice(separator);
        bytes
    }

    /// `None` if there is nothing to be done.
    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let (&[kind, level], rest) = bytes.split_first_chunk()?;
        let (right, separator) = rest.split_at_checked(ADDRESS_BYTES)?;
        (kind == DIVIDED).then(|| {
            Note::Divided(Division {
                level,
                separator: separator.into(),
                right: address(right),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let note = Note::Divided(Division {
            level: 3,
            separator: b"separator".as_slice().into(),
            right: GlobalAddress::new(NodeId(7), 4096),
        });
        let bytes = note.encode();
        assert_eq!(Note::decode(&bytes), Some(note));
        assert_eq!(Note::decode(&[]), None);
        assert_eq!(Note::decode(&bytes[..9]), None);
    }
}
