//! Random programs leave the same scratchpad, memory and status on every executor: the interpreter,
//! native code, and the model of the accelerator.

use crate::differential::one_of;
use crate::random_program;
use nearfield_hardware::VirtualTime;
use nearfield_hardware::accelerator::pulse::{PulseAccelerator, PulseDesign, PulseParameters};
use nearfield_hardware::accelerator::{
    HardwareTraversal, MemorySpan, RackNode, TranslationPermission, TranslationRange,
    TranslationRefusal, TranslationTable,
};
use nearfield_offload::isa::{
    AluOperation, BpfCode, BranchCondition, Instruction, Operand, Register, Width, assemble,
    disassemble,
};
use nearfield_offload::modelled::{AcceleratorRunner, OffloadedQuery};
use nearfield_offload::program::{Declaration, TraversalProgram};
use nearfield_offload::traversal::{
    AccessError, InMemory, QueryRunner, TraversalMemory, TraversalOutcome, TraversalQuery,
    TraversalStatus,
};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Distance of the nodes, which hold words that may be pointers to others.
const NODE: u64 = 64;
const NODES: u64 = 64;
const BASE: u64 = 1 << 20;
/// The first of the nodes that may not be written.
const READ_ONLY: u64 = BASE + 40 * NODE;
const END: u64 = BASE + NODES * NODE;
/// The start of the free regions, after a gap.
const REGIONS: u64 = END + 4096;
const REGIONS_END: u64 = REGIONS + 4 * 256;

/// The memory of a node, and the table of its permissions.
#[derive(Clone, Debug)]
struct Few {
    table: TranslationTable,
    bytes: RefCell<Vec<u8>>,
}

impl Few {
    fn new(random: &mut SmallRng) -> Few {
        let range = |start, end, permission| TranslationRange {
            start,
            end,
            permission,
        };
        let table = TranslationTable::new(vec![
            range(BASE, READ_ONLY, TranslationPermission::ReadWrite),
            range(READ_ONLY, END, TranslationPermission::Read),
            range(REGIONS, REGIONS_END, TranslationPermission::ReadWrite),
        ]);
        let mut bytes = Vec::new();
        for _ in 0..NODES * NODE / 8 {
            let pointer = match random.random_range(0..40) {
                0 => 0,
                1 => BASE - NODE,
                2 => READ_ONLY - 16,
                3 => random.random(),
                _ => BASE + random.random_range(0..NODES) * NODE,
            };
            bytes.extend(pointer.to_le_bytes());
        }
        bytes.resize((REGIONS_END - BASE) as usize, 0);
        Few {
            table: table.unwrap(),
            bytes: bytes.into(),
        }
    }

    fn check(&self, address: u64, bytes: usize, writes: bool) -> Result<usize, AccessError> {
        let bytes = bytes as u32;
        let checked = self.table.check(MemorySpan { address, bytes }, writes);
        checked.map_err(|refusal| match refusal {
            TranslationRefusal::Miss => AccessError::Absent,
            TranslationRefusal::Split => AccessError::Split,
            TranslationRefusal::Denied => AccessError::Denied,
        })?;
        Ok((address - BASE) as usize)
    }
}

