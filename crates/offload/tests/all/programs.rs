//! Random programs: the verifier accepts only those that stay in their windows, and native code has
//! the same results as the interpreter.

use crate::differential::{first_seed, seeds};
use crate::random_program::{DECLARATION, code, program, workspace};
use nearfield_offload::executor::{ExecutionFault, Interpreter, NativeProgram, TraversalWorkspace};
use nearfield_offload::isa::{BpfCode, Instruction, Operand, disassemble};
use nearfield_offload::program::{NodeLoad, TraversalProgram};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const SEEDS: u64 = 3000;

/// Returns the result of two runs of the interpreter with different garbage, if they do not differ.
fn instrumented(
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

fn native(program: TraversalProgram, workspace: &TraversalWorkspace) -> (u64, TraversalWorkspace) {
    let native = NativeProgram::translate(program.into()).unwrap();
    let mut workspace = workspace.clone();
    let next = native.iterate(&mut workspace);
    (next, workspace)
}

#[test]
fn accepted_programs_stay_in_their_windows_and_agree_on_every_executor() {
    let (first, seeds) = (first_seed(), seeds(SEEDS));
    let mut accepted = 0;
    for seed in first..first + seeds {
        let mut random = SmallRng::seed_from_u64(seed);
        let Some(program) = program(&mut random) else {
            continue;
        };
        accepted += 1;
        let workspace = workspace(&mut random, program.node_load());
        let text = disassemble(program.code());
        let replay = format!("replay with NEARFIELD_FIRST_SEED={seed} NEARFIELD_SEEDS=1:\n{text}");
        let expected = instrumented(program.code(), program.node_load(), &workspace)
            .unwrap_or_else(|reason| panic!("{reason}; {replay}"));
        assert_eq!(native(program, &workspace), expected, "{replay}");
    }
    assert!(
        seeds < 100 || accepted > seeds * 2 / 3,
        "{accepted} of {seeds}"
    );
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
    let (first, seeds) = (first_seed(), seeds(4 * SEEDS));
    let (mut accepted, mut refused) = (0, 0);
    for seed in first..first + seeds {
        let mut random = SmallRng::seed_from_u64(seed);
        let code = code(&mut random);
        let Some(code) = mutated(&mut random, &code) else {
            continue;
        };
        let Ok(program) = TraversalProgram::verify(code, DECLARATION) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        let workspace = workspace(&mut random, program.node_load());
        instrumented(program.code(), program.node_load(), &workspace)
            .unwrap_or_else(|reason| panic!("{reason}; seed {seed}"));
    }
    assert!(
        seeds < 100 || accepted > seeds / 10 && refused > seeds / 20,
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
