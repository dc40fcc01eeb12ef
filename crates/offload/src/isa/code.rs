//! Lists of instructions whose control flow stays inside.

use super::decode::{self, BpfDecodeError};
use super::encode::encode;
use super::instruction::{Instruction, Register};

/// Instructions that an executor can run: control leaves them by an exit only, and no instruction
/// writes the frame pointer. Backward jumps and calls within the code are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfCode {
    instructions: Vec<Instruction>,
    /// The index of the target of each jump, branch or call; 0 for other instructions.
    targets: Vec<u32>,
    /// The slot where each instruction begins.
    slots: Vec<u32>,
}

/// Largest number of slots of code. It is the limit of the Linux kernel for trusted programs.
const SLOTS_MAX: usize = 1_000_000;
// Targets and slots are kept in 32 bits.
const _: () = assert!(SLOTS_MAX <= u32::MAX as usize);

/// The reason why instructions are not valid code. Slots of 8 bytes count from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// No instructions.
    #[error("there are no instructions")]
    Empty,
    /// Too many instructions.
    #[error("{slots} slots are more than {SLOTS_MAX}")]
    TooLong {
        /// Number of slots.
        slots: usize,
    },
    /// A jump or call leaves the code.
    #[error("slot {slot}: the target {target} is outside of the code")]
    TargetOutside {
        /// The slot of the jump or call.
        slot: usize,
        /// The target slot.
        target: i64,
    },
    /// A jump or call goes into the middle of a constant of 64 bits.
    #[error("slot {slot}: the target {target} is the second half of a constant")]
    TargetInside {
        /// The slot of the jump or call.
        slot: usize,
        /// The target slot.
        target: usize,
    },
    /// Control can reach the end of the code.
    #[error("slot {slot}: the last instruction does not exit or jump")]
    Unterminated {
        /// The slot of the last instruction.
        slot: usize,
    },
    /// An instruction writes register 10.
    #[error("slot {slot}: the frame pointer r10 is written")]
    WritesFramePointer {
        /// The slot of the instruction.
        slot: usize,
    },
}

impl BpfCode {
    /// Checks instructions.
    ///
    /// # Errors
    /// See [`CodeError`].
    pub fn new(instructions: Vec<Instruction>) -> Result<BpfCode, CodeError> {
        let mut slots = Vec::with_capacity(instructions.len());
        // The index of the instruction that begins in each slot.
        let mut indices = Vec::with_capacity(instructions.len());
        for (index, instruction) in instructions.iter().enumerate() {
            slots.push(indices.len() as u32);
            indices.push(Some(index as u32));
            if instruction.slots() == 2 {
                indices.push(None);
            }
            // The check is in the loop, so that a long list does not first fill a longer one.
            if indices.len() > SLOTS_MAX {
                let slots = instructions.iter().map(Instruction::slots).sum();
                return Err(CodeError::TooLong { slots });
            }
        }
        let Some((last, last_slot)) = instructions.last().zip(slots.last()) else {
            return Err(CodeError::Empty);
        };
        // A call and a branch continue, too: executors go on at the index behind them unchecked.
        if last.continues() {
            let slot = *last_slot as usize;
            return Err(CodeError::Unterminated { slot });
        }
        let mut targets = Vec::with_capacity(instructions.len());
        for (instruction, &slot) in instructions.iter().zip(&slots) {
            let slot = slot as usize;
            if instruction.written() == Some(Register::R10) {
                return Err(CodeError::WritesFramePointer { slot });
            }
            // Targets become indices here, so that executors need not count slots at each jump.
            let target = match instruction.distance() {
                Some(distance) => target(slot, distance, &indices)?,
                None => 0,
            };
            targets.push(target);
        }
        // Executors look both lists up by the index of an instruction.
        debug_assert!(targets.len() == instructions.len() && slots.len() == instructions.len());
        Ok(BpfCode {
            instructions,
            targets,
            slots,
        })
    }

    /// Decodes bytes, and checks the instructions.
    ///
    /// ```
    /// use nearfield_offload::isa::{BpfCode, BpfDecodeError, Instruction};
    /// let exit = [0x95, 0, 0, 0, 0, 0, 0, 0];
    /// assert_eq!(BpfCode::decode(&exit)?.instructions(), [Instruction::Exit]);
    /// assert_eq!(BpfCode::decode(&exit[..7]), Err(BpfDecodeError::PartialSlot { bytes: 7 }));
    /// # Ok::<(), BpfDecodeError>(())
    /// ```
    ///
    /// # Errors
    /// See [`BpfDecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<BpfCode, BpfDecodeError> {
        Ok(BpfCode::new(decode::decode(bytes)?)?)
    }

    /// Encodes the instructions. Decoding accepts the bytes, and no other bytes decode to this
    /// code.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * self.instructions.len());
        for instruction in &self.instructions {
            encode(instruction, &mut bytes);
        }
        // Distances of jumps count these slots.
        debug_assert_eq!(bytes.len(), 8 * self.slots());
        bytes
    }

    /// Returns the instructions. Other methods identify an instruction by its index here.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Returns the index of the target of a jump, branch or call; `None` for other instructions.
    pub fn target(&self, index: usize) -> Option<usize> {
        self.instructions.get(index)?.distance()?;
        self.targets.get(index).map(|&target| target as usize)
    }

    /// Returns the number of slots of 8 bytes.
    pub fn slots(&self) -> usize {
        self.instructions.iter().map(Instruction::slots).sum()
    }

    /// Returns the slot of 8 bytes where an instruction begins.
    pub fn slot(&self, index: usize) -> usize {
        self.slots.get(index).map_or(0, |&slot| slot as usize)
    }
}

fn target(slot: usize, distance: i64, indices: &[Option<u32>]) -> Result<u32, CodeError> {
    // Distances count from the next slot, and a call's or long jump's has 32 bits: no sum
    // overflows.
    let target = slot as i64 + 1 + distance;
    let found = usize::try_from(target).ok().and_then(|at| indices.get(at));
    match found {
        None => Err(CodeError::TargetOutside { slot, target }),
        Some(&Some(index)) => Ok(index),
        Some(None) => {
            let target = target as usize;
            Err(CodeError::TargetInside { slot, target })
        }
    }
}
