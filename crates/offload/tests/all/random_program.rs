//! Random programs that the verifier accepts, most of the time.

use crate::differential::{immediate, one_of};
use nearfield_offload::executor::TraversalWorkspace;
use nearfield_offload::isa::{
    AluOperation, BpfCode, BranchCondition, ByteOrder, Instruction, Operand, OperandSize, Register,
    Width,
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

/// Creates an access at a place that is bounded as compilers bound it. `window` has its base, its
/// first byte, and the last place of an access of this size.
fn computed(
    random: &mut impl Rng,
    size: OperandSize,
    window: (Register, i16, i16),
) -> Vec<Instruction> {
    let (base, from, last) = window;
    let width = one_of(random, &Width::ALL);
    // Two numbers that differ.
    let first = random.random_range(0..NUMBERS.len());
    let (number, other) = (NUMBERS[first], NUMBERS[(first + 1) % NUMBERS.len()]);
    let operation = |operation, source: Operand| Instruction::Alu {
        width,
        operation,
        destination: other,
        source,
    };
    let skip = |condition, left, right: i32, distance| Instruction::Branch {
        width: Width::W64,
        condition,
        left,
        right: right.into(),
        distance,
    };
    let offset = random.random_range(from + 8..=last - 8);
    let (place, add) = (
        alu(AluOperation::Move, PLACE, base),
        alu(AluOperation::Add, PLACE, number),
    );
    let access = access(random, size, PLACE, offset);
    let reach = [place, add, access];
    let mut group = match random.random_range(0..6) {
        // The remainder by a constant, without an instruction for it.
        0 => {
            let by: Operand = random.random_range(1..=9_i32).into();
            let rest = Instruction::Alu {
                width,
                operation: AluOperation::Subtract,
                destination: number,
                source: other.into(),
            };
            vec![
                operation(AluOperation::Move, number.into()),
                operation(AluOperation::Divide, by),
                operation(AluOperation::Multiply, by),
                rest,
            ]
        }
        // A number with a sign.
        1 => vec![
            alu(AluOperation::And, number, 15),
            alu(AluOperation::Subtract, number, 8),
        ],
        // A half with a sign, between two comparisons of a sum.
        2 => vec![
            operation(AluOperation::Move, number.into()),
            operation(AluOperation::Add, 8.into()),
            Instruction::Branch {
                width,
                condition: BranchCondition::Greater,
                left: other,
                right: 16.into(),
                distance: 5,
            },
            alu(AluOperation::ShiftLeft, number, 32),
            alu(AluOperation::ShiftRightSigned, number, 32),
        ],
        // A number that was on the stack.
        3 => vec![
            alu(AluOperation::And, other, 7),
            Instruction::Store {
                size,
                base: Register::R10,
                offset: -16,
                source: other.into(),
            },
            Instruction::Load {
                size,
                signed: false,
                destination: number,
                base: Register::R10,
                offset: -16,
            },
        ],
        // A distance of two places, which are compared.
        4 => vec![
            alu(AluOperation::And, number, 7),
            place,
            add,
            Instruction::Branch {
                width: Width::W64,
                condition: one_of(random, &BranchCondition::ALL[..10]),
                left: PLACE,
                right: base.into(),
                distance: 1,
            },
            alu(AluOperation::Xor, other, 1),
            alu(AluOperation::Subtract, PLACE, base),
            alu(AluOperation::Move, number, PLACE),
        ],
        // An address or zero.
        _ => {
            return vec![
                alu(AluOperation::Move, PLACE, 0),
                skip(BranchCondition::SignedLess, number, 0, 1),
                place,
                skip(BranchCondition::Equal, PLACE, 0, 1),
                access,
            ];
        }
    };
    group.extend(reach);
    group
}

/// Creates one or more instructions that belong together.
fn group(random: &mut impl Rng) -> Vec<Instruction> {
    let number = one_of(random, &NUMBERS);
    let width = one_of(random, &Width::ALL);
    let size = one_of(random, &OperandSize::ALL);
    let (base, from, to) = one_of(random, &WINDOWS);
    let last = to - size.bytes() as i16;
    // Rarely the access is one byte outside of a window.
    let is_outside = random.random_range(0..200) == 0;
    match random.random_range(0..24) {
        0..=5 => {
            let offset = match is_outside {
                true => last + 1,
                false => random.random_range(from..=last),
            };
            vec![access(random, size, base, offset)]
        }
        6..=8 => {
            let mask = random.random_range(0..(last - from).min(64));
            let offset = random.random_range(from..=last - mask);
            let index = alu(AluOperation::And, number, i32::from(mask));
            let place = alu(AluOperation::Move, PLACE, base);
            let add = alu(AluOperation::Add, PLACE, number);
            vec![index, place, add, access(random, size, PLACE, offset)]
        }
        9 => vec![Instruction::Negate {
            width,
            destination: number,
        }],
        10 => vec![Instruction::SignExtend {
            width,
            from: one_of(random, &OperandSize::ALL[..2]),
            destination: number,
            source: one_of(random, &NUMBERS),
        }],
        11 => vec![Instruction::Reorder {
            order: one_of(random, &ByteOrder::ALL),
            size: one_of(random, &OperandSize::ALL[1..]),
            destination: number,
        }],
        12..=17 => computed(random, size, (base, from, last)),
        _ => vec![Instruction::Alu {
            width,
            operation: one_of(random, &AluOperation::ALL),
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
                width: one_of(random, &Width::ALL),
                condition: one_of(random, &BranchCondition::ALL),
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

/// Moves the code from an instruction on to the front, so that a jump goes back.
pub fn rotated(code: &BpfCode, at: usize) -> BpfCode {
    let old = code.instructions();
    let order = || (at..old.len()).chain(0..at);
    let mut slots = vec![0; old.len()];
    // Slot 0 has the jump to the old beginning.
    let mut slot = 1;
    for index in order() {
        slots[index] = slot;
        slot += old[index].slots() as i64;
    }
    let jump = |from: i64, to: usize| Instruction::Jump {
        distance: (slots[to] - from - 1) as i16,
    };
    let mut instructions = vec![jump(0, 0)];
    for index in order() {
        let target = code.target(index).unwrap_or_default();
        instructions.push(match (old[index], jump(slots[index], target)) {
            (
                Instruction::Branch {
                    width,
                    condition,
                    left,
                    right,
                    ..
                },
                Instruction::Jump { distance },
            ) => Instruction::Branch {
                width,
                condition,
                left,
                right,
                distance,
            },
            (Instruction::Jump { .. }, jump) => jump,
            (other, _) => other,
        });
    }
    instructions.push(jump(slot, at));
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