impl TraversalMemory for Few {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let at = self.check(address, into.len(), false)?;
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
        Ok(())
    }

    fn check_store(&self, address: u64, bytes: usize) -> Result<(), AccessError> {
        self.check(address, bytes, true).map(drop)
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let at = self.check(address, bytes.len(), true)?;
        self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// Creates a program of any instructions that continues at a node chosen by one of its numbers.
fn any(random: &mut SmallRng) -> Option<TraversalProgram> {
    let mut instructions = random_program::code(random).instructions().to_vec();
    instructions.pop();
    let alu = |operation, destination, source: Operand| Instruction::Alu {
        width: Width::W64,
        operation,
        destination,
        source,
    };
    // Sometimes the traversal ends here.
    let number = one_of(random, &[Register::R3, Register::R6, Register::R7]);
    instructions.extend([
        alu(AluOperation::Move, Register::R0, 0.into()),
        Instruction::Branch {
            width: Width::W32,
            condition: one_of(random, &BranchCondition::ALL),
            left: Register::R8,
            right: Register::R5.into(),
            distance: 5,
        },
        alu(AluOperation::And, number, (NODES as i32 - 1).into()),
        alu(AluOperation::Multiply, number, (NODE as i32).into()),
        Instruction::LoadImmediate {
            destination: Register::R0,
            // Half a node away from the first: the nodes at both edges are in no range as a whole.
            value: BASE + NODE / 2,
        },
        alu(AluOperation::Add, Register::R0, number.into()),
        Instruction::Exit,
    ]);
    TraversalProgram::verify(
        BpfCode::new(instructions).ok()?,
        random_program::DECLARATION,
    )
    .ok()
}

/// Creates a program that computes at random, stores sometimes, and continues at one of a node's
/// pointers.
fn walking(random: &mut SmallRng) -> Option<TraversalProgram> {
    let mut text = String::from("ldxdw r6, [r1]\n ldxdw r7, [r2]\n ldxdw r8, [r1+56]\n");
    let registers = ["r6", "r7", "r8"];
    let lines = random.random_range(0..16);
    let stores = random.random();
    for line in 0..lines {
        let mut register = || registers[random.random_range(0..3)];
        let (one, other) = (register(), register());
        let word = 8 * random.random_range(0..8_u64);
        let upper = 32 + word / 2 / 8 * 8;
        text += &match random.random_range(0..12) {
            0 => format!("add {one}, {other}\n"),
            1 => format!("xor {one}, {other}\n"),
            2 => format!("mul {one}, {}\n", random.random_range(-9..9)),
            3 => format!("rsh {one}, {}\n", random.random_range(0..64)),
            4 => format!("ldxdw {one}, [r1+{word}]\n"),
            5 | 6 => format!("ldxdw {one}, [r2+{word}]\n"),
            7 | 8 => format!("stxdw [r2+{word}], {one}\n"),
            9 if stores => format!("stxw [r1+{upper}], {one}\n"),
            10 => format!("jlt {one}, {other}, after{line}\n"),
            // Allocate rarely, because there are few regions.
            _ => match random.random_range(0..4) {
                0 if stores => format!("stxdw [r4+{word}], {one}\n"),
                _ => format!("jsgt {one}, 7, after{line}\n"),
            },
        };
        text += &format!("add r7, 1\n after{line}:\n");
    }
    text += "and r6, 24\n mov r9, r1\n add r9, r6\n ldxdw r0, [r9]\n exit";
    let declaration = Declaration {
        scratchpad: 128,
        regions_at: Some(64),
    };
    TraversalProgram::verify(assemble(&text).unwrap(), declaration).ok()
}

/// The queries of a program, the limit of iterations of each, and the memory.
struct ModelledCase {
    queries: Vec<TraversalQuery>,
    limit: u64,
    memory: Few,
}

/// Creates a case. Returns `None` if the verifier refuses the program.
fn case(seed: u64) -> Option<ModelledCase> {
    let mut random = SmallRng::seed_from_u64(seed);
    let memory = Few::new(&mut random);
    let program = match seed % 2 {
        0 => any(&mut random)?,
        _ => walking(&mut random)?,
    };
    let program = Arc::new(program);
    let mut query = || {
        let start = BASE + random.random_range(0..NODES) * NODE;
        let mut words: Vec<u64> = (0..8).map(|_| random.random()).collect();
        let regions = random.random_range(0..4);
        words.push(regions);
        words.extend((0..regions).map(|region| REGIONS + 256 * region));
        TraversalQuery::new(&program, start, &words)
    };
    let queries = (0..4).map(|_| query()).collect();
    let limit = seed / 2 % 30;
    Some(ModelledCase {
        queries,
        limit,
        memory,
    })
}

/// The result of queries: outcomes, and the bytes of memory.
type Left = (Vec<TraversalOutcome>, Vec<u8>);

fn run(case: &ModelledCase, mut runner: InMemory<Few>) -> Left {
    let run = |query| {
        let Ok(outcome) = runner.run(query, case.limit);
        outcome
    };
    let outcomes = case.queries.iter().map(run).collect();
    (outcomes, runner.memory.bytes.into_inner())
}

fn by_interpreter(case: &ModelledCase) -> Left {
    run(case, InMemory::interpreting(case.memory.clone()))
}

fn by_processor(case: &ModelledCase) -> Left {
    run(case, InMemory::new(case.memory.clone()))
}

fn by_accelerator(case: &ModelledCase) -> Left {
    let (parameters, design) = (PulseParameters::PAPER, PulseDesign::PROTOTYPE);
    let table = case.memory.table.clone();
    let accelerated = AcceleratorRunner::new(case.memory.clone(), parameters, design, table);
    let mut accelerated = accelerated.unwrap();
    let stores = case.queries[0].program.changes_memory();
    let outcomes = match stores {
        true => {
            let each = case.queries.iter();
            each.map(|query| {
                let Ok(outcome) = accelerated.run(query, case.limit);
                outcome
            })
            .collect()
        }
        // Programs that only read are in flight at the same time.
        false => accelerated.run_together(&case.queries, case.limit),
    };
    let bytes = accelerated.memory().bytes.borrow().clone();
    (outcomes, bytes)
}

#[test]
fn all_executors_leave_the_same() {
    const SEEDS: u64 = 2000;
    let (mut cases, mut seen) = (0, BTreeMap::<u8, u64>::new());
    let mut together = 0;
    seeds::each(SEEDS, |seed| {
        let Some(case) = case(seed) else {
            return;
        };
        cases += 1;
        together += u64::from(!case.queries[0].program.changes_memory());
        let expected = by_interpreter(&case);
        let text = || disassemble(case.queries[0].program.code());
        // Native code takes most of the time. A fifth of the seeds has both kinds of programs.
        if seed.is_multiple_of(5) {
            assert_eq!(by_processor(&case), expected, "the processor\n{}", text());
        }
        assert_eq!(by_accelerator(&case), expected, "the model\n{}", text());
        for outcome in expected.0 {
            *seen.entry(outcome.status.code()).or_default() += 1;
        }
    });
    eprintln!("{cases} programs, {together} of them only read");
    // Check that all statuses occur, and both ways of running.
    assert!(cases < 1000 || together > cases / 10, "{together}");
    let all = [
        TraversalStatus::Done,
        TraversalStatus::IterationLimit,
        TraversalStatus::OutOfRegions,
        TraversalStatus::NoSuchAddress,
        TraversalStatus::Denied,
        TraversalStatus::Split,
    ];
    for status in all {
        let count = seen.get(&status.code()).copied().unwrap_or(0);
        assert!(cases < 1000 || count > 10, "{status:?}: {count}");
    }
    assert!(seen.len() <= all.len(), "no executor malfunctions");
}

/// A traversal that may make no iteration has made none when hardware returns it.
#[test]
fn a_limit_of_no_iterations_has_no_effect() {
    // Those of odd numbers read whole nodes, which hardware can fetch.
    let cases = (1..40).step_by(2).filter_map(case);
    for case in cases.map(|case| ModelledCase { limit: 0, ..case }) {
        let (parameters, design) = (PulseParameters::PAPER, PulseDesign::PROTOTYPE);
        let table = case.memory.table.clone();
        let mut accelerator = PulseAccelerator::new(parameters, design, table).unwrap();
        let memory = Rc::new(case.memory.clone());
        let mut departures = Vec::new();
        let mut outcomes = Vec::new();
        let mut now = VirtualTime::ZERO;
        for query in &case.queries {
            let offloaded = OffloadedQuery::new(query, &memory, case.limit);
            accelerator.submit(now, offloaded);
            while accelerator.next_event().is_some() {
                accelerator.step(&mut departures);
            }
            let departure = departures.pop().unwrap();
            now = departure.at;
            outcomes.push(departure.traversal.outcome(departure.end));
        }
        let bytes = memory.bytes.borrow().clone();
        assert_eq!((outcomes, bytes), by_interpreter(&case));
    }
}

/// The model's packets have the length of datagrams, which leave out zeros at the end.
#[test]
fn packets_leave_out_the_zeros_at_the_end_of_a_scratchpad() {
    let code = assemble("mov r0, 0\nexit").unwrap();
    let program = TraversalProgram::verify(code, Declaration::scratchpad(1024)).unwrap();
    let query = TraversalQuery::new(&Arc::new(program), BASE, &[7, 0, 9]);
    let memory = Rc::new((1..40).find_map(case).unwrap().memory);
    let offloaded = OffloadedQuery::new(&query, &memory, 1);
    // The hash of the program, two words, and the low byte of the third.
    assert_eq!(offloaded.request_bytes(), 8 + 17);
    assert_eq!(offloaded.reply_bytes(), 17);
}

/// A canary: the test notices a model that executes another constant.
#[test]
fn a_model_that_computes_something_else_is_found() {
    let mut found = BTreeSet::new();
    for seed in 0..400 {
        let Some(mut case) = case(seed) else {
            continue;
        };
        let expected = by_interpreter(&case);
        let code = case.queries[0].program.code();
        let mut instructions = code.instructions().to_vec();
        for instruction in &mut instructions {
            if let Instruction::Alu {
                operation: AluOperation::Add | AluOperation::Xor,
                source: Operand::Immediate(value),
                ..
            } = instruction
            {
                *value ^= 1;
            }
        }
        let declaration = case.queries[0].program.declaration();
        let code = BpfCode::new(instructions).unwrap();
        let Ok(wrong) = TraversalProgram::verify(code, declaration) else {
            continue;
        };
        let wrong = Arc::new(wrong);
        for query in &mut case.queries {
            query.program = Arc::clone(&wrong);
        }
        if by_accelerator(&case) != expected {
            found.insert(seed % 2);
        }
    }
    assert_eq!(found.len(), 2, "in both kinds of programs");
}

/// A canary: the test notices a model whose table allows accesses that the node denies.
#[test]
fn a_model_that_checks_no_permissions_is_found() {
    let is_found = |seed| {
        let Some(case) = case(seed) else {
            return false;
        };
        let expected = by_interpreter(&case);
        let mut wrong = ModelledCase {
            memory: case.memory.clone(),
            ..case
        };
        let range = |start, end| TranslationRange {
            start,
            end,
            permission: TranslationPermission::ReadWrite,
        };
        let ranges = vec![range(BASE, END), range(REGIONS, REGIONS_END)];
        wrong.memory.table = TranslationTable::new(ranges).unwrap();
        by_accelerator(&wrong) != expected
    };
    assert!((0..400).filter(|&seed| is_found(seed)).count() > 10);
}
