//! Requests and responses: one format, so that a response with a new address is a request.
//!
//! ```text
//!  0 magic 2 | version 1 | kind 1 | status 1 | flags 1 | hops 1 | address word 1
//!  8 caller 8
//! 16 counter 8
//! 24 settled 8
//! 32 visit 4 | tenant 2 | scratchpad length 2
//! 40 body length 3 | length word 1 | map epoch 4
//! 48 address 8
//! 56 iterations made 8
//! 64 iterations left 8
//! 72 program hash 16
//! 88 tag 16
//! 104 scratchpad without zeros at its end
//!     object of a request that carries one: length 4, bytes
//!     body: the program of a request, the object of a response
//! ```
//!
//! All fields are little-endian and at fixed places, so that a switch reads them without parsing
//! the rest.

use super::fragment::{OBJECT_BYTES_MAX, RequestObject};
use super::key::{AuthenticationKey, TAG_BYTES, are_equal};
use super::place::ProcessAddress;
use crate::node::Tenant;
use crate::program::{INSTRUCTIONS_MAX, ProgramHash, SCRATCHPAD_BYTES_MAX};
use crate::traversal::TraversalStatus;
use std::cmp::Ordering;

/// Length of a header.
pub const HEADER_BYTES: usize = 104;
/// Largest length of a datagram: header, scratchpad, and a program with its declaration of 8 bytes.
/// Longer messages, which have an object, are sent in parts.
pub const DATAGRAM_BYTES_MAX: usize =
    HEADER_BYTES + SCRATCHPAD_BYTES_MAX + 8 + 8 * INSTRUCTIONS_MAX;

