//! Format of a part of a message that is longer than a datagram: a reply with an object, the bytes
//! at a memory node to which a program leads, or a request with an object to store there.
//!
//! ```text
//!  0 magic 2 | version 1 | kind 1 | zero 2 | hops 1 | zero 1
//!  8 caller 8
//! 16 counter 8
//! 24 digest 8
//! 32 message length 4 | tenant 2 | part length 2
//! 40 position 4 | visit 4
//! 48 address 8
//! 56 zero 32
//! 88 tag 16
//! 104 part
//! ```
//!
//! Caller, tenant, address, hops and tag are where messages have them, so that a switch forwards
//! parts as it does messages. Visit and address are those of a request, by which a node sees that
//! its work is done, and zero for a reply.

use super::key::{AuthenticationKey, are_equal};
use super::message::{
    DATAGRAM_BYTES_MAX, DatagramFields, DatagramHead, HEADER_BYTES, HOPS, LENGTH_BYTES,
    MessageError, OffloadMessage, OffloadMessageKind, REQUEST_FRAGMENT, RESPONSE_FRAGMENT, TAG,
    check_length,
};
use super::place::ProcessAddress;
use crate::node::Tenant;
use crate::program::{INSTRUCTIONS_MAX, SCRATCHPAD_BYTES_MAX};

/// Largest number of bytes of an object.
pub const OBJECT_BYTES_MAX: usize = 64 << 10;
/// Largest length of an answer.
const ANSWER_BYTES_MAX: usize = HEADER_BYTES + SCRATCHPAD_BYTES_MAX + OBJECT_BYTES_MAX;
/// Largest length of a request with an object, and with its program.
const REQUEST_BYTES_MAX: usize = ANSWER_BYTES_MAX + LENGTH_BYTES + 8 + 8 * INSTRUCTIONS_MAX;
/// Largest number of different replies to a request of which parts are kept. A request is answered
/// again if its datagrams were lost, and the object may have changed since.
const ANSWERS_MAX: usize = 4;
// A part has a header of its own, and its length has 16 bits.
const _: () = assert!(DATAGRAM_BYTES_MAX - HEADER_BYTES <= u16::MAX as usize);

/// The object that a request asks for, or carries: the numbers of two words of 8 bytes in the
/// scratchpad. The program leaves the object's address in one. The other has its length, from the
/// program or from the caller. If one of them is zero, there is no object. An object that the
/// request carries is as long as it is, and is stored nowhere if the address is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestObject {
    /// The number of the word with the object's address.
    pub address: u8,
    /// The number of the word with its length in bytes. It is zero if the request carries the
    /// object.
    pub length: u8,
    /// True if the program has ended the traversal, so that only the object is left to send or to
    /// store. The request goes to the node that holds it.
    pub is_next: bool,
}

impl RequestObject {
    /// Returns the address and the length of the object that a scratchpad names.
    pub fn of(self, scratchpad: &[u8]) -> Option<(u64, u64)> {
        let words = [self.address, self.length];
        let words = words.map(|number| word(scratchpad, 8 * usize::from(number)));
        (!words.contains(&0)).then_some((words[0], words[1]))
    }

    /// Returns the address that a scratchpad names.
    pub fn address_in(self, scratchpad: &[u8]) -> Option<u64> {
        let address = word(scratchpad, 8 * usize::from(self.address));
        (address != 0).then_some(address)
    }
}

/// Returns a word. Bytes behind the end are zero, because such bytes are not sent.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    let bytes = bytes.get(at..).unwrap_or_default();
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

/// A part of a request or of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFragment {
    /// The kind of the message.
    pub kind: OffloadMessageKind,
    /// Number of times that a switch has forwarded the part.
    pub hops: u8,
    /// The caller.
    pub caller: ProcessAddress,
    /// The caller's number of the request.
    pub counter: u64,
    /// A number that all bytes of the message determine. Parts with different ones do not belong
    /// together.
    pub digest: u64,
    /// The tenant, whose key the tag is of.
    pub tenant: Tenant,
    /// Number of memory nodes that have worked on a request; 0 for a response.
    pub visit: u32,
    /// The current address of a request; 0 for a response.
    pub address: u64,
    /// Length of the message.
    pub message_bytes: u32,
    /// Length of each part, except for the last one.
    pub part_bytes: u16,
    /// Place of the part's first byte in the message.
    pub position: u32,
    /// The bytes.
    pub part: Vec<u8>,
}

