//! A program that the verifier accepts never leaves its windows, executes as many instructions as
//! its longest path at most, depends on nothing that it has not written, and has the same result in
//! the interpreter and in native code. With `NEARFIELD_FUZZ_CANARY` in the environment the node is
//! a byte shorter than the verifier assumes, which must be found.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nearfield_offload::executor::{Interpreter, NativeProgram, TraversalWorkspace};
use nearfield_offload::isa::{
    AluOperation, BpfCode, BranchCondition, ByteOrder, Instruction, Operand, OperandSize, Register,
    Width,
};
use nearfield_offload::program::{Declaration, TraversalProgram};
use std::sync::LazyLock;

static CANARY: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("NEARFIELD_FUZZ_CANARY").is_some());

/// The instructions with which code begins: registers 0 and 6 are numbers, register 7 is an address
/// in the node and register 8 one in the scratchpad.
const PROLOGUE: [u8; 48] = [
    0xb7, 0, 0, 0, 0, 0, 0, 0, // mov r0, 0
    0x79, 0x16, 0, 0, 0, 0, 0, 0, // ldxdw r6, [r1]
    0x57, 6, 0, 0, 63, 0, 0, 0, // and r6, 63
    0xbf, 0x17, 0, 0, 0, 0, 0, 0, // mov r7, r1
    0x0f, 0x67, 0, 0, 0, 0, 0, 0, // add r7, r6
    0xbf, 0x28, 0, 0, 0, 0, 0, 0, // mov r8, r2
];

/// The code of an input.
#[derive(Arbitrary, Debug)]
enum CodeSource {
    /// The bytes of the code.
    Bytes(Vec<u8>),
    /// The bytes behind the prologue.
    Behind(Vec<u8>),
    /// The steps of code that decodes, and in which accesses are often bounded.
    Steps(Vec<[u8; 4]>),
}

fn register(byte: u8) -> Register {
    // Registers 0, 3 and 6 to 8 are numbers at first; register 9 holds addresses.
    let registers = [
        Register::R0,
        Register::R3,
        Register::R6,
        Register::R7,
        Register::R8,
        Register::R9,
        Register::R1,
        Register::R2,
        Register::R10,
    ];
    registers[usize::from(byte) % registers.len()]
}

fn written(byte: u8) -> Register {
    register(byte % 6)
}

fn constant(byte: u8) -> i32 {
    let constants = [
        -64,
        -8,
        -1,
        0,
        1,
        3,
        7,
        8,
        12,
        15,
        31,
        32,
        56,
        63,
        64,
        i32::MAX,
    ];
    constants[usize::from(byte) % constants.len()]
}

fn operand(byte: u8) -> Operand {
    match byte & 1 {
        0 => register(byte / 2).into(),
        _ => constant(byte / 2).into(),
    }
}

fn alu(
    width: Width,
    operation: AluOperation,
    destination: Register,
    source: impl Into<Operand>,
) -> Instruction {
    Instruction::Alu {
        width,
        operation,
        destination,
        source: source.into(),
    }
}

/// Returns the instructions of a step.
fn step([kind, a, b, c]: [u8; 4]) -> Vec<Instruction> {
    let width = if kind & 0x80 == 0 {
        Width::W64
    } else {
        Width::W32
    };
    let (one, other) = (written(a), written(b));
    let size = OperandSize::ALL[usize::from(c) % 4];
    match kind & 0x7f {
        0..=31 => {
            let operation = AluOperation::ALL[usize::from(kind & 0x1f) % AluOperation::ALL.len()];
            vec![alu(width, operation, one, operand(b))]
        }
        // The distance is that of the fuzzer; `composed` makes it fit.
        32..=55 => vec![Instruction::Branch {
            width,
            condition: BranchCondition::ALL[usize::from(kind & 0x7f) % BranchCondition::ALL.len()],
            left: register(a),
            right: operand(b),
            distance: i16::from(c as i8),
        }],
        56..=59 => vec![Instruction::Jump {
            distance: i16::from(c as i8),
        }],
        // An access at a computed place.
        60..=75 => {
            let base = [Register::R1, Register::R2, Register::R10][usize::from(b) % 3];
            let offset = i16::from(constant(c / 4) as i8);
            let access = Instruction::Load {
                size,
                signed: false,
                destination: one,
                base: Register::R9,
                offset,
            };
            vec![
                alu(Width::W64, AluOperation::Move, Register::R9, base),
                alu(Width::W64, AluOperation::Add, Register::R9, one),
                access,
            ]
        }
        // A spill, and a load of it.
        76..=85 => vec![
            Instruction::Store {
                size: OperandSize::ALL[usize::from(b) % 4],
                base: Register::R10,
                offset: -8 - i16::from(c / 4 % 16),
                source: register(a).into(),
            },
            Instruction::Load {
                size,
                signed: size != OperandSize::Double && kind & 1 == 1,
                destination: other,
                base: Register::R10,
                offset: -8 - i16::from(c / 4 % 16),
            },
        ],
        // The remainder by a constant or a register.
        86..=95 => vec![
            alu(width, AluOperation::Move, other, one),
            alu(width, AluOperation::Divide, other, operand(c)),
            alu(width, AluOperation::Multiply, other, operand(c)),
            alu(width, AluOperation::Subtract, one, other),
        ],
        // The sign of a half, by shifts.
        96..=103 => vec![
            alu(Width::W64, AluOperation::Move, one, register(b)),
            alu(Width::W64, AluOperation::ShiftLeft, one, 32_i32),
            alu(
                Width::W64,
                if c & 1 == 0 {
                    AluOperation::ShiftRight
                } else {
                    AluOperation::ShiftRightSigned
                },
                one,
                32_i32,
            ),
        ],
        104..=107 => vec![Instruction::SignExtend {
            width,
            from: OperandSize::ALL[usize::from(c) % 2],
            destination: one,
            source: register(b),
        }],
        108..=111 => vec![Instruction::Reorder {
            order: ByteOrder::ALL[usize::from(b) % 3],
            size: OperandSize::ALL[1 + usize::from(c) % 3],
            destination: one,
        }],
        112..=115 => vec![Instruction::Negate {
            width,
            destination: one,
        }],
        // An access to the scratchpad or the node at a fixed place.
        _ => {
            let base = [Register::R1, Register::R2][usize::from(a) % 2];
            let offset = i16::from(c / 4);
            vec![match kind & 1 {
                0 => Instruction::Store {
                    size,
                    base,
                    offset,
                    source: operand(b),
                },
                _ => Instruction::Load {
                    size,
                    signed: false,
                    destination: other,
                    base,
                    offset,
                },
            }]
        }
    }
}