const MAGIC: u16 = 0x4e50;
const VERSION: u8 = 2;
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
pub(super) const ANNOUNCEMENT: u8 = 3;
pub(super) const RESPONSE_FRAGMENT: u8 = 4;
pub(super) const REQUEST_FRAGMENT: u8 = 5;
/// The bits of the flags.
const RETURNS: u8 = 1;
const HAS_OBJECT: u8 = 2;
const OBJECT_IS_NEXT: u8 = 4;
const CARRIES_OBJECT: u8 = 8;
pub(super) const HOPS: usize = 6;
/// Bytes of the length before the object that a request carries.
pub(super) const LENGTH_BYTES: usize = 4;
pub(super) const TAG: std::ops::Range<usize> = 88..88 + TAG_BYTES;
const _: () = assert!(TAG.end == HEADER_BYTES);
// The header has 16 bits for the scratchpad's length, and UDP over IPv4 carries 65,507 bytes.
const _: () = assert!(SCRATCHPAD_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(8 + 8 * INSTRUCTIONS_MAX <= OBJECT_BYTES_MAX);
const _: () = assert!(DATAGRAM_BYTES_MAX <= 65_507);

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffloadMessageKind {
    /// A request to continue a traversal at the node of its address.
    Request,
    /// A response to a caller.
    Response,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadMessage {
    /// Request or response.
    pub kind: OffloadMessageKind,
    /// The status with which the run ended, in a response.
    pub status: TraversalStatus,
    /// True if a memory node reports to the caller that an address is elsewhere, instead of
    /// forwarding the request.
    pub returns_to_caller: bool,
    /// The object that the response must carry, or the place of the one that the request carries.
    pub object: Option<RequestObject>,
    /// Number of times that a switch has forwarded it.
    pub hops: u8,
    /// The caller, which receives the response.
    pub caller: ProcessAddress,
    /// The caller's number of the request.
    pub counter: u64,
    /// The bound below which the caller has outcomes of all its requests. It does not repeat these.
    pub settled: u64,
    /// Number of memory nodes that have worked on it. Together with the counter, it identifies a
    /// piece of work, which no node executes twice if it stores.
    pub visit: u32,
    /// The tenant of the program.
    pub tenant: Tenant,
    /// An epoch of memory. From a caller: the caller does not accept newer memory; 0 if it accepts
    /// any. From a memory node: the epoch of the node's memory.
    pub map_epoch: u32,
    /// The current address.
    pub address: u64,
    /// Number of iterations made.
    pub made: u64,
    /// Largest number of further iterations.
    pub left: u64,
    /// The program.
    pub program: ProgramHash,
    /// The state. Zeros at its end are not sent.
    pub scratchpad: Vec<u8>,
    /// The object that a request carries, to be stored when its program has ended. It is empty if
    /// there is none, and in a response.
    pub carried: Vec<u8>,
    /// The program's bytes in a request; empty if the nodes are assumed to know it. The object in a
    /// response.
    pub body: Vec<u8>,
}

/// The reason why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The bytes are fewer than the header has, or than it declares.
    #[error("{bytes} bytes are too few for a message of {wanted}")]
    Short {
        /// Number of bytes.
        bytes: usize,
        /// The expected number.
        wanted: usize,
    },
    /// The bytes are more than the header declares.
    #[error("{bytes} bytes are too many for a message of {wanted}")]
    Long {
        /// Number of bytes.
        bytes: usize,
        /// The expected number.
        wanted: usize,
    },
    /// The message begins with other bytes, or is of another version.
    #[error("the message begins with {magic:#06x}, version {version}")]
    Foreign {
        /// The first two bytes.
        magic: u16,
        /// The version.
        version: u8,
    },
    /// A field has a value without a meaning.
    #[error("the field at byte {at} has no meaning: {value}")]
    Field {
        /// The position of the field.
        at: usize,
        /// The value.
        value: u64,
    },
    /// The tag is not that of the tenant's key.
    #[error("the tag does not match the key of tenant {tenant}")]
    Tag {
        /// The tenant whose tag was expected.
        tenant: u16,
    },
    /// The tag is not that of the rack's key.
    #[error("the tag does not match the rack's key")]
    ForeignNode,
}

/// The start of every datagram.
pub(super) struct DatagramHead {
    pub kind: u8,
}

impl DatagramHead {
    pub fn bytes(kind: u8) -> [u8; 4] {
        let [low, high] = MAGIC.to_le_bytes();
        [low, high, VERSION, kind]
    }

    pub fn of(datagram: &[u8]) -> Result<DatagramHead, MessageError> {
        let Some(&[low, high, version, kind]) = datagram.first_chunk() else {
            let bytes = datagram.len();
            return Err(MessageError::Short { bytes, wanted: 4 });
        };
        let magic = u16::from_le_bytes([low, high]);
        if (magic, version) != (MAGIC, VERSION) {
            return Err(MessageError::Foreign { magic, version });
        }
        Ok(DatagramHead { kind })
    }
}

impl AuthenticationKey {
    /// Computes the tag of a message of at least a header's length.
    pub fn tag(&self, datagram: &[u8]) -> [u8; TAG_BYTES] {
        let mut header = [0; TAG.start];
        for (to, from) in header.iter_mut().zip(datagram) {
            *to = *from;
        }
        // A switch changes the hops, and has no key, so the tag does not cover them.
        header[HOPS] = 0;
        let behind = datagram.get(TAG.end..).unwrap_or_default();
        self.hash(&[&header, behind])
    }
}

impl OffloadMessage {
    /// Encodes the message, with the tag of a key. Zeros at the scratchpad's end are left out. Of
    /// the scratchpad at most 65,535 bytes are sent, and of the body at most [`OBJECT_BYTES_MAX`];
    /// programs have fewer.
    pub fn encode(&self, key: &AuthenticationKey) -> Vec<u8> {
        let mut bytes = self.bytes();
        let tag = key.tag(&bytes);
        bytes[TAG].copy_from_slice(&tag);
        bytes
    }

    /// Encodes the message with zeros in place of a tag.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let scratchpad = length_without_zeros(&self.scratchpad).min(u16::MAX.into());
        let body = self.body.len().min(OBJECT_BYTES_MAX);
        let carries = self.kind == OffloadMessageKind::Request
            && self.object.is_some()
            && !self.carried.is_empty();
        let carried = match carries {
            true => self
                .carried
                .get(..OBJECT_BYTES_MAX)
                .unwrap_or(&self.carried),
            false => &[],
        };
        let room = HEADER_BYTES + scratchpad + LENGTH_BYTES + carried.len() + body;
        let mut bytes = Vec::with_capacity(room);
        bytes.extend(DatagramHead::bytes(match self.kind {
            OffloadMessageKind::Request => REQUEST,
            OffloadMessageKind::Response => RESPONSE,
        }));
        let returns = if self.returns_to_caller { RETURNS } else { 0 };
        let object = match self.object {
            None => 0,
            Some(object) if object.is_next => HAS_OBJECT | OBJECT_IS_NEXT,
            Some(_) => HAS_OBJECT,
        };
        let object = object | if carries { CARRIES_OBJECT } else { 0 };
        let (address, length) = match self.object {
            None => (0, 0),
            Some(object) => (object.address, object.length),
        };
        bytes.extend([self.status.code(), returns | object, self.hops, address]);
        for word in [self.caller.0, self.counter, self.settled] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.visit.to_le_bytes());
        bytes.extend(self.tenant.0.to_le_bytes());
        bytes.extend((scratchpad as u16).to_le_bytes());
        // The body's length has 24 bits.
        bytes.extend((u32::from(length) << 24 | body as u32).to_le_bytes());
        bytes.extend(self.map_epoch.to_le_bytes());
        for word in [self.address, self.made, self.left] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.program.0);
        bytes.extend([0; TAG_BYTES]);
        debug_assert_eq!(bytes.len(), HEADER_BYTES);
        bytes.extend(&self.scratchpad[..scratchpad]);
        if carries {
            bytes.extend((carried.len() as u32).to_le_bytes());
            bytes.extend(carried);
        }
        bytes.extend(&self.body[..body]);
        bytes
    }

    /// Decodes bytes whose tag is that of their tenant's key; `key` looks the key up.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub fn decode(
        bytes: &[u8],
        key: impl FnOnce(Tenant) -> Option<AuthenticationKey>,
    ) -> Result<OffloadMessage, MessageError> {
        OffloadMessage::decode_checked(bytes, |tenant| {
            let key = key(Tenant(tenant)).ok_or(MessageError::Tag { tenant })?;
            match are_equal(&bytes[TAG], key.tag(bytes)) {
                true => Ok(()),
                false => Err(MessageError::Tag { tenant }),
            }
        })
    }

    /// Decodes bytes that were joined from parts. Each part had a tag, and the whole has none.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub(crate) fn decode_joined(bytes: &[u8]) -> Result<OffloadMessage, MessageError> {
        OffloadMessage::decode_checked(bytes, |_| Ok(()))
    }

    /// Decodes bytes of which `check` has checked the tag, given their tenant.
    fn decode_checked(
        bytes: &[u8],
        check: impl FnOnce(u16) -> Result<(), MessageError>,
    ) -> Result<OffloadMessage, MessageError> {
        let fields = DatagramFields::of(bytes)?;
        let meaningless = |at, value| MessageError::Field { at, value };
        let kind = fields.kind()?;
        let code = fields.byte(4);
        let status = TraversalStatus::from_code(code).ok_or(meaningless(4, code.into()))?;
        let (flags, address, length) = (fields.byte(5), fields.byte(7), fields.byte(43));
        let object = (flags & HAS_OBJECT != 0).then_some(RequestObject {
            address,
            length,
            is_next: flags & OBJECT_IS_NEXT != 0,
        });
        // Unused bits are zero, so that a later version can give them a meaning.
        let known = match (object, kind) {
            (None, _) => RETURNS,
            (Some(_), OffloadMessageKind::Response) => RETURNS | HAS_OBJECT | OBJECT_IS_NEXT,
            (Some(_), OffloadMessageKind::Request) => {
                RETURNS | HAS_OBJECT | OBJECT_IS_NEXT | CARRIES_OBJECT
            }
        };
        if flags & !known != 0 {
            return Err(meaningless(5, flags.into()));
        }
        if object.is_none() && address != 0 {
            return Err(meaningless(7, address.into()));
        }
        // An object that a request carries has its length before its bytes.
        let carries = flags & CARRIES_OBJECT != 0;
        if (object.is_none() || carries) && length != 0 {
            return Err(meaningless(43, length.into()));
        }
        let scratchpad = usize::from(fields.half(38));
        let body = (fields.long(40) & 0xff_ffff) as usize;
        if body > OBJECT_BYTES_MAX {
            return Err(meaningless(40, body as u64));
        }
        let bytes = fields.0;
        let carried = match carries {
            true => carried_length(bytes, HEADER_BYTES + scratchpad)?,
            false => 0,
        };
        check_length(bytes.len(), HEADER_BYTES + scratchpad + carried + body)?;
        let tenant = fields.half(36);
        check(tenant)?;
        let (scratchpad, rest) = bytes[HEADER_BYTES..].split_at(scratchpad);
        let (carried, body) = rest.split_at(carried);
        // A message has one encoding, which leaves these zeros out.
        if scratchpad.last() == Some(&0) {
            return Err(meaningless(38, scratchpad.len() as u64));
        }
        let mut program = [0; 16];
        program.copy_from_slice(&bytes[72..88]);
        Ok(OffloadMessage {
            kind,
            status,
            returns_to_caller: flags & RETURNS != 0,
            object,
            hops: fields.hops(),
            caller: fields.caller(),
            counter: fields.word(16),
            settled: fields.word(24),
            visit: fields.long(32),
            tenant: Tenant(tenant),
            map_epoch: fields.long(44),
            address: fields.word(48),
            made: fields.word(56),
            left: fields.word(64),
            program: ProgramHash(program),
            scratchpad: scratchpad.to_vec(),
            carried: carried.get(LENGTH_BYTES..).unwrap_or_default().to_vec(),
            body: body.to_vec(),
        })
    }
}