impl MessageFragment {
    /// Returns true if bytes begin like a part of a message.
    pub fn is_one(datagram: &[u8]) -> bool {
        let kinds = [REQUEST_FRAGMENT, RESPONSE_FRAGMENT];
        DatagramHead::of(datagram).is_ok_and(|head| kinds.contains(&head.kind))
    }

    /// Encodes the part, with the tag of a key.
    pub fn encode(&self, key: &AuthenticationKey) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.part.len());
        bytes.extend(DatagramHead::bytes(match self.kind {
            OffloadMessageKind::Request => REQUEST_FRAGMENT,
            OffloadMessageKind::Response => RESPONSE_FRAGMENT,
        }));
        bytes.extend([0, 0, self.hops, 0]);
        for word in [self.caller.0, self.counter, self.digest] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.message_bytes.to_le_bytes());
        bytes.extend(self.tenant.0.to_le_bytes());
        bytes.extend(self.part_bytes.to_le_bytes());
        bytes.extend(self.position.to_le_bytes());
        bytes.extend(self.visit.to_le_bytes());
        bytes.extend(self.address.to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(&self.part);
        let tag = key.tag(&bytes);
        bytes[TAG].copy_from_slice(&tag);
        bytes
    }

    /// Decodes bytes whose tag is that of their tenant's key; `key` looks the key up.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub fn decode(
        bytes: &[u8],
        key: impl FnOnce(Tenant) -> Option<AuthenticationKey>,
    ) -> Result<MessageFragment, MessageError> {
        let fields = DatagramFields::of(bytes)?;
        let meaningless = |at, value| MessageError::Field { at, value };
        let kind = fields
            .fragment()
            .ok_or(meaningless(3, fields.byte(3).into()))?;
        // Unused bytes are zero, so that a later version can give them a meaning.
        let mut unused = [4, 5, 7].into_iter().chain(56..TAG.start);
        if let Some(at) = unused.find(|&at| fields.byte(at) != 0) {
            return Err(meaningless(at, fields.byte(at).into()));
        }
        let (visit, address) = (fields.long(44), fields.address());
        let bytes_max = match kind {
            OffloadMessageKind::Request => REQUEST_BYTES_MAX,
            OffloadMessageKind::Response if visit != 0 => {
                return Err(meaningless(44, visit.into()));
            }
            OffloadMessageKind::Response if address != 0 => return Err(meaningless(48, address)),
            OffloadMessageKind::Response => ANSWER_BYTES_MAX,
        };
        let (message_bytes, position) = (fields.long(32), fields.long(40));
        let part_bytes = fields.half(38);
        let each = u32::from(part_bytes);
        if message_bytes as usize > bytes_max {
            return Err(meaningless(32, message_bytes.into()));
        }
        // A message of one part is sent as it is.
        if each == 0 || message_bytes <= each {
            return Err(meaningless(38, part_bytes.into()));
        }
        if position >= message_bytes || !position.is_multiple_of(each) {
            return Err(meaningless(40, position.into()));
        }
        let part = (message_bytes - position).min(each);
        check_length(bytes.len(), HEADER_BYTES + part as usize)?;
        let tenant = fields.half(36);
        let key = key(Tenant(tenant)).ok_or(MessageError::Tag { tenant })?;
        if !are_equal(&bytes[TAG], key.tag(bytes)) {
            return Err(MessageError::Tag { tenant });
        }
        Ok(MessageFragment {
            kind,
            hops: fields.hops(),
            visit,
            address,
            caller: fields.caller(),
            counter: fields.word(16),
            digest: fields.word(24),
            tenant: Tenant(tenant),
            message_bytes,
            part_bytes,
            position,
            part: bytes[HEADER_BYTES..].to_vec(),
        })
    }
}