/// Composes code of steps. Jumps lead anywhere in it, also back.
fn composed(steps: &[[u8; 4]]) -> Option<BpfCode> {
    let mut instructions = Vec::new();
    for register in [
        Register::R0,
        Register::R6,
        Register::R7,
        Register::R8,
        Register::R9,
    ] {
        instructions.push(Instruction::Load {
            size: OperandSize::Double,
            signed: false,
            destination: register,
            base: Register::R2,
            offset: 8 * i16::from(register.number()) % 64,
        });
    }
    for steps in steps.iter().take(60) {
        instructions.extend(step(*steps));
    }
    instructions.push(Instruction::Load {
        size: OperandSize::Double,
        signed: false,
        destination: Register::R0,
        base: Register::R2,
        offset: 0,
    });
    instructions.push(Instruction::Exit);
    let count = instructions.len() as i64;
    for (at, instruction) in instructions.iter_mut().enumerate() {
        if let Instruction::Branch { distance, .. } | Instruction::Jump { distance } = instruction {
            // Each instruction has one slot here.
            let next = at as i64 + 1;
            *distance = ((next + i64::from(*distance)).rem_euclid(count) - next) as i16;
        }
    }
    BpfCode::new(instructions).ok()
}

fuzz_target!(|input: (CodeSource, [u8; 32])| {
    let (source, content) = input;
    let code = match source {
        CodeSource::Bytes(bytes) => {
            let _ = TraversalProgram::decode(&bytes);
            BpfCode::decode(&bytes).ok()
        }
        CodeSource::Behind(bytes) => {
            BpfCode::decode(&[&PROLOGUE[..], bytes.as_slice()].concat()).ok()
        }
        CodeSource::Steps(steps) => composed(&steps),
    };
    let Some(code) = code else {
        return;
    };
    let declaration = Declaration {
        scratchpad: 96,
        regions_at: Some(64),
    };
    let Ok(program) = TraversalProgram::verify(code, declaration) else {
        return;
    };
    assert_eq!(
        TraversalProgram::decode(&program.encode()).as_ref(),
        Ok(&program)
    );
    let mut load = program.node_load();
    let mut workspace = TraversalWorkspace::new(0x1000, content.repeat(3));
    for (to, from) in workspace
        .node_mut(load)
        .iter_mut()
        .zip(content.iter().cycle())
    {
        *to = *from;
    }
    workspace.begin(declaration);
    let (_, instructions) = Interpreter
        .iterate_counting(&program, &mut workspace.clone())
        .expect("a verified program stays in its windows");
    assert!(instructions <= program.longest_path() as u64);
    if *CANARY {
        load.bytes = load.bytes.saturating_sub(1);
    }
    let run = |garbage| {
        let mut workspace = workspace.clone();
        let next = Interpreter
            .iterate_code(program.code(), load, &mut workspace, garbage)
            .expect("a verified program stays in its windows");
        (next, workspace)
    };
    let interpreted = run(0xa5a5_a5a5_a5a5_a5a5);
    assert_eq!(interpreted, run(0x5a5a_5a5a_5a5a_5a5a));
    let native = NativeProgram::translate(program.into()).expect("native code of any program");
    let next = native.iterate(&mut workspace);
    assert_eq!((next, workspace), interpreted);
});
