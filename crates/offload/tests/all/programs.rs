//! Random programs: the verifier accepts only those that stay in their windows, and native code has
//! the same results as the interpreter.

use crate::random_program::{DECLARATION, code, program, rotated, workspace};
use nearfield_offload::executor::{ExecutionFault, Interpreter, NativeProgram, TraversalWorkspace};
use nearfield_offload::isa::{BpfCode, Instruction, Operand, assemble, disassemble};
use nearfield_offload::program::{NodeLoad, TraversalProgram};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const SEEDS: u64 = 3000;

/// Returns the result of two runs of the interpreter with different garbage, if they do not differ.
pub fn instrumented(
    code: &BpfCode,
    load: NodeLoad,
    workspace: &TraversalWorkspace,
) -> Result<(u64, TraversalWorkspace), String> {
    let run = |garbage| {
        let mut workspace = workspace.clone();
        let next = Interpreter.iterate_code(code, load, &mut workspace, garbage);
        next.map(|next| (next, workspace))
    };
    let fault = |fault: ExecutionFault| fault.to_string();
    let first = run(0xa5a5_a5a5_a5a5_a5a5).map_err(fault)?;
    let second = run(0x5a5a_5a5a_5a5a_5a5a).map_err(fault)?;
    if first != second {
        return Err(String::from(
            "the result depends on bytes that were not written",
        ));
    }
    Ok(first)
}

/// Returns the result of native code.
pub fn native(
    program: TraversalProgram,
    workspace: &TraversalWorkspace,
) -> (u64, TraversalWorkspace) {
    let native = NativeProgram::translate(program.into()).unwrap();
    let mut workspace = workspace.clone();
    let next = native.iterate(&mut workspace);
    (next, workspace)
}

/// Checks what the fuzz target `program` checks of a program that the verifier accepts.
fn check_accepted(program: TraversalProgram, workspace: &TraversalWorkspace) {
    let text = disassemble(program.code());
    let decoded = TraversalProgram::decode(&program.encode());
    assert_eq!(decoded.as_ref(), Ok(&program), "{text}");
    let (_, instructions) = Interpreter
        .iterate_counting(&program, &mut workspace.clone())
        .unwrap_or_else(|fault| panic!("{fault}:\n{text}"));
    assert!(instructions <= program.longest_path() as u64, "{text}");
    let expected = instrumented(program.code(), program.node_load(), workspace)
        .unwrap_or_else(|reason| panic!("{reason}:\n{text}"));
    assert_eq!(native(program, workspace), expected, "{text}");
}

#[test]
fn accepted_programs_stay_in_their_windows_and_agree_on_every_executor() {
    let (mut tried, mut accepted) = (0, 0);
    seeds::each(SEEDS / 3, |seed| {
        tried += 1;
        let mut random = SmallRng::seed_from_u64(seed);
        let Some(program) = program(&mut random) else {
            return;
        };
        accepted += 1;
        let workspace = workspace(&mut random, program.node_load());
        check_accepted(program, &workspace);
    });
    assert!(
        tried < 100 || accepted > tried * 2 / 3,
        "{accepted} of {tried}"
    );
}

/// The order of blocks changes neither what the verifier accepts nor what executors do.
#[test]
fn jumps_back_without_loops_change_nothing() {
    let (mut tried, mut accepted) = (0, 0);
    seeds::each(SEEDS / 12, |seed| {
        tried += 1;
        let mut random = SmallRng::seed_from_u64(seed);
        let Some(program) = program(&mut random) else {
            return;
        };
        accepted += 1;
        let at = random.random_range(1..program.code().instructions().len());
        let back = rotated(program.code(), at);
        let text = disassemble(&back);
        let back = TraversalProgram::verify(back, DECLARATION)
            .unwrap_or_else(|error| panic!("{error}; seed {seed}:\n{text}"));
        assert_eq!(back.node_load(), program.node_load());
        // A path passes the first jump, and the last one unless it branches over it.
        let jumps = back.longest_path() - program.longest_path();
        assert!(
            (1..=2).contains(&jumps),
            "{jumps} more, seed {seed}:\n{text}"
        );
        let workspace = workspace(&mut random, program.node_load());
        let expected = instrumented(program.code(), program.node_load(), &workspace);
        let interpreted = instrumented(back.code(), back.node_load(), &workspace);
        assert_eq!(interpreted, expected, "seed {seed}:\n{text}");
        assert_eq!(Ok(native(back, &workspace)), expected, "seed {seed}");
    });
    assert!(tried < 100 || accepted > tried / 2, "{accepted}");
}