/// Returns a number that all bytes determine. Two replies of which one word differs never have the
/// same, because each step maps different numbers to different ones. Others have by chance, one in
/// 2^64. It protects from mistakes only: the tags protect from others.
fn digest(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words
        .chain([word(rest, 0), bytes.len() as u64])
        .fold(0, |digest: u64, word| {
            (digest.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
}

impl OffloadMessage {
    /// Encodes the message as one datagram, or as parts that have at most `datagram_bytes` with
    /// their headers, if it is longer.
    pub fn encode_in_parts(&self, key: &AuthenticationKey, datagram_bytes: usize) -> Vec<Vec<u8>> {
        let datagram_bytes = datagram_bytes.clamp(2 * HEADER_BYTES, DATAGRAM_BYTES_MAX);
        let part_bytes = datagram_bytes - HEADER_BYTES;
        let mut message = self.bytes();
        // The tags of parts make one of the whole unnecessary.
        if message.len() <= datagram_bytes {
            let tag = key.tag(&message);
            message[TAG].copy_from_slice(&tag);
            return vec![message];
        }
        // Each part has the hops, because a switch counts them there.
        message[HOPS] = 0;
        let digest = digest(&message);
        let (visit, address) = match self.kind {
            OffloadMessageKind::Request => (self.visit, self.address),
            OffloadMessageKind::Response => (0, 0),
        };
        let parts = message.chunks(part_bytes).enumerate();
        let parts = parts.map(|(number, part)| MessageFragment {
            kind: self.kind,
            hops: self.hops,
            visit,
            address,
            caller: self.caller,
            counter: self.counter,
            digest,
            tenant: self.tenant,
            message_bytes: message.len() as u32,
            part_bytes: part_bytes as u16,
            position: (number * part_bytes) as u32,
            part: part.to_vec(),
        });
        parts.map(|part| part.encode(key)).collect()
    }
}

/// The parts that have arrived of replies to one request, or of one request.
#[derive(Debug, Default)]
pub(crate) struct MessageParts {
    answers: Vec<PartialMessage>,
}

#[derive(Debug)]
struct PartialMessage {
    digest: u64,
    part_bytes: u16,
    bytes: Vec<u8>,
    /// True for each part that has arrived.
    has: Vec<bool>,
    missing: usize,
}

/// The effect of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PartsProgress {
    /// The part has arrived before.
    Known,
    /// Other parts are missing.
    Added,
    /// The bytes of the message are complete.
    Whole(Vec<u8>),
}

impl MessageParts {
    /// Adds a decoded part.
    pub(crate) fn add(&mut self, fragment: &MessageFragment) -> PartsProgress {
        let found = self
            .answers
            .iter()
            .position(|answer| answer.is_of(fragment));
        let at = match found {
            Some(at) => at,
            None => self.begin(fragment),
        };
        let Some(answer) = self.answers.get_mut(at) else {
            return PartsProgress::Known;
        };
        let position = fragment.position as usize;
        let number = position / usize::from(fragment.part_bytes.max(1));
        let end = position + fragment.part.len();
        let (Some(has), Some(bytes)) = (
            answer.has.get_mut(number).filter(|has| !**has),
            answer.bytes.get_mut(position..end),
        ) else {
            return PartsProgress::Known;
        };
        bytes.copy_from_slice(&fragment.part);
        *has = true;
        answer.missing -= 1;
        let missing = answer.missing;
        match missing {
            0 => PartsProgress::Whole(self.answers.swap_remove(at).bytes),
            _ => PartsProgress::Added,
        }
    }

    /// Begins an answer, in place of the least complete one if there is no room. Returns its index.
    fn begin(&mut self, fragment: &MessageFragment) -> usize {
        if self.answers.len() >= ANSWERS_MAX {
            let answers = self.answers.iter().enumerate();
            let least = answers.max_by_key(|(_, answer)| answer.missing);
            if let Some(at) = least.map(|(at, _)| at) {
                self.answers.swap_remove(at);
            }
        }
        let bytes = fragment.message_bytes as usize;
        let parts = bytes.div_ceil(usize::from(fragment.part_bytes.max(1)));
        self.answers.push(PartialMessage {
            digest: fragment.digest,
            part_bytes: fragment.part_bytes,
            bytes: vec![0; bytes],
            has: vec![false; parts],
            missing: parts,
        });
        self.answers.len() - 1
    }
}

impl PartialMessage {
    fn is_of(&self, fragment: &MessageFragment) -> bool {
        self.digest == fragment.digest
            && self.part_bytes == fragment.part_bytes
            && self.bytes.len() == fragment.message_bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::ProgramHash;
    use crate::traversal::TraversalStatus;

    const KEY: AuthenticationKey = AuthenticationKey([3; 32]);

    fn answer(object: Vec<u8>) -> OffloadMessage {
        OffloadMessage {
            kind: OffloadMessageKind::Response,
            status: TraversalStatus::Done,
            returns_to_caller: false,
            object: Some(RequestObject {
                address: 1,
                length: 2,
                is_next: true,
            }),
            hops: 0,
            caller: ProcessAddress(9),
            counter: 5,
            settled: 0,
            visit: 2,
            tenant: Tenant(5),
            map_epoch: 1,
            address: 4096,
            made: 7,
            left: 3,
            program: ProgramHash([4; 16]),
            scratchpad: vec![1, 2, 3],
            carried: Vec::new(),
            body: object,
        }
    }

    fn decode(bytes: &[u8]) -> Result<MessageFragment, MessageError> {
        MessageFragment::decode(bytes, |tenant| (tenant == Tenant(5)).then_some(KEY))
    }

    fn fragments(object: &[u8], datagram_bytes: usize) -> Vec<MessageFragment> {
        let datagrams = answer(object.to_vec()).encode_in_parts(&KEY, datagram_bytes);
        datagrams
            .iter()
            .map(|datagram| {
                assert!(MessageFragment::is_one(datagram) && datagram.len() <= datagram_bytes);
                decode(datagram).expect("a part")
            })
            .collect()
    }

    fn object(bytes: usize, first: usize) -> Vec<u8> {
        (first..first + bytes)
            .map(|byte| (byte % 251) as u8)
            .collect()
    }

    #[test]
    fn parts_in_any_order_are_the_answer() {
        for bytes in [1400, 8192, OBJECT_BYTES_MAX] {
            for datagram_bytes in [300, 1472, 9000] {
                let object = object(bytes, 0);
                let message = answer(object.clone());
                if message.bytes().len() <= datagram_bytes {
                    let whole = message.encode_in_parts(&KEY, datagram_bytes);
                    assert_eq!(whole, [message.encode(&KEY)]);
                    continue;
                }
                let mut fragments = fragments(&object, datagram_bytes);
                fragments.reverse();
                let half = fragments.len() / 2;
                fragments.rotate_left(half);
                let last = fragments.pop().expect("parts");
                let mut parts = MessageParts::default();
                for fragment in &fragments {
                    assert_eq!(parts.add(fragment), PartsProgress::Added);
                    assert_eq!(parts.add(fragment), PartsProgress::Known);
                }
                let PartsProgress::Whole(bytes) = parts.add(&last) else {
                    panic!("a part is missing");
                };
                assert_eq!(OffloadMessage::decode_joined(&bytes), Ok(message));
                assert!(parts.answers.is_empty());
            }
        }
    }

    #[test]
    fn parts_of_a_request_have_its_address_and_hops() {
        let message = OffloadMessage {
            kind: OffloadMessageKind::Request,
            hops: 3,
            carried: object(OBJECT_BYTES_MAX, 0),
            object: Some(RequestObject {
                address: 1,
                length: 0,
                is_next: false,
            }),
            ..answer(vec![9; 8 + 8 * INSTRUCTIONS_MAX])
        };
        let datagrams = message.encode_in_parts(&KEY, 1472);
        let (mut parts, mut whole) = (MessageParts::default(), None);
        for datagram in &datagrams {
            let fields = DatagramFields::of(datagram).expect("a datagram");
            assert_eq!(fields.fragment(), Some(OffloadMessageKind::Request));
            assert_eq!((fields.address(), fields.hops()), (message.address, 3));
            let part = decode(datagram).expect("a part");
            assert_eq!(part.visit, message.visit);
            assert_eq!(part.encode(&KEY), *datagram);
            if let PartsProgress::Whole(bytes) = parts.add(&part) {
                whole = OffloadMessage::decode_joined(&bytes).ok();
            }
        }
        let expected = OffloadMessage { hops: 0, ..message };
        assert_eq!(whole, Some(expected));
    }

    #[test]
    fn parts_of_different_answers_are_not_joined() {
        let mut parts = MessageParts::default();
        let answers = [0, 1].map(|first| fragments(&object(8192, first), 1472));
        for (number, fragment) in answers[0].iter().enumerate().skip(1) {
            assert_eq!(parts.add(fragment), PartsProgress::Added, "{number}");
        }
        // The part that is missing comes from another answer to the same request.
        assert_eq!(parts.add(&answers[1][0]), PartsProgress::Added);
        assert!(matches!(parts.add(&answers[0][0]), PartsProgress::Whole(_)));
    }

    #[test]
    fn the_most_complete_answers_are_kept() {
        let mut parts = MessageParts::default();
        let first = fragments(&object(8192, 0), 1472);
        for fragment in first.iter().skip(1) {
            assert_eq!(parts.add(fragment), PartsProgress::Added);
        }
        for number in 1..100 {
            let other = fragments(&object(8192, number), 1472);
            assert_eq!(parts.add(&other[0]), PartsProgress::Added);
            assert!(parts.answers.len() <= ANSWERS_MAX);
        }
        assert!(matches!(parts.add(&first[0]), PartsProgress::Whole(_)));
    }

    #[test]
    fn any_change_of_a_part_is_found() {
        let datagrams = answer(object(300, 0)).encode_in_parts(&KEY, 300);
        let hops = 6;
        for datagram in &datagrams {
            for at in (0..datagram.len()).filter(|at| *at != hops) {
                for bit in 0..8 {
                    let mut changed = datagram.clone();
                    changed[at] ^= 1 << bit;
                    assert!(decode(&changed).is_err(), "{at} {bit}");
                }
                assert!(decode(&datagram[..at]).is_err(), "{at}");
            }
            let mut long = datagram.clone();
            long.push(0);
            assert!(matches!(decode(&long), Err(MessageError::Long { .. })));
            assert!(OffloadMessage::decode(datagram, |_| Some(KEY)).is_err());
        }
    }

    /// A part with a correct tag, of a node that does not keep to the format.
    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        let part = fragments(&object(2000, 0), 1472).swap_remove(0);
        let refused = |change: fn(&mut MessageFragment)| {
            let mut part = part.clone();
            change(&mut part);
            match decode(&part.encode(&KEY)) {
                Err(MessageError::Field { at, .. }) => at,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(|part| part.message_bytes = u32::MAX), 32);
        assert_eq!(refused(|part| part.message_bytes = 1368), 38);
        assert_eq!(refused(|part| part.part_bytes = 0), 38);
        assert_eq!(refused(|part| part.position = 1), 40);
        assert_eq!(refused(|part| part.position = 1368 * 2), 40);
        assert_eq!(refused(|part| part.visit = 1), 44);
        assert_eq!(refused(|part| part.address = 1), 48);
        let long = |part: &mut MessageFragment| {
            (part.kind, part.message_bytes) = (OffloadMessageKind::Request, 1 << 17);
        };
        assert_eq!(refused(long), 32);
    }

    #[test]
    fn an_object_has_an_address_and_a_length() {
        let mut scratchpad = vec![0_u8; 32];
        let object = RequestObject {
            address: 1,
            length: 2,
            is_next: false,
        };
        assert_eq!(object.of(&scratchpad), None);
        scratchpad[9] = 1;
        assert_eq!(object.of(&scratchpad), None);
        scratchpad[16] = 2;
        assert_eq!(object.of(&scratchpad), Some((256, 2)));
        // The zeros at its end were not sent.
        assert_eq!(object.of(&scratchpad[..17]), Some((256, 2)));
        assert_eq!(object.of(&scratchpad[..10]), None);
        let turned = RequestObject {
            address: 2,
            length: 1,
            ..object
        };
        assert_eq!(turned.of(&scratchpad), Some((2, 256)));
        let last = RequestObject {
            length: u8::MAX,
            ..object
        };
        assert_eq!(last.of(&scratchpad), None);
    }
}
