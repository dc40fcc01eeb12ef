//! Random programs that the verifier accepts, most of the time.

use crate::differential::{CONDITIONS, OPERATIONS, SIZES, WIDTHS, immediate, one_of};
use nearfield_offload::executor::TraversalWorkspace;
use nearfield_offload::isa::{
    AluOperation, BpfCode, ByteOrder, Instruction, Operand, OperandSize, Register, Width,
};
use nearfield_offload::program::{Declaration, NodeLoad, REGION_BYTES, TraversalProgram};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};

pub const DECLARATION: Declaration = Declaration {
    scratchpad: 96,
    regions_at: Some(64),
};

/// Registers that hold numbers.
const NUMBERS: [Register; 6] = [
    Register::R0,
    Register::R3,
    Register::R5,
    Register::R6,
    Register::R7,
    Register::R8,
];
/// The register of computed addresses.
const PLACE: Register = Register::R9;

/// The windows: base, first byte and end.
const WINDOWS: [(Register, i16, i16); 4] = [
    (Register::R1, -40, 180),
    (Register::R2, 0, 96),
    (Register::R4, 0, REGION_BYTES as i16),
    (Register::R10, -64, 0),
];

fn alu(operation: AluOperation, destination: Register, source: impl Into<Operand>) -> Instruction {
    Instruction::Alu {
        width: Width::W64,
        operation,
        destination,
        source: source.into(),
    }
}

fn operand(random: &mut impl Rng) -> Operand {
    match random.random() {
        true => one_of(random, &NUMBERS).into(),
        false => immediate(random).into(),
    }
}

/// Creates a load or store at a base.
fn access(random: &mut impl Rng, size: OperandSize, base: Register, offset: i16) -> Instruction {
    if random.random() {
        Instruction::Load {
            size,
            signed: size != OperandSize::Double && random.random(),
            destination: one_of(random, &NUMBERS),
            base,
            offset,
        }
    } else {
        Instruction::Store {
            size,
            base,
            offset,
            source: operand(random),
        }
    }
}

/// Creates one or more instructions that belong together.
fn group(random: &mut impl Rng) -> Vec<Instruction> {
    let number = one_of(random, &NUMBERS);
    let width = one_of(random, &WIDTHS);
    let size = one_of(random, &SIZES);
    let (base, from, to) = one_of(random, &WINDOWS);
    let last = to - size.bytes() as i16;
    // Rarely the access is one byte outside of a window.
    let is_outside = random.random_range(0..200) == 0;
    match random.random_range(0..12) {
        0..=2 => {
            let offset = match is_outside {
                true => last + 1,
                false => random.random_range(from..=last),
            };
            vec![access(random, size, base, offset)]
        }
        3 | 4 => {
            let mask = random.random_range(0..(last - from).min(64));
            let offset = random.random_range(from..=last - mask);
            let index = alu(AluOperation::And, number, i32::from(mask));
            let place = alu(AluOperation::Move, PLACE, base);
            let add = alu(AluOperation::Add, PLACE, number);
            vec![index, place, add, access(random, size, PLACE, offset)]
        }
        5 => vec![Instruction::Negate {
            width,
            destination: number,
        }],
        6 => vec![Instruction::SignExtend {
            width,
            from: one_of(random, &SIZES[..2]),
            destination: number,
            source: one_of(random, &NUMBERS),
        }],
        7 => vec![Instruction::Reorder {
            order: one_of(
                random,
                &[ByteOrder::Little, ByteOrder::Big, ByteOrder::Swapped],
            ),
            size: one_of(random, &SIZES[1..]),
            destination: number,
        }],
        _ => vec![Instruction::Alu {
            width,
            operation: one_of(random, &OPERATIONS),
            destination: number,
            source: operand(random),
        }],
    }
}

/// Creates code that writes before it reads, and jumps forward only.
pub fn code(random: &mut SmallRng) -> BpfCode {
    let mut instructions = Vec::new();
    for register in NUMBERS {
        instructions.push(Instruction::LoadImmediate {
            destination: register,
            value: random.random(),
        });
    }
    for offset in (-64..0).step_by(8) {
        instructions.push(Instruction::Store {
            size: OperandSize::Double,
            base: Register::R10,
            offset,
            source: one_of(random, &NUMBERS).into(),
        });
    }
    let mut groups: Vec<Vec<Instruction>> = Vec::new();
    for _ in 0..random.random_range(1..40) {
        groups.push(group(random));
    }
    let count = groups.len();
    for at in 0..count {
        // A branch over some of the following groups.
        if random.random_range(0..4) == 0 {
            let over = random.random_range(1..=count - at);
            let distance = groups[at..at + over]
                .iter()
                .map(|group| group.len() + 1)
                .sum::<usize>();
            instructions.push(Instruction::Branch {
                width: one_of(random, &WIDTHS),
                condition: one_of(random, &CONDITIONS),
                left: one_of(random, &NUMBERS),
                right: operand(random),
                distance: distance as i16 - 1,
            });
        } else {
            // An instruction with the length of a branch.
            instructions.push(alu(
                AluOperation::Xor,
                one_of(random, &NUMBERS),
                operand(random),
            ));
        }
        instructions.append(&mut groups[at].clone());
    }
    instructions.push(Instruction::Exit);
    BpfCode::new(instructions).unwrap()
}

/// Creates a program, or returns `None` if the verifier refuses the code.
pub fn program(random: &mut SmallRng) -> Option<TraversalProgram> {
    TraversalProgram::verify(code(random), DECLARATION).ok()
}

/// Creates random windows for an iteration.
pub fn workspace(random: &mut SmallRng, load: NodeLoad) -> TraversalWorkspace {
    let mut scratchpad = vec![0; DECLARATION.scratchpad.into()];
    random.fill(&mut scratchpad[..]);
    scratchpad[64..72].copy_from_slice(&random.random_range(0..4u64).to_le_bytes());
    let mut workspace = TraversalWorkspace::new(random.random(), scratchpad);
    random.fill(workspace.node_mut(load));
    workspace.begin(DECLARATION);
    workspace
}