/// Returns the number of bytes at a position that the object of a request has with its length.
fn carried_length(bytes: &[u8], at: usize) -> Result<usize, MessageError> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(length) = rest.first_chunk::<LENGTH_BYTES>() else {
        let (bytes, wanted) = (bytes.len(), at + LENGTH_BYTES);
        return Err(MessageError::Short { bytes, wanted });
    };
    let length = u32::from_le_bytes(*length);
    if length == 0 || length as usize > OBJECT_BYTES_MAX {
        let value = length.into();
        return Err(MessageError::Field { at, value });
    }
    Ok(LENGTH_BYTES + length as usize)
}

/// Checks the length of a datagram.
pub(super) fn check_length(bytes: usize, wanted: usize) -> Result<(), MessageError> {
    match bytes.cmp(&wanted) {
        Ordering::Less => Err(MessageError::Short { bytes, wanted }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(MessageError::Long { bytes, wanted }),
    }
}

/// Returns the length of bytes without the zeros at their end.
pub(crate) fn length_without_zeros(bytes: &[u8]) -> usize {
    /// Number of bytes that are compared at once.
    const PART: usize = 64;
    // Most of a large scratchpad is zero often, so its end is searched in parts.
    let mut rest = bytes;
    while let Some((before, last)) = rest.split_last_chunk::<PART>()
        && last.iter().fold(0, |all, byte| all | byte) == 0
    {
        rest = before;
    }
    let last = rest.iter().rposition(|&byte| byte != 0);
    last.map_or(0, |last| last + 1)
}

/// The fields of a datagram's header that a switch reads.
#[derive(Clone, Copy, Debug)]
pub struct DatagramFields<'d>(&'d [u8]);

