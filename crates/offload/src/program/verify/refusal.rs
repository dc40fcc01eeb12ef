//! The reasons why the verifier refuses code.

use super::value::DISTANCE_MAX;
use crate::isa::{BranchCondition, Register};
use crate::program::{INSTRUCTIONS_MAX, NODE_BYTES_MAX, ProgramWindow, SCRATCHPAD_BYTES_MAX};

/// The reason why code is not a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The code has too many slots of 8 bytes.
    #[error("{slots} slots of 8 bytes are more than {INSTRUCTIONS_MAX}")]
    TooLong {
        /// Number of slots.
        slots: usize,
    },
    /// The scratchpad is too long.
    #[error("a scratchpad of {bytes} bytes is longer than {SCRATCHPAD_BYTES_MAX}")]
    Scratchpad {
        /// Length of the scratchpad.
        bytes: usize,
    },
    /// The list of free regions is not within the scratchpad, or not at a multiple of 8.
    #[error(
        "the list of free regions at byte {at} is not aligned, or not within a scratchpad of \
         {bytes} bytes"
    )]
    Regions {
        /// Offset of the list.
        at: usize,
        /// The length of the scratchpad.
        bytes: usize,
    },
    /// The node's bytes begin too far from the current address.
    #[error("the node's bytes begin at {start}, which does not fit 16 bits")]
    FarNode {
        /// Place of the first byte.
        start: i64,
    },
    /// An instruction is refused.
    #[error("slot {slot} ({text}): {refusal}")]
    Instruction {
        /// The slot of 8 bytes, counted from 0.
        slot: usize,
        /// The instruction.
        text: String,
        /// The cause.
        refusal: InstructionRefusal,
    },
}

/// The reason why an instruction is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InstructionRefusal {
    /// A jump closes a loop.
    #[error(
        "the jump closes a loop: programs have none, so unroll it (in C by `#pragma unroll` and a \
         constant count)"
    )]
    Loop,
    /// A function is called.
    #[error("programs have no calls")]
    Call,
    /// No path leads here.
    #[error("no path leads here")]
    Unreachable,
    /// A register is read that is not written on all paths, or that holds a number on one and an
    /// address on another.
    #[error("{register} is not written on all paths, or not the same kind on all")]
    Uninitialised {
        /// The register.
        register: Register,
    },
    /// A load reads bytes of the stack that were not stored in this iteration, or that are a part
    /// of an address.
    #[error("byte {offset} of the stack is not written on all paths, or is part of an address")]
    UninitialisedStack {
        /// Place of the byte, counted from register 10.
        offset: i64,
    },
    /// The base of a load or store is a number.
    #[error("{register} is a number, not an address in a window")]
    NotAnAddress {
        /// The base register.
        register: Register,
    },
    /// A load or store may be outside of its window.
    #[error("bytes {start} to {end} are not all within {window}, which has {from} to {to}")]
    OutOfBounds {
        /// The window.
        window: ProgramWindow,
        /// The lowest first byte.
        start: i64,
        /// The end of the highest last byte (exclusive).
        end: i64,
        /// The window's first byte.
        from: i64,
        /// The end of the window (exclusive).
        to: i64,
    },
    /// The accesses to the node up to here are too far apart for one load.
    #[error(
        "with bytes {start} to {end} of the node, one load would have more than {NODE_BYTES_MAX} \
         bytes"
    )]
    NodeTooLong {
        /// The first byte of the load.
        start: i64,
        /// The end of its last byte (exclusive).
        end: i64,
    },
    /// An address is used that may be zero instead.
    #[error("{register} is an address or zero: compare it with zero before")]
    MayBeZero {
        /// The register.
        register: Register,
    },
    /// An operation on an address is not the addition or subtraction of a number of 64 bits, or the
    /// subtraction of an address in the same window.
    #[error("this operation on the address in {register} is not allowed")]
    AddressArithmetic {
        /// The register.
        register: Register,
    },
    /// A number that is added to an address, or subtracted, is not known to be small.
    #[error(
        "the number added to an address is not known to be within {DISTANCE_MAX} of zero; mask or \
         compare it before"
    )]
    Unbounded,
    /// An address is compared with a number other than zero, or with an address elsewhere.
    #[error(
        "{register} is an address, which cannot be compared by {condition:?} with this operand: \
         only with an address in the same window, or by Equal and NotEqual with zero"
    )]
    ComparesAddress {
        /// The register.
        register: Register,
        /// The comparison.
        condition: BranchCondition,
    },
    /// An address is stored outside of the stack, or not as a whole aligned word.
    #[error("{register} is an address, which only a whole aligned word of the stack may hold")]
    StoresAddress {
        /// The register.
        register: Register,
    },
    /// The program ends with an address as its result.
    #[error("the result in r0 is an address within a window, not one of memory")]
    ReturnsAddress,
}