/// Places of a stack that is not accessed are addresses all the same, not zero.
#[test]
fn executors_agree_about_an_unused_stack() {
    for text in [
        "mov r0, 0\n jeq r10, 0, end\n mov r0, 7\nend: exit",
        "mov r6, r10\n sub r6, 8\n mov r0, 0\n jge r6, r10, end\n mov r0, 7\nend: exit",
    ] {
        let code = assemble(text).unwrap();
        let program = TraversalProgram::verify(code, DECLARATION).unwrap();
        let workspace = workspace(&mut SmallRng::seed_from_u64(1), program.node_load());
        let expected = instrumented(program.code(), program.node_load(), &workspace).unwrap();
        assert_eq!(expected.0, 7);
        assert_eq!(native(program, &workspace), expected, "{text}");
    }
}

/// Changes one field of one instruction.
fn mutated(random: &mut SmallRng, code: &BpfCode) -> Option<BpfCode> {
    let mut bytes = code.encode();
    let bit = random.random_range(0..8 * bytes.len());
    bytes[bit / 8] ^= 1 << (bit % 8);
    BpfCode::decode(&bytes).ok()
}

#[test]
fn accepted_mutants_stay_in_their_windows() {
    let (mut tried, mut accepted, mut refused) = (0, 0, 0);
    seeds::each(SEEDS * 2 / 3, |seed| {
        tried += 1;
        let mut random = SmallRng::seed_from_u64(seed);
        let code = code(&mut random);
        let Some(code) = mutated(&mut random, &code) else {
            return;
        };
        let Ok(program) = TraversalProgram::verify(code, DECLARATION) else {
            refused += 1;
            return;
        };
        accepted += 1;
        let workspace = workspace(&mut random, program.node_load());
        check_accepted(program, &workspace);
    });
    assert!(
        tried < 100 || accepted > tried / 10 && refused > tried / 20,
        "{accepted} {refused}"
    );
}

/// A canary: a verifier that accepted the code that this one refuses would be noticed.
#[test]
fn the_instrumented_interpreter_finds_what_the_verifier_refuses() {
    let (mut outside, mut unwritten) = (0, 0);
    for seed in 0..SEEDS {
        let mut random = SmallRng::seed_from_u64(seed);
        let code = code(&mut random);
        if TraversalProgram::verify(code.clone(), DECLARATION).is_ok() {
            // Remove the stores that fill the stack, and the constants that fill registers.
            let mut instructions = code.instructions().to_vec();
            instructions.drain(..14);
            let code = BpfCode::new(instructions).unwrap();
            let workspace = workspace(&mut random, LOAD);
            unwritten += u64::from(instrumented(&code, LOAD, &workspace).is_err());
            continue;
        }
        // The code that the verifier refuses here is one byte outside of a window, on some path.
        let workspace = workspace(&mut random, LOAD);
        outside += u64::from(instrumented(&code, LOAD, &workspace).is_err());
    }
    assert!(
        outside > 20 && unwritten > SEEDS / 4,
        "{outside} {unwritten}"
    );
}

/// The node's window of the random programs.
const LOAD: NodeLoad = NodeLoad {
    start: -40,
    bytes: 220,
};

/// A canary: native code of a program in which one constant differs is noticed.
#[test]
fn a_wrong_translation_is_found() {
    let mut found = 0;
    for seed in 0..300 {
        let mut random = SmallRng::seed_from_u64(seed);
        let Some(program) = program(&mut random) else {
            continue;
        };
        let workspace = workspace(&mut random, program.node_load());
        let mut instructions = program.code().instructions().to_vec();
        for instruction in &mut instructions {
            if let Instruction::Store {
                source: Operand::Immediate(value),
                ..
            } = instruction
            {
                *value ^= 1;
            }
        }
        let wrong =
            TraversalProgram::verify(BpfCode::new(instructions).unwrap(), DECLARATION).unwrap();
        let expected = instrumented(program.code(), program.node_load(), &workspace).unwrap();
        found += u64::from(native(wrong, &workspace) != expected);
    }
    assert!(found > 100, "{found}");
}