impl<'d> DatagramFields<'d> {
    /// Checks that bytes are long enough and of this version.
    ///
    /// # Errors
    /// `Short`, `Foreign`.
    pub fn of(datagram: &'d [u8]) -> Result<DatagramFields<'d>, MessageError> {
        if datagram.len() < HEADER_BYTES {
            let bytes = datagram.len();
            let wanted = HEADER_BYTES;
            return Err(MessageError::Short { bytes, wanted });
        }
        DatagramHead::of(datagram)?;
        Ok(DatagramFields(datagram))
    }

    /// Returns the kind: request or response.
    ///
    /// # Errors
    /// `InstructionField`.
    pub fn kind(&self) -> Result<OffloadMessageKind, MessageError> {
        match self.byte(3) {
            REQUEST => Ok(OffloadMessageKind::Request),
            RESPONSE => Ok(OffloadMessageKind::Response),
            value => Err(MessageError::Field {
                at: 3,
                value: value.into(),
            }),
        }
    }

    /// Returns the kind of the message of which this is a part; `None` if it is no part. A part
    /// goes where its message goes.
    pub fn fragment(&self) -> Option<OffloadMessageKind> {
        match self.byte(3) {
            REQUEST_FRAGMENT => Some(OffloadMessageKind::Request),
            RESPONSE_FRAGMENT => Some(OffloadMessageKind::Response),
            _ => None,
        }
    }

    /// Returns the caller.
    pub fn caller(&self) -> ProcessAddress {
        ProcessAddress(self.word(8))
    }

    /// Returns the current address.
    pub fn address(&self) -> u64 {
        self.word(48)
    }

    /// Returns the number of times that a switch has forwarded it.
    pub fn hops(&self) -> u8 {
        self.byte(HOPS)
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    pub(super) fn long(&self, at: usize) -> u32 {
        u32::from(self.half(at)) | u32::from(self.half(at + 2)) << 16
    }

    pub(super) fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(word)
    }
}

/// Adds a hop to a message that a switch forwards.
pub(crate) fn count_hop(datagram: &mut [u8]) {
    if let Some(hops) = datagram.get_mut(HOPS) {
        debug_assert!(*hops < u8::MAX, "the switch drops such a message");
        *hops = hops.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: AuthenticationKey = AuthenticationKey([3; 32]);

    fn message() -> OffloadMessage {
        OffloadMessage {
            kind: OffloadMessageKind::Request,
            status: TraversalStatus::Done,
            returns_to_caller: true,
            object: None,
            hops: 3,
            caller: ProcessAddress(0x0102_0304_0506_0708),
            counter: 9,
            settled: 8,
            visit: 0x0001_0002,
            tenant: Tenant(5),
            map_epoch: 0x0003_0004,
            address: 0xfeed_0000,
            made: 7,
            left: 100,
            program: ProgramHash([4; 16]),
            scratchpad: vec![1, 2, 3],
            carried: Vec::new(),
            body: vec![4, 5],
        }
    }

    fn decode(bytes: &[u8]) -> Result<OffloadMessage, MessageError> {
        OffloadMessage::decode(bytes, |tenant| (tenant == Tenant(5)).then_some(KEY))
    }

    #[test]
    fn messages_come_back() {
        let bytes = message().encode(&KEY);
        assert_eq!(decode(&bytes), Ok(message()));
        let fields = DatagramFields::of(&bytes).expect("a message");
        assert_eq!(fields.caller(), message().caller);
        let mut bytes = bytes.clone();
        count_hop(&mut bytes);
        assert_eq!(decode(&bytes).map(|message| message.hops), Ok(4));
    }

    #[test]
    fn requests_of_objects_come_back() {
        for (address, length) in [(0, 0), (1, 2), (u8::MAX, 0), (0, u8::MAX)] {
            for is_next in [false, true] {
                for returns_to_caller in [false, true] {
                    let object = Some(RequestObject {
                        address,
                        length,
                        is_next,
                    });
                    let message = OffloadMessage {
                        returns_to_caller,
                        object,
                        body: vec![7; OBJECT_BYTES_MAX],
                        ..message()
                    };
                    assert_eq!(decode(&message.encode(&KEY)), Ok(message));
                }
            }
        }
        // Bits and bytes of an object that nothing asks for.
        for (at, value) in [
            (5, OBJECT_IS_NEXT),
            (5, CARRIES_OBJECT),
            (5, 16),
            (7, 1),
            (43, 1),
        ] {
            let mut bytes = message().encode(&KEY);
            bytes[at] |= value;
            let tag = KEY.tag(&bytes);
            bytes[TAG].copy_from_slice(&tag);
            let refused = matches!(decode(&bytes), Err(MessageError::Field { at: field, .. })
                if field == at);
            assert!(refused, "{at} {value}");
        }
    }

    fn carrying(carried: Vec<u8>) -> OffloadMessage {
        OffloadMessage {
            object: Some(RequestObject {
                address: 1,
                length: 0,
                is_next: false,
            }),
            carried,
            ..message()
        }
    }

    #[test]
    fn objects_that_requests_carry_come_back() {
        for length in [1, 8192, OBJECT_BYTES_MAX] {
            for body in [Vec::new(), vec![4, 5]] {
                let message = OffloadMessage {
                    body,
                    ..carrying(vec![7; length])
                };
                assert_eq!(decode(&message.encode(&KEY)), Ok(message));
            }
        }
        // Neither a response nor a request that names no place carries one.
        let response = OffloadMessage {
            kind: OffloadMessageKind::Response,
            ..carrying(vec![7])
        };
        let nowhere = OffloadMessage {
            object: None,
            ..carrying(vec![7])
        };
        for message in [response, nowhere] {
            let decoded = decode(&message.encode(&KEY)).expect("a message");
            assert!(decoded.carried.is_empty());
        }
    }

    /// A request with a correct tag, of a caller that does not keep to the format.
    #[test]
    fn objects_with_wrong_lengths_are_refused() {
        let bytes = carrying(vec![7; 20]).encode(&KEY);
        let at = HEADER_BYTES + message().scratchpad.len();
        let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            let tag = KEY.tag(&bytes);
            bytes[TAG].copy_from_slice(&tag);
            decode(&bytes).expect_err("a wrong length")
        };
        let length = |length: u32| {
            refusal(&|bytes: &mut Vec<u8>| {
                bytes[at..at + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
            })
        };
        for wrong in [0, OBJECT_BYTES_MAX as u32 + 1, u32::MAX] {
            let value = wrong.into();
            assert_eq!(length(wrong), MessageError::Field { at, value });
        }
        assert!(matches!(length(19), MessageError::Long { .. }));
        assert!(matches!(length(21), MessageError::Short { .. }));
        let cut = refusal(&|bytes: &mut Vec<u8>| bytes.truncate(at + LENGTH_BYTES - 1));
        assert!(matches!(cut, MessageError::Short { .. }));
        // The word of a length that the program would leave.
        let word = refusal(&|bytes: &mut Vec<u8>| bytes[43] = 1);
        assert_eq!(word, MessageError::Field { at: 43, value: 1 });
    }

    #[test]
    fn zeros_at_the_end_of_a_scratchpad_are_not_sent() {
        for length in [0_usize, 1, 63, 64, 65, 200, 4096] {
            for last in [None, Some(0), Some(length / 2), length.checked_sub(1)] {
                let mut scratchpad = vec![0; length];
                let last = last.filter(|&last| last < length);
                if let Some(last) = last {
                    scratchpad[last] = 1;
                }
                let sent = last.map_or(0, |last| last + 1);
                let whole = OffloadMessage {
                    scratchpad: scratchpad.clone(),
                    ..message()
                };
                let bytes = whole.encode(&KEY);
                assert_eq!(bytes.len(), HEADER_BYTES + sent + whole.body.len());
                scratchpad.truncate(sent);
                assert_eq!(
                    decode(&bytes),
                    Ok(OffloadMessage {
                        scratchpad,
                        ..whole
                    })
                );
            }
        }
    }

    #[test]
    fn any_change_is_found() {
        let bytes = message().encode(&KEY);
        for at in 0..bytes.len() {
            if at == HOPS {
                continue;
            }
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(decode(&changed).is_err(), "{at} {bit}");
            }
        }
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err());
        }
        let mut long = bytes;
        long.push(0);
        assert!(matches!(decode(&long), Err(MessageError::Long { .. })));
    }
}
