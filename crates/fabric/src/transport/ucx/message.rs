//! The active messages between clients and nodes: little-endian words of 8 bytes.
//!
//! ```text
//!   request   magic and version │ kind │ number │ offset │ bytes │ verbs …
//!   reply     magic and version │ number │ done │ offset            to `Allocate…`, `Free`
//!             magic and version │ number │ done │ base │ size │ node │ by messages │ allocated
//!             │ key …                                               to `Hello`
//!             magic and version │ number │ done │ 0 │ bytes read …                    to `Do`
//! ```
//!
//! The [verbs](super::batch) are those of a post.
//!
//! The client assigns the number, to distinguish its calls.

use super::error::UcxError;
use crate::address::OFFSETS;

/// The magic: "nearfld", without its last letter, before the version.
const MAGIC: u64 = u64::from_le_bytes(*b"nearfl\0\0");
const MAGIC_MASK: u64 = (1 << 48) - 1;
/// The version of the format of messages and of a node's memory.
pub const VERSION: u32 = 3;
const FIRST: u64 = MAGIC | (VERSION as u64) << 48;

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UcxRequest {
    /// A request for the address, size and key of the node's memory.
    Hello,
    Allocate {
        bytes: u64,
    },
    Free {
        offset: u64,
        bytes: u64,
    },
    /// A notice that the reply to the `Allocate` of this number has arrived; it gets no reply.
    Taken,
    /// A notice like `Taken`, but the client no longer waits for the memory.
    Declined,
    /// A request to execute the following verbs.
    Do,
    /// A request like `Do` that gets no reply.
    Tell,
    /// A request to allocate these bytes; its reply is that to `Allocate`.
    AllocateAt {
        offset: u64,
        bytes: u64,
    },
    /// A request for the first line from an offset on that is allocated, or that is not.
    Find {
        offset: u64,
        is_allocated: bool,
    },
}

impl UcxRequest {
    pub fn encode(self, number: u64) -> Vec<u8> {
        let (kind, offset, bytes) = match self {
            UcxRequest::Hello => (1, 0, 0),
            UcxRequest::Allocate { bytes } => (2, 0, bytes),
            UcxRequest::Free { offset, bytes } => (3, offset, bytes),
            UcxRequest::Taken => (4, 0, 0),
            UcxRequest::Declined => (5, 0, 0),
            UcxRequest::Do => (6, 0, 0),
            UcxRequest::Tell => (7, 0, 0),
            UcxRequest::AllocateAt { offset, bytes } => (8, offset, bytes),
            UcxRequest::Find {
                offset,
                is_allocated,
            } => (9, offset, u64::from(is_allocated)),
        };
        join(&[FIRST, kind, number, offset, bytes])
    }

    /// Decodes a request. Returns it with its number and the following verbs; `None` if it is not a
    /// request of this version.
    pub fn decode(message: &[u8]) -> Option<(UcxRequest, u64, &[u8])> {
        let ([FIRST, kind, number, offset, bytes], verbs) = split(message)? else {
            return None;
        };
        let request = match kind {
            1 => UcxRequest::Hello,
            2 => UcxRequest::Allocate { bytes },
            3 => UcxRequest::Free { offset, bytes },
            4 => UcxRequest::Taken,
            5 => UcxRequest::Declined,
            6 => UcxRequest::Do,
            7 => UcxRequest::Tell,
            8 => UcxRequest::AllocateAt { offset, bytes },
            9 => UcxRequest::Find {
                offset,
                is_allocated: bytes != 0,
            },
            _ => return None,
        };
        let has_verbs = matches!(request, UcxRequest::Do | UcxRequest::Tell);
        (has_verbs || verbs.is_empty()).then_some((request, number, verbs))
    }
}

/// A node's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UcxReply {
    pub number: u64,
    /// The offset of the allocation, or any value; `None` if the request fails.
    pub done: Option<u64>,
    pub rest: Vec<u8>,
}

/// A node's description of itself, after a reply whose `done` is the address of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    pub size: u64,
    pub node: u16,
    /// True if the node executes the verbs itself, by messages.
    pub by_messages: bool,
    /// Number of allocated bytes of its memory.
    pub allocated: u64,
    pub key: Vec<u8>,
}

impl UcxReply {
    pub fn encode(&self) -> Vec<u8> {
        let done = u64::from(self.done.is_some());
        let mut bytes = join(&[FIRST, self.number, done, self.done.unwrap_or(0)]);
        bytes.extend(&self.rest);
        bytes
    }

