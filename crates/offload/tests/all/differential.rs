//! Random code has the same result on every executor.

use crate::executors::{interpret, native};
use nearfield_offload::isa::{
    AluOperation, BpfCode, BranchCondition, ByteOrder, Instruction, Operand, OperandSize, Register,
    Width, disassemble,
};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};

const EDGES: [i32; 7] = [0, 1, -1, 31, 64, i32::MIN, i32::MAX];

pub fn one_of<T: Copy>(random: &mut impl Rng, values: &[T]) -> T {
    *values.choose(random).unwrap()
}

pub fn immediate(random: &mut impl Rng) -> i32 {
    if random.random() {
        one_of(random, &EDGES)
    } else {
        random.random()
    }
}

fn operand(random: &mut impl Rng) -> Operand {
    if random.random() {
        one_of(random, &Register::ALL).into()
    } else {
        immediate(random).into()
    }
}

/// Chooses a register to write. Register 1 has the address of memory most of the time, so it is
/// written rarely.
fn written(random: &mut impl Rng) -> Register {
    let rarely = [Register::R1, Register::R2];
    if random.random_range(0..40) == 0 {
        return one_of(random, &rarely);
    }
    one_of(
        random,
        &[
            Register::R0,
            Register::R3,
            Register::R4,
            Register::R5,
            Register::R6,
            Register::R9,
        ],
    )
}

/// Chooses a place in memory or in the stack, or just outside, rarely anywhere.
fn place(random: &mut impl Rng) -> (Register, i16) {
    match random.random_range(0..20) {
        0 => (one_of(random, &Register::ALL), random.random()),
        1 => (Register::R1, random.random_range(-1..34)),
        2 => (Register::R10, random.random_range(-520..2)),
        3..=11 => (Register::R1, random.random_range(0..24)),
        _ => (Register::R10, -random.random_range(8..60)),
    }
}

fn instruction(random: &mut impl Rng, position: i16, count: i16) -> Instruction {
    let distance = match random.random_range(0..8) {
        0 => random.random_range(-position - 1..count - position),
        _ => random.random_range(0..count - position),
    };
    let (base, offset) = place(random);
    let size = one_of(random, &OperandSize::ALL);
    match random.random_range(0..20) {
        0 => Instruction::Jump { distance },
        1 => Instruction::LongJump {
            distance: distance.into(),
        },
        2 => Instruction::Call {
            distance: distance.into(),
        },
        3..=6 => Instruction::Branch {
            width: one_of(random, &Width::ALL),
            condition: one_of(random, &BranchCondition::ALL),
            left: one_of(random, &Register::ALL),
            right: operand(random),
            distance,
        },
        7 | 8 => Instruction::Load {
            size,
            signed: size != OperandSize::Double && random.random(),
            destination: written(random),
            base,
            offset,
        },
        9 | 10 => Instruction::Store {
            size,
            base,
            offset,
            source: operand(random),
        },
        11 => Instruction::Negate {
            width: one_of(random, &Width::ALL),
            destination: written(random),
        },
        12 => Instruction::SignExtend {
            width: one_of(random, &Width::ALL),
            from: one_of(random, &OperandSize::ALL[..2]),
            destination: written(random),
            source: one_of(random, &Register::ALL),
        },
        13 => Instruction::Reorder {
            order: one_of(random, &ByteOrder::ALL),
            size: one_of(random, &OperandSize::ALL[1..]),
            destination: written(random),
        },
        14 => Instruction::Exit,
        _ => Instruction::Alu {
            width: one_of(random, &Width::ALL),
            operation: one_of(random, &AluOperation::ALL),
            destination: written(random),
            source: operand(random),
        },
    }
}

fn code(random: &mut impl Rng) -> BpfCode {
    let count = random.random_range(1..40);
    let mut instructions = Vec::new();
    // Put edge values into registers that the others use.
    for register in [Register::R3, Register::R6] {
        instructions.push(Instruction::LoadImmediate {
            destination: register,
            value: one_of(random, &[0, 1, u64::MAX, 1 << 63, 1 << 31, 0xffff_ffff]),
        });
    }
    for position in 0..count {
        instructions.push(instruction(random, position, count));
    }
    instructions.push(Instruction::Exit);
    // Targets are counted from the instructions after the two constants.
    BpfCode::new(instructions).unwrap()
}

#[test]
fn interpreter_and_native_code_agree() {
    let (mut ended, mut faulted) = (0, 0);
    seeds::each(600, |seed| {
        let mut random = SmallRng::seed_from_u64(seed);
        let code = code(&mut random);
        let memory: [u8; 32] = random.random();
        let expected = interpret(&code, &memory);
        match expected.result {
            Ok(_) => ended += 1,
            Err(_) => faulted += 1,
        }
        assert_eq!(native(&code, &memory), expected, "{}", disassemble(&code));
    });
    // Check that both kinds of ends were tested.
    let tried = ended + faulted;
    assert!(
        tried < 100 || ended > tried / 5 && faulted > tried / 20,
        "{ended} {faulted}"
    );
}
