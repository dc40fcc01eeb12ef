//! Slots that are used again.

use super::*;
use crate::isa::assemble;
use crate::node::{NodeRange, NodeRanges};
use crate::program::{Declaration, TraversalProgram};
use std::sync::atomic::AtomicU64;

/// Slots that other tenants and programs use again keep nothing of the ones before.
#[test]
fn slots_keep_nothing_of_other_tenants_and_programs() {
    let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let of = |start, tenant| NodeRange {
        offset: start - 0x1000,
        ..NodeRange::whole(start, 256, Tenant(tenant))
    };
    let ranges = NodeRanges::new(vec![of(0x1000, 1), of(0x1100, 2)]);
    let memory = LocalMemory::new(&words, ranges.expect("two ranges")).expect("in memory");
    let engine = |scratchpad, text| {
        let code = assemble(text).expect("code");
        let program = TraversalProgram::verify(code, Declaration::scratchpad(scratchpad));
        ProgramEngine::new(program.expect("a program").into())
    };
    let small = engine(8, "ldxdw r0, [r1]\n exit");
    let large = engine(
        16,
        "ldxdw r0, [r1]\n ldxdw r6, [r2+8]\n stxdw [r2], r6\n exit",
    );
    let mut interleaved = InterleavedTraversals::new(&memory, 2);
    let mut run = |engine, tenant, address, scratchpad: &[u8]| {
        let tenant = Tenant(tenant);
        let job = TraversalJob {
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
    let done = |scratchpad: &[u8]| (TraversalStatus::Done, scratchpad.to_vec());
    assert_eq!(run(&small, 1, 0x1000, &[1; 8]), done(&[1; 8]));
    assert_eq!(
        run(&small, 2, 0x1000, &[2; 8]),
        (TraversalStatus::Denied, vec![2; 8])
    );
    assert_eq!(run(&small, 2, 0x1100, &[3; 8]), done(&[3; 8]));
    assert_eq!(
        run(&small, 1, 0x1100, &[4; 8]),
        (TraversalStatus::Denied, vec![4; 8])
    );
    assert_eq!(run(&large, 1, 0x1000, &[5; 4]), done(&[0; 16]));
    assert_eq!(run(&large, 1, 0x1000, &[6; 16]), done(&[6; 16]));
    assert_eq!(run(&small, 1, 0x1000, &[7; 99]), done(&[7; 8]));
    assert_eq!(
        run(&small, 1, 0x10fc, &[8; 8]),
        (TraversalStatus::Split, vec![8; 8])
    );
}

/// Creates a list of nodes, each with the address of the next one and a number.
fn list(count: u64) -> Vec<AtomicU64> {
    let words = (0..count).flat_map(|number| {
        let next = if number + 1 < count {
            0x1000 + 16 * (number + 1)
        } else {
            0
        };
        [next, number]
    });
    words.map(AtomicU64::new).collect()
}

/// A traversal that is alone, and makes several iterations at once, has the same end and the same
/// number of iterations as one that is not.
#[test]
fn one_that_is_alone_comes_to_the_same_end() {
    const COUNT: u64 = 50;
    let words = list(COUNT);
    let bytes = size_of_val(&words[..]) as u64;
    let ranges =
        NodeRanges::new(vec![NodeRange::whole(0x1000, bytes, Tenant(1))]).expect("one range");
    let memory = LocalMemory::new(&words, ranges).expect("in memory");
    let code =
        "ldxdw r0, [r1]\n ldxdw r6, [r1+8]\n ldxdw r7, [r2]\n add r7, r6\n stxdw [r2], r7\n exit";
    let program =
        TraversalProgram::verify(assemble(code).expect("code"), Declaration::scratchpad(8));
    let engine = ProgramEngine::new(program.expect("a program").into());
    let sum = |until: u64| (0..until).sum::<u64>().to_le_bytes().to_vec();
    for limit in [1, 7, COUNT, COUNT + 1, u64::MAX] {
        let made = limit.min(COUNT);
        let status = match limit < COUNT {
            true => TraversalStatus::IterationLimit,
            false => TraversalStatus::Done,
        };
        for (alone, iterations) in [(true, 1), (true, 7), (true, 1000), (false, 1000)] {
            let mut interleaved = InterleavedTraversals::new(&memory, 2);
            for tag in 0..if alone { 1 } else { 2 } {
                let job = TraversalJob {
                    engine: &engine,
                    tenant: Tenant(1),
                    address: 0x1000,
                    scratchpad: &[0; 8],
                    iterations: limit,
                    tag,
                };
                assert!(interleaved.admit(job).is_ok());
            }
            let (mut ended, mut all, mut turns) = (Vec::new(), 0, 0);
            while interleaved.active() > 0 {
                turns += 1;
                let here = interleaved.turn_alone(iterations, |end| {
                    ended.push((end.status, end.iterations, end.scratchpad.to_vec()));
                });
                assert!(here <= if alone { iterations } else { 2 });
                all += here as u64;
            }
            let lanes = ended.len() as u64;
            assert_eq!(lanes, if alone { 1 } else { 2 });
            assert!(
                ended.iter().all(|end| *end == (status, made, sum(made))),
                "{ended:?}"
            );
            assert_eq!(all, lanes * made);
            let each = if alone && cfg!(feature = "native") {
                iterations as u64
            } else {
                1
            };
            assert_eq!(turns, made.div_ceil(each), "{limit} {iterations}");
        }
    }
}

/// A program may look at the region that it could take, also where it runs beside others.
#[test]
fn a_program_that_only_reads_sees_its_region() {
    let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let ranges = NodeRanges::new(vec![NodeRange::whole(0x1000, 512, Tenant(1))]);
    let memory = LocalMemory::new(&words, ranges.expect("one range")).expect("in memory");
    let declaration = Declaration {
        scratchpad: 24,
        regions_at: Some(8),
    };
    let code = assemble("mov r0, 0\n stxdw [r2], r5\n exit").expect("code");
    let program = TraversalProgram::verify(code, declaration).expect("a program");
    let engine = ProgramEngine::new(program.into());
    let mut interleaved = InterleavedTraversals::new(&memory, 2);
    let scratchpad: Vec<u8> = [0u64, 1, 0x1100].map(u64::to_le_bytes).concat();
    let job = TraversalJob {
        engine: &engine,
        tenant: Tenant(1),
        address: 0x1000,
        scratchpad: &scratchpad,
        iterations: 1,
        tag: (),
    };
    assert!(interleaved.admit(job).is_ok());
    let mut ended = Vec::new();
    interleaved.turn(|end| ended.push(end.scratchpad.to_vec()));
    assert_eq!(
        ended,
        [[0x1100u64, 1, 0x1100].map(u64::to_le_bytes).concat()]
    );
}
