//! The bytes of calls. Numbers are little-endian.
//!
//! A call: its number (8 bytes), a byte for its kind, its fields. A reply: the call's number, a
//! byte that is 1 if the call was carried out, then the payload.

use nearfield_offload::program::ProgramHash;

/// A call to a memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum NodeCall<'c> {
    /// A read of this many bytes.
    Read { address: u64, bytes: u32 },
    /// A write of bytes.
    Write { address: u64, bytes: &'c [u8] },
    /// A traversal by native code in place of a program, followed by an access to the bytes that a
    /// word of the result points to.
    Traverse {
        program: ProgramHash,
        start: u64,
        /// The scratchpad without trailing zeros.
        scratchpad: &'c [u8],
        follow: Follow<'c>,
    },
    /// An insertion of an entry into the tree of a root.
    Insert { root: u64, key: u64, value: u64 },
}

/// The access after a traversal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Follow<'c> {
    Nothing,
    Read { word: u16, bytes: u32 },
    Write { word: u16, bytes: &'c [u8] },
}

/// The most bytes of a datagram on the loopback interface.
pub(super) const DATAGRAM_BYTES_MAX: usize = 32 << 10;

const READ: u8 = 0;
const WRITE: u8 = 1;
const TRAVERSE: u8 = 2;
const INSERT: u8 = 3;

/// The reply to a traversal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct TraversalReply<'a> {
    /// The address at another memory node where the traversal continues; 0 at its end.
    pub next: u64,
    /// True if the node has made the access after the traversal. It does not before the end of the
    /// traversal, nor to bytes of another node.
    pub is_followed: bool,
    /// The scratchpad without trailing zeros.
    pub scratchpad: &'a [u8],
    /// The bytes that the access has read.
    pub object: &'a [u8],
}

impl<'a> TraversalReply<'a> {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.extend(self.next.to_le_bytes());
        to.push(self.is_followed.into());
        debug_assert!(u16::try_from(self.scratchpad.len()).is_ok());
        to.extend((self.scratchpad.len() as u16).to_le_bytes());
        to.extend(self.scratchpad);
        to.extend(self.object);
    }

    pub(in super::super) fn decode(reply: &'a [u8]) -> Option<TraversalReply<'a>> {
        let mut bytes = NodeCallReader(reply);
        Some(TraversalReply {
            next: bytes.word()?,
            is_followed: bytes.take()? == [1],
            scratchpad: {
                let length = u16::from_le_bytes(bytes.take()?);
                bytes.slice(length.into())?
            },
            object: bytes.rest(),
        })
    }
}

impl NodeCall<'_> {
    /// Returns an address that the memory node of the call holds.
    pub(super) fn address(&self) -> u64 {
        match *self {
            NodeCall::Read { address, .. } | NodeCall::Write { address, .. } => address,
            NodeCall::Traverse { start, .. } => start,
            NodeCall::Insert { root, .. } => root,
        }
    }

    /// Encodes the call with a number.
    pub(super) fn encode(&self, number: u64) -> Vec<u8> {
        let mut to = number.to_le_bytes().to_vec();
        match self {
            NodeCall::Read { address, bytes } => {
                to.push(READ);
                to.extend(address.to_le_bytes());
                to.extend(bytes.to_le_bytes());
            }
            NodeCall::Write { address, bytes } => {
                to.push(WRITE);
                to.extend(address.to_le_bytes());
                to.extend(*bytes);
            }
            NodeCall::Traverse {
                program,
                start,
                scratchpad,
                follow,
            } => {
                to.push(TRAVERSE);
                to.extend(program.0);
                to.extend(start.to_le_bytes());
                let (kind, word, bytes, written): (u8, _, _, &[u8]) = match follow {
                    Follow::Nothing => (0, 0, 0, &[]),
                    Follow::Read { word, bytes } => (1, *word, *bytes, &[]),
                    Follow::Write { word, bytes } => (2, *word, 0, bytes),
                };
                to.push(kind);
                to.extend(word.to_le_bytes());
                to.extend(bytes.to_le_bytes());
                debug_assert!(u16::try_from(scratchpad.len()).is_ok());
                to.extend((scratchpad.len() as u16).to_le_bytes());
                to.extend(*scratchpad);
                to.extend(written);
            }
            NodeCall::Insert { root, key, value } => {
                to.push(INSERT);
                for word in [root, key, value] {
                    to.extend(word.to_le_bytes());
                }
            }
        }
        to
    }
}

