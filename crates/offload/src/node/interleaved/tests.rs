//! Slots that are used again.

use super::*;
use crate::isa::assemble;
use crate::node::{Range, Ranges};
use crate::program::{Declaration, Program};
use std::sync::atomic::AtomicU64;

/// Slots are used again by other tenants and programs, and remember nothing of the ones before.
#[test]
fn slots_keep_nothing_of_other_tenants_and_programs() {
    let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let of = |start, tenant| Range {
        offset: start - 0x1000,
        ..Range::whole(start, 256, Tenant(tenant))
    };
    let ranges = Ranges::new(vec![of(0x1000, 1), of(0x1100, 2)]);
    let memory = LocalMemory::new(&words, ranges.expect("two ranges")).expect("in memory");
    let engine = |scratchpad, text| {
        let code = assemble(text).expect("code");
        let program = Program::verify(code, Declaration::scratchpad(scratchpad));
        Engine::new(program.expect("a program").into())
    };
    let small = engine(8, "ldxdw r0, [r1]\n exit");
    let large = engine(
        16,
        "ldxdw r0, [r1]\n ldxdw r6, [r2+8]\n stxdw [r2], r6\n exit",
    );
    let mut interleaved = Interleaved::new(&memory, 2);
    let mut run = |engine, tenant, address, scratchpad: &[u8]| {
        let tenant = Tenant(tenant);
        let job = Job {
            engine,
            tenant,
            address,
            scratchpad,
            iterations: 9,
            tag: (),
        };
        assert!(interleaved.admit(job).is_ok());
        let mut ended = None;
        interleaved.turn(|end| ended = Some((end.status, end.scratchpad.to_vec())));
        ended.expect("it ends at once")
    };
    let done = |scratchpad: &[u8]| (Status::Done, scratchpad.to_vec());
    assert_eq!(run(&small, 1, 0x1000, &[1; 8]), done(&[1; 8]));
    assert_eq!(
        run(&small, 2, 0x1000, &[2; 8]),
        (Status::Denied, vec![2; 8])
    );
    assert_eq!(run(&small, 2, 0x1100, &[3; 8]), done(&[3; 8]));
    assert_eq!(
        run(&small, 1, 0x1100, &[4; 8]),
        (Status::Denied, vec![4; 8])
    );
    assert_eq!(run(&large, 1, 0x1000, &[5; 4]), done(&[0; 16]));
    assert_eq!(run(&large, 1, 0x1000, &[6; 16]), done(&[6; 16]));
    assert_eq!(run(&small, 1, 0x1000, &[7; 99]), done(&[7; 8]));
    assert_eq!(run(&small, 1, 0x10fc, &[8; 8]), (Status::Split, vec![8; 8]));
}
