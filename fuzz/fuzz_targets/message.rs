//! Parsing datagrams never panics, and accepts only what encoding writes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_offload::wire::{
    AuthenticationKey, DatagramFields, HEADER_BYTES, MessageFragment, OffloadMessage,
};

const KEY: AuthenticationKey = AuthenticationKey([7; 32]);

fuzz_target!(|input: (&[u8], &[u8], bool)| {
    let (bytes, scratchpad, sealed) = input;
    let _ = OffloadMessage::decode(bytes, |_| Some(KEY));
    let _ = MessageFragment::decode(bytes, |_| Some(KEY));
    let mut datagram = bytes.to_vec();
    if sealed && datagram.len() >= HEADER_BYTES {
        // The start and the lengths are made correct, because no fuzzer guesses them together with
        // the tag.
        datagram.truncate(HEADER_BYTES);
        datagram[..3].copy_from_slice(&[0x50, 0x4e, 2]);
        let length = scratchpad.len().min(4096) as u16;
        let carries = datagram[3] == 1 && datagram[5] & 8 != 0;
        if matches!(datagram[3], 4 | 5) {
            // A part of an answer or of a request: the first one or the last one, as the header
            // says.
            datagram[4..6].fill(0);
            datagram[7] = 0;
            datagram[56..88].fill(0);
            if datagram[3] == 4 {
                datagram[44..56].fill(0);
            }
            datagram[32..36].copy_from_slice(&(2 * u32::from(length)).to_le_bytes());
            let position = u32::from(length) * u32::from(datagram[40] % 2);
            datagram[40..44].copy_from_slice(&position.to_le_bytes());
        } else {
            datagram[40..43].fill(0);
        }
        datagram[38..40].copy_from_slice(&length.to_le_bytes());
        datagram.extend_from_slice(&scratchpad[..length.into()]);
        if carries {
            datagram.extend_from_slice(&2_u32.to_le_bytes());
            datagram.extend_from_slice(&[1, 2]);
        }
        let tag = KEY.tag(&datagram);
        datagram[88..104].copy_from_slice(&tag);
    }
    if let Ok(fields) = DatagramFields::of(&datagram) {
        let _ = (
            fields.kind(),
            fields.caller(),
            fields.address(),
            fields.hops(),
        );
    }
    if let Ok(message) = OffloadMessage::decode(&datagram, |_| Some(KEY)) {
        assert_eq!(message.encode(&KEY), datagram);
    }
    if let Ok(mut part) = MessageFragment::decode(&datagram, |_| Some(KEY)) {
        assert_eq!(part.encode(&KEY), datagram);
        part.part.push(0);
        assert!(MessageFragment::decode(&part.encode(&KEY), |_| Some(KEY)).is_err());
    }
});
