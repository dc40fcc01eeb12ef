//! No datagrams make a memory node or a switch panic. A node replies only to datagrams with a
//! tenant's tag, every reply is a message, and no tenant's program changes another's memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_offload::net::{NodeSettings, OffloadNode, Switch, SwitchRangeTable, TenantKeys};
use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, Tenant, TenantPermission};
use nearfield_offload::traversal::ProgramEngine;
use nearfield_offload::wire::{
    AuthenticationKey, HEADER_BYTES, MessageFragment, OffloadMessage, ProcessAddress,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KEY: AuthenticationKey = AuthenticationKey([7; 32]);
const TENANT: Tenant = Tenant(1);
const START: u64 = 1 << 32;
const PART: usize = 512;

/// A datagram: header, scratchpad and program, and true if it gets a correct start and tag, which
/// no fuzzer guesses.
type Datagram<'d> = (&'d [u8], &'d [u8], &'d [u8], bool);

fn seal((header, scratchpad, body, sealed): Datagram<'_>) -> Vec<u8> {
    let mut datagram = header.to_vec();
    if !sealed {
        return datagram;
    }
    datagram.resize(HEADER_BYTES, 0);
    datagram[..4].copy_from_slice(&[0x50, 0x4e, 2, 1]);
    datagram[4] %= 15;
    datagram[5] %= 16;
    // Only a request of an object names a word of the scratchpad.
    if datagram[5] & 2 == 0 {
        datagram[5] %= 2;
        datagram[7] = 0;
        datagram[43] = 0;
    }
    // The object of a request that carries one has its length before it.
    let carries = datagram[5] & 8 != 0;
    if carries {
        datagram[43] = 0;
    }
    datagram[42] = 0;
    datagram[36..38].copy_from_slice(&TENANT.0.to_le_bytes());
    // The datagram gets an address near the memory, and few iterations.
    datagram[48..56].copy_from_slice(
        &(START + u64::from(header.first().copied().unwrap_or(0)) * 8).to_le_bytes(),
    );
    datagram[66..72].fill(0);
    let (scratchpad, body) = (
        &scratchpad[..scratchpad.len().min(4096)],
        &body[..body.len().min(4104)],
    );
    datagram[38..40].copy_from_slice(&(scratchpad.len() as u16).to_le_bytes());
    datagram[40..42].copy_from_slice(&(body.len() as u16).to_le_bytes());
    datagram.extend_from_slice(scratchpad);
    if carries {
        datagram.extend_from_slice(&12_u32.to_le_bytes());
        datagram.extend_from_slice(&[7; 12]);
    }
    datagram.extend_from_slice(body);
    // The datagram gets the hash of the program, if the program is valid.
    if let Ok(program) = nearfield_offload::program::TraversalProgram::decode(body) {
        datagram[72..88].copy_from_slice(&program.hash().0);
    }
    let tag = KEY.tag(&datagram);
    datagram[88..104].copy_from_slice(&tag);
    datagram
}

fuzz_target!(|input: Vec<Datagram<'_>>| {
    // The second half of the memory belongs to another tenant.
    let words: Vec<AtomicU64> = (0..2 * PART / 8)
        .map(|_| AtomicU64::new(START + 8))
        .collect();
    let part = |number: u64, tenant| NodeRange {
        start: START + number * PART as u64,
        bytes: PART as u64,
        offset: number * PART as u64,
        tenant,
        permission: TenantPermission::Write,
    };
    let ranges = NodeRanges::new(vec![part(0, TENANT), part(1, Tenant(2))]).unwrap();
    let memory = LocalMemory::new(&words, ranges).unwrap();
    let mut keys = TenantKeys::new();
    keys.insert(TENANT, KEY);
    let settings = NodeSettings {
        engine: ProgramEngine::Interpreter,
        iterations_max: 64,
        ..NodeSettings::default()
    };
    let mut node = OffloadNode::new(&memory, keys, settings);
    let mut map = SwitchRangeTable::default();
    map.give(START, 2 * PART as u64, ProcessAddress(9)).unwrap();
    let mut switch = Switch::new(map, Some(KEY));
    for (number, datagram) in input.into_iter().enumerate() {
        let mut datagram = seal(datagram);
        switch.receive(ProcessAddress(number as u64 % 11), &mut datagram);
        let mut out = Vec::new();
        let key = |tenant: Tenant| (tenant == TENANT).then_some(KEY);
        let is_known = OffloadMessage::decode(&datagram, key).is_ok()
            || MessageFragment::decode(&datagram, key).is_ok();
        node.receive(
            Duration::from_secs(number as u64),
            ProcessAddress(3),
            &datagram,
            &mut out,
        );
        while node.has_work() {
            node.turn(&mut out);
        }
        assert!(is_known || out.is_empty());
        for sent in out {
            let is_message = OffloadMessage::decode(&sent.datagram, |_| Some(KEY)).is_ok();
            let is_part = MessageFragment::decode(&sent.datagram, |_| Some(KEY)).is_ok();
            assert!(is_message || is_part);
        }
    }
    let others = words.iter().skip(PART / 8);
    assert!(
        others
            .map(|word| word.load(Ordering::Relaxed))
            .all(|word| word == START + 8)
    );
});