    /// Decodes a reply of `address`.
    ///
    /// # Errors
    /// `Foreign`, `Version`.
    pub fn decode(message: &[u8], address: &str) -> Result<UcxReply, UcxError> {
        let address = || address.to_owned();
        let foreign = || UcxError::Foreign { address: address() };
        let ([first], _) = split(message).ok_or_else(foreign)?;
        let found = (first >> 48) as u32;
        if first & MAGIC_MASK == MAGIC && found != VERSION {
            return Err(UcxError::Version {
                address: address(),
                found,
                known: VERSION,
            });
        }
        match split(message) {
            Some(([FIRST, number, done @ (0 | 1), offset], rest)) => Ok(UcxReply {
                number,
                done: (done == 1).then_some(offset),
                rest: rest.to_vec(),
            }),
            _ => Err(foreign()),
        }
    }
}

impl Introduction {
    pub fn encode(&self) -> Vec<u8> {
        let by_messages = u64::from(self.by_messages);
        let node = u64::from(self.node);
        let mut bytes = join(&[self.size, node, by_messages, self.allocated]);
        bytes.extend(&self.key);
        bytes
    }

    /// Decodes the introduction of a node whose memory begins at `base`. Returns `None` if it is
    /// malformed, or if the memory would exceed all addresses.
    pub fn decode(bytes: &[u8], base: u64) -> Option<Introduction> {
        let ([size, node, by_messages @ (0 | 1), allocated], key) = split(bytes)? else {
            return None;
        };
        base.checked_add(size).filter(|_| size <= OFFSETS)?;
        Some(Introduction {
            size,
            node: u16::try_from(node).ok()?,
            by_messages: by_messages == 1,
            allocated,
            key: key.to_vec(),
        })
    }
}

pub fn join(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Splits the first words from the bytes after them.
pub fn split<const N: usize>(bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let mut words = [0; N];
    let mut rest = bytes;
    for word in &mut words {
        let (first, behind) = rest.split_first_chunk()?;
        *word = u64::from_le_bytes(*first);
        rest = behind;
    }
    Some((words, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_said_is_understood() {
        let (offset, bytes) = (1 << 40, 77);
        for request in [
            UcxRequest::Hello,
            UcxRequest::Allocate { bytes },
            UcxRequest::Free { offset, bytes },
            UcxRequest::Taken,
            UcxRequest::Declined,
            UcxRequest::Do,
            UcxRequest::Tell,
            UcxRequest::AllocateAt { offset, bytes },
            UcxRequest::Find {
                offset,
                is_allocated: true,
            },
        ] {
            let mut message = request.encode(9);
            assert_eq!(UcxRequest::decode(&message), Some((request, 9, &[][..])));
            assert_eq!(UcxRequest::decode(&message[1..]), None);
            assert_eq!(UcxRequest::decode(&message[..39]), None);
            message.push(7);
            let has_verbs = matches!(request, UcxRequest::Do | UcxRequest::Tell);
            let with_verbs = has_verbs.then_some((request, 9, &[7][..]));
            assert_eq!(UcxRequest::decode(&message), with_verbs);
        }
        let introduction = Introduction {
            size: 1 << 30,
            node: 7,
            by_messages: true,
            allocated: 1 << 20,
            key: vec![1, 2, 3],
        };
        let answer = UcxReply {
            number: 5,
            done: Some(0),
            rest: introduction.encode(),
        };
        let decoded = UcxReply::decode(&answer.encode(), "here").unwrap();
        assert_eq!(decoded, answer);
        let read = |base| Introduction::decode(&decoded.rest, base);
        assert_eq!(read(0), Some(introduction.clone()));
        assert_eq!(read(u64::MAX - (1 << 30)), Some(introduction.clone()));
        // No address in the memory may overflow.
        assert_eq!(read(u64::MAX - (1 << 30) + 1), None);
        let large = Introduction {
            size: (1 << 48) + 1,
            ..introduction
        };
        assert_eq!(Introduction::decode(&large.encode(), 0), None);
    }

    proptest! {
        #[test]
        fn no_message_brings_a_reader_down(
            first in prop_oneof![Just(FIRST), any::<u64>()],
            words in prop::collection::vec(prop_oneof![0_u64..9, any::<u64>()], 0..8),
            cut in 0_usize..9,
        ) {
            let mut message = join(&[&[first], &words[..]].concat());
            message.truncate(message.len().saturating_sub(cut));
            let _ = UcxRequest::decode(&message);
            if let Ok(answer) = UcxReply::decode(&message, "here")
                && let Some(base) = answer.done
                && let Some(read) = Introduction::decode(&answer.rest, base)
            {
                prop_assert!(base.checked_add(read.size).is_some());
            }
        }
    }

    #[test]
    fn other_versions_and_others_are_told_apart() {
        let answer = UcxReply {
            number: 5,
            done: None,
            rest: Vec::new(),
        };
        let mut message = answer.encode();
        message[6] = 9;
        let error = UcxReply::decode(&message, "here:1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "memory node here:1 uses version 9, and this program uses version 3"
        );
        message[0] = 0;
        for foreign in [&message[..], &[], b"short"] {
            let error = UcxReply::decode(foreign, "here:1").unwrap_err();
            assert!(matches!(error, UcxError::Foreign { .. }), "{error}");
        }
    }
}
