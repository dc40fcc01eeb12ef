//! Code built by calls from Rust.

use super::code::{BpfCode, CodeError};
use super::instruction::{
    AluOperation, BranchCondition, ByteOrder, Instruction, Operand, OperandSize, Register, Width,
};

/// A builder of code, instruction by instruction, with labels as the targets of jumps.
///
/// ```
/// use nearfield_offload::executor::{Interpreter, BpfMachine};
/// use nearfield_offload::isa::Register::*;
/// use nearfield_offload::isa::{AluOperation, BpfBuilder, BranchCondition, OperandSize};
///
/// // The length of a zero-terminated string.
/// let mut builder = BpfBuilder::new();
/// let (more, done) = (builder.label(), builder.label());
/// builder.set(R0, 0);
/// builder.place(more);
/// builder.load(OperandSize::Byte, R3, R1, 0);
/// builder.branch(BranchCondition::Equal, R3, 0, done);
/// builder.alu(AluOperation::Add, R0, 1);
/// builder.alu(AluOperation::Add, R1, 1);
/// builder.jump(more);
/// builder.place(done);
/// builder.exit();
/// let code = builder.build()?;
/// let mut memory = *b"four\0";
/// let result = Interpreter.run(&code, &mut BpfMachine::with_memory(&mut memory), 100);
/// assert_eq!(result, Ok(4));
/// # Ok::<(), nearfield_offload::isa::BpfBuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BpfBuilder {
    instructions: Vec<(Instruction, Option<Label>)>,
    slots: usize,
    /// The slot of each label, if it is placed.
    labels: Vec<Option<usize>>,
}

/// A target of jumps in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// The reason why code could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BpfBuildError {
    /// A label is the target of a jump but was not placed.
    #[error("slot {slot}: the label of the jump is not placed")]
    Unplaced {
        /// The slot of the jump.
        slot: usize,
    },
    /// The target of a jump is too far for its field.
    #[error("slot {slot}: the distance {distance} does not fit the jump's field")]
    TooFar {
        /// The slot of the jump.
        slot: usize,
        /// The distance.
        distance: i64,
    },
    /// The instructions do not form valid code.
    #[error(transparent)]
    Code(#[from] CodeError),
}

impl BpfBuilder {
    /// Creates a builder without instructions.
    pub fn new() -> BpfBuilder {
        BpfBuilder::default()
    }

    /// Creates a label, which [`place`](BpfBuilder::place) puts somewhere.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label before the next instruction. If it is placed twice, the last place counts.
    pub fn place(&mut self, label: Label) {
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(self.slots);
        }
    }

    /// Adds any instruction, with the distance that it has.
    pub fn instruction(&mut self, instruction: Instruction) {
        self.add(instruction, None);
    }

    /// Adds `destination = destination operation source`, of 64 bits.
    pub fn alu(
        &mut self,
        operation: AluOperation,
        destination: Register,
        source: impl Into<Operand>,
    ) {
        self.instruction(Instruction::Alu {
            width: Width::W64,
            operation,
            destination,
            source: source.into(),
        });
    }

    /// Adds `destination = source`, of 64 bits.
    pub fn set(&mut self, destination: Register, source: impl Into<Operand>) {
        self.alu(AluOperation::Move, destination, source);
    }

    /// Adds the load of a constant of 64 bits.
    pub fn set_constant(&mut self, destination: Register, value: u64) {
        self.instruction(Instruction::LoadImmediate { destination, value });
    }

    /// Adds an instruction that changes the order of the lower bytes, and clears the others.
    pub fn reorder(&mut self, order: ByteOrder, size: OperandSize, destination: Register) {
        self.instruction(Instruction::Reorder {
            order,
            size,
            destination,
        });
    }

    /// Adds the load of a value without sign.
    pub fn load(&mut self, size: OperandSize, destination: Register, base: Register, offset: i16) {
        self.instruction(Instruction::Load {
            size,
            signed: false,
            destination,
            base,
            offset,
        });
    }

    /// Adds the store of a value.
    pub fn store(
        &mut self,
        size: OperandSize,
        base: Register,
        offset: i16,
        source: impl Into<Operand>,
    ) {
        self.instruction(Instruction::Store {
            size,
            base,
            offset,
            source: source.into(),
        });
    }

    /// Adds a jump to a label if a comparison of 64 bits holds.
    pub fn branch(
        &mut self,
        condition: BranchCondition,
        left: Register,
        right: impl Into<Operand>,
        label: Label,
    ) {
        let branch = Instruction::Branch {
            width: Width::W64,
            condition,
            left,
            right: right.into(),
            distance: 0,
        };
        self.jump_by(branch, label);
    }

    /// Adds a jump to a label.
    pub fn jump(&mut self, label: Label) {
        self.jump_by(Instruction::Jump { distance: 0 }, label);
    }

    /// Adds a jump, branch or call of any kind to a label, whose distance replaces that of the
    /// instruction.
    pub fn jump_by(&mut self, jump: Instruction, label: Label) {
        debug_assert!(jump.distance().is_some(), "{jump:?} has no distance to set");
        self.add(jump, Some(label));
    }

    /// Adds the return from a function, or the end of the program.
    pub fn exit(&mut self) {
        self.instruction(Instruction::Exit);
    }

    /// Builds the code.
    ///
    /// # Errors
    /// See [`BpfBuildError`].
    pub fn build(self) -> Result<BpfCode, BpfBuildError> {
        let mut slot = 0;
        let mut instructions = Vec::with_capacity(self.instructions.len());
        for (mut instruction, label) in self.instructions {
            if let Some(label) = label {
                let place = self.labels.get(label.0).copied().flatten();
                let place = place.ok_or(BpfBuildError::Unplaced { slot })?;
                // A distance counts from the next instruction. Jumps have one slot.
                set_distance(&mut instruction, slot, place as i64 - slot as i64 - 1)?;
            }
            slot += instruction.slots();
            instructions.push(instruction);
        }
        // Labels are placed at slots that were counted while instructions were added.
        debug_assert_eq!(slot, self.slots);
        Ok(BpfCode::new(instructions)?)
    }

    fn add(&mut self, instruction: Instruction, label: Option<Label>) {
        self.slots += instruction.slots();
        self.instructions.push((instruction, label));
    }
}

fn set_distance(
    instruction: &mut Instruction,
    slot: usize,
    distance: i64,
) -> Result<(), BpfBuildError> {
    let too_far = |_| BpfBuildError::TooFar { slot, distance };
    match instruction {
        Instruction::Jump { distance: field }
        | Instruction::Branch {
            distance: field, ..
        } => {
            *field = i16::try_from(distance).map_err(too_far)?;
        }
        Instruction::LongJump { distance: field } | Instruction::Call { distance: field } => {
            *field = i32::try_from(distance).map_err(too_far)?;
        }
        _ => {}
    }
    Ok(())
}