/// Decodes a call and its number; returns `None` if the bytes do not parse.
pub(super) fn decode(datagram: &[u8]) -> Option<(u64, NodeCall<'_>)> {
    let mut bytes = NodeCallReader(datagram);
    let number = bytes.word()?;
    let call = match bytes.take::<1>()? {
        [READ] => NodeCall::Read {
            address: bytes.word()?,
            bytes: u32::from_le_bytes(bytes.take()?),
        },
        [WRITE] => NodeCall::Write {
            address: bytes.word()?,
            bytes: bytes.rest(),
        },
        [TRAVERSE] => {
            let program = ProgramHash(bytes.take()?);
            let start = bytes.word()?;
            let [kind] = bytes.take()?;
            let word = u16::from_le_bytes(bytes.take()?);
            let wanted = u32::from_le_bytes(bytes.take()?);
            let length = u16::from_le_bytes(bytes.take()?);
            let scratchpad = bytes.slice(length.into())?;
            let follow = match kind {
                0 => Follow::Nothing,
                1 => Follow::Read {
                    word,
                    bytes: wanted,
                },
                2 => Follow::Write {
                    word,
                    bytes: bytes.rest(),
                },
                _ => return None,
            };
            NodeCall::Traverse {
                program,
                start,
                scratchpad,
                follow,
            }
        }
        [INSERT] => NodeCall::Insert {
            root: bytes.word()?,
            key: bytes.word()?,
            value: bytes.word()?,
        },
        _ => return None,
    };
    // Bytes behind the last field belong to another format.
    bytes.0.is_empty().then_some((number, call))
}

struct NodeCallReader<'b>(&'b [u8]);

impl<'b> NodeCallReader<'b> {
    fn slice(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn take<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        self.slice(COUNT)?.try_into().ok()
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_and_parts_of_them_are_none() {
        let traverse = |follow| NodeCall::Traverse {
            program: ProgramHash([7; 16]),
            start: 8192,
            scratchpad: &[1, 2, 3],
            follow,
        };
        let calls = [
            NodeCall::Read {
                address: 5,
                bytes: 8192,
            },
            NodeCall::Insert {
                root: 1,
                key: 2,
                value: 3,
            },
            traverse(Follow::Nothing),
            traverse(Follow::Read { word: 64, bytes: 9 }),
        ];
        for call in calls {
            let bytes = call.encode(77);
            assert_eq!(decode(&bytes), Some((77, call)));
            for length in 0..bytes.len() {
                assert_eq!(decode(&bytes[..length]), None, "{length}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(decode(&longer), None);
        }
        for bytes in [&b"written"[..], &[]] {
            for call in [
                NodeCall::Write { address: 1, bytes },
                traverse(Follow::Write { word: 3, bytes }),
            ] {
                assert_eq!(decode(&call.encode(1)), Some((1, call)));
            }
        }
        let reached = TraversalReply {
            next: 4096,
            is_followed: true,
            scratchpad: &[1, 2],
            object: &[3],
        };
        let mut bytes = Vec::new();
        reached.encode(&mut bytes);
        assert_eq!(TraversalReply::decode(&bytes), Some(reached));
        assert_eq!(TraversalReply::decode(&bytes[..12]), None);
        let mut wrong = NodeCall::Insert {
            root: 1,
            key: 2,
            value: 3,
        }
        .encode(1);
        wrong[8] = 9;
        assert_eq!(decode(&wrong), None);
    }
}
